"""The crawl log in parts: rolled at a size, compressed, read as one; whatever was committed is in it once, in order."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from drum import Damaged, Files

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.base.job import JobDir
from irlcrawl.frontier.state.sections import CrawlLog
from irlcrawl.worker.archive import log_parts
from tests.crawl.test_deaths import crawl_on, started

LINE = b"2026-01-02T03:04:05.678Z 200 1 http://a.test/%d - - - - - - - outcome=fetched,reason=ok"


def told(path: str) -> list[int]:
    return [int(entry.url.rsplit(b"/", 1)[1]) for entry in log_parts.read(Files(), path)]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 40), st.sampled_from(["commit", "commit", "kill"])), max_size=30))
def test_what_was_committed_is_told_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, turns: list[tuple[int, str]]
) -> None:
    """Killed between a turn and its commit, any turn may have rolled the log."""
    path = str(tmp_path_factory.mktemp("logs") / "crawl.log")
    log = CrawlLog(Files(), path, {}, 1000)
    committed, number, expected = log.entry(), 0, list[int]()
    for lines, end in turns:
        numbers = list(range(number, number + lines))
        log.append([LINE % n for n in numbers])
        if end == "commit":
            committed = log.entry()
            expected += numbers
        else:
            log.close()
            log = CrawlLog(Files(), path, committed, 1000)
        number += lines
        if end == "commit":
            assert told(path) == expected
    log.close()
    CrawlLog(Files(), path, committed, 1000).close()
    assert told(path) == expected
    assert log.part == 0 or Path(path + ".1").exists() or Path(path + ".1.gz").exists()


def test_a_compressed_part_that_was_changed_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "crawl.log"
    log = CrawlLog(Files(), str(path), {}, 1000)
    for n in range(60):
        log.append([LINE % n])
    log.close()
    part = tmp_path / "crawl.log.1.gz"
    data = part.read_bytes()
    for at in range(0, len(data), 7):
        part.write_bytes(data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :])
        try:
            found = told(str(path))
        except Damaged:
            continue
        assert found == list(range(60)), f"byte {at} made another log of it"
    part.write_bytes(data[:-9])
    with pytest.raises(Damaged, match="without its end"):
        told(str(path))
    part.write_bytes(data + b"x")
    with pytest.raises(Damaged, match="behind its end"):
        told(str(path))


@pytest.mark.parametrize("call", ["rename", "append", "fsync_dir"])
def test_a_roll_that_fails_says_why_when_the_log_is_closed(tmp_path: Path, call: str) -> None:
    """Its file had been closed before the rename: closing the state then said `Bad file descriptor` in the place of
    what had gone wrong, and a full disk ended a crawl with code 1."""
    path = str(tmp_path / "crawl.log")
    log = CrawlLog(Files(), path, {}, 1000)
    log.append([LINE % n for n in range(20)])
    committed = log.entry()

    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Files, call, full)
        with pytest.raises(OSError, match="No space left"):
            log.append([LINE % 20])
        log.close()
    CrawlLog(Files(), path, committed, 1000).close()
    assert told(path) == list(range(20))


def test_a_log_rolled_while_it_is_read_is_read_once(tmp_path: Path) -> None:
    path = str(tmp_path / "crawl.log")
    log = CrawlLog(Files(), path, {}, 1000)
    log.append([LINE % n for n in range(20)])
    reading = log_parts.read(Files(), path)
    found = [next(reading)]
    for n in range(20, 80):
        log.append([LINE % n])  # rolled, and compressed, several times
    found += reading
    assert [int(entry.url.rsplit(b"/", 1)[1]) for entry in found] == list(range(20))
    assert told(path) == list(range(80))


def test_a_killed_crawl_that_rolls_its_log_tells_every_outcome_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = started(tmp_path / "job", monkeypatch)
    crawl.config.archive.log_roll_bytes = 2000
    crawl_on(crawl, [20, 45], [])
    assert set(crawl.outcomes()) == set(crawl.web.answers)
    assert len(log_parts.log_files(Files(), str(JobDir(crawl.path).crawl_log))) > 3
