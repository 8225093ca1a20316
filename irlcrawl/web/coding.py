"""Content-Encoding undone: gzip, deflate, br and zstd, several in a row, never more output than was asked for.

Unpacking a body takes at most its limit in memory, whatever it claims to unpack to: every decoder is fed and emptied in
pieces. A body that is not in the coding its header names (plain text labelled gzip is common) is taken as it came.

Of a damaged body everything before the damage is taken (damaged.py), as browsers do. A wrong checksum or length behind
a whole stream changes nothing, nor do missing ones behind gzip, nor does a tail (behind a br stream, one that is no
longer than what that unpacks to).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from io import BytesIO
from typing import Any

import brotlicffi
import zstandard
from isal import isal_zlib

from irlcrawl.base.steps import Steps, at_once
from irlcrawl.web.damaged import ERRORS, Ended, Feed, to_the_byte

PIECE = 64 << 10
_GZIP = b"\x1f\x8b"
_ZSTD_FRAME = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")
ZSTD_PIECE = 128
STEP_BYTES = 512 << 10
"""Of output between two stops of `decoding`."""
SILENT_BYTES = 64 << 10
"""A piece that brings nothing counts as so many bytes: it may be one that is decoded once more (damaged.py)."""
TRAILER_BYTES = 8
"""Checksum and length behind a gzip stream."""
MEMBERS_MAX = 4096
FRAMES_MAX = 65_536
CODINGS_MAX = 4
"""More codings in a row than this are an attack, not an encoding: the body is taken as it came."""

ZSTD_WINDOW_MAX = 8 << 20
"""RFC 9659: the largest window that a zstd content coding may ask for, in bytes."""


def decode(body: bytes, content_encoding: str | None, limit: int) -> tuple[bytes, bool]:
    """(decoded body, truncated): at most `limit` bytes.

    `truncated` is True when there was more than `limit`, or when the stream was damaged or ended early; then the body
    is as much as could be decoded. A wrong or missing checksum behind a whole stream is no damage. A body in an unknown
    coding, or not in its coding at all, is returned as it came.
    """
    return at_once(decoding(body, content_encoding, limit))


def decoding(body: bytes, content_encoding: str | None, limit: int) -> Steps[tuple[bytes, bool]]:
    """decode(), in steps."""
    codings = [c for c in (c.strip().lower() for c in (content_encoding or "").split(",")) if c not in ("", "identity")]
    if len(codings) > CODINGS_MAX or not all(c in _DECODERS for c in codings):
        codings = []
    truncated = False
    for coding in reversed(codings):  # listed in the order they were applied
        body, cut = yield from _undo(coding, body, limit)
        truncated = truncated or cut
    return body[:limit], truncated or len(body) > limit


def _undo(coding: str, body: bytes, limit: int) -> Steps[tuple[bytes, bool]]:
    magic = _MAGIC.get(coding)
    if magic is not None and not magic.match(body):
        return body, False
    worked = 0
    out = BytesIO()  # gives away its memory as the body: a copy of a large page would be new pages of memory each time
    try:
        for piece in _DECODERS[coding](body):
            out.write(piece)
            if out.tell() > limit:
                out.truncate(limit)
                return out.getvalue(), True
            worked += len(piece) or SILENT_BYTES
            if worked >= STEP_BYTES:
                worked = 0
                yield
    except ERRORS:
        # br and bare deflate have no magic: plain text fed to them brings an error after a few bytes of nonsense
        return (body, False) if magic is None and out.tell() <= len(body) else (out.getvalue(), True)
    return out.getvalue(), False


def _gzip(body: bytes) -> Iterator[bytes]:
    """Members one after another; what follows the last one and is no gzip is padding."""
    at = 0
    for _ in range(MEMBERS_MAX):
        at = yield from _inflate(31, body, at)
        if not body.startswith(_GZIP, at):
            return
    raise EOFError("too many gzip members")


def _deflate(body: bytes) -> Iterator[bytes]:
    """RFC 9110 means zlib; many servers send the bare stream."""
    zlib_header = len(body) >= 2 and body[0] & 0x0F == 8 and (body[0] << 8 | body[1]) % 31 == 0
    yield from _inflate(15 if zlib_header else -15, body, 0)


def _inflate(wbits: int, body: bytes, at: int) -> Generator[bytes, None, int]:
    """Yields what the stream at `at` holds; returns where it ends."""
    decoder = isal_zlib.decompressobj(wbits=wbits)
    given = 0
    try:
        for start in range(at, len(body), PIECE):
            piece = body[start : start + PIECE]
            end = start + len(piece)
            while piece and not decoder.eof:
                out = decoder.decompress(piece, PIECE)
                given += len(out)
                yield out
                piece = decoder.unconsumed_tail
            if decoder.eof:
                return end - len(decoder.unused_data)
        out = decoder.flush()
    except isal_zlib.error:  # type: ignore[misc]  # it has no types
        end, _ = yield from to_the_byte(lambda: _inflater(wbits), body, at, given)
        if body.startswith(_GZIP, end):  # thousands of wrong checksums would take seconds
            raise EOFError("a gzip member behind a damaged one") from None
        return end
    yield out
    if wbits != 31 or not _is_whole(decoder):
        raise EOFError("stream ended early")
    return len(body)


def _is_whole(decoder: Any) -> bool:
    """Whether a gzip stream that ended early lacks nothing but (a part of) its checksum and length: zeros in place of
    them end it. Elsewhere so few zeros do not."""
    try:
        decoder.decompress(bytes(TRAILER_BYTES))
    except isal_zlib.error as error:  # type: ignore[misc]
        return "checksum" in str(error)
    return bool(decoder.eof)


def _inflater(wbits: int) -> Feed:
    decoder = isal_zlib.decompressobj(wbits=wbits)
    return lambda piece: iter((decoder.decompress(piece),))


def _brotli(body: bytes) -> Iterator[bytes]:
    decoder = brotlicffi.Decompressor()
    given = 0
    try:
        for piece in _drained(decoder, body):
            given += len(piece)
            yield piece
    except brotlicffi.error:
        end, size = yield from to_the_byte(_unbrotler, body, 0, given)
        if len(body) - end > size:  # such a tail makes plain text likelier
            raise
    else:
        if not decoder.is_finished():
            raise EOFError("stream ended early")


def _drained(decoder: Any, piece: bytes) -> Iterator[bytes]:
    out = decoder.process(piece, output_buffer_limit=PIECE)
    while out:  # also when it is finished: output may be left
        yield out
        out = decoder.process(b"", output_buffer_limit=PIECE)


def _unbrotler() -> Feed:
    decoder = brotlicffi.Decompressor()

    def feed(piece: bytes) -> Iterator[bytes]:
        if decoder.is_finished():
            raise Ended
        yield from _drained(decoder, piece)

    return feed


def _zstd(body: bytes) -> Iterator[bytes]:
    """Frames one after another; what follows the last one and is no frame is padding."""
    context = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_MAX)
    at = 0
    for _ in range(FRAMES_MAX):
        at = yield from _zstd_frame(context, body, at)
        if not _ZSTD_FRAME.match(body, at):
            return
    raise EOFError("too many zstd frames")


def _zstd_frame(context: zstandard.ZstdDecompressor, body: bytes, at: int) -> Generator[bytes, None, int]:
    """Yields what the frame at `at` holds; returns where it ends. The library bounds its output only where it hides an
    early end, so the input comes in small pieces instead: one cannot unpack to more than 4 MiB (a block is 4 bytes and
    128 KiB at the extreme)."""
    decoder, given = context.decompressobj(), 0
    try:
        for start in range(at, len(body), ZSTD_PIECE):
            piece = body[start : start + ZSTD_PIECE]
            out = decoder.decompress(piece)
            given += len(out)
            yield out
            if decoder.eof:
                return start + len(piece) - len(decoder.unused_data)
    except zstandard.ZstdError:
        end, _ = yield from to_the_byte(_unzstd, body, at, given)
        if _ZSTD_FRAME.match(body, end):  # as in _inflate
            raise EOFError("a zstd frame behind a damaged one") from None
        return end
    raise EOFError("stream ended early")


def _unzstd() -> Feed:
    context = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_MAX)  # of its own: it bears one decoder at a time
    decoder = context.decompressobj()
    return lambda piece: iter((decoder.decompress(piece),))


_DECODERS: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "gzip": _gzip, "x-gzip": _gzip, "deflate": _deflate, "br": _brotli, "zstd": _zstd,
}  # fmt: skip
_MAGIC = {
    "gzip": re.compile(_GZIP), "x-gzip": re.compile(_GZIP),
    "zstd": _ZSTD_FRAME,
}  # fmt: skip
"""How a stream of the coding starts, where it says."""
