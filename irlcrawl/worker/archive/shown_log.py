"""A long crawl log, or other files, read while a bar shows how far: for what reads all of it before it answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

from drum.files import Files, Handle
from drum.sectors import Sectors

from irlcrawl.base.job import JobDir
from irlcrawl.terminal.progress import Bar
from irlcrawl.worker.archive.log_parts import log_files

SHOWN_FROM_BYTES = 16 << 20
"""What is smaller is read in a moment."""


class _Shown(Sectors):
    def __init__(self, bar: Bar) -> None:
        self._bar = bar

    def pread(self, handle: Handle, length: int, offset: int) -> bytes:
        data = super().pread(handle, length, offset)
        self._bar.read(len(data))
        return data


@contextmanager
def shown(name: str, total: int, bar_of: Callable[[], Bar]) -> Iterator[Files]:
    """The files to read about `total` bytes with. name: what they are."""
    if total < SHOWN_FROM_BYTES:
        yield Sectors()
        return
    bar = bar_of()
    try:
        bar.stage(name, total)
        yield _Shown(bar)
    finally:
        bar.close()


@contextmanager
def shown_reads(job: JobDir, bar_of: Callable[[], Bar], times: int = 1) -> Iterator[Files]:
    """The files to read the crawl log with, so many times."""
    files = Sectors()
    total = times * sum(map(files.size, log_files(files, os.fspath(job.crawl_log)))) if job.logs.is_dir() else 0
    with shown("crawl log", total, bar_of) as found:
        yield found


@contextmanager
def shown_lines(stream: IO[bytes], path: str, bar_of: Callable[[], Bar]) -> Iterator[Iterator[bytes]]:
    """The lines of a file."""
    bar = bar_of() if (size := os.path.getsize(path)) >= SHOWN_FROM_BYTES else Bar()

    def lines() -> Iterator[bytes]:
        for line in stream:
            bar.read(len(line))
            yield line

    try:
        bar.stage(os.path.basename(path), size)
        yield lines()
    finally:
        bar.close()
