"""What a worker hands to the frontier: one immutable segment file of links, outcomes and facts, and the robots log.

A harvest `harvest-SSSS-NNNNNN.seg` (stream, number; both decimal) in JOB/state has the sections

  links     rows.LINK            discoveries in scope, in arrival order; labels key >> 56 when over 65,536 rows
  pairs     rows.PAIR            links between two different sites, in arrival order; same labels
  yields    rows.YIELD           a row per URL that is done: whether it brought anything new, for its site's budget
  outcomes  rows.OUTCOME         one row per unit of the archive, robots.txt included (segment NO_SEGMENT, class NONE)
  retries   rows.LINK + due f8   URLs to ask for again; attempt is already counted up
  facts     rows.FACT            what was learnt about hosts; `robots` UNKNOWN says nothing about robots.txt
  scope     rows.SCOPE_ENTRY     scope entries that seeds' redirects brought

and on `outcomes` the meta
  {"stream", "number", "warc": [serial, offset], "counters": COUNTERS}
where `warc` is the end of the last unit it covers. Numbers of a stream count up from 0 without a gap; a harvest covers
the units between its predecessor's `warc` and its own. COUNTERS: `pages` (responses, robots.txt not counted), `bytes`
(received, robots.txt counted), `links` (in scope, those in `links` and those dropped), `duplicates` (in scope, dropped:
an earlier link of this stream has the key), `out_of_scope`, `trapped` (links left out by page/repetition.py),
`unparsed` (pages that broke a parser), and the ledger's done classes `fetched`, `failed`, `excluded` {reason: n},
`retries`.

The robots log `robots-SSSS.log` is append-only: a header (`irlROBO`, newline, u32 version 2, u32 zero; version 1 had
none), then u32 length, u64 xxh3 of the text, the text. Facts, leases and host
records point to a text by [log, offset, length]. It is on the disk before a harvest names it; any process may read it.
"""

from __future__ import annotations

import dataclasses
import os
import struct
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from drum import Batch, Damaged, Files, Ragged, SegmentWriter, UnknownVersion
from drum.codec import KEY_FUNCTION
from irlcrawl.clock import Clock
from irlcrawl.page.repetition import Repetition
from irlcrawl.rows import BYTES, FACT, LINK, OUTCOME, PAIR, SCOPE_ENTRY, YIELD, Class, Reason

Pointer = tuple[int, int, int]
"""(log, offset, length) of a text in a robots log."""

RETRY = {**LINK, "due": "f8"}
LABEL_ROWS = 65_536
LABEL_SHIFT = np.uint64(56)
CHUNK_ROWS = 4096
CACHE_BITS = 18
PAIR_BITS = 14
PRIORITY_LAST = 255
PRIORITY_AT = list(LINK).index("priority")
CONTENTS_MAX = 100_000
"""Pages whose content a worker remembers, some 15 MB."""

_RECORD = struct.Struct("<IQ")
RULES_MAGIC, RULES_VERSION = b"irlROBO\n", 3
RULES_ALIKE = 12  # so many bytes like those of the header are a header
RULES_HEADER = RULES_MAGIC + struct.pack("<II", RULES_VERSION, KEY_FUNCTION)
RULES_HEADERS = (RULES_HEADER, RULES_MAGIC + struct.pack("<II", 2, 0))


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
class Yield:
    """What one unit adds to a harvest. Rows are tuples in the order of their schema's columns."""

    outcome: tuple[Any, ...]
    links: list[tuple[Any, ...]] = field(default_factory=list)
    pairs: list[tuple[int, int, int]] = field(default_factory=list)
    retry: tuple[Any, ...] | None = None
    fact: Fact | None = None
    scope: list[bytes] = field(default_factory=list)
    site: int = 0  # of a URL that is done: whose yield it is; 0 for others
    directory: int = 0  # of a successful page: page/repetition.py
    content: int = 0  # fingerprint of a successful page; 0: none
    out_of_scope: int = 0
    unparsed: bool = False  # the page broke its parser


def harvest_name(stream: int, number: int) -> str:
    return f"harvest-{stream:04d}-{number:06d}.seg"


