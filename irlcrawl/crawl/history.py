"""JOB/history: how a crawl went, for a year, in a file that never gets larger than 5.3 MB.

Every ten seconds the crawl writes some figures of its status record (SAMPLED) into a ring, every five minutes into a
second one and every hour into a third. A sample is never summed up with others: each was true at its moment, and the
rates between two of them follow from the totals. The ring of a level has a fixed place for each time (its number of
steps since 1970, modulo the slots), so nothing is searched, moved or rewritten, and a kill loses nothing. Writes are
not synced: after a power loss the samples of the last half minute may be gone or torn, which their checksum tells.

    0       a line of JSON, then zeros: {"history": 1, "levels": [[seconds, slots], ...], "fields": [name, ...]}
    4096    the slots of each level in turn: unix seconds (f8), CRC-32 of seconds and values (u4), u4 of 0,
            a value a field (f8; NaN: not known). All little endian
"""

from __future__ import annotations

import json
import logging
import math
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from drum.files import Damaged, Files

from irlcrawl.crawl.status import errors_by_reason

VERSION = 1
BYTES_MAX = 64 << 20
"""No history is longer, whatever its header says."""
HEADER_BYTES = 4096
LEVELS = ((10, 8640), (300, 8064), (3600, 8760))
"""(seconds, slots): a day, four weeks, a year."""

SAMPLED = (
    "fetched", "failed", "excluded", "errors", "bytes", "discovered_urls", "duplicate_urls", "fetch_failures",
    "retry_count", "queued_urls", "leased_urls", "scheduled_urls", "resting_urls", "pages", "active_hosts",
    "ready_hosts", "frontier_latency_s", "pass_seconds", "frontier_bytes", "harvest_bytes", "workers", "memory_bytes",
    "warc_bytes", "disk_free_bytes",
)  # fmt: skip
"""Fields of the status record, and `errors`: URLs that ended without a page."""
TOTALS = frozenset((
    "fetched", "failed", "excluded", "errors", "bytes", "discovered_urls", "duplicate_urls", "fetch_failures",
    "retry_count", "warc_bytes",
))  # fmt: skip
"""Of these, the ones that only grow (but where URLs are put back): a person wants to see how fast."""

_HEAD = struct.Struct("<dI4x")
_SECONDS = struct.Struct("<d")

_log = logging.getLogger("irlcrawl.crawl")

Sample = tuple[float, dict[str, float | None]]
"""Unix seconds, and the value of each field; None: not known then."""


class Shape(NamedTuple):
    """What a file's header says."""

    levels: Sequence[tuple[int, int]]
    fields: Sequence[str]

    @property
    def slot_bytes(self) -> int:
        return _HEAD.size + 8 * len(self.fields)

    def begin(self, level: int) -> int:
        """Where the slots of a level begin."""
        return HEADER_BYTES + self.slot_bytes * sum(slots for _, slots in self.levels[:level])

    @property
    def size(self) -> int:
        """Of the whole file, at most, in bytes."""
        return self.begin(len(self.levels))

    def header(self) -> bytes:
        text = {"history": VERSION, "levels": [list(level) for level in self.levels], "fields": list(self.fields)}
        return (json.dumps(text).encode() + b"\n").ljust(HEADER_BYTES, b"\0")


SHAPE = Shape(LEVELS, SAMPLED)


