"""Workers that die: what they left is recovered, and others take their places, unless one after another dies."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from irlcrawl.base.job import ExitCode
from irlcrawl.crawl import recovery
from irlcrawl.frontier.dispatch.workers import RemoteWorker, how_ended

if TYPE_CHECKING:
    from irlcrawl.crawl.loop import CrawlLoop

DEATHS_MAX = 8
"""So many workers that die one after another do not die of what they fetch: another one would die as well."""

_log = logging.getLogger("irlcrawl.frontier")


class Deaths:
    """`lost(worker)` when a worker's pipe is closed; `failure` is for the frontier's loop to raise."""

    def __init__(self, loop: CrawlLoop) -> None:
        self._loop = loop
        self._mourning: set[asyncio.Task[None]] = set()  # the remains of dead workers are being read
        self._in_a_row = 0
        self.over = False  # the crawl is, or it failed: workers that end now are nobody's loss
        self.failure: BaseException | None = None

    @property
    def pending(self) -> bool:
        """What some worker left is not in the inbox yet."""
        return bool(self._mourning)

    def page_taken_in(self) -> None:
        self._in_a_row = 0

    def lost(self, worker: RemoteWorker) -> None:
        if not worker.said_bye and not self.over:
            task = asyncio.get_running_loop().create_task(self._mourn(worker))
            self._mourning.add(task)
            task.add_done_callback(self._mourned)
        self._loop.wake()

    def _mourned(self, task: asyncio.Task[None]) -> None:
        self._mourning.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.failure = task.exception()
        self._loop.wake()

    async def _mourn(self, worker: RemoteWorker) -> None:
        """A worker is gone without a word: recover what it left, and put another in its place."""
        loop = self._loop
        code = await loop.fleet.reap(worker)
        _log.warning("worker %d %s", worker.stream, how_ended(code))
        self._in_a_row += 1
        if code == int(ExitCode.DISK_FULL):
            if loop.ending is None:
                _log.error("stopping: %s", loop.disk_space.words())
            loop.stop(ExitCode.DISK_FULL)
        elif code == int(ExitCode.DAMAGED):  # another one would read the same; the worker said what is damaged
            loop.stop(ExitCode.DAMAGED)
        elif self._in_a_row >= DEATHS_MAX and loop.ending is None:
            _log.error("%d workers died one after another without a page: stopping", self._in_a_row)
            loop.stop(ExitCode.FAILED)
        # On the turns' thread: those begun before are over then, one begun meanwhile waits behind it.
        left = await loop.turns.on_thread(recovery.recover_worker, loop.state, loop.config, worker.stream)
        worker.endings = left.endings
        loop.turns.take_remains(worker, left.harvests)
        if loop.ending is None:
            await loop.replace(worker)
