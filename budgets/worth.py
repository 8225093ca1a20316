"""Beyond in-degree: budgets that learn from what a site's pages turned out to be, and floors for vouched sites.

A site's yield is the share of its fetches that brought something: a successful page with content nobody had before.
Errors, mirrors and traps have little of it, whatever their URLs look like and however many sites link to them, and have
more of it as soon as they improve. The estimate is a Beta posterior's mean: `prior` with the weight of `weight`
fetches, so that nobody is judged by his first page. A site to which no novel page of another site links is unsupported
and waits longest; seeds and vouched sites are never below their floor.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from budgets.star import Ints, Star


@dataclass(frozen=True)
class Worth:
    """How budgets follow from a Star and what is known of the site. The defaults leave them to in-degree alone.

    weight: of the prior, in fetches; 0: yield is not looked at. unsupported: the budget of a site without in-degree, 0:
    the curve's; with one other site that links to it, it has the base whatever the curve says. hops: 2: only links from
    sites that are supported themselves count, by `supporters` others once enough sites are. seed_floor: the least
    budget of a site with a seed; floors: of single sites, by key. nearness: how many times nearer than its other URLs a
    site's entries stand (its home page, as a rule), where two sites or more link to it; 1: no nearer.
    """

    prior: float = 0.8
    weight: float = 0.0
    unsupported: int = 0
    seed_floor: int = 0
    hops: int = 1
    supporters: int = 3
    nearness: int = 1
    floors: dict[int, int] = field(default_factory=dict)

    def budgets(self, star: Star, sites: npt.NDArray[np.uint64], known: dict[str, npt.NDArray[Any]]) -> Ints:
        """URLs per queue of each site: i8[n], at least 1. known: columns of beast.RECORD."""
        budget = star.budgets(known["in_degree"])
        if star.params.curve == "none":  # breadth first: nothing below may hold a site back
            return budget
        if self.unsupported:
            budget = np.where(known["in_degree"] <= 1, np.minimum(star.params.base, budget), budget)
            budget = np.where(known["in_degree"] == 0, np.minimum(self.unsupported, budget), budget)
        if self.weight:
            share = np.minimum(self._yield(known), 1.0)
            budget = np.maximum((budget * share * share).astype(np.int64), 1)  # half the yield, a quarter of the budget
        if self.seed_floor:
            budget = np.where(known["seeds"] > 0, np.maximum(budget, self.seed_floor), budget)
        if self.floors:
            keys, floors = self._sorted_floors
            at = np.minimum(np.searchsorted(keys, sites), len(keys) - 1)
            budget = np.where(keys[at] == sites, np.maximum(budget, floors[at]), budget)
        return budget

    @cached_property
    def _sorted_floors(self) -> tuple[npt.NDArray[np.uint64], Ints]:
        some = sorted(self.floors.items())
        return np.array([key for key, _ in some], np.uint64), np.array([floor for _, floor in some], np.int64)

    def entries(self, known: dict[str, npt.NDArray[Any]]) -> Ints:
        """How many times nearer each site's entries stand: i8[n]. A site to which one other links may be any, a farm's
        among them: an eighth; without support no nearer."""
        least = np.where(known["in_degree"] == 1, max(self.nearness // 8, 1), 1)
        return np.where((known["in_degree"] > 1) | (known["seeds"] > 0), self.nearness, least)

    def supports(self, known: dict[str, npt.NDArray[Any]], in_degree_min: int) -> npt.NDArray[np.bool_]:
        """Whose links to other sites count: sites that are supported themselves, or hold a seed, and whose pages are
        not mostly worthless."""
        stands = (known["in_degree"] >= in_degree_min) | (known["seeds"] > 0)
        return stands & (self._yield(known) >= YIELD_MIN)

    def _yield(self, known: dict[str, npt.NDArray[Any]]) -> npt.NDArray[np.float64]:
        """The estimate over the prior: 1 for a site without a fetch."""
        if not self.weight:
            return np.ones(len(known["asked"]))
        share: npt.NDArray[np.float64] = (known["novel"] / self.prior + self.weight) / (known["asked"] + self.weight)
        return share


YIELD_MIN = 0.6
"""A site with less of the prior's yield supports nobody."""

IN_DEGREE_ALONE = Worth()
