"""How long a URL waits from its discovery to its first request: measured on a sample, for a bounded number of URLs.

Sampled are the URLs whose keys end with enough zero bits: keys are hashes, so this is as good as drawing lots, and no
URL's chance depends on when it is fetched. When more of them wait than are kept, one more bit has to be zero, and half
of them are let go. In memory alone: a run measures the URLs that were found in it.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress

from drum import Ragged

import numpy as np
from numpy.typing import NDArray

from irlcrawl.worker.archive.crawl_log import BadLine, started_of

WAITING_MAX = 4096
"""URLs of the sample that wait, at 16 bytes; each costs some 4 us when it is requested."""
KEPT = 1001
"""Of those that were requested last, the median is told."""


class Latency:
    """Owned by the turns. Times are unix seconds."""

    def __init__(self, waiting_max: int = WAITING_MAX) -> None:
        self._waiting_max = waiting_max
        self._mask = np.uint64(0)
        self._key = np.empty(0, np.uint64)  # ascending: the sample that waits
        self._found = np.empty(0, np.float64)
        self._new: list[tuple[NDArray[np.uint64], float]] = []  # not among them yet
        self._new_rows = 0
        self._waits: deque[float] = deque(maxlen=KEPT)

    def __len__(self) -> int:
        """Of the sample, how many wait."""
        return len(self._key) + self._new_rows

    def found(self, keys: NDArray[np.uint64], at: float) -> None:
        """URLs were discovered; no key comes twice."""
        sampled = keys[keys & self._mask == 0]
        if len(sampled):
            self._new.append((sampled, at))
            self._new_rows += len(sampled)
        if self._new_rows > self._waiting_max:
            self._sort()

    def requested(self, keys: NDArray[np.uint64], lines: Ragged) -> None:
        """URLs have outcomes: `lines`, of the crawl log, say when each was requested, if it was."""
        rows, found = self._take(keys)
        for line, since in zip(lines.take(rows).tolist(), found.tolist(), strict=True):
            with suppress(BadLine):  # a figure less is no reason to end a crawl
                if (started := started_of(line)) is not None:
                    self._waits.append(max(0.0, started / 1000 - since))

    def left(self, keys: NDArray[np.uint64]) -> None:
        """URLs are done without a request."""
        self._take(keys)

    @property
    def median(self) -> float | None:
        """Seconds, of those of the sample that were requested last; None before the first."""
        return float(np.median(list(self._waits))) if self._waits else None

    def _take(self, keys: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """(rows, when they were found) of those keys that are in the sample and wait; they wait no longer."""
        self._sort()
        if not len(self._key):
            return np.empty(0, np.int64), np.empty(0, np.float64)
        sampled = np.flatnonzero(keys & self._mask == 0)
        at = np.minimum(np.searchsorted(self._key, keys[sampled]), len(self._key) - 1)
        known = self._key[at] == keys[sampled]
        at = at[known]
        found = self._found[at]
        if len(at):
            self._key, self._found = np.delete(self._key, at), np.delete(self._found, at)
        return sampled[known], found

    def _sort(self) -> None:
        """What is new among what waits; and no more than may."""
        if not self._new:
            return
        key = np.concatenate([self._key, *(keys for keys, _ in self._new)])
        found = np.concatenate([self._found, *(np.full(len(keys), at) for keys, at in self._new)])
        self._new.clear()
        self._new_rows = 0
        while len(key) > self._waiting_max:
            self._mask = self._mask << np.uint64(1) | np.uint64(1)
            kept = key & self._mask == 0
            key, found = key[kept], found[kept]
        order = np.argsort(key)
        self._key, self._found = key[order], found[order]
