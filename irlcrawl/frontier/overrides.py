"""`[site."x"]` of the configuration, asked by host name: the entry of the name itself or of the nearest one above
it."""

from __future__ import annotations

from irlcrawl.config import Site
from irlcrawl.rows import name_key

CACHE_NAMES_MAX = 65_536


class Overrides:
    def __init__(self, sites: dict[str, Site]) -> None:
        self._sites = sites
        self._cache: dict[str, Site | None] = {}

    def of(self, name: str) -> Site | None:
        """The override that holds for a host name, or None."""
        if not self._sites:
            return None
        if name not in self._cache:
            if len(self._cache) >= CACHE_NAMES_MAX:
                self._cache.clear()
            self._cache[name] = self._find(name)
        return self._cache[name]

    def _find(self, name: str) -> Site | None:
        while True:
            if name in self._sites:
                return self._sites[name]
            _, dot, name = name.partition(".")
            if not dot:
                return None

    def gap_host(self, name: str) -> float | None:
        site = self.of(name)
        return None if site is None else site.gap_host_seconds

    @property
    def block_any(self) -> bool:
        """Some site is blocked."""
        return any(site.block for site in self._sites.values())

    def blocked(self, name: str) -> bool:
        site = self.of(name)
        return site is not None and site.block

    def budget_min_by_site(self) -> dict[int, int]:
        """Site key -> least budget, for the budgets."""
        return {
            name_key(name.encode()): site.budget_min
            for name, site in self._sites.items()
            if site.budget_min is not None
        }

    def pages_max_by_site(self) -> dict[int, int]:
        """Site key -> quota, for the budgets (which know keys only)."""
        return {
            name_key(name.encode()): site.pages_max for name, site in self._sites.items() if site.pages_max is not None
        }
