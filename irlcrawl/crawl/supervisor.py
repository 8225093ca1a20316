"""A run of a crawl: opens JOB's state, starts the workers, answers signals and the control socket, ends with a code.

The process that runs it is the frontier; workers are its children and die with it. Whatever happens, what was
committed is whole: the next start recovers the rest (recovery.py).
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

from irlcrawl.base.clock import Clock, SystemClock
from irlcrawl.base.exit_codes import ExitCode, is_disk_full
from irlcrawl.base.job import JobDir, JobFull
from irlcrawl.base.job_files import SEEDS_STREAM, harvests_from
from irlcrawl.config.keys import Config, ConfigError
from irlcrawl.config.toml import to_toml
from irlcrawl.crawl import status
from irlcrawl.crawl.control import Handler
from irlcrawl.crawl.control_server import serve
from irlcrawl.crawl.loop import CrawlLoop
from irlcrawl.crawl.seeding import named_again, write_seeds
from irlcrawl.crawl.this_run import log_step
from irlcrawl.frontier.dispatch.machine_clocks import machine_clocks
from irlcrawl.frontier.dispatch.workers import RemoteWorker
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.frontier.state.lease_log import boot_id
from irlcrawl.terminal import words
from irlcrawl.worker.fetch.process import Started, start_worker

if TYPE_CHECKING:
    from irlcrawl.terminal.progress import Progress

STOP_SECONDS = 8.0
"""A clean stop that takes longer drops the requests in flight: either kind of stop is over, and committed, within 10
s."""

SAME_SIGNAL_SECONDS = 0.2
"""Two equal signals this close are one stop: `timeout` and other programs signal a process and then its group, and
nobody presses Ctrl-C that fast."""

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
        """Count a signal; False if it repeats the last one."""
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
        """Crawl with these workers, and with more if the configuration says so; `seeds` is emptied. OSError (the disk),
        Damaged, ConfigError (no seeds), JobError (the configuration cannot be written), JobFull (no room to begin)."""
        self._started, self._idle = list(workers), list(workers)
        try:
            return uvloop.run(self._run(seeds))
        except OSError as error:
            if not is_disk_full(error):
                raise
            if self.loop is None:
                raise self.job.cannot_be_written(error) from error
            _log.error("the disk is full, what was committed is safe: %s", self.loop.limits.disk_space.words())
            return ExitCode.DISK_FULL
        finally:
            self._end_processes()

    async def _run(self, seeds: list[bytes]) -> ExitCode:
        self._listen_to_signals()
        log_step("loaded")
        text = CONFIG_HEADER + to_toml(self.config)
        state = CrawlState.open(self.job, self.config, self.clock, write_config=lambda: self.job.write_config(text))
        log_step("state open")
        machine = machine_clocks(self.config, self.clock, boot_id(state.files))
        try:
            loop = self.loop = CrawlLoop(state, self.config, self.clock, machine)
            if lacking := loop.limits.disk_space.lacking(starting=True):
                raise JobFull(f"not begun: {lacking}")
            if not seeds and state.is_new:
                raise ConfigError(f"{self.job.path}: its crawl ended before it took any seeds; give them again")
            control = await serve(self.job.socket, self._answers())
            try:
                return await self._crawl(loop, state, seeds)
            except OSError as error:
                if is_disk_full(error):
                    loop.say_full()
                raise
            finally:
                await control.close()
        finally:
            state.close()
            self._stop_listening()

    async def _crawl(self, loop: CrawlLoop, state: CrawlState, seeds: list[bytes]) -> ExitCode:
        old = list(state.streams)
        streams = loop.turns.begin_streams(self.config.crawl.workers or os.cpu_count() or 1)
        await loop.open(self._seed(state, seeds), old)
        await self._add_worker(loop, streams[0])
        others = asyncio.create_task(self._add_others(loop, streams[1:]))
        loop.deaths.replace = self._replace
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
        """Start the other workers once the first one works and there is more than one host: earlier they would only
        slow it down."""
        await loop.fleet.working.wait()
        await loop.fleet.wanted.wait()
        for stream in streams:
            if loop.ending is None:
                await self._add_worker(loop, stream)

    async def _add_worker(self, loop: CrawlLoop, stream: int) -> None:
        """Give a worker its stream: a worker that was forked when the crawl began, if one is left, else a new
        process."""
        if self._idle:
            started = self._idle.pop(0)
        else:
            started = start_worker(self.job.path, self.job.lock_fds)
            self._started.append(started)
        await loop.fleet.connect(RemoteWorker(stream, started.process), started.sock, loop.hello(stream))

    def _seed(self, state: CrawlState, seeds: list[bytes]) -> str | None:
        if not seeds:
            return None
        number = state.streams[SEEDS_STREAM]["next"]
        waiting = list(harvests_from(set(state.files.listdir(state.dir)), SEEDS_STREAM, number))
        again = named_again(state, seeds)
        if again:
            told = words.plural(sum(batch.rows for batch in again), "seed")
            self.progress.note(f"irlcrawl: {told} had failed or was excluded before: asked again")
        name = write_seeds(state, self.config, seeds, number + len(waiting), again)
        seeds.clear()
        return name

    async def _replace(self, dead: RemoteWorker) -> None:
        """Another worker for one that died."""
        assert self.loop is not None
        (stream,) = self.loop.turns.begin_streams(1)
        await self._add_worker(self.loop, stream)
        self.progress.note(f"worker {dead.stream} died; worker {stream} took its place")

    def _end_processes(self) -> None:
        """Wait for workers, which end by themselves when their pipe closes; after an error not for long."""
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
        """Everything is committed: a signal that comes now must not turn the end into a death by a signal."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)

    def _say_how_far(self) -> None:
        """Tell how far the crawl is, on the terminal and in the log."""
        if self.loop is not None:
            text = status.headline(self.loop.status())
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

    def _answers(self) -> dict[str, Handler]:
        return {"status": self._on_status, "stop": self._on_stop, "retry": self._on_retry}

    def _on_retry(self, request: dict[str, Any]) -> str:
        assert self.loop is not None
        return self.loop.put_back(request["file"])

    def _on_status(self, request: dict[str, Any]) -> dict[str, Any]:
        del request
        assert self.loop is not None
        return self.loop.status()

    def _on_stop(self, request: dict[str, Any]) -> str:
        del request
        self._stop()
        return "stopping"
