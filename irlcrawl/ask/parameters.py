"""Query parameters that change nothing: pages of a site were the same, byte for byte, whatever value one had, and
without it. `irlcrawl parameters` tells them; left out of links (`parameters` of a site), each such page is asked once.

One pass over the crawl log, with 16 bytes for each page and 28 for each parameter of one, then sorts. What speaks
against a parameter is one page that differs. What speaks for it are pages that differ from one another: a server that
gives one page for every URL proves nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from irlcrawl.ask.outcomes import check_log, outcomes
from irlcrawl.base.job import JobDir
from irlcrawl.base.url import SiteOf, host_of
from irlcrawl.config.toml import load_stored
from irlcrawl.terminal.progress import Bar

OF_URL_MAX = 20
"""A URL with more parameters is left aside."""
NAMES_MAX = 1_000_000
"""Parameters of sites, those met first."""
NAME_BYTES_MAX = 100

U8 = NDArray[np.uint64]


class Idle(NamedTuple):
    """A parameter that changes nothing, by so many pages that differ from one another."""

    site: str
    parameter: str
    pages: int


class Rows:
    """Columns that grow: of each page its URL and content, of each parameter in one also what the URL is without it."""

    def __init__(self) -> None:
        self.names: dict[tuple[str, str], int] = {}
        self.pages = (array("Q"), array("Q"))  # URL, content
        self.parts = (array("I"), array("Q"), array("Q"), array("Q"))  # name, rest, URL, content

    def add(self, site: str, url: bytes, content: int) -> None:
        key = xxhash.xxh3_64_intdigest(url)
        for column, value in zip(self.pages, (key, content), strict=True):
            column.append(value)
        head, mark, query = url.partition(b"?")
        parts = query.split(b"&")
        if not mark or len(parts) > OF_URL_MAX:
            return
        names = [part.partition(b"=")[0].lower() for part in parts]
        for name in dict.fromkeys(names):
            if not name or len(name) > NAME_BYTES_MAX:
                continue
            known = (site, name.decode("ascii"))
            if known not in self.names and len(self.names) < NAMES_MAX:
                self.names[known] = len(self.names)
            if (number := self.names.get(known)) is not None:
                left = b"&".join(part for part, own in zip(parts, names, strict=True) if own != name)
                rest = xxhash.xxh3_64_intdigest(head + b"?" + left if left else head)
                for column, value in zip(self.parts, (number, rest, key, content), strict=True):
                    column.append(value)


def idle_parameters(job: JobDir, pages_min: int, bar_of: Callable[[], Bar] = Bar) -> list[Idle]:
    """By site and name. Damaged, OSError."""
    check_log(job)
    site_of, rows = SiteOf(load_stored(job.config_file).scope.private_suffixes), Rows()
    for entry in outcomes(job, status="200", bar_of=bar_of):  # a Python loop per line of the log
        if entry.outcome == "fetched" and entry.digest and entry.reason == "ok":
            rows.add(site_of(host_of(entry.url)), entry.url, xxhash.xxh3_64_intdigest(entry.digest.encode()))
    pages = counted(rows)
    found = [Idle(*known, int(pages[number])) for known, number in rows.names.items() if pages[number] >= pages_min]
    return sorted(found)


def _column(values: array[int]) -> U8:
    return np.array(values, np.uint64)


def counted(rows: Rows) -> NDArray[np.int64]:
    """i8[names]: how many pages that differ speak for each; 0 if one speaks against it."""
    if not (names := len(rows.names)):
        return np.zeros(0, np.int64)
    name, rest, url, content = map(_column, rows.parts)
    pages, contents = map(_column, rows.pages)
    order = np.argsort(pages, kind="stable")
    at = np.searchsorted(pages[order], rest, side="right") - 1  # the last visit of the page without the parameter
    bare = np.flatnonzero((at >= 0) & (pages[order][np.maximum(at, 0)] == rest))
    name, rest = np.append(name, name[bare]), np.append(rest, rest[bare])
    url, content = np.append(url, rest[bare]), np.append(content, contents[order][at[bare]])
    order = np.lexsort((url, rest, name))  # stable: of one URL the last row is the last visit
    name, rest, url, content = name[order], rest[order], url[order], content[order]
    last = np.append((name[1:] != name[:-1]) | (rest[1:] != rest[:-1]) | (url[1:] != url[:-1]), True)
    name, rest, content = name[last], rest[last], content[last]
    starts = np.flatnonzero(np.append(True, (name[1:] != name[:-1]) | (rest[1:] != rest[:-1])))
    several = np.diff(np.append(starts, len(name))) > 1
    same = np.minimum.reduceat(content, starts) == np.maximum.reduceat(content, starts)
    against = np.bincount(name[starts[several & ~same]].astype(np.int64), minlength=names)
    agreed = starts[several & same]
    kinds = np.unique(np.stack([name[agreed], content[agreed]], axis=1), axis=0)
    speaking = np.bincount(kinds[:, 0].astype(np.int64), minlength=names)
    return np.where(against > 0, 0, speaking)
