"""Near-duplicates in a row: a directory whose pages say the same again and again is a trap, or as useless as one.

Calendars, session ids and endless pagination make pages that differ in digits, each of which leads to more of them. The
pages are kept, but their links are not followed once there are too many such pages in a row; one page with content of
its own opens the directory again. Each worker counts for itself, from its start: a forgotten count costs a few fetches.
"""

from __future__ import annotations

from collections import OrderedDict

from irlcrawl.base.keys import name_key

DIRECTORIES_MAX = 65_536
"""Directories that a worker remembers, some 10 MB; the directories whose pages came longest ago are forgotten."""


class Repetition:
    """near_duplicates_max: pages in a row; 0: off."""

    def __init__(self, near_duplicates_max: int) -> None:
        self._most = near_duplicates_max
        self._rows: OrderedDict[int, int] = OrderedDict()  # directory -> near-duplicates since the last novel page

    def trapped(self, directory: int, novel: bool) -> bool:
        """Count a page of `directory`. Returns whether it is a near-duplicate, and near_duplicates_max of them came
        before it in a row."""
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
    """The key of a stored URL's directory: the path without its last segment; of a URL with a query, the whole path."""
    path, query, _ = url.partition(b"?")
    return name_key(path if query else path[: path.rindex(b"/") + 1])
