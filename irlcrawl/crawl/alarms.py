"""Events that a person should hear of while a crawl runs: an outage, a disk that fills up, a site that fails, a
trap."""

from __future__ import annotations

from typing import Any

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.url import SiteOf
from irlcrawl.config.keys import Config
from irlcrawl.crawl.hooks import Hooks
from irlcrawl.crawl.loop import CrawlLoop
from irlcrawl.crawl.status import ENDED

DISK_SECONDS = 30.0
VISITS_LEAST, VISITS_KEPT = 20, 100
"""Of a site: with fewer visits there is no rate; with more, older ones count less."""
SITES_MAX = 10_000
AGAIN_SECONDS = 86_400.0
"""No sooner is the same said of a site again."""


class Alarms:
    """Of one run; on the event loop."""

    def __init__(self, loop: CrawlLoop, config: Config, hooks: Hooks) -> None:
        self._loop, self._hooks, self._rate = loop, hooks, config.hooks.error_rate
        self._site_of = SiteOf(config.scope.private_suffixes)
        self._outage = self._disk_low = False
        self._disk_due = 0.0
        self._visits: dict[str, tuple[float, float]] = {}  # site -> visits, and those that failed
        self._said: dict[tuple[str, str], float] = {}
        loop.on_visit = self._on_visit
        loop.turns.on_suspects = self._on_suspects

    def tick(self, now: float) -> None:
        """Once in each pass of the loop."""
        if (self._loop.outage.paused or bool(self._loop.dispatcher.proxies_down.since)) != self._outage:
            self._outage = not self._outage
            self._hooks.emit("outage" if self._outage else "outage_over")
        if now >= self._disk_due:
            self._disk_due = now + DISK_SECONDS
            disk = self._loop.limits.disk_space
            low = disk.free < 2 * disk.needed
            if low and not self._disk_low:
                self._hooks.emit("disk_low", free_bytes=disk.free, needed_bytes=disk.needed)
            self._disk_low = low

    def ended(self, code: ExitCode, record: dict[str, Any]) -> None:
        """The crawl is over, or was stopped."""
        event = "done" if code in (ExitCode.DONE, ExitCode.NOTHING_HAD) else "stopped"
        facts = {name: record.get(name) for name in ("fetched", "failed", "excluded", "queued_urls", "bytes")}
        self._hooks.emit(event, code=int(code), state=ENDED[code], **facts)

    def _on_visit(self, host: str, outcome: str) -> None:
        if not self._rate or not self._hooks.wants("error_rate"):
            return
        site = self._site_of(host)
        visits, failed = self._visits.pop(site, (0.0, 0.0))
        visits, failed = visits + 1, failed + (outcome in ("failed", "throttled"))
        if visits > VISITS_KEPT:
            visits, failed = visits / 2, failed / 2
        self._visits[site] = (visits, failed)
        if len(self._visits) > SITES_MAX:
            self._visits.pop(next(iter(self._visits)))
        if visits >= VISITS_LEAST and failed >= self._rate * visits and self._may_say("error_rate", site):
            self._hooks.emit("error_rate", site=site, rate=round(failed / visits, 3), visits=round(visits))

    def _on_suspects(self, suspects: list[tuple[int, int, int]]) -> None:
        for key, tried, novel in suspects:
            host = next((host.name for host in self._loop.dispatcher.hosts.values() if host.site == key), None)
            if host is not None and self._may_say("trap", site := self._site_of(host)):
                self._hooks.emit("trap", site=site, tried=tried, new_content=novel)

    def _may_say(self, event: str, site: str) -> bool:
        now = self._loop.clock.now()
        if now - self._said.get((event, site), float("-inf")) < AGAIN_SECONDS:
            return False
        if len(self._said) > SITES_MAX:
            self._said.clear()
        self._said[event, site] = now
        return True
