"""The table of clocks that the crawls on a machine share: 2^15 buckets of 15 cells, and what may be written into one.

A clock is looked for in one bucket alone, which its key names, so that one read and one write of a few hundred bytes
deal with it. The cell keeps its key, so that clocks do not delay one another and can be set to an earlier time, as in a
sketch of maxima (Coarse in clocks.py) they cannot. A cell that is due is free for another clock. A bucket full
of clocks that are not due forgets the one that is due first; until then no clock that the bucket does not know is due:
it can only delay. With 200,000 clocks that are not due, of those it does not know 1 in 1,700 is late for that; by a
sketch of 16 MiB it would be 1 in 65.

Bytes of a bucket, little endian: 15 u8 keys (0: free), 15 cells (f8 due, f4 gap, f4 wanted_gap, u4 member, u4 wanted),
f8 overflow. Times are seconds since boot, which all processes of a machine have in common; gaps are seconds.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np

from irlcrawl.frontier.politeness.columns import NONE

BUCKETS = 1 << 15
CELLS = 15
_KEYS = struct.Struct(f"<{CELLS}Q")
_KEY = struct.Struct("<Q")
_CELL = struct.Struct("<dffII")
_F4 = struct.Struct("<f")
_DUE = struct.Struct("<d")
_OVERFLOW_AT = _KEYS.size + CELLS * _CELL.size
BUCKET_BYTES = _OVERFLOW_AT + _DUE.size

HELD = 1 << 31
"""Bit of `member`: a visit of the member is out."""
FAR_S = 40 * 86_400.0
"""No clock is due later than this from now: a cell that says so is damaged, and counts as due."""
_WORD = (1 << 64) - 1
_KINDS = (0, 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
_ROUNDED = 2e-7
"""An f4 is at most this share of its value off."""


_TABLE = np.dtype([
    ("key", "<u8", CELLS),
    ("cell", [("due", "<f8"), ("gap", "<f4"), ("wanted_gap", "<f4"), ("member", "<u4"), ("wanted", "<u4")], CELLS),
    ("overflow", "<f8"),
])  # fmt: skip


class Cell(NamedTuple):
    """member: the crawl that used the clock last. With HELD, a visit of it may be out until `due`, which is the latest
    end such a visit can have and a gap, and `gap` is what its crawl promised. Without, the clock is due at `due`, a
    `gap` after the last exchange ended. wanted: the crawl that is next, if it comes in time; wanted_gap: its gap."""

    due: float
    gap: float
    wanted_gap: float
    member: int
    wanted: int

    @property
    def ended(self) -> float:
        """When the last exchange ended, or can end at the latest."""
        return self.due - self.gap


NOTHING = Cell(0.0, 0.0, 0.0, 0, 0)
"""What is known of a clock that nobody used, or whose cell is damaged."""


def key_of(kind: int, key: int) -> int:
    """The key of a clock in the table: a name and an address may be the same text. Never 0."""
    return (key + _KINDS[kind]) & _WORD or 1


def bucket_of(key: int) -> int:
    return key & (BUCKETS - 1)


def find(bucket: bytearray, key: int) -> int:
    """The cell of a key, or NONE."""
    keys = _KEYS.unpack_from(bucket)
    return keys.index(key) if key in keys else NONE


def get(bucket: bytearray, at: int, now: float) -> Cell:
    cell = Cell._make(_CELL.unpack_from(bucket, _KEYS.size + at * _CELL.size))
    if cell.due <= now + FAR_S and 0.0 <= cell.gap <= 2 * FAR_S and 0.0 <= cell.wanted_gap <= 2 * FAR_S:
        return cell
    return NOTHING


def put(bucket: bytearray, at: int, cell: Cell) -> None:
    gap = _rounded(min(cell.gap, FAR_S), up=cell.member & HELD > 0)  # towards a longer wait
    _CELL.pack_into(bucket, _KEYS.size + at * _CELL.size, cell.due, gap, cell.wanted_gap, cell.member, cell.wanted)


def _rounded(gap: float, up: bool) -> float:
    """What an f4 holds as it is, which is `gap` if that is such a number: a cell may be written again and again."""
    (near,) = _F4.unpack(_F4.pack(gap))
    return float(near) if near == gap or (near > gap) is up else gap * (1 + _ROUNDED if up else 1 - _ROUNDED)


def make(bucket: bytearray, key: int, cell: Cell, now: float) -> int:
    """Put in a clock that is not in its bucket; where it came to stand."""
    keys = _KEYS.unpack_from(bucket)
    if 0 in keys:
        at = keys.index(0)
    else:
        cells = [get(bucket, at, now) for at in range(CELLS)]
        at = min(range(CELLS), key=lambda at: (cells[at].due > now and cells[at].member & HELD, cells[at].due))
        if cells[at].due > now:
            _DUE.pack_into(bucket, _OVERFLOW_AT, max(cells[at].due, overflow(bucket, now)))
    _KEY.pack_into(bucket, at * _KEY.size, key)
    put(bucket, at, cell)
    return at


def overflow(bucket: bytearray, now: float) -> float:
    """Until when clocks that are not in the bucket may have been forgotten; in the past: none was."""
    (due,) = _DUE.unpack_from(bucket, _OVERFLOW_AT)
    return due if due <= now + FAR_S else 0.0


def waiting(buckets: bytes, now: float, gone: float) -> dict[int, Cell]:
    """The clocks in whole buckets that are not due, by their keys; those that a visit held are due a gap after `gone`,
    when all crawls were."""
    table = np.frombuffer(buckets, _TABLE)
    rows = table["cell"].ravel()
    keys, due = table["key"].ravel(), rows["due"].copy()
    held = rows["member"] & HELD > 0
    due[held] = np.minimum(due[held], gone + rows["gap"][held])
    some = np.flatnonzero((due > now) & (due <= now + FAR_S) & (rows["gap"] >= 0) & (rows["gap"] <= 2 * FAR_S))
    found = {}
    for at in some.tolist():  # few: what crawls left that ended a moment ago
        cell = Cell._make(rows[at].tolist())
        found[int(keys[at])] = cell._replace(due=float(due[at]), member=cell.member & ~HELD)
    return found
