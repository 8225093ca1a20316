"""I7: verdicts, first occurrences and order are those of a dict fed row by row, whatever the number of buckets, the
RAM, the timing of merges and spills, partitioning, and reopening in between."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drum_support import Desk, FullDisk, rows_of
from hypothesis import given, settings
from hypothesis import strategies as st

from drum import (
    BYTES,
    Batch,
    Bucket,
    Check,
    CheckUpdate,
    Damaged,
    Kernel,
    MergeStats,
    Ragged,
    Repository,
    Result,
    Update,
)
from drum.bucket import PART_SHIFT

GOLDEN = 0x9E3779B97F4A7C15
URL = {"key": "u8", "id": "u4", "url": BYTES}


def rows(keys: list[int], first: int) -> Batch:
    """Rows whose url and id say which row they are."""
    ids = np.arange(first, first + len(keys), dtype=np.uint32)
    spread = np.array([key * GOLDEN % 2**64 for key in keys], np.uint64)
    return Batch({"key": spread, "id": ids, "url": Ragged.from_list([b"http://%d/" % i for i in ids])})


def parts(keys: Any) -> Any:
    return (keys >> np.uint64(PART_SHIFT)).astype("u1")


class Engine:
    """A repository on a desk, that remembers what was handed on."""

    def __init__(self, root: Path, ram_bytes: int, values: dict[str, str] | None = None, files: Any = None) -> None:
        self.desk = Desk(root, files)
        self.values, self.ram_bytes = values or {}, ram_bytes
        self.emitted: list[tuple[Bucket, Batch]] = []
        self.open()

    def open(self) -> None:
        self.repository = Repository(
            "seen", catalog=self.desk.catalog, pool=self.desk.pool, values=self.values, ram_bytes=self.ram_bytes
        )
        self.repository.ram_bytes = self.ram_bytes  # below the least it allows, to make many buckets of few rows

    def pend(self, turn: Any, batch: Batch, how: str, op: int = 0) -> None:
        if how == "ram":
            self.repository.pend_batch(batch, op)
            return
        name = f"rows.{len(turn.writer.sections)}"
        out = turn.writer.section(name, batch.schema)
        out.append(batch, labels=parts(batch["key"]) if how == "parts" else None)
        self.repository.pend(turn.edits, 1, turn.writer.name, name, op)

    def merge(self, turn: Any, kernel: Kernel, buckets: list[Bucket] | None = None) -> MergeStats:
        return self.repository.merge(
            kernel, writer=turn.writer, edits=turn.edits, buckets=buckets, emit=lambda *what: self.emitted.append(what)
        )

    def keys(self) -> list[int]:
        found = [batch["key"] for bucket in self.repository.buckets for batch in self.repository.scan(bucket)]
        return [key for keys in found for key in keys.tolist()]


step = st.one_of(
    st.tuples(st.just("rows"), st.lists(st.integers(0, 300), max_size=150), st.sampled_from(["ram", "plain", "parts"])),
    st.tuples(st.just("merge"), st.floats(0, 1), st.integers(0, 999)),
    st.tuples(st.just("commit"), st.booleans(), st.none()),
)


@settings(max_examples=120, deadline=None)
@given(steps=st.lists(step, max_size=14), ram_bytes=st.sampled_from([600, 3000, 20_000, 10**8]))
def test_verdicts_are_those_of_a_set(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any, Any]], ram_bytes: int
) -> None:
    engine = Engine(tmp_path_factory.mktemp("seen"), ram_bytes)
    model: dict[int, int] = {}
    first = 0
    turn = engine.desk.turn()
    for kind, value, detail in [*steps, ("merge", 1.0, 0), ("commit", False, None)]:
        if kind == "rows":
            batch = rows(value, first)
            first += batch.rows
            engine.pend(turn, batch, detail)
            for key, number in zip(batch["key"].tolist(), batch["id"].tolist()):
                model.setdefault(key, number)
        elif kind == "merge":
            buckets = engine.repository.buckets
            chosen = np.random.default_rng(detail).random(len(buckets)) <= value
            engine.merge(turn, CheckUpdate(), [bucket for bucket, yes in zip(buckets, chosen) if yes])
            assert engine.repository.ram_rows == 0, "a merge of some buckets keeps the rows of the others durable"
        else:
            engine.repository.spill(turn.writer, turn.edits)
            with turn:
                pass
            if value:
                before = engine.repository.rows, engine.repository.pending_rows, len(engine.repository.buckets)
                engine.desk.reopen()
                engine.open()
                assert before == (
                    engine.repository.rows, engine.repository.pending_rows, len(engine.repository.buckets)
                )  # fmt: skip
            turn = engine.desk.turn()
    with turn:
        pass
    verdicts = [row for _, batch in engine.emitted for row in rows_of(batch)]
    assert sorted(verdicts) == sorted((key, number, b"http://%d/" % number) for key, number in model.items())
    assert engine.keys() == sorted(model)
    assert engine.repository.rows == len(model)
    assert engine.repository.pending_rows == 0
    assert [bucket.lo for bucket in engine.repository.buckets[1:]] == [b.hi + 1 for b in engine.repository.buckets[:-1]]
    found, _ = engine.repository.lookup(np.array([*model, 1], np.uint64))
    assert found.tolist() == [True] * len(model) + [1 in model]


class Account:
    """A kernel like a crawler's budgets: deposits (op 0) come first, then each withdrawal (op 1) learns the balance."""

    columns = ("amount",)

    def __call__(self, found: Any, stored: Batch, items: Batch, starts: Any) -> Result:
        sizes = np.diff(starts)
        group = np.repeat(np.arange(len(sizes)), sizes)
        deposits = np.bincount(group, weights=np.where(items["op"] == 0, items["amount"], 0), minlength=len(sizes))
        balance = stored["balance"] + deposits.astype(np.int64)
        return Result(
            Batch({"balance": balance}),
            np.ones(len(sizes), bool),
            items["op"] == 1,
            {"balance": np.repeat(balance, sizes)},
        )


