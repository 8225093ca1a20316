"""A crawl with nodes in one process under virtual time: a frontier, machines with directories of their own, and between
them a network that loses, doubles, reorders and delays what it carries."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from drum import Files

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.cluster import node
from irlcrawl.cluster.nodes import Nodes
from irlcrawl.crawl.loop import CrawlLoop
from irlcrawl.crawl.seeding import write_seeds
from irlcrawl.frontier.dispatch.workers import RemoteWorker
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.worker.fetch import service, wire
from tests.crawl.virtual_crawl import Crawl, _Process


@dataclass
class Weather:
    """Of a network: the share of packets that is lost, and of those that come twice, and the longest delay."""

    lost: float = 0.0
    doubled: float = 0.0
    delay_s: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)


class FakeCarrier:
    """One end of a pair. `cut`: nothing gets through, either way, while the machine is cut off."""

    reliable = False
    refused = None

    def __init__(self, weather: Weather, cut: Callable[[], bool]) -> None:
        self._weather, self._cut = weather, cut
        self.other: FakeCarrier | None = None
        self.closed = False
        self.on_packet: Callable[[bytes], None] = lambda packet: None
        self.on_open: Callable[[], None] = lambda: None

    def send(self, packet: bytes, data: bytes) -> None:
        weather = self._weather
        if self.closed or self._cut() or weather.random.random() < weather.lost:
            return
        for _ in range(1 + (weather.random.random() < weather.doubled)):
            delay = weather.random.random() * weather.delay_s
            asyncio.get_running_loop().call_later(delay, self._arrive, packet + data)

    def _arrive(self, packet: bytes) -> None:
        assert self.other is not None
        if not self.other.closed and not self._cut():
            self.other.on_packet(packet)

    def close(self) -> None:
        self.closed = True


def pair(weather: Weather, cut: Callable[[], bool] = lambda: False) -> tuple[FakeCarrier, FakeCarrier]:
    one, other = FakeCarrier(weather, cut), FakeCarrier(weather, cut)
    one.other, other.other = other, one
    return one, other


class NodeProcess(_Process):
    """A worker of a node."""

    def __init__(self, serving: asyncio.Task[None], sock: socket.socket) -> None:
        super().__init__(serving)
        self._sock = sock

    def kill(self) -> None:
        if not self._serving.done():
            self._serving.cancel()
            self._sock.shutdown(socket.SHUT_RDWR)


def _tell(serving: asyncio.Task[None]) -> None:
    if not serving.cancelled() and (error := serving.exception()) is not None:
        logging.getLogger("irlcrawl.worker").error("cannot go on", exc_info=error)


@dataclass
class Machine:
    """A node with its directory; `start` it, `kill` it, `cut` it off."""

    cluster: Cluster
    name: str
    places: int = 1
    cut: bool = False
    files: Files = field(default_factory=Files)

    def __post_init__(self) -> None:
        self.path = self.cluster.path.with_name(f"{self.cluster.path.name}-{self.name}")
        self.task: asyncio.Task[str] | None = None
        self.workers: list[NodeProcess] = []
        JobDir(self.path).state.mkdir(parents=True, exist_ok=True)
        JobDir(self.path).warcs.mkdir(exist_ok=True)

    def start(self) -> None:
        cluster = self.cluster
        assert self.task is None or self.task.done(), "a directory has one node: its lock sees to that"
        self.leaving = asyncio.Event()
        self.task = asyncio.ensure_future(
            node.serve(
                JobDir(self.path),
                self.name,
                self._connect,
                cluster.clock,
                self._worker,
                self.places,
                self.files,
                self.leaving,
            )
        )

    def kill(self) -> None:
        """The node's process and its workers, at once."""
        assert self.task is not None
        self.task.cancel()
        for worker in self.workers:
            worker.kill()
        self.workers.clear()

    def _connect(self, session: str) -> FakeCarrier:
        ours, theirs = pair(self.cluster.weather, lambda: self.cut)
        if self.cluster.nodes is not None:
            self.cluster.nodes.accept(theirs)
        return ours

    def _worker(self, stream: int) -> tuple[Any, socket.socket]:
        ours, theirs = socket.socketpair()
        serving = asyncio.ensure_future(service.serve(theirs, self.path, self.files))
        serving.add_done_callback(lambda task: self.cluster._ended(stream, task))
        serving.add_done_callback(_tell)
        self.cluster.socks[stream] = theirs.dup()
        process = NodeProcess(serving, theirs)
        self.workers.append(process)
        return process, ours


@dataclass
class Cluster(Crawl):
    """workers: of the frontier's own machine."""

    machines: list[Machine] = field(default_factory=list)
    weather: Weather = field(default_factory=Weather)
    wait_s: float = 600.0
    nodes: Nodes | None = None
    deaths: int = 0  # of the frontier

    def __post_init__(self) -> None:
        super().__post_init__()
        virtual = self.clock

        class Shown(wire.AnchoredClock):
            """The virtual clock, whatever a node tells: its time was checked when it was sent."""

            def now(self) -> float:
                return virtual.now()

            def since_boot(self) -> float:
                return virtual.since_boot()

        self.monkeypatch.setattr(service, "AnchoredClock", Shown)

    async def _run(self, main: Callable[[Crawl], Coroutine[Any, Any, Any]] | None) -> ExitCode:
        """The frontier's life; its next one, where `kill_frontier` ended it."""
        while True:
            self._frontier = asyncio.ensure_future(super()._run(main))
            deaths = self.deaths
            try:
                return await self._frontier
            except asyncio.CancelledError:
                if self.deaths == deaths:
                    raise
                main = None

    def kill_frontier(self) -> None:
        """SIGKILL of the frontier alone: machines go on until they notice."""
        self.deaths += 1
        self._frontier.cancel()

    async def _crawl(self, state: CrawlState, main: Callable[[Crawl], Coroutine[Any, Any, Any]] | None) -> ExitCode:
        try:
            loop = self.loop = CrawlLoop(state, self.config, self.clock, self.machine)
            loop.dispatcher.resolver = self.names  # type: ignore[assignment]
            self.links, self.leased, self.running, self.socks = [], {}, {}, {}
            nodes = self.nodes = Nodes(loop, self.wait_s)
            for machine in self.machines:
                if machine.task is None:
                    machine.start()
            loop.deaths.replace = self._replace
            first = state.streams[0]["next"] == 0
            name = write_seeds(state, self.config, [url.encode() for url in self.seeds], 0, []) if first else None
            old = list(state.streams)
            await nodes.settle()
            await loop.open(name, nodes.settled(old))
            for _ in range(self.workers):
                await self._add_worker()
            nodes.opened()
            beside = asyncio.ensure_future(main(self)) if main else None
            code = await loop.run()
            if beside and not beside.cancel():
                beside.result()
            await nodes.close("the crawl is over")
            return code
        finally:
            if self.nodes is not None:
                await self.nodes.close(None)
            self.nodes = None
            state.close()

    async def _replace(self, dead: RemoteWorker) -> None:
        if dead.node:
            assert self.nodes is not None
            await self.nodes.replace(dead)
        else:
            await self._add_worker()
