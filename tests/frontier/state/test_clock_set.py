"""The system's clock is set between two runs of a crawl, in whole crawls under virtual time: what was put off waits on
as if nothing had happened (I3)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.reasons import Reason
from irlcrawl.base.rows import Robots
from irlcrawl.frontier.state import crawl_state, lease_log
from irlcrawl.frontier.state.hosts import HostRecord, records_of, redated, state_batch
from tests.crawl.virtual_crawl import START, Answer, Crawl, Killed, Web, star

HOUR_S, YEAR_S = 3600.0, 365 * 86_400.0
PAUSE_S, SLACK_S = 600.0, 15.0
PAGE, ROBOTS = "http://a.test/", "http://a.test/robots.txt"


def stopped_with_all_put_off(path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> tuple[Crawl, float]:
    """A crawl that was stopped after the first answer to `url`, a 503; and for how long that put its page off."""
    web = Web(star("a.test", 0))
    web.moods["a.test"] = lambda asked, now: (
        Answer(503) if asked == url and len([at for at, known in web.log if known == url]) == 1 else None
    )
    crawl = Crawl(path, web, [PAGE], monkeypatch)
    politeness = crawl.config.politeness
    politeness.retry_delay_seconds = politeness.rest_seconds = politeness.rest_max_seconds = 2 * HOUR_S

    async def stop(crawl: Crawl) -> None:
        await asyncio.sleep(60.0)
        assert crawl.loop is not None and crawl.loop.state.rests.rows == 1
        crawl.loop.stop(ExitCode.INTERRUPTED)

    assert crawl.run(stop) == ExitCode.INTERRUPTED
    return crawl, 2 * HOUR_S - (crawl.clock.now() - START)


@pytest.mark.parametrize("step", [HOUR_S, -HOUR_S, 20 * YEAR_S, -20 * YEAR_S])
@pytest.mark.parametrize("url", [PAGE, ROBOTS])
def test_what_was_put_off_is_due_when_it_would_have_been(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, step: float
) -> None:
    """Set back by an hour, a crawl whose URLs were all put off waited for an hour more; by years, for years."""
    crawl, left_s = stopped_with_all_put_off(tmp_path / "job", monkeypatch, url)
    crawl.clock.advance(PAUSE_S)
    crawl.clock.step(step)
    again, before = crawl.clock.now(), len(crawl.web.log)
    assert crawl.run() == ExitCode.DONE
    assert crawl.outcomes() == {PAGE: ("fetched", "ok")}
    waited = crawl.web.log[before][0] - again
    assert left_s - PAUSE_S - 1 <= waited <= left_s - PAUSE_S + SLACK_S


@pytest.mark.parametrize("boot", ["1" * 36, ""])
def test_a_machine_that_starts_with_its_clock_set_back_keeps_nothing_waiting_for_years(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boot: str
) -> None:
    """Nobody can tell how long it was off; what the clock is behind the last turn it was set back at least."""
    crawl, left_s = stopped_with_all_put_off(tmp_path / "job", monkeypatch, PAGE)
    crawl.clock.step(-20 * YEAR_S)
    for module in (lease_log, crawl_state):
        monkeypatch.setattr(module, "boot_id", lambda files: boot)
    again = crawl.clock.now()
    assert crawl.run() == ExitCode.DONE
    assert left_s - SLACK_S <= crawl.web.log[-1][0] - again <= left_s + SLACK_S


def test_dates_of_records_are_moved_and_none_stays_none() -> None:
    one = HostRecord(robots=Robots.RULES, robots_until=START, failures=2, failed_since=START + 0.3)
    one.set_address("10.0.0.1", START + 7.1)
    one.rests_until = START + 5.2
    one.dead, one.dead_until, one.rules_offset = Reason.HOST_DEAD, START + 2.0, 77
    rows = state_batch([(1, one), (2, HostRecord())])
    there = redated(rows, HOUR_S)
    told, none = records_of(there)
    assert none == HostRecord() and there["key"].tolist() == [1, 2]
    assert (told.robots_until, told.failed_since, told.answered_at) == (START + HOUR_S, START + 0.3 + HOUR_S, 0.0)
    assert told.rests_until == START + 5.2 + HOUR_S
    assert (told.address_until, told.dead_until) == (START + 7.1 + HOUR_S, START + 2.0 + HOUR_S)
    assert records_of(redated(there, -HOUR_S)) == records_of(rows) == [one, HostRecord()]


@pytest.mark.parametrize("step", [0.0, HOUR_S, -HOUR_S, 20 * YEAR_S, -20 * YEAR_S])
@pytest.mark.parametrize("patience_s", [None, 1800.0])
def test_what_only_the_archive_knows_is_as_old_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience_s: float | None, step: float
) -> None:
    """Killed before the harvest of a page, or of a 503 with Retry-After, which are then read again: set back by an hour
    meanwhile, their host was closed for that hour."""
    web = Web(star("a.test", 9))
    crawl = Crawl(tmp_path / "job", web, [PAGE], monkeypatch)
    crawl.config.politeness.gap_host_seconds = gap_s = 20.0
    if patience_s is not None:
        busy = Answer(503, {"retry-after": f"{patience_s:.0f}"})
        web.moods["a.test"] = lambda url, now: busy if len(web.log) == 4 else None
    crawl.on_kept = lambda unit: crawl.kill() if len(web.log) == 4 else None
    with pytest.raises(Killed):
        crawl.run()
    crawl.clock.advance(5.0)
    crawl.clock.step(step)
    last, before = web.log[-1][0] + step, len(web.log)
    crawl.on_kept = lambda unit: None
    assert crawl.run() == ExitCode.DONE
    assert set(crawl.outcomes().values()) == {("fetched", "ok")} and len(crawl.outcomes()) == 10
    waited = web.log[before][0] - last
    assert (patience_s or gap_s) <= waited <= (patience_s or gap_s) + SLACK_S


@pytest.mark.parametrize("steps", [(HOUR_S, -20 * YEAR_S), (-HOUR_S, HOUR_S), (20 * YEAR_S, HOUR_S), (HOUR_S, 0.0)])
def test_a_promise_outlives_a_clock_that_is_set_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: tuple[float, float]
) -> None:
    """Between the second and the third run only the last step was known: a host was asked though it had said when."""
    web = Web(star("a.test", 3) | star("b.test", 40))
    busy = Answer(503, {"retry-after": "1800"})
    web.moods["a.test"] = lambda url, now: busy if url == PAGE and web.pages_asked[PAGE] == 1 else None
    crawl = Crawl(tmp_path / "job", web, [PAGE, "http://b.test/"], monkeypatch)
    crawl.config.politeness.gap_host_seconds = 10.0

    async def stop(crawl: Crawl) -> None:
        await asyncio.sleep(100.0)
        assert crawl.loop is not None
        crawl.loop.stop(ExitCode.INTERRUPTED)

    for step in steps:
        assert crawl.run(stop) == ExitCode.INTERRUPTED
        crawl.clock.step(step)
    assert crawl.run() == ExitCode.DONE
    first, second = (at for at, url in web.log if url == PAGE)
    assert 1800.0 <= second - first - sum(steps) <= 1800.0 + 2 * SLACK_S


def test_a_start_that_never_became_a_run_dates_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine starts years ahead, a crawl is opened and ends at once, the clock is put right: what was put off
    seemed to be due since years."""
    crawl, left_s = stopped_with_all_put_off(tmp_path / "job", monkeypatch, PAGE)
    for module in (lease_log, crawl_state):
        monkeypatch.setattr(module, "boot_id", lambda files: "1" * 36)
    crawl.clock.step(20 * YEAR_S)
    crawl_state.CrawlState.open(crawl.job(), crawl.config, crawl.clock, crawl.files).close()
    crawl.clock.step(-20 * YEAR_S)
    again = crawl.clock.now()
    assert crawl.run() == ExitCode.DONE
    assert left_s - 1 <= crawl.web.log[-1][0] - again <= left_s + SLACK_S
