"""A whole crawl in one process under virtual time: real frontier, real workers, real files, a made-up web.

Only what lies outside is played: the clock, the network (`Web` answers requests), the names (`Names`) and processes
(workers run in the frontier's loop, and die by being cancelled). Turns run inline, so a crawl of minutes takes
milliseconds and is the same each time.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from drum import Damaged, Files

import pytest

from bench._sim.virtual import VirtualLoop
from irlcrawl.base import memory
from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.exit_codes import ExitCode, is_disk_full
from irlcrawl.base.job import JobDir
from irlcrawl.base.reasons import Class, Reason
from irlcrawl.config.keys import Config
from irlcrawl.crawl import loop as frontier_module
from irlcrawl.crawl.loop import CrawlLoop
from irlcrawl.crawl.seeding import named_again, write_seeds
from irlcrawl.frontier.dispatch.dns import Resolved, ResolveError
from irlcrawl.frontier.dispatch.workers import RemoteWorker
from irlcrawl.frontier.politeness.machine import Machine
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.web.robots import Rules
from irlcrawl.worker.archive.log_parts import read
from irlcrawl.worker.archive.unit import Exchange, Unit
from irlcrawl.worker.fetch import service
from irlcrawl.worker.fetch.http import Fetched, Request
from irlcrawl.worker.fetch.lease import Lease
from irlcrawl.worker.fetch.wire import Message
from irlcrawl.worker.harvest.rules_log import Pointer

START = 1_000_000_000.0
R = TypeVar("R")


class Killed(Exception):
    """SIGKILL of everything."""


@dataclass
class Answer:
    """What a server says: a response, or (reason not OK) what goes wrong instead."""

    status: int = 200
    header: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    reason: Reason = Reason.OK
    truncated: str | None = None
    proxy_down: str = ""


def rest_shortly(config: Config) -> None:
    """What fails rests for seconds and is given up within minutes: after GIVEN_UP failures of a host, FAILED of a
    URL."""
    politeness = config.politeness
    politeness.retries_max, politeness.retry_delay_seconds = FAILED - 1, 5.0
    politeness.rest_seconds, politeness.rest_max_seconds, politeness.host_dead_hours = 5.0, 300.0, 60.0 / 3600


GIVEN_UP, FAILED = 5, 4


class Web:
    """Answers by URL; `links` makes pages; robots.txt is 404 unless told. A `mood` of a host comes before its pages."""

    def __init__(self, links: dict[str, list[str]] | None = None, fetch_s: float = 0.01) -> None:
        self.answers: dict[str, Answer] = {}
        self.moods: dict[str, Callable[[str, float], Answer | None]] = {}
        self.fetch_s = fetch_s
        self.body_s = 0.0  # of these, from the first byte of an answer to its last
        self.log: list[tuple[float, str]] = []  # (start, URL) of every request, robots.txt too
        for url, targets in (links or {}).items():
            self.page(url, targets)

    def page(self, url: str, links: list[str] | None = None) -> None:
        body = "".join(f'<a href="{worker}">x</a>' for worker in links or [])
        self.answers[url] = Answer(200, {"content-type": "text/html"}, body.encode())

    def answer(self, url: str, host: str, now: float) -> Answer:
        mood = self.moods.get(host)
        return (mood and mood(url, now)) or self.answers.get(url) or Answer(404)

    @property
    def pages_asked(self) -> Counter[str]:
        return Counter(url for _, url in self.log if not url.endswith("/robots.txt"))


class Names:
    """Every name has an address of its own unless told: an address, a number of passing failures, or a Reason, which is
    for good. Answers take a millisecond, the first one as long as `seconds` says."""

    def __init__(self) -> None:
        self.answers: dict[str, str | int | Reason] = {}
        self.seconds: dict[str, float] = {}
        self.asked: Counter[str] = Counter()
        self.down_between = (0.0, 0.0)  # unix seconds: nobody answers
        self.names = 0  # it caches none
        self._known: dict[str, str] = {}

    async def alive(self) -> bool:
        since, until = self.down_between
        return not since <= asyncio.get_running_loop().time() < until

    async def resolve(self, name: str) -> Resolved:
        await asyncio.sleep(self.seconds.pop(name, 0.001))
        if not await self.alive():
            raise ResolveError(name, "no answer", Reason.DNS, permanent=False)
        self.asked[name] += 1
        answer = self.answers.get(name)
        if isinstance(answer, Reason):
            raise ResolveError(name, "does not exist", answer, permanent=True)
        if isinstance(answer, int) and self.asked[name] <= answer:
            raise ResolveError(name, "no answer", Reason.DNS, permanent=False)
        if not isinstance(answer, str):
            number = len(self._known) + 1
            answer = self._known.setdefault(name, f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
        return Resolved(answer, asyncio.get_running_loop().time() + 3600)

    def admits(self, address: str) -> bool:
        """None is private here."""
        return True

    def another(self, name: str) -> None:
        """No name here has a second address."""

    async def close(self) -> None:
        pass


class _Process:
    pid = os.getpid()

    def __init__(self, serving: asyncio.Task[None]) -> None:
        self._serving = serving

    def wait(self, timeout: float | None = None) -> int:
        """The status of a worker that ended: killed, or by its own error (irlcrawl.worker.fetch.worker)."""
        error = None if not self._serving.done() or self._serving.cancelled() else self._serving.exception()
        if isinstance(error, Damaged):
            return ExitCode.DAMAGED
        return -9 if error is None else ExitCode.DISK_FULL if is_disk_full(error) else ExitCode.FAILED


@dataclass
class Crawl:
    """A job with its web. `run` crawls until the end, or until something it plays (say `on_request`) calls `kill`; then
    it may be run again. Watched all the time: no row is leased twice at once, nothing is archived twice (I2). What
    fails is given up within minutes; with the defaults it takes days (test_rests.py)."""

    path: Path
    web: Web
    seeds: list[str]
    monkeypatch: pytest.MonkeyPatch
    workers: int = 1
    names: Names = field(default_factory=Names)
    config: Config = field(default_factory=Config)
    latency_s: float = 0.0
    again: bool = False  # the seeds are named at every start, as by the same command
    on_request: Callable[[str], None] = lambda url: None
    on_kept: Callable[[Unit], None] = lambda unit: None
    files: Files = field(default_factory=Files)
    archived: set[bytes] = field(default_factory=set)
    machine: Machine | None = None

    def __post_init__(self) -> None:
        self.clock = VirtualClock(START)
        config = self.config
        config.crawl.user_agent = "test/1 (+http://contact.test/)"
        config.scope.kind = "any"
        config.politeness.gap_host_factor = 0.0
        config.politeness.machine_clocks = ""  # `machine` is, if there is one
        config.frontier.disk_reserve_bytes = 1 << 20
        config.limits.wait_hours = 0.0  # until everything is decided
        rest_shortly(config)
        self.running: dict[int, asyncio.Task[None]] = {}
        self.socks: dict[int, socket.socket] = {}
        self.tasks: list[asyncio.Task[None]] = []
        self.links: list[RemoteWorker] = []
        self.leased: dict[tuple[int, int], int] = {}  # (segment, row) -> the last visit
        self.loop: CrawlLoop | None = None
        crawl = self

        class Fetcher:
            def __init__(self, config: Config, clock: Any) -> None:
                pass

            async def fetch(self, request: Request) -> Fetched:
                return await crawl._fetch(request)

            def hold_large(self, count: int) -> None:
                pass

            async def close(self) -> None:
                pass

        class Worker(service.Worker):
            async def run(self) -> None:
                task = asyncio.current_task()
                assert task is not None
                crawl.running[self.stream] = task
                await super().run()

            def __init__(self, hello: Message, *rest: Any) -> None:
                self.stream = hello["stream"]
                super().__init__(hello, *rest)

            async def keep(self, unit: Unit, exchange: Exchange | None, rules: Rules | None = None) -> Pointer | None:
                visit = unit.url if unit.page is None else b"%b visit %d" % (unit.url, unit.page.visits + 1)
                again = unit.page is not None and unit.cls != Class.FETCHED  # the visit is repeated under its number
                if unit.cls not in (Class.RETRY, Class.NONE) and not again:
                    assert visit not in crawl.archived, f"{visit!r} is in the archive already"
                pointer = await super().keep(unit, exchange, rules)
                if unit.cls not in (Class.RETRY, Class.NONE) and not again:
                    crawl.archived.add(visit)
                crawl.on_kept(unit)
                return pointer

        self.monkeypatch.setattr(service, "open_fetcher", Fetcher)
        self.monkeypatch.setattr(service, "Worker", Worker)
        self.tick_every(1.0, 5.0)  # so that an idle hour costs little
        # A month of virtual time would give back the memory of all tests before a million times.
        self.monkeypatch.setattr(memory, "_find_trim", lambda: None)
        self._watch()
        self.monkeypatch.setattr(service, "AnchoredClock", lambda *anchor: self.clock)

    def tick_every(self, worker_s: float, frontier_s: float) -> None:
        """How often they look around while nothing happens. Days of waiting cost ticks alone."""
        self.monkeypatch.setattr(service, "TICK_SECONDS", worker_s)
        self.monkeypatch.setattr(frontier_module, "TICK_S", frontier_s)

    async def _fetch(self, request: Request) -> Fetched:
        url, started = request.url.decode(), self.clock.now()
        self.web.log.append((started, url))
        self.on_request(url)
        await asyncio.sleep(self.web.fetch_s)
        answer = self.web.answer(url, request.host, started)
        ended = self.clock.now()
        if answer.reason is not Reason.OK:
            return Fetched(answer.reason, None, 0, started, ended, proxy_down=answer.proxy_down)
        lines = "".join(f"{name}: {value}\r\n" for name, value in answer.header.items())
        header = f"HTTP/1.1 {answer.status} X\r\n{lines}content-length: {len(answer.body)}\r\n\r\n".encode()
        asked = b"GET / HTTP/1.1\r\n\r\n"
        exchange = Exchange(
            request.url, request.address, asked, header, answer.body, answer.truncated, started, ended - started
        )  # fmt: skip
        return Fetched(Reason.OK, exchange, answer.status, started, ended, body_s=self.web.body_s)

    def run(self, main: Callable[[Crawl], Coroutine[Any, Any, Any]] | None = None, hours: float = 100.0) -> ExitCode:
        """Open (or open again), crawl, end. With `main` that is what runs beside the crawl."""
        return self.play(lambda: self._run(main), hours)

    def play(self, work: Callable[[], Coroutine[Any, Any, R]], hours: float = 100.0) -> R:
        """Anything under the virtual clock that `kill` ends."""
        self._loop = loop = VirtualLoop(self.clock, self.latency_s)
        self._killed = loop.create_future()
        loop.call_later(hours * 3600, lambda: self._end(AssertionError(f"no end after {hours} hours")))
        try:
            running = loop.create_task(work())
            running.add_done_callback(lambda task: self._killed.done() or self._killed.set_result(None))
            loop.run_until_complete(self._killed)
            return running.result()
        finally:
            for task in (tasks := asyncio.all_tasks(loop)):
                task.cancel()
            if tasks:
                loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            for stream in list(self.socks):
                self._hang_up(stream)
            loop.close()

    def kill(self) -> None:
        """Everything is killed: `run` raises Killed."""
        self._loop.killed = True
        self._end(Killed())

    def _end(self, error: BaseException) -> None:
        if not self._killed.done():
            self._killed.set_exception(error)

    def job(self) -> JobDir:
        return JobDir(self.path)

    async def _run(self, main: Callable[[Crawl], Coroutine[Any, Any, Any]] | None) -> ExitCode:
        job = self.job()
        job.acquire()
        try:
            return await self._crawl(CrawlState.open(job, self.config, self.clock, self.files), main)
        finally:
            job.release()

    async def _crawl(self, state: CrawlState, main: Callable[[Crawl], Coroutine[Any, Any, Any]] | None) -> ExitCode:
        try:
            loop = self.loop = CrawlLoop(state, self.config, self.clock, self.machine)
            loop.dispatcher.resolver = self.names  # type: ignore[assignment]
            self.links, self.leased, self.running, self.socks = [], {}, {}, {}
            old = list(state.streams)
            loop.deaths.replace = self._replace
            seeds = [url.encode() for url in self.seeds]
            number = state.streams[0]["next"]
            again = named_again(state, seeds) if self.again else []
            first = number == 0 or self.again
            name = write_seeds(state, self.config, seeds, number, again) if first else None
            await loop.open(name, old)
            for _ in range(self.workers):
                await self._add_worker()
            beside = asyncio.ensure_future(main(self)) if main else None
            code = await loop.run()
            if beside and not beside.cancel():
                beside.result()
            return code
        finally:
            state.close()

    async def _replace(self, dead: RemoteWorker) -> None:
        await self._add_worker()

    async def _add_worker(self) -> None:
        """A worker as the supervisor would add it."""
        loop = self.loop
        assert loop is not None
        (stream,) = loop.turns.begin_streams(1)
        ours, theirs = socket.socketpair()
        self.socks[stream] = theirs.dup()
        serving = asyncio.ensure_future(service.serve(theirs, self.path, self.files))
        serving.add_done_callback(lambda task: self._ended(stream, task))
        self.tasks.append(serving)
        worker = RemoteWorker(stream, _Process(serving))  # type: ignore[arg-type]
        self.links.append(worker)
        await loop.fleet.connect(worker, ours, loop.hello(stream))

    def _ended(self, stream: int, serving: asyncio.Task[None]) -> None:
        """The end of a process closes its end of the pipe."""
        self.running.pop(stream, None)
        self._hang_up(stream)

    def kill_worker(self, stream: int) -> None:
        """What it has on the disk stays; what it would have said is never heard."""
        self.running.pop(stream).cancel()
        self._hang_up(stream)

    def _hang_up(self, stream: int) -> None:
        """Shut down, not only closed: a command that is just being started holds copies of all that is open here, for
        milliseconds in which hours may pass."""
        if (sock := self.socks.pop(stream, None)) is not None:
            with sock:
                sock.shutdown(socket.SHUT_RDWR)

    def _watch(self) -> None:
        """Check every lease as it goes out: no row is out twice, also when the worker that had it is dead."""
        send = RemoteWorker.send

        def watch(worker: RemoteWorker, message: Message) -> None:
            if message["t"] == "visit":
                assert self.loop is not None
                rows = self.loop.dispatcher.runs.read
                out = {number for each in self.links for number in each.visits}
                lease = Lease.of(message)
                segment = lease.urls["segment"]
                for row, _, url, *_ in lease.rows():
                    assert rows(segment, row, row + 1)["url"].tolist() == [url.encode()]
                    assert self.leased.get((segment, row)) not in out, "a row leased twice"
                    self.leased[segment, row] = message["visit"]
            send(worker, message)

        self.monkeypatch.setattr(RemoteWorker, "send", watch)

    def outcomes(self) -> dict[str, tuple[str, str]]:
        """URL -> (outcome, reason) of the crawl log, without robots.txt and repeats. Fails when a URL is done twice and
        was not put back in between."""
        found: dict[str, tuple[str, str]] = {}
        for entry in read(self.files, str(JobDir(self.path).crawl_log)):
            url, outcome = entry.url.decode(), entry.notes["outcome"]
            if outcome == "returned":
                assert found.pop(url)[0] == entry.notes["was"]
            elif outcome not in ("retry", "none"):
                assert url not in found, f"{url} is done twice"
                found[url] = (outcome, entry.notes["reason"])
        return found


def star(host: str, pages: int) -> dict[str, list[str]]:
    """A site whose front page links to `pages` others."""
    leaves = [f"http://{host}/{number}" for number in range(pages)]
    return {f"http://{host}/": leaves, **{leaf: [] for leaf in leaves}}
