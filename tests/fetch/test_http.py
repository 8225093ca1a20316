"""The HTTP seam: what it sends, what it keeps, where it connects, and what it calls each way a server can fail. Every
test here is run through both clients."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import resource
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from irlcrawl.clock import SystemClock
from irlcrawl.config import Config
from irlcrawl.fetch import http
from irlcrawl.fetch.http import Fetched, Fetcher, Request, open_fetcher
from irlcrawl.fetch.response import ResponseReader
from irlcrawl.rows import Reason
from tests.fetch.loopback import Asked, Loopback, response

CLIENTS = ("httptools", "aiohttp")
current = {"client": CLIENTS[0]}


@pytest.fixture(params=CLIENTS, autouse=True)
def client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The client that `configured` names."""
    name: str = request.param
    monkeypatch.setitem(current, "client", name)
    return name


def configured(**fetch: Any) -> Config:
    config = Config()
    config.fetch.client = current["client"]
    config.crawl.user_agent = "Testbot/1.0 (+https://example.org/bot; bot@example.org)"
    config.crawl.operator = "ops@example.org"
    config.fetch.read_seconds = 0.2
    config.fetch.total_seconds = 5.0
    for name, value in fetch.items():
        setattr(config.fetch, name, value)
    return config


def request(
    server: Loopback, target: str = "/", host: str = "a.test", address: str = "127.0.0.1", bound: int = 1 << 20
) -> Request:
    url = f"http://{host}:{server.port}{target}".encode()
    return Request(url, "http", host, server.port, target, address, bound)


def run(config: Config, use: Callable[[Fetcher], Awaitable[Any]]) -> Any:
    async def body() -> Any:
        fetcher = open_fetcher(config, SystemClock())
        try:
            return await use(fetcher)
        finally:
            await fetcher.close()

    return asyncio.run(body())


def get(server: Loopback, target: str = "/", config: Config | None = None, **options: Any) -> Fetched:
    return run(config or configured(), lambda fetcher: fetcher.fetch(request(server, target, **options)))


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


def test_a_server_that_speaks_first_is_no_http(client: str) -> None:
    """Its greeting is there before the request: a lost connection would be asked for again, and this need not be."""

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.test ESMTP\r\n")
        await reader.read()

    async def use(fetcher: Fetcher) -> Fetched:
        async with await asyncio.start_server(greet, "127.0.0.1", 0) as listener:
            port = listener.sockets[0].getsockname()[1]
            return await fetcher.fetch(Request(b"http://a.test/", "http", "a.test", port, "/", "127.0.0.1", 1000))

    result = run(configured(), use)
    assert (result.reason, result.exchange, result.stale) == (Reason.PROTOCOL, None, False)


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


def test_a_closed_port_is_a_connect_failure() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    closed = Request(b"http://a.test/", "http", "a.test", port, "/", "127.0.0.1", 1000)
    result = run(configured(), lambda fetcher: fetcher.fetch(closed))
    assert (result.reason, result.exchange, result.stale) == (Reason.CONNECT, None, False)


def test_no_answer_to_a_connection_is_a_connect_failure_within_the_deadline() -> None:
    """A listener whose queue is full answers no SYN."""
    with socket.socket() as deaf, contextlib.ExitStack() as held:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        for _ in range(4):
            filler = held.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(deaf.getsockname())
        lost = Request(b"http://a.test/", "http", "a.test", deaf.getsockname()[1], "/", "127.0.0.1", 1000)
        result = run(configured(connect_seconds=0.2), lambda fetcher: fetcher.fetch(lost))
        assert result.reason is Reason.CONNECT


def test_a_plain_server_asked_for_tls_is_a_tls_failure() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async def use(fetcher: Fetcher) -> Fetched:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as listener:
            port = listener.sockets[0].getsockname()[1]
            return await fetcher.fetch(Request(b"https://a.test/", "https", "a.test", port, "/", "127.0.0.1", 1000))

    assert run(configured(), use).reason is Reason.TLS


def test_a_body_over_its_bound_is_cut_there() -> None:
    with Loopback({"/": response(b"0123456789" * 100)}) as server:
        whole = get(server, bound=1000)
        cut = get(server, bound=999)
        assert (len(whole.exchange.body), whole.exchange.truncated) == (1000, None)
        assert (len(cut.exchange.body), cut.exchange.truncated, cut.reason) == (999, "length", Reason.OK)


def test_a_connection_dropped_while_idle_is_stale_and_not_asked_again() -> None:
    """The gap forbids a second request at once, so the client must not repeat it by itself."""

    async def once(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if len(server.asked) > 1:
            writer.transport.abort()
            return
        writer.write(response(b"x"))
        await writer.drain()

    with Loopback({"/": once}) as server:

        async def twice(fetcher: Fetcher) -> list[Fetched]:
            return [await fetcher.fetch(request(server)) for _ in range(2)]

        first, second = run(configured(), twice)
        assert first.reason is Reason.OK
        assert (second.reason, second.stale, second.exchange) == (Reason.LOST, True, None)
        assert len(server.asked) == 2


def test_each_exchange_of_a_connection_has_a_deadline_of_its_own() -> None:
    """The timer of the one before is left running: it must neither end this one early nor leave it without an end."""
    asked_at: list[float] = []

    async def first_only(asked: Asked, writer: asyncio.StreamWriter) -> None:
        asked_at.append(asked.at)
        if len(asked_at) < 3:
            writer.write(response(b"x"))
            await writer.drain()
        else:
            await asyncio.sleep(30)

    with Loopback({"/": first_only}) as server:

        async def three(fetcher: Fetcher) -> list[Fetched]:
            answers = [await fetcher.fetch(request(server))]
            await asyncio.sleep(0.35)
            answers.append(await fetcher.fetch(request(server)))
            await asyncio.sleep(0.35)
            return [*answers, await fetcher.fetch(request(server))]

        *whole, late = run(configured(read_seconds=0.5), three)
        assert [fetched.reason for fetched in whole] == [Reason.OK] * 2
        assert server.connections == 1
        assert late.reason is Reason.TIMEOUT
        assert late.ended - late.started >= 0.5


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


def test_no_descriptor_left_is_nobodys_failure() -> None:
    """EMFILE ends the worker, which says so; it is not a failed connection of the host."""

    async def without(fetcher: Fetcher) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest = os.dup(0)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
        try:
            await fetcher.fetch(request(server))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    with Loopback({}) as server, pytest.raises(OSError, match="Too many open files"):
        run(configured(), without)
