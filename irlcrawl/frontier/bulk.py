"""Visits by the hundred: begun and ended as columns, with the same results as one after the other (politeness.py).

Errands, and hosts that are kept a clock free, are few and go one by one; so do all hosts when there are fewer than
`many`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from irlcrawl.frontier.columns import NONE, view
from irlcrawl.frontier.entries import HostEntry, State
from irlcrawl.frontier.gaps import Outcome
from irlcrawl.frontier.politeness import Politeness

I8s: TypeAlias = NDArray[np.int64]
F8s: TypeAlias = NDArray[np.float64]
Visits: TypeAlias = list[tuple[HostEntry, int]]
"""Hosts, and how many URLs each is visited for."""
UrlsOf: TypeAlias = Callable[[Sequence[HostEntry]], list[int]]
"""How many URLs hosts have for one visit, each at least 1."""


class BulkPoliteness(Politeness):
    """As Politeness, for many hosts at once."""

    def pop_all(self, urls_max: int, urls_of: UrlsOf, visits_max: int = 1 << 30) -> Visits:
        """`pop` and `visit_size` until so many visits have begun, of `urls_max` URLs together, or nobody may be visited
        now."""
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

    def _pop_due(self, due: I8s, now: float, urls_max: int, urls_of: UrlsOf) -> Visits:
        """Those that come out of the gates that are due, until there are enough."""
        bench = self._bench
        places, hosts = bench.alone(due, now)
        alone = bench.entries_of(hosts)
        urls = np.zeros(len(due), np.int64)
        urls[places] = np.minimum(self.visit_sizes(alone, hosts), urls_of(alone))
        entries: list[HostEntry | None] = [None] * len(due)
        for place, entry in zip(places.tolist(), alone, strict=True):
            entries[place] = entry
        before, others = np.cumsum(urls), 0
        together = np.ones(len(due), np.bool_)
        together[places] = False
        for place in np.flatnonzero(together).tolist():  # hosts that share a clock are for one another in turn
            left = urls_max - int(before[place]) - others
            if left <= 0:
                break
            host = bench.serve(int(due[place]), now)
            if host != NONE and self._begin(entry := bench.entry(host), now):
                entries[place] = entry
                urls[place] = min(self.visit_size(entry), *urls_of([entry]), left)
                others += int(urls[place])
        total = np.cumsum(urls)
        end = min(int(np.searchsorted(total, urls_max)) + 1, len(due))
        urls[end - 1] -= max(0, int(total[end - 1]) - urls_max)
        bench.skip(end)
        begun = places < end
        bench.take_out(hosts[begun], due[places[begun]])
        leased = alone[: int(begun.sum())]
        for entry in leased:
            entry.state = State.LEASED
        self._out.update(leased)
        return [(entry, many) for entry, many in zip(entries, urls[:end].tolist()) if entry is not None]

    def release_all(
        self, entries: Sequence[HostEntry], *, ended: F8s, fetch_s: F8s, requests: I8s, outcomes: Sequence[Outcome],
        crawl_delays: Sequence[float | None], again: Sequence[bool],
    ) -> list[float]:  # fmt: skip
        """As `release`, of a row each, where no answer had a Retry-After; `ended` is NaN where nothing was asked.
        For the simulator (bench/_sim/hosts.py): ends that workers report come one at a time."""
        if len(entries) < self.many or self._errands or self._bench.reserves:
            each = zip(entries, ended.tolist(), fetch_s.tolist(), requests.tolist(), outcomes, crawl_delays, again)
            return [self._release(*one) for one in each]
        for entry, delay in zip(entries, crawl_delays, strict=True):
            if entry.state != State.LEASED:
                raise ValueError(f"release: {entry!r} is not leased")
            if delay is not None:
                entry.crawl_delay = delay
        now, bench = self._clock.now(), self._bench
        numbers = np.array([entry.number for entry in entries])
        rows = bench.rows_of(numbers)
        bad = np.array([outcome in ("failed", "throttled") for outcome in outcomes])
        ended = np.where(bad, np.where(np.isnan(ended), now, ended), np.where(requests > 0, ended, np.nan))
        self._move(entries, rows, ended, fetch_s, outcomes)
        self._out.difference_update(entries)
        view(self.clocks.held)[rows[rows != NONE]] -= 1
        due = bench.due(numbers)
        at = np.full(len(entries), NONE)
        stay, leave = np.flatnonzero(again), np.flatnonzero(~np.array(again))
        at[stay] = self._wait_again([entries[place] for place in stay.tolist()], numbers[stay], due[stay], now)
        self._drop_all([entries[place] for place in leave.tolist()], rows[leave], now)
        bench.arm_all(np.concatenate([at[:, None], rows], axis=1).ravel(), now)
        return due.tolist()

    def _move(
        self, entries: Sequence[HostEntry], rows: I8s, ended: F8s, fetch_s: F8s, outcomes: Sequence[Outcome]
    ) -> None:
        """The clocks of visits that ended, where something was asked."""
        asked = np.flatnonzero(~np.isnan(ended))
        some = [entries[place] for place in asked.tolist()]
        delays = np.array([one.crawl_delay for one in some])
        how = [outcomes[place] for place in asked.tolist()]
        self._gaps.move_all(
            self.clocks, rows[asked], self._gaps.floors(some), delays, ended[asked], fetch_s[asked], how
        )

    def _release(self, entry: HostEntry, ended: float, fetch_s: float, requests: int, outcome: Outcome,
                 crawl_delay: float | None, again: bool) -> float:  # fmt: skip
        return self.release(
            entry, ended=None if ended != ended else ended, fetch_s=fetch_s, requests=requests, outcome=outcome,
            crawl_delay=crawl_delay, again=again,
        )  # fmt: skip

    def _wait_again(self, entries: Sequence[HostEntry], numbers: I8s, due: F8s, now: float) -> I8s:
        """Hosts begin to wait for their next visit. Returns the gates they wait at, for the line."""
        if not entries:
            return numbers
        self._bench.ticket_all(numbers)
        for entry, at in zip(entries, due.tolist(), strict=True):
            if not (entry.address and entry.address_until > max(now, at)):
                self._leave_address(entry, now)
        return self._wait_all(entries, numbers, now)

    def _drop_all(self, entries: Sequence[HostEntry], rows: I8s, now: float) -> None:
        """Hosts use their gates no more."""
        if not entries:
            return
        gates = rows[rows != NONE]
        view(self.clocks.users)[gates] -= 1
        self.clocks.let_go_all(gates, now)
        for entry in entries:
            entry.state = State.IDLE
        self._bench.leave_all(entries)
