"""A long crawl log, read while a bar shows how far: for questions that read all of it before they answer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from drum.files import Files, Handle
from drum.sectors import Sectors

from irlcrawl.base.job import JobDir
from irlcrawl.terminal.progress import Bar
from irlcrawl.worker.archive.log_parts import log_files

SHOWN_FROM_BYTES = 16 << 20
"""A smaller log is read in a moment."""


class _Shown(Sectors):
    def __init__(self, bar: Bar) -> None:
        self._bar = bar

    def pread(self, handle: Handle, length: int, offset: int) -> bytes:
        data = super().pread(handle, length, offset)
        self._bar.read(len(data))
        return data


@contextmanager
def shown_reads(job: JobDir, bar_of: Callable[[], Bar], times: int = 1) -> Iterator[Files]:
    """The files to read the log with, so many times."""
    files = Sectors()
    total = times * sum(map(files.size, log_files(files, os.fspath(job.crawl_log)))) if job.logs.is_dir() else 0
    if total < SHOWN_FROM_BYTES:
        yield files
        return
    bar = bar_of()
    try:
        bar.stage("crawl log", total)
        yield _Shown(bar)
    finally:
        bar.close()
