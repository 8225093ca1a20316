"""Ways a server or the machine can fail, and what the HTTP seam calls each; every test is run through both clients."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket

import pytest

from irlcrawl.base.reasons import Reason
from irlcrawl.worker.fetch.http import Fetched, Fetcher, Request
from tests.worker.fetch.both_clients import client, configured, request, run
from tests.worker.fetch.loopback import Asked, Loopback, response

__all__ = ["client"]  # the fixture: both clients


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
