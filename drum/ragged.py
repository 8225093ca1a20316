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

_VIEW_BYTES = 2  # a view keeps at most so many bytes for each of its own
_GATHER_BYTES_ROWS = 512  # fewer rows are gathered byte by byte, more in power-of-two pieces (measured: 512 is even)


class Ragged:
    """An immutable column of byte strings.

    Row i is source[starts[i] : ends[i]]. Where rows lie one behind the other the column is *packed*: `blob` u1[m] has
    nothing else, and row i is blob[offsets[i]:offsets[i+1]] with offsets i8[n+1] that never fall, from 0 to m. What
    `take`, `filter` and `concat` make may be a view that leaves the bytes where they are, so a URL on its way from one
    section to another, past many such steps, is copied once. A view never keeps more than twice its own bytes alive,
    but where it is a slice.
    """

    __slots__ = ("_ends", "_offsets", "_source", "_starts")

    def __init__(self, blob: Array, offsets: NDArray[np.int64]) -> None:
        """Packed."""
        self._source = blob
        self._offsets: NDArray[np.int64] | None = offsets
        self._starts, self._ends = offsets[:-1], offsets[1:]

    @classmethod
    def _view(cls, source: Array, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Ragged:
        made = cls.__new__(cls)
        made._source, made._offsets, made._starts, made._ends = source, None, starts, ends
        return made

    @classmethod
    def from_list(cls, rows: Iterable[bytes]) -> Ragged:
        rows = list(rows)
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        return cls.from_lengths(np.frombuffer(b"".join(rows), dtype=np.uint8), lengths)

    @classmethod
    def from_lengths(cls, blob: Array, lengths: Array) -> Ragged:
        """Rows of `lengths` (any integer dtype) bytes, one behind the other in `blob`."""
        return cls(blob, _offsets_of(lengths))

    @classmethod
    def empty(cls) -> Ragged:
        return cls(np.empty(0, dtype=np.uint8), np.zeros(1, dtype=np.int64))

    @classmethod
    def concat(cls, parts: Sequence[Ragged]) -> Ragged:
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.empty()
        sources = {id(part._source): part._source for part in parts}
        packed = all(part._offsets is not None for part in parts)
        if len(sources) == 1 and not packed:
            return cls._view(
                parts[0]._source,
                np.concatenate([part._starts for part in parts]),
                np.concatenate([part._ends for part in parts]),
            )
        if packed or sum(map(len, sources.values())) > _VIEW_BYTES * sum(part._bytes for part in parts):
            lengths = np.concatenate([part.lengths for part in parts])
            return cls.from_lengths(np.concatenate([part.blob for part in parts]), lengths)
        ends = itertools.accumulate(map(len, sources.values()), initial=0)
        base = dict(zip(sources, ends, strict=False))  # where each source begins
        return cls._view(
            np.concatenate(list(sources.values())),
            np.concatenate([part._starts + base[id(part._source)] for part in parts]),
            np.concatenate([part._ends + base[id(part._source)] for part in parts]),
        )

    @property
    def lengths(self) -> NDArray[np.int64]:
        return self._ends - self._starts

    @property
    def blob(self) -> Array:
        """The rows one behind the other; a view gathers them each time it is asked."""
        if self._offsets is not None:
            return self._source
        out = np.empty(self._bytes, np.uint8)
        self.pack(out)
        return out

    def pack(self, out: Array) -> None:
        """Write `blob` into u1[m]."""
        if self._offsets is not None:
            out[:] = self._source
        else:
            lengths = self.lengths
            _gather(self._source, self._starts, lengths, _offsets_of(lengths), out)

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Of the rows in `blob`."""
        return _offsets_of(self.lengths) if self._offsets is None else self._offsets

    @property
    def _bytes(self) -> int:
        return int(self.lengths.sum()) if self._offsets is None else len(self._source)

    @property
    def nbytes(self) -> int:
        """The bytes that it takes when it is packed."""
        return self._bytes + 8 * len(self._starts) + 8

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, row: int) -> bytes:
        if row < 0:
            row += len(self)
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of {len(self)}")
        return self._source[self._starts[row] : self._ends[row]].tobytes()

    def tolist(self) -> list[bytes]:
        data = self.blob.tobytes()
        ends = self.offsets.tolist()
        return [data[a:b] for a, b in itertools.pairwise(ends)]

    def slice(self, start: int, stop: int) -> Ragged:
        """Rows start to stop (exclusive) as views of the same blob."""
        if start == 0 and stop == len(self):
            return self
        if self._offsets is None:
            return Ragged._view(self._source, self._starts[start:stop], self._ends[start:stop])
        offsets = self._offsets[start : stop + 1]
        if not len(offsets):
            return Ragged.empty()
        return Ragged(self._source[offsets[0] : offsets[-1]], offsets - offsets[0])

    def heads(self, lengths: NDArray[np.int64]) -> Ragged:
        """The first lengths[i] bytes of each row, which has as many."""
        return Ragged._view(self._source, self._starts, self._starts + lengths)

    def filter(self, mask: NDArray[np.bool_]) -> Ragged:
        """The rows where `mask` is true, in order."""
        return self.take(np.flatnonzero(mask))

    def take(self, index: Array) -> Ragged:
        """Rows by position, in the order of `index` (integers, not negative; repeats allowed)."""
        made = Ragged._view(self._source, self._starts[index], self._ends[index])
        lengths = made.lengths
        offsets = _offsets_of(lengths)
        if _VIEW_BYTES * int(offsets[-1]) >= len(self._source):
            return made
        out = np.empty(int(offsets[-1]), np.uint8)
        _gather(self._source, made._starts, lengths, offsets, out)
        return Ragged(out, offsets)

    def pick(self, index: Array) -> Ragged:
        """As `take`, but always a view, however much it keeps alive: of rows that are soon written or dropped."""
        return Ragged._view(self._source, self._starts[index], self._ends[index])

    def fault(self) -> str | None:
        """What is wrong with a column that somebody put together; None: nothing."""
        source, starts, ends = self._source, self._starts, self._ends
        if not isinstance(source, np.ndarray) or source.ndim != 1 or source.dtype != np.uint8:
            return "its bytes are not a 1-d array of uint8"
        if not isinstance(starts, np.ndarray) or starts.ndim != 1 or starts.dtype != np.int64:
            return "its offsets are not a 1-d array of int64"
        packed = self._offsets
        if packed is not None and (not len(packed) or (int(packed[0]), int(packed[-1])) != (0, len(source))):
            return f"its offsets do not run from 0 to its {len(source):,} bytes"
        if len(starts) and (np.any(starts > ends) or int(starts.min()) < 0 or int(ends.max()) > len(source)):
            return "its offsets fall"
        return None

    def __repr__(self) -> str:
        return f"Ragged({len(self)} rows, {self._bytes} bytes)"


def _offsets_of(lengths: Array) -> NDArray[np.int64]:
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _gather(blob: Array, starts: Array, lengths: Array, offsets: Array, out: Array) -> None:
    """Copy rows out of `blob` one behind the other into `out`.

    A row of 2^k to 2^(k+1)-1 bytes is its first 2^k bytes and its last 2^k bytes (they overlap), so numpy moves whole
    words for all rows of one k at once: a third of the cost of an index per byte, and no such index in memory.
    """
    if len(starts) < _GATHER_BYTES_ROWS:
        out[:] = blob[np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])]
        return
    blob = np.ascontiguousarray(blob)
    bits = np.maximum((lengths.astype(np.float64).view(np.int64) >> 52) - 1022, 0)  # of each length; 0: an empty row
    for k in np.flatnonzero(np.bincount(bits)).tolist():  # at most 40 rounds, of all rows of one size each
        if k == 0:
            continue
        width = 1 << (k - 1)
        rows = np.flatnonzero(bits == k)
        source: Array = np.ndarray((len(blob) - width + 1,), dtype=f"V{width}", buffer=blob, strides=(1,))
        target: Array = np.ndarray((len(out) - width + 1,), dtype=f"V{width}", buffer=out, strides=(1,))
        head, to, more = starts.take(rows), offsets.take(rows), lengths.take(rows) - width
        target[to] = source[head]
        head += more
        to += more
        target[to] = source[head]


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
    def zeros(cls, schema: Schema, rows: int) -> Batch:
        """So many rows of zeros and empty bytes, for `with_` to fill."""
        empty = Ragged(np.zeros(0, np.uint8), np.zeros(rows + 1, np.int64))
        return cls({name: empty if kind == BYTES else np.zeros(rows, "<" + kind) for name, kind in schema.items()})

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
        """The column: an array, or a Ragged. (Any, because the caller knows which.) KeyError that names those there
        are."""
        try:
            return self.columns[name]
        except KeyError:
            there = ", ".join(self.columns) or "none"
            raise KeyError(f"no column {name!r}; there are: {there} (a Drum's stored ones are its `values`)") from None

    def take(self, index: Array) -> Batch:
        """Rows by position, in the order of `index` (integers, not negative; repeats allowed)."""
        rows = index.astype(np.int64, copy=False)
        return Batch({name: column.take(rows) for name, column in self.columns.items()})

    def filter(self, mask: NDArray[np.bool_]) -> Batch:
        """The rows where `mask` is true, in order: by their numbers, which costs a third of a mask for each column."""
        return self.take(np.flatnonzero(mask))

    def pick(self, index: NDArray[np.int64]) -> Batch:
        """As `take`, but byte strings are always views: of rows that are soon written or dropped."""
        return Batch({n: c.pick(index) if isinstance(c, Ragged) else c.take(index) for n, c in self.columns.items()})

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

    def rekeyed(self, by: str, keep: str) -> Batch:
        """The rows under another key: column `by` is `key` now, and what was the key stands beside as column `keep`."""
        rest = {name: column for name, column in self.columns.items() if name not in ("key", by)}
        return Batch({"key": self.columns[by], keep: self.columns["key"], **rest})

    def __repr__(self) -> str:
        return f"Batch({self.rows} rows of {self.schema})"


def _concat(columns: Sequence[Column]) -> Column:
    ragged = [column for column in columns if isinstance(column, Ragged)]
    if ragged:
        return Ragged.concat(ragged)
    return np.concatenate([column for column in columns if not isinstance(column, Ragged)])
