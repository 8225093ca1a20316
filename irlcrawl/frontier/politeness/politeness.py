"""Which host may be visited now: three clocks per host, none of them ever early, no address idle for want of looking.

How the frontier uses it:

    polite = Politeness(clock, config.politeness, Clocks(config.frontier.hosts_active_max))
    polite.activate(entry)                            # the host has URLs in runs
    while entry := polite.pop_errand(): …             # slots that running visits asked for: they need no room
    while room and (entry := polite.pop()):           # a visit may start now; its clocks are held from here on
        leases.append(polite.promises(entry))         # before the lease goes to a worker
        send(entry.address, urls=polite.visit_size(entry), gap=polite.gap_for(entry))
    due = polite.release(entry, ended=…, outcome="ok", again=more_urls)     # the worker said the visit is over
    leases.append(polite.clocks.news(now))            # once per tick: what ended visits taught survives a kill too
    if due > now + horizon: polite.deactivate(entry)  # … and into the calendar
    while resolver.room and (entry := polite.unresolved()):                 # names, just ahead of need
        … polite.resolved(entry, address, expires) or polite.unresolvable(entry)
    sleep until polite.next_due()                     # later than now after pop_errand() and pop() returned None

An entry is in one state: it waits for a clock (queues.py), for its address, for its answer, or it is leased.
All times are unix seconds of the clock given. No I/O, one thread. Sources: Mercator's factor of ten,
BUbiNG's workbench of hosts inside addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from irlcrawl.base.clock import Clock
from irlcrawl.config import keys as config
from irlcrawl.frontier.politeness.bulk import Bulk
from irlcrawl.frontier.politeness.clocks import Clocks
from irlcrawl.frontier.politeness.entries import Errand, HostEntry, HostState
from irlcrawl.frontier.politeness.errands import Errands
from irlcrawl.frontier.politeness.gaps import Outcome
from irlcrawl.frontier.politeness.gates import DELAY_NAMES, NONE, Delay, Promise
from irlcrawl.frontier.politeness.nameless import Nameless

__all__ = ["Delay", "Errand", "HostEntry", "Outcome", "Politeness", "HostState"]


Visits: TypeAlias = list[tuple[HostEntry, int]]
"""Hosts, and how many URLs each is visited for."""


class Politeness(Bulk):
    many = 16
    """Fewer hosts are dealt with one by one: columns of so few cost more."""

    def __init__(self, clock: Clock, params: config.Politeness, clocks: Clocks | None = None) -> None:
        super().__init__(clock, params, clocks)
        self._nameless = Nameless()
        self._out: set[HostEntry] = set()
        self._errands = Errands(self._gaps, self.clocks, self._bench)

    # ---- in and out

    def activate(self, entry: HostEntry) -> float:
        """The host has something to fetch. Returns when its clocks, as far as known, are due. ValueError if active."""
        return self.activate_all([entry])[0]

    def activate_all(self, entries: Sequence[HostEntry]) -> list[float]:
        """As `activate`, for many at once, for a turn brings thousands: their clocks are columns until they wait."""
        if not entries:
            return []
        for entry in entries:
            if entry.state != HostState.IDLE:
                raise ValueError(f"activate: {entry!r} is active")
        now, bench = self._clock.now(), self._bench
        keys = np.array([entry.clock_host for entry in entries], np.uint64)
        sites = np.array([entry.site for entry in entries], np.uint64)
        numbers = self._enter(keys, sites, self._gaps.floors(entries), self.own_gaps(entries))
        for entry, number in zip(entries, numbers.tolist(), strict=True):
            bench.entries[number] = entry
            entry.number = number
        known_until = np.array([entry.address_until if entry.address else 0.0 for entry in entries])
        usable = np.flatnonzero(known_until > np.maximum(bench.due(numbers), now))
        addresses = [entries[at].address or "" for at in usable.tolist()]
        place = {address: at for at, address in enumerate(dict.fromkeys(addresses))}
        self._join(numbers[usable], list(place), np.array([place[address] for address in addresses], np.int64))
        self._place_all(entries, numbers, now)
        return bench.due(numbers).tolist()

    def deactivate(self, entry: HostEntry) -> None:
        """Take an entry out (its URLs went elsewhere). Nothing if it is out; ValueError while it is leased."""
        if entry.state == HostState.IDLE:
            return
        if entry.state == HostState.LEASED:
            raise ValueError(f"deactivate: {entry!r} is leased; release it with again=False")
        self._withdraw(entry)
        self._drop(entry, self._gates(entry), self._clock.now())

    def pop(self) -> HostEntry | None:
        """A host that may be visited now, its clocks held until `release`; None if there is none. Errands go first."""
        if self._errands and (errand := self.pop_errand()) is not None:
            return errand
        now = self._clock.now()
        while (entry := self._bench.take(now)) is not None:
            if self._begin(entry, now):
                return entry
        return None

    def pop_all(
        self, urls_max: int, urls_of: Callable[[Sequence[HostEntry]], list[int]], visits_max: int = 1 << 30
    ) -> Visits:
        """`pop` and `visit_size` until so many visits have begun, of `urls_max` URLs together, or nobody may be visited
        now. `urls_of`: how many URLs hosts have for one visit, each at least 1."""
        visits: Visits = []
        left = urls_max
        while left > 0 and len(visits) < visits_max:
            now = self._clock.now()
            due = self._bench.due_now(now, min(left, visits_max - len(visits)))
            if len(due) < self.many or self._errands or self._bench.reserves:
                entry = self.pop()
                if entry is None:
                    break
                some = [(entry, min(self.visit_size(entry), *urls_of([entry]), left))]
            else:
                some = self._pop_due(due, now, left, urls_of)
            visits += some
            left -= sum(urls for _, urls in some)
        return visits

    def _pop_due(
        self, due: NDArray[np.int64], now: float, urls_max: int, urls_of: Callable[[Sequence[HostEntry]], list[int]]
    ) -> Visits:
        entries_of = self._bench.entries_of
        hosts, urls, nameless = self._begin_due(
            due, now, urls_max, lambda hosts: self.own_gaps(entries_of(hosts)),
            lambda hosts: np.array(urls_of(entries_of(hosts)), np.int64),
        )  # fmt: skip
        for entry in entries_of(nameless):
            self._nameless.add(entry)
        entries = entries_of(hosts)
        for entry in entries:
            entry.state = HostState.LEASED
        self._out.update(entries)
        return list(zip(entries, urls.tolist(), strict=True))

    def _begin(self, entry: HostEntry, now: float) -> bool:
        """Its clocks are held, if its address is known; else it waits for that."""
        if self._bench.address_gate[entry.number] != NONE:
            self._hold(entry)
            return True
        self._nameless.add(entry)
        for gate in self._gates(entry):
            self._bench.arm(gate, now)
        return False

    def pop_errand(self) -> HostEntry | None:
        """A slot of `request_slot` that may be used now, its clocks held until `release`. Ask for it also when no
        worker has room for a visit: the visit that waits for the slot has it."""
        now = self._clock.now()
        for due, entry in self._errands.dues():
            if due <= now:
                self._hold(entry)
                return entry
        return None

    def release(
        self,
        entry: HostEntry,
        *,
        ended: float | None,
        fetch_s: float = 0.0,
        requests: int = 1,
        outcome: Outcome = "ok",
        retry_after: float | None = None,
        crawl_delay: float | None = None,
        again: bool,
    ) -> float:
        """The visit is over: its clocks run from `ended` (None: nothing was asked of the host, and nothing moves).

        When a worker died, pass ended=now: a request may have been under way. fetch_s: duration of the last exchange;
        retry_after: seconds, as the server said; crawl_delay: as learnt in this visit, None if nothing was. `again`: it
        waits for its next visit at once; else it is idle, and may be activated later. Returns when its clocks are
        due (then deactivate it if that is beyond the horizon). ValueError if it is not leased; only an errand may be
        over already, with its visit.
        """
        if entry.state != HostState.LEASED:
            if entry.errand is not None:
                return self.due(entry)
            raise ValueError(f"release: {entry!r} is not leased")
        now = self._clock.now()
        if crawl_delay is not None:
            entry.crawl_delay = crawl_delay
        if outcome in ("failed", "throttled"):
            ended = now if ended is None else ended
        elif not requests:
            ended = None
        clocks, bench, gates = self.clocks, self._bench, self._gates(entry)
        if ended is not None:
            floor, delay = self._gaps.floor(entry), entry.crawl_delay
            for gate in gates:
                self._gaps.move(clocks, gate, floor, delay, ended, fetch_s, outcome, retry_after)
        self._out.discard(entry)
        if self._errands:
            self._end_errand_of(entry, now)
        for gate in gates:
            clocks.held[gate] -= 1
        due = self._latest(gates)
        entry.state = HostState.IDLE
        if again and entry.errand is None:
            bench.ticket(entry.number)
            if not (entry.address and entry.address_until > max(now, due)):
                self._leave_address(entry, now)
            self._place(entry, now)
        else:
            self._drop(entry, gates, now)
        for gate in gates:
            bench.arm(gate, now)
        return due

    def _end_errand_of(self, parent: HostEntry, now: float) -> None:
        errand = self._errands.take_from(parent)
        if errand is not None and errand.state == HostState.LEASED:
            self.release(errand, ended=now, again=False)
        elif errand is not None:
            self.deactivate(errand)

    # ---- names

    def unresolved(self) -> HostEntry | None:
        """The next host whose only obstacle is its missing (or outdated) address; None if there is none. Answer with
        `resolved`, `unresolvable`, or (a name that does not exist) `deactivate`."""
        return self._nameless.ask()

    def resolved(self, entry: HostEntry, address: str, expires: float) -> None:
        """The address of a host that `unresolved` gave. Nothing if the host was deactivated meanwhile."""
        if entry.state != HostState.RESOLVING:
            return
        now = self._clock.now()
        self._withdraw(entry)
        entry.address, entry.address_until = address, expires
        gate = self._bench.address_gate[entry.number] = self._use_address(address)  # however short its time to live
        self._errands.pause(entry, (gate,), now)
        self._place(entry, now)

    def unresolvable(self, entry: HostEntry) -> float:
        """No answer this time: the host backs off as after a failed connection. Returns when it is due."""
        if entry.state != HostState.RESOLVING:
            return self.due(entry)
        now = self._clock.now()
        self._withdraw(entry)
        host = self._bench.host_gate[entry.number]
        self._gaps.move(self.clocks, host, self._gaps.floor(entry), entry.crawl_delay, now, 0.0, "failed", None)
        self.clocks.why[host] = Delay.DNS
        self._place(entry, now)
        return self.due(entry)

    def postponed(self, entry: HostEntry) -> None:
        """No answer, and not for a reason of the host's: it is asked for again."""
        if entry.state == HostState.RESOLVING:
            self._nameless.remove(entry)
            self._nameless.add(entry)

    # ---- errands

    def request_slot(self, entry: HostEntry, parent: HostEntry, token: object, fetch_s: float = 0.0) -> float:
        """A running visit (`parent`) needs one request elsewhere: robots.txt redirected to another authority.

        `entry` is a fresh HostEntry of that authority, whether or not the host is active too. It comes out of
        `unresolved` like any other, then of `pop_errand` with `entry.errand.token` set. A clock the parent holds is no
        obstacle, but its gap is kept from now on (fetch_s: duration of the parent's last exchange). Release it when
        the worker reports the end, or deactivate it while it waits; when its parent is released it is over too.

        Returns when its clocks are due: refuse the slot (deactivate) if the worker cannot wait so long. Two visits may
        wait for each other's address, so the worker's wait must have a deadline. ValueError for a second slot of one
        visit at a time.
        """
        if parent.state != HostState.LEASED or parent in self._errands:
            raise ValueError(f"request_slot: {parent!r} is not leased, or has an errand already")
        entry.errand = Errand(parent, token, self._clock.now())
        self.activate(entry)
        self._errands.add(entry, parent)
        self._errands.pause(entry, self._gates(entry), self._clock.now(), fetch_s)
        return max(self.due(entry), entry.errand.not_before)

    # ---- questions

    def promises_out(self) -> list[Promise]:
        """Those of every lease that is out, for LeaseLog.roll."""
        return [promise for entry in self._out for promise in self.promises(entry)]

    def next_due(self) -> float | None:
        """When the next clock with a waiter comes due: later than now if pop() just returned None. None: nothing waits
        for a clock (but hosts may be leased, or wait for their address)."""
        due = self._bench.next_due(self._clock.now())
        errands = (due for due, _ in self._errands.dues())
        return min(errands if due is None else (due, *errands), default=None)

    @property
    def leased(self) -> int:
        return len(self._out)

    @property
    def waiting(self) -> int:
        """Active entries that are not leased, those without an address included."""
        return self._bench.waiting + len(self._nameless)

    @property
    def resolving(self) -> int:
        """Names asked for and not answered."""
        return self._nameless.resolving

    def delayed(self) -> dict[str, int]:
        """Hosts that wait, by what for (DELAY_NAMES). Those whose clock came due since are left out, see `ready`.
        Costs O(hosts)."""
        counts = self._bench.delays(self._clock.now())
        counts[Delay.DNS] += len(self._nameless)
        return {name: count for name, count in zip(DELAY_NAMES, counts.tolist(), strict=True) if count}

    @property
    def ready(self) -> int:
        """Hosts at the front of a clock that is due: what `delayed` leaves out. Costs O(hosts due now)."""
        return sum(1 for _ in self._bench.free(self._clock.now()))

    def ready_pairs(self, within_s: float = 0.0, limit: int = 1 << 20) -> int:
        """Visits that could start within the next seconds beside those that are out: distinct (address, site) pairs,
        an address counted at most as often as its gap lets it start; hosts without an address count once per site.

        Stops counting at `limit`, and looking after 16 times as many clocks: too few then, when most are of one
        address. Cheap enough for every tick with a limit of some hundreds.
        """
        pairs, sites = self._bench.startable(self._clock.now(), within_s, limit)
        return min(limit, pairs + self._nameless.sites_with(sites))

    # ---- states

    def _place(self, entry: HostEntry, now: float) -> None:
        """Wait for a clock that keeps it, or for an address, or (nothing does) for its turn."""
        if entry.errand is not None:  # waits in no queue: pop_errand looks at each
            entry.state = HostState.WAITING
            if self._bench.address_gate[entry.number] == NONE:
                self._nameless.add(entry)
        elif self._bench.place(entry.number, now):
            entry.state = HostState.WAITING
        else:
            self._nameless.add(entry)

    def _place_all(self, entries: Sequence[HostEntry], numbers: NDArray[np.int64], now: float) -> None:
        """As `_place`, for hosts that begin to wait."""
        if len(entries) >= self.many and not self._bench.reserves:
            gates = self._bench.wait_all(numbers, now)
            for entry, gate in zip(entries, gates.tolist(), strict=True):  # hosts are objects
                if gate != NONE:
                    entry.state = HostState.WAITING
                else:
                    self._nameless.add(entry)
            self._bench.arm_all(gates, now)
        else:
            for entry in entries:
                self._place(entry, now)

    def _withdraw(self, entry: HostEntry) -> None:
        """Out of whatever it waits for."""
        if entry.state == HostState.WAITING:
            self._bench.withdraw(entry.number)
        else:
            self._nameless.remove(entry)

    def _hold(self, entry: HostEntry) -> None:
        entry.state = HostState.LEASED
        self._out.add(entry)
        self._bench.hold(entry.number)

    # ---- the gates

    def _drop(self, entry: HostEntry, gates: Sequence[int], now: float) -> None:
        """The entry uses its gates no more."""
        entry.state = HostState.IDLE
        self._errands.end(entry)
        for gate in gates:
            self._unuse(gate, entry, now)
        self._bench.entries[entry.number] = None
        self._bench.leave([entry.number])
        entry.number = NONE

    def _unuse(self, gate: int, entry: HostEntry, now: float) -> None:
        self.clocks.users[gate] -= 1
        self._bench.unreserve(entry.number, gate, now)
        self.clocks.let_go(gate, now)

    def _leave_address(self, entry: HostEntry, now: float) -> None:
        gate = self._bench.address_gate[entry.number]
        if gate != NONE:
            self._bench.address_gate[entry.number] = NONE
            self._unuse(gate, entry, now)
