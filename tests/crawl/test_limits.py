"""limits.pages and limits.pages_per_host: reached exactly, never passed, whatever is out, harvested or dead.
limits.bytes: passed by what is out, and no more. limits.seconds: passed by no more than a stop takes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from irlcrawl.base.exit_codes import ExitCode
from tests.crawl.virtual_crawl import Crawl, Killed, Web, star


@pytest.mark.parametrize("limit", [1, 5, 17, 40, 100])
def test_pages_that_were_folded_before_their_visit_ended_are_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """A harvest may come in the middle of a visit. What it told was taken off the pages still unknown, but not below
    zero, so those pages were counted twice when the visit ended: the crawl leased nothing more and never ended."""
    web = Web({**star("a.test", 100), **star("b.test", 50), **star("c.test", 3)}, fetch_s=0.3)
    crawl = Crawl(tmp_path / "job", web, [f"http://{name}.test/" for name in "abc"], monkeypatch)
    crawl.config.limits.pages = limit
    crawl.config.politeness.gap_host_seconds = 0.1
    assert crawl.run(hours=1) == ExitCode.SIZE_LIMIT
    assert web.pages_asked.total() == len(crawl.outcomes()) == limit


def test_pages_of_a_dead_worker_are_not_taken_for_those_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a dead worker had archived of its visits is folded without an `end`; it was taken off the pages that other
    workers had told of, and the limit was passed by as many."""
    names = [f"h{n}.test" for n in range(12)]
    web = Web({url: links for name in names for url, links in star(name, 30).items()}, fetch_s=0.2)
    crawl = Crawl(tmp_path / "job", web, [f"http://{name}/" for name in names], monkeypatch, workers=3)
    crawl.config.limits.pages = 150
    crawl.config.politeness.gap_host_seconds = 0.1

    async def kill(crawl: Crawl) -> None:
        for seconds in (3.0, 4.0, 5.0):
            await asyncio.sleep(seconds)
            crawl.kill_worker(min(crawl.running))

    assert crawl.run(kill, hours=1) == ExitCode.SIZE_LIMIT
    assert len(crawl.outcomes()) == 150
    lost = web.pages_asked.total() - 150  # in flight when their worker died
    assert 0 <= lost <= 3 * len(names)
    assert set(web.pages_asked.values()) <= {1, 2}


def test_pages_that_a_start_found_in_the_archives_are_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are folded in the first turn; nobody had told of them in this run, so as many more were leased: a crawl that
    was killed passed its limit."""
    names = [f"h{n}.test" for n in range(12)]
    web = Web({url: links for name in names for url, links in star(name, 30).items()}, fetch_s=0.2)
    crawl = Crawl(tmp_path / "job", web, [f"http://{name}/" for name in names], monkeypatch)
    crawl.config.limits.pages = 150
    crawl.config.politeness.gap_host_seconds = 0.1

    async def kill(crawl: Crawl) -> None:
        await asyncio.sleep(6)
        crawl.kill()

    with pytest.raises(Killed):
        crawl.run(kill, hours=1)
    assert 0 < web.pages_asked.total() < 150
    assert crawl.run(hours=1) == ExitCode.SIZE_LIMIT
    assert len(crawl.outcomes()) == 150


def test_bytes_are_counted_before_they_are_harvested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only harvested bytes counted, and a busy worker hands over its harvest every half minute: the limit was passed by
    as much as came in that time."""
    names = [f"h{n}.test" for n in range(4)]
    web = Web({url: links for name in names for url, links in star(name, 400).items()}, fetch_s=0.01)
    crawl = Crawl(tmp_path / "job", web, [f"http://{name}/" for name in names], monkeypatch)
    crawl.config.politeness.gap_host_seconds = 0.1
    crawl.config.fetch.visits_per_worker = 4  # all busy: the frontier has no reason to ask for a harvest
    crawl.config.politeness.visit_seconds = 0.5
    limit = crawl.config.limits.bytes = 60_000
    assert crawl.run(hours=1) == ExitCode.SIZE_LIMIT
    assert crawl.loop is not None
    assert limit <= crawl.loop.state.counters["bytes"] < 1.1 * limit


def test_limits_seconds_waited_for_slow_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """8 s became 38."""
    web = Web(star("a.test", 3), fetch_s=0.01)
    crawl = Crawl(tmp_path / "job", web, ["http://a.test/"], monkeypatch)

    async def slow(crawl: Crawl) -> None:
        await asyncio.sleep(1)
        web.fetch_s = 100.0

    crawl.config.politeness.gap_host_seconds = 2.0
    crawl.config.limits.seconds = 8.0
    began = crawl.clock.now()
    assert crawl.run(slow, hours=1) == ExitCode.TIME_LIMIT
    assert crawl.clock.now() - began < 20
    web.fetch_s, crawl.config.limits.seconds = 0.01, 0.0
    assert crawl.run(hours=1) == ExitCode.DONE
    assert set(crawl.outcomes().values()) == {("fetched", "ok")} and len(crawl.outcomes()) == 4
