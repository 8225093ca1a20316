"""BEAST (Budget Enforcement with Anti-Spam Tactics): which queue a URL waits in, by arithmetic on its site's record.

URLs over budget are never discarded, they are delayed. Queues are numbered 1, 2, 3, … for the whole crawl; rotation
drains them in order and `current` is the last one drained. A site has at most `budget` URLs in a queue: its next ones
fill queue `tail` (which holds `count` of them), then the one after, up to queue current + j; what finds no place goes
to QF, which is read again when the cycle ends. A queue number is a column of a row, not a file, so a million queues
cost what one does. Here are the rules as pure functions of arrays and the kernel that applies them in a merge; what
is kept where is in sites.py.

Of the public code (JIRLbot) nothing is copied: there a budget is never used up, and QF is never read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from budgets.star import WITHOUT_LIMIT, Histogram, Ints, Star
from drum import Batch, Bucket, Result

RECORD = {
    "in_degree": "u4",  # distinct other sites with a link to this one
    "tail": "u8",  # the queue its last placed URL went to; 0 before the first
    "count": "u4",  # its URLs placed in that queue
    "deferred": "u8",  # f: its URLs in QF
    "placed": "u8",  # its URLs placed in queues since the crawl began
}
"""What is stored per site. Key: name_key(registrable domain)."""

IN_DEGREE, REREAD, PLACE = range(3)
"""What an item asks of the record, in the order in which a merge applies them: count one more site that links here,
place a URL of QF again, place a new URL."""

DEFER = 0
EXCLUDE = np.iinfo(np.uint64).max
"""The `queue` of a row that goes to QF, and of one that its site's quota keeps out."""

SLOTS = 1 << 10
"""Parts of a queue, drained one after the other: a label is queue * SLOTS + slot."""

GOLDEN = np.uint64(0x9E3779B97F4A7C15)

SPAN_FIRST = 2
"""j of the first cycle, which ends when queue 2 has been drained."""

SPAN_MAX = 1 << 32
"""j never exceeds this: with budgets up to 2**30 every product stays in 63 bits."""


def opened(tail: Ints, count: Ints, current: int) -> tuple[Ints, Ints]:
    """(tail, count) as the next URL finds them: a queue that has been drained is over, the one after it is empty."""
    drained = tail <= current
    return np.where(drained, current + 1, tail), np.where(drained, 0, count)


def places(tail: Ints, count: Ints, budget: Ints, reach: int) -> Ints:
    """How many URLs of each site find a place in the queues up to `reach`; (tail, count) as `opened` returns them."""
    free: Ints = np.maximum(budget - count, 0) + (reach - tail) * budget
    return np.maximum(free, 0)


