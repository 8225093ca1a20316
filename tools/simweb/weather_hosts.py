"""What is so of a host, for the whole weather: its fate, its pace, what it bears, its robots.txt, its addresses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

from drum.ragged import Batch, Ragged

import numpy as np

from tools.simweb.mix import U8s
from tools.simweb.robots import robots_text
from tools.simweb.truth import NOWHERE, Kind, Section
from tools.simweb.weather_params import WeatherParams
from tools.simweb.weather_spells import bell, fraction, hashed
from tools.simweb.weather_urls import Area
from tools.simweb.web import Web

NEVER = math.inf
ROBOTS_ELSEWHERE = b"/static/robots.txt"
RETRY_AFTER = (1, 5, 10, 30, 60, 120, 600, 3600)
DAY = 86_400.0


class Fate(IntEnum):
    """What is wrong with a host for good."""

    NONE = 0
    UNKNOWN = 1
    LAME = 2
    REFUSED = 3
    SILENT = 4
    CERTIFICATE = 5
    BROKEN = 6
    CHALLENGE = 7
    PARKED = 8


class RobotsState(IntEnum):
    """What /robots.txt answers for good."""

    RULES = 0
    MISSING = 1
    FORBIDDEN = 2
    BROKEN = 3
    SILENT = 4
    REDIRECT = 5  # to ROBOTS_ELSEWHERE
    HTML = 6


class Hosting(IntEnum):
    """How a site is served; three bits of its addresses."""

    OWN = 0
    SHARED = 1
    BUILDER = 2
    NETWORK = 3
    WIDE = 4


@dataclass(frozen=True, slots=True)
class Rules:
    """What robots.txt says to everybody: robots.robots of one host."""

    text: bytes
    closed: bool
    private: bool
    directories: int  # bit d: directory d is disallowed
    delay: float


@dataclass(frozen=True, slots=True)
class Host:
    """All that is so of a host and does not change."""

    area: Area
    key: int  # the host's number
    name: bytes  # canonical
    secure: bool
    fate: Fate
    dies: float  # seconds after the start of the weather; NEVER
    soft: bool  # answers 200 and one page for what is missing
    lies: bool  # answers 200 and a page with links for what is missing: the trap SOFT404
    upgrades: bool  # http redirects to https
    one_name: bool  # the other name redirects
    moves: int  # the status of a redirect between spellings
    two_hops: bool  # needs two redirects for http and the other name
    other_name_missing: bool
    wildcard: bool  # every name below the domain resolves
    pace: float  # seconds to the first byte, as a rule
    bandwidth: float
    bears: float  # requests per second; inf
    retry_after: int | None
    retry_after_date: bool
    throttle_status: int
    robots: RobotsState
    rules: Rules | None
    hosting: Hosting
    first_address: int
    addresses: int


class Hosts:
    """The hosts of a web under a weather."""

    def __init__(self, web: Web, params: WeatherParams) -> None:
        self.web, self.params = web, params
        p = params
        self._pools = {  # addresses of each kind of hosting
            Hosting.SHARED: _pool(web.sites * p.hosting_share / p.hosting_sites),
            Hosting.BUILDER: _pool(web.sites * p.builder_share / p.builder_sites),
            Hosting.NETWORK: _pool(web.sites * p.network_share / p.network_sites),
        }

    def of(self, names: list[bytes]) -> list[tuple[Host, bool] | None]:
        """The host that each name belongs to, and whether it is the host's canonical name; None for no host's name. A
        thousand names take three times as long as one."""
        read = self.web.names.hosts
        own, other = read(Ragged.from_list(names)), read(Ragged.from_list([_other(name) for name in names]))
        first = (own == NOWHERE) & (other != NOWHERE) & (other & np.uint64(0xFFFFFFFF) == 0)
        key = np.where(first, other, own)
        lost = np.flatnonzero(key == NOWHERE)
        domains = [b".".join(names[row].split(b".")[-2:]) for row in lost.tolist()]
        for home in (domains, [b"www." + domain for domain in domains]):
            found = read(Ragged.from_list(home))
            key[lost] = np.where(found != NOWHERE, found, key[lost])
        known = np.flatnonzero(key != NOWHERE)
        out: list[tuple[Host, bool] | None] = [None] * len(names)
        for row, host in zip(known.tolist(), self._made(key[known])):
            canonical = host.name == names[row]
            there = canonical or (not host.other_name_missing if first[row] else host.wildcard)
            out[row] = (host, canonical) if there else None
        return out

    def lot(self, purpose: str, *numbers: int) -> float:
        return fraction(self.hash(purpose, *numbers))

    def hash(self, purpose: str, *numbers: int) -> int:
        return hashed(self.web.salt("weather " + purpose), *numbers)

    def _made(self, keys: U8s) -> list[Host]:
        web = self.web
        site = (keys >> np.uint64(32)).astype(np.int64)
        known = zip(
            keys.tolist(), site.tolist(), web.original(site).tolist(), web.host_count(site).tolist(),
            web.size(site).tolist(), web.names.origins(keys).tolist(), web.names.host_names(keys).tolist(),
            web.names.secure(site).tolist(), web.kind(site).tolist(), web.trap(site).tolist(),
        )  # fmt: skip
        rules = web.robots(keys)
        return [
            self._one(key, Area(of, original, key & 0xFFFFFFFF, hosts, size, origin), name, secure, kind, trap,
                      self._robots(key, rules, row, trap == Section.HONEYPOT))
            for row, (key, of, original, hosts, size, origin, name, secure, kind, trap) in enumerate(known)
        ]  # fmt: skip

    def _one(
        self, key: int, area: Area, name: bytes, secure: bool, kind: int, trap: int,
        robots: tuple[RobotsState, Rules | None],
    ) -> Host:  # fmt: skip
        p, site = self.params, area.site
        ends = self.lot("death", key)
        value = self.hash("retry after value", key)
        throttles, says = self.lot("throttle", key) < p.throttle_share, self.lot("retry after", key)
        hosting, first, count = self._hosting(site)
        return Host(
            area=area, key=key, name=name, secure=secure,
            fate=Fate.NONE if site < p.sound_sites else self._fate(key, secure, kind in (Kind.GOOD, Kind.MIRROR)),
            dies=-math.log(1.0 - ends) / p.death_per_day * DAY if p.death_per_day else NEVER,
            soft=self.lot("soft", site) < p.soft_missing_share, lies=trap == Section.SOFT404,
            upgrades=self.lot("upgrade", site) < p.upgrade_share,
            one_name=self.lot("one name", site) < p.one_name_share,
            moves=302 if self.lot("found", site) < p.found_share else 301,
            two_hops=self.lot("two hops", site) < p.two_hops_share,
            other_name_missing=self.lot("other name", site) < p.other_name_missing_share,
            wildcard=kind == Kind.SUBDOMAINS or self.lot("wildcard", site) < p.wildcard_share,
            pace=p.latency_median * math.exp(p.latency_sigma * bell(self.hash("latency", key)))
            * (p.slow_factor if self.lot("slow", key) < p.slow_share else 1.0),
            bandwidth=p.bandwidth_median * math.exp(p.bandwidth_sigma * bell(self.hash("bandwidth", key))),
            bears=max(p.throttle_least, p.throttle_median * math.exp(p.throttle_sigma * bell(self.hash("bears", key))))
            if throttles else math.inf,
            retry_after=RETRY_AFTER[value % len(RETRY_AFTER)] if says < p.throttle_after_share else None,
            retry_after_date=value >> 32 & 3 == 0,
            throttle_status=503 if self.lot("throttle status", key) < p.throttle_503_share else 429,
            robots=robots[0], rules=robots[1], hosting=hosting, first_address=first, addresses=count,
        )  # fmt: skip

    def _fate(self, key: int, secure: bool, good: bool) -> Fate:
        p = self.params
        shares = (
            (Fate.UNKNOWN, p.unknown_share), (Fate.LAME, p.lame_share), (Fate.REFUSED, p.refused_share),
            (Fate.SILENT, p.silent_share), (Fate.CERTIFICATE, p.certificate_share * secure),
            (Fate.BROKEN, p.broken_share), (Fate.CHALLENGE, p.challenge_share), (Fate.PARKED, p.parked_share * good),
        )  # fmt: skip
        return Fate(_chosen(self.lot("fate", key), shares, Fate.NONE))

    def _robots(self, key: int, rules: Batch, row: int, honeypot: bool) -> tuple[RobotsState, Rules | None]:
        p = self.params
        shares = (
            (RobotsState.MISSING, p.robots_missing_share), (RobotsState.FORBIDDEN, p.robots_forbidden_share),
            (RobotsState.BROKEN, p.robots_broken_share), (RobotsState.SILENT, p.robots_silent_share),
            (RobotsState.REDIRECT, p.robots_redirect_share), (RobotsState.HTML, p.robots_html_share),
        )  # fmt: skip
        state = RobotsState(_chosen(self.lot("robots", key), shares, RobotsState.RULES))
        if honeypot and key & 0xFFFFFFFF == 0:
            state = RobotsState.RULES
        if state not in (RobotsState.RULES, RobotsState.REDIRECT):
            return state, None
        return state, Rules(
            robots_text(rules, row), bool(rules["closed"][row]), bool(rules["private"][row]),
            int(rules["directories"][row]), float(rules["crawl_delay"][row]),
        )  # fmt: skip

    def _hosting(self, site: int) -> tuple[Hosting, int, int]:
        """(how, number of its first address, how many it has)."""
        p = self.params
        shares = (
            (Hosting.SHARED, p.hosting_share), (Hosting.BUILDER, p.builder_share), (Hosting.NETWORK, p.network_share),
            (Hosting.WIDE, p.wide_share),
        )  # fmt: skip
        how = Hosting(_chosen(self.lot("hosting", site), shares, Hosting.OWN))
        if how == Hosting.OWN:
            return how, site, 1
        if how == Hosting.WIDE:
            return how, site * int(p.wide_addresses), int(p.wide_addresses)
        pool = self._pools[how]
        count = min(2, pool) if how == Hosting.NETWORK else 1
        return how, self.hash("address", site) % (pool - count + 1), count


def _other(name: bytes) -> bytes:
    """The other of apex and www."""
    return name[4:] if name.startswith(b"www.") else b"www." + name


def _pool(count: float) -> int:
    return max(1, round(count))


def _chosen(u: float, shares: tuple[tuple[IntEnum, float], ...], rest: IntEnum) -> int:
    for choice, share in shares:
        if u < share:
            return choice
        u -= share
    return rest
