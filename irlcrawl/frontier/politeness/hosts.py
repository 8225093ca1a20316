"""An active host as `Politeness` knows it, and two groups of hosts that wait for something other than a clock.

`Unresolved`: hosts whose only obstacle is a missing or outdated address. `Detours`: requests that running visits make
on another host, because robots.txt redirects there (RFC 9309 says to follow it); each such request is a HostEntry of
its own, a detour of the visit that waits for it. A detour may use the clocks that its visit holds, though not before
their gap is over, and goes before all hosts that wait for the other clocks. There are at most as many detours as
visits, and nearly always none, so they stand in no queue: each is looked at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from irlcrawl.base.keys import name_key
from irlcrawl.frontier.politeness.clocks import ClockTable, Kind
from irlcrawl.frontier.politeness.columns import NONE
from irlcrawl.frontier.politeness.gaps import Gaps
from irlcrawl.frontier.politeness.line import ORDINARY
from irlcrawl.frontier.politeness.queues import WaitingHosts


class HostState:
    """Of an entry; a plain number, as clocks.Kind is one."""

    IDLE = 0  # not active: it has nothing to fetch
    WAITING = 1  # for a clock
    UNRESOLVED = 2  # for somebody to ask for its address
    RESOLVING = 3  # for the answer
    LEASED = 4


STATE_NAMES = ("idle", "waiting", "unresolved", "resolving", "leased")


class HostEntry:
    """A host (origin) and what is known of it. The dispatcher's `Host` is a subclass that adds what it needs.

    key: host_key(origin, site); name: bare host name; site: name_key(registrable domain), 0: none.
    address, address_until: as resolved, or as known from the hosts drum; if the address is None or its time is past,
    the entry will come out of `Politeness.unresolved`.
    crawl_delay: seconds, from robots.txt; gap_floor: [site."x"].gap_host_seconds, None: the general one. worth: of its
    next URL, a class of line.py; it counts from the next time the host begins to wait.
    """

    __slots__ = (  # noqa: RUF023 - in order of meaning
        "key", "name", "scheme", "port", "site", "address", "address_until", "crawl_delay", "gap_floor", "worth",
        "detour", "state", "number",
    )  # fmt: skip

    def __init__(
        self,
        *,
        key: int,
        name: str,
        scheme: str,
        port: int,
        site: int,
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
        self.address = address
        self.address_until = address_until
        self.crawl_delay = crawl_delay
        self.gap_floor = gap_floor
        self.worth = ORDINARY
        self.detour: Detour | None = None
        self.state: int = HostState.IDLE
        self.number = NONE  # its row in WaitingHosts while it is active

    @property
    def clock_host(self) -> int:
        """The key of its host's clock, which http and https share."""
        return name_key(self.name.encode())

    def __repr__(self) -> str:
        return f"HostEntry({self.scheme}://{self.name}:{self.port}, {STATE_NAMES[self.state]}, {self.address})"


class Detour:
    """What makes an entry a detour: a request that the running visit of `parent` waits for."""

    __slots__ = ("not_before", "parent", "token")

    def __init__(self, parent: HostEntry, token: object, not_before: float) -> None:
        self.parent = parent
        self.token = token  # the caller's own, to know the detour again
        self.not_before = not_before  # unix seconds: until then the gap of clocks shared with the parent runs


class Detours:
    """The detours of visits that are out, waiting or leased themselves: one per visit at a time."""

    def __init__(self, gaps: Gaps, table: ClockTable, waiting: WaitingHosts) -> None:
        self._gaps, self._table, self._waiting = gaps, table, waiting
        self._of: dict[HostEntry, HostEntry] = {}  # parent -> its detour

    def __len__(self) -> int:
        return len(self._of)

    def __contains__(self, parent: HostEntry) -> bool:
        return parent in self._of

    def add(self, entry: HostEntry, parent: HostEntry) -> None:
        self._of[parent] = entry

    def end(self, entry: HostEntry) -> None:
        """If the entry is a detour, it is over."""
        if entry.detour is not None and self._of.get(entry.detour.parent) is entry:
            del self._of[entry.detour.parent]

    def take_from(self, parent: HostEntry) -> HostEntry | None:
        """The detour of a visit that is over, no longer counted as its detour; None if it has none."""
        return self._of.pop(parent, None)

    def dues(self) -> Iterator[tuple[float, HostEntry]]:
        """(when it may start, detour) of those that wait, without those that lack an address or wait for a clock that
        another visit holds."""
        for entry in self._of.values():
            due = self._due(entry)
            if due is not None:
                yield due, entry

    def _due(self, entry: HostEntry) -> float | None:
        detour = entry.detour
        if detour is None or entry.state != HostState.WAITING:
            return None
        due = detour.not_before
        table, parents = self._table, self._waiting.clocks_of(detour.parent.number)
        for clock in self._waiting.clocks_of(entry.number):
            if not table.held[clock]:
                due = max(due, table.next[clock])
            elif clock not in parents:
                return None
        return due

    def pause(self, entry: HostEntry, joined: Sequence[int], now: float, fetch_s: float = 0.0) -> None:
        """A detour comes to use the clocks `joined`. The gap of those it shares with its visit runs from now, because
        the visit's request, of `fetch_s` seconds, just ended. Nothing if the entry is no detour."""
        detour = entry.detour
        if detour is None:
            return
        table, parents = self._table, self._waiting.clocks_of(detour.parent.number)
        for clock in joined:
            if table.held[clock] and clock in parents:
                gap = table.longest_gap(clock)
                if table.kind[clock] == Kind.HOST:
                    gap = max(gap, entry.crawl_delay, detour.parent.crawl_delay, self._gaps.stretch(fetch_s))
                detour.not_before = max(detour.not_before, now + gap)


class Unresolved:
    """Hosts in state UNRESOLVED or RESOLVING, `len` of them; `resolving` of these have been asked for."""

    def __init__(self) -> None:
        self.resolving = 0
        self._hosts = 0
        self._sites: dict[int, int] = {}  # site -> how many of its hosts are here
        self._queue: deque[HostEntry] = deque()  # some of them have left

    def __len__(self) -> int:
        return self._hosts

    def add(self, entry: HostEntry) -> None:
        """The host waits to be asked for; a detour goes first."""
        entry.state = HostState.UNRESOLVED
        self._hosts += 1
        self._sites[entry.site] = self._sites.get(entry.site, 0) + 1
        if entry.detour is None:
            self._queue.append(entry)
        else:
            self._queue.appendleft(entry)

    def remove(self, entry: HostEntry) -> None:
        """The host has its address, or is active no more."""
        self._hosts -= 1
        self.resolving -= entry.state == HostState.RESOLVING
        left = self._sites[entry.site] - 1
        if left:
            self._sites[entry.site] = left
        else:
            del self._sites[entry.site]
        entry.state = HostState.IDLE
        if len(self._queue) > 2 * self._hosts + 1024:  # those that went before they were asked for
            self._queue = deque(other for other in self._queue if other.state == HostState.UNRESOLVED)

    def ask(self) -> HostEntry | None:
        """The next host to be asked for; None if there is none."""
        while self._queue:
            entry = self._queue.popleft()
            if entry.state == HostState.UNRESOLVED:
                entry.state = HostState.RESOLVING
                self.resolving += 1
                return entry
        return None

    def sites_with(self, others: Iterable[int]) -> int:
        """How many distinct sites the hosts here and `others` (distinct sites) have together."""
        return len(self._sites) + sum(site not in self._sites for site in others)
