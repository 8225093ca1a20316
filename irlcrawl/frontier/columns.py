"""Two structures over columns of numbers, in a few bytes an entry: where a key stands, and which number is due next.

A dict entry with its key costs some 130 bytes, a tuple in a heap some 100; with 100,000 hosts in memory that is most of
what the frontier would hold. `array` rather than numpy: these are asked for one entry at a time.
"""

from __future__ import annotations

import secrets
from array import array
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from itertools import chain

import numpy as np

NONE = -1
_PLACES_BITS_LEAST = 6
_WORD = (1 << 64) - 1


class KeyIndex:
    """Finds rows by their 64-bit key: open addressing with linear probing over a column that the owner keeps.

    Rows are numbered as in `keys`; a key stands at most once. The first place looked at comes from a secret multiplier,
    so that nobody can choose names that all fall together. 5 to 10 bytes a row.
    """

    def __init__(self, keys: array[int]) -> None:
        self._keys = keys
        self._odd = secrets.randbits(64) | 1
        self._rows = 0
        self._clear(_PLACES_BITS_LEAST)

    def _clear(self, bits: int) -> None:
        self._places = array("i", [NONE]) * (1 << bits)
        self._shift, self._mask = 64 - bits, (1 << bits) - 1

    def __len__(self) -> int:
        return self._rows

    def find(self, key: int) -> int:
        """The row with the key, or NONE."""
        places, keys, mask = self._places, self._keys, self._mask
        at = (key * self._odd & _WORD) >> self._shift
        while (row := places[at]) != NONE:
            if keys[row] == key:
                return row
            at = (at + 1) & mask
        return NONE

    def add(self, row: int) -> None:
        """A row whose key is not there yet."""
        self._rows += 1
        if 5 * self._rows > 4 * len(self._places):
            self._grow(row)
        else:
            self._put(row)

    def _put(self, row: int) -> None:
        places, mask = self._places, self._mask
        at = (self._keys[row] * self._odd & _WORD) >> self._shift
        while places[at] != NONE:
            at = (at + 1) & mask
        places[at] = row

    def _grow(self, row: int) -> None:
        """Twice the places, filled as probing in order of their first places would: by numpy, for no pause to show."""
        old = np.frombuffer(self._places, np.int32)
        rows = np.append(old[old != NONE], np.int32(row))
        self._clear(65 - self._shift)
        homes = (np.frombuffer(self._keys, np.uint64)[rows] * np.uint64(self._odd)) >> np.uint64(self._shift)
        order = np.argsort(homes, kind="stable")
        count = np.arange(len(rows))
        places = np.maximum.accumulate(homes[order].astype(np.int64) - count) + count
        fits = places <= self._mask
        np.frombuffer(self._places, np.int32)[places[fits]] = rows[order[fits]]
        for late in rows[order[~fits]].tolist():  # the few past the end go on at the beginning
            self._put(late)

    def remove(self, row: int) -> None:
        """A row that is there; those behind it that its place kept from theirs move up."""
        places, keys, mask, shift = self._places, self._keys, self._mask, self._shift
        at = (keys[row] * self._odd & _WORD) >> shift
        while places[at] != row:
            at = (at + 1) & mask
        hole = at
        while (other := places[at := (at + 1) & mask]) != NONE:
            home = (keys[other] * self._odd & _WORD) >> shift
            if (at - home) & mask >= (at - hole) & mask:
                places[hole] = other
                hole = at
        places[hole] = NONE
        self._rows -= 1


class DueLine:
    """Numbers in the order in which they come due, some 5 bytes each: those that are, a heap of those that will be
    within a tick, and later ones in a bucket per tick."""

    TICKS_PER_S = 8
    DUE_MAX = 1e15
    """Unix seconds; whatever is due later than this is never."""

    def __init__(self, dues: array[float]) -> None:
        """`dues[number]`: when it is due, unix seconds; it may grow while the number stands here."""
        self._dues = dues
        self._ready = array("i")  # from _head on
        self._head = 0
        self._near: list[tuple[float, int]] = []
        self._tick = 0  # the last one that is in _near
        self._later: dict[int, array[int]] = {}
        self._ticks: list[int] = []  # heap of the keys of _later

    def push(self, number: int, now: float) -> None:
        """A number that does not stand here. One that is due already goes behind all that were before."""
        if self._dues[number] <= now:
            self._come_due(now)  # those before it, unnoticed yet
            self._ready.append(number)
        else:
            self._file(number)

    def _file(self, number: int) -> None:
        due = self._dues[number]
        tick = int(min(due, self.DUE_MAX) * self.TICKS_PER_S)
        if tick <= self._tick:
            heappush(self._near, (due, number))
        elif (bucket := self._later.get(tick)) is not None:
            bucket.append(number)
        else:
            self._later[tick] = array("i", (number,))
            heappush(self._ticks, tick)

    def _load(self) -> None:
        """The next bucket comes near."""
        self._tick = heappop(self._ticks)
        for number in self._later.pop(self._tick):
            self._file(number)

    def _come_due(self, now: float) -> None:
        while self._ticks and self._ticks[0] <= now * self.TICKS_PER_S:
            self._load()
        near = self._near
        while near and near[0][0] <= now:
            self._ready.append(heappop(near)[1])

    def pop(self, now: float) -> int:
        """The first number that is due, taken out, or NONE."""
        self._come_due(now)
        ready, head = self._ready, self._head
        if head == len(ready):
            return NONE
        self._head += 1
        number = ready[head]
        if self._head > 1024 and self._head > len(ready) >> 1:
            del ready[: self._head]
            self._head = 0
        return number

    def first(self, now: float) -> tuple[float, int] | None:
        """When the first number is due (`now` if it is), and which it is; None when there is none. `pop` then gives it
        or one due at the same moment."""
        self._come_due(now)
        if self._head < len(self._ready):
            return now, self._ready[self._head]
        while not self._near and self._ticks:
            self._load()
        return self._near[0] if self._near else None

    def prune(self, gone: Callable[[int], bool]) -> list[int]:
        """Take out all numbers that are `gone`, and return them; the others keep their order. Costs O(numbers)."""
        every = chain(self._ready[self._head :], (number for _, number in self._near), *self._later.values())
        numbers = [number for number in every if gone(number)]
        self._ready = array("i", (number for number in self._ready[self._head :] if not gone(number)))
        self._head = 0
        self._near = [(due, number) for due, number in self._near if not gone(number)]
        heapify(self._near)
        kept = ((tick, array("i", (n for n in bucket if not gone(n)))) for tick, bucket in self._later.items())
        self._later = {tick: bucket for tick, bucket in kept if bucket}
        self._ticks = sorted(self._later)  # a sorted list is a heap
        return numbers

    def due(self, by: float) -> Iterator[int]:
        """Those due by then, in no order."""
        yield from self._ready[self._head :]
        yield from (number for due, number in self._near if due <= by)
        for tick in self._ticks:
            if tick <= by * self.TICKS_PER_S:
                yield from (number for number in self._later[tick] if self._dues[number] <= by)
