"""The priority of a URL: what goes before what within a site."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bench._sim.fetch import priorities
from budgets.beast import ENTRY_PRIORITY, LEVEL_SHIFT
from irlcrawl.base.keys import (
    DEPTH_SEPARATE_MAX,
    PRIORITY_LAST,
    PRIORITY_LEVEL_SHIFT,
    WEIGHT_MAX,
    level_of,
    priority_of,
)
from irlcrawl.base.rows import Source

depths, sources = st.integers(0, 65_535), st.sampled_from(Source)
weights = st.integers(-WEIGHT_MAX, WEIGHT_MAX)


@given(st.tuples(depths, sources, st.booleans()), st.tuples(depths, sources, st.booleans()))
def test_seeds_and_homes_go_first_then_depth_by_depth_then_by_source(
    one: tuple[int, Source, bool], other: tuple[int, Source, bool]
) -> None:
    def rank(depth: int, source: Source, home: bool) -> tuple[int, int]:
        listed = [Source.LINK, Source.REDIRECT, Source.CANONICAL, Source.FRAME, Source.SCRIPT]
        trust = 0 if source in (Source.SEED, Source.SITEMAP) else 1 + listed.index(source)
        return (0 if home else min(depth, DEPTH_SEPARATE_MAX)), trust

    mine, theirs = priority_of(*one), priority_of(*other)
    assert (mine < theirs) == (rank(*one) < rank(*other))
    assert 0 <= mine < PRIORITY_LAST
    assert (mine < ENTRY_PRIORITY) == (one[0] == 0 or one[2]), "budgets know entries by it"
    assert LEVEL_SHIFT == PRIORITY_LEVEL_SHIFT, "and levels"


@given(depths, sources, st.booleans(), weights)
def test_a_weight_moves_a_url_by_as_many_levels_as_there_are(
    depth: int, source: Source, home: bool, weight: int
) -> None:
    plain, moved = priority_of(depth, source, home), priority_of(depth, source, home, weight)
    entry = home or depth == 0
    assert moved < PRIORITY_LAST and moved % 8 == plain % 8, "the trust in its source is what it was"
    if entry:
        assert level_of(moved) == max(0, -weight)
    elif depth <= DEPTH_SEPARATE_MAX - WEIGHT_MAX:
        assert level_of(moved) == level_of(plain) - weight
    assert (moved < ENTRY_PRIORITY) == (entry and weight >= 0), "a rule makes no entry of a link"


def test_simulated_workers_give_the_priorities_of_real_ones() -> None:
    rows = list(itertools.product(range(40), Source, (False, True)))
    depth, source, home = (np.array(column) for column in zip(*rows, strict=True))
    got = priorities(depth.astype(np.uint16), source.astype(np.uint8), home.astype(np.bool_))
    assert got.dtype == np.uint8 and got.tolist() == [priority_of(*row) for row in rows]
