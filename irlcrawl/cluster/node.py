"""The process of another machine: it starts workers when the frontier says so, carries what they say, ships what they
write, and keeps their archives.

It decides nothing. A session is what it has with one frontier process: the workers in it are that frontier's. The
session ends if the frontier has not been heard for LIFE_S, or is another process: visits are dropped at once, workers
write what they have, and the next session begins with what the frontier is still owed. Harvests are deleted when a
commit of the frontier named them; until then this disk is the log.

Time is the frontier's: its clock when a packet left, added to what passed here since what that packet echoes was sent.
That is ahead of the frontier's clock by no more than a round trip, and never behind it: a visit ends no later than the
frontier said, and a gap begins no earlier.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol

from drum import Files

from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import NODE, parse_harvest, parse_rules_log, rules_log_name
from irlcrawl.cluster.carrier import Carrier
from irlcrawl.cluster.channel import LIFE_S, Channel, Message
from irlcrawl.cluster.shipping import pieces, write_piece
from irlcrawl.config.toml import from_dict
from irlcrawl.frontier.state.harvested import Reach, check_reached
from irlcrawl.web.scope import Scope
from irlcrawl.worker.fetch.process import Process
from irlcrawl.worker.fetch.wire import Wire, open_wire
from irlcrawl.worker.harvest.context import Context
from irlcrawl.worker.harvest.redone import Position, complete, covered, redone
from irlcrawl.worker.harvest.rules_log import PART

TICK_S = 1.0
CLOCK_S = 60.0
"""Workers are told the time so often: two machines' clocks drift apart by some milliseconds meanwhile."""
END_S = 10.0
"""A worker whose session is over may take so long to end."""
END_STEP_S = 0.05
KILLED = -9
OVER = "the crawl is over"
"""Why a node is sent away when all is well."""
LEFT = "it was told to end, and has handed over what it had"
NO_ROOM = "too little room is left on its disk; it has handed over what it had"

_log = logging.getLogger("irlcrawl.node")


class Clock(Protocol):
    def since_boot(self) -> float: ...

    def now(self) -> float: ...


class FrontierTime:
    """The frontier's clock, as its packets tell it."""

    def __init__(self) -> None:
        self._best: list[tuple[float, float]] = []  # (since, offset): of this minute and the last one

    def told(self, theirs: float, ours: float, now: float) -> None:
        """A packet left when their clock showed `theirs`, and echoes one of `ours`."""
        offset = theirs - ours
        if not self._best or now - self._best[-1][0] >= CLOCK_S:
            self._best = [*self._best[-1:], (now, offset)]
        elif offset < self._best[-1][1]:
            self._best[-1] = self._best[-1][0], offset

    def offset(self) -> float:
        return min(offset for _, offset in self._best)


@dataclass(eq=False)
class _Worker:
    stream: int
    process: Process
    wire: Wire | None = None
    said_bye: bool = False
    owed: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)  # harvests to ship, and what comes after them


Start = Callable[[int], tuple[Process, socket.socket]]


