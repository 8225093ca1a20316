"""Sets of keys that are nothing but keys: which of these are not stored, and the union with what is.

When a merge only has to find new keys, neither order nor groups nor values matter, and everything is a sorted array
without repeats. numpy's sort uses SIMD on plain keys, its stable sort gallops over sorted runs, and an index of equal
cells finds hashed keys in one or two looks: a few nanoseconds a key, where a binary search or an argsort takes tens.
All work is on pieces that stay in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from drum.codec import BLOCK_ROWS, Halves
from drum.kernels import Index, Keys, Mask
from drum.ragged import Array
from drum.segment import Section

import numpy as np

_PIECE_ROWS = 32_768
_PLACES = np.arange(BLOCK_ROWS, dtype=np.uint16)
_CELL_BITS = 3  # so there are 4 to 16 cells a key
_PACKED_CELL_BITS = 4  # a block's cells fit the cache, and keys that go by site crowd in some of them
_PACKED_STEPS = 3  # back, before a binary search
_STEPS_MAX = 16  # from the last key of a cell back to the one looked for, before a binary search
SEARCH_RATIO = 24  # arrays that differ more in length are matched by binary search of the shorter one (measured)
MINUS_RATIO = 12  # the same where the longer one would be indexed (measured)


def compact(keys: Keys) -> int:
    """Sort `keys` in place and move what is left without repeats to its front; how many those are."""
    keys.sort()
    return distinct(keys)


def distinct(keys: Keys) -> int:
    """Move ascending `keys` without repeats to the front; how many those are."""
    kept = min(len(keys), 1)
    for start in range(1, len(keys), _PIECE_ROWS):  # in pieces that stay in the cache, and without a second array
        piece = keys[start : start + _PIECE_ROWS]
        fresh = piece[piece != keys[start - 1 : start - 1 + len(piece)]]
        keys[kept : kept + len(fresh)] = fresh
        kept += len(fresh)
    return kept


def united(parts: Sequence[Keys]) -> Keys:
    """Ascending arrays as one without repeats."""
    keys = np.empty(sum(map(len, parts)), dtype=np.uint64)
    kept = 0
    for piece in united_pieces(parts):
        keys[kept : kept + len(piece)] = piece
        kept += len(piece)
    return keys[:kept]


def united_pieces(parts: Sequence[Keys]) -> Iterator[Keys]:
    """The same as a stream of arrays, each of them new.

    A stable sort gallops over a long run with little between, SIMD is faster where runs are alike; both are fastest
    where what they sort stays in the cache.
    """
    rows, longest = sum(map(len, parts)), max(parts, key=len)
    alike = 2 * len(longest) < rows
    step = max(_PIECE_ROWS * len(longest) // max(2 * rows, 1), 1)
    edges = longest[step::step]
    cuts = [[0, *np.searchsorted(part, edges).tolist(), len(part)] for part in parts]
    for number in range(len(edges) + 1):
        piece = np.concatenate([part[cut[number] : cut[number + 1]] for part, cut in zip(parts, cuts, strict=True)])
        if len(parts) > 1:
            piece.sort(kind=None if alike else "stable")
        yield piece[: distinct(piece)]


def minus(keys: Keys, stored: Keys) -> Keys:
    """The keys that are not stored. Both ascending, without repeats."""
    if not len(keys) or not len(stored):
        return keys
    if len(stored) > MINUS_RATIO * len(keys):
        at = np.searchsorted(stored, keys)
        left: Keys = keys.compress(stored.take(at, mode="clip") != keys)
        return left
    if len(keys) > SEARCH_RATIO * len(stored):
        at = np.searchsorted(keys, stored)
        at[at == len(keys)] = 0
        kept = np.ones(len(keys), dtype=bool)
        kept[at[keys[at] == stored]] = False
        return keys.compress(kept)
    start = int(np.searchsorted(keys, stored[0]))
    stop = int(np.searchsorted(keys, stored[-1], side="right"))
    new = np.ones(len(keys), dtype=bool)
    cells = _Cells(stored)
    for first in range(start, stop, _PIECE_ROWS):  # in pieces whose arrays stay in the cache
        last = min(first + _PIECE_ROWS, stop)
        new[first:last] = cells.lack(keys[first:last])
    return keys.compress(new)


def minus_packed(keys: Keys, stored: Halves) -> Keys:
    """The same of packed keys. None of `keys` is below their first or above their last."""
    rows, span = len(stored.high), int(stored.high[-1])
    if not 2 * len(keys) <= rows <= min(MINUS_RATIO * len(keys), span):
        return minus(keys, stored.keys)
    return keys.compress(_PackedCells(stored).lack(keys))


class _Cells:
    """An index of ascending `keys` without repeats: their range in equal cells, and for each the last key in it.

    Who is looked for is that key or, where several share a cell, a few places before, which is rare by hashed keys.
    Building it takes 1 ns a key, a look 4, where merging two sorted arrays takes 1 and 30.
    """

    def __init__(self, keys: Keys) -> None:
        least, last = int(keys[0]), int(keys[-1])
        self._keys = keys
        self._shift = np.uint64(max((last - least).bit_length() - (len(keys) - 1).bit_length() - _CELL_BITS, 0))
        self._base = np.uint64(least) >> self._shift
        cells = self._of(keys)
        self._last: Array = np.zeros(int(cells[-1]) + 1, np.uint16 if len(keys) <= 1 << 16 else np.uint32)
        self._last[cells] = np.arange(len(keys), dtype=self._last.dtype)

    def _of(self, keys: Keys) -> Index:
        cells: Keys = np.right_shift(keys, self._shift)
        cells -= self._base
        return cells.view(np.int64)

    def lack(self, some: Keys) -> Mask:
        """Which of `some` are not among the keys; none is below the first or above the last of those."""
        keys = self._keys
        at: Array = self._last.take(self._of(some), mode="clip")  # "clip" spares a check: no index is out of range
        held = keys.take(at, mode="clip")
        lacking: Mask = held != some
        beyond = np.flatnonzero(held > some)
        at, wanted = at.take(beyond).astype(np.int64), some.take(beyond)
        for _ in range(_STEPS_MAX):
            if not len(beyond):
                return lacking
            at -= 1  # the first key is beyond none of them
            held = keys.take(at, mode="clip")
            lacking[beyond.compress(held == wanted)] = False
            further = np.flatnonzero(held > wanted)
            beyond, at, wanted = beyond.take(further), at.take(further), wanted.take(further)
        found = keys.take(np.searchsorted(keys, wanted), mode="clip") == wanted  # keys that crowd in few cells
        lacking[beyond.compress(found)] = False
        return lacking


class _PackedCells:
    """The same index of packed keys, by their high halves: cheaper to build, where few are looked for."""

    def __init__(self, stored: Halves) -> None:
        self._stored = stored
        rows, span = len(stored.high), int(stored.high[-1])
        self._shift = np.uint32(max(span.bit_length() - (rows - 1).bit_length() - _PACKED_CELL_BITS, 0))
        self._last: Array = np.zeros((span >> int(self._shift)) + 1, np.uint16)  # a block has no more than 65,536
        self._last[np.right_shift(stored.high, self._shift).astype(np.int64)] = _PLACES[:rows]

    def lack(self, some: Keys) -> Mask:
        """Which of `some` are not among the keys; none is below the first or above the last of those."""
        high = np.right_shift(some, np.uint64(32)).astype(np.uint32)
        high -= np.uint32(self._stored.least)
        low = some.astype(np.uint32)
        at = self._last.take(np.right_shift(high, self._shift).astype(np.int64), mode="clip").astype(np.int64)
        lacking, beyond = self._look(at, high, low)
        left: Index = np.flatnonzero(beyond)
        at, high, low = at.take(left), high.take(left), low.take(left)
        for number in range(_STEPS_MAX):
            if not len(left):
                return lacking
            if number == _PACKED_STEPS:  # more than a few share its cell
                at = np.searchsorted(self._stored.high, high, side="right") - 1
            else:
                at -= 1  # the first key is beyond none of them
            without, beyond = self._look(at, high, low)
            lacking[left.compress(~without)] = False
            further = np.flatnonzero(beyond)
            left, at, high, low = left.take(further), at.take(further), high.take(further), low.take(further)
        lacking[left] = np.isin(some.take(left), self._stored.keys, invert=True)  # keys that crowd in few cells
        return lacking

    def _look(self, at: Index, high: Array, low: Array) -> tuple[Mask, Mask]:
        """Which of the keys at these places are not those with these halves, and which are beyond them."""
        held, lower = self._stored.high.take(at, mode="clip"), self._stored.low.take(at, mode="clip")
        same = held == high
        return ~(same & (lower == low)), (held > high) | (same & (lower > low))


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
    wanted = [place for place in zip(near.tolist(), firsts, lasts, strict=True) if place[2] > place[1]]
    parts: list[Keys] = []
    done = 0
    stored = section.sorted_keys([block for block, _, _ in wanted], once)
    for (_, first, last), block in zip(wanted, stored, strict=True):
        part = keys[first:last]
        parts += [keys[done:first], minus_packed(part, block) if isinstance(block, Halves) else minus(part, block)]
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
