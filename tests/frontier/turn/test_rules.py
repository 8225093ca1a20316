"""The logs of robots rules, in whole crawls under virtual time: how long they stay, and what happens without them."""

from __future__ import annotations

import os
from pathlib import Path

from drum import Damaged

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.config.toml import to_toml
from irlcrawl.crawl import loop as loop_module
from irlcrawl.terminal.progress import Bar
from irlcrawl.upkeep.fsck import Fsck
from irlcrawl.worker.fetch import service
from irlcrawl.worker.harvest import rules_log
from tests.crawl.virtual_crawl import START, Answer, Crawl, Killed, Web, star

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


@pytest.mark.parametrize(("delay", "gap_site"), [(0, 0.0), (30, 0.0), (0, 1.0)])
def test_rules_that_are_stale_before_the_host_may_be_asked_again_are_used_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delay: int, gap_site: float
) -> None:
    """Each visit asked for robots.txt and had no time for a page: the crawl never ended. Of a site with a gap, whose
    other hosts wait, visits have less time."""
    crawl = crawl_of(tmp_path / "job", monkeypatch, 20)
    crawl.config.robots.fresh_seconds, crawl.config.politeness.gap_site_seconds = 1.0, gap_site
    crawl.config.politeness.visit_seconds = 5.0 if delay or gap_site else 0.0
    crawl.seeds += ["http://b.a.test/", "http://c.a.test/"]
    for name in ("b", "c"):
        crawl.web.answers[f"http://{name}.a.test/robots.txt"] = Answer(200, {}, b"User-agent: *\nDisallow: /1\n")
    crawl.web.answers[ROBOTS].body += b"Crawl-delay: %d\n" % delay
    crawl.config.politeness.gap_host_seconds = 2.0
    assert crawl.run(hours=1) == ExitCode.DONE
    asked = [url for _, url in crawl.web.log]
    assert asked.count(ROBOTS) < len(asked) / 4


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


@pytest.mark.parametrize("killed", [False, True])
def test_i4_logs_of_rules_stay_bounded_for_weeks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool) -> None:
    """They grew with each refresh, a day at most after the last, and were deleted at a start alone."""
    days, text_bytes = 12, 20_000
    monkeypatch.setattr(rules_log, "ROLL_BYTES", 2 * text_bytes)
    pages = 4 * days
    web = Web({**star("a.test", pages), **star("b.test", pages)})
    crawl = Crawl(tmp_path / "job", web, [PAGE, "http://b.test/"], monkeypatch)
    crawl.config.politeness.gap_host_seconds = 6 * HOUR_S
    crawl.config.frontier.urls_per_host_max = 10
    monkeypatch.setattr(loop_module, "TICK_S", 600.0)  # weeks of seconds take too long
    monkeypatch.setattr(service, "TICK_SECONDS", 600.0)
    rules = b"User-agent: *\nDisallow: /9\n"

    def changing(url: str, now: float) -> Answer | None:
        padding = b"# %d\n" % now + b"x" * text_bytes
        return Answer(200, {"content-type": "text/plain"}, rules + padding) if url.endswith("robots.txt") else None

    def staying(url: str, now: float) -> Answer | None:
        padding = b"#" + b"y" * text_bytes
        return Answer(200, {"content-type": "text/plain"}, rules + padding) if url.endswith("robots.txt") else None

    web.moods = {"a.test": changing, "b.test": staying}
    sizes: list[int] = []

    def look(url: str) -> None:
        logs = [path.stat().st_size for path in crawl.job().state.glob("robots-*.log")]
        sizes.append(sum(logs))
        if killed and len(sizes) == pages:
            crawl.kill()

    crawl.on_request = look
    if killed:
        with pytest.raises(Killed):
            crawl.run(hours=2000)
    assert crawl.run(hours=2000) == ExitCode.DONE
    refreshed = [url for _, url in web.log].count(ROBOTS)
    assert refreshed >= days - 1
    # Of a day a text of a.test; those of the last two days and of the rest of their log; b.test's once in each log.
    assert max(sizes) <= 9 * text_bytes < refreshed * text_bytes
    assert not [reason for _, reason in crawl.outcomes().values() if reason not in ("ok", "robots")]
    assert crawl.web.pages_asked["http://a.test/9"] == 0 < crawl.web.pages_asked["http://a.test/8"]
    with crawl.job() as job:
        job.write_config(to_toml(crawl.config))
        assert not [one for one in Fsck(job, Bar(), now=crawl.clock.now).run() if one.damage]


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
