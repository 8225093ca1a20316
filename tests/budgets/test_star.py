"""Budgets against a brute-force ranking of the sites."""

from __future__ import annotations

import json
from math import floor, log1p

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgets.star import BINS, CURVES, EXACT, TOP_SUPPORTERS, WITHOUT_LIMIT, BudgetParams, Histogram, bin_last, bin_of

RISING = [curve for curve in CURVES if curve != "none"]

small = st.lists(st.integers(0, EXACT - 1), min_size=1, max_size=60)
wide = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=60)
params = st.builds(
    BudgetParams, base=st.integers(1, 50), top_sites=st.integers(1, 40), top_budget=st.integers(1, 10_000),
    curve=st.sampled_from(RISING),
)  # fmt: skip


def histogram_of(degrees: list[int]) -> Histogram:
    histogram = Histogram()
    after = np.array(degrees, "u4")
    histogram.change(np.zeros_like(after), after)
    return histogram


def expected(degree: int, degrees: list[int], p: BudgetParams) -> int:
    """The definition, one site at a time over the sorted list of all."""
    ranked = sorted(degrees, reverse=True)
    outside = ranked[p.top_sites] if len(ranked) > p.top_sites else 0
    if degree <= outside:
        return p.base
    top = max(p.base, p.top_budget)
    if p.curve == "rank":
        share = 1 - sum(other > degree for other in degrees) / p.top_sites
    elif p.curve == "linear":
        share = (degree - outside) / (ranked[0] - outside)
    else:
        share = (log1p(degree) - log1p(outside)) / (log1p(ranked[0]) - log1p(outside))
    return p.base + floor((top - p.base) * min(1, ranked[0] / TOP_SUPPORTERS) * share)


@given(small, params)
def test_budgets_are_those_of_the_ranking(degrees: list[int], p: BudgetParams) -> None:
    """In-degrees with a bin each: exact (floor of a float may differ by one where the product is a whole number)."""
    budgets = histogram_of(degrees).star(p).budgets(np.array(degrees, "u4"))
    for degree, budget in zip(degrees, budgets.tolist(), strict=True):
        assert abs(budget - expected(degree, degrees, p)) <= 1
        assert (budget == p.base) or degree > 0


@given(wide, params)
def test_bounds_and_order_hold_for_any_in_degrees(degrees: list[int], p: BudgetParams) -> None:
    star = histogram_of(degrees).star(p)
    rising = np.sort(np.array(degrees, "u4"))
    budgets = star.budgets(rising)
    top = max(p.base, p.top_budget)
    assert (np.diff(budgets) >= 0).all()
    assert p.base <= budgets.min() and budgets.max() <= top
    assert (budgets > p.base).sum() <= p.top_sites
    if rising[-1] > star.floor:
        assert budgets[-1] == p.base + int((top - p.base) * min(1, int(rising[-1]) / TOP_SUPPORTERS))
    assert star.budgets(np.array([0], "u4"))[0] == p.base


@given(wide, params, st.integers(1, 50), st.integers(1, 50))
def test_two_supporters_gave_the_top_budget_while_nobody_had_more(
    degrees: list[int], p: BudgetParams, many: int, more: int
) -> None:
    """However low the highest in-degree is, it has no more than its share of the top budget; and until one has all of
    it, a site's budget is its own, whatever others have."""
    top = max(p.base, p.top_budget)
    few = [1 + degree % (TOP_SUPPORTERS - 1) for degree in degrees]
    budgets = histogram_of(few).star(p).budgets(np.array(few, "u4"))
    assert budgets.max() <= p.base + (top - p.base) * max(few) / TOP_SUPPORTERS
    linear = BudgetParams(p.base, 1 << 30, p.top_budget, "linear")
    early, late = (histogram_of([many, highest]).star(linear) for highest in (many, many + more))
    assert abs(late.budgets(np.array([many]))[0] - early.budgets(np.array([many]))[0]) <= 1


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(1, 2**20)), max_size=40))
def test_changes_add_up_to_the_histogram_of_the_end(steps: list[tuple[int, int]]) -> None:
    """Signed changes, in any number of merges, with a stop in between: the histogram is that of the last state."""
    degrees = [0] * 8
    histogram = Histogram()
    for site, grows in steps:
        before = degrees[site]
        degrees[site] += grows
        histogram.change(np.array([before], "u4"), np.array([degrees[site]], "u4"))
        histogram = Histogram.from_json(json.loads(json.dumps(histogram.to_json())))
    fresh = histogram_of(degrees)
    assert histogram.counts.tolist() == fresh.counts.tolist()
    assert histogram.highest == fresh.highest == max(degrees)


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=100))
@settings(max_examples=200)
def test_bins_are_ordered_and_narrow(degrees: list[int]) -> None:
    values = np.sort(np.array(degrees, "u4"))
    bins = bin_of(values)
    assert (np.diff(bins) >= 0).all()
    for value, index in zip(values.tolist(), bins.tolist(), strict=True):
        first = bin_last(index - 1) + 1 if index else 0
        assert first <= value <= bin_last(index)
        assert bin_last(index) - first <= value / (EXACT // 2)
    assert bin_last(BINS - 1) == 2**32 - 1


def test_the_published_shape() -> None:
    """10,000 top sites between 10 and 10,000; everyone else 10 (algorithms.md 1.5)."""
    degrees = (3_000_000 / np.arange(1, 50_001)).astype("u4")
    histogram = Histogram()
    histogram.change(np.zeros_like(degrees), degrees)
    for curve in RISING:
        budgets = histogram.star(BudgetParams(curve=curve)).budgets(degrees)
        assert budgets[0] == 10_000
        assert (budgets[10_000:] == 10).all()
        assert curve == "linear" or (budgets[:9_000] > 10).all()
    # Linear in in-degree feeds few sites, the logarithm many: the reason for the default.
    linear, log = (histogram.star(BudgetParams(curve=c)).budgets(degrees) for c in ("linear", "log"))
    assert (linear > 1000).sum() < 20 < 1000 < (log > 1000).sum()


def test_a_site_that_falls_out_of_the_top_drops_back_to_the_base() -> None:
    p = BudgetParams(base=10, top_sites=1, top_budget=100)
    histogram = histogram_of([500])
    assert histogram.star(p).budgets(np.array([500], "u4"))[0] == 100
    histogram.change(np.array([0], "u4"), np.array([900], "u4"))
    assert histogram.star(p).budgets(np.array([500, 900], "u4")).tolist() == [10, 100]


def test_two_links_are_worth_two_hundredths_of_the_top_budget() -> None:
    """A site with two supporters had 200,000 URLs a queue where nobody had more."""
    crawl = BudgetParams(base=20, top_sites=10_000_000, top_budget=200_000, curve="linear")
    assert histogram_of([1, 2]).star(crawl).budgets(np.array([1, 2])).tolist() == [2019, 4019]


@pytest.mark.parametrize("wrong", [{"base": 0}, {"top_sites": 0}, {"top_budget": 0}, {"curve": "cubic"}])
def test_wrong_parameters_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"budgets must|cubic"):
        BudgetParams(**wrong)  # type: ignore[arg-type]


def test_without_budgets_everybody_has_no_limit() -> None:
    star = Histogram().star(BudgetParams(curve="none"))
    assert star.budgets(np.array([0, 5, 10**6])).tolist() == [WITHOUT_LIMIT] * 3
