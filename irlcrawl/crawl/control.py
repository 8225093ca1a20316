"""JOB/control.sock: how `status`, `stop` and `retry` reach a crawl that runs.

A request is one line of JSON, `{"cmd": NAME, ...}`; the answer is one line, `{"ok": RESULT}` or `{"error": TEXT}`. A
connection may carry several. The socket belongs to the user who runs the crawl (mode 0600) and lives while it runs.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Handler = Callable[[dict[str, Any]], Any]
"""Takes the request, returns what JSON can carry."""

ANSWER_BYTES_MAX = 16 << 20
PATH_BYTES_MAX = 100
"""A socket's address holds 107 bytes on Linux; longer paths go through /proc/self/fd."""


class ControlError(Exception):
    """The crawl answered with an error, or not in time; the message is for a person."""


class NotOurs(ControlError):
    """The socket is another user's, of a crawl that runs or of one that was killed: only JOB's lock tells."""


@contextmanager
def short_address(path: Path) -> Iterator[str]:
    """An address for `path` that is short enough, valid inside the block."""
    if len(os.fsencode(path)) <= PATH_BYTES_MAX:
        yield os.fspath(path)
        return
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def ask(path: Path, cmd: str, *, seconds: float = 5.0, **more: Any) -> Any | None:
    """The running crawl's answer to `cmd`; None when nobody listens at `path`. Blocks up to `seconds` per step.

    Raises ControlError when there is somebody who answers with an error, late or not at all.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(seconds)
        try:
            with short_address(path) as address:
                connection.connect(address)
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            return None
        except OSError as error:
            kind = NotOurs if isinstance(error, PermissionError) else ControlError
            raise kind(f"{path}: {error.strerror or error}") from error
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
