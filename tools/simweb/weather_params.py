"""What the weather is made of: every share, rate and duration, with its default. docs/weather.md says where each is
from and which are guesses."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

from tools.simweb.weather_spells import NEVER, Spell

MINUTE, HOUR, DAY, WEEK = 60.0, 3600.0, 86_400.0, 7 * 86_400.0

BLIPS = Spell(0.3, DAY, 5.0, 15 * MINUTE)
OUTAGES = Spell(0.12, WEEK, 15 * MINUTE, DAY)
ABSENCES = Spell(0.02, 8 * WEEK, DAY, 4 * WEEK)
NAME_SPELLS = Spell(0.03, WEEK, MINUTE, 6 * HOUR)
ADDRESS_SPELLS = Spell(0.05, WEEK, MINUTE, 6 * HOUR)
ROBOTS_SPELLS = Spell(0.1, WEEK, 10 * MINUTE, DAY)


@dataclass(frozen=True)
class WeatherParams:
    """The definition of one weather. Shares are of 1, and of hosts unless it says otherwise."""

    sound_sites: float = 100.0  # so many of the most popular sites have nothing wrong for good

    # For good
    unknown_share: float = 0.1  # the name does not exist (NXDOMAIN)
    lame_share: float = 0.007  # its name servers never answer
    refused_share: float = 0.017  # nothing listens
    silent_share: float = 0.017  # no packet ever comes back
    certificate_share: float = 0.01  # of https hosts: the handshake fails
    broken_share: float = 0.005  # 500 to everything, robots.txt too
    challenge_share: float = 0.08  # an interstitial instead of every page, robots.txt but for
    challenge_503_share: float = 0.1  # of those with 503, the others with 403
    parked_share: float = 0.04  # of good hosts: one page of advertisements under every URL
    death_per_day: float = 0.0003  # chance that a host ends for good: its name does

    # For a while: spells of a host, of a site's name servers, of an address of hosting, of a host's robots.txt
    blips: Spell = BLIPS
    outages: Spell = OUTAGES
    absences: Spell = ABSENCES
    absence_unknown_share: float = 0.3  # of absences: the name is gone, too
    name_spells: Spell = NAME_SPELLS
    address_spells: Spell = ADDRESS_SPELLS
    robots_spells: Spell = ROBOTS_SPELLS

    # Pages
    missing_share: float = 0.09  # of pages but home pages: 404
    soft_missing_share: float = 0.25  # of sites answer 200 for what is missing
    moved_share: float = 0.05  # of pages but home pages: redirect to another page of the host
    moved_found_share: float = 0.32  # of those with 302, the others with 301
    page_broken_share: float = 0.004  # of pages but home pages: 500 always
    page_passing_share: float = 0.004  # of pages in a minute: an error that passes

    # Throttling
    throttle_share: float = 0.25  # bear no more than a rate
    throttle_median: float = 2.0  # requests per second
    throttle_sigma: float = 1.2  # of its logarithm
    throttle_least: float = 0.1
    throttle_after_share: float = 0.4  # of those say Retry-After, a quarter of them as a date
    throttle_503_share: float = 0.2  # of those answer 503 instead of 429

    # Time and size
    latency_median: float = 0.6  # seconds to the first byte, over hosts
    latency_sigma: float = 0.77
    slow_share: float = 0.03  # slow_factor times as slow
    slow_factor: float = 20.0
    bandwidth_median: float = 1_000_000.0  # bytes of a body per second, over hosts
    bandwidth_sigma: float = 1.0
    bytes_median: float = 90_000.0  # of a page's HTML, decoded
    bytes_sigma: float = 1.06

    # Spellings: http and https, with and without www.
    https_share: float = 0.92  # of sites
    upgrade_share: float = 0.9  # of https sites redirect http to https; the others answer both
    one_name_share: float = 0.9  # of sites redirect between apex and www.; the others answer both
    other_name_missing_share: float = 0.05  # of sites: the other of apex and www. does not exist
    found_share: float = 0.25  # of sites redirect so with 302, the others with 301
    two_hops_share: float = 0.3  # of sites need two redirects for http and the other name
    link_http_share: float = 0.1  # of links to other sites, where those are https
    link_other_name_share: float = 0.05  # of links to other sites
    wildcard_share: float = 0.1  # of sites: every name below the domain exists

    # robots.txt; what is left has one
    robots_missing_share: float = 0.133  # 404
    robots_forbidden_share: float = 0.005  # 403
    robots_broken_share: float = 0.001  # 500 always
    robots_silent_share: float = 0.003  # never answers
    robots_redirect_share: float = 0.02  # it is elsewhere on the host
    robots_html_share: float = 0.03  # 200 and a page

    # Addresses, of sites; what is left has one of its own
    network_share: float = 0.35  # behind a content network, on two addresses
    network_sites: float = 200.0  # of an address
    builder_share: float = 0.15  # made by a builder of sites
    builder_sites: float = 100_000.0
    hosting_share: float = 0.324  # shared hosting
    hosting_sites: float = 300.0
    wide_share: float = 0.001  # on many addresses of their own
    wide_addresses: float = 200.0
    network_bears: float = 1000.0  # requests per second of one client, to an address
    builder_bears: float = 50.0
    hosting_bears: float = 10.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            share = field.name.endswith("_share")
            if not isinstance(value, Spell) and not 0 <= value <= (1 if share else math.inf):
                raise ValueError(f"{field.name} is {'from 0 to 1' if share else '0 or above'}, not {value:g}")
        for name, parts in PARTS.items():
            if (total := sum(getattr(self, part) for part in parts)) > 1 + 1e-9:
                raise ValueError(f"shares of {name} add up to {total:g}, more than 1: {', '.join(parts)}")

    def overridden(self, settings: list[str]) -> WeatherParams:
        """With `name=number` applied; `blips.chance=0` for a part of a spell. ValueError names what it cannot read."""
        kinds = {f.name: f.type for f in fields(self)}
        changed = self
        for setting in settings:
            name, _, text = setting.partition("=")
            whole, _, part = name.partition(".")
            if whole not in kinds or (part and part not in Spell.__annotations__):
                raise ValueError(f"no parameter {name!r} of the weather; there are {', '.join(kinds)}")
            value: Any = _number(name, text)
            if part:
                value = replace(getattr(changed, whole), **{part: value})
            changed = replace(changed, **{whole: value})
        return changed


PARTS = {
    "hosts": ("unknown_share", "lame_share", "refused_share", "silent_share", "certificate_share", "broken_share",
              "challenge_share", "parked_share"),
    "pages": ("missing_share", "moved_share", "page_broken_share"),
    "robots.txt": ("robots_missing_share", "robots_forbidden_share", "robots_broken_share", "robots_silent_share",
                   "robots_redirect_share", "robots_html_share"),
    "addresses": ("network_share", "builder_share", "hosting_share", "wide_share"),
}  # fmt: skip
"""Shares of one whole."""


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{name} is a number, not {text!r}") from None


STAYS = ("https_share", "upgrade_share", "one_name_share", "robots_missing_share", "network_share", "builder_share",
         "hosting_share", "wide_share")  # fmt: skip
"""Shares that are no weather."""


def _calm() -> WeatherParams:
    changes: dict[str, Any] = {}
    for field in fields(WeatherParams):
        if field.name.endswith(("_share", "_per_day")) and field.name not in STAYS:
            changes[field.name] = 0.0
        if field.name.endswith("_bears"):
            changes[field.name] = math.inf
        if isinstance(field.default, Spell):
            changes[field.name] = NEVER
    return replace(WeatherParams(), **changes)


CALM = _calm()
"""No weather at all: every host answers and bears any rate of requests. Addresses stay shared."""
