"""Runs: URLs that are ready to be leased, on disk. Per turn one ready segment, in it one run per host, best first.

A URL's place (segment number, row) never changes; leases, WARC units and outcomes name it. A bitmap per segment says
which URLs are done (docs/decisions.md says why not one integer per run). All bitmaps are written into one section at
each commit that changed one.

A ready segment may be *lent*: it is a list that `generate` wrote (irlcrawl/rounds), to be fetched somewhere else. Its
URLs count as in runs, but the crawl leases none of them, and asks none of their sites, until the list is back or its
date has passed. The catalogue says so: `lists/SEGMENT`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from drum import Batch, Catalog, Edits, Place, Ragged, Section, SegmentPool, SegmentWriter

import numpy as np
from numpy.typing import NDArray

from irlcrawl.base.keys import PRIORITY_HOME_MAX, PRIORITY_LAST, PRIORITY_RAISED_MAX
from irlcrawl.base.reasons import Reason
from irlcrawl.base.rows import BYTES, LINK, PAGE, with_pages
from irlcrawl.frontier.politeness.line import CLASSES, ORDINARY
from irlcrawl.frontier.state.hosts import STATE

BLOCK_ROWS = 512
"""Rows per block of a ready section: about as many as one visit reads."""
COLUMN_BYTES = 680
"""Memory of a column of a block beside its bytes: an array, and what it stands on."""
RUN = {"key": "u8", "site": "u8", "start": "u4", "rows": "u4", "priority": "u1", "origin": BYTES, **STATE}
"""The index of a ready segment: a row per run, so that opening a crawl reads no URL. `priority` is of its first."""
PROGRESS = {"segment": "u4", "bits": BYTES}


WORTH = np.full(PRIORITY_LAST + 1, ORDINARY, np.uint8)
"""Of a visit, a class of frontier/politeness/line.py, by the priority of its first URL: seeds and home pages; URLs that
rules or long waiting raised above all links; links; links of pages whose content was met before."""
WORTH[: PRIORITY_RAISED_MAX + 1] = 1
WORTH[: PRIORITY_HOME_MAX + 1] = 0
WORTH[PRIORITY_LAST] = CLASSES - 1
_WORTH = tuple(WORTH.tolist())  # asked for one at a time


@dataclass(slots=True)
class Run:
    """Rows [at, end) of a ready segment, all of one host, that are left to lease of a run. None has a priority below
    `priority`."""

    segment: int
    at: int
    end: int
    priority: int = 0

    @property
    def rows(self) -> int:
        return self.end - self.at

    @property
    def worth(self) -> int:
        """What a visit for its next URL is worth."""
        return _WORTH[self.priority]


@dataclass(slots=True)
class Withdrawal:
    """Runs whose URLs leave: for a reason, or (reason OK) into the calendar, or the rests, from `due` on, a gap
    apart."""

    runs: list[Run]
    reason: Reason
    due: float = 0.0
    gap: float = 0.0
    rests: bool = False


@dataclass(slots=True)
class ReadyRuns:
    """The runs of a new ready segment: `index` (RUN) has one row for each, at most one per host."""

    segment: int
    index: Batch


@dataclass(slots=True)
class ReadyHost:
    """A host with a run, as the loop needs it to make or extend its entry."""

    key: int
    site: int
    origin: bytes
    run: Run


class _Segment:
    """A ready segment in memory: where its blocks begin, and which rows are done. Its file is opened when needed."""

    def __init__(self, section: Section, done: NDArray[np.bool_]) -> None:
        self.first = (0, *accumulate(section.blocks["rows"].tolist()))
        self.done = done
        self.left = int(len(done) - done.sum())
        self.row_bytes = section.nbytes / max(section.rows, 1)


LISTS = "lists/"


class Lent(NamedTuple):
    """What the catalogue says of a list (`lists/SEGMENT`). `id`: random, as in its file, because a repair or an opened
    snapshot may use the number of a segment again. `until`: unix seconds, at rest (clock_set.py). `first`: of the
    `streams` streams that are kept for it. `sites`: keys of its URLs' sites."""

    id: str
    until: float
    first: int
    streams: int
    sites: list[int]


