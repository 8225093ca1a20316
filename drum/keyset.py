"""Sets of keys that are nothing but keys: which of these are not stored, and the union with what is.

When a merge only has to find new keys, neither order nor groups nor values matter, and everything is a sorted array
without repeats. numpy's sort uses SIMD on plain keys, and its stable sort gallops over sorted runs: both take a few
nanoseconds a key, less than a binary search or an argsort. All work is on pieces that stay in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drum.kernels import Keys, Mask
from drum.segment import Section

_PIECE_ROWS = 32_768
SEARCH_RATIO = 24  # arrays that differ more in length are matched by binary search of the shorter one (measured)


def compact(keys: Keys) -> int:
    """Sort `keys` in place and move what is left without repeats to its front; how many those are."""
    keys.sort()
    kept = min(len(keys), 1)
    for start in range(1, len(keys), _PIECE_ROWS):  # in pieces that stay in the cache, and without a second array
        piece = keys[start : start + _PIECE_ROWS]
        fresh = piece[piece != keys[start - 1 : start - 1 + len(piece)]]
        keys[kept : kept + len(fresh)] = fresh
        kept += len(fresh)
    return kept


def united(parts: Sequence[Keys]) -> Keys:
    """Ascending arrays without repeats as one."""
    if len(parts) == 1:
        return parts[0]
    keys: Keys = np.concatenate(parts)
    keys.sort(kind="stable")
    repeats = keys[1:] == keys[:-1]
    if not repeats.any():
        return keys
    once: Keys = keys[np.concatenate(([True], ~repeats))]
    return once


def minus(keys: Keys, stored: Keys) -> Keys:
    """The keys that are not stored. Both ascending, without repeats."""
    if not len(keys) or not len(stored):
        return keys
    if len(stored) > SEARCH_RATIO * len(keys):
        at = np.searchsorted(stored, keys)
        at[at == len(stored)] = 0
        left: Keys = keys[stored[at] != keys]
        return left
    if len(keys) > SEARCH_RATIO * len(stored):
        at = np.searchsorted(keys, stored)
        at[at == len(keys)] = 0
        kept = np.ones(len(keys), dtype=bool)
        kept[at[keys[at] == stored]] = False
        return keys[kept]
    both = np.concatenate((keys, stored))
    both.sort(kind="stable")
    both = both[1:][both[1:] == both[:-1]]
    if not len(both):
        return keys
    both = np.concatenate((keys, both))  # what is there once is in `keys` alone
    both.sort(kind="stable")
    return both[_alone(both)]


def _alone(ordered: Keys) -> Mask:
    """Which of these have no equal neighbour."""
    alone = np.empty(len(ordered), dtype=bool)
    alone[-1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=alone[:-1])
    alone[1:] &= alone[:-1].copy()
    return alone


def absent(section: Section, keys: Keys, once: bool = False) -> Keys:
    """The keys that a sorted section does not hold; reads only blocks whose range has one of them.

    keys: ascending, without repeats. once: as in Section.read.
    """
    if not len(keys):
        return keys
    near = section.blocks_between(int(keys[0]), int(keys[-1]))
    if not len(near):
        return keys
    firsts = np.searchsorted(keys, section.blocks["label_lo"][near], side="left").tolist()
    lasts = np.searchsorted(keys, section.blocks["label_hi"][near], side="right").tolist()
    parts: list[Keys] = []
    done = 0
    for block, first, last in zip(near.tolist(), firsts, lasts, strict=True):
        if last > first:
            parts += [keys[done:first], minus(keys[first:last], section.read(block, ["key"], once)["key"])]
            done = last
    parts.append(keys[done:])
    return np.concatenate(parts)


def is_in(keys: Keys, some: Keys) -> Mask:
    """Which of the keys are among `some`, all of which are among the keys. Both ascending, without repeats."""
    mask = np.zeros(len(keys), dtype=bool)
    if len(some) == len(keys):
        mask[:] = True
    elif len(keys) > SEARCH_RATIO * len(some):
        mask[np.searchsorted(keys, some)] = True
    else:
        both = np.concatenate((keys, some))
        both.sort(kind="stable")
        twice = np.zeros(len(both) + 1, dtype=bool)  # [i]: row i is equal to the row before it
        np.equal(both[1:], both[:-1], out=twice[1:-1])
        np.compress(~twice[:-1], twice[1:], out=mask)
    return mask
