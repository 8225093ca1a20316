"""How a drum reads and writes what it holds on disk: past the page cache where that can be, and nothing in vain."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from drum import CheckUpdate, Drum, Files
from drum.files import OpenFile

import numpy as np
import pytest
from drum_support import CountingFiles, nothing, spread


class Passing(Files):
    """Which bytes were read past the page cache, and which were given back to it. refused: by the file system, when
    such a read is opened or when it is made."""

    def __init__(self, refused: str) -> None:
        self.refused = refused
        self.passed = self.forgotten = 0

    def direct(self, handle: int) -> int:
        if self.refused == "open":
            raise OSError(errno.EINVAL, "no direct reads here")
        return os.dup(handle)  # whatever the file system of the tests can do

    def pread_into(self, handle: int, buffer: memoryview, offset: int) -> int:
        assert offset % 4096 == len(buffer) % 4096 == 0
        if self.refused == "read":
            raise OSError(errno.EINVAL, "larger sectors")
        self.passed += 1
        return super().pread_into(handle, buffer, offset)

    def forget(self, handle: int, offset: int = 0, length: int = 0) -> None:
        assert offset % 4096 == 0
        self.forgotten += 1
        super().forget(handle, offset, length)


@pytest.mark.parametrize("refused", ["", "open", "read"])
def test_a_large_store_is_passed_without_filling_the_page_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    files = Passing(refused)
    new: list[int] = []
    drum = Drum(tmp_path, emit=lambda batch: new.extend(batch["key"].tolist()), files=files, kernel=CheckUpdate())
    drum.add(spread(np.arange(200_000)))
    drum.merge()
    drum.add(spread(np.arange(100_000, 300_000)))
    drum.merge()
    assert files.forgotten == files.passed == 0
    monkeypatch.setattr("drum.repository.ONCE_BYTES", 1 << 20)
    drum.add(spread(np.arange(200_000, 400_000)))
    drum.merge()
    assert files.forgotten + files.passed >= 3, "every slice that was read, and the file written"
    assert bool(files.passed) == (not refused)
    assert drum.rows == len(new) == len(set(new)) == 400_000
    drum.close()


def test_reads_past_the_page_cache_give_the_same_bytes(tmp_path: Path) -> None:
    """On whatever file system the tests run, at every kind of edge."""
    data = np.random.default_rng(3).bytes(300_001)
    (tmp_path / "file").write_bytes(data)
    files = Files()
    file = OpenFile(files, files.open(tmp_path / "file"))
    for start in (0, 1, 4095, 4096, 100_000, 299_999, 300_001, 400_000):
        for length in (1, 4096, 65_536, 70_001, 300_001):
            assert bytes(file.pread_once(length, start)) == data[start : start + length]


def test_a_bucket_that_has_to_be_split_was_read_in_vain(tmp_path: Path) -> None:
    """Most of what waited was read, found too much for the bucket, and read again for its halves."""
    files = CountingFiles()
    drum = Drum(tmp_path, emit=nothing, files=files, merge_rows=1 << 30)
    drum.add(spread(np.arange(600_000)))
    drum.spill()
    (waiting,) = drum._repository._pending
    packed = drum._directory.pool.section(waiting.file, waiting.section).nbytes
    before = files.bytes_read
    drum._repository.ram_bytes = 12 << 20
    assert drum.merge().splits >= 3
    assert drum.rows == 600_000
    assert packed <= files.bytes_read - before <= 1.4 * packed, "once, and the blocks at the edges of buckets twice"
    drum.close()


def test_keys_go_to_disk_without_repeats(tmp_path: Path) -> None:
    new: list[int] = []
    drum = Drum(tmp_path, emit=lambda batch: new.extend(batch["key"].tolist()), ram_bytes=1 << 20, merge_rows=1 << 30)
    drum.recent = None  # which knows most of them otherwise
    for _ in range(3):
        drum.add(spread(np.arange(30_000)))
    drum.spill()
    assert drum.waiting_rows == 30_000
    drum.merge()
    assert sorted(new) == sorted(spread(np.arange(30_000)).tolist())
    drum.close()
