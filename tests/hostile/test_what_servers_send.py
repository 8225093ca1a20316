"""What a server can send, as a table: behaviour -> class, reason and annotations of its line in the log, links taken.

Each costs at most its bounds of bytes, which are asserted, and of time, which the suite's timeout is; all of them
together leave the worker's memory within its bound, and the worker as fit as before.
"""

from __future__ import annotations

import asyncio
import gzip
import re
import ssl
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Any

import brotlicffi
import pytest
import trustme
import zstandard

from irlcrawl.base.names import Names
from irlcrawl.base.reasons import Class, Reason
from irlcrawl.config.keys import Config
from tests.hostile.test_hostile_servers import OK_HEAD, Writer, impatient
from tests.worker.fetch.driver import UNKNOWN, Driver
from tests.worker.fetch.loopback import Asked, Handler, Loopback, response

BODY_BYTES_MAX = 4 << 20
MEMORY_BYTES_MAX = 450 << 20
"""Of a worker while it reads all of the table: two pages of 32 MiB, unpacked, at a time (slices.PAGES_MAX)."""
LINK = b'<a href="/inside">'
CHUNKED = OK_HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@dataclass(frozen=True)
class Row:
    """A behaviour and what is said of it."""

    sends: bytes | Handler
    reason: Reason = Reason.OK
    cls: Class = Class.FETCHED
    links: int = 0
    notes: tuple[bytes, ...] = ()


def zipped(body: bytes, coding: str) -> bytes:
    for name in coding.split(", "):
        body = {"gzip": lambda b: gzip.compress(b, 1), "br": lambda b: brotlicffi.compress(b, quality=1),
                "zstd": zstandard.compress, "deflate": zlib.compress}[name](body)  # fmt: skip
    return response(body, f"Content-Encoding: {coding}")


def refused(sends: bytes | Handler) -> Row:
    return Row(sends, Reason.PROTOCOL, Class.FAILED)


def broken(sends: bytes | Handler, links: int = 1) -> Row:
    return Row(sends, Reason.TRUNCATED, links=links, notes=(b"truncated=",))


def endless(start: bytes, more: bytes) -> Handler:
    async def send(asked: Asked, writer: Writer) -> None:
        writer.write(start)
        while True:
            writer.write(more)
            await writer.drain()

    return send


def leaves(*sends: bytes, reset: bool = False) -> Handler:
    async def send(asked: Asked, writer: Writer) -> None:
        for piece in sends:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.02)
        if reset:
            writer.transport.abort()
        else:
            writer.close()

    return send


MANY_LINKS = b"".join(b"<a href=/%d>" % number for number in range(1_000_000))
MANY_DIVS = LINK + b"<div>" * (10 << 20)
FEW = b"".join(b"X-%d: y\r\n" % number for number in range(2000))
EMPTY_FRAME = b"\x50\x2a\x4d\x18\0\0\0\0"
SCHEMES = b"<a href=javascript:x><a href=file:///x><a href=gopher://x/><a href='http://[::1'>"
FAULTS = {
    "line-without-colon": (b"nonsense\r\n", b"faults=no-colon"), "space-before-colon": (b"X : y\r\n", b"faults=space"),
    "name-no-token": (b"X(y): z\r\n", b"faults=name"), "bare-cr": (b"X: a\rb\r\n", b"faults=cr"),
    "length-twice": (b"Content-Length: 18\r\n", b""), "folded": (b"X: a\r\n b\r\n\tc\r\n", b""),
    "not-utf-8": (b"X-\xff: \xff\xfe\r\n", b"faults=name"), "high-value": (b"X: \xff\xfe\x80\r\n", b""),
}  # fmt: skip

