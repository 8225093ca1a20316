"""When a crawl has to end: a limit of pages, bytes or time, no room on the disk, a frontier that is full."""

from __future__ import annotations

import logging

from irlcrawl.base.job import ExitCode
from irlcrawl.config.keys import NO_LIMIT, Config
from irlcrawl.crawl.disk_space import DiskSpace
from irlcrawl.crawl.pressure import Pressure
from irlcrawl.frontier.state.crawl_state import CrawlState

_log = logging.getLogger("irlcrawl.frontier")


class Limits:
    """Counts what visits tell of before a turn has folded it."""

    def __init__(
        self, state: CrawlState, config: Config, disk_space: DiskSpace, pressure: Pressure, started: float
    ) -> None:
        self._state, self._limits, self._disk_space, self._pressure = state, config.limits, disk_space, pressure
        self._started = started
        self.unfolded = 0  # URLs reached less those folded; one folded before its visit ended counts -1 till then
        self.received = 0  # bytes that visits told of, and recovery; what was harvested since is among them

    def allowance(self, urls_out: int) -> int:
        """How many URLs may be leased before limits.pages could be passed."""
        if not self._limits.pages:
            return NO_LIMIT
        return self._limits.pages - self._state.ledger.fetched - self.unfolded - urls_out

    def reached(self, now: float) -> ExitCode | None:
        """The code to stop with, or None."""
        limits, state = self._limits, self._state
        over_bytes = limits.bytes and max(self.received, state.counters.get("bytes", 0)) >= limits.bytes
        if over_bytes or (limits.pages and state.ledger.fetched >= limits.pages):
            return ExitCode.SIZE_LIMIT
        if limits.seconds and now - self._started >= limits.seconds:
            return ExitCode.TIME_LIMIT
        if lacking := self._disk_space.lacking():
            _log.warning("stopping: %s", lacking)
            return ExitCode.DISK_FULL
        if full := self._pressure.full():
            _log.warning("stopping: %s", full)
            return ExitCode.SIZE_LIMIT
        return None
