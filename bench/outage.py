"""`python -m bench outage`: what a crawl does while the network of its machine is gone, and how soon it is back.

Crawls docsweb (25 hosts, each a site with an address of its own), stops nginx and dnsmasq a few seconds into it, starts
them again after `--seconds`, and lets the crawl go on to `--pages` pages. Prints what was charged to anybody for it:
`failed`, `retries` and `backed_off` (the most hosts at a time that status called so) must be 0; `resumed_s` is how long
after the servers were back the first of them was asked. It ends with 1 when one of those three is not 0.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from bench import _jobs
from bench.crawl import ours, tree
from irlcrawl.base.job import JobDir
from irlcrawl.crawl.control import ask
from irlcrawl.crawl.status import read_status
from tools.docsweb import serve
from tools.options import amount, whole

GAPS: dict[str, object] = {
    "politeness.gap_host_seconds": 0.1, "politeness.gap_host_factor": 0, "politeness.gap_address_seconds": 0.05,
    "politeness.machine_clocks": "",
}  # fmt: skip
BEGIN_S = 8.0
"""The servers stop so long after the crawl was started."""
END_S = 300.0
NONE_OF_THESE = ("failed", "retries", "backed_off")


def main(argv: list[str]) -> int:
    return _jobs.run(measure, _options(argv), "outage", lambda told: _jobs.not_zero(told, NONE_OF_THESE))


def _options(argv: list[str]) -> argparse.Namespace:
    parser = _jobs.parser("outage", __doc__)
    parser.add_argument("--seconds", type=amount(), default=60.0, help="how long nobody answers (default %(default)s)")
    parser.add_argument("--pages", type=whole(1), default=5_000, help="where the crawl ends (default %(default)s)")
    parser.add_argument("--names-stay", action="store_true", help="stop nginx only")
    return parser.parse_args(argv)


def measure(directory: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One crawl, its web away for a while. Raises DocswebError and tree.CrawlFailed."""
    with serve.running(directory / "web", "p5", mirrors=4, addresses=25, sites=True) as web:
        return _crawl(web, directory / "job", options)


def _crawl(web: serve.Web, job: Path, options: argparse.Namespace) -> dict[str, Any]:
    words = ours.command(web, job, 2, GAPS, [f"limits.pages={options.pages}"])
    said = job.with_suffix(".out")
    over, seen = threading.Event(), list[dict[str, Any]]()
    with said.open("w") as out:
        crawl = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    watcher = threading.Thread(target=_watch, args=(job, over, seen))
    watcher.start()
    try:
        over.wait(BEGIN_S)
        stopped_at = time.time()
        serve.stop(web.directory, ("nginx",) if options.names_stay else ("nginx", "dnsmasq"))
        over.wait(options.seconds)
        if options.names_stay:
            serve.stop(web.directory, ("dnsmasq",))  # for as long as it takes to start both
        serve.start(web.directory)
        back_at = time.time()
        code = crawl.wait(END_S)
    except subprocess.TimeoutExpired:
        raise tree.CrawlFailed(f"the crawl did not end; it said:\n{said.read_text()[-3000:]}") from None
    finally:
        crawl.kill()
        crawl.wait()
        over.set()
        watcher.join()
    if code not in (0, 14):
        raise tree.CrawlFailed(f"the crawl ended with exit code {code}:\n{said.read_text()[-3000:]}")
    last, requests = read_status(JobDir(job)), web.requests()
    return {
        "bench": "outage",
        "outage_s": round(back_at - stopped_at, 1),
        "stopped": "nginx" if options.names_stay else "nginx, dnsmasq",
        "pages": last["fetched"],
        "failed": last["failed"],
        "retries": last["retry_count"],
        "backed_off": max((record["delayed_hosts"] or {}).get("backoff", 0) for record in seen),
        "paused_s": round(sum(record["state"] == "paused" for record in seen) * WATCH_S, 1),
        "resumed_s": round(min(r.end for r in requests if r.end > back_at) - back_at, 2),
        "repeated": len([r for r in requests if r.uri != "/robots.txt"])
        - len({r.url for r in requests if r.uri != "/robots.txt"}),
        "log": [line for line in said.read_text().splitlines() if "network" in line],
    }


WATCH_S = 0.25


def _watch(job: Path, over: threading.Event, seen: list[dict[str, Any]]) -> None:
    socket = JobDir(job).socket
    while not over.wait(WATCH_S):
        if os.path.exists(socket) and (record := ask(socket, "status")) is not None:
            seen.append(record)
