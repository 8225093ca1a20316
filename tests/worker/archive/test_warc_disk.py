"""What a full, slow or failing disk does to archives that are being written: whole units, and nothing forgotten."""

from __future__ import annotations

import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from drum.files import Data, Files, Handle

import pytest

from irlcrawl.worker.archive import redo
from irlcrawl.worker.archive.warc import Exchange, Unit
from tests.worker.archive.support import TEXT, Quick, check, exchange_of, failed_unit, paths_in, unit_of, writer_in


class FullDisk(Quick):
    """Takes `room` bytes more, then none."""

    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, handle: Handle, data: Data) -> None:
        taken, self.room = min(self.room, len(data)), max(0, self.room - len(data))
        super().write(handle, bytes(data)[:taken])
        if taken < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("room", [0, 1, 700, 1_500, 1_900, 2_600])
def test_a_full_disk_leaves_whole_units_and_the_writer_goes_on_when_there_is_room(tmp_path: Path, room: int) -> None:
    files = FullDisk(room)
    writer = writer_in(tmp_path, files=files)
    written: list[tuple[Unit, Exchange | None]] = []
    unit = unit_of()
    with pytest.raises(OSError, match="No space left"):
        for _ in range(10):
            writer.append(unit, exchange_of(unit, TEXT))
            written.append((unit, exchange_of(unit, TEXT)))
    position = writer.position
    files.room = 10**9
    writer.append(failed_unit(), None)
    writer.close()
    redo.recover(files, os.fspath(tmp_path), 1)
    assert [row[:2] for row in redo.units(files, os.fspath(tmp_path), 1)] == [*written, (failed_unit(), None)]
    assert [row[:2] for row in redo.units(files, os.fspath(tmp_path), 1, position)] == [(failed_unit(), None)]
    assert check(*paths_in(tmp_path)) == 0


class Counting(Files):
    def __init__(self) -> None:
        self.fsyncs = 0

    def fsync(self, handle: Handle) -> None:
        self.fsyncs += 1
        super().fsync(handle)


def test_sync_makes_durable_what_was_appended_and_costs_nothing_when_nothing_was(tmp_path: Path) -> None:
    files = Counting()
    writer = writer_in(tmp_path, files=files)
    writer.sync()
    assert files.fsyncs == 0
    writer.append(failed_unit(), None)
    writer.sync()
    writer.sync()
    assert files.fsyncs == 1
    writer.append(failed_unit(), None)
    writer.close()
    assert files.fsyncs == 2


class Slow(Counting):
    """A disk on which an fsync lasts until it is allowed to end."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.may_end = threading.Event(), threading.Event()

    def fsync(self, handle: Handle) -> None:
        self.began.set()
        assert self.may_end.wait(30)
        super().fsync(handle)


def test_units_are_appended_while_a_thread_syncs_and_are_synced_by_the_next(tmp_path: Path) -> None:
    files = Slow()
    writer = writer_in(tmp_path, files=files)
    writer.append(failed_unit(), None)
    with ThreadPoolExecutor(2) as threads:
        syncing = threads.submit(writer.sync)
        assert files.began.wait(30)
        before = writer.position
        writer.append(failed_unit(), None)
        assert writer.position > before
        closing = threads.submit(writer.close)
        assert not closing.done(), "the handle is in use"
        files.may_end.set()
        syncing.result(30)
        closing.result(30)
    assert files.fsyncs == 2
    (path,) = paths_in(tmp_path)
    assert check(path) == 0


class Failing(Counting):
    """A disk whose next fsync fails, and which says well of the one after, as Linux does."""

    def fsync(self, handle: Handle) -> None:
        super().fsync(handle)
        if self.fsyncs == 1:
            raise OSError(errno.EIO, "Input/output error")


def test_a_sync_that_failed_is_not_forgotten_by_the_next(tmp_path: Path) -> None:
    """A harvest that was waiting for the thread's sync was written when that one failed: it named an end of the archive
    that had not reached the disk."""
    writer = writer_in(tmp_path, files=Failing())
    writer.append(failed_unit(), None)
    for end in (writer.sync, writer.sync, writer.close):
        with pytest.raises(OSError, match="Input/output error"):
            end()
    assert [path.name.endswith(".open") for path in tmp_path.iterdir()] == [True], "left to recovery"
