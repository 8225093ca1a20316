"""Workers that answer a lease at once, for bench/feed.py: their process, `python -m bench._sim.answering ORDER`.

ORDER is a JSON object: of a machine {"directory", "place", "secret", "name", "workers"}, which is the real node
(irlcrawl/cluster/node.py) with such workers behind it; of workers of the frontier's own machine {"directory",
"sockets": [descriptor, ...]}. A worker says at once that a visit ended well, and hands over real harvests of what
simweb's pages link to, in the size and compression of real ones, with lines of a real crawl log.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import sys
import threading
import traceback
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drum import Files, Ragged

import numpy as np
import uvloop

from bench._sim.eyes import REAL, Eyes
from bench._sim.fetch import Harvester, Leased
from irlcrawl.base.clock import Clock, SystemClock
from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import Warc, warc_name
from irlcrawl.base.reasons import Class, Reason
from irlcrawl.base.rows import Robots
from irlcrawl.cluster import node, tcp
from irlcrawl.config.keys import Config
from irlcrawl.config.toml import from_dict
from irlcrawl.worker.archive.crawl_log import LogEntry, format_entry, outcome_notes
from irlcrawl.worker.fetch.lease import Lease
from irlcrawl.worker.fetch.wire import AnchoredClock, Message, Wire, open_wire
from irlcrawl.worker.harvest.builder import CACHE_BITS
from tools.simweb.mix import U8s
from tools.simweb.params import Params
from tools.simweb.web import Web

FETCH_S = 0.01
DAY_S = 86_400.0
BODY_BYTES = 24_000


@dataclass
class Home:
    """Where a worker's harvests go (bench/_sim/fetch.py)."""

    files: Files
    dir: str
    config: Config


