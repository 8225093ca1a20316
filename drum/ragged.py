"""Columns of numpy arrays and of variable-length bytes, and batches of them: what everything here passes around.

A Python object per URL costs more than all the work done on it, so a million URLs travel as one `Ragged` (one blob of
bytes, one array of offsets) beside plain arrays, and whole batches are sliced, filtered and reordered at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, Union

import numpy as np
from numpy.typing import NDArray

BYTES = "bytes"
"""The dtype name of a ragged column."""

Schema: TypeAlias = Mapping[str, str]
"""column -> numpy dtype without byte order ("u8", "f8", "u1", …; always little endian) or BYTES"""

Array: TypeAlias = NDArray[Any]
Column: TypeAlias = Union[Array, "Ragged"]

_GATHER_BYTES_ROWS = 512  # fewer rows are gathered byte by byte, more in power-of-two pieces (measured: 512 is even)


class Ragged:
    """An immutable column of byte strings: row i is blob[offsets[i]:offsets[i+1]].

    blob: u1[m]; offsets: i8[n+1], never falling, from 0 to m.
    """

    __slots__ = ("blob", "offsets")

    def __init__(self, blob: Array, offsets: NDArray[np.int64]) -> None:
        self.blob = blob
        self.offsets = offsets

    @classmethod
    def from_list(cls, rows: Iterable[bytes]) -> Ragged:
        rows = list(rows)
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        return cls.from_lengths(np.frombuffer(b"".join(rows), dtype=np.uint8), lengths)

    @classmethod
    def from_lengths(cls, blob: Array, lengths: Array) -> Ragged:
        """Rows of `lengths` (any integer dtype) bytes, one behind the other in `blob`."""
        offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return cls(blob, offsets)

    @classmethod
    def empty(cls) -> Ragged:
        return cls(np.empty(0, dtype=np.uint8), np.zeros(1, dtype=np.int64))

    @classmethod
    def concat(cls, parts: Sequence[Ragged]) -> Ragged:
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.empty()
        lengths = np.concatenate([part.lengths for part in parts])
        return cls.from_lengths(np.concatenate([part.blob for part in parts]), lengths)

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)

    @property
    def nbytes(self) -> int:
        return self.blob.nbytes + self.offsets.nbytes

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> bytes:
        if row < 0:
            row += len(self)
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of {len(self)}")
        return self.blob[self.offsets[row] : self.offsets[row + 1]].tobytes()

    def tolist(self) -> list[bytes]:
        data = self.blob.tobytes()
        ends = self.offsets.tolist()
        return [data[a:b] for a, b in itertools.pairwise(ends)]

    def slice(self, start: int, stop: int) -> Ragged:
        """Rows start to stop (exclusive) as views of the same blob."""
        if start == 0 and stop == len(self):
            return self
        offsets = self.offsets[start : stop + 1]
        if not len(offsets):
            return Ragged.empty()
        return Ragged(self.blob[offsets[0] : offsets[-1]], offsets - offsets[0])

    def filter(self, mask: NDArray[np.bool_]) -> Ragged:
        """The rows where `mask` is true, in order."""
        lengths = self.lengths
        return Ragged.from_lengths(self.blob[np.repeat(mask, lengths)], lengths[mask])

    def take(self, index: Array) -> Ragged:
        """Rows by position, in the order of `index` (integers, not negative; repeats allowed)."""
        starts = self.offsets[:-1][index]
        lengths = self.offsets[1:][index] - starts
        offsets = np.zeros(len(starts) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        if len(starts) < _GATHER_BYTES_ROWS:
            return Ragged(self.blob[np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])], offsets)
        return Ragged(_gather(self.blob, starts, lengths, offsets), offsets)

    def __repr__(self) -> str:
        return f"Ragged({len(self)} rows, {self.blob.nbytes} bytes)"


def _gather(blob: Array, starts: Array, lengths: Array, offsets: Array) -> Array:
    """Copy rows out of `blob` one behind the other.

    A row of 2^k to 2^(k+1)-1 bytes is its first 2^k bytes and its last 2^k bytes (they overlap), so numpy moves whole
    words for all rows of one k at once: a third of the cost of an index per byte, and no such index in memory.
    """
    blob = np.ascontiguousarray(blob)
    out = np.empty(int(offsets[-1]), dtype=np.uint8)
    power = np.frexp(lengths.astype(np.float64))[1] - 1  # -1 for empty rows
    for k in np.flatnonzero(np.bincount(power + 1)).tolist():  # at most 40 rounds, of all rows of one size each
        if k == 0:
            continue
        width = 1 << (k - 1)
        rows = np.flatnonzero(power == k - 1)
        source: Array = np.ndarray((len(blob) - width + 1,), dtype=f"V{width}", buffer=blob, strides=(1,))
        target: Array = np.ndarray((len(out) - width + 1,), dtype=f"V{width}", buffer=out, strides=(1,))
        head, to = starts[rows], offsets[:-1][rows]
        target[to] = source[head]
        tail = lengths[rows] - width
        target[to + tail] = source[head + tail]
    return out


class Batch:
    """Named columns of equal length. Treat as immutable: slices share memory."""

    __slots__ = ("columns", "rows")

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self.columns: dict[str, Column] = dict(columns)
        rows = {len(column) for column in self.columns.values()}
        if len(rows) > 1:
            raise ValueError(f"columns differ in length: { {n: len(c) for n, c in self.columns.items()} }")
        self.rows: int = rows.pop() if rows else 0

    @classmethod
    def empty(cls, schema: Schema) -> Batch:
        return cls({name: Ragged.empty() if kind == BYTES else np.empty(0, kind) for name, kind in schema.items()})

    @classmethod
    def concat(cls, batches: Sequence[Batch]) -> Batch:
        """All rows in order; the batches have the same columns. At least one batch."""
        if not batches:
            raise ValueError("concat of no batches: use Batch.empty(schema)")
        if len(batches) == 1:
            return batches[0]
        for batch in batches:
            if batch.columns.keys() != batches[0].columns.keys():
                raise ValueError(f"columns differ: {list(batches[0].columns)} and {list(batch.columns)}")
        return cls({name: _concat([batch.columns[name] for batch in batches]) for name in batches[0].columns})

    @property
    def schema(self) -> dict[str, str]:
        return {
            name: BYTES if isinstance(column, Ragged) else column.dtype.str[1:] for name, column in self.columns.items()
        }

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self.columns.values())

    def __len__(self) -> int:
        return self.rows

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def __getitem__(self, name: str) -> Any:
        """The column: an array, or a Ragged. (Any, because the caller knows which.)"""
        return self.columns[name]

    def take(self, index: Array) -> Batch:
        return Batch({n: c.take(index) if isinstance(c, Ragged) else c[index] for n, c in self.columns.items()})

    def filter(self, mask: NDArray[np.bool_]) -> Batch:
        return Batch({n: c.filter(mask) if isinstance(c, Ragged) else c[mask] for n, c in self.columns.items()})

    def slice(self, start: int, stop: int) -> Batch:
        stop = min(stop, self.rows)
        start = min(start, stop)
        if start == 0 and stop == self.rows:
            return self
        return Batch(
            {n: c.slice(start, stop) if isinstance(c, Ragged) else c[start:stop] for n, c in self.columns.items()}
        )

    def select(self, names: Iterable[str]) -> Batch:
        return Batch({name: self.columns[name] for name in names})

    def with_(self, **columns: Column) -> Batch:
        """A batch with these columns added or replaced."""
        return Batch({**self.columns, **columns})

    def __repr__(self) -> str:
        return f"Batch({self.rows} rows of {self.schema})"


def _concat(columns: Sequence[Column]) -> Column:
    ragged = [column for column in columns if isinstance(column, Ragged)]
    if ragged:
        return Ragged.concat(ragged)
    return np.concatenate([column for column in columns if not isinstance(column, Ragged)])
