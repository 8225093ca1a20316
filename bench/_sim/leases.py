"""The URLs that may be leased: the runs of each host, first come first, and what a lease needs of their rows."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from drum import Batch

import numpy as np
from numpy.typing import NDArray

from bench._sim.table import Table
from irlcrawl.frontier.politeness.columns import NONE, take_numbers
from irlcrawl.frontier.state.runs import Run, Runs

I8s = NDArray[np.int64]
ROW_BITS, ROW_MASK = np.uint64(32), np.uint64(0xFFFFFFFF)


class RunQueues:
    """As Host.runs, by the number of a host: rows of a table, of which each names the next of its host. Columns of
    numbers name a host once."""

    def __init__(self) -> None:
        self._runs = Table({"segment": "i8", "at": "i8", "end": "i8", "next": "i8", "worth": "u1"})
        self._used, self._free = 0, array("i")
        self._hosts = Table({"first": "i8", "last": "i8"})

    def come(self, hosts: I8s) -> None:
        """Hosts without runs."""
        self._hosts.reach(int(hosts.max(initial=-1)) + 1)
        self._hosts["first"][hosts] = NONE

    def add(self, hosts: I8s, segment: int, at: I8s, end: I8s, worth: NDArray[np.uint8]) -> None:
        """A run for each, behind those it has."""
        rows = take_numbers(self._free, self._used, len(hosts))
        self._used = max(self._used, int(rows.max(initial=-1)) + 1)
        self._runs.reach(self._used)
        for name, column in (("segment", segment), ("at", at), ("end", end), ("next", NONE), ("worth", worth)):
            self._runs[name][rows] = column
        first, last = self._hosts["first"], self._hosts["last"]
        none = first[hosts] == NONE
        first[hosts[none]] = rows[none]
        self._runs["next"][last[hosts[~none]]] = rows[~none]
        last[hosts] = rows

    def first(self, hosts: I8s) -> tuple[I8s, I8s, I8s]:
        """The first run of each: (segment, at, end)."""
        rows = self._hosts["first"][hosts]
        return self._runs["segment"][rows], self._runs["at"][rows], self._runs["end"][rows]

    def worth(self, hosts: I8s) -> NDArray[np.uint8]:
        """Of the first run of each."""
        return self._runs["worth"][self._hosts["first"][hosts]]

    def advance(self, hosts: I8s, count: I8s, worth: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """So many rows of each host's first run are done, and it is worth so much now. Returns which have any left."""
        first, at = self._hosts["first"], self._runs["at"]
        rows = first[hosts]
        self._runs["worth"][rows] = worth
        at[rows] += count
        done = at[rows] >= self._runs["end"][rows]
        self._free.extend(rows[done].tolist())
        first[hosts[done]] = self._runs["next"][rows[done]]
        left: NDArray[np.bool_] = first[hosts] != NONE
        return left

    def take(self, host: int) -> list[Run]:
        """All runs of a host, which has none then."""
        runs, row = [], int(self._hosts["first"][host])
        while row != NONE:
            segment, at, end, after = (int(self._runs[name][row]) for name in ("segment", "at", "end", "next"))
            runs.append(Run(segment, at, end))
            self._free.append(row)
            row = after
        self._hosts["first"][host] = NONE
        return runs


class Leases:
    """What a lease needs of the URLs in ready segments that are not done, in one table: a row each, by segment and row.

    Hosts with many URLs keep a few rows of old segments alive, so only those rows are kept."""

    COLUMNS = ("key", "depth", "attempt", "priority")

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._place = np.zeros(0, np.uint64)  # ascending
        self._rows = Batch({"key": np.zeros(0, np.uint64), "depth": np.zeros(0, np.uint16),
                            "attempt": np.zeros(0, np.uint8), "priority": np.zeros(0, np.uint8)})  # fmt: skip

    def __len__(self) -> int:
        return len(self._place)

    def bring(self, numbers: Iterable[int]) -> None:
        """New segments; what was done meanwhile is forgotten."""
        segments, starts = np.unique(self._place >> ROW_BITS, return_index=True)
        ends = np.append(starts, len(self))[1:]
        left = [self._left(*part) for part in zip(segments.tolist(), starts, ends, strict=True)]
        kept = np.concatenate([np.zeros(0, np.int64), *left])
        places, rows = [self._place[kept]], [self._rows.take(kept)]
        for number in sorted(numbers):
            section = self._runs._section(number)
            places.append(_places(np.uint64(number), np.arange(section.rows)))
            rows += section.scan(self.COLUMNS)
        self._place, self._rows = np.concatenate(places), Batch.concat(rows)

    def _left(self, number: int, start: int, end: int) -> NDArray[np.int64]:
        """Which of the rows from start to end, those of a segment, are not done."""
        segment = self._runs._segments.get(number)
        if segment is None:  # wholly done
            return np.zeros(0, np.int64)
        return start + np.flatnonzero(~segment.done[self._place[start:end] & ROW_MASK])

    def take(self, segment: NDArray[np.int64], row: NDArray[np.int64]) -> Batch:
        return self._rows.take(np.searchsorted(self._place, _places(segment.astype(np.uint64), row)))


def _places(segment: NDArray[np.uint64] | np.uint64, row: NDArray[np.int64]) -> NDArray[np.uint64]:
    return (segment << ROW_BITS) | row.astype(np.uint64)
