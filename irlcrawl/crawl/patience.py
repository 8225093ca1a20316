"""How long a crawl goes on that has nothing left but URLs that rest (limits.wait_hours).

Such a crawl would wait for days for hosts that may be dead. So it counts the time in which nothing was done and nothing
but rests was left. URLs in runs do not stop the count: those of hosts that answer are done within the horizon, and then
the count begins anew; others are asked whether their host answers again.
"""

from __future__ import annotations

from irlcrawl.config.keys import Config
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.terminal import words

STILL_S = 30.0
"""More time between two looks does not count: this process was stopped, or the machine slept."""


class Patience:
    """Goes by what commits said, and by looks between them."""

    def __init__(self, config: Config) -> None:
        self._seconds = config.limits.wait_hours * 3600
        self._horizon = config.politeness.horizon_seconds
        self._revisits = config.revisit.enabled
        self._done = -1
        self._left = 0  # URLs that rest, or rested and are in runs
        self._waiting = False  # nothing but rests is left, as of the last commit and the last look
        self._waited = 0.0
        self._hosts = 0
        self._looked_at = float("inf")

    def committed(self, state: CrawlState) -> None:
        """A turn is committed, and no other runs."""
        self._left = state.rests.rows + state.runs.rows
        if state.waiting > self._left or (self._revisits and state.pages.rows):
            self._waiting = False  # pages that are visited again are waited for without end
        elif state.rests.rows:
            self._waiting = True  # and remains so while the last one is in a run, to be asked again
        if state.ledger.done != self._done:
            self._done, self._waited = state.ledger.done, 0.0

    def look(self, now: float, hosts: int, held: bool) -> None:
        """Once in each pass of the loop. hosts: how many are in memory; held: they are not asked now."""
        passed, self._looked_at = now - self._looked_at, now
        if held or not self._waiting:
            self._waited = 0.0
        else:
            self._waited += max(0.0, min(passed, STILL_S))
        self._hosts = hosts

    def ends_at(self, now: float) -> float | None:
        """When the crawl ends if nothing is done until then, unix seconds; None if it need not end."""
        if not self._seconds or not self._waiting or (self._hosts and self._waited < self._horizon):
            return None  # maybe its hosts in memory answer
        return now + max(0.0, self._seconds - self._waited)

    def over(self) -> str | None:
        """A sentence if the crawl has to stop."""
        least = max(self._seconds, self._horizon) if self._hosts else self._seconds
        if not self._seconds or not self._waiting or self._waited < least:
            return None
        return (
            f"for {words.duration(self._waited)} nothing was left but {words.plural(self._left, 'URL')} at rest "
            "after failures (limits.wait_hours); the same command goes on with them"
        )
