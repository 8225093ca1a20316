"""Which waiting host is next, at once: a line of clocks that come due, each with the queue of its waiters.

A waiting host stands in the queue of exactly one of its clocks (its *gates*); a gate with waiters that is free stands
in the line at the time it comes due. `take` takes the first due gate and its oldest waiter; when another of that host's
clocks is not due, the host moves to that clock's queue and the gate goes to its next waiter. So nothing is looked at
before it can matter, and a thousand hosts on one address are one in the line.

Nobody starves: a gate that is due comes before those that come due later; its waiters are served in the order in which
they began to wait, which they keep when they move; a host that comes from another queue does not pass those older than
itself; and one that was turned away too often gets its gates reserved.

An active host is a number here, as a gate is: its row in the columns below, given by `enter`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from irlcrawl.frontier.politeness.columns import NONE, DueLine, take_numbers, view
from irlcrawl.frontier.politeness.entries import HostEntry
from irlcrawl.frontier.politeness.gates import DELAY_NAMES, GONE, Delay, Flag, Gates, Kind

TURNED_AWAY_MAX = 8
"""A waiter that came to the front of a queue this often, and each time found another of its clocks busy, gets the next
one reserved. Only hosts that share both of two clocks (an address and a site with a gap) with others ever need it."""

LINGERING_MAX = 1024
"""Beside as many as there are clocks, so many numbers of forgotten ones may wait in the line to come due."""

VISIT_SECONDS_LEAST = 0.1
"""startable: how long a visit is counted to keep a clock that has no gap."""

_DELAY = np.array([Delay.HOST_GAP, Delay.ADDRESS, Delay.SITE], np.uint8)
"""By Kind of the clock; a host's own has a reason."""

_HOST_BITS = 24
_HOST_MASK = (1 << _HOST_BITS) - 1
"""A place in the order of service: the ticket, then the host's number (at most 16 million of them) in the low bits."""


