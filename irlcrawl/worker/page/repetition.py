"""Near-duplicates in a row: a directory whose pages say the same again and again is a trap, or might as well be one.

Calendars, session ids and endless pagination make pages that differ in digits, each of which leads to more of them. The
pages are kept, their links are not followed once there are too many of them in a row; one page with content of its own
opens the directory again. A worker counts for itself and from its start: what it forgets costs a few fetches.
"""

from __future__ import annotations

from collections import OrderedDict

from irlcrawl.base.keys import name_key

DIRECTORIES_MAX = 65_536
"""Directories a worker remembers, some 10 MB; those that were asked longest ago are forgotten."""


class Repetition:
    """near_duplicates_max: 0 never finds a trap."""

    def __init__(self, near_duplicates_max: int) -> None:
        self._most = near_duplicates_max
        self._rows: OrderedDict[int, int] = OrderedDict()  # directory -> near-duplicates since the last novel page

    def trapped(self, directory: int, novel: bool) -> bool:
        """Takes note of a page; whether so many near-duplicates of its directory came before it in a row, and it is
        one, too."""
        if not self._most:
            return False
        before = self._rows.pop(directory, 0)
        if novel:
            return False
        self._rows[directory] = min(before + 1, self._most)
        if len(self._rows) > DIRECTORIES_MAX:
            self._rows.popitem(last=False)
        return before >= self._most


def directory_key(url: bytes) -> int:
    """The key of a stored URL's directory: the path without its last segment, or all of it where a query follows."""
    path, query, _ = url.partition(b"?")
    return name_key(path if query else path[: path.rindex(b"/") + 1])
