"""Responses as servers write them, right and wrong, and what each client makes of them."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import pytest

from irlcrawl.base.reasons import Reason
from tests.worker.fetch.both_clients import client, get
from tests.worker.fetch.loopback import Asked, Loopback

__all__ = ["client"]  # the fixture: both clients

OK = b"HTTP/1.1 200 OK\r\n"


class Vector(NamedTuple):
    wire: bytes  # then the server closes
    reason: Reason = Reason.OK
    status: int = 200
    body: bytes = b"abc"
    truncated: str | None = None
    faults: str = ""  # of the httptools client


CHUNKED = OK + b"Transfer-Encoding: chunked\r\n"
ABC = b"Content-Length: 3\r\n\r\nabc"
NOT_HTTP = (Reason.PROTOCOL, 0, b"", None)
BROKEN = (Reason.LOST, 200, b"", "disconnect")
BAD_CHUNK = (*BROKEN, "chunk-line")

VECTORS: dict[str, Vector] = {
    "length": Vector(OK + b"Content-Length: 3\r\n\r\nabc"),
    "length-zero": Vector(OK + b"Content-Length: 0\r\n\r\n", body=b""),
    "length-odd-case": Vector(OK + b"CoNtEnT-lEnGtH:3\r\n\r\nabc"),
    "until-close": Vector(OK + b"\r\nabc"),
    "until-close-empty": Vector(OK + b"\r\n", body=b""),
    "http-1.0": Vector(b"HTTP/1.0 200 OK\r\n\r\nabc"),
    "no-reason-phrase": Vector(b"HTTP/1.1 200\r\nContent-Length: 3\r\n\r\nabc"),
    "high-reason-phrase": Vector(b"HTTP/1.1 200 \xe4\xff\r\nContent-Length: 3\r\n\r\nabc"),
    "chunked": Vector(OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n02\r\nbc\r\n0\r\n\r\n"),
    "chunk-extension": Vector(OK + b"Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0;c\r\n\r\n"),
    "chunk-trailers": Vector(OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n"),
    "chunk-size-spaces": Vector(OK + b"Transfer-Encoding: chunked\r\n\r\n3  \r\nabc\r\n0\r\n\r\n"),
    "chunk-size-no-number": Vector(OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n", *BAD_CHUNK),
    "chunk-size-too-large": Vector(
        OK + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffffff\r\nabc\r\n", *BAD_CHUNK
    ),
    "chunk-cut": Vector(
        OK + b"Transfer-Encoding: chunked\r\n\r\n9\r\nabc", Reason.LOST, body=b"abc", truncated="disconnect"
    ),
    "chunk-none": Vector(OK + b"Transfer-Encoding: chunked\r\n\r\n", *BROKEN),
    "chunk-no-last": Vector(
        OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", Reason.LOST, body=b"abc", truncated="disconnect"
    ),
    "length-cut": Vector(OK + b"Content-Length: 9\r\n\r\nabc", Reason.LOST, body=b"abc", truncated="disconnect"),
    "length-cut-at-once": Vector(OK + b"Content-Length: 9\r\n\r\n", *BROKEN),
    # Cut, and once taken for whole: the body's length was looked for in a stricter header than llhttp reads.
    "length-space-cut": Vector(OK + b"Content-Length : 9\r\n\r\nabc", Reason.LOST, body=b"abc", truncated="disconnect"),
    "length-folded-cut": Vector(
        OK + b"Content-Length:\r\n 9\r\n\r\nabc", Reason.LOST, body=b"abc", truncated="disconnect"
    ),
    "chunked-folded-cut": Vector(
        OK + b"Transfer-Encoding:\r\n chunked\r\n\r\n9\r\nabc", Reason.LOST, body=b"abc", truncated="disconnect"
    ),
    "chunked-second-cut": Vector(
        OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n9\r\nabc", Reason.LOST, body=b"abc", truncated="disconnect"
    ),
    # Whole, and once taken for cut: a coding that is not chunked ends with the connection, whatever the length says.
    "length-beside-other-coding": Vector(OK + b"Transfer-Encoding: identity\r\nContent-Length: 9\r\n\r\nabc"),
    "other-coding-until-close": Vector(OK + b"Transfer-Encoding: gzip\r\n\r\nabc"),
    "bare-lf": Vector(b"HTTP/1.1 200 OK\nContent-Length: 3\n\nabc"),
    "mixed-ends": Vector(b"HTTP/1.1 200 OK\r\nX: y\nContent-Length: 3\r\n\nabc"),
    "folded": Vector(OK + b"X: a\r\n b\r\n\tc\r\nContent-Length: 3\r\n\r\nabc"),
    "folded-blank": Vector(OK + b"X: a\r\n \r\nContent-Length: 3\r\n\r\nabc"),
    "no-value": Vector(OK + b"X:\r\nContent-Length: 3\r\n\r\nabc"),
    "odd-value": Vector(OK + b"X: \x01\xe4\xff\r\nContent-Length: 3\r\n\r\nabc"),
    "more-than-promised": Vector(OK + b"Content-Length: 3\r\n\r\nabcdef"),
    "more-after-close": Vector(OK + b"Connection: close\r\nContent-Length: 3\r\n\r\nabcdef"),
    "a-second-response": Vector((OK + b"Content-Length: 3\r\n\r\nabc") * 2),
    "100-continue": Vector(b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\n" + OK + b"Content-Length: 3\r\n\r\nabc"),
    "103-103-200": Vector(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 2 + OK + b"\r\nabc"),
    "204": Vector(b"HTTP/1.1 204 No Content\r\n\r\n", status=204, body=b""),
    "304": Vector(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", status=304, body=b""),
    "206": Vector(b"HTTP/1.1 206 Part\r\nContent-Length: 3\r\n\r\nabc", status=206),
    "200-with-upgrade": Vector(OK + b"Upgrade: h2c\r\nConnection: Upgrade\r\nContent-Length: 3\r\n\r\nabc"),
    "blank-lines-first": Vector(b"\r\n\r\n" + OK + b"Content-Length: 3\r\n\r\nabc"),
    "101": Vector(b"HTTP/1.1 101 Switching\r\n\r\nabc", *NOT_HTTP),
    "status-99": Vector(b"HTTP/1.1 99 Odd\r\n\r\n", *NOT_HTTP),
    "status-000": Vector(b"HTTP/1.1 000 Odd\r\nContent-Length: 3\r\n\r\nabc", *NOT_HTTP),
    "status-four-digits": Vector(b"HTTP/1.1 2000 OK\r\n\r\n", *NOT_HTTP),
    "http-0.9": Vector(b"<html><a href='/x'></html>", *NOT_HTTP),
    "icy": Vector(b"ICY 200 OK\r\n\r\nabc", *NOT_HTTP),
    "length-plus": Vector(OK + b"Content-Length: +3\r\n\r\nabc", *NOT_HTTP),
    "length-hex": Vector(OK + b"Content-Length: 0x3\r\n\r\nabc", *NOT_HTTP),
    "lengths-differ": Vector(OK + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", *NOT_HTTP),
    "length-huge": Vector(OK + b"Content-Length: 99999999999999999999999\r\n\r\nabc", *NOT_HTTP),
    "nul-in-value": Vector(OK + b"X: a\0b\r\nContent-Length: 3\r\n\r\nabc", *NOT_HTTP),
    "header-cut": Vector(OK + b"Content-Length: 3\r\n", Reason.LOST, 0, b""),
    "nothing": Vector(b"", Reason.LOST, 0, b""),
    # One length, said again, and once refused: a robots.txt so sent closed its host.
    "length-twice": Vector(OK + b"Content-Length: 3\r\nX: y\r\ncontent-length:3\r\n\r\nabcdef", faults="length-twice"),
    "length-twice-first": Vector(
        b"\r\n\r\n" + OK + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", faults="length-twice"
    ),
    "length-twice-bare-lf": Vector(
        b"HTTP/1.1 200 OK\nContent-Length: 3\nContent-Length: 3\n\nabc", faults="length-twice"
    ),
    "length-twice-in-a-line": Vector(OK + b"Content-Length: 3, 3,3\r\n\r\nabc", faults="length-twice"),
    "length-twice-folded": Vector(OK + b"Content-Length:\r\n 3\r\nContent-Length: 3\r\n\r\nabc", faults="length-twice"),
    "length-twice-after-100": Vector(
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
        faults="length-twice",
    ),
    "length-twice-cut": Vector(
        OK + b"Content-Length: 9\r\nContent-Length: 9\r\n\r\nabc",
        Reason.LOST,
        body=b"abc",
        truncated="disconnect",
        faults="length-twice",
    ),
    "length-twice-beside-chunks": Vector(
        OK + b"Content-Length: 9, 9\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        faults="length-twice+length-beside-chunks",
    ),
    "lengths-differ-in-a-line": Vector(OK + b"Content-Length: 3, 4\r\n\r\nabc", *NOT_HTTP),
    "lengths-differ-when-unfolded": Vector(
        OK + b"X: y\r\nContent-Length: 3\r\n 4\r\nContent-Length: 3\r\n\r\nabc", *NOT_HTTP
    ),
    "lengths-differ-of-three": Vector(OK + b"Content-Length: 3, 3\r\nContent-Length: 4\r\n\r\nabc", *NOT_HTTP),
    "length-twice-no-number": Vector(OK + b"Content-Length: +3\r\nContent-Length: +3\r\n\r\nabc", *NOT_HTTP),
    "length-in-trailer": Vector(OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nContent-Length: 9\r\n\r\n"),
    "length-beside-chunks": Vector(
        OK + b"Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        faults="length-beside-chunks",
    ),
}
REPAIRED: dict[str, Vector] = {
    "name-with-space": Vector(OK + b"X y: z\r\n" + ABC, faults="name"),
    "name-with-high-byte": Vector(OK + b"X\xe4: z\r\n" + ABC, faults="name"),
    "name-in-brackets": Vector(OK + b"<X>: z\r\n" + ABC, faults="name"),
    "name-empty": Vector(OK + b": z\r\n" + ABC, faults="name"),
    "space-before-colon": Vector(OK + b"X : z\r\n" + ABC, faults="space"),
    "space-before-each-colon": Vector(OK + b"X \t: z\r\nContent-Length : 3\r\n\r\nabc", faults="space"),
    "line-without-colon": Vector(OK + b"what is this\r\n" + ABC, faults="no-colon"),
    "line-of-html": Vector(OK + b"<!-- served by x -->\r\n" + ABC, faults="no-colon"),
    "cr-in-value": Vector(OK + b"X: a\rb\r\n" + ABC, faults="cr"),
    "cr-in-reason-phrase": Vector(b"HTTP/1.1 200 O\rK\r\n" + ABC, faults="cr"),
    "cr-twice-at-end-of-line": Vector(OK + b"X: a\r\r\n" + ABC, faults="cr"),
    "cr-and-bare-lf": Vector(b"HTTP/1.1 200 OK\nX: a\rb\nContent-Length: 3\n\nabc", faults="cr"),
    "status-two-spaces": Vector(b"HTTP/1.1  200 OK\r\n" + ABC, faults="status-line"),
    "status-tab": Vector(b"HTTP/1.1\t200 OK\r\n" + ABC, faults="status-line"),
    "status-no-space": Vector(b"HTTP/1.1 200OK\r\n" + ABC, faults="status-line"),
    "http-1.2": Vector(b"HTTP/1.2 200 OK\r\n" + ABC, faults="version"),
    "http-1": Vector(b"HTTP/1 200 OK\r\n" + ABC, faults="version"),
    "all-of-it": Vector(
        b"HTTP/1.2  404\r\nno\r\nX y : a\rb\r\n" + ABC, status=404, faults="cr+status-line+version+no-colon+space+name"
    ),
    "faulty-after-faulty-103": Vector(
        b"HTTP/1.1 103 Early\r\nX y: z\r\n\r\n" + OK + b"line\r\n" + ABC, faults="name+no-colon"
    ),
    # Once refused, or a CRLF too many before the body, as the network cut it: llhttp ended the header at that line.
    "space-before-first-field": Vector(OK + b" \r\nX: y\r\n" + ABC, faults="space-first"),
    "line-before-first-field": Vector(OK + b"\tX: y\r\n" + ABC, faults="space-first"),
    "cr-twice-without-value": Vector(OK + b"X:\r\r\n" + ABC, faults="cr"),
    "cr-twice-without-value-last": Vector(OK + b"Content-Length: 3\r\nX:\r\r\n\r\nabc", faults="cr"),
    "faulty-until-close": Vector(OK + b"X y: z\r\n\r\nabc", faults="name"),
    "faulty-chunked": Vector(CHUNKED + b"X y: z\r\n\r\n3\r\nabc\r\n0\r\n\r\n", faults="name"),
    "faulty-length-twice": Vector(OK + b"X y: z\r\nContent-Length: 3\r\n" + ABC, faults="name+length-twice"),
    "faulty-cut": Vector(
        OK + b"X y: z\r\nContent-Length: 9\r\n\r\nabc", Reason.LOST, body=b"abc", truncated="disconnect", faults="name"
    ),
    "chunk-lf": Vector(CHUNKED + b"\r\n1\na\n2\nbc\n0\n\n", faults="chunk-lf"),
    # Once taken for "bc" and a broken rest: llhttp skips an LF at the start of such a chunk.
    "chunk-lf-then-data-of-lf": Vector(CHUNKED + b"\r\n3\n\nbc\n0\n\n", body=b"\nbc", faults="chunk-lf"),
    "chunk-extension-none": Vector(CHUNKED + b"\r\n3;\r\nabc\r\n0\r\n\r\n", faults="chunk-line"),
    "chunk-extension-spaces": Vector(CHUNKED + b"\r\n3 ; a = b\r\nabc\r\n0\r\n\r\n", faults="chunk-line"),
    "chunk-trailer-name": Vector(CHUNKED + b"\r\n3\r\nabc\r\n0\r\nX y: z\r\n\r\n", faults="chunk-line"),
    "chunk-trailer-space": Vector(CHUNKED + b"\r\n3\r\nabc\r\n0\r\nX : y\r\n\r\n", faults="chunk-line"),
    "chunk-last-lf": Vector(CHUNKED + b"\r\n3\r\nabc\r\n0\n\n", faults="chunk-line"),
    "chunk-later-lf": Vector(CHUNKED + b"\r\n1\r\na\r\n2\nbc\r\n0\r\n\r\n", faults="chunk-line"),
    # Once "a" and "bc\r", whole and without a fault.
    "chunk-later-lf-then-data-of-lf": Vector(
        CHUNKED + b"\r\n1\r\na\r\n3\n\nbc\r\n0\r\n\r\n", body=b"a\nbc", faults="chunk-line"
    ),
    "chunked-empty-coding": Vector(CHUNKED[:-2] + b",\r\n\r\n3\r\nabc\r\n0\r\n\r\n", faults="coding"),
    "chunked-identity": Vector(CHUNKED[:-2] + b", identity\r\n\r\n3\r\nabc\r\n0\r\n\r\n", faults="coding"),
    "chunked-tab": Vector(CHUNKED[:-2] + b"\t\r\n\r\n3\r\nabc\r\n0\r\n\r\n", faults="coding"),
    "chunked-cr": Vector(CHUNKED[:-2] + b"\r,\r\n\r\n3\r\nabc\r\n0\r\n\r\n", faults="cr+coding"),
    "chunked-then-identity": Vector(
        CHUNKED + b"Transfer-Encoding: identity\r\n\r\n3\r\nabc\r\n0\r\n\r\n", faults="coding"
    ),
    "http-in-small-letters": Vector(b"http/1.1 200 ok\r\n" + ABC, faults="status-line"),
    "100-of-http-1.0": Vector(b"HTTP/1.0 100 Continue\r\n\r\n" + OK + ABC),
    "103-that-closes": Vector(b"HTTP/1.1 103 Early\r\nConnection: close\r\n\r\n" + OK + ABC),
    "chunk-lf-empty": Vector(CHUNKED + b"\r\n0\n\n", body=b"", faults="chunk-lf"),
    "chunk-lf-and-crlf": Vector(CHUNKED + b"\r\n3\nabc\r\n0\r\n\r\n", faults="chunk-lf"),
    "chunk-lf-extension-trailer": Vector(CHUNKED + b"\r\n03 ;a=b\nabc\n0;c\nX: y\n\n", faults="chunk-lf"),
    "chunk-lf-faulty-header": Vector(CHUNKED + b"X y: z\r\n\r\n3\nabc\n0\n\n", faults="name+chunk-lf"),
    "chunk-lf-cut": Vector(
        CHUNKED + b"\r\n9\nabc", Reason.LOST, body=b"abc", truncated="disconnect", faults="chunk-lf"
    ),
    "chunk-lf-too-long": Vector(
        CHUNKED + b"\r\n3\nabcd\n0\n\n", Reason.LOST, body=b"abc", truncated="disconnect", faults="chunk-lf"
    ),
    "chunk-lf-size-no-number": Vector(
        CHUNKED + b"\r\n3\nabc\nzz\n", Reason.LOST, body=b"abc", truncated="disconnect", faults="chunk-lf"
    ),
}
"""Refused once, and with a robots.txt its host: other clients take them."""

VECTORS |= REPAIRED
VECTORS |= {
    # What looks like an LF chunk and is none.
    "length-and-a-number": Vector(OK + b"Content-Length: 3\r\n\r\n42\n", body=b"42\n"),
    "number-until-close": Vector(OK + b"\r\n42\n", body=b"42\n"),
    # A header with another fault in which it is open what frames the body.
    "faulty-lengths-differ": Vector(OK + b"X y: z\r\nContent-Length: 4\r\n" + ABC, *NOT_HTTP),
    "faulty-length-beside-chunks": Vector(
        CHUNKED + b"X y: z\r\nContent-Length: 9\r\n\r\n3\r\nabc\r\n0\r\n\r\n", *NOT_HTTP
    ),
    "faulty-length-plus": Vector(OK + b"X y: z\r\nContent-Length: +3\r\n\r\nabc", *NOT_HTTP),
    "faulty-nul": Vector(OK + b"X y: a\0b\r\n" + ABC, *NOT_HTTP),
    "length-behind-cr": Vector(OK + b"X: a\rContent-Length: 9\r\n" + ABC, *NOT_HTTP),
    "chunked-behind-cr": Vector(OK + b"X: a\rTransfer-Encoding: chunked\r\n" + ABC, *NOT_HTTP),
    "length-behind-cr-in-reason-phrase": Vector(b"HTTP/1.1 200 O\rContent-Length: 9\r\n" + ABC, *NOT_HTTP),
    "length-by-another-name": Vector(OK + b"Content-Length\x0b: 9\r\n" + ABC, *NOT_HTTP),
    "chunked-by-another-name": Vector(OK + b"Transfer- Encoding: chunked\r\n" + ABC, *NOT_HTTP),
    "length-before-first-field": Vector(OK + b" Content-Length: 9\r\n" + ABC, *NOT_HTTP),
    "faulty-length-folded-away": Vector(OK + b"X y: z\r\n Content-Length: 9\r\n" + ABC, *NOT_HTTP),
    "faulty-status-four-digits": Vector(b"HTTP/1.2 2000 OK\r\n" + ABC, *NOT_HTTP),
    "http-3": Vector(b"HTTP/3.0 200 OK\r\n" + ABC, *NOT_HTTP),
    "faulty-101": Vector(b"HTTP/1.1 101 Switching\r\nX y: z\r\n\r\nabc", *NOT_HTTP),
    "faulty-header-cut": Vector(OK + b"X y: z\r\nContent-Length: 3\r\n", *NOT_HTTP),
}
BETTER_THAN_AIOHTTP = {
    "length-beside-chunks", "length-in-trailer", "chunk-size-no-number", "chunk-size-too-large", "more-than-promised",
    "more-after-close", "length-beside-other-coding",
    "length-twice", "length-twice-first", "length-twice-bare-lf", "length-twice-in-a-line", "length-twice-folded",
    "length-twice-after-100", "length-twice-cut", "length-twice-beside-chunks",
    *(name for name in REPAIRED if name != "chunk-lf-extension-trailer"),
}  # fmt: skip
"""aiohttp refuses the whole response, or gives up half of it."""


@pytest.mark.parametrize("name", VECTORS)
def test_what_a_client_makes_of_a_response(client: str, name: str) -> None:
    if client == "aiohttp" and name in BETTER_THAN_AIOHTTP:
        pytest.skip("aiohttp refuses it")
    vector = VECTORS[name]

    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(vector.wire)
        writer.close()

    with Loopback({"/": answer}) as server:
        fetched = get(server)
    exchange = fetched.exchange
    body, truncated = (exchange.body, exchange.truncated) if exchange is not None else (b"", None)
    assert (fetched.reason, fetched.status, body, truncated) == vector[1:5], fetched.detail
    assert fetched.faults == (vector.faults if client == "httptools" else "")
    if exchange is not None and client == "httptools":
        wire = vector.wire.lstrip(b"\r\n")
        assert exchange.header in wire and exchange.header.upper().startswith(b"HTTP/1") and not fetched.stale
        assert wire.index(exchange.header) == 0 or wire.startswith((b"HTTP/1.1 1", b"HTTP/1.0 1"))
