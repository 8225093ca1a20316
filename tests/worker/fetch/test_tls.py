"""HTTPS: the name goes into SNI and Host, the address is where the connection goes, and trust is a setting."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trustme

from irlcrawl.base.reasons import Reason
from irlcrawl.config.keys import Config
from irlcrawl.worker.fetch.http import Fetched, Fetcher, Request, tls_context
from irlcrawl.worker.fetch.tls import TlsClient
from tests.worker.fetch.both_clients import client, configured, run
from tests.worker.fetch.loopback import Asked, Loopback, response

__all__ = ["client"]  # the fixture: both clients


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def server_context(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


def asked_of(server: Loopback, host: str = "a.test", bound: int = 1000) -> Request:
    return Request(f"https://{host}/".encode(), "https", host, server.port, "/", "127.0.0.1", bound)


def get(server: Loopback, config: Config, host: str = "a.test", times: int = 1, bound: int = 1000) -> list[Fetched]:
    async def use(fetcher: Fetcher) -> list[Fetched]:
        return [await fetcher.fetch(asked_of(server, host, bound)) for _ in range(times)]

    results: list[Fetched] = run(config, use)
    return results


def test_any_certificate_is_taken_by_default_and_the_connection_reused(authority: trustme.CA) -> None:
    with Loopback({"/": response(b"x")}, tls=server_context(authority, "wrong.test")) as server:
        results = get(server, configured(), times=2)
        assert [result.reason for result in results] == [Reason.OK] * 2
        assert server.connections == 1
        assert server.asked[0].host == f"a.test:{server.port}"


def test_with_verification_the_name_must_be_right_and_the_authority_known(
    authority: trustme.CA, tmp_path: Path
) -> None:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    knows = configured(tls_verify=True, tls_ca_file=str(tmp_path / "ca.pem"))
    with Loopback({"/": response(b"x")}, tls=server_context(authority, "a.test")) as server:
        assert get(server, knows)[0].reason is Reason.OK
        assert get(server, knows, host="b.test")[0].reason is Reason.TLS
        assert get(server, configured(tls_verify=True))[0].reason is Reason.TLS
        assert len(server.asked) == 1


@pytest.mark.parametrize("host", ["a.test", "a.test."])
def test_the_name_is_told_in_the_handshake(authority: trustme.CA, host: str) -> None:
    context = server_context(authority, "a.test")
    told: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: told.append(name)
    with Loopback({"/": response(b"x")}, tls=context) as server:
        assert get(server, configured(), host=host)[0].reason is Reason.OK
        assert told == ["a.test"]
        assert server.asked[0].host == f"{host}:{server.port}"


def test_old_protocols_are_spoken_when_nothing_is_verified(authority: trustme.CA) -> None:
    context = server_context(authority, "a.test")
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1
    with Loopback({"/": response(b"x")}, tls=context) as server:
        assert get(server, configured())[0].reason is Reason.OK


def test_a_session_with_large_certificates_is_not_kept(authority: trustme.CA) -> None:
    """Certificates of a thousand names took 340 KB for each session, of which 4,096 are kept."""
    resumed: list[bool] = []

    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        resumed.append(writer.get_extra_info("ssl_object").session_reused)
        writer.write(response(b"x", "Connection: close"))
        writer.close()

    async def use(fetcher: Fetcher) -> list[Fetched]:
        return [await fetcher.fetch(asked_of(server)) for _ in range(3)]

    context = server_context(authority, "a.test", *(f"host-{number}.a.test" for number in range(1000)))
    with Loopback({"/": answer}, tls=context) as server:
        assert {result.reason for result in run(configured(), use)} == {Reason.OK}
    assert resumed == [False] * 3


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_session_is_resumed_by_its_host_only(authority: trustme.CA, client: str, version: ssl.TLSVersion) -> None:
    """The handshake is most of what a page costs where every page needs a connection."""
    if client == "aiohttp":
        pytest.skip("aiohttp resumes no sessions")
    context = server_context(authority, "a.test", "b.test")
    context.minimum_version = context.maximum_version = version
    resumed: list[bool] = []

    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        resumed.append(writer.get_extra_info("ssl_object").session_reused)
        writer.write(response(b"x", "Connection: close"))
        writer.close()

    with Loopback({"/": answer}, tls=context) as server:

        async def use(fetcher: Fetcher) -> list[Fetched]:
            hosts = ["a.test", "a.test", "b.test", "a.test", "b.test"]
            return [await fetcher.fetch(asked_of(server, host)) for host in hosts]

        assert {result.reason for result in run(configured(), use)} == {Reason.OK}
        assert resumed == [False, True, False, True, True]


@pytest.mark.parametrize("junk", [b"\x15\x03\x03\x00\x02\x01\x00", b"HTTP/1.1 400 Bad\r\n\r\n"])
def test_what_came_before_an_error_of_tls_in_the_same_read_was_lost(authority: trustme.CA, junk: bytes) -> None:
    """A farewell in plain text behind a whole page, as some boxes send it."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context(authority, "a.test").wrap_bio(there, back, server_side=True)
    ours = TlsClient(tls_context(configured()), "a.test", None)
    for _ in range(3):
        there.write(ours.outgoing())
        with contextlib.suppress(ssl.SSLWantReadError):
            server.do_handshake()
        ours.received(back.read())
    assert ours.connected
    server.write(b"page")
    assert ours.received(back.read() + junk) == b"page" and ours.failure is not None


