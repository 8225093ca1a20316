"""The line of clocks: `DueLine` knows when each comes due, `ReadyLine` which of those that are due goes next.

Of these the best goes first, but no other waits much longer. Each number comes with a worth, a class from 0 (best) to
CLASSES - 1. Some hundred at a time are planned: the n-th by worth stands at place 2 n, the n-th by age at place 2 n +
1, and a number that stands twice goes at the first of its places. So every other place is that of the number that has
waited longest, and a number that finds p others in line goes after at most 2 p + PLAN of them, whatever comes later;
where all are worth the same, after p, as in any queue.

A plan is kept until it is used up. So whether numbers are taken one by one or by the hundred they come in one order,
and finding it costs a fraction of a microsecond each.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import chain

import numpy as np

from irlcrawl.frontier.politeness.columns import NONE, I8s, view

CLASSES = 4
ORDINARY = 2
PLAN = 256
"""Numbers planned at a time, at most: an even number. So many may go before a better one that just came."""
FEW = 32
"""So many are put in order faster without numpy."""


_NUMBER_BITS = 32
_NUMBER_MASK = (1 << _NUMBER_BITS) - 1


class ReadyLine:
    """Numbers are held with their arrival in the high bits, 8 bytes each."""

    def __init__(self, plan: int = PLAN) -> None:
        self._most = plan
        self._plan = array("q")
        self._at = 0  # of it, the next
        self._waiting = tuple(array("q") for _ in range(CLASSES))  # by worth, in order of arrival, from _head on
        self._head = [0] * CLASSES
        self._filled = 0  # a bit for each worth of which some wait
        self._arrivals = 0

    def push(self, number: int, worth: int) -> None:
        """One more is due; it is not in the line."""
        self._arrivals += 1 << _NUMBER_BITS
        self._waiting[worth].append(self._arrivals | number)
        self._filled |= 1 << worth

    def push_many(self, numbers: Iterable[int], worths: Iterable[int]) -> None:
        """As `push`, one after the other."""
        for number, worth in zip(numbers, worths, strict=True):
            self.push(number, worth)

    def next(self, count: int) -> I8s:
        """The next `count`, or fewer: as many as are planned. They stay in the line. Empty only if the line is."""
        if self._at == len(self._plan):
            self._make_plan()
        return np.array(self._plan[self._at : self._at + count], np.int64) & _NUMBER_MASK

    def skip(self, count: int) -> None:
        """Take out the first `count` that `next` gave."""
        self._at += count

    def first(self) -> int:
        """The next one, which stays in the line; NONE if there is none."""
        if self._at == len(self._plan):
            if not self._filled:
                return NONE
            self._make_plan()
        return self._plan[self._at] & _NUMBER_MASK

    def pop(self) -> int:
        """Take out the next one; NONE if there is none."""
        at = self._at
        if at == len(self._plan):
            if not self._filled:
                return NONE
            self._make_plan()
            at = 0
        self._at = at + 1
        return self._plan[at] & _NUMBER_MASK

    def __iter__(self) -> Iterator[int]:
        """All numbers in the line, in no order."""
        parts = (self._plan[self._at :], *(some[head:] for some, head in zip(self._waiting, self._head, strict=True)))
        return (one & _NUMBER_MASK for one in chain(*parts))

    def prune(self, gone: Callable[[int], bool]) -> None:
        """Take out all numbers for which gone(number) is true; the others keep their order. O(n)."""

        def kept(some: array[int]) -> array[int]:
            return array("q", (one for one in some if not gone(one & _NUMBER_MASK)))

        self._plan, self._at = kept(self._plan[self._at :]), 0
        self._waiting = tuple(kept(some[head:]) for some, head in zip(self._waiting, self._head, strict=True))
        self._head = [0] * CLASSES
        self._filled = sum(1 << worth for worth, some in enumerate(self._waiting) if some)

    def _make_plan(self) -> None:
        filled, self._at = self._filled, 0
        if filled & (filled - 1):
            self._plan = self._in_order([worth for worth in range(CLASSES) if filled >> worth & 1])
        elif filled:  # all are worth the same
            self._plan = self._take(filled.bit_length() - 1, self._most)
        else:
            self._plan = array("q")

    def _in_order(self, worths: list[int]) -> array[int]:
        """Of each worth the first ones suffice: those go in order of arrival, by worth and by age."""
        some, ends = array("q"), [0]
        for worth in worths:
            head = self._head[worth]
            some += self._waiting[worth][head : head + self._most]
            ends.append(len(some))
        if len(some) <= FEW:
            age = {one: place for place, one in enumerate(sorted(some))}
            place = [min(2 * at, 2 * age[one] + 1) for at, one in enumerate(some)]
            order = sorted(range(len(some)), key=place.__getitem__)[: self._most]
        else:
            by_worth = np.arange(len(some))
            by_age = np.empty_like(by_worth)
            by_age[np.argsort(view(some))] = by_worth
            order = np.argsort(np.minimum(2 * by_worth, 2 * by_age + 1))[: self._most].tolist()
        counts = np.bincount(np.searchsorted(ends, order, side="right") - 1, minlength=len(worths)).tolist()
        for worth, count in zip(worths, counts, strict=True):  # of each worth those that came first
            self._take(worth, count)
        return array("q", (some[at] for at in order))

    def _take(self, worth: int, count: int) -> array[int]:
        """The first `count` of those worth so much, or all of them."""
        head, some = self._head[worth], self._waiting[worth]
        taken = some[head : head + count]
        head += len(taken)
        if head == len(some) or (head > 1024 and head > len(some) >> 1):
            del some[:head]
            head = 0
            if not some:
                self._filled &= ~(1 << worth)
        self._head[worth] = head
        return taken


class DueLine:
    """Numbers in the order in which they come due, some 5 bytes each. There are three parts: the line of those that are
    due (8 bytes each), a heap of those that come due within the current tick, and a bucket per tick for later ones."""

    TICKS_PER_S = 8
    DUE_MAX = 1e15
    """Unix seconds; whatever is due later than this is never."""

    def __init__(self, dues: array[float], worth_of: Callable[[int], int] = lambda number: ORDINARY) -> None:
        """`dues[number]` is when the number is due, in unix seconds; it may move to a later time while the number is in
        the line. worth_of(number): asked when it comes due."""
        self._dues = dues
        self._worth_of = worth_of
        self._ready = ReadyLine()
        self._near: list[tuple[float, int]] = []
        self._tick = 0  # the last one that is in _near
        self._later: dict[int, array[int]] = {}
        self._ticks: list[int] = []  # heap of the keys of _later

    def push(self, number: int, now: float) -> None:
        """Put in a number that is not in the line. One that is due already goes behind all that came due before."""
        if self._dues[number] <= now:
            self.come_due(now)  # those before it, unnoticed yet
            self._ready.push(number, self._worth_of(number))
        else:
            self._file(number)

    def push_many(self, numbers: I8s, now: float) -> None:
        """As `push`, for many numbers, one after the other."""
        due = view(self._dues)[numbers] <= now
        if due.any():
            self.come_due(now)
            ready = numbers[due].tolist()
            self._ready.push_many(ready, map(self._worth_of, ready))
        for number in numbers[~due].tolist():
            self._file(number)

    def ready(self, now: float, count: int) -> I8s:
        """The first `count` numbers that are due, in their order, or fewer; none only if none is."""
        self.come_due(now)
        return self._ready.next(count)

    def skip(self, count: int) -> None:
        """Take out the first `count` numbers that `ready` gave."""
        self._ready.skip(count)

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
        """The next bucket goes into the heap."""
        self._tick = heappop(self._ticks)
        for number in self._later.pop(self._tick):
            self._file(number)

    def come_due(self, now: float) -> None:
        """What is due by now is worth what it is worth now, whatever comes to it later."""
        while self._ticks and self._ticks[0] <= now * self.TICKS_PER_S:
            self._load()
        near = self._near
        while near and near[0][0] <= now:
            number = heappop(near)[1]
            self._ready.push(number, self._worth_of(number))

    def pop(self, now: float) -> int:
        """Take out the first number that is due and return it; NONE if none is."""
        self.come_due(now)
        return self._ready.pop()

    def first(self, now: float) -> tuple[float, int] | None:
        """(when the first number is due, the number); the time is `now` if it is due already. None if the line is
        empty. `pop` then gives this number, or another that is due at the same time."""
        self.come_due(now)
        if (ready := self._ready.first()) != NONE:
            return now, ready
        while not self._near and self._ticks:
            self._load()
        return self._near[0] if self._near else None

    def prune(self, gone: Callable[[int], bool]) -> list[int]:
        """Take out all numbers for which gone(number) is true, and return them; the others keep their order. O(n)."""
        every = chain(self._ready, (number for _, number in self._near), *self._later.values())
        numbers = [number for number in every if gone(number)]
        self._ready.prune(gone)
        self._near = [(due, number) for due, number in self._near if not gone(number)]
        heapify(self._near)
        kept = ((tick, array("i", (n for n in bucket if not gone(n)))) for tick, bucket in self._later.items())
        self._later = {tick: bucket for tick, bucket in kept if bucket}
        self._ticks = sorted(self._later)  # a sorted list is a heap
        return numbers

    def due(self, by: float) -> Iterator[int]:
        """The numbers that are due by then, in no order."""
        yield from self._ready
        yield from (number for due, number in self._near if due <= by)
        for tick in self._ticks:
            if tick <= by * self.TICKS_PER_S:
                yield from (number for number in self._later[tick] if self._dues[number] <= by)
