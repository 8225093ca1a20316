"""Servers that mean harm, or know no better: each costs at most its byte and time bounds, gets its own reason, and
leaves the worker as fit as before. With either client."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drum import Files

import pytest

from irlcrawl.base.names import Names
from irlcrawl.base.reasons import Class, Reason
from irlcrawl.config.keys import Config
from irlcrawl.worker.archive import redo
from tests.worker.fetch.driver import Driver, crawl_config
from tests.worker.fetch.loopback import Asked, Handler, Loopback, response

Writer = asyncio.StreamWriter
OK_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"


def impatient(**fetch: float | str) -> Config:
    config = crawl_config()
    config.politeness.retries_max = 0
    config.fetch.read_seconds = 0.5
    config.fetch.total_seconds = 1.0
    config.fetch.body_bytes_max = 100_000
    config.fetch.decoded_bytes_max = 1 << 20
    for name, value in fetch.items():
        setattr(config.fetch, name, value)
    return config


@dataclass
class Crawled:
    """What one worker made of many bad pages, asked for side by side, each of a host of its own."""

    outcomes: dict[str, dict[str, Any]]  # by page
    links: Counter[str]
    retries: list[dict[str, Any]]
    archived: int
    after: list[dict[str, Any]]  # outcomes of good pages, asked for when all was over


def crawl(job: Path, pages: Mapping[str, bytes | Handler], config: Config) -> Crawled:
    good = response(b'<a href="/fine">')
    served = {f"/{name}": page for name, page in pages.items()}
    with Loopback({**served, "/good": good}) as server, Driver(job, config) as worker:
        for name in pages:
            worker.visit(f"http://{name}.test:{server.port}", [f"/{name}"])
        for _ in pages:
            worker.end()
        harvest = worker.harvest()
        _, after = worker.crawl(f"http://good.test:{server.port}", ["/good"])
        assert worker.stop() == 0
    redo.recover(Files(), str(job / "warcs"), 0)
    names = {Names().of_origin(f"http://{name}.test:{server.port}".encode())[1]: name for name in pages}
    links = Counter(names[link["host"]] for link in harvest.links)
    return Crawled(
        {names[outcome["host"]]: outcome for outcome in harvest.outcomes}, links, harvest.retries,
        len(list(redo.units(Files(), str(job / "warcs"), 0))), list(after.outcomes),
    )  # fmt: skip


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


NO_RESPONSE: dict[str, tuple[bytes | Handler, Reason]] = {
    "silent": (silent, Reason.TIMEOUT),
    "header-drip": (header_drip, Reason.TIMEOUT),
    "endless-continue": (endless_continue, Reason.TIMEOUT),
    "endless-header-line": (endless_header_line, Reason.PROTOCOL),
    "endless-header-lines": (endless_header_lines, Reason.PROTOCOL),
    "endless-status": (endless_status, Reason.PROTOCOL),
    "closes-at-once": (closes_at_once, Reason.LOST),
    "resets": (resets, Reason.LOST),
    "closes-in-header": (closes_in_header, Reason.LOST),
    "ssh": (b"SSH-2.0-OpenSSH_9.2\r\n", Reason.PROTOCOL),
    "binary": (b"\x00\x01\x02\x03" * 100, Reason.PROTOCOL),
    "status-no-number": (b"HTTP/1.1 abc OK\r\n\r\n", Reason.PROTOCOL),
    "switching": (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", Reason.PROTOCOL,
    ),
    "two-lengths": (OK_HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", Reason.PROTOCOL),
    "negative-length": (OK_HEAD + b"Content-Length: -1\r\n\r\n", Reason.PROTOCOL),
}  # fmt: skip

BROKEN_BODY: dict[str, bytes | Handler] = {
    "body-drip": body_drip, "body-stall": body_stall, "closes-in-body": closes_in_body,
    "closes-in-chunk": closes_in_chunk,
}  # fmt: skip

SLOW = ["silent", "header-drip", "endless-continue", "body-drip", "body-stall"]


def bomb(depth: int) -> bytes:
    data = b'<a href="/inside">' + bytes(50 << 20)
    for _ in range(depth):
        data = gzip.compress(data, 6)
    return response(data, "Content-Encoding: " + ", ".join(["gzip"] * depth))


NONSENSE: dict[str, bytes | Handler] = {
    "not-gzip": response(b"not gzip", "Content-Encoding: gzip"),
    "no-coding": response(b"<a href='http://[::1'>", "Content-Encoding: x, y"),
    "no-charset": response(b"\xff\xfe<\x00a\x00", kind="text/html; charset=no-such-charset"),
    "no-type": response(b"", kind=""),
    "bad-html": response(b"<a href='/\x00'><base href='javascript:x'><a href='\xf0\x9f'>" + b"<div>" * 5000),
    "bad-location": response(b"", "Location: http://[bad", status="301 Moved"),
    "empty-location": response(b"", "Location: ", status="302 Found"),
    "high-location": response(b"", "Location: \xff\xfe/x", status="302 Found"),
    "odd-status": response(b"x", status="999 Odd"),
    "odd-headers": response(b"x", "X-Robots-Tag: ,:,,none:", "Refresh: 0;;url"),
}


@pytest.fixture(scope="module", params=["httptools", "aiohttp"])
def client(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory, client: str) -> Crawled:
    """Those that a deadline has to end apart: the others, all at once on a busy machine, would take longer than it."""
    pages: dict[str, bytes | Handler] = {name: page for name, (page, _) in NO_RESPONSE.items()}
    pages |= {**BROKEN_BODY, **NONSENSE, "endless-body": endless_body, "bomb": bomb(1), "bomb-in-bomb": bomb(3)}
    late = {name: pages.pop(name) for name in SLOW}
    patient = impatient(client=client, read_seconds=60.0, total_seconds=60.0)
    one = crawl(tmp_path_factory.mktemp("slow"), late, impatient(client=client))
    other = crawl(tmp_path_factory.mktemp("hostile"), pages, patient)
    return Crawled(
        one.outcomes | other.outcomes, one.links + other.links, one.retries + other.retries,
        one.archived + other.archived, one.after + other.after,
    )  # fmt: skip


def test_the_worker_is_as_fit_as_before_and_archived_every_outcome(crawled: Crawled) -> None:
    assert [outcome["cls"] for outcome in crawled.after] == [Class.FETCHED] * 2
    assert crawled.archived == len(crawled.outcomes) + len(crawled.after)


@pytest.mark.parametrize("name", NO_RESPONSE)
def test_no_response_has_a_reason_and_an_end(crawled: Crawled, name: str) -> None:
    outcome = crawled.outcomes[name]
    assert (outcome["cls"], outcome["reason"]) == (Class.FAILED, NO_RESPONSE[name][1])
    assert outcome["status"] < 0 and b",detail=" in outcome["line"]


@pytest.mark.parametrize("name", BROKEN_BODY)
def test_a_body_that_breaks_off_is_kept_as_far_as_it_came_and_marked(crawled: Crawled, name: str) -> None:
    outcome = crawled.outcomes[name]
    assert (outcome["cls"], outcome["reason"], outcome["status"]) == (Class.FETCHED, Reason.TRUNCATED, 200)
    assert b",truncated=" in outcome["line"] and crawled.links[name] == 1


def test_a_body_that_breaks_off_is_asked_for_again_first(tmp_path: Path, client: str) -> None:
    """But for one still coming when its time is up: a repeat would bring no more of it."""
    config = impatient(client=client)
    config.politeness.retries_max = 1
    crawled = crawl(tmp_path, BROKEN_BODY, config)
    assert {name for name, outcome in crawled.outcomes.items() if outcome["cls"] == Class.FETCHED} == {"body-drip"}
    assert len(crawled.retries) == 3 and set(crawled.links) == {"body-drip"}


def test_an_endless_body_costs_its_bound(crawled: Crawled) -> None:
    outcome = crawled.outcomes["endless-body"]
    assert (outcome["cls"], outcome["reason"]) == (Class.FETCHED, Reason.TRUNCATED)
    assert outcome["bytes"] <= 100_000 + 1000


@pytest.mark.parametrize("name", ["bomb", "bomb-in-bomb"])
def test_a_decompression_bomb_costs_its_bound(crawled: Crawled, name: str) -> None:
    assert crawled.outcomes[name]["cls"] == Class.FETCHED and crawled.outcomes[name]["bytes"] < 100_000
    assert crawled.links[name] == 1


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_in_a_response_is_a_response(crawled: Crawled, name: str) -> None:
    assert crawled.outcomes[name]["cls"] == Class.FETCHED


def test_a_hundred_slow_servers_do_not_hold_up_a_fast_one(tmp_path: Path, client: str) -> None:
    pages = {"/slow": silent, "/fast": response(b"x")}
    with (
        Loopback(pages) as server,
        Driver(tmp_path, impatient(client=client, read_seconds=20.0, total_seconds=20.0)) as worker,
    ):
        slow = {worker.visit(f"http://h{n}.test:{server.port}", ["/slow"]) for n in range(100)}
        fast = worker.visit(f"http://fast.test:{server.port}", ["/fast"] * 20)
        end = worker.end()
        assert end["visit"] == fast and fast not in slow and end["reached"] == 20
        assert worker.stop("abort") == 0


def test_a_slow_server_is_done_with_at_its_deadline(tmp_path: Path, client: str) -> None:
    with Loopback({"/": header_drip}) as server, Driver(tmp_path, impatient(client=client)) as worker:
        began = time.monotonic()
        end, _ = worker.crawl(f"http://a.test:{server.port}", ["/"])
        # The event loop's timers count whole milliseconds, so they may fire that much early.
        assert 1.0 - 0.002 <= end["fetch_s"] <= time.monotonic() - began
        assert end["outcome"] == "failed"
