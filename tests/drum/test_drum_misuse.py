"""Every mistake of a caller has its error, which names it, and nothing was done before it was found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drum_support import nothing, spread

from drum import Batch, Busy, CheckUpdate, Closed, Drum, Incompatible, Locked, Ragged, Result, Update


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
