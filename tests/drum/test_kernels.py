"""Every kernel and primitive against a dict and Python's sort."""

from __future__ import annotations

from itertools import pairwise

from drum import Batch, Check, CheckUpdate, Update, kernels
from drum.kernels import group_starts, match, sort_keys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

hashes = st.integers(0, 2**64 - 1)
narrow = st.one_of(st.integers(0, 9), st.sampled_from([0, 1, 2**63, 2**64 - 1]))
clustered = st.builds(lambda high, low: (high << 60) | low, st.integers(0, 3), st.integers(0, 5))
many_keys = st.one_of(*(st.lists(kind, max_size=200) for kind in (hashes, narrow, clustered)))


@settings(max_examples=300)
@given(many_keys)
def test_sort_keys_is_a_stable_sort(keys: list[int]) -> None:
    ordered, order = sort_keys(np.array(keys, np.uint64))
    expected = sorted(range(len(keys)), key=lambda i: keys[i])
    assert order.tolist() == expected
    assert ordered.tolist() == [keys[i] for i in expected]


@pytest.mark.parametrize("repairs_max", [0, 10, 10**9])
def test_sort_keys_where_leading_bits_collide(repairs_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that agree in the bits a sort word has room for, in many runs, repeated and out of order."""
    monkeypatch.setattr(kernels, "_REPAIRS_MAX", repairs_max)
    rng = np.random.default_rng(2)
    keys = (rng.integers(0, 50, 5000).astype(np.uint64) << np.uint64(58)) | rng.integers(0, 30, 5000).astype(np.uint64)
    ordered, order = sort_keys(keys)
    expected = np.argsort(keys, kind="stable")
    assert np.array_equal(order, expected)
    assert np.array_equal(ordered, keys[expected])


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)))
def test_match_finds_common_keys(a: set[int], b: set[int]) -> None:
    left, right = (np.array(sorted(keys), np.uint64) for keys in (a, b))
    i, j = match(left, right)
    assert left[i].tolist() == right[j].tolist() == sorted(a & b)


@given(st.lists(st.integers(0, 5)))
def test_groups_of_equal_neighbours(keys: list[int]) -> None:
    ordered = np.array(sorted(keys), np.uint64)
    starts = group_starts(ordered)
    groups = [ordered[a:b].tolist() for a, b in pairwise(starts)]
    assert [key for group in groups for key in group] == sorted(keys)
    assert [group[0] for group in groups] == sorted(set(keys))
    assert all(len(set(group)) == 1 for group in groups)


class Case:
    """Sorted items with a value each, and what the store knows."""

    def __init__(self, keys: list[int], known: dict[int, int], seed: int) -> None:
        values = np.random.default_rng(seed).integers(1, 9, len(keys))
        self.known = known
        self.keys = np.array(sorted(keys), np.uint64)
        self.starts = group_starts(self.keys)
        self.groups = [int(key) for key in self.keys[self.starts[:-1]]]
        self.values = [values[a:b].tolist() for a, b in pairwise(self.starts)]
        self.found = np.array([key in known for key in self.groups], bool)
        self.stored = Batch({"v": np.array([known.get(key, 0) for key in self.groups], np.int64)})
        self.items = Batch({"key": self.keys, "op": np.zeros(len(keys), np.uint8), "v": values.astype(np.int64)})


cases = st.builds(
    Case,
    st.lists(st.integers(0, 12), max_size=40),
    st.dictionaries(st.integers(0, 12), st.integers(1, 9)),
    st.integers(0, 9999),
)


@given(cases)
def test_check_update_hands_on_the_first_of_what_was_unknown(case: Case) -> None:
    result = CheckUpdate()(case.found, Batch({}), case.items, case.starts)
    firsts = {int(case.starts[i]) for i, key in enumerate(case.groups) if key not in case.known}
    assert set(np.flatnonzero(result.emit).tolist()) == firsts
    assert result.write.tolist() == [key not in case.known for key in case.groups]
    everything = CheckUpdate(duplicates=True)(case.found, Batch({}), case.items, case.starts)
    assert everything.emit.all()
    assert set(np.flatnonzero(everything.columns["new"]).tolist()) == firsts
    with_value = CheckUpdate(values=["v"])(case.found, case.stored, case.items, case.starts)
    assert with_value.emit.tolist() == result.emit.tolist()
    assert with_value.write.all()
    assert with_value.values["v"].tolist() == [group[-1] for group in case.values]


@given(cases)
def test_check_tells_what_is_stored(case: Case) -> None:
    result = Check()(case.found, case.stored, case.items, case.starts)
    assert result.emit.all()
    assert not result.write.any()
    assert result.columns["found"].tolist() == [int(key) in case.known for key in case.keys]
    assert result.columns["v"].tolist() == [case.known.get(int(key), 0) for key in case.keys]


@given(cases)
def test_update_overwrites_or_combines(case: Case) -> None:
    last = Update(["v"])(case.found, case.stored, case.items, case.starts)
    assert last.values["v"].tolist() == [group[-1] for group in case.values]
    both = Update(["v"], {"v": np.add})(case.found, case.stored, case.items, case.starts)
    assert both.values["v"].tolist() == [case.known.get(k, 0) + sum(g) for k, g in zip(case.groups, case.values)]
    most = Update(["v"], {"v": np.maximum})(case.found, case.stored, case.items, case.starts)
    assert most.values["v"].tolist() == [max(case.known.get(k, 0), *g) for k, g in zip(case.groups, case.values)]
    assert last.write.all() and not last.emit.any()
