"""I8: what the model says is what goes through the file system; and the paper's formulas give the paper's numbers."""

from __future__ import annotations

from pathlib import Path

from drum import Batch, CheckUpdate, Ragged, Repository
from drum.cost import Paper, Seen, Traffic, falsely_seen, merge_rows, packed_bytes, store_bytes

import numpy as np
import pytest
from drum_support import CountingFiles, Desk

from bench.model import claim, measured, ram_of_the_claim


@pytest.mark.parametrize(
    ("pages", "mercator", "drum_on_4tb", "drum"),
    [(800e6, 11.61, 2.267, 2.267), (8e9, 94.0, 2.359, 2.353), (80e9, 917.9, 3.28, 3.22), (800e9, 9156, 12.5, 11.9)],
)
def test_the_papers_table(pages: float, mercator: float, drum_on_4tb: float, drum: float) -> None:
    n = 59 * pages
    assert Paper().mercator_b(n) == pytest.approx(mercator, rel=1e-3)
    assert Paper(D=4.39e12).drum(n) == pytest.approx(drum_on_4tb, rel=5e-3)
    assert Paper().drum(n) == pytest.approx(drum, rel=5e-3)
    assert Paper().polybot(n) > 100 * Paper().mercator_b(n)


def test_ram_of_the_root_of_lambda_is_enough() -> None:
    paper = Paper(D=4.39e12)
    enough = Paper(D=4.39e12, R=paper.lambda_() ** 0.5 * 1.001)
    more = Paper(D=4.39e12, R=paper.lambda_() ** 0.5 * 4)
    less = Paper(D=4.39e12, R=paper.lambda_() ** 0.5 / 4)
    assert enough.drum(59 * 80e9) == more.drum(59 * 80e9) < less.drum(59 * 80e9)
    rate = Paper().pages_per_s(Paper().drum(59 * 8e9), 500e6, 59)
    assert rate == pytest.approx(32_650, rel=0.01)


def merged(root: Path, merges: int, rows: int, aux_bytes: int, spilled: bool, share_new: float) -> tuple[float, ...]:
    """(read, written, modelled read, modelled written) bytes a key, over merges into a growing store."""
    files = CountingFiles()
    desk = Desk(root, files)
    repository = Repository("seen", catalog=desk.catalog, pool=desk.pool, values={}, ram_bytes=1 << 28)
    model, traffic = Seen([], aux_bytes), Traffic()
    rng = np.random.default_rng(1)
    known = np.empty(0, np.uint64)
    for _ in range(merges):
        fresh = rng.integers(0, 2**64, rows if not len(known) else int(rows * share_new), dtype=np.uint64)
        keys = np.concatenate([rng.choice(known, rows - len(fresh)) if len(known) else known, fresh])
        rng.shuffle(keys)
        batch = Batch({"key": keys})
        if aux_bytes:  # hashes: what does not compress
            blob = np.frombuffer(rng.bytes(rows * (aux_bytes - 4)), np.uint8)
            batch = batch.with_(url=Ragged.from_lengths(blob, np.full(rows, aux_bytes - 4)))
        if spilled:
            with desk.turn() as turn:
                repository.pend_batch(batch)
                repository.spill(turn.writer, turn.edits)
        with desk.turn() as turn:
            if not spilled:
                repository.pend_batch(batch)
            repository.merge(CheckUpdate(), writer=turn.writer, edits=turn.edits, emit=lambda bucket, batch: None)
        traffic += model.merge(rows, len(fresh), spilled, distinct=len(np.unique(keys)))
        known = np.concatenate([known, fresh])
    total = merges * rows
    assert repository.rows == len(known) == sum(model.slices)
    return tuple(amount / total for amount in (files.bytes_read, files.bytes_written, traffic.read, traffic.written))


