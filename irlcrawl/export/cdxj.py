"""The CDXJ index of archives: where the capture of a URL lies, as pywb, OutbackCDX and ReplayWeb.page look it up.

    com,example)/page 20260102030405 {"url": "http://example.com/page", "mime": "text/html", "status": "200",
        "digest": "sha1:...", "length": "1234", "offset": "5678", "filename": "NAME.warc.gz"}

Each is one line. Which records are in it, their fields and their order are those of `cdxj-indexer --sort`. An archive's
own index is kept in JOB/indexes with a time of modification that goes with the archive's, and made again when it does
not: closed archives do not change by themselves. It is made when it is asked for, not when a crawl closes the archive:
the crawl pays nothing for it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from functools import partial

from drum.files import Damaged, Files

from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import cdxj_name, temporary
from irlcrawl.export.archives import Archive, records_of
from irlcrawl.export.processes import each
from irlcrawl.export.sorted_lines import merged
from irlcrawl.export.surt import surt
from irlcrawl.terminal.progress import Bar
from irlcrawl.worker.archive.reader import Record
from irlcrawl.worker.archive.record import digest, split_response

CAPTURES = ("response", "revisit", "resource", "metadata")
STAMP_NS = 4_000_000_000
"""An index has the time of its archive and so much: another number for each edition of the keys. Indexes of the first
edition, without any, have wrong keys for names with a www inside, those of the second, with two seconds, for URLs of
others that are in no stored form. (Some file systems keep times to two seconds.)"""
FIELDS_TYPE = "application/warc-fields"
"""Records of this type are about the crawl; they are no captures."""
REVISIT = "warc/revisit"

_MIME_END = re.compile(r"[;\s]")


def lines(files: Files, archive: Archive) -> list[bytes]:
    """The index of one archive: sorted lines, each with its newline, equal ones once. Damaged, OSError."""
    found = {line for record in records_of(files, archive) if (line := _line(record, archive.name)) is not None}
    return sorted(found)


def _line(record: Record, file: str) -> bytes | None:
    fields, kind = record.fields, record.kind
    url, date = fields.get("warc-target-uri"), fields.get("warc-date", "")
    if kind not in CAPTURES or not url:
        return None
    if kind in ("resource", "metadata") and fields.get("content-type") == FIELDS_TYPE:
        return None
    status, mime = _of_http(record.block) if kind in ("response", "revisit") else (None, fields.get("content-type"))
    if kind == "revisit":
        mime = REVISIT
    told = {
        "url": url,
        "mime": _MIME_END.split(mime, maxsplit=1)[0] if mime else mime,
        "status": status,
        "digest": fields.get("warc-payload-digest") or _payload_digest(record),
        "length": str(record.end - record.offset),
        "offset": str(record.offset),
        "filename": file,
    }
    moment = re.sub(r"\D", "", date.partition(".")[0])
    values = json.dumps({name: value for name, value in told.items() if value is not None})
    return b"%s %s %s\n" % (surt(url.encode()), moment.encode(), values.encode())


def _of_http(block: bytes) -> tuple[str | None, str | None]:
    """(status, Content-Type) of a response, as warcio reads them."""
    if not block:
        return None, None
    status_line, *header = map(_text, _head(block).split(b"\n"))
    status = status_line.partition(" ")[2].strip().split(" ", 1)[0]
    for number, line in enumerate(header):
        name, colon, value = line.partition(":")
        if colon and name.rstrip(" \t").lower() == "content-type" and line[:1] not in " \t":
            value = value.lstrip()
            for more in header[number + 1 :]:
                if more[:1] not in (" ", "\t"):
                    break
                value += more
            return status, value
    return status, None


def _head(block: bytes) -> bytes:
    try:
        return split_response(block)[0]
    except ValueError:
        return block


def _text(line: bytes) -> str:
    try:
        return line.decode().rstrip()
    except UnicodeDecodeError:
        return line.decode("latin-1").rstrip()


def _payload_digest(record: Record) -> str | None:
    """Of records that others wrote without one."""
    if record.kind == "revisit":
        return None
    try:
        return digest(split_response(record.block)[1] if record.kind == "response" else record.block)
    except ValueError:
        return digest(record.block)


def index(
    job: JobDir, archives: list[Archive], directory: str, files: Files, bar: Bar, jobs: int, damaged: list[Damaged]
) -> dict[str, str]:  # fmt: skip
    """archive -> path of its index, made where it is missing: in JOB/indexes, or in `directory` if JOB cannot be
    written or is a snapshot. Archives that are damaged are left out, and `damaged` gets what is wrong with them.
    OSError."""
    kept = os.fspath(job.indexes)
    known = {one.name: path for one in archives if (path := _known(kept, one)) is not None}
    missing = [one for one in archives if one.name not in known]
    target = kept if missing and not job.is_snapshot() and _writable(files, kept) else directory
    if missing:
        bar.stage("index of archives", sum(one.bytes for one in missing))
    for one, path in each(partial(_write, files, target), missing, jobs, damaged):
        bar.read(one.bytes)
        known[one.name] = path
    return dict(sorted(known.items()))


def _known(directory: str, archive: Archive) -> str | None:
    path = os.path.join(directory, cdxj_name(archive.name))
    try:
        return path if os.stat(path).st_mtime_ns == archive.modified_ns + STAMP_NS else None
    except (FileNotFoundError, NotADirectoryError):
        return None


def _writable(files: Files, directory: str) -> bool:
    try:
        files.mkdir(directory)
    except OSError:
        return False
    return os.access(directory, os.W_OK | os.X_OK)


def _write(files: Files, directory: str, archive: Archive) -> str:
    path = os.path.join(directory, cdxj_name(archive.name))
    made = temporary(f"{path}.{os.getpid()}")  # two exports may be at it
    try:
        handle = files.create(made)
        try:
            files.write(handle, b"".join(lines(files, archive)))
        finally:
            files.close(handle)
        os.utime(made, ns=(archive.modified_ns + STAMP_NS,) * 2)
        files.rename(made, path)
    finally:
        files.unlink(made, missing_ok=True)
    return path


def all_lines(paths: list[str], directory: str) -> Iterator[bytes]:
    """One index of all: the lines of sorted indexes in order."""
    return merged(paths, directory) if paths else iter(())
