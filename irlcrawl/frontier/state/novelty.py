"""How much new content sites have brought of late, in memory and bounded: which of them may be traps. Budgets have the
same numbers for all sites and all time, on the disk (budgets/beast.py)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

TRIED_LEAST = 200
SUSPECT = 0.05
"""A site of whose pages less than this share has new content may be a trap."""
SITES_MAX = 50_000


class Novelty:
    def __init__(self) -> None:
        self._sites: dict[int, tuple[int, int]] = {}  # key -> tried, novel

    def count(self, keys: NDArray[np.uint64], novel: NDArray[np.uint8]) -> list[tuple[int, int, int]]:
        """Sites, by row, of URLs that are done. Returns those that may be traps, each time TRIED_LEAST more of its URLs
        were tried: key, tried, novel."""
        suspects = []
        sites, which = np.unique(keys, return_inverse=True)
        tried, new = np.bincount(which), np.bincount(which, novel)
        for key, more, fresh in zip(sites.tolist(), tried.tolist(), new.tolist(), strict=True):
            all_tried, all_new = self._sites.pop(key, (0, 0))
            all_tried, all_new = all_tried + more, all_new + int(fresh)
            if all_tried >= TRIED_LEAST:
                if all_new < SUSPECT * all_tried:
                    suspects.append((key, all_tried, all_new))
            else:
                self._sites[key] = (all_tried, all_new)
        while len(self._sites) > SITES_MAX:  # those first of which nothing was heard for longest
            del self._sites[next(iter(self._sites))]
        return suspects
