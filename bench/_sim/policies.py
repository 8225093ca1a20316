"""The policies that are compared: what each does to the configuration, and (an oracle) to the frontier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from budgets import Sites
from budgets.star import Star
from budgets.worth import Worth
from irlcrawl.config.keys import Config
from tools.simweb.truth import NEVER, Kind, Truth
from tools.simweb.web import Web

CAP = 100
"""URLs of a host, or of a site, under the policies with a fixed cap."""


class HasSites(Protocol):
    sites: Sites


@dataclass
class Policy:
    name: str
    configure: Callable[[Config], None]
    attach: Callable[[HasSites, Web], None] = lambda state, web: None
    admit: NDArray[np.bool_] | None = None


def _paper(config: Config) -> None:
    """STAR and BEAST as published, nothing beyond."""
    budgets = config.budgets
    budgets.base, budgets.top_sites, budgets.top_budget, budgets.curve = 10, 10_000, 10_000, "linear"
    budgets.unsupported, budgets.seed_floor, budgets.yield_weight, budgets.hops = 0, 1, 0.0, 1
    budgets.duplicates_last, budgets.home_nearness, budgets.link_list_sites = False, 1, 0


def _breadth_first(config: Config) -> None:
    _paper(config)
    config.budgets.curve = "none"


def _cap_host(config: Config) -> None:
    _breadth_first(config)
    config.limits.pages_per_host = CAP


def _cap_site(config: Config) -> None:
    _breadth_first(config)
    config.limits.pages_per_site = CAP


def _ours(config: Config) -> None:
    """What a crawl has that is told nothing."""


def _all_knowing(config: Config) -> None:
    _paper(config)
    config.budgets.base, config.budgets.home_nearness = 2, 64


def _all_knowing_but_homes(config: Config) -> None:
    _all_knowing(config)
    config.budgets.home_nearness = 1


def _let_good_be(state: HasSites, web: Web) -> None:
    state.sites.worth = _Lenient(**vars(state.sites.worth), web=web)


def _told(state: HasSites, web: Web) -> None:
    state.sites.worth = _Importance(web=web, nearness=state.sites.worth.nearness)


def policies() -> dict[str, Policy]:
    good = np.zeros(len(Truth), np.bool_)
    good[Truth.GOOD] = True
    return {
        "breadth-first": Policy("breadth-first", _breadth_first),
        "cap-host": Policy("cap-host", _cap_host),
        "cap-site": Policy("cap-site", _cap_site),
        "paper": Policy("paper", _paper),
        "ours": Policy("ours", _ours),
        "oracle": Policy("oracle", _all_knowing, _told, admit=good),
    }


def variants() -> dict[str, Policy]:
    """`ours` with one thing changed, to see what each of its parts is worth; and what its parts could be worth at most:
    `ours-told` lets no enemy in, `oracle-untold` knows what sites are worth and lets everybody in, `ours-lenient` holds
    back for its yield no site that is good from beginning to end: what it covers more is what false positives cost."""
    good = policies()["oracle"].admit
    return {
        **{name: Policy(name, partial(_changed, values=values)) for name, values in _VARIANTS.items()},
        "ours-told": Policy("ours-told", _ours, admit=good),
        "ours-lenient": Policy("ours-lenient", _ours, _let_good_be),
        "oracle-untold": Policy("oracle-untold", _all_knowing, _told),
        "oracle-no-homes": Policy("oracle-no-homes", _all_knowing_but_homes, _told, admit=good),
    }


_VARIANTS: dict[str, dict[str, Any]] = {
    "ours-rank": {"curve": "rank", "top_sites": 10_000},
    "ours-log": {"curve": "log", "top_sites": 10_000},
    "ours-no-lists": {"link_list_sites": 0},
    "ours-no-homes": {"home_nearness": 1},
    "ours-no-yield": {"yield_weight": 0.0},
    "ours-two-hops": {"hops": 2},
    "ours-unsupported-base": {"unsupported": 0},
    "ours-credulous": {"duplicates_last": False},
    "ours-seed-floor-10": {"seed_floor": 10},
    "ours-scale-1": {"base": 2, "top_budget": 10_000, "seed_floor": 100},
    "ours-before": {"curve": "rank", "top_sites": 10_000, "hops": 2, "home_nearness": 1},
}


def _changed(config: Config, values: dict[str, Any]) -> None:
    for key, value in values.items():
        setattr(config.budgets, key, value)


@dataclass(frozen=True)
class _Lenient(Worth):
    """No good site has less than its in-degree gives, whatever its pages brought."""

    web: Web | None = None

    def budgets(self, star: Star, sites: NDArray[np.uint64], known: dict[str, NDArray[Any]]) -> NDArray[np.int64]:
        web = self.web
        assert web is not None
        numbers = web.keyed_sites(sites)
        good = (web.kind(numbers) == Kind.GOOD) & (web.turn(numbers) == NEVER)
        due = Worth(unsupported=self.unsupported, seed_floor=self.seed_floor).budgets(star, sites, known)
        return np.where(good, due, super().budgets(star, sites, known))


@dataclass(frozen=True)
class _Importance(Worth):
    """Budgets by what each site is truly worth, on the curve of in-degrees: the web's own number in the place of the
    estimate."""

    web: Web | None = None

    def budgets(self, star: Star, sites: NDArray[np.uint64], known: dict[str, NDArray[Any]]) -> NDArray[np.int64]:
        web = self.web
        assert web is not None
        worth = web.site_importance(web.keyed_sites(sites))
        best = web.site_importance(np.zeros(1, np.int64))[0]
        params = star.params
        return params.base + (params.top_budget * worth / best).astype(np.int64)

    def entries(self, known: dict[str, NDArray[Any]]) -> NDArray[np.int64]:
        return np.full(len(known["in_degree"]), self.nearness, np.int64)
