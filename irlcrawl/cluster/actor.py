"""What Ray starts on each machine: a thin actor, which keeps `irlcrawl worker-node` running as a process of its own.

The actor is for life and death alone: pages, links and messages go between that process and the frontier, over TLS, and
Ray carries none of them. So the process has no thread of Ray's beside it, and its memory is not counted as the actor's.
It dies with the actor (PDEATHSIG), and so with the raylet; Ray starts the actor again on the same disk, and what was
not handed over is found there. It ends by itself when the crawl is over; then the actor ends, too.
"""

from __future__ import annotations

import collections
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

AGAIN_S = 5.0
"""After a node that ended for another reason than the crawl's end, before the next one."""
SAID_LINES = 5
END_S = 20.0
"""A node that is told to end may take so long, for what it owes."""


class Spec(NamedTuple):
    """All that a machine needs to know. The secret is one, so no part of this is shown anywhere."""

    name: str
    directory: str
    frontier: str
    secret: bytes
    cert: bytes
    workers: int

    def __repr__(self) -> str:
        return f"Spec({self.name!r})"


class Machine:
    """The actor. Ray calls `look` and `end`, each from a thread of its own; go_home ends the actor for good."""

    def __init__(self, spec: Spec, go_home: Callable[[], None] | None = None) -> None:
        self._spec, self._go_home = spec, go_home or _go_home
        self._directory = os.path.expanduser(spec.directory)
        self._said: collections.deque[str] = collections.deque(maxlen=SAID_LINES)
        self._process: subprocess.Popen[str] | None = None
        self._started = 0
        self._status: int | None = None
        self._ending = threading.Event()
        # The thread that starts the process must live as long as the actor: PDEATHSIG is sent when a thread ends.
        self._keeper = threading.Thread(target=self._keep, name="worker-node", daemon=True)
        self._keeper.start()

    def look(self) -> dict[str, Any]:
        """How it stands: pid (None: none runs), how often one was started, status of the last one, what it said."""
        process = self._process
        alive = process is not None and process.poll() is None
        return {
            "pid": process.pid if process is not None and alive else None, "started": self._started,
            "status": self._status, "said": list(self._said), "directory": self._directory,
        }  # fmt: skip

    def end(self) -> bool:
        """End the node: it hands over what it has, if the crawl hears it. Whether it did so in END_S."""
        self._ending.set()
        process = self._process
        if process is None or process.poll() is not None:
            return True
        process.terminate()
        try:
            return process.wait(END_S) == 0
        except subprocess.TimeoutExpired:
            process.kill()
            return False

    def _keep(self) -> None:
        while not self._ending.is_set():
            try:
                self._status = self._run()
            except OSError as error:  # a directory that cannot be made, a disk that is full
                self._status = 1
                self._said.append(str(error))
            if self._status == 0:
                break
            self._ending.wait(AGAIN_S)
        if not self._ending.is_set():
            self._go_home()

    def _run(self) -> int:
        """One life of the node; its exit status. OSError."""
        spec, directory = self._spec, Path(self._directory)
        directory.parent.mkdir(parents=True, exist_ok=True)
        self._process = subprocess.Popen(
            [
                sys.executable, "-m", "irlcrawl", "worker-node", self._directory, "--frontier", spec.frontier,
                "--token-file", _written(f"{directory}.secret", spec.secret), "--cert",
                _written(f"{directory}.cert.pem", spec.cert), "--name", spec.name, "--workers", str(spec.workers),
                "--parent", str(os.getpid()),
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
        self._started += 1
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.append(line.rstrip())
            print(line, end="", flush=True)  # into Ray's log of the actor
        return self._process.wait()


def _written(path: str, data: bytes) -> str:
    """A file of its owner alone. OSError."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.fchmod(handle, 0o600)
        os.write(handle, data)
    finally:
        os.close(handle)
    return path


def _go_home() -> None:
    """The crawl is over: this actor ends, and Ray starts it no more."""
    import ray

    ray.kill(ray.get_runtime_context().current_actor, no_restart=True)
