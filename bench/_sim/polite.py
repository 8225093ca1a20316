"""Politeness of hosts that are numbers: for the simulated crawl, which has no object per host.

The clocks, their gaps and who is next are the crawler's own (irlcrawl/frontier/politeness), asked as its Politeness
asks them; here is what ends hundreds of visits at once, which no real crawl does. What is known of a host is its
holder's (hosts.py). All addresses are known for good, there are no detours, and a site has a clock only by
politeness.gap_site_seconds: gap_site_hosts is as if it were 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from irlcrawl.base.clock import Clock
from irlcrawl.config import keys as config
from irlcrawl.frontier.politeness.clocks import Clocks, Delay, Flag, Kind
from irlcrawl.frontier.politeness.columns import NONE, Bools, F8s, I8s, U8s, view
from irlcrawl.frontier.politeness.gaps import FAILED, OK, OUTCOMES, THROTTLED, Gaps
from irlcrawl.frontier.politeness.queues import WaitingHosts


class PoliteColumns:
    """Columns have a row per host. A host is its number in `waiting` from `come` until it leaves. Times are unix
    seconds. ValueError if a clock is reserved for a host, which happens only where sites have a gap."""

    def __init__(self, clock: Clock, params: config.Politeness, clocks: Clocks) -> None:
        self.clocks = clocks
        self.waiting = WaitingHosts(clocks.table)
        self.gaps = Gaps(params, clocks)
        self._time, self._params = clock, params

    def come(
        self,
        clock_hosts: U8s,
        sites: U8s,
        floors: F8s,
        addresses: Sequence[str],
        which: I8s,
        worths: NDArray[np.uint8],
    ) -> tuple[I8s, F8s]:
        """As Politeness.activate_many, of hosts (one at least) at addresses[which]: (numbers, when they are due)."""
        now, waiting = self._time.now(), self.waiting
        host_clocks = self.clocks.use_many(Kind.HOST, clock_hosts, floors)
        numbers = waiting.enter(host_clocks, self.gaps.use_site_many(sites), worths)
        view(waiting.address_clock)[numbers] = self.gaps.use_address_many(addresses, which, sites)
        waiting.arm_many(waiting.place_many(numbers, now), now)
        return numbers, waiting.due_many(numbers)

    def begin_many(
        self, urls_max: int, own_gaps_of: Callable[[I8s], F8s], urls_of: Callable[[I8s], I8s]
    ) -> tuple[I8s, I8s]:
        """As Politeness.pop_many: (hosts, URLs of each visit). urls_of(hosts): how many URLs each has for one visit, at
        least 1; own_gaps_of(hosts): floor or Crawl-delay, whichever is longer."""

        def visit_urls(hosts: I8s) -> I8s:
            sizes = self.gaps.visit_size_many(own_gaps_of(hosts), self.waiting.clocks_of_many(hosts))
            return np.minimum(sizes, urls_of(hosts))

        hosts, urls = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        left, now = urls_max, self._time.now()
        while left > 0 and len(due := self.waiting.due_now(now, left)):
            self._refuse_reserves()
            some, many, _ = self.waiting.take_many(due, now, left, visit_urls)
            hosts.append(some)
            urls.append(many)
            left -= int(many.sum())
        return np.concatenate(hosts), np.concatenate(urls)

    def end_many(
        self, hosts: I8s, *, ended: F8s, fetch_s: F8s, requests: I8s, outcomes: I8s, floors: F8s, crawl_delays: F8s,
        again: Bools, worths: NDArray[np.uint8], sites: U8s,
    ) -> F8s:  # fmt: skip
        """As Politeness.visit_over, where no answer had a Retry-After. `ended` is NaN where nothing was asked; outcomes
        are of gaps.OUTCOMES; crawl_delays and worths as known now. ValueError if one is not leased."""
        self._refuse_reserves()
        now, waiting, held = self._time.now(), self.waiting, view(self.clocks.table.held)
        rows = waiting.clocks_of_many(hosts)
        if not held[rows[:, 0]].all():
            raise ValueError("end_many: a host is not leased")
        bad = (outcomes == THROTTLED) | (outcomes == FAILED)
        ended = np.where(bad, np.where(np.isnan(ended), now, ended), np.where(requests > 0, ended, np.nan))
        asked = np.flatnonzero(~np.isnan(ended))
        asked_of = np.where(requests > 0, sites, 0)
        self._move(
            rows[asked], floors[asked], crawl_delays[asked], ended[asked], fetch_s[asked], outcomes[asked],
            asked_of[asked],
        )  # fmt: skip
        self._release(rows[rows != NONE])
        due = waiting.due_many(hosts)
        at = np.full(len(hosts), NONE)
        stay, go = np.flatnonzero(again), np.flatnonzero(~again)
        if len(stay):
            view(waiting.worth)[hosts[stay]] = worths[stay]
            waiting.ticket_many(hosts[stay])
            at[stay] = waiting.place_many(hosts[stay], now)
        self._drop(hosts[go], rows[go], now)
        waiting.arm_many(np.concatenate([at[:, None], rows], axis=1).ravel(), now)
        return due

    def leave_many(self, hosts: I8s) -> None:
        """As Politeness.deactivate, of hosts that wait."""
        for host in hosts.tolist():  # out of queues, which are lists
            self.waiting.withdraw(host)
        self._drop(hosts, self.waiting.clocks_of_many(hosts), self._time.now())

    def gaps_of(self, hosts: I8s, own_gaps: F8s) -> F8s:
        """As Politeness.gap_for."""
        return self.gaps.longest_many(own_gaps, self.waiting.clocks_of_many(hosts))

    def gaps_in_visit(self, hosts: I8s, own_gaps: F8s) -> F8s:
        """As Politeness.gap_in_visit."""
        clocks, longest = self.waiting.clocks_of_many(hosts), self.gaps_of(hosts, own_gaps)
        plain = np.where(clocks != NONE, view(self.clocks.table.gap)[clocks], 0.0).max(axis=1)
        return np.where(longest <= self._params.visit_seconds, longest, np.maximum(own_gaps, plain))

    def address_clocks(self, hosts: I8s) -> I8s:
        """The clock of each host's address."""
        return view(self.waiting.address_clock)[hosts].astype(np.int64) if len(hosts) else hosts

    def _refuse_reserves(self) -> None:
        if self.waiting.reserves:
            raise ValueError("a host has a clock reserved: that is for Politeness (sites with a gap)")

    def _release(self, clocks: I8s) -> None:
        """As ClockTable.release and Gaps.freed."""
        table = self.clocks.table
        paced = view(table.flags)[clocks] & Flag.PACED > 0
        view(table.held)[clocks[~paced]] -= 1
        table.release(clocks[paced].tolist())
        self.gaps.freed(clocks[~paced].tolist())

    def _drop(self, hosts: I8s, rows: I8s, now: float) -> None:
        """Hosts use their clocks no more."""
        used = rows[rows != NONE]
        np.subtract.at(view(self.clocks.table.users), used, np.uint32(1))
        last = np.sort(len(used) - 1 - np.unique(used[::-1], return_index=True)[1])  # by the last of its users
        self.clocks.let_go(used[last].tolist(), now)
        self.waiting.leave(hosts.tolist())

    def _move(
        self, rows: I8s, floors: F8s, delays: F8s, ended: F8s, fetch_s: F8s, outcomes: I8s, asked_of: U8s
    ) -> None:
        """As Gaps.move, for visits of as many hosts: only paced clocks stand in `rows` more than once, and none had a
        Retry-After."""
        stretched = np.minimum(self._params.gap_host_factor * fetch_s, self._params.gap_host_max_seconds)
        view(self.clocks.table.gap)[rows[:, 0]] = np.maximum(floors, stretched)
        for column in range(rows.shape[1]):
            paced = (rows[:, column] != NONE) & (view(self.clocks.table.flags)[rows[:, column]] & Flag.PACED > 0)
            for at in np.flatnonzero(paced).tolist():  # each answer tells something of its own
                told = int(asked_of[at]), float(ended[at]), float(fetch_s[at]), OUTCOMES[outcomes[at]]
                self.gaps.learn(int(rows[at, column]), *told)
            some = np.flatnonzero((rows[:, column] != NONE) & ~paced)
            self._move_column(
                rows[some, column], ended[some], outcomes[some], delays[some] if column == 0 else np.zeros(len(some))
            )
        self.clocks.moved(rows[rows != NONE].tolist())

    def _move_column(self, clocks: I8s, ended: F8s, outcomes: I8s, crawl_delays: F8s) -> None:
        """Clocks of one kind."""
        table = self.clocks.table
        gap, backoff = view(table.gap)[clocks], view(table.backoff)[clocks]
        for at in np.flatnonzero((backoff > 0) | (outcomes != OK)).tolist():  # few, each with a past of its own
            clock, outcome = int(clocks[at]), OUTCOMES[outcomes[at]]
            table.backoff[clock] = backoff[at] = self.gaps.backoff(
                table.kind[clock], float(gap[at]), float(backoff[at]), outcome
            )
        wait, why = np.maximum(gap, backoff), np.where(backoff > gap, Delay.BACKOFF, Delay.HOST_GAP)
        why[crawl_delays > wait] = Delay.CRAWL_DELAY
        wait = np.maximum(wait, crawl_delays)
        later = ended + wait > view(table.next)[clocks]
        clocks, wait = clocks[later], wait[later]
        view(table.next)[clocks], view(table.wait)[clocks] = ended[later] + wait, wait
        view(table.why)[clocks] = why[later]
