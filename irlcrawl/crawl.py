"""A crawl from lock to exit code: opens JOB, starts the workers, answers signals and the control socket.

The process that calls `run_crawl` becomes the frontier; workers are its children and die with it. Whatever happens,
what was committed is whole: the next start recovers the rest (frontier/recovery.py).
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import uvloop

from drum import Edits
from irlcrawl.clock import SystemClock
from irlcrawl.config import Config
from irlcrawl.frontier.fleet import Link
from irlcrawl.frontier.frontier import Frontier
from irlcrawl.frontier.seeding import write_seeds
from irlcrawl.frontier.state import SEEDS_STREAM, State
from irlcrawl.harvest import harvest_name
from irlcrawl.job import ExitCode, JobDir
from irlcrawl.watch.control import serve

if TYPE_CHECKING:
    from irlcrawl.seeds import Seed

STOP_SECONDS = 8.0
"""A clean stop that takes longer drops what is in flight: both kinds are over, and committed, within 10 s."""

_log = logging.getLogger("irlcrawl.crawl")


class Shower(Protocol):
    """What shows progress (irlcrawl.watch.progress)."""

    def tick(self, record: Any) -> None: ...

    def note(self, text: str) -> None: ...


def run_crawl(job: JobDir, config: Config, seeds: Sequence[Seed], *, progress: Shower) -> ExitCode:
    """Crawl until done, stopped or at a limit. JOB's lock is held by the caller. Raises OSError (the disk), Damaged."""
    try:
        return uvloop.run(_Crawl(job, config, progress).run(seeds))
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            _log.error("no room left on the disk of %s; what was committed is safe: make room, then resume", job.path)
            return ExitCode.DISK_FULL
        raise


class _Crawl:
    def __init__(self, job: JobDir, config: Config, progress: Shower) -> None:
        self.job, self.config, self.progress = job, config, progress
        self.clock = SystemClock()
        self.frontier: Frontier | None = None
        self._stops = 0
        self._processes: list[Link] = []

    async def run(self, seeds: Sequence[Seed]) -> ExitCode:
        state = State.open(self.job, self.config, self.clock)
        try:
            frontier = self.frontier = Frontier(state, self.config, self.clock)
            started = [frontier.fleet.spawn(stream) for stream in self._new_streams(state, self._worker_count())]
            self._processes += [link for link, _ in started]
            self._listen_to_signals()
            control = await serve(self.job.socket, {"status": self._on_status, "stop": self._on_stop})
            try:
                return await self._crawl(frontier, state, seeds, started)
            finally:
                await control.close()
        finally:
            self._end_processes()
            state.close()

    async def _crawl(
        self, frontier: Frontier, state: State, seeds: Sequence[Seed], started: list[tuple[Link, socket.socket]]
    ) -> ExitCode:
        old = [stream for stream in state.streams if stream not in {link.stream for link, _ in started}]
        await frontier.open(self._seed(state, seeds), old)
        for link, sock in started:
            await frontier.fleet.connect(link, sock, frontier.hello(link.stream))
        frontier.replace = self._replace
        frontier.on_tick = lambda: self.progress.tick(frontier.status)
        if self._stops:
            frontier.stop(ExitCode.INTERRUPTED)
        return await frontier.run()

    def _worker_count(self) -> int:
        return self.config.crawl.workers or os.cpu_count() or 1

    def _new_streams(self, state: State, count: int) -> list[int]:
        """Stream numbers for new workers, committed before they write anything under them."""
        first: int = state.catalog.get("stream-next")
        streams = list(range(first, first + count))
        edits = Edits()
        edits.set("stream-next", first + count)
        for stream in streams:
            state.streams[stream] = {"next": 0, "warc": [0, 0]}
            edits.set(f"streams/{stream}", state.streams[stream])
        state.catalog.commit(edits)
        return streams

    def _seed(self, state: State, seeds: Sequence[Seed]) -> str | None:
        if not seeds:
            return None
        number = state.streams[SEEDS_STREAM]["next"]
        while state.files.exists(os.path.join(state.dir, _seed_name(number))):
            number += 1
        return write_seeds(state, self.config, seeds, number)

    async def _replace(self, dead: Link) -> None:
        """Another worker for one that died."""
        assert self.frontier is not None
        (stream,) = self._new_streams(self.frontier.state, 1)
        link, sock = self.frontier.fleet.spawn(stream)
        self._processes.append(link)
        await self.frontier.fleet.connect(link, sock, self.frontier.hello(stream))
        self.progress.note(f"worker {dead.stream} died; worker {stream} took its place")

    def _end_processes(self) -> None:
        """Workers end by themselves when their pipe closes; here only what is left after an error."""
        for link in self._processes:
            if link.wire is not None:
                link.wire.close()
            if link.process.poll() is None and self.frontier is not None and self.frontier.ending is None:
                link.process.kill()
            link.process.wait()

    # -- being told to stop ----------------------------------------------------------------------------------------

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal)

    def _on_signal(self) -> None:
        self._stops += 1
        frontier = self.frontier
        if frontier is None:
            return
        if self._stops == 1:
            self.progress.note("stopping: waiting for what is in flight (a second signal drops it)")
            self._stop()
        else:
            frontier.abort(ExitCode.FORCED)

    def _stop(self) -> None:
        assert self.frontier is not None
        self.frontier.stop(ExitCode.INTERRUPTED)
        asyncio.get_running_loop().call_later(STOP_SECONDS, self.frontier.abort, None)

    def _on_status(self, request: dict[str, Any]) -> dict[str, Any]:
        del request
        assert self.frontier is not None
        return self.frontier.status()

    def _on_stop(self, request: dict[str, Any]) -> str:
        del request
        self._stop()
        return "stopping"


def _seed_name(number: int) -> str:
    return harvest_name(SEEDS_STREAM, number)
