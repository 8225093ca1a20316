"""`python -m bench soak --hours H`: whether a crawl that runs on and on stays as it was.

One crawl with every gap at zero, for as long as asked, of docsweb with enough mirrors and of the hostile corners of the
sample web (an endless calendar, a slow drip, refusals, broken answers, names that lead nowhere). While it runs every
process is looked at every few seconds; after it, `--json` prints

`memory_slope_mib_per_h`   least-squares slope of resident memory after warm-up, per process, frontier first, and its
                           standard error: a short run cannot tell a small slope from noise
`open_files`               the most each process had open, before and after the half of the run
`state_bytes_per_url`      of JOB/state by URL discovered; `warc_bytes_per_page`, `log_bytes_per_url` likewise

and how the crawl ended: `code` is 15 (its time was over) or 0 (it saw the whole web), anything else is a failure.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench.crawl import ours, tree
from drum import Catalog, Files
from irlcrawl.job import ExitCode, JobDir
from tools.docsweb import serve
from tools.docsweb.sets import DocswebError
from tools.sampleweb.behaviour import HOSTS, HTTPS_HOSTS, UNSERVED, SampleWeb
from tools.sampleweb.demo import LONELY_SEEDS, SEED_HOSTS
from tools.sampleweb.server import Origin, Server, running
from tools.sampleweb.tls import authority

SAMPLE_SECONDS = 5.0
END_SECONDS = 120.0
"""A crawl whose time is over has to end within this."""
MIB, HOUR = 1 << 20, 3600.0
SETTINGS: dict[str, object] = {
    "politeness.retry_delay_seconds": 1.0, "politeness.retries_max": 2, "politeness.host_dead_hours": 0,
    "politeness.backoff_seconds": 1.0, "fetch.read_seconds": 3.0, "fetch.total_seconds": 4.0,
    "robots.deny_seconds": 30,
}  # fmt: skip
CALENDAR_PAGES = 20_000


@dataclass
class Process:
    """One process of the crawl: when it was looked at (seconds since the start), its bytes and its open files."""

    seconds: list[float] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    files: list[int] = field(default_factory=list)

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
    """Exit codes: 0 measured, 1 the web or the crawl failed (stderr says how)."""
    options = _options(argv)
    directory = Path(options.dir or tempfile.mkdtemp(prefix="irlcrawl-soak-"))
    try:
        result = measure(directory, options)
    except (DocswebError, tree.CrawlFailed) as error:
        print(f"bench soak: {error}", file=sys.stderr)
        return 1
    finally:
        if options.dir is None:
            shutil.rmtree(directory)
    print(json.dumps(result) if options.json else "\n".join(f"{name}: {value}" for name, value in result.items()))
    return 0


def _options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench soak", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hours", type=float, default=1.0, help="how long (default %(default)s)")
    parser.add_argument("--warmup", type=float, help="hours that do not count; default: a third")
    parser.add_argument("--mirrors", type=int, default=60, help="of each docsweb set (default %(default)s)")
    parser.add_argument("--sets", default="all", help="docsweb sets or groups (default %(default)s)")
    parser.add_argument("--workers", type=int, default=0, help="fetch workers; 0 is one per core")
    parser.add_argument("--dir", help="keep the web and the job in this directory; default: a temporary one, removed")
    parser.add_argument("--json", action="store_true", help="one JSON line")
    return parser.parse_args(argv)


def measure(directory: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One crawl. Raises DocswebError and tree.CrawlFailed."""
    directory.mkdir(parents=True, exist_ok=True)
    job = directory / "job"
    web = serve.running(directory / "web", options.sets, mirrors=options.mirrors)
    with web as docs, _both(directory, docs) as more:
        settings = ours.NO_GAPS | SETTINGS | more | {"limits.seconds": options.hours * HOUR}
        command = ours.command(docs, job, options.workers, settings, [])
        began = time.monotonic()
        processes, code = _watch(command, job.with_suffix(".out"), options.hours * HOUR + END_SECONDS)
        seconds = time.monotonic() - began
    catalog = Catalog.open(JobDir(job).state, readonly=True)
    ledger, counters = catalog.get("ledger"), catalog.get("counters")
    warmup = seconds / 3 if options.warmup is None else options.warmup * HOUR
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
        "memory_slope_mib_per_h": [round(slope, 2) for slope, _ in slopes],
        "memory_slope_error": [round(error, 2) for _, error in slopes],
        "memory_mib": [[round(min(p.bytes) / MIB), round(max(p.bytes) / MIB)] for p in processes],
        "open_files": [_halves(process.files) for process in processes],
        "state_bytes_per_url": round(Files().total(JobDir(job).state) / urls, 1),
        "warc_bytes_per_page": round(Files().total(JobDir(job).warcs) / pages, 1),
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


def _watch(command: list[str], output: Path, seconds_max: float) -> tuple[list[Process], int]:
    """Run the crawl and look at its processes: (frontier, workers by age), exit code. tree.CrawlFailed."""
    seen: dict[int, Process] = {}
    with output.open("w+", errors="replace") as said:
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
                if time.monotonic() - began > seconds_max:
                    raise tree.CrawlFailed(f"the crawl did not end {END_SECONDS} s after its time")
        finally:
            if code is None:
                os.killpg(crawl.pid, signal.SIGKILL)
                crawl.wait()
        if code not in (ExitCode.DONE, ExitCode.TIME_LIMIT):
            said.seek(0)
            raise tree.CrawlFailed(f"exit code {code}:\n{said.read()[-tree.OUTPUT_SHOWN :]}")
    return list(seen.values()), code


def _look(root: int, now: float, seen: dict[int, Process]) -> None:
    for pid in tree.descendants(root):
        size = tree.resident(pid)
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            files = len(os.listdir(f"/proc/{pid}/fd"))
            if size is not None:
                process = seen.setdefault(pid, Process())
                process.seconds.append(now)
                process.bytes.append(size)
                process.files.append(files)
