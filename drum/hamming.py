"""Which keys of a batch are within DISTANCE bits of any of a stream of keys: near-duplicates by SimHash.

Of 64 bits in four blocks of 16, three changed bits leave one block as it was (Manku, Jain, Das Sarma: Detecting
Near-Duplicates for Web Crawling, WWW 2007). So a table of the batch for each block names all candidates, and its other
48 bits decide. As in that paper's batch mode the tables are of the batch, in memory, and what is stored, once and in
any order, streams past them: each stored key costs a look into four tables, and a comparison with one 16,384th of the
batch's keys.
"""

from __future__ import annotations

from drum.kernels import Index, Keys, Mask

import numpy as np

DISTANCE = 3
BLOCKS = 4
BLOCK_BITS = 16
CANDIDATES = 1 << 18
"""Pairs compared at a time, some 10 MB."""
SHRINK = 2
"""Tables are made anew when so many times fewer keys are still open: a crowd of alike keys would else be compared with
itself, each with each."""

_BLOCK = np.uint64((1 << BLOCK_BITS) - 1)


class Near:
    """The keys u8[n], without repeats, and in `found` (bool[n]) those with a neighbour met so far. since: i8[n], a
    neighbour with a time (`meet`) counts only if it is earlier."""

    def __init__(self, keys: Keys, since: Index | None = None) -> None:
        self.keys = keys
        self.since = np.zeros(len(keys), np.int64) if since is None else since
        self.found: Mask = np.zeros(len(keys), np.bool_)
        self._index(np.arange(len(keys)))

    def meet(self, keys: Keys, at: Index | None = None) -> None:
        """Compare with keys u8[m]; at: i8[m], their times."""
        if not self._open or not len(keys):
            return
        for block, (order, starts) in enumerate(self._tables):
            cell = self._cell(keys, block)
            first = starts.take(cell)
            many = starts.take(cell + 1) - first
            ends = np.cumsum(many)
            done = 0
            while done < len(keys):  # as many rows as have CANDIDATES, one at least
                before = int(ends[done - 1]) if done else 0
                until = max(int(np.searchsorted(ends, before + CANDIDATES, side="right")), done + 1)
                part = slice(done, until)
                self._compare(order, keys[part], None if at is None else at[part], first[part], many[part])
                done = until
        if SHRINK * int(np.count_nonzero(~self.found)) <= self._open:
            self._index(np.flatnonzero(~self.found))

    def _compare(self, order: Index, keys: Keys, at: Index | None, first: Index, many: Index) -> None:
        total = int(many.sum())
        if not total:
            return
        row = np.repeat(np.arange(len(keys)), many)
        place = np.arange(total) - np.repeat(np.cumsum(many) - many - first, many)
        own = order.take(place)
        near = np.bitwise_count(self.keys.take(own) ^ keys.take(row)) <= DISTANCE
        if at is not None:
            near &= at.take(row) < self.since.take(own)
        self.found[own[near]] = True

    def _index(self, places: Index) -> None:
        """Tables of the keys at these places: in each their places by block, and where each block's begin."""
        self._open = len(places)
        self._tables = []
        for block in range(BLOCKS):
            cell = self._cell(self.keys[places], block)
            counts = np.bincount(cell, minlength=1 << BLOCK_BITS)
            order = places[np.argsort(cell.astype(np.uint16), kind="stable")]  # of 16 bits: a radix sort
            self._tables.append((order, np.concatenate(([0], np.cumsum(counts)))))

    @staticmethod
    def _cell(keys: Keys, block: int) -> Index:
        return ((keys >> np.uint64(BLOCK_BITS * block)) & _BLOCK).astype(np.int64)
