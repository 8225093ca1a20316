"""Sites: what is known of each registrable domain, and which of its URLs may go on now.

Two drums stand behind each other. `pairs` makes the links between sites distinct; every new pair raises the in-degree
of the site it points to. `sites` holds a record per site (beast.RECORD); new URLs pass it and come out in a queue, in
QF, or excluded by the site's quota. Rotation drains the queues in order and, at the end of a cycle, sends QF through
the drum again. Queues and QF are sections with a label, so all of it is a handful of sequential passes, however many
sites and queues there are.

Nothing lives in memory that the catalogue does not name, but for the URLs of this turn: `merge` or `spill` before a
commit. URLs are rows with `key` and `site` (u8) and whatever columns the caller needs; they come back as they came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from drum import (
    Batch,
    Bucket,
    Catalog,
    CheckUpdate,
    Edits,
    Fifo,
    Holder,
    Kernel,
    Repository,
    Result,
    SegmentPool,
    SegmentWriter,
)  # fmt: skip

import numpy as np
import numpy.typing as npt

from budgets.beast import (
    IN_DEGREE,
    ORDER,
    PLACE,
    RECORD,
    REREAD,
    SLOTS,
    SPAN_FIRST,
    YIELD,
    Placement,
    Position,
    Quotas,
    drain_to,
)
from budgets.deferred import Deferred
from budgets.ledger import LedgerError
from budgets.outlet import LABELS_MAX, Outlet, Sink, keyed_by_site, keyed_by_url, without
from budgets.star import BudgetParams, Histogram, Ints, Star
from budgets.worth import IN_DEGREE_ALONE, Worth

Proceed: TypeAlias = Callable[[], bool]

STATE = "budgets/state"
HISTOGRAM = "budgets/histogram"

KEEP_MAX = 0.5
"""What a shed keeps of what it reads of QF: with more, the bound on re-reads would not hold."""

SUPPORTERS_MIN = 1_000
"""From so many sites with an in-degree of 2 on, only sites with Worth.supporters support others; before, one link is
enough."""


def always() -> bool:
    """A Proceed that lets a merge run to its end."""
    return True


@dataclass(frozen=True)
class SiteRecord:
    """A site as people ask about it. `budget` is today's, `unheld` what it would be if its yield were as expected; the
    others are beast.RECORD's."""

    site: int
    budget: int
    unheld: int
    in_degree: int
    tail: int
    count: int
    deferred: int
    placed: int
    asked: int
    novel: int
    seeds: int


@dataclass
class Rotation:
    """What a rotation did: rows drained, cycle ends that read QF again, URLs read again there."""

    rows: int = 0
    cycles: int = 0
    rereads: int = 0


