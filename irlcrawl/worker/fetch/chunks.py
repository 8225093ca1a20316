"""Bodies in chunks with lines that llhttp refuses or, where they end in LF and the chunk begins with LF, misreads.

A response comes here whose first chunk line ends in LF alone, and one of which llhttp refused a later line, an
extension or a trailer; all lines may end in LF or CRLF.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

FIRST_LINE_MAX = 64
"""Bytes within which the first chunk line must end to be looked at."""

FIRST_LINE = re.compile(rb"[0-9A-Fa-f]++[ \t]*+(?:;[^\r\n]*+)?(\n|\Z)")
"""Matches no start of a body whose first chunk line ends in CRLF, or that has none."""

LINE_BYTES_MAX = 16_384
"""Of a chunk line or a trailer."""
CHUNKS_MAX, CHUNK_BYTES = 16_384, 16
"""Chunks of a body, beside one for each so many bytes of it: each costs two microseconds."""

_SIZE = re.compile(rb"0*([0-9A-Fa-f]{1,16})[ \t]*(?:;.*)?\r?\n", re.DOTALL)
_BLANK = (b"\n", b"\r\n")


class BadChunk(Exception):
    """What came is no chunk line, or no end of a chunk."""


def ends_in_lf(start: bytes) -> bool | None:
    """Whether the first chunk line of a body, of which `start` has come, ends in LF alone; None: that is still open."""
    match = FIRST_LINE.match(start, 0, FIRST_LINE_MAX)
    if match is None:
        return False
    if match[1]:
        return True
    return None if len(start) < FIRST_LINE_MAX else False


class LfChunks:
    """The data in the bytes behind a header, until `done`. A line that has not ended is kept; the caller bounds how
    many trailers may come."""

    def __init__(self) -> None:
        self.done = False
        self._data = 0  # bytes of the chunk that are still to come
        self._behind_data = False  # the next line ends a chunk
        self._trailers = False  # the last chunk was there
        self._line = b""
        self._left = CHUNKS_MAX

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Raises BadChunk."""
        at = 0
        while at < len(data) and not self.done:
            if self._data:
                piece = data[at : at + self._data]
                self._data -= len(piece)
                at += len(piece)
                yield piece
            else:
                end = data.find(b"\n", at) + 1
                self._line += data[at : end or len(data)]
                at = end or len(data)
                if len(self._line) > LINE_BYTES_MAX:  # each piece copies it
                    raise BadChunk("a chunk line without end")
                if end:
                    line, self._line = self._line, b""
                    self._take(line)

    def _take(self, line: bytes) -> None:
        if self._trailers:
            self.done = line in _BLANK
        elif self._behind_data:
            if line not in _BLANK:
                raise BadChunk(f"behind a chunk: {line[:40]!r}")
            self._behind_data = False
        else:
            match = _SIZE.fullmatch(line)
            if match is None:
                raise BadChunk(f"no chunk line: {line[:40]!r}")
            self._data = int(match[1], 16)
            self._left += self._data // CHUNK_BYTES - 1
            if self._left < 0:
                raise BadChunk("tiny chunks without end")
            self._behind_data = self._data > 0
            self._trailers = not self._behind_data
