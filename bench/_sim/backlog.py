"""Which hosts have URLs to give at a moment, and whether the crawl uses them: how a long crawl's capacity is measured.

The backlog is kept by whoever plays the workers, apart from the crawler's own books: a URL waits from the moment a page
with a link to it was read (or a repeat of it is due) until it is asked for or given up. At moments that `every` spreads
over the crawl each host with a waiting URL is one of

    used      a visit of it is out, or its own clock forbids a request: its gap, its Crawl-delay, its Retry-After
    shared    only the clock of its address or of its site forbids one
    down      what it has to give could not be had now
    resting   it would answer and no clock forbids it, but its last exchange failed: the crawler waits on its own (also
              where a redirect of another host's robots.txt was answered there meanwhile)
    full      it could be asked, but the fetching capacity (--rate, or the workers' places) is spent
    idle      it could be asked, and is not

Capacity used = used / (used + idle), in host-seconds; each moment stands for the time since the one before it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

import numpy as np

from irlcrawl.base.clock import Clock
from irlcrawl.base.keys import name_key
from irlcrawl.base.names import Names
from irlcrawl.base.reasons import WITHOUT_RESPONSE, Class, Reason
from irlcrawl.base.rows import NO_SEGMENT, Robots
from irlcrawl.base.url import host_of
from irlcrawl.crawl.loop import CrawlLoop
from irlcrawl.frontier.politeness.clocks import Delay, Kind
from irlcrawl.frontier.politeness.columns import NONE
from irlcrawl.frontier.politeness.politeness import HostState
from irlcrawl.frontier.state.hosts import STATE, redated
from irlcrawl.worker.archive.crawl_log import split_line
from irlcrawl.worker.archive.unit import Unit
from irlcrawl.worker.fetch.http import Fetched
from irlcrawl.worker.harvest.builder import UnitRows
from tools.simweb.weather import Weather

INTERVAL_SHARE = 0.01
INTERVAL_S = (20.0, 600.0)
STATES = ("used", "shared", "down", "resting", "full", "idle")
IDLE_WHERE = ("in memory", "not in memory")
_TROUBLE = WITHOUT_RESPONSE | {Reason.THROTTLED}


class Keys:
    """A set of 64-bit keys of a fixed size, so that it does not look like memory of the crawl's. ValueError when it is
    full. Key 0 is taken for 1."""

    def __init__(self, bits: int) -> None:
        self._cells = memoryview(np.full(1 << bits, 0, np.uint64))  # type: ignore[arg-type]
        self._mask, self._room = (1 << bits) - 1, (1 << bits) * 3 // 4

    def add(self, key: int) -> bool:
        """Whether the key is new."""
        cells, mask, key = self._cells, self._mask, key or 1
        at = key & mask
        while held := cells[at]:
            if held == key:
                return False
            at = (at + 1) & mask
        if not self._room:
            raise ValueError("more URLs than there is room for: raise --urls-max")
        self._room -= 1
        cells[at] = key
        return True


@dataclass(slots=True)
class Waiting:
    """The URLs of one host that wait."""

    name: str
    url: bytes  # one of them, or the last there was
    urls: int = 0
    later: list[float] = field(default_factory=list)  # a heap: when repeats are due, unix seconds
    failing: bool = False  # its last exchange

    def count(self, now: float) -> int:
        """URLs that may be asked for at `now`."""
        while self.later and self.later[0] <= now:
            heappop(self.later)
            self.urls += 1
        return self.urls


class Backlog:
    """`played.Observer`, and the samples. `loop` is the crawl's, set once it is there."""

    def __init__(self, weather: Weather, clock: Clock, seed: int, urls_bits: int = 22) -> None:
        self._weather, self._clock, self._random = weather, clock, random.Random(seed)
        self._known = Keys(urls_bits)
        self._hosts: dict[int, Waiting] = {}
        self._names = Names()
        self._unnamed: set[str] = set()  # names whose last question had no answer
        self.loop: CrawlLoop | None = None
        self.full = lambda: False
        self.seconds = dict.fromkeys(STATES, 0.0)  # host-seconds
        self.idle = dict.fromkeys(IDLE_WHERE, 0.0)
        self.idle_of: dict[str, float] = {}  # host name -> seconds it was idle
        self.requests: dict[str, int] = {}
        self.questions: list[tuple[float, str, bool]] = []  # names asked for: when, name, whether there was an address

    # ---- what happens

    def resolved(self, name: str, at: float, known: bool) -> None:
        if not known or name in self._unnamed:
            self.questions.append((at, name, known))
        (self._unnamed.discard if known else self._unnamed.add)(name)

    def requested(self, url: bytes, fetched: Fetched) -> None:
        kind = _kind(url, fetched)
        self.requests[kind] = self.requests.get(kind, 0) + 1

    def seeds(self, rows: list[tuple[int, int, bytes]]) -> None:
        """(key, host, URL) of each."""
        for key, host, url in rows:
            self._new(key, host, url)

    def found(self, unit: Unit, rows: UnitRows) -> None:
        now = self._clock.now()
        if unit.segment != NO_SEGMENT:
            host = self._hosts[unit.host]
            host.count(now)
            host.urls -= 1
            if unit.cls == Class.RETRY and unit.retry_due is not None:
                heappush(host.later, unit.retry_due)
        elif unit.host in self._hosts and unit.robots is not None:
            host = self._hosts[unit.host]
        else:
            return
        if unit.reason is not Reason.ROBOTS:
            denied = unit.robots is not None and unit.robots.get("robots") == Robots.DENY
            host.failing = denied or unit.reason in _TROUBLE or unit.status >= 500
        for key, _, host_key, _, url in rows.links:
            self._new(key, host_key, url)

    def _new(self, key: int, host: int, url: bytes) -> None:
        if not self._known.add(key):
            return
        waiting = self._hosts.get(host)
        if waiting is None:
            waiting = self._hosts[host] = Waiting(host_of(url), url)
        waiting.urls += 1
        waiting.url = url

    def told(self, lines: list[bytes]) -> None:
        """Lines of the crawl log: those without a worker's stream are of URLs that left without a request."""
        for text in lines:
            for line in text.split(b"\n"):
                fields = split_line(line)
                if fields[7] == b"-":
                    waiting = self._hosts.get(self._names.of(fields[3])[1])
                    if waiting is not None:
                        waiting.count(self._clock.now())
                        waiting.urls -= 1

    # ---- samples

    def interval(self, elapsed: float) -> float:
        """Seconds until the next sample, `elapsed` seconds into the crawl."""
        low, high = INTERVAL_S
        return min(max(INTERVAL_SHARE * elapsed, low), high) * self._random.uniform(0.5, 1.5)

    def sample(self, seconds: float) -> None:
        """Look at every host with a waiting URL; each counts for so many seconds."""
        now = self._clock.now()
        full = self.full()
        for key, waiting in self._hosts.items():
            if (waiting.urls or waiting.later) and waiting.count(now) > 0:
                self._count(key, waiting, now, full, seconds)

    def _count(self, key: int, waiting: Waiting, now: float, full: bool, seconds: float) -> None:
        state = self._state(key, waiting, now)
        if state == "idle" and full:
            state = "full"
        self.seconds[state] += seconds
        if state == "idle":
            assert self.loop is not None
            self.idle[IDLE_WHERE[key not in self.loop.dispatcher.hosts]] += seconds
            self.idle_of[waiting.name] = self.idle_of.get(waiting.name, 0.0) + seconds

    def _state(self, key: int, waiting: Waiting, now: float) -> str:
        assert self.loop is not None
        dispatcher = self.loop.dispatcher
        host = dispatcher.hosts.get(key)
        if host is not None and host.state == HostState.LEASED:
            return "used"
        table = dispatcher.politeness.clocks.table
        clock = table.find(Kind.HOST, name_key(waiting.name.encode()))
        failing = waiting.failing or waiting.name in self._unnamed
        closed = clock != NONE and (table.next[clock] > now or table.held[clock])
        if closed and (not failing or table.why[clock] in (Delay.RETRY_AFTER, Delay.CRAWL_DELAY)):
            return "used"
        if not self._up(waiting, now):
            return "down"
        if failing or (host is None and self._rests(key, now)):
            return "resting"
        return "shared" if self._others_hold(waiting, host, now) else "idle"

    def _rests(self, key: int, now: float) -> bool:
        """Whether the crawler has put the host off after a failure. What another host heard meanwhile (that their name
        has an address again, say) ends no rest."""
        assert self.loop is not None
        state = self.loop.state
        found, values = state.hosts.lookup(np.array([key], np.uint64))
        return bool(found[0]) and bool(redated(values.select(STATE), state.clock_set)["rests_until"][0] > now)

    def _others_hold(self, waiting: Waiting, host: Any, now: float) -> bool:
        assert self.loop is not None
        table = self.loop.dispatcher.politeness.clocks.table
        answer = self._weather.resolve(waiting.name.encode(), now)
        address = host.address if host is not None and host.address else answer.address if answer else None
        clocks = [table.find(Kind.ADDRESS, name_key(address.encode()))] if address else []
        if host is not None and host.site:
            clocks.append(table.find(Kind.SITE, host.site))
        return any(clock != NONE and (table.next[clock] > now or table.held[clock]) for clock in clocks)

    def _up(self, waiting: Waiting, now: float) -> bool:
        return self._weather.obtainable(waiting.url, now, now + 1.0)

    # ---- figures

    def idlest(self, count: int) -> list[tuple[str, float]]:
        """The hosts that were idle longest, with their seconds."""
        return sorted(self.idle_of.items(), key=lambda item: -item[1])[:count]

    @property
    def capacity_used(self) -> float | None:
        """None where no host ever had a URL to give."""
        could = self.seconds["used"] + self.seconds["idle"]
        return self.seconds["used"] / could if could else None


def _kind(url: bytes, fetched: Fetched) -> str:
    """What a request was worth."""
    if url.endswith(b"/robots.txt") and url.count(b"/") == 3:
        return "robots" if fetched.reason is Reason.OK and fetched.status < 500 else "robots without an answer"
    if fetched.reason is not Reason.OK:
        return "no answer"
    if fetched.status in (429, 503):
        return "throttled"
    return f"{fetched.status // 100}xx"
