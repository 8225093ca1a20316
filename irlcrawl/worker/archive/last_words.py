"""Which line of the crawl log is a URL's last word: a line with which it was done, unless a later one says that it was
put back (`outcome=returned`).

Lines of the second kind are found first, in one pass that looks at nothing else of the log; what they say of a URL is
then asked for each line with which one is done.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator

import numpy as np

from irlcrawl.base.keys import name_key
from irlcrawl.worker.archive.crawl_log import url_of
from irlcrawl.worker.archive.log_parts import Piece

RETURNED = b" outcome=returned,"
"""How the last field of such a line begins: no field before it has a space."""
NOT_YET = 2**64 - 1
"""The place of a return that waits for its turn: it comes after every line there is."""


class Returned:
    """URLs that were put back, each with the place of the last line that says so: 16 bytes a URL."""

    def __init__(self, found: Iterable[tuple[int, int]]) -> None:
        """found: (name_key of the URL, place), in any order."""
        flat = np.fromiter((number for pair in found for number in pair), np.uint64)
        keys, places = flat[::2], flat[1::2]
        order = np.lexsort((places, keys))
        keys, places = keys[order], places[order]
        last = np.append(keys[1:] != keys[:-1], True)[: len(keys)]
        self._keys, self._places = array("Q", keys[last].tobytes()), array("Q", places[last].tobytes())

    def __len__(self) -> int:
        return len(self._keys)

    def since(self, url: bytes, place: int) -> bool:
        """Whether a URL was put back behind the line at `place`."""
        key = name_key(url)
        at = bisect_left(self._keys, key)
        return at < len(self._keys) and self._keys[at] == key and self._places[at] > place


def returned_in(pieces: Iterable[Piece]) -> Iterator[tuple[int, int]]:
    """(name_key of the URL, place) of the lines that say that a URL was put back, for `Returned`. Damaged."""
    for piece in pieces:
        for at, line in piece.lines_with(RETURNED):
            yield name_key(piece.understood(url_of, line)), piece.place(at)
