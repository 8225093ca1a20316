"""Hosts by the hundred, as numbers: they come, their visits begin and end, and they leave as columns, with the same
results as one after the other (politeness.py).

What is known of a host is its holder's: in columns (bench/_sim/hosts.py, a crawl of simulated workers), or in an entry
each (politeness.py, which brings hosts and begins visits in this way when there are many). Here a host is its number on
the workbench, and its clocks. Where nobody keeps entries all addresses are known for good, and there are no errands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from irlcrawl.base.clock import Clock
from irlcrawl.base.keys import name_key
from irlcrawl.config import keys as config
from irlcrawl.frontier.politeness.clocks import Clocks
from irlcrawl.frontier.politeness.columns import NONE, view
from irlcrawl.frontier.politeness.crowd import Crowd
from irlcrawl.frontier.politeness.gaps import FAILED, THROTTLED, Gaps, Outcome
from irlcrawl.frontier.politeness.gates import Flag, Kind
from irlcrawl.frontier.politeness.terms import Terms

I8s: TypeAlias = NDArray[np.int64]
U8s: TypeAlias = NDArray[np.uint64]
F8s: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
GapsOf: TypeAlias = Callable[[I8s], F8s]
"""Terms.own_gaps of numbers."""
UrlsOf: TypeAlias = Callable[[I8s], I8s]
"""How many URLs hosts have for one visit, each at least 1."""


class Bulk(Terms):
    """Columns have a row per host, and are of one row at least. Times are unix seconds."""

    def __init__(self, clock: Clock, params: config.Politeness, clocks: Clocks | None = None) -> None:
        clocks = Clocks() if clocks is None else clocks
        super().__init__(params, Gaps(params), clocks, Crowd(clocks))
        self._clock = clock

    # ---- all of it, where nobody keeps entries

    def come(
        self, clock_hosts: U8s, sites: U8s, floors: F8s, crawl_delays: F8s, addresses: Sequence[str], which: I8s
    ) -> tuple[I8s, F8s]:
        """As `activate`, of hosts at addresses[which]: their numbers, and when they are due."""
        now, numbers = self._clock.now(), self._enter(clock_hosts, sites, floors, np.maximum(floors, crawl_delays))
        self._join(numbers, addresses, which)
        self._bench.arm_all(self._bench.wait_all(numbers, now), now)
        return numbers, self._bench.due(numbers)

    def begin_all(self, urls_max: int, gaps_of: GapsOf, urls_of: UrlsOf) -> tuple[I8s, I8s]:
        """As Politeness.pop_all: (hosts, URLs of each visit)."""
        hosts, urls = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        left, now = urls_max, self._clock.now()
        while left > 0 and len(due := self._bench.due_now(now, left)):
            self._refuse_reserves()
            some, many, _ = self._begin_due(due, now, left, gaps_of, urls_of)
            hosts.append(some)
            urls.append(many)
            left -= int(many.sum())
        return np.concatenate(hosts), np.concatenate(urls)

    def end_all(
        self, hosts: I8s, *, ended: F8s, fetch_s: F8s, requests: I8s, outcomes: I8s, floors: F8s, crawl_delays: F8s,
        again: Bools,
    ) -> F8s:  # fmt: skip
        """As `release`, where no answer had a Retry-After. `ended` is NaN where nothing was asked; outcomes are of
        gaps.OUTCOMES; crawl_delays as known now. ValueError if one is not leased."""
        self._refuse_reserves()
        now, bench, held = self._clock.now(), self._bench, view(self.clocks.held)
        rows = bench.rows_of(hosts)
        if not held[rows[:, 0]].all():
            raise ValueError("end_all: a host is not leased")
        bad = (outcomes == THROTTLED) | (outcomes == FAILED)
        ended = np.where(bad, np.where(np.isnan(ended), now, ended), np.where(requests > 0, ended, np.nan))
        asked = np.flatnonzero(~np.isnan(ended))
        self._gaps.move_all(
            self.clocks, rows[asked], floors[asked], crawl_delays[asked], ended[asked], fetch_s[asked], outcomes[asked]
        )
        held[rows[rows != NONE]] -= 1
        due = bench.due(hosts)
        at = np.full(len(hosts), NONE)
        stay, go = np.flatnonzero(again), np.flatnonzero(~again)
        if len(stay):
            bench.ticket_all(hosts[stay])
            at[stay] = bench.wait_all(hosts[stay], now)
        self._drop_all(hosts[go], rows[go], now)
        bench.arm_all(np.concatenate([at[:, None], rows], axis=1).ravel(), now)
        return due

    def leave_all(self, hosts: I8s) -> None:
        """As `deactivate`, of hosts that wait."""
        for host in hosts.tolist():  # out of queues, which are lists
            self._bench.withdraw(host)
        self._drop_all(hosts, self._bench.rows_of(hosts), self._clock.now())

    def _refuse_reserves(self) -> None:
        if self._bench.reserves:
            raise ValueError("a host has a clock reserved: that is for Politeness (sites with a gap)")

    def _drop_all(self, hosts: I8s, rows: I8s, now: float) -> None:
        """Hosts use their gates no more."""
        gates = rows[rows != NONE]
        np.subtract.at(view(self.clocks.users), gates, np.uint32(1))
        last = np.sort(len(gates) - 1 - np.unique(gates[::-1], return_index=True)[1])  # by the last of its users
        self.clocks.let_go_all(gates[last], now)
        self._bench.leave(hosts.tolist())

    # ---- clocks of hosts that are not here

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
        """Move the clocks for an exchange that a replayed harvest tells of, as its live report would have."""
        floor = self._params.gap_host_seconds
        gates = [self.clocks.use(Kind.HOST, clock_host, floor)]
        if address:
            gates.append(self._use_address(address))
        if self._gaps.site > 0 and site:
            gates.append(self.clocks.use(Kind.SITE, site, self._gaps.site))
        for gate in gates:
            self._gaps.move(self.clocks, gate, floor, crawl_delay, ended, fetch_s, outcome, retry_after)
            self.clocks.users[gate] -= 1
            self.clocks.let_go(gate, self._clock.now())

    def _use_address(self, address: str) -> int:
        gap, lenient = self._gaps.address(address)
        gate = self.clocks.use(Kind.ADDRESS, name_key(address.encode()), gap)
        if lenient:
            self.clocks.flags[gate] |= Flag.LENIENT
        return gate

    # ---- what hosts with entries share

    def _enter(self, clock_hosts: U8s, sites: U8s, floors: F8s, own_gaps: F8s) -> I8s:
        """Hosts are active: they have numbers and clocks, but for their addresses'."""
        clocks, bench = self.clocks, self._bench
        gates = clocks.use_all(Kind.HOST, clock_hosts, floors)
        site_gates, some = np.full(len(sites), NONE), np.flatnonzero(sites)
        if self._gaps.site > 0 and len(some):
            site_gates[some] = clocks.use_all(Kind.SITE, sites[some], np.full(len(some), self._gaps.site))
        numbers = bench.enter(gates, site_gates)
        if clocks.opened > 0:  # once, after a reboot
            np.maximum.at(view(clocks.next), gates, clocks.opened + self.gaps_of(numbers, own_gaps))
        return numbers

    def _join(self, hosts: I8s, addresses: Sequence[str], which: I8s) -> None:
        """Hosts are at addresses[which]."""
        if not len(hosts):
            return
        keys = np.array([name_key(address.encode()) for address in addresses], np.uint64)
        gaps, lenient = (np.array(part) for part in zip(*map(self._gaps.address, addresses), strict=True))
        gates = self.clocks.use_all(Kind.ADDRESS, keys[which], gaps[which])
        view(self.clocks.flags)[gates[lenient[which]]] |= Flag.LENIENT
        view(self._bench.address_gate)[hosts] = gates

    def _begin_due(self, due: I8s, now: float, urls_max: int, gaps_of: GapsOf, urls_of: UrlsOf) -> tuple[I8s, I8s, I8s]:
        """Visits of those that come out of gates that are due, until there are enough: (hosts, URLs of each, other
        hosts, which came out but lack an address)."""
        bench, address_gate = self._bench, self._bench.address_gate

        places, alone = bench.alone(due, now)
        begun, urls = np.full(len(due), NONE), np.zeros(len(due), np.int64)
        begun[places] = alone
        if len(alone):
            urls[places] = np.minimum(self.visit_sizes(alone, gaps_of(alone)), urls_of(alone))
        before, others, nameless = np.cumsum(urls), 0, []
        for place in np.flatnonzero(begun == NONE).tolist():  # hosts that share a clock are for one another in turn
            left = urls_max - int(before[place]) - others
            if left <= 0:
                break
            host = bench.serve(int(due[place]), now)
            if host == NONE:
                continue
            if address_gate[host] == NONE:
                nameless.append(host)
                for gate in bench.gates_of(host):
                    bench.arm(gate, now)
                continue
            bench.hold(host)
            begun[place] = host
            one = np.array([host])
            size = self._size(bench.gates_of(host), float(gaps_of(one)[0]))
            urls[place] = min(size, int(urls_of(one)[0]), left)
            others += int(urls[place])
        total = np.cumsum(urls)
        end = min(int(np.searchsorted(total, urls_max)) + 1, len(due))
        urls[end - 1] -= max(0, int(total[end - 1]) - urls_max)
        bench.skip(end)
        taken = places < end
        bench.take_out(alone[taken], due[places[taken]])
        begun, urls = begun[:end], urls[:end]
        return begun[begun != NONE], urls[begun != NONE], np.array(nameless, np.int64)
