"""The frontier's side of other machines: who is there, whose workers those are, and what becomes of a machine that is
gone.

A node greets and is told what it still owes (`left`: streams of earlier sessions, each with the next harvest and where
it begins); then it gets workers, which are RemoteWorkers in the fleet like any other. What a node says is taken in
order by one task: pieces of files go to the disk, messages to the fleet. A stream ends when the node says that its
worker is gone, and by then all that the worker left has been shipped.

A node that is silent for LIFE_S + MARGIN_S is *away*: its workers are parked, which means that they get nothing more
and that their hosts stay leased. It may come back, with what it had. After cluster.node_wait_seconds it is *given up*:
its streams end with what was shipped, and their other URLs are leased again.

A node whose workers cannot go on there (no room on its disk, one death after another) is *dismissed*: it hands over
what it has, and ends. The crawl goes on without it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Protocol

from drum import Edits

from irlcrawl.base.clock import Clock
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job_files import node_prefix, rules_log_name
from irlcrawl.cluster.carrier import Carrier
from irlcrawl.cluster.channel import LIFE_S, MARGIN_S, Channel, Message
from irlcrawl.cluster.shipping import write_piece
from irlcrawl.cluster.tcp import Listener, check
from irlcrawl.config.keys import Cluster, ConfigError
from irlcrawl.frontier.dispatch.workers import Fleet, RemoteWorker
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.worker.harvest.rules_log import PART, RECORD_BYTES

TICK_S = 1.0
TEXTS_KNOWN_MAX = 1 << 17
"""Texts of robots.txt that a node was sent; then they are sent again."""
GIVEN_UP = 1
"""The exit status of a worker whose machine was given up."""
PLACES_MAX = 256
DEATHS_MAX = 8
"""So many workers of a machine that die one after another, without a harvest, die of that machine."""
SILENT_AT_END_S = 5.0
"""A stop waits no longer for a machine that says nothing: what it has in hand waits for the next start."""
AWAITED_S = 5.0
"""A start that waits longer for machines says so."""

NO_ROOM = "there is no room on its disk"

_log = logging.getLogger("irlcrawl.frontier")


class Streams(Protocol):
    """Of a crawl's turns (crawl/turns.py)."""

    on_commit: Callable[[], None]
    away: Callable[[], set[int]]

    def begin_streams(self, count: int, node: str = "") -> list[int]: ...


class Crawl(Protocol):
    """What nodes need of a crawl's loop (crawl/loop.py)."""

    state: CrawlState
    clock: Clock
    fleet: Fleet

    @property
    def turns(self) -> Streams: ...

    @property
    def ending(self) -> object: ...

    def hello(self, stream: int) -> Message: ...

    def fail(self, error: BaseException | None) -> None: ...


class _Process:
    """A worker's process on another machine (worker/fetch/process.py: Process)."""

    pid = 0

    def __init__(self, kill: Callable[[], None]) -> None:
        self._kill = kill
        self.status: int | None = None

    def poll(self) -> int | None:
        return self.status

    def wait(self, timeout: float | None = None) -> int:
        """Asked only when the node said that it ended."""
        return GIVEN_UP if self.status is None else self.status

    def kill(self) -> None:
        self._kill()


class _Pipe:
    """What the frontier says to one worker of a node."""

    def __init__(self, node: Node, stream: int) -> None:
        self._node, self._stream, self._greeted = node, stream, False

    def send(self, message: Message) -> None:
        if not self._greeted:
            self._greeted = True
            self._node.channel.send({"t": "worker", "stream": self._stream, "hello": message})
            return
        if message["t"] == "visit" and (rules := message["robots"]["rules"]):
            self._node.send_text(*rules)
        self._node.channel.send({"t": "say", "stream": self._stream, "m": message})


