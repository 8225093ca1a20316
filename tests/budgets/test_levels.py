"""Levels within a site: URLs nearer to a seed go first, by a biased choice, and the last level still moves on."""

from __future__ import annotations

from pathlib import Path

from drum import Batch, Catalog, Edits, Files, Ragged, SegmentPool, SegmentWriter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgets import BudgetParams, Sites
from budgets.beast import LEVEL_SHIFT, STEP_BITS, STEPS_MAX
from irlcrawl.base.keys import level_of, priority_of
from irlcrawl.base.rows import Source

BUDGET = 10
LEVELS = STEPS_MAX + 1
SHARE = 1 << STEP_BITS


class OneSite:
    """URLs with a priority of one site, merged and drained; a URL's key is its number."""

    def __init__(self, root: Path) -> None:
        self.files, self.root, self.turns, self.level = Files(), root, 0, list[int]()
        self.catalog = Catalog.open(root, self.files)
        self.pool = SegmentPool(self.files, root)
        self.sites = Sites(
            catalog=self.catalog, pool=self.pool, params=BudgetParams(base=BUDGET), ram_bytes=4 << 20, ordered=True
        )

    def turn(self, levels: list[int], rows: int) -> list[int]:
        """URLs of these levels arrive; about `rows` URLs leave: their numbers."""
        self.turns += 1
        edits, out = Edits(), list[int]()
        numbers = np.arange(len(self.level), len(self.level) + len(levels), dtype="u8")
        self.level += levels
        if levels:
            self.sites.pend_urls(Batch({
                "key": numbers, "site": np.full(len(levels), 7, "u8"), "source": np.full(len(levels), 2, "u1"),
                "priority": np.array([level << LEVEL_SHIFT for level in levels], "u1"),
                "url": Ragged.from_list(b"u%d" % n for n in numbers.tolist()),
            }))  # fmt: skip
        with SegmentWriter(self.files, self.root / f"turn-{self.turns}.seg") as writer:
            self.sites.merge(writer, edits, lambda batch: None)
            self.sites.rotate(writer, edits, rows, lambda batch: out.extend(batch["key"].tolist()), lambda batch: None)
            self.sites.spill(writer, edits)
        self.catalog.commit(edits)
        self.pool.forget(self.catalog.collect())
        return out


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(0, 255 >> LEVEL_SHIFT), min_size=1, max_size=8, unique=True),
    st.lists(st.integers(0, 7), min_size=1, max_size=300),
)
def test_levels_share_places_by_quarters_and_keep_their_order(
    tmp_path_factory: pytest.TempPathFactory, names: list[int], drawn: list[int]
) -> None:
    """A URL with k of its level before it waits for about (k + 1) * SHARE**steps of each level that is so many steps
    better and no more: for a number that does not depend on how many of these wait. Which levels there are makes no
    difference, only their order does."""
    levels = [names[at % len(names)] for at in drawn]
    step = {level: min(at, STEPS_MAX) for at, level in enumerate(sorted(set(levels)))}
    site = OneSite(tmp_path_factory.mktemp("site"))
    order = site.turn(levels, len(levels))
    while len(order) < len(levels):
        order += site.turn([], len(levels))
    assert sorted(order) == list(range(len(levels)))
    for level in step:
        mine = [url for url in order if levels[url] == level]
        assert mine == sorted(mine), "in a level first come, first served"
        for before, url in enumerate(mine):
            bound = sum(-(-(before + 1) * SHARE ** step[level] // SHARE ** step[other]) for other in step)
            assert order.index(url) < bound + len(step), "bounded waiting, however many of the other levels there are"


def test_depths_one_two_and_three_of_a_site_were_one_level(tmp_path: Path) -> None:
    """Of a hundred URLs each, found in the wrong order, three in four that go while the first depth has any are of the
    first depth, and three in four after that of the second."""
    site = OneSite(tmp_path)
    levels = [level_of(priority_of(depth, Source.LINK)) for depth in (3, 2, 1) for _ in range(100)]
    order = site.turn(levels, 300)
    while len(order) < 300:
        order += site.turn([], 300)
    depth = [3 - url // 100 for url in order]
    assert depth[:133].count(1) >= 98
    assert depth[:200].count(2) >= 70 and depth[:200].count(3) < 30


def test_the_last_level_is_not_starved_by_ever_new_ones_of_the_first(tmp_path: Path) -> None:
    """Each turn brings as many URLs of level 0 as leave; what waits in level 3 goes on all the same, and all of it
    leaves within a number of turns that does not grow with what still comes."""
    site = OneSite(tmp_path)
    site.turn([LEVELS - 1] * 50 + [0] * 50, 0)
    left = set(range(50))
    turns = 0
    while left:
        left -= set(site.turn([0] * BUDGET, BUDGET))
        turns += 1
        assert turns < 60, "not for ever"
    assert turns >= 5, "behind the first level"


def test_the_last_level_beyond_its_sites_budget_is_not_starved_by_twice_what_goes(tmp_path: Path) -> None:
    """A busy site: each turn brings twice as many better URLs as leave. What went to QF at first is placed all the
    same, since its level has its share of each re-read, and places double with each cycle."""
    site = OneSite(tmp_path)
    site.turn([LEVELS - 1] * 20 + [0] * 100, 0)
    assert site.sites.deferred_rows == 100
    left, turns = set(range(20)), 0
    while left:
        left -= set(site.turn([turns % (LEVELS - 1)] * 2 * BUDGET, BUDGET))
        turns += 1
        assert turns < 60, "not for ever"
    assert site.sites.deferred_rows + site.sites.queued_rows > 100, "others wait"
