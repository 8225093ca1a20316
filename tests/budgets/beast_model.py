"""BEAST as the design tells it, one URL at a time with lists and dicts: what the vectorised code must agree with."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

SLOTS = 1024
GOLDEN = 0x9E3779B97F4A7C15


def slot(site: int, fill: int, budget: int) -> int:
    """The part of its queue for a site's URL number `fill` there."""
    if budget == 2**30:  # no budgets
        return ((site ^ (fill + 1) * GOLDEN) * GOLDEN) % 2**64 >> 54
    return min(exact_slot(site, fill, budget), SLOTS - 1)


def exact_slot(site: int, fill: int, budget: int) -> int:
    """The same, past the queue's end for the last ones of a site that begins late."""
    return int((site >> 40) / 2**24 * SLOTS // budget) + fill * SLOTS // budget


@dataclass
class Record:
    in_degree: int = 0
    tail: int = 0
    count: int = 0
    deferred: int = 0
    placed: int = 0
    asked: int = 0
    novel: int = 0
    seeds: int = 0


@dataclass
class Bucket:
    """Sites whose keys are `lo` and above, up to the next bucket."""

    lo: int
    j: int
    cycle_end: int


@dataclass
class Model:
    """`budget` gives a site's budget from its in-degree, `quota` its limit; `freeze` makes a new `budget` from all
    in-degrees at the beginning of each merge."""

    budget: Callable[[int], int]
    quota: Callable[[int], int] = lambda site: 0
    freeze: Callable[[list[int]], Callable[[int], int]] | None = None
    span: int = 2
    current: int = 0
    records: dict[int, Record] = field(default_factory=dict)
    pairs: set[int] = field(default_factory=set)
    queues: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    qf: list[tuple[int, int]] = field(default_factory=list)
    excluded: list[tuple[int, int]] = field(default_factory=list)
    splits: list[list[int]] = field(default_factory=list)  # first keys of the drum's buckets at each coming re-read
    pending: list[tuple[int, int]] = field(default_factory=list)
    deferred_once: set[int] = field(default_factory=set)
    discovered: int = 0
    rereads: int = 0
    label: int = 0  # of the URL placed last
    slot: int = SLOTS - 1  # of queue `current`, the last part drained

    def __post_init__(self) -> None:
        self.buckets = [Bucket(0, self.span, self.span)]

    def follow(self, lows: Iterable[int]) -> None:
        """The drum has split buckets: the children have what the parent had."""
        for lo in lows:
            parent = self.bucket(lo)
            if parent.lo != lo:
                self.buckets.insert(self.buckets.index(parent) + 1, Bucket(lo, parent.j, parent.cycle_end))

    def bucket(self, site: int) -> Bucket:
        return self.buckets[bisect_right([b.lo for b in self.buckets], site) - 1]

    def merge(self, pairs: Sequence[tuple[int, int]]) -> None:
        """pairs: (pair, site linked to). In-degrees count before what is pending is placed."""
        self.refreeze()
        new = Counter({pair: site for pair, site in pairs if pair not in self.pairs}.values())
        self.pairs.update(pair for pair, _ in pairs)
        for site, links in new.items():
            self.link(site, links)
        self.place_pending()

    def link(self, site: int, links: int) -> None:
        """So many more sites link to it. What it has ahead is as much as before, by the budget that it has now."""
        record = self.records.setdefault(site, Record())
        before, now = self.budget(record.in_degree), self.budget(record.in_degree + links)
        record.in_degree += links
        if record.tail > self.current and now > before:
            ahead = (record.tail - self.current) * before + record.count
            record.tail, record.count = self.current + ahead // now, ahead % now

    def refreeze(self) -> None:
        if self.freeze:
            self.budget = self.freeze([record.in_degree for record in self.records.values()])

    def place_pending(self) -> None:
        for site, url in self.pending:
            self.leave_cycles(self.bucket(site))
            self.discovered += 1
            self.put(site, url)
        self.pending = []

    def leave_cycles(self, bucket: Bucket) -> None:
        """Rotation went past the end of cycles in which nothing of the bucket was in QF: they widen the next, too."""
        while bucket.cycle_end < self.current:
            bucket.j *= 2
            bucket.cycle_end += bucket.j

    def put(self, site: int, url: int) -> None:
        record = self.records.setdefault(site, Record())
        if self.quota(site) and record.placed + record.deferred >= self.quota(site):
            self.excluded.append((site, url))
        elif not self.place(record, site, url):
            record.deferred += 1
            self.deferred_once.add(url)
            self.qf.append((site, url))

    def place(self, record: Record, site: int, url: int) -> bool:
        """The next place of the site, unless it is past current + j."""
        budget = self.budget(record.in_degree)
        tail, count = self.next_place(record, site, budget)
        if count >= budget:
            tail, count = tail + 1, 0
        if tail > self.current + self.bucket(site).j:
            return False
        record.tail, record.count = tail, count + 1
        record.placed += 1
        self.label = tail * SLOTS + slot(site, count, budget)
        self.queues.setdefault(self.label, []).append((site, url))
        return True

    def next_place(self, record: Record, site: int, budget: int) -> tuple[int, int]:
        """(queue, URLs of the site there): what was drained is over, and so are the parts of this queue that were."""
        if record.tail > self.current:
            return record.tail, record.count
        count = record.count if record.tail == self.current else 0
        while count < budget and (budget == 2**30 or exact_slot(site, count, budget) <= self.slot):
            count = budget if budget == 2**30 else count + 1
        return self.current, max(count, record.count if record.tail == self.current else 0)

    def free(self, site: int, record: Record, j: int) -> int:
        """How many places a site has, queue by queue."""
        budget = self.budget(record.in_degree)
        first, count = self.next_place(record, site, budget)
        return sum(max(0, budget - (count if queue == first else 0)) for queue in range(first, self.current + j + 1))

    def rotate(self, rows_wanted: int) -> list[tuple[int, int]]:
        """Drain labels until there are rows_wanted URLs, or none is left anywhere. A cycle ends when nothing up to its
        last queue is left."""
        out: list[tuple[int, int]] = []
        while len(out) < rows_wanted and (self.qf or self.queues):
            stop = min(self.bucket(site).cycle_end for site, _ in self.qf) if self.qf else max(self.queues) // SLOTS
            while len(out) < rows_wanted and self.queues and min(self.queues) // SLOTS <= stop:
                label = min(self.queues)
                self.advance(label)
                out += self.queues.pop(label)
            if len(out) < rows_wanted:
                self.advance(stop * SLOTS + SLOTS - 1)
                if self.qf:
                    self.end_cycles()
        return out

    def advance(self, label: int) -> None:
        if label > self.current * SLOTS + self.slot:
            self.current, self.slot = divmod(label, SLOTS)

    def end_cycles(self) -> None:
        again = [row for row in self.qf if self.bucket(row[0]).cycle_end == self.current]
        for going in (again and self.pending, again):  # one merge of what is pending, one of what is read again
            if going:
                self.follow(self.splits.pop(0))
                self.refreeze()
                self.place_pending()
        again = [row for row in self.qf if self.bucket(row[0]).cycle_end == self.current]
        self.qf = [row for row in self.qf if row not in again]
        for bucket in [bucket for bucket in self.buckets if any(self.bucket(site) is bucket for site, _ in again)]:
            mine = [(site, r) for site, r in self.records.items() if r.deferred and self.bucket(site) is bucket]
            bucket.j *= 2
            total = sum(r.deferred for _, r in mine)
            while sum(min(r.deferred, self.free(site, r, bucket.j)) for site, r in mine) * 2 < total:
                bucket.j *= 2
            bucket.cycle_end = self.current + bucket.j
        for site, url in again:
            self.rereads += 1
            self.records[site].deferred -= 1
            if not self.place(self.records[site], site, url):
                self.records[site].deferred += 1
                self.qf.append((site, url))
