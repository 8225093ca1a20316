"""URLs that wait for a date, in two stores of one kind: the calendar and the rests.

`calendar`: URLs of hosts that may be asked, but not so soon: surplus, long gaps and Crawl-delays. `rests`: URLs that
wait for a second chance: after a passing failure of their own, or because their host failed, throttles, has no address
or no robots.txt that can be had.

Each is a durable queue by due second. Rows come back when they are due and pass the hosts drum again, so facts learnt
about their host meanwhile hold for them, too.

Dues are at rest (clock_set.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from drum import Batch, Catalog, Edits, Fifo, Holder, SegmentPool, SegmentWriter

import numpy as np
from numpy.typing import NDArray

from irlcrawl.base.rows import LINK
from irlcrawl.frontier.state.clock_set import clock_set

SECOND_MAX = 2**32 - 1


class Calendar:
    def __init__(self, catalog: Catalog, pool: SegmentPool, name: str) -> None:
        self._fifo = Fifo(name, catalog, pool, label="due")
        self._catalog = catalog

    @property
    def _clock_set(self) -> float:
        """Looked up each time: a start commits it after the calendar was opened."""
        return clock_set(self._catalog)

    @property
    def rows(self) -> int:
        return self._fifo.rows

    def add(self, writer: Callable[[], SegmentWriter], edits: Edits, rows: Batch, due: NDArray[np.float64]) -> None:
        """Put LINK rows away until `due` (unix seconds, f8 a row); none leaves before its time."""
        if rows.rows:
            seconds = np.ceil(due - self._clock_set).clip(0, SECOND_MAX).astype(np.uint32)
            self._fifo.put(writer(), edits, rows.select(LINK).with_(due=seconds))

    def due(self, edits: Edits, now: float, rows_max: int) -> Iterator[Batch]:
        """Take the rows due by now, earliest seconds first, about `rows_max` at most (rows of one second stay
        together)."""
        next_due = self.next_due()
        if next_due is None or next_due > now:
            return
        through = min(int(now - self._clock_set), self._fifo.label_for(rows_max) or 0)
        for batch in self._fifo.take_through(edits, through):
            yield batch.select(LINK)

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
        return self._fifo.drop_last(writer, edits, rows, lambda batch: drop(batch.select(LINK)))

    @property
    def holder(self) -> Holder:
        """The object that names sections here (drum.vacuum)."""
        return self._fifo

    def tidy(self, writer: Callable[[], SegmentWriter], edits: Edits) -> None:
        """Join small sections when many have gathered."""
        if self._fifo.sections >= 8:
            self._fifo.tier(writer(), edits)

    def scan(self) -> Iterator[Batch]:
        """Every waiting row (for listings): LINK and `due`, in unix seconds."""
        for batch in self._fifo.scan():
            yield batch.with_(due=batch["due"] + self._clock_set)
