"""What a visit is worth, and when: one index in weighted page-days of freshness, and one price for it.

With S(u) the chance that a copy is still right u days after it was made, a visit after T days is worth

    V(T) = w * integral over u from 0 to T of (S(u) - S(T))

For a known rate that is the marginal value of Cho and Garcia-Molina (TODS 2003); under a Gamma belief S is a Lomax
distribution's. A page is due when V meets the price, which is the shadow price of the crawl's capacity. No solver
computes it: rows are served in the order of their dues, late ones first, else early ones, and the price follows the
median worth of what is served. Pages served late are worth more than the price, so it rises and new dues move out;
where there is room for more, pages are served early, are worth less, and it sinks.

An unknown rate (a <= 1) has a worth without bound, so nothing unknown starves. A fast page whose worth stays below the
price does, until `every_max`: a copy of it would be wrong most of the time, whatever was spent on it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from irlcrawl.revisit.beliefs import F8, PRIOR_SHAPE, Belief

ROUNDS = 6.0
"""The price follows its sample in a sixth of the visits that all known pages would take once. In half of them it took
months to find where it belongs, where a page has two visits until then (docs/freshness.md)."""
STEP_MAX = 0.5
"""The most of the way to its sample that the price goes in one turn."""
FAR = 1.0
"""A sample farther from the price than this, in logarithms, counts as being so far away."""
FIRST_INTERVAL = 0.2
_SERIES = 1e-4
_TRIES = 60


def survival(belief: Belief, days: F8) -> F8:
    """The chance that a page has not changed since a visit so many days ago."""
    survived: F8 = np.exp(-belief.a * np.log1p(days / belief.b))
    return survived


def worth(belief: Belief, weight: F8, days: F8) -> F8:
    """V: weighted page-days that a visit brings, so many days after the one before."""
    a, b = belief
    x = days / b
    length = np.log1p(x)
    z = (a - 1) * length
    flat = np.abs(z) < 1e-12
    area = b * length * np.where(flat, 1.0, -np.expm1(-z) / np.where(flat, 1.0, z))
    exact = area - days * np.exp(-a * length)
    series = a * days**2 / (2 * b) * (1 - 2 / 3 * (a + 1) * x)  # the difference above has no digits left there
    return weight * np.where(x * (a + 1) < _SERIES, series, exact)


def due_after(belief: Belief, weight: F8, price: F8 | float, most: F8 | float) -> F8:
    """Days after a visit at which the next one is worth the price; `most` where it is not until then.

    Newton's steps on ln V over ln T, which is concave: begun below the root, they rise to it and never pass it."""
    a, b = belief
    price = np.broadcast_to(np.asarray(price, np.float64), a.shape)
    most = np.broadcast_to(np.asarray(most, np.float64), a.shape)
    with np.errstate(over="ignore", divide="ignore"):
        days = np.minimum(np.sqrt(2 * price * b / (weight * a)), most)  # V is never more than w a T^2 / 2b
    never = worth(belief, weight, most) <= price
    days = np.where(never, most, np.maximum(days, 1e-9))
    for _ in range(_TRIES):
        value = np.maximum(worth(belief, weight, days), 1e-300)
        slope = weight * days**2 * a / b * np.exp(-(a + 1) * np.log1p(days / b)) / value
        step = np.where(never, 0.0, (np.log(price) - np.log(value)) / np.maximum(slope, 1e-12))
        days = np.minimum(days * np.exp(np.clip(step, -1.0, 20.0)), most)
        if not len(step) or np.abs(step).max() < 1e-9:
            break
    return days


def chance_after(belief: Belief, chance: float) -> F8:
    """Days after which a page has changed with this chance (0 to below 1)."""
    return belief.b * np.expm1(-np.log1p(-chance) / belief.a)


def first_price(rate: float) -> float:
    """Where a crawl begins: the worth of a visit to a page of weight 1, of which nothing but the prior is known, after
    a fifth of its mean interval. A first price that is too low costs little: pages show early what they are, and it
    rises with the first that are served late. One that is too high cost 2 to 4% of the freshness of a year."""
    prior = Belief(np.array([PRIOR_SHAPE]), np.array([PRIOR_SHAPE / rate]))
    return float(worth(prior, np.ones(1), np.array([FIRST_INTERVAL / rate]))[0])


def moved(price: float, served: NDArray[np.float64], pages: int) -> float:
    """The price after visits worth `served` were given out, of so many pages known."""
    served = served[served > 0]
    if not len(served):
        return price
    step = min(-np.expm1(-ROUNDS * len(served) / max(pages, 1)), STEP_MAX)
    away = np.clip(np.median(np.log(served)) - np.log(price), -FAR, FAR)
    return float(price * np.exp(step * away))
