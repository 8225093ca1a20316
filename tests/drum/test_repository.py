"""I7: verdicts, first occurrences and order are those of a dict fed row by row, whatever the number of buckets, the
RAM, the timing of merges and spills, partitioning, and reopening in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drum import Batch, Check, CheckUpdate, Incompatible, Ragged, Result, Update

import numpy as np
import pytest
from drum_support import rows_of
from engine_support import Engine, rows
from hypothesis import given, settings
from hypothesis import strategies as st

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
            if detail % 2:
                engine.repository.join()
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


def test_small_batches_in_ram_are_joined_into_one(tmp_path: Path) -> None:
    """And come out in the order in which they came, however many there were."""
    engine = Engine(tmp_path, 10**8)
    with engine.desk.turn() as turn:
        for first in range(0, 3000, 10):
            engine.pend(turn, rows(list(range(first, first + 10)), first), "ram")
        engine.repository.join()
        assert engine.repository.pending_rows == engine.repository.ram_rows == 3000
        assert engine.merge(turn, CheckUpdate()).emitted == 3000
    assert [row for _, batch in engine.emitted for row in batch["id"].tolist()] == list(range(3000))
    assert len(engine.emitted) == 1


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
    with engine.desk.turn() as turn, pytest.raises(Incompatible, match="no row that waits has it"):
        engine.pend(turn, Batch({"key": np.array([9], np.uint64)}), "plain")
        engine.merge(turn, Update(["count"]))


def test_several_merges_in_one_turn_see_each_other(tmp_path: Path) -> None:
    engine = Engine(tmp_path, 10**8)
    with engine.desk.turn() as turn:
        for first in range(0, 1000, 100):
            engine.pend(turn, rows(list(range(first, first + 150)), first), "ram")
            engine.merge(turn, CheckUpdate())
    assert engine.repository.rows == 1050 == len(engine.keys())


class Looking(CheckUpdate):
    """Hands nothing on; `seen`: the column `more` that rows of each key had."""

    def __init__(self) -> None:
        super().__init__()
        self.columns = ("more",)
        self.seen: dict[int, int] = {}

    def __call__(self, found: Any, stored: Batch, items: Batch, starts: Any) -> Result:
        self.seen.update(zip(items["key"].tolist(), items["more"].tolist()))
        return Result(stored, ~found, np.zeros(items.rows, bool))


@pytest.mark.parametrize("how", ["ram", "plain", "parts"])
def test_a_column_that_only_rows_of_another_bucket_have_is_zero(tmp_path: Path, how: str) -> None:
    """A hosts drum of several buckets, one of which got no STATE row: the turn ended with a KeyError."""
    engine = Engine(tmp_path, 3000)
    with engine.desk.turn() as turn:
        engine.pend(turn, rows(list(range(200)), 0), "ram")
        engine.merge(turn, CheckUpdate())
    assert len(engine.repository.buckets) > 2
    kernel = Looking()
    last = Batch({"key": np.array([2**64 - 1], np.uint64), "more": np.array([7], np.uint16)})
    with engine.desk.turn() as turn:
        engine.pend(turn, rows(list(range(200)), 0), how)
        engine.pend(turn, last, how, 1)
        engine.merge(turn, kernel)
    assert len(kernel.seen) == 201
    assert {key for key, more in kernel.seen.items() if more} == {2**64 - 1}


def test_a_column_that_only_rows_merged_here_before_had_is_zero(tmp_path: Path) -> None:
    """A merge was interrupted between two buckets; in the next one the first had no STATE row any more, the second one
    still: a KeyError."""
    engine = Engine(tmp_path, 3000)
    with engine.desk.turn() as turn:
        engine.pend(turn, rows(list(range(200)), 0), "ram")
        engine.merge(turn, CheckUpdate())
    kernel = Looking()
    ends = Batch({"key": np.array([0, 2**64 - 1], np.uint64), "more": np.array([7, 7], np.uint16)})
    with engine.desk.turn() as turn:
        engine.pend(turn, ends, "plain")
        engine.merge(turn, kernel, engine.repository.buckets[:1])
    assert kernel.seen == {0: 7}
    with engine.desk.turn() as turn:
        engine.pend(turn, Batch({"key": np.array([1, 2**64 - 2], np.uint64)}), "ram")
        engine.merge(turn, kernel)
    assert kernel.seen == {0: 7, 1: 0, 2**64 - 2: 0, 2**64 - 1: 7}
    assert engine.repository.pending_rows == 0
