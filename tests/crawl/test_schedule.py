"""When turns are made: at once when nothing can be leased, rested otherwise, never for nothing, and what a turn brings
stays below high water."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from drum import Edits

import pytest

from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.config.keys import Config
from irlcrawl.crawl.loop import CrawlLoop
from irlcrawl.crawl.schedule import (
    ANSWER_S,
    INBOX_AGE_MAX_S,
    LOW_AGE_S,
    REST_DRY_S,
    REST_FACTOR,
    REST_S,
    RESTS_LATE_S,
    ROWS_WANTED_MIN,
    STARTS_PER_PLACE_MAX,
    TOOK_S_MAX,
    Schedule,
)
from irlcrawl.frontier.dispatch.workers import RemoteWorker
from irlcrawl.frontier.turn.turn import Result, Turn
from tests.crawl.virtual_crawl import START, Answer, Crawl, Web, star


def put_off(dues: list[float]) -> SimpleNamespace:
    """A calendar, as a Schedule looks at it."""
    return SimpleNamespace(next_due=lambda: min(dues, default=None), rows=len(dues), again=0)


@dataclass
class World:
    """What a Schedule looks at, settable. `ready`: visits that could start soon, as `Politeness.ready_pairs` says."""

    ready: int = 0
    out: int = 0
    places: int = 8
    runs: int = 0  # URLs in runs
    queued: int = 0  # ... and before them
    calendar: list[float] = field(default_factory=list)  # dues
    rests: list[float] = field(default_factory=list)  # the same
    fetched: int = 0
    hosts: int = 0
    workers: list[RemoteWorker] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.config = Config()
        self.clock = VirtualClock()
        world = self

        class State:
            runs = property(lambda self: SimpleNamespace(rows=world.runs, rows_here=world.runs))
            ledger = property(lambda self: SimpleNamespace(visits=world.fetched))
            waiting = property(lambda self: world.runs + world.queued + len(world.calendar + world.rests))

            calendar = property(lambda self: put_off(world.calendar))
            rests = property(lambda self: put_off(world.rests))

        politeness = SimpleNamespace(ready_pairs=lambda within, limit: min(self.ready, limit))

        class Hosts:
            visits_out = property(lambda self: world.out)
            hosts = property(lambda self: range(world.hosts))
            ran_dry = False
            visit_seconds = 60.0

        self.dispatcher = Hosts()
        self.dispatcher.politeness = politeness  # type: ignore[attr-defined]
        fleet = SimpleNamespace(places=self.places, workers=self.workers)
        self.schedule = Schedule(self.config, self.clock, State(), self.dispatcher, fleet)  # type: ignore[arg-type]

    def turned(self, seconds: float, moved: bool = True, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.schedule.began()
        meanwhile()
        self.schedule.turned(Result(Edits(), seconds=seconds, moved=moved))

    def should_turn(self, handed_in: bool = False, inbox: bool = False) -> bool:
        return self.schedule.should_turn(self.clock.now(), handed_in, inbox)


def test_starving_is_at_once() -> None:
    """Nothing is out, nothing can start soon: a turn comes however long the last one took, and harvests are asked."""
    world = World(queued=10)
    world.turned(seconds=60)
    assert world.should_turn()
    assert world.schedule.should_ask(world.clock.now())


@pytest.mark.parametrize("seconds", [0.001, 0.5, 3.0])
@pytest.mark.parametrize("dry", [False, True])
def test_a_turn_rests_ten_times_its_duration(seconds: float, dry: bool) -> None:
    world = World(ready=3, queued=10)
    world.dispatcher.ran_dry = dry
    world.turned(seconds)
    rest = max(REST_DRY_S if dry else REST_S, REST_FACTOR * seconds)
    world.clock.advance(rest - 0.01)
    assert not world.should_turn()
    assert not world.schedule.should_ask(world.clock.now())
    world.clock.advance(0.02)
    assert world.should_turn()
    assert world.schedule.should_ask(world.clock.now())


def test_a_turn_in_which_the_machine_slept_kept_the_next_one_away_for_days() -> None:
    world = World(ready=3, queued=10)
    world.turned(8 * 3600.0)
    world.clock.advance(REST_FACTOR * TOOK_S_MAX + 0.01)
    assert world.should_turn()


@pytest.mark.parametrize(("ready", "out", "low"), [(3, 4, True), (4, 4, False), (100, 0, False), (0, 7, True)])
def test_low_water_is_fewer_visits_than_the_workers_can_carry(ready: int, out: int, low: bool) -> None:
    world = World(ready=ready, out=out, queued=10)
    world.clock.advance(100)
    assert world.schedule.low == world.should_turn() == low


def test_a_look_at_thousands_of_visits_is_for_longer() -> None:
    """At 20 looks a second to count 16,000 visits took a third of the loop's time."""
    looks: list[int] = []
    world = World(ready=1, queued=10, places=16_384)
    world.dispatcher.politeness.ready_pairs = lambda within, limit: looks.append(limit) or 1  # type: ignore[attr-defined]
    for _ in range(100):
        assert world.schedule.low
        world.clock.advance(LOW_AGE_S)
    assert 5 <= len(looks) <= 6 and min(looks) > 10_000


