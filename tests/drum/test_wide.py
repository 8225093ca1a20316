"""128-bit keys: exact even where high halves collide, which in these tests is nearly always."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drum import Batch, Check, Drum, Incompatible, Update, keys_of, wide

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

half = st.one_of(st.integers(0, 5), st.sampled_from([2**63, 2**64 - 1]))
pair = st.tuples(half, half)


def array(pairs: list[tuple[int, int]]) -> Any:
    return np.array(pairs, np.uint64).reshape(len(pairs), 2)


@settings(max_examples=200)
@given(a=st.sets(pair), b=st.sets(pair), rows=st.lists(pair), at=pair)
def test_arithmetic_is_that_of_pairs(
    a: set[tuple[int, int]], b: set[tuple[int, int]], rows: list[tuple[int, int]], at: tuple[int, int]
) -> None:
    left, right, any_ = array(sorted(a)), array(sorted(b)), array(rows)
    i, j = wide.match(left[:, 0], left[:, 1], right[:, 0], right[:, 1])
    assert {tuple(left[k].tolist()) for k in i} == a & b
    assert left[i].tolist() == right[j].tolist()
    order = wide.order_of(any_[:, 0].copy(), any_[:, 1].copy())
    assert order.tolist() == sorted(range(len(rows)), key=lambda k: (rows[k], k))
    batch = Batch({"key": any_[:, 0], "low": any_[:, 1], "n": np.arange(len(rows))})
    kept = wide.newest(batch)
    assert kept["n"].tolist() == [rows.index(key) for key in sorted(set(rows))]
    assert wide.cut(Batch({"key": left[:, 0], "low": left[:, 1]}), *at) == sum(key <= at for key in a)


@settings(max_examples=50, deadline=None)
@given(
    calls=st.lists(st.lists(pair, max_size=25), max_size=10),
    ends=st.lists(st.sampled_from(["nothing", "spill", "merge", "close"]), min_size=10, max_size=10),
    block_rows=st.sampled_from([2, 65_536]), ram_bytes=st.sampled_from([4096, 1 << 26]),
)  # fmt: skip
def test_every_wide_key_is_new_once(
    tmp_path_factory: pytest.TempPathFactory, calls: list[list[tuple[int, int]]], ends: list[str], block_rows: int,
    ram_bytes: int,
) -> None:  # fmt: skip
    path = tmp_path_factory.mktemp("wide")
    handed: list[tuple[int, int, int]] = []

    def opened() -> Drum:
        drum = Drum(
            path, key_bits=128, ram_bytes=ram_bytes,
            emit=lambda b: handed.extend(zip(b["key"].tolist(), b["low"].tolist(), b["id"].tolist())),
        )  # fmt: skip
        if ram_bytes == 4096:
            drum._repository.ram_bytes = 600
        return drum

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("drum.writer.BLOCK_BYTES", 16 * block_rows)  # high halves that go on in the next block
        drum = opened()
        model: dict[tuple[int, int], int] = {}
        first = 0
        for pairs, end in zip(calls, ends):
            drum.add(array(pairs), id=np.arange(first, first + len(pairs)))
            for number, key in enumerate(pairs, first):
                model.setdefault(key, number)
            first += len(pairs)
            if end == "spill":
                drum.spill()
            elif end == "merge":
                drum.merge()
            elif end == "close":
                drum.close()
                drum = opened()
        drum.merge()
        assert sorted(handed) == sorted((*key, number) for key, number in model.items())
        assert drum.rows == len(model)
        asked = sorted(model) + [(77, 77), (0, 77)]
        assert drum.lookup(array(asked))[0].tolist() == [key in model for key in asked]
        drum.close()


def test_values_of_wide_keys(tmp_path: Path) -> None:
    """Two keys that differ in the low half alone are counted apart, over several slices."""
    keys = array([(7, 1), (7, 2), (7, 1)])
    with Drum(tmp_path, key_bits=128, kernel=Update(["n"], {"n": np.add}), values={"n": "i8"}, emit=print) as drum:
        for _ in range(3):
            drum.add(keys, n=np.array([1, 10, 100]))
            drum.merge()
        found, values = drum.lookup(array([(7, 1), (7, 2), (7, 3), (7, 1)]))
        assert found.tolist() == [True, True, False, True]
        assert values["n"].tolist() == [303, 30, 0, 303]
    told: list[bool] = []
    with Drum(
        tmp_path, key_bits=128, kernel=Check(), values={"n": "i8"}, emit=lambda b: told.extend(b["found"].tolist())
    ) as drum:
        drum.add(array([(7, 3), (7, 2)]))
    assert sorted(told) == [False, True]


def test_wide_drums_and_keys_are_told_apart(tmp_path: Path) -> None:
    keys = keys_of([b"a", b"b"], key_bits=128)
    assert keys.shape == (2, 2)
    assert keys.dtype == np.uint64
    assert keys.tolist()[0] == [0xA96FAF705AF16834, 0xE6C632B61E964E1F], "XXH3_128bits of one byte, seed 0"
    with Drum(tmp_path, key_bits=128, emit=lambda batch: None) as drum:
        drum.add(keys)
        with pytest.raises(TypeError, match=r"uint64\[n, 2\], not uint64\[2\]"):
            drum.add(keys[:, 0])
        with pytest.raises(ValueError, match='named "low"'):
            drum.add(keys, low=np.arange(2))
    with pytest.raises(Incompatible, match="'key_bits': 128"):
        Drum(tmp_path, emit=lambda batch: None)
    with pytest.raises(ValueError, match="64 or 128, not 32"):
        Drum(tmp_path, key_bits=32, emit=lambda batch: None)