@settings(max_examples=60, deadline=None)
@given(
    turns=st.lists(
        st.lists(
            st.tuples(st.integers(0, 1), st.lists(st.integers(0, 40), max_size=60), st.sampled_from(["ram", "parts"])),
            max_size=4,
        ),
        min_size=1, max_size=8,
    ),
    ram_bytes=st.sampled_from([600, 3000, 10**8]),
)  # fmt: skip
def test_operations_apply_in_order_and_values_survive(
    tmp_path_factory: pytest.TempPathFactory,
    turns: list[list[tuple[int, list[int], str]]],
    ram_bytes: int,
) -> None:
    engine = Engine(tmp_path_factory.mktemp("bank"), ram_bytes, {"balance": "i8"})
    model: dict[int, int] = {}
    expected, first = [], 0
    for pends in turns:
        with engine.desk.turn() as turn:
            asked: list[tuple[int, int]] = []
            for op, keys, how in pends:
                batch = rows(keys, first)
                first += batch.rows
                if op == 0:
                    batch = batch.select(["key"]).with_(amount=batch["id"].astype(np.int32) % 7)
                    for key, amount in zip(batch["key"].tolist(), batch["amount"].tolist()):
                        model[key] = model.get(key, 0) + amount
                else:
                    batch = batch.with_(amount=np.zeros(batch.rows, np.int32))
                    asked += zip(batch["key"].tolist(), batch["id"].tolist())
                engine.pend(turn, batch, how, op)
            engine.merge(turn, Account())
            for key, number in asked:
                model.setdefault(key, 0)
                expected.append((key, number, b"http://%d/" % number, 0, model[key]))
        engine.desk.reopen()
        engine.open()
    verdicts = [row for _, batch in engine.emitted for row in rows_of(batch)]
    assert sorted(verdicts) == sorted(expected)
    assert engine.repository.rows == len(model)
    found, values = engine.repository.lookup(np.array(sorted(model), np.uint64))
    assert found.all()
    assert (values["balance"] if values.columns else np.empty(0)).tolist() == [model[key] for key in sorted(model)]


@pytest.mark.parametrize("ram_bytes", [3000, 10**8])
def test_a_kernel_sees_items_by_key_operation_and_arrival(tmp_path: Path, ram_bytes: int) -> None:
    engine = Engine(tmp_path, ram_bytes)
    seen: list[tuple[int, int, int]] = []

    class Looking(CheckUpdate):
        def __call__(self, found: Any, stored: Batch, items: Batch, starts: Any) -> Result:
            seen.extend(zip(*(items[name].tolist() for name in ("key", "op", "id"))))
            return Result(stored, ~found, np.zeros(items.rows, bool))

    kernel = Looking()
    kernel.columns = ("id",)
    rng = np.random.default_rng(1)
    with engine.desk.turn() as turn:
        for number, op in enumerate((1, 0, 2, 0, 1)):
            how = ("ram", "plain", "parts")[number % 3]
            engine.pend(turn, rows(rng.integers(0, 20, 100).tolist(), number * 100), how, op)
        engine.merge(turn, kernel)
    assert len(seen) == 500
    assert seen == sorted(seen)
    assert {op for _, op, _ in seen} == {0, 1, 2}


