"""A crawl as a process: opens JOB's state, starts workers, answers signals and the control socket, ends with a code.

The process that runs it is the frontier; workers are its children and die with it. Whatever happens, what was
committed is whole: the next start recovers the rest (recovery.py).

When the crawl is given another configuration (steering.py), it is renewed: the run ends as by `irlcrawl stop`, and the
next one begins here, with new workers, as by `irlcrawl resume`. So each run has one configuration, which never changes
while it lasts, and whatever can differ between two starts can be changed in between.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from drum import Files

import uvloop

from irlcrawl.base.clock import Clock, SystemClock
from irlcrawl.base.exit_codes import ExitCode, is_disk_full
from irlcrawl.base.job import JobDir, JobError, JobFull
from irlcrawl.base.job_files import SEEDS_STREAM, harvests_from
from irlcrawl.config.keys import Config, ConfigError
from irlcrawl.config.lists import Marks, marks
from irlcrawl.config.rewrite import rewritten
from irlcrawl.config.toml import CONFIG_HEADER
from irlcrawl.crawl import status
from irlcrawl.crawl.alarms import Alarms
from irlcrawl.crawl.control import Handler
from irlcrawl.crawl.control_server import ControlServer, serve
from irlcrawl.crawl.heartbeat import Heartbeat
from irlcrawl.crawl.history import History
from irlcrawl.crawl.hooks import Hooks
from irlcrawl.crawl.journal import note, note_start
from irlcrawl.crawl.loop import CrawlLoop
from irlcrawl.crawl.returns import TAKEN
from irlcrawl.crawl.seeding import NewSeeds, named_again, write_seeds
from irlcrawl.crawl.steering import keep, steer
from irlcrawl.crawl.this_run import log_step
from irlcrawl.frontier.dispatch.machine_clocks import machine_clocks
from irlcrawl.frontier.dispatch.workers import RemoteWorker
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.frontier.state.lease_log import boot_id
from irlcrawl.frontier.state.start_checks import stored_config
from irlcrawl.terminal import words
from irlcrawl.worker.archive.payloads import build
from irlcrawl.worker.fetch.process import Started, start_worker

if TYPE_CHECKING:
    from irlcrawl.cluster.nodes import Nodes
    from irlcrawl.terminal.progress import Progress

SAME_SIGNAL_SECONDS = 0.2
"""Two equal signals this close are one stop: `timeout` and other programs signal a process and then its group, and
nobody presses Ctrl-C that fast."""

LISTS_SECONDS = 2.0
"""So often files that the configuration points to are looked at."""

HOOKS_SECONDS = 5.0
"""So long a crawl that is over waits for those who are to be told of it."""

OVER = "the crawl is over"
"""What machines are told when the crawl has ended, however it did: they need not wait for its next start."""

REAP_SECONDS = 5.0
"""A worker whose pipe is closed needs a moment to end."""

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


def _end(started: Sequence[Started], over: bool) -> None:
    """Wait for workers, which end by themselves when their pipe closes; after an error (not over) not for long."""
    for process, sock in started:
        sock.close()  # nothing where the loop owned it
        if process.poll() is None and not over:
            process.kill()
    for process, _ in started:
        try:
            process.wait(REAP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Supervisor:
    """A crawl in this process; `run` is called once."""

    def __init__(self, job: JobDir, config: Config, progress: Progress) -> None:
        self.job, self.config, self.progress = job, config, progress
        self.clock = SystemClock()
        self.loop: CrawlLoop | None = None
        self._stops = Stops(self.clock)
        self._started: list[Started] = []
        self._idle: list[Started] = []  # of them, without a stream yet
        self._over = False  # the crawl ended as it should, and every worker was told
        self._control: ControlServer | None = None
        self._told_to_stop = False
        self._next: Config | None = None  # to be taken over by the next run
        self._hooks = Hooks(job, config.hooks, self.clock)
        self._alarms: Alarms | None = None
        self._new_seeds: NewSeeds | None = None
        self._heartbeat = Heartbeat(self.clock)
        self._nodes: Nodes | None = None
        self._history = History(Files(), job.history)
        self._lists: Marks = {}
        self._lists_due = 0.0

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
        began: float | None = None
        try:
            while True:
                code, began = await self._one_run(seeds, began)
                if self._next is None:
                    if self._alarms is not None:
                        self._alarms.ended(code, self._status())
                        self._history.last(self.clock.now(), self._status)
                    return code
                self._leave_workers()
                self.config, self._next, self._over = self._next, None, False
        finally:
            if self._control is not None:
                await self._control.close()
            self._stop_listening()
            self._history.close()
            await asyncio.to_thread(self._hooks.finish, HOOKS_SECONDS)

    async def _one_run(self, seeds: list[bytes], began: float | None) -> tuple[ExitCode, float]:
        """Until the crawl is over or to be renewed; its code, and when the first run of this process began (`began`;
        None: this is the first). Nothing is awaited between two runs: what is asked meanwhile reaches the next one."""
        renewed = began is not None
        text = rewritten(stored_config(self.job, Files()) or "", self.config, CONFIG_HEADER)
        self._lists, self._lists_due = marks(self.config), self.clock.now() + LISTS_SECONDS
        state = CrawlState.open(self.job, self.config, self.clock, write_config=lambda: self.job.write_config(text))
        log_step("state open")
        try:
            note_start(self.job, state.files, self.clock.now(), state.edited, state.given)
            machine = machine_clocks(self.config, self.clock, boot_id(state.files))
            loop = self.loop = CrawlLoop(state, self.config, self.clock, machine, began)
            if lacking := loop.limits.disk_space.lacking(starting=not renewed):
                raise JobFull(f"not begun: {lacking}")
            if not seeds and state.is_new:
                raise ConfigError(f"{self.job.path}: its crawl ended before it took any seeds; give them again")
            self._hooks.keys = self.config.hooks
            if self._hooks.wants("warc_closed"):
                loop.turns.closed.tell(lambda path: self._hooks.emit("warc_closed", path=path))
            if self._control is None:
                self._control = await serve(self.job.socket, self._answers())
            try:
                return await self._crawl(loop, state, seeds), loop.this_run.started
            except OSError as error:
                if is_disk_full(error):
                    loop.say_full()
                    if self._alarms is not None:
                        self._alarms.ended(ExitCode.DISK_FULL, loop.status())
                raise
        finally:
            state.close()

    async def _crawl(self, loop: CrawlLoop, state: CrawlState, seeds: list[bytes]) -> ExitCode:
        self._new_seeds = new_seeds = NewSeeds(loop.gauges, self.progress.note) if seeds else None
        if self.config.archive.dedupe_from:
            self._read_payloads(state)
        nodes = await self._listen(loop)
        old, seeded = list(state.streams), self._seed(state, seeds)
        if nodes is not None:
            await nodes.settle()
            old = nodes.settled(old)
        elif left := sorted({known["node"] for known in state.streams.values() if known.get("node")}):
            self.progress.note(
                f"irlcrawl: given up, as nothing listens for machines (cluster.listen): {', '.join(left)}; what they "
                "had in hand is leased again"
            )
        streams = loop.turns.begin_streams(self.config.crawl.workers or os.cpu_count() or 1)
        await loop.open(seeded, old)
        await self._add_worker(loop, streams[0])
        others = asyncio.create_task(self._add_others(loop, streams[1:]))
        loop.deaths.replace = self._replace
        loop.on_tick = self._tick
        if nodes is not None:
            nodes.opened()
        self._alarms = Alarms(loop, self.config, self._hooks)
        self._heartbeat.say("READY=1")
        if self._told_to_stop:
            loop.stop(ExitCode.INTERRUPTED)
        try:
            code = await loop.run()
            self._over = True
            if new_seeds is not None:
                new_seeds.look(over=True)
            return ExitCode.NOTHING_HAD if code is ExitCode.DONE and status.no_page_had(loop.status()) else code
        finally:
            others.cancel()
            if nodes is not None:
                await nodes.close(None if self._next is not None else OVER)
                self._nodes = None

    async def _listen(self, loop: CrawlLoop) -> Nodes | None:
        """For machines, if the configuration says so. ConfigError, OSError."""
        keys = self.config.cluster
        if not keys.listen and not keys.ray:
            return None
        from irlcrawl.cluster import access, nodes

        self._nodes = await nodes.listen(loop, access.filled(keys, self.job.path) if keys.ray else keys)
        loop.gauges.machines = self._nodes.record
        return self._nodes

    def _read_payloads(self, state: CrawlState) -> None:
        """Before there are workers, which read it. ConfigError."""
        archive = self.config.archive
        try:
            known = build(state.files, self.job, archive.dedupe_from, archive.dedupe_bytes_min, self.progress.bar)
        except ValueError as error:
            raise ConfigError(str(error)) from error
        self.progress.note(f"irlcrawl: {words.plural(known, 'payload')} known from before")

    def _tick(self) -> None:
        assert self.loop is not None
        self.progress.tick(self._status)
        if self._new_seeds is not None:
            self._new_seeds.look()
        self._heartbeat.beat()
        self._history.tick(self.clock.now(), self._status)
        if self._alarms is not None:
            self._alarms.tick(self.clock.now())
        if (now := self.clock.now()) >= self._lists_due and self.loop.ending is None:
            self._lists_due = now + LISTS_SECONDS
            if changed := [key for key, mark in marks(self.config).items() if mark != self._lists.get(key)]:
                self._lists = marks(self.config)
                self._steer("the file of " + " and ".join(changed), "reload", [], anyway=True)

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
        again = named_again(state, seeds, self.progress.bar)
        if again:
            told = words.plural(sum(batch.rows for batch in again), "seed")
            self.progress.note(f"irlcrawl: {told} had failed or was excluded before: asked again")
        name = write_seeds(state, self.config, seeds, number + len(waiting), again)
        seeds.clear()
        return name

    async def _replace(self, dead: RemoteWorker) -> None:
        """Another worker for one that died."""
        assert self.loop is not None
        if dead.node:
            if self._nodes is not None:
                await self._nodes.replace(dead)
            return
        (stream,) = self.loop.turns.begin_streams(1)
        await self._add_worker(self.loop, stream)
        self.progress.note(f"worker {dead.stream} died; worker {stream} took its place")

    def _leave_workers(self) -> None:
        """Those of a run that was renewed end by themselves, and meanwhile the next run begins."""
        started, self._started, self._idle = self._started, [], []
        asyncio.get_running_loop().run_in_executor(None, _end, started, self._over)

    def _end_processes(self) -> None:
        _end(self._started, self._over)

    # -- signals ---------------------------------------------------------------------------------------------------

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal, number)
        loop.add_signal_handler(signal.SIGUSR1, self._say_how_far)
        loop.add_signal_handler(signal.SIGHUP, self._on_hangup)

    def _stop_listening(self) -> None:
        """Everything is committed: a signal that comes now must not turn the end into a death by a signal."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)

    def _say_how_far(self) -> None:
        """Tell how far the crawl is, on the terminal and in the log."""
        if self.loop is not None:
            text = status.headline(self._status())
            _log.info(text)
            self.progress.note(text)

    def _on_signal(self, number: int) -> None:
        loop = self.loop
        if not self._stops.told(number):
            return
        if loop is None:
            self._told_to_stop = True
        elif self._stops.count == 1:
            self.progress.note("stopping: waiting for what is in flight (a second signal drops it)")
            self._stop()
        else:
            loop.abort(ExitCode.FORCED)

    def _on_hangup(self) -> None:
        """irlcrawl.toml was edited, or a terminal was closed: then nothing differs, and nothing happens."""
        if self.loop is not None:
            self._steer("SIGHUP", "reload", [])

    def _stop(self) -> None:
        assert self.loop is not None
        self._heartbeat.say("STOPPING=1")
        self._next, self._told_to_stop = None, True
        self.loop.stop_soon(ExitCode.INTERRUPTED)

    # -- the control socket ----------------------------------------------------------------------------------------

    def _answers(self) -> dict[str, Handler]:
        return {
            "status": lambda request: self._status(), "stop": self._on_stop, "hand_in": self._on_hand_in,
            "steer": lambda request: self._steer(request["by"], request["verb"], request["arguments"]),
        }  # fmt: skip

    def _status(self) -> dict[str, Any]:
        assert self.loop is not None
        record = self.loop.status()
        return record if self._next is None else {**record, "state": "renewing"}

    def _on_hand_in(self, request: dict[str, Any]) -> str:
        """Seeds, or URLs to be asked again."""
        assert self.loop is not None
        taken = self.loop.hand_in(request["file"])
        if taken == TAKEN:
            self._note(request["by"], request["verb"], request["arguments"], request["result"])
        return taken

    def _on_stop(self, request: dict[str, Any]) -> str:
        self._note(request["by"], "stop", [], "stopping")
        self._stop()
        return "stopping"

    def _steer(self, by: str, verb: str, arguments: list[str], anyway: bool = False) -> dict[str, Any]:
        """Change how the crawl goes on: `changed`, a line for each value that differs, and `hints`; or why not
        (`refused`). anyway: files differ that the configuration points to, even if no value does."""
        assert self.loop is not None
        if self._over:
            return {"busy": True}
        catalog, files = self.loop.state.catalog, self.loop.state.files
        config = self._next or self.config
        try:
            steering = steer(
                self.job, verb, arguments, by, self.clock.now(), running=config, pauses=catalog.get("pauses"),
                files=files,
            )  # fmt: skip
        except (ConfigError, JobError) as error:
            self._note(by, verb, arguments, f"refused: {error}")
            if verb == "reload":  # nobody else is there to hear it
                _log.warning("%s: refused, nothing was changed: %s", by, error)
            return {"refused": str(error)}
        if steering.changed or anyway:
            keep(self.job, catalog, files, steering)
            self._renew(steering.config)
        if steering.changed or verb != "reload" or anyway:
            told = "; ".join(steering.changed) or ("read again" if anyway else "nothing changed")
            self._note(by, verb, arguments, told)
            self.progress.note(f"irlcrawl: {by}: {verb}: {told}")
        return {"changed": steering.changed, "hints": steering.hints}

    def _note(self, by: str, verb: str, arguments: list[str], result: str) -> None:
        _log.info("%s by %s (%s): %s", verb, by, " ".join(arguments), result)
        note(self.job, Files(), self.clock.now(), by, verb, arguments, result)

    def _renew(self, config: Config) -> None:
        """The next run is to go by another configuration; nothing where the crawl ends: then its next start does."""
        loop = self.loop
        assert loop is not None
        if self._next is None and (loop.ending is not None or self._told_to_stop):
            return
        first, self._next = self._next is None, config
        if first:
            loop.stop_soon(ExitCode.INTERRUPTED)
