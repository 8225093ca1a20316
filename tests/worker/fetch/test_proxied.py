"""Requests through proxies, against proxies on loopback: the host answers, the name goes where it should, and logins go
nowhere else."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme

from irlcrawl.base.clock import SystemClock
from irlcrawl.base.keys import is_stand_in, stand_in
from irlcrawl.base.reasons import Reason
from irlcrawl.config import proxies
from irlcrawl.config.checks import check_start
from irlcrawl.config.keys import Config, ConfigError, Network, Site
from irlcrawl.config.proxies import Proxies, read_logins
from irlcrawl.config.toml import load
from irlcrawl.frontier.dispatch.dns import Resolved, Resolver
from irlcrawl.worker.archive.record import digest, request_and_response
from irlcrawl.worker.fetch.clients import open_fetcher
from irlcrawl.worker.fetch.http import Fetched, Request
from irlcrawl.worker.fetch.proxied import _OK
from irlcrawl.worker.fetch.terms import TermsOf
from tests.worker.archive.support import unit_of
from tests.worker.fetch.both_clients import configured, request
from tests.worker.fetch.loopback import Loopback, response
from tests.worker.fetch.test_tls import server_context

LOGIN = "me:hush"


class ProxyServer:
    """An HTTP proxy and a SOCKS5 proxy on one port. Whatever it is asked for, it connects to `port` on loopback; `seen`
    has what it was asked, `answer` (HTTP) is said in the place of connecting."""

    def __init__(self, port: int, wants_login: bool = False, answer: bytes = b"", crlf: bytes = b"\r\n") -> None:
        self.port, self.wants_login, self.answer, self.crlf = port, wants_login, answer, crlf
        self.seen: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            first = await reader.readexactly(1)
            await (self.socks(reader, writer) if first == b"\x05" else self.http(first, reader, writer))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client went away, or the test is over
        finally:
            writer.close()

    async def http(self, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = first + await reader.readuntil(b"\r\n\r\n")
        self.seen.append(head)
        if self.answer or head.startswith(b"GET / "):  # as proxies say it that are asked for nothing
            writer.write(self.answer or b"HTTP/1.0 400 Bad Request\r\n\r\n")
            return
        there, back = await asyncio.open_connection("127.0.0.1", self.port)
        if head.startswith(b"CONNECT"):
            writer.write(b"HTTP/1.1 200 Connection established\nVia: x\n\n".replace(b"\n", self.crlf))
        else:
            lines = [line for line in head.split(b"\r\n") if not line.startswith(b"Proxy-")]
            method, url, version = lines[0].split(b" ")
            back.write(b"\r\n".join([b" ".join((method, b"/" + url.split(b"/", 3)[3], version)), *lines[1:]]))
        await self.pipe(reader, writer, there, back)

    async def socks(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        offered = await reader.readexactly((await reader.readexactly(1))[0])
        if self.wants_login and 2 not in offered:
            writer.write(b"\x05\xff")
            return
        writer.write(b"\x05\x02" if self.wants_login else b"\x05\x00")
        if self.wants_login:
            await reader.readexactly(1)
            name = await reader.readexactly((await reader.readexactly(1))[0])
            password = await reader.readexactly((await reader.readexactly(1))[0])
            self.seen.append(name + b":" + password)
            writer.write(b"\x01\x00")
        kind = (await reader.readexactly(4))[3]
        length = {1: 4, 4: 16}.get(kind) or (await reader.readexactly(1))[0]
        self.seen.append(await reader.readexactly(length))
        await reader.readexactly(2)
        there, back = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
        await self.pipe(reader, writer, there, back)

    async def pipe(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, there: asyncio.StreamReader,
        back: asyncio.StreamWriter,
    ) -> None:  # fmt: skip
        async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                sink.write(data)
            sink.close()

        await asyncio.gather(copy(reader, back), copy(there, writer))


def ask(
    kind: str, server: Loopback, proxy: ProxyServer, login: str = "", times: int = 1, scheme: str = "http"
) -> list[Fetched]:
    async def main() -> list[Fetched]:
        listening = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        config = configured(client="httptools")
        config.network.proxy = f"{kind}://127.0.0.1:{port}"
        terms = TermsOf(config, None, {f"127.0.0.1:{port}": login} if login else {}).of("a.test")
        asked = request(server, "/x?y", address=stand_in("a.test") if kind != "socks5" else "127.0.0.1")
        asked = replace(asked, fields=(("If-None-Match", '"1"'),))
        asked = replace(asked, terms=terms, scheme=scheme, url=asked.url.replace(b"http:", scheme.encode() + b":"))
        fetcher = open_fetcher(config, SystemClock())
        try:
            return [await fetcher.fetch(asked) for _ in range(times)]
        finally:
            await fetcher.close()
            listening.close()

    return asyncio.run(main())


@pytest.mark.parametrize("kind", ["http", "socks5", "socks5h"])
@pytest.mark.parametrize("login", ["", LOGIN])
def test_http_through_a_proxy(kind: str, login: str) -> None:
    with Loopback({"/x?y": response(b"hello")}) as server:
        proxy = ProxyServer(server.port, wants_login=bool(login))
        times = 1 if kind == "http" else 2  # that proxy of ours reads a single request
        results = ask(kind, server, proxy, login, times)
        assert [(got.reason, got.exchange and got.exchange.body) for got in results] == [(Reason.OK, b"hello")] * times
        assert [asked.target for asked in server.asked] == ["/x?y"] * times and server.connections == 1
        exchange = results[0].exchange
        assert exchange is not None and exchange.request == server.asked[0].head
        assert b'\r\nIf-None-Match: "1"\r\n' in exchange.request
    named = {"http": b"GET http://a.test:%d/x?y " % server.port, "socks5h": b"a.test", "socks5": b"\x7f\0\0\x01"}[kind]
    assert proxy.seen[-1].startswith(named)
    assert (b"Basic bWU6aHVzaA==" in proxy.seen[0] or LOGIN.encode() in proxy.seen[0]) == bool(login)
    stored = b"".join(request_and_response(unit_of(), exchange, "<x>", digest(exchange.body)))
    assert b"hush" not in stored and b"bWU6aHVzaA" not in stored and b"Proxy" not in stored
    assert (b"WARC-IP-Address" in stored) == (kind == "socks5")


@pytest.mark.parametrize("kind", ["http", "socks5h"])
def test_https_goes_through_a_tunnel(kind: str) -> None:
    with Loopback({"/x?y": response(b"secret")}, tls=server_context(trustme.CA(), "a.test")) as server:
        proxy = ProxyServer(server.port)
        (got,) = ask(kind, server, proxy, scheme="https")
    assert got.reason is Reason.OK and got.exchange is not None, got.detail
    assert got.exchange.body == b"secret"
    if kind == "http":
        assert proxy.seen == [b"CONNECT a.test:%d HTTP/1.1\r\nHost: a.test:%d\r\n\r\n" % (server.port, server.port)]


def test_a_proxys_answer_with_lines_that_end_in_lf_was_waited_for() -> None:
    with Loopback({"/x?y": response(b"secret")}, tls=server_context(trustme.CA(), "a.test")) as server:
        (got,) = ask("http", server, ProxyServer(server.port, crlf=b"\n"), scheme="https")
    assert got.reason is Reason.OK and got.exchange is not None and got.exchange.body == b"secret", got.detail


def ask_at(proxy: str, port: int, scheme: str = "http") -> Fetched:
    """Asks a host at `port` of loopback through a proxy that may not be there."""

    async def main() -> Fetched:
        config = configured(client="httptools")
        config.fetch.connect_seconds, config.fetch.read_seconds, config.network.proxy = 0.4, 0.4, proxy
        url = f"{scheme}://a.test:{port}/x".encode()
        asked = Request(url, scheme, "a.test", port, "/x", "127.0.0.1", 1000, TermsOf(config).of("a.test"))
        fetcher = open_fetcher(config, SystemClock())
        try:
            return await fetcher.fetch(asked)
        finally:
            await fetcher.close()

    return asyncio.run(main())


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("kind", ["http", "socks5", "socks5h"])
@pytest.mark.parametrize("listens", [False, True])
def test_a_dead_proxy_is_no_failure_of_the_host(kind: str, scheme: str, listens: bool) -> None:
    """It was charged to the host. Closed: nobody is there; listens: it takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        proxy = f"{kind}://127.0.0.1:{listening.getsockname()[1]}"
        if not listens:
            listening.close()
        got = ask_at(proxy, 80, scheme)
    assert got.proxy_down == proxy and got.exchange is None
    assert proxy in got.detail


