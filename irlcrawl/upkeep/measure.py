"""What a page costs on this machine: crawls of a little web for some seconds, and a look at the disk. `irlcrawl plan
--measure` keeps it in the user's cache, where later plans find it.

Three crawls, whose pages differ in bytes and in links, say what a page costs by itself, by its bytes and by its links.
What they cost is all CPU time of their processes, less what a short crawl takes beyond its pages, to start and to end.
The status record's own rate is no help: it counts requests when their visit is over, in some seconds half of them.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from irlcrawl.base.job import JobDir, JobError
from irlcrawl.crawl.status import read_status
from irlcrawl.terminal import words
from irlcrawl.terminal.progress import Bar
from irlcrawl.upkeep.doctor import _speed
from irlcrawl.upkeep.little_web import address

HOSTS = 32
SECONDS = 4.0
FIRST_PAGES = 200
PROCESSES = 2  # the frontier, and a worker

Crawled = tuple[dict[str, Any], float]
"""The last status record of a crawl, and the CPU seconds of all its processes."""


class Shape(NamedTuple):
    """Of the pages of a little web: bytes of text, and links."""

    size: int
    links: int


TYPICAL, SMALL, LINKED = Shape(30_000, 16), Shape(3_000, 16), Shape(30_000, 128)
CRAWL_KEYS = {
    "crawl.user_agent": "irlcrawl-measure/1 (+http://localhost.example/)", "crawl.workers": 1, "scope.kind": "any",
    "network.allow": ["127.0.0.0/8"], "politeness.gap_host_seconds": 0.0, "politeness.gap_host_factor": 0.0,
    "politeness.gap_address_seconds": 0.0, "politeness.machine_clocks": "", "frontier.disk_reserve_bytes": 1 << 20,
}  # fmt: skip
"""Of a crawl of the little web that goes as fast as this machine lets it."""


class Machine(NamedTuple):
    """CPU seconds: of a worker for a page, for each byte that is read for links and for each link in scope; of the
    frontier in all for a page and for each link; of its loop alone for a page. Bytes a second of the disk. Resident
    bytes of a process."""

    measured: float  # unix seconds; 0: by the developers
    worker_s: float
    worker_byte_s: float
    worker_link_s: float
    frontier_s: float
    frontier_link_s: float
    loop_s: float
    disk_bytes_per_s: float
    process_bytes: float

    def worker(self, read: float, links: float) -> float:
        """CPU seconds of a worker for a page of so many bytes, without content coding, and links."""
        return self.worker_s + read * self.worker_byte_s + links * self.worker_link_s

    def frontier(self, links: float) -> float:
        """CPU seconds of the frontier for a page of so many links."""
        return self.frontier_s + links * self.frontier_link_s


DEVELOPERS = Machine(0.0, 155e-6, 7.7e-9, 12.7e-6, 13e-6, 1.1e-6, 13e-6, 200e6, 70e6)
"""The last of docs/performance.md, "Plans against crawls", on two shared cores."""


class Cost(NamedTuple):
    """Of a page in one crawl: CPU seconds of workers, of the frontier and of its loop alone; bytes read for links,
    and links in scope."""

    worker: float
    frontier: float
    loop: float
    read: float
    links: float


def cache_file() -> Path:
    """Where the last measurement is kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "irlcrawl" / "machine.json"


def kept() -> Machine | None:
    """The last measurement of this machine; None if there is none that this version can read."""
    try:
        return Machine(**json.loads(cache_file().read_text()))
    except (OSError, ValueError, TypeError):
        return None


def measure(directory: Path, bar: Bar) -> Machine:
    """Measure, with JOB and probe in `directory`, and keep it. Takes three times SECONDS and a little. JobError,
    OSError."""
    shapes = (SMALL, TYPICAL, LINKED)
    bar.stage("measuring", len(shapes) + 1, lambda count: words.plural(count, "crawl"))
    disk, _ = _speed(directory)
    with tempfile.TemporaryDirectory(dir=directory, prefix=".irlcrawl-measure-") as room:
        first = crawled(Path(room) / "first", {"limits.pages": FIRST_PAGES})
        bar.read(1)
        made = {}
        for number, shape in enumerate(shapes):
            made[shape] = crawled(Path(room) / f"job-{number}", {"limits.seconds": SECONDS}, shape)
            bar.read(1)
    start_s = start_of(first, made[TYPICAL])
    costs = [cost_of(record, cpu_s - start_s) for record, cpu_s in made.values()]
    grown = max(record["memory_bytes"] / PROCESSES for record, _ in made.values())
    resident = max(grown, DEVELOPERS.process_bytes)  # processes of so short a crawl have not grown yet
    machine = machine_of(costs, disk, resident)
    path = cache_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(machine._asdict()) + "\n")
    return machine


