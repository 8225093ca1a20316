"""The URLs that wait, read while a bar shows how far: for questions that look at all of them before they answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from drum.files import Files

from irlcrawl.base.job import JobDir
from irlcrawl.frontier.state import formats
from irlcrawl.terminal.progress import Bar
from irlcrawl.worker.archive.shown_log import shown


@contextmanager
def shown_waiting(job: JobDir, bar_of: Callable[[], Bar]) -> Iterator[Files]:
    """The files to open a Reading with. UnknownVersion, Damaged, OSError."""
    try:
        record = formats.look(job.state).get("status") or {}
    except FileNotFoundError:  # nothing was committed yet
        record = {}
    with shown("waiting URLs", record.get("frontier_bytes") or 0, bar_of) as files:
        yield files
