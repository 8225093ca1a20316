"""Keys that share their first 12 bits, as those of a crawl of one site do: buckets are cut where keys are, so that a
merge stays within its RAM, and verdicts are those of any other keys."""

from __future__ import annotations

from pathlib import Path

from drum import Batch, CheckUpdate, Files, SegmentPool, SegmentWriter
from drum.codec import BLOCK_ROWS, STEPS, encode_sorted, halves_of

import numpy as np
import pytest
from engine_support import Engine
from hypothesis import given
from hypothesis import strategies as st

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


@pytest.mark.parametrize("sites", [1, 5, 200, 1000])
def test_keys_of_equal_sites_take_no_more_room_than_others(tmp_path: Path, sites: int) -> None:
    """A block had one width for all differences of its keys, and those between the keys of two sites are wide: keys of
    1,000 equal sites took 7.3 bytes, where others took 5.5."""
    rng = np.random.default_rng(3)
    rows = 20_000_000 // 886  # of a prefix: 20 million keys of 1,000 sites, which have 886 prefixes
    prefixes = np.sort(rng.choice(4096, min(sites, 12), replace=False) if sites > 1 else np.array([7]))
    keys = np.concatenate([
        np.uint64(int(prefix) << 52) | np.sort(rng.integers(0, 1 << 52, rows, np.uint64)) for prefix in prefixes
    ])  # fmt: skip
    with SegmentWriter(Files(), str(tmp_path / "keys.seg")) as writer:
        writer.section("keys", {"key": "u8"}, sorted_by="key").append(Batch({"key": keys}))
    stored = SegmentPool(Files(), str(tmp_path)).section("keys.seg", "keys")
    assert np.concatenate([batch["key"] for batch in stored.scan()]).tolist() == keys.tolist()
    assert (tmp_path / "keys.seg").stat().st_size < 5.7 * len(keys)
    assert len(stored.blocks) == -(-len(keys) // BLOCK_ROWS)


@given(
    st.lists(st.tuples(st.integers(0, 4095), st.integers(1, 3000)), min_size=1, max_size=20), st.integers(0, 1 << 30)
)
def test_keys_with_wide_steps_are_read_as_written(sites: list[tuple[int, int]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = [np.uint64(site << 52) | rng.integers(0, 1 << 52, count, np.uint64) for site, count in sites]
    keys = np.unique(np.concatenate(parts))[:BLOCK_ROWS]
    data, encoding = encode_sorted(keys)
    if encoding == STEPS:
        assert halves_of(data, len(keys)).keys.tolist() == keys.tolist() and len(data) < keys.nbytes + 600
    else:
        assert data == keys.tobytes()
