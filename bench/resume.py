"""`python -m bench resume`: how long a crawl of a hundred million URLs takes to open.

Makes the state of such a crawl by the code that would have made it (the drum `seen`, the budgets' queues, the ledger,
commits), with `--seen` keys and `--queued` URLs, 100 a host, all of which lead to a server here. Then the real command
line resumes it `--runs` times; each time everything is killed `--crawl` seconds after the first request, so that every
start but the first also replays the archive's tail. `--json` prints

`first_request_s`   seconds from the start of the command to its first request: the first start, with nothing to replay,
                    and the median of the others; gaps are zero, so politeness permits it at once
`cpu_s`             CPU seconds of all processes until then, likewise; with nobody else on the machine it takes less
                    than that, for a worker starts beside the frontier
`steps_s`           of the start with the median: seconds from the start of the command to each step that the program's
                    own log names, and what the frontier had computed until then
`replayed_units`    units of the archive read again by each start
`open_ms`, `files`  of the state alone: opening it in this process, and how many files it names
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench import _jobs
from bench.crawl import ours, tree
from drum import Batch, CheckUpdate, Edits, Ragged
from irlcrawl.base.clock import SystemClock
from irlcrawl.base.job import JobDir
from irlcrawl.base.keys import name_key, priority_of
from irlcrawl.base.rows import LINK, Source
from irlcrawl.base.url import split
from irlcrawl.config.keys import Config
from irlcrawl.config.toml import apply, to_toml
from irlcrawl.frontier.state.crawl_state import CrawlState
from tools.options import amount, whole
from tools.sampleweb.server import Ask, Origin, Reply, RunningWeb, running

HOST_URLS = 100
ADDRESSES = [f"127.61.0.{n + 1}" for n in range(16)]
SEEN_CHUNK, QUEUE_CHUNK = 4_000_000, 500_000
WAIT_SECONDS = 120.0
POLL_SECONDS = 0.005
_STEP = re.compile(r"^(\S+ \S+) INFO irlcrawl.start: (\S+) CPU s: (.*)$", re.MULTILINE)
_REPLAYED = re.compile(r"stream \d+: (\d+) units read again")


def main(argv: list[str]) -> int:
    return _jobs.run(measure, _options(argv), "resume")


def _options(argv: list[str]) -> argparse.Namespace:
    parser = _jobs.parser("resume", __doc__)
    parser.add_argument("--seen", type=whole(1), default=100_000_000, help="keys (default %(default)g)")
    parser.add_argument("--queued", type=whole(HOST_URLS), default=10_000_000, help="of them (default %(default)g)")
    parser.add_argument("--runs", type=whole(1), default=5, help="starts (default %(default)s)")
    parser.add_argument("--crawl", type=amount(), default=3.0, help="seconds from first request to kill (%(default)s)")
    options = parser.parse_args(argv)
    if options.queued > options.seen:
        parser.error(f"--queued: {options.queued} URLs are among --seen {options.seen}")
    return options


def measure(directory: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Make the state, open it again and again. Raises tree.CrawlFailed."""
    hosts = options.queued // HOST_URLS
    names = {_name(n): ADDRESSES[n % len(ADDRESSES)] for n in range(hosts)}
    origins = [Origin(f"here{n}.test", address) for n, address in enumerate(ADDRESSES)]
    with running(origins, _nothing, directory / "access.log", names) as web:
        job, began = JobDir(directory / "job"), time.monotonic()
        if job.exists():
            raise tree.CrawlFailed(f"{job.path}: a crawl is there already; name another directory")
        config = _config(web)
        keys = _keys(options.seen - hosts * HOST_URLS)
        make_state(job, config, keys, options.seen, hosts, split(web.url("here0.test").encode())[2])
        made_s = time.monotonic() - began
        open_ms, files, state_bytes = _open(job, config)
        starts = [_start(job, directory, options.crawl) for _ in range(options.runs)]
    later = sorted(starts[1:] or starts, key=lambda start: start.first_s)
    median = later[len(later) // 2]
    return {
        "bench": "resume",
        "seen": options.seen,
        "queued": hosts * HOST_URLS,
        "made_s": round(made_s, 1),
        "state_bytes": state_bytes,
        "files": files,
        "open_ms": round(open_ms, 1),
        "first_request_s": [round(starts[0].first_s, 2), round(median.first_s, 2)],
        "cpu_s": [round(starts[0].cpu_s, 2), round(median.cpu_s, 2)],
        "steps_s": median.steps,
        "replayed_units": [start.replayed for start in starts],
    }


async def _nothing(ask: Ask) -> Reply:
    return Reply(200, b"<p>nothing here\n")


def _name(number: int) -> str:
    return f"s{number:07d}.test"


def _config(web: RunningWeb) -> Config:
    config = Config()
    apply(config, {
        "crawl": {"user_agent": ours.AGENT, "workers": 2},
        "scope": {"kind": "any"},
        "politeness": {key.split(".")[1]: value for key, value in ours.NO_GAPS.items()},
        "network": {"resolvers": [web.resolver], "allow": ["127.61.0.0/24"]},
    })  # fmt: skip
    return config


def _keys(count: int) -> Iterator[NDArray[np.uint64]]:
    draw = np.random.default_rng(1)
    for start in range(0, count, SEEN_CHUNK):
        yield draw.integers(1, 1 << 64, min(SEEN_CHUNK, count - start), dtype=np.uint64, endpoint=False)


def make_state(
    job: JobDir, config: Config, done: Iterator[NDArray[np.uint64]], seen: int, hosts: int = 0, port: int = 80
) -> None:
    """A crawl that has seen so many keys: those of `done`, a turn each batch, and of 100 URLs of each of `hosts` hosts,
    which are still queued."""
    draw = np.random.default_rng(2)
    with job:
        job.write_config(to_toml(config))
        state = CrawlState.open(job, config, SystemClock())
        try:
            state.ledger.discovered = state.ledger.fetched = seen - hosts * HOST_URLS
            for keys in done:
                _turn(state, keys, None)
            for start in range(0, hosts, QUEUE_CHUNK // HOST_URLS):
                links = _links(range(start, min(start + QUEUE_CHUNK // HOST_URLS, hosts)), port, draw)
                state.ledger.discovered += links.rows
                _turn(state, links["key"], links)
        finally:
            state.close()


def _links(hosts: range, port: int, draw: np.random.Generator) -> Batch:
    rows = len(hosts) * HOST_URLS
    columns = {name: np.zeros(rows, kind) for name, kind in LINK.items() if kind != "bytes"}
    columns["key"] = draw.integers(1, 1 << 64, rows, dtype=np.uint64, endpoint=False)
    origins = [f"http://{_name(number)}:{port}" for number in hosts]
    sites = np.array([name_key(_name(number).encode()) for number in hosts], np.uint64)
    columns["site"] = np.repeat(sites, HOST_URLS)
    columns["host"] = np.repeat(np.array([name_key(origin.encode()) for origin in origins], np.uint64), HOST_URLS)
    columns["source"][:], columns["depth"][:] = Source.LINK, 1
    columns["priority"][:] = priority_of(1, Source.LINK)
    urls = [f"{origin}/{page}".encode() for origin in origins for page in range(HOST_URLS)]
    return Batch({**columns, "url": Ragged.from_list(urls)})


def _turn(state: CrawlState, keys: Any, links: Batch | None) -> None:
    """What a turn does with keys, and with URLs, and its commit."""
    writer, edits = state.new_segment(), Edits()
    state.seen.pend_batch(Batch({"key": keys}))
    state.seen.merge(CheckUpdate(), writer=writer, edits=edits, emit=lambda bucket, batch: None)
    if links is not None:
        state.sites.pend_urls(links)
        state.sites.merge(writer, edits, lambda rows: None)
    writer.finish()
    state.ledger.check(state.live())
    state.save(edits)
    state.catalog.commit(edits)
    state.delete_unnamed([writer.name])


def _open(job: JobDir, config: Config) -> tuple[float, int, int]:
    with job:
        began = time.perf_counter()
        state = CrawlState.open(job, config, SystemClock())
        took_ms = (time.perf_counter() - began) * 1e3
        files = state.catalog.live_files()
        size = sum(os.path.getsize(job.state / name) for name in files)
        state.close()
    return took_ms, len(files), size


@dataclass
class Start:
    """One start: seconds to the first request, CPU seconds until then, units replayed, and when each step was done:
    (seconds since the start of the command, the frontier's CPU seconds)."""

    first_s: float
    cpu_s: float
    replayed: int
    steps: dict[str, tuple[float, float]]


def _start(job: JobDir, directory: Path, crawl_s: float) -> Start:
    """One start, killed `crawl_s` after its first request."""
    log, said = directory / "access.log", directory / "job.out"
    before, told = log.stat().st_size, len(_log_text(job))
    began, began_unix = time.monotonic(), time.time()
    with said.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "irlcrawl", "resume", str(job.path)], stdout=output, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, process_group=0,
        )  # fmt: skip
    try:
        while log.stat().st_size == before:
            if process.poll() is not None or time.monotonic() - began > WAIT_SECONDS:
                raise tree.CrawlFailed(f"no request; it said:\n{said.read_text()[-tree.OUTPUT_SHOWN :]}")
            time.sleep(POLL_SECONDS)
        first = time.monotonic() - began
        cpu = sum(tree.cpu_seconds(pid) or 0.0 for pid in tree.descendants(process.pid))
        time.sleep(crawl_s)
    finally:
        tree.end(process)
    job.wait_unlocked(10.0)
    text = _log_text(job)[told:]
    steps = dict[str, tuple[float, float]]()
    for moment, cpu_text, step in _STEP.findall(text):
        seconds = datetime.strptime(moment, "%Y-%m-%d %H:%M:%S,%f").timestamp() - began_unix
        steps.setdefault(step, (round(seconds, 2), float(cpu_text)))
    return Start(first, cpu, sum(map(int, _REPLAYED.findall(text))), steps)


def _log_text(job: JobDir) -> str:
    path = job.logs / "irlcrawl.log"
    return path.read_text() if path.exists() else ""