class Sites:
    """Reopening is constructing it again on the reopened catalogue.

    ram_bytes: bound on what a merge holds. site_pages_max: URLs of a site that may ever be queued, 0 for no limit;
    site_limits: the same for single sites, by key. worth: what budgets follow beside in-degree. All may differ from one
    opening to the next, as may `params`. ordered: URLs have the columns beast.ORDER.
    """

    def __init__(
        self, *, catalog: Catalog, pool: SegmentPool, params: BudgetParams, ram_bytes: int, site_pages_max: int = 0,
        site_limits: Mapping[int, int] | None = None, worth: Worth | None = None, ordered: bool = False,
    ) -> None:  # fmt: skip
        self._params = params
        self.worth = worth or IN_DEGREE_ALONE
        self._ordered = ordered
        self._quotas = Quotas(site_pages_max, dict(site_limits or {}))
        self._links_max = max(ram_bytes // 64, 65_536)
        self._pairs = Repository("pairs", catalog=catalog, pool=pool, values={}, ram_bytes=ram_bytes // 2)
        self._sites = Repository("sites", catalog=catalog, pool=pool, values=RECORD, ram_bytes=ram_bytes // 2)
        self._queues = Fifo("queues", catalog, pool, label="queue", cluster="site", labels_max=LABELS_MAX)
        self._deferred = Deferred(catalog, pool)
        self._histogram = Histogram.from_json(catalog.get(HISTOGRAM, Histogram().to_json()))
        state: dict[str, int] = catalog.get(STATE, {})
        self.current = state.get("current", 0)  # the queue that is being drained, or was last
        self.slot = state.get("slot", SLOTS - 1)  # its last part drained
        self.lookups = state.get("lookups", 0)  # URLs placed or deferred by a merge, each time it saw them
        self.rereads = state.get("rereads", 0)  # of those, the ones that came from QF: at most 2 per discovered URL
        self.drained = state.get("drained", 0)
        self.excluded = state.get("excluded", 0)

    # -- in -----------------------------------------------------------------------------------------------------------

    def pend_pairs(self, edits: Edits, number: int, file: str, section: str) -> None:
        """A harvest's links between sites: columns key (of the pair), site (the one linked to) and from."""
        self._pairs.pend(edits, number, file, section)

    def pend_yields(self, edits: Edits, number: int, file: str, section: str) -> None:
        """Takes the yields of a harvest's fetches, a row each: columns key (the site) and novel (u1)."""
        self._sites.pend(edits, number, file, section, YIELD)

    def pend_found(self, yields: Batch, pairs: Batch) -> None:
        """The same two of pages that were judged by a turn, held in memory until `merge` or `spill`."""
        self._sites.pend_batch(yields, YIELD)
        self._pairs.pend_batch(pairs)

    def pend_urls(self, batch: Batch) -> None:
        """New URLs, held in memory until `merge` or `spill`. Every key comes once in a crawl."""
        self._sites.pend_batch(keyed_by_site(batch), PLACE)

    def spill(self, writer: SegmentWriter, edits: Edits) -> None:
        """Turns rows in memory into sections, so that a commit may come before the merge."""
        self._sites.spill(writer, edits)
        self._pairs.spill(writer, edits)

    # -- through ------------------------------------------------------------------------------------------------------

    def merge(self, writer: SegmentWriter, edits: Edits, exclude: Sink, proceed: Proceed = always) -> None:
        """Count the pairs that are new, then place all pending URLs. exclude(batch): rows over their site's quota.
        proceed(): asked between buckets; when it says no, the rest waits for another merge."""
        if self._pairs.pending_rows:
            for bucket in list(self._pairs.buckets):
                self._pairs.merge(self._pair_kernel(), writer=writer, edits=edits, emit=self._link, buckets=[bucket])
                if not proceed():
                    return
                if self._sites.ram_rows > self._links_max:  # in-degrees may then count a little before the last ones
                    self._merge(writer, edits, exclude, proceed)
        self._merge(writer, edits, exclude, proceed)

    def rotate(self, writer: SegmentWriter, edits: Edits, rows_wanted: int, emit: Sink, exclude: Sink) -> Rotation:
        """Drain queues in order until `rows_wanted` rows came out, whole parts of queues only; fewer when there are no
        more. A queue whose draining has begun takes no more rows.

        emit(batch) gets them in bounded batches, a site's in order. Where a cycle ends with URLs in QF, what is pending
        is merged and QF read again; exclude(batch) gets rows over their site's quota, as in `merge`.
        """
        done = Rotation()
        while done.rows < rows_wanted and (self._queues.rows or self._deferred.rows):
            end = self._deferred.next_end()
            labels, rows = self._queues.counts(rows_wanted - done.rows)
            stop = ((end if end is not None else int(labels[-1]) // SLOTS) + 1) * SLOTS - 1
            through = drain_to(labels, rows, rows_wanted - done.rows, stop)
            last = stop if through is None else through
            if last > self.position.label:
                self.current, self.slot = divmod(last, SLOTS)
            for batch in self._queues.take_through(edits, last):
                emit(without(batch, "queue"))
                done.rows += batch.rows
                self.drained += batch.rows
            if end is not None and through is None:
                self._merge(writer, edits, exclude)  # or what is pending would enter QF ahead of what has waited there
                before = self.rereads
                self._deferred.give_back(edits, self._sites, end, REREAD)
                self._merge(writer, edits, exclude, reread=True)
                done.cycles += 1
                done.rereads += self.rereads - before
        self._save(edits)
        return done

    def shed(self, writer: SegmentWriter, edits: Edits, rows: int, exclude: Sink) -> int:
        """Give up about `rows` URLs, those that would go last: of QF, then of the last queues. exclude(batch) gets
        them. Returns how many it were. Merge before: what is pending is placed first."""
        before = self.excluded
        self._merge(writer, edits, exclude)
        given = self._deferred.give_back_newest(edits, self._sites, rows, REREAD)
        if given:
            self._merge(writer, edits, exclude, keep=min(KEEP_MAX, 1 - rows / given) if given > rows else 0.0)
        dropped = self.excluded - before
        self.excluded += self._queues.drop_last(
            writer, edits, rows - dropped, lambda batch: exclude(without(batch, "queue"))
        )
        self._save(edits)
        return self.excluded - before

    # -- what there is ------------------------------------------------------------------------------------------------

    @property
    def star(self) -> Star:
        """The budget for each in-degree, as of the last merge."""
        return self._histogram.star(self._params)

    @property
    def position(self) -> Position:
        """How far rotation is."""
        return Position(self.current, self.slot)

    @property
    def queued_rows(self) -> int:
        return self._queues.rows

    @property
    def deferred_rows(self) -> int:
        """URLs in QF."""
        return self._deferred.rows

    @property
    def nbytes(self) -> int:
        """Bytes on disk of the URLs in queues and in QF."""
        return self._queues.nbytes + self._deferred.nbytes

    @property
    def pending_rows(self) -> int:
        """URLs not merged yet."""
        by_op = self._sites.pending_by_op()
        return by_op.get(PLACE, 0) + by_op.get(REREAD, 0)

    @property
    def index_bytes(self) -> int:
        """Held in memory to find parts of queues: at most 16 bytes a URL queued, and far less where many sites share
        them."""
        return self._queues.index_bytes

    @property
    def ram_rows(self) -> int:
        """Rows that only memory holds: `merge` or `spill` before a commit."""
        return self._sites.ram_rows + self._pairs.ram_rows

    @property
    def pending_pairs(self) -> int:
        """Links between sites not merged yet."""
        return self._pairs.pending_rows

    @property
    def discovered(self) -> int:
        """URLs merged, each once."""
        return self.lookups - self.rereads

    @property
    def sites(self) -> int:
        """Sites with a record: linked to from another, or with a URL."""
        return self._sites.rows

    @property
    def holders(self) -> list[Holder]:
        """Whatever names sections here (drum.vacuum)."""
        return [self._pairs, self._sites, self._queues, self._deferred]

    @property
    def drums(self) -> list[Repository]:
        """What it is made of: the distinct pairs of sites, and the sites' records."""
        return [self._pairs, self._sites]

    def check(self) -> None:
        """LedgerError unless every URL merged is queued, deferred, drained or excluded. Cheap: call at each commit."""
        found = self.queued_rows + self.deferred_rows + self.drained + self.excluded
        if found != self.discovered:
            raise LedgerError(
                f"sites do not add up: {self.discovered} URLs placed, but queued {self.queued_rows} + deferred "
                f"{self.deferred_rows} + drained {self.drained} + excluded {self.excluded} = {found}"
            )

    def pending_urls(self) -> Iterator[Batch]:
        """URLs not merged yet, as `pend_urls` got them (for listings)."""
        for op, batch in self._sites.scan_pending():
            if op in (PLACE, REREAD):
                yield keyed_by_url(batch)

    def records(self, site_keys: npt.NDArray[np.uint64]) -> dict[int, SiteRecord]:
        """The records of those of the sites that have one, by key. Reads the blocks that hold them."""
        found, values = self._sites.lookup(site_keys)
        rows = Batch({"key": site_keys, **values.columns}).filter(found)
        return {record.site: record for record in self._records(rows)}

    def cycle_end(self, site_key: int) -> int:
        """The queue whose draining brings back what QF holds of a site."""
        bucket = next(bucket for bucket in self._sites.buckets if bucket.lo <= site_key <= bucket.hi)
        return int(bucket.extra.get("cycle_end", SPAN_FIRST))

    def site(self, site_key: int) -> SiteRecord | None:
        """The record of a site; what is pending is not in it yet. Reads a few blocks."""
        return self.records(np.array([site_key], np.uint64)).get(site_key)

    def top(self, n: int) -> list[SiteRecord]:
        """The n sites with the highest in-degree, those first. Reads every record: for tools."""
        best: Batch | None = None
        for bucket in self._sites.buckets:
            for batch in self._sites.scan(bucket):
                best = batch if best is None else Batch.concat([best, batch])
                best = best.take(np.argsort(-best["in_degree"].astype(np.int64), kind="stable")[:n])
        return [] if best is None else self._records(best)

    # -- how ----------------------------------------------------------------------------------------------------------

    def _pair_kernel(self) -> Kernel:
        """What makes pairs distinct; beyond one hop only pairs from sites that are supported themselves."""
        if self.worth.hops == 1 or not self._pairs.pending_has("from"):
            return CheckUpdate()
        enough = int(self._histogram.counts[2:].sum()) >= SUPPORTERS_MIN
        return _Supported(lambda sites: self._supports(sites, self.worth.supporters if enough else 1))

    def _supports(self, sites: npt.NDArray[np.uint64], in_degree_min: int) -> npt.NDArray[np.bool_]:
        found, values = self._sites.lookup(sites)
        known = {name: values[name].astype(np.int64) for name in RECORD}
        return found & self.worth.supports(known, in_degree_min)

    def _link(self, _: Bucket, batch: Batch) -> None:
        self._sites.pend_batch(Batch({"key": batch["site"]}), IN_DEGREE)

    def _merge(
        self, writer: SegmentWriter, edits: Edits, exclude: Sink, proceed: Proceed = always, reread: bool = False,
        keep: float = 1.0,
    ) -> None:  # fmt: skip
        """Merge what the sites drum has pending, under budgets frozen now; a reread of QF without interruption."""
        if not self._sites.pending_rows:
            return
        star = self.star
        ops = self._sites.pending_by_op()
        urls = self._ordered and (ops.get(PLACE) or ops.get(REREAD))
        columns = [*(ORDER if urls else ()), *(("novel",) if ops.get(YIELD) else ())]
        records = self._sites.scan if reread else None
        kernel = Placement(star, self.position, self._quotas, records, self.worth, columns, keep)
        outlet = Outlet(writer, exclude)
        self._sites.join()
        self._sites.merge(kernel, writer=writer, edits=edits, emit=outlet.emit, proceed=lambda _: proceed())
        if outlet.queue is not None:
            self._queues.append(edits, writer, outlet.queue.name)
            self._queues.tier(writer, edits)
        for cycle_end, section in outlet.deferred.items():
            self._deferred.append(edits, writer, section.name, cycle_end)
        self._deferred.tier(writer, edits)
        if kernel.change.highest:
            self._histogram.add(kernel.change)
            edits.set(HISTOGRAM, self._histogram.to_json())
        self.lookups += kernel.lookups
        self.rereads += kernel.rereads
        self.excluded += kernel.excluded
        self._save(edits)

    def _save(self, edits: Edits) -> None:
        names = ("current", "slot", "lookups", "rereads", "drained", "excluded")
        edits.set(STATE, {name: getattr(self, name) for name in names})

    def _records(self, batch: Batch) -> list[SiteRecord]:
        known = {name: batch[name].astype(np.int64) for name in RECORD}
        star = self.star
        budgets = [worth.budgets(star, batch["key"], known) for worth in (self.worth, replace(self.worth, weight=0.0))]
        columns: list[Any] = [batch["key"], *budgets, *(batch[name] for name in RECORD)]
        return [SiteRecord(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


class _Supported(CheckUpdate):
    """Check and update of pairs whose source may support others; the rest are as if they had not been seen."""

    def __init__(self, supports: Callable[[npt.NDArray[np.uint64]], npt.NDArray[np.bool_]]) -> None:
        super().__init__()
        self.columns = ("from",)
        self._supports = supports

    def __call__(self, found: npt.NDArray[np.bool_], stored: Batch, items: Batch, starts: Ints) -> Result:
        first = starts[:-1]
        sources, of = np.unique(items["from"][first], return_inverse=True)
        fresh = ~found & self._supports(sources)[of]
        emit = np.zeros(items.rows, np.bool_)
        emit[first[fresh]] = True
        return Result(stored, fresh, emit)
