"""How the columns of a block become bytes: the chunks and records of a segment file. FORMAT.md describes them."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TypeAlias

from drum.files import Data
from drum.ragged import BYTES, Array, Column, Ragged

import numpy as np
import xxhash
import zstandard

MAGIC = b"drumseg\n"
MAGIC_END = b"drumend\n"
VERSION = 1
KEY_FUNCTION, KEY_FUNCTION_NAME = 1, "xxh3-64"
"""What makes 64-bit keys of byte strings; a store whose keys were made by another would find none of its own."""
HEADER = MAGIC + VERSION.to_bytes(4, "little") + KEY_FUNCTION.to_bytes(4, "little")
TRAILER = np.dtype([("start", "<u8"), ("length", "<u8"), ("sections", "<u4"), ("version", "<u4"), ("checksum", "<u8")])
TRAILER_BYTES = TRAILER.itemsize + len(MAGIC_END)

BLOCK = np.dtype([("rows", "<u4"), ("label_lo", "<u8"), ("label_hi", "<u8")])
CHUNK = np.dtype([("offset", "<u8"), ("stored", "<u4"), ("raw", "<u4"), ("checksum", "<u8"), ("encoding", "u1")])
RAW, ZSTD, STEPS = 0, 1, 2
KEPT_SHIFT = 4
"""An encoding is one of these, and above it how many bytes are kept of each number, where that is not all of them."""

BLOCK_ROWS = 65_536
SORTED_BLOCK_ROWS = 16_384  # of waiting keys: a bucket reads the blocks at its edges whole
BLOCK_BYTES = 1 << 20

ChunkRecord: TypeAlias = tuple[int, int, int, int, int]
"""offset, stored, raw, checksum, encoding"""

_ZSTD_LEAST = 64  # bytes below which compression is not tried
STEP_ROWS_LEAST = 64  # fewer keys are stored as they are
STEP_BITS_MAX = 24  # of a difference: with a shift of up to 7 they fit 4 bytes; wider ones save too little
_STEP_LANES = 8
WIDE_MAX = 64
_WIDE_BYTES = 8
_WIDE_SHIFT = 16
_WIDE_ROWS_LEAST = 1024
_SAMPLE, _SAMPLE_BITS_SPREAD = 64, 3  # differences of every 64th of uniform keys are all less than twice their mean
_HEAD_BYTES = 8
_PROBE = 4096  # bytes of a chunk compressed first: what does not shrink (hashes) is stored as it is

_local = threading.local()


def _decompressor() -> zstandard.ZstdDecompressor:
    found: zstandard.ZstdDecompressor | None = getattr(_local, "decompressor", None)
    if found is None:
        found = _local.decompressor = zstandard.ZstdDecompressor()
    return found


def directory_checksum(directory: bytes, trailer: Array) -> int:
    """Of the directory and the trailer (one record of TRAILER) up to the checksum's own field."""
    return xxhash.xxh3_64_intdigest(directory + trailer.tobytes()[: -TRAILER["checksum"].itemsize])


def raw_bytes(column: Column) -> tuple[memoryview, int]:
    """(a column as a chunk before compression, sharing its memory where it can; the bytes kept of each number in it,
    of byte strings of their lengths, 0: all)."""
    if isinstance(column, Ragged):
        lengths = column.lengths
        text_bytes = int(lengths.sum())
        lengths = narrow(lengths.astype("<u4"))
        head = len(column) * lengths.itemsize
        raw = np.empty(head + text_bytes, np.uint8)
        raw[:head].view(lengths.dtype)[:] = lengths
        column.pack(raw[head:])
        return raw.data, lengths.itemsize % 4
    kept = narrow(column)
    return np.ascontiguousarray(kept).view(np.uint8).data, kept.itemsize % column.itemsize


