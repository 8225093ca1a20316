"""How many more URLs of a host may go into runs, and when those it cannot take would be due."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drum import Batch
from irlcrawl.base.clock import Clock
from irlcrawl.config.keys import Config
from irlcrawl.frontier.dispatch.visits import Host
from irlcrawl.frontier.politeness.politeness import HostState, Politeness
from irlcrawl.frontier.state.hosts import records_of
from irlcrawl.frontier.turn.release import HostLoads

EXCHANGE_S = 0.001
"""At least what a request takes: what a host without a gap has no room for need not come back in the next turn."""


class Loads:
    """Counts the URLs in runs of each host in memory (`Host.rows`) and of each address.

    Owned by the event loop; `of` alone is called from the turn's thread (it only reads, but for the newcomers)."""

    def __init__(self, config: Config, clock: Clock, politeness: Politeness, hosts: Mapping[int, Host]) -> None:
        self._config, self._clock, self._politeness, self._hosts = config, clock, politeness, hosts
        self.address_rows: dict[str, int] = {}
        self._newcomers = 0  # hosts the turn found room for that are not in memory yet

    def count(self, host: Host, rows: int) -> None:
        """So many more URLs of a host in memory wait in runs (fewer, if negative)."""
        host.rows += rows
        self._count_address(host, rows)

    def arrived(self) -> None:
        """What the turn found room for is in memory, or about to be."""
        self._newcomers = 0

    def moves(self, host: Host) -> None:
        """Its address is about to change: its URLs are not counted until it has `moved`."""
        self._count_address(host, -host.rows)

    def moved(self, host: Host) -> None:
        self._count_address(host, host.rows)

    def _count_address(self, host: Host, rows: int) -> None:
        if not host.address:
            return
        left = self.address_rows.get(host.address, 0) + rows
        if left > 0:
            self.address_rows[host.address] = left
        else:
            self.address_rows.pop(host.address, None)

    def of(self, keys: NDArray[np.uint64], states: Batch) -> HostLoads:
        """Of hosts and their STATE, a row each."""
        now, config = self._clock.now(), self._config
        known = InMemory.nobody(config, now, states)
        for at, key in enumerate(keys.tolist()):  # those in memory are objects, and most are not
            if (host := self._hosts.get(key)) is not None:
                known.unknown[at] = False
                known.rows[at] = max(host.rows, self.address_rows.get(host.address, 0) if host.address else 0)
                if host.state != HostState.IDLE:
                    known.gap[at], known.due[at] = self._politeness.gap_for(host), self._politeness.due(host)
        if self.address_rows:
            addressed = np.flatnonzero(known.unknown & (states["family"] > 0) & (states["address_until"] > now))
            for at, record in zip(addressed.tolist(), records_of(states.take(addressed)), strict=True):
                known.rows[at] = self.address_rows.get(record.address_at(now) or "", 0)
        loads = loads_of(config, now, known, len(self._hosts) + self._newcomers)
        self._newcomers += int(np.count_nonzero(known.unknown))
        return loads


@dataclass(slots=True)
class InMemory:
    """What is in memory of hosts, a row each."""

    unknown: NDArray[np.bool_]  # not in memory
    rows: NDArray[np.int64]  # URLs in runs, of the host or of all at its address, whichever are more
    gap: NDArray[np.float64]  # least seconds between two requests
    due: NDArray[np.float64]  # unix seconds, may lie in the past

    @classmethod
    def nobody(cls, config: Config, now: float, states: Batch) -> InMemory:
        """Of hosts of which nothing but their STATE is known."""
        count = states.rows
        gap = np.maximum(config.politeness.gap_host_seconds, states["crawl_delay"].astype(np.float64))
        return cls(np.ones(count, np.bool_), np.zeros(count, np.int64), gap, np.full(count, now))


def loads_of(config: Config, now: float, known: InMemory, ahead: int) -> HostLoads:
    """What there is room for, with `ahead` hosts in memory or about to be. When that is as many as there may be, the
    URLs of others come back after the horizon."""
    horizon, gap = config.politeness.horizon_seconds, known.gap
    cap = np.full(len(gap), config.frontier.urls_per_host_max)
    slow = gap > 0
    cap[slow] = np.maximum(np.minimum(horizon / gap[slow], cap[slow]).astype(np.int64), 4)
    room, pace = cap - known.rows, np.maximum(gap, EXCHANGE_S)
    free_at = np.maximum(now, known.due) + pace * cap
    # Those that find no room come back by as many as there is room for, a horizon after the last ones.
    new = np.flatnonzero(known.unknown)
    horizons = (ahead + np.arange(len(new))) // config.frontier.hosts_active_max
    late, horizons = new[horizons > 0], horizons[horizons > 0]
    room[late], pace[late], free_at[late] = 0, gap[late], now + horizons * horizon
    return HostLoads(room, pace, free_at)
