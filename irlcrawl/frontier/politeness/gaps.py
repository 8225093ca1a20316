"""How long each clock waits after an exchange, and why: floors, the last fetch, Crawl-delay, Retry-After, back-off.

Pure policy on one clock at a time. Only a host's clock knows Crawl-delay and Retry-After; an
address backs off more gently than a host, and not at all inside politeness.shared_addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address, ip_network
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from irlcrawl.config import keys as config
from irlcrawl.frontier.politeness.clocks import Clocks
from irlcrawl.frontier.politeness.columns import NONE, view
from irlcrawl.frontier.politeness.entries import HostEntry
from irlcrawl.frontier.politeness.gates import Delay, Flag, Kind

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

    def __init__(self, params: config.Politeness) -> None:
        self._params = params
        try:
            self._shared = [ip_network(network) for network in params.shared_addresses]
        except ValueError as error:
            raise config.ConfigError(f"politeness.shared_addresses: {error}") from None

    def floor(self, entry: HostEntry) -> float:
        """Least seconds between two requests to a host, whatever else is known of it."""
        return self._params.gap_host_seconds if entry.gap_floor is None else entry.gap_floor

    def floors(self, entries: Sequence[HostEntry]) -> NDArray[np.float64]:
        """As `floor`, for each of many."""
        general = self._params.gap_host_seconds
        return np.array([general if entry.gap_floor is None else entry.gap_floor for entry in entries], np.float64)

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
        self,
        clocks: Clocks,
        gate: int,
        floor: float,
        crawl_delay: float,
        ended: float,
        fetch_s: float,
        outcome: Outcome,
        retry_after: float | None,
    ) -> None:
        """An exchange with a host of such a floor and Crawl-delay ended: sets the clock's gap, back-off, next time
        (never earlier than before) and why."""
        kind, wait, backoff, why = clocks.kind[gate], clocks.gap[gate], clocks.backoff[gate], Delay.HOST_GAP
        if kind == Kind.HOST:
            wait = clocks.gap[gate] = max(floor, self.stretch(fetch_s))
        if backoff or outcome != "ok":
            backoff = clocks.backoff[gate] = self._backoff(kind, clocks.flags[gate], wait, backoff, outcome)
            if backoff > wait:
                wait, why = backoff, Delay.BACKOFF
        if kind == Kind.HOST:
            if crawl_delay > wait:
                wait, why = crawl_delay, Delay.CRAWL_DELAY
            if retry_after is not None and min(retry_after, self._params.retry_after_max_seconds) > wait:
                wait, why = min(retry_after, self._params.retry_after_max_seconds), Delay.RETRY_AFTER
        if ended + wait > clocks.next[gate]:
            clocks.next[gate], clocks.wait[gate] = ended + wait, wait
            clocks.why[gate] = why
        clocks.moved(gate)

    def move_all(
        self,
        clocks: Clocks,
        gates: NDArray[np.int64],
        floors: NDArray[np.float64],
        crawl_delays: NDArray[np.float64],
        ended: NDArray[np.float64],
        fetch_s: NDArray[np.float64],
        outcomes: NDArray[np.int64],
    ) -> None:
        """As `move`, for visits of as many hosts: gates is i8[n, 3], a row as Crowd.rows_of gives it, and no gate
        stands in it twice; outcomes are of OUTCOMES. None had a Retry-After."""
        stretched = np.minimum(self._params.gap_host_factor * fetch_s, self._params.gap_host_max_seconds)
        view(clocks.gap)[gates[:, 0]] = np.maximum(floors, stretched)
        for column in range(gates.shape[1]):
            some = np.flatnonzero(gates[:, column] != NONE)
            delays = crawl_delays[some] if column == 0 else None
            self._move_column(clocks, gates[some, column], ended[some], outcomes[some], delays)
        clocks.moved_all(gates[gates != NONE])

    def _move_column(
        self, clocks: Clocks, gates: NDArray[np.int64], ended: NDArray[np.float64], outcomes: NDArray[np.int64],
        crawl_delays: NDArray[np.float64] | None,
    ) -> None:  # fmt: skip
        """Gates of one kind; crawl_delays: those of hosts."""
        gap, backoff = view(clocks.gap)[gates], view(clocks.backoff)[gates]
        for at in np.flatnonzero((backoff > 0) | (outcomes != OK)).tolist():  # few, each with a past of its own
            gate, how = int(gates[at]), OUTCOMES[outcomes[at]]
            clocks.backoff[gate] = backoff[at] = self._backoff(
                clocks.kind[gate], clocks.flags[gate], float(gap[at]), float(backoff[at]), how
            )
        wait, why = np.maximum(gap, backoff), np.where(backoff > gap, Delay.BACKOFF, Delay.HOST_GAP)
        if crawl_delays is not None:
            why[crawl_delays > wait] = Delay.CRAWL_DELAY
            wait = np.maximum(wait, crawl_delays)
        later = ended + wait > view(clocks.next)[gates]
        gates, wait = gates[later], wait[later]
        view(clocks.next)[gates], view(clocks.wait)[gates] = ended[later] + wait, wait
        view(clocks.why)[gates] = why[later]

    def _backoff(self, kind: int, flags: int, gap: float, backoff: float, outcome: Outcome) -> float:
        first, top = self._params.backoff_seconds, self._params.gap_host_max_seconds
        if kind == Kind.HOST:
            return _host_backoff(gap, backoff, outcome, first, top)
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
    """Gentler than a host's, for its hosts fail for their own reasons: from twice the gap; a good visit halves it."""
    if outcome in ("throttled", "failed"):
        top = min(top, first * 2**ADDRESS_BACKOFF_STEPS)
        return min(max(2 * gap, first / 8, 2 * backoff), top)
    if outcome == "ok" and backoff > 0:
        return backoff / 2 if backoff / 2 > max(gap, first / 8) else 0.0
    return backoff
