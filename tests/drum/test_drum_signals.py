"""Ctrl-C wherever it comes, and no memory: what was added stays or is told to have failed, and the store is whole."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import drum.bucket
import drum.catalog
from drum import Batch, Drum, Files, Update
from drum.bucket import KeyBuffer, RecentKeys

import numpy as np
import pytest
from drum_support import nothing, spread

CHANGES = ("create", "append", "write", "fsync", "fsync_dir", "rename", "unlink", "truncate", "size", "listdir")


class Interrupting(Files):
    """Ctrl-C at the n-th change of the disk, before or after it is done."""

    def __init__(self, at: int, after: bool) -> None:
        self.left, self.after = at, after

    def __getattribute__(self, name: str) -> Any:
        method = super().__getattribute__(name)
        return self.interrupted(method) if name in CHANGES else method

    def fsync(self, handle: int) -> None:
        """Nothing: there are a thousand, and no power cut."""

    def interrupted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            self.left -= 1
            if self.left == 0 and not self.after:
                raise KeyboardInterrupt
            result = method(*args, **options)
            if self.left == 0:
                raise KeyboardInterrupt
            return result

        return call


def again(do: Callable[[], object]) -> None:
    """As someone at a prompt does it."""
    try:
        do()
    except KeyboardInterrupt:
        do()


@pytest.mark.parametrize("after", [False, True])
def test_an_interrupted_commit_left_a_log_that_could_not_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    """The next commit had the number of the one that was in the log already; sums were added twice."""
    monkeypatch.setattr(drum.catalog, "COMPACT_BYTES_MIN", 600)
    monkeypatch.setattr(drum.catalog, "COMPACT_FACTOR", 1)
    for at in range(1, 1000):
        path, files = tmp_path / str(at), Files()
        counts = Drum(path, kernel=Update(["n"], {"n": np.add}), values={"n": "i8"}, emit=nothing, files=files)
        interrupting = Interrupting(at, after)
        counts.files.__class__ = Interrupting  # after it was opened
        counts.files.__dict__.update(vars(interrupting))
        for call in range(4):
            counts.add(spread(np.arange(50)), n=np.full(50, call + 1))
            again(counts.merge if call % 2 else counts.spill)
        again(counts.close)
        over = vars(files)["left"] > 0
        files.__class__ = Files
        if counts._directory.open:
            counts.close()
        with Drum(path, kernel=Update(["n"], {"n": np.add}), values={"n": "i8"}, emit=nothing) as counts:
            counts.merge()
            assert counts.lookup(spread(np.arange(50)))[1]["n"].tolist() == [10] * 50, at
        if over:
            break
    assert at > 30


def test_keys_of_an_interrupted_sweep_were_taken_for_seen(tmp_path: Path) -> None:
    """The cache knew keys that had not gone on yet. Ctrl-C at every line of it."""
    keys = spread(np.random.default_rng(1).integers(0, 60, 300))
    lines, at = 0, 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        if frame.f_code.co_filename != drum.bucket.__file__:
            return None
        lines += event == "line"
        if event == "line" and lines == at:
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    while lines >= at:
        lines, at = 0, at + 1
        buffer, recent = KeyBuffer(8 * 256), RecentKeys(1 << 10)
        passed: set[int] = set()
        before = sys.gettrace()
        for part in np.split(keys, 10):
            buffer.add(part)
            sys.settrace(trace)
            try:
                buffer.sweep(recent)
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(before)
        buffer.sweep(recent)
        for run in buffer.runs:
            passed.update(run.tolist())
        assert passed == set(keys.tolist()), at
    assert at > 50


def test_rows_that_there_was_no_memory_for_were_taken_for_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new: list[int] = []

    def none(batch: Batch, index: object) -> Batch:
        raise MemoryError

    with Drum(tmp_path, emit=lambda batch: new.extend(batch["id"].tolist())) as seen:
        keys = spread([1, 2, 1])
        with monkeypatch.context() as patch, pytest.raises(MemoryError):
            patch.setattr(Batch, "take", none)
            seen.add(spread([5]), id=np.array([9]))
            seen.add(spread([5, 1, 2]), id=np.arange(3))
        assert seen.statistics.asked == 1
        seen.add(keys, id=np.arange(3))
    assert sorted(new) == [0, 1, 9]
