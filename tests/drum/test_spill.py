"""Rows on disk by key: each comes back once, in its part, in the order it came."""

from __future__ import annotations

import errno
from pathlib import Path

from drum import spill as module
from drum.spill import Spill

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

ROW = np.dtype([("key", "<u8"), ("value", "<i4")])
ROWS = st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(-9, 9)), max_size=40)


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), ROWS), max_size=5), st.integers(1, 8), st.integers(1, 9))
def test_every_row_comes_back_in_its_part(
    tmp_path_factory: pytest.TempPathFactory, adds: list[tuple[bool, list[tuple[int, int]]]], bits: int, batch: int
) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(module, "BATCH_ROWS", batch)
        path: Path = tmp_path_factory.mktemp("spill")
        spill = Spill(str(path), "x", ROW, bits)
        given_rows: list[tuple[int, int]] = []
        for many, rows in adds:
            if many:
                keys = np.array([key for key, _ in rows], np.uint64)
                spill.add_many(key=keys, value=np.array([value for _, value in rows], np.int32))
            else:
                for row in rows:
                    spill.add(row)
            given_rows += rows
        for number in range(1 << bits):
            expected = [row for row in given_rows if row[0] & (1 << bits) - 1 == number == spill.number_of(row[0])]
            assert sorted(spill.part(number).tolist()) == sorted(expected)
        assert sum(map(len, spill.parts())) == len(given_rows) == spill.rows


def test_a_full_disk_was_no_error_and_rows_were_gone(tmp_path: Path) -> None:
    """With TMPDIR nearly full fsck called a sound crawl damaged, `--repair` took it apart, and the audit of politeness
    saw no gaps: `tofile` does not tell that its last bytes found no room."""
    (tmp_path / "x-001").symlink_to("/dev/full")
    spill = Spill(str(tmp_path), "x", ROW, 1)
    spill.add_many(key=np.array([2], np.uint64), value=np.array([1], np.int32))
    with pytest.raises(OSError) as told:
        spill.add_many(key=np.array([1], np.uint64), value=np.array([2], np.int32))
    assert told.value.errno == errno.ENOSPC and told.value.filename == str(tmp_path / "x-001")
