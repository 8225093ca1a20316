"""The bytes of WARC 1.1 records, formatted by hand: at a fifth of the cost of a general writer, and every byte is
chosen.

One record is one gzip member. The HTTP header is stored as received, except for lines that would make the stored record
lie: `Transfer-Encoding` (the body is stored without it), and a `Content-Length` that is not the stored body's, get the
prefix `X-Crawler-`, as in Common Crawl. So do header lines that already have the prefix, and lines that a reader would
take for the end of the header. Taking one prefix off each line that has it gives back exactly the header received.

A payload is the entity body: the transfer coding is off, the content coding on (WARC 1.1 section 4, RFC 2616 7.2). One
that is stored already is not stored again: a `revisit` record refers to the record that holds it. That of a 304 has no
block (6.7.3 allows it): with the header of the 304 in it, pywb would answer a reader's request with 304. That header is
in the unit.
"""

from __future__ import annotations

import base64
import calendar
import hashlib
import os
import re
import struct
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from isal import igzip_lib, isal_zlib

from irlcrawl.base.keys import is_stand_in
from irlcrawl.base.reasons import Class, Reason
from irlcrawl.worker.archive.unit import TRUNCATED, Exchange, Unit

UNIT_FIELD = "Irlcrawl-Unit"
PROFILES = "http://netpreserve.org/warc/1.1/revisit/"
NOT_MODIFIED, IDENTICAL = PROFILES + "server-not-modified", PROFILES + "identical-payload-digest"
"""WARC-Profile of revisit records."""
WARC_VERSION = b"WARC/1.1"
CONFORMS_TO = "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"
PREFIX = b"X-Crawler-"
BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
"""RFC 4648 section 6."""
END = b"\r\n\r\n"
"""The bytes behind the block of a record."""

_DEFLATE = -15  # zlib's wbits: without a wrapper
# Isal's working memory for a record, 88 KiB. By default it is 280, which malloc maps anew for each record (memory.py):
# five page faults. What comes out is no longer for it.
_MEMORY, _MEMORY_OF_ZLIB = igzip_lib.MEM_LEVEL_SMALL, 2
_WORDS = struct.Struct(">5I").unpack
_TWO = tuple(one + other for one in BASE32 for other in BASE32)
_GZIP_HEADER = b"\x1f\x8b\x08" + bytes(6) + b"\xff"
_GZIP_END = struct.Struct("<II")
_STORED = struct.Struct("<BHH")
_STORED_MAX = 0xFFFF
_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x89PNG\r", b"\xff\xd8\xff", b"PK\x03\x04", b"wOF2")
_HEADER_END = re.compile(rb"\n\r?\n")
_NOT_URI = re.compile(rb"[^!-~]")
_NOT_LINE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def member(record: bytes, level: int, packed: int = 0) -> bytes:
    """One record as one gzip member, without time or name in it. Its last `packed` bytes are stored without
    compression: data that is compressed already gains nothing, and costs most of the time."""
    if not packed:
        return igzip_lib.compress(record, level, igzip_lib.COMP_GZIP, _MEMORY)
    start = len(record) - packed
    deflate = isal_zlib.compressobj(level, isal_zlib.DEFLATED, _DEFLATE, _MEMORY_OF_ZLIB)
    pieces = [_GZIP_HEADER, deflate.compress(record[:start]), deflate.flush(isal_zlib.Z_SYNC_FLUSH)]
    for at in range(start, len(record), _STORED_MAX):  # deflate blocks of type 0 (RFC 1951 3.2.4), byte by byte
        block = record[at : at + _STORED_MAX]
        last = at + _STORED_MAX >= len(record)
        pieces += (_STORED.pack(last, len(block), len(block) ^ 0xFFFF), block)
    pieces.append(_GZIP_END.pack(isal_zlib.crc32(record), len(record) & 0xFFFFFFFF))
    return b"".join(pieces)


def is_packed(body: bytes) -> bool:
    """Whether a body begins like gzip, zstd, PNG, JPEG, ZIP or WOFF2. Data compressed in another way is compressed once
    more."""
    return body.startswith(_PACKED)


def warcinfo(record_id: str, file: str, at: float, values: Mapping[str, str]) -> bytes:
    """The first record of a file: which crawl and program wrote it. Empty values are left out."""
    values = {**values, "format": "WARC File Format 1.1", "conformsTo": CONFORMS_TO}
    head = [f"WARC-Date: {date(at)}", f"WARC-Filename: {file}"]
    return fields_record("warcinfo", record_id, head, values)