class Workbench:
    """Times are unix seconds."""

    def __init__(self, gates: Gates) -> None:
        self._gates = gates
        self.entries: list[HostEntry | None] = []
        self.host_gate = array("i")
        self.site_gate = array("i")  # NONE without a gap of sites
        self.address_gate = array("i")  # NONE while the address is not known
        self._order = array("Q")  # place in the order of service
        self._at = array("i")  # the gate in whose queue it stands, or NONE
        self._turned_away = array("B")
        self._free = array("i")
        self._behind: dict[int, array[int]] = {}  # gate -> places of its waiters but the first, oldest first
        self._reserved: dict[int, int] = {}  # gate -> the host it is kept free for
        self._line = DueLine(gates.next)
        self._ticket = 0

    def enter(self, host_gates: NDArray[np.int64], site_gates: NDArray[np.int64]) -> NDArray[np.int64]:
        """Hosts are active, at least one: each has a number until it leaves, and begins to wait behind all who wait.
        Those that are objects go into `entries`."""
        numbers = take_numbers(self._free, len(self.entries), len(host_gates))
        more = max(int(numbers.max()) + 1 - len(self.entries), 0)
        self.entries += [None] * more
        for column in (self.host_gate, self.site_gate, self.address_gate, self._at):
            column.extend(array("i", [NONE]) * more)
        self._order.extend(array("Q", [0]) * more)
        self._turned_away.extend(array("B", [0]) * more)
        view(self.host_gate)[numbers], view(self.site_gate)[numbers] = host_gates, site_gates
        view(self.address_gate)[numbers] = NONE
        self.ticket_all(numbers)
        return numbers

    def leave(self, hosts: Sequence[int]) -> None:
        """They are active no more: their numbers are free for others."""
        self._free.extend(hosts)
        gates = self._gates
        if gates.lingering > LINGERING_MAX and gates.lingering > len(gates) + LINGERING_MAX:  # amortised O(1) a clock
            for gate in self._line.prune(lambda gate: gates.kind[gate] == GONE):
                gates.disarm(gate)

    def gates_of(self, host: int) -> list[int]:
        """Its gates: the host's first, the address's, when known, last."""
        gates = [self.host_gate[host]]
        if (site := self.site_gate[host]) != NONE:
            gates.append(site)
        if (address := self.address_gate[host]) != NONE:
            gates.append(address)
        return gates

    def ticket(self, host: int) -> None:
        """The host begins to wait, behind all who wait."""
        self._ticket += 1
        self._order[host] = self._ticket << _HOST_BITS | host
        self._turned_away[host] = 0

    def ticket_all(self, hosts: NDArray[np.int64]) -> None:
        """As `ticket`, in this order."""
        tickets = np.arange(self._ticket + 1, self._ticket + 1 + len(hosts))
        view(self._order)[hosts] = tickets << _HOST_BITS | hosts
        view(self._turned_away)[hosts] = 0
        self._ticket += len(hosts)

    def due(self, hosts: NDArray[np.int64]) -> NDArray[np.float64]:
        """When all clocks of hosts are due, as Terms.due."""
        due, nexts = np.zeros(len(hosts)), view(self._gates.next)
        for column in (self.host_gate, self.site_gate, self.address_gate):
            gates = view(column)[hosts]
            due = np.maximum(due, np.where(gates == NONE, 0.0, nexts[gates]))
        return due

    # ---- queues

    def place(self, host: int, now: float) -> bool:
        """Into the queue of the clock that keeps it, or, when nothing does, of its own. False: all it lacks is its
        address."""
        gate = self._clock_to_wait_for(host, now)
        if gate == NONE:
            return False
        self._wait(host, gate, now)
        return True

    def _clock_to_wait_for(self, host: int, now: float) -> int:
        gates = self.gates_of(host)
        gate = self._obstacle(host, gates, now)
        return gates[0] if gate == NONE and self.address_gate[host] != NONE else gate

    def _wait(self, host: int, gate: int, now: float) -> None:
        self._queue(host, gate)
        self.arm(gate, now)

    def _queue(self, host: int, gate: int) -> None:
        self._at[host] = gate
        firsts = self._gates.first
        first = firsts[gate]
        if first == NONE:
            firsts[gate] = host
        else:
            order = self._order
            if order[host] < order[first]:
                firsts[gate], host = host, first
            insort(self._behind.setdefault(gate, array("Q")), order[host])

    def withdraw(self, host: int) -> None:
        """Out of the queue it stands in, if it stands in one."""
        gate = self._at[host]
        if gate == NONE:
            return
        self._at[host] = NONE
        behind = self._behind.get(gate)
        if self._gates.first[gate] != host:
            assert behind is not None
            del behind[bisect_left(behind, self._order[host])]
        elif behind is None:
            self._gates.first[gate] = NONE
        else:
            self._gates.first[gate] = behind.pop(0) & _HOST_MASK
        if behind is not None and not behind:
            del self._behind[gate]

    def entry(self, host: int) -> HostEntry:
        entry = self.entries[host]
        assert entry is not None
        return entry

    def entries_of(self, hosts: NDArray[np.int64]) -> list[HostEntry]:
        """Those with these numbers."""
        entries = self.entries
        return [entry for host in hosts.tolist() if (entry := entries[host]) is not None]

    @property
    def waiting(self) -> int:
        """Hosts in queues."""
        return len(self._at) - self._at.count(NONE)

    def delays(self, now: float) -> NDArray[np.int64]:
        """Hosts in queues, by Delay of their queue; without those in front of a clock that is due."""
        at = np.array(self._at, np.int64)
        return self._delays(at[at != NONE]) - self._delays(np.array(list(self.free(now)), np.int64))

    def _delays(self, gates: NDArray[np.int64]) -> NDArray[np.int64]:
        if not len(gates):
            return np.zeros(len(DELAY_NAMES), np.int64)
        kind = view(self._gates.kind)[gates]
        delay = np.where(kind == Kind.HOST, view(self._gates.why)[gates], _DELAY[kind])
        return np.bincount(delay, minlength=len(DELAY_NAMES))

    # ---- clocks

    def hold(self, host: int) -> None:
        """The host has all its gates until they are freed (`held`, then `arm`)."""
        for gate in self.gates_of(host):
            self._gates.held[gate] += 1
            if self._reserved.get(gate) == host:
                del self._reserved[gate]

    def unreserve(self, host: int, gate: int, now: float) -> None:
        if self._reserved and self._reserved.get(gate) == host:
            del self._reserved[gate]
            self.arm(gate, now)

    def arm(self, gate: int, now: float) -> None:
        """Into the line, if the gate is free and its first waiter may have it; to be called when either changed.

        One that is due already goes behind those that were due before, however long ago it was last used: else a
        stream of new hosts would keep the old ones waiting.
        """
        gates = self._gates
        first = gates.first[gate]
        if first == NONE or gates.held[gate] or gates.flags[gate] & Flag.ARMED:
            return
        if self._kept(gate, first):
            return
        gates.flags[gate] |= Flag.ARMED
        self._line.push(gate, now)

    def _kept(self, gate: int, host: int) -> bool:
        """Whether the gate is reserved for one that has waited longer."""
        if not self._reserved:
            return False
        other = self._reserved.get(gate, NONE)
        return other != NONE and self._order[other] < self._order[host]

    def _obstacle(self, host: int, waits_for: Sequence[int], now: float) -> int:
        """The clock to wait for: one that is held, else the one due last, else one that an older host waits for or has
        reserved (it is in the line, and comes to this host as soon as the older one cannot use it). NONE: none."""
        gates = self._gates
        held, nexts, firsts, order = gates.held, gates.next, gates.first, self._order
        found, found_due = NONE, 0.0
        for gate in waits_for:
            if held[gate]:
                return gate
            due, first = nexts[gate], firsts[gate]
            keeps = due > now or (first != NONE and order[first] < order[host]) or self._kept(gate, host)
            if keeps and (found == NONE or due > found_due):
                found, found_due = gate, due
        return found

    def take(self, now: float) -> HostEntry | None:
        """The next host that nothing keeps, out of its queue; None if there is none.

        The caller holds it, or, if it does not, arms its gates for their next waiters.
        """
        while (gate := self._line.pop(now)) != NONE:
            if (host := self.serve(gate, now)) != NONE:
                return self.entries[host]
        return None

    def serve(self, gate: int, now: float) -> int:
        """The host that comes out of a gate that left the line, as `take` says, or NONE."""
        gates = self._gates
        gates.disarm(gate)
        if gates.held[gate] or gates.first[gate] == NONE:
            return NONE  # it comes back when it is freed, or with a waiter
        if gates.next[gate] > now:
            self.arm(gate, now)
            return NONE
        return self._first_of(gate, now)

    def _first_of(self, gate: int, now: float) -> int:
        """The oldest waiter of a due, free gate that nothing else keeps; those before it go where they must wait."""
        while (host := self._gates.first[gate]) != NONE:
            if self._kept(gate, host):
                return NONE
            self.withdraw(host)
            other = self._obstacle(host, self.gates_of(host), now)
            if other == NONE:
                return host
            self._turned_away[host] = min(self._turned_away[host] + 1, 255)
            if self._turned_away[host] > TURNED_AWAY_MAX:
                self._reserved[gate] = host
            self._wait(host, other, now)
        return NONE

    # ---- looking ahead

    def next_due(self, now: float) -> float | None:
        """When the next gate with a waiter comes due: later than now if `take` just returned None."""
        line, gates = self._line, self._gates
        while (first := line.first(now)) is not None:
            due, gate = first
            if gates.first[gate] != NONE and not gates.held[gate] and gates.next[gate] <= due:
                return due
            gate = line.pop(due)
            gates.disarm(gate)
            self.arm(gate, now)
        return None

    def free(self, by: float) -> Iterator[int]:
        """The free gates with waiters that are due by then, in no order."""
        gates = self._gates
        for gate in self._line.due(by):
            if gates.first[gate] != NONE and not gates.held[gate] and gates.next[gate] <= by:
                yield gate

    def startable(self, now: float, within_s: float, limit: int) -> tuple[int, set[int]]:
        """What could start within the next seconds: the number of distinct (address, site) pairs, an address counted at
        most as often as its gap lets it start; and the sites of hosts that have no address yet. Stops at `limit` of
        them, and after 16 times as many gates."""
        gates, horizon = self._gates, now + within_s
        pairs: set[tuple[int, int]] = set()
        starts: dict[int, int] = {}  # address -> visits it can still start
        sites: set[int] = set()
        for gate in islice(self.free(horizon), 16 * limit):
            for host in self._some(gate, self._starts(gate, now, horizon)):
                address, site = self.address_gate[host], self.entry(host).site
                if address == NONE:
                    sites.add(site)
                elif not gates.held[address] and gates.next[address] <= horizon and (address, site) not in pairs:
                    left = starts[address] if address in starts else self._starts(address, now, horizon)
                    starts[address] = max(0, left - 1)
                    if left:
                        pairs.add((address, site))
            if len(pairs) + len(sites) >= limit:
                break
        return len(pairs), sites

    def _starts(self, gate: int, now: float, horizon: float) -> int:
        """Visits that a clock due before the horizon allows until then."""
        gap = self._gates.longest_gap(gate) or VISIT_SECONDS_LEAST
        return 1 + int((horizon - max(now, self._gates.next[gate])) / gap)

    def _some(self, gate: int, count: int) -> Iterator[int]:
        """The first `count` waiters."""
        yield self._gates.first[gate]
        for place in islice(self._behind.get(gate, ()), count - 1):
            yield place & _HOST_MASK
