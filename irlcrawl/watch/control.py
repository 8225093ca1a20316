"""JOB/control.sock: how `status` and `stop` reach a crawl that runs.

A request is one line of JSON, `{"cmd": NAME, ...}`; the answer is one line, `{"ok": RESULT}` or `{"error": TEXT}`. A
connection may carry several. The socket belongs to the user who runs the crawl (mode 0600) and lives while it runs.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

Handler = Callable[[dict[str, Any]], Any | Awaitable[Any]]
"""Takes the request, returns what JSON can carry; may be a coroutine function."""

REQUEST_BYTES_MAX = 1 << 16
ANSWER_BYTES_MAX = 16 << 20
PATH_BYTES_MAX = 100
"""A socket's address holds 107 bytes on Linux; longer paths go through /proc/self/fd."""

log = logging.getLogger(__name__)


class ControlError(Exception):
    """The crawl answered with an error, or not in time; the message is for a person."""


@contextmanager
def _address(path: Path) -> Iterator[str]:
    """An address for `path` that is short enough, valid inside the block."""
    if len(os.fsencode(path)) <= PATH_BYTES_MAX:
        yield os.fspath(path)
        return
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


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
            with _address(self._path) as address:
                listener.bind(address)
            self._path.chmod(0o600)
            listener.setblocking(False)
            self._server = await asyncio.start_unix_server(self._talk, sock=listener, limit=REQUEST_BYTES_MAX)
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

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = asyncio.current_task()
        assert talk is not None
        self._talks.add(talk)
        try:
            while line := await reader.readline():
                writer.write(json.dumps(await self._answer(line)).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError):  # the asker went away, or sent a line over the bound: nobody to tell
            log.debug("control connection ended early", exc_info=True)
        finally:
            self._talks.discard(talk)
            writer.close()

    async def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line)
            handler = self._handlers[request["cmd"]]
        except (ValueError, KeyError, TypeError):
            return {"error": f"not a request; commands are {', '.join(sorted(self._handlers))}"}
        try:
            result = handler(request)
            return {"ok": await result if inspect.isawaitable(result) else result}
        except Exception as error:  # a question must not end the crawl: whoever asked is told, and the log
            log.exception("control command %s failed", request["cmd"])
            return {"error": f"{type(error).__name__}: {error}"}


async def serve(path: Path, handlers: Mapping[str, Handler]) -> ControlServer:
    """A started ControlServer at `path`."""
    server = ControlServer(path, handlers)
    await server.start()
    return server


def ask(path: Path, cmd: str, *, seconds: float = 5.0, **more: Any) -> Any | None:
    """The running crawl's answer to `cmd`; None when nobody listens at `path`. Blocks up to `seconds` per step.

    Raises ControlError when there is somebody who answers with an error, late or not at all.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(seconds)
        try:
            with _address(path) as address:
                connection.connect(address)
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            return None
        except OSError as error:
            raise ControlError(f"{path}: {error.strerror or error}") from error
        try:
            connection.sendall(json.dumps({"cmd": cmd, **more}).encode() + b"\n")
            with connection.makefile("rb") as stream:
                line = stream.readline(ANSWER_BYTES_MAX)
            if not line.endswith(b"\n"):
                raise ControlError(f"{path}: the crawl ended before it answered")
            answer = json.loads(line)
        except TimeoutError as error:
            raise ControlError(f"{path}: the crawl did not answer within {seconds:g} s") from error
        except (OSError, ValueError) as error:
            raise ControlError(f"{path}: {error}") from error
    if "error" in answer:
        raise ControlError(f"{path}: {answer['error']}")
    return answer["ok"]
