"""The front door under misuse and interruption: a named error for each mistake, statistics while a merge runs, merges
that stop between buckets and lose nothing, several operations in one stream."""

from __future__ import annotations

import errno
import gc
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drum import (
    Batch,
    Busy,
    CheckUpdate,
    Closed,
    Damaged,
    Drum,
    Files,
    Incompatible,
    Locked,
    Ragged,
    Result,
    Statistics,
    Update,
)

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def spread(keys: Any) -> Any:
    return np.asarray(keys, np.uint64) * GOLDEN


def nothing(batch: Batch) -> None:
    pass


@pytest.mark.parametrize(
    ("keys", "aux", "error", "match"),
    [
        ([1, 2], {}, TypeError, "1-d numpy array of uint64, not list"),
        (np.arange(3), {}, TypeError, r"uint64, not int64\[3\]"),
        (np.zeros((2, 2), np.uint64), {}, TypeError, r"uint64\[2, 2\]"),
        (spread([1]), {"url": [b"a"]}, TypeError, "column 'url' must be .* not list"),
        (spread([1]), {"url": np.array(["a"])}, TypeError, "column 'url'"),
        (spread([1]), {"url": Ragged.from_list([b"a", b"b"])}, ValueError, "differ in length"),
        (spread([1]), {"key": np.array([1])}, ValueError, 'named "key"'),
        (spread([1]), {"op": 256}, ValueError, "op is 0 to 255, not 256"),
        (spread([1]), {"op": 1}, ValueError, "knows one operation"),
    ],
)
def test_wrong_rows_are_refused_before_they_do_anything(
    tmp_path: Path, keys: Any, aux: dict[str, Any], error: type[Exception], match: str
) -> None:
    with Drum(tmp_path, emit=nothing) as drum:
        with pytest.raises(error, match=match):
            drum.add(keys, **aux)
        assert drum.statistics.asked == 0
        drum.add(spread([1, 2, 1]))
        with pytest.raises(ValueError, match="every add has the same columns"):
            drum.add(spread([3]), id=np.array([1]))
        drum.merge()
        assert drum.rows == 2


def test_columns_a_kernel_needs_are_asked_for_at_once(tmp_path: Path) -> None:
    with Drum(tmp_path, kernel=Update(["n"]), values={"n": "i8"}, emit=nothing) as drum:
        with pytest.raises(ValueError, match=r"needs numeric columns \['n'\]"):
            drum.add(spread([1]), m=np.array([1]))
        with pytest.raises(TypeError, match="column 'n' is f8, which does not fit the i8 that the drum stores"):
            drum.add(spread([1]), n=np.array([5.5]))
        drum.add(spread([1]), n=np.array([5]))
        drum.merge()
        assert drum.lookup(spread([1]))[1]["n"].tolist() == [5]
        with pytest.raises(TypeError, match="uint64"):
            drum.lookup(np.array([1.5]))


@pytest.mark.parametrize("values", [{"n": "bytes"}, {"key": "u8"}, {"n": "nonsense"}, {"n": "U3"}])
def test_values_are_numbers(tmp_path: Path, values: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="values are fixed-size numbers"):
        Drum(tmp_path, emit=nothing, values=values)


def test_a_closed_a_locked_and_an_incompatible_drum(tmp_path: Path) -> None:
    drum = Drum(tmp_path, kernel=Update(["n"]), values={"n": "i8"}, emit=nothing)
    with pytest.raises(Locked, match="open in another process"):
        Drum(tmp_path, emit=nothing)
    drum.add(spread([1]), n=np.array([1]))
    drum.close()
    drum.close()
    for use in (
        drum.merge,
        drum.spill,
        drum.__enter__,
        lambda: drum.add(spread([1])),
        lambda: drum.lookup(spread([1])),
    ):
        with pytest.raises(Closed, match="is closed"):
            use()
    with pytest.raises(Incompatible, match=r"made with \{'values': \{'n': 'i8'\}.*, not \{'values': \{\}"):
        Drum(tmp_path, emit=nothing)
    Drum(tmp_path, kernel=Update(["n"]), values={"n": "i8"}, emit=nothing).close()


