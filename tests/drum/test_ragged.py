"""Columns against lists of Python values."""

import numpy as np
import pytest
from drum_support import batches, rows_of
from hypothesis import given
from hypothesis import strategies as st

from drum import Batch, Ragged

strings = st.lists(st.binary(max_size=40), max_size=30)


@given(strings)
def test_a_ragged_column_is_its_list(rows: list[bytes]) -> None:
    column = Ragged.from_list(rows)
    assert column.tolist() == rows
    assert [column[i] for i in range(len(rows))] == rows
    assert len(column) == len(rows)
    assert column.lengths.tolist() == [len(row) for row in rows]
    with pytest.raises(IndexError):
        column[len(rows)]


@given(strings, st.data())
def test_take_filter_slice_and_concat(rows: list[bytes], data: st.DataObject) -> None:
    column = Ragged.from_list(rows)
    index = data.draw(st.lists(st.integers(0, max(len(rows) - 1, 0)), max_size=50 if rows else 0))
    assert column.take(np.array(index, np.int64)).tolist() == [rows[i] for i in index]
    mask = np.array([i in index for i in range(len(rows))], bool)
    assert column.filter(mask).tolist() == [row for row, kept in zip(rows, mask) if kept]
    start = data.draw(st.integers(0, len(rows)))
    stop = data.draw(st.integers(start, len(rows)))
    part = column.slice(start, stop)
    assert part.tolist() == rows[start:stop]
    assert part.offsets[0] == 0
    assert Ragged.concat([column.slice(0, start), part, column.slice(stop, len(rows))]).tolist() == rows


def test_many_rows_of_every_length_are_gathered_exactly() -> None:
    rng = np.random.default_rng(1)
    rows = [rng.bytes(int(n)) for n in rng.integers(0, 300, 2000)]
    column = Ragged.from_list(rows)
    index = rng.integers(0, len(rows), 3000)
    assert column.take(index).tolist() == [rows[i] for i in index]
    assert column.slice(100, 1900).take(np.arange(1800)).tolist() == rows[100:1900]


@given(batches(), st.data())
def test_a_batch_moves_whole_rows(batch: Batch, data: st.DataObject) -> None:
    rows = rows_of(batch)
    order = np.array(data.draw(st.permutations(range(batch.rows))), np.int64)
    assert rows_of(batch.take(order)) == [rows[i] for i in order]
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=batch.rows, max_size=batch.rows)), bool)
    assert rows_of(batch.filter(mask)) == [row for row, kept in zip(rows, mask) if kept]
    assert rows_of(Batch.concat([batch, batch.slice(0, 3), Batch.empty(batch.schema)])) == rows + rows[:3]
    assert Batch.empty(batch.schema).schema == batch.schema


def test_a_batch_refuses_columns_of_different_length() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        Batch({"a": np.zeros(2), "b": np.zeros(3)})
    with pytest.raises(ValueError, match="columns differ"):
        Batch.concat([Batch({"a": np.zeros(2)}), Batch({"b": np.zeros(2)})])
