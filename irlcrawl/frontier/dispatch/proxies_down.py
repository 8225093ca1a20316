"""Proxies that do not answer: our own outage, of the hosts behind them alone. No URL and no host is charged with it.

A visit that meets one ends, and its host waits PROBE_S. So do the others behind that proxy when their turn comes, but
for one after each such time, whose visit finds out whether the proxy is there again.
"""

from __future__ import annotations

import logging

from irlcrawl.base.clock import Clock
from irlcrawl.config.proxies import Proxies

PROBE_S = 15.0

_log = logging.getLogger("irlcrawl.outage")


class ProxiesDown:
    def __init__(self, proxies: Proxies, clock: Clock) -> None:
        self._proxies, self._clock = proxies, clock
        self.since: dict[str, float] = {}
        """Proxy, as the configuration names it -> since when it does not answer, unix seconds."""
        self._probe_at: dict[str, float] = {}

    def failed(self, proxy: str, why: str) -> None:
        """A visit ended because of it."""
        now = self._clock.now()
        if proxy not in self.since:
            self.since[proxy] = now
            _log.warning("%s. Hosts behind %s wait; no URL and no host is charged with it", why, proxy)
        self._probe_at[proxy] = now + PROBE_S

    def answered(self, name: str) -> None:
        """A visit to a host of this name had an answer."""
        if self.since and (since := self.since.pop(proxy := str(self._proxies.of(name)), None)) is not None:
            del self._probe_at[proxy]
            _log.warning("the proxy %s answers again after %.0f s: going on", proxy, self._clock.now() - since)

    def waits_until(self, name: str) -> float:
        """Until when a host of this name is not to be asked, unix seconds; 0 if it may be."""
        return self._probe_at.get(str(self._proxies.of(name)), 0.0) if self.since else 0.0

    def held_until(self, name: str) -> float:
        """As `waits_until`, of a host that is to be leased. If it may be, it is the one that finds out."""
        now, until = self._clock.now(), self.waits_until(name)
        if until > now:
            return until
        if until:
            self._probe_at[str(self._proxies.of(name))] = now + PROBE_S
        return 0.0
