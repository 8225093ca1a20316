"""The keys a bucket remembers: sorted immutable slices, newest wins, read and rewritten as streams.

A merge adds one slice of what it learnt. Looking keys up reads, of each slice, only the blocks that can hold one of
them. When eight slices of one size have gathered they are rewritten as one, so a key is rewritten once per eightfold
growth of the store and a bucket keeps few slices, whether merges are tiny or huge.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from drum import wide
from drum.kernels import Keys, Mask, match
from drum.keyset import absent, is_in, united
from drum.pool import SegmentPool
from drum.ragged import Batch, Schema
from drum.segment import Section
from drum.writer import SectionWriter

import numpy as np

TIER = 8  # slices of one size that become one
TIER_ROWS_LEAST = 4096  # slices smaller than TIER times this are of one size
KEY_MAX = 2**64 - 1


@dataclass(frozen=True)
class Slice:
    """A sorted section; `rows` of it are in the range of the bucket that lists it."""

    file: str
    section: str
    rows: int

    def open(self, pool: SegmentPool) -> Section:
        return pool.section(self.file, self.section)


def schema_of(values: Schema, key_bits: int = 64) -> dict[str, str]:
    """The columns of a slice."""
    return {"key": "u8", **({wide.LOW: "u8"} if key_bits == 128 else {}), **values}


def zeros(schema: Schema, rows: int) -> Batch:
    """Rows of nothing; fixed-size columns only."""
    return Batch({name: np.zeros(rows, kind) for name, kind in schema.items()})


def look_up(
    pool: SegmentPool, slices: Sequence[Slice], values: Schema, keys: Keys, once: bool = False
) -> tuple[Mask, Batch]:
    """(found[g], values of the newest slice that has the key, zeros where none has). Keys ascending, no repeats.

    slices: oldest first. Without values any slice will do, so the largest goes first and spares the others the work.
    """
    if not values:
        new = keys
        for part in sorted(slices, key=lambda part: -part.rows):
            new = absent(part.open(pool), new, once)
        return ~is_in(keys, new), Batch({})
    found = np.zeros(len(keys), dtype=bool)
    stored = zeros(values, len(keys))
    open_keys, places = keys, np.arange(len(keys))  # what is still looked for, and where it stands in `keys`
    for part in reversed(slices):
        if not len(open_keys):
            break
        section = part.open(pool)
        hit = np.zeros(len(open_keys), dtype=bool)
        firsts = np.searchsorted(open_keys, section.blocks["label_lo"], side="left")
        lasts = np.searchsorted(open_keys, section.blocks["label_hi"], side="right")
        for block in np.flatnonzero(lasts > firsts).tolist():
            first, last = int(firsts[block]), int(lasts[block])
            batch = section.read(block, once=once)
            at, there = match(open_keys[first:last], batch["key"])
            at += first
            hit[at] = True
            to = places[at]
            for name in values:
                if name in batch.columns:
                    stored[name][to] = batch[name].take(there)
        found[places[hit]] = True
        open_keys, places = open_keys[~hit], places[~hit]
    return found, stored


def rows_below(section: Section, key: int) -> int:
    """How many rows of a sorted section have a smaller key: reads one block at most."""
    below = int(section.blocks["rows"][section.blocks["label_hi"] < np.uint64(key)].sum())
    for block in np.flatnonzero(
        (section.blocks["label_lo"] < np.uint64(key)) & (section.blocks["label_hi"] >= np.uint64(key))
    ).tolist():
        below += int(np.searchsorted(section.read(block, ["key"])["key"], np.uint64(key)))
    return below


def size_class(rows: int) -> int:
    """Slices of one class differ in rows by less than TIER."""
    return (max(rows // TIER_ROWS_LEAST, 1).bit_length() - 1) // (TIER.bit_length() - 1)


def to_rewrite(sizes: Sequence[int]) -> int:
    """How many of the newest slices (rows of each, oldest first, the new one last) to rewrite as one; at least 1.

    The newest slices that are no larger a class than the newest one become one when they are TIER or more; that may
    make one of the next class too many.
    """
    taken = 1
    rows = sizes[-1]
    while True:
        largest = size_class(rows)
        count = taken
        while count < len(sizes) and size_class(sizes[-1 - count]) <= largest:
            count += 1
        if count - taken + 1 < TIER:
            return taken
        rows += sum(sizes[-count : len(sizes) - taken])
        taken = count


def range_of(section: Section, lo: int, hi: int, values: Schema, once: bool = False) -> Iterator[Batch]:
    """The rows of a sorted section with lo <= key <= hi, by block; zero in values it was written without."""
    for block in section.blocks_between(lo, hi).tolist():
        batch = section.read(block, once=once)
        lacking = {name: kind for name, kind in values.items() if name not in batch.columns}
        if lacking:
            filled = batch.with_(**zeros(lacking, batch.rows).columns)
            batch = filled.select([*(name for name in batch.columns if name not in values), *values])
        if int(section.blocks["label_lo"][block]) < lo or int(section.blocks["label_hi"][block]) > hi:
            start = int(np.searchsorted(batch["key"], np.uint64(lo), side="left"))
            stop = int(np.searchsorted(batch["key"], np.uint64(hi), side="right"))
            batch = batch.slice(start, stop)
        if batch.rows:
            yield batch


def pieces(batch: Batch, rows: int = 65_536) -> Iterator[Batch]:
    """A batch as a stream of views."""
    for start in range(0, batch.rows, rows):
        yield batch.slice(start, start + rows)


def merged(sources: Sequence[Iterator[Batch]], key_bits: int = 64) -> Iterator[Batch]:
    """One ascending stream of sorted streams, newest first; of equal keys the newest source's row stays.

    Holds one block of each source. Every round takes from each the rows up to the least of the blocks' last keys, which
    uses up one block at least.
    """
    heads: list[Batch] = []
    rest: list[Iterator[Batch]] = []
    for source in sources:
        head = next(source, None)
        if head is not None:
            heads.append(head)
            rest.append(source)
    while heads:
        if key_bits == 128:
            last = min((int(head["key"][-1]), int(head[wide.LOW][-1])) for head in heads)
            cuts = [wide.cut(head, *last) for head in heads]
        else:
            bound = min(head["key"][-1] for head in heads)
            cuts = [int(np.searchsorted(head["key"], bound, side="right")) for head in heads]
        yield _newest([head.slice(0, cut) for head, cut in zip(heads, cuts) if cut], key_bits)
        left, going = [], []
        for head, cut, source in zip(heads, cuts, rest):
            following = head.slice(cut, head.rows) if cut < head.rows else next(source, None)
            if following is not None:
                left.append(following)
                going.append(source)
        heads, rest = left, going


def _newest(parts: list[Batch], key_bits: int) -> Batch:
    """Sorted rows of several sorted batches, newest first, without repeats. The stable sort gallops over the runs."""
    if len(parts) == 1:
        return parts[0]
    if len(parts[0].columns) == 1:
        return Batch({"key": united([part["key"] for part in parts])})
    batch = Batch.concat(parts)
    if key_bits == 128:
        return wide.newest(batch)
    order = np.argsort(batch["key"], kind="stable")
    ordered = batch["key"][order]
    return batch.take(order[np.concatenate(([True], ordered[1:] != ordered[:-1]))])


def write_slice(out: SectionWriter, stream: Iterator[Batch]) -> int:
    """Append a stream of sorted batches to a section; returns its rows."""
    for batch in stream:
        out.append(batch)
    return out.end().rows
