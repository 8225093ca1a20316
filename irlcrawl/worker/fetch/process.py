"""Starting worker processes: forked off a process that has loaded what frontier and workers share, or afresh.

That loading takes a fifth of a CPU-second, which a small crawl would pay once more for each worker. A fork is safe only
while there is one thread and no event loop, so the first workers of a crawl are forked before the frontier is loaded. A
worker that takes a dead one's place starts afresh.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Sequence, Set
from pathlib import Path
from typing import NamedTuple, NoReturn, Protocol


class Process(Protocol):
    """A worker as its parent handles it, in the shape of subprocess.Popen."""

    pid: int

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def kill(self) -> None: ...


class Started(NamedTuple):
    process: Process
    sock: socket.socket
    """Our end of its pipe; the first thing to send is a hello (irlcrawl.worker.fetch.wire)."""


def start_worker(job: str | os.PathLike[str], lock_fds: Sequence[int]) -> Started:
    """A worker of the crawl in `job`, which inherits its end of a pipe and JOB's lock, and nothing else. OSError."""
    ours, theirs = socket.socketpair()
    command = [
        sys.executable,
        "-m",
        "irlcrawl.worker.fetch.worker",
        "--fd",
        str(theirs.fileno()),
        "--job",
        os.fspath(job),
    ]
    command += ["--parent", str(os.getpid())]
    try:
        process = subprocess.Popen(command, pass_fds=(theirs.fileno(), *lock_fds), stdin=subprocess.DEVNULL)
    finally:
        theirs.close()
    return Started(process, ours)


def fork_workers(
    job: str | os.PathLike[str], lock_fds: Sequence[int], count: int, forget: Callable[[], None] = lambda: None
) -> list[Started]:
    """`count` workers, each as start_worker makes it, forked off this process, which has one thread and no event loop.
    Only the first loads the rest at once; the others sleep until they are wanted, or their pipe closes. `forget` is
    called in each worker, and drops objects that only this process needs. OSError."""
    assert threading.active_count() == 1, "a fork takes along one thread, and the locks of all"
    started: list[Started] = []
    for number in range(count):
        ours, theirs = socket.socketpair()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            for other in (ours, *(earlier.sock for earlier in started)):
                other.close()
            _be_worker(theirs, Path(job), lock_fds, parent, forget, eager=number == 0)
        theirs.close()
        started.append(Started(Forked(pid), ours))
    return started


def _be_worker(
    sock: socket.socket, job: Path, lock_fds: Sequence[int], parent: int, forget: Callable[[], None], *, eager: bool
) -> NoReturn:
    """The rest of a forked process's life. It neither uses nor finishes anything of its parent's."""
    from irlcrawl.worker.fetch import worker

    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for handler in list(logging.root.handlers):
            logging.root.removeHandler(handler)
            handler.close()
        forget()
        _keep_open({sock.fileno(), *lock_fds})
        status = worker.work(sock, job, parent, eager=eager)
    except BaseException:  # whatever it is must not unwind into what the parent was doing
        traceback.print_exc()
    finally:
        os._exit(status)  # what its parent has not flushed is its parent's


def _keep_open(wanted: Set[int]) -> None:
    """Close all descriptors but these and standard output and error; read nothing from standard input."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in wanted | {1, 2}:
            with contextlib.suppress(OSError):  # the listing's own
                os.close(int(name))
    if not wanted & {0}:  # a crawl started with its input closed may have the pipe or the lock there
        nothing = os.open(os.devnull, os.O_RDONLY)
        if nothing:
            os.dup2(nothing, 0)
            os.close(nothing)


class Forked:
    """A forked process. Any thread may use it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._ends = os.pidfd_open(pid)
        self._reaping = threading.Lock()
        self._status: int | None = None

    def __del__(self) -> None:
        os.close(self._ends)

    def poll(self) -> int | None:
        """Its exit status (of a signal: negative); None while it lives."""
        with self._reaping:
            if self._status is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self._status = os.waitstatus_to_exitcode(status)
            return self._status

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, once it has ended. subprocess.TimeoutExpired after `timeout` seconds."""
        status = self.poll()
        if status is None:
            end = select.poll()
            end.register(self._ends, select.POLLIN)
            if not end.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired(f"worker {self.pid}", timeout or 0.0)
            status = self.poll()
            assert status is not None, "its end was seen"
        return status

    def kill(self) -> None:
        with self._reaping:
            if self._status is None:
                os.kill(self.pid, signal.SIGKILL)
