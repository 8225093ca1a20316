"""`python -m bench crawl`: how fast the whole crawler is on a real web, and whether it finds all of it.

Brings up docsweb with as many mirror hosts as the wanted number of pages needs, crawls all of it with the real command
line and every gap at zero, and prints one line: `pages` (distinct URLs in nginx's access log, robots.txt aside),
`pages_per_s`, `pages_per_cpu_s` (user and system time of all the crawler's processes), `peak_rss_bytes` of their sum,
the most that each worker held, what the largest worker held after each quarter of the pages, and `recall` against the
oracle. It needs nginx and dnsmasq, which are not measured, though they share the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.docsweb import audit, oracle, serve
from tools.docsweb.sets import DocswebError

SAMPLE_SECONDS = 0.5
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

SETTINGS = {
    "crawl.user_agent": "irlcrawl-bench/1.0 (+https://bench.test/; bench@bench.test)",
    "politeness.gap_host_seconds": 0,
    "politeness.gap_host_factor": 0,
    "politeness.gap_address_seconds": 0,
    "page.links_max": 1_000_000,
}


@dataclass
class Memory:
    """Resident bytes of a process tree, sampled while it runs. `series`: (unix seconds, largest worker's bytes)."""

    root: int
    peak_sum: int = 0
    peak_frontier: int = 0
    peaks: dict[int, int] = field(default_factory=dict)
    series: list[tuple[float, int]] = field(default_factory=list)

    def watch(self, stop: threading.Event) -> None:
        while not stop.wait(SAMPLE_SECONDS):
            self.sample()

    def sample(self) -> None:
        sizes = {pid: size for pid in descendants(self.root) if (size := resident(pid)) is not None}
        workers = {pid: size for pid, size in sizes.items() if pid != self.root and is_worker(pid)}
        for pid, size in workers.items():
            self.peaks[pid] = max(size, self.peaks.get(pid, 0))
        self.peak_sum = max(self.peak_sum, sum(sizes.values()))
        self.peak_frontier = max(self.peak_frontier, sizes.get(self.root, 0))
        if workers:
            self.series.append((time.time(), max(workers.values())))

    def at(self, moment: float) -> int:
        """The largest worker's size at the last sample before `moment` (unix seconds)."""
        return next((size for when, size in reversed(self.series) if when <= moment), 0)


def descendants(root: int) -> list[int]:
    """`root` and the living processes below it."""
    found = [root]
    for pid in found:  # grows while it is read
        try:
            threads = os.listdir(f"/proc/{pid}/task")
            found += [
                int(child) for t in threads for child in Path(f"/proc/{pid}/task/{t}/children").read_text().split()
            ]
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
    return found


def resident(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    except (FileNotFoundError, ProcessLookupError):
        return None


def is_worker(pid: int) -> bool:
    try:
        return b"irlcrawl.fetch.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def main(argv: list[str]) -> int:
    """Exit codes: 0 measured, 1 the web or the crawl failed (stderr says how)."""
    options = _options(argv)
    directory = Path(options.dir or tempfile.mkdtemp(prefix="irlcrawl-bench-"))
    try:
        result = measure(directory, options)
    except (DocswebError, RuntimeError) as error:
        print(f"bench crawl: {error}", file=sys.stderr)
        return 1
    finally:
        if options.dir is None:
            shutil.rmtree(directory)
    print(json.dumps(result) if options.json else "\n".join(f"{name}: {value}" for name, value in result.items()))
    return 0


def _options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench crawl", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pages", type=int, default=50_000, help="at least so many (default %(default)s)")
    parser.add_argument("--workers", type=int, default=0, help="fetch workers; 0 is one per core")
    parser.add_argument("--sets", default="all", help="docsweb sets or groups (default %(default)s)")
    parser.add_argument("--dir", help="keep the web and the job in this directory; default: a temporary one, removed")
    parser.add_argument("--json", action="store_true", help="one JSON line")
    parser.add_argument(
        "-s", dest="settings", action="append", default=[], metavar="KEY=VALUE", help="as in the crawler"
    )
    return parser.parse_args(argv)


def measure(directory: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One crawl. Raises DocswebError, or RuntimeError when the crawl does not end with exit code 0."""
    with serve.running(directory / "web", options.sets) as web:
        copies = -(-options.pages // len(oracle.expected(web)))
    with serve.running(directory / "web", options.sets, mirrors=copies - 1) as web:
        expected = oracle.expected(web)  # before the clock starts
        memory, seconds, cpu_s = _crawl(web, directory / "job", options)
        requests = web.requests()
        report = audit.report(requests, expected, oracle.disallowed(web))
    for fault in ("missing", "unexpected", "repeated", "disallowed"):
        for url in report[fault]:
            print(f"bench crawl: {fault}: {url}", file=sys.stderr)
    pages = [r for r in requests if r.uri != "/robots.txt" and (r.host, r.status) != audit.NOBODY]
    return {
        "bench": "crawl",
        "pages": len({r.url for r in pages}),
        "pages_per_s": round(len(pages) / seconds, 1),
        "pages_per_cpu_s": round(len(pages) / cpu_s, 1),
        "peak_rss_bytes": memory.peak_sum,
        "peak_rss_frontier_bytes": memory.peak_frontier,
        "peak_rss_worker_bytes": sorted(memory.peaks.values(), reverse=True),
        "worker_rss_bytes_by_quarter": [memory.at(pages[len(pages) * n // 4 - 1].end) for n in (1, 2, 3, 4)],
        "recall": report["recall"],
        "repeated": len(report["repeated"]),
        "unexpected": len(report["unexpected"]),
        "disallowed": len(report["disallowed"]),
        "seconds": round(seconds, 1),
        "cpu_s": round(cpu_s, 1),
        "hosts": sum(len(s.hosts) for s in web.sets),
        "missing_sets": sorted(web.missing),
    }


def _crawl(web: serve.Web, job: Path, options: argparse.Namespace) -> tuple[Memory, float, float]:
    """(memory, seconds on the clock, seconds of user and system time of the crawler and all it waited for)."""
    command = [sys.executable, "-m", "irlcrawl", "crawl", str(job), "--seeds", str(web.directory / "seeds.txt")]
    command += ["--config", str(web.directory / "crawl.toml"), "-s", f"crawl.workers={options.workers}"]
    for key, value in SETTINGS.items():
        command += ["-s", f"{key}={value}"]
    for setting in options.settings:
        command += ["-s", setting]
    said = (job.parent / "crawl.out").open("w+")
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    memory, stop = Memory(process.pid), threading.Event()
    watcher = threading.Thread(target=memory.watch, args=(stop,))
    watcher.start()
    try:
        _, status, usage = os.wait4(process.pid, 0)
    except BaseException:
        process.terminate()
        process.wait()
        raise
    finally:
        stop.set()
        watcher.join()
    seconds = time.monotonic() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        said.seek(0)
        last = said.read()[-2000:]
        raise RuntimeError(f"the crawl ended with exit code {process.returncode}:\n{last}")
    said.close()
    return memory, seconds, usage.ru_utime + usage.ru_stime
