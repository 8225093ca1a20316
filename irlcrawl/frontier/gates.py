"""A clock with the queue of hosts that wait for it, and the host that waits: what Politeness and Clocks are made of."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from heapq import heappop, heappush
from typing import NamedTuple

from irlcrawl.rows import name_key

BACKOFF_MEMORY = 8.0
"""An idle clock remembers its back-off for this many times its length after it came due."""


class Kind(IntEnum):
    HOST = 0  # key: name_key of the bare host name, so that http and https share it
    ADDRESS = 1  # key: name_key of the address as text
    SITE = 2  # key: name_key of the registrable domain


class Promise(NamedTuple):
    """No request to (kind, key) before `gap` seconds after the last one ended."""

    kind: int
    key: int
    gap: float


REBOOT = len(Kind)
"""The kind of a Promise that says: after a reboot the crawl was opened at unix seconds `gap`, see Clocks.opened."""


class Gate:
    """One clock and the hosts that wait for it, the oldest ticket first.

    The first waiter has a slot of its own: nearly every gate belongs to a single host, and needs no list then.
    A host leaves the middle of the queue by pointing its `at` elsewhere; what it leaves behind is skipped later.
    """

    __slots__ = (  # noqa: RUF023 - in order of meaning
        "kind", "key", "next", "wait", "gap", "backoff", "why", "lenient", "held", "users", "waiting", "first", "rest",
        "armed", "reserved", "news", "unsaved", "stored",
    )  # fmt: skip

    def __init__(self, kind: int, key: int, due: float = 0.0, gap: float = 0.0, backoff: float = 0.0) -> None:
        self.kind = kind
        self.key = key
        self.next = due  # unix seconds; never goes back
        self.wait = 0.0  # seconds from the end of an exchange to `next`, whatever the reason
        self.gap = gap  # seconds from the end of an exchange to the next start, back-off and Crawl-delay not counted
        self.backoff = backoff  # seconds; 0 none
        self.why = 0  # Delay: what set `next`
        self.lenient = False  # an address inside politeness.shared_addresses: no back-off
        self.held = 0  # leases that use it now; above 1 only for an errand beside its own visit
        self.users = 0  # active hosts that use it
        self.waiting = 0  # hosts in this queue
        self.first: HostEntry | None = None
        self.rest: list[tuple[int, HostEntry]] | None = None  # heap of (ticket, host), some of them gone
        self.armed = False  # in the heap of Politeness
        self.reserved: HostEntry | None = None  # kept free for a host that has been turned away too often
        self.news = False  # moved since the last Clocks.news
        self.unsaved = False  # moved since the last Clocks.delta
        self.stored = False  # a back-off of it is on disk

    def __lt__(self, other: Gate) -> bool:  # the last resort of the heap's order
        return self.key < other.key

    def __repr__(self) -> str:
        return f"Gate({Kind(self.kind).name}, {self.key:016x}, next={self.next:.3f}, held={self.held})"

    def join(self, entry: HostEntry) -> None:
        entry.at = self
        self.waiting += 1
        first = self.first
        if first is None:
            self.first = entry
            return
        if entry.ticket < first.ticket:
            self.first, entry = entry, first
        if self.rest is None:
            self.rest = []
        heappush(self.rest, (entry.ticket, entry))

    def leave(self, entry: HostEntry) -> None:
        entry.at = None
        self.waiting -= 1
        rest = self.rest
        if self.first is not entry:
            assert rest is not None
            if len(rest) > 2 * self.waiting + 32:
                self.rest = sorted(item for item in rest if self._waits(*item))  # a sorted list is a heap
            return
        self.first = None
        while rest:
            ticket, other = heappop(rest)
            if self._waits(ticket, other):
                self.first = other
                return
        self.rest = None

    def some(self, count: int) -> Iterator[HostEntry]:
        """The first waiter and up to `count` - 1 others, in no order."""
        if self.first is not None:
            yield self.first
        for ticket, entry in (self.rest or ())[: count - 1]:
            if self._waits(ticket, entry):
                yield entry

    def _waits(self, ticket: int, entry: HostEntry) -> bool:
        return entry.at is self and entry.ticket == ticket

    def promises(self, now: float) -> bool:
        """Whether it must be remembered although nobody uses it."""
        return self.next > now or (self.backoff > 0 and self.next + BACKOFF_MEMORY * self.backoff > now)


class Delay(IntEnum):
    """What a host waits for; the name as people see it is DELAY_NAMES[delay]."""

    HOST_GAP = 0
    CRAWL_DELAY = 1
    RETRY_AFTER = 2
    BACKOFF = 3
    ADDRESS = 4
    SITE = 5
    DNS = 6


DELAY_NAMES = ("host gap", "crawl-delay", "retry-after", "backoff", "address", "site", "dns")


class State(IntEnum):
    IDLE = 0  # not here
    WAITING = 1  # for a clock
    UNRESOLVED = 2  # for somebody to ask for its address
    RESOLVING = 3  # for the answer
    LEASED = 4


class HostEntry:
    """An active host (origin). The frontier subclasses it to add what it needs: `class Host(HostEntry): __slots__ = …`.

    key: name_key(origin); name: bare host name; clock_host: name_key(name); site: name_key(registrable domain), 0 none.
    address/address_until: as resolved, or known from the hosts drum; None or past: it will come out of `unresolved`.
    crawl_delay: seconds, from robots.txt; gap_floor: [site."x"].gap_host_seconds, None for the general one.
    """

    __slots__ = (  # noqa: RUF023 - in order of meaning
        "key", "name", "scheme", "port", "clock_host", "site", "address", "address_until", "crawl_delay", "gap_floor",
        "errand", "state", "ticket", "at", "gates", "delay", "turned_away",
    )  # fmt: skip

    def __init__(
        self,
        *,
        key: int,
        name: str,
        scheme: str,
        port: int,
        site: int,
        clock_host: int | None = None,
        address: str | None = None,
        address_until: float = 0.0,
        crawl_delay: float = 0.0,
        gap_floor: float | None = None,
    ) -> None:
        self.key = key
        self.name = name
        self.scheme = scheme
        self.port = port
        self.site = site
        self.clock_host = name_key(name.encode()) if clock_host is None else clock_host
        self.address = address
        self.address_until = address_until
        self.crawl_delay = crawl_delay
        self.gap_floor = gap_floor
        self.errand: Errand | None = None
        self.state = State.IDLE
        self.ticket = 0  # order of service
        self.at: Gate | None = None  # the queue it waits in
        self.gates: tuple[Gate, ...] = ()  # host first; the site if sites have a gap; the address, when known, last
        self.delay = 0  # Delay it is counted under
        self.turned_away = 0

    def __repr__(self) -> str:
        return f"HostEntry({self.scheme}://{self.name}:{self.port}, {State(self.state).name}, {self.address})"


class Errand:
    """What makes an entry a slot asked for by a running visit: it goes first, and beside the clocks its visit holds."""

    __slots__ = ("not_before", "parent", "token")

    def __init__(self, parent: HostEntry, token: object, not_before: float) -> None:
        self.parent = parent
        self.token = token
        self.not_before = not_before  # unix seconds: the gap of the clocks shared with the parent
