"""How long each clock waits after an exchange, and why: floors, the last fetch, Crawl-delay, Retry-After, back-off.

Pure policy on one gate at a time (DESIGN section 2 item 6). Only a host's clock knows Crawl-delay and Retry-After; an
address backs off more gently than a host, and not at all inside politeness.shared_addresses.
"""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Literal

from irlcrawl import config
from irlcrawl.frontier.gates import Delay, Gate, HostEntry, Kind

Outcome = Literal["ok", "throttled", "failed", "unreached"]
"""How a visit ended: with responses; by 429/503; without a response (connection); before it reached anything."""

ADDRESS_BACKOFF_STEPS = 3
"""An address backs off to at most politeness.backoff_seconds doubled this often: one bad host must not close a server
that many share."""


class Gaps:
    """ConfigError if a network of politeness.shared_addresses is malformed."""

    def __init__(self, params: config.Politeness) -> None:
        self._params = params
        try:
            self._shared = [ip_network(network) for network in params.shared_addresses]
        except ValueError as error:
            raise config.ConfigError(f"politeness.shared_addresses: {error}") from None

    def floor(self, entry: HostEntry) -> float:
        """Least seconds between two requests to a host, whatever else is known of it."""
        return self._params.gap_host_seconds if entry.gap_floor is None else entry.gap_floor

    def stretch(self, fetch_s: float) -> float:
        """The part of a host's gap that grows with the last fetch."""
        return min(self._params.gap_host_factor * fetch_s, self._params.gap_host_max_seconds)

    @property
    def site(self) -> float:
        """0: sites have no clock."""
        return self._params.gap_site_seconds

    def address(self, address: str) -> tuple[float, bool]:
        """The gap of an address, and whether it lies in a shared range."""
        if self._shared:
            parsed = ip_address(address)
            if any(parsed in network for network in self._shared):
                return self._params.gap_shared_address_seconds, True
        return self._params.gap_address_seconds, False

    def move(
        self, gate: Gate, entry: HostEntry, ended: float, fetch_s: float, outcome: Outcome, retry_after: float | None
    ) -> None:
        """An exchange ended: sets the clock's gap, back-off, next time (never earlier than before) and why."""
        params = self._params
        if gate.kind == Kind.HOST:
            gate.gap = max(self.floor(entry), self.stretch(fetch_s))
            _back_off_host(gate, outcome, params.backoff_seconds, params.gap_host_max_seconds)
        elif gate.kind == Kind.ADDRESS and not gate.lenient:
            _back_off_address(gate, outcome, params.backoff_seconds, params.gap_host_max_seconds)
        wait, why = gate.gap, Delay.HOST_GAP
        if gate.backoff > wait:
            wait, why = gate.backoff, Delay.BACKOFF
        if gate.kind == Kind.HOST:
            if entry.crawl_delay > wait:
                wait, why = entry.crawl_delay, Delay.CRAWL_DELAY
            believed = 0.0 if retry_after is None else min(retry_after, params.retry_after_max_seconds)
            if believed > wait:
                wait, why = believed, Delay.RETRY_AFTER
        if ended + wait > gate.next:
            gate.next, gate.wait = ended + wait, wait
            gate.why = why


def _back_off_host(gate: Gate, outcome: Outcome, first: float, top: float) -> None:
    """Additive increase, multiplicative decrease of the rate: a bad visit doubles the back-off, each good one adds a
    quarter of the first back-off's rate, until it is shorter than the gap or no longer worth the name."""
    if outcome in ("throttled", "failed"):
        gate.backoff = min(max(first, 2 * gate.backoff), top)
    elif outcome == "ok" and gate.backoff > 0:
        eased = 1 / (1 / gate.backoff + 1 / (4 * first)) if first > 0 else 0.0
        gate.backoff = eased if eased > max(gate.gap, first / 4) else 0.0


def _back_off_address(gate: Gate, outcome: Outcome, first: float, top: float) -> None:
    """Gentler than a host's, for its hosts fail for their own reasons: from twice the gap; a good visit halves it."""
    if outcome in ("throttled", "failed"):
        top = min(top, first * 2**ADDRESS_BACKOFF_STEPS)
        gate.backoff = min(max(2 * gate.gap, first / 8, 2 * gate.backoff), top)
    elif outcome == "ok" and gate.backoff > 0:
        eased = gate.backoff / 2
        gate.backoff = eased if eased > max(gate.gap, first / 8) else 0.0
