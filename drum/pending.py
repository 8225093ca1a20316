"""What waits in front of a repository: its buckets of the key space, and pending rows as each bucket sees them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from drum.bucket import PART_SHIFT
from drum.kernels import Keys, Mask
from drum.pool import SegmentPool
from drum.ragged import Batch, Schema
from drum.segment import Section
from drum.store import KEY_MAX, Slice

import numpy as np

EMIT_ROWS = 65_536
EMIT_BYTES = 4 << 20
JOINED_SHARE = 8  # batches of at least this part of the above are not joined: that would copy them


@dataclass
class Bucket:
    """A range of the key space, lo and hi inclusive, with its own cursor: pending rows up to it have been merged."""

    lo: int = 0
    hi: int = KEY_MAX
    cursor: int = 0
    slices: list[Slice] = field(default_factory=list)  # oldest first
    extra: dict[str, Any] = field(default_factory=dict)  # the kernel's, JSON; copied to both halves by a split

    def copy(self) -> Bucket:
        return Bucket(self.lo, self.hi, self.cursor, list(self.slices), dict(self.extra))

    def to_json(self) -> dict[str, Any]:
        return {
            "lo": self.lo, "hi": self.hi, "cursor": self.cursor, "extra": self.extra,
            "slices": [[part.file, part.section, part.rows] for part in self.slices],
            "files": sorted({part.file for part in self.slices}),
        }  # fmt: skip

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Bucket:
        slices = [Slice(*part) for part in value["slices"]]
        return cls(value["lo"], value["hi"], value["cursor"], slices, dict(value["extra"]))


LOPSIDED = 16
CROWD_ROWS = 64


def middle_of(bucket: Bucket, keys: Keys) -> int:
    """Where to cut a bucket that is too large, given some of the keys (u8[n]) that wait in it: the first key of the
    second half. That is the middle of its range, for keys are hashes; but where there are CROWD_ROWS, and fewer than
    one in LOPSIDED of them on one side, it is their median: one key with more rows than fit stands alone after two
    cuts, not sixty."""
    middle = (bucket.lo + bucket.hi) // 2 + 1
    above = int(np.count_nonzero(keys >= np.uint64(middle)))
    if len(keys) < CROWD_ROWS or min(above, len(keys) - above) * LOPSIDED >= len(keys):
        return middle
    return max(int(np.partition(keys, len(keys) // 2)[len(keys) // 2]), bucket.lo + 1)


@dataclass
class Pending:
    """Rows waiting to be merged: a named section, or a batch in RAM. `serial` is their place in the arrival order."""

    serial: int
    number: int
    op: int
    rows: int
    file: str = ""
    section: str = ""
    batch: Batch | None = None
    ordered: bool = False  # the batch is only keys, ascending without repeats
    merged: int = 0  # rows that merges of some buckets have done
    edges: tuple[list[int], list[int]] | None = None  # of a batch arranged by bucket: least keys, first rows

    def blocks(self, pool: SegmentPool, bucket: Bucket, columns: Iterable[str]) -> Iterator[Batch]:
        """Rows of the bucket, block by block; the same blocks whatever the columns."""
        if self.batch is not None:
            yield self.inside(bucket, columns)
        else:
            section = pool.section(self.file, self.section)
            names = list(columns)
            for block in blocks_of(section, bucket):
                yield inside_of(section.read(block, names), bucket, ordered=section.sorted_by == "key")

    def arrange(self, buckets: Sequence[Bucket]) -> None:
        """Group a batch in RAM by bucket, once, so that each of them need not look at all of it."""
        if self.batch is None or self.ordered:
            return
        least = np.array([bucket.lo for bucket in buckets], np.uint64)
        home = np.searchsorted(least, self.batch["key"], side="right") - 1
        kind = np.uint8 if len(least) <= 256 else np.uint16 if len(least) <= 65_536 else np.int64
        order = np.argsort(home.astype(kind), kind="stable")  # of up to 16 bits: a radix sort
        starts = np.searchsorted(home[order], np.arange(len(least) + 1))
        self.batch = self.batch.pick(order)
        self.edges = least.tolist(), starts.tolist()

    def inside(self, bucket: Bucket, columns: Iterable[str] | None = None) -> Batch:
        """A batch's rows of the bucket."""
        assert self.batch is not None
        batch = self.batch if columns is None else self.batch.select(columns)
        if self.edges is not None:
            least, starts = self.edges
            batch = batch.slice(starts[bisect_right(least, bucket.lo) - 1], starts[bisect_right(least, bucket.hi)])
        return inside_of(batch, bucket, self.ordered, views=True)

    def rows_least(self, pool: SegmentPool, bucket: Bucket) -> int:
        """So many of its rows are in the bucket, by the directory alone: those of the blocks that lie in it whole."""
        if self.batch is not None:
            return 0
        section = pool.section(self.file, self.section)
        if section.sorted_by == "key":
            least, last = bucket.lo, bucket.hi
        elif section.labelled:  # the parts that are in it whole
            least = -(-bucket.lo >> PART_SHIFT)
            last = ((bucket.hi + 1) >> PART_SHIFT) - 1
        else:
            return 0
        if last < least:
            return 0
        whole = (section.blocks["label_lo"] >= np.uint64(least)) & (section.blocks["label_hi"] <= np.uint64(last))
        return int(section.blocks["rows"][whole].sum())

    def ascends(self, pool: SegmentPool) -> bool:
        """Whether its rows ascend by key."""
        return self.ordered or (self.batch is None and pool.section(self.file, self.section).sorted_by == "key")

    def schema(self, pool: SegmentPool) -> Schema:
        return self.batch.schema if self.batch is not None else pool.section(self.file, self.section).schema


