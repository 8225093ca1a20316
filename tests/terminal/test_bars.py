"""What takes long says how far it is: all stages of a bar are filled, and short work shows none."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import zstandard

from irlcrawl.ask import report, shown_log
from irlcrawl.config.toml import to_toml
from irlcrawl.crawl import returns, seeds
from irlcrawl.crawl.seeds import read_seeds
from irlcrawl.export import hosts
from irlcrawl.frontier.state import formats
from irlcrawl.terminal.progress import Bar, Told
from irlcrawl.terminal.words import size
from irlcrawl.upkeep import snapshot
from tests.crawl.virtual_crawl import Crawl, Web, star


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