@pytest.mark.parametrize(
    ("visit_seconds", "wanted"), [(60.0, 8), (1.0, 16), (0.5, 32), (0.001, 8 * STARTS_PER_PLACE_MAX)]
)
def test_short_visits_need_more_hosts_than_places(visit_seconds: float, wanted: int) -> None:
    """Hosts that answer in milliseconds and may be asked every five seconds: with only as many in memory as the workers
    have places, the workers were idle for most of the time (a third of what the gaps of 2,000 hosts allowed)."""
    world = World(ready=wanted - 1, queued=10)
    world.dispatcher.visit_seconds = visit_seconds
    world.clock.advance(100)
    assert world.schedule.low
    world.ready = wanted
    world.clock.advance(LOW_AGE_S)
    assert not world.schedule.low


def test_a_turn_waits_for_the_harvests_that_were_asked_for() -> None:
    world = World(ready=1, queued=10)
    world.clock.advance(100)
    worker = RemoteWorker(1, None, asked=True)  # type: ignore[arg-type]
    world.workers.append(worker)
    world.schedule.asked()
    assert not world.should_turn()
    world.clock.advance(ANSWER_S + 0.01)
    assert world.should_turn(), "but not for ever"
    world.schedule.asked()
    worker.asked = False
    world.schedule.answered()
    assert world.should_turn()


def test_while_harvests_are_awaited_a_due_calendar_gives_no_reason_to_look_again() -> None:
    """The loop slept until the calendar's due time, which was over: it went round and round until they came."""
    world = World(ready=1, calendar=[0.0])
    world.clock.advance(100)
    world.workers.append(RemoteWorker(1, None, asked=True))  # type: ignore[arg-type]
    world.schedule.asked()
    assert not world.should_turn()
    assert world.schedule.turn_at == world.clock.now() + ANSWER_S
    world.clock.advance(ANSWER_S)
    assert world.should_turn()


@pytest.mark.parametrize("ready", [0, 1])
def test_the_end_of_a_rest_may_wait_for_a_turn_while_there_is_other_work(ready: int) -> None:
    """A hundred thousand hosts that rest would have a turn each."""
    world = World(ready=ready)
    world.rests = [world.clock.now() + 100]
    world.clock.advance(99)
    assert not world.should_turn()
    world.clock.advance(2)
    assert world.should_turn() == (not ready)
    world.clock.advance(RESTS_LATE_S)
    assert world.should_turn()


def test_a_harvest_does_not_lie_for_long() -> None:
    """Though nothing is wanted: its outcomes are to be committed."""
    world = World(ready=100)
    world.clock.advance(100)
    world.schedule.inbox_filled()
    assert not world.should_turn(handed_in=True, inbox=True)
    world.clock.advance(INBOX_AGE_MAX_S + 0.1)
    assert world.should_turn(handed_in=True, inbox=True)


