"""How much of JOB's disk must stay free: room for the largest pending merge and a WARC file more.

If the disk is suddenly full (other programs write there, too), JOB/ballast is given up, so that at least the end of the
crawl can be written down.

There is one threshold. Below it a running crawl stops cleanly, while there is still room for its last commit. A stopped
crawl does not go on before there is a tenth more, so that it does not start only to stop again.
"""

from __future__ import annotations

import math
import os

from irlcrawl.frontier.state.crawl_state import CrawlState

HYSTERESIS = 1.1
BALLAST_BYTES = 256 << 10


class DiskSpace:
    def __init__(self, state: CrawlState) -> None:
        self._state = state
        self._ballast = state.job.ballast
        self.count()

    def count(self) -> None:
        """Count pending merges again; between turns."""
        config = self._state.config
        self.advised = self._state.merge_bytes + config.archive.roll_bytes
        self.needed = config.frontier.disk_reserve_bytes or self.advised

    def take_ballast(self) -> None:
        """Write JOB/ballast, for the time of a run. OSError."""
        files, path = self._state.files, self._ballast
        files.unlink(path, missing_ok=True)
        handle = files.create(path)
        try:
            files.write(handle, os.urandom(BALLAST_BYTES))  # no file system can store it in less
        finally:
            files.close(handle)

    def drop_ballast(self) -> None:
        self._state.files.unlink(self._ballast, missing_ok=True)

    @property
    def free(self) -> int:
        return self._tightest()[0]

    def _tightest(self) -> tuple[int, str]:
        """Free bytes on the disk with the least room, and a directory on it: archives may have a disk of their own."""
        job = self._state.job
        return min((self._state.files.free(path), str(path)) for path in (job.path, job.warcs))

    def lacking(self, starting: bool = False) -> str | None:
        """A sentence if there is too little room to go on (or, `starting`, to begin)."""
        needed = int(self.needed * HYSTERESIS) if starting else self.needed
        return None if self.free >= needed else self.words(int(self.needed * HYSTERESIS))

    def words(self, needed: int | None = None) -> str:
        """A sentence with the free and the needed room. Without `needed`, a write found no room, and the advised room
        is told."""
        free, where = self._tightest()
        told = f"{free // 1_000_000:,.0f} MB are free on the disk of {where}"
        advised = self.advised * HYSTERESIS
        if needed is None and free >= advised:
            return f"{told}, and it takes no more: no inodes (df -i), or a quota; with more, the same command goes on"
        enough = math.ceil((needed or advised) / 1e6)
        return (
            f"{told}, the crawl needs {enough:,} MB (the largest pending merge and a WARC file, "
            "or frontier.disk_reserve_bytes); with that much room the same command goes on"
        )
