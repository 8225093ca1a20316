"""A connection through a proxy: HTTP's CONNECT (RFC 9110, 9.3.6) and SOCKS5 (RFC 1928, login by RFC 1929).

What comes back is a socket on which the host itself answers; http through an HTTP proxy needs no tunnel, there the
request names the whole URL.

Two kinds of failure are told apart. A proxy that cannot be reached, says nothing or refuses us is no host's fault
(ProxyDown). What a working proxy says of a host (it is not there, it does not answer) is that host's (ProxyError).
"""

from __future__ import annotations

import asyncio
import base64
import re
import socket
from ipaddress import ip_address

from irlcrawl.config.proxies import Proxy
from irlcrawl.worker.fetch.http import EXHAUSTED, Request, authority

HEAD_BYTES_MAX = 16 << 10
_OK = re.compile(rb"HTTP/\d(?:\.\d)?[ \t]+2\d\d(?!\d)")
_WANTS_LOGIN = re.compile(rb"HTTP/\d(?:\.\d)?[ \t]+407(?!\d)")
WANTS_LOGIN = 407
"""The one status that only a proxy gives: it refuses us, whatever the host would say."""
_NO_LOGIN, _LOGIN, _NONE = 0, 2, 255
_ANSWERS = {
    1: "failed", 2: "not allowed", 3: "network unreachable", 4: "host unreachable", 5: "connection refused",
    6: "time is up", 7: "knows no CONNECT", 8: "knows no such addresses",
}  # fmt: skip


class ProxyError(ConnectionError):
    """The proxy did not open a connection to the host. Tells no login."""


def basic(login: str) -> bytes:
    """A login as Proxy-Authorization has it."""
    return b"Basic " + base64.b64encode(login.encode())


class ProxyDown(ConnectionError):
    """The proxy does not answer, or refuses us. Tells no login."""


class LoginWanted(ProxyDown):
    """By a 407, of which some proxies have one for certain hosts alone."""


async def connect(proxy: Proxy, login: str, request: Request, seconds: float) -> socket.socket:
    """A connected socket, for the request's host behind the proxy. The proxy itself has `seconds` to answer. ProxyDown,
    ProxyError, OSError."""
    sock = await _reach(proxy, login, seconds)
    try:
        if proxy.kind != "http":
            host = request.host.rstrip(".") if proxy.by_name else request.address
            await _socks5_connect(sock, host, request.port)
        elif request.scheme == "https":
            await _tunnel(sock, proxy, login, request)
    except BaseException:
        sock.close()
        raise
    return sock


async def answers(proxy: Proxy, login: str, seconds: float) -> bool:
    """Whether a proxy says anything to us, after one of its hosts said nothing."""
    try:
        sock = await _reach(proxy, login, seconds)
    except ProxyDown:
        return False
    loop = asyncio.get_running_loop()
    with sock:
        if proxy.kind != "http":
            return True  # it has greeted us
        try:
            async with asyncio.timeout(seconds):
                await loop.sock_sendall(sock, b"GET / HTTP/1.0\r\n\r\n")  # names no host: refused without asking one
                return bool(await loop.sock_recv(sock, 1))
        except OSError:  # a TimeoutError, too; one that leaves without a word has nobody behind it
            return False


async def _reach(proxy: Proxy, login: str, seconds: float) -> socket.socket:
    """A socket on which a proxy waits to be told a host. ProxyDown, OSError (http.EXHAUSTED)."""
    sock = None
    try:
        async with asyncio.timeout(seconds):
            sock = await _dial(proxy)
            if proxy.kind != "http":
                await _socks5_greet(sock, login)
            return sock
    except BaseException as error:
        if sock is not None:
            sock.close()
        if not isinstance(error, OSError) or error.errno in EXHAUSTED:
            raise
        text = str(error) or f"no answer in {seconds:g} s"
        raise ProxyDown(f"the proxy {proxy} does not answer, or refuses: {text}") from error


async def _dial(proxy: Proxy) -> socket.socket:
    """A connected socket, to the first address of the proxy that takes it."""
    loop = asyncio.get_running_loop()
    refused: OSError | None = None
    for family, kind, number, _, address in await loop.getaddrinfo(proxy.host, proxy.port, type=socket.SOCK_STREAM):
        sock = socket.socket(family, kind, number)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(sock, address)
            return sock
        except OSError as error:
            sock.close()
            refused = error
        except BaseException:
            sock.close()
            raise
    raise refused or OSError("it has no address")


async def _tunnel(sock: socket.socket, proxy: Proxy, login: str, request: Request) -> None:
    loop = asyncio.get_running_loop()
    target = authority(request, always_port=True)
    head = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n".encode()
    if login:
        head += b"Proxy-Authorization: " + basic(login) + b"\r\n"
    await loop.sock_sendall(sock, head + b"\r\n")
    answer = b""
    while not answer.endswith((b"\n\r\n", b"\n\n")):  # byte by byte: what follows belongs to TLS
        if len(answer) > HEAD_BYTES_MAX:
            raise ProxyError("the proxy's answer does not end")
        piece = await loop.sock_recv(sock, 1)
        if not piece:
            raise ProxyError("the proxy left")
        answer += piece
    if _WANTS_LOGIN.match(answer):
        raise LoginWanted(f"the proxy {proxy} wants a login: it said {answer.splitlines()[0][:60]!r}")
    if not _OK.match(answer):
        raise ProxyError(f"the proxy said {answer.splitlines()[0][:60]!r}")


async def _socks5_greet(sock: socket.socket, login: str) -> None:
    """Until the proxy knows who we are."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(sock, bytes((5, 2, _NO_LOGIN, _LOGIN)) if login else bytes((5, 1, _NO_LOGIN)))
    version, method = await _exactly(sock, 2)
    if version != 5 or method not in (_NO_LOGIN, _LOGIN) or (method == _LOGIN and not login):
        raise ProxyError("the proxy wants a login" if method in (_LOGIN, _NONE) else "the proxy speaks no SOCKS5")
    if method == _LOGIN:
        name, _, password = login.partition(":")
        await loop.sock_sendall(sock, b"\x01" + _counted(name.encode()) + _counted(password.encode()))
        if (await _exactly(sock, 2))[1] != 0:
            raise ProxyError("the proxy refused the login")


async def _socks5_connect(sock: socket.socket, host: str, port: int) -> None:
    await asyncio.get_running_loop().sock_sendall(sock, bytes((5, 1, 0)) + _address(host) + port.to_bytes(2, "big"))
    _, answer, _, kind = await _exactly(sock, 4)
    if answer != 0:
        raise ProxyError(f"the proxy said: {_ANSWERS.get(answer, answer)}")
    length = {1: 4, 4: 16}.get(kind) or (await _exactly(sock, 1))[0]
    await _exactly(sock, length + 2)


def _address(host: str) -> bytes:
    try:
        literal = ip_address(host)
    except ValueError:
        return b"\x03" + _counted(host.encode("ascii"))
    return (b"\x01" if literal.version == 4 else b"\x04") + literal.packed


def _counted(text: bytes) -> bytes:
    return bytes((len(text),)) + text


async def _exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = await asyncio.get_running_loop().sock_recv(sock, count - len(data))
        if not piece:
            raise ProxyError("the proxy left")
        data += piece
    return data
