"""The worth of a visit against numerical integration, the time at which it meets a price, and prices that follow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.revisit.beliefs import Belief
from irlcrawl.revisit.price import chance_after, due_after, first_price, moved, survival, worth

SHAPES = st.floats(0.3, 60.0)
EXPOSURES = st.floats(0.01, 1e5)
WEIGHTS = st.floats(0.01, 100.0)


def one(a: float, b: float) -> Belief:
    return Belief(np.array([a]), np.array([b]))


@settings(max_examples=80, deadline=None)
@given(SHAPES, EXPOSURES, WEIGHTS, st.floats(1e-6, 1e4))
def test_worth_is_the_integral(a: float, b: float, weight: float, relative: float) -> None:
    days = b * relative
    u = np.linspace(0.0, np.log1p(relative), 200_001)  # over ln(1 + u / b), in which S is smooth
    chance = np.exp(-a * u) - np.exp(-a * u[-1])
    integral = np.trapezoid(chance * b * np.exp(u), u)
    found = worth(one(a, b), np.array([weight]), np.array([days]))[0]
    assert found == pytest.approx(weight * integral, rel=2e-4)


@settings(max_examples=150, deadline=None)
@given(SHAPES, EXPOSURES, WEIGHTS, st.floats(-12, 8))
def test_due_is_where_the_worth_meets_the_price(a: float, b: float, weight: float, power: float) -> None:
    belief, weights, price = one(a, b), np.array([weight]), 10.0**power
    days = due_after(belief, weights, price, 400.0)
    if worth(belief, weights, np.array([400.0]))[0] <= price:
        assert days[0] == 400.0
    elif days[0] > 1e-8:
        assert worth(belief, weights, days)[0] == pytest.approx(price, rel=1e-6)


def test_many_rows_at_once_are_what_each_is_alone() -> None:
    rng = np.random.default_rng(3)
    belief = Belief(rng.uniform(0.4, 50, 500), 10 ** rng.uniform(-2, 4, 500))
    weights = 10 ** rng.uniform(-2, 2, 500)
    together = due_after(belief, weights, 0.5, 365.0)
    alone = [due_after(one(a, b), np.array([w]), 0.5, 365.0)[0] for a, b, w in zip(*belief, weights, strict=True)]
    assert together == pytest.approx(alone, rel=1e-6)
    assert len(due_after(Belief(np.empty(0), np.empty(0)), np.empty(0), 0.5, 365.0)) == 0


@settings(max_examples=50, deadline=None)
@given(SHAPES, EXPOSURES, st.floats(0.0, 0.99))
def test_a_chance_is_reached_when_it_says(a: float, b: float, chance: float) -> None:
    belief = one(a, b)
    assert 1 - survival(belief, chance_after(belief, chance))[0] == pytest.approx(chance, abs=1e-9)


def test_the_worth_of_a_known_rate_is_cho_and_garcia_molinas() -> None:
    rate, shape = 0.2, 1e7
    days = np.array([0.5, 3.0, 20.0])
    belief = Belief(np.full(3, shape), np.full(3, shape / rate))
    expected = (1 - (1 + rate * days) * np.exp(-rate * days)) / rate
    assert worth(belief, np.ones(3), days) == pytest.approx(expected, rel=1e-4)


def test_the_price_follows_the_median_of_what_is_served_by_the_share_of_all_pages() -> None:
    served = np.array([1.0, 4.0, 4.0, 4.0, 1000.0])
    near, far = moved(1.0, served, 1_000_000), moved(1.0, served, 100)
    assert near == pytest.approx(np.exp(6 * 5 / 1_000_000), rel=1e-6)  # 4 is farther away than FAR
    assert 1.0 < near < far < 4.0
    assert moved(3.5, served, 1) == pytest.approx((3.5 * 4.0) ** 0.5)
    assert moved(3.0, np.empty(0), 10) == moved(3.0, np.zeros(4), 10) == 3.0


def test_the_first_price_is_what_an_unknown_page_is_worth_after_some_of_its_mean_interval() -> None:
    assert first_price(0.1) == pytest.approx(3 * first_price(0.3), rel=1e-6)
