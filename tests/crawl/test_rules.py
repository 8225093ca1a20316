"""The logs of robots rules, in whole crawls under virtual time: how long they stay, and what happens without them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from drum import Damaged
from irlcrawl.base.job import ExitCode
from tests.crawl.virtual_crawl import START, Answer, Crawl, Web, star

PAGE, ROBOTS = "http://a.test/", "http://a.test/robots.txt"
HOUR_S = 3600.0


def crawl_of(path: Path, monkeypatch: pytest.MonkeyPatch, pages: int) -> Crawl:
    """Of a host with rules."""
    web = Web(star("a.test", pages))
    web.answers[ROBOTS] = Answer(200, {"content-type": "text/plain"}, b"User-agent: *\nDisallow: /1\n")
    return Crawl(path, web, [PAGE], monkeypatch)


def log_of(crawl: Crawl, written: float) -> Path:
    """Its one log of rules, as if last written at unix seconds `written`."""
    (log,) = crawl.job().state.glob("robots-*.log")
    os.utime(log, (written, written))
    return log


def test_rules_whose_log_is_gone_are_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start deletes logs that are old by its clock: set back later, records pointed to what was gone, and every start
    ended with a traceback."""
    crawl = crawl_of(tmp_path / "job", monkeypatch, 200)
    crawl.config.frontier.urls_per_host_max = 50
    crawl.config.limits.pages = 51  # all that was in a run is asked for, the rest is put off
    assert crawl.run() == ExitCode.SIZE_LIMIT
    log = log_of(crawl, 0.0)
    crawl.config.limits.pages = 0
    assert crawl.run() == ExitCode.DONE
    assert not log.exists()
    pages = set(crawl.web.answers) - {ROBOTS}
    assert [url for _, url in crawl.web.log].count(ROBOTS) == 2
    left_out = {url for url, (_, reason) in crawl.outcomes().items() if reason == "robots"}
    assert left_out == {url for url in pages if url.startswith("http://a.test/1")}
    assert set(crawl.outcomes()) == pages


def test_rules_that_records_point_to_stay_when_robots_fresh_seconds_is_lowered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were deleted after twice as long as that, and were needed for the rest of the day that had been promised."""
    crawl = crawl_of(tmp_path / "job", monkeypatch, 0)
    assert crawl.run() == ExitCode.DONE
    log = log_of(crawl, START)
    crawl.config.robots.fresh_seconds = 60.0
    crawl.clock.advance(HOUR_S)
    assert crawl.run() == ExitCode.DONE
    assert log.exists()


def test_logs_are_as_old_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set forward by three days, a start deleted logs that records still pointed to: fsck called that damage."""
    crawl = crawl_of(tmp_path / "job", monkeypatch, 0)
    assert crawl.run() == ExitCode.DONE
    log = log_of(crawl, START)
    beside = log.with_name("robots-of-mine.log")
    beside.touch()
    crawl.clock.step(72 * HOUR_S)
    assert crawl.run() == ExitCode.DONE
    assert log.exists()
    crawl.clock.advance(72 * HOUR_S)
    assert crawl.run() == ExitCode.DONE
    assert not log.exists() and beside.exists(), "a log of ours that is old, and nothing else"


@pytest.mark.parametrize("in_run", [True, False])
def test_damaged_rules_end_the_crawl_whoever_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_run: bool
) -> None:
    """A worker took damage for rules that are gone, and asked for robots.txt again; a turn did not."""
    crawl = crawl_of(tmp_path / "job", monkeypatch, 200)
    crawl.config.frontier.urls_per_host_max = 50
    crawl.config.limits.pages = 20 if in_run else 51  # URLs are left in a run: a worker reads the rules first
    assert crawl.run() == ExitCode.SIZE_LIMIT
    (log,) = crawl.job().state.glob("robots-*.log")
    log.write_bytes(log.read_bytes()[:-1] + b"?")
    crawl.config.limits.pages = 0
    asked = len(crawl.web.log)
    try:
        assert crawl.run() == ExitCode.DAMAGED
    except Damaged as error:
        assert error.file == str(log)
    assert len(crawl.web.log) == asked
