"""What is known of a crawl now: its status record, its history, the end of its logs. However many people look, the
crawl is asked at most once a second, and files are read as often as they change."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from drum import Damaged

from irlcrawl.base.job import JobDamaged, JobDir
from irlcrawl.config.keys import Config
from irlcrawl.config.toml import load_stored
from irlcrawl.crawl import history, journal, status
from irlcrawl.crawl.control import ControlError
from irlcrawl.watch import series
from irlcrawl.watch.log_tail import LogTail
from irlcrawl.watch.sites import SiteBudgets
from irlcrawl.watch.view import View, paused, view

LIVE_SECONDS, AT_REST_SECONDS = 1.0, 5.0
POINTS_MAX = 400
LEAST_SECONDS = 60.0
"""So long a time charts show at least; of a young crawl not much more."""
RECENT_SHOWN, STEERED_SHOWN = 50, 20


class Look:
    """Blocking calls, from one thread at a time. monotonic: seconds that only grow."""

    def __init__(self, job: JobDir, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.job, self._monotonic = job, monotonic
        self._record: dict[str, Any] = {}
        self._due = 0.0
        self._config: Config | None = None
        self._config_mark: tuple[int, int] | None = None
        self.log = LogTail(job.crawl_log)
        self._sites = SiteBudgets(job, monotonic)

    def record(self) -> dict[str, Any]:
        """The status record, a second old at most. A crawl that does not answer is `busy`. Damaged, OSError."""
        now = self._monotonic()
        if not self._record or now >= self._due:
            try:
                self._record = status.read_status(self.job)
            except ControlError:
                self._record = status.complete({**self._record, "state": "busy", "source": "committed"})
            alive = self._record["state"] in status.ALIVE
            self._due = self._monotonic() + (LIVE_SECONDS if alive else AT_REST_SECONDS)
        return self._record

    def view(self) -> View:
        """What a person sees."""
        record = self.record()
        return view(self.job.path.name, record, self.config(), self._sites.of(record))

    def config(self) -> Config | None:
        """As config_of, read again when the file changed."""
        try:
            stat = os.stat(self.job.config_file)
            mark = (stat.st_mtime_ns, stat.st_ino)
            if mark != self._config_mark:
                self._config, self._config_mark = config_of(self.job), mark
        except OSError:
            self._config = self._config_mark = None
        return self._config

    def page(self) -> dict[str, Any]:
        """All that the page shows but for charts."""
        self.log.read()
        return {
            **self.view().to_json(),
            "paused": paused(self.record()),
            "recent": [_line(entry) for entry in list(self.log.last)[: -RECENT_SHOWN - 1 : -1]],
            "steered": [one._asdict() for one in journal.read(self.job)[: -STEERED_SHOWN - 1 : -1]],
        }

    def charts(self, seconds: float) -> dict[str, Any]:
        """Lines of the last `seconds`, up to now, or up to where a crawl that does not run ended."""
        record = self.record()
        until = record["updated"] or time.time()
        try:
            samples = history.read(self.job.history, until - seconds, until + history.LEVELS[0][0], POINTS_MAX)
        except (Damaged, OSError):  # fsck says what is wrong with it
            samples = []
        since = max(until - seconds, min(samples[0][0], until - LEAST_SECONDS)) if samples else until - seconds
        return {**series.charts(samples), "since": since, "until": until}


def config_of(job: JobDir) -> Config | None:
    """The crawl's configuration; None where it cannot be read."""
    try:
        return load_stored(job.config_file)
    except (OSError, JobDamaged):
        return None


def _line(entry: Any) -> dict[str, Any]:
    """A line of the crawl log, for people."""
    return {
        "time": entry.logged_ms / 1000,
        "status": entry.status,
        "reason": entry.reason.replace("_", " "),
        "outcome": entry.outcome,
        "url": entry.url.decode("utf-8", "replace"),
        "bytes": entry.size,
        "mime": entry.mime,
        "seconds": entry.duration_ms / 1000 if entry.start_ms is not None else None,
    }
