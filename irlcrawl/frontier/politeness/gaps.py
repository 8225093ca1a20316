"""How long the gaps are: what the configuration says of a clock when it comes into use, inside a visit, and after it.

A gap is the least time from the end of one request to the start of the next. Each clock has one: a floor from the
configuration, for a host at least gap_host_factor (ten) times the duration of its last fetch. A host may ask for more
(Crawl-delay, Retry-After), and the clocks of hosts and addresses back off for a while after failures: an address more
gently than a host, and not at all inside politeness.shared_addresses, because its hosts fail for reasons of their own.

`Gaps` knows clocks, not hosts. Of a host it is told its clocks (the host's first, then the site's where sites have a
gap, then the address's where it is known; as a table i8[hosts, 3] of many hosts, NONE where there is none) and its *own
gap*: its floor or its Crawl-delay, whichever is longer. Gaps are seconds, times are unix seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address, ip_network
from typing import Literal

import numpy as np

from irlcrawl.base.keys import name_key
from irlcrawl.config import keys as config
from irlcrawl.frontier.politeness.clocks import Clocks, Delay, Flag, Kind, Promise
from irlcrawl.frontier.politeness.columns import NONE, F8s, I8s, U8s, view

Outcome = Literal["ok", "throttled", "failed", "unreached"]
"""How a visit ended: with responses; by 429/503; without a response (connection); before it reached anything."""
OUTCOMES: tuple[Outcome, ...] = ("ok", "throttled", "failed", "unreached")
"""In columns an outcome is its place here."""
OK, THROTTLED, FAILED, UNREACHED = range(len(OUTCOMES))

ADDRESS_BACKOFF_STEPS = 3
"""An address backs off to at most politeness.backoff_seconds doubled this often: one bad host must not close a server
that many share."""


class Gaps:
    """ConfigError if a network of politeness.shared_addresses is malformed."""

    def __init__(self, params: config.Politeness, clocks: Clocks) -> None:
        self._params, self._clocks, self._table = params, clocks, clocks.table
        try:
            self._shared = [ip_network(network) for network in params.shared_addresses]
        except ValueError as error:
            raise config.ConfigError(f"politeness.shared_addresses: {error}") from None

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
        gap = self._params.gap_site_seconds
        return self._clocks.use(Kind.SITE, site, gap) if gap > 0 and site else NONE

    def use_site_many(self, sites: U8s) -> I8s:
        """As `use_site`, for many hosts: i8[hosts]."""
        clocks, some = np.full(len(sites), NONE), np.flatnonzero(sites)
        if self._params.gap_site_seconds > 0 and len(some):
            gaps = np.full(len(some), self._params.gap_site_seconds)
            clocks[some] = self._clocks.use_many(Kind.SITE, sites[some], gaps)
        return clocks

    def use_address(self, address: str) -> int:
        """As `use_site`, for the address of a host."""
        gap, lenient = self._of_address(address)
        clock = self._clocks.use(Kind.ADDRESS, name_key(address.encode()), gap)
        if lenient:
            self._table.flags[clock] |= Flag.LENIENT
        return clock

    def use_address_many(self, addresses: Sequence[str], which: I8s) -> I8s:
        """As `use_address`, for hosts at addresses[which]: i8[hosts]."""
        if not len(which):
            return np.zeros(0, np.int64)
        keys = np.array([name_key(address.encode()) for address in addresses], np.uint64)
        gaps, lenient = (np.array(part) for part in zip(*map(self._of_address, addresses), strict=True))
        clocks = self._clocks.use_many(Kind.ADDRESS, keys[which], gaps[which])
        view(self._table.flags)[clocks[lenient[which]]] |= Flag.LENIENT
        return clocks

    def _of_address(self, address: str) -> tuple[float, bool]:
        """The gap of an address, and whether it lies in a shared range."""
        if self._shared:
            parsed = ip_address(address)
            if any(parsed in network for network in self._shared):
                return self._params.gap_shared_address_seconds, True
        return self._params.gap_address_seconds, False

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
        shared = ((others != NONE) & (view(self._table.users)[others] > 1)).any(axis=1)
        fit = np.minimum(1 + np.floor(self._params.visit_seconds / np.where(gap > 0, gap, np.inf)), most)
        return np.where(gap <= 0, most, np.where(shared, 1, fit)).astype(np.int64)

    def patience(self, clocks: Sequence[int]) -> float:
        """The longest wait inside a visit: visit_seconds, or the gap of a clock that others wait for. A host's own gap
        or Crawl-delay must not keep an address from its other hosts."""
        return min([self._params.visit_seconds, *self._wanted(clocks)])

    def _wanted(self, clocks: Sequence[int]) -> list[float]:
        """The gaps of a host's clocks that other active hosts use: its address's, and its site's if sites have one."""
        users = self._table.users
        return [self._table.longest_gap(clock) for clock in clocks[1:] if users[clock] > 1]

    def promises(self, own: float, clocks: Sequence[int]) -> list[Promise]:
        """What a lease of the host promises, which goes into the clocks' log before its first request goes out."""
        table, host_gap = self._table, self.longest(own, clocks)
        return [
            Promise(kind, table.key[clock], host_gap if kind == Kind.HOST else table.longest_gap(clock))
            for clock in clocks
            for kind in (table.kind[clock],)
        ]

    # ---- after an exchange

    def stretch(self, fetch_s: float) -> float:
        """The part of a host's gap that grows with the duration of the last fetch."""
        return min(self._params.gap_host_factor * fetch_s, self._params.gap_host_max_seconds)

    def move(
        self, clocks: Sequence[int], floor: float, crawl_delay: float, ended: float, fetch_s: float, outcome: Outcome,
        retry_after: float | None,
    ) -> None:  # fmt: skip
        """An exchange of `fetch_s` seconds with a host of such a floor and Crawl-delay ended: sets the gap, back-off
        and next time of its clocks (never earlier than before), and why. Only a host's clock knows Crawl-delay and
        Retry-After."""
        table = self._table
        for clock in clocks:
            kind, wait, backoff, why = table.kind[clock], table.gap[clock], table.backoff[clock], Delay.HOST_GAP
            if kind == Kind.HOST:
                wait = table.gap[clock] = max(floor, self.stretch(fetch_s))
            if backoff or outcome != "ok":
                backoff = table.backoff[clock] = self.backoff(kind, table.flags[clock], wait, backoff, outcome)
                if backoff > wait:
                    wait, why = backoff, Delay.BACKOFF
            if kind == Kind.HOST:
                if crawl_delay > wait:
                    wait, why = crawl_delay, Delay.CRAWL_DELAY
                if retry_after is not None and min(retry_after, self._params.retry_after_max_seconds) > wait:
                    wait, why = min(retry_after, self._params.retry_after_max_seconds), Delay.RETRY_AFTER
            if ended + wait > table.next[clock]:
                table.next[clock], table.wait[clock] = ended + wait, wait
                table.why[clock] = why
        self._clocks.moved(clocks)

    def backoff(self, kind: int, flags: int, gap: float, backoff: float, outcome: Outcome) -> float:
        """The back-off of a clock of such a kind, flags and gap after a visit, from the one before it."""
        first, top = self._params.backoff_seconds, self._params.gap_host_max_seconds
        if kind == Kind.HOST:
            return _host_backoff(gap, backoff, outcome, first, self._params.rest_max_seconds)
        if kind == Kind.ADDRESS and not flags & Flag.LENIENT:
            return _address_backoff(gap, backoff, outcome, first, top)
        return backoff


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