class Node:
    """A session with a machine."""

    def __init__(self, nodes: Nodes, carrier: Carrier) -> None:
        self._nodes = nodes
        self._inbox: asyncio.Queue[tuple[Message, memoryview]] = asyncio.Queue()
        self.channel = Channel(carrier, nodes.loop.clock.now, lambda *what: self._inbox.put_nowait(what))
        self.name = ""
        self.places = 0
        self.workers: dict[int, RemoteWorker] = {}
        self.owes: set[int] = set()  # streams of earlier sessions that it did not end yet
        self.told: set[int] = set()  # streams of which it was told how far the crawl has taken them in
        self.away = self.over = False
        self.deaths = 0  # of its workers, since it last handed over a harvest
        self.shipped_bytes = 0
        self._texts: set[tuple[int, int]] = set()

    async def take_all(self) -> None:
        """Whatever comes, in order."""
        while True:
            message, data = await self._inbox.get()
            if not self.over:
                await self._take(message, data)

    async def _take(self, message: Message, data: memoryview) -> None:
        match message["t"]:
            case "greet":
                self._nodes.greeted(self, message)
            case "say":
                worker = self.workers.get(message["stream"])
                if worker is not None:
                    self._nodes.loop.fleet.heard(worker, message["m"])
            case "piece":
                state, name = self._nodes.loop.state, message["file"]
                self.shipped_bytes += len(data)
                self.deaths = 0
                await asyncio.get_running_loop().run_in_executor(
                    None, write_piece, state.files, state.dir, name, message["at"], data, message["last"]
                )
            case "leave":
                _log.info("machine %s leaves", self.name)
                self.dismiss(None)
            case "gone":
                self._nodes.gone(self, message["stream"], message["status"])

    def send_text(self, log: int, offset: int, length: int) -> None:
        """The text of robots.txt that a lease names, unless the node wrote it or has it."""
        if log % PART in self.workers or (log, offset) in self._texts:
            return
        path = os.path.join(self._nodes.loop.state.dir, rules_log_name(log))
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return  # the worker asks for it again
        try:
            record = os.pread(handle, RECORD_BYTES + length, offset)
        finally:
            os.close(handle)
        if len(self._texts) >= TEXTS_KNOWN_MAX:
            self._texts.clear()
        self._texts.add((log, offset))
        self.channel.send({"t": "piece", "file": rules_log_name(log), "at": offset, "last": False}, record)

    def dismiss(self, why: str | None) -> None:
        """It gets no more workers, and is told so: those it was given before, it has heard of by then. why: the reason
        to go; None: it has one of its own."""
        self.places = 0
        self.channel.send({"t": "leave", "why": why})

    def begin_workers(self) -> None:
        loop = self._nodes.loop
        for stream in loop.turns.begin_streams(self.places, self.name):
            self.begin_worker(stream)

    def begin_worker(self, stream: int) -> None:
        process = _Process(lambda: self.channel.send({"t": "kill", "stream": stream}))
        worker = self.workers[stream] = RemoteWorker(stream, process, node=self.name)
        hello = self._nodes.loop.hello(stream)
        archive = hello["config"]["archive"]
        archive["prefix"] = node_prefix(archive["prefix"], self.name)
        self._nodes.loop.fleet.adopt(worker, _Pipe(self, stream), hello)


