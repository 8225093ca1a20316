"""A crawl with hours, under virtual time: no request begins outside them, nothing is lost, and the crawl waits for them
across kills."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.config.keys import Site
from irlcrawl.frontier.turn import turn
from tests.crawl.virtual_crawl import START, Crawl, Killed, Web, star

HOUR = 3600.0
HOURS = "02:00-02:02, 03:00-03:02, 04:00-04:02"
OPENS, CLOSES = START // 86_400 * 86_400 + 2 * HOUR, START // 86_400 * 86_400 + 2 * HOUR + 120.0
"""The first of them; the crawl begins at 01:46:40."""


def crawl_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pages: int, hosts: int = 3) -> Crawl:
    web = Web({url: links for n in range(hosts) for url, links in star(f"h{n}.s{n}.test", pages).items()})
    crawl = Crawl(tmp_path / "job", web, [f"http://h{n}.s{n}.test/" for n in range(hosts)], monkeypatch, workers=2)
    crawl.config.limits.wait_hours = 0.1
    return crawl


def outside(web: Web) -> list[str]:
    return [url for at, url in web.log if (at - OPENS) % HOUR >= CLOSES - OPENS]


def test_requests_begin_in_their_hours_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three times: each has room for about 120 requests of a host."""
    crawl = crawl_of(tmp_path, monkeypatch, 250)
    crawl.config.politeness.hours = HOURS
    assert crawl.run() == ExitCode.DONE
    assert outside(crawl.web) == []
    assert len(crawl.outcomes()) == 3 * 251
    assert OPENS + 2 * HOUR < crawl.clock.now() < OPENS + 3 * HOUR


def test_a_kill_outside_the_hours_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = crawl_of(tmp_path, monkeypatch, 150)
    crawl.config.politeness.hours = HOURS

    async def kill_later(crawl: Crawl) -> None:

        await asyncio.sleep(CLOSES + 600 - crawl.clock.now())
        crawl.kill()

    with pytest.raises(Killed):
        crawl.run(kill_later)
    assert crawl.web.log
    assert crawl.run() == ExitCode.DONE
    assert outside(crawl.web) == [] and len(crawl.outcomes()) == 3 * 151


def test_a_site_with_hours_waits_while_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    crawl = crawl_of(tmp_path, monkeypatch, 20)
    crawl.config.site["s0.test"] = Site(hours="02:00-02:02")
    assert crawl.run() == ExitCode.DONE
    asked = {name: [at for at, url in crawl.web.log if name in url] for name in ("s0.test", "s1.test")}
    assert min(asked["s0.test"]) >= OPENS and max(asked["s0.test"]) < CLOSES
    assert max(asked["s1.test"]) < START + 600
    assert len(crawl.outcomes()) == 3 * 21


def test_hours_that_were_lifted_held_urls_that_were_scheduled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were asked for at the hour that had been closed, also after a stop."""
    crawl = crawl_of(tmp_path, monkeypatch, 20)
    crawl.config.politeness.hours = "01:46-01:47, 12:00-12:01"

    async def stop_later(crawl: Crawl) -> None:
        await asyncio.sleep(60)
        assert crawl.loop is not None
        crawl.loop.stop(ExitCode.INTERRUPTED)

    assert crawl.run(stop_later) == ExitCode.INTERRUPTED
    assert 0 < len(crawl.outcomes()) < 3 * 21
    crawl.config.politeness.hours = ""
    stopped = crawl.clock.now()
    assert crawl.run() == ExitCode.DONE
    assert len(crawl.outcomes()) == 3 * 21 and crawl.clock.now() < stopped + 60


def test_other_hours_of_a_site_hold_urls_that_were_scheduled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It opens at 01:55 instead of at 12:00, while the others may be asked all the time; a kill loses nothing of
    that."""
    crawl = crawl_of(tmp_path, monkeypatch, 20)
    crawl.config.site["s0.test"] = Site(hours="12:00-12:02")

    async def kill_later(crawl: Crawl) -> None:
        await asyncio.sleep(60)
        crawl.kill()

    with pytest.raises(Killed):
        crawl.run(kill_later)
    crawl.config.site["s0.test"] = Site(hours="01:55-02:00")
    with pytest.raises(Killed):
        crawl.run(kill_later)
    assert not [url for _, url in crawl.web.log if "s0.test" in url]
    assert crawl.run() == ExitCode.DONE
    asked = [at for at, url in crawl.web.log if "s0.test" in url]
    assert OPENS - 300 <= min(asked) < max(asked) < OPENS and len(crawl.outcomes()) == 3 * 21


def test_a_smaller_gap_reaches_urls_that_were_scheduled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hour that was promised after the last request is kept, and none after it; the rows are taken in pieces."""
    monkeypatch.setattr(turn, "RELEASE_ROWS_MAX", 3)
    crawl = crawl_of(tmp_path, monkeypatch, 20, hosts=1)
    crawl.config.site["s0.test"] = Site(gap_host_seconds=HOUR)

    async def stop_later(crawl: Crawl) -> None:
        await asyncio.sleep(HOUR + 30)
        assert crawl.loop is not None
        crawl.loop.stop(ExitCode.INTERRUPTED)

    assert crawl.run(stop_later) == ExitCode.INTERRUPTED
    promised, done = crawl.web.log[-1][0] + HOUR, len(crawl.web.log)
    crawl.config.site.clear()
    assert crawl.run() == ExitCode.DONE
    later = [at for at, _ in crawl.web.log[done:]]
    assert promised <= min(later) and max(later) < promised + 60
    assert len(crawl.outcomes()) == 21
