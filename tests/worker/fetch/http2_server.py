"""A server for tests that speaks HTTP/2 over TLS: h2's server side, and frames of any kind for those that misbehave."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import trustme

NO_APPLICATION_PROTOCOL = bytes((21, 3, 3, 0, 2, 2, 120))
"""The alert of RFC 7301 3.2, as a TLS record."""


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    """RFC 9113 4.1."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


@dataclass
class Talk:
    """A connection as a handler has it. `stream`: of the request; `fields`: of it."""

    h2: h2.connection.H2Connection
    writer: asyncio.StreamWriter
    stream: int = 0
    fields: dict[str, str] = field(default_factory=dict)

    async def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())
        await self.writer.drain()

    async def raw(self, data: bytes) -> None:
        """Bytes behind what h2 has to say."""
        await self.flush()
        self.writer.write(data)
        await self.writer.drain()
        await asyncio.sleep(0)
        if self.writer.transport.is_closing():
            raise ConnectionError("the client left")

    async def head(self, *more: tuple[str, str], status: str = "200", end: bool = False) -> None:
        self.h2.send_headers(self.stream, [(":status", status), *more], end_stream=end)
        await self.flush()

    async def body(self, data: bytes, end: bool = True) -> None:
        """As far as the client's window goes."""
        while data:
            window = min(self.h2.local_flow_control_window(self.stream), self.h2.max_outbound_frame_size)
            if window == 0:
                await asyncio.sleep(0)
                if not await self.listen():
                    return
                continue
            self.h2.send_data(self.stream, data[:window], end_stream=end and len(data) <= window)
            data = data[window:]
            await self.flush()

    listen: Callable[[], Awaitable[bool]] = None  # type: ignore[assignment]


Answer = Callable[[Talk], Awaitable[None]]


def page(body: bytes, *fields: tuple[str, str], status: str = "200") -> Answer:
    async def answer(talk: Talk) -> None:
        await talk.head(("content-type", "text/html"), *fields, status=status)
        await talk.body(body)

    return answer


class Http2Server:
    """`pages`: target -> Answer. Use as a context manager. `only`: what it speaks, by ALPN; who
    offers none of that is refused as RFC 7301 says, which Python's ssl does not do by itself."""

    def __init__(self, pages: dict[str, Answer], only: tuple[str, ...] = ("h2",)) -> None:
        self.pages = pages
        self.connections = 0
        self.asked: list[dict[str, str]] = []
        self.resets = 0
        self.port = 0
        self.only = only
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Http2Server:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _start(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trustme.CA().issue_cert("a.test").configure_cert(context)
        context.set_alpn_protocols(["h2", "http/1.1", "acme-tls/1"])
        listening = socket.create_server(("127.0.0.1", 0))
        self.port = listening.getsockname()[1]
        listening.setblocking(False)
        self._tasks.add(self._loop.create_task(self._accept(listening, context)))

    async def _accept(self, listening: socket.socket, context: ssl.SSLContext) -> None:
        with listening:
            while True:
                sock, _ = await self._loop.sock_accept(listening)
                sock.setblocking(True)
                hello = await self._loop.run_in_executor(None, sock.recv, 4096, socket.MSG_PEEK)
                if not any(bytes((len(name),)) + name.encode() in hello for name in self.only):
                    sock.sendall(NO_APPLICATION_PROTOCOL)
                    sock.close()
                    continue
                sock.setblocking(False)
                self._tasks.add(self._loop.create_task(self._welcome(sock, context)))

    async def _welcome(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            transport, _ = await self._loop.connect_accepted_socket(lambda: protocol, sock, ssl=context)
        except OSError:  # it is TLS that the client does not like
            return
        await self._serve(reader, asyncio.StreamWriter(transport, protocol, reader, self._loop))

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            if writer.get_extra_info("ssl_object").selected_alpn_protocol() != "h2":
                await reader.readuntil(b"\r\n\r\n")
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nin 1.1 .")
                await writer.drain()
                return
            await self._talk(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError, h2.exceptions.ProtocolError):
            pass  # the client went away, or a handler made h2 unhappy, as it meant to
        finally:
            writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = Talk(h2.connection.H2Connection(h2.config.H2Configuration(client_side=False)), writer)
        waiting: list[h2.events.RequestReceived] = []

        async def listen() -> bool:
            data = await reader.read(65_536)
            for event in talk.h2.receive_data(data) if data else []:
                if isinstance(event, h2.events.RequestReceived):
                    waiting.append(event)
                elif isinstance(event, h2.events.StreamReset):
                    self.resets += 1
            await talk.flush()
            return bool(data)

        talk.listen = listen
        talk.h2.initiate_connection()
        await talk.flush()
        while await listen():
            while waiting:
                event = waiting.pop(0)
                talk.stream = event.stream_id
                talk.fields = {name.decode(): value.decode() for name, value in event.headers}
                self.asked.append(talk.fields)
                await self.pages[talk.fields[":path"]](talk)
