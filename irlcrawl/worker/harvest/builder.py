"""What a worker hands to the frontier: one immutable segment file of links, outcomes and facts.

sections.py says what is in its file; what it counts, counters.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from drum import Batch, Files, Ragged, SegmentWriter
from drum.hamming import BLOCK_BITS, DISTANCE

import numpy as np
from numpy.typing import NDArray

from irlcrawl.base.clock import Clock
from irlcrawl.base.job_files import harvest_name
from irlcrawl.base.keys import PRIORITY_LAST
from irlcrawl.base.reasons import Class
from irlcrawl.base.rows import BYTES, Carried, Change
from irlcrawl.web.plugins import PageSeen
from irlcrawl.worker.harvest.counters import COUNTERS
from irlcrawl.worker.harvest.rules_log import Pointer, RulesLog
from irlcrawl.worker.harvest.sections import SECTIONS, write_sections
from irlcrawl.worker.page.repetition import Repetition
from irlcrawl.worker.page.sketch import PARTS, sketches

CHUNK_ROWS = 4096
CACHE_BITS = 18
BLOCKS_LOOKED = 2
PAIR_BITS = 14
WAITING_BYTES = 24 << 10
"""Words of pages that wait to be sketched together."""
WAITING_UNITS_MAX = 32


@dataclass(slots=True)
class Fact:
    """A row of rows.FACT; `rules` is the text that its pointer will name, None for no text."""

    host: int
    at: float
    robots: int
    robots_until: float
    crawl_delay: float
    failed: int
    rules: bytes | None = None


@dataclass(slots=True)
class UnitRows:
    """The rows that one unit adds to a harvest. Rows are tuples in the order of their schema's columns, in which a
    Carried stands for its own."""

    outcome: tuple[Any, ...] = ()
    links: list[tuple[Any, ...]] = field(default_factory=list)
    pairs: list[tuple[int, int, int]] = field(default_factory=list)
    signals: list[tuple[Any, ...]] = field(default_factory=list)  # of rows.SIGNAL
    retry: tuple[Any, ...] | None = None
    fact: Fact | None = None
    scope: list[bytes] = field(default_factory=list)
    site: int = 0  # of a URL that is done: whose yield it is; 0 for others
    directory: int = 0  # of a successful page: worker/page/repetition.py
    content: int = 0  # fingerprint of a successful page; 0: none
    novel: bool = False  # a page whose content no recent one has: the builder says so
    words: bytes = b""  # of a page, with page.near_duplicates: worker/page/sketch.py
    bare: bool = False  # a bare list of links: worker/page/linklist.py
    change: Change | None = None  # what the visit found, if pages are visited again
    visit: tuple[Any, ...] | None = None  # and the row that says so: again.py
    wording: int = 0  # of a successful page, if they are: worker/page/wording.py
    lists: int = 0  # PageFlag.FEED or SITEMAP
    counts: dict[str, int] = field(default_factory=dict)  # of counters.COUNTERS
    notes: dict[str, str] = field(default_factory=dict)  # of plug-ins, for its line in the crawl log
    seen: PageSeen | None = None  # what plug-ins are told of it, if there are any


class RecentKeys:
    """The exact set of *some* recent keys: direct-mapped, so a key may be forgotten but never invented. 8 << bits B.

    Key 0 is never remembered (it marks an empty place); its rows just pass.
    """

    def __init__(self, bits: int = CACHE_BITS) -> None:
        self._cells = np.zeros(1 << bits, np.uint64)
        self._view = self._cells.data  # for one key at a time: 0.6 us, of fresh() 12
        self._mask = np.uint64((1 << bits) - 1)

    def fresh(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """bool[n]: False where the key was certainly given before, in this call or an earlier one."""
        place = (keys & self._mask).view(np.int64)
        fresh = self._cells.take(place) != keys
        fresh |= keys == 0
        self._cells[place] = keys
        left = np.flatnonzero(fresh)  # all rows of a key or none
        if len(left):
            fresh[left] = _first(keys.take(left))
        return fresh

    def one_fresh(self, key: int) -> bool:
        """fresh() of a single key."""
        place = key % len(self._view)
        known = key != 0 and self._view[place] == key
        self._view[place] = key
        return not known


class RecentSketches:
    """Whether a page is a near-duplicate of *some* recent ones, for links must be judged before the drum `near` is
    asked: for each part of a sketch and two of its blocks of 16 bits the last one with that block, 3 MB. So a page may
    be missed, but none is made up."""

    def __init__(self) -> None:
        self._cells = [memoryview(bytearray(8 << BLOCK_BITS)).cast("Q") for _ in range(PARTS * BLOCKS_LOOKED)]

    def near(self, sketch: tuple[int, ...]) -> bool:
        """Whether it is one; remembers it. A Python loop of six looks a page: an array of them would cost more."""
        found, table = False, iter(self._cells)
        for part in sketch:
            for shift in range(0, BLOCK_BITS * BLOCKS_LOOKED, BLOCK_BITS):
                cells, block = next(table), part >> shift & ((1 << BLOCK_BITS) - 1)
                if not found and (known := cells[block]):
                    found = (known ^ part).bit_count() <= DISTANCE
                cells[block] = part
        return found


def _first(keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which rows are the first with their key: the first row to come to a place of a table, if it has one's own key;
    the few others are sorted, which would take three times as long for all."""
    rows = np.arange(len(keys))
    mask = np.uint64((1 << (4 * len(keys)).bit_length()) - 1)
    place = (keys & mask).view(np.int64)
    table = np.empty(int(mask) + 1, np.int64)
    table[place[::-1]] = rows[::-1]  # the last to write is the first row
    found = table.take(place)
    first = found == rows
    others = np.flatnonzero(keys.take(found) != keys)
    if len(others):
        order = others[np.argsort(keys[others])]
        ordered = keys[order]
        starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        first[np.minimum.reduceat(order, starts)] = True
    return first


