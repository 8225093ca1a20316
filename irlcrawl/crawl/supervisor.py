"""A run of a crawl: opens JOB's state, starts the workers, answers signals and the control socket, ends with a code.

The process that runs it is the frontier; workers are its children and die with it. Whatever happens, what was
committed is whole: the next start recovers the rest (frontier/recovery.py).
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import uvloop

from drum import Edits
from irlcrawl.base.clock import Clock, SystemClock
from irlcrawl.base.job import ExitCode, JobDir, JobFull
from irlcrawl.config.keys import Config, ConfigError
from irlcrawl.config.toml import to_toml
from irlcrawl.crawl import status
from irlcrawl.crawl.control import serve
from irlcrawl.crawl.disk_space import no_room
from irlcrawl.crawl.loop import CrawlLoop
from irlcrawl.crawl.seeding import write_seeds
from irlcrawl.crawl.steps import log_step
from irlcrawl.frontier.dispatch.workers import RemoteWorker
from irlcrawl.frontier.state.crawl_state import SEEDS_STREAM, CrawlState
from irlcrawl.worker.fetch.process import Started, start_worker
from irlcrawl.worker.harvest.builder import harvests_from

if TYPE_CHECKING:
    from irlcrawl.terminal.progress import Progress

STOP_SECONDS = 8.0
"""A clean stop that takes longer drops what is in flight: both kinds are over, and committed, within 10 s."""

SAME_SIGNAL_SECONDS = 0.2
"""`timeout`, and whoever else signals a process and then its group, means one stop; nobody presses Ctrl-C that fast."""

REAP_SECONDS = 5.0
"""A worker whose pipe is closed needs a moment to end."""

CONFIG_HEADER = "# The configuration this crawl last ran with; a resumed one starts from it.\n\n"

_log = logging.getLogger("irlcrawl.crawl")


class Stops:
    """How often a crawl was told to stop by a signal."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: tuple[int, float] | None = None
        self.count = 0

    def told(self, number: int) -> bool:
        """Count a signal; False for one that is the last once more."""
        last, now = self._last, self._clock.now()
        self._last = (number, now)
        if last is not None and last[0] == number and now - last[1] < SAME_SIGNAL_SECONDS:
            return False
        self.count += 1
        return True


