"""`python -m bench soak --hours H`: whether a crawl that runs on and on stays as it was.

One crawl with every gap at zero, for as long as asked, of docsweb with enough mirrors and of the hostile corners of the
sample web (an endless calendar, a slow drip, refusals, broken answers, names that lead nowhere). While it runs every
process is looked at every few seconds; after it, `--json` prints

`memory_slope_mib_per_h`   of anonymous memory after warm-up, per process, frontier first: the median slope between any
                           two minutes, each taken as its median (Theil and Sen). A merge takes up to
                           crawl.ram_bytes for a moment, and how many are seen is a matter of the crawl's speed
`memory_least_squares`     the least-squares slope of all samples, and its standard error as if each stood for itself: a
                           short run cannot tell a small slope from noise
`memory_mib_by_sixth`      the median in each sixth of the run: whether warm-up was over when it was said to be
`held`                     what the frontier held when warm-up was over, and at the end (status, `held`): a slope says
                           nothing while these grow
`open_files`               the most each process had open, before and after the half of the run
`state_bytes_per_url`      of JOB/state by URL discovered; `warc_bytes_per_page`, `log_bytes_per_url` likewise

and how the crawl ended: `code` is 15 (its time was over) or 0 (it saw the whole web), anything else is a failure.
Archives that are closed are counted and deleted (archive.on_warc_closed), as whoever crawls for weeks moves them away.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drum import Catalog, Files

import numpy as np

from bench import _jobs
from bench.crawl import ours, tree
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.crawl.control import ControlError, ask
from tools.docsweb import serve
from tools.options import amount, whole
from tools.sampleweb.behaviour import HOSTS, HTTPS_HOSTS, UNSERVED, SampleWeb
from tools.sampleweb.demo import LONELY_SEEDS, SEED_HOSTS
from tools.sampleweb.server import Origin, Server, running
from tools.sampleweb.tls import authority

SAMPLE_SECONDS = 5.0
END_SECONDS = 120.0
"""A crawl whose time is over has to end within this."""
MIB, HOUR, MINUTE = 1 << 20, 3600.0, 60.0
TREND_MINUTES_MAX = 1_000
SETTINGS: dict[str, object] = {
    "politeness.retry_delay_seconds": 1.0, "politeness.retries_max": 2, "politeness.host_dead_hours": 0.005,
    "politeness.backoff_seconds": 1.0, "fetch.read_seconds": 3.0, "fetch.total_seconds": 4.0,
    "politeness.rest_seconds": 1.0, "politeness.rest_max_seconds": 30.0,
}  # fmt: skip
CALENDAR_PAGES = 20_000
MIRRORS_PER_HOUR = 400
"""Of each docsweb set: six million pages, more than two cores fetch in an hour."""
MIRRORS_MIN = 60
TAKE_AWAY = """sh -c 'stat -c %s "$1" >> "$0" && rm "$1"' """
SIXTHS = 6


@dataclass
class Process:
    """One process of the crawl: when it was looked at (seconds since the start), its bytes and its open files."""

    seconds: list[float] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    files: list[int] = field(default_factory=list)

    def sixths(self, seconds: float) -> list[float]:
        """The median MiB in each sixth of so many seconds in which it lived."""
        sixth = (np.array(self.seconds) * SIXTHS / seconds).astype(np.int64).clip(0, SIXTHS - 1)
        mib = np.array(self.bytes) / MIB
        return [round(float(np.median(mib[sixth == n])), 1) for n in range(SIXTHS) if (sixth == n).any()]

    def trend(self, since: float) -> float:
        """The median slope between any two minutes after `since` seconds, each as its median: MiB per hour; 0 with
        fewer than two. Of a run of days TREND_MINUTES_MAX minutes, evenly: pairs are their square."""
        minute = (np.array(self.seconds) // MINUTE).astype(np.int64)
        minutes = np.unique(minute[minute * MINUTE >= since])
        minutes = minutes[np.linspace(0, len(minutes) - 1, min(len(minutes), TREND_MINUTES_MAX)).astype(np.int64)]
        mib = np.array([np.median(np.array(self.bytes)[minute == one]) / MIB for one in minutes])
        first, second = np.triu_indices(len(minutes), 1)
        if not len(first):
            return 0.0
        return float(np.median((mib[second] - mib[first]) / (minutes[second] - minutes[first]))) * HOUR / MINUTE

    def slope(self, since: float) -> tuple[float, float]:
        """Least squares after `since` seconds: (MiB per hour, its standard error); (0, 0) with too few samples."""
        late = np.array(self.seconds) >= since
        hours, mib = np.array(self.seconds)[late] / HOUR, np.array(self.bytes)[late] / MIB
        if len(hours) < 3:
            return 0.0, 0.0
        spread = hours - hours.mean()
        slope = float((spread * mib).sum() / (spread**2).sum())
        left = mib - mib.mean() - slope * spread
        return slope, float(np.sqrt((left**2).sum() / (len(hours) - 2) / (spread**2).sum()))


def main(argv: list[str]) -> int:
    return _jobs.run(measure, _options(argv), "soak")


def _options(argv: list[str]) -> argparse.Namespace:
    parser = _jobs.parser("soak", __doc__)
    parser.add_argument("--hours", type=amount(), default=1.0, help="how long (default %(default)s)")
    parser.add_argument("--warmup", type=amount(), help="hours that do not count; default: a third")
    parser.add_argument("--mirrors", type=whole(1), help=f"of each docsweb set; default: {MIRRORS_PER_HOUR} an hour")
    parser.add_argument("--sets", default="all", help="docsweb sets or groups (default %(default)s)")
    parser.add_argument("--workers", type=whole(0), default=0, help="fetch workers; 0 is one per core")
    return parser.parse_args(argv)


def measure(directory: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One crawl. Raises DocswebError and tree.CrawlFailed."""
    job, taken = directory / "job", directory / "taken.txt"
    mirrors = options.mirrors or max(MIRRORS_MIN, round(MIRRORS_PER_HOUR * options.hours))
    web = serve.running(directory / "web", options.sets, mirrors=mirrors)
    with web as docs, _both(directory, docs) as more:
        settings = ours.NO_GAPS | SETTINGS | more | {
            "limits.seconds": options.hours * HOUR, "archive.on_warc_closed": TAKE_AWAY + str(taken),
        }  # fmt: skip
        command = ours.command(docs, job, options.workers, settings, [])
        began = time.monotonic()
        processes, held, code = _watch(command, job, options.hours * HOUR + END_SECONDS)
        seconds = time.monotonic() - began
    catalog = Catalog.open(JobDir(job).state, readonly=True)
    ledger, counters = catalog.get("ledger"), catalog.get("counters")
    warmup = seconds / 3 if options.warmup is None else options.warmup * HOUR
    warc_bytes = Files().total(JobDir(job).warcs) + sum(map(int, taken.read_text().split() if taken.exists() else ()))
    processes = [process for process in processes if len(process.seconds) > 1]  # others are commands it ran
    slopes = [process.slope(warmup) for process in processes]
    urls, pages = max(ledger["discovered"], 1), max(counters["pages"], 1)
    return {
        "bench": "soak",
        "hours": round(seconds / HOUR, 3),
        "warmup_hours": round(warmup / HOUR, 3),
        "code": code,
        "pages": counters["pages"],
        "pages_per_s": round(counters["pages"] / seconds, 1),
        "urls": ledger["discovered"],
        "failed": ledger["failed"],
        "excluded": sum(ledger["excluded"].values()),
        "memory_slope_mib_per_h": [round(process.trend(warmup), 2) for process in processes],
        "memory_least_squares": [[round(slope, 2), round(error, 2)] for slope, error in slopes],
        "memory_mib": [[round(min(p.bytes) / MIB), round(max(p.bytes) / MIB)] for p in processes],
        "memory_mib_by_sixth": [p.sixths(seconds) for p in processes],
        "held": [next((one for when, one in held if when >= warmup), {}), held[-1][1] if held else {}],
        "open_files": [_halves(process.files) for process in processes],
        "state_bytes_per_url": round(Files().total(JobDir(job).state) / urls, 1),
        "warc_bytes_per_page": round(warc_bytes / pages, 1),
        "log_bytes_per_url": round(Files().total(JobDir(job).logs) / urls, 1),
        "state_files": len(os.listdir(JobDir(job).state)),
    }


