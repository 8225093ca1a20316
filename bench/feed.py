"""`python -m bench feed`: how many pages a second one frontier feeds, and where its processor time goes.

The frontier is the whole one, in this process, with its files on disk: loop, turns, commits, leases, and with
`--carrier tcp` the channels to machines. Workers are played, in processes of their own (bench/_sim/answering.py): they
answer a lease at once, and hand over real harvests of what simweb's pages link to. So nothing here fetches, and what
this process computes is the frontier's alone. Names are answered at once, too. Not in it: TLS, questions to name
servers, texts of robots.txt.

`pages_per_cpu_s`     pages in the ledger by processor seconds of this process, from the opened crawl to its last turn
`us_a_page`           the same, turned over; `loop`, `turn`, `other`: of the event loop, of turns, of other threads
`parts`               microseconds a page by thread and file (bench/_sim/parts.py), the largest
`bytes_a_page_out`    packets from the frontier to machines; `..._in` from them (with tcp)
`links_a_page`        rows of links that turns took in
`links_waiting`       rows that `seen` had not merged in the end: work that is put off
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import socket
import subprocess
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import uvloop

from bench import _jobs
from bench._sim.eyes import REAL, Eyes
from bench._sim.fetch import Harvester
from bench._sim.parts import Parts
from bench.crawl import tree
from irlcrawl.base.clock import SystemClock
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import SEEDS_STREAM
from irlcrawl.base.memory import one_heap, plain_arrays
from irlcrawl.cluster.nodes import Nodes
from irlcrawl.cluster.tcp import Listener, TcpCarrier
from irlcrawl.config.keys import Config
from irlcrawl.config.toml import to_toml
from irlcrawl.crawl.loop import CrawlLoop
from irlcrawl.frontier.dispatch.dns import Resolved
from irlcrawl.frontier.dispatch.workers import RemoteWorker
from irlcrawl.frontier.state.crawl_state import CrawlState
from tools.options import amount, whole
from tools.simweb.params import Params
from tools.simweb.web import Web

POLL_S = 0.01
SECONDS_MAX = 600.0
SHOWN = 24


def main(argv: list[str]) -> int:
    return _jobs.run(measure, _options(argv), "feed")


def _options(argv: list[str]) -> argparse.Namespace:
    parser = _jobs.parser("feed", __doc__)
    parser.add_argument("--carrier", choices=("tcp", "pipes"), default="tcp", help="pipes: workers of this machine")
    parser.add_argument("--machines", type=whole(1), default=2, help="processes of workers (default %(default)s)")
    parser.add_argument("--workers", type=whole(1), default=4, help="of each (default %(default)s)")
    parser.add_argument("--pages", type=whole(1), default=100_000, help="the crawl's limit (default %(default)s)")
    parser.add_argument("--seeds", type=whole(1), default=10_000, help="home pages (default %(default)s)")
    parser.add_argument("--gap", type=amount(), default=0.1, help="seconds between requests to a host (%(default)s)")
    parser.add_argument("--visit-urls", type=whole(1), default=6, help="most URLs in a visit: the defaults' 6")
    parser.add_argument("--harvest-seconds", type=amount(), default=5.0, help="between harvests (default %(default)s)")
    return parser.parse_args(argv)


def measure(directory: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Raises tree.CrawlFailed."""
    one_heap()
    with JobDir(directory / "job") as job, ExitStack() as ends:
        config = _config(options)
        job.write_config(to_toml(config))
        found: dict[str, Any] = uvloop.run(_crawl(job, config, directory, options, ends))
    return {"bench": "feed", "carrier": options.carrier, "visit_urls": options.visit_urls, **found}


def _config(options: argparse.Namespace) -> Config:
    config = Config()
    config.crawl.user_agent = "bench/1 (+http://contact.test/)"
    config.scope.kind = "any"
    config.limits.pages = options.pages
    config.politeness.gap_host_seconds = config.politeness.gap_address_seconds = options.gap
    config.politeness.gap_host_factor = 0.0
    config.politeness.visit_urls_max = options.visit_urls
    config.politeness.machine_clocks = ""
    config.frontier.harvest_seconds = options.harvest_seconds
    return config


class Names:
    """Every host has an address of its own, known at once (frontier/dispatch/dns.py: Resolver)."""

    names = 0

    async def alive(self) -> bool:
        return True

    def admits(self, *_: object) -> bool:
        return True

    async def resolve(self, name: str) -> Resolved:
        return Resolved(str(ip_address(10 << 24 | zlib.crc32(name.encode()) & 0xFFFFFF)), time.time() + 86_400)

    def another(self, name: str) -> None:
        pass

    async def close(self) -> None:
        pass


@dataclass
class Traffic:
    """Bytes of packets from machines, and their sessions."""

    received: int = 0
    nodes: Nodes | None = None

    def accept(self, carrier: TcpCarrier) -> None:
        assert self.nodes is not None
        self.nodes.accept(carrier)
        heard = carrier.on_packet

        def count(packet: bytes) -> None:
            self.received += len(packet)
            heard(packet)

        carrier.on_packet = count

    @property
    def sent(self) -> int:
        return 0 if self.nodes is None else sum(node.channel.bytes_sent for node in self.nodes._sessions)