TABLE: dict[str, Row] = {
    # lengths
    "length-too-long": broken(leaves(OK_HEAD + b"Content-Length: 900\r\n\r\n" + LINK)),
    "length-too-short": Row(OK_HEAD + b"Content-Length: 18\r\n\r\n" + LINK + b"<a href=/behind>", links=1),
    "lengths-differ": refused(OK_HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"),
    "length-of-40-digits": refused(OK_HEAD + b"Content-Length: " + b"9" * 40 + b"\r\n\r\n" + LINK),
    "length-no-number": refused(OK_HEAD + b"Content-Length: 0x12\r\n\r\n" + LINK),
    "coding-behind-bare-cr": refused(OK_HEAD + b"X: a\rTransfer-Encoding: chunked\r\n\r\n" + LINK),
    # chunks
    "chunk-no-number": broken(leaves(CHUNKED + b"12\r\n" + LINK + b"\r\nzz\r\nxx\r\n0\r\n\r\n")),
    "chunk-negative": broken(leaves(CHUNKED + b"12\r\n" + LINK + b"\r\n-1\r\nxx\r\n")),
    "chunk-of-2^64": broken(leaves(CHUNKED + b"12\r\n" + LINK + b"\r\n" + b"F" * 20 + b"\r\nxx\r\n")),
    "chunk-of-2^60": broken(leaves(CHUNKED + b"FFFFFFFFFFFFFFF\r\n" + LINK)),
    "chunk-extension-endless": broken(endless(CHUNKED + b"12\r\n" + LINK + b"\r\n1;", b"x" * 4096)),
    "chunks-of-one-byte": Row(CHUNKED + b"1\r\n<\r\n" * 50_000 + b"0\r\n\r\n"),
    "trailers-endless": broken(endless(CHUNKED + b"12\r\n" + LINK + b"\r\n0\r\n", b"X: y\r\n" * 500)),
    "chunks-in-lf": Row(CHUNKED + b"12\n" + LINK + b"\n0\n\n", links=1, notes=(b"faults=chunk-lf",)),
    # what is no HTTP/1
    "http-0.9": refused(leaves(b"<html>" + LINK)),
    "http-2-preface": refused(leaves(b"\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0\x64")),
    "status-000": refused(b"HTTP/1.1 000 Zero\r\n\r\n"),
    "status-line-spaces": Row(b"HTTP/1.1  200  OK\r\nContent-Type: text/html\r\nContent-Length: 18\r\n\r\n" + LINK,
                              links=1, notes=(b"faults=status-line",)),
    "http-1.2": Row(b"HTTP/1.2 200 OK\r\nContent-Type: text/html\r\nContent-Length: 18\r\n\r\n" + LINK, links=1,
                    notes=(b"faults=version",)),
    "a-thousand-1xx": refused(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 5000),
    "ten-1xx": Row(b"HTTP/1.1 100 Continue\r\n\r\n" * 10 + response(LINK), links=1),
    "nul-in-header": refused(OK_HEAD + b"X: \0\r\n\r\n"),
    "10000-headers": refused(OK_HEAD + FEW * 5 + b"\r\n"),
    "2000-headers": Row(OK_HEAD + FEW + b"Content-Length: 18\r\n\r\n" + LINK, links=1),
    **{name: Row(OK_HEAD + line + b"Content-Length: 18\r\n\r\n" + LINK, links=1, notes=(said,) if said else ())
       for name, (line, said) in FAULTS.items()},
    # resets at every stage
    "reset-at-once": Row(leaves(reset=True), Reason.LOST, Class.FAILED),
    "reset-in-status": Row(leaves(b"HTTP/1.1 2", reset=True), Reason.LOST, Class.FAILED),
    "reset-in-header": Row(leaves(OK_HEAD, reset=True), Reason.LOST, Class.FAILED),
    "reset-behind-header": broken(leaves(OK_HEAD + b"Content-Length: 9\r\n\r\n", reset=True), links=0),
    "reset-in-body": broken(leaves(OK_HEAD + b"Content-Length: 900\r\n\r\n" + LINK, reset=True)),
    "reset-behind-body": Row(leaves(response(LINK), reset=True), links=1),
    # codings
    "gzip-bomb": Row(zipped(MANY_DIVS, "gzip"), links=1, notes=(b"partly_read=1",)),
    "br-bomb": Row(zipped(MANY_DIVS, "br"), links=1, notes=(b"partly_read=1",)),
    "zstd-bomb": Row(zipped(MANY_DIVS, "zstd"), links=1, notes=(b"partly_read=1",)),
    "nested-bomb": Row(zipped(MANY_DIVS, "gzip, br, zstd, deflate"), links=1, notes=(b"partly_read=1",)),
    "five-codings": Row(zipped(LINK, "gzip, gzip, gzip, gzip, gzip")),
    "gzip-wrong-checksum": Row(response(gzip.compress(LINK)[:-8] + b"12345678", "Content-Encoding: gzip"), links=1),
    "gzip-cut": Row(response(gzip.compress(LINK * 99)[:-12], "Content-Encoding: gzip"), links=1,
                    notes=(b"damaged=1",)),
    "zlib-wrong-adler": Row(response(zlib.compress(LINK)[:-4] + b"1234", "Content-Encoding: deflate"), links=1),
    "br-with-tail": Row(response(brotlicffi.compress(LINK) + b"tail", "Content-Encoding: br"), links=1),
    "gzip-members": Row(response(gzip.compress(b"") * 40_000, "Content-Encoding: gzip"), notes=(b"damaged=1",)),
    "zstd-frames": Row(response(EMPTY_FRAME * 100_000, "Content-Encoding: zstd"), notes=(b"damaged=1",)),
    # redirects
    "redirect-to-itself": Row(response(b"", "Location: /redirect-to-itself", status="302 Found"), Reason.REDIRECT,
                              links=1),
    "redirect-to-file": Row(response(b"", "Location: file:///etc/passwd", status="302 Found"), Reason.REDIRECT),
    "redirect-to-data": Row(response(b"", "Location: data:text/html,x", status="302 Found"), Reason.REDIRECT),
    "redirect-60-kb": Row(response(b"", "Location: /" + "x" * 60_000, status="302 Found"), Reason.REDIRECT),
    "redirect-twice": Row(response(b"", "Location: /1", "Location: /2", status="302 Found"), Reason.REDIRECT, links=1),
    # pages
    "a-million-links": Row(zipped(MANY_LINKS, "gzip"), links=10_000, notes=(b"beyond_max=30001",)),
    "megabyte-url": Row(response(b'<a href="/' + b"x" * 1_000_000 + b'">' + LINK), links=1),
    "megabyte-base": Row(response(b'<base href="/' + b"x" * 60_000 + b'/">' + LINK * 10_000), links=1),
    "long-urls": Row(response(b"".join(b'<a href="/%d%s">' % (n, b"/x" * 20_000) for n in range(20)) + LINK), links=1),
    "unclosed": Row(response(LINK + b"<a href='" + b"x" * 900_000), links=1),
    "lt": Row(zipped(LINK + b"<" * (9 << 20), "gzip"), links=1, notes=(b"partly_read=1",)),
    "hidden": Row(zipped(LINK + b"<p hidden>" * 900_000, "gzip"), links=1, notes=(b"partly_read=1",)),
    "drawings": Row(zipped(LINK + b"<svg></svg>" * 900_000, "gzip"), links=1, notes=(b"partly_read=1",)),
    "srcdocs": Row(zipped(LINK + b"<iframe srcdoc='&lt;p>'></iframe>" * 300_000, "gzip"), links=1,
                   notes=(b"partly_read=1",)),
    "schemes": Row(response(SCHEMES + LINK), links=1),
    **{f"charset-{name[:12]}": Row(response(LINK, kind=f"text/html; charset={name}"), links=links)
       for name, links in {"utf-7": 1, "rot13": 1, "idna": 1, "base64": 1, "x" * 5000: 1, "../../etc": 1,
                           "hz-gb-2312": 0, "iso-2022-kr": 0}.items()},
    # sitemaps
    "sitemap-of-a-million": Row(
        response(gzip.compress(b"<urlset>" + b"".join(b"<loc>/%d</loc>" % n for n in range(1_000_000)), 1),
                 "Content-Encoding: gzip", kind="application/xml"), links=50_000, notes=(b"beyond_max=150001",)),
    "sitemap-of-entities": Row(response(
        b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "lol">' + b"".join(
            b'<!ENTITY a%d "%s">' % (n + 1, b"&a%d;" % n * 10) for n in range(30)) + b"]><urlset><loc>/&a30;</loc>",
        kind="application/xml"), links=1),
    "sitemap-of-an-entity": Row(response(
        b'<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]><urlset><loc>/&f;</loc>', kind="text/xml"), links=1),
}  # fmt: skip