def buckets_of(drum: Drum) -> int:
    return len(drum._repository.buckets)


def tight(path: Path, **options: Any) -> Drum:
    """A drum whose buckets hold a few thousand keys."""
    drum = Drum(path, ram_bytes=1 << 20, merge_rows=1 << 40, **options)
    drum._repository.ram_bytes = 64 << 10
    return drum


def test_statistics_are_readable_while_it_merges(tmp_path: Path) -> None:
    heard: list[Statistics] = []
    other: list[Statistics] = []

    def progress(statistics: Statistics) -> None:
        heard.append(statistics)
        thread = threading.Thread(target=lambda: other.append(drum.statistics))
        thread.start()
        thread.join()

    drum = tight(tmp_path, emit=nothing, progress=progress)
    drum.add(spread(np.arange(20_000)))
    drum.add(spread(np.arange(20_000)))
    drum.merge()
    drum._repository.ram_bytes = 64 << 10
    heard.clear()
    other.clear()
    drum.add(spread(np.arange(10_000, 30_000)))
    drum.merge()
    assert len(heard) >= 4
    assert heard == other
    assert [one.buckets_done for one in heard] == sorted({one.buckets_done for one in heard})
    assert all(one.merging and 0 < one.buckets_done < one.buckets for one in heard)
    assert all(one.waiting_rows == heard[0].waiting_rows <= 20_000 for one in heard)
    after = drum.statistics
    assert (after.rows, after.waiting_rows, after.merging, after.merges) == (30_000, 0, False, 2)
    assert after.asked == 60_000
    assert after.repeats > 20_000, "the cache knows the last keys"
    assert after.disk_bytes == sum(path.stat().st_size for path in tmp_path.glob("*.seg"))
    drum.close()


@settings(max_examples=25, deadline=None)
@given(
    calls=st.lists(st.tuples(st.integers(0, 9000), st.integers(1, 6000)), min_size=1, max_size=5),
    stops=st.lists(st.integers(1, 9), min_size=30, max_size=30),
    aux=st.booleans(), spilled=st.booleans(), reopen=st.booleans(),
)  # fmt: skip
def test_an_interrupted_merge_goes_on_where_it_stopped(
    tmp_path_factory: pytest.TempPathFactory, calls: list[tuple[int, int]], stops: list[int], aux: bool, spilled: bool,
    reopen: bool,
) -> None:  # fmt: skip
    path = tmp_path_factory.mktemp("drum")
    handed: list[int] = []
    stop = iter(stops)
    left = [next(stop)]

    def progress(statistics: Statistics) -> bool:
        left[0] -= 1
        return left[0] > 0

    def opened() -> Drum:
        return tight(path, emit=lambda batch: handed.extend(batch["key"].tolist()), progress=progress)

    drum = opened()
    expected: set[int] = set()
    for start, rows in calls:
        keys = spread(np.arange(start, start + rows))
        expected |= set(keys.tolist())
        drum.add(keys, **({"id": np.arange(rows)} if aux else {}))
        if spilled:
            drum.spill()
        drum._repository.ram_bytes = 64 << 10
        drum.merge()
        left[0] = next(stop)
        if reopen:
            drum.close()
            drum = opened()
    left[0] = 10**9
    while drum.waiting_rows:
        drum.merge()
    assert sorted(handed) == sorted(expected)
    assert drum.rows == len(expected)
    drum.close()


