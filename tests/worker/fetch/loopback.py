"""A web server for tests that says byte for byte what it is told to, and remembers when and what it was asked.

It runs on a loop of its own in a thread, so that a client in the test's loop, or in another process, meets it as it
would meet any server. Handlers are given the request head and a writer and may misbehave as they like.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

Handler = Callable[["Asked", asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Asked:
    at: float  # monotonic seconds: the head was complete
    host: str
    target: str
    head: bytes
    connection: int
    address: str  # the server's address that was connected to
    answered: float = 0.0  # monotonic seconds: the answer began to leave, so the client cannot have had it before


async def say(asked: Asked, writer: asyncio.StreamWriter, data: bytes) -> None:
    """What a handler sends its answer with."""
    asked.answered = time.monotonic()
    writer.write(data)
    await writer.drain()


def response(body: bytes, *headers: str, status: str = "200 OK", kind: str = "text/html") -> bytes:
    head = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(head).encode("latin-1") + body


class Loopback:
    """`pages`: target -> bytes for the wire, or a Handler; a target not in it is 404. Use as a context manager."""

    def __init__(
        self, pages: dict[str, bytes | Handler], addresses: tuple[str, ...] = ("127.0.0.1",),
        tls: ssl.SSLContext | None = None,
    ) -> None:  # fmt: skip
        self.pages = pages
        self.asked: list[Asked] = []
        self.connections = 0
        self.open = 0
        self.port = 0
        self._addresses = addresses
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._servers: list[asyncio.Server] = []
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Loopback:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _start(self) -> None:
        for address in self._addresses:
            server = await asyncio.start_server(self._serve, address, self.port, ssl=self._tls)
            self.port = server.sockets[0].getsockname()[1]
            self._servers.append(server)

    async def _stop(self) -> None:
        for server in self._servers:
            server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        connection = self.connections
        address = writer.get_extra_info("sockname")[0]
        try:
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                await self._answer(head, connection, address, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client went away, as clients do, or the test is over
        finally:
            self.open -= 1
            writer.close()

    async def _answer(self, head: bytes, connection: int, address: str, writer: asyncio.StreamWriter) -> None:
        lines = head.decode("latin-1").split("\r\n")
        host = next((line[5:].strip() for line in lines if line.lower().startswith("host:")), "")
        asked = Asked(time.monotonic(), host, lines[0].split(" ")[1], head, connection, address)
        self.asked.append(asked)
        page = self.pages.get(asked.target, response(b"no such page", status="404 Not Found"))
        if isinstance(page, bytes):
            await say(asked, writer, page)
        else:
            await page(asked, writer)
