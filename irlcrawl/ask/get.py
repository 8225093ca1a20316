"""One page out of the archive: the crawl log, or its index, says where its record lies, one positioned read brings it.

Works for a running crawl and for one that ended; nothing is locked, and one record is in memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal

from drum.files import Damaged, Files

from irlcrawl.ask.outcomes import entries_of
from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import OPEN, node_of
from irlcrawl.base.url import canonical
from irlcrawl.config.toml import load_stored
from irlcrawl.terminal.progress import Bar
from irlcrawl.web.coding import decode
from irlcrawl.worker.archive import crawl_log, taken_down
from irlcrawl.worker.archive.crawl_log import LogEntry
from irlcrawl.worker.archive.log_parts import find
from irlcrawl.worker.archive.reader import Record, record_at, unpacked
from irlcrawl.worker.archive.record import date as record_date
from irlcrawl.worker.archive.record import uri
from irlcrawl.worker.archive.redo import REVISIT, exchange_of, held_by
from irlcrawl.worker.archive.unit import Exchange, Unit

What = Literal["payload", "headers", "record"]
DECODED_BYTES_MAX = 256 << 20


class Unavailable(LookupError):
    """The archive has no such record. The message tells a person what is known about it."""


def get(
    job_dir: str | os.PathLike[str], url: str | bytes, what: What = "payload", files: Files | None = None,
    bar_of: Callable[[], Bar] = Bar,
) -> bytes:  # fmt: skip
    """The last response to `url` in the archive of JOB: its `payload` (content coding undone), its `headers` (as
    received), or its whole WARC `record`, decompressed (of a URL without a response, the metadata record).

    Unavailable (a LookupError) when there is none; drum.files.Damaged when the archive does not agree with the log.
    """
    files = files or Files()
    job = JobDir(job_dir)
    stored = canonical(url)
    if stored is None:
        raise Unavailable(f"{_text(url)}: not a URL that a crawl fetches")
    entry = _entry(files, job, stored, what, bar_of)
    path, record = _record(files, job, entry)
    if what == "record":
        return unpacked(files, path, record)
    if (at := taken_down.since(record)) is not None:
        why = Unit.from_json(record.unit or "{}", stored).detail
        raise Unavailable(_gone(stored, at, why))
    exchange = _exchange(path, record)
    if what == "headers":
        return exchange.header
    if record.kind == REVISIT:
        exchange = _original(files, job, path, record)
    return _payload(exchange)


def typed_payload(job: JobDir, url: bytes) -> tuple[str, bytes]:
    """(Content-Type, payload) of the last response to a URL in stored form. Errors as of get()."""
    files = Files()
    path, record = _record(files, job, _entry(files, job, url, "payload", Bar))
    exchange = _exchange(path, record)
    if record.kind == REVISIT:
        exchange = _original(files, job, path, record)
    return exchange.content_type, _payload(exchange)


def _exchange(path: str, record: Record) -> Exchange:
    """The response in a record. Damaged; Unavailable if it was taken down."""
    url = record.fields.get("warc-target-uri", "")
    if (at := taken_down.since(record)) is not None:
        detail = Unit.from_json(record.unit or "", b"").detail
        why = f"{detail}; its body" if detail else "its body"
        raise Unavailable(_gone(url.encode(), at, f"{why} stood in a record of another visit or URL"))
    try:
        unit = Unit.from_json(record.unit or "", record.fields.get("warc-target-uri", "").encode("ascii"))
        exchange = exchange_of(unit, record, None)
    except ValueError as error:
        raise Damaged(path, record.offset, str(error)) from None
    if exchange is None:
        raise Damaged(path, record.offset, f"a {record.kind} record where a response should be")
    return exchange


def _original(files: Files, job: JobDir, path: str, revisit: Record) -> Exchange:
    """The response with the payload to which a revisit record refers: of this crawl, an earlier one, or a visit."""
    unit = Unit.from_json(revisit.unit or "", b"")
    if unit.original is not None:
        return _exchange(path, record_at(files, path, unit.original))
    if unit.holder is not None:
        try:
            return _exchange(*held_by(files, os.path.dirname(path), unit.holder))
        except FileNotFoundError:
            where = "{} at offset {}".format(*unit.holder)
            url = revisit.fields.get("warc-target-uri", "")
            raise Unavailable(f"{url}: its body is in {where}, but {job.warcs} has no such file") from None
    if unit.away:
        return _from_elsewhere(files, job, revisit)
    return _of_visit(files, job, revisit)


def _from_elsewhere(files: Files, job: JobDir, revisit: Record) -> Exchange:
    """The response with a payload that an earlier crawl has, or this one had when it was started."""
    from irlcrawl.worker.archive.payloads import holders  # loads numpy

    uri_of, date = (revisit.fields.get(f"warc-refers-to-{name}", "") for name in ("target-uri", "date"))
    sources = load_stored(job.config_file).archive.dedupe_from
    for source in [os.fspath(job.path), *sources]:
        try:
            if os.path.isdir(source):
                return _of_visit(files, JobDir(source), revisit)
            for path, offset in holders(source, uri_of, date):
                return _exchange(path, record_at(files, path, offset))
        except (Unavailable, FileNotFoundError):
            continue
    raise Unavailable(
        f"{_text(uri_of)}: its body is that of {date} of this URL in an earlier crawl, and none of archive.dedupe_from "
        f"has it any more: {', '.join(sources) or '(empty)'}"
    )


def _of_visit(files: Files, job: JobDir, revisit: Record) -> Exchange:
    """The response of the visit to which a revisit record refers, by the log of this crawl."""
    uri_of, date = (revisit.fields.get(f"warc-refers-to-{name}", "") for name in ("target-uri", "date"))
    for entry in entries_of(job, uri_of.encode("ascii", "replace"), files=files):
        if entry.warc is not None and entry.start_ms is not None and record_date(entry.start_ms / 1000) == date:
            path, record = _record(files, job, entry)
            if record.kind != REVISIT:
                return _exchange(path, record)
    raise Unavailable(f"{_text(uri_of)}: as it was at {date}, and the crawl log has no visit of that time")


def _entry(files: Files, job: JobDir, url: bytes, what: What, bar_of: Callable[[], Bar]) -> LogEntry:
    """The log entry whose record answers the question."""
    last, responded = find(entries_of(job, url, bar_of, files))
    if last is None:
        raise Unavailable(
            f"{_text(url)}: not in the crawl log: still waiting for its turn, never found, or out of the crawl's scope"
        )
    entry = responded or (last if what == "record" and last.warc is not None else None)
    if entry is None:
        more = " (its WARC record says more)" if last.warc is not None else ""
        when = crawl_log.logged_time(last)
        if (at := last.notes.get("taken_down")) is not None:
            raise Unavailable(_gone(url, at, last.notes.get("detail", "")))
        raise Unavailable(
            f"{_text(url)}: no response is archived: {last.outcome}, reason {last.reason}, status {last.status}, "
            f"at {when}{more}"
        )
    return entry


def _record(files: Files, job: JobDir, entry: LogEntry) -> tuple[str, Record]:
    """(path of the file, record) that a log entry points to."""
    assert entry.warc is not None
    name, offset, _ = entry.warc
    warcs = os.fspath(job.warcs)
    final = os.path.join(warcs, os.path.basename(name))
    # `.open` first: when it is gone by now, it has its final name.
    for path in (final + OPEN, final):
        try:
            record = record_at(files, path, offset)
        except FileNotFoundError:
            continue
        except OverflowError:
            raise Damaged(path, 0, f"the crawl log names a record at {offset}, where no file reaches") from None
        if record.fields.get("warc-target-uri") != uri(entry.url):
            raise Damaged(path, offset, f"the crawl log says that this is the record of {_text(entry.url)}; it is not")
        return path, record
    where = f"{_text(entry.url)}: archived in {name} at offset {offset}"
    prefix = load_stored(job.config_file).archive.prefix if job.config_file.exists() else ""
    if prefix and (node := node_of(name, prefix)) is not None:
        raise Unavailable(f"{where}, which lies on the machine {node}: copy it to {warcs}")
    raise Unavailable(f"{where}, but {warcs} has no such file")


def _payload(exchange: Exchange) -> bytes:
    """The body with its content coding undone; if it was cut or is damaged, as much as can be decoded."""
    body, _ = decode(exchange.body, exchange.coding, DECODED_BYTES_MAX + 1)
    if len(body) > DECODED_BYTES_MAX:
        raise Unavailable(
            f"{_text(exchange.url)}: its {len(exchange.body)} bytes decode to more than {DECODED_BYTES_MAX}; "
            "the whole record holds them as received"
        )
    return body


def _gone(url: bytes, at: str, why: str) -> str:
    return f"{_text(url)}: taken down at {at}{': ' if why else ''}{why} (its WARC record says so, too)"


def _text(url: str | bytes) -> str:
    return url if isinstance(url, str) else url.decode("ascii", "backslashreplace")
