"""Hosts of the simulated crawl: the table of leases against a dictionary."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bench._sim.hosts import Leases
from drum import Batch
from irlcrawl.frontier.runs import Runs

Row = tuple[int, int, int]


class Segments:
    """What Leases asks of Runs: rows of segments, and which are done."""

    def __init__(self) -> None:
        self.rows: dict[int, list[Row]] = {}
        self._segments: dict[int, Any] = {}

    def add(self, number: int, rows: list[Row]) -> None:
        self.rows[number] = rows
        self._segments[number] = SimpleNamespace(done=np.zeros(len(rows), np.bool_))

    def _section(self, number: int) -> Any:
        rows = self.rows[number]

        def scan(columns: tuple[str, ...]) -> Iterator[Batch]:
            kinds = {"key": np.uint64, "depth": np.uint16, "attempt": np.uint8}
            for start in range(0, len(rows), 3):
                block = zip(*rows[start : start + 3], strict=True)
                yield Batch({name: np.array(part, kinds[name]) for name, part in zip(columns, block, strict=True)})

        return SimpleNamespace(rows=len(rows), scan=scan)

    def finish(self, number: int, row: int) -> None:
        segment = self._segments.get(number)
        if segment is not None:
            segment.done[row % len(segment.done)] = True
            if segment.done.all():
                del self._segments[number]


rows = st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 999), st.integers(0, 9)), min_size=1, max_size=8)
turns = st.lists(st.tuples(st.lists(rows, max_size=2), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 7)))))


@given(turns)
def test_leases_give_each_url_that_is_not_done_and_keep_no_other(
    steps: list[tuple[list[list[Row]], list[tuple[int, int]]]],
) -> None:
    runs = Segments()
    leases = Leases(cast(Runs, runs))
    number = 0
    for new, done in steps:
        left = sum(int((~segment.done).sum()) for segment in runs._segments.values())
        numbers = []
        for some in new:
            runs.add(number, some)
            numbers.append(number)
            number += 1
        leases.bring(numbers)
        assert len(leases) == left + sum(map(len, new)), "what was done when the turn's runs came is gone"
        live = [(n, at) for n, segment in runs._segments.items() for at in np.flatnonzero(~segment.done).tolist()]
        live.reverse()
        if live:
            taken = leases.take(*np.array(live, np.int64).T)
            columns = (taken[name].tolist() for name in Leases.COLUMNS)
            assert list(zip(*columns, strict=True)) == [runs.rows[n][at] for n, at in live]
        for segment, row in done:
            runs.finish(segment, row)
