"""The worker as a process: it does not outlive its parent, and a full disk has a number."""

from __future__ import annotations

import asyncio
import errno
import os
import select
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from drum import Files
from irlcrawl.config import to_dict
from irlcrawl.fetch import worker
from irlcrawl.fetch.service import serve
from irlcrawl.wire import encode
from tests.fetch.driver import ALLOW, SEED, crawl_config
from tests.fetch.loopback import Loopback, response

PARENT = """
import socket, subprocess, sys, time
theirs = socket.socket(fileno=int(sys.argv[1]))
command = [sys.executable, "-m", "irlcrawl.fetch.worker", "--fd", sys.argv[1], "--job", sys.argv[2]]
print(subprocess.Popen(command, pass_fds=(int(sys.argv[1]),)).pid, flush=True)
time.sleep(600)
"""


def hello() -> dict[str, Any]:
    return {
        "t": "hello", "config": to_dict(crawl_config()), "seed": SEED, "scope_version": 1, "scope_entries": ["any"],
        "stream": 0, "crawl": "test",
    }  # fmt: skip


def test_a_worker_dies_with_its_parent(tmp_path: Path) -> None:
    """The pipe stays open here, so it is not the pipe that ends it."""
    ours, theirs = socket.socketpair()
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(theirs.fileno()), str(tmp_path)],
        pass_fds=(theirs.fileno(),), stdout=subprocess.PIPE,
    )  # fmt: skip
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    for name in ("state", "warcs"):
        (tmp_path / name).mkdir()
    ours.sendall(encode(hello()))
    assert select.select([ours], [], [], 20)[0], "it is at work"
    watch = os.pidfd_open(pid)
    parent.kill()
    parent.wait()
    assert select.select([watch], [], [], 20)[0], "it is gone"
    for thing in (ours, theirs, parent.stdout):
        thing.close()
    os.close(watch)


class FullFiles(Files):
    """A disk without room for archives."""

    def write(self, handle: int, data: Any) -> None:
        if ".warc.gz" in os.readlink(f"/proc/self/fd/{handle}"):
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write(handle, data)


def test_a_full_disk_ends_the_worker_at_once(tmp_path: Path) -> None:
    for name in ("state", "warcs"):
        (tmp_path / name).mkdir()
    ours, theirs = socket.socketpair()
    with Loopback({"/": response(b"x")}) as server, ours:
        urls = {
            "segment": 1, "row": 0, "key": [0, 1, 2], "url": "\n".join([f"http://a.test:{server.port}/"] * 3),
            **{name: [0] * 3 for name in ("depth", "hop", "source", "priority", "attempt")},
        }  # fmt: skip
        visit = {
            "t": "visit", "visit": 1, "host": "a.test", "scheme": "http", "port": server.port, "address": "127.0.0.1",
            "host_key": 1, "gap": 0.0, "robots": ALLOW, "scope": 1, "urls": urls, "not_after": 9e9,
        }  # fmt: skip
        ours.sendall(encode(hello()) + encode(visit))
        with pytest.raises(OSError, match="No space left") as caught:
            asyncio.run(asyncio.wait_for(serve(theirs, tmp_path, FullFiles()), 20))
        assert caught.value.errno == errno.ENOSPC
        assert len(server.asked) == 1, "nothing more is asked for that could not be kept"


@pytest.mark.parametrize(
    ("error", "code"),
    [(OSError(errno.ENOSPC, "full"), 3), (OSError(errno.EDQUOT, "quota"), 3), (OSError(errno.EIO, "bad"), 1),
     (ValueError("bug"), 1), (None, 0)],
)  # fmt: skip
def test_exit_codes(monkeypatch: pytest.MonkeyPatch, error: Exception | None, code: int) -> None:
    class Service:
        @staticmethod
        def run(sock: socket.socket, job: Path) -> None:
            sock.close()
            if error is not None:
                raise error

    ours, theirs = socket.socketpair()
    monkeypatch.setattr(worker, "_import_service", lambda: Service)
    monkeypatch.setattr(worker, "_prepare_process", lambda parent: None)
    assert worker.main(["--fd", str(theirs.detach()), "--job", "x"]) == code
    ours.close()
