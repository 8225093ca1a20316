"""A crawl of weeks in minutes: the shipped frontier, whole, under a virtual clock, with played surroundings.

What is the crawler's own: the loop, its turns and their commits, hosts in memory, leases, politeness, outage detection,
everything on disk, and the workers but for what played.py says. What is played: time, names, servers, the fetching
capacity (`rate`). Decisions that hang on the time a turn takes see turns of `turn_s` seconds.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from drum import Files

from bench._sim.backlog import Backlog
from bench._sim.crawl import CountingFiles
from bench._sim.links import Pages
from bench._sim.played import TICK_S, Names, Stage
from bench._sim.virtual import VirtualLoop
from irlcrawl.base import names
from irlcrawl.base.clock import Clock, VirtualClock
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.base.memory import Trim
from irlcrawl.config.keys import Config
from irlcrawl.crawl import turns
from irlcrawl.crawl.loop import CrawlLoop
from irlcrawl.crawl.seeding import write_seeds
from irlcrawl.frontier.state import crawl_state
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.frontier.turn.turn import Result, Task, Turn
from tools.simweb.weather import Weather

TURN_S = 0.2
BURST_S = 2 * TICK_S
"""The fetching capacity of so many seconds may be used at once."""
DAY, WEEK = 86_400.0, 7 * 86_400.0
GRACE_S = 3600.0
"""A crawl that does not end so long after its limit never will."""


class Tokens:
    """A fetching capacity of `rate` URLs a second."""

    def __init__(self, rate: float, clock: Clock) -> None:
        self._rate, self._clock = rate, clock
        self._most = max(rate * BURST_S, 1.0)
        self._left, self._at = self._most, clock.now()

    @property
    def left(self) -> int:
        now = self._clock.now()
        self._left = min(self._most, self._left + (now - self._at) * self._rate)
        self._at = now
        return max(0, int(self._left))

    def take(self, urls: int) -> None:
        self._left -= urls


@dataclass
class Point:
    """The crawl at one moment."""

    seconds: float  # since its start
    rss_bytes: int
    state_bytes: int
    log_bytes: int
    held: dict[str, int]
    ledger: dict[str, int]
    live: dict[str, int]
    requests: int


@dataclass
class LongCrawl:
    """One crawl; `run` it once."""

    path: Path
    weather: Weather
    config: Config
    seeds: list[bytes]
    seconds: float
    rate: float
    seed: int = 1
    turn_s: float = TURN_S
    workers: int = 2
    start: float = 1_000_000_000.0
    point_s: float = DAY
    progress: Callable[[Point], None] = lambda point: None
    points: list[Point] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = VirtualClock(self.start)
        self.files: Files = CountingFiles()
        self.job = JobDir(self.path)
        self.backlog = Backlog(self.weather, self.clock, self.seed)
        self.live: dict[str, int] = {}
        self.ledger: dict[str, Any] = {}
        self.counters: dict[str, Any] = {}
        self.cpu_s = self.outage_s = 0.0
        self._workers: list[asyncio.Task[None]] = []
        self._failure: BaseException | None = None

    def run(self) -> ExitCode:
        """To the end of the web or of the time."""
        config = self.config
        config.scope.kind = "any"
        config.crawl.user_agent = "sim/1 (+http://contact.test/)"
        config.frontier.disk_reserve_bytes = 1 << 20
        config.limits.seconds = self.seconds
        config.limits.wait_hours = 0.0  # what rests is waited for to the end of the time
        began = time.process_time()
        pages = Pages(self.weather, self.path.parent)
        stage = Stage(self.weather, self.clock, self.files, self.backlog, pages)
        loop = VirtualLoop(self.clock, self.turn_s)
        loop.set_exception_handler(self._failed)
        self.job.acquire()
        gc.freeze()
        try:
            turn = mock.patch.object(turns, "Turn", lambda state: _Lasting(state, self.turn_s))
            with stage.set_up(config), mock.patch.object(turns, "Trim", _NoTrim), turn:
                return loop.run_until_complete(asyncio.wait_for(self._run(stage), self.seconds + GRACE_S))
        finally:
            self.cpu_s = time.process_time() - began
            loop.close()
            pages.close()
            self.job.release()

    async def _run(self, stage: Stage) -> ExitCode:
        with mock.patch.object(crawl_state.secrets, "randbits", lambda bits: self.seed):
            state = CrawlState.open(self.job, self.config, self.clock, self.files)
        try:
            return await self._crawl(state, stage)
        finally:
            for task in self._workers:
                task.cancel()
            await asyncio.gather(*self._workers, return_exceptions=True)
            state.close()

    async def _crawl(self, state: CrawlState, stage: Stage) -> ExitCode:
        loop = CrawlLoop(state, self.config, self.clock)
        loop.dispatcher.resolver = Names(self.weather, self.config, self.clock, self.backlog)  # type: ignore[assignment]
        self._watch(loop, state)
        old = list(state.streams)
        await loop.open(write_seeds(state, self.config, self.seeds, 0), old)
        for _ in range(self.workers):
            worker = stage.add_worker(loop, self.path)
            self._workers.append(asyncio.ensure_future(worker.run()))
            self._workers[-1].add_done_callback(self._worker_ended)
        beside = [asyncio.ensure_future(work) for work in (self._sample(), self._points(loop, state))]
        try:
            code = await loop.run()
        finally:
            for task in beside:
                task.cancel()
        for task in beside:
            if task.done() and not task.cancelled():
                task.result()
        if self._failure is not None:
            raise self._failure
        self.outage_s = loop.outage.seconds
        self.live, self.ledger, self.counters = state.live(), state.ledger.to_json(), dict(state.counters)
        self._point(loop, state)
        return code

    def _watch(self, loop: CrawlLoop, state: CrawlState) -> None:
        """The observer hears of the log; leases are held to the fetching capacity."""
        tokens = Tokens(self.rate, self.clock)
        limits, dispatcher, backlog = loop.limits, loop.dispatcher, self.backlog
        allowance, dispatch, append = limits.allowance, dispatcher.dispatch, state.log.append

        def leased(allowed: int) -> int:
            urls = dispatch(allowed)
            tokens.take(urls)
            return urls

        def logged(texts: Any, *rest: Any, **more: Any) -> None:
            backlog.told(list(texts))
            append(texts, *rest, **more)

        limits.allowance = lambda out: min(allowance(out), tokens.left)  # type: ignore[method-assign, assignment]
        dispatcher.dispatch = leased  # type: ignore[method-assign, assignment]
        state.log.append = logged  # type: ignore[method-assign, assignment]
        backlog.loop = loop
        backlog.full = lambda: tokens.left == 0 or loop.fleet.capacity == 0
        keys = names.Names(state.seed, state.config.scope.private_suffixes)
        backlog.seeds([(keys.url_key(url), keys.of(url)[1], url) for url in dict.fromkeys(self.seeds)])

    # ---- beside it

    async def _sample(self) -> None:
        while True:
            seconds = self.backlog.interval(self.clock.now() - self.start)
            await asyncio.sleep(seconds)
            self.backlog.sample(seconds)

    async def _points(self, loop: CrawlLoop, state: CrawlState) -> None:
        while True:
            await asyncio.sleep(self.point_s)
            self._point(loop, state)

    def _point(self, loop: CrawlLoop, state: CrawlState) -> None:
        gc.collect()
        Trim(self.clock).now_and_then()
        ledger = state.ledger
        done = {"discovered": ledger.discovered, "fetched": ledger.fetched, "failed": ledger.failed,
                "excluded": sum(ledger.excluded.values())}  # fmt: skip
        held = loop.gauges.record()["held"]
        point = Point(
            self.clock.now() - self.start, _resident(), self.files.total(self.job.state),
            self.files.total(self.job.logs), held, done, state.live(), sum(self.backlog.requests.values()),
        )  # fmt: skip
        self.points.append(point)
        self.progress(point)

    def _worker_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._failure = context.get("exception") or RuntimeError(context["message"])
        loop.default_exception_handler(context)


@dataclass
class _Lasting:
    """A turn that says that it lasted so long: the clock stands while it runs."""

    state: CrawlState
    seconds: float

    def run(self, task: Task) -> Result:
        result = Turn(self.state).run(task)
        result.seconds = self.seconds
        return result


class _NoTrim:
    """Turns are a thousand times as frequent here as memory is worth giving back: `_point` does that."""

    def __init__(self, clock: Clock, keep: bool = False) -> None:
        pass

    def now_and_then(self) -> None:
        pass


def _resident() -> int:
    """Bytes of this process's own memory."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon")) * 1024
