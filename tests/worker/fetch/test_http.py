"""The HTTP seam: what it sends, what it keeps, where it connects, and what it calls each way a server can fail. Every
test here is run through both clients."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
from typing import Any

import pytest

from irlcrawl.base.reasons import Reason
from irlcrawl.worker.fetch import http
from irlcrawl.worker.fetch.http import Fetched, Fetcher, Request
from irlcrawl.worker.fetch.response import ResponseReader
from tests.worker.fetch.both_clients import client, configured, get, request, run
from tests.worker.fetch.loopback import Asked, Loopback, response

__all__ = ["client"]  # the fixture: both clients


def test_an_ipv6_address() -> None:
    """It went into the client's URL without brackets, and every page of every such host was a protocol error."""
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError as error:
            pytest.skip(f"no IPv6 loopback here: {error}")
    with Loopback({"/": response(b"six")}, addresses=("::1",)) as server:
        for host in ("a.test", "::1"):
            result = get(server, host=host, address="::1")
            assert (result.reason, result.exchange and result.exchange.body) == (Reason.OK, b"six"), result.detail
        assert [asked.host for asked in server.asked] == [f"a.test:{server.port}", f"[::1]:{server.port}"]


def test_the_archived_request_is_what_the_server_received() -> None:
    with Loopback({"/a//b/../c?d=e%20f&": response(b"hello")}) as server:
        result = get(server, "/a//b/../c?d=e%20f&")
        assert result.reason is Reason.OK
        assert result.exchange.request == server.asked[0].head
        assert b"Host: a.test:%d\r\n" % server.port in server.asked[0].head
        assert b"From: ops@example.org\r\n" in server.asked[0].head
        assert b"Accept-Encoding: gzip, br, zstd\r\n" in server.asked[0].head


@pytest.mark.parametrize("target", ["/?", "/a?", "/%7Efoo/'|\"", "/a;b=c/?q=[x]", "/%E4%B8%AD?x=%ZZ", "//x", "/a/./b"])
def test_targets_are_sent_untouched(target: str) -> None:
    with Loopback({}) as server:
        get(server, target)
        assert [asked.target for asked in server.asked] == [target]


def test_the_response_header_keeps_names_order_and_repeats() -> None:
    page = (
        b"HTTP/1.1 203 Kind Of \xe4\r\nX-b: 1\r\nSet-Cookie: a=1\r\nSET-COOKIE: b=\xff2\r\nContent-Length: 2\r\n\r\nok"
    )
    with Loopback({"/": page}) as server:
        result = get(server)
        assert result.exchange.header + result.exchange.body == page
        assert result.status == result.exchange.status == 203


def test_a_connection_that_ended_leaves_no_garbage() -> None:
    """Reader and parser of each knew each other: thousands, with their last bodies, waited for the collector."""

    async def alive(fetcher: Fetcher) -> int:
        gc.collect()
        gc.disable()
        try:
            for _ in range(10):
                assert (await fetcher.fetch(request(server))).reason is Reason.OK
            return sum(isinstance(thing, ResponseReader) for thing in gc.get_objects())
        finally:
            gc.enable()

    with Loopback({"/": response(b"x" * 1000, "Connection: close")}) as server:
        assert run(configured(), alive) <= 1


def test_no_cookie_is_ever_sent_back() -> None:
    with Loopback({"/": response(b"x", "Set-Cookie: id=1; Path=/")}) as server:

        async def twice(fetcher: Fetcher) -> None:
            await fetcher.fetch(request(server))
            await fetcher.fetch(request(server))

        run(configured(), twice)
        assert len(server.asked) == 2
        assert not any(b"ookie" in asked.head for asked in server.asked)


def test_redirects_are_not_followed() -> None:
    with Loopback({"/": response(b"", "Location: /next", status="301 Moved")}) as server:
        result = get(server)
        assert (result.status, result.value(b"location")) == (301, b"/next")
        assert len(server.asked) == 1


def test_bodies_stay_content_encoded() -> None:
    packed = b"\x1f\x8b not even gzip"
    with Loopback({"/": response(packed, "Content-Encoding: gzip")}) as server:
        assert get(server).exchange.body == packed


def test_chunked_bodies_are_joined_and_the_connection_reused() -> None:
    page = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\nTrailer: z\r\n\r\n"
    with Loopback({"/": page}) as server:

        async def twice(fetcher: Fetcher) -> list[Fetched]:
            return [await fetcher.fetch(request(server)) for _ in range(2)]

        results = run(configured(), twice)
        assert [result.exchange.body for result in results] == [b"abcdefg"] * 2
        assert server.connections == 1