def _halves(values: list[int]) -> list[int]:
    half = max(len(values) // 2, 1)
    return [max(values[:half]), max(values[half:], default=0)]


@contextlib.contextmanager
def _both(directory: Path, docs: serve.Web) -> Iterator[dict[str, object]]:
    """The sample web beside docsweb, by a name server that knows both; yields settings, and completes the seeds."""
    contexts = authority(directory / "ca.pem", HTTPS_HOSTS)
    names = UNSERVED | {host.name: host.address for served in docs.sets for host in served.hosts}
    origins = [Origin(name, address, contexts.get(name)) for name, address in HOSTS.items()]
    server: Server | None = None

    def origin_of(name: str) -> str:
        assert server is not None
        return server.url(name, "")

    with running(origins, SampleWeb(origin_of), directory / "sample.log", names) as web:
        server = web.server
        with (docs.directory / "seeds.txt").open("a") as seeds:
            seeds.writelines(f"{url}\n" for url in [*(web.url(name) for name in SEED_HOSTS), *LONELY_SEEDS])
        yield {
            "network.resolvers": json.dumps([web.resolver]),
            "network.allow": json.dumps([docs.network, "127.50.0.0/24"]),
            'site."calendar.test".pages_max': CALENDAR_PAGES,
        }


Held = list[tuple[float, dict[str, int]]]
"""(seconds since the start, what the frontier held then)."""


def _watch(command: list[str], job: Path, seconds_max: float) -> tuple[list[Process], Held, int]:
    """Run the crawl and look at its processes: (frontier, workers by age), what the frontier held, exit code.
    tree.CrawlFailed."""
    seen: dict[int, Process] = {}
    held: Held = []
    with job.with_suffix(".out").open("w+", errors="replace") as said:
        crawl = subprocess.Popen(
            command, stdout=said, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, process_group=0
        )
        began = time.monotonic()
        code = None
        try:
            while code is None:
                try:
                    code = crawl.wait(SAMPLE_SECONDS)
                except subprocess.TimeoutExpired:
                    _look(crawl.pid, time.monotonic() - began, seen)
                    with contextlib.suppress(ControlError):  # it begins, ends, or is in the middle of something long
                        if (status := ask(JobDir(job).socket, "status")) is not None:
                            held.append((time.monotonic() - began, status["held"]))
                if time.monotonic() - began > seconds_max:
                    raise tree.CrawlFailed(f"the crawl did not end {END_SECONDS} s after its time")
        finally:
            tree.end(crawl)
        if code not in (ExitCode.DONE, ExitCode.TIME_LIMIT):
            said.seek(0)
            raise tree.CrawlFailed(f"exit code {code}:\n{said.read()[-tree.OUTPUT_SHOWN :]}")
    return list(seen.values()), held, code


def _look(root: int, now: float, seen: dict[int, Process]) -> None:
    for pid in tree.descendants(root):
        size = tree.anonymous(pid)
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            files = len(os.listdir(f"/proc/{pid}/fd"))
            if size is not None:
                process = seen.setdefault(pid, Process())
                process.seconds.append(now)
                process.bytes.append(size)
                process.files.append(files)