def start_of(first: Crawled, longer: Crawled) -> float:
    """CPU seconds of a crawl that are no page's: starting, ending, and what the first pages load. From two crawls of
    the same pages. JobError if they were not long enough."""
    pages = longer[0]["fetched"] - first[0]["fetched"]
    if pages < first[0]["fetched"]:
        raise JobError("the crawl of the little web was over too soon: nothing could be measured")
    return max(first[1] - first[0]["fetched"] * (longer[1] - first[1]) / pages, 0.0)


def cost_of(record: dict[str, Any], cpu_s: float) -> Cost:
    """From the last status record of a crawl by one worker, and the CPU seconds that its pages took. The record's
    `pace` knows how processes share that time. JobError if it says too little."""
    pace, fetched = record["pace"] or {}, record["fetched"]
    passes = pace.get("passes", 0.0) * pace.get("passes_cpu", 0.0)
    shares = pace.get("workers_cpu", 0.0), pace.get("loop_cpu", 0.0) + passes, pace.get("loop_cpu", 0.0)
    if not shares[0] or not fetched:
        raise JobError("the crawl of the little web was over too soon: nothing could be measured")
    worker, frontier, loop = (max(cpu_s, 0.0) / fetched * share / (shares[0] + shares[1]) for share in shares)
    links = (record["discovered_urls"] + record["duplicate_urls"]) / fetched
    return Cost(worker, frontier, loop, record["read_bytes"] / fetched, links)


def machine_of(costs: Sequence[Cost], disk: float, resident: float) -> Machine:
    """From the costs of small pages, of typical ones, and of pages with many links."""
    small, typical, linked = costs
    differ = [(typical.read - small.read, typical.links - small.links),
              (linked.read - typical.read, linked.links - typical.links)]  # fmt: skip
    dearer = typical.worker - small.worker, linked.worker - typical.worker
    byte, link = np.maximum(np.linalg.solve(differ, dearer), 0.0).tolist()
    worker = max(typical.worker - byte * typical.read - link * typical.links, 0.0)
    frontier_link = max(linked.frontier - typical.frontier, 0.0) / max(linked.links - typical.links, 1.0)
    frontier = max(typical.frontier - frontier_link * typical.links, 0.0)
    return Machine(
        time.time(), worker, byte, link, frontier, frontier_link, min(small.loop, typical.loop), disk, resident
    )


@contextmanager
def little_web(shape: Shape = TYPICAL) -> Iterator[list[str]]:
    """The first URLs of its hosts, while it runs."""
    command = [sys.executable, "-m", "irlcrawl.upkeep.little_web", *map(str, (HOSTS, *shape))]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    try:
        port = int(process.stdout.readline())
        yield [f"http://{address(number)}:{port}/" for number in range(HOSTS)]
    finally:
        process.stdin.close()
        process.wait(10)


def crawled(job: Path, keys: dict[str, Any], shape: Shape = TYPICAL) -> Crawled:
    """A crawl of the little web with these keys beside CRAWL_KEYS. JobError."""
    with little_web(shape) as seeds:
        before = _cpu_of_children()
        run(job, seeds, {**CRAWL_KEYS, **keys})
        return read_status(JobDir(job)), _cpu_of_children() - before


def _cpu_of_children() -> float:
    """Of those that ended and were waited for, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(job: Path, seeds: Sequence[str], keys: dict[str, Any]) -> None:
    settings = [part for name, value in keys.items() for part in ("-s", f"{name}={json.dumps(value)}")]
    command = [sys.executable, "-m", "irlcrawl", "crawl", str(job), *seeds, "--quiet", *settings]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 14, 15):
        raise JobError(f"the crawl of the little web ended with {done.returncode}: {done.stderr[-500:]}")
