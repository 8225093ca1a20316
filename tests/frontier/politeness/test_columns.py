"""The structures over columns against a dict and a sorted list."""

from __future__ import annotations

from array import array
from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.frontier.politeness.columns import NONE, Counts, KeyIndex, take_numbers

KEYS = st.integers(0, 2**64 - 1)


@given(st.lists(st.tuples(st.booleans(), KEYS | st.integers(0, 40)), max_size=400))
@settings(deadline=None)
def test_an_index_finds_what_a_dict_does(steps: list[tuple[bool, int]]) -> None:
    """Rows come and go; a number that is free again gets another key."""
    keys: array[int] = array("Q")
    index, model, free = KeyIndex(keys), dict[int, int](), list[int]()
    for add, key in steps:
        if add and key not in model:
            row = free.pop() if free else len(keys)
            keys[row:row] = array("Q", [key]) if row == len(keys) else array("Q")
            keys[row] = key
            model[key] = row
            index.add(row)
        elif not add and model:
            gone = key if key in model else next(iter(model))
            row = model.pop(gone)
            index.remove(row)
            free.append(row)
        assert len(index) == len(model)
        assert index.find(key) == model.get(key, NONE)
    for key, row in model.items():
        assert index.find(key) == row


@given(st.lists(st.tuples(st.lists(KEYS | st.integers(0, 40), max_size=60), st.integers(0, 40)), max_size=12))
@settings(deadline=None)
def test_an_index_of_columns_finds_what_a_dict_does(steps: list[tuple[list[int], int]]) -> None:
    """Many at once come in, some go again, one by one or together; all are looked for together."""
    keys: array[int] = array("Q")
    index, model, free = KeyIndex(keys), dict[int, int](), array("i")
    for wanted, gone in steps:
        new = [key for key in dict.fromkeys(wanted) if key not in model]
        rows = take_numbers(free, len(keys), len(new))
        keys.extend([0] * (max([*rows.tolist(), -1]) + 1 - len(keys)))
        for key, row in zip(new, rows.tolist(), strict=True):
            keys[row] = key
            model[key] = row
        if new:
            index.add_many(rows)
        looked_for = [*wanted, *range(0, 60, 7), *model]
        assert index.find_many(np.array(looked_for, np.uint64)).tolist() == [model.get(k, NONE) for k in looked_for]
        left = list(model)[:gone]
        if gone % 2:
            index.remove_many(np.array([model[key] for key in left], np.int64))
        for key in left:
            if gone % 2 == 0:
                index.remove(model[key])
            free.append(model.pop(key))
        assert len(index) == len(model) and all(index.find(key) == row for key, row in model.items())
    assert len(set(model.values()) | set(free)) == len(keys), "a number was given twice, or lost"


def test_few_rows_of_a_large_index_go_together_as_one_by_one() -> None:
    keys = array("Q", range(1, 1001))
    index = KeyIndex(keys)
    index.add_many(np.arange(1000))
    index.remove_many(np.arange(0, 1000, 50))
    assert [index.find(key) for key in keys] == [row if row % 50 else NONE for row in range(1000)]
    assert len(index) == 980


def test_an_index_of_a_hundred_thousand_keys_that_are_alike_in_their_low_bits() -> None:
    keys = array("Q", (number << 40 for number in range(100_000)))
    index = KeyIndex(keys)
    for row in range(len(keys)):
        index.add(row)
    assert all(index.find(number << 40) == number for number in range(0, 100_000, 37))
    assert index.find(1) == NONE
    for row in range(0, 100_000, 2):
        index.remove(row)
    assert all(index.find(number << 40) == (number if number % 2 else NONE) for number in range(0, 100_000, 37))


@given(st.lists(st.tuples(st.lists(KEYS | st.integers(0, 9), max_size=30), st.integers(0, 30)), max_size=12))
@settings(max_examples=50, deadline=None)
def test_counts_are_those_of_a_counter(steps: list[tuple[list[int], int]]) -> None:
    """With few keys and many cells no two fall together; with many no count is too low."""
    counts, crowded, model = Counts(1 << 22), Counts(16), Counter[int]()
    crowded._shift = 62  # four cells
    for add, left in steps:
        for each in (counts, crowded):
            each.add(np.array(add, np.uint64))
        model.update(add)
        for key in list(model.elements())[:left]:
            model[key] -= 1
            counts.remove(key)
            crowded.remove(key)
        keys = np.array(list(model), np.uint64)
        assert counts.of(keys).tolist() == list(model.values())
        assert all(counts.above(key, count - 1) and not counts.above(key, count) for key, count in model.items())
        assert all(found >= model[key] for key, found in zip(model, crowded.of(keys).tolist(), strict=True))
