"""BEAST (Budget Enforcement with Anti-Spam Tactics): which queue a URL waits in, by arithmetic on its site's record.

URLs over budget are never discarded, they are delayed. Queues are numbered 1, 2, 3, … for the whole crawl; rotation
drains them in order, part by part, and `current` is the one it is in. A site has at most `budget` URLs in a queue: its
next ones fill queue `tail` (which holds `count` of them), then the one after, up to queue current + j; what finds no
place goes to QF, which is read again when the cycle ends. A queue number is a column of a row, not a file, so a
million queues cost what one does. Here are the rules as pure functions of arrays and the kernel that applies them in a
merge; what is kept where is in sites.py.

Of the public code (JIRLbot) nothing is copied: there a budget is never used up, and QF is never read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from drum import Batch, Bucket, Result
from drum.kernels import group_starts, sort_keys

import numpy as np
import numpy.typing as npt

from budgets.star import WITHOUT_LIMIT, Histogram, Ints, Star
from budgets.worth import IN_DEGREE_ALONE, Worth

RECORD = {
    "in_degree": "u4",  # distinct other sites with a link to this one
    "tail": "u8",  # the queue its last placed URL went to; 0 before the first
    "count": "u4",  # its URLs placed in that queue
    "deferred": "u8",  # f: its URLs in QF
    "placed": "u8",  # its URLs placed in queues since the crawl began
    "asked": "u4",  # its URLs that were fetched, or could not be
    "novel": "u4",  # of these, successful pages with content nobody had before
    "seeds": "u1",  # 1: a URL of it is a seed
}
"""What is stored per site. Key: name_key(registrable domain)."""

IN_DEGREE, REREAD, PLACE, YIELD = range(4)
"""What an item asks of the record: count one more site that links here, place a URL of QF again, place a new URL, count
what a fetch brought. Counts come first, whatever their number."""

ORDER = ("priority", "source")
"""Columns of URLs that decide who of a site goes first and which site has a seed; rows may be without them."""

LEVEL_SHIFT = 3
STEPS_MAX = 4
STEP_BITS = 2
"""The level of a URL is priority >> LEVEL_SHIFT. Of the places a merge gives a site, each level that the site has there
gets 2**STEP_BITS times as many as the next, those STEPS_MAX below the first as many as one another: none starves. A URL
keeps its place once it has one, whatever comes later."""

ENTRY_PRIORITY = 7
"""URLs with a lower priority are a site's entries: seeds and home pages. They go before its other URLs."""

LEVEL_BITS = 8 - LEVEL_SHIFT

SEED = 0
"""The `source` of a seed."""

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


@dataclass(frozen=True)
class Position:
    """How far rotation is: queue `current` has been drained through part `slot`; SLOTS - 1: to its end."""

    current: int
    slot: int

    @property
    def label(self) -> int:
        return self.current * SLOTS + self.slot


