"""The search for neighbours against all pairs compared."""

from __future__ import annotations

import random

from drum import hamming
from drum.hamming import DISTANCE, Near

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def flipped(key: int, bits: list[int]) -> int:
    for bit in bits:
        key ^= 1 << bit
    return key


BITS = st.lists(st.integers(0, 63), min_size=0, max_size=6, unique=True)
"""Up to twice as many as a neighbour may differ in."""


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=4), st.data())
def test_all_within_three_bits_are_found_and_none_else(centres: list[int], data: st.DataObject) -> None:
    near_centres = st.builds(flipped, st.sampled_from(centres), BITS)
    own = np.array(data.draw(st.lists(near_centres, max_size=40, unique=True)), np.uint64)
    others = np.array(data.draw(st.lists(near_centres, max_size=40)), np.uint64)
    near = Near(own)
    for start in range(0, len(others), 7):
        near.meet(others[start : start + 7])
    distance = np.bitwise_count(own[:, None] ^ others[None, :])
    assert near.found.tolist() == (distance <= DISTANCE).any(axis=1).tolist()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=3), st.data())
def test_of_a_batch_a_key_is_near_what_came_before_it(centres: list[int], data: st.DataObject) -> None:
    keys = np.array(
        data.draw(st.lists(st.builds(flipped, st.sampled_from(centres), BITS), max_size=40, unique=True)), np.uint64
    )
    time = np.arange(len(keys))
    near = Near(keys, time)
    near.meet(keys, time)
    earlier = np.tri(len(keys), k=-1, dtype=np.bool_)
    within = np.bitwise_count(keys[:, None] ^ keys[None, :]) <= DISTANCE
    assert near.found.tolist() == (within & earlier).any(axis=1).tolist()


def test_every_three_bits_leave_a_block() -> None:
    drawn = random.Random(5)
    keys = np.array([drawn.getrandbits(64) for _ in range(3000)], np.uint64)
    others = np.array([flipped(key, drawn.sample(range(64), 3)) for key in keys.tolist()], np.uint64)
    near = Near(keys)
    near.meet(others)
    assert near.found.all()


def test_a_crowd_in_one_cell_is_compared_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hamming, "CANDIDATES", 64)
    centre = 0x0123456789ABCDEF
    alike = np.array([flipped(centre, [one, other]) for one in range(63) for other in range(one + 1, 64)], np.uint64)
    far = np.array([centre ^ (bits << 16) for bits in range(0xFFFF, 0xFF00, -1)], np.uint64)
    near = Near(np.concatenate([alike, far]))
    near.meet(np.array([centre, *far.tolist()[:3]], np.uint64))
    assert near.found[: len(alike)].all()
    wanted = np.bitwise_count(far[:, None] ^ np.array([centre, *far.tolist()[:3]], np.uint64)[None, :]) <= DISTANCE
    assert near.found[len(alike) :].tolist() == wanted.any(axis=1).tolist()
