"""Beyond in-degree: what fetches brought, whose links count, and floors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from budget_crawl import Crawl, key_of
from hypothesis import given
from hypothesis import strategies as st

from budgets import BudgetParams, Worth
from budgets.beast import SLOTS, slot_of
from budgets.star import WITHOUT_LIMIT, Histogram

TEN = BudgetParams(base=10)


def budget(crawl: Crawl, site: int) -> int:
    record = crawl.sites.site(key_of(site))
    assert record is not None
    return record.budget


def test_a_site_whose_pages_bring_nothing_sinks_and_recovers_when_they_do(tmp_path: Path) -> None:
    crawl = Crawl(tmp_path, TEN, worth=Worth(weight=1.0))
    crawl.urls([0, 1])
    crawl.merge()
    assert budget(crawl, 0) == budget(crawl, 1) == 10
    crawl.yields([(0, 0)] * 30 + [(1, 1)] * 30)
    crawl.merge()
    assert (budget(crawl, 0), budget(crawl, 1)) == (1, 10)
    assert {site.unheld for site in crawl.sites.records(np.array([key_of(0), key_of(1)], "u8")).values()} == {10}
    crawl.yields([(0, 1)] * 300)
    crawl.commit()
    crawl.reopen()
    crawl.merge()
    assert budget(crawl, 0) == 10


def test_only_sites_that_are_supported_support_others(tmp_path: Path) -> None:
    """A farm links among itself as much as it likes; a link from a site with reputation counts at once."""
    crawl = Crawl(tmp_path, TEN, worth=Worth(hops=2, unsupported=1))
    crawl.sites._ordered = False
    crawl.pairs([(a, b) for a in range(5) for b in range(5) if a != b])
    crawl.urls(list(range(6)))
    crawl.merge()
    assert [budget(crawl, site) for site in range(5)] == [1] * 5
    crawl.worth = Worth()
    crawl.reopen()
    crawl.pairs([(9, 5)])
    crawl.merge()
    crawl.worth = Worth(hops=2, unsupported=1)
    crawl.reopen()
    crawl.pairs([(5, 0), (1, 2)])
    crawl.merge()
    crawl.merge()
    assert [budget(crawl, site) for site in range(6)] == [10, 1, 1, 1, 1, 10]


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 50), st.floats(0, 100), st.integers(1, 50))
def test_budgets_are_at_least_one_and_at_least_their_floor(
    asked: int, novel: int, degree: int, weight: float, floor: int
) -> None:
    known = {"in_degree": [degree], "asked": [asked], "novel": [min(novel, asked)], "seeds": [0]}
    columns = {name: np.array(values, np.int64) for name, values in known.items()}
    sites = np.array([7], np.uint64)
    star = Histogram().star(TEN)
    plain = int(Worth(weight=weight, unsupported=1).budgets(star, sites, columns)[0])
    assert 1 <= plain <= int(star.budgets(columns["in_degree"])[0])
    assert (
        int(Worth(weight=weight, unsupported=1, floors={9: 10**9, 7: floor}).budgets(star, sites, columns)[0]) >= floor
    )
    columns["seeds"][:] = 1
    assert int(Worth(weight=weight, unsupported=1, seed_floor=floor).budgets(star, sites, columns)[0]) >= floor


def test_the_first_site_of_a_merge_does_not_decide_how_the_others_are_spread() -> None:
    """Curve none with `unsupported` has sites with and without a budget in one merge: whichever came first, all URLs of
    those without one stood in the first part of the queue, or those of the others anywhere."""
    rows = 2000
    for first, last in ((10, WITHOUT_LIMIT), (WITHOUT_LIMIT, 10)):
        budget = np.repeat(np.array([first, last]), rows)
        fill = np.tile(np.arange(rows) % 10, 2) + np.where(budget == WITHOUT_LIMIT, np.tile(np.arange(rows), 2), 0)
        slot = slot_of(np.repeat(np.array([1 << 63, 1 << 62], np.uint64), rows), fill, budget)
        free = budget == WITHOUT_LIMIT
        assert len(np.unique(slot[free])) > SLOTS / 2
        assert len(np.unique(slot[~free])) == 10
        assert (np.diff(slot[~free][:10]) > 0).all()


def test_without_budgets_no_site_is_held_back() -> None:
    """Curve none said no budgets; sites to which none or one links had 1 and the base all the same."""
    star = Histogram().star(BudgetParams(curve="none"))
    known = {"in_degree": [0, 1, 9], "asked": [50, 0, 50], "novel": [0, 0, 0], "seeds": [0, 0, 0]}
    columns = {name: np.array(values, np.int64) for name, values in known.items()}
    budgets = Worth(weight=1.0, unsupported=1, seed_floor=5).budgets(star, np.arange(3, dtype=np.uint64), columns)
    assert budgets.tolist() == [WITHOUT_LIMIT] * 3
