"""What is believed of the rate at which a page changes, in two bytes of its row.

A page changes as a Poisson process of an unknown rate, which is Gamma(shape a, exposure b in days) distributed. Of that
the row holds what the page itself has shown, without its prior: shape and exposure as codes of an eighth of an octave.
A visit that finds no change adds its interval to b, exactly. One that finds a change tells that there was at least one
in the interval: the belief takes the first two moments of that posterior (assumed-density filtering), in closed form
for any interval. After an interval much longer than 1 / rate a change teaches nothing, so pages that change faster than
they are visited are not taken for slow ones.

Codes are rounded at random, up or down, so that the mean is kept: an exposure would else stand still as soon as one
interval is less than half a step. The draw is a hash of the page and its visit: a replay gives the same codes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

F8 = NDArray[np.float64]
U1 = NDArray[np.uint8]
U8 = NDArray[np.uint64]

STEPS = 8.0  # codes of an octave
PRIOR_SHAPE = 0.4
"""Shape of the prior: how widely rates of pages differ. Of 0.3 to 0.6 it hardly matters."""
SHAPE_MAX, FORGET = 40.0, 0.97
"""A belief of a larger shape forgets a little at each visit, so that a page may become another."""
RATE_ONE, LEVEL_ONE = 128, 64  # codes of 1

LEVELS: F8 = np.concatenate(([0.0], 2.0 ** ((np.arange(1, 256) - LEVEL_ONE) / STEPS)))
"""What the codes of shapes and exposures stand for: 0, then 0.004 to 16 million."""
RATES: F8 = 2.0 ** ((np.arange(256) - RATE_ONE) / STEPS)
"""What the codes of rates (a day) stand for."""


class Belief(NamedTuple):
    """Gamma beliefs of rates a day, a row each: a > 0, b > 0 (days). Their means are a / b."""

    a: F8
    b: F8


def belief_of(rate_a: U1, rate_b: U1, prior: U1) -> Belief:
    """The belief in a page's row together with its prior, whose mean is the rate with code `prior`."""
    return Belief(PRIOR_SHAPE + LEVELS[rate_a], PRIOR_SHAPE / RATES[prior] + LEVELS[rate_b])


def codes_of(belief: Belief, prior: U1, draw_a: F8, draw_b: F8) -> tuple[U1, U1]:
    """(rate_a, rate_b) of a belief: its prior is taken off, the rest rounded by draws in [0, 1)."""
    return coded(belief.a - PRIOR_SHAPE, draw_a), coded(belief.b - PRIOR_SHAPE / RATES[prior], draw_b)


def coded(value: F8, draw: F8) -> U1:
    """The code next below or next above, so that its mean over draws in [0, 1) is the value; what is negative is 0. A
    value that is a code's own is that code, whatever is drawn."""
    value = np.clip(value, 0.0, LEVELS[-1])
    below = np.minimum(np.searchsorted(LEVELS, value * (1 + 1e-12), side="right") - 1, 254)
    low, high = LEVELS[below], LEVELS[below + 1]
    share = (value - low) / (high - low)
    return (below + ((share > 1e-9) & (draw < share))).astype(np.uint8)


def rate_code(rate: F8) -> U1:
    """The code next to a rate a day."""
    return np.clip(np.rint(STEPS * np.log2(np.maximum(rate, 1e-9))) + RATE_ONE, 0, 255).astype(np.uint8)


def unchanged(belief: Belief, days: F8) -> Belief:
    """After an interval without a change. Exact."""
    return Belief(belief.a, belief.b + days)


def changed(belief: Belief, days: F8) -> Belief:
    """After an interval (> 0 days) with at least one change: the Gamma with the first two moments of the posterior, in
    which every moment of the prior lost its part of intervals without one."""
    a, b = belief
    length = np.log1p(days / b)
    some = -np.expm1(-a * length)
    first = a / b * -np.expm1(-(a + 1) * length) / some
    second = a * (a + 1) / b**2 * -np.expm1(-(a + 2) * length) / some
    spread = np.maximum(second - first**2, 1e-12 * first**2)
    return Belief(first**2 / spread, first / spread)


def observed(belief: Belief, days: F8, change: NDArray[np.bool_]) -> Belief:
    """After visits that found a change or none, `days` (>= 0) after the visit before."""
    some = changed(belief, np.maximum(days, 1e-6))  # a millionth of a day: nearly "exactly one"
    none = unchanged(belief, days)
    a, b = np.where(change, some.a, none.a), np.where(change, some.b, none.b)
    fade = np.where(a > SHAPE_MAX, FORGET, 1.0)
    return Belief(a * fade, b * fade)


def draws(keys: U8, visits: NDArray[Any]) -> tuple[F8, F8]:
    """Two draws in [0, 1) a row, from a hash of the page's key and the number of its visit (splitmix64)."""
    with np.errstate(over="ignore"):
        mixed = keys + visits.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    low = mixed & np.uint64(0xFFFFFFFF)
    return (mixed >> np.uint64(32)).astype(np.float64) / 2**32, low.astype(np.float64) / 2**32
