"""The worker as a process: it does not outlive its parent, and a full disk has a number."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from drum import Files

import pytest

from irlcrawl.base.rows import Carried
from irlcrawl.config.toml import to_dict
from irlcrawl.worker.fetch import worker
from irlcrawl.worker.fetch.lease import urls_alike
from irlcrawl.worker.fetch.process import Forked
from irlcrawl.worker.fetch.service import serve
from irlcrawl.worker.fetch.wire import encode
from tests.worker.fetch.driver import ALLOW, SEED, crawl_config
from tests.worker.fetch.loopback import Loopback, response

PARENT = """
import socket, subprocess, sys, time
theirs = socket.socket(fileno=int(sys.argv[1]))
command = [sys.executable, "-m", "irlcrawl.worker.fetch.worker", "--fd", sys.argv[1], "--job", sys.argv[2]]
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
        urls = urls_alike(1, 0, [0, 1, 2], [f"http://a.test:{server.port}/"] * 3, Carried())
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
    ("error", "code", "said"),
    [
        (OSError(errno.ENOSPC, "full"), 3, ""), (OSError(errno.EDQUOT, "quota"), 3, ""), (None, 0, ""),
        (OSError(errno.EIO, "bad"), 1, "cannot go on: [Errno 5] bad"), (ValueError("bug"), 1, "Traceback"),
        (MemoryError(), 1, "cannot go on: out of memory"),
        (OSError(errno.ENOMEM, ""), 1, "cannot go on: out of memory"),
        # of the thread that ends a loop's others: it was a traceback
        (RuntimeError("can't start new thread"), 1, "cannot go on: out of memory"),
    ],
)  # fmt: skip
def test_exit_codes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception | None, code: int, said: str
) -> None:
    class Service:
        @staticmethod
        def run(sock: socket.socket, job: Path) -> None:
            sock.close()
            if error is not None:
                raise error

    ours, theirs = socket.socketpair()
    monkeypatch.setattr(worker, "_import_service", lambda: Service)
    monkeypatch.setattr(worker, "_prepare_process", lambda: None)
    assert worker.main(["--fd", str(theirs.detach()), "--job", "x"]) == code
    assert said in caplog.text if said else not caplog.text
    ours.close()


FORKING = """
import json, os, sys
from irlcrawl.worker.fetch.process import fork_workers
lock = os.open(sys.argv[1] + "/LOCK", os.O_CREAT | os.O_RDWR)
secret = os.open(sys.argv[1] + "/SECRET", os.O_CREAT | os.O_RDWR)
told, tell = os.pipe()
workers = fork_workers(sys.argv[1], (lock,), 3, lambda: os.write(tell, b"."))
forgot = b""
while len(forgot) < 3:
    forgot += os.read(told, 3)
os.close(told), os.close(tell)
pids = [worker.process.pid for worker in workers]
workers[0].sock.sendall(sys.stdin.buffer.read())
assert workers[0].sock.recv(1 << 16)
open_files = [sorted(os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")) for pid in pids]
names = [open(f"/proc/{pid}/comm").read().strip() for pid in pids]
workers[1].process.kill()
workers[0].sock.close()
workers[2].sock.close()
print(json.dumps([open_files, names, [worker.process.wait(20) for worker in workers]]))
"""


def test_forked_workers_hold_nothing_but_their_pipe_and_the_lock(tmp_path: Path) -> None:
    """One is at work, one is killed while it waits to be wanted, one never was: its pipe closes, and it ends."""
    for name in ("state", "warcs"):
        (tmp_path / name).mkdir()
    done = subprocess.run(
        [sys.executable, "-c", FORKING, str(tmp_path)], input=encode(hello()), stdout=subprocess.PIPE, timeout=60,
        check=True,
    )  # fmt: skip
    open_files, names, statuses = json.loads(done.stdout)
    assert names == ["irlcrawl-worker"] * 3
    assert statuses == [0, -9, 0]
    for files in open_files:
        assert str(tmp_path / "LOCK") in files
        assert str(tmp_path / "SECRET") not in files
        assert os.devnull in files
    assert [sum(file.startswith("socket:") for file in files) for files in open_files[1:]] == [1, 1]


def test_a_forked_process_is_waited_for_no_longer_than_asked(tmp_path: Path) -> None:
    pid = os.fork()
    if not pid:
        signal.pause()
        os._exit(0)
    child = Forked(pid)
    assert child.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.01)
    child.kill()
    assert child.wait() == -signal.SIGKILL
    assert child.poll() == -signal.SIGKILL
    child.kill()  # nothing is left to end


def test_a_crawl_starts_with_its_standard_streams_closed(tmp_path: Path) -> None:
    """Then the pipe or the lock may have their numbers, which a forked worker must not take for them."""
    job = tmp_path / "job"
    with Loopback({"/": response(b"x")}) as server:
        words = f"crawl {job} http://127.0.0.1:{server.port}/ --quiet -s crawl.workers=2 --network-allow 127.0.0.0/8"
        done = subprocess.run(
            ["sh", "-c", f'exec "{sys.executable}" -m irlcrawl {words} -s "crawl.user_agent=t/1 (+https://t.test/)" '
             "<&- >&- 2>&-"],
            timeout=60,
        )  # fmt: skip
    assert done.returncode == 0
    log = (job / "logs" / "crawl.log").read_text()
    assert log.count("outcome=fetched") == 1
