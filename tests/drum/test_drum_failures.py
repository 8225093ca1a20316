"""What a call, a commit or an opening that failed leaves behind: every row, no lock, no file, and damage by name."""

from __future__ import annotations

import errno
import gc
import os
from pathlib import Path
from typing import Any

from drum import Batch, Damaged, Drum, Files

import numpy as np
import pytest
from drum_support import nothing, spread


def test_the_rest_of_an_add_that_failed_was_taken_for_seen_and_lost(tmp_path: Path) -> None:
    """The cache knew all keys of the call, the buffer only those before the failure: adding them again lost them."""
    new: list[int] = []
    failing = [True]

    def emit(batch: Batch) -> None:
        if failing[0]:
            raise OSError("no room")
        new.extend(batch["key"].tolist())

    with Drum(tmp_path, emit=emit, ram_bytes=1 << 16, merge_rows=100) as drum:
        keys = spread(range(6000))  # more than its buffer holds
        with pytest.raises(OSError, match="no room"):
            drum.add(keys)
        assert drum.waiting_rows == 6000
        keys[:] = 0  # the caller's again
        failing[0] = False
        drum.add(spread(range(5000, 7000)))
    assert sorted(new) == sorted(spread(range(7000)).tolist())


def test_the_lock_outlived_a_with_whose_merge_failed(tmp_path: Path) -> None:
    def fail(batch: Batch) -> None:
        raise RuntimeError("consumer")

    with pytest.raises(RuntimeError, match="consumer"), Drum(tmp_path, emit=fail) as drum:
        drum.add(spread([1]))
    Drum(tmp_path, emit=nothing).close()


def test_the_lock_outlived_an_open_that_failed(tmp_path: Path) -> None:
    with Drum(tmp_path, emit=nothing) as drum:
        drum.add(spread([1]))
    (store,) = tmp_path.glob("*.seg")
    away = store.rename(tmp_path / "away")
    with pytest.raises(Damaged, match="seg"):
        Drum(tmp_path, emit=nothing)
    away.rename(store)
    Drum(tmp_path, emit=nothing).close()


class NoCommit(Files):
    """A disk with room for segments and none for the line that names them."""

    full = False

    def write(self, handle: int, data: Any) -> None:
        if self.full and b'"put"' in bytes(data):
            raise OSError(errno.ENOSPC, "No space")
        super().write(handle, data)


def test_a_segment_whose_commit_failed_kept_the_disk_full(tmp_path: Path) -> None:
    files = NoCommit()
    with Drum(tmp_path, emit=nothing, files=files) as drum:
        drum.add(spread([1]))
        files.full = True
        with pytest.raises(OSError, match="No space"):
            drum.merge()
        assert not list(tmp_path.glob("*.seg*"))
        files.full = False
        drum.merge()
        assert drum.rows == 1


def test_every_spill_kept_its_file_open(tmp_path: Path) -> None:
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    with Drum(tmp_path, emit=nothing, merge_rows=1000) as drum:
        for number in range(50):
            drum.add(spread([number]))
            drum.spill()
        gc.collect()  # a writer and its sections know each other
        assert len(os.listdir("/proc/self/fd")) < before + 10


def test_a_file_that_is_gone_is_damage_by_name(tmp_path: Path) -> None:
    with Drum(tmp_path, emit=nothing) as drum:
        drum.add(spread(np.arange(100)))
    (segment,) = tmp_path.glob("*.seg")
    segment.unlink()
    with pytest.raises(Damaged, match=f"{segment.name}: .* it is missing"):
        Drum(tmp_path, emit=nothing)


def test_a_lost_catalogue_deleted_every_segment_at_the_next_opening(tmp_path: Path) -> None:
    with Drum(tmp_path, emit=nothing) as drum:
        drum.add(spread(np.arange(100)))
    (segment,) = tmp_path.glob("*.seg")
    for log in tmp_path.glob("catalog-*.log"):
        log.unlink()
    for _ in range(2):
        with pytest.raises(Damaged, match=f"no catalogue, and 1 files of one .{segment.name}"):
            Drum(tmp_path, emit=nothing)
        assert segment.exists()


def test_a_write_that_failed_named_no_file() -> None:
    """Whoever has archives on a disk of their own could not tell which of the two was full, or read-only."""
    files = Files()
    handle = files.append("/dev/full")
    try:
        with pytest.raises(OSError, match="'/dev/full'") as told:
            files.write(handle, b"x")
    finally:
        files.close(handle)
    assert (told.value.errno, told.value.filename) == (errno.ENOSPC, "/dev/full")
