"""Whose a drum's directory is: one process's, one thread's at a time, and only files of its own are its own."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from drum import Batch, Busy, Catalog, Damaged, Drum, Edits, Files, Incompatible, Locked

import numpy as np
import pytest
from drum_support import nothing, spread


def test_a_drum_that_nobody_closed_kept_its_lock(tmp_path: Path) -> None:
    def forgotten() -> None:
        drum = Drum(tmp_path, emit=nothing)
        drum.add(spread([1]))
        drum.merge()

    forgotten()
    with Drum(tmp_path, emit=nothing) as drum:
        assert drum.rows == 1


def test_a_forked_process_wrote_into_the_log_of_its_parent(tmp_path: Path) -> None:
    drum = Drum(tmp_path, emit=nothing)
    drum.add(spread([1]))
    child = os.fork()
    if not child:
        refused = 0
        for use in (lambda: drum.add(spread([2])), drum.merge, drum.spill, drum.close, drum.__enter__):
            try:
                use()
            except Locked:
                refused += 1
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
    drum.add(spread([3]))
    drum.close()
    with Drum(tmp_path, emit=nothing) as drum:
        assert drum.waiting_rows == 2


def test_two_threads_at_once_lost_rows(tmp_path: Path) -> None:
    refused: list[str] = []

    def other() -> None:
        for use in (lambda: drum.add(spread([2])), drum.merge, drum.spill, drum.close):
            with pytest.raises(Busy) as caught:
                use()
            refused.append(str(caught.value))

    def emit(batch: Batch) -> None:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    drum = Drum(tmp_path, emit=emit)
    drum.add(spread([1]))
    drum.merge()
    assert len(refused) == 4
    assert all("another thread adds or merges" in words for words in refused)
    drum.emit = nothing
    drum.add(spread([2]))
    drum.close()


def test_opening_deleted_files_of_others_that_were_there(tmp_path: Path) -> None:
    theirs = ["thesis.tmp", "notes.txt", "00000009.seg.bak"]
    for name in theirs:
        (tmp_path / name).write_text("years of work")
    for number in range(3):
        with Drum(tmp_path, emit=nothing) as drum:
            drum.add(spread([number]))
        (tmp_path / "film.seg").touch()
    assert {*theirs, "film.seg"} <= {path.name for path in tmp_path.iterdir()}


def test_files_of_a_commit_that_did_not_come_about_are_gone_at_the_next_opening(tmp_path: Path) -> None:
    with Drum(tmp_path, emit=nothing) as drum:
        drum.add(spread([1]))
    for name in ("00000002.seg", "00000002.seg.tmp", "catalog-000001.log.tmp"):
        (tmp_path / name).write_text("torn")
    with Drum(tmp_path, emit=nothing) as drum:
        assert drum.rows == 1
        assert sorted(path.name for path in tmp_path.iterdir()) == ["00000001.seg", "LOCK", "catalog-000000.log"]


def test_the_state_of_another_program_was_taken_for_a_drum(tmp_path: Path) -> None:
    catalog, edits = Catalog.open(tmp_path), Edits()
    edits.set("crawl", {"turn": 7})
    catalog.commit(edits)
    catalog.close()
    with pytest.raises(Incompatible, match="are not a drum's"):
        Drum(tmp_path, emit=nothing)


def test_a_log_without_its_last_lines_was_an_older_drum_and_its_files_went(tmp_path: Path) -> None:
    for number in range(3):
        with Drum(tmp_path, emit=nothing) as drum:
            drum.add(spread([number]))
    (log,) = tmp_path.glob("catalog-*.log")
    whole, files = log.read_bytes(), sorted(tmp_path.iterdir())
    log.write_bytes(whole.splitlines(keepends=True)[0])
    for _ in range(2):
        with pytest.raises(Damaged, match=r"ends with commit 0, and 0000000\d.seg is of a later one"):
            Drum(tmp_path, emit=nothing)
    assert sorted(tmp_path.iterdir()) == files
    log.write_bytes(whole)
    with Drum(tmp_path, emit=nothing) as drum:
        assert drum.rows == 3


class Recording(Files):
    """The order of what makes a name durable, and of what takes one away."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def fsync(self, handle: int) -> None:
        self.calls.append("fsync")
        super().fsync(handle)

    def fsync_dir(self, path: str | os.PathLike[str]) -> None:
        self.calls.append("fsync directory")
        super().fsync_dir(path)

    def unlink(self, path: str | os.PathLike[str], missing_ok: bool = False) -> None:
        self.calls.append("unlink")
        super().unlink(path, missing_ok)


def test_a_file_went_by_a_line_that_a_killed_writer_had_not_synced(tmp_path: Path) -> None:
    """Killed between write and fsync, opened again, and then the power went: the log named what was deleted."""
    with Drum(tmp_path, emit=nothing) as drum:
        drum.add(spread([1]))
    (tmp_path / "00000002.seg").touch()  # what that line replaced
    files = Recording()
    Drum(tmp_path, emit=nothing, files=files).close()
    assert files.calls == ["fsync", "fsync directory", "unlink"]


def test_a_path_of_bytes_made_a_directory_and_failed(tmp_path: Path) -> None:
    with Drum(os.fsencode(tmp_path / "seen"), emit=nothing) as drum:  # type: ignore[arg-type]
        drum.add(spread(np.arange(3)))
    assert (tmp_path / "seen" / "00000001.seg").exists()


@pytest.mark.parametrize("name", ["00000002.seg", "00000002.seg.tmp"])
def test_a_directory_where_a_segment_is_to_be_written_was_an_error_without_a_fix(tmp_path: Path, name: str) -> None:
    with Drum(tmp_path, emit=nothing) as drum:
        drum.add(spread([1]))
        drum.merge()
        (tmp_path / name).mkdir()
        drum.add(spread([2]))
        with pytest.raises(IsADirectoryError, match=f"a file is to be written: move it away: '{tmp_path / name}'"):
            drum.merge()
        assert (drum.rows, drum.waiting_rows) == (1, 1)
        (tmp_path / name).rmdir()
        drum.merge()
        assert drum.rows == 2


def test_a_directory_in_a_segments_place_is_damage(tmp_path: Path) -> None:
    """It was `Is a directory`, of no name."""
    with Drum(tmp_path, emit=nothing) as drum:
        drum.add(spread([1]))
    place = tmp_path / "00000001.seg"
    away = place.rename(tmp_path / "away")
    place.mkdir()
    drum = Drum(tmp_path, emit=nothing)
    drum.add(spread([2]))
    with pytest.raises(Damaged, match=f"{place}: damaged at offset 0: a directory is in this file's place: move it"):
        drum.merge()
    place.rmdir()
    away.rename(place)
    drum.merge()
    assert drum.rows == 2
    drum.close()
