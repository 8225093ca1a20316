"""Which host may be visited now: three clocks per host, none of them ever early, and no address idle by oversight.

How the dispatcher uses it:

    polite = Politeness(clock, config.politeness, Clocks(config.frontier.hosts_active_max))
    polite.activate(entry)                            # the host has URLs in runs
    while entry := polite.pop_detour(): …             # requests that running visits wait for: they need no free place
    while room and (entry := polite.pop()):           # a visit may start now; it holds its clocks from here on
        leases.append(polite.promises(entry))         # before the lease goes to a worker
        send(entry.address, urls=polite.visit_size(entry), gap=polite.gap_for(entry))
    due = polite.visit_over(entry, ended=…, outcome="ok", again=more_urls)  # the worker said that the visit is over
    leases.append(polite.clocks.news(now))            # once per tick: what ended visits taught survives a kill too
    polite.share()                                    # … and other crawls on this machine hear of it
    if due > now + horizon: polite.deactivate(entry)  # … and into the calendar
    while resolver.room and (entry := polite.unresolved()):                 # names, just ahead of need
        … polite.resolved(entry, address, expires) or polite.deactivate(entry)
    sleep until polite.next_due()                     # later than now after pop_detour() and pop() returned None

`activate_many` and `pop_many` do for hundreds of hosts what `activate` and `pop` do for one, with the same results.

An entry is in one state (HostState): it is idle, waits for a clock (queues.py), waits to be asked for its address or
for the answer (hosts.py), or is leased. How long a clock runs after a visit is said in gaps.py; clocks.py keeps the
clocks. All times are unix seconds of the clock given. No I/O, one thread. Sources: Mercator's factor of ten,
BUbiNG's workbench of hosts inside addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from irlcrawl.base.clock import Clock
from irlcrawl.config import keys as config
from irlcrawl.frontier.politeness.clocks import (
    BACKOFF_MEMORY,
    DELAY_NAMES,
    GONE,
    Clocks,
    ClockTable,
    Delay,
    Flag,
    Kind,
    Promise,
)
from irlcrawl.frontier.politeness.columns import NONE, F8s, I8s, view
from irlcrawl.frontier.politeness.gaps import Gaps, Outcome
from irlcrawl.frontier.politeness.hosts import Detour, Detours, HostEntry, HostState, Unresolved
from irlcrawl.frontier.politeness.machine import Machine, Session, Told
from irlcrawl.frontier.politeness.queues import WaitingHosts

__all__ = ["Delay", "Detour", "HostEntry", "HostState", "Outcome", "Politeness"]


Visits: TypeAlias = list[tuple[HostEntry, int]]
"""Hosts, and how many URLs each is visited for."""


MOMENT_S = 0.005
"""So long other crawls on this machine may be at the clocks that they share."""


class Politeness:
    many = 16
    """Fewer hosts than this are dealt with one by one, because numpy costs more for so few."""

    def __init__(
        self, clock: Clock, params: config.Politeness, clocks: Clocks | None = None, machine: Machine | None = None,
        own_clocks: Iterable[int] = (),
    ) -> None:  # fmt: skip
        """ConfigError if a network of politeness.shared_addresses is malformed. `machine`: what other crawls promise;
        None: nobody is asked. `own_clocks`: keys of sites that have a clock whatever the gap of sites (their bytes are
        to be paid for, see `visit_over`)."""
        self.clocks = Clocks() if clocks is None else clocks
        self._time = clock
        self._table = self.clocks.table
        self._gaps = Gaps(params, self.clocks, own_clocks)
        self._waiting = WaitingHosts(self._table)
        self._entries: list[HostEntry | None] = []  # by their numbers in _waiting
        self._unresolved = Unresolved()
        self._detours = Detours(self._gaps, self._table, self._waiting)
        self._leased: set[HostEntry] = set()
        self._machine = machine
        self._put_back: list[tuple[HostEntry, float]] = []
        self._not_before = 0.0

    # ---- in and out

    def activate(self, entry: HostEntry) -> float:
        """The host has something to fetch. Returns when its clocks, as far as known, are due. ValueError if active."""
        return self.activate_many([entry])[0]

    def activate_many(self, entries: Sequence[HostEntry]) -> list[float]:
        """As `activate`, for many hosts at once, as a turn brings them."""
        if not entries:
            return []
        for entry in entries:
            if entry.state != HostState.IDLE:
                raise ValueError(f"activate: {entry!r} is active")
        now, waiting = self._time.now(), self._waiting
        numbers = self._enter(entries)
        known_until = np.array([entry.address_until if entry.address else 0.0 for entry in entries])
        usable = np.flatnonzero(known_until > np.maximum(waiting.due_many(numbers), now))
        addresses = [entries[at].address or "" for at in usable.tolist()]
        place = {address: at for at, address in enumerate(dict.fromkeys(addresses))}
        which = np.array([place[address] for address in addresses], np.int64)
        sites = np.array([entries[at].site for at in usable.tolist()], np.uint64)
        view(waiting.address_clock)[numbers[usable]] = self._gaps.use_address_many(list(place), which, sites)
        self._place_many(entries, numbers, now)
        return waiting.due_many(numbers).tolist()

    def _enter(self, entries: Sequence[HostEntry]) -> I8s:
        """The hosts have numbers, and use the clocks of their names and sites."""
        keys = np.array([entry.clock_host for entry in entries], np.uint64)
        sites = np.array([entry.site for entry in entries], np.uint64)
        floors = self._gaps.floor_many([entry.gap_floor for entry in entries])
        host_clocks = self.clocks.use_many(Kind.HOST, keys, floors)
        worths = np.array([entry.worth for entry in entries], np.uint8)
        numbers = self._waiting.enter(host_clocks, self._gaps.enter_sites(sites, floors), worths)
        self._entries += [None] * (int(numbers.max()) + 1 - len(self._entries))
        for entry, number in zip(entries, numbers.tolist(), strict=True):
            self._entries[number] = entry
            entry.number = number
        if self.clocks.opened > 0:  # after a reboot
            gaps = self._gaps.longest_many(self.own_gap_many(entries), self._waiting.clocks_of_many(numbers))
            np.maximum.at(view(self._table.next), host_clocks, self.clocks.opened + gaps)
        return numbers

    def deactivate(self, entry: HostEntry) -> None:
        """Take an entry out (its URLs went elsewhere). Nothing if it is out; ValueError while it is leased."""
        if entry.state == HostState.IDLE:
            return
        if entry.state == HostState.LEASED:
            raise ValueError(f"deactivate: {entry!r} is leased; end its visit with again=False")
        self._withdraw(entry)
        self._drop(entry, self._clocks_of(entry), self._time.now())

    # ---- visits

    def pop(self) -> HostEntry | None:
        """A host that may be visited now; it holds its clocks until `visit_over`. None if there is none. Detours go
        first."""
        with Session(self._machine, self._told) as may_begin:
            if may_begin:
                return (self._pop_detour() if self._detours else None) or self._pop()
        self._soon()
        return None

    def _pop(self) -> HostEntry | None:
        now, waiting = self._time.now(), self._waiting
        while (host := waiting.take(now)) != NONE:
            entry = self._entries[host]
            assert entry is not None
            if waiting.address_clock[host] == NONE:
                self._unresolved.add(entry)
            elif self._lease(entry, now):
                return entry
        return None

    def pop_many(
        self, urls_max: int, urls_of: Callable[[Sequence[HostEntry]], list[int]], visits_max: int = 1 << 30
    ) -> Visits:
        """`pop` and `visit_size` until `visits_max` visits have begun, or visits of `urls_max` URLs together, or no
        host may be visited now. No detours: they have no URLs, see `pop_detour`. urls_of(hosts): how many URLs each has
        for one visit, at least 1."""
        with Session(self._machine, self._told) as may_begin:
            if may_begin:
                return self._pop_many(urls_max, urls_of, visits_max)
        self._soon()
        return []

    def _pop_many(self, urls_max: int, urls_of: Callable[[Sequence[HostEntry]], list[int]], visits_max: int) -> Visits:
        visits: Visits = []
        left = urls_max
        while left > 0 and len(visits) < visits_max:
            now = self._time.now()
            due = self._waiting.due_now(now, min(left, visits_max - len(visits)))
            if len(due) < self.many or self._waiting.reserves:
                entry = self._pop()
                if entry is None:
                    break
                some = [(entry, min(self.visit_size(entry), *urls_of([entry]), left))]
            else:
                some = self._pop_due(due, now, left, urls_of)
            visits += some
            left -= sum(urls for _, urls in some)
        return visits

    def _pop_due(
        self, due: I8s, now: float, urls_max: int, urls_of: Callable[[Sequence[HostEntry]], list[int]]
    ) -> Visits:
        def visit_urls(hosts: I8s) -> I8s:
            entries = self._entries_of(hosts)
            if len(entries) < self.many:
                sizes = [self.visit_size(entry) for entry in entries]
                return np.array(list(map(min, sizes, urls_of(entries))), np.int64)
            own, clocks = self.own_gap_many(entries), self._waiting.clocks_of_many(hosts)
            return np.minimum(self._gaps.visit_size_many(own, clocks), np.array(urls_of(entries), np.int64))

        hosts, urls, unresolved = self._waiting.take_many(due, now, urls_max, visit_urls)
        for entry in self._entries_of(unresolved):
            self._unresolved.add(entry)
        visits = zip(self._entries_of(hosts), urls.tolist(), strict=True)
        return [(entry, rows) for entry, rows in visits if self._lease(entry, now)]

    def pop_detour(self) -> HostEntry | None:
        """A detour of `request_detour` that may begin now; it holds its clocks until `visit_over`. None if there is
        none. Ask for it even if no worker has room for a visit, because a visit that is out waits for it."""
        if not self._detours:
            return None
        with Session(self._machine, self._told) as may_begin:
            if may_begin:
                return self._pop_detour()
        self._soon()
        return None

    def _pop_detour(self) -> HostEntry | None:
        now = self._time.now()
        for entry in [entry for due, entry in self._detours.dues() if due <= now]:
            self._waiting.hold(entry.number, now)
            if self._lease(entry, now):
                return entry
        return None

    def _soon(self) -> None:
        """Another crawl is at the clocks that they share: nothing is due for a moment."""
        self._not_before = self._time.now() + MOMENT_S

    def _lease(self, entry: HostEntry, now: float) -> bool:
        """The host, which holds its clocks, is leased. False if another crawl on this machine keeps one of them: then
        the host waits again, at its old place."""
        entry.state = HostState.LEASED
        self._leased.add(entry)
        if entry.detour is not None:  # its host may have been asked, and told a Crawl-delay, since it began to wait
            entry.crawl_delay = max(entry.crawl_delay, self._table.crawl_delay(self._clocks_of(entry)[0]))
        machine = self._machine
        if machine is None or not machine.heeds or not (dues := machine.take(self.promises(entry))):
            return True
        self._leased.discard(entry)
        entry.state = HostState.IDLE
        clocks, table = self._clocks_of(entry), self._table
        table.release(clocks)
        for clock, due in zip(clocks, dues, strict=True):
            if due > table.next[clock]:
                table.next[clock], table.why[clock] = due, Delay.OTHER_CRAWL
        last = table.last_due(clocks)
        if entry.address_until <= last and entry.detour is None:
            self._leave_address(entry, now)
        self._place(entry, now)
        for clock in clocks:
            self._waiting.arm(clock, now)
        self._put_back.append((entry, last))
        return False

    def put_back(self) -> list[tuple[HostEntry, float]]:
        """The hosts that other crawls kept from being visited since the last call, and when they are due: deactivate
        those that are due beyond the horizon."""
        kept, self._put_back = self._put_back, []
        return kept

    def visit_over(
        self,
        entry: HostEntry,
        *,
        ended: float | None,
        fetch_s: float = 0.0,
        requests: int = 1,
        outcome: Outcome = "ok",
        retry_after: float | None = None,
        crawl_delay: float | None = None,
        paid: float = 0.0,
        again: bool,
    ) -> float:
        """The visit (or detour) is over: the host's clocks are free, and run from `ended` (None: nothing was asked of
        the host, and no clock moves).

        When a worker died, pass ended=now: a request may have been under way. fetch_s: duration of the last exchange;
        retry_after: seconds, as the server said; crawl_delay: as learnt in this visit, None if nothing was. paid:
        seconds for which its site is left alone, if that has a clock of its own. `again`: the host waits for its next
        visit at once; else it is idle, and may be activated later. Returns when its clocks are due (then deactivate it
        if that is beyond the horizon). ValueError if it is not leased; only a detour may be over already, with its
        visit.
        """
        if entry.state != HostState.LEASED:
            if entry.detour is not None:
                return self.due(entry)
            raise ValueError(f"visit_over: {entry!r} is not leased")
        now = self._time.now()
        if crawl_delay is not None:
            entry.crawl_delay = crawl_delay
        if outcome in ("failed", "throttled"):
            ended = now if ended is None else ended
        elif not requests:
            ended = None
        waiting, clocks = self._waiting, self._clocks_of(entry)
        if ended is not None:
            floor, asked_of = self._gaps.floor(entry.gap_floor), entry.site if requests else 0
            self._gaps.move(clocks, floor, entry.crawl_delay, ended, fetch_s, outcome, retry_after, asked_of, paid)
        self._leased.discard(entry)
        if self._detours:
            self._end_detour_of(entry, now)
        self._table.release(clocks)
        if self._gaps.crowded:
            self._gaps.freed(clocks)
        if self._machine is not None:
            for clock in clocks:
                if not self._table.held[clock]:
                    self._machine.give(self._table.kind[clock], self._table.key[clock], self._table.next[clock], ended)
        due = self._table.last_due(clocks)
        entry.state = HostState.IDLE
        if again and entry.detour is None:
            waiting.worth[entry.number] = entry.worth
            waiting.ticket(entry.number)
            if waiting.site_clock[entry.number] != NONE or self._gaps.site_has_many(entry.site):
                self._judge_site(entry, now)
            if not (entry.address and entry.address_until > max(now, due)):
                self._leave_address(entry, now)
            self._place(entry, now)
        else:
            self._drop(entry, clocks, now)
        for clock in clocks:
            waiting.arm(clock, now)
        return due

    def _end_detour_of(self, parent: HostEntry, now: float) -> None:
        detour = self._detours.take_from(parent)
        if detour is not None and detour.state == HostState.LEASED:
            self.visit_over(detour, ended=now, again=False)
        elif detour is not None:
            self.deactivate(detour)

    def observe(
        self,
        *,
        clock_host: int,
        address: str | None,
        site: int,
        ended: float,
        fetch_s: float = 0.0,
        outcome: Outcome = "ok",
        retry_after: float | None = None,
        crawl_delay: float = 0.0,
    ) -> None:
        """Move the clocks for an exchange that a replayed harvest tells of, as its live report would have. `clock_host`
        is the key of the host's clock."""
        floor = self._gaps.floor(None)
        clocks = [self.clocks.use(Kind.HOST, clock_host, floor)]
        if address:
            clocks.append(self._gaps.use_address(address))
        if (site_clock := self._gaps.use_site(site)) != NONE:
            clocks.append(site_clock)
        self._gaps.move(clocks, floor, crawl_delay, ended, fetch_s, outcome, retry_after)
        for clock in clocks:
            self._table.users[clock] -= 1
        self.clocks.let_go(clocks, self._time.now())

    def keep_delay(self, entry: HostEntry, ended: float) -> None:
        """An exchange with an idle host ended before its Crawl-delay was known: its clock runs for that long. Nothing
        else is learnt of it."""
        clock = self.clocks.use(Kind.HOST, entry.clock_host, self._gaps.floor(entry.gap_floor))
        table, due = self._table, ended + entry.crawl_delay
        if due > table.next[clock]:
            table.next[clock], table.wait[clock], table.why[clock] = due, entry.crawl_delay, Delay.CRAWL_DELAY
            self.clocks.moved([clock])
        table.users[clock] -= 1
        self.clocks.let_go([clock], self._time.now())

    # ---- names

    def unresolved(self) -> HostEntry | None:
        """The next host whose only obstacle is its missing (or outdated) address; None if there is none. Answer with
        `resolved`, `postponed`, or (it has no address now) `deactivate`."""
        return self._unresolved.ask()

    def resolved(self, entry: HostEntry, address: str, expires: float) -> None:
        """The address of a host that `unresolved` gave. Nothing if the host was deactivated meanwhile."""
        if entry.state != HostState.RESOLVING:
            return
        now = self._time.now()
        self._withdraw(entry)
        entry.address, entry.address_until = address, expires
        clock = self._gaps.use_address(address, entry.site)  # however short it lives
        self._waiting.address_clock[entry.number] = clock
        self._detours.pause(entry, (clock,), now)
        self._place(entry, now)

    def postponed(self, entry: HostEntry) -> None:
        """No answer, for a reason that is not the host's: `unresolved` will give it again."""
        if entry.state == HostState.RESOLVING:
            self._unresolved.remove(entry)
            self._unresolved.add(entry)

    # ---- detours

    def request_detour(self, entry: HostEntry, parent: HostEntry, token: object, fetch_s: float = 0.0) -> float:
        """A running visit (of `parent`) needs one request on another host: robots.txt redirected to it.

        `entry` is a fresh HostEntry of that host, whether or not the host is active too. It comes out of `unresolved`
        like any other, then of `pop_detour` with `entry.detour.token` set. A clock that the parent holds is no
        obstacle, but its gap runs from now (fetch_s: duration of the parent's last exchange). Call `visit_over` when
        the worker reports its end, or `deactivate` while it waits; at the end of its parent's visit it is over too.

        Returns when its clocks are due: refuse the detour (deactivate) if the worker cannot wait so long. Two visits
        may wait for each other's address, so the worker's wait must have a deadline. ValueError for a second detour of
        one visit at a time.
        """
        if parent.state != HostState.LEASED or parent in self._detours:
            raise ValueError(f"request_detour: {parent!r} is not leased, or has a detour already")
        entry.detour = Detour(parent, token, self._time.now())
        self.activate(entry)
        self._detours.add(entry, parent)
        self._detours.pause(entry, self._clocks_of(entry), self._time.now(), fetch_s)
        return max(self.due(entry), entry.detour.not_before)

    # ---- questions about an active host

    def due(self, entry: HostEntry) -> float:
        """When all its clocks, held ones as if free now, are due (unix seconds, may lie in the past)."""
        return self._table.last_due(self._clocks_of(entry))

    def gap_for(self, entry: HostEntry) -> float:
        """Least seconds between two requests inside a visit: floors, Crawl-delay, back-off, those of its address."""
        return self._gaps.longest(self._own_gap(entry), self._clocks_of(entry))

    def gap_in_visit(self, entry: HostEntry) -> float:
        """As `gap_for`, without a back-off that is beyond visit_seconds."""
        return self._gaps.inside(self._own_gap(entry), self._clocks_of(entry))

    def own_gap_many(self, entries: Sequence[HostEntry]) -> F8s:
        """Least seconds between two requests to each host by its floor and its Crawl-delay alone: f8[hosts]."""
        floors = self._gaps.floor_many([entry.gap_floor for entry in entries])
        return np.maximum(floors, [entry.crawl_delay for entry in entries])

    def terms(self) -> Terms:
        """What all hosts may have as of now, for another thread."""
        return Terms(self._waiting, self._table)

    def visit_size(self, entry: HostEntry) -> int:
        """URLs for one visit: as many as fit in visit_seconds of gaps; one URL if others wait for a clock of it that
        has a gap, or would wait for a gap that is not theirs."""
        return self._gaps.visit_size(self._own_gap(entry), self._clocks_of(entry))

    def patience(self, entry: HostEntry) -> float:
        """The longest wait inside a visit, in seconds: visit_seconds, or the gap of a clock that others wait for."""
        return self._gaps.patience(self._clocks_of(entry))

    def paces(self, entry: HostEntry) -> dict[str, float]:
        """The gaps of its paced clocks, in seconds, by KIND_NAMES: under one its visit has a single request, which
        begins soon after the lease."""
        return self._gaps.paces(self._clocks_of(entry))

    def shared_gaps(self) -> dict[str, float]:
        """The gaps of addresses that many sites share."""
        table = self._table
        return {rate.address: table.gap[clock] for clock, rate in table.rates.items()}

    def shared_counts(self) -> dict[str, int]:
        """How many addresses that many sites share are in memory, and how many of them have throttled."""
        rates = self._table.rates.values()
        counts = {"known": len(rates), "throttled": sum(rate.throttled for rate in rates)}
        return {name: count for name, count in counts.items() if count}

    def throttled_counts(self) -> dict[str, int]:
        """How many addresses in memory are asked more seldom than others, by why: `shared` by many sites, and it has
        throttled; `backing_off` after failures or refusals."""
        table = self._table
        backing_off = 0
        if table.kind:  # numpy makes no view of nothing
            backoff = view(table.backoff)
            remembered = (backoff > 0) & (view(table.next) + BACKOFF_MEMORY * backoff > self._time.now())
            backing_off = int(np.count_nonzero((view(table.kind) == Kind.ADDRESS) & remembered))
        counts = {"shared": self.shared_counts().get("throttled", 0), "backing_off": backing_off}
        return {name: count for name, count in counts.items() if count}

    def promises(self, entry: HostEntry) -> list[Promise]:
        """The clocks a lease of the entry moves, for LeaseLog.append."""
        return self._gaps.promises(self._own_gap(entry), self._clocks_of(entry))

    def promise(self, entry: HostEntry) -> list[Promise]:
        """As `promises`, of a visit that is out and learnt to keep longer gaps: other crawls hear of them."""
        promises = self.promises(entry)
        if self._machine is not None:
            self._machine.promise(promises)
        return promises

    def share(self) -> None:
        """Tell other crawls what ended visits taught, if no visit has begun since; once per tick, as Clocks.news."""
        if self._machine is not None and self._machine.wants_to_look:
            with Session(self._machine, self._told):
                pass

    def close(self) -> None:
        """The crawl is over: crawls that come hear of its clocks."""
        if self._machine is not None:
            self._machine.close(self._told)

    # ---- questions about them all

    def promises_out(self) -> list[Promise]:
        """The promises of every lease that is out, for LeaseLog.roll."""
        return [promise for entry in self._leased for promise in self.promises(entry)]

    def next_due(self) -> float | None:
        """When the next clock that a host waits for comes due: later than now if pop() just returned None. None: no
        host waits for a clock (but some may be leased, or wait for their address)."""
        due = self._waiting.next_due(self._time.now())
        detours = (due for due, _ in self._detours.dues())
        first = min(detours if due is None else (due, *detours), default=None)
        return None if first is None else max(first, self._not_before)

    @property
    def leased(self) -> int:
        """Visits and detours that are out."""
        return len(self._leased)

    @property
    def waiting(self) -> int:
        """Active entries that are not leased, those without an address included."""
        return self._waiting.waiting + len(self._unresolved)

    @property
    def unresolved_hosts(self) -> int:
        """Hosts whose only obstacle is their missing (or outdated) address, those asked for included."""
        return len(self._unresolved)

    @property
    def resolving(self) -> int:
        """Names asked for and not answered."""
        return self._unresolved.resolving

    def delayed(self) -> dict[str, int]:
        """How many hosts wait, by what for (DELAY_NAMES), without those that `ready` counts. Costs O(hosts)."""
        counts = self._waiting.delays(self._time.now())
        counts[Delay.DNS] += len(self._unresolved)
        return {name: count for name, count in zip(DELAY_NAMES, counts.tolist(), strict=True) if count}

    @property
    def ready(self) -> int:
        """Hosts at the front of a clock that is due: those that `delayed` leaves out. Costs O(hosts due now)."""
        return sum(1 for _ in self._waiting.free(self._time.now()))

    def ready_pairs(self, within_s: float = 0.0, limit: int = 1 << 20) -> int:
        """Visits that could start within the next seconds beside those that are out: distinct (address, site) pairs,
        where an address counts at most as often as its gap lets it start; hosts without an address count once per site.

        Stops counting at `limit`, and looking after 16 times as many clocks: the count is too low then if most are of
        one address. Cheap enough for every tick with a limit of some hundreds.
        """
        pairs, sites = self._waiting.startable(self._time.now(), within_s, limit, self._site_of)
        return min(limit, pairs + self._unresolved.sites_with(sites))

    # ---- states

    def _place(self, entry: HostEntry, now: float) -> None:
        """Wait for a clock that keeps it, or for an address, or (nothing does) for its turn."""
        if entry.detour is not None:  # stands in no queue: pop_detour looks at each
            entry.state = HostState.WAITING
            if self._waiting.address_clock[entry.number] == NONE:
                self._unresolved.add(entry)
        elif self._waiting.place(entry.number, now):
            entry.state = HostState.WAITING
        else:
            self._unresolved.add(entry)

    def _place_many(self, entries: Sequence[HostEntry], numbers: I8s, now: float) -> None:
        """As `_place`, for hosts that begin to wait."""
        if len(entries) >= self.many and not self._waiting.reserves:
            clocks = self._waiting.place_many(numbers, now)
            for entry, clock in zip(entries, clocks.tolist(), strict=True):  # hosts are objects
                if clock != NONE:
                    entry.state = HostState.WAITING
                else:
                    self._unresolved.add(entry)
            self._waiting.arm_many(clocks, now)
        else:
            for entry in entries:
                self._place(entry, now)

    def _withdraw(self, entry: HostEntry) -> None:
        """It waits no longer."""
        if entry.state == HostState.WAITING:
            self._waiting.withdraw(entry.number)
        else:
            self._unresolved.remove(entry)

    def _drop(self, entry: HostEntry, clocks: Sequence[int], now: float) -> None:
        """The entry is active no more."""
        entry.state = HostState.IDLE
        self._detours.end(entry)
        self._gaps.leave_site(entry.site)
        self._let_go(entry, clocks, now)
        self._entries[entry.number] = None
        self._waiting.leave([entry.number])
        entry.number = NONE

    def _judge_site(self, entry: HostEntry, now: float) -> None:
        """A visit is over: the host uses its site's clock from now on if the site has many hosts, else no longer."""
        floor, clock = self._gaps.floor(entry.gap_floor), self._waiting.site_clock[entry.number]
        if floor > 0 and self._gaps.site_has_many(entry.site):
            if clock == NONE:
                self._waiting.site_clock[entry.number] = self._gaps.use_crowded_site(entry.site, floor)
        elif clock != NONE and self._table.flags[clock] & Flag.PACED:
            self._waiting.site_clock[entry.number] = NONE
            self._let_go(entry, (clock,), now)

    def _leave_address(self, entry: HostEntry, now: float) -> None:
        clock = self._waiting.address_clock[entry.number]
        if clock != NONE:
            self._waiting.address_clock[entry.number] = NONE
            self._let_go(entry, (clock,), now)

    def _let_go(self, entry: HostEntry, clocks: Sequence[int], now: float) -> None:
        """The entry uses these clocks no more."""
        for clock in clocks:
            self._table.users[clock] -= 1
            self._waiting.unreserve(entry.number, clock, now)
        self.clocks.let_go(clocks, now)

    def _told(self) -> Iterator[Told]:
        """The clocks that other crawls have to respect: those of visits that are out, and those that are not due."""
        table, now = self._table, self._time.now()
        for promise in self.promises_out():
            yield Told(promise, table.next[table.find(promise.kind, promise.key)], held=True)
        if not table.kind:
            return  # numpy makes no view of nothing
        waits = (view(table.kind) != GONE) & (view(table.next) > now) & (view(table.held) == 0)
        for clock in np.flatnonzero(waits).tolist():
            yield Told(Promise(table.kind[clock], table.key[clock], table.wait[clock]), table.next[clock], held=False)

    # ---- entries, numbers, clocks

    def _entries_of(self, hosts: I8s) -> list[HostEntry]:
        entries = self._entries
        return [entry for host in hosts.tolist() if (entry := entries[host]) is not None]

    def _site_of(self, host: int) -> int:
        entry = self._entries[host]
        assert entry is not None
        return entry.site

    def _own_gap(self, entry: HostEntry) -> float:
        """Least seconds between two requests to the host, by its floor and its Crawl-delay alone."""
        return max(self._gaps.floor(entry.gap_floor), entry.crawl_delay)

    def _clocks_of(self, entry: HostEntry) -> Sequence[int]:
        """As WaitingHosts.clocks_of; none of a host that is not active."""
        return self._waiting.clocks_of(entry.number) if entry.number != NONE else ()


class Terms:
    """Copies of what `gap_for` and `due` go by: they cost microseconds, and no more is made of them unless asked."""

    def __init__(self, waiting: WaitingHosts, table: ClockTable) -> None:
        self._clocks_of = (waiting.host_clock[:], waiting.site_clock[:], waiting.address_clock[:])
        self._gap, self._backoff, self._next = table.gap[:], table.backoff[:], table.next[:]

    def of(self, numbers: I8s, own: F8s) -> tuple[F8s, F8s]:
        """(`gap_for`, `due`) of hosts by their numbers and `own_gap_many`: f8[hosts] each."""
        # The value for no clock stands last, where the number NONE finds it.
        longest = np.append(np.maximum(self._gap, self._backoff), 0.0)
        nexts = np.append(self._next, 0.0)
        gap, due = own, np.zeros(len(numbers))
        for column in self._clocks_of:
            clocks = np.asarray(column)[numbers]
            gap, due = np.maximum(gap, longest[clocks]), np.maximum(due, nexts[clocks])
        return gap, due
