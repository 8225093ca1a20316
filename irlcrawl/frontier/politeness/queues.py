"""Which waiting host is next? `WaitingHosts` has a queue of hosts for each clock, and a line of clocks that come due.

A host may be visited when all its clocks are due and held by no other visit: the clock of its name, of its address, and
of its site where that has one. (A paced clock is never held: it runs again from the moment a visit begins.) With
100,000 hosts waiting, the next one must be found without looking at many. Two rules do that:

1. A waiting host stands in the queue of *one* of its clocks, one that keeps it from being visited now (or, if none
   does, in that of its own name).
2. A clock that has a queue and is not held stands in the line, at the time it comes due.

    the line:  192.0.2.1, due at 10.0   |   b.test, due at 10.5   |   192.0.2.7, due at 12.0
    queues:    a.test, c.test, d.test   |   b.test                |   e.test, f.test

`take` takes a due clock out of the line, by the worth of its first host (line.py), and the oldest host of that clock's
queue. If another of the host's clocks is not due, or is held, the host moves to that clock's queue and the next host of
the first clock has its turn.
So no host is looked at before it can matter, and a thousand hosts at one address are one entry in the line.

Nobody starves: of the clocks that are due every other one taken is the one that has been due longest; a queue is served
in the order in which its hosts began to wait, which they keep when they move from one queue to another; a host that
comes from another queue does not pass hosts older than itself; and a clock is reserved for a host that found it due
many times in vain, because each time another of its clocks was busy (TURNED_AWAY_MAX).

This is the workbench of BUbiNG (Boldi, Marino, Santini, Vigna, 2014): there a queue of addresses, each with a queue of
its hosts, both ordered by when they may be asked again. We need more than that nesting, because clocks overlap in other
ways: http and https share the clock of a name, a site's hosts have many addresses. So every kind of clock has queues.
Mercator (Heydon & Najork, 1999) had a queue per thread, in which a slow host keeps all behind it waiting.

Tried before: an object per clock, and a heap of tuples for the line. That found the next host in 5 to 9 us, and the
columns do in 6 to 17 on a busy machine, but it took 710 bytes a host instead of 181 (`python -m bench politeness`).

Everything here is a number: a clock is its row in ClockTable, an active host its row in the columns below, given by
`enter`. Where hundreds of hosts begin to wait or are visited together, `*_many` does it with numpy, at about a tenth of
the cost. Hosts that share no clock cannot affect each other, so those are handled as columns, and only their order in
the line matters; a host that shares a clock with another one of the batch is handled by itself.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from irlcrawl.frontier.politeness.clocks import ALL_FLAGS, DELAY_NAMES, GONE, ClockTable, Delay, Flag, Kind
from irlcrawl.frontier.politeness.columns import NONE, F8s, I8s, take_numbers, view
from irlcrawl.frontier.politeness.line import ORDINARY, DueLine

TURNED_AWAY_MAX = 8
"""A host that came to the front of a queue more often than this, and each time found another of its clocks busy, has
the next clock reserved for it. Only hosts that share two clocks (an address, and a site with a gap) with others ever
need it."""

LINGERING_MAX = 1024
"""The line may hold so many forgotten clocks more than there are clocks."""

VISIT_SECONDS_LEAST = 0.1
"""startable: for how long a visit is taken to hold a clock that has no gap."""

_DELAY = np.array([Delay.HOST_GAP, Delay.ADDRESS, Delay.SITE], np.uint8)
"""By the Kind of a clock, what its queue waits for; of a host's own clock the column `why` knows better."""

_HOST_BITS = 24
_HOST_MASK = (1 << _HOST_BITS) - 1
"""A place in the order of service is a ticket, with the host's number (at most 16 million) in the low bits."""


