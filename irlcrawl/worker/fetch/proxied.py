"""A connection through a proxy: HTTP's CONNECT (RFC 9110, 9.3.6) and SOCKS5 (RFC 1928, login by RFC 1929).

What comes back is a socket on which the host itself answers; http through an HTTP proxy needs no tunnel, there the
request names the whole URL.
"""

from __future__ import annotations

import asyncio
import base64
import re
import socket
from ipaddress import ip_address

from irlcrawl.config.proxies import Proxy
from irlcrawl.worker.fetch.http import Request, authority

HEAD_BYTES_MAX = 16 << 10
_OK = re.compile(rb"HTTP/1\.[01] 2\d\d[ \r]")
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


async def connect(proxy: Proxy, login: str, request: Request) -> socket.socket:
    """A connected socket, for the request's host behind the proxy. OSError, ProxyError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(proxy.host, proxy.port, type=socket.SOCK_STREAM)
    family, kind, number, _, address = found[0]
    sock = socket.socket(family, kind, number)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await loop.sock_connect(sock, address)
        if proxy.kind != "http":
            await _socks5(sock, login, request.host.rstrip(".") if proxy.by_name else request.address, request.port)
        elif request.scheme == "https":
            await _tunnel(sock, login, request)
    except BaseException:
        sock.close()
        raise
    return sock


async def _tunnel(sock: socket.socket, login: str, request: Request) -> None:
    loop = asyncio.get_running_loop()
    target = authority(request, always_port=True)
    head = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n".encode()
    if login:
        head += b"Proxy-Authorization: " + basic(login) + b"\r\n"
    await loop.sock_sendall(sock, head + b"\r\n")
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):  # byte by byte at its end: what follows belongs to TLS
        if len(answer) > HEAD_BYTES_MAX:
            raise ProxyError("the proxy's answer does not end")
        piece = await loop.sock_recv(sock, 1)
        if not piece:
            raise ProxyError("the proxy left")
        answer += piece
    if not _OK.match(answer):
        raise ProxyError(f"the proxy said {answer.splitlines()[0][:60]!r}")


async def _socks5(sock: socket.socket, login: str, host: str, port: int) -> None:
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
    await loop.sock_sendall(sock, bytes((5, 1, 0)) + _address(host) + port.to_bytes(2, "big"))
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
