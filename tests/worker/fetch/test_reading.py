"""The memory in which a worker notes what it reads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from irlcrawl.worker.fetch.reading import BYTES, Reading


def test_what_a_worker_read_when_it_died() -> None:
    """Of a process that is killed at once, after the frontier let go of the file."""
    ours = Reading.shared()
    pid = os.fork()
    if pid == 0:
        theirs = Reading.at(ours.path)
        theirs.begin(b"http://a.test/long")
        theirs.end()
        theirs.begin(b"http://a.test/")
        os._exit(1)
    os.waitpid(pid, 0)
    ours.close()
    assert ours.url == b"http://a.test/"


def test_between_two_pages_it_reads_nothing() -> None:
    reading = Reading()
    assert reading.url == b""
    reading.begin(b"http://a.test/")
    reading.end()
    assert reading.url == b""
    reading.begin(b"http://a.test/" + b"x" * BYTES)
    assert reading.url == b""


def test_a_page_that_broke_its_worker_stays_named_while_others_are_read() -> None:
    reading = Reading()
    reading.broke(b"http://a.test/")
    reading.begin(b"http://b.test/")
    reading.end()
    assert reading.url == b"http://a.test/"


@pytest.mark.parametrize("path", ["", "/nowhere/0", "text"])
def test_a_worker_without_such_memory_works(tmp_path: Path, path: str) -> None:
    (tmp_path / "text").write_bytes(b"short")
    reading = Reading.at(path and str(tmp_path / path))
    reading.begin(b"http://a.test/")
    assert reading.url == b"http://a.test/"