@pytest.mark.parametrize(("kind", "scheme"), [("http", "http"), ("http", "https"), ("socks5", "http")])
def test_a_host_that_says_nothing_behind_a_proxy_that_is_well(kind: str, scheme: str) -> None:
    async def main() -> Fetched:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            proxy = ProxyServer(silent.getsockname()[1])
            listening = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
            try:
                port = listening.sockets[0].getsockname()[1]
                return await asyncio.to_thread(ask_at, f"{kind}://127.0.0.1:{port}", silent.getsockname()[1], scheme)
            finally:
                listening.close()

    got = asyncio.run(main())
    assert got.reason in (Reason.TIMEOUT, Reason.CONNECT) and got.exchange is None
    assert not got.proxy_down, got.detail


def test_a_proxy_that_takes_connections_and_leaves_was_charged_to_its_hosts() -> None:
    """Nobody is behind it, as behind a forwarded port whose far end is gone."""

    async def leaves(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def main() -> tuple[str, Fetched]:
        async with await asyncio.start_server(leaves, "127.0.0.1", 0) as listening:
            proxy = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
            return proxy, await asyncio.to_thread(ask_at, proxy, 80, "http")

    proxy, got = asyncio.run(main())
    assert got.proxy_down == proxy and got.exchange is None


@pytest.mark.parametrize("status_line", [b"HTTP/1.1 200", b"HTTP/1.1  200 OK", b"HTTP/1.2 200 OK", b"HTTP/1.1\t200 OK"])
def test_a_tunnel_that_is_opened_in_odd_words_was_refused(status_line: bytes) -> None:
    assert _OK.match(status_line + b"\n\n") and not _OK.match(b"HTTP/1.1 2000 OK\n\n")


def test_an_http_proxy_that_wants_a_login_is_not_the_page() -> None:
    """Its 407 was archived as what the host says."""
    answer = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
    with Loopback({}) as server:
        (got,) = ask("http", server, ProxyServer(server.port, answer=answer))
    assert got.proxy_down and got.exchange is None and "login" in got.detail


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_407_for_one_host_took_the_proxy_for_down(scheme: str) -> None:
    """Some proxies want a login for certain hosts alone, and any host may say 407 over http: a crawl never ended."""
    refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"

    async def main(server: Loopback) -> list[Fetched]:
        proxy = ProxyServer(server.port)
        listening = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
        config = configured(client="httptools")
        config.network.proxy = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        fetcher, found = open_fetcher(config, SystemClock()), []
        try:
            for host, said, how in (
                ("evil.test", refusal, scheme),
                ("a.test", b"", "http"),
                ("evil.test", refusal, scheme),
            ):
                proxy.answer = said
                url = f"{how}://{host}:{server.port}/x".encode()
                asked = Request(url, how, host, server.port, "/x", stand_in(host), 1000, TermsOf(config).of(host))
                found.append(await fetcher.fetch(asked))
        finally:
            await fetcher.close()
            listening.close()
        return found

    with Loopback({"/x": response(b"hello")}) as server:
        first, fine, last = asyncio.run(main(server))
    assert first.proxy_down and fine.reason is Reason.OK and not last.proxy_down
    assert (last.status, last.reason) == ((407, Reason.OK) if scheme == "http" else (0, Reason.CONNECT))


def test_a_proxy_with_two_addresses_listens_at_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one was not tried: `localhost` is ::1 first."""
    with Loopback({"/x?y": response(b"hello")}) as server:
        found = socket.getaddrinfo

        def both(host: str, port: int, *args: Any, **named: Any) -> Any:
            there = found(host, port, *args, **named)
            return [(*there[0][:4], ("127.0.0.1", 1)), *there]

        monkeypatch.setattr(socket, "getaddrinfo", both)
        (got,) = ask("socks5", server, ProxyServer(server.port))
    assert got.reason is Reason.OK, got.detail


@pytest.mark.parametrize(
    ("kind", "scheme", "answer", "told"),
    [
        ("http", "https", b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "407"),
        ("http", "https", b"nonsense", "left"),
        ("http", "https", b"x" * 20_000, "does not end"),
        ("socks5h", "http", b"", "wants a login"),
    ],
)
def test_a_proxy_that_refuses_is_no_connection(kind: str, scheme: str, answer: bytes, told: str) -> None:
    with Loopback({}) as server:
        (got,) = ask(kind, server, ProxyServer(server.port, True, answer), scheme=scheme)
    assert got.reason is Reason.CONNECT and got.exchange is None
    assert told in got.detail and "hush" not in got.detail


def test_names_that_a_proxy_resolves_are_asked_of_no_server_and_share_no_address() -> None:
    async def main() -> None:
        clock = SystemClock()
        config = Config()
        config.network.proxy = "socks5h://127.0.0.1:9"
        config.site["direct.test"] = Site(proxy="")
        resolver = Resolver(Network(resolvers=["127.0.0.1:9"]), clock, proxied=Proxies(config).resolves)
        found: list[Resolved] = [await resolver.resolve(name) for name in ("a.test", "b.test", "8.8.8.8")]
        assert len({each.address for each in found}) == 3 and all(is_stand_in(each.address) for each in found)
        for name in ("127.0.0.1", "localhost", "169.254.169.254"):
            with pytest.raises(Exception, match="not public"):
                await resolver.resolve(name)
        assert resolver.lookups == 0
        await resolver.close()

    asyncio.run(main())


@pytest.mark.parametrize("text", ["proxy:3128", "http://me:hush@proxy:1", "ftp://p:1", "http://p", "http://p:99999"])
def test_a_proxy_that_is_none_is_refused_and_not_told(text: str) -> None:
    for path in ("network.proxy", 'site."a.test".proxy'):
        with pytest.raises(ConfigError, match=r"proxy: takes http://HOST:PORT") as told:
            load(overrides=[f"{path}={text}"])
        assert "hush" not in str(told.value)


def test_logins(tmp_path: Path) -> None:
    file = tmp_path / "logins"
    file.write_text("# ours\nproxy.test:3128 me:pa:ss word\n")
    assert read_logins(str(file)) == {"proxy.test:3128": "me:pa:ss word"}
    file.write_text("http://Proxy.test:1/ a:b\n[::1]:2 c:d\nsocks5://[0:0::1]:3 e:f\nLOCALHOST:4 g:h\n")
    assert read_logins(str(file)) == {"proxy.test:1": "a:b", "[::1]:2": "c:d", "[::1]:3": "e:f", "localhost:4": "g:h"}
    assert str(proxies.parse("http://[0::1]:3", "")) == "http://[::1]:3"
    for line in ("hush:1x a:b", "ftp://p:1 a:b", "p a:b", "p:99999 a:b"):
        file.write_text(line)
        with pytest.raises(ConfigError, match="line 1: takes HOST:PORT NAME:PASSWORD"):
            read_logins(str(file))
    file.write_text("hush\n")
    config = load(overrides=["crawl.user_agent=T/1 (+http://a.example/)", f"network.proxy_logins_file={file}"])
    with pytest.raises(ConfigError, match="line 1: takes HOST:PORT NAME:PASSWORD") as told:
        check_start(config)
    assert "hush" not in str(told.value)


def test_another_client_is_refused_with_a_proxy() -> None:
    with pytest.raises(ConfigError, match=r"fetch.client = 'aiohttp': knows no proxies"):
        load(overrides=["network.proxy=http://p:1", "fetch.client=aiohttp"])
