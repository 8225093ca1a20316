"""Beliefs against Bayes' rule computed on a grid, and codes against what they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from irlcrawl.revisit.beliefs import (
    LEVELS,
    PRIOR_SHAPE,
    RATES,
    Belief,
    belief_of,
    changed,
    coded,
    codes_of,
    draws,
    observed,
    rate_code,
    unchanged,
)

SHAPES = st.floats(0.3, 40.0)
EXPOSURES = st.floats(0.05, 5000.0)
DAYS = st.floats(0.01, 3000.0)


def one(a: float, b: float) -> Belief:
    return Belief(np.array([a]), np.array([b]))


def posterior(a: float, b: float, days: float) -> tuple[float, float]:
    """(mean, variance) of the rate after an interval with a change at least: Bayes' rule on a grid of ln(rate)."""
    logs = np.linspace(np.log(a / b) - 60 / min(a, 1), np.log(a / b) + 12, 400_001)
    rates = np.exp(logs)
    density = a * logs - b * rates + np.log(-np.expm1(-rates * days))  # d(ln rate) gives the other power of the rate
    mass = np.exp(density - density.max())
    mass /= mass.sum()
    mean = float((mass * rates).sum())
    return mean, float((mass * (rates - mean) ** 2).sum())


@settings(max_examples=60, deadline=None)
@given(SHAPES, EXPOSURES, DAYS)
def test_a_change_gives_the_posteriors_mean_and_variance(a: float, b: float, days: float) -> None:
    after = changed(one(a, b), np.array([days]))
    mean, variance = posterior(a, b, days)
    assert after.a[0] / after.b[0] == pytest.approx(mean, rel=1e-4)
    assert after.a[0] / after.b[0] ** 2 == pytest.approx(variance, rel=1e-3)


@settings(max_examples=60, deadline=None)
@given(SHAPES, EXPOSURES)
def test_a_change_after_a_long_time_teaches_nothing_and_after_a_moment_one_event(a: float, b: float) -> None:
    long, short = (changed(one(a, b), np.array([days])) for days in (b * 1e12 ** (1 / min(a, 1)), b * 1e-5))
    assert (long.a[0], long.b[0]) == (pytest.approx(a, rel=1e-2), pytest.approx(b, rel=1e-2))
    assert (short.a[0], short.b[0]) == (pytest.approx(a + 1, rel=1e-2), pytest.approx(b, rel=1e-2))


def test_an_interval_without_a_change_is_exposure() -> None:
    assert unchanged(one(2.0, 3.0), np.array([4.5])) == (2.0, 7.5)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 255), st.floats(0, 1, exclude_max=True))
def test_what_a_code_stands_for_is_coded_as_itself(code: int, draw: float) -> None:
    assert coded(LEVELS[[code]], np.array([draw])).tolist() == [code]
    assert rate_code(RATES[[code]]).tolist() == [code]


@settings(max_examples=50, deadline=None)
@given(st.floats(0.0, 1e6))
def test_rounding_keeps_the_mean(value: float) -> None:
    even = (np.arange(10_000) + 0.5) / 10_000
    mean = LEVELS[coded(np.full(10_000, value), even)].mean()
    assert mean == pytest.approx(value, rel=1e-3, abs=1e-6)


def test_what_did_not_move_keeps_its_code_and_what_is_negative_is_nothing() -> None:
    prior = np.array([90, 90], np.uint8)
    shape, exposure = np.array([70, 0], np.uint8), np.array([100, 0], np.uint8)
    belief = belief_of(shape, exposure, prior)
    codes = codes_of(belief, prior, np.zeros(2), np.zeros(2))
    assert (codes[0].tolist(), codes[1].tolist()) == ([70, 0], [100, 0])
    less = Belief(belief.a - 100, belief.b - 1e6)
    assert [column.tolist() for column in codes_of(less, prior, np.zeros(2), np.zeros(2))] == [[0, 0], [0, 0]]


def test_draws_are_even_and_the_same_each_time() -> None:
    keys: NDArray[np.uint64] = np.arange(100_000, dtype=np.uint64)
    visits = np.full(len(keys), 3, np.uint16)
    first, second = draws(keys, visits)
    assert all(np.array_equal(*pair) for pair in zip(draws(keys, visits), (first, second), strict=True))
    for column in (first, second):
        assert (column.min() >= 0) and (column.max() < 1)
        assert np.histogram(column, 10, (0, 1))[0] == pytest.approx(10_000, rel=0.05)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.02
    assert abs(np.corrcoef(first, draws(keys, visits + 1)[0])[0, 1]) < 0.02


@pytest.mark.parametrize(("rate", "days"), [(0.005, 20.0), (0.02, 10.0), (0.3, 2.0)])
def test_two_bytes_learn_a_rate(rate: float, days: float) -> None:
    """The median of 500 pages after 60 visits each at uneven intervals, through codes each time. Beliefs begin with a
    change a month, and hear of at most one change a visit."""
    rng = np.random.default_rng(7)
    pages, prior = 500, np.full(500, rate_code(np.array([1 / 30]))[0])
    keys = rng.integers(0, 2**63, pages).astype(np.uint64)
    a = b = np.zeros(pages, np.uint8)
    for visit in range(60):
        passed = days * rng.uniform(0.3, 1.7, pages)
        change = rng.random(pages) < -np.expm1(-rate * passed)
        after = observed(belief_of(a, b, prior), passed, change)
        a, b = codes_of(after, prior, *draws(keys, np.full(pages, visit)))
    belief = belief_of(a, b, prior)
    assert np.median(belief.a / belief.b) == pytest.approx(rate, rel=0.15)
    assert PRIOR_SHAPE < belief.a.max() < 80
