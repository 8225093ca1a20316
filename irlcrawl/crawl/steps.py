"""The steps of a start in the program's log: where the time to the first request went (`python -m bench resume`)."""

from __future__ import annotations

import logging
import time

_log = logging.getLogger("irlcrawl.start")


def log_step(what: str) -> None:
    """A line for a step that is done, with the CPU seconds this process has used so far."""
    _log.info("%.3f CPU s: %s", time.process_time(), what)
