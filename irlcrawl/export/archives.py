"""The archives that exports read: closed ones, which change no more, and the captures in them.

A capture is a record that holds a response, or a `revisit` that says that a response was as an earlier one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from drum.files import Damaged, Files

from irlcrawl.base.job import JobDir, check_mounted
from irlcrawl.base.rows import Source
from irlcrawl.worker.archive.reader import Record, records
from irlcrawl.worker.archive.record import split_response
from irlcrawl.worker.archive.unit import Exchange
from irlcrawl.worker.archive.warc import warc_files
from irlcrawl.worker.page import sitemaps


class Archive(NamedTuple):
    """A closed archive as it was when it was listed."""

    name: str
    path: str
    bytes: int
    modified_ns: int


def closed(job: JobDir, files: Files) -> tuple[list[Archive], int]:
    """(the closed archives that are there, by stream and serial; how many more are still written to). JobError,
    OSError."""
    check_mounted(job.warcs)
    if not job.warcs.is_dir():
        return [], 0
    found, still_open = [], 0
    for file in warc_files(files, os.fspath(job.warcs)):
        still_open += file.open
        path = os.path.join(job.warcs, file.name)
        try:
            stat = os.stat(path)
        except FileNotFoundError:  # still open, or its owner moved it since
            continue
        found.append(Archive(file.name, path, stat.st_size, stat.st_mtime_ns))
    return found, still_open


@dataclass(slots=True)
class Capture:
    """A response, or what is known of one without its body."""

    record: Record
    exchange: Exchange  # header as stored; request, address and times are left empty
    revisit: bool

    @property
    def url(self) -> str:
        return self.record.fields["warc-target-uri"]

    @property
    def length(self) -> int:
        """Bytes of the record as it is packed."""
        return self.record.end - self.record.offset


def records_of(files: Files, archive: Archive) -> Iterator[Record]:
    """Every record, in order. Damaged, also for an empty file: the first record comes with the file."""
    if not archive.bytes:
        raise Damaged(archive.path, 0, "an empty archive")
    yield from records(files, archive.path)


def captures(files: Files, archive: Archive) -> Iterator[Capture]:
    """Every capture of an archive, in order, one in memory at a time. Damaged."""
    for record in records_of(files, archive):
        if record.kind not in ("response", "revisit") or not record.fields.get("warc-target-uri"):
            continue
        yield capture_of(record, archive.path)


def capture_of(record: Record, path: str) -> Capture:
    """The capture in a record of a response or a `revisit`. Damaged."""
    revisit = record.kind == "revisit"
    try:
        header, body = split_response(record.block)
    except ValueError as error:
        if not revisit:
            raise Damaged(path, record.offset, str(error)) from None
        header, body = record.block or _header_kept(record), b""  # a header of its own is optional
    url = record.fields["warc-target-uri"].encode()
    return Capture(record, Exchange(url, "", b"", header, body), revisit)


def source_of(capture: Capture) -> int:
    """How the URL of a capture was found (rows.Source), for lists (sitemaps.source_of); LINK where that is not told."""
    if capture.record.unit is None:
        return Source.LINK
    unit = json.loads(capture.record.unit)
    return sitemaps.source_of(int(unit.get("source", Source.LINK)), int(unit.get("depth", 1)))


def _header_kept(record: Record) -> bytes:
    """The header of a 304, which stands with its unit and not in the record (worker/archive/unit.py)."""
    return str(json.loads(record.unit).get("header", "")).encode("latin-1") if record.unit is not None else b""
