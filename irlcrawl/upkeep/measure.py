"""What a page costs on this machine: a crawl of a little web for some seconds, and a look at the disk. `irlcrawl plan
--measure` keeps it in the user's cache, where later plans find it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from irlcrawl.base.job import JobDir, JobError
from irlcrawl.crawl.status import read_status
from irlcrawl.upkeep.doctor import _speed
from irlcrawl.upkeep.little_web import address

HOSTS = 32
SECONDS = 12.0
CRAWL_KEYS = {
    "crawl.user_agent": "irlcrawl-measure/1 (+http://localhost.example/)", "crawl.workers": 1, "scope.kind": "any",
    "network.allow": ["127.0.0.0/8"], "politeness.gap_host_seconds": 0.0, "politeness.gap_host_factor": 0.0,
    "politeness.gap_address_seconds": 0.0, "politeness.machine_clocks": "", "frontier.disk_reserve_bytes": 1 << 20,
}  # fmt: skip
"""Of a crawl of the little web that goes as fast as this machine lets it."""


class Machine(NamedTuple):
    """CPU seconds a page: of workers, of the frontier in all, of its loop alone. Bytes a second of the disk. Resident
    bytes of a process."""

    measured: float  # unix seconds; 0: by the developers
    worker_s: float
    frontier_s: float
    loop_s: float
    disk_bytes_per_s: float
    process_bytes: float


DEVELOPERS = Machine(0.0, 650e-6, 60e-6, 25e-6, 200e6, 70e6)
"""docs/performance.md, on two shared cores."""


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


def measure(directory: Path) -> Machine:
    """Measure, with JOB and probe in `directory`, and keep it. Takes SECONDS and a little. JobError, OSError."""
    disk, _ = _speed(directory)
    with tempfile.TemporaryDirectory(dir=directory, prefix=".irlcrawl-measure-") as room:
        record = crawled(Path(room) / "job", {"limits.seconds": SECONDS})
    machine = machine_of(record, disk)
    path = cache_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(machine._asdict()) + "\n")
    return machine


def machine_of(record: dict[str, Any], disk: float) -> Machine:
    """From the last status record of a crawl as fast as one worker lets it be. JobError if it says too little."""
    pace = record["pace"] or {}
    if not pace.get("requests_per_s"):
        raise JobError("the crawl of the little web made no requests: nothing could be measured")
    rate = pace["requests_per_s"]
    frontier = (pace["loop_cpu"] + pace["passes"] * pace["passes_cpu"]) / rate
    worker = pace["workers_cpu"] / rate
    resident = record["memory_bytes"] / 2
    return Machine(time.time(), worker, frontier, pace["loop_cpu"] / rate, disk, resident)


@contextmanager
def little_web(hosts: int = HOSTS) -> Iterator[list[str]]:
    """The first URLs of its hosts, while it runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "irlcrawl.upkeep.little_web", str(hosts)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        port = int(process.stdout.readline())
        yield [f"http://{address(number)}:{port}/" for number in range(hosts)]
    finally:
        process.stdin.close()
        process.wait(10)


def crawled(job: Path, keys: dict[str, Any], hosts: int = HOSTS) -> dict[str, Any]:
    """The last status record of a crawl of the little web with these keys beside CRAWL_KEYS. JobError."""
    with little_web(hosts) as seeds:
        run(job, seeds, {**CRAWL_KEYS, **keys})
    return read_status(JobDir(job))


def run(job: Path, seeds: Sequence[str], keys: dict[str, Any]) -> None:
    settings = [part for name, value in keys.items() for part in ("-s", f"{name}={json.dumps(value)}")]
    command = [sys.executable, "-m", "irlcrawl", "crawl", str(job), *seeds, "--quiet", *settings]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 14, 15):
        raise JobError(f"the crawl of the little web ended with {done.returncode}: {done.stderr[-500:]}")
