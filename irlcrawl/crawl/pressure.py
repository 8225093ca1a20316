"""Back-pressure: harvests that no turn has merged are bounded, and so are the URLs that wait.

Workers can find links faster than turns merge them. While more than `frontier.harvests_bytes_max` of harvests wait to
be merged nothing is leased, and turns come one after the other; workers may still hand over harvests of visits that are
out. URLs behind the merge have a bound of their own, `frontier.bytes_max`: turns delay or drop (turn.py), this file
says when the crawl has to stop.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from irlcrawl.frontier.state.crawl_state import CrawlState


class Pressure:
    def __init__(self, state: CrawlState) -> None:
        self._state = state
        self._arrived: dict[str, int] = {}  # harvests no commit has named -> bytes
        self._merging = 0
        self.frontier_bytes = 0
        self.frontier_full = False
        self.committed(())

    def arrived(self, harvest: str) -> None:
        """A worker handed over a harvest. OSError."""
        path = os.path.join(self._state.dir, harvest)
        self._arrived[harvest] = self._state.files.size(path)

    def committed(self, harvests: Iterable[str]) -> None:
        """Count again after a commit that named `harvests`; between turns."""
        state = self._state
        for name in harvests:
            self._arrived.pop(name, None)
        self.frontier_bytes = state.frontier_bytes
        self.frontier_full = state.room_bytes < 0
        # Links that wait because the frontier is full must not keep it from being emptied: there are no more of them
        # than its URLs can bring.
        drums = [state.sites.drums[0]] if state.delayed else [state.seen, state.sites.drums[0]]
        self._merging = sum(drum.pending_bytes() for drum in drums)

    @property
    def harvest_bytes(self) -> int:
        """Bytes of harvests that wait to be merged, including those of a running turn."""
        return self._merging + sum(self._arrived.values())

    @property
    def slow_down(self) -> bool:
        """Whether leasing has to pause until turns have caught up."""
        return self.harvest_bytes > self._state.config.frontier.harvests_bytes_max

    def full(self) -> str | None:
        """A sentence if the crawl has to stop because of the URLs that wait."""
        limits = self._state.config.frontier
        if limits.when_full != "stop" or not self.frontier_full:
            return None
        return (
            f"the URLs that wait take {self.frontier_bytes:,} bytes on the disk, frontier.bytes_max allows "
            f"{limits.bytes_max:,}; with a larger one, or with frontier.when_full = delay or drop, the same "
            "command goes on"
        )
