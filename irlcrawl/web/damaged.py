"""What a damaged stream still holds: everything before the damage, to the byte.

A decoder that meets damage keeps what it had decoded in that call to itself. So the stream is decoded again by two
decoders of which the first goes ahead by one small piece; the second takes the piece that breaks the first byte by
byte.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Generator, Iterator
from typing import Any

import brotlicffi
import zstandard
from isal import isal_zlib

ERRORS: Any = (zlib.error, isal_zlib.error, brotlicffi.error, zstandard.ZstdError, EOFError)
"""What decoders raise for damage. (Some of these libraries have no types.)"""

STEP = 4096
"""Bytes of a small piece: what inflate makes of it is at most 4 MiB."""

Feed = Callable[[bytes], Iterator[bytes]]
"""A decoder: takes the next bytes, gives what they decode to."""


class Ended(Exception):
    """A decoder's word for bytes behind the end of its stream."""


def to_the_byte(new: Callable[[], Feed], body: bytes, at: int, given: int) -> Generator[bytes, None, tuple[int, int]]:
    """Yields what the damaged stream at `at` holds beyond its first `given` bytes. Returns (where it ends, how many
    bytes it holds) if it is whole but for a checksum or a tail; raises what the decoder raises otherwise."""
    ahead, behind = new(), new()
    size, end = 0, at
    small = STEP
    while piece := body[end : end + small]:
        if small > 1 and not _takes(ahead, piece):
            small = 1
            continue
        try:
            for out in behind(piece):
                size += len(out)
                yield out[len(out) - min(max(size - given, 0), len(out)) :]
        except Ended:
            return end, size
        except ERRORS as error:
            if size and "checksum" in str(error):
                return end + 1, size
            raise
        end += len(piece)
    raise EOFError("stream ended early")


def _takes(decoder: Feed, piece: bytes) -> bool:
    try:
        for _ in decoder(piece):
            pass
    except (Ended, *ERRORS):
        return False
    return True
