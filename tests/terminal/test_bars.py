"""What takes long says how far it is: all stages of a bar are filled, and short work shows none."""

from __future__ import annotations

import gzip
from pathlib import Path

from drum.sectors import Sectors

import pytest
import zstandard

from irlcrawl.ask import freshness, politeness_audit, report, why
from irlcrawl.base.reasons import Reason
from irlcrawl.config.toml import to_toml
from irlcrawl.crawl import returns, seeds
from irlcrawl.crawl.seeding import named_again
from irlcrawl.crawl.seeds import read_seeds
from irlcrawl.export import hosts
from irlcrawl.frontier.state import formats
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.terminal.progress import Bar, Told
from irlcrawl.terminal.words import size
from irlcrawl.upkeep import snapshot
from irlcrawl.worker.archive import shown_log
from irlcrawl.worker.archive.payloads import build
from tests.crawl.virtual_crawl import Crawl, Killed, Web, star


class Recorded(Bar):
    def __init__(self) -> None:
        super().__init__()
        self.stages: list[list[object]] = []

    def stage(self, name: str, total: int, told: Told = size) -> None:
        self.stages.append([name, total, 0])

    def read(self, count: int) -> None:
        assert count >= 0
        if self.stages:
            self.stages[-1][2] += count  # type: ignore[operator]

    def full(self) -> bool:
        return all(done == total for _, total, done in self.stages)


@pytest.mark.parametrize("pack", [lambda data: data, gzip.compress, zstandard.compress])
def test_a_hundred_thousand_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: object) -> None:
    """Of which a tenth are read here, as if the file were large."""
    file, bar = tmp_path / "seeds.txt", Recorded()
    text = "".join(f"http://site-{number}.example/{number * 7919 % 1000}\n" for number in range(10_500))
    file.write_bytes(pack(text.encode()))  # type: ignore[operator]
    monkeypatch.setattr(seeds, "SHOWN_FROM_BYTES", 1000)
    monkeypatch.setattr(seeds, "LINES_BETWEEN", 1000)
    assert len(read_seeds([str(file)], bar=bar)) == 10_500
    assert bar.full() and [(name, total) for name, total, _ in bar.stages] == [("seeds.txt", file.stat().st_size)]
    monkeypatch.undo()
    small = Recorded()
    read_seeds([str(file)], bar=small)
    assert not small.stages, "it is read in a moment"


def test_a_snapshot_and_a_table_of_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = Crawl(tmp_path / "job", Web(star("a.test", 30)), ["http://a.test/"], monkeypatch)
    crawl.run()
    monkeypatch.setattr(snapshot, "COPY_BYTES", 1000)
    bar = Recorded()
    job = crawl.job()
    job.write_config("")
    snapshot.take(job, "kept", bar=bar)
    assert bar.full() and "crawl.log" in [stage[0] for stage in bar.stages]
    monkeypatch.setattr(hosts, "URLS_BETWEEN", 1)
    table = Recorded()
    assert len(list(hosts.rows(job, str(tmp_path), table))) == 1
    assert table.stages == [["hosts", 31, 31]]


def test_questions_that_read_all_of_a_long_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = Crawl(tmp_path / "job", Web(star("a.test", 30)), ["http://a.test/"], monkeypatch)
    crawl.run()
    job, bar = crawl.job(), Recorded()
    job.write_config(to_toml(crawl.config))
    size = job.crawl_log.stat().st_size
    expected = report.report(job)
    monkeypatch.setattr(shown_log, "SHOWN_FROM_BYTES", 1000)
    assert report.report(job, bar_of=lambda: bar) == expected and expected["totals"]["spent"] == 31
    assert bar.full() and bar.stages == [["crawl log", size, size]]
    twice = Recorded()
    selection = returns.Selection(reasons=("http_error",))
    with shown_log.shown_reads(job, lambda: twice, times=2) as files:
        list(returns.Drawing(job, formats.look(job.state), files, selection).entries())
    assert twice.full() and twice.stages == [["crawl log", 2 * size, 2 * size]]


def test_questions_that_look_at_all_that_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were silent, over gigabytes of waiting URLs, and over the index of the log that the first of them makes."""
    crawl = Crawl(tmp_path / "job", Web(star("a.test", 30)), ["http://a.test/"], monkeypatch)
    crawl.on_request = lambda url: crawl.kill() if url == "http://a.test/9" else None
    with pytest.raises(Killed):
        crawl.run()
    job = crawl.job()
    with job:
        job.write_config(to_toml(crawl.config))
    now = crawl.clock.now()
    expected = {url: why.why(job, url, now) for url in ("http://a.test/20", "a.test")}
    assert expected["a.test"]["waiting"]
    monkeypatch.setattr(shown_log, "SHOWN_FROM_BYTES", 1)
    for url, answer in expected.items():
        bar = Recorded()
        assert why.why(job, url, now, lambda bar=bar: bar) == answer
        ((name, total, done),) = bar.stages
        assert name == "waiting URLs" and total and done
    asked: list[Recorded] = []
    bars = lambda: asked.append(Recorded()) or asked[-1]  # noqa: E731
    assert report.report(job, bar_of=bars) == report.report(job)
    politeness_audit.audit(job, 3, bars)
    freshness.freshness(job, 3, now, bars)
    assert [bar.stages[0][0] for bar in asked] == ["crawl log", "waiting URLs", "crawl log", "waiting URLs"]
    assert asked[0].full() and asked[2].full() and all(bar.stages[0][2] for bar in asked)


def test_seeds_that_are_named_again_and_payloads_of_earlier_crawls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = Crawl(tmp_path / "job", Web(star("a.test", 30)), ["http://a.test/", "http://b.test/"], monkeypatch)
    crawl.names.answers["b.test"] = Reason.DNS
    crawl.run()
    job, size = crawl.job(), crawl.job().crawl_log.stat().st_size
    monkeypatch.setattr(shown_log, "SHOWN_FROM_BYTES", 1)
    with job:
        state = CrawlState.open(job, crawl.config, crawl.clock)
        bar = Recorded()
        assert [rows.rows for rows in named_again(state, [b"http://b.test/"], lambda: bar)] == [1]
        assert bar.full() and bar.stages == [["crawl log", 2 * size, 2 * size]]
        other = tmp_path / "other.cdxj"
        other.write_text(f'test,a)/ 20260101000000 {{"url": "http://a.test/", "digest": "sha1:{"A" * 32}"}}\n')
        bars: list[Recorded] = []
        known = build(Sectors(), job, [str(other)], 1, lambda: bars.append(Recorded()) or bars[-1])  # type: ignore[func-returns-value]
        state.close()
    assert known >= 1 and [bar.stages[0][0] for bar in bars] == ["crawl log", "other.cdxj"]
    assert all(bar.full() for bar in bars)