def narrow(column: Array) -> Array:
    """Unsigned numbers in as few bytes as the largest needs; others as they are."""
    if column.dtype.kind == "u" and column.itemsize > 1 and len(column):
        most = int(column.max())
        for kind in ("<u1", "<u2", "<u4"):
            if most <= np.iinfo(kind).max:
                return column.astype(kind, copy=False)
    return column


def column_of(data: bytes | memoryview, kind: str, rows: int, kept: int = 0) -> Column:
    """The inverse of raw_bytes, sharing the memory of `data` where it can; ValueError when the length is wrong."""
    if kept and (kept not in (1, 2, 4) or (kind != BYTES and (kind[0] != "u" or kept >= int(kind[1:])))):
        raise ValueError(f"{kept} bytes kept of each {kind}")
    if kind != BYTES:
        column: Array = np.frombuffer(data, f"<u{kept}" if kept else "<" + kind)
        if len(column) != rows:
            raise ValueError(f"{len(column)} values for {rows} rows")
        return column.astype("<" + kind, copy=False)
    kept = kept or 4
    lengths = np.frombuffer(data, f"<u{kept}", rows)
    ragged = Ragged.from_lengths(np.frombuffer(data, np.uint8, offset=kept * rows), lengths)
    if int(ragged.offsets[-1]) != len(ragged.blob):
        raise ValueError("row lengths do not fill the column")
    return ragged


def encode(raw: Data, compressor: zstandard.ZstdCompressor, probe: bool = True) -> tuple[Data, int]:
    """zstd where it saves at least an eighth, else as it is. probe: it may be such that nothing of it shrinks."""
    if len(raw) < _ZSTD_LEAST:
        return raw, RAW
    if probe and len(raw) > 4 * _PROBE:
        start = (len(raw) - _PROBE) // 2
        if len(compressor.compress(raw[start : start + _PROBE])) > _PROBE * 7 // 8:
            return raw, RAW
    data = compressor.compress(raw)
    return (data, ZSTD) if len(data) < len(raw) * 7 // 8 else (raw, RAW)