def test_a_connection_is_reused_only_for_its_own_address_and_name() -> None:
    with Loopback({"/": response(b"x")}, addresses=("127.0.0.1", "127.0.0.2")) as server:

        async def visits(fetcher: Fetcher) -> None:
            for host, address in [("a.test", "127.0.0.1"), ("a.test", "127.0.0.2"), ("b.test", "127.0.0.2")] * 2:
                assert (await fetcher.fetch(request(server, host=host, address=address))).exchange.ip == address

        run(configured(), visits)
        seen = {(asked.host, asked.address, asked.connection) for asked in server.asked}
        assert [asked.address for asked in server.asked] == ["127.0.0.1", "127.0.0.2", "127.0.0.2"] * 2
        assert len(server.asked) == 6 and len(seen) == 3 == server.connections


def test_only_the_leased_address_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the system would resolve the name to, and whatever proxy the environment names."""
    resolved: list[object] = []

    def trap(*args: object, **_: object) -> list[Any]:
        resolved.append(args)
        raise AssertionError("a worker resolves no names")

    monkeypatch.setattr(socket, "getaddrinfo", trap)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.3:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.3:1")
    with Loopback({"/": response(b"x")}, addresses=("127.0.0.2",)) as server:
        result = get(server, host="localhost", address="127.0.0.2")
        assert result.reason is Reason.OK
        assert [asked.address for asked in server.asked] == ["127.0.0.2"]
    assert not resolved


def test_what_comes_on_an_idle_connection_ends_it(client: str) -> None:
    if client == "aiohttp":
        pytest.skip("aiohttp takes it for the answer to the next request")

    async def twice(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(response(b"x"))
        await writer.drain()
        if asked.target == "/chatty":
            await asyncio.sleep(0.05)
            writer.write(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")

    with Loopback({"/chatty": twice, "/": response(b"y")}) as server:

        async def use(fetcher: Fetcher) -> list[Fetched]:
            first = await fetcher.fetch(request(server, "/chatty"))
            await asyncio.sleep(0.2)
            return [first, await fetcher.fetch(request(server, "/"))]

        results = run(configured(), use)
        assert [result.exchange.body for result in results] == [b"x", b"y"]
        assert server.connections == 2


def test_an_abort_closes_the_connection() -> None:
    left = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        task.cancel()
        with contextlib.suppress(ConnectionResetError):
            await reader.read()
        left.set()

    async def use(fetcher: Fetcher) -> None:
        nonlocal task
        async with await asyncio.start_server(silent, "127.0.0.1", 0) as listener:
            port = listener.sockets[0].getsockname()[1]
            asked = Request(b"http://a.test/", "http", "a.test", port, "/", "127.0.0.1", 1000)
            task = asyncio.ensure_future(fetcher.fetch(asked))
            with pytest.raises(asyncio.CancelledError):
                await task
            await left.wait()

    task: asyncio.Future[Fetched]
    run(configured(read_seconds=30.0), use)


def test_a_body_over_its_bound_is_cut_there() -> None:
    with Loopback({"/": response(b"0123456789" * 100)}) as server:
        whole = get(server, bound=1000)
        cut = get(server, bound=999)
        assert (len(whole.exchange.body), whole.exchange.truncated) == (1000, None)
        assert (len(cut.exchange.body), cut.exchange.truncated, cut.reason) == (999, "length", Reason.OK)


def test_idle_connections_are_bounded(monkeypatch: pytest.MonkeyPatch, client: str) -> None:
    """aiohttp cannot close an idle connection to make room for another, so it asks servers not to keep more; the other
    client closes the oldest."""
    monkeypatch.setattr(http, "IDLE_MAX", 2)
    with Loopback({"/": response(b"x")}) as server:

        async def hosts(fetcher: Fetcher) -> None:
            for number in (0, 1, 2, 3, 4, 4):
                await fetcher.fetch(request(server, host=f"h{number}.test"))
            for _ in range(200):
                if client == "aiohttp" or server.open == 2:
                    return
                await asyncio.sleep(0.01)  # the server has yet to notice
            raise AssertionError(f"{server.open} connections are open")

        run(configured(), hosts)
        closing = [b"\r\nConnection: close\r\n" in asked.head for asked in server.asked]
        if client == "aiohttp":
            assert closing == [False, False, True, True, True, False]  # the last finds one open
        else:
            assert not any(closing) and server.connections == 5


def test_many_large_bodies_take_turns_and_all_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "BODY_LARGE_MAX", 2)
    body = bytes(3 << 20)
    with Loopback({"/": response(body)}) as server:

        async def at_once(fetcher: Fetcher) -> list[Fetched]:
            jobs = [fetcher.fetch(request(server, host=f"h{n}.test", bound=4 << 20)) for n in range(6)]
            return await asyncio.gather(*jobs)

        results = run(configured(read_seconds=5.0), at_once)
        assert [len(result.exchange.body) for result in results] == [len(body)] * 6
