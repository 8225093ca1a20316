"""Second chances: hosts, names, robots.txt files and URLs that fail are asked seldom for days, and nothing is lost that
comes back; a crawl with nothing left but what rests says so and ends (limits.wait_hours)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.reasons import Reason
from irlcrawl.config.keys import Politeness
from irlcrawl.crawl import status
from tests.crawl.virtual_crawl import START, Answer, Crawl, Killed, Web, star

Make = Callable[..., Crawl]
MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86_400.0


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A crawl with the defaults, that may take days in which little happens."""

    def crawl(web: Web, *seeds: str, tick_s: float = 60.0) -> Crawl:
        made = Crawl(tmp_path / "job", web, list(seeds), monkeypatch)
        made.config.politeness = Politeness(gap_host_factor=0.0)
        made.tick_every(tick_s, tick_s)
        return made

    return crawl


def until(end_s: float, answer: Answer, only: str = "") -> Callable[[str, float], Answer | None]:
    """A host (of it, URLs that end so) that gives this answer until then, and its pages after that."""
    return lambda url, now: answer if now < START + end_s and url.endswith(only) else None


def asked(crawl: Crawl, host: str = "a.test") -> list[float]:
    return [at - START for at, url in crawl.web.log if url.startswith(f"http://{host}/")]


SILENT, BUSY, BROKEN = Answer(reason=Reason.CONNECT), Answer(503), Answer(500)


# -- what comes back is had --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end_s, pages", [(MINUTE_S, 1), (MINUTE_S, 50), (2 * DAY_S, 50)])
def test_a_host_that_is_down_when_first_met_loses_nothing(make: Make, end_s: float, pages: int) -> None:
    """After 60 s it lost 50 of 50 URLs: it was given up after four visits."""
    web = Web({f"http://a.test/{number}": [] for number in range(pages)})
    web.moods["a.test"] = until(end_s, SILENT)
    crawl = make(web, *web.answers)
    assert crawl.run(hours=400) == ExitCode.DONE
    assert crawl.outcomes() == dict.fromkeys(web.answers, ("fetched", "ok"))
    in_vain = [at for at in asked(crawl) if at < end_s]
    assert len(in_vain) == (1 if end_s == MINUTE_S else 12), "a rest each, and one request after it"
    rests = [later - earlier for earlier, later in pairwise(in_vain)]
    for number, rest in enumerate(rests):
        assert MINUTE_S * 2**number <= rest < MINUTE_S * 2**number + 61, rests


@pytest.mark.parametrize("rules", [True, False])
def test_a_host_that_is_busy_for_six_hours_loses_nothing(make: Make, rules: bool) -> None:
    """It lost 19 of 21 URLs: each was asked four times within minutes."""
    web = Web(star("a.test", 20))
    busy = until(6 * HOUR_S, BUSY)
    web.moods["a.test"] = lambda url, now: None if rules and url.endswith("/robots.txt") else busy(url, now)
    crawl = make(web, *web.answers)
    assert crawl.run(hours=400) == ExitCode.DONE
    assert crawl.outcomes() == dict.fromkeys(web.answers, ("fetched", "ok"))
    assert len([at for at in asked(crawl) if at < 6 * HOUR_S]) < 20


def test_a_page_that_fails_for_a_day_is_had(make: Make) -> None:
    web = Web(star("a.test", 5))
    web.moods["a.test"] = until(DAY_S, BROKEN, "/3")
    crawl = make(web, *web.answers)
    assert crawl.run(hours=400) == ExitCode.DONE
    assert crawl.outcomes() == dict.fromkeys(web.answers, ("fetched", "ok"))
    others = [at for at, url in web.log if not url.endswith(("/3", "/robots.txt"))]
    assert max(others) < START + MINUTE_S, "its host does not rest"
    assert web.pages_asked["http://a.test/3"] == 8