@pytest.mark.parametrize(
    ("merges", "rows", "aux_bytes", "spilled", "share_new"),
    [(12, 100_000, 0, False, 0.3), (6, 80_000, 70, True, 0.2), (20, 40_000, 0, True, 0.6)],
)
def test_bytes_per_key_agree_with_the_model(
    tmp_path: Path, merges: int, rows: int, aux_bytes: int, spilled: bool, share_new: float
) -> None:
    read, written, model_read, model_written = merged(tmp_path, merges, rows, aux_bytes, spilled, share_new)
    assert read == pytest.approx(model_read, rel=0.1)
    assert written == pytest.approx(model_written, rel=0.1)


def test_bytes_at_rest(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    repository = Repository("seen", catalog=desk.catalog, pool=desk.pool, values={}, ram_bytes=1 << 28)
    with desk.turn() as turn:
        repository.pend_batch(Batch({"key": np.random.default_rng(1).integers(0, 2**64, 300_000, dtype=np.uint64)}))
        repository.merge(CheckUpdate(), writer=turn.writer, edits=turn.edits, emit=lambda bucket, batch: None)
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert size == pytest.approx(store_bytes(300_000), rel=0.01)
    assert falsely_seen(1e9) == pytest.approx(0.027, rel=0.01)
    assert falsely_seen(4e10) == pytest.approx(43.4, rel=0.01)
    assert falsely_seen(4e10, key_bits=128) < 1e-17


@pytest.mark.parametrize(("spilled", "aux_bytes"), [(False, 0), (True, 0), (True, 70)])
def test_a_drums_bytes_agree_with_the_model(spilled: bool, aux_bytes: int) -> None:
    row = measured(100_000, 8, spilled, aux_bytes, seed=2)
    assert row["read_bytes_per_link"] == pytest.approx(row["read_bytes_per_link_model"], rel=0.1)
    assert row["written_bytes_per_link"] == pytest.approx(row["written_bytes_per_link_model"], rel=0.1)


@pytest.mark.parametrize("spilled", [False, True])
def test_reads_of_many_buckets_were_a_fifth_more_than_modelled(spilled: bool) -> None:
    """Blocks at the edges of buckets are read by both neighbours."""
    row = measured(200_000, 10, spilled, 0, seed=2, ram_bytes=8 << 20)
    assert row["buckets"] >= 8
    assert row["read_times_model"] == pytest.approx(1, abs=0.1)
    assert row["written_times_model"] == pytest.approx(1, abs=0.1)


def test_the_quoted_3075_times_is_that_of_ten_megabytes() -> None:
    assert ram_of_the_claim() == pytest.approx(10.1e6, rel=0.01)
    first, *_, last = claim()
    assert first["ram_bytes"] == 10e6
    assert first["mercator_b_pages_per_s"] == pytest.approx(1.4, abs=0.05)
    assert last["times_same_ram"] == pytest.approx(2.8, abs=0.1), "with 16 GB there is little left of it"


def test_merges_are_sized_by_store_ram_and_disk() -> None:
    assert merge_rows(0, 1 << 20, 8) == merge_rows(10**6, 2 << 20, 8) == 1 << 20
    assert merge_rows(0, 16 << 20, 8) == 4 << 20, "a quarter of RAM"
    assert merge_rows(40 * 10**6, 16 << 20, 8) == 10**7, "a quarter of the store"
    assert merge_rows(7 * 10**7, 16 << 20, 8) == 16 << 20, "what RAM holds"
    large = merge_rows(10**9, 16 << 20, 8)
    assert large == pytest.approx(10**9 * packed_bytes(10**9) / (2 * 2 * packed_bytes(16 << 20)), rel=0.01)
    assert 2 * merge_rows(10**9, 8 << 20, 78) < large, "rows with more beside the key wait in smaller numbers"
    assert merge_rows(10**9, 16 << 20, 8, disk_bytes=9.9e9) == 50_000_000, "what the disk has room for"
    assert merge_rows(10**8, 16 << 20, 8) == 16 << 20, "a third more is not worth writing all of them out"
    assert merge_rows(2 * 10**8, 16 << 20, 8) > 1.5 * (16 << 20)
    assert merge_rows(10**9, 16 << 20, 8, disk_bytes=1e9) == 16 << 20
