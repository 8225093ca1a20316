"""The disk is full, in whole crawls under virtual time: it stops with words, and goes on with the same command."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from drum import Catalog, Files

import pytest

from irlcrawl.base.exit_codes import ExitCode, is_disk_full
from irlcrawl.base.job import JobDir
from irlcrawl.crawl.disk_space import HYSTERESIS, DiskSpace
from tests.crawl.virtual_crawl import Crawl, Web, star

URLS = 2 * 9


class Disk:
    """Full from its `full_at`-th write on (to `full_to`), which leaves half of what was to be written; `free` bytes are
    told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.writes, self.full_at, self.full_to, self.free = 0, 1 << 60, 1 << 60, 1 << 40
        self.number = errno.ENOSPC
        disk, write = self, Files.write

        def half(files: Files, handle: int, data: bytes) -> None:
            disk.writes += 1
            if not disk.full_at <= disk.writes < disk.full_to:
                write(files, handle, data)
                return
            os.write(handle, bytes(data)[: len(data) // 2])
            raise OSError(disk.number, os.strerror(disk.number))

        monkeypatch.setattr(Files, "write", half)
        monkeypatch.setattr(Files, "free", lambda files, path: disk.free)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def crawl_of(path: Path, monkeypatch: pytest.MonkeyPatch) -> Crawl:
    hosts = ["a.test", "b.test"]
    web = Web({url: links for host in hosts for url, links in star(host, 8).items()})
    return Crawl(path, web, [f"http://{host}/" for host in hosts], monkeypatch, workers=2)


def writes_of_a_whole_crawl(path: Path) -> int:
    with pytest.MonkeyPatch.context() as monkeypatch:
        disk = Disk(monkeypatch)
        crawl = crawl_of(path, monkeypatch)
        assert crawl.run() == ExitCode.DONE and len(crawl.outcomes()) == URLS
        return disk.writes


def stopped_by_it(crawl: Crawl) -> None:
    """The crawl ends because there is no room, and says so where it can."""
    try:
        assert crawl.run() == ExitCode.DISK_FULL
    except OSError as error:
        assert is_disk_full(error)


@pytest.mark.parametrize("part", [*range(2), *(pytest.param(part, marks=pytest.mark.slow) for part in range(2, 6))])
def test_full_at_any_write(tmp_path: Path, part: int) -> None:
    """ENOSPC at a write and all after it: the crawl stops; with room again each URL is archived once. At each write by
    name, at one of three otherwise."""
    total = writes_of_a_whole_crawl(tmp_path / "whole")
    for at in range(1 + part, total + 1, 6):
        with pytest.MonkeyPatch.context() as monkeypatch:
            disk = Disk(monkeypatch)
            disk.full_at = at
            crawl = crawl_of(tmp_path / f"job{at}", monkeypatch)
            stopped_by_it(crawl)
            disk.full_at = 1 << 60
            assert crawl.run() == ExitCode.DONE
            outcomes = crawl.outcomes()
            assert len(outcomes) == URLS and set(outcomes.values()) == {("fetched", "ok")}
            assert crawl.loop is not None and crawl.loop.state.ledger.discovered == URLS


def test_too_little_room_stops_cleanly_before_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    """Exit 3, committed, with the room that is needed in the message; nothing is asked for again afterwards."""
    crawl = crawl_of(tmp_path / "job", monkeypatch)
    crawl.config.frontier.disk_reserve_bytes = 0
    roll = crawl.config.archive.roll_bytes = 50_000_000
    asked = []

    def on_request(url: str) -> None:
        asked.append(url)
        disk.free = roll - 1 if len(asked) > 9 else roll + 10_000_000

    crawl.on_request = on_request
    assert crawl.run() == ExitCode.DISK_FULL
    told = re.search(r"stopping: 49 MB are free on the disk of .*, the crawl needs (\d+) MB", caplog.text)
    assert told is not None
    catalog = Catalog.open(JobDir(crawl.path).state, readonly=True)
    assert catalog.get("status")["state"] == "disk full"
    disk.free = int(told[1]) * 1_000_000  # what a running crawl needed was told, and a start needs a tenth more
    crawl.on_request = lambda url: None
    assert crawl.run() == ExitCode.DONE
    assert len(crawl.outcomes()) == URLS and set(crawl.web.pages_asked.values()) == {1}


def test_archives_on_a_disk_of_their_own_that_is_full_are_seen_before_workers_die_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Only JOB's own disk was looked at: with JOB/warcs on another one, the crawl was begun each time, a worker found
    no room, and nobody said how much there was or had to be."""
    crawl = crawl_of(tmp_path / "job", monkeypatch)
    crawl.config.frontier.disk_reserve_bytes = 2_000_000
    free = {"job": 1 << 40, "warcs": 1_000_000}
    monkeypatch.setattr(Files, "free", lambda files, path: free[Path(path).name])
    assert crawl.run() == ExitCode.DISK_FULL
    assert f"1 MB are free on the disk of {crawl.path / 'warcs'}, the crawl needs 3 MB" in caplog.text
    assert not crawl.web.log
    free["warcs"] = 3_000_000
    assert crawl.run() == ExitCode.DONE


@pytest.mark.parametrize(("free", "told"), [(500_000, "the crawl needs"), (1 << 40, "no inodes (df -i), or a quota")])
def test_a_worker_that_found_no_room_has_it_said_how_much_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, free: int, told: str
) -> None:
    """`worker 1 found no room on the disk` was all that was said; without inodes then: `210 MB are free, the crawl
    needs 1 MB; with that much room the same command goes on`, and it did not."""
    crawl = crawl_of(tmp_path / "job", monkeypatch)
    crawl.config.frontier.disk_reserve_bytes = 1
    monkeypatch.setattr(Files, "free", lambda files, path: free)
    write = Files.write

    def full(files: Files, handle: int, data: bytes) -> None:
        if ".warc.gz" in os.readlink(f"/proc/self/fd/{handle}") and len(crawl.web.log) > 5:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(files, handle, data)

    monkeypatch.setattr(Files, "write", full)
    assert crawl.run() == ExitCode.DISK_FULL
    assert caplog.text.count("MB are free on the disk of") == 1 and told in caplog.text
    monkeypatch.setattr(Files, "write", write)
    assert crawl.run() == ExitCode.DONE and len(crawl.outcomes()) == URLS


def test_the_threshold_has_a_tenth_of_hysteresis_and_follows_what_is_pending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: Disk
) -> None:
    crawl = crawl_of(tmp_path / "job", monkeypatch)
    crawl.config.limits.pages = 5
    crawl.run()
    assert crawl.loop is not None
    room = crawl.loop.limits.disk_space
    assert room.needed == 1 << 20  # as the configuration says
    crawl.config.frontier.disk_reserve_bytes, crawl.config.archive.roll_bytes = 0, 10_000_000
    room = DiskSpace(crawl.loop.state)
    assert 10_000_000 < room.needed < 10_100_000  # there is something to merge
    disk.free = room.needed
    assert room.lacking() is None and room.lacking(starting=True)
    disk.free = int(room.needed * HYSTERESIS)
    assert room.lacking(starting=True) is None
    disk.free = room.needed - 1
    assert room.lacking()


@pytest.mark.parametrize("part", range(4))
def test_one_write_fails_with_an_error_of_the_disk(tmp_path: Path, part: int) -> None:
    """EIO, once: a worker is replaced and the crawl goes on, or it ends with the error; then all is archived once."""
    total = writes_of_a_whole_crawl(tmp_path / "whole")
    for at in range(3 + 8 * part, total + 1, 32):
        with pytest.MonkeyPatch.context() as monkeypatch:
            disk = Disk(monkeypatch)
            disk.full_at, disk.full_to, disk.number = at, at + 1, errno.EIO
            crawl = crawl_of(tmp_path / f"job{at}", monkeypatch)
            try:
                assert crawl.run() == ExitCode.DONE
            except OSError as error:
                assert error.errno == errno.EIO
                assert crawl.run() == ExitCode.DONE
            outcomes = crawl.outcomes()
            assert len(outcomes) == URLS and set(outcomes.values()) == {("fetched", "ok")}
