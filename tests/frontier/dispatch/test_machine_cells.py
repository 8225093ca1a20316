"""The shared table against a dictionary: no clock is due sooner than it was told, and few are due later."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.frontier.dispatch import machine_cells as cells
from irlcrawl.frontier.dispatch.machine_cells import BUCKET_BYTES, BUCKETS, CELLS, HELD, Cell
from irlcrawl.frontier.dispatch.machine_file import BYTES
from irlcrawl.frontier.politeness.clocks import Kind
from irlcrawl.frontier.politeness.columns import NONE

dues = st.floats(0.0, 200.0)
gaps = st.just(0.0) | st.floats(1e-6, 1e6)


def due_of(bucket: bytearray, key: int, now: float) -> float:
    at = cells.find(bucket, key)
    return cells.overflow(bucket, now) if at == NONE else cells.get(bucket, at, now).due


@given(st.lists(st.tuples(st.integers(1, 40), dues, st.booleans(), st.floats(0.0, 9.0)), max_size=80))
def test_no_clock_is_forgotten_before_it_is_due(writes: list[tuple[int, float, bool, float]]) -> None:
    """More clocks than a bucket has cells, at a time that goes on."""
    bucket, told, now = bytearray(BUCKET_BYTES), {}, 0.0
    for key, due, held, seconds in writes:
        now += seconds
        at = cells.find(bucket, key)
        cell = Cell(due, 1.0, 0.0, 1 | (HELD if held else 0), 0)
        if at == NONE:
            cells.make(bucket, key, cell, now)
        else:
            cells.put(bucket, at, cell)
        told[key] = due
        assert due_of(bucket, key, now) == due
        crowded = sum(due > now for due in told.values()) > CELLS
        for other, until in told.items():
            found = due_of(bucket, other, now)
            assert found >= until or until <= now
            assert crowded or found == until or found <= now or cells.overflow(bucket, now) > now


@given(dues, gaps, gaps, st.integers(0, HELD - 1), st.integers(0, HELD - 1))
def test_a_cell_is_read_as_it_was_written(due: float, gap: float, wanted_gap: float, member: int, wanted: int) -> None:
    """But for the gap, which loses digits: a promise gets no shorter, and no exchange seems to have ended earlier."""
    bucket = bytearray(BUCKET_BYTES)
    for held in (0, HELD):
        cells.put(bucket, 3, Cell(due, gap, wanted_gap, member | held, wanted))
        found = cells.get(bucket, 3, now=0.0)
        assert (found.due, found.member, found.wanted) == (due, member | held, wanted)
        assert abs(found.gap - gap) <= 1e-6 * gap
        assert found.gap >= gap if held else found.gap <= gap
        cells.put(bucket, 3, found)
        assert cells.get(bucket, 3, now=0.0) == found, "it crept up with each crawl that asked"


def test_a_name_and_an_address_of_the_same_text_have_clocks_of_their_own() -> None:
    keys = {cells.key_of(kind, 7) for kind in (Kind.HOST, Kind.ADDRESS, Kind.SITE)}
    assert len(keys) == 3
    assert 0 not in {cells.key_of(kind, key) for kind in range(3) for key in (0, (1 << 64) - 0x9E3779B97F4A7C15)}


def test_of_200_000_clocks_hardly_any_is_late_by_mistake() -> None:
    assert BYTES <= 16 << 20
    in_bucket = np.bincount(np.random.default_rng(1).integers(0, BUCKETS, 200_000), minlength=BUCKETS)
    forgotten = np.maximum(in_bucket - CELLS, 0).sum()
    assert forgotten <= 200_000 / 5000
    full = (in_bucket > CELLS).mean()  # of the clocks nobody used, so many wait for those that were forgotten
    assert full <= 1 / 1000
