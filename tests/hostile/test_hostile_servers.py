"""Servers that mean harm, or know no better: each costs at most its byte and time bounds, gets its own reason, and
leaves the worker as fit as before."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from drum import Files
from irlcrawl.archive import redo
from irlcrawl.config import Config
from irlcrawl.rows import Class, Reason
from tests.fetch.driver import Driver, Harvested, crawl_config
from tests.fetch.loopback import Asked, Handler, Loopback, response

Writer = asyncio.StreamWriter
OK_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"


def impatient(**fetch: float) -> Config:
    config = crawl_config()
    config.politeness.retries_max = 0
    config.fetch.read_seconds = 0.3
    config.fetch.total_seconds = 1.0
    config.fetch.body_bytes_max = 100_000
    for name, value in fetch.items():
        setattr(config.fetch, name, value)
    return config


@contextlib.contextmanager
def crawled(tmp_path: Path, page: bytes | Handler, config: Config | None = None) -> Iterator[tuple[Harvested, dict]]:
    """The bad page is asked for, and then a good one by the same worker."""
    good = response(b'<a href="/fine">')
    with Loopback({"/bad": page, "/good": good}) as server, Driver(tmp_path, config or impatient()) as worker:
        _, harvest = worker.crawl(f"http://a.test:{server.port}", ["/bad"])
        _, after = worker.crawl(f"http://b.test:{server.port}", ["/good"])
        assert after.outcomes[0]["cls"] == Class.FETCHED and len(after.links) == 1
        (outcome,) = harvest.outcomes
        yield harvest, outcome
        assert worker.stop() == 0
    redo.recover(Files(), str(tmp_path / "warcs"), 0)
    assert len(list(redo.units(Files(), str(tmp_path / "warcs"), 0))) == 2


async def silent(asked: Asked, writer: Writer) -> None:
    await asyncio.sleep(60)


async def header_drip(asked: Asked, writer: Writer) -> None:
    writer.write(OK_HEAD)
    for number in range(600):
        writer.write(b"X-%d: y\r\n" % number)
        await writer.drain()
        await asyncio.sleep(0.1)


async def body_drip(asked: Asked, writer: Writer) -> None:
    writer.write(OK_HEAD + b"Content-Length: 90000\r\n\r\n")
    for _ in range(600):
        writer.write(b'<a href="/x">')
        await writer.drain()
        await asyncio.sleep(0.1)


async def body_stall(asked: Asked, writer: Writer) -> None:
    writer.write(OK_HEAD + b"Content-Length: 90000\r\n\r\n<a href=/x>")
    await asyncio.sleep(60)


async def endless_body(asked: Asked, writer: Writer) -> None:
    writer.write(OK_HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"1000\r\n" + bytes(4096) + b"\r\n")
        await writer.drain()


async def endless_header_line(asked: Asked, writer: Writer) -> None:
    writer.write(OK_HEAD + b"X-Long: ")
    while True:
        writer.write(b"a" * 4096)
        await writer.drain()


async def endless_header_lines(asked: Asked, writer: Writer) -> None:
    writer.write(OK_HEAD)
    while True:
        writer.write(b"X-Long: %s\r\n" % (b"a" * 1000))
        await writer.drain()


async def endless_status(asked: Asked, writer: Writer) -> None:
    writer.write(b"HTTP/1.1 200 ")
    while True:
        writer.write(b"O" * 4096)
        await writer.drain()


async def endless_continue(asked: Asked, writer: Writer) -> None:
    while True:
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 10)
        await writer.drain()
        await asyncio.sleep(0.01)


async def closes_at_once(asked: Asked, writer: Writer) -> None:
    writer.close()


async def resets(asked: Asked, writer: Writer) -> None:
    writer.transport.abort()


async def closes_in_header(asked: Asked, writer: Writer) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Ty")
    writer.close()


async def closes_in_body(asked: Asked, writer: Writer) -> None:
    writer.write(OK_HEAD + b"Content-Length: 90000\r\n\r\n<a href=/x>")
    writer.close()


async def closes_in_chunk(asked: Asked, writer: Writer) -> None:
    writer.write(OK_HEAD + b"Transfer-Encoding: chunked\r\n\r\n1000\r\n<a href=/x>")
    writer.close()


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        (silent, Reason.TIMEOUT), (header_drip, Reason.TIMEOUT), (endless_continue, Reason.TIMEOUT),
        (endless_header_line, Reason.PROTOCOL), (endless_header_lines, Reason.PROTOCOL),
        (endless_status, Reason.PROTOCOL),
        (closes_at_once, Reason.LOST), (resets, Reason.LOST), (closes_in_header, Reason.LOST),
        (b"SSH-2.0-OpenSSH_9.2\r\n", Reason.PROTOCOL), (b"\x00\x01\x02\x03" * 100, Reason.PROTOCOL),
        (b"HTTP/1.1 abc OK\r\n\r\n", Reason.PROTOCOL), (b"HTTP/1.1 200 OK\r\n: no name\r\n\r\n", Reason.PROTOCOL),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", Reason.PROTOCOL),
        (OK_HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", Reason.PROTOCOL),
        (OK_HEAD + b"Content-Length: -1\r\n\r\n", Reason.PROTOCOL),
    ],
)  # fmt: skip
def test_no_response_has_a_reason_and_an_end(tmp_path: Path, page: bytes | Handler, reason: Reason) -> None:
    with crawled(tmp_path, page) as (_, outcome):
        assert (outcome["cls"], outcome["reason"]) == (Class.FAILED, reason)
        assert outcome["status"] < 0


@pytest.mark.parametrize("page", [body_drip, body_stall, closes_in_body, closes_in_chunk])
def test_a_body_that_breaks_off_is_kept_as_far_as_it_came_and_marked(tmp_path: Path, page: Handler) -> None:
    with crawled(tmp_path, page) as (harvest, outcome):
        assert (outcome["cls"], outcome["reason"], outcome["status"]) == (Class.FETCHED, Reason.TRUNCATED, 200)
        assert b",truncated=" in outcome["line"] and len(harvest.links) == 1


@pytest.mark.parametrize("page", [body_stall, closes_in_body])
def test_a_body_that_breaks_off_is_asked_for_again_first(tmp_path: Path, page: Handler) -> None:
    config = impatient()
    config.politeness.retries_max = 1
    with crawled(tmp_path, page, config) as (harvest, outcome):
        assert outcome["cls"] == Class.RETRY and len(harvest.retries) == 1 and harvest.links == []


def test_an_endless_body_costs_its_bound(tmp_path: Path) -> None:
    with crawled(tmp_path, endless_body) as (_, outcome):
        assert (outcome["cls"], outcome["reason"]) == (Class.FETCHED, Reason.TRUNCATED)
        assert outcome["bytes"] <= 100_000 + 1000


@pytest.mark.parametrize("depth", [1, 3])
def test_a_decompression_bomb_costs_its_bound(tmp_path: Path, depth: int) -> None:
    bomb = b'<a href="/inside">' + bytes(50 << 20)
    for _ in range(depth):
        bomb = gzip.compress(bomb, 6)
    page = response(bomb, "Content-Encoding: " + ", ".join(["gzip"] * depth))
    with crawled(tmp_path, page, impatient(decoded_bytes_max=1 << 20)) as (harvest, outcome):
        assert outcome["cls"] == Class.FETCHED and outcome["bytes"] < 100_000
        assert len(harvest.links) == 1


@pytest.mark.parametrize(
    "page",
    [
        response(b"not gzip", "Content-Encoding: gzip"), response(b"<a href='http://[::1'>", "Content-Encoding: x, y"),
        response(b"\xff\xfe<\x00a\x00", kind="text/html; charset=no-such-charset"), response(b"", kind=""),
        response(b"<a href='/\x00'><base href='javascript:x'><a href='\xf0\x9f'>" + b"<div>" * 5000),
        response(b"", "Location: http://[bad", status="301 Moved"), response(b"", "Location: ", status="302 Found"),
        response(b"", "Location: \xff\xfe/x".encode("latin-1").decode("latin-1"), status="302 Found"),
        response(b"x", status="999 Odd"), response(b"x", "X-Robots-Tag: ,:,,none:", "Refresh: 0;;url"),
    ],
)  # fmt: skip
def test_nonsense_in_a_response_is_a_response(tmp_path: Path, page: bytes) -> None:
    with crawled(tmp_path, page) as (_, outcome):
        assert outcome["cls"] == Class.FETCHED


def test_a_hundred_slow_servers_do_not_hold_up_a_fast_one(tmp_path: Path) -> None:
    pages = {"/slow": silent, "/fast": response(b"x")}
    with Loopback(pages) as server, Driver(tmp_path, impatient(read_seconds=20.0, total_seconds=20.0)) as worker:
        slow = {worker.visit(f"http://h{n}.test:{server.port}", ["/slow"]) for n in range(100)}
        fast = worker.visit(f"http://fast.test:{server.port}", ["/fast"] * 20)
        end = worker.end()
        assert end["visit"] == fast and fast not in slow and end["reached"] == 20
        assert worker.stop("abort") == 0


def test_a_slow_server_is_done_with_at_its_deadline(tmp_path: Path) -> None:
    with Loopback({"/": header_drip}) as server, Driver(tmp_path, impatient()) as worker:
        began = time.monotonic()
        end, _ = worker.crawl(f"http://a.test:{server.port}", ["/"])
        assert 1.0 <= end["fetch_s"] <= time.monotonic() - began
        assert end["outcome"] == "failed"
