"""The engine: pending rows in, one sequential merge of each bucket, verdicts out.

Rows become pending by naming a section that holds them (or in RAM, for the coming merge). A merge reads the pending
keys of a bucket, sorts them, looks them up in the bucket's sorted slices, lets a kernel decide, writes one new slice,
and reads the pending rows once more, whole this time, to hand on those the kernel chose. Keys of a bucket must fit the
RAM setting; everything else streams. A bucket whose merge would not fit is split within that merge.

A merge changes memory and records what it did in `edits`; it touches no catalogue, so it may run on a thread of its
own. It changes nothing at all when it raises. Until the caller commits the edits the merge never happened.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from drum.bucket import write_parts
from drum.catalog import Catalog, Edits
from drum.codec import BLOCK_ROWS
from drum.kernels import Index, Kernel, Keys, Mask, Result, group_starts, sort_keys
from drum.pending import Bucket, Outbox, Pending, joins, wanted_blocks
from drum.ragged import Array, Batch, Column, Schema
from drum.segment import SegmentPool
from drum.store import Slice, look_up, merged, pieces, range_of, rows_below, schema_of, to_rewrite, write_slice
from drum.vacuum import Place
from drum.writer import SegmentWriter

_ROW_BYTES = 56  # a pending row in a merge: key, sort word, order, sorted key, masks, group starts, and a margin
_RAM_LEAST = 4 << 20


@dataclass
class MergeStats:
    rows: int = 0  # pending rows merged
    added: int = 0  # keys the store did not know
    written: int = 0  # rows of slices written, rewrites included
    emitted: int = 0
    buckets: int = 0
    splits: int = 0


Emit: TypeAlias = Callable[[Bucket, Batch], None]


@dataclass
class _Items:
    """The pending rows of a bucket in (op, arrival) order, before they are sorted."""

    keys: Keys
    ops: Array
    columns: dict[str, Array]
    counts: dict[int, list[int]]  # serial -> rows taken from each of its blocks
    bases: dict[int, int]  # serial -> place of its first row


class Repository:
    """Named `name` within a catalogue. Reopening is constructing it again on the reopened catalogue.

    values: fixed-size columns stored with each key. ram_bytes: bound on what one merge holds, at least 4 MiB; one
    key's rows are always merged together, whatever they take.
    """

    def __init__(self, name: str, *, catalog: Catalog, pool: SegmentPool, values: Schema, ram_bytes: int) -> None:
        self.name, self.pool, self.values = name, pool, dict(values)
        self.ram_bytes = max(ram_bytes, _RAM_LEAST)
        self.prefix = f"drum/{name}/"
        self.rows: int = catalog.get(self.prefix + "state", {}).get("rows", 0)
        self.buckets = [Bucket.from_json(value) for _, value in catalog.items(self.prefix + "bucket/")] or [Bucket()]
        self._pending = [
            Pending(v["serial"], v["number"], v["op"], v["rows"], v["file"], v["section"], merged=v["merged"])
            for _, v in catalog.items(self.prefix + "pend/")
        ]
        self._lock = threading.Lock()
        self._serial = max([bucket.cursor for bucket in self.buckets] + [part.serial for part in self._pending])

    @property
    def pending_rows(self) -> int:
        """Rows not merged yet, exact."""
        with self._lock:
            return sum(part.rows - part.merged for part in self._pending)

    @property
    def ram_rows(self) -> int:
        """Pending rows that only RAM holds: `merge` or `spill` before a commit."""
        with self._lock:
            return sum(part.rows for part in self._pending if part.batch is not None)

    def pending_by_op(self) -> dict[int, int]:
        """Rows not merged yet, by operation."""
        counts: dict[int, int] = {}
        with self._lock:
            for part in self._pending:
                counts[part.op] = counts.get(part.op, 0) + part.rows - part.merged
        return counts

    def pend(self, edits: Edits, number: int, file: str, section: str, op: int = 0) -> None:
        """The rows of a section become pending, after all before. It has a column `key` (u8), and its rows are in
        arrival order or carry the label key >> 56. number: the caller's ingest number, kept for information."""
        rows = self.pool.section(file, section).rows
        if not rows:
            return
        with self._lock:
            self._serial += 1
            part = Pending(self._serial, number, op, rows, file, section)
            self._pending.append(part)
        self._name(edits, part)

    def pend_batch(self, batch: Batch, op: int = 0) -> None:
        """Rows become pending in RAM."""
        if not batch.rows:
            return
        with self._lock:
            self._serial += 1
            self._pending.append(Pending(self._serial, -1, op, batch.rows, batch=batch))

    def spill(self, writer: SegmentWriter, edits: Edits) -> None:
        """Pending rows in RAM become sections of `writer`, so that a commit may name them."""
        self.pool.adopt(writer)
        with self._lock:
            ram = [part for part in self._pending if part.batch is not None]
        cursors = {bucket.cursor for bucket in self.buckets}
        groups: list[list[Pending]] = []
        for part in ram:
            if groups and joins(groups[-1][-1], part, cursors):
                groups[-1].append(part)
            else:
                groups.append([part])
        named = [self._write_pending(writer, group) for group in groups]
        with self._lock:
            kept = [part for part in self._pending if not any(part is gone for gone in ram)]
            self._pending = sorted([*kept, *named], key=lambda part: part.serial)
        for part in named:
            self._name(edits, part)

    def merge(
        self,
        kernel: Kernel,
        *,
        writer: SegmentWriter,
        edits: Edits,
        emit: Emit,
        buckets: Sequence[Bucket] | None = None,
    ) -> MergeStats:
        """Merge what is pending now into all or some of `self.buckets`, in key order.

        emit(bucket, batch) gets the rows the kernel chose: in arrival order within the bucket (partitioned sections:
        by part, then arrival), every column of the pending section and the kernel's columns, in bounded batches.
        """
        self.pool.adopt(writer)
        with self._lock:
            pending = list(self._pending)
            horizon = self._serial
        if len(self.buckets) > 1:
            for part in pending:
                part.arrange(self.buckets)
        stats = MergeStats()
        done: list[Bucket] = []
        merged_rows: dict[int, int] = {}
        for bucket in self.buckets:
            if (buckets is None or any(bucket is chosen for chosen in buckets)) and pending:
                done += self._merge_bucket(bucket.copy(), kernel, pending, horizon, writer, emit, stats, merged_rows)
            else:
                done.append(bucket)
        self._apply(done, stats, merged_rows, edits)
        if self.ram_rows:
            self.spill(writer, edits)  # rows of the buckets left out
        return stats

    def scan(self, bucket: Bucket) -> Iterator[Batch]:
        """All keys of a bucket ascending, with their values."""
        return merged([range_of(part.open(self.pool), bucket.lo, bucket.hi) for part in reversed(bucket.slices)])

    def scan_pending(self) -> Iterator[tuple[int, Batch]]:
        """(operation, rows) of what is not merged yet, bucket by bucket, in bounded batches (for listings)."""
        with self._lock:
            pending = list(self._pending)
        for bucket in self.buckets:
            for part in pending:
                if part.serial > bucket.cursor:
                    for batch in part.blocks(self.pool, bucket, list(part.schema(self.pool))):
                        yield part.op, batch

    def lookup(self, keys: Keys) -> tuple[Mask, Batch]:
        """(found[n], values; zeros where not found) of keys in any order. Rows still pending are not seen."""
        distinct, inverse = np.unique(keys, return_inverse=True)
        found = np.zeros(len(distinct), dtype=bool)
        batches = []
        for bucket in self.buckets:
            part = slice(
                int(np.searchsorted(distinct, np.uint64(bucket.lo), side="left")),
                int(np.searchsorted(distinct, np.uint64(bucket.hi), side="right")),
            )
            found[part], stored = look_up(self.pool, bucket.slices, self.values, distinct[part])
            batches.append(stored)
        return found[inverse], Batch.concat(batches).take(inverse) if self.values else Batch({})

    # -- one bucket -------------------------------------------------------------------------------------------------

    def _merge_bucket(
        self, bucket: Bucket, kernel: Kernel, pending: list[Pending], horizon: int, writer: SegmentWriter, emit: Emit,
        stats: MergeStats, merged_rows: dict[int, int],
    ) -> list[Bucket]:  # fmt: skip
        """Merge a bucket, or its halves when it does not fit. Returns what became of it."""
        waiting = [part for part in pending if part.serial > bucket.cursor]
        items = self._gather(bucket, kernel, waiting)
        if items is None:
            stats.splits += 1
            halves = self._split(bucket)
            return [
                part
                for half in halves
                for part in self._merge_bucket(half, kernel, pending, horizon, writer, emit, stats, merged_rows)
            ]
        stats.buckets += 1
        stats.rows += len(items.keys)
        for serial, counts in items.counts.items():
            merged_rows[serial] = merged_rows.get(serial, 0) + sum(counts)
        if len(items.keys):
            self._decide(bucket, kernel, items, waiting, writer, emit, stats)
        bucket.cursor = horizon
        return [bucket]

    def _gather(self, bucket: Bucket, kernel: Kernel, waiting: list[Pending]) -> _Items | None:
        """The bucket's pending keys and the kernel's columns; None when they and the store exceed the RAM setting."""
        value_bytes = sum(np.dtype(kind).itemsize for kind in self.values.values())
        wanted = list(dict.fromkeys(name for name in kernel.columns if name != "key"))
        store_bytes = sum(part.rows for part in bucket.slices) * (8 + value_bytes)
        room = self.ram_bytes - store_bytes
        rows = 0
        found: dict[str, list[tuple[int, int, Array]]] = {name: [] for name in wanted}
        kinds: dict[str, str] = {}
        keys: list[Keys] = []
        ops: list[tuple[int, int]] = []
        counts: dict[int, list[int]] = {}
        bases: dict[int, int] = {}
        for part in sorted(waiting, key=lambda part: (part.op, part.serial)):
            schema = part.schema(self.pool)
            here = [name for name in wanted if name in schema]
            kinds.update({name: schema[name] for name in here})
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
                    return None
            ops.append((part.op, rows - bases[part.serial]))
        columns = {name: _spread(name, kinds.get(name), parts, rows) for name, parts in found.items()} if rows else {}
        return _Items(
            keys=np.concatenate(keys) if keys else np.empty(0, np.uint64),
            ops=np.repeat(np.array([op for op, _ in ops], np.uint8), [count for _, count in ops]),
            columns=columns, counts=counts, bases=bases,
        )  # fmt: skip

    def _split(self, bucket: Bucket) -> tuple[Bucket, Bucket]:
        """Two halves of a bucket's range that share its slices."""
        middle = (bucket.lo + bucket.hi) // 2 + 1
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

    def _decide(
        self, bucket: Bucket, kernel: Kernel, items: _Items, waiting: list[Pending], writer: SegmentWriter, emit: Emit,
        stats: MergeStats,
    ) -> None:  # fmt: skip
        begin = getattr(kernel, "begin", None)
        if begin is not None:
            begin(bucket)
        ordered, order = sort_keys(items.keys)
        items.keys = ordered[:0]  # the largest arrays go as soon as they are not needed
        starts = group_starts(ordered)
        keys = ordered[starts[:-1]]
        found, stored = look_up(self.pool, bucket.slices, self.values, keys)
        seen: dict[str, Column] = {"key": ordered, "op": items.ops[order]}
        seen.update({name: column[order] for name, column in items.columns.items()})
        result = kernel(found, stored, Batch(seen), starts)
        stats.added += int(np.count_nonzero(result.write & ~found))
        self._store(bucket, keys, result, writer, stats)
        del seen, ordered, stored, found, keys, starts
        self._emit(bucket, items, order, result, waiting, emit, stats)

    def _store(self, bucket: Bucket, keys: Keys, result: Result, writer: SegmentWriter, stats: MergeStats) -> None:
        """Write what the kernel decided as the newest slice, together with those slices whose turn has come."""
        fresh = Batch({"key": keys, **{name: result.values[name] for name in self.values}}).filter(result.write)
        if not fresh.rows:
            return
        count = to_rewrite([*(part.rows for part in bucket.slices), fresh.rows])
        old = bucket.slices[len(bucket.slices) - (count - 1) :]
        name = f"{self.name}.slice.{len(writer.sections)}"
        out = writer.section(name, schema_of(self.values), sorted_by="key")
        sources = [pieces(fresh), *(range_of(part.open(self.pool), bucket.lo, bucket.hi) for part in reversed(old))]
        rows = write_slice(out, merged(sources))
        stats.written += rows
        bucket.slices = [*bucket.slices[: len(bucket.slices) - len(old)], Slice(writer.name, name, rows)]

    def _emit(
        self, bucket: Bucket, items: _Items, order: Index, result: Result, waiting: list[Pending], emit: Emit,
        stats: MergeStats,
    ) -> None:  # fmt: skip
        """Read the pending rows again, whole, and hand on the chosen ones in arrival order."""
        chosen = np.zeros(len(order), dtype=bool)
        chosen[order] = result.emit
        if not chosen.any():
            return
        columns: dict[str, Array] = {}
        for name, column in result.columns.items():
            columns[name] = np.empty_like(column)
            columns[name][order] = column
        out = Outbox(lambda batch: emit(bucket, batch))
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
        stats.emitted += out.rows

    # -- where its sections are ---------------------------------------------------------------------------------------

    def places(self) -> Iterator[Place]:
        """Every section it names (vacuum.Holder)."""
        for bucket in self.buckets:
            yield from ((part.file, part.section) for part in bucket.slices)
        with self._lock:
            pending = [(part.file, part.section) for part in self._pending if part.batch is None]
        yield from pending

    def moved(self, edits: Edits, to: Mapping[Place, Place]) -> None:
        """Sections are elsewhere now (vacuum.Holder)."""
        for bucket in self.buckets:
            here = [(part.file, part.section) for part in bucket.slices]
            if any(place in to for place in here):
                rows = [part.rows for part in bucket.slices]
                bucket.slices = [Slice(*to.get(place, place), count) for place, count in zip(here, rows, strict=True)]
                edits.set(f"{self.prefix}bucket/{bucket.lo:016x}", bucket.to_json())
        with self._lock:
            for part in self._pending:
                if part.batch is None and (part.file, part.section) in to:
                    part.file, part.section = to[part.file, part.section]
                    self._name(edits, part)

    # -- bookkeeping ------------------------------------------------------------------------------------------------

    def _apply(self, done: list[Bucket], stats: MergeStats, merged_rows: dict[int, int], edits: Edits) -> None:
        """The merge has succeeded: make it so in memory, and say so in the edits."""
        before = {id(bucket): bucket for bucket in self.buckets}
        for bucket in done:
            if id(bucket) not in before:
                edits.set(f"{self.prefix}bucket/{bucket.lo:016x}", bucket.to_json())
        with self._lock:
            self.buckets = done
            self.rows += stats.added
            passed = min(bucket.cursor for bucket in done)
            left = []
            for part in self._pending:
                part.merged += merged_rows.get(part.serial, 0)
                if part.serial > passed:
                    left.append(part)
                    if part.batch is None and part.serial in merged_rows:
                        self._name(edits, part)
                elif part.batch is None:
                    edits.remove(f"{self.prefix}pend/{part.serial:012d}")
            self._pending = left
        edits.set(self.prefix + "state", {"rows": self.rows})

    def _name(self, edits: Edits, part: Pending) -> None:
        edits.set(
            f"{self.prefix}pend/{part.serial:012d}",
            {
                "file": part.file, "section": part.section, "op": part.op, "rows": part.rows, "number": part.number,
                "serial": part.serial, "merged": part.merged,
            },
        )  # fmt: skip

    def _write_pending(self, writer: SegmentWriter, group: list[Pending]) -> Pending:
        """One section of several batches in RAM."""
        batches = [part.batch for part in group if part.batch is not None]
        rows = sum(batch.rows for batch in batches)
        name = f"{self.name}.pend.{len(writer.sections)}"
        if rows > BLOCK_ROWS:
            write_parts(writer, name, batches)
        else:
            out = writer.section(name, batches[0].schema)
            for batch in batches:
                out.append(batch)
            out.end()
        last = group[-1]
        return Pending(last.serial, -1, last.op, rows, writer.name, name, merged=sum(part.merged for part in group))


def _spread(name: str, kind: str | None, parts: list[tuple[int, int, Array]], rows: int) -> Array:
    """A column of all rows from those sections that have it; zero elsewhere. kind: its dtype, None: no section has it,
    in whatever bucket its rows are."""
    if kind is None:
        raise KeyError(f"the kernel wants column {name!r}, which no pending section has")
    column = np.zeros(rows, np.dtype(kind))
    for start, stop, values in parts:
        column[start:stop] = values
    return column