def test_robots_txt_that_cannot_be_had_for_five_hours_excludes_nothing(make: Make) -> None:
    """It excluded 20 of 20 URLs for good, after four hours."""
    web = Web({f"http://a.test/{number}": [] for number in range(20)})
    web.moods["a.test"] = until(5 * HOUR_S, BUSY, "/robots.txt")
    crawl = make(web, *web.answers)
    assert crawl.run(hours=400) == ExitCode.DONE
    assert crawl.outcomes() == dict.fromkeys(web.answers, ("fetched", "ok"))
    in_vain = [at for at in asked(crawl) if at < 5 * HOUR_S]
    assert 8 <= len(in_vain) <= 10
    assert not web.pages_asked.keys() - set(web.answers)


def test_a_name_that_does_not_exist_for_three_hours_loses_nothing(make: Make) -> None:
    """A name that does not exist was believed not to, and its URLs failed at once."""
    web = Web({f"http://a.test/{number}": [] for number in range(20)})
    crawl = make(web, *web.answers)
    crawl.names.answers["a.test"] = Reason.DNS

    def registered() -> None:
        crawl.names.answers["a.test"] = "10.9.9.9"

    async def main(crawl: Crawl) -> None:
        asyncio.get_running_loop().call_later(3 * HOUR_S, registered)

    assert crawl.run(main, hours=400) == ExitCode.DONE
    assert crawl.outcomes() == dict.fromkeys(web.answers, ("fetched", "ok"))
    assert crawl.names.asked["a.test"] <= 10


# -- what does not is given up -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer, outcome, most, pages", [
    pytest.param(SILENT, ("failed", "connect"), 14, 9, marks=pytest.mark.slow),
    pytest.param(Answer(reason=Reason.TLS), ("failed", "tls"), 14, 1, marks=pytest.mark.slow),
    (BROKEN, ("fetched", "http_error"), 9, 1),
])  # fmt: skip
def test_a_host_that_is_down_for_good_is_given_up_after_days_and_few_requests(
    make: Make, answer: Answer, outcome: tuple[str, str], most: int, pages: int
) -> None:
    web = Web()
    web.moods["a.test"] = until(1e9, answer, "" if answer.reason else "x")
    seeds = [f"http://a.test/{number}x" for number in range(pages)]
    crawl = make(web, *seeds)
    assert crawl.run(hours=400) == ExitCode.DONE
    assert crawl.outcomes() == dict.fromkeys(seeds, outcome)
    times = asked(crawl)
    assert times[-1] - times[0] > DAY_S
    per = 1 if answer.reason else pages
    assert len(times) <= most * per + 1 + 4, "robots.txt once a day, where it answers"


def test_a_host_that_is_busy_for_good_is_given_up_after_days_and_few_requests(make: Make) -> None:
    """Asked once a day, one URL each time, twenty URLs would have taken half a year."""
    web = Web(star("a.test", 20))
    web.moods["a.test"] = lambda url, now: None if url.endswith("/robots.txt") else BUSY
    crawl = make(web, *web.answers)
    assert crawl.run(hours=400) == ExitCode.DONE
    assert crawl.outcomes() == dict.fromkeys(web.answers, ("failed", "host_dead"))
    times = [at for at, url in web.log if not url.endswith("/robots.txt")]
    assert times[-1] - times[0] >= 72 * HOUR_S
    assert len(times) <= 19


