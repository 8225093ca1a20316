"""On what terms an active host may be visited: when, how many URLs at once, how far apart; what its clocks say.

Questions only: what moves clocks and hosts is politeness.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from irlcrawl.config import keys as config
from irlcrawl.frontier.politeness.clocks import Clocks
from irlcrawl.frontier.politeness.columns import view
from irlcrawl.frontier.politeness.crowd import Crowd
from irlcrawl.frontier.politeness.entries import HostEntry
from irlcrawl.frontier.politeness.gaps import Gaps
from irlcrawl.frontier.politeness.gates import NONE, Kind, Promise


class Terms:
    """Times are unix seconds, gaps seconds."""

    def __init__(self, params: config.Politeness, gaps: Gaps, clocks: Clocks, bench: Crowd) -> None:
        self.clocks = clocks
        self._params, self._gaps, self._bench = params, gaps, bench

    def due(self, entry: HostEntry) -> float:
        """When all clocks of an active entry, held ones as if free now, are due (unix seconds, may lie in the past)."""
        return self._latest(self._gates(entry))

    def _latest(self, gates: Sequence[int]) -> float:
        due, nexts = 0.0, self.clocks.next
        for gate in gates:
            if nexts[gate] > due:
                due = nexts[gate]
        return due

    def gap_for(self, entry: HostEntry) -> float:
        """Least seconds between two requests inside a visit: floors, Crawl-delay, back-off, those of its address."""
        return self._gap(entry, self._gates(entry))

    def _gap(self, entry: HostEntry, gates: Sequence[int]) -> float:
        return self._longer(max(self._gaps.floor(entry), entry.crawl_delay), gates)

    def _longer(self, gap: float, gates: Sequence[int]) -> float:
        """The longest of a gap and those of gates."""
        gaps, backoffs = self.clocks.gap, self.clocks.backoff
        for gate in gates:
            if gaps[gate] > gap:
                gap = gaps[gate]
            if backoffs[gate] > gap:
                gap = backoffs[gate]
        return gap

    def _wanted_gaps(self, gates: Sequence[int]) -> list[float]:
        """The gaps of a host's clocks that other active hosts use: its address's, and its site's where sites have a
        gap."""
        users = self.clocks.users
        return [self.clocks.longest_gap(gate) for gate in gates[1:] if users[gate] > 1]

    def shared(self, entry: HostEntry) -> bool:
        """Whether another active host uses its address, or its site where sites have a gap."""
        return bool(self._wanted_gaps(self._gates(entry)))

    def visit_size(self, entry: HostEntry) -> int:
        """URLs for one visit: as many as fit in visit_seconds of gaps; one where others wait for a clock with a gap, or
        would wait for a gap that is not theirs."""
        return self._size(self._gates(entry), max(self._gaps.floor(entry), entry.crawl_delay))

    def _size(self, gates: Sequence[int], own: float) -> int:
        """As `visit_size`, of a host's gates and its `own_gaps`."""
        wanted = self._wanted_gaps(gates)
        if any(wanted):
            return 1
        gap = self._longer(own, gates)
        if gap <= 0:
            return self._params.visit_urls_max
        return min(1 + int(min([self._params.visit_seconds, *wanted]) / gap), self._params.visit_urls_max)

    def own_gaps(self, entries: Sequence[HostEntry]) -> NDArray[np.float64]:
        """Least seconds between two requests to each host, by its floor and its Crawl-delay alone."""
        return np.maximum(self._gaps.floors(entries), [entry.crawl_delay for entry in entries])

    def gaps_of(self, numbers: NDArray[np.int64], own: NDArray[np.float64]) -> NDArray[np.float64]:
        """As `gap_for`, of hosts by their numbers and `own_gaps`."""
        return np.maximum(own, self._longest(self._bench.rows_of(numbers)).max(axis=1))

    def terms_of(
        self, numbers: NDArray[np.int64] | NDArray[np.int32], own: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(`gap_for`, `due`) of hosts by their numbers and `own_gaps`. Each turn asks for all hosts in memory."""
        clocks, bench = self.clocks, self._bench
        # The value for no clock stands last, where the number NONE finds it.
        longest = np.append(np.maximum(view(clocks.gap), view(clocks.backoff)), 0.0)
        nexts = np.append(view(clocks.next), 0.0)
        gap, due = own, np.zeros(len(numbers))
        for column in (bench.host_gate, bench.site_gate, bench.address_gate):
            gates = view(column)[numbers]
            gap, due = np.maximum(gap, longest[gates]), np.maximum(due, nexts[gates])
        return gap, due

    def _longest(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """As `longest_gap`, of each gate; 0 where there is none."""
        clocks = self.clocks
        return np.where(rows != NONE, np.maximum(view(clocks.gap)[rows], view(clocks.backoff)[rows]), 0.0)

    def visit_sizes(self, numbers: NDArray[np.int64], own: NDArray[np.float64]) -> NDArray[np.int64]:
        """As `visit_size`, of hosts by their numbers and `own_gaps`."""
        most, rows = self._params.visit_urls_max, self._bench.rows_of(numbers)
        gap = np.maximum(own, self._longest(rows).max(axis=1))
        shared = ((rows[:, 1:] != NONE) & (view(self.clocks.users)[rows[:, 1:]] > 1)).any(axis=1)
        fit = np.minimum(1 + np.floor(self._params.visit_seconds / np.where(gap > 0, gap, np.inf)), most)
        return np.where(gap <= 0, most, np.where(shared, 1, fit)).astype(np.int64)

    def patience(self, entry: HostEntry) -> float:
        """The longest wait inside a visit: visit_seconds; where others wait for a clock it holds, that clock's gap. A
        host's own gap or Crawl-delay must not keep an address from its other hosts."""
        return min([self._params.visit_seconds, *self._wanted_gaps(self._gates(entry))])

    def promises(self, entry: HostEntry) -> list[Promise]:
        """The clocks a lease of the entry moves, for LeaseLog.append."""
        clocks, gates = self.clocks, self._gates(entry)
        host_gap = self._gap(entry, gates)
        return [
            Promise(kind, clocks.key[gate], host_gap if kind == Kind.HOST else clocks.longest_gap(gate))
            for gate in gates
            for kind in (clocks.kind[gate],)
        ]

    def _gates(self, entry: HostEntry) -> Sequence[int]:
        """Those it uses: the host's first, the address's, when known, last. The turn's thread may ask while the loop
        lets the host go; it then sees none, or what was."""
        number = entry.number
        return self._bench.gates_of(number) if number != NONE else ()
