"""The archives that exports read: closed ones, which change no more, and the captures in them.

A capture is a record that holds a response, or a `revisit` that says that a response was as an earlier one.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from drum.files import Damaged, Files

from irlcrawl.base.job import JobDir, check_mounted
from irlcrawl.base.rows import Source
from irlcrawl.base.url import HREF_CHARS_MAX, canonical
from irlcrawl.worker.archive.reader import Record, records
from irlcrawl.worker.archive.record import split_response
from irlcrawl.worker.archive.unit import Exchange
from irlcrawl.worker.archive.warc import warc_files
from irlcrawl.worker.page import sitemaps

_PLAIN_URL = re.compile(r"https?://[a-z0-9.-]+(?::\d{1,5})?/[!-~]*")
_HTTP, _OF_WEB = ("http:", "https:"), ("http://", "https://")


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
    def of_web(self) -> bool:
        """Whether the URL is one that a crawl fetches; archives of others have records of `dns:`, too."""
        return self.url.startswith(_OF_WEB)

    @property
    def length(self) -> int:
        """Bytes of the record as it is packed."""
        return self.record.end - self.record.offset


def records_of(files: Files, archive: Archive) -> Iterator[Record]:
    """Every record, in order, as checked() gives it. Damaged, also for an empty file: the first record comes with the
    file."""
    if not archive.bytes:
        raise Damaged(archive.path, 0, "an empty archive")
    for record in records(files, archive.path):
        yield checked(record, archive.path)


def checked(record: Record, path: str) -> Record:
    """The record with its URLs in stored form: what programs of others wrote, or changed, may say anything. Damaged."""
    fields = record.fields
    for name in ("warc-target-uri", "warc-refers-to-target-uri"):
        if not (url := fields.get(name)):
            continue
        stored = _stored(url, record.unit is not None)
        if stored is not None:
            fields[name] = stored
        elif name == "warc-target-uri":
            raise Damaged(path, record.offset, f"a record of {url[:200]!r}, which is no URL")
        else:
            del fields[name]
    for name in ("warc-date", "warc-refers-to-date"):
        if (date := fields.get(name)) is not None and not _is_date(date):
            if name == "warc-date":
                raise Damaged(path, record.offset, f"a record of {date[:40]!r}, which is no date")
            del fields[name]
    return record


def _stored(url: str, ours: bool) -> str | None:
    """The URL of a record in stored form, where it is of http or https: None if it is none. The brackets around it are
    WARC 1.0's, and wget writes them."""
    if _PLAIN_URL.fullmatch(url) and (ours or len(url) > HREF_CHARS_MAX):  # one so long is parsed no more
        return url
    if url.startswith("<") and url.endswith(">"):
        url = url[1:-1]
    if not url[:6].lower().startswith(_HTTP):
        return url
    stored = canonical(url)
    return None if stored is None else stored.decode()


def _is_date(text: str) -> bool:
    with suppress(ValueError):
        return text.endswith("Z") and len(text) <= 30 and bool(datetime.fromisoformat(text))
    return False


def unit_of(record: Record) -> dict[str, Any]:
    """What a record of ours says of its unit; empty for one of others."""
    if record.unit is not None:
        with suppress(ValueError, RecursionError):
            told = json.loads(record.unit)
            return told if isinstance(told, dict) else {}
    return {}


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
    unit = unit_of(capture.record)
    source, depth = unit.get("source", Source.LINK), unit.get("depth", 1)
    return sitemaps.source_of(source, depth) if isinstance(source, int) and isinstance(depth, int) else Source.LINK


def _header_kept(record: Record) -> bytes:
    """The header of a 304, which stands with its unit and not in the record (worker/archive/unit.py)."""
    return str(unit_of(record).get("header", "")).encode("latin-1", "replace")
