"""Whatever is asked of a drum, in whatever order, cut and reopened wherever: the answers are those of a dict.

The machines go through the public API only. One store, and a dict beside it that does everything at once; the drum does
it late, in buckets as small as its RAM setting makes them, interrupted between buckets, spilled, closed, left without a
word, opened again with another RAM setting, another interval of merges and another kernel.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import drum.repository
from drum import Batch, Check, CheckUpdate, Drum, Kernel, Ragged, Result, Statistics, Update

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

CHECK, UPDATE, CHECK_UPDATE, ADD = range(4)
NEVER = 1 << 40  # merge_rows

KEYS = st.one_of(
    st.integers(0, 30).map(lambda n: n * 0x9E3779B97F4A7C15 % 2**64),  # all over the key space
    st.integers(0, 3), st.integers(2**64 - 4, 2**64 - 1), st.integers(2**63 - 2, 2**63 + 2),
)  # fmt: skip
ROWS = st.lists(st.tuples(KEYS, st.integers(CHECK, ADD), st.integers(-5, 5)), max_size=40)
RAM = st.sampled_from([4_000, 40_000, 1 << 24])
KEYS_RAM = st.sampled_from([4_000, 40_000, 1 << 24])
INTERVALS = st.sampled_from([1, 25, 200, 0, NEVER])

Answer = dict[str, Any] | None
Rule = Callable[[dict[int, int], int, int, int], Answer]


class Mixed:
    """Any kernel: what a row asks for stands in its column `do`, and rows of a key are done in their order."""

    columns = ("do", "v")

    def __call__(self, found: Any, stored: Batch, items: Batch, starts: Any) -> Result:
        values, write = stored["v"].copy(), np.zeros(len(found), dtype=bool)
        emit, was = np.zeros(items.rows, dtype=bool), np.zeros(items.rows, dtype=bool)
        before = np.zeros(items.rows, dtype="i8")
        for group in range(len(found)):
            known = bool(found[group])
            for row in range(starts[group], starts[group + 1]):
                do, v = items["do"][row], items["v"][row]
                was[row], before[row], emit[row] = known, values[group] if known else 0, do in (CHECK, CHECK_UPDATE)
                if do != CHECK:
                    values[group] = values[group] + v if do == ADD and known else v
                    known = write[group] = True
        return Result(Batch({"v": values}), write, emit, {"was": was, "before": before})


def mixed(store: dict[int, int], key: int, do: int, v: int) -> Answer:
    answer = {"was": key in store, "before": store.get(key, 0)} if do in (CHECK, CHECK_UPDATE) else None
    if do != CHECK:
        store[key] = store[key] + v if do == ADD and key in store else v
    return answer


def remember(store: dict[int, int], key: int, do: int, v: int) -> Answer:
    return None if key in store else (store.update({key: 0}) or {})


def last_counts(store: dict[int, int], key: int, do: int, v: int) -> Answer:
    new = key not in store
    store[key] = v
    return {} if new else None


def every_verdict(store: dict[int, int], key: int, do: int, v: int) -> Answer:
    return {"new": remember(store, key, do, v) is not None}


def look(store: dict[int, int], key: int, do: int, v: int) -> Answer:
    return {"found": key in store, "stored_v": store.get(key, 0)}


def combined(combine: Callable[[int, int], int]) -> Rule:
    def update(store: dict[int, int], key: int, do: int, v: int) -> Answer:
        store[key] = combine(store[key], v) if key in store else v
        return None

    return update


KERNELS: dict[str, tuple[Callable[[], Kernel], Rule]] = {
    "mixed": (Mixed, mixed),
    "check+update": (CheckUpdate, remember),
    "check+update of a value": (lambda: CheckUpdate(values=["v"]), last_counts),
    "every verdict": (lambda: CheckUpdate(duplicates=True), every_verdict),
    "check": (Check, look),
    "update": (lambda: Update(["v"]), combined(lambda old, new: new)),
    "add": (lambda: Update(["v"], {"v": np.add}), combined(lambda old, new: old + new)),
    "maximum": (lambda: Update(["v"], {"v": np.maximum}), combined(max)),
}


class DrumMachine(RuleBasedStateMachine):
    """Every kernel over one store, whose verdicts do not depend on when merges happen."""

    intervals = INTERVALS
    kernels = tuple(KERNELS)
    key_bits = 64

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory(prefix="drum-machine-")
        self.store: dict[int, int] = {}
        self.expected: dict[int, tuple[int, bytes, Answer]] = {}
        self.handed: dict[int, tuple[int, bytes, Answer]] = {}
        self.rows = 0
        self.buckets_left = NEVER

    @initialize(ram_bytes=RAM, data=st.data())
    def begin(self, ram_bytes: int, data: st.DataObject) -> None:
        self.open(ram_bytes, data)

    def open(self, ram_bytes: int, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.kernels), label="kernel")
        make, self.model = KERNELS[name]
        self.drum = Drum(
            self.directory.name, emit=self.emit, kernel=make(), values={"v": "i8"}, ram_bytes=ram_bytes,
            key_bits=self.key_bits, merge_rows=data.draw(self.intervals, label="merge_rows"), progress=self.progress,
        )  # fmt: skip

    def keys_of(self, numbers: Any) -> Any:
        """Keys that the drum is given; of 128 bits some that differ in the low half alone."""
        keys = np.array(numbers, "u8")
        return keys if self.key_bits == 64 else np.stack([keys & np.uint64(2**64 - 4), keys], axis=1)

    def progress(self, statistics: Statistics) -> bool:
        assert statistics.merging
        self.buckets_left -= 1
        return self.buckets_left > 0

    def emit(self, batch: Batch) -> None:
        columns = {name: batch[name].tolist() for name in ("was", "before", "new", "found") if name in batch}
        if "found" in batch:
            columns["stored_v"] = batch["v"].tolist()  # Check hands the stored value on under its name
        keys = batch["key" if self.key_bits == 64 else "low"].tolist()
        for i, (number, key, url) in enumerate(zip(batch["id"].tolist(), keys, batch["url"].tolist())):
            assert number not in self.handed, "a row is handed on once"
            self.handed[number] = key, url, {name: column[i] for name, column in columns.items()}

    def add_rows(self, rows: list[tuple[int, int, int]], **options: int) -> None:
        numbers = range(self.rows, self.rows + len(rows))
        urls = [b"http://%x/" % key + b"%d" % number * (number % 7) for number, (key, _, _) in zip(numbers, rows)]
        for number, url, (key, do, v) in zip(numbers, urls, rows):
            self.decide(number, url, key, do, v, **options)
        self.rows += len(rows)
        keys = self.keys_of([row[0] for row in rows])
        do, v = (np.array([row[i] for row in rows], kind) for i, kind in ((1, "u1"), (2, "i8")))
        self.drum.add(keys, id=np.array(numbers, "i8"), do=do, v=v, url=Ragged.from_list(urls), **options)

    def decide(self, number: int, url: bytes, key: int, do: int, v: int) -> None:
        answer = self.model(self.store, key, do, v)
        if answer is not None:
            self.expected[number] = key, url, answer

    @rule(rows=ROWS)
    def add(self, rows: list[tuple[int, int, int]]) -> None:
        self.add_rows(rows)

    @rule(seed=st.integers(0, 99), count=st.integers(100, 600), spread=st.integers(50, 2000))
    def add_many(self, seed: int, count: int, spread: int) -> None:
        rng = np.random.default_rng(seed)
        keys = (rng.integers(0, spread, count).astype("u8") * np.uint64(0x9E3779B97F4A7C15)).tolist()
        self.add_rows(list(zip(keys, rng.integers(0, 4, count).tolist(), rng.integers(-9, 9, count).tolist())))

    @rule()
    def spill(self) -> None:
        self.drum.spill()

    @rule()
    def merge(self) -> None:
        self.drum.merge()
        assert self.drum.waiting_rows == 0

    @rule(buckets=st.integers(1, 5))
    def merge_a_little(self, buckets: int) -> None:
        self.buckets_left = buckets
        self.drum.merge()
        self.buckets_left = NEVER

    @rule(ram_bytes=RAM, data=st.data(), dies=st.booleans())
    def reopen(self, ram_bytes: int, data: st.DataObject, dies: bool) -> None:
        """Rows wait across it under the kernel that they came for, so all have their verdict first."""
        if len(self.kernels) > 1:
            self.drum.merge()
        self.leave(dies)
        self.open(ram_bytes, data)

    def leave(self, dies: bool) -> None:
        if dies:
            self.drum.spill()
            self.drum.__exit__(RuntimeError, RuntimeError("the program ends"), None)
        else:
            self.drum.close()

    @invariant()
    def nothing_is_handed_on_that_is_not_expected(self) -> None:
        assert self.handed.items() <= self.expected.items()

    def compare(self) -> None:
        assert self.handed == self.expected
        assert self.drum.rows == len(self.store)
        keys = [*self.store, 12345]
        found, values = self.drum.lookup(self.keys_of(keys))
        assert found.tolist() == [*[True] * len(self.store), 12345 in self.store]
        assert values["v"].tolist()[:-1] == list(self.store.values())

    def teardown(self) -> None:
        try:
            if hasattr(self, "drum"):
                self.drum.merge()
                self.compare()
                self.drum.close()
        finally:
            self.directory.cleanup()


class WideMachine(DrumMachine):
    """The same with keys of 128 bits."""

    key_bits = 128


class OrderedMachine(DrumMachine):
    """Operations 0 to 2 of one merge are done one after another, so it matters when a merge is: only when asked."""

    intervals = st.just(NEVER)
    kernels = ("mixed",)

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[tuple[int, int, bytes, int, int, int]] = []

    def decide(self, number: int, url: bytes, key: int, do: int, v: int, op: int = 0) -> None:
        self.waiting.append((op, number, url, key, do, v))

    def settle(self) -> None:
        """The dict's side of a merge."""
        for _, number, url, key, do, v in sorted(self.waiting):
            super().decide(number, url, key, do, v)
        self.waiting.clear()

    @rule(rows=ROWS, op=st.integers(0, 2))
    def add_op(self, rows: list[tuple[int, int, int]], op: int) -> None:
        self.add_rows(rows, op=op)

    @rule()
    def merge(self) -> None:
        self.settle()
        super().merge()

    @precondition(lambda self: False)
    @rule()
    def merge_a_little(self) -> None:
        """What comes between two parts of a merge is of the next merge in some buckets: no dict says so simply."""

    def teardown(self) -> None:
        self.settle()
        super().teardown()


