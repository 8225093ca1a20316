"""The control socket: answers at any length of path, and no question that ends the crawl."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.cli import main
from irlcrawl.config.toml import from_dict, to_toml
from irlcrawl.crawl.control import ControlError, ask
from irlcrawl.crawl.control_server import REQUEST_BYTES_MAX, serve

AGENT = "test/1.0 (+https://crawl.test/; me@crawl.test)"


@contextmanager
def serving(path: Path, handlers: Mapping[str, Any]) -> Iterator[None]:
    """A control server in an event loop on a thread of its own."""
    started = threading.Event()
    done: list[asyncio.Event] = []
    loops: list[asyncio.AbstractEventLoop] = []

    async def run() -> None:
        server = await serve(path, handlers)
        done.append(asyncio.Event())
        loops.append(asyncio.get_running_loop())
        started.set()
        await done[0].wait()
        await server.close()

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    assert started.wait(10)
    try:
        yield
    finally:
        loops[0].call_soon_threadsafe(done[0].set)
        thread.join(10)


def broken(request: dict[str, Any]) -> Any:
    raise RuntimeError("out of order")


HANDLERS = {
    "echo": lambda request: request["text"],
    "broken": broken,
    "big": lambda _: "x" * 3_000_000,
}


def raw(path: Path, data: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(str(path))
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


@pytest.mark.parametrize("length", [10, 99, 107, 108, 109, 200, 1000])
def test_answers_at_any_length_of_path(tmp_path: Path, length: int) -> None:
    directory = tmp_path
    while len(str(directory / "s")) < length:
        directory /= "d" * min(200, max(1, length - len(str(directory / "s")) - 1))
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "s"
    assert ask(path, "echo", text="ä") is None, "nobody there yet"
    with serving(path, HANDLERS):
        assert ask(path, "echo", text="ä") == "ä"
        assert ask(path, "echo", text=[1, None]) == [1, None]
        assert len(ask(path, "big") or "") == 3_000_000
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not path.exists()
    assert ask(path, "echo", text="ä") is None


def test_a_dead_crawls_socket_is_nobody_and_in_nobodys_way(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    assert path.exists() and ask(path, "echo") is None
    with serving(path, HANDLERS):
        assert ask(path, "echo", text=1) == 1


def test_errors_are_told_and_survived(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "s"
    with serving(path, HANDLERS):
        with pytest.raises(ControlError, match="RuntimeError: out of order"):
            ask(path, "broken")
        with pytest.raises(ControlError, match="commands are big, broken, echo"):
            ask(path, "reboot")
        assert raw(path, b"nonsense\n[]\n{}\n").count(b"not a request") == 3
        assert raw(path, b'{"cmd":"echo","text":1}\n{"cmd":"echo","text":2}\n') == b'{"ok": 1}\n{"ok": 2}\n'
        raw(path, b"")
        assert ask(path, "echo", text="still there") == "still there"
    assert "out of order" in caplog.text


def test_an_endless_request_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with serving(path, HANDLERS):
        with suppress(ConnectionError):  # closed on us while we are still sending: as good
            assert raw(path, b"x" * (REQUEST_BYTES_MAX * 4)) == b""
        assert ask(path, "echo", text=1) == 1


def test_a_crawl_that_does_not_answer(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen()
        with pytest.raises(ControlError, match=r"did not answer within 0\.05 s"):
            ask(path, "status", seconds=0.05)


def test_a_crawl_that_ends_before_it_answers(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def hang_up() -> None:
            connection, _ = listener.accept()
            connection.recv(1000)
            connection.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(ControlError, match="ended before it answered"):
            ask(path, "status")
        thread.join()


def test_closing_ends_open_connections(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """And prints nothing: the end of a crawl put a traceback of asyncio on the operator's terminal."""
    path = tmp_path / "s"
    with serving(path, HANDLERS):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(10)
        connection.connect(str(path))
        connection.sendall(b'{"cmd":"echo","text":1}\n')
        assert connection.recv(100) == b'{"ok": 1}\n'
    assert connection.recv(100) == b"" and not caplog.records
    connection.close()


@pytest.mark.parametrize("directories", [True, False])
def test_a_crawl_whose_lock_was_deleted_is_in_use_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, directories: bool
) -> None:
    """Taken for a stale lock and deleted: the next start crawled beside the first one, and both damaged the state."""
    job = JobDir(tmp_path / "job")
    monkeypatch.setattr("irlcrawl.base.job.LOCK_WAIT_SECONDS", 0.0)
    if not directories:  # a file system that locks none
        monkeypatch.setattr(JobDir, "_lock_archives", lambda _: ())
    with job:
        job.write_config(to_toml(from_dict({"crawl": {"user_agent": AGENT}})))
        job.lock_file.unlink()
        with serving(job.socket, {"status": lambda _: {"state": "running"}}):
            for verb in ("resume", "fsck"):
                assert main.main([verb, str(job.path)]) == ExitCode.LOCKED
                assert "still runs, though its LOCK was deleted" in capsys.readouterr().err
    assert not list(job.state.iterdir()) and not list(job.logs.iterdir())


def test_a_killed_crawl_of_another_user_is_not_said_to_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its socket, which only that user may connect to, was taken for a crawl whose LOCK was deleted; and its status
    was refused, though its files could be read."""
    job = JobDir(tmp_path / "job")

    def denied(self: socket.socket, address: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(socket.socket, "connect", denied)
    with job:
        job.write_config(to_toml(from_dict({"crawl": {"user_agent": AGENT}})))
        assert main.main(["status", str(job.path)]) == ExitCode.DONE
        assert "busy" in capsys.readouterr().out
    for verb in ("fsck", "status", "inspect"):
        assert main.main([verb, str(job.path)]) == ExitCode.DONE, capsys.readouterr().err
    assert main.main(["stop", str(job.path)]) == ExitCode.FAILED
    assert "control.sock: Permission denied" in capsys.readouterr().err
