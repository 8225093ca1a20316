"""Pages that are not wanted: their body is not read, their header is kept, and the log says why."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from irlcrawl.base.reasons import Class, Reason
from irlcrawl.config.keys import Config
from irlcrawl.config.toml import load
from irlcrawl.worker.fetch.http import Fetched, Fetcher
from irlcrawl.worker.fetch.verdict import judge
from irlcrawl.worker.fetch.wants import Wants
from tests.worker.fetch.both_clients import client, configured, request, run
from tests.worker.fetch.loopback import Asked, Loopback, response, say

__all__ = ["client"]  # the fixture: both clients


@pytest.mark.parametrize(
    ("types", "kind", "wanted"),
    [
        (["text/html"], "text/html", True), (["text/html"], "Text/HTML; charset=utf-8", True),
        (["text/html"], "text/plain", False), (["text/*"], "text/plain", True), (["*/*+xml"], "image/svg+xml", True),
        (["!video/*"], "video/mp4", False), (["!video/*"], "text/html", True), (["text/html"], "", True),
        (["!text/css", "text/*"], "text/css", False), (["!text/css", "text/*"], "text/csv", True),
        (["!text/css", "text/*"], "image/png", False), (["text/html"], "html", True), ([], "video/mp4", True),
        (["text/x.y"], "text/xzy", False),
    ],
)  # fmt: skip
def test_media_types(types: list[str], kind: str, wanted: bool) -> None:
    header = f"HTTP/1.1 200 OK\r\nX: 1\r\ncontent-TYPE: {kind}\r\n\r\n".encode()
    assert Wants(types, 0).refuses(header) == (Reason.OK if wanted else Reason.UNWANTED_TYPE)
    assert Wants(types, 0).refuses(b"HTTP/1.1 200 OK\r\n\r\n") == Reason.OK


@pytest.mark.parametrize(
    ("length", "wanted"), [("100", True), ("101", False), ("0" * 30 + "7", True), ("9" * 5000, False)]
)
def test_lengths(length: str, wanted: bool) -> None:
    header = f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n".encode()
    assert Wants([], 100).refuses(header) == (Reason.OK if wanted else Reason.UNWANTED_LENGTH)
    assert Wants([], 0).refuses(header) == Reason.OK


def asked(pages: dict[str, bytes], wants: Wants, *targets: str) -> tuple[list[Fetched], int]:
    with Loopback(pages) as server:

        async def use(fetcher: Fetcher) -> list[Fetched]:
            return [await fetcher.fetch(replace(request(server, target), wants=wants)) for target in targets]

        return run(configured(), use), server.connections


def test_the_body_of_an_unwanted_page_is_not_read() -> None:
    """The server would take a minute to send it."""

    async def endless(asked: Asked, writer: asyncio.StreamWriter) -> None:
        await say(asked, writer, b"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\nContent-Length: 99999\r\n\r\nxx")
        await asyncio.sleep(60)

    with Loopback({"/": endless}) as server:
        wants = Wants(["!video/*"], 0)
        got: Fetched = run(configured(), lambda fetcher: fetcher.fetch(replace(request(server), wants=wants)))
    assert (got.reason, got.unwanted, got.status) == (Reason.OK, Reason.UNWANTED_TYPE, 200)
    assert got.exchange is not None
    assert (got.exchange.body, got.exchange.truncated) == (b"", "unspecified")
    assert b"Content-Length: 99999" in got.exchange.header
    verdict = judge(got, 0, Config())
    assert (verdict.cls, verdict.reason, verdict.keep, verdict.ends) == (
        Class.FETCHED,
        Reason.UNWANTED_TYPE,
        True,
        None,
    )


def test_a_body_that_is_too_long_says_so_and_costs_its_connection_alone() -> None:
    pages = {"/long": response(b"x" * 101), "/short": response(b"x" * 100)}
    (long, short, again), connections = asked(pages, Wants([], 100), "/long", "/short", "/short")
    assert (long.unwanted, long.exchange and long.exchange.truncated) == (Reason.UNWANTED_LENGTH, "length")
    assert [got.exchange and got.exchange.body for got in (short, again)] == [b"x" * 100] * 2
    assert connections <= 2


def test_what_is_no_page_or_has_no_body_is_kept_as_it_is() -> None:
    pages = {
        "/gone": response(b"x" * 200, kind="video/mp4", status="404 Not Found"),
        "/moved": response(b"moved", "Location: /x", kind="video/mp4", status="302 Found"),
        "/empty": response(b"", kind="video/mp4"),
        "/none": b"HTTP/1.1 204 No Content\r\nContent-Type: video/mp4\r\n\r\n",
    }
    found, connections = asked(pages, Wants(["text/html"], 100), *pages)
    assert [got.unwanted for got in found] == [Reason.OK] * 4
    assert [got.exchange and (len(got.exchange.body), got.exchange.truncated) for got in found] == [
        (200, None), (5, None), (0, None), (0, None),
    ]  # fmt: skip
    assert connections == 1


def test_a_type_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"fetch.types: 'html' is no media type"):
        load(overrides=['fetch.types=["html"]'])


def test_a_type_and_a_length_that_stand_on_lines_that_go_on_are_read() -> None:
    """A folded field (RFC 9112 5.2) passed `fetch.types`."""
    header = b"HTTP/1.1 200 OK\r\nContent-Type:\r\n video/mp4\r\nContent-Length:\n\t500\r\n\r\n"
    assert Wants(["!video/*"], 0).refuses(header) is Reason.UNWANTED_TYPE
    assert Wants([], 100).refuses(header) is Reason.UNWANTED_LENGTH
