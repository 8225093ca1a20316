"""Which payloads earlier crawls have archived (archive.dedupe_from), as a worker asks for each response it is about to
store.

A start reads the crawl logs of these crawls, and its own, and CDXJ files, and makes one file of what they say of
payloads, sorted by digest. A worker keeps a filter of it in memory, 2 to 4 bytes a payload: nearly all of what is new
ends there. What passes (0.4% to 1.4% of new payloads, and those that are there) costs one positioned read of a block.
What workers archive after the start is not in it.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

from drum import Batch, Files, Ragged, Segment, SegmentWriter
from drum.store import merged

import numpy as np
from numpy.typing import NDArray

from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import temporary
from irlcrawl.terminal.progress import Bar
from irlcrawl.worker.archive import log_parts
from irlcrawl.worker.archive.crawl_log import LogEntry
from irlcrawl.worker.archive.record import date, sha1_of, uri
from irlcrawl.worker.archive.shown_log import shown_lines, shown_reads

SCHEMA = {"key": "u8", "rest": "bytes", "uri": "bytes", "date": "bytes", "file": "bytes", "offset": "u8"}
"""key and rest: the SHA-1, its first 8 bytes as a number; uri and date: of the record, as a revisit record names it;
file and offset: where it lies, a path of this machine (empty: not known)."""
SECTION, FILTER = "payloads", "filter"
BLOCK_ROWS = 128
RUN_ROWS = 200_000
"""Sorted in memory at a time, some 60 MB."""
FILTER_BITS = 16
"""A payload, at least."""
KEY_BYTES = 8
_GOLDEN = 0x9E3779B97F4A7C15
_DIGESTS = ("fetched", "failed")
_NO_LINE = (ValueError, KeyError, IndexError, AttributeError, TypeError, RecursionError)
"""What a line raises that is none of CDXJ."""


class Known(NamedTuple):
    """A payload that a record of a crawl holds: its SHA-1, and the record's WARC-Target-URI and WARC-Date; where the
    record lies, as in SCHEMA."""

    sha1: bytes
    uri: bytes
    date: bytes
    file: bytes = b""
    offset: int = 0


class Payloads:
    """The file, opened; one reader."""

    def __init__(self, files: Files, path: str) -> None:
        """FileNotFoundError, Damaged, OSError."""
        sections = Segment.open(files, path).sections
        self._section = sections[SECTION]
        self._bits = b"".join(batch["bits"].tobytes() for batch in sections[FILTER].scan())
        self._width = (8 * len(self._bits)).bit_length() - 1

    @classmethod
    def open(cls, files: Files, job: JobDir) -> Payloads | None:
        """JOB's; None where nobody made one: on another machine than the one that was started. Damaged, OSError."""
        path = os.fspath(job.payloads)
        return cls(files, path) if files.exists(path) else None

    def find(self, sha1: bytes) -> Known | None:
        """The record that holds a payload of this digest. Damaged, OSError."""
        key = int.from_bytes(sha1[:KEY_BYTES], "big")
        for bit in _places(key, self._width):
            if not self._bits[bit >> 3] >> (bit & 7) & 1:
                return None
        for rows in self._section.between(key, key):
            at = int(np.searchsorted(rows["key"], np.uint64(key)))
            if at < rows.rows and int(rows["key"][at]) == key and rows["rest"][at] == sha1[KEY_BYTES:]:
                return Known(sha1, rows["uri"][at], rows["date"][at], rows["file"][at], int(rows["offset"][at]))
        return None


def _places(key: int, width: int) -> tuple[int, int]:
    """The bits of a key in a filter of 2**width."""
    return key & ((1 << width) - 1), (key * _GOLDEN & 0xFFFFFFFFFFFFFFFF) >> (64 - width)


def build(files: Files, job: JobDir, sources: list[str], bytes_min: int, bar_of: Callable[[], Bar] = Bar) -> int:
    """Make JOB's file of what the sources and JOB itself have; returns the number of payloads. bytes_min: of a payload
    of a crawl that is worth a revisit record. bar_of: shows how far a long source is read. OSError, Damaged, ValueError
    (a source that cannot be read)."""
    files.mkdir(job.indexes)
    directory, runs = os.fspath(job.indexes), list[str]()
    try:
        for known in _some(
            payload for one in [os.fspath(job.path), *sources] for payload in told(one, bytes_min, bar_of)
        ):
            path = temporary(os.path.join(directory, f"payloads-{len(runs)}"))
            files.unlink(path, missing_ok=True)
            with SegmentWriter(files, path) as run:
                run.section(SECTION, SCHEMA, sorted_by="key", block_rows=8 * BLOCK_ROWS).append(_sorted(known))
            runs.append(path)
        return _write(files, os.fspath(job.payloads), runs)
    finally:
        for path in runs:
            files.unlink(path, missing_ok=True)


def _some(payloads: Iterator[Known]) -> Iterator[list[Known]]:
    rows: list[Known] = []
    for one in payloads:
        rows.append(one)
        if len(rows) >= RUN_ROWS:
            yield rows
            rows = []
    if rows:
        yield rows


def _sorted(payloads: list[Known]) -> Batch:
    """Rows by key, of equal keys the first."""
    keys = np.frombuffer(b"".join(one.sha1[:KEY_BYTES] for one in payloads), ">u8").astype(np.uint64)
    keys, first = np.unique(keys, return_index=True)
    chosen = [payloads[at] for at in first.tolist()]
    _, uris, dates, paths, offsets = zip(*chosen, strict=True)
    rest = Ragged.from_list([one.sha1[KEY_BYTES:] for one in chosen])
    columns = {"uri": list(uris), "date": list(dates), "file": list(paths)}
    ragged = {name: Ragged.from_list(column) for name, column in columns.items()}
    return Batch({"key": keys, "rest": rest, **ragged, "offset": np.array(offsets, np.uint64)})


