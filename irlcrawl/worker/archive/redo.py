"""The archive as redo log: truncate torn files after a crash, finish files left open, and read units that no harvest
covers.

Recovery of a stream is `recover`, then `units` after the position that its last complete harvest names. The bytes of a
file before that position are known to be whole, and are neither read nor ever cut.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from drum.files import Damaged, Files
from drum.sectors import Unreadable

from irlcrawl.base.job_files import OPEN
from irlcrawl.worker.archive import taken_down
from irlcrawl.worker.archive.reader import Record, record_at, records
from irlcrawl.worker.archive.record import split_response, wire_header
from irlcrawl.worker.archive.unit import Exchange, Location, Unit
from irlcrawl.worker.archive.warc import WarcName, warc_files

PART_OF = "isPartOf: "
RESPONSE, REVISIT = "response", "revisit"
"""Kinds of records that end a unit with a response."""
START = (0, 0)
"""The position of a stream without harvests."""


def streams(files: Files, directory: str) -> list[int]:
    """The numbers of the streams that have files in the archive, in order."""
    return sorted({f.stream for f in warc_files(files, directory)})


def made_by(files: Files, path: str) -> str | None:
    """The id of the crawl of which an archive says it is part; None if it says none, or is torn."""
    try:
        first = record_at(files, path, 0)
    except Damaged:
        return None
    lines = first.block.decode("utf-8", "replace").splitlines() if first.kind == "warcinfo" else ()
    return next((line.removeprefix(PART_OF) for line in lines if line.startswith(PART_OF)), None)


def recover(files: Files, directory: str, stream: int, known: tuple[int, int] = START) -> int:
    """Truncate and finish every file that a dead writer of `stream` left open; returns the bytes cut. `known` is the
    position up to which harvests cover the stream. Running it again changes nothing. The writer must be gone."""
    cut = 0
    there = warc_files(files, directory, stream)
    for file in there:
        if file.open:
            path = os.path.join(directory, file.on_disk)
            cut += cut_tail(files, path, known[1] if file.serial == known[0] else 0)
            finish(files, path)
    if there:  # a writer killed as it closed its last file may not have made the name durable
        files.fsync_dir(directory)
    return cut


def cut_tail(files: Files, path: str, known: int = 0) -> int:
    """Truncate a file behind its last whole unit and sync it; returns the bytes cut. Reads only behind `known`, an
    offset up to which the file is known to be whole. Damaged if the file is shorter than that."""
    size = files.size(path)
    if size < known:
        raise Damaged(path, size, f"the archive ends before {known}, up to where it was harvested")
    whole = known
    try:
        for record in records(files, path, known, keep=False):
            if record.unit is not None or record.kind == "warcinfo":
                whole = record.end
    except Unreadable:
        raise  # there may be whole units where the disk fails, perhaps only this time
    except Damaged:
        pass  # the torn tail that is being looked for: `whole` is where it begins
    keep(files, path, whole)
    return size - whole


def keep(files: Files, path: str, whole: int) -> None:
    """Truncate a file to `whole` bytes, durably: its writer may have been killed before it synced them."""
    handle = files.append(path)
    try:
        if whole < files.size(handle):
            files.truncate(handle, whole)
        files.fsync(handle)
    finally:
        files.close(handle)


def finish(files: Files, path: str) -> str | None:
    """Give a truncated `.open` file its final name and return its path; an empty file is removed (None). Durable once
    the caller has synced the directory."""
    final = path.removesuffix(OPEN)
    if files.size(path):
        files.rename(path, final)
    else:
        files.unlink(path)
    return final if files.exists(final) else None


def units(
    files: Files, directory: str, stream: int, after: tuple[int, int] = START
) -> Iterator[tuple[Unit, Exchange | None, Location]]:
    """Every unit of a recovered stream behind the position `after`, in the order written, across rolled files. Damaged
    if a file holds anything but whole units. Holds one exchange in memory."""
    serial, offset = after
    for file in warc_files(files, directory, stream):
        if file.serial < serial:
            continue
        path = os.path.join(directory, file.on_disk)
        begin = offset if file.serial == serial else 0
        if files.size(path) < begin:
            raise Damaged(path, files.size(path), f"the archive ends before {begin}, up to where it was harvested")
        for parts in _unit_records(files, path, begin):
            yield read_unit(parts, path, file, files)


def _unit_records(files: Files, path: str, offset: int) -> Iterator[list[Record]]:
    parts: list[Record] = []
    for record in records(files, path, offset):
        if record.kind == "warcinfo":
            continue
        parts.append(record)
        if record.unit is not None:
            yield parts
            parts = []
    if parts:
        raise Damaged(path, parts[0].offset, "a unit without its last record")


def read_unit(
    parts: list[Record], path: str, file: WarcName, files: Files | None
) -> tuple[Unit, Exchange | None, Location]:
    """The unit that these records are. A payload that another record of the crawl holds is read there (if its file was
    moved, the unit is one of another crawl's payload); files None: it is left out, like those that a record of an
    earlier visit holds. Damaged when they are none."""
    first, last = parts[0], parts[-1]
    try:
        unit = Unit.from_json(last.unit or "", last.fields.get("warc-target-uri", "").encode("ascii"))
        exchange = exchange_of(unit, last, first if first.kind == "request" else None)
        if exchange is not None and unit.original is not None and files is not None:
            exchange.body = _payload(record_at(files, path, unit.original))
        elif exchange is not None and unit.holder is not None and files is not None:
            try:
                exchange.body = _payload(held_by(files, os.path.dirname(path), unit.holder)[1])
            except FileNotFoundError:
                unit.away = True
    except ValueError as error:
        raise Damaged(path, last.offset, str(error)) from None
    digest = last.fields.get("warc-payload-digest", "")
    length = last.end - first.offset
    return unit, exchange, Location(file.name, file.stream, file.serial, first.offset, length, last.offset, digest)


def held_by(files: Files, directory: str, holder: tuple[str, int]) -> tuple[str, Record]:
    """(path, record) of what holds the payload of a unit of another file (`Unit.holder`). FileNotFoundError when its
    file is not there; Damaged."""
    final = os.path.join(directory, os.path.basename(holder[0]))
    try:  # `.open` first: when it is gone by now, it has its final name
        return final + OPEN, record_at(files, final + OPEN, holder[1])
    except FileNotFoundError:
        return final, record_at(files, final, holder[1])


def _payload(holder: Record) -> bytes:
    return b"" if taken_down.since(holder) else split_response(holder.block)[1]


def exchange_of(unit: Unit, last: Record, request: Record | None) -> Exchange | None:
    """The exchange that a unit's records hold; None for an outcome without a response. That of a revisit record has no
    body. ValueError if a response is malformed."""
    if last.kind not in (RESPONSE, REVISIT):
        return None
    revisit = last.kind == REVISIT
    header, body = (unit.header.encode("latin-1"), b"") if unit.header else split_response(last.block)
    return Exchange(
        url=unit.url,
        ip=last.fields.get("warc-ip-address", ""),
        request=request.block if request is not None else b"",
        header=wire_header(header),
        body=body,
        truncated=None if revisit else last.fields.get("warc-truncated"),
        start=unit.start,
        duration=unit.duration_ms / 1000,
        protocol=last.fields.get("warc-protocol", ""),
    )
