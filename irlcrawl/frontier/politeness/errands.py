"""Requests that running visits wait for: robots.txt redirected to another authority, one slot per visit at a time.

An errand goes beside the clocks that its visit holds, though not before their gap, and before everybody who waits for
the others. There are at most as many as visits that are out, nearly always none: each is looked at, they need no queue.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from irlcrawl.frontier.politeness.entries import HostEntry, HostState
from irlcrawl.frontier.politeness.gaps import Gaps
from irlcrawl.frontier.politeness.gates import Gates, Kind
from irlcrawl.frontier.politeness.queues import Workbench


class Errands:
    def __init__(self, gaps: Gaps, gates: Gates, bench: Workbench) -> None:
        self._gaps, self._gates, self._bench = gaps, gates, bench
        self._of: dict[HostEntry, HostEntry] = {}  # parent -> its errand, waiting or leased

    def __len__(self) -> int:
        return len(self._of)

    def __contains__(self, parent: HostEntry) -> bool:
        return parent in self._of

    def add(self, entry: HostEntry, parent: HostEntry) -> None:
        self._of[parent] = entry

    def end(self, entry: HostEntry) -> None:
        """The errand is over."""
        if entry.errand is not None and self._of.get(entry.errand.parent) is entry:
            del self._of[entry.errand.parent]

    def take_from(self, parent: HostEntry) -> HostEntry | None:
        """The errand of a visit that is over, no longer counted as its errand."""
        return self._of.pop(parent, None)

    def dues(self) -> Iterator[tuple[float, HostEntry]]:
        """When each waiting errand may start; without those that need an address or a clock held by another visit."""
        for entry in self._of.values():
            due = self._due(entry)
            if due is not None:
                yield due, entry

    def _due(self, entry: HostEntry) -> float | None:
        errand = entry.errand
        if errand is None or entry.state != HostState.WAITING:
            return None
        due = errand.not_before
        gates, parents = self._gates, self._bench.gates_of(errand.parent.number)
        for gate in self._bench.gates_of(entry.number):
            if not gates.held[gate]:
                due = max(due, gates.next[gate])
            elif gate not in parents:
                return None
        return due

    def pause(self, entry: HostEntry, joined: Sequence[int], now: float, fetch_s: float = 0.0) -> None:
        """Of the gates that an errand shares with its visit, the gap runs from now: the visit's request just ended."""
        errand = entry.errand
        if errand is None:
            return
        gates, parents = self._gates, self._bench.gates_of(errand.parent.number)
        for gate in joined:
            if gates.held[gate] and gate in parents:
                gap = gates.longest_gap(gate)
                if gates.kind[gate] == Kind.HOST:
                    gap = max(gap, entry.crawl_delay, errand.parent.crawl_delay, self._gaps.stretch(fetch_s))
                errand.not_before = max(errand.not_before, now + gap)
