"""How the columns of a block become bytes: the chunks and records of a segment file. FORMAT.md describes them."""

from __future__ import annotations

import threading
from typing import TypeAlias

import numpy as np
import xxhash
import zstandard

from drum.ragged import BYTES, Array, Column, Ragged

MAGIC = b"drumseg\n"
MAGIC_END = b"drumend\n"
VERSION = 1
HEADER = MAGIC + VERSION.to_bytes(4, "little") + bytes(4)
TRAILER = np.dtype([("start", "<u8"), ("length", "<u8"), ("sections", "<u4"), ("version", "<u4"), ("checksum", "<u8")])
TRAILER_BYTES = TRAILER.itemsize + len(MAGIC_END)

BLOCK = np.dtype([("rows", "<u4"), ("label_lo", "<u8"), ("label_hi", "<u8")])
CHUNK = np.dtype([("offset", "<u8"), ("stored", "<u4"), ("raw", "<u4"), ("checksum", "<u8"), ("encoding", "u1")])
RAW, ZSTD = 0, 1

BLOCK_ROWS = 65_536
BLOCK_BYTES = 1 << 20

ChunkRecord: TypeAlias = tuple[int, int, int, int, int]
"""offset, stored, raw, checksum, encoding"""

_ZSTD_LEAST = 64  # bytes below which compression is not tried
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


def raw_bytes(column: Column) -> bytes:
    """A column as a chunk before compression."""
    if isinstance(column, Ragged):
        return column.lengths.astype("<u4").tobytes() + column.blob.tobytes()
    return column.tobytes()


def column_of(data: bytes | memoryview, kind: str, rows: int) -> Column:
    """The inverse of raw_bytes, sharing the memory of `data`; ValueError when the length is wrong."""
    if kind != BYTES:
        column: Array = np.frombuffer(data, "<" + kind)
        if len(column) != rows:
            raise ValueError(f"{len(column)} values for {rows} rows")
        return column
    ragged = Ragged.from_lengths(np.frombuffer(data, np.uint8, offset=4 * rows), np.frombuffer(data, "<u4", rows))
    if int(ragged.offsets[-1]) != len(ragged.blob):
        raise ValueError("row lengths do not fill the column")
    return ragged


def encode(raw: bytes, compressor: zstandard.ZstdCompressor) -> tuple[bytes, int]:
    """zstd where it saves at least an eighth, else as it is."""
    if len(raw) < _ZSTD_LEAST:
        return raw, RAW
    if len(raw) > 4 * _PROBE:
        start = (len(raw) - _PROBE) // 2
        if len(compressor.compress(raw[start : start + _PROBE])) > _PROBE * 7 // 8:
            return raw, RAW
    data = compressor.compress(raw)
    return (data, ZSTD) if len(data) < len(raw) * 7 // 8 else (raw, RAW)


def decode(stored: bytes | memoryview, chunk: ChunkRecord, kind: str, rows: int) -> Column:
    """The column of a chunk whose checksum was right; ValueError when it still is not one."""
    _, _, raw, _, encoding = chunk
    if encoding == RAW:
        return column_of(stored, kind, rows)
    try:
        return column_of(_decompressor().decompress(stored, max_output_size=raw), kind, rows)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
