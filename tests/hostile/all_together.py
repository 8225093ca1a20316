"""All hostile servers of the table beside good hosts, for as long as wanted: `python -m tests.hostile.all_together
--minutes 10`, which ends with 1 where a bound is broken. Prints the good hosts' rate in every ten seconds, and the
worker's memory."""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import sys
import tempfile
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from irlcrawl.config.keys import Config
from tests.hostile.test_hostile_servers import NO_RESPONSE, SLOW, bomb
from tests.hostile.test_what_servers_send import LINK, MEMORY_BYTES_MAX, TABLE
from tests.worker.fetch.driver import Driver, crawl_config
from tests.worker.fetch.loopback import Handler, Loopback, response

GOOD_HOSTS = 30
GAP_SECONDS = 1.0
WINDOW_SECONDS = 10.0
SHARE = 0.9
HEAVY = ("lt", "hidden", "drawings", "srcdocs", "gzip-bomb", "br-bomb", "nested-bomb", "a-million-links",
         "sitemap-of-a-million")  # fmt: skip
"""Rows that are asked for on four hosts at once, one page after the other."""


@dataclass
class Seen:
    """What good hosts were asked, per host in each window, and what the worker took."""

    windows: list[int] = field(default_factory=list)
    hostile: int = 0  # visits to hostile hosts that ended
    memory: int = 0  # bytes at most

    @property
    def expected(self) -> float:
        """Requests in a window of a crawl that has nothing else to do."""
        return GOOD_HOSTS * WINDOW_SECONDS / GAP_SECONDS

    @property
    def worst(self) -> float:
        return min(self.windows) / self.expected


def _serve(pages: dict[str, bytes | Handler], pipe: Connection) -> None:
    """In a process of its own, as servers are. Tells how often /good was asked for in each window."""
    with Loopback(pages) as server:
        pipe.send(server.port)
        while pipe.recv():
            pipe.send([asked.at for asked in server.asked if asked.target == "/good"])
            server.asked.clear()


def _pages() -> dict[str, bytes | Handler]:
    pages: dict[str, bytes | Handler] = {f"/{name}": row.sends for name, row in TABLE.items()}
    pages |= {f"/{name}": page for name, (page, _) in NO_RESPONSE.items()}
    return pages | {"/bomb": bomb(1), "/good": response(LINK + b"x" * 2000)}


def run(job: Path, seconds: float, alone: bool = False) -> Seen:
    """alone: without hostile hosts, as the measure."""
    config = crawl_config()
    config.politeness.gap_host_factor = Config().politeness.gap_host_factor
    config.politeness.retries_max = 0
    config.fetch.read_seconds, config.fetch.total_seconds = 2.0, 4.0
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    serving = context.Process(target=_serve, args=(_pages(), theirs), daemon=True)
    serving.start()
    seen = Seen()
    try:
        port = ours.recv()
        with Driver(job, config) as worker:
            _crawl(worker, port, seconds, seen, alone)
            status = Path(f"/proc/{worker.process.pid}/status").read_text()
            seen.memory = next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM"))
            worker.stop("abort")
        ours.send(True)
        starts = ours.recv()
        ours.send(False)
    finally:
        serving.terminate()
        serving.join()
    begin, end = starts[0] + 2 * GAP_SECONDS, starts[0] + seconds + GAP_SECONDS
    count = int((end - begin) / WINDOW_SECONDS)
    seen.windows = [0] * count
    for at in starts:
        if (window := int((at - begin) // WINDOW_SECONDS)) in range(count):
            seen.windows[window] += 1
    return seen


def _crawl(worker: Driver, port: int, seconds: float, seen: Seen, alone: bool) -> None:
    """Good hosts are visited for as long as it goes; of the hostile ones as many at a time as a crawl would, each gone
    to again when it is done with."""
    long = int(seconds / GAP_SECONDS) + 100
    not_after = worker.clock.now() + seconds + 60
    good = set()
    for number in range(GOOD_HOSTS):  # one after the other, else all of them ask in the same moment of each second
        origin = f"http://good{number}.test:{port}"
        good.add(worker.visit(origin, ["/good"] * long, gap=GAP_SECONDS, not_after=not_after, patience=60.0))
        time.sleep(GAP_SECONDS / GOOD_HOSTS)
    names = itertools.cycle([*TABLE, *NO_RESPONSE, "bomb"])
    numbers = itertools.count()

    def hostile(name: str) -> int:
        return worker.visit(f"http://h{next(numbers)}.test:{port}", [f"/{name}"])

    heavy = itertools.cycle(HEAVY)
    if alone:
        time.sleep(seconds)
        return
    open_ones = {hostile(next(heavy)): "heavy" for _ in range(4)} | {hostile(name): "slow" for name in SLOW}
    open_ones |= {hostile(next(names)): "any" for _ in range(12)}
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        ended = worker.end()["visit"]
        if ended in good:
            continue
        seen.hostile += 1
        kind = open_ones.pop(ended)
        open_ones[hostile(next(heavy) if kind == "heavy" else "silent" if kind == "slow" else next(names))] = kind
        worker.send({"t": "harvest"})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--alone", action="store_true", help="without hostile hosts: what the machine can do now")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as job:
        seen = run(Path(job), options.minutes * 60, options.alone)
    print(f"good hosts: {seen.windows} requests in each {WINDOW_SECONDS:g} s, {seen.expected:g} without hostile ones")
    print(f"worst: {seen.worst:.0%}; hostile visits: {seen.hostile}; memory at most {seen.memory >> 20} MiB")
    return 0 if seen.worst >= SHARE and seen.memory <= MEMORY_BYTES_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
