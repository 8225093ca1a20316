"""`[site."x"]` of the configuration, asked by host name: each key has the value of the name itself, or of the nearest
name above it that sets the key. A dot at the end of a name makes no difference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from irlcrawl.base.keys import name_key
from irlcrawl.config.keys import Site


class Overrides:
    def __init__(self, sites: Mapping[str, Site]) -> None:
        self._sites = {name.lower().rstrip("."): site for name, site in sites.items()}
        self._none = Site()

    def of(self, name: str) -> Site:
        """The values for a host name; None for every key that no section sets."""
        if not self._sites:
            return self._none
        found, name = Site(), name.rstrip(".")
        while name:
            site = self._sites.get(name)
            if site is not None:
                for key in fields(Site):
                    if getattr(found, key.name) is None:
                        setattr(found, key.name, getattr(site, key.name))
            name = "" if ":" in name else name.partition(".")[2]  # an IPv6 address lies under no name
        return found

    def gap_host(self, name: str) -> float | None:
        return self.of(name).gap_host_seconds

    @property
    def block_any(self) -> bool:
        """Whether some site is blocked."""
        return any(site.block for site in self._sites.values())

    def blocked(self, name: str) -> bool:
        return bool(self.of(name).block)

    def budget_min_by_site(self) -> dict[int, int]:
        """Site key -> least budget, for the budgets."""
        return {
            name_key(name.encode()): site.budget_min
            for name, site in self._sites.items()
            if site.budget_min is not None
        }

    def bytes_per_second_by_site(self) -> dict[int, int]:
        """Site key -> bytes a second, of sites with a bandwidth of their own."""
        rates = ((name, site.bytes_per_second) for name, site in self._sites.items())
        return {name_key(name.encode()): rate for name, rate in rates if rate}

    def pages_max_by_site(self) -> dict[int, int]:
        """Site key -> quota, for the budgets (which know keys only)."""
        return {
            name_key(name.encode()): site.pages_max for name, site in self._sites.items() if site.pages_max is not None
        }