def test_interrupt_from_another_thread_stops_at_a_bucket(tmp_path: Path) -> None:
    drum = tight(tmp_path, emit=nothing)
    drum.add(spread(np.arange(30_000)))
    drum.merge()
    drum._repository.ram_bytes = 64 << 10
    assert buckets_of(drum) > 4
    drum.emit = lambda batch: drum.interrupt()
    drum.add(spread(np.arange(30_000, 60_000)))
    stats = drum.merge()
    assert stats.left == buckets_of(drum) - stats.buckets > 0
    assert drum.waiting_rows == 30_000 - stats.rows > 0
    drum.emit = nothing
    assert drum.merge().left == 0
    assert drum.rows == 60_000
    drum.close()


class Account:
    """Op 0 pays in, op 1 asks for the balance; all of op 0 comes first."""

    columns = ("amount",)

    def __call__(self, found: Any, stored: Batch, items: Batch, starts: Any) -> Result:
        group = np.repeat(np.arange(len(found)), np.diff(starts))
        paid = np.bincount(group, weights=items["amount"] * (items["op"] == 0), minlength=len(found))
        balance = stored["balance"] + paid.astype("i8")
        asked = items["op"] == 1
        return Result(Batch({"balance": balance}), np.ones(len(found), bool), asked, {"balance": balance[group]})


@settings(max_examples=25, deadline=None)
@given(
    calls=st.lists(st.tuples(st.integers(0, 1), st.lists(st.integers(0, 30), max_size=30), st.booleans()), max_size=12),
    ram_bytes=st.sampled_from([4096, 1 << 20]), ends=st.sampled_from(["merge", "reopen"]),
)  # fmt: skip
def test_operations_mixed_in_one_stream(
    tmp_path_factory: pytest.TempPathFactory, calls: list[tuple[int, list[int], bool]], ram_bytes: int, ends: str
) -> None:
    path = tmp_path_factory.mktemp("bank")
    told: list[tuple[int, int]] = []

    def opened() -> Drum:
        return Drum(
            path, kernel=Account(), values={"balance": "i8"}, ram_bytes=ram_bytes, merge_rows=1 << 40,
            emit=lambda batch: told.extend(zip(batch["key"].tolist(), batch["balance"].tolist())),
        )  # fmt: skip

    model: dict[int, int] = {}
    asked: list[int] = []
    expected: list[tuple[int, int]] = []
    drum = opened()
    for op, keys, settle in [*calls, (1, [], True)]:
        amount = np.arange(len(keys)) % 7 if op == 0 else np.zeros(len(keys), np.int64)
        drum.add(spread(keys), op=op, amount=amount)
        for key, value in zip(spread(keys).tolist(), amount.tolist()):
            if op == 0:
                model[key] = model.get(key, 0) + value
            else:
                asked.append(key)
        if settle:
            if ends == "reopen":
                drum.close()
                drum = opened()
            drum.merge()
            expected += [(key, model.setdefault(key, 0)) for key in asked]
            asked = []
    assert sorted(told) == sorted(expected)
    assert drum.rows == len(model)
    drum.close()


def test_a_long_merge_commits_on_its_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a bucket's merge replaced goes before the next ones are written: the disk never holds two whole stores."""
    monkeypatch.setattr("drum.drum.COMMIT_BYTES", 8 << 10)
    sizes: list[int] = []

    def progress(statistics: Statistics) -> None:
        sizes.append(sum(path.stat().st_size for path in tmp_path.glob("*.seg*")))

    handed: list[int] = []
    drum = tight(tmp_path, emit=lambda batch: handed.extend(batch["key"].tolist()), progress=progress)
    drum.add(spread(np.arange(60_000)))
    for _ in range(9):
        drum._repository.ram_bytes = 64 << 10
        drum.merge()
        drum.add(spread(np.arange(drum.rows, drum.rows + 10_000)))
        drum.spill()
    before = drum._catalog.number
    at_rest = drum.statistics.disk_bytes
    sizes.clear()
    drum.merge()
    assert drum._catalog.number - before >= 3
    assert max(sizes) <= 1.5 * at_rest
    assert sorted(handed) == sorted(spread(np.arange(150_000)).tolist())
    drum.close()


