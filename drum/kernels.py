"""What a merge computes, as pure numpy: order, groups, first occurrence, match; and the operations built on them.

A kernel sees the pending rows of a bucket sorted by (key, op, arrival), one group a key, beside what the store holds
for each key, and answers for whole arrays at once: what to store, which rows to hand on, what to write beside them.
Check, update and check+update are kernels; so are the budgets of a crawler, and yours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from drum.ragged import Array, Batch, Column

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
Index = NDArray[np.int64]
Keys = NDArray[np.uint64]

_REPAIRS_MAX = 1000  # runs put right one by one before sorting everything again is cheaper


@dataclass
class Result:
    """A kernel's answer for g groups and n items."""

    values: Batch  # g rows of the store's values; looked at only where `write`
    write: Mask  # [g] store the value
    emit: Mask  # [n] hand the row on
    columns: dict[str, Array] = field(default_factory=dict)  # [n] each: added to the rows handed on


class Kernel(Protocol):
    """Called once for each bucket of a merge.

    columns: names of the numeric pending columns it wants to see; rows of a section without one read as zero.
    found[g]: the store holds the key; stored: its values (zeros where not found); items: `key`, `op` (u1) and the
    columns, n rows sorted by (key, op, arrival); starts: i8[g+1], group i is rows starts[i] to starts[i+1].

    A kernel may have a method `begin(bucket: Bucket)`, called before; it may read and change `bucket.extra`.
    """

    columns: Sequence[str]

    def __call__(self, found: Mask, stored: Batch, items: Batch, starts: Index) -> Result: ...


class CheckUpdate:
    """Hand on the first occurrence of every key not seen before, and remember the keys.

    values: pending columns kept as the store's values; the last row of a key counts.
    duplicates: hand on every row, with a column `new` that says which ones the others are copies of.
    """

    def __init__(self, values: Sequence[str] = (), duplicates: bool = False) -> None:
        self.columns: Sequence[str] = _names(values)
        self.duplicates = duplicates

    @property
    def ignores_repeats(self) -> bool:
        """Whether a row whose key came before changes nothing, so that a cache may drop it."""
        return not self.columns and not self.duplicates

    def __call__(self, found: Mask, stored: Batch, items: Batch, starts: Index) -> Result:
        new = np.zeros(items.rows, dtype=bool)
        new[starts[:-1][~found]] = True
        values = items.select(self.columns).take(starts[1:] - 1) if self.columns else stored
        write = np.ones(len(found), dtype=bool) if self.columns else ~found
        if self.duplicates:
            return Result(values, write, np.ones(items.rows, dtype=bool), {"new": new})
        return Result(values, write, new)


class Check:
    """Hand on every row with a column `found` and the stored values; change nothing."""

    columns: Sequence[str] = ()

    def __call__(self, found: Mask, stored: Batch, items: Batch, starts: Index) -> Result:
        sizes = np.diff(starts)
        columns: dict[str, Array] = {name: np.repeat(stored[name], sizes) for name in stored.columns}
        columns["found"] = np.repeat(found, sizes)
        return Result(stored, np.zeros(len(found), dtype=bool), np.ones(items.rows, dtype=bool), columns)


