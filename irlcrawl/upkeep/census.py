"""Every URL in one place: the keys in `seen` against URLs that are done or wait, and the crawl log against the
archives.

The crawl log and the queues are read once, forward; the rows to be compared go through files in the temporary directory
(40 bytes an outcome, 8 a waiting URL, 8 a key in `seen`), which are sorted one at a time.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

from drum import Batch
from drum.spill import Spill

import numpy as np
import numpy.typing as npt

from irlcrawl.base.keys import name_key, url_keys
from irlcrawl.base.names import Names
from irlcrawl.base.reasons import DONE_NAMES
from irlcrawl.frontier.state.view import Reading
from irlcrawl.upkeep.findings import Finding, Findings
from irlcrawl.upkeep.verify import Found
from irlcrawl.worker.archive.crawl_log import LogEntry

URL_BITS, ARCHIVE_BITS = 8, 6
URL = np.dtype([("key", "<u8")])
POINTER = np.dtype([("key", "<u8"), ("offset", "<u8"), ("end", "<u8"), ("url", "<u8")])
"""The unit to which a line of the crawl log points. key: name_key of the archive's name; url: key of the URL."""

KEYS_SHOWN = 3


class Census:
    """Fill it with `logged` and `waiting`, then ask `urls` and `archive`."""

    def __init__(self, directory: str, names: Names) -> None:
        self._names = names
        self._urls = Spill(directory, "urls", URL, URL_BITS)
        self._returned = Spill(directory, "returned", URL, URL_BITS)
        self._seen = Spill(directory, "seen", URL, URL_BITS)
        self._pointers = Spill(directory, "pointers", POINTER, ARCHIVE_BITS)
        self.archives: dict[str, int] = {}
        """Archives the log points into, with the number of units."""
        self.outcomes: Counter[tuple[str, str]] = Counter()
        """(outcome, reason) -> lines, without those of later visits; of URLs that are done, less those that were put
        back."""
        self.pages = 0
        """Pages that are visited again: fetched once by the log, and not done."""

    def logged(self, entry: LogEntry) -> None:
        """Take in a line of the crawl log."""
        key = self._names.url_key(entry.url)
        if entry.outcome == "returned":
            self.outcomes[entry.notes.get("was", ""), entry.reason] -= 1
            self._returned.add((key,))
        if "visit" not in entry.notes:  # else a later visit of a page
            self.outcomes[entry.outcome, entry.reason] += 1
            if entry.outcome in DONE_NAMES:
                self._urls.add((key,))
        pointer = entry.warc
        if pointer is not None:
            name, offset, length = pointer
            self.archives[name] = self.archives.get(name, 0) + 1
            self._pointers.add((name_key(name.encode()), offset, offset + length, key))

    def waiting(self, place: str, batch: Batch, state: str) -> Findings:
        """Take in waiting LINK rows. Their keys must be those of their URLs: a Python loop per URL checks that."""
        keys = batch["key"]
        self._urls.add_many(key=keys)
        if "visits" in batch:
            pages = keys[batch["visits"] > 0]
            self._returned.add_many(key=pages)  # as if each had been put back after its first visit
            self.pages += len(pages)
        found = url_keys(batch["url"].tolist(), self._names.seed, batch["site"].tolist())
        if (wrong := int((np.array(found, np.uint64) != keys).sum())) > 0:
            yield Finding(True, state, None, f"{wrong} URLs in {place} have keys that are not theirs")

    def urls(self, reading: Reading) -> Findings:
        """Findings about URLs: each key in `seen` is done or waits in one place, and no other URL is or does. Where one
        was put back, it is not done by what came before."""
        twice, lost, strange = _Examples(), _Examples(), _Examples()
        for bucket in reading.seen.buckets:
            for batch in reading.seen.scan(bucket):
                self._seen.add_many(key=batch["key"])
        for number in range(1 << URL_BITS):
            keys, places = np.unique(self._urls.part(number)["key"], return_counts=True)
            returned, times = np.unique(self._returned.part(number)["key"], return_counts=True)
            known = np.isin(returned, keys)
            places[np.searchsorted(keys, returned[known])] -= times[known]
            twice.add(keys[places > 1])
            seen = self._seen.part(number)["key"]
            lost.add(np.setdiff1d(seen, keys[places > 0], assume_unique=False))
            strange.add(np.setdiff1d(keys[places > 0], seen, assume_unique=False))
        state = str(reading.job.state)
        if twice.count:
            yield Finding(True, state, None, f"{twice} stand in more than one place, or are done more than once")
        if lost.count:
            yield Finding(True, state, None, f"{lost} are known as seen, but neither done nor waiting anywhere")
        if strange.count:
            yield Finding(True, state, None, f"{strange} are done or wait without being known as seen")

    def archive(self, name: str, path: str, units: list[Found], covered: int, size: int) -> Findings:
        """Findings about one archive: the lines that point into it against its units, up to `covered`, where the log's
        lines end."""
        mine = self._pointers_of(name)
        there = np.array([(unit.offset, unit.end, self._names.url_key(unit.url)) for unit in units], _UNIT)
        there = there[there["end"] <= covered]
        at = np.searchsorted(there["offset"], mine["offset"])
        at = np.minimum(at, max(len(there) - 1, 0))
        fits = np.zeros(len(mine), np.bool_)
        if len(there):
            fits = (there["offset"][at] == mine["offset"]) & (there["end"][at] == mine["end"])
            fits &= there["url"][at] == mine["url"]
        for offset in mine["offset"][~fits][:KEYS_SHOWN].tolist():
            behind = ", behind its end" if offset >= size else ""
            yield Finding(True, path, offset, f"the crawl log says that a unit lies here{behind}; it does not")
        if (more := int((~fits).sum()) - KEYS_SHOWN) > 0:
            yield Finding(True, path, None, f"and {more} more units that the crawl log knows are not there")
        unknown = there["offset"][~np.isin(there["offset"], mine["offset"])]
        for offset in unknown[:KEYS_SHOWN].tolist():
            yield Finding(True, path, offset, "a unit that no line of the crawl log points to")
        if len(unknown) > KEYS_SHOWN:
            yield Finding(True, path, None, f"and {len(unknown) - KEYS_SHOWN} more units without a line in the log")

    def _pointers_of(self, name: str) -> npt.NDArray[Any]:
        key = name_key(name.encode())
        rows = self._pointers.part(self._pointers.number_of(key))
        return rows[rows["key"] == np.uint64(key)]

    def in_order(self, names: list[str]) -> list[str]:
        """Archives in an order in which those with lines in one file of the spill come together."""
        return sorted(names, key=lambda name: (self._pointers.number_of(name_key(name.encode())), name))


_UNIT = np.dtype([("offset", "<u8"), ("end", "<u8"), ("url", "<u8")])


class _Examples:
    """The number of some keys, and the first few of them."""

    def __init__(self) -> None:
        self.count = 0
        self._some: list[int] = []

    def add(self, keys: npt.NDArray[np.uint64]) -> None:
        self.count += len(keys)
        self._some += keys[: KEYS_SHOWN - len(self._some)].tolist() if len(self._some) < KEYS_SHOWN else []

    def __str__(self) -> str:
        keys = ", ".join(f"{key:016x}" for key in self._some)
        return f"{self.count:,} URL{'s' if self.count != 1 else ''} (key {keys}{', …' if self.count > 3 else ''})"


def archive_path(directory: str, name: str, open_suffix: str) -> str | None:
    """The path of an archive; None if it was moved away."""
    for path in (os.path.join(directory, name), os.path.join(directory, name + open_suffix)):
        if os.path.exists(path):
            return path
    return None


def examples(names: Iterator[str], most: int = KEYS_SHOWN) -> str:
    """`a, b, c and 5 more`."""
    listed = list(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more