class WaitingHosts:
    """Times are unix seconds. Columns of hosts and of clocks are i8; a table of clocks is i8[hosts, 3]."""

    def __init__(self, table: ClockTable) -> None:
        self._table = table
        self.host_clock = array("i")
        self.site_clock = array("i")  # NONE if its site has no clock
        self.address_clock = array("i")  # NONE while its address is not known
        self.queue_clock = array("i")  # the clock in whose queue it stands, or NONE
        self.worth = array("B")  # a class of line.py, set by its owner before the host begins to wait
        self._order = array("Q")  # place in the order of service
        self._turned_away = array("B")
        self._free = array("i")
        self._behind: dict[int, array[int]] = {}  # clock -> places of its hosts but the first, oldest first
        self._reserved: dict[int, int] = {}  # clock -> the host it is kept for
        self._line = DueLine(table.next, self._worth_at)
        self._ticket = 0

    # ---- active hosts and their clocks

    def _worth_at(self, clock: int) -> int:
        """That of the host at the front of its queue."""
        host = self._table.first[clock]
        return self.worth[host] if host != NONE else ORDINARY

    def enter(self, host_clocks: I8s, site_clocks: I8s, worths: NDArray[np.uint8]) -> I8s:
        """Hosts become active, at least one, behind all who wait: their numbers, each good until the host leaves."""
        used = len(self.queue_clock)
        numbers = take_numbers(self._free, used, len(host_clocks))
        more = max(int(numbers.max()) + 1 - used, 0)
        for column in (self.host_clock, self.site_clock, self.address_clock, self.queue_clock):
            column.extend(array("i", [NONE]) * more)
        self._order.extend(array("Q", [0]) * more)
        self._turned_away.extend(array("B", [0]) * more)
        self.worth.extend(array("B", [ORDINARY]) * more)
        view(self.worth)[numbers] = worths
        view(self.host_clock)[numbers], view(self.site_clock)[numbers] = host_clocks, site_clocks
        view(self.address_clock)[numbers] = NONE
        self.ticket_many(numbers)
        return numbers

    def leave(self, hosts: Sequence[int]) -> None:
        """Hosts that stand in no queue are active no more: their numbers are free for others."""
        self._free.extend(hosts)
        table = self._table
        if table.lingering > LINGERING_MAX and table.lingering > len(table) + LINGERING_MAX:  # amortised O(1) a clock
            for clock in self._line.prune(lambda clock: table.kind[clock] == GONE):
                table.disarm(clock)

    def clocks_of(self, host: int) -> list[int]:
        """The host's clocks: that of its name first, then its site's, if it has one, then its address's, if known."""
        clocks = [self.host_clock[host]]
        if (site := self.site_clock[host]) != NONE:
            clocks.append(site)
        if (address := self.address_clock[host]) != NONE:
            clocks.append(address)
        return clocks

    def clocks_of_many(self, hosts: I8s) -> I8s:
        """As `clocks_of`, for many hosts: i8[hosts, 3] with the clock of its name, site and address; NONE for none."""
        columns = (self.host_clock, self.site_clock, self.address_clock)
        return np.stack([view(column)[hosts] for column in columns], axis=1).astype(np.int64)

    # ---- queues

    def ticket(self, host: int) -> None:
        """The host begins to wait, behind all who wait."""
        self._ticket += 1
        self._order[host] = self._ticket << _HOST_BITS | host
        self._turned_away[host] = 0

    def ticket_many(self, hosts: I8s) -> None:
        """As `ticket`, for many hosts in this order."""
        tickets = np.arange(self._ticket + 1, self._ticket + 1 + len(hosts))
        view(self._order)[hosts] = tickets << _HOST_BITS | hosts
        view(self._turned_away)[hosts] = 0
        self._ticket += len(hosts)

    def place(self, host: int, now: float) -> bool:
        """Put the host into the queue of the clock that keeps it, or, when none does, of its own. False, and it stands
        in no queue, if all it lacks is its address."""
        self._line.come_due(now)
        clock = self._clock_to_wait_for(host, now)
        if clock == NONE:
            return False
        self._queue(host, clock)
        self.arm(clock, now)
        return True

    def place_many(self, hosts: I8s, now: float) -> I8s:
        """As `place`, for hosts that hold nothing and have the newest tickets, in this order, while no clock is
        reserved. Returns the clock in whose queue each went, NONE for none; the caller must `arm_many` them."""
        self._line.come_due(now)
        rows, table = self.clocks_of_many(hosts), self._table
        there = rows != NONE
        held, next_, first = (view(column)[rows] for column in (table.held, table.next, table.first))
        next_ = np.where(there & (held > 0), np.inf, next_)
        keeps = there & ((next_ > now) | (first != NONE))
        worst = np.where(keeps, next_, -np.inf).argmax(axis=1)  # the first of several, as one by one
        kept = keeps.any(axis=1)
        at = rows[np.arange(len(hosts)), np.where(kept, worst, 0)]
        # A host that waits for a clock for which nobody did is news to a host that would be next there: that can be the
        # clock of its name, which http and https share. Any other clock keeps them all, or none.
        distinct, count = np.unique(rows[:, 0], return_counts=True)
        twins = np.isin(rows[:, 0], distinct[count > 1]) if len(distinct) < len(hosts) else np.zeros(len(hosts), bool)
        at[~twins & ~kept & ~there[:, 2]] = NONE
        alone = np.flatnonzero(~twins)
        self._queue_many(hosts[alone], at[alone])
        for place in np.flatnonzero(twins).tolist():
            host = int(hosts[place])
            at[place] = clock = self._clock_to_wait_for(host, now)
            if clock != NONE:
                self._queue(host, clock)
        return at

    def _clock_to_wait_for(self, host: int, now: float) -> int:
        clocks = self.clocks_of(host)
        clock = self._obstacle(host, clocks, now)
        return clocks[0] if clock == NONE and self.address_clock[host] != NONE else clock

    def _obstacle(self, host: int, clocks: Sequence[int], now: float) -> int:
        """The clock to wait for: one that is held, else the one due last, else one that an older host waits for or has
        reserved (it is in the line, and comes to this host as soon as the older one cannot use it). NONE: none."""
        table = self._table
        held, nexts, firsts, order = table.held, table.next, table.first, self._order
        found, found_due = NONE, 0.0
        for clock in clocks:
            if held[clock]:
                return clock
            due, first = nexts[clock], firsts[clock]
            keeps = due > now or (first != NONE and order[first] < order[host]) or self._kept(clock, host)
            if keeps and (found == NONE or due > found_due):
                found, found_due = clock, due
        return found

    def _queue(self, host: int, clock: int) -> None:
        self.queue_clock[host] = clock
        firsts = self._table.first
        first = firsts[clock]
        if first == NONE:
            firsts[clock] = host
        else:
            order = self._order
            if order[host] < order[first]:
                firsts[clock], host = host, first
            insort(self._behind.setdefault(clock, array("Q")), order[host])

    def _queue_many(self, hosts: I8s, at: I8s) -> None:
        some = at != NONE
        hosts, at = hosts[some], at[some]
        if not len(hosts):
            return
        view(self.queue_clock)[hosts] = at
        firsts = view(self._table.first)
        front = np.zeros(len(hosts), np.bool_)
        front[np.unique(at, return_index=True)[1]] = True
        front &= firsts[at] == NONE
        firsts[at[front]] = hosts[front]
        order, behind = self._order, self._behind
        for host, clock in zip(hosts[~front].tolist(), at[~front].tolist()):  # queues are lists
            insort(behind.setdefault(clock, array("Q")), order[host])

    def withdraw(self, host: int) -> None:
        """Take the host out of its queue, if it stands in one."""
        clock = self.queue_clock[host]
        if clock == NONE:
            return
        self.queue_clock[host] = NONE
        behind = self._behind.get(clock)
        if self._table.first[clock] != host:
            assert behind is not None
            del behind[bisect_left(behind, self._order[host])]
        elif behind is None:
            self._table.first[clock] = NONE
        else:
            self._table.first[clock] = behind.pop(0) & _HOST_MASK
        if behind is not None and not behind:
            del self._behind[clock]

    # ---- clocks: held, reserved, in the line

    @property
    def reserves(self) -> bool:
        """Whether some clock is reserved for a host. The many-forms take no account of that."""
        return bool(self._reserved)

    def hold(self, host: int, now: float) -> None:
        """The host's visit holds all its clocks, until the caller calls ClockTable.release and `arm`; but a paced one
        only runs from now on, and goes to the next host."""
        table, reserved, paced = self._table, self._reserved, Flag.PACED
        flags, held = table.flags, table.held
        for clock in self.clocks_of(host):
            if reserved and reserved.get(clock) == host:
                del reserved[clock]
            if flags[clock] & paced:
                table.begin(clock, now)
                self.arm(clock, now)
            else:
                held[clock] += 1

    def unreserve(self, host: int, clock: int, now: float) -> None:
        """The clock is no longer reserved for the host, if it was."""
        if self._reserved and self._reserved.get(clock) == host:
            del self._reserved[clock]
            self.arm(clock, now)

    def _kept(self, clock: int, host: int) -> bool:
        """Whether the clock is reserved for a host that has waited longer."""
        if not self._reserved:
            return False
        other = self._reserved.get(clock, NONE)
        return other != NONE and self._order[other] < self._order[host]

    def arm(self, clock: int, now: float) -> None:
        """Put the clock into the line, if it is free and the first host of its queue may have it. To be called when
        either changed.

        A clock that is due already goes behind those that were due before, however long ago it was last used: else a
        stream of new hosts would keep the old ones waiting.
        """
        table = self._table
        first = table.first[clock]
        if first == NONE or table.held[clock] or table.flags[clock] & Flag.ARMED:
            return
        if self._kept(clock, first):
            return
        table.flags[clock] |= Flag.ARMED
        self._line.push(clock, now)

    def arm_many(self, clocks: I8s, now: float) -> None:
        """As `arm`, for many clocks in this order; NONE is no clock."""
        table = self._table
        clocks = clocks[clocks != NONE]
        flags = view(table.flags)
        clocks = clocks[(view(table.first)[clocks] != NONE) & (view(table.held)[clocks] == 0)]
        clocks = clocks[flags[clocks] & Flag.ARMED == 0]
        clocks = clocks[np.sort(np.unique(clocks, return_index=True)[1])]
        flags[clocks] |= Flag.ARMED
        self._line.push_many(clocks, now)

    # ---- who is next

    def take(self, now: float) -> int:
        """The next host that no clock keeps, out of its queue; NONE if there is none. It holds its clocks; but if it
        lacks its address (address_clock is NONE), it holds nothing, and they go to the next hosts of their queues."""
        while (clock := self._line.pop(now)) != NONE:
            if (host := self._serve(clock, now)) != NONE:
                return host
        return NONE

    def _serve(self, clock: int, now: float) -> int:
        """The host that comes out of the queue of a clock that left the line, as `take` says, or NONE."""
        table = self._table
        table.disarm(clock)
        if table.held[clock] or table.first[clock] == NONE:
            return NONE  # it comes back when it is freed, or with a host
        if table.next[clock] > now:
            self.arm(clock, now)
            return NONE
        if (host := self._first_of(clock, now)) == NONE:
            return NONE
        if self.address_clock[host] != NONE:
            self.hold(host, now)
        else:
            for clock in self.clocks_of(host):
                self.arm(clock, now)
        return host

    def _first_of(self, clock: int, now: float) -> int:
        """The oldest host in the queue of a due, free clock that no other clock keeps; those before it move to the
        queues of the clocks that keep them."""
        while (host := self._table.first[clock]) != NONE:
            if self._kept(clock, host):
                return NONE
            self.withdraw(host)
            other = self._obstacle(host, self.clocks_of(host), now)
            if other == NONE:
                return host
            self._turned_away[host] = min(self._turned_away[host] + 1, 255)
            if self._turned_away[host] > TURNED_AWAY_MAX:
                self._reserved[clock] = host
            self._queue(host, other)
            self.arm(other, now)
        return NONE

    def due_now(self, now: float, count: int) -> I8s:
        """The first `count` clocks in the line that are due, or fewer, in their order. They stay there."""
        return self._line.ready(now, count)

    def take_many(self, due: I8s, now: float, urls_max: int, urls_of: Callable[[I8s], I8s]) -> tuple[I8s, I8s, I8s]:
        """As `take`, of the clocks that `due_now` gave, until there are visits of `urls_max` URLs together, while no
        clock is reserved: (hosts that hold their clocks, URLs of each, hosts that lack an address). urls_of(hosts): how
        many URLs a visit of each has, at least 1."""
        places, alone = self._alone(due, now)
        begun, urls = np.full(len(due), NONE), np.zeros(len(due), np.int64)
        begun[places] = alone
        if len(alone):
            urls[places] = urls_of(alone)
        before, others, unresolved = np.cumsum(urls), 0, []
        for place in np.flatnonzero(begun == NONE).tolist():  # hosts that share a clock go one after the other
            left = urls_max - int(before[place]) - others
            if left <= 0:
                break
            host = self._serve(int(due[place]), now)
            if host == NONE:
                continue
            if self.address_clock[host] == NONE:
                unresolved.append(host)
                continue
            begun[place] = host
            urls[place] = min(int(urls_of(np.array([host]))[0]), left)
            others += int(urls[place])
        total = np.cumsum(urls)
        end = min(int(np.searchsorted(total, urls_max)) + 1, len(due))
        urls[end - 1] -= max(0, int(total[end - 1]) - urls_max)
        self._line.skip(end)
        taken = places < end
        self._take_out(alone[taken], due[places[taken]], now)
        begun, urls = begun[:end], urls[:end]
        return begun[begun != NONE], urls[begun != NONE], np.array(unresolved, np.int64)

    def _alone(self, due: I8s, now: float) -> tuple[I8s, I8s]:
        """(places in `due`, hosts): of due clocks those whose first host no clock keeps, if it has no clock of another
        host that may come out of the queues of `due`: it comes out of its queue whatever becomes of the others."""
        table = self._table
        held, next_, first = (view(column)[due] for column in (table.held, table.next, table.first))
        places = np.flatnonzero((held == 0) & (first != NONE) & (next_ <= now))
        hosts, own = first[places].astype(np.int64), due[places]
        rows = self.clocks_of_many(hosts)
        there = rows != NONE
        ahead, order = view(table.first)[rows], view(self._order)
        older = (ahead != NONE) & (order[ahead] < order[hosts][:, None])
        keeps = (view(table.held)[rows] > 0) | (view(table.next)[rows] > now) | older
        free = there[:, 2] & ~(keeps & there & (rows != own[:, None])).any(axis=1)
        touched = np.sort(np.concatenate([rows[there], self._clocks_behind(own)]))
        shared = np.zeros(len(table.kind), np.bool_)
        shared[touched[1:][touched[1:] == touched[:-1]]] = True
        free &= ~(shared[rows] & there).any(axis=1)
        return places[free], hosts[free]

    def _clocks_behind(self, clocks: I8s) -> I8s:
        """The other clocks of the hosts in these clocks' queues, but the first hosts."""
        queues = [(clock, behind) for clock in clocks.tolist() if (behind := self._behind.get(clock)) is not None]
        if not queues:
            return clocks[:0]
        places = np.concatenate([view(behind) for _, behind in queues])
        rows = self.clocks_of_many((places & np.uint64(_HOST_MASK)).astype(np.int64))
        own = np.repeat([clock for clock, _ in queues], [len(behind) for _, behind in queues])
        return rows[(rows != NONE) & (rows != own[:, None])]

    def _take_out(self, hosts: I8s, at: I8s, now: float) -> None:
        """Hosts that are first in the queues of `at`, and `_alone`, leave them and hold all their clocks, as `hold`
        says."""
        table = self._table
        view(self.queue_clock)[hosts] = NONE
        view(table.flags)[at] &= ALL_FLAGS ^ Flag.ARMED
        view(table.first)[at] = NONE
        for clock in at.tolist():
            if (behind := self._behind.get(clock)) is not None:
                table.first[clock] = behind.pop(0) & _HOST_MASK
                if not behind:
                    del self._behind[clock]
        rows = self.clocks_of_many(hosts)
        used = rows[rows != NONE]
        paced = view(table.flags)[used] & Flag.PACED > 0
        view(table.held)[used[~paced]] += 1
        for clock in used[paced].tolist():  # few
            table.begin(clock, now)
            self.arm(clock, now)

    # ---- looking ahead

    def due_many(self, hosts: I8s) -> F8s:
        """When all clocks of each host are due, held ones as if free now: f8[hosts]; see ClockTable.last_due."""
        due, nexts = np.zeros(len(hosts)), view(self._table.next)
        for column in (self.host_clock, self.site_clock, self.address_clock):
            clocks = view(column)[hosts]
            due = np.maximum(due, np.where(clocks == NONE, 0.0, nexts[clocks]))
        return due

    @property
    def waiting(self) -> int:
        """Hosts in queues."""
        return len(self.queue_clock) - self.queue_clock.count(NONE)

    def delays(self, now: float) -> I8s:
        """How many hosts stand in queues, by Delay of the queue, without those at the front of a clock that is due."""
        at = np.array(self.queue_clock, np.int64)
        return self._delays(at[at != NONE]) - self._delays(np.array(list(self.free(now)), np.int64))

    def _delays(self, clocks: I8s) -> I8s:
        if not len(clocks):
            return np.zeros(len(DELAY_NAMES), np.int64)
        kind, why = view(self._table.kind)[clocks], view(self._table.why)[clocks]
        delay = np.where((kind == Kind.HOST) | (why == Delay.OTHER_CRAWL), why, _DELAY[kind])
        return np.bincount(delay, minlength=len(DELAY_NAMES))

    def next_due(self, now: float) -> float | None:
        """When the next clock with a queue comes due: later than now if `take` just returned NONE. None: there is no
        such clock."""
        line, table = self._line, self._table
        while (first := line.first(now)) is not None:
            due, clock = first
            if table.first[clock] != NONE and not table.held[clock] and table.next[clock] <= due:
                return due
            clock = line.pop(due)
            table.disarm(clock)
            self.arm(clock, now)
        return None

    def free(self, by: float) -> Iterator[int]:
        """The free clocks with a queue that are due by then, in no order."""
        table = self._table
        for clock in self._line.due(by):
            if table.first[clock] != NONE and not table.held[clock] and table.next[clock] <= by:
                yield clock

    def front(self, clock: int, count: int) -> Iterator[int]:
        """The first `count` hosts in a clock's queue, which has one at least."""
        yield self._table.first[clock]
        for place in islice(self._behind.get(clock, ()), count - 1):
            yield place & _HOST_MASK

    def startable(self, now: float, within_s: float, limit: int, site_of: Callable[[int], int]) -> tuple[int, set[int]]:
        """What could start within the next seconds: how many distinct (address, site) pairs, where an address counts at
        most as often as its gap lets it start; and the sites of hosts that have no address yet. Stops at `limit` of
        both together, and after 16 times as many clocks."""
        table, horizon = self._table, now + within_s
        pairs: set[tuple[int, int]] = set()
        starts: dict[int, int] = {}  # address -> visits it can still start
        sites: set[int] = set()
        for clock in islice(self.free(horizon), 16 * limit):
            for host in self.front(clock, self._starts(clock, now, horizon)):
                address, site = self.address_clock[host], site_of(host)
                if address == NONE:
                    sites.add(site)
                elif not table.held[address] and table.next[address] <= horizon and (address, site) not in pairs:
                    left = starts[address] if address in starts else self._starts(address, now, horizon)
                    starts[address] = max(0, left - 1)
                    if left:
                        pairs.add((address, site))
            if len(pairs) + len(sites) >= limit:
                break
        return len(pairs), sites

    def _starts(self, clock: int, now: float, horizon: float) -> int:
        """How many visits a clock that is due before the horizon allows until then."""
        gap = self._table.longest_gap(clock) or VISIT_SECONDS_LEAST
        return 1 + int((horizon - max(now, self._table.next[clock])) / gap)