def queue_of(rank: Ints, tail: Ints, count: Ints, budget: Ints) -> Ints:
    """The queue of a site's rank-th next URL (0 is the next). A budget that sank below count leaves tail as it is."""
    beyond = rank - np.maximum(budget - count, 0)
    return np.where(beyond < 0, tail, tail + 1 + beyond // budget)


def filled(tail: Ints, count: Ints, budget: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """(tail, count) once `rows` > 0 more URLs have been placed."""
    last = queue_of(rows - 1, tail, count, budget)
    beyond = rows - 1 - np.maximum(budget - count, 0)
    return last, np.where(last == tail, count + rows, beyond % budget + 1)


def fill_of(rank: Ints, count: Ints, budget: Ints) -> Ints:
    """How many URLs of its site are in its queue before the site's rank-th next one."""
    room = np.maximum(budget - count, 0)
    return np.where(rank < room, count + rank, (rank - room) % budget)


def slot_of(sites: npt.NDArray[np.uint64], fill: Ints, budget: Ints) -> Ints:
    """The part of its queue in which a URL stands: the URLs of each site evenly over the queue, from a place of the
    site's own, so that every part holds of each site what its budget is a share of, and no site is first in all.
    Without budgets, at random."""
    if len(budget) and budget[0] == WITHOUT_LIMIT:
        drawn = (sites ^ (fill.astype(np.uint64) + np.uint64(1)) * GOLDEN) * GOLDEN
        return (drawn >> np.uint64(65 - SLOTS.bit_length())).astype(np.int64)
    start = (sites >> np.uint64(40)).astype(np.int64) * SLOTS // budget >> 24
    return np.minimum(start + fill * SLOTS // budget, SLOTS - 1)


class Widening:
    """How far j must grow so that re-reading QF places at least half of it.

    j doubles, and again while sum(min(f, places(j))) < sum(f) / 2 over the records of the bucket. With that, of the
    URLs of a re-read at least half never return to QF, so there are at most 2 re-reads per URL discovered, in whatever
    order URLs arrive. Records are streamed through `add`.
    """

    def __init__(self, current: int, span: int) -> None:
        self._current = current
        self._spans = [min(span << step, SPAN_MAX) for step in range(1, 50)]
        self._fits = np.zeros(len(self._spans), np.int64)
        self.deferred = 0

    def add(self, tail: Ints, count: Ints, budget: Ints, deferred: Ints) -> None:
        """The records of some sites: i8[n] each."""
        tail, count = opened(tail, count, self._current)
        total = int(deferred.sum())
        self.deferred += total
        for index, span in enumerate(self._spans):
            fits = int(np.minimum(deferred, places(tail, count, budget, self._current + span)).sum())
            if fits == total:  # and so in all wider spans
                self._fits[index:] += total
                return
            self._fits[index] += fits

    def span(self) -> int:
        """The new j."""
        return self._spans[int(np.argmax(2 * self._fits >= self.deferred))]


def drain_to(labels: npt.NDArray[Any], rows: npt.NDArray[Any], rows_wanted: int, stop: int) -> int | None:
    """The first label up to which there are `rows_wanted` rows, or None when there are fewer up to `stop`.

    labels: those that have rows, rising; rows: how many each has.
    """
    through = int(np.searchsorted(np.cumsum(rows), rows_wanted))
    return int(labels[through]) if through < len(labels) and int(labels[through]) <= stop else None


@dataclass(frozen=True)
class Quotas:
    """How many URLs of a site may ever be queued: `general` (0: no limit), and other numbers for single sites."""

    general: int = 0
    single: dict[int, int] = field(default_factory=dict)

    def of(self, sites: npt.NDArray[np.uint64]) -> Ints:
        """The quota of each site: i8[n], a number beyond reach where there is none."""
        quota = np.full(len(sites), self.general, np.int64)
        if self.single:
            keys = np.array(sorted(self.single), np.uint64)
            values = np.array([self.single[int(key)] for key in keys], np.int64)
            at = np.minimum(np.searchsorted(keys, sites), len(keys) - 1)
            quota = np.where(keys[at] == sites, values[at], quota)
        return np.where(quota == 0, np.iinfo(np.int64).max, quota)


class Placement:
    """The kernel: in-degrees first, then the URLs of QF, then new ones, each in its order within the site. Its column
    `queue` is a label: the queue and the part of it.

    star: the budgets of this merge. current: the last queue drained. records: for the merge at the end of a cycle, in
    which QF comes back: a bucket's records ascending. It keeps `j` and `cycle_end` in the bucket's `extra`, and counts
    what it did: `lookups` (URLs of either kind), `rereads` among them, `excluded`, and `change`, what it did to the
    histogram of in-degrees.
    """

    columns: Sequence[str] = ()

    def __init__(
        self, star: Star, current: int, quotas: Quotas, records: Callable[[Bucket], Iterator[Batch]] | None = None
    ) -> None:
        self._star = star
        self._current = current
        self._quotas = quotas
        self._records = records
        self._reach = current + SPAN_FIRST
        self.lookups = 0
        self.rereads = 0
        self.excluded = 0
        self.change = Histogram()

    def begin(self, bucket: Bucket) -> None:
        """End the cycles that are over: j grows, and with it how far ahead the bucket's sites may queue."""
        j, end = bucket.extra.get("j", SPAN_FIRST), bucket.extra.get("cycle_end", SPAN_FIRST)
        while end < self._current:  # rotation went past it, so nothing of the bucket was in QF
            j = min(2 * j, SPAN_MAX)
            end += j
        if end == self._current and self._records is not None:
            j = self._widened(bucket, j)
            end += j
        bucket.extra = {**bucket.extra, "j": j, "cycle_end": end}
        self._reach = self._current + j

    def _widened(self, bucket: Bucket, j: int) -> int:
        assert self._records is not None
        widening = Widening(self._current, j)
        for batch in self._records(bucket):
            found = batch.filter(batch["deferred"] > 0)
            degree, tail, count, deferred, _ = (found[name].astype(np.int64) for name in RECORD)
            widening.add(tail, count, self._star.budgets(degree), deferred)
        return widening.span()

    def __call__(self, found: npt.NDArray[np.bool_], stored: Batch, items: Batch, starts: Ints) -> Result:
        op, firsts = items["op"], starts[:-1]
        if not len(op):
            return Result(stored, np.zeros(0, bool), np.zeros(0, bool), {"queue": np.zeros(0, np.uint64)})
        links, again, new = (np.add.reduceat(op == kind, firsts, dtype=np.int64) for kind in (IN_DEGREE, REREAD, PLACE))
        degree, tail0, count0, deferred, placed = (stored[name].astype(np.int64) for name in RECORD)
        if (deferred < again).any():
            raise ValueError("more URLs of a site came back from QF than its record says were there")
        budget = self._star.budgets(degree + links)
        tail, count = opened(tail0, count0, self._current)

        # The quota: URLs placed already come first, then what QF holds, then what is new.
        quota = self._quotas.of(items["key"][firsts])
        again_in = np.clip(quota - placed, 0, again)
        new_in = np.clip(quota - placed - (deferred - again) - again_in, 0, new)
        fits = np.minimum(again_in + new_in, places(tail, count, budget, self._reach))

        # Every item: its rank among the URLs of its site, then among those of them that the quota lets in.
        group = np.repeat(np.arange(len(firsts)), np.diff(starts))
        rank = np.arange(len(op)) - (firsts + links)[group]
        is_new = op == PLACE
        inside = rank < np.where(is_new, (again + new_in)[group], again_in[group])
        rank -= np.where(is_new, (again - again_in)[group], 0)
        sites, count_, budget_ = items["key"], count[group], budget[group]
        slot = slot_of(sites, fill_of(rank, count_, budget_), budget_)
        queue = (queue_of(rank, tail[group], count_, budget_) * SLOTS + slot).astype(np.uint64)
        queue[rank >= fits[group]] = DEFER
        queue[~inside] = EXCLUDE

        moved = fits > 0
        after, fill = filled(tail, count, budget, np.maximum(fits, 1))
        values = {
            "in_degree": degree + links,
            "tail": np.where(moved, after, tail0),
            "count": np.where(moved, fill, count0),
            "deferred": deferred - again + again_in + new_in - fits,
            "placed": placed + fits,
        }
        self._count(degree, degree + links, again, new)
        self.excluded += int((again + new - again_in - new_in).sum())
        record = Batch({name: values[name].astype(RECORD[name]) for name in RECORD})
        write = (links > 0) | moved | (values["deferred"] != deferred)
        return Result(record, write, op != IN_DEGREE, {"queue": queue})

    def _count(self, before: Ints, after: Ints, again: Ints, new: Ints) -> None:
        self.rereads += int(again.sum())
        self.lookups += int(again.sum() + new.sum())
        grown = after > before
        self.change.change(before[grown], after[grown])
