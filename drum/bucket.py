"""RAM in front of the disk: rows gathered until they are worth a section, and the exact cache of recent keys.

The paper keeps two arrays and two files for each of k buckets. Here rows are gathered in arrival order and partitioned
once, when they leave RAM, by the top 8 bits of the key; a bucket is a range of those 256 parts, so the number of
buckets can change without moving a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from drum.kernels import Index, Keys, Mask
from drum.keyset import compact, distinct
from drum.ragged import Batch
from drum.segment import Section
from drum.writer import SegmentWriter

import numpy as np

PART_SHIFT = 56  # partition of a key: its top 8 bits
_CHUNK = 32_768  # keys looked up at once: their arrays stay in the processor's cache


class RamBuckets:
    """Rows waiting in RAM, at most about `ram_bytes` of them."""

    def __init__(self, ram_bytes: int) -> None:
        self.ram_bytes = ram_bytes
        self.batches: list[tuple[Batch, int]] = []  # with their operations
        self.rows = 0
        self.nbytes = 0

    @property
    def full(self) -> bool:
        return self.nbytes >= self.ram_bytes

    def add(self, batch: Batch, op: int = 0) -> None:
        if batch.rows:
            self.batches.append((batch, op))
            self.rows += batch.rows
            self.nbytes += batch.nbytes

    def clear(self) -> None:
        self.batches, self.rows, self.nbytes = [], 0, 0


def write_parts(writer: SegmentWriter, name: str, batches: Sequence[Batch]) -> Section:
    """Batches with a column `key` as one section whose rows are grouped by part, in arrival order within each."""
    batch = Batch.concat(batches)
    out = writer.section(name, batch.schema)
    out.append(batch, labels=(batch["key"] >> np.uint64(PART_SHIFT)).astype("u1"))
    return out.end()


class RecentKeys:
    """An exact direct-mapped cache: a slot holds the last key that fell on it, so a hit is certain to be a repeat.

    It only ever holds keys that went on, and must not live longer than they do: make a new one after a crash. A key's
    slot is its leading bits, so ascending keys sweep through the slots from the first to the last: a third of the cost
    of random ones.
    """

    def __init__(self, ram_bytes: int) -> None:
        bits = max((ram_bytes // 8).bit_length() - 1, 1)
        self._shift = np.uint64(64 - bits)
        self._slots = np.empty(1 << bits, dtype=np.uint64)
        self.forget()
        self._homes = np.empty(_CHUNK, dtype=np.uint64)
        self._held = np.empty(_CHUNK, dtype=np.uint64)
        self._other = np.empty(_CHUNK, dtype=bool)
        self._once = np.empty(_CHUNK, dtype=bool)
        self.asked = 0
        self.hits = 0

    @property
    def nbytes(self) -> int:
        return self._slots.nbytes

    def forget(self) -> None:
        """All keys: some that it knows did not go on."""
        self._slots[:] = np.arange(len(self._slots), dtype=np.uint64)
        self._slots ^= np.uint64(1)
        self._slots <<= self._shift  # a key that belongs elsewhere: an empty slot

    def unseen(self, keys: Keys) -> Index:
        """Positions of the keys not known to have come before; those are remembered. A repeat may be among them."""
        parts: list[Index] = []
        for start in range(0, len(keys), _CHUNK):  # not per key: by chunks of _CHUNK
            part = keys[start : start + _CHUNK]
            fresh = np.flatnonzero(self._others(part))
            self._remember(part.take(fresh))
            fresh += start
            parts.append(fresh)
        found = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
        self.asked += len(keys)
        self.hits += len(keys) - len(found)
        return found

    def sweep(self, keys: Keys) -> int:
        """Move those of ascending keys that are not known to have come before to the front, each once, and remember
        them; how many those are."""
        kept, last = 0, None
        for start in range(0, len(keys), _CHUNK):  # not per key: by chunks of _CHUNK
            part = keys[start : start + _CHUNK]
            once = self._once[: len(part)]
            once[0] = part[0] != last
            np.not_equal(part[1:], part[:-1], out=once[1:])
            last = part[-1]
            part = part.compress(once)  # first: half of a crawl's links go here, for a tenth of what a look costs
            fresh = part.compress(self._others(part))
            self._slots[self._homes[: len(part)].view(np.int64)] = part
            keys[kept : kept + len(fresh)] = fresh
            kept += len(fresh)
        self.asked += len(keys)
        self.hits += len(keys) - kept
        return kept

    def _others(self, keys: Keys) -> Mask:
        """Which keys are not in their slots; those are in `_homes` then. Good until the next call."""
        homes = np.right_shift(keys, self._shift, out=self._homes[: len(keys)]).view(np.int64)
        held = self._held[: len(keys)]
        self._slots.take(homes, out=held, mode="clip")  # "clip" spares a check and a copy; no index is out of range
        return np.not_equal(held, keys, out=self._other[: len(keys)])

    def _remember(self, keys: Keys) -> None:
        self._slots[np.right_shift(keys, self._shift).view(np.int64)] = keys


class KeyBuffer:
    """Keys waiting in RAM with nothing beside them, in one array: ascending runs without repeats, and behind them a
    tail in order of arrival. A tail that is long enough is sorted and swept through the cache of recent keys, and what
    that lets pass is the next run: a sort costs 4 ns a key and a sweep as much, a look at a random slot 20."""

    def __init__(self, ram_bytes: int) -> None:
        self._keys = np.empty(max(ram_bytes // 8, 1), dtype=np.uint64)  # touched, and so resident, only as it fills
        self._ends = [0]  # of the runs
        self.rows = 0

    @property
    def capacity(self) -> int:
        """Rows at which it is full: what room is left would make short tails."""
        return max(len(self._keys) * 15 // 16, 1)

    @property
    def room(self) -> int:
        """Keys that `add` takes now."""
        return min(len(self._keys) - self.rows, self._tail_max - (self.rows - self._ends[-1]))

    @property
    def runs(self) -> list[Keys]:
        """What waits, as ascending arrays without repeats, once it was swept; views, good until the next add."""
        return [self._keys[start:end] for start, end in pairwise(self._ends)]

    @property
    def keys(self) -> Keys:
        """All that waits, run after run; a view, good until the next add."""
        return self._keys[: self.rows]

    def add(self, keys: Keys) -> None:
        """At most `room` keys."""
        self._keys[self.rows : self.rows + len(keys)] = keys
        self.rows += len(keys)

    def sweep(self, recent: RecentKeys | None) -> None:
        """Make the tail a run, without the keys that the cache knows."""
        start = self._ends[-1]
        tail = self._keys[start : self.rows]
        if not len(tail):
            return
        try:
            tail.sort()
            self._end(start + (recent.sweep(tail) if recent is not None else distinct(tail)))
        except BaseException:  # an interrupt: the cache knows keys that are in no run yet, and the tail comes again
            if recent is not None:
                recent.forget()
            raise

    def clear(self) -> None:
        self.rows = 0
        self._ends = [0]

    @property
    def _tail_max(self) -> int:
        return -(-len(self._keys) // 4)

    def _end(self, end: int) -> None:
        """A run ends here. Short ones are joined, so that there are never many."""
        start = self._ends[-1]
        if end > start:
            short = len(self._keys) // 32
            if len(self._ends) > 1 and end - start <= short and start - self._ends[-2] <= short:
                self._ends.pop()
                start = self._ends[-1]
                end = start + compact(self._keys[start:end])
            self._ends.append(end)
        self.rows = end
