"""URLs that wait for a date, in stores of one kind: the calendar, the rests, and pages between two visits.

`calendar`: URLs of hosts that may be asked, but not so soon: surplus, long gaps and Crawl-delays. `rests`: URLs that
wait for a second chance: after a passing failure of their own, or because their host failed, throttles, has no address
or no robots.txt that can be had.

`pages` (irlcrawl/revisit): pages that rest until they are visited again, `wished` for a time, but taken earlier where
there is room, or `shut` until then. A page that is called out of its rest (known_pages.py) leaves its row behind. That
is noted in a queue beside, by the same second, so that the row is dropped when it comes out, and counts no more.

Each is a durable queue by due second. Rows come back when they are due and pass the hosts drum again, so facts learnt
about their host meanwhile hold for them, too.

Dues are at rest (clock_set.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from drum import Batch, Catalog, Edits, Fifo, Holder, SegmentPool, SegmentWriter

import numpy as np
from numpy.typing import NDArray

from irlcrawl.base.rows import LINK, PAGE
from irlcrawl.frontier.state.clock_set import clock_set

SECOND_MAX = 2**32 - 1
LABELS_MAX = 4096
LEFT = {"key": "u8"}


class Calendar:
    """columns: of its rows, LINK or LINK and PAGE. spread: dues are spread over a year, and rows so many that a label
    for each would not fit the memory."""

    def __init__(
        self, catalog: Catalog, pool: SegmentPool, name: str, columns: Mapping[str, str] = LINK, spread: bool = False
    ) -> None:
        cluster, labels_max = ("host" if "host" in columns else None, LABELS_MAX) if spread else (None, None)
        self._fifo = Fifo(name, catalog, pool, label="due", cluster=cluster, labels_max=labels_max)
        self._catalog, self._columns = catalog, columns
        self.again = 0
        """The number of the last section of which rows are to be taken before they are due (`take_again`); 0: none."""

    @property
    def _clock_set(self) -> float:
        """Looked up each time: a start commits it after the calendar was opened."""
        return clock_set(self._catalog)

    @property
    def rows(self) -> int:
        return self._fifo.rows

    def add(self, writer: Callable[[], SegmentWriter], edits: Edits, rows: Batch, due: NDArray[np.float64]) -> None:
        """Put rows away until `due` (unix seconds, f8 a row); none leaves before its time."""
        if rows.rows:
            self.add_labelled(writer, edits, rows, self.labels(due))

    def add_labelled(
        self, writer: Callable[[], SegmentWriter], edits: Edits, rows: Batch, labels: NDArray[np.uint32]
    ) -> None:
        """The same, with dues as they rest."""
        self._fifo.put(writer(), edits, rows.select(self._columns).with_(due=labels))

    def labels(self, due: NDArray[np.float64]) -> NDArray[np.uint32]:
        """Dues (unix seconds) as they rest."""
        seconds: NDArray[np.uint32] = np.ceil(due - self._clock_set).clip(0, SECOND_MAX).astype(np.uint32)
        return seconds

    def due(self, edits: Edits, now: float, rows_max: int) -> Iterator[Batch]:
        """Take the rows due by now, earliest seconds first, about `rows_max` at most (rows of one second stay
        together)."""
        next_due = self.next_due()
        if next_due is None or next_due > now:
            return
        through = min(int(now - self._clock_set), self._fifo.label_for(rows_max) or 0)
        for batch in self._fifo.take_through(edits, through):
            yield batch.select(self._columns)

    def look_again(self) -> None:
        """All rows that wait now are to be looked at again."""
        self.again = self._fifo.newest

    def take_again(self, edits: Edits, rows_max: int) -> Iterator[Batch]:
        """Take about `rows_max` of the rows that are to be looked at again, due or not, earliest first. Those that are
        added meanwhile are not among them; sections are not joined before all are taken."""
        label = self._fifo.label_for(rows_max, self.again) if self.again else None
        for batch in () if label is None else self._fifo.take_through(edits, label, self.again):
            yield batch.select(self._columns)
        if (oldest := self._fifo.oldest) is None or oldest > self.again:
            self.again = 0

    def take(self, edits: Edits, through: int) -> Iterator[Batch]:
        """Take the rows with labels up to `through`, due or not, with `due` in unix seconds."""
        for batch in self._fifo.take_through(edits, through):
            yield batch.with_(due=batch["due"] + self._clock_set)

    def label_of(self, at: float) -> int:
        """The last label that is due at `at` (unix seconds)."""
        return min(max(int(at - self._clock_set), -1), SECOND_MAX)

    def counts(self, rows: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """(labels ascending, rows of each) of the first labels that have so many rows."""
        return self._fifo.counts(rows)

    def next_due(self) -> float | None:
        """When the first row is due (unix seconds); None if there are none."""
        first = self._fifo.first
        return None if first is None else first + self._clock_set

    @property
    def nbytes(self) -> int:
        """Stored bytes of the waiting rows."""
        return self._fifo.nbytes

    def shed(self, writer: SegmentWriter, edits: Edits, rows: int, drop: Callable[[Batch], None]) -> int:
        """Give up about `rows` rows, those due last: drop(LINK batch) gets them. Returns their number."""
        return self._fifo.drop_last(writer, edits, rows, lambda batch: drop(batch.select(self._columns)))

    @property
    def holder(self) -> Holder:
        """The object that names sections here (drum.vacuum)."""
        return self._fifo

    def tidy(self, writer: Callable[[], SegmentWriter], edits: Edits) -> None:
        """Join small sections when many have gathered."""
        if self._fifo.sections >= 8 and not self.again:
            self._fifo.tier(writer(), edits)

    def scan(self) -> Iterator[Batch]:
        """Every waiting row (for listings), and `due` in unix seconds."""
        return self._dated(self._fifo.scan())

    def labelled(self, label: int) -> Iterator[Batch]:
        """The waiting rows with one label, and `due` in unix seconds."""
        return self._dated(self._fifo.labelled(label))

    def _dated(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        for batch in batches:
            yield batch.with_(due=batch["due"] + self._clock_set)


@dataclass(frozen=True, slots=True)
class Pages:
    """Pages that rest between two visits. `left`: rows that called pages left behind, in `wished` and in `shut`."""

    wished: Calendar
    shut: Calendar
    left: tuple[Calendar, Calendar]

    @classmethod
    def open(cls, catalog: Catalog, pool: SegmentPool) -> Pages:
        def store(name: str, columns: Mapping[str, str]) -> Calendar:
            return Calendar(catalog, pool, f"pages-{name}", columns, spread=True)

        rows = {**LINK, **PAGE}
        left = (store("wished-left", LEFT), store("shut-left", LEFT))
        return cls(store("wished", rows), store("shut", rows), left)

    @property
    def stores(self) -> tuple[Calendar, Calendar]:
        return self.wished, self.shut

    @property
    def rows(self) -> int:
        """Pages, each counted once."""
        return sum(store.rows for store in self.stores) - sum(store.rows for store in self.left)

    def called(
        self, writer: Callable[[], SegmentWriter], edits: Edits, rows: Batch, shut: NDArray[np.bool_],
        labels: NDArray[np.uint32],
    ) -> None:  # fmt: skip
        """Pages are called out of their rest: their rows (keyed by page) stay behind, as dead, in `shut` or in
        `wished`, with these labels."""
        for store, mask in zip(self.left, (~shut, shut), strict=True):
            if mask.any():
                store.add_labelled(writer, edits, rows.filter(mask), labels[mask])

    def _take(self, at: int, edits: Edits, through: int) -> Iterator[Batch]:
        """Take the rows of store `at` through a label, without those that were left behind."""
        dead = _Dead(self.left[at].take(edits, through))
        for batch in self.stores[at].take(edits, through):
            if (alive := dead.without(batch)).rows:
                yield alive

    @property
    def nbytes(self) -> int:
        return self.wished.nbytes + self.shut.nbytes

    def next_due(self) -> float | None:
        """When the first page is due (unix seconds); None if there are none."""
        return min((due for store in self.stores if (due := store.next_due()) is not None), default=None)

    def due(self, edits: Edits, now: float, rows_max: int) -> Iterator[Batch]:
        """Take about the `rows_max` pages with the earliest dues, if those are over by now (unix seconds)."""
        entries = [store.counts(rows_max) for store in self.stores]
        labels = np.concatenate([labels for labels, _ in entries])
        if rows_max <= 0 or not len(labels):
            return
        order = np.argsort(labels, kind="stable")
        rows = np.cumsum(np.concatenate([counts for _, counts in entries])[order])
        last = int(labels[order][min(int(np.searchsorted(rows, rows_max)), len(rows) - 1)])
        for at, store in enumerate(self.stores):
            yield from self._take(at, edits, min(last, store.label_of(now)))

    def early(self, edits: Edits, rows_max: int) -> Iterator[Batch]:
        """Take about the `rows_max` pages that are wished for the soonest."""
        labels, counts = self.wished.counts(rows_max)
        if rows_max > 0 and len(labels):
            last = int(labels[min(int(np.searchsorted(np.cumsum(counts), rows_max)), len(labels) - 1)])
            yield from self._take(0, edits, last)

    def scan(self) -> Iterator[Batch]:
        """Every page that rests (for listings), with `due` in unix seconds. 24 bytes in memory for each row that was
        left behind."""
        for store, left in zip(self.stores, self.left, strict=True):
            dead = _Dead(left.scan())
            for batch in store.scan():
                if (alive := dead.without(batch)).rows:
                    yield alive

    def row(self, key: int, label: int, shut: bool) -> Batch | None:
        """The row of a page that rests in `shut` or in `wished` with this label (known_pages.py says which), with `due`
        in unix seconds; None if it is not there. A row that it left behind there is of an earlier visit."""
        found: Batch | None = None
        for batch in (self.shut if shut else self.wished).labelled(label):
            for at in np.flatnonzero(batch["key"] == np.uint64(key)).tolist():
                if found is None or batch["visits"][at] >= found["visits"][0]:
                    found = batch.slice(at, at + 1)
        return found


class _Dead:
    """Rows (key, due) that were left behind: each drops one row of its key and its due."""

    def __init__(self, rows: Iterator[Batch]) -> None:
        parts = [*rows]
        self._keys = np.sort(np.concatenate([np.empty(0, np.uint64), *(part["key"] for part in parts)]))
        self._left = Counter(
            pair for part in parts for pair in zip(part["key"].tolist(), part["due"].tolist(), strict=True)
        )

    def without(self, rows: Batch) -> Batch:
        if not len(self._keys):
            return rows
        at = np.minimum(np.searchsorted(self._keys, rows["key"]), len(self._keys) - 1)
        alive = np.ones(rows.rows, np.bool_)
        for row in np.flatnonzero(self._keys[at] == rows["key"]).tolist():  # few: pages that were called
            pair = (int(rows["key"][row]), rows["due"][row].item())
            if self._left[pair] > 0:
                self._left[pair] -= 1
                alive[row] = False
        return rows if alive.all() else rows.filter(alive)
