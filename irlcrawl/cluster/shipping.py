"""Files on their way from one disk to another: cut into pieces, written as they come, given their name when whole.

A harvest is a file that never changes: it is written under a temporary name and named when its last piece came and all
of it is on the disk. A robots log only grows, so a piece of it is written where it belongs; a copy may have holes where
nobody asked for a text. Either may be written again by pieces that came before: they are the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from drum import Files

from irlcrawl.base.job_files import parse_harvest, parse_rules_log, temporary

PIECE_BYTES = 256 << 10
"""What is copied a few times on its way is in the processor's cache by then; of a MiB it costs nearly twice as much."""


class Foreign(ValueError):
    """A piece of a file that nobody ships."""


def pieces(path: str, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes, bool]]:
    """(offset, bytes, whether it is the last) of a file from `start` to `end` (None: all there is). OSError."""
    with open(path, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size if end is None else end
        stream.seek(start)
        while start < size:
            data = stream.read(min(PIECE_BYTES, size - start))
            if not data:
                raise OSError(f"{path}: ends at {start} of {size}")
            yield start, data, start + len(data) == size
            start += len(data)


def write_piece(files: Files, directory: str, name: str, at: int, data: bytes | memoryview, last: bool) -> None:
    """Put a piece where it belongs. After the last piece of a harvest the file is whole and durable, under its name.
    Foreign, OSError."""
    harvest = parse_harvest(name) is not None
    if not harvest and parse_rules_log(name) is None:
        raise Foreign(f"{name!r} is neither a harvest nor a robots log")
    path = os.path.join(directory, name)
    if harvest and files.exists(path):
        return
    handle = os.open(temporary(path) if harvest else path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        if harvest and not at:
            os.ftruncate(handle, 0)
        os.pwrite(handle, data, at)
        if last:
            os.fsync(handle)
    finally:
        os.close(handle)
    if harvest and last:
        files.rename(temporary(path), path)
        files.fsync_dir(directory)
