"""What lies outside a frontier and is played in a long crawl: names, servers, and the processes of the workers.

The workers are the crawler's own (worker/fetch/service.py): real visits, verdicts, rules of robots.txt and harvests.
Played are, of each, the network (`Fetcher` asks the weather), the archive (`Shredder` keeps nothing), the parser (the
links are told, not read) and the pipe to the frontier (`Pipe` passes messages by hand). So a page costs a third of what
it costs with all of them, and a page's meaning is still read by process.py.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from unittest import mock

from drum import Files

from bench._sim.links import Pages
from irlcrawl.base.clock import Clock
from irlcrawl.base.reasons import CRAWL_LOG_STATUS, Reason
from irlcrawl.base.rows import Source
from irlcrawl.base.steps import Steps
from irlcrawl.config.keys import Config
from irlcrawl.crawl import loop as crawl_loop
from irlcrawl.frontier.dispatch.dns import GONE_SECONDS, PASSING_SECONDS, Resolved, ResolveError
from irlcrawl.frontier.dispatch.workers import RemoteWorker
from irlcrawl.worker.archive.unit import Exchange, Location, Unit
from irlcrawl.worker.fetch import service
from irlcrawl.worker.fetch.http import Fetched, Request
from irlcrawl.worker.fetch.wire import Message
from irlcrawl.worker.harvest import process as processing
from irlcrawl.worker.harvest.builder import UnitRows
from irlcrawl.worker.page.links import Found
from tools.simweb.weather import Reply, Weather

TICK_S = 5.0
"""Of the frontier's loop, so that an idle week costs seconds. It has to be below outage.STILL_S, which takes a longer
one for a machine that stood still."""
WORKER_TICK_S = 10.0
PAGES_REMEMBERED = 4096
"""Pages between the fetcher and the parser; each visit has one at a time."""
LOAD_S = 10.0
"""A request counts half as much for the load of its host and its address when it is so old."""
ANSWER_S = 0.02
"""A resolver's answer takes so long."""
_NO_ANSWER = {
    CRAWL_LOG_STATUS[reason]: reason for reason in (Reason.CONNECT, Reason.LOST, Reason.TIMEOUT, Reason.PROTOCOL)
} | {CRAWL_LOG_STATUS[Reason.DNS]: Reason.CONNECT}


class Observer(Protocol):
    """Who is told what the workers and the names do."""

    def resolved(self, name: str, at: float, known: bool) -> None: ...

    def requested(self, url: bytes, fetched: Fetched) -> None: ...

    def found(self, unit: Unit, rows: UnitRows) -> None: ...


class Names:
    """The resolver: the weather's answers, kept as long as the crawler's own resolver keeps them."""

    def __init__(self, weather: Weather, config: Config, clock: Clock, observer: Observer) -> None:
        self._weather, self._params, self._clock, self._observer = weather, config.network, clock, observer
        self._cache: OrderedDict[str, tuple[float, Resolved | ResolveError]] = OrderedDict()
        self.lookups = 0

    @property
    def names(self) -> int:
        return len(self._cache)

    async def alive(self) -> bool:
        """Our own network never fails here."""
        return True

    async def resolve(self, name: str) -> Resolved:
        known = self._cache.get(name)
        if known is None or known[0] <= self._clock.now():
            known = self._cache[name] = await self._ask(name)
            while len(self._cache) > self._params.dns_cache_names:
                self._cache.popitem(last=False)
        if isinstance(known[1], ResolveError):
            raise known[1]
        return known[1]

    async def _ask(self, name: str) -> tuple[float, Resolved | ResolveError]:
        params, now = self._params, self._clock.now()
        answer = self._weather.resolve(name.encode("ascii"), now)
        self.lookups += 1
        self._observer.resolved(name, now, answer is not None and answer.address is not None)
        await asyncio.sleep(ANSWER_S if answer is not None else params.dns_seconds)
        now = self._clock.now()
        if answer is not None and answer.address is not None:
            until = now + max(params.dns_ttl_min_seconds, min(answer.ttl, params.dns_ttl_max_seconds))
            return until, Resolved(answer.address, until)
        gone = answer is not None and answer.permanent
        seconds = GONE_SECONDS if gone else PASSING_SECONDS
        what = "does not exist" if gone else "no answer"
        return now + seconds, ResolveError(name, what, Reason.DNS, permanent=gone)

    def admits(self, address: str) -> bool:
        """None is private here."""
        return True

    def another(self, name: str) -> None:
        """The weather gives one address of each name at a time: the name is asked for again."""
        self._cache.pop(name, None)

    async def close(self) -> None:
        pass