def _write(files: Files, path: str, runs: list[str]) -> int:
    sections = [Segment.open(files, run).sections[SECTION] for run in runs]
    width = max((FILTER_BITS * sum(one.rows for one in sections)).bit_length(), 10)
    bits: NDArray[np.uint8] = np.zeros(1 << width - 3, np.uint8)
    new, rows = temporary(path), 0
    files.unlink(new, missing_ok=True)
    with SegmentWriter(files, new) as writer:
        target = writer.section(SECTION, SCHEMA, sorted_by="key", block_rows=BLOCK_ROWS)
        for batch in merged([one.scan() for one in sections]):
            keys = batch["key"]
            for places in (keys & np.uint64((1 << width) - 1), (keys * np.uint64(_GOLDEN)) >> np.uint64(64 - width)):
                np.bitwise_or.at(bits, (places >> np.uint64(3)).astype(np.int64), _bit_of(places))
            target.append(batch)
            rows += batch.rows
        target.end()
        writer.section(FILTER, {"bits": "u1"}).append(Batch({"bits": bits}))
    files.rename(new, path)
    return rows


def _bit_of(places: NDArray[np.uint64]) -> NDArray[np.uint8]:
    return np.left_shift(np.uint8(1), (places & np.uint64(7)).astype(np.uint8)).astype(np.uint8)


# -- what sources say --------------------------------------------------------------------------------------------------


def told(source: str, bytes_min: int, bar_of: Callable[[], Bar]) -> Iterator[Known]:
    """The payloads of a source: a JOB's, or those of a CDXJ file. ValueError names a source that is neither."""
    if os.path.isdir(source):
        return _of_log(source, bytes_min, bar_of)
    if not os.path.isfile(source):
        raise ValueError(f"archive.dedupe_from: {source} is no crawl and no CDXJ file")
    return _of_cdxj(source, bar_of)


def _of_log(source: str, bytes_min: int, bar_of: Callable[[], Bar]) -> Iterator[Known]:
    """Whole payloads that a record of the crawl holds itself."""
    path = os.fspath(JobDir(source).crawl_log)
    if not os.path.isdir(os.path.dirname(path)):
        return  # it has just begun
    with shown_reads(JobDir(source), bar_of) as files:
        yield from _of_entries(log_parts.read(files, path), os.fspath(JobDir(source).warcs), bytes_min)


def _of_entries(entries: Iterable[LogEntry], warcs: str, bytes_min: int) -> Iterator[Known]:
    for entry in entries:
        warc = entry.warc
        held = warc is not None and entry.digest and entry.start_ms is not None and entry.outcome in _DIGESTS
        left = any(note.startswith(("warcRevisit", "truncated", "taken_down")) for note in entry.notes)
        if held and not left and (entry.size or 0) >= bytes_min and entry.start_ms is not None and warc is not None:
            sha1 = sha1_of(entry.digest)
            if sha1:
                when = date(entry.start_ms / 1000).encode()
                yield Known(sha1, uri(entry.url).encode(), when, _path(warcs, warc[0]), warc[1])


def _of_cdxj(source: str, bar_of: Callable[[], Bar]) -> Iterator[Known]:
    directory = os.path.dirname(os.path.abspath(source))
    with open(source, "rb") as stream, shown_lines(stream, source, bar_of) as lines:
        for number, line in enumerate(lines, 1):
            try:
                _, moment, values = line.split(b" ", 2)
                fields = json.loads(values)
                sha1 = _sha1(fields.get("digest") or "")
                url = fields["url"].encode("ascii", "backslashreplace")
            except _NO_LINE:
                if line.startswith(b"!") or not line.strip():
                    continue
                raise ValueError(f"archive.dedupe_from: {source}: line {number} is not one of CDXJ") from None
            if sha1 and fields.get("mime") != "warc/revisit" and len(moment) == 14 and moment.isdigit():
                yield Known(sha1, url, _date(moment), *_place(directory, fields))


def _place(directory: str, fields: dict[str, Any]) -> tuple[bytes, int]:
    """File and offset that a line names."""
    name, offset = fields.get("filename"), str(fields.get("offset"))
    if not isinstance(name, str) or not re.fullmatch("[0-9]{1,18}", offset):
        return b"", 0
    return _path(directory, name), int(offset)


@lru_cache(maxsize=256)  # few files have all records
def _path(directory: str, name: str) -> bytes:
    """Empty for what can be no file's name."""
    with suppress(ValueError):
        return b"" if "\0" in name else os.fsencode(os.path.join(directory, name))
    return b""


def _sha1(digest: str) -> bytes:
    try:
        sha1 = base64.b32decode(digest.removeprefix("sha1:"))
    except ValueError:
        return b""
    return sha1 if len(sha1) == 20 else b""


def _date(moment: bytes) -> bytes:
    return b"%b-%b-%bT%b:%b:%bZ" % tuple(moment[a:b] for a, b in ((0, 4), (4, 6), (6, 8), (8, 10), (10, 12), (12, 14)))


def holders(source: str, url: str, at: str) -> Iterable[tuple[str, int]]:
    """(file, offset) of the records of a URL at a WARC-Date in a CDXJ file; file: beside it, as far as it is there."""
    moment = "".join(filter(str.isdigit, at))[:14].encode()
    with open(source, "rb") as stream:
        for line in stream:
            if line.split(b" ", 2)[1:2] != [moment]:
                continue
            with suppress(*_NO_LINE):
                fields = json.loads(line.split(b" ", 2)[2])
                if fields.get("url") == url and fields.get("mime") != "warc/revisit":
                    yield os.path.join(os.path.dirname(source), fields["filename"]), int(fields["offset"])