class Supervisor:
    """One run of a crawl; `run` is called once."""

    def __init__(self, job: JobDir, config: Config, progress: Progress) -> None:
        self.job, self.config, self.progress = job, config, progress
        self.clock = SystemClock()
        self.loop: CrawlLoop | None = None
        self._stops = Stops(self.clock)
        self._started: list[Started] = []
        self._idle: list[Started] = []  # of them, without a stream yet
        self._over = False  # the crawl ended as it should, and every worker was told

    def run(self, seeds: list[bytes], workers: Sequence[Started]) -> ExitCode:
        """Crawl with these, and more where the configuration says so; `seeds` is emptied. OSError (the disk), Damaged,
        ConfigError (it has no seeds), JobError (its configuration cannot be written), JobFull (not begun)."""
        self._started, self._idle = list(workers), list(workers)
        try:
            return uvloop.run(self._run(seeds))
        except OSError as error:
            if not no_room(error):
                raise
            if self.loop is None:
                raise self.job.cannot_be_written(error) from error
            _log.error("the disk is full, what was committed is safe: %s", self.loop.disk_space.words())
            return ExitCode.DISK_FULL
        finally:
            self._end_processes()

    async def _run(self, seeds: list[bytes]) -> ExitCode:
        self._listen_to_signals()
        log_step("loaded")
        text = CONFIG_HEADER + to_toml(self.config)
        state = CrawlState.open(self.job, self.config, self.clock, write_config=lambda: self.job.write_config(text))
        log_step("state open")
        try:
            loop = self.loop = CrawlLoop(state, self.config, self.clock)
            if lacking := loop.disk_space.lacking(starting=True):
                raise JobFull(f"not begun: {lacking}")
            if not seeds and state.is_new:
                raise ConfigError(f"{self.job.path}: its crawl ended before it took any seeds; give them again")
            control = await serve(self.job.socket, {"status": self._on_status, "stop": self._on_stop})
            try:
                return await self._crawl(loop, state, seeds)
            except OSError as error:
                if no_room(error):
                    loop.say_full()
                raise
            finally:
                await control.close()
        finally:
            state.close()
            self._stop_listening()

    async def _crawl(self, loop: CrawlLoop, state: CrawlState, seeds: list[bytes]) -> ExitCode:
        old = list(state.streams)
        streams = self._new_streams(state, self.config.crawl.workers or os.cpu_count() or 1)
        await loop.open(self._seed(state, seeds), old)
        await self._add_worker(loop, streams[0])
        others = asyncio.create_task(self._add_others(loop, streams[1:]))
        loop.replace = self._replace
        loop.on_tick = lambda: self.progress.tick(loop.status)
        if self._stops.count:
            loop.stop(ExitCode.INTERRUPTED)
        try:
            code = await loop.run()
            self._over = True
            return code
        finally:
            others.cancel()

    async def _add_others(self, loop: CrawlLoop, streams: list[int]) -> None:
        """Once the first worker works and there is more than one host: before, they would only slow it down."""
        await loop.fleet.working.wait()
        await loop.fleet.wanted.wait()
        for stream in streams:
            if loop.ending is None:
                await self._add_worker(loop, stream)

    async def _add_worker(self, loop: CrawlLoop, stream: int) -> None:
        """Give a worker its stream; one that was forked when the crawl began, while there are any."""
        if self._idle:
            started = self._idle.pop(0)
        else:
            started = start_worker(self.job.path, self.job.lock_fds)
            self._started.append(started)
        await loop.fleet.connect(RemoteWorker(stream, started.process), started.sock, loop.hello(stream))

    def _new_streams(self, state: CrawlState, count: int) -> list[int]:
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

    def _seed(self, state: CrawlState, seeds: list[bytes]) -> str | None:
        if not seeds:
            return None
        number = state.streams[SEEDS_STREAM]["next"]
        waiting = list(harvests_from(set(state.files.listdir(state.dir)), SEEDS_STREAM, number))
        name = write_seeds(state, self.config, seeds, number + len(waiting))
        seeds.clear()
        return name

    async def _replace(self, dead: RemoteWorker) -> None:
        """Another worker for one that died."""
        assert self.loop is not None
        (stream,) = self._new_streams(self.loop.state, 1)
        await self._add_worker(self.loop, stream)
        self.progress.note(f"worker {dead.stream} died; worker {stream} took its place")

    def _end_processes(self) -> None:
        """Workers end by themselves when their pipe closes; what is left after an error is not waited for long."""
        for process, sock in self._started:
            sock.close()  # nothing where the loop owned it
            if process.poll() is None and not self._over:
                process.kill()
        for process, _ in self._started:
            try:
                process.wait(REAP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    # -- being told to stop ----------------------------------------------------------------------------------------

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal, number)
        loop.add_signal_handler(signal.SIGUSR1, self._say_how_far)

    def _stop_listening(self) -> None:
        """All is said and committed: a signal that comes now must not turn that into a death by a signal."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)

    def _say_how_far(self) -> None:
        """To whoever watches, and into the log."""
        if self.loop is not None:
            record = status.complete(self.loop.status())
            text = f"{record['state']}: {status.line(record)}"
            _log.info(text)
            self.progress.note(text)

    def _on_signal(self, number: int) -> None:
        loop = self.loop
        if not self._stops.told(number) or loop is None:
            return
        if self._stops.count == 1:
            self.progress.note("stopping: waiting for what is in flight (a second signal drops it)")
            self._stop()
        else:
            loop.abort(ExitCode.FORCED)

    def _stop(self) -> None:
        assert self.loop is not None
        self.loop.stop(ExitCode.INTERRUPTED)
        asyncio.get_running_loop().call_later(STOP_SECONDS, self.loop.abort, None)

    def _on_status(self, request: dict[str, Any]) -> dict[str, Any]:
        del request
        assert self.loop is not None
        return self.loop.status()

    def _on_stop(self, request: dict[str, Any]) -> str:
        del request
        self._stop()
        return "stopping"
