"""Runs against a dict of what is done: fold is idempotent, nothing done comes back, reads are exact."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass, field
from pathlib import Path

from drum import Batch, Catalog, Edits, Files, Ragged, SegmentPool, SegmentWriter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.base.rows import BYTES, LINK, with_pages
from irlcrawl.frontier.state.hosts import STATE
from irlcrawl.frontier.state.runs import BLOCK_ROWS, COLUMN_BYTES, Run, RunReader, Runs


@dataclass
class Shelf:
    """Runs on disk: every change is a commit of its own."""

    path: Path
    files: Files = field(default_factory=Files)
    commits: int = 0

    def __post_init__(self) -> None:
        self.catalog = Catalog.open(self.path, self.files)
        self.pool = SegmentPool(self.files, str(self.path), 16)
        self.runs = Runs(self.catalog, self.pool)
        self.reader = RunReader(self.pool, cache_bytes_max=200_000)

    def reopen(self) -> None:
        self.pool.close()
        self.catalog.close()
        self.__post_init__()

    def add(self, runs: list[int], pages: bool = False) -> int:
        """A segment with runs of these many rows, host by host; a row's key is its place."""
        rows = sum(runs)
        columns = {name: np.arange(rows).astype("<" + kind) for name, kind in LINK.items() if kind != BYTES}
        texts = Ragged.from_list([b"http://h/%d" % row for row in range(rows)])
        urls = Batch.zeros(LINK, rows).with_(**columns, url=texts)
        urls = with_pages(urls) if pages else urls
        starts = np.cumsum([0, *runs])[:-1]
        index = Batch(
            {
                "key": np.arange(len(runs), dtype=np.uint64),
                "site": np.zeros(len(runs), np.uint64),
                "start": starts.astype(np.uint32),
                "rows": np.array(runs, np.uint32),
                "priority": np.zeros(len(runs), np.uint8),
                "origin": Ragged.from_list([b"http://h"] * len(runs)),
                **{name: np.zeros(len(runs), "<" + kind) for name, kind in STATE.items()},
            }
        )
        edits = Edits()
        with SegmentWriter(self.files, self.path / self._name()) as writer:
            number = self.runs.add(writer, edits, urls, index)
        self.catalog.commit(edits)
        self.runs.opened(number)
        return number

    def fold(self, places: list[tuple[int, int]], save: bool = True) -> list[bool]:
        fresh = self.runs.fold(
            np.array([number for number, _ in places], np.uint32), np.array([row for _, row in places], np.uint32)
        )
        if save:
            edits = Edits()
            with SegmentWriter(self.files, self.path / self._name()) as writer:
                self.runs.save(lambda: writer, edits)
            self.catalog.commit(edits)
        return fresh.tolist()

    def _name(self) -> str:
        self.commits += 1
        return f"turn-{self.commits}.seg"

    def left(self) -> set[tuple[int, int]]:
        """What would be leased after a reopening."""
        return {(h.run.segment, row) for h in self.runs.hosts() for row in range(h.run.at, h.run.end)}


@settings(max_examples=40)
@given(
    st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=4), min_size=1, max_size=3),
    st.lists(
        st.tuples(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 19)), max_size=8), st.booleans()), max_size=6
    ),
)
def test_done_is_done_once_and_for_ever(
    tmp_path_factory: pytest.TempPathFactory, segments: list[list[int]], folds: list[tuple[list[tuple[int, int]], bool]]
) -> None:
    """I2: whatever is told how often, a row is fresh once, and never comes back, reopened or not."""
    shelf = Shelf(tmp_path_factory.mktemp("runs"))
    sizes = {shelf.add(runs): sum(runs) for runs in segments}
    left = {(number, row) for number, rows in sizes.items() for row in range(rows)}
    for told, reopen in folds:
        places = [(number, row) for number, row in told if row < sizes.get(number, 0)]
        fresh = shelf.fold(places)
        assert sum(fresh) == len(left & set(places))
        assert {place for place, new in zip(places, fresh, strict=True) if new} == left & set(places)
        left -= set(places)
        if reopen:
            shelf.reopen()
        assert shelf.runs.rows == len(left)
        assert shelf.left() == left
        for number, rows in sizes.items():
            parts = shelf.runs.left(Run(number, 1, rows))
            assert {(number, row) for run in parts for row in range(run.at, run.end)} == {
                place for place in left if place[0] == number and place[1] >= 1
            }
        waiting = sorted(key for batch in shelf.runs.waiting() for key in batch["key"].tolist())
        assert waiting == sorted(row for _, row in left)


