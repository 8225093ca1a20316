"""The policies that are compared: what each does to the configuration, and (an oracle) to the frontier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgets.star import Star
from budgets.worth import Worth
from irlcrawl.config import Config
from irlcrawl.frontier.state import State
from tools.simweb.truth import Truth
from tools.simweb.web import Web

CAP = 100
"""URLs of a host, or of a site, under the policies with a fixed cap."""


@dataclass
class Policy:
    name: str
    configure: Callable[[Config], None]
    attach: Callable[[State, Web], None] = lambda state, web: None
    admit: NDArray[np.bool_] | None = None


def _breadth_first(config: Config) -> None:
    config.budgets.curve = "none"


def _cap_host(config: Config) -> None:
    _breadth_first(config)
    config.limits.pages_per_host = CAP


def _cap_site(config: Config) -> None:
    _breadth_first(config)
    config.limits.pages_per_site = CAP


def _paper(config: Config) -> None:
    config.budgets.base, config.budgets.top_sites, config.budgets.top_budget = 10, 10_000, 10_000
    config.budgets.curve = "linear"


def _ours(config: Config) -> None:
    """What this crawler offers beyond the paper, turned on."""
    budgets = config.budgets
    budgets.base, budgets.unsupported, budgets.yield_weight, budgets.hops = 2, 1, 1.0, 2
    budgets.duplicates_last = True


def _in_degree_alone(state: State, web: Web) -> None:
    """Nothing beyond the paper."""
    state.sites.worth = Worth()


def _told(state: State, web: Web) -> None:
    state.sites.worth = _Importance(web=web)


def policies() -> dict[str, Policy]:
    good = np.zeros(len(Truth), np.bool_)
    good[Truth.GOOD] = True
    return {
        "breadth-first": Policy("breadth-first", _breadth_first, _in_degree_alone),
        "cap-host": Policy("cap-host", _cap_host, _in_degree_alone),
        "cap-site": Policy("cap-site", _cap_site, _in_degree_alone),
        "paper": Policy("paper", _paper, _in_degree_alone),
        "ours": Policy("ours", _ours),
        "oracle": Policy("oracle", _ours, _told, admit=good),
    }


def variants() -> dict[str, Policy]:
    """`ours` with one thing changed: what each of its parts is worth."""
    return {
        name: Policy(name, partial(_changed, key=key, value=value))
        for name, key, value in (
            ("ours-linear", "curve", "linear"),
            ("ours-rank", "curve", "rank"),
            ("ours-no-yield", "yield_weight", 0.0),
            ("ours-one-hop", "hops", 1),
            ("ours-unsupported-base", "unsupported", 0),
            ("ours-base-10", "base", 10),
            ("ours-credulous", "duplicates_last", False),
        )
    }


def _changed(config: Config, key: str, value: object) -> None:
    _ours(config)
    setattr(config.budgets, key, value)


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