def test_order_is_kept_within_a_bucket(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    engine = Engine(tmp_path, 40_000)
    with engine.desk.turn() as turn:
        for i in range(6):
            engine.pend(turn, rows(rng.integers(0, 10**6, 500).tolist(), i * 500), "ram" if i % 2 else "plain")
        engine.merge(turn, CheckUpdate())
    assert len(engine.repository.buckets) > 2
    for bucket in engine.repository.buckets:
        ids = [number for where, batch in engine.emitted if where.lo == bucket.lo for number in batch["id"].tolist()]
        assert len(ids) > 10
        assert ids == sorted(ids)
        assert all(
            (batch["key"] >= bucket.lo).all() and (batch["key"] <= bucket.hi).all()
            for where, batch in engine.emitted
            if where.lo == bucket.lo
        )


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


def test_check_and_update_through_the_engine(tmp_path: Path) -> None:
    engine = Engine(tmp_path, 10**8, {"count": "i8"})
    with engine.desk.turn() as turn:
        engine.pend(turn, Batch({"key": np.array([5, 9, 5], np.uint64), "count": np.array([1, 1, 1])}), "plain")
        engine.merge(turn, Update(["count"], {"count": np.add}))
    with engine.desk.turn() as turn:
        engine.pend(
            turn, Batch({"key": np.array([9, 4, 5], np.uint64), "url": Ragged.from_list([b"a", b"b", b"c"])}), "ram"
        )
        engine.merge(turn, Check())
    assert [row for _, batch in engine.emitted for row in rows_of(batch)] == [
        (9, b"a", 1, True), (4, b"b", 0, False), (5, b"c", 2, True),
    ]  # fmt: skip
    with engine.desk.turn() as turn, pytest.raises(KeyError, match="no pending section has"):
        engine.pend(turn, Batch({"key": np.array([9], np.uint64)}), "plain")
        engine.merge(turn, Update(["count"]))


def test_several_merges_in_one_turn_see_each_other(tmp_path: Path) -> None:
    engine = Engine(tmp_path, 10**8)
    with engine.desk.turn() as turn:
        for first in range(0, 1000, 100):
            engine.pend(turn, rows(list(range(first, first + 150)), first), "ram")
            engine.merge(turn, CheckUpdate())
    assert engine.repository.rows == 1050 == len(engine.keys())


def test_small_merges_make_few_files_and_slices(tmp_path: Path) -> None:
    engine = Engine(tmp_path, 10**8)
    rng = np.random.default_rng(1)
    for number in range(120):
        with engine.desk.turn() as turn:
            engine.pend(turn, rows(rng.integers(0, 10**9, 50).tolist(), number * 50), "ram")
            engine.merge(turn, CheckUpdate())
        assert len(engine.repository.buckets[0].slices) <= 16
        assert len(list(tmp_path.glob("*.seg"))) <= 17


@pytest.mark.parametrize("how", ["ram", "plain", "parts"])
def test_a_column_that_only_rows_of_another_bucket_have_is_zero(tmp_path: Path, how: str) -> None:
    """A hosts drum of several buckets, one of which got no STATE row: the turn ended with a KeyError."""
    engine = Engine(tmp_path, 3000)
    seen: dict[int, int] = {}

    class Looking(CheckUpdate):
        def __call__(self, found: Any, stored: Batch, items: Batch, starts: Any) -> Result:
            seen.update(zip(items["key"].tolist(), items["more"].tolist()))
            return Result(stored, ~found, np.zeros(items.rows, bool))

    with engine.desk.turn() as turn:
        engine.pend(turn, rows(list(range(200)), 0), "ram")
        engine.merge(turn, CheckUpdate())
    assert len(engine.repository.buckets) > 2
    kernel = Looking()
    kernel.columns = ("more",)
    last = Batch({"key": np.array([2**64 - 1], np.uint64), "more": np.array([7], np.uint16)})
    with engine.desk.turn() as turn:
        engine.pend(turn, rows(list(range(200)), 0), how)
        engine.pend(turn, last, how, 1)
        engine.merge(turn, kernel)
    assert len(seen) == 201
    assert {key for key, more in seen.items() if more} == {2**64 - 1}
