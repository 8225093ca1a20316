"""Pages that change: when a page changed last before a moment, as a pure function of seed, page and time.

Nothing is stored. Each page has a clock of its own in which changes come at a rate of 1; that clock is cut into cells
of fixed length, and a hash of seed, page and cell says how many changes a cell has, and where. So the last change
before a moment is found by looking at a few cells, at any moment, in any order.

    poisson    a cell of length 1 has Poisson(1) changes, at hashed places: exactly a Poisson process
    periodic   one change a cell, always at the page's phase
    bursty     a cell of length 8 has Poisson(1) bursts of 8 changes within a hundredth of it
    weekday    poisson, in a clock that runs on working days from 8 to 18 only
    never      none
    switching  poisson, in a clock that runs ten times as fast, or a tenth, from a hashed day on
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

F8 = NDArray[np.float64]
NEVER = -np.inf
BURST = 8
_CELLS_MAX = 64  # looked at; exp(-64) of all pages have nothing in so many
_COUNTS = np.cumsum([np.exp(-1) / np.prod(np.arange(1.0, k + 1)) for k in range(12)])
_WEEK, _OPEN, _CLOSE, _WORK_DAYS = 7.0, 8 / 24, 18 / 24, 5
SWITCH = 10.0


class Kind(IntEnum):
    POISSON = 0
    PERIODIC = 1
    BURSTY = 2
    WEEKDAY = 3
    NEVER = 4
    SWITCHING = 5


@dataclass(frozen=True)
class Changes:
    """kind: Kind (u1); rate: mean changes a day (f8); switch: day on which a SWITCHING page becomes another (f8). A row
    for each page, and pages are numbered by them. Times are days from 0 on; before that nothing changed."""

    seed: int
    kind: NDArray[np.uint8]
    rate: F8
    switch: F8

    def last(self, pages: NDArray[np.int64], days: F8) -> F8:
        """The time of the last change of each page up to a moment; NEVER if there was none."""
        kind, rate = self.kind[pages], self.rate[pages]
        now = self._own(pages, days)
        length = np.where(kind == Kind.BURSTY, float(BURST), 1.0)
        found = np.full(len(pages), NEVER)
        left = np.flatnonzero((kind != Kind.NEVER) & (rate > 0) & (now > 0))
        cell = np.floor(now / length)
        for back in range(_CELLS_MAX):
            if not len(left):
                break
            at = cell[left] - back
            last = self._last_in(pages[left], kind[left], at, (now[left] - at * length[left]) / length[left])
            hit = (at >= 0) & (last >= 0)
            found[left[hit]] = (at[hit] + last[hit]) * length[left[hit]]
            left = left[~hit & (at > 0)]
        some = np.isfinite(found)
        found[some] = self._unix(pages[some], found[some])
        return found

    def _last_in(self, pages: NDArray[np.int64], kind: NDArray[np.uint8], cell: F8, until: F8) -> F8:
        """The place (0 to 1) of the last change in a cell of each page that is no later than `until`; -1: none."""
        number = cell.astype(np.int64).astype(np.uint64)
        count = np.searchsorted(_COUNTS, self._draw(pages, number, 0))
        periodic = kind == Kind.PERIODIC
        count[periodic] = 1
        number = np.where(periodic, np.uint64(0), number)
        place = np.full(len(pages), -1.0)
        for change in range(int(count.max(initial=0))):
            where = self._draw(pages, number, 1 + change)
            if (bursty := kind == Kind.BURSTY).any():  # the last change of the burst that is over, or goes on
                passed = np.floor(np.clip((until - where) / (0.01 / BURST), -1, BURST - 1))
                where = np.where(bursty, np.where(passed >= 0, where + passed * 0.01 / BURST, 2.0), where)
            place = np.where((change < count) & (where <= until), np.maximum(place, where), place)
        return place

    def _draw(self, pages: NDArray[np.int64], cell: NDArray[np.uint64], salt: int) -> F8:
        """In [0, 1)."""
        with np.errstate(over="ignore"):
            mixed = (pages.astype(np.uint64) + np.uint64(self.seed << 40)) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= (cell * np.uint64(64) + np.uint64(salt)) * np.uint64(0xD1342543DE82EF95)
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) / 2**53

    # -- the clock of a page: expected changes up to a day, and back ---------------------------------------------------

    def _own(self, pages: NDArray[np.int64], days: F8) -> F8:
        kind, switch = self.kind[pages], self.switch[pages]
        own = np.where(kind == Kind.WEEKDAY, _worked(days), days)
        faster = self._faster(pages)
        switched = np.minimum(days, switch) + np.maximum(days - switch, 0.0) * faster
        return np.where(kind == Kind.SWITCHING, switched, own) * self.rate[pages]

    def _unix(self, pages: NDArray[np.int64], own: F8) -> F8:
        kind, switch = self.kind[pages], self.switch[pages]
        own = own / self.rate[pages]
        switched = np.minimum(own, switch) + np.maximum(own - switch, 0.0) / self._faster(pages)
        days = np.where(kind == Kind.WEEKDAY, _unworked(own), own)
        return np.where(kind == Kind.SWITCHING, switched, days)

    def _faster(self, pages: NDArray[np.int64]) -> F8:
        return np.where(self._draw(pages, np.zeros(len(pages), np.uint64), 63) < 0.5, SWITCH, 1 / SWITCH)


_DAY = _CLOSE - _OPEN
_SCALE = _WEEK / (_WORK_DAYS * _DAY)  # days of a worked day, so that mean rates are the same


def _worked(days: F8) -> F8:
    """Time at work up to a day, as long on average as the time itself."""
    week, rest = np.divmod(days, _WEEK)
    full = np.minimum(np.floor(rest), _WORK_DAYS)
    part = np.where(rest < _WORK_DAYS, np.clip(np.mod(rest, 1.0) - _OPEN, 0, _DAY), 0.0)
    return (week * _WORK_DAYS * _DAY + full * _DAY + part) * _SCALE


def _unworked(worked: F8) -> F8:
    """The day at which so much was worked."""
    total = worked / _SCALE
    week, rest = np.divmod(total, _WORK_DAYS * _DAY)
    day, part = np.divmod(rest, _DAY)
    return week * _WEEK + day + _OPEN + part
