"""The record that stands where a response was taken out of an archive: it says so, since when and why.

It takes exactly the bytes that the response took, so that nothing else in the file moves: the crawl log, harvests and
the catalogue of this crawl and of its snapshots name places in archives, and all of them stay right. What is left over
is filled with empty deflate blocks, which stand for no byte of the record (zstd.of_length fills frames). The request
before it stays: its bytes are the crawler's own.
"""

from __future__ import annotations

import zlib
from dataclasses import replace

from isal import isal_zlib

from irlcrawl.base.reasons import Class, Reason
from irlcrawl.worker.archive import record as records
from irlcrawl.worker.archive import zstd
from irlcrawl.worker.archive.known import Known
from irlcrawl.worker.archive.reader import Record
from irlcrawl.worker.archive.unit import Unit

FIELD = "Irlcrawl-Taken-Down"
CONTENT = ("response", "revisit")
"""Kinds of records that hold what a server sent."""
_CUT_CHARS = 60
_EMPTY_BLOCK = b"\x00\x00\x00\xff\xff"  # deflate, of type 0, without bytes (RFC 1951 3.2.4)
_HAS_COMMENT = 0x10  # a flag of a gzip header (RFC 1952 2.3.1)


def since(record: Record) -> str | None:
    """The date at which the content of a unit was taken down, of its last record; None if it was not."""
    return record.fields.get(FIELD.lower())


def in_place_of(record: Record, at: float, reason: str) -> bytes:
    """The gzip member or zstd frame that takes the place of a record of CONTENT, as long as it was. at: unix seconds.
    The reason is cut where there is no room for it. ValueError when the record ends no unit, or is too small to be
    replaced."""
    unit = _bare(Unit.from_json(record.unit or "", record.fields.get("warc-target-uri", "").encode("ascii")))
    length = record.end - record.offset
    refers_to = record.fields.get("warc-record-id", "")
    for detail, refers in (
        (reason, refers_to), (reason[:_CUT_CHARS], refers_to), (reason[:_CUT_CHARS], ""), ("", ""),
    ):  # fmt: skip
        unit = replace(unit, reason=Reason.TAKEN_DOWN, detail=detail, wishes=unit.wishes if refers else "")
        text = _record(unit, record.fields.get("warc-warcinfo-id", ""), refers, at)
        found = zstd.of_length(text, length) if record.zstd else _member(text, length)
        if found is not None:
            return found
    raise ValueError(f"its {length} bytes are too few for the record that would take their place")


def _bare(unit: Unit) -> Unit:
    """The unit without what it tells of an answer: the header of a 304, where a body lies, of a page that was visited
    before its digest, its validators and its links, and what a host said in tdmrep.json."""
    page = None if unit.page is None else Known(visits=unit.page.visits)
    robots = None if unit.robots is None else {name: value for name, value in unit.robots.items() if name != "tdm"}
    return replace(
        unit, header="", size=None, original=None, holder=None, own=None, away=False, page=page, robots=robots
    )


def _record(unit: Unit, warcinfo_id: str, refers_to: str, at: float) -> bytes:
    values = {
        "outcome": Class(unit.cls).name.lower(),
        "reason": Reason.TAKEN_DOWN.name.lower(),
        "status": str(unit.status),
        "detail": unit.detail,
    }
    head = [f"WARC-Warcinfo-ID: {warcinfo_id}"] if warcinfo_id else []
    head += [f"WARC-Refers-To: {refers_to}"] if refers_to else []
    date = records.date(at)
    head += [f"WARC-Target-URI: {records.uri(unit.url)}", f"WARC-Date: {date}", f"{FIELD}: {date}"]
    head.append(f"{records.UNIT_FIELD}: {unit.to_json()}")
    return records.fields_record("metadata", records.new_id(), head, values)


def _member(text: bytes, length: int) -> bytes | None:
    """`text` as a gzip member of `length` bytes; None where that are too few."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = deflate.compress(text) + deflate.flush()
    end = isal_zlib.crc32(text).to_bytes(4, "little") + len(text).to_bytes(4, "little")
    blocks, more = divmod(length - 18 - len(packed), len(_EMPTY_BLOCK))
    if blocks < 0:
        return None
    header = b"\x1f\x8b\x08" + bytes((_HAS_COMMENT if more else 0,)) + bytes(5) + b"\xff"
    comment = b" " * (more - 1) + b"\0" if more else b""
    # In front: a reader that gets no byte out of the last of a member may take it for the end of the file.
    return header + comment + _EMPTY_BLOCK * blocks + packed + end
