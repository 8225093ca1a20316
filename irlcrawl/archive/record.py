"""The bytes of WARC 1.1 records, formatted by hand: a fifth of the cost of a general writer, and every byte is chosen.

One record is one gzip member. The HTTP header is stored as received, but for what would make the stored record lie:
`Transfer-Encoding` (the body is stored without it) and a `Content-Length` that is not the stored body's get the prefix
`X-Crawler-`, as Common Crawl does. So do a header line that already has the prefix, and a line a reader would take for
the end of the header; so taking one prefix off each line that has it gives back exactly what the wire carried.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import time
import uuid
from collections.abc import Mapping

from isal import isal_zlib

from irlcrawl.archive.unit import TRUNCATED, Exchange, Unit
from irlcrawl.rows import Class, Reason

UNIT_FIELD = "Irlcrawl-Unit"
WARC_VERSION = b"WARC/1.1"
CONFORMS_TO = "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"
PREFIX = b"X-Crawler-"

_GZIP = 31  # zlib's wbits for a gzip wrapper, checksum and length included
_HEADER_END = re.compile(rb"\n\r?\n")
_NOT_URI = re.compile(rb"[^!-~]")
_NOT_LINE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def member(record: bytes, level: int) -> bytes:
    """One record as one gzip member, without time or name in it."""
    return isal_zlib.compress(record, level, _GZIP)


def warcinfo(record_id: str, file: str, at: float, values: Mapping[str, str]) -> bytes:
    """The first record of a file: who wrote it, with what. Empty values are left out."""
    values = {**values, "format": "WARC File Format 1.1", "conformsTo": CONFORMS_TO}
    head = [f"WARC-Date: {date(at)}", f"WARC-Filename: {file}"]
    return _fields_record("warcinfo", record_id, head, values)


def metadata(unit: Unit, warcinfo_id: str) -> bytes:
    """An outcome without a response."""
    values = {
        "outcome": Class(unit.cls).name.lower(),
        "reason": Reason(unit.reason).name.lower(),
        "status": str(unit.status),
        "detail": unit.detail,
        "fetchTimeMs": str(unit.duration_ms),
    }
    head = [f"WARC-Warcinfo-ID: {warcinfo_id}", f"WARC-Target-URI: {uri(unit.url)}", f"WARC-Date: {date(unit.start)}"]
    if unit.address:
        head.append(f"WARC-IP-Address: {unit.address}")
    head.append(f"{UNIT_FIELD}: {unit.to_json()}")
    return _fields_record("metadata", new_id(), head, values)


def request_and_response(unit: Unit, exchange: Exchange, warcinfo_id: str) -> tuple[bytes, bytes, str]:
    """The two records of an exchange, and the payload digest. ValueError for a header that does not end."""
    request_id, response_id = new_id(), new_id()
    shared = (
        f"WARC-Warcinfo-ID: {warcinfo_id}\r\nWARC-Target-URI: {uri(unit.url)}\r\nWARC-Date: {date(unit.start)}\r\n"
        f"WARC-IP-Address: {exchange.ip}\r\n"
    )
    request = (
        f"WARC/1.1\r\nWARC-Type: request\r\nWARC-Record-ID: {request_id}\r\n"
        f"WARC-Concurrent-To: {response_id}\r\n{shared}"
        f"WARC-Block-Digest: {digest(exchange.request)}\r\nContent-Type: application/http; msgtype=request\r\n"
        f"Content-Length: {len(exchange.request)}\r\n\r\n"
    )
    header = stored_header(exchange.header, exchange.status, len(exchange.body))
    payload_digest = digest(exchange.body)
    if exchange.truncated is not None and exchange.truncated not in TRUNCATED:
        raise ValueError(f"truncated is one of {TRUNCATED} or None, not {exchange.truncated!r}")
    truncated = f"WARC-Truncated: {exchange.truncated}\r\n" if exchange.truncated else ""
    response = (
        f"WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: {response_id}\r\n"
        f"WARC-Concurrent-To: {request_id}\r\n{shared}"
        f"WARC-Block-Digest: {digest(header, exchange.body)}\r\nWARC-Payload-Digest: {payload_digest}\r\n{truncated}"
        f"{UNIT_FIELD}: {unit.to_json()}\r\nContent-Type: application/http; msgtype=response\r\n"
        f"Content-Length: {len(header) + len(exchange.body)}\r\n\r\n"
    )
    return (
        b"".join((request.encode(), exchange.request, b"\r\n\r\n")),
        b"".join((response.encode(), header, exchange.body, b"\r\n\r\n")),
        payload_digest,
    )


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
    """What `stored_header` was made from."""
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
    sha1 = hashlib.sha1(usedforsecurity=False)
    for piece in data:
        sha1.update(piece)
    return "sha1:" + base64.b32encode(sha1.digest()).decode("ascii")


def new_id() -> str:
    return f"<urn:uuid:{uuid.UUID(bytes=os.urandom(16), version=4)}>"


def date(at: float) -> str:
    """Unix seconds as WARC-Date, to the millisecond below."""
    seconds, ms = divmod(int(at * 1000), 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{ms:03d}Z"


def uri(url: bytes) -> str:
    """A URL as one header value. Canonical URLs are untouched; what could break the line is percent-encoded."""
    return _NOT_URI.sub(lambda match: b"%%%02X" % match[0][0], url).decode("ascii")


def _fields_record(kind: str, record_id: str, head: list[str], values: Mapping[str, str]) -> bytes:
    """A record whose block is `name: value` lines (application/warc-fields)."""
    block = "".join(f"{n}: {_NOT_LINE.sub(' ', v)}\r\n" for n, v in values.items() if v).encode()
    head = [
        "WARC/1.1", f"WARC-Type: {kind}", f"WARC-Record-ID: {record_id}", *head,
        f"WARC-Block-Digest: {digest(block)}", "Content-Type: application/warc-fields", f"Content-Length: {len(block)}",
    ]  # fmt: skip
    return b"".join(("\r\n".join(head).encode(), b"\r\n\r\n", block, b"\r\n\r\n"))


def _looks_blank(line: bytes) -> bool:
    """Would a reader that decodes and strips a line, as warcio does, find nothing in it?"""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        text = line.decode("latin-1")
    return not text.strip()
