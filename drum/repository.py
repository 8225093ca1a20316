"""The engine's front: pending rows, the buckets and their slices, merges, and the catalogue entries that say so.

Rows become pending by naming a section that holds them (or in RAM, for the coming merge); drum/merge.py does the work
of a merge. A merge changes memory and records what it did in `edits`; it touches no catalogue, so it may run on a
thread of its own. It changes nothing at all when it raises. Until the caller commits the edits it never happened.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from drum import wide
from drum.bucket import write_parts
from drum.catalog import Catalog, Edits
from drum.codec import BLOCK_ROWS, SORTED_BLOCK_ROWS
from drum.kernels import Kernel, Keys, Mask, group_starts, sort_keys
from drum.keyset import united_pieces
from drum.merge import Emit, MergeStats, Merging, column_kinds
from drum.pending import Bucket, Pending, joins
from drum.pool import SegmentPool
from drum.ragged import Batch, Schema
from drum.store import Slice, look_up, merged, pieces, range_of, write_slice
from drum.vacuum import Place
from drum.writer import SegmentWriter

import numpy as np

ONCE_BYTES = 512 << 20  # a store of more is passed without leaving its bytes in the page cache
JOINED_BYTES = 16 << 20  # of batches in RAM that are copied together by `join`
_RAM_LEAST = 4 << 20

Proceed: TypeAlias = Callable[[MergeStats], bool]


class Repository:
    """Named `name` within a catalogue. Reopening is constructing it again on the reopened catalogue.

    values: fixed-size columns stored with each key. key_bits: 64 or 128; pending rows of 128-bit keys have the high
    half in the column `key` and the low half in `low` (drum/wide.py). ram_bytes: bound on what one merge holds, at
    least 4 MiB; one key's rows are always merged together, whatever they take.
    """

    def __init__(
        self, name: str, *, catalog: Catalog, pool: SegmentPool, values: Schema, ram_bytes: int,
        key_bits: int = 64,
    ) -> None:  # fmt: skip
        self.name, self.pool, self.values = name, pool, dict(values)
        self.key_bits = key_bits
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
        self._pass = 1 + min(bucket.cursor for bucket in self.buckets)  # a bucket merged in it has at least this cursor
        self._merging: tuple[int, MergeStats] | None = None  # the merge that runs, and what was done of the pass before

    @property
    def pending_rows(self) -> int:
        """Rows not merged yet, exact."""
        with self._lock:
            return sum(part.rows - part.merged for part in self._pending)

    @property
    def pending_parts(self) -> int:
        """Sections, and batches in RAM, of which rows wait."""
        with self._lock:
            return len(self._pending)

    @property
    def ram_rows(self) -> int:
        """Pending rows that only RAM holds: `merge` or `spill` before a commit."""
        with self._lock:
            return sum(part.rows for part in self._pending if part.batch is not None)

    def pending_bytes(self) -> int:
        """About how many bytes of rows wait in files."""
        with self._lock:
            parts = [part for part in self._pending if part.batch is None]
        return sum(self._size(part.file, part.section, part.rows - part.merged) for part in parts)

    def merge_bytes(self) -> int:
        """About how much a merge may write at most: all that waits in files, and the largest bucket once more."""
        stored = (sum(self._size(one.file, one.section, one.rows) for one in bucket.slices) for bucket in self.buckets)
        return self.pending_bytes() + max(stored, default=0)

    def _size(self, file: str, section: str, rows: int) -> int:
        whole = self.pool.section(file, section)
        return whole.nbytes * rows // max(whole.rows, 1)

    def pending_by_op(self) -> dict[int, int]:
        """Rows not merged yet, by operation."""
        counts: dict[int, int] = {}
        with self._lock:
            for part in self._pending:
                counts[part.op] = counts.get(part.op, 0) + part.rows - part.merged
        return counts

    def pending_has(self, column: str) -> bool:
        """Whether any row that waits has the column."""
        with self._lock:
            parts = list(self._pending)
        return any(column in part.schema(self.pool) for part in parts)

    def progress(self) -> tuple[int, int]:
        """(buckets merged, all) of the pass that is under way: it begins with the first merge after the last pass, and
        is over when every bucket was merged since, by however many merges. Any thread may ask."""
        if (merging := self._merging) is not None:
            return min(merging[0] + merging[1].buckets, len(self.buckets)), len(self.buckets)
        return self._passed(), len(self.buckets)

    def _passed(self) -> int:
        return sum(bucket.cursor >= self._pass for bucket in self.buckets)

    @property
    def merging(self) -> bool:
        """A merge runs now, on some thread."""
        return self._merging is not None

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

    def pend_batch(self, batch: Batch, op: int = 0, ordered: bool = False) -> None:
        """Rows become pending in RAM. ordered: they are only keys, ascending without repeats."""
        if not batch.rows:
            return
        with self._lock:
            self._serial += 1
            self._pending.append(Pending(self._serial, -1, op, batch.rows, batch=batch, ordered=ordered))

    def join(self) -> None:
        """Small batches in RAM become larger ones, for a merge handles each by itself in every bucket. It copies them,
        which is worth it where most rows are handed on and nobody else keeps the batches."""
        for group in self._neighbours():
            while len(group) > 1 and not group[0].ordered:
                sizes = np.cumsum([part.batch.nbytes for part in group if part.batch is not None])
                some = group[: max(int(np.searchsorted(sizes, JOINED_BYTES)), 1)]
                group = group[len(some) :]
                if len(some) > 1:
                    batch = Batch.concat([part.batch for part in some if part.batch is not None])
                    last, merged = some[-1], sum(part.merged for part in some)
                    self._replace([some], [Pending(last.serial, -1, last.op, batch.rows, batch=batch, merged=merged)])

    def spill(self, writer: SegmentWriter, edits: Edits) -> None:
        """Pending rows in RAM become sections of `writer`, so that a commit may name them."""
        self.pool.adopt(writer)
        groups = self._neighbours()
        named = [self._write_pending(writer, group) for group in groups]
        self._replace(groups, named)
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
        proceed: Proceed | None = None,
    ) -> MergeStats:
        """Merge what is pending now into all or some of `self.buckets`, in key order.

        emit(bucket, batch) gets the rows the kernel chose: in arrival order within the bucket (partitioned sections:
        by part, then arrival), every column of the pending section and the kernel's columns, in bounded batches.
        Rows that are only keys come in the order of the keys when the kernel is a plain CheckUpdate.

        proceed(stats) is asked before each bucket but the first; when it says no, the rest is left for another merge.
        Between those calls `stats` says how far it is. Incompatible when the kernel wants a column that no waiting row
        has.
        """
        self.pool.adopt(writer)
        with self._lock:
            pending = list(self._pending)
            horizon = self._serial
        chosen = [bucket for bucket in self.buckets if buckets is None or any(bucket is one for one in buckets)]
        chosen = [bucket for bucket in chosen if pending and bucket.cursor < pending[-1].serial]
        kinds = column_kinds(self.name, kernel, self.key_bits, self.pool, pending) if chosen else {}
        if len(self.buckets) > 1:
            for part in pending:
                part.arrange(self.buckets)
        once = writer.once = self.rows * 8 > ONCE_BYTES
        job = Merging(
            self.name, self.pool, self.values, self.ram_bytes, kernel, writer, emit, kinds, self.key_bits, once
        )
        if self._passed() == len(self.buckets):
            self._pass = horizon
        became: dict[int, list[Bucket]] = {}
        self._merging = self._passed(), job.stats
        try:
            for number, bucket in enumerate(chosen):
                if number and proceed is not None and not proceed(job.stats):
                    job.stats.left = len(chosen) - number
                    break
                became[id(bucket)] = job.bucket(bucket.copy(), pending, horizon)
            self._apply([part for bucket in self.buckets for part in became.get(id(bucket), [bucket])], job, edits)
        finally:
            self._merging = None
        if self.ram_rows:
            self.spill(writer, edits)  # rows of the buckets left out
        return job.stats

    def waiting(self, op: int) -> Iterator[Batch]:
        """The rows of an operation that no merge has done, in arrival order as far as one key is concerned."""
        with self._lock:
            pending = sorted((part for part in self._pending if part.op == op), key=lambda part: part.serial)
        for part in pending:
            for bucket in self.buckets:
                if part.serial > bucket.cursor:
                    yield from part.blocks(self.pool, bucket, part.schema(self.pool))

    def scan(self, bucket: Bucket) -> Iterator[Batch]:
        """All keys of a bucket ascending, with their values."""
        return merged(
            [range_of(part.open(self.pool), bucket.lo, bucket.hi, self.values) for part in reversed(bucket.slices)],
            self.key_bits,
        )

    def scan_pending(self) -> Iterator[tuple[int, Batch]]:
        """(operation, rows) of what is not merged yet, bucket by bucket, in bounded batches (for listings)."""
        with self._lock:
            pending = list(self._pending)
        for bucket in self.buckets:
            for part in pending:
                if part.serial > bucket.cursor:
                    for batch in part.blocks(self.pool, bucket, list(part.schema(self.pool))):
                        yield part.op, batch

    def waiting_of(self, key: int) -> Iterator[tuple[int, Batch]]:
        """(operation, rows) of one key that no merge has done, in arrival order; reads only the blocks that may have
        it."""
        with self._lock:
            pending = sorted(self._pending, key=lambda part: part.serial)
        cursor = next(bucket.cursor for bucket in self.buckets if bucket.lo <= key <= bucket.hi)
        for part in pending:
            if part.serial > cursor:
                for batch in part.blocks(self.pool, Bucket(key, key, cursor), list(part.schema(self.pool))):
                    if batch.rows:
                        yield part.op, batch

    def lookup(self, keys: Keys, lows: Keys | None = None) -> tuple[Mask, Batch]:
        """(found[n], values; zeros where not found) of keys in any order; lows: their low halves, if they are 128-bit
        keys. Rows still pending are not seen."""
        if lows is None:
            ordered, order = sort_keys(keys)
            starts = group_starts(ordered)
        else:
            order = wide.order_of(keys, lows)
            ordered, lows = keys[order], lows[order]
            starts = wide.group_starts(ordered, lows)
            lows = lows[starts[:-1]]
        distinct = ordered[starts[:-1]]
        found = np.zeros(len(distinct), dtype=bool)
        batches = []
        for bucket in self.buckets:
            part = slice(
                int(np.searchsorted(distinct, np.uint64(bucket.lo), side="left")),
                int(np.searchsorted(distinct, np.uint64(bucket.hi), side="right")),
            )
            if lows is None:
                found[part], stored = look_up(self.pool, bucket.slices, self.values, distinct[part])
            else:
                places = [(piece.file, piece.section) for piece in bucket.slices]
                found[part], stored = wide.look_up(self.pool, places, self.values, distinct[part], lows[part])
            batches.append(stored)
        place = np.empty(len(keys), dtype=np.int64)
        place[order] = np.repeat(np.arange(len(distinct)), np.diff(starts))
        return found[place], Batch.concat(batches).take(place) if self.values else Batch({})

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

    def _apply(self, done: list[Bucket], job: Merging, edits: Edits) -> None:
        """The merge has succeeded: make it so in memory, and say so in the edits."""
        before = {id(bucket): bucket for bucket in self.buckets}
        for bucket in done:
            if id(bucket) not in before:
                edits.set(f"{self.prefix}bucket/{bucket.lo:016x}", bucket.to_json())
        with self._lock:
            self.buckets = done
            self.rows += job.stats.added
            passed = min(bucket.cursor for bucket in done)
            left = []
            for part in self._pending:
                part.merged += job.merged_rows.get(part.serial, 0)
                if part.serial > passed:
                    left.append(part)
                    if part.batch is None and part.serial in job.merged_rows:
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

    def _neighbours(self) -> list[list[Pending]]:
        """What waits in RAM, by what may become one."""
        with self._lock:
            ram = [part for part in self._pending if part.batch is not None]
        cursors = {bucket.cursor for bucket in self.buckets}
        groups: list[list[Pending]] = []
        for part in ram:
            if groups and joins(groups[-1][-1], part, cursors):
                groups[-1].append(part)
            else:
                groups.append([part])
        return groups

    def _replace(self, groups: list[list[Pending]], became: list[Pending]) -> None:
        with self._lock:
            gone = {id(part) for group in groups for part in group}
            kept = [part for part in self._pending if id(part) not in gone]
            self._pending = sorted([*kept, *became], key=lambda part: part.serial)

    def _write_pending(self, writer: SegmentWriter, group: list[Pending]) -> Pending:
        """One section of several batches in RAM."""
        batches = [part.batch for part in group if part.batch is not None]
        rows = sum(batch.rows for batch in batches)
        name = f"{self.name}.pend.{len(writer.sections)}"
        if all(part.ordered for part in group):
            out = writer.section(name, batches[0].schema, sorted_by="key", block_rows=SORTED_BLOCK_ROWS)
            runs = [batch["key"] for batch in batches]
            rows = write_slice(out, pieces(batches[0]) if len(runs) == 1 else _batches(united_pieces(runs)))
        elif rows > BLOCK_ROWS:
            write_parts(writer, name, batches)
        else:
            out = writer.section(name, batches[0].schema)
            for batch in batches:
                out.append(batch)
            out.end()
        last = group[-1]
        return Pending(last.serial, -1, last.op, rows, writer.name, name, merged=sum(part.merged for part in group))


def _batches(stream: Iterator[Keys]) -> Iterator[Batch]:
    return (Batch({"key": keys}) for keys in stream)
