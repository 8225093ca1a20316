"""The queue against a list: what is taken is exactly what is due, once, across commits and reopening."""

from __future__ import annotations

from pathlib import Path

from drum import BYTES, Batch, Fifo, Ragged
from drum.fifo import first_entries

import numpy as np
import pytest
from drum_support import Desk, rows_of
from hypothesis import given, settings
from hypothesis import strategies as st

steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.lists(st.integers(0, 9), max_size=12)),
        st.tuples(st.just("take"), st.integers(0, 10)),
        st.tuples(st.just("drop"), st.integers(0, 20)),
        st.tuples(st.just("tier"), st.just(0)),
        st.tuples(st.just("reopen"), st.just(0)),
    ),
    max_size=40,
)


def batch_of(labels: list[int], first: int) -> Batch:
    ids = np.arange(first, first + len(labels), dtype=np.uint32)
    return Batch({"id": ids, "due": np.array(labels, np.uint32), "url": Ragged.from_list([b"u%d" % i for i in ids])})


@settings(max_examples=60, deadline=None)
@given(steps, st.sampled_from((None, 1, 3)))
def test_a_queue_is_a_list_taken_by_label(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, object]], labels_max: int | None
) -> None:
    desk = Desk(tmp_path_factory.mktemp("fifo"))
    fifo = Fifo("later", desk.catalog, desk.pool, "due", labels_max=labels_max)
    model: list[tuple[object, ...]] = []
    first = 0
    for step, value in steps:
        if step == "reopen":
            desk.reopen()
            fifo = Fifo("later", desk.catalog, desk.pool, "due", labels_max=labels_max)
        with desk.turn() as turn:
            if step == "put":
                batch = batch_of(value, first)  # type: ignore[arg-type]
                first += batch.rows
                model += rows_of(batch)
                fifo.put(turn.writer, turn.edits, batch)
            elif step == "take":
                due = [row for row in model if row[1] <= value]  # type: ignore[operator]
                model = [row for row in model if row[1] > value]  # type: ignore[operator]
                taken = [row for batch in fifo.take_through(turn.edits, value) for row in rows_of(batch)]  # type: ignore[arg-type]
                assert sorted(taken) == sorted(due)
            elif step == "drop":
                assert isinstance(value, int)
                last = sorted(row[1] for row in model)[-value:] if value else []  # type: ignore[type-var]
                late = [row for row in model if last and row[1] >= last[0]]  # type: ignore[operator]
                gone: list[Batch] = []
                fifo.drop_last(turn.writer, turn.edits, value, gone.append)
                dropped = [row for batch in gone for row in rows_of(batch)]
                model = [row for row in model if row not in dropped]
                if labels_max is None:
                    assert sorted(dropped) == sorted(late)
                else:  # whole groups, and the last ones
                    assert all(row[1] > other[1] for row in dropped for other in model)  # type: ignore[operator]
            elif step == "tier":
                fifo.tier(turn.writer, turn.edits)
        labels = [row[1] for row in model]
        assert fifo.rows == len(model)
        counted = dict(zip(*(part.tolist() for part in fifo.counts())))
        if labels_max is None:
            assert fifo.first == (min(labels) if labels else None)
            assert counted == {label: labels.count(label) for label in labels}
        else:
            assert (fifo.first is None) == (not labels) and (not labels or fifo.first <= min(labels))  # type: ignore[operator]
            assert sum(counted.values()) == len(labels) and len(counted) <= labels_max * max(fifo.sections, 1)
            assert not labels or max(counted) == max(labels)  # type: ignore[type-var]
        assert sorted(row for batch in fifo.scan() for row in rows_of(batch)) == sorted(model)
        for label in (0, 4, 9):
            found = sorted(row for batch in fifo.labelled(label) for row in rows_of(batch))
            assert found == sorted(row for row in model if row[1] == label)


entries = st.dictionaries(st.integers(0, 60), st.integers(1, 9), min_size=1).map(lambda counts: sorted(counts.items()))


@given(st.lists(entries, min_size=1, max_size=5), st.integers(1, 150))
def test_the_first_entries_of_all_parts_are_those_up_to_one_label(
    parts: list[list[tuple[int, int]]], rows: int
) -> None:
    columns = [tuple(np.array(part).T) for part in parts]
    found = first_entries([(labels.astype(np.uint64), counts) for labels, counts in columns], rows, most=2)
    chosen = [list(zip(labels.tolist(), counts.tolist(), strict=True)) for labels, counts in found]
    last = max((part[-1][0] for part in chosen if part), default=-1)
    assert chosen == [[entry for entry in part if entry[0] <= last] for part in parts]
    assert sum(count for part in chosen for _, count in part) >= rows or chosen == parts


