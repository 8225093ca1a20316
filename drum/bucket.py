"""RAM in front of the disk: rows gathered until they are worth a section, and the exact cache of recent keys.

The paper keeps two arrays and two files for each of k buckets. Here rows are gathered in arrival order and partitioned
once, when they leave RAM, by the top 8 bits of the key; a bucket is a range of those 256 parts, so the number of
buckets can change without moving a row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drum.kernels import Keys, Mask
from drum.ragged import Batch
from drum.segment import Section
from drum.writer import SegmentWriter

PART_SHIFT = 56  # partition of a key: its top 8 bits
_CHUNK = 16_384  # keys looked up at once: repeats within a chunk are not noticed, a smaller one costs more calls


class RamBuckets:
    """Rows waiting in RAM, at most about `ram_bytes` of them."""

    def __init__(self, ram_bytes: int) -> None:
        self.ram_bytes = ram_bytes
        self.batches: list[Batch] = []
        self.rows = 0
        self.nbytes = 0

    @property
    def full(self) -> bool:
        return self.nbytes >= self.ram_bytes

    def add(self, batch: Batch) -> None:
        if batch.rows:
            self.batches.append(batch)
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

    It only ever holds keys that went on, and must not live longer than they do: make a new one after a crash.
    """

    def __init__(self, ram_bytes: int) -> None:
        slots = 1 << max((ram_bytes // 8).bit_length() - 1, 1)
        self._mask = np.uint64(slots - 1)
        self._slots = np.arange(slots, dtype=np.uint64) ^ np.uint64(1)  # a key that belongs elsewhere: an empty slot
        self.asked = 0
        self.hits = 0

    @property
    def nbytes(self) -> int:
        return self._slots.nbytes

    def unseen(self, keys: Keys) -> Mask:
        """True where a key is not known to have come before; those are remembered. A repeat may be true, too."""
        fresh = np.empty(len(keys), dtype=bool)
        for start in range(0, len(keys), _CHUNK):  # not per key: by chunks of _CHUNK
            part = keys[start : start + _CHUNK]
            slots = (part & self._mask).view(np.int64)
            mask = fresh[start : start + _CHUNK]
            np.not_equal(self._slots[slots], part, out=mask)
            self._slots[slots[mask]] = part[mask]
        self.asked += len(keys)
        self.hits += len(keys) - int(np.count_nonzero(fresh))
        return fresh