class Update:
    """Store values, hand nothing on: the last row of a key counts, or rows and stored value are combined.

    combine: value column -> ufunc of two numbers that may be applied in any grouping, such as np.add or np.maximum. It
    works on the store's numbers: a column of small ones does not overflow. TypeError, ValueError.
    """

    def __init__(self, values: Sequence[str], combine: Mapping[str, np.ufunc] | None = None) -> None:
        self.columns: Sequence[str] = _names(values)
        self.combine = dict(combine or {})
        for name, ufunc in self.combine.items():
            if name not in self.columns:
                raise ValueError(f"combine has the column {name!r}, and the values are {list(self.columns)}")
            if not isinstance(ufunc, np.ufunc) or (ufunc.nin, ufunc.nout) != (2, 1):
                raise TypeError(f"combine is by ufuncs of two numbers such as np.add, not {ufunc!r}")

    def __call__(self, found: Mask, stored: Batch, items: Batch, starts: Index) -> Result:
        values: dict[str, Column] = {}
        for name in self.columns:
            ufunc = self.combine.get(name)
            if ufunc is None:
                values[name] = items[name][starts[1:] - 1]
            else:
                given = items[name].astype(stored[name].dtype, copy=False)
                both = ufunc.reduceat(given, starts[:-1]) if len(found) else given[:0]
                values[name] = np.where(found, ufunc(stored[name], both), both).astype(given.dtype)
        return Result(Batch(values), np.ones(len(found), dtype=bool), np.zeros(items.rows, dtype=bool))


def _names(values: Sequence[str]) -> tuple[str, ...]:
    """Of columns; a string is a sequence of strings, too, and not what is meant."""
    if isinstance(values, str):
        raise TypeError(f"values are a list of columns such as [{values!r}], not {values!r}")
    return tuple(values)


def sort_keys(keys: Keys) -> tuple[Keys, Index]:
    """(sorted keys, order) with keys[order] == sorted keys, equal keys in their order of arrival.

    Sorts words of a key's leading bits (past those that all share) and its position, twice as fast as argsort. Leading
    bits of two keys rarely agree where the keys do not; where they do, that run is sorted again by whole keys.
    """
    n = len(keys)
    if n < 2:
        return keys, np.arange(n)
    shared = 64 - int(keys.min() ^ keys.max()).bit_length()
    bits = (n - 1).bit_length()
    words = np.left_shift(keys, np.uint64(min(shared, 63)), dtype=np.uint64)
    words >>= np.uint64(bits)
    words <<= np.uint64(bits)
    words |= np.arange(n, dtype=np.uint64)
    words.sort()
    order = np.bitwise_and(words, np.uint64((1 << bits) - 1)).view(np.int64)
    ordered = keys[order]
    falls = np.flatnonzero(ordered[1:] < ordered[:-1])
    if len(falls):
        _repair(keys, words >> np.uint64(bits), falls, ordered, order)
    return ordered, order


def _repair(keys: Keys, heads: Keys, falls: Index, ordered: Keys, order: Index) -> None:
    """Sort the runs of equal `heads` that contain a fall by whole keys, in place."""
    edges = np.flatnonzero(np.concatenate(([True], heads[1:] != heads[:-1], [True])))
    runs = np.unique(np.searchsorted(edges, falls, side="right") - 1)
    if len(runs) > _REPAIRS_MAX:
        order[:] = np.argsort(keys, kind="stable")
        ordered[:] = keys[order]
        return
    for run in runs.tolist():  # random keys: n^2 / 2^(64 + shared bits - bits of n) runs, so nearly none
        part = slice(edges[run], edges[run + 1])
        inner = np.argsort(ordered[part], kind="stable")
        order[part] = order[part][inner]
        ordered[part] = ordered[part][inner]


def group_starts(ordered: Keys) -> Index:
    """i8[g+1]: where each group of equal neighbours starts, and the length."""
    if not len(ordered):
        return np.zeros(1, dtype=np.int64)
    edges = np.empty(len(ordered) + 1, dtype=bool)
    edges[0] = edges[-1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=edges[1:-1])
    return np.flatnonzero(edges)


def match(a: Keys, b: Keys) -> tuple[Index, Index]:
    """Positions of the common keys of two ascending arrays without repeats: a[i] == b[j] for each pair (i, j)."""
    if len(a) > len(b):
        j, i = match(b, a)
        return i, j
    at = np.searchsorted(b, a)
    i = np.flatnonzero(b.take(at, mode="clip") == a) if len(b) else np.empty(0, dtype=np.int64)
    return i, at[i]
