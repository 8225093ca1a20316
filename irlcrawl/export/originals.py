"""The responses to which `revisit` records refer: found by URL and date in the indexes of archives (cdxj.py).

A `revisit` record has no body; the page that it stands for is as it was in a record of an older file, or further up in
the same. An index is sorted, so a look-up is a search by halves in those of archives that were written at the time.
"""

from __future__ import annotations

import calendar
import json
import mmap
import os
import re
import time
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from drum.files import Damaged, Files

from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import cdxj_name, parse_warc
from irlcrawl.export.archives import Archive, Capture, capture_of, checked, closed
from irlcrawl.export.surt import surt
from irlcrawl.worker.archive.reader import record_at

SLACK_DAYS = 1
"""A record may be so much older than the name of its archive says, or younger than the file: clocks are set."""
_OPEN_MAX = 128
_SECOND = "%Y%m%d%H%M%S"


class Indexes(NamedTuple):
    """Where the indexes of a crawl's archives lie: plain data, for processes."""

    job: str
    directories: tuple[str, ...]

    @classmethod
    def of(cls, job: JobDir, paths: Mapping[str, str]) -> Indexes:
        """Of indexes that were made (cdxj.index)."""
        return cls(os.fspath(job.path), tuple(sorted({os.path.dirname(path) for path in paths.values()})))


class Originals:
    def __init__(self, indexes: Indexes, files: Files) -> None:
        """JobError, OSError."""
        self._directories, self._files = indexes.directories, files
        archives, _ = closed(JobDir(indexes.job), files)
        self._archives = [(*_written(one), one) for one in archives]
        self._map = lru_cache(maxsize=_OPEN_MAX)(self._mapped)
        self.missed = 0
        """Records whose original was found nowhere."""
        self.used: dict[str, Archive] = {}
        """The archives in which originals were found, by name, until they are taken."""

    def of(self, revisit: Capture) -> Capture | None:
        """The response to which a `revisit` record refers; None if no closed archive that is here has it."""
        found = self._found(*refers_to(revisit))
        self.missed += found is None
        return found

    def take_used(self) -> dict[str, Archive]:
        """Those since the last call."""
        taken, self.used = self.used, {}
        return taken

    def _found(self, url: str | None, date: str | None) -> Capture | None:
        if not url or not date:
            return None
        second = re.sub(r"\D", "", date.partition(".")[0])
        begins = b"%s %s " % (surt(url.encode()), second.encode())
        for first, last, archive in self._archives:
            if first <= second <= last:
                for offset in self._offsets(archive, begins, url):
                    found = self._response(archive, offset, date)
                    if found is not None:
                        self.used[archive.name] = archive
                        return found
        return None

    def _offsets(self, archive: Archive, begins: bytes, url: str) -> Iterator[int]:
        """Of the records of a URL and second in an archive."""
        index = self._map(archive.name)
        if index is None:
            return
        at = _first(index, begins)
        while index[at : at + len(begins)] == begins:
            end = index.find(b"\n", at)
            told = json.loads(index[at + len(begins) : end])
            if told.get("url") == url:
                yield int(told["offset"])
            at = end + 1

    def _response(self, archive: Archive, offset: int, date: str) -> Capture | None:
        """The capture of that date with a body there; None if there is another record, or the file was moved away."""
        try:
            record = checked(record_at(self._files, archive.path, offset), archive.path)
        except (Damaged, FileNotFoundError):
            return None
        right = record.kind == "response" and record.fields.get("warc-date") == date
        return capture_of(record, archive.path) if right else None

    def _mapped(self, archive: str) -> mmap.mmap | None:
        for directory in self._directories:
            path = os.path.join(directory, cdxj_name(archive))
            try:
                with open(path, "rb") as stream:
                    return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
            except FileNotFoundError:
                continue
            except ValueError:  # an empty file cannot be mapped
                return None
        return None


def refers_to(revisit: Capture) -> tuple[str | None, str | None]:
    """(URL, date) of the response that a `revisit` record names."""
    fields = revisit.record.fields
    return fields.get("warc-refers-to-target-uri"), fields.get("warc-refers-to-date")


def _written(archive: Archive) -> tuple[str, str]:
    """The first and the last second in which records of an archive may have been written, as in indexes."""
    told = parse_warc(archive.name)
    day = 86_400.0 * SLACK_DAYS
    last = time.strftime(_SECOND, time.gmtime(archive.modified_ns / 1e9 + day))
    if told is None:  # another program's: its name says nothing
        return "", last
    began = calendar.timegm(time.strptime(told.time[:14], _SECOND))
    return time.strftime(_SECOND, time.gmtime(max(began - day, 0.0))), last


def _first(index: mmap.mmap, begins: bytes) -> int:
    """Where the first line stands that is not less than these bytes."""
    low, high = 0, len(index)  # line starts; the answer is in [low, high]
    while low < high:
        middle = (low + high) // 2
        start = index.rfind(b"\n", low, middle) + 1 or low
        end = index.find(b"\n", middle)
        end = len(index) if end < 0 else end + 1
        if index[start : start + len(begins)] < begins:
            low = end
        else:
            high = start
    return low
