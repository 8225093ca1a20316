"""One merge, bucket by bucket: pending keys in, the stored ones beside them, a kernel's answer out.

A bucket's pending keys are sorted and looked up in its slices, the kernel decides, one new slice is written, and the
pending rows are read once more, whole this time, to hand on those the kernel chose. A bucket that would not fit the RAM
setting is split within its merge. Where rows are nothing but keys and only new ones count, all of it is arithmetic on
sorted arrays (drum/keyset.py): no order, no groups, no second reading.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from drum import wide
from drum.errors import Incompatible
from drum.kernels import CheckUpdate, Index, Kernel, Keys, Result, group_starts, sort_keys
from drum.keyset import absent, compact, united
from drum.pending import EMIT_ROWS, Bucket, Outbox, Pending, middle_of, wanted_blocks
from drum.pool import SegmentPool
from drum.ragged import BYTES, Array, Batch, Column, Schema
from drum.store import (
    Slice,
    look_up,
    merged,
    pieces,
    range_of,
    rows_below,
    schema_of,
    to_rewrite,
    write_slice,
)
from drum.writer import SegmentWriter

import numpy as np

_ROW_BYTES = 56  # a pending row in a merge: key, sort word, order, sorted key, masks, group starts, and a margin
_KEY_BYTES = 64  # where rows are only keys: they take half of it, and what waits has the rest of the RAM

Emit: TypeAlias = Callable[[Bucket, Batch], None]


@dataclass
class MergeStats:
    rows: int = 0  # pending rows merged
    added: int = 0  # keys the store did not know
    written: int = 0  # rows of slices written, rewrites included
    emitted: int = 0
    buckets: int = 0
    splits: int = 0
    left: int = 0  # buckets not reached because the merge was told to stop


@dataclass
class _Items:
    """The pending rows of a bucket in (op, arrival) order, before they are sorted."""

    keys: Keys
    ops: Array
    columns: dict[str, Array]
    counts: dict[int, list[int]]  # serial -> rows taken from each of its blocks
    bases: dict[int, int]  # serial -> place of its first row


@dataclass
class Merging:
    """The parts that all buckets of a merge share, and the results so far."""

    name: str
    pool: SegmentPool
    values: Schema
    ram_bytes: int
    kernel: Kernel
    writer: SegmentWriter
    emit: Emit
    kinds: Schema  # of the columns that the kernel sees: column_kinds
    key_bits: int = 64
    once: bool = False  # the store is too large to be worth a place in the page cache
    stats: MergeStats = field(default_factory=MergeStats)
    merged_rows: dict[int, int] = field(default_factory=dict)  # serial -> rows done

    def bucket(self, bucket: Bucket, pending: list[Pending], horizon: int) -> list[Bucket]:
        """Merge a bucket, or its halves when it does not fit. Returns what became of it."""
        waiting = [part for part in pending if part.serial > bucket.cursor]
        only_keys = self._only_keys(waiting)
        crowd: Keys | None = np.empty(0, np.uint64)
        if not self._overfull(bucket, waiting, _KEY_BYTES if only_keys else _ROW_BYTES):
            crowd = self._merge_keys(bucket, waiting) if only_keys else self._merge_rows(bucket, waiting)
        if crowd is not None:
            self.stats.splits += 1
            halves = self._split(bucket, middle_of(bucket, crowd))
            del crowd
            return [part for half in halves for part in self.bucket(half, pending, horizon)]
        self.stats.buckets += 1
        bucket.cursor = horizon
        return [bucket]

    def _room(self, bucket: Bucket) -> int:
        """Bytes for pending rows: the RAM setting without what the store would take, so that buckets grow in number
        with the store and a merge of one stays short."""
        return self.ram_bytes - sum(part.rows for part in bucket.slices) * (8 + self._value_bytes())

    def _overfull(self, bucket: Bucket, waiting: list[Pending], row_bytes: int) -> bool:
        """Whether the directories alone say that a bucket does not fit: then nothing of it is read in vain."""
        rows = sum(part.rows_least(self.pool, bucket) for part in waiting)
        return rows * row_bytes > self._room(bucket) and rows > 1 and bucket.lo < bucket.hi

    def _value_bytes(self) -> int:
        return sum(np.dtype(kind).itemsize for kind in self.values.values()) + (self.key_bits - 64) // 8

    # -- rows that are only keys --------------------------------------------------------------------------------------

    def _only_keys(self, waiting: list[Pending]) -> bool:
        return (
            type(self.kernel) is CheckUpdate
            and self.kernel.ignores_repeats
            and not self.values
            and self.key_bits == 64
            and all(list(part.schema(self.pool)) == ["key"] for part in waiting)
        )

    def _merge_keys(self, bucket: Bucket, waiting: list[Pending]) -> Keys | None:
        """Hand on the new keys, ascending, and store them. When the bucket does not fit: the keys until that showed."""
        room, rows = self._room(bucket), 0
        runs: list[Keys] = []  # ascending, without repeats
        loose: list[Keys] = []  # in any order
        counts: dict[int, int] = {}
        for part in waiting:
            counts[part.serial] = 0
            parts: list[Keys] = []
            for batch in part.blocks(self.pool, bucket, ["key"]):
                parts.append(batch["key"])
                counts[part.serial] += batch.rows
                rows += batch.rows
                if rows * _KEY_BYTES > room and rows > 1 and bucket.lo < bucket.hi:
                    return np.concatenate([*runs, *loose, *parts])
            if part.ordered:
                runs += parts
            elif parts and part.ascends(self.pool):
                runs.append(np.concatenate(parts))
            else:
                loose += parts
        self._count(counts)
        if not rows:
            return None
        if loose:
            run = np.concatenate(loose)
            runs.append(run[: compact(run)])
        keys = united(runs)
        del runs, loose, parts
        for piece in sorted(bucket.slices, key=lambda piece: -piece.rows):  # the largest first spares the others work
            keys = absent(piece.open(self.pool), keys, self.once)
        self.stats.added += len(keys)
        self._store(bucket, Batch({"key": keys}))
        for start in range(0, len(keys), EMIT_ROWS):
            self.emit(bucket, Batch({"key": keys[start : start + EMIT_ROWS].copy()}))
        self.stats.emitted += len(keys)
        return None

    def _count(self, counts: dict[int, int]) -> None:
        for serial, rows in counts.items():
            self.stats.rows += rows
            self.merged_rows[serial] = self.merged_rows.get(serial, 0) + rows

    # -- whole rows ---------------------------------------------------------------------------------------------------

    def _merge_rows(self, bucket: Bucket, waiting: list[Pending]) -> Keys | None:
        """Let the kernel decide. When the bucket does not fit: the keys until that showed."""
        items = self._gather(bucket, waiting)
        if not isinstance(items, _Items):
            return items
        self._count({serial: sum(counts) for serial, counts in items.counts.items()})
        if len(items.keys):
            self._decide(bucket, items, waiting)
        return None

    def _gather(self, bucket: Bucket, waiting: list[Pending]) -> _Items | Keys:
        """The bucket's pending keys and the kernel's columns; when they and the store exceed the RAM setting, only the
        keys until then."""
        value_bytes, room = self._value_bytes(), self._room(bucket)
        rows = 0
        found: dict[str, list[tuple[int, int, Array]]] = {name: [] for name in self.kinds}
        keys: list[Keys] = []
        ops: list[tuple[int, int]] = []
        counts: dict[int, list[int]] = {}
        bases: dict[int, int] = {}
        for part in sorted(waiting, key=lambda part: (part.op, part.serial)):
            schema = part.schema(self.pool)
            here = [name for name in self.kinds if name in schema]
            counts[part.serial], bases[part.serial] = [], rows
            for batch in part.blocks(self.pool, bucket, ["key", *here]):
                counts[part.serial].append(batch.rows)
                if not batch.rows:
                    continue
                keys.append(batch["key"])
                for name in here:
                    found[name].append((rows, rows + batch.rows, batch[name]))
                rows += batch.rows
                width = sum(column[0][2].itemsize for column in found.values() if column)
                if rows * (_ROW_BYTES + 3 * width + 3 * value_bytes) > room and rows > 1 and bucket.lo < bucket.hi:
                    return np.concatenate(keys)
            ops.append((part.op, rows - bases[part.serial]))
        columns = {name: _spread(self.kinds[name], parts, rows) for name, parts in found.items()} if rows else {}
        return _Items(
            keys=np.concatenate(keys) if keys else np.empty(0, np.uint64),
            ops=np.repeat(np.array([op for op, _ in ops], np.uint8), [count for _, count in ops]),
            columns=columns, counts=counts, bases=bases,
        )  # fmt: skip

    def _split(self, bucket: Bucket, middle: int) -> tuple[Bucket, Bucket]:
        """Two parts of a bucket's range that share its slices; `middle` is the first key of the second."""
        low, high = bucket.copy(), bucket.copy()
        low.hi, high.lo = middle - 1, middle
        low.slices, high.slices = [], []
        for part in bucket.slices:
            section = part.open(self.pool)
            below = rows_below(section, middle) - rows_below(section, bucket.lo)
            if below:
                low.slices.append(Slice(part.file, part.section, below))
            if part.rows - below:
                high.slices.append(Slice(part.file, part.section, part.rows - below))
        return low, high

    def _decide(self, bucket: Bucket, items: _Items, waiting: list[Pending]) -> None:
        begin = getattr(self.kernel, "begin", None)
        if begin is not None:
            begin(bucket)
        identity: dict[str, Column]
        if self.key_bits == 128:
            order = wide.order_of(items.keys, items.columns[wide.LOW])
            ordered, lows = items.keys[order], items.columns[wide.LOW][order]
            starts = wide.group_starts(ordered, lows)
            keys = ordered[starts[:-1]]
            identity = {"key": keys, wide.LOW: lows[starts[:-1]]}
            places = [(part.file, part.section) for part in bucket.slices]
            found, stored = wide.look_up(self.pool, places, self.values, keys, lows[starts[:-1]], self.once)
        else:
            ordered, order = sort_keys(items.keys)
            starts = group_starts(ordered)
            keys = ordered[starts[:-1]]
            identity = {"key": keys}
            found, stored = look_up(self.pool, bucket.slices, self.values, keys, self.once)
        items.keys = ordered[:0]  # the largest arrays go as soon as they are not needed
        seen: dict[str, Column] = {"key": ordered, "op": items.ops[order]}
        seen.update({name: column[order] for name, column in items.columns.items()})
        result = self.kernel(found, stored, Batch(seen), starts)
        _check_result(result, len(found), len(order), self.values)
        self.stats.added += int(np.count_nonzero(result.write & ~found))
        fresh = Batch({**identity, **{name: result.values[name] for name in self.values}})
        self._store(bucket, fresh.filter(result.write))
        del seen, ordered, stored, found, keys, starts, fresh, identity
        self._emit(bucket, items, order, result, waiting)

    def _store(self, bucket: Bucket, fresh: Batch) -> None:
        """Write what is to be stored as the newest slice, together with those slices whose turn has come."""
        if not fresh.rows:
            return
        count = to_rewrite([*(part.rows for part in bucket.slices), fresh.rows])
        old = bucket.slices[len(bucket.slices) - (count - 1) :]
        name = f"{self.name}.slice.{len(self.writer.sections)}"
        out = self.writer.section(name, schema_of(self.values, self.key_bits), sorted_by="key")
        opened = [part.open(self.pool) for part in reversed(old)]
        stored = [range_of(section, bucket.lo, bucket.hi, self.values, self.once) for section in opened]
        rows = write_slice(out, merged([pieces(fresh), *stored], self.key_bits))
        self.stats.written += rows
        bucket.slices = [*bucket.slices[: len(bucket.slices) - len(old)], Slice(self.writer.name, name, rows)]

    def _emit(self, bucket: Bucket, items: _Items, order: Index, result: Result, waiting: list[Pending]) -> None:
        """Read the pending rows again, whole, and hand on the chosen ones in arrival order."""
        chosen = np.zeros(len(order), dtype=bool)
        chosen[order] = result.emit
        if not chosen.any():
            return
        columns: dict[str, Array] = {}
        for name, column in result.columns.items():
            columns[name] = np.empty_like(column)
            columns[name][order] = column
        out = Outbox(lambda batch: self.emit(bucket, batch))
        for part in sorted(waiting, key=lambda part: part.serial):
            at = items.bases[part.serial]
            counts = items.counts[part.serial]
            if not chosen[at : at + sum(counts)].any():
                continue  # not even its keys are read again
            for rows, batch in wanted_blocks(part, self.pool, bucket, counts, chosen, at):
                mask = chosen[rows]
                picked = batch if mask.all() else batch.filter(mask)
                out.add(picked.with_(**{name: column[rows][mask] for name, column in columns.items()}))
        out.flush()
        self.stats.emitted += out.rows


