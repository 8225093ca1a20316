"""Columns of numbers; `KeyIndex` finds the row that has a key, `Counts` tells how many there are of a key.

They take a few bytes an entry. A dict entry with its key costs some 130 bytes and a tuple in a heap some 100; with
100,000 hosts in memory that would be most of what the frontier holds. Columns are of `array`, because entries are
mostly asked for one at a time, which numpy is slow at; `view` shows a column to numpy where many are handled at once.
"""

from __future__ import annotations

import secrets
from array import array
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

I8s: TypeAlias = NDArray[np.int64]
U8s: TypeAlias = NDArray[np.uint64]
F8s: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

NONE = -1
"""No row, no clock, no host."""
_PLACES_BITS_LEAST = 6
REBUILD_SHARE = 16
"""remove_many: from one row in so many on, finding a place for all others costs less than moving them up one by one."""
_WORD = (1 << 64) - 1


def view(column: array[Any]) -> NDArray[Any]:
    """The column as a numpy array that shares its memory. The column can not grow while the view is kept. ValueError if
    the column is empty."""
    return np.frombuffer(column, column.typecode)


def take_numbers(free: array[int], used: int, count: int) -> I8s:
    """`count` numbers that are not in use: first those freed last, which are taken out of `free`, then new ones from
    `used` on."""
    again = min(count, len(free))
    freed = np.array(free[len(free) - again :][::-1], np.int64)
    del free[len(free) - again :]
    return np.concatenate([freed, np.arange(used, used + count - again)])


class Counts:
    """How many there are of each of very many keys, nearly always exactly, never too low: the least of two counts, each
    over the keys that share 10 to 22 bits of a hash (a count-min sketch). 8 to 16 bytes for each of `size`."""

    def __init__(self, size: int) -> None:
        """`size`: about how many are counted at once."""
        bits = min(max((size - 1).bit_length(), 10), 22)
        self._rows = tuple((secrets.randbits(64) | 1, array("I", bytes(4 << bits))) for _ in range(2))
        self._shift = 64 - bits

    def _places(self, keys: U8s, odd: int) -> I8s:
        return ((keys * np.uint64(odd)) >> np.uint64(self._shift)).astype(np.int64)

    def add(self, keys: U8s) -> None:
        """One more of each of these keys, of which the same may come several times."""
        for odd, row in self._rows:
            np.add.at(view(row), self._places(keys, odd), np.uint32(1))

    def remove(self, key: int) -> None:
        """One fewer of a key that was added."""
        for odd, row in self._rows:
            row[(key * odd & _WORD) >> self._shift] -= 1

    def of(self, keys: U8s) -> I8s:
        """i8[keys]."""
        first, second = (view(row)[self._places(keys, odd)] for odd, row in self._rows)
        return np.minimum(first, second).astype(np.int64)

    def above(self, key: int, most: int) -> bool:
        """Whether there are more than `most` of one key."""
        (odd, first), (other, second) = self._rows  # asked once a visit
        shift = self._shift
        return first[(key * odd & _WORD) >> shift] > most and second[(key * other & _WORD) >> shift] > most


class KeyIndex:
    """Finds rows by their 64-bit key: a hash table (open addressing, linear probing) over a column of the owner's.

    A row is an index into `keys`; each key is in the index at most once. The first place looked at comes from a secret
    multiplier, so that nobody can choose names that all fall together. 5 to 10 bytes a row.
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
        """The row that has the key, or NONE."""
        places, keys, mask = self._places, self._keys, self._mask
        at = (key * self._odd & _WORD) >> self._shift
        while (row := places[at]) != NONE:
            if keys[row] == key:
                return row
            at = (at + 1) & mask
        return NONE

    def find_many(self, keys: U8s) -> I8s:
        """As `find`, for many keys: i8[keys]."""
        if not self._rows:
            return np.full(len(keys), NONE)
        places, stored = view(self._places), view(self._keys)
        at = self._homes(keys)
        rows = places[at].astype(np.int64)
        astray = np.flatnonzero((rows != NONE) & (stored[rows] != keys))
        while len(astray):
            at[astray] = (at[astray] + 1) & self._mask
            rows[astray] = places[at[astray]]
            astray = astray[(rows[astray] != NONE) & (stored[rows[astray]] != keys[astray])]
        return rows

    def _homes(self, keys: U8s) -> I8s:
        return ((keys * np.uint64(self._odd)) >> np.uint64(self._shift)).astype(np.int64)

    def add(self, row: int) -> None:
        """Put in a row. Its key must not be in the index yet."""
        if 5 * (self._rows + 1) > 4 * len(self._places):
            self.add_many(np.array([row]))
            return
        self._rows += 1
        places, mask = self._places, self._mask
        at = (self._keys[row] * self._odd & _WORD) >> self._shift
        while places[at] != NONE:
            at = (at + 1) & mask
        places[at] = row

    def add_many(self, rows: I8s) -> None:
        """As `add`, for many rows, whose keys must differ from one another too. If there are too few places, the table
        grows and every row finds a new place, by numpy, so that no pause shows."""
        self._rows += len(rows)
        if 5 * self._rows > 4 * len(self._places):
            old = view(self._places)
            rows = np.concatenate([old[old != NONE], rows])
            del old
            self._clear((5 * self._rows // 4).bit_length())
        places, at = view(self._places), self._homes(view(self._keys)[rows])
        while len(rows):  # each takes its place if it is free; of those that want the same one, the last
            free = places[at] == NONE
            places[at[free]] = rows[free]
            left = places[at] != rows
            rows, at = rows[left], (at[left] + 1) & self._mask

    def remove(self, row: int) -> None:
        """Take out a row that is in the index; rows behind it that it kept from their own place move up."""
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

    def remove_many(self, rows: I8s) -> None:
        """As `remove`, for many rows, which must differ. Where they are a large share, all other rows find their places
        again, by numpy."""
        if len(rows) * REBUILD_SHARE < self._rows:
            for row in rows.tolist():
                self.remove(row)
            return
        places = view(self._places)
        there = places[places != NONE].astype(np.int64)
        gone = np.zeros(len(self._keys), np.bool_)
        gone[rows] = True
        left = there[~gone[there]]
        del places
        self._places, self._rows = array("i", [NONE]) * len(self._places), 0
        self.add_many(left)
