"""How long the gaps are: what the configuration says of a clock when it comes into use, inside a visit, and after it.

A gap is the least time from the end of one request to the start of the next. Each clock has one: a floor from the
configuration, for a host at least gap_host_factor (ten) times the duration of its last fetch. A host may ask for more
(Crawl-delay, Retry-After), and the clocks of hosts and addresses back off for a while after failures, an address more
gently than a host.

Two kinds of clock are *paced*: that of an address that many sites share (its rate is learnt: rates.py), and that of a
site with many hosts. Their gap runs from the start of one request to the start of the next, so that a host that answers
late keeps no other waiting. Which addresses are shared is learnt, too: from the sites of the hosts that come to use
their clocks (ClockTable.sites), or said by politeness.shared_addresses.

`Gaps` knows clocks, not hosts. Of a host it is told its clocks (the host's first, then the site's where sites have a
gap, then the address's where it is known; as a table i8[hosts, 3] of many hosts, NONE where there is none) and its *own
gap*: its floor or its Crawl-delay, whichever is longer. Gaps are seconds, times are unix seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import ip_address, ip_network
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from irlcrawl.base.keys import name_key
from irlcrawl.config import keys as config
from irlcrawl.frontier.politeness.clocks import KIND_NAMES, SHARED, Clocks, Delay, Flag, Kind, Promise
from irlcrawl.frontier.politeness.columns import NONE, Counts, F8s, I8s, U8s, view
from irlcrawl.frontier.politeness.rates import Bounds, Rate

Outcome = Literal["ok", "throttled", "failed", "unreached"]
"""How a visit ended: with responses; by 429/503; without a response (connection); before it reached anything."""
OUTCOMES: tuple[Outcome, ...] = ("ok", "throttled", "failed", "unreached")
"""In columns an outcome is its place here."""
OK, THROTTLED, FAILED, UNREACHED = range(len(OUTCOMES))

ADDRESS_BACKOFF_STEPS = 3
"""An address backs off to at most politeness.backoff_seconds doubled this often: one bad host must not close a server
that many share."""

SHARED_GAP_LEAST_S = 0.001

CLASSES = 31
"""Of sites, in ClockTable.sites: all of their bits together are not SHARED."""

_UNITS = {"host": Kind.HOST, "site": Kind.SITE, "address": Kind.ADDRESS}


class Gaps:
    """ConfigError if a network of politeness.shared_addresses is malformed. `own_clocks`: sites that have a clock,
    which is not paced, whatever the gap of sites."""

    def __init__(self, params: config.Politeness, clocks: Clocks, own_clocks: Iterable[int] = ()) -> None:
        self._params, self._clocks, self._table = params, clocks, clocks.table
        try:
            self._shared = [ip_network(network) for network in params.shared_addresses]
        except ValueError as error:
            raise config.ConfigError(f"politeness.shared_addresses: {error}") from None
        self._bounds = _bounds(params)
        self._unit = _UNITS[params.unit]
        gap_host = params.gap_host_seconds
        self._least = {Kind.HOST: 0.0, Kind.SITE: params.gap_site_seconds, Kind.ADDRESS: params.gap_address_seconds}
        """Kind -> the gap of its own, whatever a host's would be where it is the unit."""
        self._gap_site = max(params.gap_site_seconds, gap_host if self._unit == Kind.SITE else 0.0)
        self._gap_address = max(params.gap_address_seconds, gap_host if self._unit == Kind.ADDRESS else 0.0)
        shares = self._gap_address > 0 and self._unit != Kind.ADDRESS
        self._sites_min = params.shared_address_sites if shares else 0
        self._crowded: dict[int, str] = {}  # clocks of addresses that are to be paced once no visit holds them
        self._site_hosts = 0 if self._gap_site > 0 else params.gap_site_hosts
        self._own = frozenset(own_clocks)
        self._own_keys = np.array(sorted(self._own), np.uint64)
        self._hosts_of = Counts(clocks.idle_max if self._site_hosts else 1)  # hosts in memory, by site
        self.crowded = False  # there are addresses that `freed` must hear of

    # ---- when a clock comes into use

    def floor(self, override: float | None) -> float:
        """Least seconds between two requests to a host, whatever else is known of it. `override`: what the
        configuration says of its site alone, or None."""
        return self._params.gap_host_seconds if override is None else override

    def floor_many(self, overrides: Sequence[float | None]) -> F8s:
        """As `floor`, for many hosts: f8[hosts]."""
        general = self._params.gap_host_seconds
        return np.array([general if override is None else override for override in overrides], np.float64)

    def use_site(self, site: int) -> int:
        """The clock of the site of a host, which uses it from now on; NONE if the site is 0, or sites have no gap."""
        gap = self._gap_site
        return self._clocks.use(Kind.SITE, site, gap) if site and (gap > 0 or site in self._own) else NONE

    def use_site_many(self, sites: U8s) -> I8s:
        """As `use_site`, for many hosts: i8[hosts]."""
        clocks = np.full(len(sites), NONE)
        some = np.flatnonzero(sites) if self._gap_site > 0 else np.flatnonzero(self._have_own(sites))
        if len(some):
            gaps = np.full(len(some), self._gap_site)
            clocks[some] = self._clocks.use_many(Kind.SITE, sites[some], gaps)
        return clocks

    def enter_sites(self, sites: U8s, floors: F8s) -> I8s:
        """Hosts of these sites and floors become active: as `use_site_many`; or, where sites have no gap of their own,
        the clocks of those sites that have many hosts."""
        if not self._site_hosts:
            return self.use_site_many(sites)
        self._hosts_of.add(sites)
        clocks, own = self.use_site_many(sites), self._have_own(sites)
        crowded = np.flatnonzero((self._hosts_of.of(sites) > self._site_hosts) & (sites > 0) & (floors > 0) & ~own)
        if len(crowded):
            gaps = floors[crowded] / self._site_hosts
            clocks[crowded] = at = self._clocks.use_many(Kind.SITE, sites[crowded], gaps)
            view(self._table.flags)[at] |= Flag.PACED
        return clocks

    def _have_own(self, sites: U8s) -> NDArray[np.bool_]:
        """Which of these sites are of `own_clocks`: bool[sites]."""
        return np.isin(sites, self._own_keys) if self._own else np.zeros(len(sites), np.bool_)

    def leave_site(self, site: int) -> None:
        """A host of the site is active no more."""
        if self._site_hosts:
            self._hosts_of.remove(site)

    def site_has_many(self, site: int) -> bool:
        """Whether the hosts of the site are to use its clock because many of them are active."""
        if site in self._own:
            return False
        return self._site_hosts > 0 and site > 0 and self._hosts_of.above(site, self._site_hosts)

    def use_crowded_site(self, site: int, floor: float) -> int:
        """As `use_site`, of a site that `site_has_many`."""
        clock = self._clocks.use(Kind.SITE, site, floor / self._site_hosts)
        self._table.flags[clock] |= Flag.PACED
        return clock

    def use_address(self, address: str, site: int = 0) -> int:
        """As `use_site`, for the address of a host of such a site (0: none)."""
        clock = self._clocks.use(Kind.ADDRESS, name_key(address.encode()), self._gap_address)
        if site:
            self._table.sites[clock] |= _bit(site)
        self._judge(clock, address)
        return clock

    def use_address_many(self, addresses: Sequence[str], which: I8s, sites: U8s | None = None) -> I8s:
        """As `use_address`, for hosts at addresses[which]: i8[hosts]."""
        if not len(which):
            return np.zeros(0, np.int64)
        table, keys = self._table, np.array([name_key(address.encode()) for address in addresses], np.uint64)
        gaps = np.full(len(which), self._gap_address)
        clocks = self._clocks.use_many(Kind.ADDRESS, keys[which], gaps)
        if sites is not None:
            bits = np.where(sites > 0, np.uint64(1) << sites % np.uint64(CLASSES), np.uint64(0)).astype(np.uint32)
            np.bitwise_or.at(view(table.sites), clocks, bits)
        least = 0 if self._shared else self._sites_min or 32
        many = (np.bitwise_count(view(table.sites)[clocks]) >= least) & (view(table.flags)[clocks] & Flag.PACED == 0)
        for clock, at in dict(zip(clocks[many].tolist(), which[many].tolist())).items():  # few, but with ranges
            self._judge(clock, addresses[at])
        return clocks

    # ---- addresses that many sites share

    def _judge(self, clock: int, address: str) -> None:
        """Is the address one that many sites share? Then its clock is paced from now on."""
        table = self._table
        sites = table.sites[clock]
        if table.flags[clock] & Flag.PACED:
            return
        if (self._sites_min and sites.bit_count() >= self._sites_min) or self._in_range(address):
            self._pace(clock, address)
        elif sites == SHARED:  # learnt by a run with another configuration
            table.sites[clock], table.gap[clock], table.limit[clock] = 0, self._gap_address, 0.0

    def _in_range(self, address: str) -> bool:
        return bool(self._shared) and any(ip_address(address) in network for network in self._shared)

    def _pace(self, clock: int, address: str) -> None:
        """A visit that holds the clock holds it to its end; then `freed` comes back to it."""
        table, bounds = self._table, self._bounds
        if table.held[clock]:
            self._crowded[clock], self.crowded = address, True
            return
        if learnt := table.sites[clock] == SHARED:
            first = 1 / max(table.gap[clock], SHARED_GAP_LEAST_S)
        else:
            first = bounds.most if self._in_range(address) else bounds.first
        rate = table.rates[clock] = Rate(bounds, first, address, learnt=learnt, limit=table.limit[clock])
        table.flags[clock] |= Flag.PACED
        table.sites[clock], table.backoff[clock], table.gap[clock] = SHARED, 0.0, 1 / rate.rate
        self._clocks.moved((clock,))

    def freed(self, clocks: Sequence[int]) -> None:
        """A visit let go of these clocks. Nothing if no address is `crowded`."""
        for clock in clocks if self.crowded else ():
            address, table = self._crowded.pop(clock, None), self._table
            same = address is not None and table.find(Kind.ADDRESS, name_key(address.encode())) == clock
            if address is not None and same:
                self._judge(clock, address)
        self.crowded = bool(self._crowded)

    def paces(self, clocks: Sequence[int]) -> dict[str, float]:
        """The gaps of those clocks that are paced, by KIND_NAMES; a visit under one has a single request."""
        table = self._table
        return {KIND_NAMES[table.kind[clock]]: table.gap[clock] for clock in clocks if table.flags[clock] & Flag.PACED}

    # ---- inside a visit

    def longest(self, own: float, clocks: Sequence[int]) -> float:
        """Least seconds between two requests to a host: its own gap or the longest of its clocks', with back-off."""
        gaps, backoffs = self._table.gap, self._table.backoff
        for clock in clocks:
            if gaps[clock] > own:
                own = gaps[clock]
            if backoffs[clock] > own:
                own = backoffs[clock]
        return own

    def inside(self, own: float, clocks: Sequence[int]) -> float:
        """Least seconds between two requests of one visit. A back-off beyond visit_seconds keeps visits apart; each is
        of one URL then, and that URL goes with robots.txt. Else an answer to robots.txt alone, of a host that refuses
        all else, would end the visit as a good one, and the back-off with it."""
        gap = self.longest(own, clocks)
        if gap <= self._params.visit_seconds:
            return gap
        return max([own, *(self._table.gap[clock] for clock in clocks)])

    def longest_many(self, own: F8s, clocks: I8s) -> F8s:
        """As `longest`, for many hosts: f8[hosts] and i8[hosts, 3] give f8[hosts]."""
        gaps = np.maximum(view(self._table.gap)[clocks], view(self._table.backoff)[clocks])
        return np.maximum(own, np.where(clocks != NONE, gaps, 0.0).max(axis=1))

    def visit_size(self, own: float, clocks: Sequence[int]) -> int:
        """URLs for one visit: as many as fit in visit_seconds of gaps; one URL if others wait for a clock that has a
        gap, or would wait for a gap that is not theirs."""
        wanted = self._wanted(clocks)
        if any(wanted):
            return 1
        gap = self.longest(own, clocks)
        if gap <= 0:
            return self._params.visit_urls_max
        return min(1 + int(min([self._params.visit_seconds, *wanted]) / gap), self._params.visit_urls_max)

    def visit_size_many(self, own: F8s, clocks: I8s) -> I8s:
        """As `visit_size`, for many hosts: f8[hosts] and i8[hosts, 3] give i8[hosts]."""
        most, gap = self._params.visit_urls_max, self.longest_many(own, clocks)
        others = clocks[:, 1:]
        others_wait = (view(self._table.users)[others] > 1) | (view(self._table.flags)[others] & Flag.PACED > 0)
        shared = ((others != NONE) & others_wait).any(axis=1)
        fit = np.minimum(1 + np.floor(self._params.visit_seconds / np.where(gap > 0, gap, np.inf)), most)
        return np.where(gap <= 0, most, np.where(shared, 1, fit)).astype(np.int64)

    def patience(self, clocks: Sequence[int]) -> float:
        """The longest wait inside a visit: visit_seconds, or the gap of a clock that others wait for. A host's own gap
        or Crawl-delay must not keep an address from its other hosts."""
        return min([self._params.visit_seconds, *self._wanted(clocks)])

    def _wanted(self, clocks: Sequence[int]) -> list[float]:
        """The gaps of a host's clocks that other active hosts use, or may at any moment: its address's, and its site's
        if that has a clock."""
        users, flags = self._table.users, self._table.flags
        return [self._table.longest_gap(clock) for clock in clocks[1:] if users[clock] > 1 or flags[clock] & Flag.PACED]

    def promises(self, own: float, clocks: Sequence[int]) -> list[Promise]:
        """What a lease of the host promises, which goes into the clocks' log before its first request goes out."""
        table, host_gap = self._table, self.longest(own, clocks)
        return [
            Promise(kind, table.key[clock], host_gap if self._is_unit(kind) else table.longest_gap(clock))
            for clock in clocks
            for kind in (table.kind[clock],)
        ]

    # ---- after an exchange

    def stretch(self, fetch_s: float) -> float:
        """The part of a host's gap that grows with the duration of the last fetch."""
        return min(self._params.gap_host_factor * fetch_s, self._params.gap_host_max_seconds)

    def move(
        self, clocks: Sequence[int], floor: float, crawl_delay: float, ended: float, fetch_s: float, outcome: Outcome,
        retry_after: float | None, asked_of: int = 0, paid: float = 0.0,
    ) -> None:  # fmt: skip
        """An exchange of `fetch_s` seconds with a host of such a floor and Crawl-delay ended: sets the gap, back-off
        and next time of its clocks (never earlier than before), and why. Only the clocks of a host and of the unit that
        politeness.unit names know Crawl-delay and Retry-After. `asked_of`: the site that was asked, 0: nothing is to be
        learnt of the address. `paid`: seconds for which the site's clock runs at least."""
        table, flags, paced = self._table, self._table.flags, Flag.PACED
        for clock in clocks:
            if flags[clock] & paced:
                self.learn(clock, asked_of, ended, fetch_s, outcome)
                continue
            kind, wait, backoff, why = table.kind[clock], table.gap[clock], table.backoff[clock], Delay.HOST_GAP
            unit = self._is_unit(kind)
            if unit:
                wait = table.gap[clock] = max(floor, self._least[kind], self.stretch(fetch_s))
            if backoff or outcome != "ok":
                backoff = table.backoff[clock] = self.backoff(kind, wait, backoff, outcome, retry_after)
                if backoff > wait:
                    wait, why = backoff, Delay.BACKOFF
            if unit:
                if crawl_delay > wait:
                    wait, why = crawl_delay, Delay.CRAWL_DELAY
                if retry_after is not None and min(retry_after, self._params.retry_after_max_seconds) > wait:
                    wait, why = min(retry_after, self._params.retry_after_max_seconds), Delay.RETRY_AFTER
            if kind == Kind.SITE and paid > wait:
                wait = paid
            if ended + wait > table.next[clock]:
                table.next[clock], table.wait[clock] = ended + wait, wait
                table.why[clock] = why
        self._clocks.moved(clocks)

    def learn(self, clock: int, site: int, ended: float, fetch_s: float, outcome: Outcome) -> None:
        """Learns from an exchange how a paced clock should run. Its next time stays: the new gap holds from the next
        request on."""
        rate = self._table.rates.get(clock)
        if rate is not None and site:
            rate.answered(site, ended, fetch_s, outcome)
            self._table.gap[clock] = 1 / rate.rate
            self._table.limit[clock] = rate.limit if rate.throttled else 0.0

    def _is_unit(self, kind: int) -> bool:
        """Whether a clock of this kind runs as a host's does."""
        return kind == Kind.HOST or kind == self._unit

    def _cooled(self, backoff: float) -> float:
        """A back-off after a 429 or 503 without Retry-After: from the third in a row on it is long."""
        third = 4 * self._params.backoff_seconds
        longest = self._params.rest_max_seconds
        return max(backoff, min(self._params.cool_down_seconds, longest)) if 0 < third <= backoff else backoff

    def backoff(
        self, kind: int, gap: float, backoff: float, outcome: Outcome, retry_after: float | None = None
    ) -> float:
        """The back-off of a clock of such a kind and gap after a visit, from the one before it."""
        first, top = self._params.backoff_seconds, self._params.gap_host_max_seconds
        if self._is_unit(kind):
            longer = _host_backoff(gap, backoff, outcome, first, self._params.rest_max_seconds)
            return self._cooled(longer) if outcome == "throttled" and retry_after is None else longer
        if kind == Kind.ADDRESS:
            return _address_backoff(gap, backoff, outcome, first, top)
        return backoff


