"""The running crawl's side of JOB/control.sock (control.py has the protocol, and the asking side, which has no need of
asyncio: that is slow to load)."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from irlcrawl.crawl.control import Handler, short_address
from irlcrawl.crawl.journal import user_name

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
REQUEST_BYTES_MAX = 1 << 20

log = logging.getLogger(__name__)


async def serve(path: Path, handlers: Mapping[str, Handler]) -> ControlServer:
    """A started ControlServer at `path`. The caller holds JOB's lock. Raises OSError."""
    server = ControlServer(path, handlers)
    await server.start()
    return server


class ControlServer:
    """Answers requests inside the running event loop until `close`."""

    def __init__(self, path: Path, handlers: Mapping[str, Handler]) -> None:
        self._path = path
        self._handlers = dict(handlers)
        self._server: asyncio.Server | None = None
        self._talks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Bind and listen. The caller holds JOB's lock, so a socket found here is a dead crawl's. Raises OSError."""
        with suppress(FileNotFoundError):
            self._path.unlink()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with short_address(self._path) as address:
                listener.bind(address)
            self._path.chmod(0o600)
            listener.setblocking(False)
            self._server = await asyncio.start_unix_server(self._take, sock=listener, limit=REQUEST_BYTES_MAX)
        except BaseException:
            listener.close()
            raise

    async def close(self) -> None:
        """Stop listening, end open connections and remove the socket."""
        if self._server is not None:
            self._server.close()
            self._server = None
            with suppress(FileNotFoundError):
                self._path.unlink()
        talks = list(self._talks)
        for talk in talks:
            talk.cancel()
        await asyncio.gather(*talks, return_exceptions=True)

    def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A connection. Of a coroutine that is cancelled asyncio would print a traceback (Python before 3.12)."""
        talk = asyncio.get_running_loop().create_task(self._talk(reader, writer))
        self._talks.add(talk)
        talk.add_done_callback(self._talks.discard)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            by = _peer(writer)
            while line := await reader.readline():
                writer.write(json.dumps(self._answer(line, by)).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError):  # the asker went away, or sent a line over the bound: nobody to tell
            log.debug("control connection ended early", exc_info=True)
        finally:
            writer.close()

    def _answer(self, line: bytes, by: str) -> dict[str, Any]:
        try:
            request = {**json.loads(line), "by": by}
            handler = self._handlers[request["cmd"]]
        except (ValueError, KeyError, TypeError, RecursionError):
            return {"error": f"not a request; commands are {', '.join(sorted(self._handlers))}"}
        try:
            return {"ok": handler(request)}
        except Exception as error:  # a question must not end the crawl: whoever asked is told, and the log
            log.exception("control command %s failed", request["cmd"])
            return {"error": f"{type(error).__name__}: {error}"}


def _peer(writer: asyncio.StreamWriter) -> str:
    """The name of the user who asks, as the kernel knows it."""
    sock = writer.get_extra_info("socket")
    _, uid, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return user_name(uid)
