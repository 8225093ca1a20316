"""Keys of 128 bits: two u8 columns, `key` (the high half, by which everything is partitioned and sorted) and `low`.

Two different keys with the same high half are rare (43 pairs among 40 billion), so each step works on high halves
alone, checks for the rare case, and does it the slow and certain way only then.
"""

from __future__ import annotations

from collections.abc import Sequence

from drum import kernels
from drum.kernels import Index, Keys, Mask
from drum.pool import SegmentPool
from drum.ragged import Array, Batch, Schema

import numpy as np

LOW = "low"


def order_of(keys: Keys, lows: Keys) -> Index:
    """The stable order by (key, low)."""
    ordered, order = kernels.sort_keys(keys)
    return np.lexsort((lows, keys)) if _mixed(ordered, lows[order]) else order


def group_starts(ordered: Keys, lows: Keys) -> Index:
    """i8[g+1]: where each group of equal neighbours starts, and the length."""
    if not len(ordered):
        return np.zeros(1, dtype=np.int64)
    edges = np.ones(len(ordered) + 1, dtype=bool)
    edges[1:-1] = (ordered[1:] != ordered[:-1]) | (lows[1:] != lows[:-1])
    return np.flatnonzero(edges)


def match(a: Keys, a_lows: Keys, b: Keys, b_lows: Keys) -> tuple[Index, Index]:
    """Positions of the common keys of two arrays in order, without repeats."""
    if not (np.any(a[1:] == a[:-1]) or np.any(b[1:] == b[:-1])):
        i, j = kernels.match(a, b)
        same = a_lows[i] == b_lows[j]
        return i[same], j[same]
    keys, lows = np.concatenate((a, b)), np.concatenate((a_lows, b_lows))
    order = np.lexsort((lows, keys))  # stable: of two that are equal, that of `a` comes first
    first, second = order[:-1], order[1:]
    twins = (keys[first] == keys[second]) & (lows[first] == lows[second])
    return first[twins], second[twins] - len(a)


def look_up(
    pool: SegmentPool, places: Sequence[tuple[str, str]], values: Schema, keys: Keys, lows: Keys, once: bool = False
) -> tuple[Mask, Batch]:
    """(found[g], values of the newest slice that has the key, zeros where none has). In order, no repeats.

    places: (file, section) of each slice, oldest first."""
    found = np.zeros(len(keys), dtype=bool)
    stored: dict[str, Array] = {name: np.zeros(len(keys), kind) for name, kind in values.items()}
    for file, name in reversed(places):
        section = pool.section(file, name)
        before = found.copy()
        firsts = np.searchsorted(keys, section.blocks["label_lo"], side="left")
        lasts = np.searchsorted(keys, section.blocks["label_hi"], side="right")
        for block in np.flatnonzero(lasts > firsts).tolist():
            part = slice(int(firsts[block]), int(lasts[block]))
            batch = section.read(block, once=once)
            at, there = match(keys[part], lows[part], batch["key"], batch[LOW])
            newest = ~before[part][at]
            at, there = at[newest] + part.start, there[newest]
            found[at] = True
            for column, array in stored.items():
                array[at] = batch[column][there]
    return found, Batch(stored)


def cut(batch: Batch, key: int, low: int) -> int:
    """How many rows of a batch in order come up to (key, low)."""
    keys, lows = batch["key"], batch[LOW]
    first = int(np.searchsorted(keys, np.uint64(key), side="left"))
    last = int(np.searchsorted(keys, np.uint64(key), side="right"))
    return first + int(np.searchsorted(lows[first:last], np.uint64(low), side="right"))


def newest(batch: Batch) -> Batch:
    """Rows in order without repeats; of equal keys the first row stays."""
    order = order_of(batch["key"], batch[LOW])
    starts = group_starts(batch["key"][order], batch[LOW][order])
    return batch.take(order[starts[:-1]])


def _mixed(ordered: Keys, lows: Keys) -> bool:
    """Whether a high half is that of different keys."""
    return bool(np.any((ordered[1:] == ordered[:-1]) & (lows[1:] != lows[:-1])))