class Rows:
    """Rows of one section on their way into columns: tuples at first, a batch every CHUNK_ROWS."""

    def __init__(self, schema: dict[str, str]) -> None:
        self.schema = schema
        self.fresh: list[tuple[Any, ...]] = []
        self.batches: list[Batch] = []
        self.nbytes = 0

    def pack(self, recent: RecentKeys | None = None) -> int:
        """Turn the tuples into a batch without the rows whose key is in `recent`; returns how many those were."""
        if not self.fresh:
            return 0
        columns: list[Iterable[Any]] = list(zip(*self.fresh, strict=True))
        for at, value in enumerate(self.fresh[0]):
            if isinstance(value, Carried):
                columns[at : at + 1] = zip(*columns[at], strict=True)
        count = len(self.fresh)
        batch = Batch({
            name: Ragged.from_list(values) if kind == BYTES else np.fromiter(values, "<" + kind, count)
            for (name, kind), values in zip(self.schema.items(), columns, strict=True)
        })  # fmt: skip
        self.fresh = []
        if recent is not None:
            batch = batch.filter(recent.fresh(batch["key"]))
        self.batches.append(batch)
        self.nbytes += batch.nbytes
        return count - batch.rows


class HarvestBuilder:
    """Gathers what units yield, for one stream. Not for several threads; a Harvest it let go of may be written on one.

    `take` and `write` are the same but for when the disk is touched. Their caller makes the archive durable up to
    `position` before the file appears.
    """

    def __init__(
        self, files: Files, state_dir: str, stream: int, clock: Clock, first_number: int = 0,
        duplicates_last: bool = False, near_duplicates_max: int = 0,
    ) -> None:  # fmt: skip
        """duplicates_last: links within its site of a page whose content is known go last, and it supports no other.
        near_duplicates_max: after so many of a directory in a row they are left out."""
        self._duplicates_last = duplicates_last
        self._repetition = Repetition(near_duplicates_max)
        self._files = files
        self._state_dir = state_dir
        self._clock = clock
        self._stream = stream
        self._number = first_number
        self._recent_links = RecentKeys()
        self._recent_contents = RecentKeys()  # fingerprints of pages
        self._recent_sketches: RecentSketches | None = None
        self._waiting: list[UnitRows] = []  # from the first with words on, so that units keep their order
        self._waiting_bytes = self._waiting_rows = 0  # of their words; their links and outcomes
        self.rules_log = RulesLog(files, state_dir, stream, clock)
        self._clear()

    def _clear(self) -> None:
        self._rows = {name: Rows(schema) for name, schema in SECTIONS.items()}
        self._recent_pairs = RecentKeys(PAIR_BITS)  # of one harvest: what does not count now may count later
        self._line_bytes = self._packed_bytes = 0
        self._since: float | None = None
        self.counters = dict.fromkeys(COUNTERS, 0)

    @property
    def nbytes(self) -> int:
        """Memory held, packed rows exactly and others roughly: below the size of the file without compression."""
        held = self._packed_bytes + self._waiting_bytes + self._line_bytes
        fresh = len(self._rows["links"].fresh) + len(self._rows["outcomes"].fresh)
        return held + 256 * (fresh + self._waiting_rows)

    @property
    def empty(self) -> bool:
        return self._since is None

    @property
    def age(self) -> float:
        """Seconds since the first unit in it; 0 when empty."""
        return 0.0 if self._since is None else self._clock.now() - self._since

    def add(self, found: UnitRows) -> Pointer | None:
        """Take in what a unit yields. Returns where its robots.txt text was put, if it brought one."""
        if self._since is None:
            self._since = self._clock.now()
        pointer = self._add_fact(found.fact) if found.fact is not None else None
        found.novel = bool(found.site and found.content) and self._recent_contents.one_fresh(found.content)
        if not found.novel:
            found.words = b""  # what it says is known: it needs no sketch
        if not found.words and not self._waiting:
            self._add_rows(found, ())
            return pointer
        self._waiting.append(found)
        self._waiting_bytes += len(found.words)
        self._waiting_rows += len(found.links) + 1
        full = self._waiting_bytes >= WAITING_BYTES or self._waiting_rows >= CHUNK_ROWS
        if full or len(self._waiting) == WAITING_UNITS_MAX:
            self._add_waiting()
        return pointer

    def _add_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._waiting_bytes = self._waiting_rows = 0
        sketched = iter(sketches([found.words for found in waiting if found.words]))
        for found in waiting:
            self._add_rows(found, next(sketched) if found.words else ())

    def _add_rows(self, found: UnitRows, sketch: tuple[int, ...]) -> None:
        _, _, _, _, cls, _, status, received, line = found.outcome
        rows, counters = self._rows, self.counters
        counters["pages"] += cls != Class.NONE and status > 0
        counters["bytes"] += received
        counters["links"] += len(found.links)
        counters["retries"] += cls == Class.RETRY
        for name, count in found.counts.items():
            counters[name] += count
        rows["outcomes"].fresh.append(found.outcome)
        self._line_bytes += len(line)
        if found.site:
            novel = found.novel
            waits = False  # for the drum's word
            if sketch:
                if self._recent_sketches is None:
                    self._recent_sketches = RecentSketches()
                novel = not self._recent_sketches.near(sketch)
                counters["near_duplicates"] += not novel
                waits = novel and not found.bare
                self._add_near(found, sketch, waits)
            if not waits:
                rows["yields"].fresh.append((found.site, novel and not found.bare))
            if found.content and self._repetition.trapped(found.directory, novel):
                counters["trapped"] += len(found.links)
                found.links, found.pairs = [], []
            if self._duplicates_last and found.content and not novel:
                found.pairs = []
                found.links = [
                    (key, site, host, carried._replace(priority=PRIORITY_LAST) if site == found.site else carried, url)
                    for key, site, host, carried, url in found.links
                ]
        rows["links"].fresh += found.links
        rows["pairs"].fresh += found.pairs
        if found.retry is not None:
            rows["retries"].fresh.append(found.retry)
        if found.visit is not None:
            rows["visits"].fresh.append(found.visit)
        rows["signals"].fresh += found.signals
        rows["scope"].fresh += [(entry,) for entry in found.scope]
        if len(rows["links"].fresh) >= CHUNK_ROWS or len(rows["outcomes"].fresh) >= CHUNK_ROWS:
            self._pack()

    def _add_near(self, found: UnitRows, sketch: tuple[int, ...], waits: bool) -> None:
        """waits: what the page is worth to its site and to others is not settled yet."""
        pairs: list[tuple[int, int, int]] = []
        if waits and self._duplicates_last:
            pairs, found.pairs = found.pairs, []
        packed = np.array([pair[:2] for pair in pairs], "<u8").tobytes() if pairs else b""
        self._rows["near"].fresh.append((found.site, waits, *sketch, packed))

    def _add_fact(self, fact: Fact) -> Pointer | None:
        pointer = self.rules_log.append(fact.rules) if fact.rules else None
        self._rows["facts"].fresh.append(
            (fact.host, fact.at, fact.robots, fact.robots_until, *(pointer or (0, 0, 0)), fact.crawl_delay, fact.failed)
        )
        return pointer

    def _pack(self) -> None:
        recent = {"links": self._recent_links, "pairs": self._recent_pairs}
        dropped = {name: rows.pack(recent.get(name)) for name, rows in self._rows.items()}
        self.counters["duplicates"] += dropped["links"]
        self._line_bytes, self._packed_bytes = 0, sum(rows.nbytes for rows in self._rows.values())

    def take(self, position: tuple[int, int]) -> Harvest | None:
        """What was gathered, under the next number, covering the archive up to `position`; None when there is nothing.
        The builder is empty after it."""
        if self.empty:
            return None
        self._add_waiting()
        self._pack()
        harvest = Harvest(
            self._files, self._state_dir, self._stream, self._number, position, self.counters,
            {name: rows.batches for name, rows in self._rows.items()}, self.rules_log,
        )  # fmt: skip
        self._number += 1
        self._clear()
        return harvest

    def write(self, position: tuple[int, int]) -> str | None:
        """take() and write at once; the file's name, or None when there is nothing."""
        harvest = self.take(position)
        if harvest is None:
            return None
        harvest.write()
        return harvest.file


@dataclass
class Harvest:
    """A harvest ready to be written, apart from the builder that goes on gathering."""

    files: Files
    state_dir: str
    stream: int
    number: int
    position: tuple[int, int]
    counters: dict[str, int]
    rows: dict[str, list[Batch]]
    rules_log: RulesLog

    @property
    def file(self) -> str:
        return harvest_name(self.stream, self.number)

    @property
    def pages(self) -> int:
        return self.counters["pages"]

    def write(self) -> int:
        """Write the file, durable when this returns. Returns its bytes. OSError; then the file is not there."""
        self.rules_log.sync()
        with SegmentWriter(self.files, os.path.join(self.state_dir, self.file)) as writer:
            write_sections(writer, self.stream, self.number, self.rows, self.position, self.counters)
        return writer.bytes
