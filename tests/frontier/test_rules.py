"""The logs of robots rules, in whole crawls under virtual time: how long they stay, and what happens without them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from irlcrawl.job import ExitCode
from tests.frontier.virtual_crawl import START, Answer, Crawl, Web, star

PAGE, ROBOTS = "http://a.test/", "http://a.test/robots.txt"
HOUR_S = 3600.0


def test_rules_whose_log_is_gone_are_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start deletes logs that are old by its clock: set back later, records pointed to what was gone, and every start
    ended with a traceback."""
    web = Web(star("a.test", 200))
    web.answers[ROBOTS] = Answer(200, {"content-type": "text/plain"}, b"User-agent: *\nDisallow: /1\n")
    crawl = Crawl(tmp_path / "job", web, [PAGE], monkeypatch)
    crawl.config.frontier.urls_per_host_max = 50
    crawl.config.limits.pages = 51  # all that was in a run is asked for, the rest is put off
    assert crawl.run() == ExitCode.SIZE_LIMIT
    (log,) = (tmp_path / "job" / "state").glob("robots-*.log")
    os.utime(log, (0, 0))
    crawl.config.limits.pages = 0
    assert crawl.run() == ExitCode.DONE
    assert not log.exists()
    assert [url for _, url in web.log].count(ROBOTS) == 2
    left_out = {url for url, (_, reason) in crawl.outcomes().items() if reason == "robots"}
    assert left_out == {url for url in web.answers if url.startswith("http://a.test/1")}
    assert set(crawl.outcomes()) == set(web.answers) - {ROBOTS}


def test_rules_that_records_point_to_stay_when_robots_fresh_seconds_is_lowered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were deleted after twice as long as that, and were needed for the rest of the day that had been promised."""
    web = Web(star("a.test", 0))
    web.answers[ROBOTS] = Answer(200, {"content-type": "text/plain"}, b"User-agent: *\nDisallow: /1\n")
    crawl = Crawl(tmp_path / "job", web, [PAGE], monkeypatch)
    assert crawl.run() == ExitCode.DONE
    (log,) = (tmp_path / "job" / "state").glob("robots-*.log")
    os.utime(log, (START, START))
    crawl.config.robots.fresh_seconds = 60.0
    crawl.clock.advance(HOUR_S)
    assert crawl.run() == ExitCode.DONE
    assert log.exists()