def test_a_session_that_a_server_cannot_take_up_again_was_kept(authority: trustme.CA, client: str) -> None:
    """It left, or said nothing, each time it was asked to: the host was asked no more."""
    if client == "aiohttp":
        pytest.skip("aiohttp resumes no sessions")
    context, asked = server_context(authority, "a.test"), 0
    context.maximum_version = ssl.TLSVersion.TLSv1_2

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        if asked != 2:
            await writer.start_tls(context)
            await reader.readuntil(b"\r\n\r\n")
            writer.write(response(b"x", "Connection: close"))
        writer.close()

    async def use(fetcher: Fetcher) -> list[tuple[Reason, int]]:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            ask = Request(b"https://a.test/", "https", "a.test", port, "/", "127.0.0.1", 1000)
            return [
                ((await fetcher.fetch(ask)).reason, sum(map(bool, fetcher._sessions.values())))  # type: ignore[attr-defined]
                for _ in range(3)
            ]

    found = run(configured(), use)
    assert found == [(Reason.OK, 1), (Reason.CONNECT, 0), (Reason.OK, 0)], "no other one is kept"


def test_large_bodies_arrive_whole_and_are_cut_at_their_bound(authority: trustme.CA) -> None:
    body = bytes(range(256)) * 12_000
    with Loopback({"/": response(body)}, tls=server_context(authority, "a.test")) as server:

        async def use(fetcher: Fetcher) -> list[Fetched]:
            return [await fetcher.fetch(asked_of(server, bound=bound)) for bound in (len(body), len(body) - 1)]

        whole, cut = run(configured(read_seconds=5.0), use)
        assert (whole.exchange.body, whole.exchange.truncated) == (body, None)
        assert (cut.exchange.body, cut.exchange.truncated) == (body[:-1], "length")


@pytest.mark.parametrize("abrupt", [False, True])
def test_a_body_until_close_ends_with_the_connection(authority: trustme.CA, client: str, abrupt: bool) -> None:
    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(100_000))
        await writer.drain()
        if abrupt:  # without TLS's own farewell, as many servers do
            writer.get_extra_info("socket").shutdown(socket.SHUT_WR)
        else:
            writer.close()

    with Loopback({"/": answer}, tls=server_context(authority, "a.test")) as server:
        (result,) = get(server, configured(read_seconds=5.0), bound=1 << 20)
        assert (result.reason, len(result.exchange.body), result.exchange.truncated) == (Reason.OK, 100_000, None)
        cut = abrupt and client == "httptools"  # on the way, perhaps; aiohttp does not say
        assert result.faults == ("tls-end" if cut else "")


def test_a_server_silent_in_the_handshake_is_a_connect_failure_within_the_deadline() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    got = hello_to(serve, connect_seconds=0.2)
    assert got.reason is Reason.CONNECT and got.detail.partition(": ")[2], "it did not say what it had waited for"


def test_a_server_that_leaves_in_the_handshake_is_a_connect_failure() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.close()

    assert hello_to(serve).reason is Reason.CONNECT


def hello_to(serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], **fetch: Any) -> Fetched:
    """What becomes of a GET over TLS from a server that speaks none."""

    async def use(fetcher: Fetcher) -> Fetched:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as listener:
            port = listener.sockets[0].getsockname()[1]
            return await fetcher.fetch(Request(b"https://a.test/", "https", "a.test", port, "/", "127.0.0.1", 1000))

    fetched: Fetched = run(configured(**fetch), use)
    return fetched
