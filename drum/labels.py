"""How many rows of a section have which label: exact, or in at most so many groups of neighbouring labels.

A queue that takes rows by label must know how many it would take. With one entry a label, as many entries as rows are
possible; a section that is told how many it may have keeps groups instead, each of about as many rows as the others.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.uint64]
Counts = NDArray[np.int64]

FOLD_MIN = 65_536
"""Entries that are collected before they are added up."""


class LabelCounts:
    """Entries (label, rows), ascending: so many rows have a label above that of the entry before and up to this one.

    most: the number of entries in the end; None: as many as there are labels, each for itself. `coarse` says whether
    some were put together. At most FOLD_MIN + 3 * most entries are in memory while rows are added.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._labels: Labels = np.empty(0, np.uint64)
        self._counts: Counts = np.empty(0, np.int64)
        self._new: list[tuple[Labels, Counts]] = []
        self._new_entries = 0
        self.coarse = False

    def add(self, labels: Labels, counts: Labels | Counts, coarse: bool = False) -> None:
        """Both of one length; labels ascending. coarse: they are entries of groups."""
        self.coarse |= coarse
        self._new.append((labels.astype(np.uint64), counts.astype(np.int64)))
        self._new_entries += len(labels)
        if self._new_entries > max(len(self._labels), FOLD_MIN):
            self._fold()

    def entries(self) -> tuple[Labels, Counts]:
        """Of all that was added."""
        self._fold()
        if self._most is not None and len(self._labels) > self._most:
            self._group(self._most)
        return self._labels, self._counts

    def _fold(self) -> None:
        if not self._new:
            return
        labels = np.concatenate([labels for labels, _ in self._new])
        if self.coarse and len(self._labels):  # a label within a group counts as that group's last
            at = np.searchsorted(self._labels, labels)
            within = at < len(self._labels)
            labels[within] = self._labels[at[within]]
        counts = np.concatenate([self._counts, *(counts for _, counts in self._new)])
        self._labels, entry = np.unique(np.concatenate([self._labels, labels]), return_inverse=True)
        self._counts = np.zeros(len(self._labels), np.int64)
        np.add.at(self._counts, entry, counts)
        self._new, self._new_entries = [], 0
        if self._most is not None and len(self._labels) > 2 * self._most:
            self._group(self._most)

    def _group(self, most: int) -> None:
        """Join neighbours until `most` groups, of about as many rows each, are left."""
        through = np.cumsum(self._counts)
        ends = np.searchsorted(through, through[-1] * np.arange(1, most + 1) // most)
        last = np.unique(np.minimum(ends, len(through) - 1))
        self._labels = self._labels[last]
        self._counts = np.diff(through[last], prepend=0)
        self.coarse = True