class Worker:
    """One stream at its pipe, until the pipe closes or it is told to end."""

    def __init__(self, web: Web, directory: Path) -> None:
        self._web, self._directory = web, directory
        self._wire: Wire | None = None
        self._leased: list[Leased] = []
        self._harvesting = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()
        self._number = 0

    async def serve(self, sock: socket.socket) -> None:
        self._wire = await open_wire(sock, self._heard, lambda error: self._ended.set())
        await self._ended.wait()

    def _heard(self, message: Message) -> None:
        match message["t"]:
            case "hello":
                self._begin(message)
            case "visit":
                self._answer(Lease.of(message))
            case "harvest":
                self._chore(self._hand_over())
            case "ping":
                self._say({"t": "pong"})
            case "stop" | "abort":
                self._chore(self._finish())

    def _say(self, message: Message) -> None:
        assert self._wire is not None
        self._wire.send(message)

    def _chore(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            traceback.print_exception(error)
            os._exit(1)  # the measurement is over: bench/feed.py sees it

    def _begin(self, hello: Message) -> None:
        self._clock: Clock = AnchoredClock(*hello["clock"]) if hello.get("clock") else SystemClock()
        self._stream: int = hello["stream"]
        home = Home(Files(), str(JobDir(self._directory).state), from_dict(hello["config"]))
        self._harvester = Harvester(
            self._web, home, Eyes(self._web, REAL), stream=self._stream, level=None, lines=self._lines,
            cache_bits=CACHE_BITS,
        )  # fmt: skip
        self._chore(self._now_and_then(home.config.frontier.harvest_seconds))
        self._say({"t": "ready", "stream": self._stream, "pid": os.getpid()})

    def _answer(self, lease: Lease) -> None:
        now, urls, count = self._clock.now(), lease.urls, len(lease)
        rows = np.arange(urls["row"], urls["row"] + count, dtype=np.uint32)
        self._leased.append(Leased(
            np.full(count, urls["segment"], np.uint32), rows, np.array(urls["key"], np.uint64),
            np.array(urls["depth"], np.uint16), np.array(urls["attempt"], np.uint8), np.zeros(count, np.int16),
            np.full(count, now + DAY_S),
        ))  # fmt: skip
        unknown = lease.robots["state"] == Robots.UNKNOWN
        robots = {"state": int(Robots.ALLOW), "until": now + DAY_S, "rules": None, "crawl_delay": 0.0}
        if unknown:
            self._say({"t": "robots", "visit": lease.visit, "robots": robots})
        requests = count + unknown
        self._say({
            "t": "end", "visit": lease.visit, "reached": count, "started": now, "ended": now, "fetch_s": FETCH_S,
            "fetching_s": FETCH_S * requests, "body_s": 0.0, "requests": requests, "bytes": BODY_BYTES * count,
            "answered": True, "outcome": "ok", "reason": int(Reason.OK), "retry_after": None,
            "robots": robots if unknown else None, "proxy_down": None,
        })  # fmt: skip

    async def _now_and_then(self, seconds: float) -> None:
        """Unasked, as a worker does."""
        while not self._ended.is_set():
            await asyncio.sleep(seconds)
            if self._leased:
                await self._hand_over()

    async def _hand_over(self) -> None:
        async with self._harvesting:
            parts, self._leased = self._leased, []
            told: dict[str, Any] = {"file": None, "bytes": 0, "pages": 0}
            if parts:
                told = await asyncio.to_thread(self._harvest, Leased.concat(parts))
            self._say({"t": "harvest", "number": self._number, **told, "sync_s": 0.0})
            self._number += told["file"] is not None

    def _harvest(self, leased: Leased) -> dict[str, Any]:
        pages = self._web.keyed(leased.key)
        leased.status[:] = self._web.answers(pages)["status"]
        file, _ = self._harvester.harvest(leased, 0.0)
        size = os.path.getsize(os.path.join(JobDir(self._directory).state, file))
        return {"file": file, "bytes": size, "pages": len(pages)}

    def _lines(self, leased: Leased, pages: U8s) -> Ragged:
        """A Python loop per page: a line is a piece of text of its own, as a worker makes it."""
        logged, lines = int(self._clock.now() * 1000), []
        for url, status in zip(self._web.urls(pages).tolist(), leased.status.tolist(), strict=True):
            notes = outcome_notes(Class.FETCHED if status > 0 else Class.FAILED, int(Reason.OK), hop=0, attempt=0)
            notes["address"] = "10.11.12.13"
            file = warc_name(Warc("irlcrawl+m1", "20260102030405678", 1, self._stream))
            notes["warc"] = f"{file}@{logged % 10**9}+7654"
            entry = LogEntry(
                logged, status, BODY_BYTES, url, "7+L", b"http://www.example.test/some/page", "text/html", self._stream,
                logged - 100, 100, "sha1:" + f"{hash(url):032x}"[-32:].upper(), notes=notes,
            )  # fmt: skip
            lines.append(format_entry(entry))
        return Ragged.from_list(lines)

    async def _finish(self) -> None:
        await self._hand_over()
        self._say({"t": "bye"})
        assert self._wire is not None
        self._wire.close()


class _Task:
    """A worker as its node handles it: it ends when its pipe is closed (worker/fetch/process.py: Process)."""

    pid = 0

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.ended = threading.Event()

    def poll(self) -> int | None:
        return 0 if self.ended.is_set() else None

    def wait(self, timeout: float | None = None) -> int:
        self.ended.wait(timeout)
        return 0

    def kill(self) -> None:
        with suppress(OSError):  # it ended, or is about to
            self._sock.shutdown(socket.SHUT_RDWR)


async def machine(order: dict[str, Any], web: Web) -> None:
    """A node with these workers, until the crawl is over."""
    directory = Path(order["directory"])
    secret, serving = bytes.fromhex(order["secret"]), set[asyncio.Task[None]]()

    def connect(session: str) -> tcp.TcpCarrier:
        return tcp.TcpCarrier().keep(tuple(order["place"]), None, secret, bytes.fromhex(session))

    def start(stream: int) -> tuple[_Task, socket.socket]:
        ours, theirs = socket.socketpair()
        process = _Task(theirs)
        task = asyncio.get_running_loop().create_task(Worker(web, directory).serve(theirs))
        task.add_done_callback(lambda _: process.ended.set())
        serving.add(task)
        return process, ours

    with JobDir(directory) as job:
        await node.serve(job, order["name"], connect, SystemClock(), start, order["workers"], Files())


async def workers(order: dict[str, Any], web: Web) -> None:
    """Workers of the frontier's own machine."""
    pipes = [socket.socket(fileno=number) for number in order["sockets"]]
    await asyncio.gather(*(Worker(web, Path(order["directory"])).serve(pipe) for pipe in pipes))


def main(argv: list[str]) -> int:
    order = json.loads(argv[0])
    logging.basicConfig(level=logging.WARNING)
    uvloop.run((machine if "place" in order else workers)(order, Web(Params())))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