def opened(
    sites: npt.NDArray[np.uint64], tail: Ints, count: Ints, budget: Ints, position: Position
) -> tuple[Ints, Ints]:
    """(tail, count) as the next URL finds them: a queue that has been drained is over, and of the one that is being
    drained a site has what lies ahead, as if it had used its budget so far."""
    behind = (position.slot + 1 - start_of(sites, budget)) * budget
    missed = np.clip(np.where(budget == WITHOUT_LIMIT, budget, -(-behind // SLOTS)), 0, budget)
    now = tail <= position.current
    held = np.where(tail == position.current, np.maximum(count, missed), missed)
    return np.where(now, position.current, tail), np.where(now, held, count)


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


def start_of(sites: npt.NDArray[np.uint64], budget: Ints) -> Ints:
    """Where in a queue a site's first URL stands: so that not all sites begin with the queue, somewhere in the first
    budget-th of it."""
    return (sites >> np.uint64(40)).astype(np.int64) * SLOTS // budget >> 24


def slot_of(sites: npt.NDArray[np.uint64], fill: Ints, budget: Ints) -> Ints:
    """The part of its queue in which a URL stands: the URLs of each site evenly over the queue, so that every part
    holds of each site what its budget is a share of. Of sites without a budget, at random."""
    evenly: Ints = np.minimum(start_of(sites, budget) + fill * SLOTS // budget, SLOTS - 1)
    free = budget == WITHOUT_LIMIT
    if not free.any():
        return evenly
    drawn = (sites ^ (fill.astype(np.uint64) + np.uint64(1)) * GOLDEN) * GOLDEN
    return np.where(free, (drawn >> np.uint64(65 - SLOTS.bit_length())).astype(np.int64), evenly)


def nearer(slot: Ints, queue: Ints, nearness: Ints, position: Position) -> Ints:
    """The parts in which URLs stand that are so many times nearer than they would be: to what rotation drains next, or
    in a later queue to its beginning."""
    here = np.where(queue == position.current, np.minimum(position.slot + 1, slot), 0)
    moved: Ints = here + (slot - here) // nearness
    return moved


class Widening:
    """How far j must grow so that re-reading QF places at least half of it.

    j doubles, and again while sum(min(f, places(j))) < sum(f) / 2 over the records of the bucket. With that, of the
    URLs of a re-read at least half never return to QF, so there are at most 2 re-reads per URL discovered, in whatever
    order URLs arrive. Records are streamed through `add`.
    """

    def __init__(self, position: Position, span: int) -> None:
        self._position = position
        self._spans = [min(span << step, SPAN_MAX) for step in range(1, 50)]
        self._fits = np.zeros(len(self._spans), np.int64)
        self.deferred = 0

    def add(
        self, sites: npt.NDArray[np.uint64], tail: Ints, count: Ints, budget: Ints, deferred: Ints
    ) -> None:  # fmt: skip
        """The records of some sites: u8[n], then i8[n] each."""
        tail, count = opened(sites, tail, count, budget, self._position)
        total = int(deferred.sum())
        self.deferred += total
        for index, span in enumerate(self._spans):
            fits = int(np.minimum(deferred, places(tail, count, budget, self._position.current + span)).sum())
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


OPS = (IN_DEGREE, REREAD, PLACE, YIELD)


class Placement:
    """The kernel: in-degrees first, then the URLs of QF, then new ones, each in its order within the site. Its column
    `queue` is a label: the queue and the part of it.

    star: the budgets of this merge. position: how far rotation is. records: for the merge at the end of a cycle, in
    which QF comes back: a bucket's records ascending. It keeps `j` and `cycle_end` in the bucket's `extra`, and counts
    what it did: `lookups` (URLs of either kind), `rereads` among them, `excluded`, and `change`, what it did to the
    histogram of in-degrees. keep: of the URLs of a site that come back from QF this share, the first ones, are placed
    again, the others excluded. Below 1 it must be at most a half: then the bound on re-reads holds as it does where
    j grows.
    """

    def __init__(
        self, star: Star, position: Position, quotas: Quotas,
        records: Callable[[Bucket], Iterator[Batch]] | None = None, worth: Worth = IN_DEGREE_ALONE,
        columns: Sequence[str] = (), keep: float = 1.0,
    ) -> None:  # fmt: skip
        self._star = star
        self._keep = keep
        self._worth = worth
        self.columns = columns
        self._position = position
        self._current = position.current
        self._quotas = quotas
        self._records = records
        self._reach = position.current + SPAN_FIRST
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
        widening = Widening(self._position, j)
        for batch in self._records(bucket):
            found = batch.filter(batch["deferred"] > 0)
            known = {name: found[name].astype(np.int64) for name in RECORD}
            budget = self._worth.budgets(self._star, found["key"], known)
            widening.add(found["key"], known["tail"], known["count"], budget, known["deferred"])
        return widening.span()

    def __call__(self, found: npt.NDArray[np.bool_], stored: Batch, items: Batch, starts: Ints) -> Result:
        op, firsts = items["op"], starts[:-1]
        if not len(op):
            return Result(stored, np.zeros(0, bool), np.zeros(0, bool), {"queue": np.zeros(0, np.uint64)})
        group = np.repeat(np.arange(len(firsts)), np.diff(starts))
        asks = group * len(OPS) + op  # ascending
        counts: Ints = np.bincount(asks, minlength=len(OPS) * len(firsts)).reshape(-1, len(OPS))
        links, again, new, asked = (np.ascontiguousarray(counts[:, kind]) for kind in OPS)
        known = {name: stored[name].astype(np.int64) for name in RECORD}
        degree, tail0, count0, deferred, placed = (known[name] for name in list(RECORD)[:5])
        known["in_degree"] = degree + links
        known["asked"] += asked
        if "novel" in items.columns:
            known["novel"] += np.add.reduceat(items["novel"], firsts, dtype=np.int64)
        if "source" in items.columns:
            known["seeds"][group[(items["source"] == SEED) & ((op == PLACE) | (op == REREAD))]] = 1
        if (deferred < again).any():
            raise ValueError("more URLs of a site came back from QF than its record says were there")
        sites = items["key"][firsts]
        budget = self._worth.budgets(self._star, sites, known)
        self._restated(sites, known, degree, budget)
        tail, count = opened(sites, tail0, count0, budget, self._position)

        # The quota: URLs placed already come first, then what QF holds, then what is new.
        quota = self._quotas.of(sites)
        again_in = np.clip(quota - placed, 0, (again * self._keep).astype(np.int64))
        new_in = np.clip(quota - placed - (deferred - again) - again_in, 0, new)
        fits = np.minimum(again_in + new_in, places(tail, count, budget, self._reach))

        # Every item: its rank among the URLs of its site, then among those of them that the quota lets in.
        rank = self._ranks(items, asks, firsts[group]) - links[group]
        is_new = op == PLACE
        inside = rank < np.where(is_new, (again + new_in)[group], again_in[group])
        rank -= np.where(is_new, (again - again_in)[group], 0)
        count_, budget_ = count[group], budget[group]
        slot = slot_of(items["key"], fill_of(rank, count_, budget_), budget_)
        queue = queue_of(rank, tail[group], count_, budget_)
        if self._worth.nearness > 1 and "priority" in items.columns:
            nearness = np.where(items["priority"] < ENTRY_PRIORITY, self._worth.entries(known)[group], 1)
            slot = nearer(slot, queue, nearness, self._position)
        queue = (queue * SLOTS + slot).astype(np.uint64)
        queue[rank >= fits[group]] = DEFER
        queue[~inside] = EXCLUDE

        moved = fits > 0
        after, fill = filled(tail, count, budget, np.maximum(fits, 1))
        values = {
            **known,
            "tail": np.where(moved, after, tail0),
            "count": np.where(moved, fill, count0),
            "deferred": deferred - again + again_in + new_in - fits,
            "placed": placed + fits,
        }
        self._count(degree, degree + links, again, new)
        self.excluded += int((again + new - again_in - new_in).sum())
        record = Batch({name: values[name].astype(RECORD[name]) for name in RECORD})
        write = (links > 0) | (asked > 0) | moved | (values["deferred"] != deferred)
        return Result(record, write, (op == PLACE) | (op == REREAD), {"queue": queue})

    def _restated(self, sites: npt.NDArray[np.uint64], known: dict[str, Ints], degree: Ints, budget: Ints) -> None:
        """A site whose budget has grown has as many URLs ahead as before, but by what it has now: else what it placed
        by less, when few sites linked to it, would hold back what comes."""
        ahead = np.flatnonzero((known["in_degree"] > degree) & (known["tail"] > self._current))
        if not len(ahead):
            return
        some = {name: column[ahead] for name, column in known.items()}
        before = self._worth.budgets(self._star, sites[ahead], {**some, "in_degree": degree[ahead]})
        now = budget[ahead]
        waiting = (some["tail"] - self._current) * before + some["count"]
        grown = now > before
        known["tail"][ahead] = np.where(grown, self._current + waiting // now, some["tail"])
        known["count"][ahead] = np.where(grown, waiting % now, some["count"])

    def _ranks(self, items: Batch, asks: Ints, first: Ints) -> Ints:
        """The place of each item in its group, whose first item is `first`: by operation, then URLs by level and
        arrival. asks: group * len(OPS) + op of each item, ascending."""
        places = np.arange(items.rows)
        if "priority" not in items.columns:
            return places - first
        level = (items["priority"] >> LEVEL_SHIFT).astype(np.int64)
        kinds, order = sort_keys((asks << LEVEL_BITS | level).view(np.uint64))
        ends = group_starts(kinds)
        rows = np.diff(ends)
        turn = places - np.repeat(ends[:-1], rows)  # among those of its level
        weight = np.empty_like(turn)
        steps = _steps(kinds[ends[:-1]] >> np.uint64(LEVEL_BITS))
        weight[order] = (turn + 1) << np.repeat(STEP_BITS * steps, rows)
        if self._worth.nearness > 1:
            weight[items["priority"] < ENTRY_PRIORITY] = 0
        order = sort_keys((asks << int(weight.max()).bit_length() | weight).view(np.uint64))[1]
        rank = np.empty_like(places)
        rank[order] = places
        return rank - first

    def _count(self, before: Ints, after: Ints, again: Ints, new: Ints) -> None:
        self.rereads += int(again.sum())
        self.lookups += int(again.sum() + new.sum())
        grown = after > before
        self.change.change(before[grown], after[grown])


def _steps(groups: npt.NDArray[np.uint64]) -> Ints:
    """How many items of the same group come before each one, at most STEPS_MAX; `groups` ascends."""
    starts = group_starts(groups)
    before: Ints = np.arange(len(groups)) - np.repeat(starts[:-1], np.diff(starts))
    return np.minimum(before, STEPS_MAX)
