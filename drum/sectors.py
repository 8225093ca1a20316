"""The file system for programs to which what the disk cannot read is damage, like bytes that are wrong.

A bad sector is an EIO, which names neither file nor place and would end a check there. Here it is a `Damaged` with
both: a check says it and goes on behind it, and a repair makes do without it.
"""

from __future__ import annotations

import errno
import os

from drum.files import Damaged, Files, Handle, Path

SECTOR_BYTES = 4096


class Unreadable(Damaged):
    """Not bytes that are wrong, but none: nobody may take them for the torn end of a file."""

    def __init__(self, file: Path, offset: int) -> None:
        super().__init__(file, offset, "the disk cannot read what is here")


class Sectors(Files):
    """The real file system, whose reads raise Unreadable where the disk has a sector it cannot read."""

    def pread(self, handle: Handle, length: int, offset: int) -> bytes:
        try:
            return super().pread(handle, length, offset)
        except OSError as error:
            raise _named(error, handle, length, offset) from error

    def pread_into(self, handle: Handle, buffer: memoryview, offset: int) -> int:
        try:
            return super().pread_into(handle, buffer, offset)
        except OSError as error:
            raise _named(error, handle, len(buffer), offset) from error


def read_around(files: Files, path: str) -> bytes:
    """A whole file, with zeros for the sectors that cannot be read."""
    try:
        return files.read(path)
    except Unreadable:
        handle, pieces = files.open(path), list[bytes]()
        try:
            for at in range(0, size := files.size(path), SECTOR_BYTES):
                length = min(SECTOR_BYTES, size - at)
                try:
                    pieces.append(files.pread(handle, length, at))
                except Unreadable:
                    pieces.append(bytes(length))
        finally:
            files.close(handle)
        return b"".join(pieces)


def _named(error: OSError, handle: Handle, length: int, offset: int) -> Exception:
    if error.errno != errno.EIO:
        return error
    path = os.readlink(f"/proc/self/fd/{handle}")
    return Unreadable(path, _first_bad(path, length, offset))


def _first_bad(path: str, length: int, offset: int) -> int:
    """Where the first sector begins that cannot be read, of those that hold these bytes; not before `offset`."""
    with open(path, "rb", buffering=0) as file:
        for at in range(offset - offset % SECTOR_BYTES, offset + length, SECTOR_BYTES):
            try:
                os.pread(file.fileno(), SECTOR_BYTES, at)
            except OSError:
                return max(at, offset)
    return offset
