"""One run of a crawl: since when it lasts, with which code it is to stop once something says so, and where its start's
time went (`python -m bench resume`)."""

from __future__ import annotations

import logging
import threading
import time

from irlcrawl.base.clock import Clock
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.crawl.status import ENDED

_log = logging.getLogger("irlcrawl.start")


def log_step(what: str) -> None:
    """A line in the program's log for a step of the start that is done, with the CPU seconds of this process so far."""
    _log.info("%.3f CPU s: %s", time.process_time(), what)


class ThisRun:
    """elapsed_before: seconds that earlier runs of the crawl took together; began: when the process began to crawl, if
    that was before this run."""

    def __init__(self, clock: Clock, elapsed_before: float, began: float | None = None) -> None:
        self._clock = clock
        self._elapsed_before = elapsed_before
        self._began = clock.now()
        self.started = self._began if began is None else began
        self.code: ExitCode | None = None
        """With which the crawl is to stop; None while it is to go on."""
        self.stopping = threading.Event()
        """Set with the code. The one thing here that the turn's thread looks at."""
        self.ended = False
        """Nothing is out any more; what is left is the last commit."""

    @property
    def elapsed(self) -> float:
        """Seconds that all runs took together."""
        return self._elapsed_before + self._clock.now() - self._began

    def stop(self, code: ExitCode) -> None:
        """Stop with this code, whatever was said before."""
        self.code = code
        self.stopping.set()

    def state(self, paused: bool) -> str:
        """The word of the status record."""
        if self.code is None:
            return "paused" if paused else "running"
        return ENDED[self.code] if self.ended else "stopping"
