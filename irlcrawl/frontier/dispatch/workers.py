"""The fetch workers as the frontier sees them: processes, their pipes, what each carries, and who gets the next visit.

A worker is a stream: its harvests are numbered from 0 and its archive files carry its number. A worker that dies is
never restarted; another one with a new stream takes its place, after what it left behind was recovered.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.worker.fetch.process import Process
from irlcrawl.worker.fetch.reading import Reading
from irlcrawl.worker.fetch.wire import Message, open_wire

LOAD_SLACK = 1.05
"""A host stays with its worker until the worker's load exceeds the least load by this factor: less than the 15% within
which workers are to be balanced."""
HALF_LIFE_S = 10.0
BYTES_AS_REQUEST = 32_000
"""So many bytes take a worker as long (to parse, to archive) as a request without any."""
WATCHED_S = 1.0
"""More than this between two passes of the loop is a pause of this process."""
START_S = 60.0
"""A worker may take this long to load on a busy machine."""
SILENT_AT_END_S = 4.0
"""A stop has to be over within 10 s."""

_log = logging.getLogger("irlcrawl.frontier")


class Pipe(Protocol):
    """What a worker is told things through: a Wire, or one that leads to another machine."""

    def send(self, message: Message) -> None: ...


@dataclass(eq=False)
class RemoteWorker:
    """One worker: its process and pipe, the visits it holds and how much of its work was not handed over yet."""

    stream: int
    process: Process
    wire: Pipe | None = None
    visits: dict[int, Any] = field(default_factory=dict)
    urls_out: int = 0
    work: float = 0.0  # done of late, in requests; halved every HALF_LIFE_S
    unharvested: int = 0  # exchanges reported since its last harvest
    asked: bool = False  # a harvest was asked for and has not come
    said_bye: bool = False
    lost: bool = False
    endings: dict[int, Any] = field(default_factory=dict)  # by host, of a dead one: what its archive says (visits.py)
    heard: bool = False  # it is ready
    silent_s: float = 0.0  # since it last said anything or was asked to, as far as this process was awake
    pinged: bool = False  # it was asked to, and has not
    killed: bool = False  # for that
    node: str = ""  # the machine it is on; none: this one (irlcrawl/cluster)
    told: list[Any] = field(default_factory=list)  # of such a machine: visits that ended since its last harvest came
    told_before: list[Any] = field(default_factory=list)  # ... between the two harvests before
    reading: Reading | None = None  # what it reads; None: it is on such a machine

    def send(self, message: Message) -> None:
        if self.wire is not None and not self.lost:
            self.wire.send(message)

    def harvested(self, all_of_it: bool) -> None:
        """A harvest came. It was begun after the one before it came: what was told until then is in it."""
        self.told_before, self.told = [] if all_of_it else self.told, []


class Fleet:
    """All workers. `on_message(worker, message)` and `on_lost(worker)` are called from the event loop."""

    def __init__(
        self,
        visits_max: int,
        silent_max_s: float,
        on_message: Callable[[RemoteWorker, Message], None],
        on_lost: Callable[[RemoteWorker], None],
    ) -> None:
        self._visits_max = visits_max
        self._silent_max_s = silent_max_s
        self._watched_at = float("inf")
        self._on_message = on_message
        self._on_lost = on_lost
        self.workers: list[RemoteWorker] = []
        self._last_word: Message | None = None
        self._scope = bytearray()  # entries, a line each: what workers are told, whatever a turn adds meanwhile
        self.scope_version = 0
        self.working = asyncio.Event()
        """Set when the first worker is ready."""
        self.wanted = asyncio.Event()
        """Set when there are visits for more than one worker."""

    async def connect(self, worker: RemoteWorker, sock: socket.socket, hello: Message) -> None:
        """Take in a worker that was started (worker/fetch/process.py)."""
        with contextlib.suppress(OSError):  # then it is not known what a worker that dies was reading
            worker.reading = Reading.shared()
            hello = {**hello, "reading": worker.reading.path}
        wire = await open_wire(
            sock, lambda message: self.heard(worker, message), lambda error: self.closed(worker, error)
        )
        self.adopt(worker, wire, hello)

    def adopt(self, worker: RemoteWorker, wire: Pipe, hello: Message) -> None:
        """Take in a worker at the other end of `wire`, whose owner calls `heard` and `closed`."""
        worker.wire = wire
        worker.send(hello)
        self.workers.append(worker)
        if self._last_word is not None:
            worker.send(self._last_word)

    def park(self, worker: RemoteWorker) -> None:
        """Its machine is silent: it gets nothing more, and what it has in hand stays its own until `closed`."""
        worker.lost = True
        if worker in self.workers:
            self.workers.remove(worker)

    def heard(self, worker: RemoteWorker, message: Message) -> None:
        """A worker says something."""
        if not worker.heard and worker.reading is not None:
            worker.reading.close()
        worker.heard, worker.silent_s, worker.pinged = True, 0.0, False
        self._on_message(worker, message)

    def watch(self, now: float) -> None:
        """Once in each pass of the loop: ask workers that say nothing for a word, and kill those that give none. Time
        in which this process itself stood still is not held against them."""
        passed = min(max(now - self._watched_at, 0.0), WATCHED_S)
        self._watched_at = now
        faded = 0.5 ** (passed / HALF_LIFE_S)
        patience = self._silent_max_s if self._last_word is None else min(self._silent_max_s, SILENT_AT_END_S)
        for worker in self.workers:
            worker.silent_s += passed
            worker.work *= faded
            if worker.killed:  # once is enough; a machine that is away hears it when it is back
                continue
            if worker.silent_s <= (patience if worker.heard else max(patience, START_S)) / 2:
                continue
            if worker.pinged:
                _log.warning(
                    "worker %d%s says nothing: killing it", worker.stream, worker.node and f" of {worker.node}"
                )
                worker.killed = True
                worker.process.kill()
                continue
            worker.pinged, worker.silent_s = True, 0.0
            worker.send({"t": "ping"})

    def closed(self, worker: RemoteWorker, error: Exception | None = None) -> None:
        """A worker's wire is closed: nothing more comes from it."""
        del error  # the process's end says more; why it ended stands on its stderr
        if worker.reading is not None:
            worker.reading.close()
        worker.lost = True
        if worker in self.workers:
            self.workers.remove(worker)
        self._on_lost(worker)

    async def reap(self, worker: RemoteWorker, seconds: float = 5.0) -> int:
        """Wait for a worker's process whose pipe is closed; one that lingers is killed. Returns its exit status."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(None, lambda: worker.process.wait(seconds))
        except subprocess.TimeoutExpired:
            worker.process.kill()
            return await loop.run_in_executor(None, worker.process.wait)

    def worked(self, worker: RemoteWorker, requests: int, received: int) -> None:
        """Notes the rough cost, to its worker, of a visit that ended."""
        worker.work += requests + received / BYTES_AS_REQUEST

    @property
    def capacity(self) -> int:
        """Visits that could be leased now."""
        return sum(max(0, self._visits_max - len(worker.visits)) for worker in self.workers)

    @property
    def places(self) -> int:
        """Visits that workers may carry at once."""
        return self._visits_max * len(self.workers)

    def choose(self, sticky: int) -> RemoteWorker | None:
        """The worker for a visit: the one with stream `sticky` unless it is loaded more than the least, or None. What
        was done of late is load, too: a host that is half the web has one visit at a time, and would keep one worker
        busy while the others, who have done with the rest, stand by."""
        free = [worker for worker in self.workers if len(worker.visits) < self._visits_max]
        if not free:
            return None
        least = min(free, key=_load)
        for worker in free:
            if worker.stream == sticky and _load(worker) <= _load(least) * LOAD_SLACK + 16:
                return worker
        return least

    def scope_grew(self, entries: list[bytes]) -> None:
        """New entries of the scope, committed: workers learn of them, those that are still to come with their hello."""
        if not entries:
            return
        self._scope += b"".join(entry + b"\n" for entry in entries)
        self.scope_version += len(entries)
        told = [entry.decode("ascii") for entry in entries]
        self.broadcast({"t": "scope", "version": self.scope_version, "entries": told})

    def scope_entries(self) -> list[str]:
        """Every entry, in the order they came."""
        return self._scope.decode("ascii").split("\n")[:-1]

    def broadcast(self, message: Message) -> None:
        for worker in self.workers:
            worker.send(message)

    def end(self, message: Message) -> None:
        """Tell every worker to end, and those that are still to come."""
        self._last_word = message
        self.broadcast(message)

    @property
    def idle(self) -> bool:
        """Nothing is out and nothing was left unharvested."""
        return all(not worker.visits and not worker.unharvested and not worker.asked for worker in self.workers)


def _load(worker: RemoteWorker) -> float:
    """In requests; a URL that is out counts as one of BYTES_AS_REQUEST."""
    return worker.work + 2 * worker.urls_out


def how_ended(status: int, killed: bool = False) -> str:
    """Of a worker that nobody asked to, in words; what it said itself stands above them. killed: for its silence."""
    if killed and status == -signal.SIGKILL:
        return "was killed for its silence"
    if status == -signal.SIGKILL:
        return "was killed: by somebody, or by the kernel for want of memory"
    if status < 0:
        return f"was ended by signal {-status}"
    return "found no room on the disk" if status == ExitCode.DISK_FULL else f"ended with status {status}"
