"""The destination of the rows of one merge of the sites drum. And the two shapes a URL has: by its own key, as callers
know it, and as a row of the sites drum, whose key is the site.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from drum import Batch, Bucket, SectionWriter, SegmentWriter

import numpy as np

from budgets.beast import DEFER, EXCLUDE
from budgets.deferred import partition

Sink: TypeAlias = Callable[[Batch], None]

URL_KEY = "link"
"""What the column of URLs' keys is called, in memory and on disk, where `key` is the site."""
LABELS_MAX = 4_096
"""Entries of labels for a section of queues: where few sites share a queue, nearly every URL has a label of its own."""


class Outlet:
    """The destination of the rows of one merge: a section for all queues, one of QF for each cycle end, or out."""

    def __init__(self, writer: SegmentWriter, exclude: Sink) -> None:
        self._writer = writer
        self._exclude = exclude
        self.queue: SectionWriter | None = None
        self.deferred: dict[int, SectionWriter] = {}

    def emit(self, bucket: Bucket, batch: Batch) -> None:
        queue = batch["queue"]
        late, out = queue == DEFER, queue == EXCLUDE
        if late.any():
            self._defer(bucket.extra["cycle_end"], without(batch, "queue").filter(late))
        if out.any():
            self._exclude(keyed_by_url(without(batch, "queue").filter(out)))
        kept = ~(late | out)
        rows = np.flatnonzero(kept)
        placed = keyed_by_url(batch.pick(rows) if 2 * len(rows) >= len(kept) else batch.take(rows))
        if placed.rows:
            if self.queue is None:
                self.queue = self._writer.section(
                    f"queue.{len(self._writer.sections)}", placed.schema, cluster="site", labels_max=LABELS_MAX
                )
            self.queue.append(placed, labels=placed["queue"])

    def _defer(self, cycle_end: int, batch: Batch) -> None:
        section = self.deferred.get(cycle_end)
        if section is None:
            name = f"sites.deferred.{len(self._writer.sections)}"
            section = self.deferred[cycle_end] = self._writer.section(name, batch.schema)
        section.append(batch, labels=partition(batch["key"]))


def keyed_by_site(urls: Batch) -> Batch:
    """URLs as rows of the sites drum: `key` is the site, the URL's key stands beside as URL_KEY."""
    return urls.rekeyed("site", keep=URL_KEY)


def keyed_by_url(rows: Batch) -> Batch:
    """The inverse of `keyed_by_site`."""
    return rows.rekeyed(URL_KEY, keep="site")


def without(batch: Batch, column: str) -> Batch:
    return batch.select(name for name in batch.columns if name != column)