def metadata(unit: Unit, warcinfo_id: str) -> bytes:
    """The record of an outcome without a response."""
    values = {
        "outcome": Class(unit.cls).name.lower(),
        "reason": Reason(unit.reason).name.lower(),
        "status": str(unit.status),
        "detail": unit.detail,
        "wishes": unit.wishes,
        "fetchTimeMs": str(unit.duration_ms),
    }
    head = [f"WARC-Warcinfo-ID: {warcinfo_id}", f"WARC-Target-URI: {uri(unit.url)}", f"WARC-Date: {date(unit.start)}"]
    if unit.address and not is_stand_in(unit.address):
        head.append(f"WARC-IP-Address: {unit.address}")
    head.append(f"{UNIT_FIELD}: {unit.to_json()}")
    return fields_record("metadata", new_id(), head, values)


class Refers(NamedTuple):
    """What a revisit record refers to: the record that holds its payload."""

    profile: str
    uri: str
    date: str


def request_and_response(
    unit: Unit, exchange: Exchange, warcinfo_id: str, payload_digest: str = "", refers: Refers | None = None
) -> tuple[bytes, bytes]:
    """The two records of an exchange; the second one is a response with its payload, or a revisit. ValueError for a
    header that does not end."""
    payload_digest = payload_digest or digest(exchange.body)
    request_id, response_id = new_id(), new_id()
    shared = (
        f"WARC-Warcinfo-ID: {warcinfo_id}\r\nWARC-Target-URI: {uri(unit.url)}\r\nWARC-Date: {date(unit.start)}\r\n"
        + (f"WARC-IP-Address: {exchange.ip}\r\n" if exchange.ip and not is_stand_in(exchange.ip) else "")
        + (f"WARC-Protocol: {exchange.protocol}\r\n" if exchange.protocol else "")
    )
    request = (
        f"WARC/1.1\r\nWARC-Type: request\r\nWARC-Record-ID: {request_id}\r\n"
        f"WARC-Concurrent-To: {response_id}\r\n{shared}"
        f"WARC-Block-Digest: {digest(exchange.request)}\r\nContent-Type: application/http; msgtype=request\r\n"
        f"Content-Length: {len(exchange.request)}\r\n\r\n"
    )
    absent = refers is not None and refers.profile is NOT_MODIFIED
    header = b"" if absent else stored_header(exchange.header, exchange.status, len(exchange.body))
    if exchange.truncated is not None and exchange.truncated not in TRUNCATED:
        raise ValueError(f"truncated is one of {TRUNCATED} or None, not {exchange.truncated!r}")
    more = f"WARC-Truncated: {exchange.truncated}\r\n" if exchange.truncated else ""
    kind, body = "response", exchange.body
    if refers is not None:
        kind, body = "revisit", b""
        more = (
            f"WARC-Profile: {refers.profile}\r\nWARC-Refers-To-Target-URI: {refers.uri}\r\n"
            f"WARC-Refers-To-Date: {refers.date}\r\n"
        )
        if not absent:
            more += "WARC-Truncated: length\r\n"
    block_digest = NO_BYTES if absent else digest(header, body)
    response = (
        f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: {response_id}\r\n"
        f"WARC-Concurrent-To: {request_id}\r\n{shared}"
        f"WARC-Block-Digest: {block_digest}\r\nWARC-Payload-Digest: {payload_digest}\r\n{more}"
        f"{UNIT_FIELD}: {unit.to_json()}\r\nContent-Type: application/http; msgtype=response\r\n"
        f"Content-Length: {len(header) + len(body)}\r\n\r\n"
    )
    return b"".join((request.encode(), exchange.request, END)), b"".join((response.encode(), header, body, END))