def _bounds(params: config.Politeness) -> Bounds:
    """Of the rates of addresses that many sites share."""
    shortest = max(params.gap_shared_address_seconds, SHARED_GAP_LEAST_S)
    longest_backoff = min(params.gap_host_max_seconds, params.backoff_seconds * 2**ADDRESS_BACKOFF_STEPS)
    most = 1 / shortest
    first = min(most, 1 / params.gap_address_seconds) if params.gap_address_seconds > 0 else most
    return Bounds(first, most, min(first, 1 / longest_backoff if longest_backoff > 0 else first))


def _bit(site: int) -> int:
    """The class of a site: the bits of an address are at most as many as its sites."""
    return 1 << site % CLASSES


def _host_backoff(gap: float, backoff: float, outcome: Outcome, first: float, top: float) -> float:
    """Additive increase, multiplicative decrease of the rate: a bad visit doubles the back-off, each good one adds a
    quarter of the first back-off's rate, until it is shorter than the gap or no longer worth the name."""
    if outcome in ("throttled", "failed"):
        return min(max(first, 2 * backoff), top)
    if outcome == "ok" and backoff > 0:
        eased = 1 / (1 / backoff + 1 / (4 * first)) if first > 0 else 0.0
        return eased if eased > max(gap, first / 4) else 0.0
    return backoff


def _address_backoff(gap: float, backoff: float, outcome: Outcome, first: float, top: float) -> float:
    """Gentler than a host's: it starts at twice the gap, and a good visit halves it."""
    if outcome in ("throttled", "failed"):
        top = min(top, first * 2**ADDRESS_BACKOFF_STEPS)
        return min(max(2 * gap, first / 8, 2 * backoff), top)
    if outcome == "ok" and backoff > 0:
        return backoff / 2 if backoff / 2 > max(gap, first / 8) else 0.0
    return backoff
