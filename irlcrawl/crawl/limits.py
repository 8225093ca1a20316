"""When a crawl has to end: a limit of pages, bytes, time or waiting, no room on the disk, a full frontier."""

from __future__ import annotations

import logging

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.config.keys import NO_LIMIT, Config
from irlcrawl.crawl.disk_space import DiskSpace
from irlcrawl.crawl.patience import Patience
from irlcrawl.crawl.pressure import Pressure
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.frontier.turn.turn import Result

_log = logging.getLogger("irlcrawl.frontier")


class Limits:
    """Counts pages and bytes as visits report them, before a turn has folded them; what the state says is as of the
    last commit."""

    def __init__(self, state: CrawlState, config: Config, started: float) -> None:
        self._limits = config.limits
        self._started = started
        self.disk_space = DiskSpace(state)
        self.pressure = Pressure(state)
        self.patience = Patience(config)
        self.unfolded = 0  # URLs reached less those folded; one folded before its visit ended counts -1 till then
        self.received = 0  # bytes that visits told of, and recovery; what was harvested since is among them
        self._count(state)

    def _count(self, state: CrawlState) -> None:
        self._fetched: int = state.ledger.visits
        self.received = max(self.received, state.counters.get("bytes", 0))

    def committed(self, state: CrawlState, result: Result) -> None:
        """A turn is committed, and no other runs."""
        self._count(state)
        self.unfolded -= result.folded
        self.disk_space.count()
        self.pressure.committed(result.harvests)
        self.patience.committed(state)

    def allowance(self, urls_out: int) -> int:
        """How many URLs may be leased before limits.pages could be passed."""
        if not self._limits.pages:
            return NO_LIMIT
        return self._limits.pages - self._fetched - self.unfolded - urls_out

    def reached(self, now: float) -> ExitCode | None:
        """The code to stop with, or None."""
        limits = self._limits
        over_bytes = limits.bytes and self.received >= limits.bytes
        if over_bytes or (limits.pages and self._fetched >= limits.pages):
            return ExitCode.SIZE_LIMIT
        if limits.seconds and now - self._started >= limits.seconds:
            return ExitCode.TIME_LIMIT
        if lacking := self.disk_space.lacking():
            _log.warning("stopping: %s", lacking)
            return ExitCode.DISK_FULL
        if full := self.pressure.full():
            _log.warning("stopping: %s", full)
            return ExitCode.SIZE_LIMIT
        if waited := self.patience.over():
            _log.warning("stopping: %s", waited)
            return ExitCode.TIME_LIMIT
        return None