def encode_sorted(keys: Array) -> tuple[bytes, int]:
    """Ascending u8 keys: the low 4 bytes of each, and the differences of their high halves in as few bits as the
    largest needs, but for a few that are far wider, as those between two sites are where keys go by site. Hashed keys
    of a large store take 5 bytes, and decode at a nanosecond each."""
    rows = len(keys)
    if rows < STEP_ROWS_LEAST:
        return keys.tobytes(), RAW
    high = keys >> np.uint64(32)
    group = -(-rows // _STEP_LANES)
    steps = np.zeros(_STEP_LANES * group, np.uint64)
    np.subtract(high[1:], high[:-1], out=steps[1:rows])
    wide, bits = _wide(high, steps)
    if bits > STEP_BITS_MAX:
        return keys.tobytes(), RAW
    beyond = np.empty((len(wide), 2), "<u4")
    beyond[:, 0], beyond[:, 1] = wide, steps[wide] >> np.uint64(bits) << np.uint64(bits)
    steps[wide] &= np.uint64((1 << bits) - 1)
    head = np.array([high[0], bits | len(wide) << _WIDE_SHIFT], "<u4").tobytes()
    lanes = _packed(steps.reshape(_STEP_LANES, group), bits)
    return b"".join([head, lanes, keys.astype("<u4").tobytes(), beyond.tobytes()]), STEPS


def _wide(high: Array, steps: Array) -> tuple[Array, int]:
    """(rows whose steps are stored apart, bits of the others) that take the least room."""
    some = high[::_SAMPLE]
    widest_some = int(np.max(some[1:] - some[:-1])).bit_length() if len(some) > 1 else 0
    mean = int(some[-1] - some[0]) // len(some)
    if widest_some <= mean.bit_length() + _SAMPLE_BITS_SPREAD or len(high) < _WIDE_ROWS_LEAST:
        return np.empty(0, np.int64), max(1, int(steps.max()).bit_length())
    widest = np.argpartition(steps, -WIDE_MAX - 1)[-WIDE_MAX - 1 :]
    widest = widest[np.argsort(steps[widest])[::-1]]
    bits = [max(1, step.bit_length()) for step in steps[widest].tolist()]  # bits[n]: without the n widest
    costs = [len(high) * min(b, 32) // 8 + _WIDE_BYTES * count for count, b in enumerate(bits)]
    count = costs.index(min(costs))
    return np.sort(widest[:count]), bits[count]


def _packed(lanes: Array, bits: int) -> bytes:
    """u8[8, g] below 2^bits as g groups of `bits` bytes: lane j of a group is at bit j * bits of that number."""
    words = np.zeros((lanes.shape[1], -(-bits // 8)), "<u8")
    for lane in range(_STEP_LANES):
        word, shift = divmod(lane * bits, 64)
        words[:, word] |= lanes[lane] << np.uint64(shift)
        if shift + bits > 64:
            words[:, word + 1] |= lanes[lane] >> np.uint64(64 - shift)
    return words.view(np.uint8)[:, :bits].tobytes()


@dataclass(frozen=True)
class Halves:
    """Ascending keys as they are packed. high: u4[n], the high half of each less `least`, that of the first; low:
    u4[n], which shares the memory of what was read."""

    least: int
    high: Array
    low: Array

    @property
    def keys(self) -> Array:
        """u8[n]"""
        halves = np.empty((len(self.low), 2), "<u4")
        halves[:, 0] = self.low
        np.add(self.high, np.uint32(self.least), out=halves[:, 1])
        keys: Array = halves.view("<u8").reshape(-1)
        return keys


def halves_of(data: bytes | memoryview, rows: int) -> Halves:
    """The values that encode_sorted packed; ValueError when it is not its work."""
    group = -(-rows // _STEP_LANES)
    wide, bits = divmod(int.from_bytes(data[4:8], "little"), 1 << _WIDE_SHIFT) if len(data) >= _HEAD_BYTES else (0, 0)
    end = _HEAD_BYTES + group * bits + 4 * rows
    if rows < STEP_ROWS_LEAST or not 0 < bits <= STEP_BITS_MAX or len(data) != end + _WIDE_BYTES * wide:
        raise ValueError(f"{len(data)} bytes of packed keys for {rows} rows")
    steps = np.empty((_STEP_LANES, group), "<u4")
    for lane in range(_STEP_LANES):  # each a strided look at all groups; reads past the last end in the low halves
        byte, shift = divmod(lane * bits, 8)
        windows: Array = np.ndarray((group,), "<u4", data, _HEAD_BYTES + byte, (bits,))
        np.right_shift(windows, np.uint32(shift), out=steps[lane])
    steps &= np.uint32((1 << bits) - 1)
    high = steps.reshape(-1)[:rows]
    if wide:
        beyond = np.frombuffer(data, "<u4", 2 * wide, end).reshape(-1, 2)
        if int(beyond[:, 0].max()) >= rows:
            raise ValueError(f"a step of row {beyond[:, 0].max()} of {rows}")
        high[beyond[:, 0]] += beyond[:, 1]
    np.cumsum(high, dtype="<u4", out=high)
    low = np.frombuffer(data, "<u4", rows, _HEAD_BYTES + group * bits)
    return Halves(int.from_bytes(data[:4], "little"), high, low)


def decode(stored: bytes | memoryview, chunk: ChunkRecord, kind: str, rows: int) -> Column:
    """The column of a chunk whose checksum was right; ValueError when it still is not one."""
    _, _, raw, _, encoding = chunk
    kept, how = divmod(encoding, 1 << KEPT_SHIFT)
    if how == RAW:
        return column_of(stored, kind, rows, kept)
    if encoding == STEPS:
        return halves_of(stored, rows).keys
    try:
        return column_of(_decompressor().decompress(stored, max_output_size=raw), kind, rows, kept)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