async def _crawl(
    job: JobDir, config: Config, directory: Path, options: argparse.Namespace, ends: ExitStack
) -> dict[str, Any]:  # fmt: skip
    web, clock = Web(Params()), SystemClock()
    state = CrawlState.open(job, config, clock)
    ends.callback(state.close)
    loop = CrawlLoop(state, config, clock)
    plain_arrays()
    loop.dispatcher.resolver = Names()  # type: ignore[assignment]
    seeds = Harvester(web, state, Eyes(web, REAL), stream=SEEDS_STREAM).seeds(web.seeds(options.seeds))
    traffic = Traffic()
    if options.carrier == "tcp":
        processes = await _machines(loop, traffic, directory, options, ends)
        await loop.open(seeds, list(state.streams))
        assert traffic.nodes is not None
        traffic.nodes.opened()
    else:
        await loop.open(seeds, list(state.streams))
        processes = await _workers(loop, job, options, ends)
    over = asyncio.Event()
    watching = asyncio.ensure_future(_watch(loop, state, traffic, over, lambda: _check(processes)))

    def watched(task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and task.exception() is not None:
            loop.fail(task.exception())

    watching.add_done_callback(watched)
    async with asyncio.timeout(SECONDS_MAX):
        code = await loop.run()
    over.set()
    found = await watching
    if traffic.nodes is not None:
        await traffic.nodes.close("the crawl is over")
    if code != ExitCode.SIZE_LIMIT:
        raise tree.CrawlFailed(f"it ended with {code!r}: the web was too small")
    return found


def _start(order: dict[str, Any], ends: ExitStack, sockets: tuple[int, ...] = ()) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "bench._sim.answering", json.dumps(order)]
    process = subprocess.Popen(words, pass_fds=sockets, stdin=subprocess.DEVNULL, process_group=0)
    ends.callback(tree.end, process)
    return process


async def _machines(
    loop: CrawlLoop, traffic: Traffic, directory: Path, options: argparse.Namespace, ends: ExitStack
) -> list[subprocess.Popen[bytes]]:  # fmt: skip
    """Nodes of processes of their own, over TCP on loopback."""
    secret, processes = secrets.token_bytes(32), list[subprocess.Popen[bytes]]()
    nodes = traffic.nodes = Nodes(loop, 600.0)
    listener = Listener(secret, traffic.accept)
    port = await listener.listen(("127.0.0.1", 0), None)
    for number in range(options.machines):
        path = directory / f"m{number}"
        processes.append(_start({
            "directory": str(path), "place": ["127.0.0.1", port], "secret": secret.hex(), "name": f"m{number}",
            "workers": options.workers,
        }, ends))  # fmt: skip
    while len(nodes.record()) < options.machines:
        _check(processes)
        await asyncio.sleep(POLL_S)
    return processes


async def _workers(
    loop: CrawlLoop, job: JobDir, options: argparse.Namespace, ends: ExitStack
) -> list[subprocess.Popen[bytes]]:
    """As a crawl on one machine has them, but for being several in a process."""
    processes = []
    for _ in range(options.machines):
        pairs = [socket.socketpair() for _ in range(options.workers)]
        sockets = [theirs.fileno() for _, theirs in pairs]
        process = _start({"directory": str(job.path), "sockets": sockets}, ends, tuple(sockets))
        processes.append(process)
        for stream, (ours, theirs) in zip(loop.turns.begin_streams(options.workers), pairs, strict=True):
            theirs.close()
            await loop.fleet.connect(RemoteWorker(stream, process), ours, loop.hello(stream))
    return processes


def _check(processes: list[subprocess.Popen[bytes]]) -> None:
    if any(process.poll() is not None for process in processes):
        raise tree.CrawlFailed("workers ended: see above")


async def _watch(
    loop: CrawlLoop, state: CrawlState, traffic: Traffic, over: asyncio.Event, check: Callable[[], None]
) -> dict[str, Any]:  # fmt: skip
    """What was used from now to the end. check: raises where the workers are gone."""

    def used() -> Counter[str]:
        return Counter(
            cpu=int(time.process_time() * 1e9), wall=time.monotonic_ns(), pages=state.ledger.visits, sent=traffic.sent,
            received=traffic.received, links=state.counters.get("links", 0), visits=loop.dispatcher._visit,
        )  # fmt: skip

    before, parts = used(), Parts()
    parts.start()
    try:
        while not over.is_set():
            if loop.ending is None:
                check()
            await asyncio.sleep(POLL_S)
    finally:
        spent = used()
        await asyncio.to_thread(parts.stop)
    spent.subtract(before)
    count = spent["pages"]
    cpu_s = spent["cpu"] / 1e9 - parts.own
    threads = dict.fromkeys(("loop", "turn", "other"), 0.0)
    for (thread, _), seconds in parts.seconds.items():
        threads[{"MainThread": "loop", "turn": "turn"}.get(thread, "other")] += seconds
    return {
        "pages": count, "pages_per_cpu_s": round(count / cpu_s), "us_a_page": round(cpu_s / count * 1e6, 1),
        **{f"us_a_page_{name}": round(threads[name] / count * 1e6, 1) for name in ("loop", "turn", "other")},
        "pages_per_s": round(count / (spent["wall"] / 1e9)), "urls_a_visit": round(count / spent["visits"], 1),
        "links_a_page": round(spent["links"] / count, 1), "links_waiting": state.seen.pending_rows,
        "bytes_a_page_out": round(spent["sent"] / count), "bytes_a_page_in": round(spent["received"] / count),
        "hosts": len(loop.dispatcher.hosts), "cores": len(os.sched_getaffinity(0)),
        "parts": {
            f"{thread} {file}": round(seconds / count * 1e6, 2)
            for (thread, file), seconds in sorted(parts.seconds.items(), key=lambda part: -part[1])[:SHOWN]
        },
    }  # fmt: skip
