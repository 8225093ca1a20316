"""RAM in front of the disk: rows gathered until they are worth a section, and the exact cache of recent keys.

The paper keeps two arrays and two files for each of k buckets. Here rows are gathered in arrival order and partitioned
once, when they leave RAM, by the top 8 bits of the key; a bucket is a range of those 256 parts, so the number of
buckets can change without moving a row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drum.kernels import Index, Keys
from drum.keyset import compact
from drum.ragged import Batch
from drum.segment import Section
from drum.writer import SegmentWriter

PART_SHIFT = 56  # partition of a key: its top 8 bits
_CHUNK = 16_384  # keys looked up at once: repeats within a chunk are not noticed, a smaller one costs more calls


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


class KeyBuffer:
    """Keys waiting in RAM with nothing beside them: one array, filled in order of arrival and sorted when it leaves."""

    def __init__(self, ram_bytes: int) -> None:
        self._keys = np.empty(max(ram_bytes // 8, 1), dtype=np.uint64)  # touched, and so resident, only as it fills
        self.rows = 0

    @property
    def capacity(self) -> int:
        return len(self._keys)

    @property
    def room(self) -> int:
        return len(self._keys) - self.rows

    def add(self, keys: Keys) -> None:
        """At most `room` keys."""
        self._keys[self.rows : self.rows + len(keys)] = keys
        self.rows += len(keys)

    def ordered(self) -> Keys:
        """What waits, ascending and without repeats; a view, good until the next add."""
        self.rows = compact(self._keys[: self.rows])
        return self._keys[: self.rows]

    def clear(self) -> None:
        self.rows = 0


class RecentKeys:
    """An exact direct-mapped cache: a slot holds the last key that fell on it, so a hit is certain to be a repeat.

    It only ever holds keys that went on, and must not live longer than they do: make a new one after a crash.
    """

    def __init__(self, ram_bytes: int) -> None:
        slots = 1 << max((ram_bytes // 8).bit_length() - 1, 1)
        self._mask = np.uint64(slots - 1)
        self._slots = np.arange(slots, dtype=np.uint64) ^ np.uint64(1)  # a key that belongs elsewhere: an empty slot
        self._homes = np.empty(_CHUNK, dtype=np.uint64)
        self._held = np.empty(_CHUNK, dtype=np.uint64)
        self.asked = 0
        self.hits = 0

    @property
    def nbytes(self) -> int:
        return self._slots.nbytes

    def unseen(self, keys: Keys) -> Index:
        """Positions of the keys not known to have come before; those are remembered. A repeat may be among them."""
        parts: list[Index] = []
        for start in range(0, len(keys), _CHUNK):  # not per key: by chunks of _CHUNK
            part = keys[start : start + _CHUNK]
            homes = np.bitwise_and(part, self._mask, out=self._homes[: len(part)]).view(np.int64)
            held = self._held[: len(part)]
            self._slots.take(homes, out=held, mode="clip")  # "clip" spares a check and a copy; no index is out of range
            fresh = np.flatnonzero(held != part)
            self._slots[homes.take(fresh)] = part.take(fresh)
            fresh += start
            parts.append(fresh)
        found = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
        self.asked += len(keys)
        self.hits += len(keys) - len(found)
        return found
