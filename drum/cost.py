"""The cost of a seen-check in bytes of disk traffic: the paper's model, and a model of what this library does.

The paper (Lee, Leonard, Wang, Loguinov, IRLbot, ACM TWEB 3(3), 2009) counts omega = alpha(n, R)·b·n bytes for checking
n URLs of b bytes each with R bytes of RAM, where keys take H bytes, pointers P, U keys are stored before, and a URL is
new with probability p. Its formulas here are re-derived (each batch of K URLs reads and writes the store once; K grows
with R for a batch in RAM and with R² for buckets on disk); they reproduce a remembered table, no copy of the text.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from drum.codec import BLOCK_ROWS, SORTED_BLOCK_ROWS, STEP_BITS_MAX, STEP_ROWS_LEAST
from drum.store import to_rewrite

KEY_BYTES = 8
MERGE_ROWS_LEAST = 1 << 20
PASS_SHARE = 2  # what the pass over a store may cost, by what the rows that waited for it cost themselves


@dataclass(frozen=True)
class Paper:
    """The paper's symbols; defaults are those of its table (R fitted to it)."""

    b: float = 110  # bytes of a URL in a queue
    H: float = 8  # bytes of a key
    P: float = 4  # bytes of a pointer
    U: float = 100e6  # keys stored before
    p: float = 1 / 9  # share of new URLs
    R: float = 1e9  # bytes of RAM
    M: float = 256 * 1024  # bytes of a write buffer
    D: float = math.inf  # bytes of disk for buckets

    def mercator_b(self, n: float) -> float:
        """alpha of batches in RAM merged with a sorted file (Mercator-B); RAM holds two batches' keys and pointers."""
        return 2 * self._store(n) * (self.H + self.P) / (self.b * self.R) + 2 + self.p

    def polybot(self, n: float) -> float:
        """alpha of a search tree of whole URLs in RAM merged with a file of URLs (Polybot)."""
        return 2 * (2 * self.U * self.b + self.p * self.b * n) * (self.b + 4 * self.P) / (self.b * self.R) + self.p

    def drum(self, n: float) -> float:
        """alpha of DRUM: the merge interval grows with R² until the buckets fill the disk."""
        if self.lambda_() > self.R**2:
            passes = 8 * self.M * (self.H + self.P) * self._store(n) / (self.b * self.R**2)
        else:
            passes = (self.H + self.b) * self._store(n) / (self.b * self.D)
        return passes + 2 + self.p + 2 * self.H / self.b

    def lambda_(self) -> float:
        """R² beyond which disk, not RAM, bounds the merge interval; sqrt(lambda_) is exactly enough RAM for D."""
        return 8 * self.M * self.D * (self.H + self.P) / (self.H + self.b)

    def pages_per_s(self, alpha: float, disk_bytes_per_s: float, links_per_page: float) -> float:
        """The rate that a disk of so many bytes a second sustains."""
        return disk_bytes_per_s / (alpha * self.b * links_per_page)

    def _store(self, n: float) -> float:
        """Bytes of the store read and written by one merge a URL, summed over n."""
        return 2 * self.U * self.H + self.p * self.H * n


@dataclass
class Traffic:
    """Bytes through the file system."""

    read: float = 0.0
    written: float = 0.0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.read + other.read, self.written + other.written)


