"""Whole crawls that visit their pages again: real frontier, real workers, files and archives, a web that changes."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from pathlib import Path

import pytest

from irlcrawl.ask.freshness import freshness, lines
from irlcrawl.ask.why import why
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.reasons import Reason
from irlcrawl.config.keys import Site
from irlcrawl.config.toml import to_toml
from irlcrawl.crawl.status import lines as status_lines
from irlcrawl.crawl.status import read_status
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.terminal.progress import Bar
from irlcrawl.upkeep.fsck import Fsck
from irlcrawl.worker.archive.log_parts import read
from tests.crawl.virtual_crawl import START, Answer, Crawl, Killed, Web

HTML = {"content-type": "text/html"}
SITE = "http://a.test/"


def changing(links: int = 8) -> Web:
    """A start page that never changes, and pages of which the first changes every two minutes, the others never."""
    web = Web({SITE: [f"{SITE}{n}" for n in range(links)]}, fetch_s=0.05)

    def mood(url: str, now: float) -> Answer | None:
        name = url.removeprefix(SITE)
        if not name.isdecimal():
            return None
        version = int((now - START) // 120) if name == "0" else 0
        letters = random.Random(f"{name} {version}").choices("abcdefghijkl", k=300)
        return Answer(200, HTML, f"<p>{''.join(letter * 2 + ' ' for letter in letters)}</p>".encode())

    web.moods["a.test"] = mood
    return web


def crawl_of(path: Path, web: Web, monkeypatch: pytest.MonkeyPatch, pages: int = 120) -> Crawl:
    crawl = Crawl(path / "job", web, [SITE], monkeypatch)
    revisit = crawl.config.revisit
    revisit.enabled, revisit.every_min_seconds, revisit.first_rate_days = True, 30.0, 600 / 86400
    crawl.config.politeness.gap_host_seconds = 0.5
    crawl.config.limits.pages = pages
    return crawl


def findings(crawl: Crawl) -> list[str]:
    job = crawl.job()
    job.config_file.write_text(to_toml(crawl.config))
    return [str(finding) for finding in Fsck(job, Bar(), now=crawl.clock.now).run() if finding.damage]


def visits_in_log(crawl: Crawl) -> Counter[bytes]:
    return Counter(entry.url for entry in read(crawl.files, str(crawl.job().crawl_log)) if entry.outcome == "fetched")


def visits_in_state(crawl: Crawl) -> dict[bytes, int]:
    job = crawl.job()
    job.config_file.write_text(to_toml(crawl.config))
    job.acquire()
    state = CrawlState.open(job, crawl.config, crawl.clock)
    rows = [*state.pages.scan(), *state.runs.waiting()]
    found = {url: n for batch in rows for url, n in zip(batch["url"].tolist(), batch["visits"].tolist(), strict=True)}
    state.close()
    job.release()
    return found


def test_a_crawl_visits_what_changes_until_a_limit_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    web = changing()
    crawl = crawl_of(tmp_path, web, monkeypatch)
    assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT
    asked = web.pages_asked
    assert asked.total() == 120 and len(asked) == 9
    assert asked[f"{SITE}0"] > 1.5 * max(asked[f"{SITE}{n}"] for n in range(1, 8))
    assert findings(crawl) == []
    assert visits_in_log(crawl) == {url.encode(): count for url, count in asked.items()}
    assert visits_in_state(crawl) == visits_in_log(crawl)
    told = why(crawl.job(), f"{SITE}0", crawl.clock.now())
    fresh = freshness(crawl.job(), 5, crawl.clock.now())
    assert 0.3 < fresh["fresh_share"] < 1 and sum(fresh["visits_by_change"].values()) == 120
    assert fresh["hosts"][0]["host"] == "http://a.test"
    visits, shares = zip(*[one.values() for one in fresh["capacity"]], strict=True)
    assert visits == tuple(sorted(visits)) and 0 < shares[0] <= shares[1] <= shares[2] <= 1
    (line,) = (line for line in lines(fresh) if "in the long run" in line)
    assert (
        line.count("visits a day") == 3 and f"{shares[1]:.0%} with {round(visits[1]):,} visits a day (as now)" in line
    )
    assert told["place"] in ("visited", "ready") and told["visits"] == asked[f"{SITE}0"]


def test_the_rate_of_a_crawl_that_visits_pages_again_grew_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages a second over the last minute was all visits there ever were, less the URLs that are done, by 60."""
    crawl = crawl_of(tmp_path, changing(), monkeypatch)
    assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT
    record = read_status(crawl.job())
    rate = record["fetched"] / record["elapsed_s"]
    assert record["pages_per_s_over"]["1 min"] == pytest.approx(rate, rel=0.5)