class Outbox:
    """Joins small batches into bounded ones; one that is large enough goes on as it is, and is not copied."""

    def __init__(self, emit: Callable[[Batch], None]) -> None:
        self.emit = emit
        self.rows = 0
        self._held: list[Batch] = []
        self._held_rows = self._held_bytes = 0

    def add(self, batch: Batch) -> None:
        nbytes = batch.nbytes
        alone = JOINED_SHARE * batch.rows >= EMIT_ROWS or JOINED_SHARE * nbytes >= EMIT_BYTES
        if self._held and (alone or batch.schema != self._held[0].schema):
            self.flush()
        self._held.append(batch)
        self._held_rows += batch.rows
        self._held_bytes += nbytes
        if alone or self._held_rows >= EMIT_ROWS or self._held_bytes >= EMIT_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._held_rows:
            self.rows += self._held_rows
            self.emit(Batch.concat(self._held))
        self._held, self._held_rows, self._held_bytes = [], 0, 0


def wanted_blocks(
    part: Pending, pool: SegmentPool, bucket: Bucket, counts: list[int], chosen: Mask, at: int
) -> Iterator[tuple[slice, Batch]]:
    """Of the blocks that hold a chosen row, the rows inside the bucket and their places in `chosen`; other blocks are
    not read. counts: rows inside the bucket of each block that meets it; at: place of the section's first row."""
    if part.batch is not None:
        inside = part.inside(bucket)
        step = max(min(EMIT_ROWS, EMIT_BYTES * inside.rows // max(inside.nbytes, 1)), 1)
        for start in range(0, inside.rows, step):
            piece = inside.slice(start, start + step)
            yield slice(at + start, at + start + piece.rows), piece
        return
    section = pool.section(part.file, part.section)
    for number, count in zip(blocks_of(section, bucket), counts):
        rows = slice(at, at + count)
        at += count
        if chosen[rows].any():
            yield rows, inside_of(section.read(number), bucket, ordered=section.sorted_by == "key")


def blocks_of(section: Section, bucket: Bucket) -> list[int]:
    """The blocks of a pending section that may have rows of the bucket."""
    if section.sorted_by == "key":
        found = section.blocks_between(bucket.lo, bucket.hi)
    else:
        found = section.blocks_between(bucket.lo >> PART_SHIFT, bucket.hi >> PART_SHIFT)
    blocks: list[int] = found.tolist()
    return blocks


def inside_of(batch: Batch, bucket: Bucket, ordered: bool = False, views: bool = False) -> Batch:
    """The rows whose keys are in the bucket. ordered: they ascend by key. views: the batch stays in memory anyway."""
    if bucket.lo == 0 and bucket.hi == KEY_MAX:
        return batch
    keys = batch["key"]
    if ordered:
        start = int(np.searchsorted(keys, np.uint64(bucket.lo), side="left"))
        return batch.slice(start, int(np.searchsorted(keys, np.uint64(bucket.hi), side="right")))
    mask = (keys >= np.uint64(bucket.lo)) & (keys <= np.uint64(bucket.hi))
    if mask.all():
        return batch
    return batch.pick(np.flatnonzero(mask)) if views else batch.filter(mask)


def joins(before: Pending, after: Pending, cursors: set[int]) -> bool:
    """Whether two pending batches may become one section: same operation and columns, neighbours in arrival, and no
    bucket has merged the one without the other; or, as repeats are left out of keys in order, any of them at all."""
    return (
        before.ordered == after.ordered
        and not (before.ordered and (before.merged or after.merged))
        and before.batch is not None
        and after.batch is not None
        and before.op == after.op
        and before.serial + 1 == after.serial
        and before.serial not in cursors
        and before.batch.schema == after.batch.schema
    )
