"""A fetch worker's process, started by the frontier (process.py): forked, or `python -m irlcrawl.worker.fetch.worker
--fd N --job PATH`.

It takes visits from its pipe (wire.py) and ends with it: after `bye`, when the frontier closes it, and by SIGKILL when
its parent dies. Exit codes (ExitCode): DONE when the pipe closed, DISK_FULL, DAMAGED when the crawl is damaged, FAILED
for anything else; stderr says why.

The process that starts it passes nothing but the worker's end of a socket pair (--fd) and the job's lock, which stays
held while this process lives.

What it imports is most of its start, and the start is most of what a crawl of one page waits for.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from irlcrawl.base.exit_codes import ExitCode, is_disk_full
from irlcrawl.base.memory import ran_out

NAME = b"irlcrawl-worker"
"""What `ps` and /proc/PID/comm call it, forked or not."""
GARBAGE_OBJECTS = 10_000
"""So many new objects bring a look for cycles among them; rows of a harvest, which are none, are new by hundreds."""
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15

_log = logging.getLogger("irlcrawl.worker")


def _import_service() -> ModuleType:
    """irlcrawl.worker.fetch.service, without looking for garbage meanwhile: there is none."""
    gc.disable()
    try:
        from irlcrawl.worker.fetch import service
    finally:
        gc.enable()
    return service


def _prepare_process() -> None:
    """Signals are the frontier's business (a terminal sends them to the whole group); its death is ours."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    libc.prctl(_PR_SET_NAME, NAME)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="irlcrawl.worker.fetch.worker", description="A fetch worker; irlcrawl starts it."
    )
    parser.add_argument("--fd", type=int, required=True, help="inherited end of a socket pair")
    parser.add_argument("--job", type=Path, required=True, help="directory of the crawl")
    parser.add_argument("--parent", type=int, help="pid of the frontier")
    arguments = parser.parse_args(argv)
    return work(socket.socket(fileno=arguments.fd), arguments.job, arguments.parent)


def work(sock: socket.socket, job: Path, parent: int | None, *, eager: bool = True) -> int:
    """The worker of `job` at the other end of whose pipe is the process `parent`; its exit code. Not `eager`: it loads
    when something is said to it."""
    _prepare_process()
    if parent is not None and os.getppid() != parent:
        return 0  # it died before its death was ours: who holds the lock keeps the next start from it
    logging.basicConfig(stream=sys.stderr, format=f"worker {os.getpid()}: %(message)s")
    if not eager and not sock.recv(1, socket.MSG_PEEK):
        return 0
    service = _import_service()
    gc.freeze()  # what was imported stays: no collection need look at it again
    gc.set_threshold(GARBAGE_OBJECTS)
    try:
        service.run(sock, job)
    except Exception as error:
        from drum import Damaged  # loaded by the service, if by anything

        if ran_out(error):
            _log.error("cannot go on: out of memory")
        elif isinstance(error, Damaged):
            _log.error("cannot go on: %s", error)
            return ExitCode.DAMAGED
        elif not isinstance(error, OSError):
            _log.exception("cannot go on")
        elif is_disk_full(error):  # nobody's fault: the frontier says it once for all workers
            return ExitCode.DISK_FULL
        else:
            _log.error("cannot go on: %s", error)
        return ExitCode.FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