class Loads:
    """Requests a second of late, of each host and address."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[float, float]] = {}  # -> requests a second, as of

    def asked(self, what: str, now: float) -> float:
        """A request begins: the load before it, as a mean that fades."""
        rate, at = self._of.get(what, (0.0, now))
        rate *= 0.5 ** ((now - at) / LOAD_S)
        self._of[what] = (rate + math.log(2.0) / LOAD_S, now)
        return rate


class Served:
    """The pages that are between fetcher and parser."""

    def __init__(self, pages: Pages) -> None:
        self.pages = pages
        self._replies: OrderedDict[bytes, Reply] = OrderedDict()

    def keep(self, url: bytes, reply: Reply) -> None:
        self._replies[url] = reply
        while len(self._replies) > PAGES_REMEMBERED:
            self._replies.popitem(last=False)

    def links(self, url: bytes) -> Found:
        """What a parser would find on the page that was last fetched from a URL."""
        page = self._replies[url].page
        links = [] if page is None else list(dict.fromkeys(self.pages.links(page)))
        found = Found([(link, Source.LINK) for link in links if link != url])
        found.named = len(links)
        return found

    def body(self, reply: Reply) -> bytes:
        """A body with a fingerprint of its own for each content: without digits, which fingerprints leave out."""
        if reply.robots is not None:
            return reply.robots
        content = reply.content if reply.page is None else self.pages.content(reply.page)
        return (b"%x" % content).translate(_LETTERS)


_LETTERS = bytes.maketrans(b"0123456789", b"ghijklmnop")


class Fetcher:
    """An HTTP client whose servers are the weather's, with the deadlines of the configuration."""

    def __init__(
        self, weather: Weather, config: Config, clock: Clock, served: Served, observer: Observer,
        loads: Loads,
    ) -> None:  # fmt: skip
        self._weather, self._limits, self._clock = weather, config.fetch, clock
        self._served, self._observer = served, observer
        self._loads = loads

    async def fetch(self, request: Request) -> Fetched:
        url, started = request.url, self._clock.now()
        loads = self._loads.asked(request.host, started), self._loads.asked(request.address, started)
        reply = self._weather.answer(url, request.address, started, *loads)
        reason = Reason.OK if reply.status > 0 else _NO_ANSWER[reply.status]
        if reply.seconds > self._limits.total_seconds or reason is Reason.TIMEOUT:
            reason = Reason.TIMEOUT
        await asyncio.sleep(max(0.001, min(reply.seconds, self._limits.total_seconds)))
        ended = self._clock.now()
        if reason is not Reason.OK:
            fetched = Fetched(reason, None, 0, started, ended)
        else:
            self._served.keep(url, reply)
            exchange = self._exchange(request, reply, started, ended - started)
            fetched = Fetched(Reason.OK, exchange, reply.status, started, ended)
        self._observer.requested(url, fetched)
        return fetched

    def _exchange(self, request: Request, reply: Reply, started: float, seconds: float) -> Exchange:
        lines = "".join(f"{name}: {value}\r\n" for name, value in reply.header)
        header = f"HTTP/1.1 {reply.status} X\r\n{lines}\r\n".encode("latin-1")
        body = self._served.body(reply)
        return Exchange(request.url, request.address, b"GET / HTTP/1.1\r\n\r\n", header, body, None, started, seconds)

    async def close(self) -> None:
        pass