class SegmentPlace(NamedTuple):
    """Where the URLs of a ready segment are, and the first row of each of its blocks (and of the one behind them)."""

    file: str
    section: str
    first: tuple[int, ...]


class Runs:
    """All live ready segments; owned by the turn. The loop reads what it leases through a RunReader."""

    def __init__(self, catalog: Catalog, pool: SegmentPool) -> None:
        self._pool = pool
        self._segments: dict[int, _Segment] = {}
        self._refs: dict[int, dict[str, Any]] = {}
        self._next = int(catalog.get("ready-next", 0))
        self.lent = {int(name.removeprefix(LISTS)): Lent(*entry) for name, entry in catalog.items(LISTS)}
        self._dirty = False
        self._progress: dict[str, Any] | None = catalog.get("progress")
        bits = self._read_progress(self._progress)
        for name, ref in catalog.items("ready/"):
            number = int(name.split("/")[1])
            done = np.zeros(ref["rows"], np.bool_)
            if number in bits:
                packed = np.frombuffer(bits[number], np.uint8)
                done = np.unpackbits(packed, count=ref["rows"]).astype(np.bool_)
            self._refs[number] = ref
            self._segments[number] = _Segment(self._section(number), done)

    def _read_progress(self, ref: dict[str, Any] | None) -> dict[int, bytes]:
        if ref is None:
            return {}
        found: dict[int, bytes] = {}
        for batch in self._pool.section(ref["file"], ref["section"]).scan():
            found.update(zip(batch["segment"].tolist(), batch["bits"].tolist(), strict=True))
        return found

    @property
    def next(self) -> int:
        """The number of the next ready segment."""
        return self._next

    @property
    def rows(self) -> int:
        """URLs not done, including leased ones."""
        return sum(segment.left for segment in self._segments.values())

    @property
    def rows_here(self) -> int:
        """URLs not done that are not lent."""
        return self.rows - sum(self._segments[number].left for number in self.lent if number in self._segments)

    @property
    def nbytes(self) -> int:
        """Stored bytes of the URLs not done, as if all URLs of a segment had one length."""
        return int(sum(segment.left * segment.row_bytes for segment in self._segments.values()))

    def segments(self) -> dict[int, SegmentPlace]:
        """Where each ready segment lies, by its number."""
        return {
            number: SegmentPlace(self._refs[number]["file"], self._refs[number]["section"], segment.first)
            for number, segment in self._segments.items()
        }

    # -- the turn ------------------------------------------------------------------------------------------------

    def add(self, writer: SegmentWriter, edits: Edits, urls: Batch, index: Batch) -> int:
        """Write a ready segment: `urls` (LINK, or LINK and PAGE) sorted by host, best first; `index` (RUN). Returns its
        number."""
        number = self._next
        self._next += 1
        writer.section(f"ready.{number}", urls.schema, block_rows=BLOCK_ROWS).append(urls)
        writer.section(f"runs.{number}", RUN).append(index)
        ref = {"file": writer.name, "section": f"ready.{number}", "runs": f"runs.{number}", "rows": urls.rows}
        edits.set(f"ready/{number}", ref)
        edits.set("ready-next", self._next)
        self._refs[number] = ref
        return number

    def opened(self, number: int) -> None:
        """The file of a new segment is complete: it may be read."""
        ref = self._refs[number]
        self._segments[number] = _Segment(self._section(number), np.zeros(ref["rows"], np.bool_))

    def _section(self, number: int) -> Section:
        ref = self._refs[number]
        return self._pool.section(ref["file"], ref["section"])

    def fold(self, segments: NDArray[Any], rows: NDArray[Any]) -> NDArray[np.bool_]:
        """Mark (segment, row) pairs as done. True for each that was not done before, so that none is counted twice."""
        fresh = np.zeros(len(rows), np.bool_)
        for number in np.unique(segments).tolist():
            at = np.flatnonzero(segments == number)
            segment = self._segments.get(number)
            if segment is None:
                continue  # wholly done and dropped: a repeat of what was folded before
            places = rows[at].astype(np.int64)
            first = np.unique(places, return_index=True)[1]
            new = first[~segment.done[places[first]]]
            fresh[at[new]] = True
            segment.done[places[new]] = True
            segment.left -= len(new)
            self._dirty = self._dirty or len(new) > 0
        return fresh

    def paged(self, segments: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether there is PAGE, too, of the rows of each of these segments."""
        live = [number for number in np.unique(segments).tolist() if number in self._segments]
        return np.isin(segments, [number for number in live if "visits" in self._section(number).schema])

    def take(self, segments: NDArray[Any], rows: NDArray[Any], pages: bool = False) -> Batch:
        """LINK rows by their places, in the order given, with PAGE if some have it, or all are to (`pages`); each block
        is read once, and none is kept."""
        pages = pages or bool(self.paged(segments).any())
        columns = {**LINK, **PAGE} if pages else LINK
        parts, places = [], []
        for number in np.unique(segments).tolist():
            of_segment = np.flatnonzero(segments == number)
            section, first = self._section(number), self._segments[number].first
            blocks = np.searchsorted(first, rows[of_segment], side="right") - 1
            for block in np.unique(blocks).tolist():
                at = of_segment[blocks == block]
                part = section.read(block).take(rows[at].astype(np.int64) - first[block])
                parts.append((with_pages(part) if pages else part).select(columns))
                places.append(at)
        return Batch.concat(parts).take(np.argsort(np.concatenate(places)))

    def save(self, writer: Callable[[], SegmentWriter], edits: Edits) -> None:
        """Drop segments that are wholly done and write all bitmaps, if any changed."""
        if not self._dirty:
            return
        for number in [n for n, segment in self._segments.items() if segment.left == 0]:
            edits.remove(f"ready/{number}")
            del self._segments[number], self._refs[number]
        live = [(n, segment.done) for n, segment in self._segments.items() if segment.done.any()]
        if live:
            bits = Ragged.from_list([np.packbits(done).tobytes() for _, done in live])
            numbers = np.array([n for n, _ in live], np.uint32)
            writer().section("progress", PROGRESS).append(Batch({"segment": numbers, "bits": bits}))
            self._progress = {"file": writer().name, "section": "progress"}
            edits.set("progress", self._progress)
        else:
            self._progress = None
            edits.remove("progress")
        self._dirty = False

    def places(self) -> Iterator[Place]:
        """Every section that it names (drum.vacuum.Holder)."""
        for ref in self._refs.values():
            yield ref["file"], ref["section"]
            yield ref["file"], ref["runs"]
        if self._progress is not None:
            yield self._progress["file"], self._progress["section"]

    def moved(self, edits: Edits, to: Mapping[Place, Place]) -> None:
        """Sections are elsewhere now (drum.vacuum.Holder). Both of a segment are in one file, so they move together."""
        for number, ref in self._refs.items():
            rows, runs = to.get((ref["file"], ref["section"])), to.get((ref["file"], ref["runs"]))
            if rows is not None and runs is not None:
                self._refs[number] = {**ref, "file": rows[0], "section": rows[1], "runs": runs[1]}
                edits.set(f"ready/{number}", self._refs[number])
        if self._progress is not None:
            place = to.get((self._progress["file"], self._progress["section"]))
            if place is not None:
                self._progress = {"file": place[0], "section": place[1]}
                edits.set("progress", self._progress)

    # -- between turns -------------------------------------------------------------------------------------------

    def hosts(self) -> Iterator[ReadyHost]:
        """On open: every run with URLs left, in segment order; a run with done URLs in its middle comes as several."""
        for number in sorted(self._segments.keys() - self.lent.keys()):
            yield from self.hosts_of(number)

    def hosts_of(self, number: int) -> Iterator[ReadyHost]:
        """The same of one segment; nothing of one that is wholly done."""
        if (ref := self._refs.get(number)) is None:
            return
        for index in self._pool.section(ref["file"], ref["runs"]).scan():
            yield from ready_hosts(number, index, self._segments[number].done)

    def left(self, run: Run) -> list[Run]:
        """The parts of a run that are not done."""
        segment = self._segments.get(run.segment)
        if segment is None:
            return []
        return [Run(run.segment, at, end, run.priority) for at, end in _gaps(segment.done, run.at, run.end)]

    def waiting(self) -> Iterator[Batch]:
        """Every URL not done, block by block (for listings)."""
        for number in sorted(self._segments):
            segment = self._segments[number]
            for block in range(len(segment.first) - 1):
                left = ~segment.done[segment.first[block] : segment.first[block + 1]]
                if left.any():
                    yield self._section(number).read(block).filter(left)


class RunReader:
    """Reads leases out of ready segments; owned by the loop. Between two commits it knows the places that the first one
    named: whatever a turn does meanwhile, those files stay until the second."""

    def __init__(self, pool: SegmentPool, cache_bytes_max: int = 16 << 20) -> None:
        self._pool = pool
        self._places: dict[int, SegmentPlace] = {}
        self._cache: OrderedDict[tuple[int, int], Batch] = OrderedDict()
        self._cache_bytes_max = cache_bytes_max
        self.nbytes = 0
        """Memory of the blocks that visits were read from lately."""

    def committed(self, places: dict[int, SegmentPlace]) -> None:
        """Where the segments are from now on (Runs.segments)."""
        self._places = places
        for key in [key for key in self._cache if key[0] not in places]:
            self._drop(key)

    def read(self, number: int, start: int, end: int) -> Batch:
        """Rows [start, end) of a segment, LINK or LINK and PAGE; their blocks stay in a bounded cache."""
        first = self._places[number].first
        begin, last = bisect_right(first, start) - 1, bisect_right(first, end - 1) - 1
        parts = []
        for block in range(begin, last + 1):
            base = first[block]
            rows = self._block(number, block)
            parts.append(rows.slice(max(start - base, 0), min(end - base, rows.rows)))
        return parts[0] if len(parts) == 1 else Batch.concat(parts)

    def _block(self, number: int, block: int) -> Batch:
        key = (number, block)
        batch = self._cache.pop(key, None)
        if batch is None:
            place = self._places[number]
            batch = self._pool.section(place.file, place.section).read(block)
            self.nbytes += _memory(batch)
        self._cache[key] = batch
        while self.nbytes > self._cache_bytes_max and len(self._cache) > 1:
            self._drop(next(iter(self._cache)))
        return batch

    def _drop(self, key: tuple[int, int]) -> None:
        self.nbytes -= _memory(self._cache.pop(key))


def _memory(block: Batch) -> int:
    return block.nbytes + COLUMN_BYTES * len(block.columns)


def ready_hosts(number: int, index: Batch, done: NDArray[np.bool_] | None = None) -> Iterator[ReadyHost]:
    """The runs of an index as ReadyHost, split around rows that are done."""
    columns = [index[name].tolist() for name in ("key", "site", "start", "rows", "priority", "origin")]
    # A Python loop per run: each becomes an object in memory anyway.
    for key, site, start, rows, priority, origin in zip(*columns, strict=True):
        if done is None:
            yield ReadyHost(key, site, origin, Run(number, start, start + rows, priority))
        else:
            for at, end in _gaps(done, start, start + rows):
                yield ReadyHost(key, site, origin, Run(number, at, end, priority))


def _gaps(done: NDArray[np.bool_], start: int, end: int) -> list[tuple[int, int]]:
    """The stretches of [start, end) that are not done."""
    if not done[start:end].any():
        return [(start, end)]
    left = np.concatenate(([False], ~done[start:end], [False]))
    edges = np.flatnonzero(left[1:] != left[:-1]) + start
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
