"""How many more URLs of a host may go into runs, and when those it cannot take would be due."""

from __future__ import annotations

from collections.abc import Mapping

from irlcrawl.clock import Clock
from irlcrawl.config import Config
from irlcrawl.frontier.hosts import HostRecord
from irlcrawl.frontier.politeness import Politeness, State
from irlcrawl.frontier.release import HostLoad
from irlcrawl.frontier.visits import Host

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
        if host.address:
            left = self.address_rows.get(host.address, 0) + rows
            if left > 0:
                self.address_rows[host.address] = left
            else:
                self.address_rows.pop(host.address, None)

    def of(self, key: int, record: HostRecord) -> HostLoad:
        """With as many hosts in memory as there may be, another one's URLs come back after the horizon."""
        now = self._clock.now()
        host = self._hosts.get(key)
        if host is None:
            self._newcomers += 1
            hosts_max = self._config.frontier.hosts_active_max
            # Those that find no room come back by as many as there is room for, a horizon after the last ones.
            horizons = (len(self._hosts) + self._newcomers - 1) // hosts_max
            if horizons:
                due = now + horizons * self._config.politeness.horizon_seconds
                return HostLoad(0, self.gap_unknown(record), due)
        active = host if host is not None and host.state != State.IDLE else None
        gap = self.gap_unknown(record) if active is None else self._politeness.gap_for(active)
        cap = self._config.frontier.urls_per_host_max
        if gap > 0:
            cap = max(4, min(cap, int(self._config.politeness.horizon_seconds / gap)))
        rows = 0 if host is None else host.rows
        address = record.address_at(now) if host is None else host.address
        together = max(rows, self.address_rows.get(address, 0)) if address else rows
        due = now if active is None else max(now, self._politeness.due(active))
        gap = max(gap, EXCHANGE_S)
        return HostLoad(room=cap - together, gap=gap, free_at=due + gap * min(cap, together + cap))

    def gap_unknown(self, record: HostRecord) -> float:
        """Seconds between requests to a host of which only its record is known."""
        return max(self._config.politeness.gap_host_seconds, record.crawl_delay)
