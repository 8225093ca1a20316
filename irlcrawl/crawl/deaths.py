"""Workers that die: what they left is recovered, and others take their places, unless one after another dies."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from irlcrawl.base.clock import Clock
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.keys import name_key
from irlcrawl.base.url import host_of
from irlcrawl.crawl.disk_space import DiskSpace
from irlcrawl.crawl.suspects import Suspects
from irlcrawl.crawl.this_run import ThisRun
from irlcrawl.crawl.turns import Turns
from irlcrawl.frontier.dispatch.visits import Ending, Host
from irlcrawl.frontier.dispatch.workers import Fleet, RemoteWorker, how_ended

_log = logging.getLogger("irlcrawl.frontier")


async def _nobody(worker: RemoteWorker) -> None:
    """Workers are replaced by what made them (supervisor.py)."""


class Deaths:
    """`lost(worker)` when a worker's pipe is closed; `failure` is for the crawl's loop to raise.

    stop(code): the crawl is to stop. wake(): something happened that the loop should look at."""

    def __init__(
        self, clock: Clock, run: ThisRun, fleet: Fleet, turns: Turns, disk_space: DiskSpace,
        stop: Callable[[ExitCode], None], wake: Callable[[], None],
    ) -> None:  # fmt: skip
        self._clock, self._run, self._fleet, self._turns, self._disk_space = clock, run, fleet, turns, disk_space
        self._stop, self._wake = stop, wake
        self._mourning: set[asyncio.Task[None]] = set()  # the remains of dead workers are being read
        self.suspects = Suspects()
        self.replace: Callable[[RemoteWorker], Awaitable[None]] = _nobody
        """Puts another worker in a dead one's place."""
        self.over = False  # the crawl is, or it failed: workers that end now are nobody's loss
        self.failure: BaseException | None = None

    @property
    def pending(self) -> bool:
        """Whether some dead worker's harvests are not in the inbox yet."""
        return bool(self._mourning)

    def lost(self, worker: RemoteWorker) -> None:
        if not worker.said_bye and not self.over:
            task = asyncio.get_running_loop().create_task(self._mourn(worker))
            self._mourning.add(task)
            task.add_done_callback(self._mourned)
        self._wake()

    def _mourned(self, task: asyncio.Task[None]) -> None:
        self._mourning.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.failure = task.exception()
        self._wake()

    async def _mourn(self, worker: RemoteWorker) -> None:
        """A worker is gone without a word: recover what it left, and put another in its place."""
        code = await self._fleet.reap(worker)
        of_node = f" of {worker.node}" if worker.node else ""
        _log.warning("worker %d%s %s", worker.stream, of_node, how_ended(code, worker.killed))
        suspect = self._look_at(worker)
        if worker.node:  # it is the machine that cannot go on, not the crawl (cluster/nodes.py)
            pass
        elif code == int(ExitCode.DISK_FULL):
            if self._run.code is None:
                _log.error("stopping: %s", self._disk_space.words())
            self._stop(ExitCode.DISK_FULL)
        elif code == ExitCode.DAMAGED:  # another worker would read the same; this one said what is damaged
            self._stop(ExitCode.DAMAGED)
        elif (in_vain := self.suspects.in_vain) and self._run.code is None:
            _log.error("%d workers died one after another without a page: stopping", in_vain)
            self._stop(ExitCode.FAILED)
        await self._turns.recover(worker)
        if suspect is not None:  # asked ever more seldom if that goes on
            worker.endings[suspect.key] = Ending(ended=self._clock.now(), outcome="failed")
        if self._run.code is None:
            await self.replace(worker)

    def _look_at(self, worker: RemoteWorker) -> Host | None:
        """What was a dead worker reading? Returns the host that it was visiting for that, if one is known."""
        url = worker.reading.url if worker.reading is not None else b""
        if not url:
            if not worker.node:  # a machine takes all of its workers along
                self.suspects.died_otherwise()
            return None
        name = host_of(url)
        host = next((visit.host for visit in worker.visits.values() if visit.host.name == name), None)
        told = url.decode("ascii")
        if self.suspects.died(url, name_key(name.encode("ascii")) if host is None else host.site):
            _log.error("reading %s ended another worker: it is not asked for any more", told)
            self._fleet.broadcast({"t": "unreadable", "url": told})
        else:
            _log.warning("worker %d was reading %s", worker.stream, told)
        return host
