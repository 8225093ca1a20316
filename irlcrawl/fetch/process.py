"""Starting a worker process. Imports nothing heavy: a crawl starts its first worker before it loads anything else, for
a worker takes as long to load as the frontier does."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import NamedTuple


class Started(NamedTuple):
    process: subprocess.Popen[bytes]
    sock: socket.socket
    """Our end of its pipe; the first thing to send is a hello (irlcrawl.wire)."""


def start_worker(job: str | os.PathLike[str], lock_fd: int) -> Started:
    """A worker of the crawl in `job`, which inherits its end of a pipe and JOB's lock, and nothing else. OSError."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "irlcrawl.fetch.worker", "--fd", str(theirs.fileno()), "--job", os.fspath(job)]
    command += ["--parent", str(os.getpid())]
    try:
        process = subprocess.Popen(command, pass_fds=(theirs.fileno(), lock_fd), stdin=subprocess.DEVNULL)
    finally:
        theirs.close()
    return Started(process, ours)