@pytest.mark.parametrize("ready", [0, 1, 100])
def test_no_turn_with_nothing_to_do(ready: int) -> None:
    """Only URLs that are out, or not yet due, are left: a turn would bring nothing."""
    world = World(ready=ready, runs=50)
    world.calendar = [world.clock.now() + 3600]
    world.clock.advance(100)
    world.schedule.moved = True
    assert not world.should_turn()
    world.clock.advance(3600)
    assert world.should_turn()


@pytest.mark.parametrize("ready", [0, 1])
def test_a_turn_that_moved_nothing_is_not_repeated(ready: int) -> None:
    world = World(ready=ready, queued=10)
    world.turned(0.01, moved=False)
    world.clock.advance(100)
    assert not world.should_turn()
    world.schedule.answered()
    assert world.should_turn()


def test_what_happened_during_a_turn_is_not_forgotten() -> None:
    """The end of a visit, while a turn ran that moved nothing, was forgotten when that turn was over."""
    world = World(ready=1, queued=10)
    world.turned(0.01, moved=False, meanwhile=world.schedule.answered)
    world.clock.advance(100)
    assert world.should_turn()


def test_i4_nothing_is_rotated_above_high_water() -> None:
    """I4: URLs in runs and hosts in memory are bounded by what a turn is asked for."""
    world = World()
    high = 16 * ROWS_WANTED_MIN
    assert world.schedule.rows_wanted() == ROWS_WANTED_MIN
    world.runs = high - 10
    assert world.schedule.rows_wanted() == 10
    world.runs = high
    assert world.schedule.rows_wanted() == 0
    world.runs, world.hosts = 0, world.config.frontier.hosts_active_max
    assert world.schedule.rows_wanted() == 0


def test_high_water_grows_with_the_pace() -> None:
    world = World()
    for _ in range(10):
        world.turned(0.1)
        world.clock.advance(1)
        world.fetched += 500
    world.turned(0.1)
    assert world.schedule.pages_per_s == pytest.approx(500)
    world.runs = int(500 * world.config.politeness.horizon_seconds) - 1
    assert world.schedule.rows_wanted() == 1


# -- whole crawls ------------------------------------------------------------------------------------------------------


def test_turns_of_a_whole_crawl_have_something_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow host, and one in the calendar: hardly a turn while the slow one is asked every ten seconds."""
    web = Web(star("slow.test", 30) | star("late.test", 0))
    web.moods["late.test"] = lambda url, now: (
        Answer(429, {"retry-after": "7200"}) if now < START + 60 and "robots" not in url else None
    )
    crawl = Crawl(tmp_path / "job", web, ["http://slow.test/", "http://late.test/"], monkeypatch)
    crawl.config.politeness.gap_host_seconds = 10.0
    results: list[Result] = []
    run = Turn.run

    def watched(turn: Turn, task: Any) -> Result:
        results.append(run(turn, task))
        return results[-1]

    monkeypatch.setattr(Turn, "run", watched)
    assert crawl.run(hours=3) == ExitCode.DONE
    assert set(crawl.outcomes()) == set(web.answers)
    idle = [result for result in results[1:-1] if not (result.moved or result.folded)]
    assert not idle


def test_a_small_site_does_not_wait_for_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a chain of ten pages every page needs a turn; each costs its gap and nothing else."""
    web = Web({f"http://a.test/{n}": [f"http://a.test/{n + 1}"] for n in range(9)} | {"http://a.test/9": []})
    crawl = Crawl(tmp_path / "job", web, ["http://a.test/0"], monkeypatch)
    assert crawl.run(hours=1) == ExitCode.DONE
    gap = crawl.config.politeness.gap_host_seconds
    assert crawl.clock.now() - START < 10 * (gap + 0.1) + 1
    assert isinstance(crawl.loop, CrawlLoop)