def test_the_rest_of_an_add_that_failed_was_taken_for_seen_and_lost(tmp_path: Path) -> None:
    """The cache knew all keys of the call, the buffer only those before the failure: adding them again lost them."""
    new: list[int] = []
    failing = [True]

    def emit(batch: Batch) -> None:
        if failing[0]:
            raise OSError("no room")
        new.extend(batch["key"].tolist())

    with Drum(tmp_path, emit=emit, ram_bytes=1 << 16, merge_rows=100) as drum:
        keys = spread(range(6000))  # more than its buffer holds
        with pytest.raises(OSError, match="no room"):
            drum.add(keys)
        assert drum.waiting_rows == 6000
        keys[:] = 0  # the caller's again
        failing[0] = False
        drum.add(spread(range(5000, 7000)))
    assert sorted(new) == sorted(spread(range(7000)).tolist())


def test_rows_added_by_emit_were_lost_with_those_merged(tmp_path: Path) -> None:
    drum = Drum(tmp_path, emit=lambda batch: drum.add(batch["key"] + np.uint64(1)))
    drum.add(spread([1, 2]))
    for use in (drum.merge, drum.close):
        drum.emit = lambda _, use=use: use()  # type: ignore[misc]
        with pytest.raises(Busy, match="within a merge"):
            drum.merge()
    drum.emit = lambda batch: drum.add(batch["key"] + np.uint64(1))
    with pytest.raises(Busy, match="within a merge"):
        drum.merge()
    assert drum.waiting_rows == 2
    drum.emit = nothing
    drum.merge()
    assert drum.rows == 2
    drum.close()


def test_the_lock_outlived_a_with_whose_merge_failed(tmp_path: Path) -> None:
    def fail(batch: Batch) -> None:
        raise RuntimeError("consumer")

    with pytest.raises(RuntimeError, match="consumer"), Drum(tmp_path, emit=fail) as drum:
        drum.add(spread([1]))
    Drum(tmp_path, emit=nothing).close()


def test_the_lock_outlived_an_open_that_failed(tmp_path: Path) -> None:
    with Drum(tmp_path, emit=nothing) as drum:
        drum.add(spread([1]))
    (store,) = tmp_path.glob("*.seg")
    away = store.rename(tmp_path / "away")
    with pytest.raises(Damaged, match="seg"):
        Drum(tmp_path, emit=nothing)
    away.rename(store)
    Drum(tmp_path, emit=nothing).close()


class NoCommit(Files):
    """A disk with room for segments and none for the line that names them."""

    full = False

    def write(self, handle: int, data: Any) -> None:
        if self.full and b'"put"' in bytes(data):
            raise OSError(errno.ENOSPC, "No space")
        super().write(handle, data)


def test_a_segment_whose_commit_failed_kept_the_disk_full(tmp_path: Path) -> None:
    files = NoCommit()
    with Drum(tmp_path, emit=nothing, files=files) as drum:
        drum.add(spread([1]))
        files.full = True
        with pytest.raises(OSError, match="No space"):
            drum.merge()
        assert not list(tmp_path.glob("*.seg*"))
        files.full = False
        drum.merge()
        assert drum.rows == 1


def test_every_spill_kept_its_file_open(tmp_path: Path) -> None:
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    with Drum(tmp_path, emit=nothing, merge_rows=1000) as drum:
        for number in range(50):
            drum.add(spread([number]))
            drum.spill()
        gc.collect()  # a writer and its sections know each other
        assert len(os.listdir("/proc/self/fd")) < before + 10