@dataclass
class Said:
    outcomes: dict[str, dict[str, Any]]
    links: Counter[str]
    urls: set[bytes]
    after: list[int]  # classes of good pages, asked for at the end
    memory: int  # the most bytes that the worker had


def origin(name: str, server: Loopback) -> str:
    return f"http://{re.sub('[^a-z0-9-]', '-', name)}.test:{server.port}"


def ask(job: Path, rows: Iterable[str], config: Config) -> Said:
    rows = list(rows)
    served = {f"/{name}": TABLE[name].sends for name in rows} | {"/good": response(LINK)}
    with Loopback(served) as server, Driver(job, config) as worker:
        for name in rows:
            worker.visit(origin(name, server), [f"/{name}"])
        for _ in rows:
            worker.end()
        harvest = worker.harvest()
        _, after = worker.crawl(f"http://good.test:{server.port}", ["/good"])
        status = Path(f"/proc/{worker.process.pid}/status").read_text()
        assert worker.stop() == 0
    names = {Names().of_origin(origin(name, server).encode())[1]: name for name in rows}
    (memory,) = (int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM"))
    return Said(
        {names[outcome["host"]]: outcome for outcome in harvest.outcomes},
        Counter(names[link["host"]] for link in harvest.links), {link["url"] for link in harvest.links},
        [outcome["cls"] for outcome in after.outcomes], memory,
    )  # fmt: skip


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Said:
    config = impatient(read_seconds=60.0, total_seconds=60.0, body_bytes_max=BODY_BYTES_MAX)
    config.fetch.decoded_bytes_max = Config().fetch.decoded_bytes_max
    return ask(tmp_path_factory.mktemp("table"), TABLE, config)


@pytest.mark.parametrize("name", TABLE)
def test_the_log_names_the_reason(said: Said, name: str) -> None:
    row, outcome = TABLE[name], said.outcomes[name]
    assert (Class(outcome["cls"]), Reason(outcome["reason"])) == (row.cls, row.reason)
    assert said.links[name] == row.links
    assert [note for note in row.notes if note not in outcome["line"]] == []
    assert outcome["bytes"] <= BODY_BYTES_MAX + Config().fetch.header_bytes_max


def test_all_of_them_leave_the_worker_fit(said: Said) -> None:
    assert said.after == [Class.FETCHED]
    assert all(url.startswith((b"http://", b"https://")) for url in said.urls)


def test_all_of_them_are_read_within_the_bound_of_memory(said: Said) -> None:
    assert said.memory < MEMORY_BYTES_MAX


# -- robots.txt --------------------------------------------------------------------------------------------------------


RULES = b"User-agent: *\nDisallow: /no\n"
ROBOTS: dict[str, tuple[bytes | Handler, bool]] = {
    # what comes as robots.txt, and whether /page may be asked for then; /no never
    "endless": (endless(OK_HEAD + b"\r\n" + RULES, b"Allow: /x\n" * 400), True),
    "bomb": (zipped(RULES + b"#" * (50 << 20), "gzip"), True),
    "nested-bomb": (zipped(RULES + b"#" * (50 << 20), "gzip, br, zstd, gzip"), True),
    "many-rules": (response(RULES + b"".join(b"Disallow: /*%d*$\n" % n for n in range(25_000))), True),
    "short-rules": (response(RULES + b"".join(b"allow:/%x\n" % n for n in range(40_000))), True),
    "many-stars": (response(RULES + b"Disallow: /" + b"*a" * 200_000), True),
    "sitemaps": (response(RULES + b"".join(b"sitemap:///[%d\n" % n for n in range(25_000))), True),
    "one-line": (response(b"Disallow: /" * 40_000 + b"\n" + RULES), True),
    "html": (response(b"<html>" * 1000), True),
    "binary": (response(bytes(range(256)) * 1000 + b"\n" + RULES), True),
    "not-http": (b"nonsense\r\n\r\n", False),
    "itself": (response(b"", "Location: /robots.txt", status="302 Found"), False),
    "file": (response(RULES, "Location: file:///etc/passwd", status="302 Found"), False),
    "broken-header": (b"HTTP/1.1 200 OK\r\nX Y: z\r\nnonsense\r\n\r\n" + RULES, True),
}


@pytest.mark.parametrize("name", ROBOTS)
def test_whatever_comes_as_robots_txt_has_an_end_and_opens_no_more_than_it_says(tmp_path: Path, name: str) -> None:
    sends, allowed = ROBOTS[name]
    only = leaves(sends) if isinstance(sends, bytes) and b"Content-Length" not in sends else sends
    with (
        Loopback({"/robots.txt": only, "/page": response(LINK), "/no": response(LINK)}) as server,
        Driver(tmp_path, impatient(read_seconds=20.0, total_seconds=20.0)) as worker,
    ):
        worker.visit(f"http://a.test:{server.port}", ["/no", "/page"], robots=UNKNOWN)
        worker.end()
        asked = Counter(asked.target for asked in server.asked)
        assert worker.stop() == 0
    assert asked["/no"] == (name == "html")
    assert asked["/page"] == allowed
    assert asked["/robots.txt"] <= 1 + Config().robots.redirects_max


# -- TLS ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates() -> dict[str, ssl.SSLContext]:
    authority, stranger = trustme.CA(), trustme.CA()
    from datetime import datetime

    issued = {
        "good": authority.issue_cert("good.test"),
        "expired": authority.issue_cert("expired.test", not_after=datetime(2020, 1, 1, tzinfo=UTC)),
        "other-host": authority.issue_cert("elsewhere.test"),
        "self-signed": stranger.issue_cert("self-signed.test"),
    }
    contexts = {}
    for name, certificate in issued.items():
        contexts[name] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(contexts[name])
    contexts["authority"] = authority  # type: ignore[assignment]
    return contexts


@pytest.mark.parametrize("name", ["good", "expired", "other-host", "self-signed"])
@pytest.mark.parametrize("verify", [False, True])
def test_a_bad_certificate_is_taken_or_named_as_the_operator_wants_it(
    tmp_path: Path, certificates: dict[str, ssl.SSLContext], name: str, verify: bool
) -> None:
    config = impatient(tls_verify=verify)
    (tmp_path / "ca.pem").write_bytes(certificates["authority"].cert_pem.bytes())  # type: ignore[attr-defined]
    config.fetch.tls_ca_file = str(tmp_path / "ca.pem") if verify else ""
    with Loopback({"/": response(LINK)}, tls=certificates[name]) as server, Driver(tmp_path, config) as worker:
        _, harvest = worker.crawl(f"https://{name}.test:{server.port}", ["/"])
        assert worker.stop() == 0
    (outcome,) = harvest.outcomes
    fine = name == "good" or not verify
    assert (outcome["cls"], outcome["reason"]) == ((Class.FETCHED, Reason.OK) if fine else (Class.FAILED, Reason.TLS))
    assert len(server.asked) == fine


def test_a_handshake_that_stalls_ends_at_its_deadline(tmp_path: Path) -> None:
    """The port is that of a server of plain HTTP, which waits for the end of a head."""
    with Loopback({}) as server, Driver(tmp_path, impatient(connect_seconds=0.3)) as worker:
        _, harvest = worker.crawl(f"https://a.test:{server.port}", ["/"])
        assert worker.stop() == 0
    (outcome,) = harvest.outcomes
    assert (outcome["cls"], outcome["reason"]) == (Class.FAILED, Reason.CONNECT)
