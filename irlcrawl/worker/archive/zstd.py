"""Zstandard frames as an archive has them: one a record, by the IIPC's proposal "Zstandard Compression for WARC Files
1.0" (iipc.github.io/warc-specifications/specifications/warc-zstd). Each frame says its length and has a checksum; none
needs a dictionary, and of another's archive that does we say so.

A frame is read block by block (RFC 8878 3.1.1): of a block no more than 128 KiB can come, whatever it claims, and where
a frame ends is known without the library, which takes input that ends early for all there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO, cast

from drum.files import Files, Handle

import zstandard

from irlcrawl.base.job_files import COMPRESSED, OPEN, ZSTD

MAGIC = b"\x28\xb5\x2f\xfd"
WINDOW_BYTES_MAX = 8 << 20
"""What a decoder need support, by the proposal."""
_BLOCK_BYTES_MAX = 128 << 10
_RLE, _RESERVED = 1, 3  # types of blocks
_CHECKSUM, _UNUSED, _RESERVED_BIT, _SINGLE = 0x04, 0x10, 0x08, 0x20  # of a frame's descriptor
_LENGTHS = (0, 2, 4, 8)  # bytes of the field with the content's length, by the descriptor's first two bits
_DICTIONARIES = (0, 1, 2, 4)  # bytes of the dictionary's id, by its last two bits
_DICTIONARY = b"\x5d\x2a\x4d\x18"
_SKIPPED = b"\x50\x2a\x4d\x18"  # a frame that decoders ignore
_WINDOW = 0x38  # of a window of 128 KiB
_EMPTY_BLOCK = b"\0\0\0"


class NotAFrame(ValueError):
    """The message says why; nothing of the frame is to be believed."""


def is_zstd(files: Files, path: str, handle: Handle | None = None) -> bool:
    """Whether an archive is of zstd frames: by its name, and if that says nothing by its first bytes."""
    name = path.removesuffix(OPEN)
    if name.endswith((COMPRESSED, ZSTD)):
        return name.endswith(ZSTD)
    opened = handle if handle is not None else files.open(path)
    try:
        return files.pread(opened, len(MAGIC), 0) in (MAGIC, _DICTIONARY)
    finally:
        if handle is None:
            files.close(opened)


def packer(level: int) -> Callable[..., bytes]:
    """Makes one frame of a record, as record.member makes a gzip member; for one thread. Its last `packed` bytes, which
    are compressed already, get blocks of their own: in one block with them the header would not be compressed."""
    context = zstandard.ZstdCompressor(level=level, write_checksum=True, write_content_size=True)

    def pack(record: bytes, packed: int = 0) -> bytes:
        if not packed:
            return context.compress(record)
        stream, start = context.compressobj(size=len(record)), len(record) - packed
        head = stream.compress(record[:start]) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        return head + stream.compress(record[start:]) + stream.flush()

    return pack


def decompressor() -> zstandard.ZstdDecompressor:
    """For `frame`, one at a time."""
    return zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES_MAX)


def unpacked(frame: bytes) -> bytes:
    """The content of a whole frame, and of nothing behind it."""
    return decompressor().decompressobj().decompress(frame)


def content(stream: BinaryIO) -> BinaryIO:
    """The content of all frames of an archive that is known to be whole: the library takes an early end for the end."""
    return cast(BinaryIO, decompressor().stream_reader(stream, read_across_frames=True))


def frame(context: zstandard.ZstdDecompressor, take: Callable[[int], bytes]) -> Iterator[bytes]:
    """The content of the frame that `take` gives the bytes of, in pieces. take(n): the next n bytes, all of them.
    NotAFrame."""
    decoder = context.decompressobj()
    start = take(len(MAGIC) + 1)
    if start[:4] != MAGIC:
        what = "a dictionary, with which irlcrawl does not read" if start[:4] == _DICTIONARY else "other bytes"
        raise NotAFrame(what)
    flags = start[4]
    if flags & (_UNUSED | _RESERVED_BIT) or not flags & _CHECKSUM:
        raise NotAFrame("flags that none has, or no checksum")
    length = _LENGTHS[flags >> 6] or (1 if flags & _SINGLE else 0)
    if not length:
        raise NotAFrame("the length of its content is not in it")
    data = start + take((not flags & _SINGLE) + _DICTIONARIES[flags & 3] + length)
    last = False
    try:
        while not last:  # a Python loop per 128 KiB
            head = take(3)
            told = int.from_bytes(head, "little")
            last, kind, size = bool(told & 1), told >> 1 & 3, told >> 3
            if kind == _RESERVED or size > _BLOCK_BYTES_MAX:
                raise NotAFrame("a block that none has")
            yield decoder.decompress(data + head + take(1 if kind == _RLE else size))
            data = b""
        yield decoder.decompress(take(4))
    except zstandard.ZstdError as error:
        raise NotAFrame(str(error)) from None
    if not decoder.eof or decoder.unused_data:
        raise NotAFrame("it does not end where it should")


def skipped(start: bytes) -> int:
    """Bytes of a frame that begins with these eight, if decoders ignore it; else 0."""
    if len(start) < 8 or start[0] & 0xF0 != _SKIPPED[0] or start[1:4] != _SKIPPED[1:] or start[:4] == _DICTIONARY:
        return 0
    return 8 + int.from_bytes(start[4:], "little")


def of_length(text: bytes, length: int) -> bytes | None:
    """`text` (a record, of 256 to 65,791 bytes) as a frame that takes `length` bytes, together with one behind it that
    decoders ignore; None where it does not fit."""
    if not 256 <= len(text) < 256 + (1 << 16):
        return None
    packed = packer(19)(text)
    assert packed[4] == _SINGLE | _CHECKSUM | 0x40
    left, blocks = length - len(packed), packed[7:]
    if left < 0:
        return None
    if left >= 8:
        return packed + _SKIPPED + (left - 8).to_bytes(4, "little") + bytes(left - 8)
    if left % 3 == 0:
        head = packed[4:7]
    elif left % 3 == 1:
        head = bytes((_CHECKSUM | 0x40, _WINDOW)) + packed[5:7]
    else:
        head = bytes((_SINGLE | _CHECKSUM | 0x80,)) + len(text).to_bytes(4, "little")
    return MAGIC + head + _EMPTY_BLOCK * (left // 3) + blocks
