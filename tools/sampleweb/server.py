"""A web server for tests and the demo: many host names on many loopback addresses, answers made by a function.

It keeps connections open, speaks TLS for the hosts that ask for it, and writes an access log of one JSON object per
exchange that tools.docsweb.audit reads. It is a server of our own because its misbehaviour must be exact: how late,
how long, how broken an answer is, is the function's to say.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import signal
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import IO

from tools.sampleweb.dns import NameServer

HEAD_BYTES_MAX = 64 << 10
PORT_TRIES = 50


@contextlib.contextmanager
def until_told() -> Iterator[Callable[[], object]]:
    """SIGINT and SIGTERM blocked, in threads that are started inside as well; what it gives waits for one of them."""
    told = {signal.SIGINT, signal.SIGTERM}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, told)
    try:
        yield lambda: signal.sigwait(told)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class ServerError(Exception):
    """The loopback web could not be brought up; the message says why."""


@dataclass(frozen=True)
class Ask:
    """A request: header names in lower case, `target` as on the request line."""

    scheme: str
    host: str
    method: str
    target: str
    headers: Mapping[str, str]

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


@dataclass
class Reply:
    """An answer. A body that is an iterator is sent chunked, piece by piece, as it comes."""

    status: int = 200
    body: bytes | AsyncIterator[bytes] = b""
    type: str = "text/html; charset=utf-8"
    headers: list[tuple[str, str]] = field(default_factory=list)


Handler = Callable[[Ask], Awaitable[Reply]]


@dataclass(frozen=True)
class Origin:
    """Where a host name is served. `tls` makes it an https host."""

    name: str
    address: str
    tls: ssl.SSLContext | None = None


class Server:
    """Serves `origins` by `handler`: http hosts on one port, https hosts on another, the same on every address."""

    def __init__(self, origins: list[Origin], handler: Handler, log: Path) -> None:
        self.origins: Mapping[str, Origin] = {o.name: o for o in origins}
        self.handler = handler
        self.log_path = log
        self._log: IO[str] | None = None
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()
        self.http_port, self._http = _bind({o.address for o in origins if o.tls is None})
        self.https_port, self._https = _bind({o.address for o in origins if o.tls is not None})

    def url(self, host: str, target: str = "/") -> str:
        """The URL of a page of one of the hosts."""
        if self.origins[host].tls is not None:
            return f"https://{host}:{self.https_port}{target}"
        return f"http://{host}:{self.http_port}{target}"

    async def start(self) -> None:
        self._log = self.log_path.open("a", buffering=1, encoding="utf-8")
        tls = {o.address: o.tls for o in self.origins.values()}
        for sock in self._http.values():
            self._servers.append(await asyncio.start_server(self._connected, sock=sock, limit=HEAD_BYTES_MAX))
        for address, sock in self._https.items():
            self._servers.append(
                await asyncio.start_server(self._connected, sock=sock, limit=HEAD_BYTES_MAX, ssl=tls[address])
            )

    async def stop(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        if self._log is not None:
            self._log.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ssl.SSLError):
            pass  # the client went away or sent nonsense: nobody is left to tell
        except asyncio.CancelledError:
            pass  # the server stops
        finally:
            self._connections.discard(task)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answers one request; whether the connection may carry another."""
        head = await reader.readuntil(b"\r\n\r\n")
        start = time.time()
        scheme = "https" if writer.get_extra_info("sslcontext") else "http"
        ask = _parse(head, scheme)
        address, port = writer.get_extra_info("sockname")[:2]
        origin = self.origins.get(ask.host)
        known = origin is not None and origin.address == address
        reply = await self.handler(ask) if known else Reply(421, b"no such host here\n", "text/plain")
        sent = Sent()
        try:
            await _send(writer, reply, ask.method == "HEAD", sent)
        finally:
            self._write_log(ask, reply.status, start, address, port, sent)
        return ask.headers.get("connection", "").lower() != "close"

    def _write_log(self, ask: Ask, status: int, start: float, address: str, port: int, sent: Sent) -> None:
        row = {
            "end": sent.last, "seconds": sent.last - start, "scheme": ask.scheme, "host": ask.host, "port": port,
            "address": address, "status": status, "method": ask.method, "uri": ask.target, "bytes": sent.size,
            "agent": ask.headers.get("user-agent", ""),
        }  # fmt: skip
        if self._log is not None:
            self._log.write(json.dumps(row) + "\n")


@dataclass
class Sent:
    """What went out of an answer. `last` is the moment before its last piece was written, not after: by the time the
    write returns, the client may long have had the piece and counted its gap from there."""

    size: int = 0
    last: float = field(default_factory=time.time)

    def piece(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        self.last = time.time()
        writer.write(data)
        self.size += len(data)


def _parse(head: bytes, scheme: str) -> Ask:
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = (first + "  ").split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    host = headers.get("host", "").rpartition(":")[0] or headers.get("host", "")
    return Ask(scheme, host.lower(), method, target, headers)


async def _send(writer: asyncio.StreamWriter, reply: Reply, head_only: bool, sent: Sent) -> None:
    phrase = HTTPStatus(reply.status).phrase if reply.status in HTTPStatus._value2member_map_ else "Unknown"
    headers = [("Content-Type", reply.type), ("Server", "sampleweb"), *reply.headers]
    body = reply.body
    if isinstance(body, bytes):
        headers.append(("Content-Length", str(len(body))))
    else:
        headers.append(("Transfer-Encoding", "chunked"))
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    head = f"HTTP/1.1 {reply.status} {phrase}\r\n{lines}\r\n".encode("latin-1")
    if head_only:
        sent.piece(writer, head)
    elif isinstance(body, bytes):
        sent.piece(writer, head + body)
    else:
        sent.piece(writer, head)
        async for piece in body:
            sent.piece(writer, b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
        sent.piece(writer, b"0\r\n\r\n")
    await writer.drain()


def _bind(addresses: set[str]) -> tuple[int, dict[str, socket.socket]]:
    """A port that is free on every address, and the sockets bound to it. Raises ServerError."""
    if not addresses:
        return 0, {}
    for _ in range(PORT_TRIES):
        with contextlib.ExitStack() as stack:
            sockets: dict[str, socket.socket] = {}
            port = 0
            try:
                for address in sorted(addresses):
                    sock = stack.enter_context(socket.socket())
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    sock.bind((address, port))
                    port = sock.getsockname()[1]
                    sockets[address] = sock
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    continue
                raise ServerError(f"cannot serve on {address}: {error.strerror}") from error
            stack.pop_all()
            return port, sockets
    raise ServerError("no port is free on all addresses")


@dataclass(frozen=True)
class RunningWeb:
    """A web that serves from a thread: `resolver` is what a crawl's network.resolvers names."""

    server: Server
    resolver: str
    log: Path

    def url(self, host: str, target: str = "/") -> str:
        return self.server.url(host, target)


@contextlib.contextmanager
def running(
    origins: list[Origin], handler: Handler, log: Path, names: Mapping[str, str] | None = None
) -> Iterator[RunningWeb]:
    """Serves from a thread of its own while the block runs. `names`: further names for the name server, with
    addresses."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="sampleweb", daemon=True)
    thread.start()
    try:
        server = Server(origins, handler, log)
        known = {o.name: o.address for o in origins} | dict(names or {})
        name_server = asyncio.run_coroutine_threadsafe(NameServer.start(known), loop).result()
        asyncio.run_coroutine_threadsafe(server.start(), loop).result()
        try:
            yield RunningWeb(server, name_server.resolver, log)
        finally:
            name_server.stop()
            asyncio.run_coroutine_threadsafe(server.stop(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