class Session:
    """This node's dealings with one frontier process, from the greeting to the end."""

    def __init__(self, job: JobDir, name: str, carrier: Carrier, clock: Clock, start: Start, places: int, files: Files):
        self._job, self._name, self._clock, self._start, self._files = job, name, clock, start, files
        self._carrier = carrier
        self.places = places
        self.channel = Channel(carrier, clock.since_boot, lambda *what: self._inbox.put_nowait(what))
        self.channel.on_room = lambda: self._room.set()
        self.over: str | None = None
        """Why the frontier sent this node away."""
        self._inbox: asyncio.Queue[tuple[Message, memoryview]] = asyncio.Queue()
        self._room = asyncio.Event()
        self._workers: dict[int, _Worker] = {}
        self._positions: dict[int, tuple[int, Position]] = {}  # of streams: the next harvest, where it begins
        self._shipped: dict[int, int] = {}  # bytes of robots logs
        self._context: Context | None = None
        self._time = FrontierTime()
        self._told_at = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._ended = self._leaving = self._let = False
        self._why = LEFT
        self._room_bytes = 0  # so much of the disk must be free
        self._owing: set[int] = set()  # streams of earlier sessions that are not handed over yet

    async def run(self, leave: asyncio.Event) -> None:
        """Until the frontier is gone, or sends this node away, or, once `leave` is set, everything is handed over.
        Whatever was not shipped is on the disk."""
        self.channel.send(
            {"t": "greet", "node": self._name, "id": node_id(self._job, self._files), "places": self.places}
        )
        taking = self._task(self._take_all())
        try:
            while self.over is None and self._failure is None:
                if leave.is_set() and not self._leaving:
                    self._leave(LEFT)
                if not self._leaving and self._files.free(self._job.warcs) < self._room_bytes:
                    self._leave(NO_ROOM)
                if self._let and not self._workers and not self._owing and self.channel.idle:
                    self.over = self._why
                    break
                now = self._clock.since_boot()
                if now - self.channel.echoed_at > LIFE_S or self._carrier.refused is not None:
                    break
                self.channel.beat()
                self._tell_time(now)
                await asyncio.wait([taking], timeout=TICK_S)
            self._ended = True
            await self._end_workers()
        finally:
            self._ended = True
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self.channel.close()
        if self._failure is not None:
            raise self._failure

    def _leave(self, why: str) -> None:
        """Visits are dropped now, and nothing more is begun; what is there is handed over. The frontier answers, after
        everything that it said before it knew."""
        self._leaving, self._why = True, why
        if self._context is None:  # it said nothing yet: what is owed waits for the next life of this node
            self.over = "it was told to end before the crawl answered; what it has waits on its disk"
            return
        self.channel.send({"t": "leave"})
        for worker in self._workers.values():
            if worker.wire is not None:
                worker.wire.send({"t": "abort"})

    def _tell_time(self, now: float) -> None:
        if self.channel.told is not None:
            self._time.told(*self.channel.told, now)
        if now - self._told_at >= CLOCK_S and self._workers:
            self._told_at = now
            for worker in self._workers.values():
                if worker.wire is not None:
                    worker.wire.send({"t": "clock", "clock": self._anchor()})

    def _anchor(self) -> list[float]:
        if self.channel.told is not None:
            self._time.told(*self.channel.told, self._clock.since_boot())
        return [self._time.offset() + self._clock.since_boot(), self._clock.since_boot()]

    async def _end_workers(self) -> None:
        """Visits are dropped now; what was archived is written down, for the next session to ship."""
        workers = list(self._workers.values())
        for worker in workers:
            if worker.wire is not None:
                worker.wire.send({"t": "abort"})
                worker.wire.flush()
        loop, until = asyncio.get_running_loop(), self._clock.since_boot() + END_S
        for worker in workers:
            while worker.wire is not None and self._clock.since_boot() < until:
                await asyncio.sleep(END_STEP_S)
            worker.process.kill()  # nothing where it ended
            await loop.run_in_executor(None, worker.process.wait, END_S)

    # -- what the frontier says ------------------------------------------------------------------------------------

    async def _take_all(self) -> None:
        while True:
            message, data = await self._inbox.get()
            await self._take(message, data)

    async def _take(self, message: Message, data: memoryview) -> None:
        match message["t"]:
            case "welcome":
                hello = message["hello"]
                config = from_dict(hello["config"])
                scope = Scope(config.scope, config.site, [entry.encode("ascii") for entry in hello["scope_entries"]])
                self._context = Context(config, hello["seed"], scope, again=True)
                self._room_bytes = config.frontier.disk_reserve_bytes or config.archive.roll_bytes
                self._owing = {int(stream) for stream in message["left"]}
                self._sweep(self._owing)
                for stream, (number, serial, offset) in message["left"].items():
                    self._positions[int(stream)] = number, (serial, offset)
                    self._task(self._redo(int(stream), KILLED))
            case "worker":
                if self._leaving:
                    self._tell_gone(message["stream"], 0)
                else:
                    await self._begin(message["stream"], message["hello"])
            case "leave":
                self._let = True
                if not self._leaving:
                    self._leave(message["why"])
            case "say":
                self._say(message["stream"], message["m"])
            case "piece":
                write_piece(self._files, str(self._job.state), message["file"], message["at"], data, message["last"])
            case "taken":
                self._delete(message["next"])
            case "kill":
                if (worker := self._workers.get(message["stream"])) is not None:
                    worker.process.kill()
            case "over":
                self.over = message["why"]

    async def _begin(self, stream: int, hello: Message) -> None:
        process, sock = self._start(stream)
        worker = self._workers[stream] = _Worker(stream, process)
        self._positions[stream] = 0, (0, 0)
        worker.wire = await open_wire(
            sock, lambda message: self._from_worker(worker, message), lambda error: self._closed(worker)
        )
        worker.wire.send({**hello, "clock": self._anchor()})
        if self._leaving:  # since this began
            worker.wire.send({"t": "abort"})
        self._task(self._ship_all(worker))

    def _say(self, stream: int, message: Message) -> None:
        worker = self._workers.get(stream)
        if message["t"] == "scope" and self._context is not None:
            self._context.scope.add([entry.encode("ascii") for entry in message["entries"]])
        if worker is not None and worker.wire is not None:
            worker.wire.send(message)

    def _delete(self, taken: dict[str, int | None]) -> None:
        """Harvests that a commit of the frontier named; all of a stream that is closed (None)."""
        for name in self._files.listdir(self._job.state):
            found = parse_harvest(name)
            if found is not None and str(found[0]) in taken:
                until = taken[str(found[0])]
                if until is None or found[1] < until:
                    self._files.unlink(self._job.state / name)

    def _sweep(self, left: set[int]) -> None:
        """Harvests of streams of which the frontier wants nothing more: it has taken them in since, or gave this disk
        up."""
        strange = {found[0] for name in self._files.listdir(self._job.state) if (found := parse_harvest(name))} - left
        if strange:
            _log.warning(
                "the crawl wants no more of %d earlier streams: their harvests go, their archives stay", len(strange)
            )
            self._delete(dict.fromkeys(map(str, strange)))

    # -- what workers say ------------------------------------------------------------------------------------------

    def _from_worker(self, worker: _Worker, message: Message) -> None:
        if message["t"] in ("harvest", "bye"):
            worker.owed.put_nowait(message)
            return
        robots = message.get("robots") or {}
        if rules := robots.get("rules"):
            self._ship_rules(rules[0])
        self._relay(worker.stream, message)

    def _relay(self, stream: int, message: Message) -> None:
        if not self._ended:
            self.channel.send({"t": "say", "stream": stream, "m": message})

    def _closed(self, worker: _Worker) -> None:
        worker.wire = None
        if not self._ended:  # nothing of this session is shipped any more, and nobody waits for its tasks
            self._task(self._gone(worker))

    async def _gone(self, worker: _Worker) -> None:
        """A worker's process ended: all it wrote is shipped, and read again what it could not write."""
        await worker.owed.join()
        status = await asyncio.get_running_loop().run_in_executor(None, worker.process.wait)
        if self._ended:
            return
        if worker.said_bye:
            self._tell_gone(worker.stream, status)
        else:
            await self._redo(worker.stream, status)
        self._workers.pop(worker.stream, None)

    async def _redo(self, stream: int, status: int) -> None:
        assert self._context is not None
        number, begin = self._positions[stream]
        loop, job, files = asyncio.get_running_loop(), self._job, self._files
        names, position = await loop.run_in_executor(None, complete, files, job, stream, number, begin)
        if names:  # the frontier takes them in without a look at the archive
            await loop.run_in_executor(None, check_reached, job, files, {stream: Reach(begin, position)})
        more, units, _ = await loop.run_in_executor(
            None, redone, files, job, stream, number + len(names), position, self._context, self._clock
        )
        _log.info("stream %d: %d harvests, %d units read again", stream, len(names + more), units)
        for name in names + more:
            await self._ship(name)
        self._tell_gone(stream, status)

    def _tell_gone(self, stream: int, status: int) -> None:
        self._owing.discard(stream)
        self.channel.send({"t": "gone", "stream": stream, "status": status})

    # -- shipping --------------------------------------------------------------------------------------------------

    async def _ship_all(self, worker: _Worker) -> None:
        while not worker.said_bye:
            message = await worker.owed.get()
            if message["t"] == "bye":
                worker.said_bye = True
            elif message["file"] is not None:
                await self._ship(message["file"])
            if not (self._leaving and worker.said_bye):  # it may have had visits in hand: `gone` says it
                self._relay(worker.stream, message)
            worker.owed.task_done()

    async def _ship(self, harvest: str) -> None:
        """A harvest, after the texts of robots.txt that it may point to."""
        stream, number = parse_harvest(harvest) or (0, 0)
        for name in self._files.listdir(self._job.state):
            log = parse_rules_log(name)
            if log is not None and log % PART == stream:
                self._ship_rules(log)
        for at, data, last in pieces(os.path.join(self._job.state, harvest)):
            while not self.channel.room:
                self._room.clear()
                await self._room.wait()
            self.channel.send({"t": "piece", "file": harvest, "at": at, "last": last}, data)
        self._positions[stream] = number + 1, covered(self._files, self._job, harvest)

    def _ship_rules(self, log: int) -> None:
        name = rules_log_name(log)
        since = self._shipped.get(log, 0)
        for at, data, last in pieces(os.path.join(self._job.state, name), since):
            self.channel.send({"t": "piece", "file": name, "at": at, "last": last}, data)
            self._shipped[log] = at + len(data)

    # -- tasks -----------------------------------------------------------------------------------------------------

    def _task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None and self._failure is None:
            self._failure = task.exception()


def node_id(job: JobDir, files: Files) -> str:
    """An id that tells this directory from any other that may be given the same name. OSError."""
    path = job.path / NODE
    if not path.exists():
        path.write_text(secrets.token_hex(8) + "\n")
        files.fsync_dir(job.path)
    return path.read_text().strip()


async def serve(
    job: JobDir,
    name: str,
    connect: Callable[[str], Carrier],
    clock: Clock,
    start: Start,
    places: int,
    files: Files,
    leave: asyncio.Event | None = None,
) -> str:
    """Sessions, one after the other, until the frontier sends this node away, or `leave` is set; why it ended.
    connect(number): a carrier for the session of that number. OSError, Damaged."""
    leave = leave or asyncio.Event()
    while not leave.is_set():
        session = Session(job, name, connect(secrets.token_hex(16)), clock, start, places, files)
        await session.run(leave)
        if session.over is not None:
            return session.over
    return "it was told to end; what it did not hand over waits on its disk"