class Nodes:
    """All machines of a crawl. Owned by the event loop; `settle` before the crawl opens, `opened` after it."""

    def __init__(self, loop: Crawl, wait_s: float) -> None:
        self.loop, self._wait_s = loop, max(wait_s, LIFE_S + MARGIN_S)
        self._sessions: list[Node] = []
        self._last: dict[str, Node] = {}  # the newest session of each machine of this run
        self._open = False
        self._owed: dict[int, str] = {
            stream: known["node"] for stream, known in loop.state.streams.items() if known.get("node")
        }  # streams of machines, from earlier runs of the crawl
        self._parked: dict[int, RemoteWorker] = {}  # of machines that are away, or have begun another session
        self._parked_at: dict[int, float] = {}
        self._given_up_at: float | None = None  # of machines that are owed from earlier runs
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.failure: BaseException | None = None
        self._listener: Listener | None = None
        loop.turns.on_commit = self._committed
        loop.turns.away = lambda: set(self._parked) | set(self._owed)
        self._task(self._watch())

    # -- sessions --------------------------------------------------------------------------------------------------

    async def listen(self, keys: Cluster) -> int:
        """The port. ConfigError, OSError."""
        place, secret, tls = check(keys)
        self._listener = Listener(secret, self.accept)
        return await self._listener.listen(place, tls)

    def accept(self, carrier: Carrier) -> None:
        """A machine that knows the secret begins a session."""
        node = Node(self, carrier)
        self._sessions.append(node)
        self._task(node.take_all())

    def greeted(self, node: Node, message: Message) -> None:
        name, places, catalog = str(message["node"]), int(message["places"]), self.loop.state.catalog
        known = catalog.get(f"nodes/{name}")
        if known is not None and known["id"] != message["id"] and self._streams_of(name):
            self._send_away(node, f"another machine has the name {name!r}, and has not handed over everything yet")
            return
        if known is None or known["id"] != message["id"]:
            edits = Edits()
            edits.set(f"nodes/{name}", {"id": message["id"]})
            catalog.commit(edits)
        for other in self._sessions:
            if other is not node and other.name == name and not other.over:  # of an earlier life of the machine
                self._park(other)
                self._end(other)
        node.name, node.places = name, min(max(places, 0), PLACES_MAX)
        self._last[name] = node
        node.owes = self._streams_of(name)
        left = {}
        for stream in node.owes:
            entry = catalog.get(f"streams/{stream}") or {"next": 0, "warc": [0, 0]}
            left[str(stream)] = [entry["next"], *entry["warc"]]
        node.channel.send({"t": "welcome", "left": left, "hello": self.loop.hello(0)})
        _log.info("machine %s is here: %d workers, %d streams left", name, node.places, len(left))
        if self._open and self.loop.ending is None:
            node.begin_workers()
        self._changed.set()

    def gone(self, node: Node, stream: int, status: int) -> None:
        """A worker of a machine ended, and nothing more comes of its stream."""
        node.owes.discard(stream)
        node.told.add(stream)  # until a commit has closed the stream
        self._owed.pop(stream, None)
        self._parked_at.pop(stream, None)
        worker = node.workers.pop(stream, None) or self._parked.pop(stream, None)
        if worker is not None:
            self._closed(worker, status)
        self._changed.set()

    async def replace(self, dead: RemoteWorker) -> None:
        """Another worker for one that died, on its machine if that is here and fit."""
        for node in self._sessions:
            if node.name == dead.node and not node.away and not node.over and len(node.workers) < node.places:
                node.deaths += 1
                if (why := _unfit(node, dead.process.poll())) is not None:
                    _log.error("machine %s is sent home: %s", node.name, why)
                    node.dismiss(why)
                    return
                (stream,) = self.loop.turns.begin_streams(1, node.name)
                node.begin_worker(stream)
                return

    # -- the beginning of a crawl, and its end ---------------------------------------------------------------------

    async def settle(self) -> None:
        """Wait for the machines that had workers when the crawl ended, until they have handed over what they have, or
        are given up. No URL of theirs is leased before."""
        began = self.loop.clock.now()
        until = self._given_up_at = began + self._wait_s
        told = False
        while self._owed and self.loop.clock.now() < until and self.failure is None:
            if self.loop.ending is not None:
                return
            if not told and self.loop.clock.now() - began > AWAITED_S:
                told = True
                _log.warning(
                    "nothing is requested before these machines have handed over what they have, or have been away for "
                    "%.0f s (cluster.node_wait_seconds): %s", self._wait_s, ", ".join(sorted(set(self._owed.values()))),
                )  # fmt: skip
            self._changed.clear()
            try:
                async with asyncio.timeout(TICK_S):
                    await self._changed.wait()
            except TimeoutError:
                pass
        if self._owed:
            names = ", ".join(sorted(set(self._owed.values())))
            _log.warning("given up: %s; what they had in hand is leased again", names)
            self._owed.clear()

    def settled(self, streams: Iterable[int]) -> list[int]:
        """The streams of which nothing is still to come."""
        return [stream for stream in streams if stream not in self._owed]

    def opened(self) -> None:
        """The crawl is open: machines that are here get workers."""
        self._open = True
        for node in self._sessions:
            if node.name and not node.over:
                node.begin_workers()

    async def close(self, why: str | None) -> None:
        """The crawl is over: machines are sent away (`why`), or wait for the next run (None)."""
        for node in self._sessions:
            if why is not None and not node.over and not node.away:
                node.channel.send({"t": "over", "why": why})
        await asyncio.sleep(0)
        if self._listener is not None:
            await self._listener.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for node in self._sessions:
            node.channel.close()

    def record(self) -> list[dict[str, Any]]:
        """For status and metrics, of each machine that is here, or is away and has something that it owes."""
        here = {node.name for node in self._sessions if node.name and not node.over}
        owing = {*self._owed.values(), *(worker.node for worker in self._parked.values())}
        return [self._standing(name, name in here) for name in sorted(here | owing)]

    def _standing(self, name: str, here: bool) -> dict[str, Any]:
        now, node = self.loop.clock.now(), self._last.get(name)
        parked = [worker for worker in self._parked.values() if worker.node == name]
        workers = list(node.workers.values()) if node is not None and here else []
        ends = [self._parked_at[worker.stream] + self._wait_s for worker in parked if worker.stream in self._parked_at]
        if self._given_up_at is not None and name in self._owed.values():
            ends.append(self._given_up_at)
        return {
            "name": name, "state": "here" if here else "away", "workers": len(workers),
            "visits": sum(len(worker.visits) for worker in (*workers, *parked)),
            "owed": len(parked) + sum(machine == name for machine in self._owed.values()),
            "heard_s": None if node is None else round(now - node.channel.heard_at, 1),
            "given_up_in_s": None if here or not ends else round(max(min(ends) - now, 0.0), 1),
            "shipped_bytes": 0 if node is None else node.shipped_bytes,
        }  # fmt: skip

    # -- inside ----------------------------------------------------------------------------------------------------

    def _streams_of(self, name: str) -> set[int]:
        """Those of which something may still be on a machine, without those of its present session."""
        owed = {stream for stream, node in self._owed.items() if node == name}
        parked = {stream for stream, worker in self._parked.items() if worker.node == name}
        earlier = {s for other in self._sessions if other.name == name and not other.over for s in other.workers}
        return owed | parked | earlier

    async def _watch(self) -> None:
        while True:
            now = self.loop.clock.now()
            silent_s = LIFE_S + MARGIN_S if self.loop.ending in (None, ExitCode.DONE) else SILENT_AT_END_S
            for node in self._sessions:
                if node.over:
                    continue
                node.channel.beat()
                if not node.away and now - node.channel.heard_at > silent_s:
                    node.away = True
                    if node.places:  # else it has left, or was sent home
                        _log.warning("machine %s is silent: it gets no more visits", node.name)
                    self._park(node)
                    self._end(node)  # what it says from now on is of a session that is over
            for stream, since in list(self._parked_at.items()):
                if now - since > self._wait_s:
                    del self._parked_at[stream]
                    worker = self._parked.pop(stream)
                    _log.warning("machine %s is given up: what its worker %d had is leased again", worker.node, stream)
                    self._closed(worker, GIVEN_UP)
            self._sessions = [node for node in self._sessions if not node.over]
            await asyncio.sleep(TICK_S)

    def _park(self, node: Node) -> None:
        for stream, worker in node.workers.items():
            self.loop.fleet.park(worker)
            self._parked[stream], self._parked_at[stream] = worker, self.loop.clock.now()
        node.workers.clear()

    def _end(self, node: Node) -> None:
        node.over = True
        node.channel.close()

    def _send_away(self, node: Node, why: str) -> None:
        _log.warning("a machine was sent away: %s", why)
        node.channel.send({"t": "over", "why": why})
        node.over = True

    def _closed(self, worker: RemoteWorker, status: int) -> None:
        assert isinstance(worker.process, _Process)
        worker.process.status = status
        self.loop.fleet.closed(worker)

    def _committed(self) -> None:
        """What a commit named, machines need not keep any longer."""
        streams = self.loop.state.streams
        for node in self._sessions:
            if node.name and not node.over:
                node.channel.send({"t": "taken", "next": self._next_of(node, streams)})

    def _next_of(self, node: Node, streams: dict[int, Any]) -> dict[str, int | None]:
        known: Iterable[int] = node.told | set(node.workers) | node.owes
        found = {str(stream): streams[stream]["next"] if stream in streams else None for stream in known}
        node.told = {int(stream) for stream, number in found.items() if number is not None}
        return found

    def _task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None and self.failure is None:
            self.failure = task.exception()
            self.loop.fail(self.failure)


def _unfit(node: Node, status: int | None) -> str | None:
    """Why a machine gets no other worker in the place of one that ended with `status`."""
    if status == ExitCode.DISK_FULL:
        return NO_ROOM
    if status == ExitCode.DAMAGED:
        return "something in its directory is damaged; it says there what"
    return f"{node.deaths} of its workers died one after another" if node.deaths >= DEATHS_MAX else None


async def listen(loop: Crawl, keys: Cluster) -> Nodes:
    """The machines of a crawl that is about to open. ConfigError."""
    nodes = Nodes(loop, keys.node_wait_seconds)
    try:
        _log.info("machines are awaited at port %d", await nodes.listen(keys))
    except OSError as error:
        raise ConfigError(f"cluster.listen = {keys.listen}: {os.strerror(error.errno or 0)}") from error
    return nodes
