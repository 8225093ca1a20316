"""Slices against a dict: newest wins, few blocks are read, and tiers stay few however slices come."""

from __future__ import annotations

from pathlib import Path

from drum import Batch
from drum.store import (
    KEY_MAX,
    TIER,
    TIER_ROWS_LEAST,
    Slice,
    look_up,
    merged,
    range_of,
    rows_below,
    schema_of,
    size_class,
    to_rewrite,
    write_slice,
)  # fmt: skip

import numpy as np
import pytest
from drum_support import CountingFiles, Desk
from hypothesis import given, settings
from hypothesis import strategies as st

slices_of_dicts = st.lists(st.dictionaries(st.integers(0, 50), st.integers(0, 9), min_size=1), max_size=6)
VALUES = {"v": "i8"}


def batch_of(content: dict[int, int]) -> Batch:
    keys = sorted(content)
    return Batch({"key": np.array(keys, np.uint64), "v": np.array([content[key] for key in keys], np.int64)})


def stored(desk: Desk, contents: list[dict[int, int]], with_values: bool = True) -> list[Slice]:
    """Slices in one segment, oldest first."""
    values = VALUES if with_values else {}
    slices = []
    with desk.turn(keep=True) as turn:
        for number, content in enumerate(contents):
            out = turn.writer.section(f"s{number}", schema_of(values), sorted_by="key")
            write_slice(out, iter([batch_of(content).select(schema_of(values))]))
            slices.append(Slice(turn.writer.name, f"s{number}", len(content)))
    return slices


@settings(max_examples=60, deadline=None)
@given(contents=slices_of_dicts, asked=st.sets(st.integers(0, 60)), with_values=st.booleans())
def test_the_newest_slice_that_has_a_key_wins(
    tmp_path_factory: pytest.TempPathFactory, contents: list[dict[int, int]], asked: set[int], with_values: bool
) -> None:
    desk = Desk(tmp_path_factory.mktemp("store"))
    slices = stored(desk, contents, with_values)
    model: dict[int, int] = {}
    for content in contents:
        model.update(content)
    keys = np.array(sorted(asked), np.uint64)
    found, values = look_up(desk.pool, slices, VALUES if with_values else {}, keys)
    assert found.tolist() == [key in model for key in sorted(asked)]
    if with_values:
        assert values["v"].tolist() == [model.get(key, 0) for key in sorted(asked)]


@settings(max_examples=60, deadline=None)
@given(contents=slices_of_dicts, lo=st.integers(0, 60), hi=st.integers(0, 60))
def test_streams_merge_to_one_ascending_stream(
    tmp_path_factory: pytest.TempPathFactory, contents: list[dict[int, int]], lo: int, hi: int
) -> None:
    desk = Desk(tmp_path_factory.mktemp("store"))
    slices = stored(desk, contents)
    model: dict[int, int] = {}
    for content in contents:
        model.update({key: value for key, value in content.items() if lo <= key <= hi})
    sources = [range_of(part.open(desk.pool), lo, hi, VALUES) for part in reversed(slices)]
    rows = [row for batch in merged(sources) for row in zip(batch["key"].tolist(), batch["v"].tolist())]
    assert rows == sorted(model.items())


@pytest.mark.parametrize("with_values", [False, True])
def test_long_streams_merge_across_blocks(tmp_path: Path, with_values: bool) -> None:
    rng = np.random.default_rng(1)
    desk = Desk(tmp_path)
    contents = [dict.fromkeys(rng.integers(0, 2**40, n).tolist(), i) for i, n in enumerate((200_000, 90_000, 70_000))]
    shared = list(contents[0])[:5000]
    contents[2].update(dict.fromkeys(shared, 2))
    slices = stored(desk, contents, with_values)
    model: dict[int, int] = {}
    for content in contents:
        model.update(content)
    values = VALUES if with_values else {}
    batches = list(merged([range_of(part.open(desk.pool), 0, KEY_MAX, values) for part in reversed(slices)]))
    whole = Batch.concat(batches)
    assert whole["key"].tolist() == sorted(model)
    if with_values:
        assert whole["v"].tolist() == [model[key] for key in sorted(model)]
    section = slices[0].open(desk.pool)
    keys = np.array(sorted(contents[0]), np.uint64)
    for key in (0, int(keys[0]), int(keys[70_000]), int(keys[-1]), 2**40):
        assert rows_below(section, key) == int(np.searchsorted(keys, key))


def test_looking_up_few_keys_reads_few_blocks(tmp_path: Path) -> None:
    counting = CountingFiles()
    desk = Desk(tmp_path, counting)
    keys = np.arange(1_000_000, dtype=np.uint64) << np.uint64(40)
    with desk.turn(keep=True) as turn:
        turn.writer.section("s", {"key": "u8"}, sorted_by="key").append(Batch({"key": keys}))
    section = desk.pool.section(turn.writer.name, "s")
    assert len(section.blocks) == 16
    counting.bytes_read = 0
    found, _ = look_up(desk.pool, [Slice(turn.writer.name, "s", len(keys))], {}, keys[[3, 5, 900_000]])
    assert found.all()
    assert counting.bytes_read <= 2 * 65_536 * 8


@settings(max_examples=100)
@given(st.lists(st.integers(1, TIER_ROWS_LEAST * 100), min_size=1, max_size=400))
def test_slices_stay_few_whatever_their_sizes(new: list[int]) -> None:
    sizes: list[int] = []
    written = 0
    for rows in new:
        sizes.append(rows)
        count = to_rewrite(sizes)
        assert 1 <= count <= len(sizes)
        sizes[-count:] = [sum(sizes[-count:])]
        written += sizes[-1]
        assert sum(sizes) <= sum(new)
    classes = size_class(sum(new)) + 1
    assert len(sizes) <= 2 * TIER * classes
    assert written <= sum(new) * (2 * classes + 1), "each row is rewritten about once a class"


def test_eight_of_one_size_become_one() -> None:
    assert [to_rewrite([10] * n) for n in range(1, 10)] == [1, 1, 1, 1, 1, 1, 1, 8, 9]
    big = TIER_ROWS_LEAST * TIER
    assert to_rewrite([big] * 7 + [10] * 7) == 1
    assert to_rewrite([big] * 7 + [TIER_ROWS_LEAST] * 8) == 15, "the new one makes eight of the next size"
    assert to_rewrite([10] * 5 + [big]) == 1, "a large new slice leaves a few small ones alone"
