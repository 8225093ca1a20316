"""What the simulated web is made of: every share and exponent, with its default, in one place.

The shares of the enemies were fixed before any policy was tried on them (issue 4), so that nobody tunes the web to the
policy. Shares are of 1; sizes are pages; `pages_nominal` and the enemies' sizes count what is finite: traps have no
last page.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any


@dataclass(frozen=True)
class Params:
    """The definition of one web. Two webs with equal parameters are equal in every byte."""

    seed: int = 1
    pages_nominal: int = 10**9
    port: int = 0  # in every URL; 0: the scheme's own
    https_share: float = 0.8  # of sites

    # Sites and hosts
    good_share: float = 0.5  # of pages_nominal
    site_pages_mean: float = 250.0  # of good sites
    site_size_exponent: float = 0.8  # size ~ rank^-exponent; the tail of sizes has index 1 / exponent
    site_size_noise: float = 8.0  # sizes are multiplied by noise^u, u uniform in -1..1
    plural_pages_min: int = 2_000  # from this size a site has several hosts
    plural_hosts_max: int = 16
    service_pages_min: int = 40_000  # from this size a good site may be a subdomain service
    service_share: float = 0.2  # of sites that large
    service_host_pages: int = 16  # pages of each of a service's hosts, on average
    addresses_per_site: float = 0.25  # size of the address space, per site
    address_exponent: float = 0.7  # hosting: the share of the address of rank r is ~ r^-exponent

    # Links
    degree_mean: float = 59.0
    degree_exponent: float = 2.7  # of the tail of out-degrees' density
    degree_max: int = 5_000
    branching: int = 3  # a page's first links go to the next level of its host's tree
    nav_share: float = 0.82  # same host, one of its MENU first pages
    near_share: float = 0.02  # same host, at most NEAR numbers away
    cross_share: float = 0.03  # same site, any host
    trap_share: float = 0.04  # into the site's trap, where it has one; all else is external
    skew: float = 6.0  # within n pages, the target is n * u^skew
    popularity_exponent: float = 0.9  # in-links of the site of rank r are ~ r^-exponent
    community_share: float = 0.4  # of external links
    community_sites: int = 1_024

    # The world
    latency_seconds: float = 0.25  # median over hosts
    slow_share: float = 0.05  # of hosts, SLOW_FACTOR times as slow
    dns_share: float = 0.03  # of hosts: the name does not resolve
    connect_share: float = 0.02  # nothing listens
    timeout_share: float = 0.015  # never answers
    error_share: float = 0.01  # answers 500 always
    flaky_share: float = 0.03  # answers 503 to a third of the requests
    page_missing_share: float = 0.06  # 404
    page_moved_share: float = 0.05  # 301
    page_error_share: float = 0.01  # 500
    robots_share: float = 0.55  # of hosts have a robots.txt
    robots_error_share: float = 0.01  # of hosts answer 503 to it
    robots_closed_share: float = 0.013  # of files disallow everything; measured in the corpus
    delay_share: float = 0.137  # of files set a Crawl-delay
    delay_long_share: float = 0.2  # of those exceed 30 s

    # The enemies
    farms: int = 2
    farm_sites: int = 100_000  # registrable domains of each, at 10^9 pages
    farm_pages: int = 2_500  # of each domain
    farm_member_share: float = 0.45  # of a farm page's links go to other domains of the farm
    farm_camouflage_share: float = 0.1  # to good sites; the rest stay on the domain
    spammed_share: float = 0.01  # of good sites link to the farms
    spammed_link_share: float = 0.2  # of the links of their pages, in comments
    subdomain_sites_share: float = 0.002  # sites with infinitely many hosts, per good site
    mirror_sites_share: float = 0.02  # near-identical copies of good sites, per good site
    enemy_link_share: float = 0.01  # of good external links go to mirrors and infinite subdomains
    calendar_share: float = 0.02  # of good sites
    pagination_share: float = 0.02
    session_share: float = 0.01
    parameter_share: float = 0.01
    honeypot_share: float = 0.01
    soft404_share: float = 0.01
    turning_share: float = 0.05  # of all sites turn, at a time uniform over the run

    def overridden(self, settings: Iterable[str]) -> Params:
        """With `name=number` applied. Raises ValueError naming what it cannot read."""
        kinds = {f.name: type(getattr(self, f.name)) for f in fields(self)}
        changes = {}
        for setting in settings:
            name, _, value = setting.partition("=")
            if name not in kinds:
                raise ValueError(f"no parameter {name!r}; there are {', '.join(kinds)}")
            changes[name] = _number(name, kinds[name], value)
        return replace(self, **changes)


def _number(name: str, kind: type, text: str) -> Any:
    """A parameter's value. ValueError names what it takes."""
    try:
        number = kind(text)
    except ValueError:
        raise ValueError(f"{name} is a {'whole ' * (kind is int)}number, not {text!r}") from None
    share = name.endswith("_share")
    if not 0 <= number < math.inf or (number > 1 and share) or (number == 0 and not share and name not in MAY_BE_NONE):
        raise ValueError(f"{name} is {'from 0 to 1' if share else 'above 0'}, not {text}")
    return number


MAY_BE_NONE = ("seed", "port", "farms")
"""Numbers, beside shares, that may be 0."""

NO_ENEMIES = {
    "farms": 0, "spammed_share": 0.0, "subdomain_sites_share": 0.0, "mirror_sites_share": 0.0, "enemy_link_share": 0.0,
    "calendar_share": 0.0, "pagination_share": 0.0, "session_share": 0.0, "parameter_share": 0.0,
    "honeypot_share": 0.0, "soft404_share": 0.0, "turning_share": 0.0,
}  # fmt: skip
"""Overrides that leave the good web alone."""

NEAR = 32
MENU = 48
SLOW_FACTOR = 20.0

DELAYS_SHORT = ((0.5, 0.03), (1.0, 0.11), (2.0, 0.042), (3.0, 0.03), (4.0, 0.014), (5.0, 0.107), (10.0, 0.597),
                (15.0, 0.014), (20.0, 0.024), (30.0, 0.032))  # fmt: skip
"""Crawl-delays up to 30 s, and their weights among those: what applies to all agents in the corpus of 4,231 files."""
DELAYS_LONG = ((50.0, 0.12), (60.0, 0.3), (100.0, 0.12), (120.0, 0.22), (180.0, 0.06), (600.0, 0.12), (86_400.0, 0.06))
"""The longer ones."""
