"""The crawl log for questions: as much of it as the last commit knows, or an error that names the missing part.

Read without the catalogue, a log from which parts were deleted would look like the log of a shorter crawl.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from drum import Files
from drum.sectors import Sectors

from irlcrawl.base.job import JobDir
from irlcrawl.base.reasons import DONE_NAMES
from irlcrawl.frontier.state import formats
from irlcrawl.worker.archive import log_parts
from irlcrawl.worker.archive.crawl_log import LogEntry
from irlcrawl.worker.archive.last_words import Returned, returned_in


def outcomes(
    job: JobDir, *, status: str | None = None, host: str | None = None, reason: str | None = None,
    note: str | None = None,
) -> Iterator[LogEntry]:  # fmt: skip
    """Entries in order, in constant memory; arguments as in log_parts.read. Damaged, OSError."""
    check_log(job)
    if job.logs.is_dir():
        log = os.fspath(job.crawl_log)
        yield from log_parts.read(Sectors(), log, status=status, host=host, reason=reason, note=note)


def last_words(
    job: JobDir, *, status: str | None = None, host: str | None = None, reason: str | None = None,
    note: str | None = None,
) -> Iterator[LogEntry]:  # fmt: skip
    """As `outcomes`, of URLs that are done: an entry a URL, its last word. It takes 16 bytes of memory for each URL
    that was put back."""
    check_log(job)
    if not job.logs.is_dir():
        return
    files, log = Sectors(), os.fspath(job.crawl_log)
    returned = Returned(returned_in(log_parts.pieces(files, log)))
    for place, entry in log_parts.placed(files, log, status=status, host=host, reason=reason, note=note):
        if entry.outcome in DONE_NAMES and not returned.since(entry.url, place):
            yield entry


def check_log(job: JobDir) -> None:
    """Raise Damaged if there is less of the crawl log than the catalogue says; UnknownVersion. Works beside a running
    crawl."""
    try:
        committed = formats.look(job.state).get("log") or {}
    except FileNotFoundError:
        return  # nothing was committed yet
    log_parts.check_committed(Files(), os.fspath(job.crawl_log), committed)
