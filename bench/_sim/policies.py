"""The policies that are compared: what each does to the configuration, and (an oracle) to the frontier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
    wary: bool = False


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
    import os
    e = dict(x.split('=') for x in os.environ.get('OURS', '').split(',') if x)
    config.budgets.base = int(e.get('base', 10))
    config.budgets.curve = e.get('curve', 'log')
    config.budgets.top_budget = int(e.get('top', 10000))
    config.budgets.top_sites = int(e.get('sites', 10000))


def _our_worth(state: State, web: Web) -> None:
    import os
    e = dict(x.split('=') for x in os.environ.get('OURS', '').split(',') if x)
    state.sites.worth = Worth(weight=float(e.get('weight', 3)), power=float(e.get('power', 1)), unsupported=int(e.get('unsup', 1)), seed_floor=10, hops=int(e.get('hops',2)))


def policies() -> dict[str, Policy]:
    good = np.zeros(len(Truth), np.bool_)
    good[Truth.GOOD] = True
    return {
        "breadth-first": Policy("breadth-first", _breadth_first),
        "cap-host": Policy("cap-host", _cap_host),
        "cap-site": Policy("cap-site", _cap_site),
        "paper": Policy("paper", _paper),
        "ours": Policy("ours", _ours, _our_worth, wary=True),
        "oracle": Policy("oracle", _ours, admit=good),
    }