@dataclass
class Seen:
    """Traffic of one bucket under a set-only check+update by this library: feed it merges, it tells their bytes.

    slices: rows of the bucket's slices, oldest first. aux_bytes: stored bytes of a row beside its key. share: of the
    key space. Rows that stay in RAM until their merge cost nothing before it. Spilled rows are written once; keys alone
    are read once, rows with more beside them twice: the keys, then whole blocks for those that are new. Blocks at the
    edges of buckets, which both neighbours read, count where they are of slices that a split left to both halves or of
    spilled keys. Not counted: the catalogue and directories (about 200 bytes a section, 20 a block, 25 a chunk).
    """

    slices: list[int]
    aux_bytes: float = 0.0
    share: float = 1.0
    _beyond: dict[int, float] = field(
        default_factory=dict
    )  # by place of a slice: rows of its blocks outside the bucket

    def merge(
        self, rows: int, new: int, spilled: bool, distinct: int | None = None, key_bytes: float = KEY_BYTES
    ) -> Traffic:
        """rows: pending; distinct: different keys among them, where known; new: keys the store does not have.
        key_bytes: of a spilled key (`Drum` spills keys alone sorted and packed)."""
        traffic = Traffic()
        if spilled:
            whole = key_bytes + self.aux_bytes
            beyond = 0.0 if self.aux_bytes else (1 - self.share) * min(SORTED_BLOCK_ROWS, rows / self.share - rows)
            traffic += Traffic((rows + beyond) * key_bytes + (rows * whole if self.aux_bytes else 0.0), rows * whole)
        return traffic + self._look_up(distinct if distinct is not None else rows, new) + self._write(new)

    def halve(self) -> None:
        """Become one of the two halves of a split."""
        for place, rows in enumerate(self.slices):  # the block at the cut is read by both
            beyond = self._beyond.get(place, 0.0)
            self._beyond[place] = beyond / 2 + min(BLOCK_ROWS, rows + beyond) / 2
        self.slices = [rows // 2 for rows in self.slices]
        self.share /= 2

    def _look_up(self, keys: int, new: int) -> Traffic:
        """Every slice is read where a key still looked for may be: largest first, each finding its share."""
        total = sum(self.slices)
        read = 0.0
        left = float(keys)
        for place, size in sorted(enumerate(self.slices), key=lambda part: -part[1]):
            whole = size + self._beyond.get(place, 0.0)
            blocks = max(whole / BLOCK_ROWS, 1.0)
            read += whole * packed_bytes(size, self.share) * -math.expm1(-left / blocks)
            left -= (keys - new) * size / total
        return Traffic(read=read)

    def _write(self, new: int) -> Traffic:
        if not new:
            return Traffic()
        count = to_rewrite([*self.slices, new])
        kept = len(self.slices) - (count - 1)
        old = self.slices[kept:]
        read = sum(
            (size + self._beyond.pop(place, 0.0)) * packed_bytes(size, self.share)
            for place, size in enumerate(old, kept)
        )
        rows = sum(old) + new
        self.slices[kept:] = [rows]
        return Traffic(read, rows * packed_bytes(rows, self.share))


def packed_bytes(keys: float, share: float = 1.0) -> float:
    """Bytes a key takes in a slice of so many hashed keys spread over a share of the key space: its low half, and the
    step from the high half before in the bits that the widest of a block's steps needs (exponentially distributed
    steps: the mean times ln rows + gamma)."""
    rows = min(keys, BLOCK_ROWS)
    if rows < STEP_ROWS_LEAST:
        return KEY_BYTES
    widest = 2**32 * share / keys * (math.log(rows) + 0.577)
    bits = max(1, math.ceil(math.log2(widest + 1)))
    return 4 + bits / 8 if bits <= STEP_BITS_MAX else KEY_BYTES


def store_bytes(keys: int, value_bytes: int = 0) -> float:
    """Disk a store of so many keys takes; while slices are rewritten, up to twice that."""
    return keys * (packed_bytes(keys) + value_bytes)


def merge_rows(stored: int, ram_rows: int, row_bytes: float, disk_bytes: float = math.inf) -> int:
    """How many rows should wait for a merge. More make each one cheaper and later.

    stored: keys in the store. ram_rows: waiting rows that RAM holds, beyond which they are spilled. row_bytes: stored
    bytes of a waiting row. disk_bytes: for everything. A quarter of the store or of RAM, as far as RAM goes; beyond it,
    as many as make the pass over the store cost twice what the rows cost themselves (written once, their keys and
    then all of them read; keys alone are written packed and read once), as far as they fit on the disk beside the store
    and its rewriting; but not where that spares less of the pass than writing rows out costs, which by the same
    reckoning is up to (PASS_SHARE + 1) / PASS_SHARE of what RAM holds.
    """
    in_ram = min(max(stored // 4, ram_rows // 4, MERGE_ROWS_LEAST), ram_rows)
    store = store_bytes(stored) if stored else 0.0
    own = 2 * row_bytes + KEY_BYTES if row_bytes > KEY_BYTES else 2 * packed_bytes(ram_rows)
    spilled = min(store / (PASS_SHARE * own), (disk_bytes - 2 * store) / row_bytes)
    return int(spilled) if spilled * PASS_SHARE > ram_rows * (PASS_SHARE + 1) else in_ram


def falsely_seen(keys: float, key_bits: int = 64) -> float:
    """Expected URLs lost because another has the same key."""
    return keys * keys / 2.0 ** (key_bits + 1)
