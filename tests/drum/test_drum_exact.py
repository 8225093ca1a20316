"""Millions of rows with bytes beside them against brute force: what comes back is compared byte for byte."""

from __future__ import annotations

from pathlib import Path

from drum import Batch, Drum, Ragged

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.seen.stream import splitmix64

BATCH = 1 << 18
DIGITS = 16
LENGTH_MAX = 100
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_REST = np.frombuffer((b"/a/path/that/many/pages/share?" * 4)[: LENGTH_MAX - DIGITS], np.uint8)


def aux_of(rows: NDArray[np.int64]) -> Ragged:
    """Bytes that no two rows share: a hash of the row's number in hexadecimal, and 0 to 83 bytes more."""
    table = np.empty((len(rows), LENGTH_MAX), np.uint8)
    table[:, DIGITS:] = _REST
    hashes = splitmix64(rows.astype("u8"))
    for i in range(DIGITS):
        table[:, i] = _HEX[(hashes >> np.uint64(4 * i) & np.uint64(15)).astype("i8")]
    lengths = DIGITS + (hashes % np.uint64(LENGTH_MAX - DIGITS)).astype("i8")
    return Ragged.from_lengths(table[np.arange(LENGTH_MAX) < lengths[:, None]], lengths)


class Expected:
    """Brute force: the first row of every key; ticks off what is handed on."""

    def __init__(self, keys: NDArray[np.uint64]) -> None:
        self.keys, self.first = np.unique(keys, return_index=True)
        self.handed = np.zeros(len(self.keys), dtype=bool)

    def check(self, batch: Batch) -> None:
        at = np.searchsorted(self.keys, batch["key"])
        assert np.array_equal(self.keys[at], batch["key"])
        assert len(np.unique(at)) == len(at) and not self.handed[at].any(), "a key is new once"
        self.handed[at] = True
        expected = aux_of(self.first[at])
        assert np.array_equal(batch["url"].offsets - batch["url"].offsets[0], expected.offsets)
        start, end = batch["url"].offsets[[0, -1]]
        assert np.array_equal(batch["url"].blob[start:end], expected.blob)


def run(path: Path, rows: int, different: int, ram_bytes: int, merge_rows: int) -> None:
    """A third of the keys come often, the others about evenly; closed and opened again half way."""
    random = np.random.default_rng(rows)
    numbers = (different * random.random(rows) ** random.choice([1.0, 8.0], rows, p=[0.7, 0.3])).astype("u8")
    keys = splitmix64(numbers)
    expected = Expected(keys)
    for start in (0, rows // 2):
        stop = start + rows // 2
        with Drum(path, emit=expected.check, ram_bytes=ram_bytes, merge_rows=merge_rows) as drum:
            for at in range(start, stop, BATCH):
                end = min(at + BATCH, stop)
                drum.add(keys[at:end], url=aux_of(np.arange(at, end)))
    assert expected.handed.all()
    assert drum.rows == len(expected.keys)


def test_half_a_million_rows_give_back_the_bytes_of_the_first(tmp_path: Path) -> None:
    run(tmp_path, 500_000, 300_000, ram_bytes=12 << 20, merge_rows=90_000)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_twenty_million_rows_give_back_the_bytes_of_the_first(tmp_path: Path) -> None:
    run(tmp_path, 20_000_000, 12_000_000, ram_bytes=256 << 20, merge_rows=0)
