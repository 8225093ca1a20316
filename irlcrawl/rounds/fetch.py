"""`irlcrawl fetch`: a list's URLs through workers, without a frontier: no turns, no drums, no crawl.

Of a frontier there is only what dispatches (frontier/dispatch, frontier/politeness): names, clocks, visits, and the
judgement on silent networks. The list stands for the ready segment that it is. The files of workers stay in DIR as they
wrote them: archives in DIR/warcs, harvests and texts of robots.txt in DIR/state, for `update`.

Nothing else is written but the clocks of leases. So beginning is recovery: what earlier fetches into DIR archived is
read again where no harvest has it, and every row that a harvest names is done. URLs of hosts that are not to be asked
before long (no address, a silent host, a back-off beyond the horizon) are left, and go back to the crawl with `update`.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

from drum import Files, SegmentPool
from drum.segment import Segment

import numpy as np
from numpy.typing import NDArray

from irlcrawl.base.clock import Clock
from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import LIST, parse_harvest, temporary
from irlcrawl.base.keys import name_key
from irlcrawl.base.url import host_of
from irlcrawl.config.headers import secrets_of
from irlcrawl.config.keys import ConfigError
from irlcrawl.config.overrides import Overrides
from irlcrawl.config.proxies import Proxies, read_logins
from irlcrawl.config.signing_key import read_key
from irlcrawl.config.toml import from_dict
from irlcrawl.frontier.dispatch.dispatch import Dispatcher
from irlcrawl.frontier.dispatch.dns import Resolver
from irlcrawl.frontier.dispatch.outage import Outage
from irlcrawl.frontier.dispatch.workers import Fleet, RemoteWorker, how_ended
from irlcrawl.frontier.politeness.clocks import Clocks, Kind, Promise
from irlcrawl.frontier.politeness.machine import Machine
from irlcrawl.frontier.politeness.politeness import Politeness
from irlcrawl.frontier.state.hosts import records_of
from irlcrawl.frontier.state.lease_log import LeaseLog
from irlcrawl.frontier.state.runs import RunReader, SegmentPlace, ready_hosts
from irlcrawl.rounds.fetch_list import READY, RUNS, Head, head_of
from irlcrawl.terminal.progress import Bar, urls
from irlcrawl.web.scope import Scope
from irlcrawl.worker.archive.warc import warc_files
from irlcrawl.worker.fetch.process import Process
from irlcrawl.worker.fetch.wire import Message, clock_anchor
from irlcrawl.worker.harvest.context import Context
from irlcrawl.worker.harvest.redone import complete, redone

TICK_S = 0.5
OPEN_FILES_MAX = 16
STOP_SECONDS = 8.0
"""A stop that takes longer drops the requests in flight."""

Start = Callable[[int], tuple[Process, socket.socket]]
"""A worker of a stream."""


class WorkerDied(RuntimeError):
    """A worker ended unasked: what it archived is kept, and the same command goes on."""


@dataclass(frozen=True, slots=True)
class Told:
    """How far a list is."""

    done: int
    urls: int
    over: bool  # the others, if any, go back to the crawl: their hosts are not to be asked before long


def adopt(files: Files, job: JobDir, path: str) -> Head:
    """Put a list into DIR, which takes no other. ConfigError, OSError, Damaged."""
    there = os.path.join(job.state, LIST)
    head = head_of(files, path)
    if files.exists(there):
        known = head_of(files, there)
        if known.id != head.id:
            raise ConfigError(
                f"{job.path}: has another list already (of segment {known.segment}); name a new directory"
            )
        return known
    handle = files.create(temporary(there))
    try:
        files.write(handle, files.read(path))
        files.fsync(handle)
    finally:
        files.close(handle)
    files.rename(temporary(there), there)
    files.fsync_dir(job.state)
    return head


def recover(files: Files, job: JobDir, head: Head, clock: Clock) -> int:
    """Write the harvests that dead workers owe; returns the next stream that is free. OSError, Damaged."""
    config = from_dict(head.config)
    scope = Scope(config.scope, config.site, [entry.encode("ascii") for entry in head.scope_entries])
    context = Context(config, head.seed, scope, again=True)
    streams = {found[0] for name in files.listdir(job.state) if (found := parse_harvest(name))}
    streams |= {file.stream for file in warc_files(files, str(job.warcs))}
    for stream in sorted(streams):
        names, position = complete(files, job, stream, 0, (0, 0))
        redone(files, job, stream, len(names), position, context, clock)
    return max(streams, default=head.first - 1) + 1


def harvests(files: Files, job: JobDir) -> list[str]:
    """Harvests in DIR, by stream and number."""
    names = [name for name in files.listdir(job.state) if parse_harvest(name)]
    return sorted(names, key=lambda name: parse_harvest(name) or (0, 0))


def done_rows(files: Files, job: JobDir, head: Head, rows: int) -> NDArray[np.bool_]:
    """Which rows of the list have an outcome in some harvest."""
    done = np.zeros(rows, np.bool_)
    for name in harvests(files, job):
        for batch in Segment.open(files, job.state / name).sections["outcomes"].scan(["segment", "row"]):
            done[batch["row"][batch["segment"] == head.segment]] = True
    return done


class Fetch:
    """Of one list: make it, `run` it. On one event loop; DIR is locked."""

    def __init__(
        self,
        job: JobDir,
        head: Head,
        clock: Clock,
        files: Files,
        machine: Machine | None = None,
        bar: Bar | None = None,
    ) -> None:
        self._job, self._head, self._clock, self._files = job, head, clock, files
        self.config = config = from_dict(head.config)
        self._wakeup, self._bar = asyncio.Event(), bar or Bar()
        self._stopping = self._stopped = False
        self._failure: BaseException | None = None
        self._pool = SegmentPool(files, str(job.state), OPEN_FILES_MAX)
        self._section = self._pool.section(LIST, READY)
        self.fleet = Fleet(
            config.fetch.visits_per_worker, config.fetch.worker_silent_seconds, self._on_message, self._lost
        )
        self.fleet.scope_grew([entry.encode("ascii") for entry in head.scope_entries])
        clocks = Clocks(config.frontier.hosts_active_max)
        self._outage = Outage(
            clock, lambda: self.dispatcher.resolver.alive(), lambda: clocks.table.count(Kind.ADDRESS), self._wakeup.set
        )
        overrides = Overrides(config.site)
        politeness = Politeness(clock, config.politeness, clocks, machine, overrides.bytes_per_second_by_site())
        self.dispatcher = Dispatcher(
            config, clock, politeness, Resolver(config.network, clock, proxied=Proxies(config).resolves),
            RunReader(self._pool), self.fleet, LeaseLog(files, job.leases), overrides, self._outage, self._wakeup.set,
        )  # fmt: skip
        first = (0, *accumulate(self._section.blocks["rows"].tolist()))
        self.dispatcher.runs.committed({head.segment: SegmentPlace(LIST, READY, first)})

    async def run(self, start: Start, workers: int) -> Told:
        """Until all that may be asked is done, the list's date has passed, or `stop`. ConfigError (its streams are
        used up), OSError, Damaged, WorkerDied."""
        head, now = self._head, self._clock.now()
        stream = recover(self._files, self._job, head, self._clock)
        if stream + workers > head.first + head.streams:
            raise ConfigError(f"{self._job.path}: was begun too often ({head.streams} workers): `update` what is there")
        if self._bring(now):
            for number in range(stream, stream + workers):
                process, sock = start(number)
                await self.fleet.connect(RemoteWorker(number, process), sock, self._hello(number))
            try:
                await self._work()
            finally:
                await self._close()
        self._pool.close()
        done = int(done_rows(self._files, self._job, head, self._section.rows).sum())
        return Told(done, self._section.rows, over=not self._stopped)

    def stop(self) -> None:
        """Lease nothing more; what is in flight is finished, or dropped after STOP_SECONDS."""
        if not self._stopping:
            self._stopping = self._stopped = True
            self.fleet.end({"t": "stop"})
            asyncio.get_running_loop().call_later(STOP_SECONDS, self.fleet.end, {"t": "abort"})
        self._wakeup.set()

    def _bring(self, now: float) -> bool:
        """Hosts with URLs that are not done come into memory, no clock of theirs due before the crawl, or an earlier
        fetch, promised; whether there are any."""
        politeness, leases = self.dispatcher.politeness, self.dispatcher.leases
        done = done_rows(self._files, self._job, self._head, self._section.rows)
        self._bar.stage("fetching", self._section.rows - int(done.sum()), urls)
        waits = list[Promise]()
        found = LeaseLog.read(self._files, self._job.leases)
        parts = list(self._pool.section(LIST, RUNS).scan())
        for index in parts:
            names = [host_of(origin + b"/").encode("ascii") for origin in index["origin"].tolist()]
            told = zip(names, index["wait"].tolist(), strict=True)
            waits += [Promise(Kind.HOST, name_key(name), wait) for name, wait in told]
        # The crawl's clocks of addresses and sites stayed there: each waits for its gap first, as after a reboot.
        politeness.clocks.open(now, [*found.promises, *waits], rebooted=True)
        leases.roll(politeness.clocks.unsaved(now))
        for index in parts:
            records = dict(zip(index["key"].tolist(), records_of(index), strict=True))
            ready = list(ready_hosts(self._head.segment, index, done))
            self.dispatcher.bring(ready, [records[one.key] for one in ready])
        return bool(self.dispatcher.hosts)

    def _hello(self, stream: int) -> Message:
        config, head = self.config, self._head
        return {
            "t": "hello", "config": head.config, "secrets": secrets_of(config.site),
            "logins": read_logins(file) if (file := config.network.proxy_logins_file) else {},
            "signing_key": read_key(file).hex() if (file := config.fetch.signing_key_file) else "",
            "seed": head.seed, "scope_version": self.fleet.scope_version, "scope_entries": head.scope_entries,
            "stream": stream, "crawl": head.crawl, "clock": clock_anchor(self._clock),
        }  # fmt: skip

    # -- the loop ------------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        """As the crawl's loop (crawl/loop.py), but for turns."""
        dispatcher = self.dispatcher
        while self.fleet.workers:
            now = self._clock.now()
            if now >= self._head.until and not self._stopping:
                self.stop()  # from then on the crawl may ask these hosts
            if news := dispatcher.politeness.clocks.news(now):
                dispatcher.leases.append(news)
            if not self._stopping:
                dispatcher.resolve_ahead()
                if not self._outage.paused or self._outage.take_probe():
                    dispatcher.dispatch(1 if self._outage.paused else self._section.rows)
            dispatcher.politeness.share()
            self.fleet.watch(now)
            self._outage.watch(now)
            dispatcher.handover.take_states()
            dispatcher.handover.take_withdrawn()  # they are not done, and so go back with `update`
            if not dispatcher.hosts and not dispatcher.visits_out and not self._stopping:
                self._stopping = True
                self.fleet.end({"t": "stop"})
            await self._sleep(now)
            if failure := self._failure or dispatcher.failure or self._outage.failure:
                raise failure

    async def _sleep(self, now: float) -> None:
        due = None if self._stopping or self._outage.paused else self.dispatcher.politeness.next_due()
        until = now + TICK_S
        if due is not None and self.fleet.capacity:
            until = min(until, max(due, self.dispatcher.bandwidth.due))
        try:
            async with asyncio.timeout(max(until - self._clock.now(), 0.0005)):
                await self._wakeup.wait()
        except TimeoutError:
            pass
        self._wakeup.clear()

    async def _close(self) -> None:
        self.dispatcher.close()
        self._outage.close()
        await self.dispatcher.resolver.close()

    def _on_message(self, worker: RemoteWorker, message: Message) -> None:
        """From a pipe's callback, which would swallow an exception: the loop raises it."""
        try:
            self._take(worker, message)
        except Exception as error:
            self._failure = error
        self._wakeup.set()

    def _take(self, worker: RemoteWorker, message: Message) -> None:
        match message["t"]:
            case "end":
                self._bar.read(message["reached"])
                self.dispatcher.ended(worker, message)
            case "robots":
                self.dispatcher.learnt_robots(worker, message)
            case "doubt":
                self.dispatcher.doubted(worker, message)
            case "detour":
                self.dispatcher.detours.wanted(worker, worker.visits.get(message["visit"]), message)
            case "detour_end":
                self.dispatcher.detours.ended(worker, message)
            case "bye":
                worker.said_bye = True

    def _lost(self, worker: RemoteWorker) -> None:
        """Its pipe is closed. A worker that died ends the fetch: the next one recovers what it left."""
        if not worker.said_bye and self._failure is None:
            self._failure = WorkerDied(f"worker {worker.stream} {how_ended(worker.process.wait())}")
        self._wakeup.set()
