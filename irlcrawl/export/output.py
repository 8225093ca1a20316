"""Where an export goes: a file that gets its name when it is whole, or standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from irlcrawl.base.job import JobError
from irlcrawl.base.job_files import temporary


@contextmanager
def whole_file(path: str) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` at the end of the block, durably; after an exception nothing is left.
    JobError, OSError."""
    if os.path.isdir(path):
        raise JobError(f"{path}: a directory; name a file")
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
