"""Arithmetic on sorted keys agrees with sets; packed keys come back as they were."""

from __future__ import annotations

from pathlib import Path

from drum import Batch, Damaged, Files, Segment
from drum.codec import RAW, STEPS, encode_sorted, halves_of
from drum.keyset import absent, compact, is_in, minus, minus_packed, united

import numpy as np
import pytest
from drum_support import Desk
from hypothesis import given, settings
from hypothesis import strategies as st

key = st.one_of(st.integers(0, 60), st.integers(2**64 - 30, 2**64 - 1), st.integers(0, 2**64 - 1))
some = st.sets(key, max_size=80)


def array(keys: set[int]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array(sorted(keys), np.uint64)


@settings(max_examples=300)
@given(a=some, b=some, c=st.lists(key, max_size=100), thin=st.sampled_from([1, 40]))
def test_arithmetic_is_that_of_sets(a: set[int], b: set[int], c: list[int], thin: int) -> None:
    a = set(sorted(a)[::thin])
    assert minus(array(a), array(b)).tolist() == sorted(a - b)
    assert minus(array(b), array(a)).tolist() == sorted(b - a)
    assert united([array(a), array(b), array(set(c))]).tolist() == sorted(a | b | set(c))
    assert is_in(array(a | b), array(b)).tolist() == [key in b for key in sorted(a | b)]
    keys = np.array(c, np.uint64)
    assert keys[: compact(keys)].tolist() == sorted(set(c))


@pytest.mark.parametrize("crowded", [False, True])
@pytest.mark.parametrize("rows", [300, 5000, 40_000])
def test_hashed_and_crowded_keys_are_told_from_those_stored(rows: int, crowded: bool) -> None:
    rng = np.random.default_rng(rows)
    stored = np.unique(rng.integers(0, 2**64 - 1, 10_000, dtype=np.uint64))
    if crowded:  # nearly all of them in one cell
        stored = np.unique(np.concatenate((stored[:1], stored[:1] + rng.integers(0, 10**6, 10_000, dtype=np.uint64),
                                           stored[-1:])))  # fmt: skip
    near = rng.choice(stored, rows) + rng.integers(0, 2, rows, dtype=np.uint64)
    keys = np.unique(np.concatenate((near, rng.integers(0, 2**64 - 1, rows, dtype=np.uint64))))
    assert np.array_equal(minus(keys, stored), np.setdiff1d(keys, stored))


@settings(max_examples=100, deadline=None)
@given(
    rows=st.integers(64, 3000), asked=st.integers(1, 3000), bits=st.integers(12, 56), shared=st.integers(0, 3000),
    lumps=st.sampled_from([1, 1, 2, 300]), base=st.integers(0, 2**64 - 2**57), seed=st.integers(0, 2**32),
)  # fmt: skip
def test_keys_are_told_from_packed_ones(
    rows: int, asked: int, bits: int, shared: int, lumps: int, base: int, seed: int
) -> None:
    """Few bits: many keys have one high half; lumps: many are in one cell of the index."""
    rng = np.random.default_rng(seed)
    inside = rng.integers(0, 2**bits // lumps, rows, dtype=np.uint64)
    inside[: rows // 2] += np.uint64(2**bits - 2**bits // lumps)
    stored = np.unique(inside) + np.uint64(base)
    data, encoding = encode_sorted(stored)
    if encoding == RAW:
        return
    others = rng.integers(int(stored[0]), int(stored[-1]), asked, dtype=np.uint64, endpoint=True)
    near = rng.choice(stored, asked) ^ (rng.integers(0, 2, asked, dtype=np.uint64) << np.uint64(31))
    keys = np.unique(np.concatenate([others, near, rng.choice(stored, shared)]))
    keys = keys[(keys >= stored[0]) & (keys <= stored[-1])]
    assert np.array_equal(minus_packed(keys, halves_of(data, len(stored))), np.setdiff1d(keys, stored))


@pytest.mark.parametrize("sizes", [(50_000, 40_000, 1), (100_000, 900, 0, 20_000), (9000,) * 8])
@pytest.mark.parametrize("spread", [10**5, 2**64 - 1])
def test_many_keys_are_united_piece_by_piece(sizes: tuple[int, ...], spread: int) -> None:
    rng = np.random.default_rng(2)
    parts = [np.unique(rng.integers(0, spread, size, dtype=np.uint64)) for size in sizes]
    assert np.array_equal(united(parts), np.unique(np.concatenate(parts)))


def test_many_keys_are_compacted_piece_by_piece() -> None:
    rng = np.random.default_rng(1)
    for spread in (1000, 50_000, 10**6, 2**64 - 1):
        keys = rng.integers(0, spread, 200_000, dtype=np.uint64)
        expected = np.unique(keys)
        assert np.array_equal(keys[: compact(keys)], expected)


@settings(max_examples=60, deadline=None)
@given(
    stored=st.sets(key, min_size=1, max_size=300), asked=some, block_rows=st.sampled_from([1, 7, 100]),
    once=st.booleans(),
)  # fmt: skip
def test_absent_keys_of_a_section(
    tmp_path_factory: pytest.TempPathFactory, stored: set[int], asked: set[int], block_rows: int, once: bool
) -> None:
    desk = Desk(tmp_path_factory.mktemp("absent"))
    with desk.turn() as turn:
        out = turn.writer.section("s", {"key": "u8"}, sorted_by="key", block_rows=block_rows)
        out.append(Batch({"key": array(stored)}))
        assert absent(out.end(), array(asked), once).tolist() == sorted(asked - stored)


@settings(max_examples=200)
@given(rows=st.integers(0, 300), bits=st.integers(0, 64), base=st.integers(0, 2**64 - 1), seed=st.integers(0, 2**32))
def test_packed_keys_come_back(rows: int, bits: int, base: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    high = min(2**64 - 1, base + 2**bits - 1)
    keys = np.sort(rng.integers(base, high, rows, dtype=np.uint64, endpoint=True))
    data, encoding = encode_sorted(keys)
    if encoding == RAW:
        assert data == keys.tobytes()
        return
    assert encoding == STEPS
    assert len(data) < 8 * rows
    assert halves_of(data, rows).keys.tolist() == keys.tolist()
    for wrong in (data[:-1], data + b"\0", data[:3], b""):
        with pytest.raises(ValueError, match="packed keys"):
            halves_of(wrong, rows)


@pytest.mark.parametrize(("rows", "least", "most"), [(20_000_000, 5.4, 5.6), (10**8, 5.0, 5.2), (10**9, 4.7, 4.8)])
def test_hashed_keys_of_a_large_store_take_five_bytes(rows: int, least: float, most: float) -> None:
    """One block's share of the key space, as dense as in a store of so many keys."""
    spread = 2**64 * 65_536 // rows
    data, encoding = encode_sorted(np.sort(np.random.default_rng(1).integers(0, spread, 65_536, dtype=np.uint64)))
    assert encoding == STEPS
    assert least < len(data) / 65_536 < most


def test_a_section_of_another_version_is_refused(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    with desk.turn(keep=True) as turn:
        turn.writer.section("s", {"key": "u8"}).append(Batch({"key": array({1, 2})}))
    path = tmp_path / turn.writer.name
    data = bytearray(path.read_bytes())
    data[8] = 9
    path.write_bytes(data)
    with pytest.raises(Damaged, match="segment version 9 is none that this program reads"):
        Segment.open(Files(), path)
