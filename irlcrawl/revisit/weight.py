"""How much a page counts, and within which bounds it is visited again, as far as rules say.

Importance comes from what the row holds: seeds and home pages count more, pages far from a seed and those with a query
less. A rule ([[revisit_rule]]) and a site ([site."NAME"]) multiply it. Only the ratios matter: the price takes up any
common factor.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from drum import Batch, Ragged

import numpy as np
from numpy.typing import NDArray

from irlcrawl.base.pattern import compiled
from irlcrawl.base.rows import Source
from irlcrawl.base.url import host_of
from irlcrawl.config.keys import Config, Site
from irlcrawl.config.overrides import Overrides
from irlcrawl.revisit.beliefs import F8, U1

WEIGHTS: F8 = 2.0 ** ((np.arange(256) - 128) / 8.0)
"""What codes of weights stand for."""
DAY_S = 86_400.0
DEPTH_MAX = 8
HOSTS_CACHED = 10_000
_DEPTH, _QUERY, _HOME, _SEED = -0.7, -0.5, 2.0, 1.0  # octaves
_QUERY_MARK, _SLASH = b"?"[0], b"/"[0]


@dataclass(frozen=True, slots=True)
class Terms:
    """Of some pages, a row each: weights (1: as any), and the least and the most days between two visits."""

    weight: F8
    least: F8
    most: F8


class Rules:
    """What the configuration says of pages, by URL. A bound is that of the page's rule; of its site where the rule sets
    none; of [revisit] where neither does."""

    def __init__(self, config: Config) -> None:
        revisit = config.revisit
        self._least, self._most = revisit.every_min_seconds / DAY_S, revisit.every_max_days
        self._overrides = Overrides(config.site) if any(map(_sets_terms, config.site.values())) else None
        self._of_host = lru_cache(maxsize=HOSTS_CACHED)(self._terms_of)
        self._rules = [(compiled(rule.match or ""), rule) for rule in config.revisit_rule]

    def of(self, urls: Ragged) -> Terms:
        """A Python loop per URL if there are rules or sites with terms: the matcher takes one at a time."""
        rows = len(urls)
        weight, least, most = np.ones(rows), np.full(rows, self._least), np.full(rows, self._most)
        for at, url in enumerate(urls.tolist() if self._rules or self._overrides is not None else ()):
            if self._overrides is not None:
                weight[at], least[at], most[at] = self._of_host(host_of(url))
            rule = next((rule for pattern, rule in self._rules if pattern.search(url)), None)
            if rule is None:
                continue
            weight[at] *= 1.0 if rule.weight is None else rule.weight
            least[at] = least[at] if rule.every_min_seconds is None else rule.every_min_seconds / DAY_S
            most[at] = most[at] if rule.every_max_seconds is None else rule.every_max_seconds / DAY_S
        return Terms(weight, np.minimum(least, most), most)

    def keys_of(self, url: bytes) -> tuple[str, str]:
        """The names of the keys that bound the time between two visits of a page: (least, most)."""
        host, names = host_of(url), ["revisit.every_min_seconds", "revisit.every_max_days"]
        for at, bound in enumerate(("every_min_seconds", "every_max_seconds")):
            rule = next((n for n, (pattern, _) in enumerate(self._rules) if pattern.search(url)), None)
            section = self._overrides.setter(host, f"revisit_{bound}") if self._overrides is not None else None
            if rule is not None and getattr(self._rules[rule][1], bound) is not None:
                names[at] = f"revisit_rule {rule + 1}.{bound}"
            elif section is not None:
                names[at] = f'site."{section}".revisit_{bound}'
        return names[0], names[1]

    def _terms_of(self, host: str) -> tuple[float, float, float]:
        """(weight, least days, most days) of pages of a host that no rule is about."""
        assert self._overrides is not None
        site = self._overrides.of(host)
        least, most = site.revisit_every_min_seconds, site.revisit_every_max_seconds
        return (
            1.0 if site.revisit_weight is None else site.revisit_weight,
            self._least if least is None else least / DAY_S, self._most if most is None else most / DAY_S,
        )  # fmt: skip


def _sets_terms(site: Site) -> bool:
    told = (site.revisit_weight, site.revisit_every_min_seconds, site.revisit_every_max_seconds)
    return any(value is not None for value in told)


def weight_codes(links: Batch) -> U1:
    """Of LINK rows, without rules."""
    urls: Ragged = links["url"]
    blob, offsets = urls.blob, urls.offsets
    queries = _counts(blob == _QUERY_MARK, offsets) > 0
    slashes = _counts(blob == _SLASH, offsets)
    last = blob[np.maximum(offsets[1:] - 1, 0)] if len(blob) else np.zeros(0, np.uint8)
    home = (slashes == 3) & (last == _SLASH)  # http://name/
    octaves = _DEPTH * np.minimum(links["depth"], DEPTH_MAX).astype(np.float64)
    octaves += _QUERY * queries + _HOME * home + _SEED * (links["source"] == Source.SEED)
    return np.clip(np.rint(8.0 * octaves) + 128, 0, 255).astype(np.uint8)


def _counts(marks: NDArray[np.bool_], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many are true in each row of a ragged column."""
    before = np.concatenate(([0], np.cumsum(marks)))
    counts: NDArray[np.int64] = before[offsets[1:]] - before[offsets[:-1]]
    return counts
