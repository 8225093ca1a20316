"""Which waiting host is next, in O(log n): a heap of clocks that come due, each with the queue of its waiters.

A waiting host stands in the queue of exactly one of its clocks (its *gates*); a gate with waiters that is free stands
in the heap at the time it comes due. `take` takes the first due gate and its oldest waiter; when another of that host's
clocks is not due, the host moves to that clock's queue and the gate goes to its next waiter. So nothing is looked at
before it can matter, and a thousand hosts on one address cost one heap entry.

Nobody starves: a gate that is due comes before those that come due later; its waiters are served in the order in which
they began to wait, which they keep when they move; a host that comes from another queue does not pass those older than
itself; and one that was turned away too often gets its gates reserved.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import islice

from irlcrawl.frontier.gates import Delay, Gate, HostEntry, Kind, State

TURNED_AWAY_MAX = 8
"""A waiter that came to the front of a queue this often, and each time found another of its clocks busy, gets the next
one reserved. Only hosts that share both of two clocks (an address and a site with a gap) with others ever need it."""

_VISIT_SECONDS_LEAST = 0.1
"""startable: how long a visit is counted to keep a clock that has no gap."""

_DELAY = {Kind.ADDRESS: Delay.ADDRESS, Kind.SITE: Delay.SITE}


class Workbench:
    """Times are unix seconds. `counts`: hosts in queues, by Delay of the queue they stand in."""

    def __init__(self) -> None:
        self.counts = [0] * len(Delay)
        self._heap: list[tuple[float, Gate]] = []
        self._ticket = 0

    def ticket(self, entry: HostEntry) -> None:
        """The host begins to wait, behind all who wait."""
        self._ticket += 1
        entry.ticket = self._ticket
        entry.turned_away = 0

    def wait(self, entry: HostEntry, gate: Gate, now: float) -> None:
        entry.state = State.WAITING
        entry.delay = gate.why if gate.kind == Kind.HOST else _DELAY[Kind(gate.kind)]
        self.counts[entry.delay] += 1
        gate.join(entry)
        self.arm(gate, now)

    def withdraw(self, entry: HostEntry) -> None:
        """Out of the queue it stands in, if it stands in one."""
        if entry.at is not None:
            self.counts[entry.delay] -= 1
            entry.at.leave(entry)

    def hold(self, entry: HostEntry) -> None:
        """The host has all its gates until `free`."""
        for gate in entry.gates:
            gate.held += 1
            if gate.reserved is entry:
                gate.reserved = None

    def unreserve(self, entry: HostEntry, gate: Gate, now: float) -> None:
        if gate.reserved is entry:
            gate.reserved = None
            self.arm(gate, now)

    def arm(self, gate: Gate, now: float) -> None:
        """Into the heap, if the gate is free and its first waiter may have it; to be called when either changed.

        One that is due already goes behind those that were due before, however long ago it was last used: else a
        stream of new hosts would keep the old ones waiting.
        """
        first = gate.first
        if first is None or gate.held or gate.armed:
            return
        if _promised(gate.reserved, first):
            return
        gate.armed = True
        heappush(self._heap, (gate.next if gate.next > now else now, gate))

    def obstacle(self, entry: HostEntry, now: float) -> Gate | None:
        """The clock to wait for: one that is held, else the one due last, else one that an older host waits for or has
        reserved (it is in the heap, and comes to this host as soon as the older one cannot use it). None: none."""
        found: Gate | None = None
        for gate in entry.gates:
            if gate.held:
                return gate
            if gate.next <= now and not _promised(gate.first, entry) and not _promised(gate.reserved, entry):
                continue
            if found is None or gate.next > found.next:
                found = gate
        return found

    def take(self, now: float) -> HostEntry | None:
        """The next host that nothing keeps, out of its queue; None if there is none.

        The caller holds it, or, if it does not, arms its gates for their next waiters.
        """
        heap = self._heap
        while heap and heap[0][0] <= now:
            gate = heappop(heap)[1]
            gate.armed = False
            if gate.held or gate.first is None:
                continue  # it comes back when it is freed, or with a waiter
            if gate.next > now:
                self.arm(gate, now)
                continue
            entry = self._first_of(gate, now)
            if entry is not None:
                return entry
        return None

    def _first_of(self, gate: Gate, now: float) -> HostEntry | None:
        """The oldest waiter of a due, free gate that nothing else keeps; those before it go where they must wait."""
        while (entry := gate.first) is not None:
            if _promised(gate.reserved, entry):
                return None
            self.withdraw(entry)
            other = self.obstacle(entry, now)
            if other is None:
                return entry
            entry.turned_away += 1
            if entry.turned_away > TURNED_AWAY_MAX:
                gate.reserved = entry
            self.wait(entry, other, now)
        return None

    def next_due(self, now: float) -> float | None:
        """When the next gate with a waiter comes due: later than now if `take` just returned None."""
        heap = self._heap
        while heap:
            due, gate = heap[0]
            if gate.first is not None and not gate.held and gate.next <= due:
                return due
            heappop(heap)
            gate.armed = False
            self.arm(gate, now)
        return None

    def due(self, by: float) -> Iterator[Gate]:
        """The free gates with waiters that are due by then, in no order: a walk of the heap from its top."""
        heap = self._heap
        stack = [0]
        while stack:
            index = stack.pop()
            if index >= len(heap) or heap[index][0] > by:
                continue
            gate = heap[index][1]
            if gate.first is not None and not gate.held and gate.next <= by:
                yield gate
            stack.append(2 * index + 1)
            stack.append(2 * index + 2)

    def startable(self, now: float, within_s: float, limit: int) -> tuple[int, set[int]]:
        """What could start within the next seconds: the number of distinct (address, site) pairs, an address counted at
        most as often as its gap lets it start; and the sites of hosts that have no address yet. Stops at `limit` of
        them, and after 16 times as many gates."""
        horizon = now + within_s
        pairs: set[tuple[int, int]] = set()
        starts: dict[Gate, int] = {}  # address -> visits it can still start
        sites: set[int] = set()
        for gate in islice(self.due(horizon), 16 * limit):
            for entry in gate.some(_starts(gate, now, horizon)):
                address = entry.gates[-1]
                if address.kind != Kind.ADDRESS:
                    sites.add(entry.site)
                elif not address.held and address.next <= horizon and (address.key, entry.site) not in pairs:
                    left = starts[address] if address in starts else _starts(address, now, horizon)
                    starts[address] = max(0, left - 1)
                    if left:
                        pairs.add((address.key, entry.site))
            if len(pairs) + len(sites) >= limit:
                break
        return len(pairs), sites


def _promised(older: HostEntry | None, entry: HostEntry) -> bool:
    return older is not None and older.ticket < entry.ticket


def _starts(gate: Gate, now: float, horizon: float) -> int:
    """Visits that a clock due before the horizon allows until then."""
    return 1 + int((horizon - max(now, gate.next)) / (max(gate.gap, gate.backoff) or _VISIT_SECONDS_LEAST))
