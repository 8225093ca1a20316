"""Pages whose reading ended workers, and how many workers died one after another.

A page may end whoever reads it: it holds its worker until that is killed for its silence, or takes all memory. A worker
notes what it reads (worker/fetch/reading.py). At the second death with the same URL there, the URL is unreadable. A
death with a page at work says less of the next worker than another: those with pages of one site count once.
"""

from __future__ import annotations

from collections import Counter

DEATHS_MAX = 8
"""So many workers that die one after another do not die of what they fetch: another one would die as well."""
READING_DEATHS_MAX = 64
"""So many do not even if each dies while it reads a page of the same site."""
UNREADABLE_AT = 2
"""At the first death another page may have taken the memory, or somebody have killed the worker."""


class Suspects:
    """`unreadable`: URLs that no worker is to ask for. Remembered while the crawl runs: each costs two workers."""

    def __init__(self) -> None:
        self.unreadable: list[str] = []
        self._deaths: Counter[bytes] = Counter()
        self._owed = 0  # unreadable URLs whose outcomes were not taken in
        self._in_a_row = self._reading_in_a_row = 0
        self._sites: set[int] = set()  # of the pages in a row

    def died(self, url: bytes, site: int) -> bool:
        """A worker died that was reading `url`, of a site. Whether the URL is unreadable since."""
        self._in_a_row += site not in self._sites
        self._reading_in_a_row += 1
        self._sites.add(site)
        self._deaths[url] += 1
        if self._deaths[url] != UNREADABLE_AT:
            return False
        self._owed += 1
        self.unreadable.append(url.decode("ascii"))
        return True

    def died_otherwise(self) -> None:
        """A worker died that read nothing."""
        self._in_a_row += 1

    def taken_in(self, outcomes: int) -> None:
        """A turn did so. Those of unreadable URLs say nothing of workers."""
        owed = min(self._owed, outcomes)
        self._owed -= owed
        if outcomes > owed:
            self._in_a_row = self._reading_in_a_row = 0
            self._sites.clear()

    @property
    def in_vain(self) -> int:
        """How many workers died one after another, if those are too many to go on; else 0."""
        if self._in_a_row >= DEATHS_MAX or self._reading_in_a_row >= READING_DEATHS_MAX:
            return max(self._in_a_row, self._reading_in_a_row)
        return 0
