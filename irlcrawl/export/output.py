"""Where an export goes: a file that gets its name when it is whole, or standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from irlcrawl.base.job import JobError
from irlcrawl.base.job_files import temporary


def file_at(path: str) -> str:
    """Where a file that a person calls `path` is put in one piece: where a symlink leads. JobError for what is there
    and no file, a device above all: its place would be taken by a file."""
    place = os.path.realpath(path)
    if os.path.isdir(place):
        raise JobError(f"{path}: a directory; name a file")
    if os.path.exists(path) and not os.path.isfile(place):  # a pipe has no path of its own
        raise JobError(f"{path}: a device or a pipe; name a file")
    if not os.path.isdir(os.path.dirname(place)):
        raise JobError(f"{path}: there is no directory {os.path.dirname(place)}")
    return place


@contextmanager
def whole_file(path: str) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` at the end of the block, durably; after an exception nothing is left.
    JobError, OSError."""
    path = file_at(path)
    made = temporary(path)
    try:
        with open(made, "wb", buffering=1 << 20) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(made, path)
    except BaseException:
        if os.path.exists(made):
            os.unlink(made)
        raise


@contextmanager
def to(path: str | None) -> Iterator[BinaryIO]:
    """`whole_file`, or standard output for None."""
    if path is None:
        yield sys.stdout.buffer
        return
    with whole_file(path) as stream:
        yield stream
