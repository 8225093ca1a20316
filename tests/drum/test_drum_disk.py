"""What a drum takes of the disk over a long run: 8 bytes a key between merges, at most 2.5 times that within one."""

from __future__ import annotations

import os
from pathlib import Path

from drum import Drum, Files

import numpy as np
import pytest


class Watched(Files):
    """Looks at the disk whenever a file is about to go: there is never more than then."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root, self.bytes_max = root, 0

    def look(self) -> int:
        taken = sum(file.stat().st_size for file in self.root.iterdir())
        self.bytes_max = max(self.bytes_max, taken)
        return taken

    def unlink(self, path: str | os.PathLike[str], missing_ok: bool = False) -> None:
        self.look()
        super().unlink(path, missing_ok)


@pytest.mark.parametrize(
    ("ram_bytes", "merge_rows"),
    [(1 << 20, 0), (1 << 20, 40_000), (8 << 20, 0), (1 << 20, 900_000)],
    ids=["little RAM", "many merges", "much RAM", "merges of spilled keys"],
)
def test_files_of_a_long_run_do_not_stay_mostly_dead(tmp_path: Path, ram_bytes: int, merge_rows: int) -> None:
    files = Watched(tmp_path)
    rng = np.random.default_rng(7)
    merges, steady, within = 0, [], []
    with Drum(tmp_path, emit=lambda batch: None, ram_bytes=ram_bytes, merge_rows=merge_rows, files=files) as drum:
        for _ in range(150):
            drum.add(rng.integers(0, 2**64, 20_000, dtype=np.uint64))
            if drum.merges > merges and drum.rows >= 100_000:
                waiting = 8 * drum.waiting_rows
                steady.append((files.look() - waiting) / drum.rows)
                within.append(files.bytes_max / drum.rows)
            if drum.merges > merges:
                merges, files.bytes_max = drum.merges, 0
    assert len(steady) >= 2
    assert max(steady) <= 8
    assert max(within) <= 2.5 * 8
    assert len(list(tmp_path.iterdir())) < 40
