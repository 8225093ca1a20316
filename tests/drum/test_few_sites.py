"""Keys that share their first 12 bits, as those of a crawl of one site do: buckets are cut where keys are, so that a
merge stays within its RAM, and verdicts are those of any other keys."""

from __future__ import annotations

from pathlib import Path

from drum import Batch, CheckUpdate

import numpy as np
import pytest
from engine_support import Engine

PREFIX = np.uint64(0xABC << 52)
RAM_BYTES = 200_000


def cells(rng: np.random.Generator, count: int) -> Batch:
    return Batch({"key": PREFIX | rng.integers(0, 1 << 52, count, np.uint64)})


@pytest.mark.parametrize("how", ["ram", "plain", "parts"])
def test_buckets_of_one_sites_keys_stay_small(tmp_path: Path, how: str) -> None:
    engine, rng = Engine(tmp_path, RAM_BYTES), np.random.default_rng(1)
    given: list[np.ndarray] = []
    for _ in range(12):
        batch = cells(rng, 5000)
        given.append(batch["key"])
        with engine.desk.turn() as turn:
            engine.pend(turn, batch, how)
            engine.merge(turn, CheckUpdate())
    assert engine.keys() == np.unique(np.concatenate(given)).tolist()
    rows = [sum(part.rows for part in bucket.slices) for bucket in engine.repository.buckets]
    assert max(rows) * 8 < RAM_BYTES, "a bucket's keys fit what a merge may use"
    assert len(rows) < 40, "and no bucket was cut without need"


def test_keys_of_one_site_next_to_those_of_many(tmp_path: Path) -> None:
    engine, rng = Engine(tmp_path, RAM_BYTES), np.random.default_rng(2)
    for _ in range(8):
        keys = rng.integers(0, 1 << 64, 4000, np.uint64)
        with engine.desk.turn() as turn:
            engine.pend(turn, cells(rng, 4000), "parts")
            engine.pend(turn, Batch({"key": keys}), "parts")
            engine.merge(turn, CheckUpdate())
    rows = [sum(part.rows for part in bucket.slices) for bucket in engine.repository.buckets]
    assert sum(rows) == engine.repository.rows == 64_000 and max(rows) * 8 < RAM_BYTES and len(rows) < 40
