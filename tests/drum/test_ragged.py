"""Columns against lists of Python values."""

import gc
import weakref
from itertools import accumulate

from drum import Batch, Ragged
from drum.codec import raw_bytes

import numpy as np
import pytest
from drum_support import batches, rows_of
from hypothesis import given
from hypothesis import strategies as st

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


@given(st.lists(strings, min_size=1, max_size=4), st.data())
def test_a_view_of_views_is_its_list_however_it_was_made(lists: list[list[bytes]], data: st.DataObject) -> None:
    columns = [(Ragged.from_list(rows), rows) for rows in lists]
    for _ in range(data.draw(st.integers(1, 8))):
        column, rows = columns[data.draw(st.integers(0, len(columns) - 1))]
        step = data.draw(st.sampled_from(["take", "pick", "filter", "slice", "concat"]))
        if step in ("take", "pick"):
            index = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=50)) if rows else []
            made = getattr(column, step)(np.array(index, np.int64)), [rows[i] for i in index]
        elif step == "filter":
            mask = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
            made = column.filter(np.array(mask, bool)), [row for row, kept in zip(rows, mask) if kept]
        elif step == "slice":
            start = data.draw(st.integers(0, len(rows)))
            stop = data.draw(st.integers(start, len(rows)))
            made = column.slice(start, stop), rows[start:stop]
        else:
            parts = data.draw(st.lists(st.sampled_from(columns), min_size=1, max_size=4))
            made = Ragged.concat([part for part, _ in parts]), [row for _, rows in parts for row in rows]
        columns.append(made)
    for column, rows in columns:
        text = b"".join(rows)
        assert column.tolist() == rows
        assert [column[i] for i in range(len(rows))] == rows
        assert column.lengths.tolist() == [len(row) for row in rows]
        assert column.blob.tobytes() == text
        assert column.offsets.tolist() == list(accumulate(map(len, rows), initial=0))
        assert column.heads(column.lengths // 2).tolist() == [row[: len(row) // 2] for row in rows]
        assert column.nbytes == len(text) + 8 * len(rows) + 8
        raw, kept = raw_bytes(column)
        assert raw.tobytes() == np.array([len(row) for row in rows], f"<u{kept or 4}").tobytes() + text


def test_what_takes_little_of_a_column_does_not_keep_it_alive() -> None:
    column = Ragged.from_list([b"x" * 100] * 1000)
    whole, part = weakref.ref(column.blob), column.take(np.arange(0, 1000, 3))
    half = Ragged.concat([column.take(np.arange(600)), Ragged.from_list([b"y"])])
    del column
    gc.collect()
    assert whole() is None
    assert len(part) == 334
    assert len(half) == 601


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


def test_a_batch_under_another_key_and_back_is_the_same() -> None:
    rows = Batch({"key": np.array([1, 2], "u8"), "site": np.array([7, 8], "u8"), "text": Ragged.from_list([b"a", b""])})
    other = rows.rekeyed("site", keep="url")
    assert other["key"].tolist() == [7, 8] and other["url"].tolist() == [1, 2] and "site" not in other
    back = other.rekeyed("url", keep="site")
    assert {name: back[name].tolist() for name in back.columns} == {n: rows[n].tolist() for n in rows.columns}


def test_a_column_that_is_not_there_is_named_beside_those_that_are() -> None:
    """It was a bare KeyError, out of a kernel that read a column its drum has no `values` for."""
    batch = Batch({"amount": np.zeros(2, np.int64)})
    with pytest.raises(KeyError, match=r"no column 'balance'; there are: amount .*`values`"):
        batch["balance"]