class Shredder:
    """An archive that keeps nothing, but has places."""

    def __init__(self, files: Files, directory: str, prefix: str, stream: int, **rest: Any) -> None:
        self._stream, self._offset = stream, 0

    @property
    def position(self) -> tuple[int, int]:
        return 0, self._offset

    def append(self, unit: Unit, exchange: Exchange | None) -> Location:
        self._offset += 1
        return Location("shredded", self._stream, 0, self._offset - 1, 1, self._offset - 1, "")

    def sync(self) -> None:
        pass

    def close(self) -> None:
        pass


class Pipe:
    """One end of a wire: messages come out of the other end in the next pass of the loop, in their order."""

    def __init__(self) -> None:
        self.other: Pipe | None = None
        self.on_message: Callable[[Message], None] = lambda message: None
        self.on_close: Callable[[], None] = lambda: None

    def send(self, message: Message) -> None:
        other = self.other
        if other is not None:
            asyncio.get_running_loop().call_soon(lambda: other.on_message(message))

    def close(self) -> None:
        other = self.other
        if other is not None:
            asyncio.get_running_loop().call_soon(lambda: other.on_close())

    def flush(self) -> None:
        pass


class Worker(service.Worker):
    """A worker in the frontier's own process. Its chores come seldom: nothing has to be synced."""

    async def run(self) -> None:
        while not self._failed.done():
            await asyncio.wait((self._failed,), timeout=WORKER_TICK_S)
            if self._harvest.age >= self.config.frontier.harvest_seconds and not self._full:
                self._full = True
                self._chore(self._hand_over(asked=False))
        await self._failed


class Process:
    """Of a worker that is none."""

    pid = os.getpid()

    def wait(self, timeout: float | None = None) -> int:
        return 0

    def kill(self) -> None:
        raise AssertionError("a played worker was killed: it said nothing for too long")


@dataclass
class Stage:
    """Everything played, for one crawl."""

    weather: Weather
    clock: Clock
    files: Files
    observer: Observer
    pages: Pages

    def __post_init__(self) -> None:
        self.served, self.loads = Served(self.pages), Loads()

    @contextmanager
    def set_up(self, config: Config) -> Iterator[None]:
        """While this lasts, what is made of workers is played."""
        finished = processing.finished

        def told(found: UnitRows, unit: Unit, exchange: Exchange | None, location: Location) -> UnitRows:
            rows = finished(found, unit, exchange, location)
            self.observer.found(unit, rows)
            return rows

        def read(body: bytes, content_type: str, url: bytes, *rest: Any, **more: Any) -> Steps[Found]:
            yield from ()
            return self.served.links(url)

        played: list[tuple[Any, str, Any]] = [
            (service, "WarcWriter", Shredder),
            (service, "AnchoredClock", lambda *anchor: self.clock),
            (service, "finished", told),
            (service, "open_fetcher", self._fetcher),
            (processing, "extracting", read),
            (crawl_loop, "TICK_S", TICK_S),
        ]
        with ExitStack() as stack:
            for module, name, value in played:
                stack.enter_context(mock.patch.object(module, name, value))
            yield

    def _fetcher(self, config: Config, clock: Clock) -> Fetcher:
        return Fetcher(self.weather, config, clock, self.served, self.observer, self.loads)

    def add_worker(self, loop: crawl_loop.CrawlLoop, job: Path) -> Worker:
        """A worker as the supervisor would add it."""
        (stream,) = loop.turns.begin_streams(1)
        remote = RemoteWorker(stream, Process())  # type: ignore[arg-type]
        ours, theirs = Pipe(), Pipe()
        ours.other, theirs.other = theirs, ours
        fleet = loop.fleet
        ours.on_message = lambda message: fleet.heard(remote, message)
        ours.on_close = lambda: fleet.closed(remote)
        remote.wire = ours
        worker = Worker(loop.hello(stream), job, theirs, self.files)  # type: ignore[arg-type]
        theirs.on_message = worker.on_message
        fleet.workers.append(remote)
        theirs.send({"t": "ready", "stream": stream, "pid": Process.pid})
        return worker
