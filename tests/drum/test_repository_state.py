"""What a merge leaves behind: buckets and their slices, files that are still needed, nothing when it fails, no more RAM
than it was given."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

from drum import (
    Batch,
    Bucket,
    CheckUpdate,
    Damaged,
    Ragged,
)

import numpy as np
import pytest
from drum_support import FullDisk, rows_of
from engine_support import GOLDEN, Engine, rows


def test_halves_inherit_cursor_and_extra_and_share_slices(tmp_path: Path) -> None:
    engine = Engine(tmp_path, 10**8)
    keys = list(range(4000))

    class Noting(CheckUpdate):
        def begin(self, bucket: Bucket) -> None:
            bucket.extra["merges"] = bucket.extra.get("merges", 0) + 1

    with engine.desk.turn() as turn:
        engine.pend(turn, rows(keys, 0), "plain")
        engine.merge(turn, Noting())
    (whole,) = engine.repository.buckets
    assert whole.extra == {"merges": 1}
    engine.repository.ram_bytes = 25_000
    with engine.desk.turn() as turn:
        engine.pend(turn, rows(list(range(3990, 4010)), 5000), "plain")
        stats = engine.merge(turn, Noting())
    assert stats.splits > 0
    assert stats.added == 10
    buckets = engine.repository.buckets
    assert len(buckets) == stats.splits + 1
    assert {bucket.extra["merges"] for bucket in buckets} == {2}
    assert {bucket.cursor for bucket in buckets} == {2}
    assert {part.section for bucket in buckets for part in bucket.slices[:1]} == {whole.slices[0].section}
    assert sum(bucket.slices[0].rows for bucket in buckets) == 4000
    assert engine.keys() == sorted(key * GOLDEN % 2**64 for key in range(4010))
    engine.desk.reopen()
    engine.open()
    assert [bucket.to_json() for bucket in engine.repository.buckets] == [bucket.to_json() for bucket in buckets]


def test_keys_that_cannot_be_split_are_merged_at_once(tmp_path: Path) -> None:
    engine = Engine(tmp_path, 1000)
    with engine.desk.turn() as turn:
        same = Batch({"key": np.full(3000, 7, np.uint64), "id": np.arange(3000, dtype=np.uint32)})
        engine.pend(turn, same, "parts")
        engine.merge(turn, CheckUpdate())
    assert [row for _, batch in engine.emitted for row in rows_of(batch)] == [(7, 0)]


def test_a_pending_section_keeps_its_file_until_every_bucket_has_passed(tmp_path: Path) -> None:
    engine = Engine(tmp_path, 20_000)
    with engine.desk.turn() as turn:
        engine.pend(turn, rows(list(range(1000)), 0), "parts")
        engine.merge(turn, CheckUpdate())
    assert len(engine.repository.buckets) >= 3
    with engine.desk.turn() as turn:
        engine.pend(turn, rows(list(range(500, 1500)), 1000), "parts")
    file = turn.writer.name
    waiting = 1000
    for number, bucket in enumerate(list(engine.repository.buckets)):
        assert file in engine.desk.catalog.live_files()
        assert engine.repository.pending_rows == waiting
        last = number == len(engine.repository.buckets) - 1
        with engine.desk.turn() as turn:
            waiting -= engine.merge(turn, CheckUpdate(), [b for b in engine.repository.buckets if b is bucket]).rows
        engine.desk.reopen()
        kept = engine.repository.buckets
        engine.open()
        assert [b.to_json() for b in kept] == [b.to_json() for b in engine.repository.buckets]
        if last:
            break
        engine.repository.buckets = kept
    assert engine.repository.pending_rows == waiting == 0
    assert file not in engine.desk.catalog.live_files()


def test_a_merge_that_fails_changes_nothing(tmp_path: Path) -> None:
    files = FullDisk(10**9)
    engine = Engine(tmp_path, 10**8, files=files)
    with engine.desk.turn() as turn:
        engine.pend(turn, rows(list(range(3000)), 0), "plain")
        engine.merge(turn, CheckUpdate())
    state, stored = engine.desk.catalog.items(), engine.keys()
    batch = rows(list(range(2000, 6000)), 3000)
    for room in (0, 100, 5000, 30_000):
        files.room = room
        with pytest.raises(OSError, match="No space"), engine.desk.turn() as turn:
            engine.pend(turn, batch, "plain")
            engine.merge(turn, CheckUpdate())
        files.room = 10**9
        assert engine.desk.catalog.items() == state
        engine.open()
        assert engine.keys() == stored
        assert engine.repository.pending_rows == 0
    engine.emitted.clear()
    with engine.desk.turn() as turn:
        engine.pend(turn, batch, "plain")
        engine.merge(turn, CheckUpdate())
    assert [n for _, batch in engine.emitted for n in batch["id"].tolist()] == list(range(4000, 7000))


def test_damage_in_a_slice_or_a_pending_section_stops_a_merge(tmp_path: Path) -> None:
    engine = Engine(tmp_path, 10**8)
    with engine.desk.turn() as turn:
        engine.pend(turn, rows(list(range(300)), 0), "plain")
        engine.merge(turn, CheckUpdate())
    with engine.desk.turn() as turn:
        engine.pend(turn, rows(list(range(200, 400)), 0), "plain")
    state = engine.desk.catalog.items()
    live = [(part.file, part.section) for part in engine.repository.buckets[0].slices]
    live.append((turn.writer.name, "rows.0"))
    for file, name in live:
        data = (tmp_path / file).read_bytes()
        chunks = engine.desk.pool.section(file, name).chunks
        for at in np.linspace(chunks[0]["offset"][0], int(chunks[-1]["offset"][-1] + chunks[-1]["stored"][-1]) - 1, 9):
            bad = bytearray(data)
            bad[int(at)] ^= 4
            (tmp_path / file).write_bytes(bad)
            engine.desk.reopen()
            engine.open()
            with pytest.raises(Damaged) as caught, engine.desk.turn() as turn:
                engine.merge(turn, CheckUpdate())
            assert caught.value.file == str(tmp_path / file)
            assert caught.value.offset <= at
        (tmp_path / file).write_bytes(data)
        assert engine.desk.catalog.items() == state


def test_memory_of_a_merge_stays_within_its_setting(tmp_path: Path) -> None:
    """Two million rows with 60-byte URLs, a tenth of them new to a store as large, within 16 MiB."""
    ram_bytes = 16 << 20
    engine = Engine(tmp_path, ram_bytes)
    rng = np.random.default_rng(1)
    known = rng.integers(0, 2**64, 1_000_000, dtype=np.uint64)
    with engine.desk.turn() as turn:
        engine.pend(turn, Batch({"key": known}), "parts")
        engine.merge(turn, CheckUpdate())
    total = 1_000_000
    with engine.desk.turn() as turn:
        for _ in range(5):
            fresh = rng.integers(0, 2**64, total // 50, dtype=np.uint64)
            keys = np.concatenate([rng.choice(known, total // 5 - len(fresh)), fresh])
            blob = np.full(60 * len(keys), 97, np.uint8)
            url = Ragged.from_lengths(blob, np.full(len(keys), 60))
            engine.pend(turn, Batch({"key": keys, "url": url}), "parts")
    handed = 0

    def emit(bucket: Bucket, batch: Batch) -> None:
        nonlocal handed
        handed += batch.rows

    tracemalloc.start()
    with engine.desk.turn() as turn:
        engine.repository.merge(CheckUpdate(), writer=turn.writer, edits=turn.edits, emit=emit)
        peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert handed == total // 10
    assert peak < ram_bytes + (12 << 20), "and the blocks of the streams and of what is handed on"


def test_small_merges_make_few_files_and_slices(tmp_path: Path) -> None:
    engine = Engine(tmp_path, 10**8)
    rng = np.random.default_rng(1)
    for number in range(120):
        with engine.desk.turn() as turn:
            engine.pend(turn, rows(rng.integers(0, 10**9, 50).tolist(), number * 50), "ram")
            engine.merge(turn, CheckUpdate())
        assert len(engine.repository.buckets[0].slices) <= 16
        assert len(list(tmp_path.glob("*.seg"))) <= 17