class KeysMachine(RuleBasedStateMachine):
    """Nothing but keys: the way through the drum that has no rows, no order and no columns."""

    @initialize(ram_bytes=KEYS_RAM, merge_rows=INTERVALS)
    def open(self, ram_bytes: int, merge_rows: int) -> None:
        if not hasattr(self, "directory"):
            self.directory = tempfile.TemporaryDirectory(prefix="drum-keys-")
            self.asked: set[int] = set()
            self.handed: list[int] = []
        self.stop = False
        self.drum = Drum(
            self.directory.name, emit=lambda batch: self.handed.extend(batch["key"].tolist()), ram_bytes=ram_bytes,
            merge_rows=merge_rows, progress=lambda statistics: not self.stop,
        )  # fmt: skip

    @rule(keys=st.lists(KEYS, max_size=60))
    def add(self, keys: list[int]) -> None:
        self.asked.update(keys)
        self.drum.add(np.array(keys, "u8"))

    @rule(seed=st.integers(0, 99), count=st.integers(100, 1500), bits=st.sampled_from([8, 12, 40, 64]))
    def add_many(self, seed: int, count: int, bits: int) -> None:
        """Crowded keys (small differences), and keys as a hash gives them."""
        keys = np.random.default_rng(seed).integers(0, 2**bits, count, dtype="u8")
        self.asked.update(keys.tolist())
        self.drum.add(keys)

    @rule(stop=st.booleans())
    def merge(self, stop: bool) -> None:
        self.stop = stop
        self.drum.merge()
        self.stop = False

    @rule()
    def spill(self) -> None:
        self.drum.spill()

    @rule(ram_bytes=KEYS_RAM, merge_rows=INTERVALS, dies=st.booleans())
    def reopen(self, ram_bytes: int, merge_rows: int, dies: bool) -> None:
        DrumMachine.leave(self, dies)  # type: ignore[arg-type]
        self.open(ram_bytes, merge_rows)

    @invariant()
    def no_key_is_new_twice(self) -> None:
        if hasattr(self, "handed"):
            assert len(set(self.handed)) == len(self.handed)
            assert self.asked.issuperset(self.handed)

    def teardown(self) -> None:
        try:
            if hasattr(self, "drum"):
                self.drum.merge()
                assert set(self.handed) == self.asked
                assert self.drum.rows == len(self.asked)
                self.drum.close()
        finally:
            if hasattr(self, "directory"):
                self.directory.cleanup()


@pytest.fixture(autouse=True)
def buckets_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it a bucket takes a hundred thousand rows to split."""
    monkeypatch.setattr(drum.repository, "_RAM_LEAST", 0)


_SETTINGS = settings(max_examples=60, stateful_step_count=12, deadline=None)


@pytest.mark.timeout(600)  # to make a failing example small takes longer than to find it
@pytest.mark.parametrize("machine", [DrumMachine, WideMachine, OrderedMachine, KeysMachine])
def test_a_drum_is_a_dict(machine: type[RuleBasedStateMachine]) -> None:
    run_state_machine_as_test(machine, settings=_SETTINGS)
