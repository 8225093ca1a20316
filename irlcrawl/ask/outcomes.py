"""The crawl log for questions: as much of it as the last commit knows, or an error that names the missing part.

Read without the catalogue, a log from which parts were deleted would look like the log of a shorter crawl.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator

from drum import Damaged, Files, UnknownVersion
from drum.sectors import Sectors

from irlcrawl.ask import log_index
from irlcrawl.ask.log_index_build import indexed
from irlcrawl.base.job import JobDir
from irlcrawl.base.keys import name_key
from irlcrawl.base.reasons import DONE_NAMES
from irlcrawl.base.url import SiteOf, host_of
from irlcrawl.config.toml import load_stored
from irlcrawl.frontier.state import formats
from irlcrawl.terminal.progress import Bar
from irlcrawl.worker.archive import log_parts
from irlcrawl.worker.archive.crawl_log import BadLine, LogEntry, parse, url_of
from irlcrawl.worker.archive.last_words import RETURNED, Returned, returned_in


def outcomes(
    job: JobDir, *, status: str | None = None, host: str | None = None, reason: str | None = None,
    note: str | None = None, site: str | None = None, bar_of: Callable[[], Bar] = Bar, files: Files | None = None,
) -> Iterator[LogEntry]:  # fmt: skip
    """Entries in order, in constant memory; arguments as in log_parts.read. `site`: only URLs of that registrable
    domain. Of a host or a site the lines are looked up (log_index.py). Damaged, OSError."""
    for _, entry in _Asked(job, status, host, reason, note, site, bar_of, files).entries():
        yield entry


def last_words(
    job: JobDir, *, status: str | None = None, host: str | None = None, reason: str | None = None,
    note: str | None = None, site: str | None = None, bar_of: Callable[[], Bar] = Bar, files: Files | None = None,
) -> Iterator[LogEntry]:  # fmt: skip
    """As `outcomes`, of URLs that are done: an entry a URL, its last word. It takes 16 bytes of memory for each URL
    that was put back. With a `note` also robots.txt and tdmrep.json, which are in no class: an entry each time that one
    was fetched."""
    asked = _Asked(job, status, host, reason, note, site, bar_of, files)
    returned = Returned(asked.returned())
    for place, entry in asked.entries():
        of_robots = note is not None and entry.outcome == "none"
        if of_robots or (entry.outcome in DONE_NAMES and not returned.since(entry.url, place)):
            yield entry


def index_log(job: JobDir, bar_of: Callable[[], Bar]) -> None:
    """Bring the index of a long log up to date, which questions would do else without a bar. Damaged, OSError."""
    with contextlib.suppress(FileNotFoundError):  # nothing was committed yet
        _index(job, bar_of)


def entries_of(
    job: JobDir, url: bytes, bar_of: Callable[[], Bar] = Bar, files: Files | None = None
) -> Iterator[LogEntry]:
    """Every entry of a URL, oldest first, all in memory. Damaged, OSError."""
    # Of visits the number counts: a repair puts the lines that it makes anew behind those that it could read.
    yield from sorted(_entries_of(job, url, bar_of, files or Sectors()), key=_visit_of)


def _visit_of(entry: LogEntry) -> int:
    number = entry.notes.get("visit", "")
    return int(number) if number.isdecimal() else 1


def _entries_of(job: JobDir, url: bytes, bar_of: Callable[[], Bar], files: Files) -> Iterator[LogEntry]:
    """As they stand in the log."""
    index = _index(job, bar_of)
    log = os.fspath(job.crawl_log)
    lines, until = _looked_up(job, index, log_index.of_url(url)) if index is not None else ([], 0)
    for _, line in lines:
        entry = _parsed(log, line)
        if entry.url == url:
            yield entry
    if job.logs.is_dir():
        yield from log_parts.entries_of(files, log, url, since=until)


class _Asked:
    """A question to the crawl log: from its index what that has, and the rest from the log."""

    def __init__(
        self, job: JobDir, status: str | None, host: str | None, reason: str | None, note: str | None,
        site: str | None, bar_of: Callable[[], Bar], files: Files | None = None,
    ) -> None:  # fmt: skip
        check_log(job)
        self._files, self._log, self._there = files or Sectors(), os.fspath(job.crawl_log), job.logs.is_dir()
        self._filters = {"status": status, "host": host, "reason": reason, "note": note}
        self._site = site
        if site is not None:
            self._site_of = SiteOf(load_stored(job.config_file).scope.private_suffixes)
        self._lines: list[tuple[int, bytes]] = []
        self._until = 0
        keys = log_index.of_host(_name_of(host)) if host is not None else None
        keys = keys or (log_index.of_site(site) if site is not None else None)
        index = _index(job, bar_of) if keys is not None else None
        if index is not None and keys is not None and index.rows(keys) <= log_index.ROWS_MAX:
            self._lines, self._until = _looked_up(job, index, keys)

    def entries(self) -> Iterator[tuple[int, LogEntry]]:
        """(place, entry) of what is asked for, in order."""
        is_wanted = log_parts.chooser(**self._filters)
        for place, line in self._lines:
            if is_wanted(line.split(b" ")) and self._in_site(entry := _parsed(self._log, line)):
                yield place, entry
        if self._there:
            for place, entry in log_parts.placed(self._files, self._log, **self._filters, since=self._until):
                if self._in_site(entry):
                    yield place, entry

    def returned(self) -> Iterator[tuple[int, int]]:
        """What `Returned` is made of, for all URLs that may be asked for."""
        for place, line in self._lines:
            if RETURNED in line:
                yield name_key(url_of(line)), place
        if self._there:
            yield from returned_in(log_parts.pieces(self._files, self._log, since=self._until))

    def _in_site(self, entry: LogEntry) -> bool:
        return self._site is None or self._site_of(host_of(entry.url)) == self._site


def _name_of(host: str) -> str:
    """The bare name of what --host names: without port and brackets."""
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def _parsed(log: str, line: bytes) -> LogEntry:
    try:
        return parse(line)
    except BadLine as error:
        raise Damaged(log, 0, f"its index: {error}") from None


def _index(job: JobDir, bar_of: Callable[[], Bar]) -> log_index.LogIndex | None:
    try:
        return indexed(job, formats.look(job.state), bar_of)
    except Damaged as error:
        _delete(job, error)
        return None
    except (FileNotFoundError, UnknownVersion):  # nothing was committed yet; or check_log says what is wrong
        return None


def _looked_up(job: JobDir, index: log_index.LogIndex, keys: log_index.Range) -> tuple[list[tuple[int, bytes]], int]:
    """(lines with their places, the place from which the log is to be read)."""
    try:
        return index.lines(keys), index.until
    except Damaged as error:
        _delete(job, error)
        return [], 0


def _delete(job: JobDir, error: Damaged) -> None:
    """An index that is damaged is made again, by a later question."""
    if os.path.dirname(error.file) == os.fspath(job.indexes):
        with contextlib.suppress(OSError):
            os.unlink(error.file)


def check_log(job: JobDir) -> None:
    """Raise Damaged if there is less of the crawl log than the catalogue says; UnknownVersion. Works beside a running
    crawl."""
    try:
        committed = formats.look(job.state).get("log") or {}
    except FileNotFoundError:
        return  # nothing was committed yet
    log_parts.check_committed(Files(), os.fspath(job.crawl_log), committed)