def test_a_site_is_visited_within_its_own_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = crawl_of(tmp_path, changing(), monkeypatch, 30)
    crawl.config.site["a.test"] = Site(revisit_every_min_seconds=600.0)
    assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT
    visits: dict[bytes, list[int]] = {}
    for entry in read(crawl.files, str(crawl.job().crawl_log)):
        if entry.start_ms is not None:
            visits.setdefault(entry.url, []).append(entry.start_ms)
    gaps = [later - at for times in visits.values() for at, later in itertools.pairwise(times)]
    assert len(gaps) > 15 and min(gaps) >= 599_000  # a page keeps the second of its visit


@pytest.mark.parametrize("every", [7, 11])
def test_kills_lose_no_visit_and_count_none_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int) -> None:
    web = changing()
    crawl = crawl_of(tmp_path, web, monkeypatch, pages=9 * every)
    asked = kills = 0

    def on_request(url: str) -> None:
        nonlocal asked, kills
        asked += 1
        if asked % every == 0 and kills < 8:
            kills += 1
            crawl.kill()

    crawl.on_request = on_request
    for _ in range(20):
        try:
            assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT
            break
        except Killed:
            assert findings(crawl) == []
    assert kills == 8
    assert findings(crawl) == []
    assert visits_in_state(crawl) == visits_in_log(crawl)
    assert visits_in_log(crawl).total() == 9 * every


def test_a_crawl_goes_on_with_visits_switched_off_and_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Off, it ends: pages that rest are waited for by nobody, and stay where they are."""
    web = changing()
    crawl = crawl_of(tmp_path, web, monkeypatch, 40)
    assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT
    crawl.config.revisit.enabled, crawl.config.limits.pages = False, 0
    assert crawl.run(hours=24) == ExitCode.DONE
    before = visits_in_log(crawl)
    assert findings(crawl) == []
    record = read_status(crawl.job())
    assert record["pages"] == 9 and record["pages_due"] is None
    crawl.config.revisit.enabled, crawl.config.limits.pages = True, before.total() + 30
    assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT
    assert visits_in_log(crawl).total() == before.total() + 30
    assert visits_in_state(crawl) == visits_in_log(crawl)
    assert findings(crawl) == []


def test_a_host_that_is_away_for_a_while_loses_no_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    web = changing()
    crawl = crawl_of(tmp_path, web, monkeypatch, 30)
    crawl.tick_every(20.0, 20.0)
    before = web.moods["a.test"]

    async def away(crawl: Crawl) -> None:
        await asyncio.sleep(200)
        web.moods["a.test"] = lambda url, now: Answer(503)
        await asyncio.sleep(1000)
        web.moods["a.test"] = before

    assert crawl.run(away, hours=48) == ExitCode.SIZE_LIMIT
    assert len(visits_in_state(crawl)) == 9
    assert findings(crawl) == []


def test_visits_without_a_response_were_in_no_figure_of_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    web = changing()
    usual, asked = web.moods["a.test"], Counter[str]()

    def lost_later(url: str, now: float) -> Answer:
        asked[url] += 1
        return Answer(reason=Reason.LOST) if url.endswith("/3") and asked[url] > 1 else usual(url, now)

    web.moods["a.test"] = lost_later
    crawl = crawl_of(tmp_path, web, monkeypatch, 60)
    crawl.config.politeness.retries_max = 1
    crawl.config.politeness.retry_delay_seconds = 1.0
    assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT
    crawl.job().config_file.write_text(to_toml(crawl.config))
    told = read_status(crawl.job())
    assert told["fetch_failures"] == asked[f"{SITE}3"] - 1 > 1 and told["visits_failed"]
    assert any("failed or refused" in line for line in status_lines(told))


@pytest.mark.parametrize("pages", [20, 26, 32])
def test_pages_whose_owner_opts_out_are_visited_no_more_and_the_log_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pages: int
) -> None:
    """They rested again, at each visit that did not come about, and no line told why. A page that waited in a run had
    two lines, by the worker and by the frontier."""
    crawl = crawl_of(tmp_path, changing(), monkeypatch, pages)
    crawl.config.scope.opt_out_file = str(tmp_path / "opt-out.txt")
    (tmp_path / "opt-out.txt").write_text("")
    assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT
    before = visits_in_log(crawl)
    (tmp_path / "opt-out.txt").write_text("match /[0-3]$ 2026-11-23 enough\n")
    crawl.config.limits.pages = pages + 20
    assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT
    left = {f"{SITE}{page}".encode() for page in range(4)}
    lines = [entry for entry in read(crawl.files, str(crawl.job().crawl_log)) if entry.outcome == "excluded"]
    # A worker tells of the visit that it was to make, the frontier of the last one.
    told = {(e.url, e.reason, int(e.notes["visit"]) - (e.stream is not None)) for e in lines}
    assert told == {(url, "opted_out", before[url]) for url in left}
    assert len(lines) == 4 and visits_in_state(crawl).keys() == before.keys() - left
    assert findings(crawl) == []
