"""What the weather is made of: every share, rate and duration, with its default. docs/weather.md says where each is
from and which are guesses."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

from tools.simweb.weather_spells import NEVER, Spell

MINUTE, HOUR, DAY, WEEK = 60.0, 3600.0, 86_400.0, 7 * 86_400.0

BLIPS = Spell(0.05, DAY, 5.0, 5 * MINUTE)
OUTAGES = Spell(0.1, WEEK, 10 * MINUTE, 12 * HOUR)
ABSENCES = Spell(0.05, 8 * WEEK, DAY, 3 * WEEK)
NAME_SPELLS = Spell(0.05, WEEK, MINUTE, 6 * HOUR)
ADDRESS_SPELLS = Spell(0.1, WEEK, MINUTE, 6 * HOUR)
ROBOTS_SPELLS = Spell(0.02, WEEK, 10 * MINUTE, 12 * HOUR)


@dataclass(frozen=True)
class WeatherParams:
    """The definition of one weather. Shares are of 1; `_share` of hosts unless it says otherwise."""

    # For good
    unknown_share: float = 0.05  # the name does not exist (NXDOMAIN)
    lame_share: float = 0.005  # its name servers never answer
    refused_share: float = 0.015  # nothing listens
    silent_share: float = 0.015  # no packet ever comes back
    certificate_share: float = 0.01  # of https hosts: the handshake fails
    broken_share: float = 0.005  # 5xx to everything, robots.txt too
    challenge_share: float = 0.02  # an interstitial instead of every page
    challenge_503_share: float = 0.1  # of those with 503, the others with 403
    parked_share: float = 0.03  # of good sites: one page of advertisements under every URL
    death_per_day: float = 0.0003  # chance that a host ends for good

    # For a while: spells of a host, of the name servers of a site, of a hosting address, of a robots.txt
    blips: Spell = BLIPS
    outages: Spell = OUTAGES
    absences: Spell = ABSENCES
    name_spells: Spell = NAME_SPELLS
    address_spells: Spell = ADDRESS_SPELLS
    robots_spells: Spell = ROBOTS_SPELLS

    # Pages
    missing_share: float = 0.06  # of pages: 404
    soft_missing_share: float = 0.15  # of sites answer 200 for what is missing
    moved_share: float = 0.05  # of pages: 301 to another page of the host
    page_broken_share: float = 0.004  # of pages: 500 always
    page_passing_share: float = 0.004  # of pages in a minute: 500, 502, 503, 504 or a closed connection

    # Throttling
    throttle_share: float = 0.25  # of hosts bear no more than a rate
    throttle_median: float = 2.0  # requests per second
    throttle_sigma: float = 1.2
    throttle_after_share: float = 0.4  # of those say Retry-After
    throttle_503_share: float = 0.2  # of those answer 503 instead of 429

    # Time and size
    https_share: float = 0.9  # of sites
    latency_median: float = 0.4  # seconds to the first byte, over hosts
    latency_sigma: float = 0.9
    slow_share: float = 0.03  # of hosts, slow_factor times as slow
    slow_factor: float = 20.0
    bandwidth_median: float = 1_000_000.0  # bytes per second
    bandwidth_sigma: float = 1.0
    bytes_median: float = 30_000.0  # of a page's HTML
    bytes_sigma: float = 1.1

    # Spellings: http and https, with and without www.
    upgrade_share: float = 0.93  # of https sites redirect http to https; the others answer both
    one_name_share: float = 0.9  # of sites redirect between apex and www.; the others answer both
    other_name_missing_share: float = 0.05  # of sites: the other of apex and www. does not exist
    two_hops_share: float = 0.3  # of sites need two redirects for http and the other name
    link_http_share: float = 0.1  # of links to other sites that are https name them by http
    link_other_name_share: float = 0.05  # of links to other sites use the other name
    wildcard_share: float = 0.1  # of good sites: every name below the domain resolves, to the home page

    # robots.txt, of hosts that answer; what is left has one
    robots_missing_share: float = 0.3  # 404
    robots_forbidden_share: float = 0.02  # 403
    robots_broken_share: float = 0.005  # 5xx always
    robots_silent_share: float = 0.002  # never answers
    robots_redirect_share: float = 0.02  # to the home page
    robots_html_share: float = 0.02  # 200 and a page

    # Addresses, of sites
    network_share: float = 0.2  # behind a content network
    network_sites: float = 200.0  # a shared address of it
    builder_share: float = 0.1  # a builder of sites
    builder_sites: float = 100_000.0  # an address of it
    hosting_share: float = 0.45  # shared hosting
    hosting_sites: float = 300.0
    wide_share: float = 0.001  # sites on many addresses of their own; what is left has one
    wide_addresses: float = 200.0
    network_bears: float = 1000.0  # requests per second of one client, an address
    builder_bears: float = 50.0
    hosting_bears: float = 10.0

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