class History:
    """Writes samples. An error of the disk ends no crawl: it is logged once, and the next sample tries again."""

    def __init__(self, files: Files, path: str | os.PathLike[str]) -> None:
        self._files, self._path = files, path
        self._handle: int | None = None
        self._due = 0.0
        self._written: dict[int, int] = {}  # level -> the step of its last sample
        self._failed = False

    def tick(self, now: float, record: Callable[[], Mapping[str, Any]]) -> None:
        """As often as the loop passes: a sample if it is time. `record` is asked only then."""
        if now < self._due:
            return
        step = LEVELS[0][0]
        self._due = now // step * step + step
        try:
            self._write(now, record())
            self._failed = False
        except OSError as error:
            if not self._failed:
                _log.warning("no sample in %s: %s", self._path, error)
            self._failed = True

    def last(self, now: float, record: Callable[[], Mapping[str, Any]]) -> None:
        """A sample of how it ended, and no more."""
        self._due, self._written = 0.0, {}
        self.tick(now, record)
        self.close()

    def close(self) -> None:
        if self._handle is not None:
            self._files.close(self._handle)
            self._handle = None

    def _write(self, now: float, record: Mapping[str, Any]) -> None:
        handle = self._open()
        data = _packed(now, record)
        for level, (seconds, slots) in enumerate(SHAPE.levels):
            number = int(now // seconds)
            if self._written.get(level) != number:
                self._files.pwrite(handle, data, SHAPE.begin(level) + number % slots * SHAPE.slot_bytes)
                self._written[level] = number

    def _open(self) -> int:
        """The file; made anew if it is not there, or is not one of this shape."""
        if self._handle is None:
            handle = self._files.update(self._path)
            try:
                if self._files.pread(handle, HEADER_BYTES, 0) != SHAPE.header():
                    self._files.truncate(handle, 0)
                    self._files.pwrite(handle, SHAPE.header(), 0)
            except BaseException:
                self._files.close(handle)
                raise
            self._handle = handle
        return self._handle


def _packed(now: float, record: Mapping[str, Any]) -> bytes:
    known = {**record, "errors": sum(errors_by_reason(record).values())}
    values = [math.nan if (value := known.get(name)) is None else float(value) for name in SAMPLED]
    seconds, body = _SECONDS.pack(now), struct.pack(f"<{len(values)}d", *values)
    return _HEAD.pack(now, zlib.crc32(seconds + body)) + body


# -- reading -----------------------------------------------------------------------------------------------------------


def read(path: str | os.PathLike[str], since: float, until: float, most: int = 0) -> list[Sample]:
    """The samples between two times (unix seconds), the oldest first: of the finest level that goes back so far, and
    before its first one of coarser ones. most: of more than so many, every second, third, ... is left out; 0: none.
    Nothing where there is no file. Damaged, OSError."""
    try:
        with open(path, "rb") as stream:
            shape = _shape(path, stream.read(HEADER_BYTES))
            found: list[Sample] = []
            for level, (seconds, slots) in enumerate(shape.levels):
                if level and found and found[0][0] - since < shape.levels[level - 1][0] * 2:
                    break
                stream.seek(shape.begin(level))
                first = found[0][0] if found else math.inf
                older = _samples(shape, stream.read(slots * shape.slot_bytes), seconds, slots)
                wanted = {at: values for at, values in older if since <= at <= until and at < first}
                found = sorted(wanted.items(), key=lambda sample: sample[0]) + found
    except FileNotFoundError:
        return []
    every = -(-len(found) // most) if most else 1
    return found[::-1][::every][::-1] if every > 1 else found


def _samples(shape: Shape, data: bytes, seconds: int, slots: int) -> Iterator[Sample]:
    """What is whole, in the order of the slots. A slot that was never written has a wrong checksum, too."""
    width = shape.slot_bytes
    values = struct.Struct(f"<{len(shape.fields)}d")
    for slot in range(len(data) // width):
        at, crc = _HEAD.unpack_from(data, slot * width)
        if not at or int(at // seconds) % slots != slot:
            continue
        body = data[slot * width + _HEAD.size : (slot + 1) * width]
        if zlib.crc32(_SECONDS.pack(at) + body) == crc:
            known = (None if math.isnan(value) else value for value in values.unpack(body))
            yield at, dict(zip(shape.fields, known, strict=True))


def _shape(path: str | os.PathLike[str], header: bytes) -> Shape:
    try:
        said = json.loads(header.partition(b"\n")[0])
        shape = Shape([(int(seconds), int(slots)) for seconds, slots in said["levels"]], list(map(str, said["fields"])))
        sane = all(min(level) > 0 for level in shape.levels) and shape.levels and shape.size <= BYTES_MAX
        if sane and shape.header() == header:
            return shape
    except (ValueError, KeyError, TypeError):
        pass
    raise Damaged(path, 0, "not the header of a history")


def check(path: str | os.PathLike[str]) -> None:
    """Raise Damaged if it can no longer be read. Samples that a power loss tore are left out by every reader."""
    with open(path, "rb") as stream:
        shape = _shape(path, stream.read(HEADER_BYTES))
        size = stream.seek(0, os.SEEK_END)
    if size > shape.size:
        raise Damaged(path, shape.size, "longer than a history gets")
