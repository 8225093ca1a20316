"""The crawl log by URL, host and site: its lines once more, sorted, so that a question reads some blocks of them.

An index is a segment of lines with their places in the log. A line's key has 24 bits of its site, 20 of its host and 20
of its URL, so one order answers all three questions: a URL is a key, a host and a site are ranges of keys. Keys may
collide; the caller compares names. Indexes cover the log from its beginning, one behind the other, as far as it was
committed when they were made (log_index_build.py); the lines behind are read from the log.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from drum import Catalog, Damaged, Files, Segment, UnknownVersion
from drum.sectors import Sectors
from drum.segment import Section

import numpy as np
import xxhash

from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import COMPRESSED, parse_log_index
from irlcrawl.base.keys import name_key
from irlcrawl.base.url import SiteOf, host_of
from irlcrawl.worker.archive.log_parts import PLACE_BITS, rolled_parts

SECTION = "lines"
SCHEMA = {"key": "u8", "place": "u8", "line": "bytes"}
SITE_BITS, HOST_BITS = 24, 20
URL_BITS = 64 - SITE_BITS - HOST_BITS
ROWS_MAX = 200_000
"""An answer that may have more lines is read from the log, in constant memory: it takes its time anyway."""

_site_of = SiteOf(names_max=1 << 16)


class Range(NamedTuple):
    """Keys lo to hi, both included."""

    lo: int
    hi: int


def of_url(url: bytes) -> Range:
    """The key of a URL in stored form."""
    key = of_host(host_of(url)).lo | url_bits(url)
    return Range(key, key)


def url_bits(url: bytes) -> int:
    """The bits of a key that are the URL's own."""
    return name_key(url) & ((1 << URL_BITS) - 1)


def of_host(host: str) -> Range:
    """The keys of a host's URLs; `host` without port and brackets."""
    part = name_key(host.encode()) & ((1 << HOST_BITS) - 1)
    lo = of_site(_site_of(host)).lo | part << URL_BITS
    return Range(lo, lo | ((1 << URL_BITS) - 1))


def of_site(site: str) -> Range:
    """The keys of a site's URLs; of any name, those of the site that it belongs to."""
    lo = (name_key(_site_of(site).encode()) & ((1 << SITE_BITS) - 1)) << (64 - SITE_BITS)
    return Range(lo, lo | ((1 << (64 - SITE_BITS)) - 1))


class LogIndex(NamedTuple):
    """Indexes that cover the log from its beginning to the place `until`."""

    sections: list[Section]
    until: int

    def rows(self, keys: Range) -> int:
        """At most so many lines have keys in the range."""
        return sum(int(one.blocks["rows"][one.blocks_between(*keys)].sum()) for one in self.sections)

    def lines(self, keys: Range) -> list[tuple[int, bytes]]:
        """(place, line without newline) of the lines with keys in the range, in the order of the log. Damaged."""
        found: list[tuple[int, bytes]] = []
        for section in self.sections:
            for block in section.blocks_between(*keys).tolist():
                column = section.read(block, ["key"])["key"]
                first = int(np.searchsorted(column, np.uint64(keys.lo), "left"))
                last = int(np.searchsorted(column, np.uint64(keys.hi), "right"))
                if first < last:
                    rows = section.read(block, ["place", "line"]).slice(first, last)
                    found += zip(rows["place"].tolist(), rows["line"].tolist())
        found.sort()
        return found


def opened(job: JobDir, catalog: Catalog, files: Files | None = None) -> LogIndex:
    """The indexes that are there and fit the log; as if there were none if they do not. OSError."""
    files = files or Sectors()
    crawl, log = catalog.get("crawl") or {}, catalog.get("log") or {}
    sections: list[Section] = []
    until = 0
    for (begin, end), path in _chain(files, os.fspath(job.indexes)):
        try:
            section = Segment.open(files, path).sections[SECTION]
        except (FileNotFoundError, Damaged, UnknownVersion, KeyError):
            break  # made again with what follows
        if begin != until or section.meta.get("crawl") != crawl.get("id"):
            break
        sections.append(section)
        until = end
    if sections and not _fits(files, os.fspath(job.crawl_log), sections[-1], until, log):
        return LogIndex([], 0)
    return LogIndex(sections, until)


def _chain(files: Files, directory: str) -> Iterator[tuple[tuple[int, int], str]]:
    """((begin, end), path) of indexes that follow one another. Of several that begin at one place the longest one is
    meant: the others were merged into it."""
    try:
        names = files.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return
    longest: dict[int, tuple[int, str]] = {}
    for name in names:
        if (span := parse_log_index(name)) is not None:
            longest[span[0]] = max(longest.get(span[0], (0, "")), (span[1], os.path.join(directory, name)))
    at = min(longest, default=-1)
    while at in longest:
        end, path = longest[at]
        yield (at, end), path
        at = end


def _fits(files: Files, path: str, newest: Section, until: int, log: dict[str, int]) -> bool:
    """Whether the log goes on where the indexes end, and not another one that was put in its place."""
    part, at = until >> PLACE_BITS, until & ((1 << PLACE_BITS) - 1)
    committed = (log.get("part", 0) + 1, log.get("bytes", 0))
    if (part, at) > committed:
        return False
    length, digest = newest.meta.get("last", (0, 0))
    plain = path if part == committed[0] else rolled_parts(files, path).get(part, "")
    if not plain or plain.endswith(COMPRESSED) or at < length:
        return True  # compressed since, or empty then: nothing that could be read at once
    try:
        handle = files.open(plain)
    except FileNotFoundError:
        return True
    try:
        return xxhash.xxh3_64_intdigest(files.pread(handle, length, at - length)) == digest
    finally:
        files.close(handle)