def test_counts_of_so_many_rows_begin_as_those_of_all(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    fifo = Fifo("q", desk.catalog, desk.pool, "due")
    with desk.turn() as turn:
        for seed in range(3):
            due = np.random.default_rng(seed).integers(0, 2_000, 500)
            fifo.put(turn.writer, turn.edits, batch_of(due.tolist(), 1_000 * seed))
    labels, counts = fifo.counts()
    for rows in (0, 1, 70, 600, 1_500, 9_999):
        some, of_them = fifo.counts(rows)
        assert np.array_equal(some, labels[: len(some)]) and np.array_equal(of_them, counts[: len(some)])
        assert of_them.sum() >= min(max(rows, 1), 1_500)
    assert len(fifo.counts(1)[0]) < 100 < len(labels)


def test_rows_of_one_label_keep_their_order_and_many_labels_come_in_one_pass(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    fifo = Fifo("q", desk.catalog, desk.pool, "due")
    labels = np.random.default_rng(1).integers(0, 1300, 13_000)
    with desk.turn() as turn:
        fifo.put(turn.writer, turn.edits, batch_of(labels.tolist(), 0))
    with desk.turn() as turn:
        batches = list(fifo.take_through(turn.edits, 1299))
    assert len(batches) <= 2
    assert [row[0] for batch in batches for row in rows_of(batch)] == np.argsort(labels, kind="stable").tolist()


def test_the_label_that_gives_so_many_rows(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    fifo = Fifo("q", desk.catalog, desk.pool, "due")
    assert fifo.label_for(5) is None
    with desk.turn() as turn:
        fifo.put(turn.writer, turn.edits, batch_of([4, 4, 7, 9], 0))
        fifo.put(turn.writer, turn.edits, batch_of([4, 8], 4))
    assert [fifo.label_for(rows) for rows in (1, 3, 4, 5, 6, 99)] == [4, 4, 7, 8, 9, 9]


def test_rows_are_taken_of_sections_up_to_one_alone(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    fifo = Fifo("q", desk.catalog, desk.pool, "due")
    assert (fifo.newest, fifo.oldest) == (0, None)
    with desk.turn() as turn:
        fifo.put(turn.writer, turn.edits, batch_of([4, 7, 9], 0))
        fifo.put(turn.writer, turn.edits, batch_of([5], 3))
    until = fifo.newest
    with desk.turn() as turn:
        fifo.put(turn.writer, turn.edits, batch_of([1, 7], 4))
    assert fifo.label_for(3, until) == 7
    with desk.turn() as turn:
        batches = list(fifo.take_through(turn.edits, 7, until))
    assert sorted(row[0] for batch in batches for row in rows_of(batch)) == [0, 1, 3]
    desk.reopen()
    fifo = Fifo("q", desk.catalog, desk.pool, "due")
    assert fifo.counts()[0].tolist() == [1, 7, 9] and (fifo.oldest, fifo.newest) == (1, 3)


def test_sections_wholly_taken_lose_their_file_and_sections_stay_few(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    fifo = Fifo("q", desk.catalog, desk.pool, "due")
    for number in range(100):
        with desk.turn() as turn:
            fifo.put(turn.writer, turn.edits, batch_of([number + 1, 1000], number * 2))
            fifo.tier(turn.writer, turn.edits)
        assert fifo.sections <= 24
    with desk.turn() as turn:
        assert sum(batch.rows for batch in fifo.take_through(turn.edits, 999)) == 100
    with desk.turn() as turn:
        assert sum(batch.rows for batch in fifo.take_through(turn.edits, 1000)) == 100
    assert fifo.rows == fifo.sections == 0
    assert desk.catalog.live_files() == []
    assert not list(tmp_path.glob("*.seg"))


def test_a_take_that_is_not_committed_did_not_happen(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    fifo = Fifo("q", desk.catalog, desk.pool, "due")
    with desk.turn() as turn:
        fifo.put(turn.writer, turn.edits, batch_of([1, 2, 3], 0))
    with pytest.raises(RuntimeError), desk.turn() as turn:
        assert sum(batch.rows for batch in fifo.take_through(turn.edits, 2)) == 2
        raise RuntimeError
    desk.reopen()
    assert Fifo("q", desk.catalog, desk.pool, "due").rows == 3


def test_a_section_written_elsewhere_is_appended_by_name(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    with desk.turn(keep=True) as turn:
        batch = Batch({"queue": np.array([5, 2], np.uint64), "url": Ragged.from_list([b"x", b"y"])})
        turn.writer.section("queue.0", {"queue": "u8", "url": BYTES}).append(batch, labels=batch["queue"])
    fifo = Fifo("q", desk.catalog, desk.pool, "queue")
    with desk.turn() as turn:
        fifo.append(turn.edits, "t000001.seg", "queue.0")
    desk.reopen()
    again = Fifo("q", desk.catalog, desk.pool, "queue")
    with desk.turn() as turn:
        assert [row for b in again.take_through(turn.edits, 3) for row in rows_of(b)] == [(2, b"y")]
    assert again.rows == 1