@pytest.mark.parametrize("kind", ["int64", ">i8", "i8"])
def test_kinds_by_other_names_failed_at_the_first_merge(tmp_path: Path, kind: str) -> None:
    with Drum(tmp_path, emit=nothing, kernel=Update(["n"]), values={"n": kind}) as drum:
        drum.add(spread([1]), n=np.array([5]))
        drum.merge()
        assert drum.lookup(spread([1]))[1]["n"].tolist() == [5]
    Drum(tmp_path, emit=nothing, kernel=Update(["n"]), values={"n": "i8"}).close()


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"emit": 3}, TypeError, "emit is a function, not int"),
        ({"emit": None}, TypeError, "emit is a function, not NoneType"),
        ({"progress": "often"}, TypeError, "progress is a function, not str"),
        ({"ram_bytes": 1e9}, TypeError, "ram_bytes is a whole number, not 1000000000.0"),
        ({"ram_bytes": 0}, ValueError, "ram_bytes is at least 256, not 0"),
        ({"disk_bytes": -1}, ValueError, "disk_bytes is at least 0, not -1"),
        ({"merge_rows": -1}, ValueError, "merge_rows is at least 0"),
        ({"values": ["n"]}, TypeError, "values are a dict such as"),
        ({"kernel": Update}, TypeError, "kernel is an object such as"),
        ({"kernel": CheckUpdate(values=["n"])}, ValueError, r"stores the columns \['n'\], and the drum the values {}"),
        ({"kernel": Update(["n"]), "values": {"n": "i8", "m": "i8"}}, ValueError, "and the drum the values"),
        ({"key_bits": 32}, ValueError, "key_bits is 64 or 128, not 32"),
    ],
)
def test_wrong_options_leave_nothing_behind(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        Drum(tmp_path / "seen", **{"emit": nothing, **options})
    assert not (tmp_path / "seen").exists()


@pytest.mark.parametrize(
    ("answer", "error", "match"),
    [
        (lambda groups, rows: None, TypeError, "a kernel returns a Result, not NoneType"),
        (lambda groups, rows: (groups, rows - 1, groups), ValueError, r"kernel's emit has 3 rows where 4 were asked"),
        (lambda groups, rows: (rows, rows, groups), ValueError, r"kernel's write has 4 rows where 3 were asked"),
        (lambda groups, rows: (groups, rows, rows), ValueError, r"kernel's values\['n'\] has 4 rows where 3 were"),
    ],
)
def test_what_a_kernel_of_ones_own_answers_is_checked(
    tmp_path: Path, answer: Any, error: type[Exception], match: str
) -> None:
    class Own:
        columns: tuple[str, ...] = ()

        def __call__(self, found: Any, stored: Any, items: Batch, starts: Any) -> Any:
            said = answer(len(found), items.rows)
            if said is None:
                return None
            write, emit, values = said
            return Result(Batch({"n": np.zeros(values, np.int64)}), np.ones(write, bool), np.ones(emit, bool))

    drum = Drum(tmp_path, kernel=Own(), values={"n": "i8"}, emit=nothing)
    drum.add(spread([1, 2, 3, 1]))
    with pytest.raises(error, match=match):
        drum.merge()
    assert drum.statistics.waiting_rows == 4
    drum.kernel = Update(["n"])
    drum.close()


def test_a_file_that_is_gone_is_damage_by_name(tmp_path: Path) -> None:
    with Drum(tmp_path, emit=nothing) as drum:
        drum.add(spread(np.arange(100)))
    (segment,) = tmp_path.glob("*.seg")
    segment.unlink()
    with pytest.raises(Damaged, match=f"{segment.name}: .* it is missing"):
        Drum(tmp_path, emit=nothing)


def test_a_lost_catalogue_deleted_every_segment_at_the_next_opening(tmp_path: Path) -> None:
    with Drum(tmp_path, emit=nothing) as drum:
        drum.add(spread(np.arange(100)))
    (segment,) = tmp_path.glob("*.seg")
    for log in tmp_path.glob("catalog-*.log"):
        log.unlink()
    for _ in range(2):
        with pytest.raises(Damaged, match=f"no catalogue, and 1 files of one .{segment.name}"):
            Drum(tmp_path, emit=nothing)
        assert segment.exists()