def _check_result(result: Result, groups: int, rows: int, values: Schema) -> None:
    """What a kernel of others answered: of as many groups and rows as it was given. TypeError, ValueError."""
    if not isinstance(result, Result):
        raise TypeError(f"a kernel returns a Result, not {type(result).__name__}")
    wanted = {"write": (result.write, groups), "emit": (result.emit, rows)}
    wanted.update({f"columns[{name!r}]": (column, rows) for name, column in result.columns.items()})
    for name in values:
        if name not in result.values:
            raise ValueError(f"the kernel's values have no column {name!r}, which the store has")
        wanted[f"values[{name!r}]"] = (result.values[name], groups)
    for name, (column, length) in wanted.items():
        if len(column) != length:
            raise ValueError(f"the kernel's {name} has {len(column)} rows where {length} were asked")
    for name in ("write", "emit"):
        if wanted[name][0].dtype != bool:
            raise TypeError(f"the kernel's {name} is an array of bool, not {wanted[name][0].dtype}")
    for name, kind in values.items():
        if result.values[name].dtype.kind == "f" != np.dtype(kind).kind:
            raise TypeError(f"the kernel's values[{name!r}] is {result.values[name].dtype}, and the store has {kind}")


def column_kinds(
    name: str, kernel: Kernel, key_bits: int, pool: SegmentPool, pending: list[Pending]
) -> dict[str, str]:  # fmt: skip
    """The dtypes of the columns that a kernel sees of what waits in the drum `name`, of some bucket or another.
    Incompatible when no row has one, TypeError when it is bytes: before anything is merged."""
    wanted = dict.fromkeys(column for column in kernel.columns if column != "key")
    if key_bits == 128:
        wanted[wide.LOW] = None
    kinds: dict[str, str] = {}
    for part in sorted(pending, key=lambda part: (part.op, part.serial)):
        schema = part.schema(pool)
        for column in wanted:
            if schema.get(column) == BYTES:
                raise TypeError(f"a kernel sees columns of numbers, and {column!r} is bytes")
            if column in schema:
                kinds[column] = schema[column]
    for column in wanted:
        if column not in kinds:
            first = pending[0]
            where = f"{first.file}, section {first.section!r}, " if first.file else ""
            raise Incompatible(
                f"{pool.root}: drum {name!r}: the kernel wants column {column!r}, and no row that waits has it: "
                f"{where}{first.rows:,} rows with the columns {list(first.schema(pool))}; merge them with the kernel "
                "they were added for"
            )
    return kinds


def _spread(kind: str, parts: list[tuple[int, int, Array]], rows: int) -> Array:
    """A column of all rows from those sections that have it; zero elsewhere."""
    column = np.zeros(rows, np.dtype(kind))
    for start, stop, values in parts:
        column[start:stop] = values
    return column