class RecentKeys:
    """The exact set of *some* recent keys: direct-mapped, so a key may be forgotten but never invented. 8 << bits B.

    Key 0 is never remembered (it marks an empty place); its rows just pass.
    """

    def __init__(self, bits: int = CACHE_BITS) -> None:
        self._slots = np.zeros(1 << bits, np.uint64)
        self._mask = np.uint64((1 << bits) - 1)

    def fresh(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """bool[n]: False where the key was certainly given before, in this call or an earlier one."""
        place = keys & self._mask
        remembered = (self._slots[place] == keys) & (keys != 0)
        self._slots[place] = keys
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        repeated = np.zeros(len(keys), np.bool_)
        repeated[order[1:]] = ordered[1:] == ordered[:-1]
        return ~(remembered | repeated)


class TornText(Damaged):
    """A robots.txt text with zeros where it should have something: blocks that power went before. It was not synced
    then, so no harvest names it or what follows it."""


class RulesLog:
    """The robots log of one stream, for its writer; `read` serves every log to anyone."""

    def __init__(self, files: Files, state_dir: str, stream: int) -> None:
        self._files = files
        self._stream = stream
        self._path = os.path.join(state_dir, rules_log_name(stream))
        self._handle: int | None = None
        self._offset = 0
        self._synced = True

    def append(self, text: bytes) -> Pointer:
        """Write a text; readable at once, on the disk after sync()."""
        if self._handle is None:
            self._handle = self._files.append(self._path)
            self._offset = self._begin(self._handle)
        pointer = (self._stream, self._offset, len(text))
        self._files.write(self._handle, _RECORD.pack(len(text), xxhash.xxh3_64_intdigest(text)) + text)
        self._offset += _RECORD.size + len(text)
        self._synced = False
        return pointer

    def _begin(self, handle: int) -> int:
        """Where the next text goes: behind the header, or (in recovery) behind the last whole text of a dead writer."""
        size, whole = self._files.size(handle), 0
        try:
            for _, end in self.texts(self._files, self._path) if size else ():
                whole = end
        except TornText:
            pass
        if not whole:
            self._files.truncate(handle, 0)
            self._files.write(handle, RULES_HEADER)
            return len(RULES_HEADER)
        if whole < size:
            self._files.truncate(handle, whole)
        return whole

    def recover(self) -> None:
        """Cut what a dead writer left behind its last whole text, if it had a log."""
        if self._files.exists(self._path):
            self._handle = self._files.append(self._path)
            size = self._files.size(self._handle)
            self._offset = self._begin(self._handle)
            if self._files.size(self._handle) != size:
                self._files.fsync(self._handle)

    def sync(self) -> None:
        """Nothing when nothing was written since the last one."""
        if self._handle is not None and not self._synced:
            self._synced = True
            self._files.fsync(self._handle)

    def close(self) -> None:
        if self._handle is not None:
            self._files.close(self._handle)
            self._handle = None

    def __del__(self) -> None:
        self.close()

    @staticmethod
    def read(files: Files, state_dir: str, pointer: Sequence[int]) -> bytes:
        """The text a pointer names. Damaged when it is not there as it was written; OSError."""
        log, offset, length = pointer
        path = os.path.join(state_dir, rules_log_name(log))
        handle = files.open(path)
        try:
            record = files.pread(handle, _RECORD.size + length, offset)
        finally:
            files.close(handle)
        text = record[_RECORD.size :]
        if len(text) != length or _RECORD.unpack_from(record) != (length, xxhash.xxh3_64_intdigest(text)):
            raise Damaged(path, offset, f"no robots.txt text of {length} bytes here")
        return text

    @staticmethod
    def texts(files: Files, path: str) -> Iterator[tuple[bytes, int]]:
        """(text, where its record ends) of a log, in order; one that a crash cut short is none. UnknownVersion;
        Damaged, TornText; OSError."""
        handle = files.open(path)
        try:
            size = files.size(handle)
            at = _rules_begin(files.pread(handle, len(RULES_HEADER), 0), path)
            while at + _RECORD.size <= size:
                head = files.pread(handle, _RECORD.size, at)
                length, checksum = _RECORD.unpack(head)
                if at + _RECORD.size + length > size:
                    return
                text = files.pread(handle, length, at + _RECORD.size)
                if xxhash.xxh3_64_intdigest(text) != checksum:
                    torn = 0 in text or head[0] == 0 or 0 in head[4:]  # a length has zeros of its own
                    raise (TornText if torn else Damaged)(path, at, "a robots.txt text with a wrong checksum")
                at += _RECORD.size + length
                yield text, at
        finally:
            files.close(handle)

    @staticmethod
    def end_of(offset: int, length: int) -> int:
        """Where the record of a pointer ends in its log."""
        return offset + _RECORD.size + length

    @staticmethod
    def drop_old(files: Files, state_dir: str, before: float) -> list[str]:
        """Delete the logs nobody has written to since `before` (unix seconds): every answer in them has expired."""
        old = [
            name
            for name in files.listdir(state_dir)
            if name.startswith("robots-") and name.endswith(".log") and files.modified(f"{state_dir}/{name}") < before
        ]
        for name in old:
            files.unlink(f"{state_dir}/{name}")
        return old


def _rules_begin(head: bytes, path: str) -> int:
    """Where the first text of a robots log begins. Version 1 had no header: what it has there is nothing like one."""
    alike = sum(byte == ours for byte, ours in zip(head, RULES_HEADER))
    if alike < min(len(head), RULES_ALIKE):
        return 0
    if all(head != header[: len(head)] for header in RULES_HEADERS):
        version = int.from_bytes(head[8:12], "little")
        if head.startswith(RULES_MAGIC) and RULES_VERSION < version < 1 << 16 and head.endswith(RULES_HEADER[-4:]):
            raise UnknownVersion(path, version, f"1 to {RULES_VERSION}")
        wrong = next(at for at, (byte, ours) in enumerate(zip(head, RULES_HEADER)) if byte != ours)
        raise Damaged(path, wrong, "not the header of a robots log")
    return len(RULES_HEADER)


def rules_log_name(stream: int) -> str:
    return f"robots-{stream:04d}.log"


@dataclass(slots=True)
class Counters:
    pages: int = 0
    bytes: int = 0
    links: int = 0
    duplicates: int = 0
    out_of_scope: int = 0
    trapped: int = 0
    fetched: int = 0
    failed: int = 0
    retries: int = 0
    unparsed: int = 0
    excluded: dict[str, int] = field(default_factory=dict)

    def count(self, cls: int, reason: int, status: int, received: int) -> None:
        self.bytes += received
        if cls == Class.NONE:
            return
        self.pages += status > 0
        if cls == Class.FETCHED:
            self.fetched += 1
        elif cls == Class.FAILED:
            self.failed += 1
        elif cls == Class.RETRY:
            self.retries += 1
        else:
            name = Reason(reason).name.lower()
            self.excluded[name] = self.excluded.get(name, 0) + 1


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
        columns = zip(*self.fresh, strict=True)
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

    def write(self, writer: SegmentWriter, name: str, meta: dict[str, Any] | None = None, labels: bool = False) -> None:
        section = writer.section(name, self.schema, meta)
        labelled = labels and sum(batch.rows for batch in self.batches) > LABEL_ROWS
        for batch in self.batches:
            section.append(batch, (batch["key"] >> LABEL_SHIFT).astype(np.uint8) if labelled else None)


class HarvestBuilder:
    """Gathers what units yield, for one stream. Not for several threads; a Harvest it let go of may be written on one.

    `take` and `write` are the same but for when the disk is touched. Whoever calls them has made the archive durable up
    to `position` before the file appears.
    """

    def __init__(
        self, files: Files, state_dir: str, stream: int, clock: Clock, first_number: int = 0,
        duplicates_last: bool = False, near_duplicates_max: int = 0,
    ) -> None:  # fmt: skip
        """duplicates_last: links of a page whose content is known go last, and it supports no other site.
        near_duplicates_max: after so many of a directory in a row they are left out."""
        self._duplicates_last = duplicates_last
        self._repetition = Repetition(near_duplicates_max)
        self._files = files
        self._state_dir = state_dir
        self._clock = clock
        self._stream = stream
        self._number = first_number
        self._recent_links = RecentKeys()
        self._contents: OrderedDict[int, None] = OrderedDict()  # fingerprints of pages, the oldest first
        self.rules_log = RulesLog(files, state_dir, stream)
        self._clear()

    def _clear(self) -> None:
        self._links, self._pairs = Rows(LINK), Rows(PAIR)
        self._outcomes, self._retries = Rows(OUTCOME), Rows(RETRY)
        self._facts, self._scope, self._yields = Rows(FACT), Rows(SCOPE_ENTRY), Rows(YIELD)
        self._recent_pairs = RecentKeys(PAIR_BITS)  # of one harvest: what does not count now may count later
        self._line_bytes = 0
        self._since: float | None = None
        self.counters = Counters()

    @property
    def nbytes(self) -> int:
        """Memory held, packed rows exactly and others roughly: below the size of the file without compression."""
        packed = sum(rows.nbytes for rows in (self._links, self._pairs, self._outcomes, self._retries, self._facts))
        return packed + self._line_bytes + 256 * (len(self._links.fresh) + len(self._outcomes.fresh))

    @property
    def empty(self) -> bool:
        return self._since is None

    @property
    def age(self) -> float:
        """Seconds since the first unit in it; 0 when empty."""
        return 0.0 if self._since is None else self._clock.now() - self._since

    def add(self, found: Yield) -> Pointer | None:
        """Take in what a unit yields. Returns where its robots.txt text was put, if it brought one."""
        if self._since is None:
            self._since = self._clock.now()
        _, _, _, _, cls, reason, status, received, line = found.outcome
        self.counters.count(cls, reason, status, received)
        self.counters.links += len(found.links)
        self.counters.out_of_scope += found.out_of_scope
        self.counters.unparsed += found.unparsed
        self._outcomes.fresh.append(found.outcome)
        self._line_bytes += len(line)
        if found.site:
            novel = self._novel(found.content)
            self._yields.fresh.append((found.site, novel))
            if found.content and self._repetition.trapped(found.directory, novel):
                self.counters.trapped += len(found.links)
                found.links, found.pairs = [], []
            if self._duplicates_last and found.content and not novel:
                found.pairs = []
                found.links = [(*link[:PRIORITY_AT], PRIORITY_LAST, *link[PRIORITY_AT + 1 :]) for link in found.links]
        self._links.fresh += found.links
        self._pairs.fresh += found.pairs
        if found.retry is not None:
            self._retries.fresh.append(found.retry)
        self._scope.fresh += [(entry,) for entry in found.scope]
        pointer = self._add_fact(found.fact) if found.fact is not None else None
        if len(self._links.fresh) >= CHUNK_ROWS or len(self._outcomes.fresh) >= CHUNK_ROWS:
            self._pack()
        return pointer

    def _novel(self, content: int) -> bool:
        """Whether a page's content is none of the last CONTENTS_MAX others'."""
        known = content in self._contents
        self._contents[content] = None
        self._contents.move_to_end(content)
        if len(self._contents) > CONTENTS_MAX:
            self._contents.popitem(last=False)
        return content != 0 and not known

    def _add_fact(self, fact: Fact) -> Pointer | None:
        pointer = self.rules_log.append(fact.rules) if fact.rules else None
        self._facts.fresh.append(
            (fact.host, fact.at, fact.robots, fact.robots_until, *(pointer or (0, 0, 0)), fact.crawl_delay, fact.failed)
        )
        return pointer

    def _pack(self) -> None:
        self.counters.duplicates += self._links.pack(self._recent_links)
        self._pairs.pack(self._recent_pairs)
        for rows in (self._outcomes, self._retries, self._facts, self._scope, self._yields):
            rows.pack()
        self._line_bytes = 0

    def take(self, position: tuple[int, int]) -> Harvest | None:
        """What was gathered, under the next number, covering the archive up to `position`; None when there is nothing.
        The builder is empty after it."""
        if self.empty:
            return None
        self._pack()
        meta = {
            "stream": self._stream,
            "number": self._number,
            "warc": list(position),
            "counters": dataclasses.asdict(self.counters),
        }
        sections = {
            "links": self._links, "pairs": self._pairs, "outcomes": self._outcomes, "retries": self._retries,
            "facts": self._facts, "scope": self._scope, "yields": self._yields,
        }  # fmt: skip
        harvest = Harvest(
            self._files, self._state_dir, harvest_name(self._stream, self._number), self._number, self.counters.pages,
            meta, sections, self.rules_log,
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
    file: str
    number: int
    pages: int
    meta: dict[str, Any]
    sections: dict[str, Rows]
    rules_log: RulesLog

    def write(self) -> int:
        """Write the file, durable when this returns. Returns its bytes. OSError; then the file is not there."""
        self.rules_log.sync()
        with SegmentWriter(self.files, os.path.join(self.state_dir, self.file)) as writer:
            for name, rows in self.sections.items():
                meta = self.meta if name == "outcomes" else None
                rows.write(writer, name, meta, labels=name in ("links", "pairs", "yields"))
        return writer.bytes