def test_a_run_that_is_done_in_the_middle_comes_back_as_its_parts(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    number = shelf.add([3, 10])
    shelf.fold([(number, row) for row in (5, 6, 9, 12)])
    shelf.reopen()
    assert [(h.key, h.run.at, h.run.end) for h in shelf.runs.hosts()] == [(0, 0, 3), (1, 3, 5), (1, 7, 9), (1, 10, 12)]


def test_a_number_is_never_given_twice(tmp_path: Path) -> None:
    """A late unit names (segment, row): another segment under that number would be taken for it."""
    shelf = Shelf(tmp_path)
    first = shelf.add([2])
    shelf.fold([(first, 0), (first, 1)])
    shelf.reopen()
    assert shelf.runs.rows == 0
    second = shelf.add([2])
    assert second != first
    assert shelf.fold([(first, 0), (second, 0)]) == [False, True]


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 1600), st.integers(1, 600)), min_size=1, max_size=8))
def test_reads_across_blocks(tmp_path_factory: pytest.TempPathFactory, reads: list[tuple[int, int]]) -> None:
    """I4: what reading keeps is bounded."""
    shelf = Shelf(tmp_path_factory.mktemp("runs"))
    rows = 3 * BLOCK_ROWS + 100
    number = shelf.add([rows])
    for start, count in reads:
        end = min(start + count, rows)
        shelf.reader.committed(shelf.runs.segments())
        batch = shelf.reader.read(number, start, end)
        assert batch["key"].tolist() == list(range(start, end))
        assert batch["url"].tolist() == [b"http://h/%d" % row for row in range(start, end)]
    assert shelf.reader.nbytes <= 200_000
    assert shelf.reader.nbytes == sum(memory(batch) for batch in shelf.reader._cache.values())


def memory(block: Batch) -> int:
    return block.nbytes + COLUMN_BYTES * len(block.columns)


@pytest.mark.parametrize("pages", [False, True])
def test_blocks_of_a_few_rows_count_by_the_memory_they_take(tmp_path: Path, pages: bool) -> None:
    """A row alone in its block counted 72 bytes and took 5,400: where turns brought few URLs, the 16 MiB of blocks took
    100 and more, and grew for weeks. Blocks of pages, which have more columns, took twice what they counted."""
    shelf = Shelf(tmp_path)
    numbers = [shelf.add([1], pages) for _ in range(100)]
    shelf.reader.committed(shelf.runs.segments())
    shelf.reader.read(numbers[0], 0, 1)
    tracemalloc.start()
    for number in numbers:
        shelf.reader.read(number, 0, 1)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.5 * shelf.reader.nbytes <= taken <= 200_000, "the bound that Shelf gives it"


def test_blocks_of_a_segment_that_is_gone_are_forgotten(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    first, second = shelf.add([3]), shelf.add([3])
    shelf.reader.committed(shelf.runs.segments())
    both = [shelf.reader.read(number, 0, 3) for number in (first, second)]
    shelf.fold([(first, row) for row in range(3)])
    shelf.reader.committed(shelf.runs.segments())
    assert shelf.reader.nbytes == memory(both[1])


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1299)), min_size=1, max_size=50))
def test_takes_rows_of_many_segments_in_the_order_asked(
    tmp_path_factory: pytest.TempPathFactory, places: list[tuple[int, int]]
) -> None:
    shelf = Shelf(tmp_path_factory.mktemp("runs"))
    numbers = [shelf.add([rows]) for rows in (1300, 2 * BLOCK_ROWS, 7)]
    places = [(numbers[which], row % (1300, 2 * BLOCK_ROWS, 7)[which]) for which, row in places]
    batch = shelf.runs.take(np.array([number for number, _ in places]), np.array([row for _, row in places]))
    assert batch["key"].tolist() == [row for _, row in places]
    assert batch["url"].tolist() == [b"http://h/%d" % row for _, row in places]
