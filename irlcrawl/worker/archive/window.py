"""Which payloads all workers of this machine stored of late, in whatever file (archive.dedupe_window).

A table of fixed size in a file that all of them read and write: direct-mapped, so a payload may be forgotten, and
without a lock, so what two of them write at once may be torn. What is found is no proof: the record that lies there
says what it holds.

A worker tells of a payload once its record is on the disk. So whatever a crash or a power loss takes, no revisit record
outlives the record that it names, and the table itself needs no fsync. It stays from one start to the next, and may be
deleted at any time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from drum.files import Files

from irlcrawl.base.job_files import Warc, parse_warc, warc_name

_CELL = struct.Struct("<20sIIIQQ")
"""SHA-1; stream, serial, 1 for zstd frames; time in the file's name; offset of the record."""
CELL_BYTES = _CELL.size
KEY_BYTES = 8
TIME_DIGITS = 17


class Place(NamedTuple):
    """Where the record lies that should hold a payload."""

    file: str  # its name, without `.open`
    offset: int


class Window:
    """The table, opened by one worker. `put` and `find` may be called by different threads."""

    def __init__(self, files: Files, path: str, payloads: int, prefix: str) -> None:
        """payloads: how many places it has; prefix: archive.prefix. OSError."""
        self._files, self._places, self._prefix = files, payloads, prefix
        self._handle = files.update(path)
        if files.size(path) != payloads * CELL_BYTES:  # new, or of another size: what is at a wrong place is not found
            files.truncate(path, payloads * CELL_BYTES)

    def find(self, sha1: bytes) -> Place | None:
        """OSError."""
        data = self._files.pread(self._handle, CELL_BYTES, self._at(sha1))
        if len(data) < CELL_BYTES or data[:20] != sha1:
            return None
        _, stream, serial, zstd, time, offset = _CELL.unpack(data)
        name = warc_name(Warc(self._prefix, f"{time:0{TIME_DIGITS}d}", serial, stream, zstd=bool(zstd)))
        return Place(name, offset)

    def put(self, stored: Iterable[tuple[bytes, Place]]) -> None:
        """Payloads by SHA-1 whose records are on the disk. A write each: they lie at random places. OSError."""
        for sha1, (file, offset) in stored:
            told = parse_warc(file)
            assert told is not None
            cell = _CELL.pack(sha1, told.stream, told.serial, told.zstd, int(told.time), offset)
            self._files.pwrite(self._handle, cell, self._at(sha1))

    def _at(self, sha1: bytes) -> int:
        return int.from_bytes(sha1[:KEY_BYTES], "big") % self._places * CELL_BYTES

    def __del__(self) -> None:
        if hasattr(self, "_handle"):
            self._files.close(self._handle)
