"""Robots logs are deleted while a crawl runs: else they grow for as long as hosts are asked for robots.txt again.

A log that nobody wrote to for two days is pointed to by no record that counts (worker/harvest/rules_log.py). When it
was written to is told by its size, looked at every hour: the dates of files go by the system's clock, which may be set
while a crawl runs. A start deletes by those dates, since nothing else is left of the run before it.
"""

from __future__ import annotations

import os

from drum import Files

from irlcrawl.base.clock import Clock
from irlcrawl.base.job_files import parse_rules_log
from irlcrawl.config.keys import ROBOTS_FRESH_S_MAX

LOOK_S = 3600.0
OLD_S = 2 * ROBOTS_FRESH_S_MAX


class OldRules:
    def __init__(self, files: Files, state_dir: str, clock: Clock) -> None:
        self._files, self._dir, self._clock = files, state_dir, clock
        self._due = 0.0
        self._grown: dict[str, tuple[int, float]] = {}  # by log: its size, and when it was found to have another

    def look(self) -> None:
        """Delete those that are old, if it is time to look. OSError."""
        now = self._clock.now()
        if now < self._due:
            return
        self._due = now + LOOK_S
        known, self._grown = self._grown, {}
        for name in self._files.listdir(self._dir):
            if parse_rules_log(name) is None:
                continue
            path = os.path.join(self._dir, name)
            size = self._files.size(path)
            before, since = known.get(name, (-1, now))
            if size != before:
                since = now
            if now - since > OLD_S:
                self._files.unlink(path)
            else:
                self._grown[name] = (size, since)
