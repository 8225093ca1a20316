"""Every mistake of a caller has its error, which names it, and nothing was done before it was found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drum import Batch, Busy, Check, CheckUpdate, Closed, Drum, Incompatible, Locked, Ragged, Result, Update

import numpy as np
import pytest
from drum_support import nothing, spread

BLOB = np.frombuffer(b"abcd", np.uint8)


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
        (spread([1]), {"op": 1.0}, TypeError, "op is a whole number, not 1.0"),
        (np.ma.array([1, 2], "u8", mask=[0, 1]), {}, TypeError, "uint64, not MaskedArray"),
        (spread([1]), {"n": np.ma.array([1], mask=[1])}, TypeError, "column 'n' must be .* not MaskedArray"),
        (spread([1]), {"url": Ragged(BLOB, np.array([0, 9]))}, ValueError, "no Ragged: .* from 0 to its 4 bytes"),
        (spread([1, 2]), {"url": Ragged(BLOB, np.array([1, 2, 4]))}, ValueError, "no Ragged: .* from 0 to its 4 bytes"),
        (spread([1, 2, 3]), {"url": Ragged(BLOB, np.array([0, 3, 1, 4]))}, ValueError, "its offsets fall"),
        (spread([1]), {"url": Ragged(BLOB, np.array([0.0, 4.0]))}, ValueError, "offsets are not a 1-d array of int64"),
        (spread([1]), {"url": Ragged(BLOB.view("u4"), np.array([0, 1]))}, ValueError, "not a 1-d array of uint8"),
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
    with pytest.raises(Locked, match="open already, in this process or another"):
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


@pytest.mark.parametrize("kind", ["int64", ">i8", "i8"])
def test_kinds_by_other_names_failed_at_the_first_merge(tmp_path: Path, kind: str) -> None:
    with Drum(tmp_path, emit=nothing, kernel=Update(["n"]), values={"n": kind}) as drum:
        drum.add(spread([1]), n=np.array([5]))
        drum.merge()
        assert drum.lookup(spread([1]))[1]["n"].tolist() == [5]
    Drum(tmp_path, emit=nothing, kernel=Update(["n"]), values={"n": "i8"}).close()


def generator(batch: Batch) -> Any:
    yield batch


async def coroutine(batch: Batch) -> None:
    pass


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"emit": 3}, TypeError, "emit is a function, not int"),
        ({"emit": None}, TypeError, "emit is a function, not NoneType"),
        ({"emit": generator}, TypeError, "emit is called and done: a function with yield or async would never run"),
        ({"emit": coroutine}, TypeError, "emit is called and done"),
        ({"progress": "often"}, TypeError, "progress is a function, not str"),
        ({"ram_bytes": 1e9}, TypeError, "ram_bytes is a whole number, not 1000000000.0"),
        ({"ram_bytes": 0}, ValueError, "ram_bytes is at least 256, not 0"),
        ({"disk_bytes": -1}, ValueError, "disk_bytes is at least 0, not -1"),
        ({"merge_rows": -1}, ValueError, "merge_rows is at least 0"),
        ({"values": ["n"]}, TypeError, "values are a dict such as"),
        ({"kernel": Update}, TypeError, "kernel is an object such as"),
        ({"kernel": CheckUpdate(values=["n"])}, ValueError, r"stores the columns \['n'\], and the drum the values {}"),
        ({"kernel": Update(["n"]), "values": {"n": "i8", "m": "i8"}}, ValueError, "and the drum the values"),
        ({"values": {1: "i8"}}, ValueError, "values are fixed-size numbers"),
        ({"values": {"op": "i8"}}, ValueError, "values are fixed-size numbers"),
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
        (lambda groups, rows: (groups, rows, groups, int), TypeError, "kernel's write is an array of bool, not int64"),
        (
            lambda groups, rows: (groups, rows, groups, bool, float),
            TypeError,
            r"kernel's values\['n'\] is float64, and the store has i8",
        ),
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
            write, emit, values, mask, kind = (*said, bool, np.int64)[:3] + (*said[3:], bool, np.int64)[:2]
            return Result(Batch({"n": np.zeros(values, kind)}), np.ones(write, mask), np.ones(emit, bool))

    drum = Drum(tmp_path, kernel=Own(), values={"n": "i8"}, emit=nothing)
    drum.add(spread([1, 2, 3, 1]))
    with pytest.raises(error, match=match):
        drum.merge()
    assert drum.statistics.waiting_rows == 4
    drum.kernel = Update(["n"])
    drum.close()


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: Update("n"), TypeError, r"such as \['n'\], not 'n'"),
        (lambda: CheckUpdate("n"), TypeError, r"such as \['n'\], not 'n'"),
        (
            lambda: Update(["n"], {"n": max}),
            TypeError,
            "ufuncs of two numbers such as np.add, not <built-in function max>",
        ),
        (lambda: Update(["n"], {"n": np.sqrt}), TypeError, "ufuncs of two numbers"),
        (lambda: Update(["n"], {"m": np.add}), ValueError, r"the column 'm', and the values are \['n'\]"),
    ],
)
def test_wrong_kernels_are_none(make: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        make()


@pytest.mark.parametrize(
    ("kernel", "name"), [(CheckUpdate(duplicates=True), "new"), (Check(), "found")], ids=["new", "found"]
)
def test_a_column_of_the_callers_was_overwritten_by_the_verdict(tmp_path: Path, kernel: Any, name: str) -> None:
    with Drum(tmp_path, kernel=kernel, emit=nothing) as drum:
        with pytest.raises(ValueError, match=f'a column cannot be named "{name}"'):
            drum.add(spread([1]), **{name: np.array([5])})  # type: ignore[arg-type]
        assert drum.waiting_rows == 0


def test_sums_of_a_narrow_column_overflowed_in_a_wide_store(tmp_path: Path) -> None:
    with Drum(tmp_path, kernel=Update(["n"], {"n": np.add}), values={"n": "i8"}, emit=nothing) as drum:
        for total in (300, 600):
            drum.add(spread([1, 1, 1]), n=np.array([100, 100, 100], np.int8))
            drum.merge()
            assert drum.lookup(spread([1]))[1]["n"].tolist() == [total]


def test_an_op_from_numpy_could_never_be_spilled(tmp_path: Path) -> None:
    with Drum(tmp_path, kernel=Check(), emit=nothing, key_bits=np.int64(64)) as drum:  # type: ignore[arg-type]
        drum.add(spread([1]), op=np.int64(1))  # type: ignore[arg-type]
        drum.spill()
    with Drum(tmp_path, kernel=Check(), emit=nothing) as drum:
        assert drum.rows == 0


def test_a_kernel_does_not_see_bytes(tmp_path: Path) -> None:
    class Reading(CheckUpdate):
        def __call__(self, *_: Any) -> Any:
            raise AssertionError("it never gets there")

    kernel = Reading()
    kernel.columns = ("url",)
    with pytest.raises(ValueError, match=r"needs numeric columns|and the drum the values"):
        Drum(tmp_path / "ours", kernel=kernel, emit=nothing)

    class Own:
        columns = ("url",)
        __call__ = Reading.__call__

    drum = Drum(tmp_path / "own", kernel=Own(), emit=nothing)
    drum.add(spread([1]), url=Ragged.from_list([b"a"]))
    with pytest.raises(TypeError, match="sees columns of numbers, and 'url' is bytes"):
        drum.merge()
    assert drum.waiting_rows == 1
    drum.close()


def test_rows_that_waited_for_another_kernel_stopped_every_merge(tmp_path: Path) -> None:
    values = {"n": "i8"}
    drum = Drum(tmp_path, kernel=Check(), values=values, emit=nothing)
    drum.add(spread([1]))
    drum.close()
    with pytest.raises(Incompatible, match=r"rows wait here for another kernel, they have no columns \['n'\]"):
        Drum(tmp_path, kernel=Update(["n"]), values=values, emit=nothing)
    with Drum(tmp_path, kernel=Check(), values=values, emit=nothing) as drum:
        drum.merge()
    Drum(tmp_path, kernel=Update(["n"]), values=values, emit=nothing).close()


def test_rows_without_a_column_of_ones_own_kernel_were_a_key_error(tmp_path: Path) -> None:
    """It named the column alone, after other buckets had been merged."""

    class Own:
        columns = ("n",)

        def __call__(self, *_: Any) -> Any:
            raise AssertionError("it never gets there")

    drum = Drum(tmp_path, kernel=Check(), emit=nothing)
    drum.add(spread([1, 2]), m=np.array([1, 2]))
    drum.spill()
    drum.close()
    drum = Drum(tmp_path, kernel=Own(), emit=nothing)
    what = rf"{tmp_path}: drum 'keys': .* wants column 'n'.*00000001.seg, section 'keys.pend.\d', 2 rows with"
    with pytest.raises(Incompatible, match=what):
        drum.merge()
    assert (drum.rows, drum.waiting_rows) == (0, 2)
    drum.close()
    with Drum(tmp_path, kernel=Check(), emit=nothing) as drum:
        assert drum.merge().emitted == 2


def test_a_bool_of_numpy_did_not_stop_a_merge(tmp_path: Path) -> None:
    drum = Drum(tmp_path, emit=nothing, ram_bytes=1 << 20, merge_rows=1 << 40, progress=lambda _: np.False_)  # type: ignore[arg-type, return-value]
    drum._repository.ram_bytes = 64 << 10
    drum.add(spread(np.arange(20_000)))
    drum.merge()
    drum._repository.ram_bytes = 64 << 10
    drum.add(spread(np.arange(20_000, 40_000)))
    assert drum.merge().left > 0
    drum.close()