def stored_header(header: bytes, status: int, body_bytes: int) -> bytes:
    """The header as it is archived beside a body of `body_bytes`. ValueError when no blank line ends it."""
    lines = header.split(b"\n")
    if len(lines) < 3 or lines[-1] or lines[-2] not in (b"", b"\r"):
        raise ValueError("a response header ends with a blank line")
    true_length = b"%d" % body_bytes
    for i in range(len(lines) - 2):
        line = lines[i]
        name, colon, value = line.partition(b":")
        name = name.strip(b" \t").lower()
        if colon:
            lies = name == b"transfer-encoding" or (
                # 304 describes the body it did not send.
                name == b"content-length" and status != 304 and value.strip(b" \t\r") != true_length
            )
            if lies or name.startswith(b"x-crawler-"):
                lines[i] = PREFIX + line
        elif name.startswith(b"x-crawler-") or _looks_blank(line):
            lines[i] = PREFIX + line
    return b"\n".join(lines)


def wire_header(header: bytes) -> bytes:
    """The header from which `stored_header` was made."""
    if PREFIX not in header:
        return header
    return b"\n".join(line.removeprefix(PREFIX) for line in header.split(b"\n"))


def split_response(block: bytes) -> tuple[bytes, bytes]:
    """(stored header with its blank line, body). ValueError when there is no blank line."""
    match = _HEADER_END.search(block)
    if match is None:
        raise ValueError("a response record without the end of a header")
    return block[: match.end()], block[match.end() :]


def digest(*data: bytes) -> str:
    return digest_text(sha1(*data))


def sha1(*data: bytes) -> bytes:
    """The digest of these pieces together."""
    hasher = hashlib.sha1(usedforsecurity=False)
    for piece in data:
        hasher.update(piece)
    return hasher.digest()


def digest_text(sha1: bytes) -> str:
    """As WARC fields and the crawl log have it: `sha1:BASE32`. Two characters are ten bits; base64.b32encode, which
    takes data of any length, needs three times as long, and a page has two digests."""
    a, b, c, d, e = _WORDS(sha1)
    two = _TWO
    return (
        f"sha1:{two[a >> 22]}{two[a >> 12 & 1023]}{two[a >> 2 & 1023]}{two[(a & 3) << 8 | b >> 24]}"
        f"{two[b >> 14 & 1023]}{two[b >> 4 & 1023]}{two[(b & 15) << 6 | c >> 26]}{two[c >> 16 & 1023]}"
        f"{two[c >> 6 & 1023]}{two[(c & 63) << 4 | d >> 28]}{two[d >> 18 & 1023]}{two[d >> 8 & 1023]}"
        f"{two[(d & 255) << 2 | e >> 30]}{two[e >> 20 & 1023]}{two[e >> 10 & 1023]}{two[e & 1023]}"
    )


NO_BYTES = digest()
"""Of a block without any."""


def sha1_of(text: str) -> bytes:
    """The bytes of a digest of ours; empty if it is none."""
    return base64.b32decode(text[5:]) if text.startswith("sha1:") else b""


def new_id() -> str:
    """A random UUID (RFC 9562, version 4), as a URI."""
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"<urn:uuid:{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}>"


def date(at: float) -> str:
    """Unix seconds as WARC-Date, to the millisecond below."""
    seconds, ms = divmod(int(at * 1000), 1000)
    return f"{_second(seconds)}.{ms:03d}Z"


def seconds_of(date: str) -> float:
    """Unix seconds that date() spells so."""
    whole, _, ms = date.rstrip("Z").partition(".")
    return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) + (int(ms or 0) + 0.5) / 1000


@lru_cache(maxsize=16)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def uri(url: bytes) -> str:
    """A URL as one header value: canonical URLs unchanged, in others bytes that could break the line
    percent-encoded."""
    return _NOT_URI.sub(lambda match: b"%%%02X" % match[0][0], url).decode("ascii")


def fields_record(kind: str, record_id: str, head: list[str], values: Mapping[str, str]) -> bytes:
    """A record whose block is `name: value` lines (application/warc-fields)."""
    block = "".join(f"{n}: {_NOT_LINE.sub(' ', v)}\r\n" for n, v in values.items() if v).encode()
    head = [
        "WARC/1.1", f"WARC-Type: {kind}", f"WARC-Record-ID: {record_id}", *head,
        f"WARC-Block-Digest: {digest(block)}", "Content-Type: application/warc-fields", f"Content-Length: {len(block)}",
    ]  # fmt: skip
    return b"".join(("\r\n".join(head).encode(), END, block, END))


def _looks_blank(line: bytes) -> bool:
    """Whether a reader that decodes and strips a line, as warcio does, would find it empty."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        text = line.decode("latin-1")
    return not text.strip()