# -- over kills --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer, only, seen", [(SILENT, "", True), (BROKEN, "/robots.txt", False)])
def test_a_kill_in_the_middle_of_rests_keeps_their_count(make: Make, answer: Answer, only: str, seen: bool) -> None:
    """Killed right after a failure is archived (seen: some minutes later, when the host rests): each rest is as long as
    without a kill, and nothing is lost."""
    web = Web({f"http://a.test/{number}": [] for number in range(10)})
    web.moods["a.test"] = until(DAY_S, answer, only)
    crawl = make(web, *web.answers)
    moments = {2, 3, 5, 8}

    def killed_after(number: int) -> bool:
        return number in moments and (moments.discard(number) or True)

    if not seen:
        crawl.on_kept = lambda unit: crawl.kill() if killed_after(len(web.log)) else None

    async def main(crawl: Crawl) -> None:
        while True:
            await asyncio.sleep(45.0)
            if seen and killed_after(len(web.log)):
                crawl.kill()

    kills = 0
    while True:
        try:
            assert crawl.run(main, hours=400) == ExitCode.DONE
            break
        except Killed:
            kills += 1
            crawl.clock.advance(3.0)
    assert kills == 4
    assert crawl.outcomes() == dict.fromkeys(web.answers, ("fetched", "ok"))
    in_vain = [at for at in asked(crawl) if at < DAY_S]
    rests = [later - earlier for earlier, later in pairwise(in_vain)]
    assert len(in_vain) == 11
    for number, rest in enumerate(rests):
        assert MINUTE_S * 2**number <= rest < MINUTE_S * 2**number + 90, rests


# -- nothing left but rests --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pages", [1, 4])
def test_a_crawl_with_nothing_left_but_rests_says_so_and_ends(make: Make, pages: int) -> None:
    """A small crawl with a dead host in it would wait for days. The same command goes on with what rests."""
    web = Web(star("b.test", 20) | star("a.test", pages - 1))
    web.moods["a.test"] = until(2 * HOUR_S, SILENT)
    crawl = make(web, *web.answers, tick_s=20.0)
    crawl.config.limits.wait_hours = 0.25
    told = []

    async def look(crawl: Crawl) -> None:
        for seconds in (10.0, 590.0):
            await asyncio.sleep(seconds)
            assert crawl.loop is not None
            told.append(crawl.loop.status())

    assert crawl.run(look) == ExitCode.TIME_LIMIT
    first_end = crawl.clock.now() - START
    assert 900 + 20 < first_end < 900 + 90, "20 pages, then a quarter of an hour"
    early, late = told
    assert early["wait_ends"] is None
    assert late["resting_urls"] == pages and late["scheduled_urls"] == 0
    assert abs(late["wait_ends"] - START - first_end) < 60
    assert f"resting {pages} URL{'s' * (pages > 1)}, asked again from " in status.line(status.complete(late))
    assert "nothing else is left, the crawl ends in " in status.line(status.complete(late))
    assert {url for url, outcome in crawl.outcomes().items() if outcome == ("fetched", "ok")} == set(star("b.test", 20))
    before = len(web.log)
    assert crawl.run() == ExitCode.TIME_LIMIT
    assert len(web.log) - before <= 2, "what rests is not asked sooner for it"
    crawl.clock.advance(2 * HOUR_S)
    assert crawl.run() == ExitCode.DONE
    assert crawl.outcomes() == dict.fromkeys(web.answers, ("fetched", "ok"))


def test_a_long_crawl_delay_is_no_reason_to_end(make: Make) -> None:
    """A host that wants a request every half an hour is waited for: it may be asked, and nothing failed."""
    web = Web(star("a.test", 4))
    rules = Answer(200, {"content-type": "text/plain"}, b"User-agent: *\nCrawl-delay: 1800\n")
    web.answers["http://a.test/robots.txt"] = rules
    crawl = make(web, "http://a.test/")
    crawl.config.limits.wait_hours = 0.01
    assert crawl.run() == ExitCode.DONE
    assert len(crawl.outcomes()) == 5


def test_time_in_which_our_own_network_is_down_is_no_waiting(make: Make) -> None:
    web = Web(star("a.test", 4))
    crawl = make(web, "http://a.test/")
    crawl.config.limits.wait_hours = 0.25
    down = (START + 3.0, START + 5 * HOUR_S)
    web.moods["a.test"] = lambda url, now: SILENT if down[0] <= now < down[1] else None
    crawl.names.down_between = down
    assert crawl.run() == ExitCode.DONE
    assert set(crawl.outcomes().values()) == {("fetched", "ok")} and len(crawl.outcomes()) == 5
