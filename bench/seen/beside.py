"""`bench seen --beside-crawl`: what a crawl feels of the merge of a large store.

A crawl of docsweb with every gap at zero, so that there is always something to lease and every delay shows. In a thread
of its frontier process a drum with rows waiting is merged, as the frontier's own drums are. Measured before and during:
the fetch rate (lines of nginx's access log), and how long the loop that makes the leases takes to answer, asked over
the control socket fifty times a second: a visit that may be leased waits no longer than that for its lease.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench.seen.plan import Bench
from bench.seen.run import Order
from bench.seen.stream import stream
from bench.seen.systems import clone
from drum import Drum
from irlcrawl.job import ExitCode, JobDir
from irlcrawl.watch.control import ControlError, ask
from tools.docsweb import oracle, serve

WAITING_LINKS = 60_000_000  # of which those that pass the cache of recent keys wait
SETTLE_SECONDS = 8.0
BEFORE_SECONDS = 15.0
ASK_SECONDS = 0.02
START_SECONDS_MAX = 60.0
MERGE_SECONDS_MAX = 300.0
PAGES = 60_000
SETTINGS = {
    "crawl.user_agent": "irlcrawl-bench/1.0 (+https://bench.test/; bench@bench.test)",
    "politeness.gap_host_seconds": 0,
    "politeness.gap_host_factor": 0,
    "politeness.gap_address_seconds": 0,
    "page.links_max": 1_000_000,
}


@dataclass
class Answers:
    """How long the crawl took to answer: (unix seconds, milliseconds) of every question."""

    job: JobDir
    taken: list[tuple[float, float]] = field(default_factory=list)

    def ask_until(self, done: Any, seconds_max: float) -> None:
        """Ask until done() or for so long. RuntimeError: the crawl ended meanwhile."""
        end = time.monotonic() + seconds_max
        while time.monotonic() < end and not done():
            began, when = time.perf_counter(), time.time()
            try:
                answer = ask(self.job.socket, "status")
            except ControlError:
                answer = {}  # late: its time counts
            if answer is None:
                raise RuntimeError("the crawl ended before the merge did: it had too few pages")
            self.taken.append((when, 1e3 * (time.perf_counter() - began)))
            time.sleep(ASK_SECONDS)

    def between(self, start: float, end: float) -> dict[str, float]:
        ms = [taken for when, taken in self.taken if start <= when < end]
        return {"answers": len(ms), "p50": round(float(np.quantile(ms, 0.5)), 1),
                "p99": round(float(np.quantile(ms, 0.99)), 1), "max": round(max(ms), 1)}  # fmt: skip


def prepare(bench: Bench, store: int, target: Path) -> int:
    """A store of so many keys with rows waiting for a merge; how many keys of them are new."""
    clone(bench.seeded(Order("drum", "", store, 0, bench.ram_bytes)), target, (".seg",))
    new = 0
    with Drum(target / "drum", emit=lambda batch: None, ram_bytes=bench.ram_bytes, merge_rows=1 << 40) as drum:
        for links in stream(WAITING_LINKS, store, bench.seed):
            drum.add(links.keys)
            new += links.new
        drum.close()
    return new


def measure(bench: Bench, store: int, workers: int) -> dict[str, Any]:
    """Raises DocswebError, or RuntimeError when the crawl or the merge did not do what they should."""
    prepared = bench.directory / "beside"
    shutil.rmtree(prepared, ignore_errors=True)
    try:
        new = prepare(bench, store, prepared)
        with serve.running(prepared / "web") as web:
            copies = -(-PAGES // len(oracle.expected(web)))
        with serve.running(prepared / "web", mirrors=copies - 1) as web:
            merge, answers = _crawl(web, prepared, bench.ram_bytes, workers)
            pages = np.array([request.end for request in web.requests() if request.uri != "/robots.txt"])
    finally:
        shutil.rmtree(prepared, ignore_errors=True)
    if merge["new_keys"] != new:
        raise RuntimeError(f"the merge found {merge['new_keys']:,} new keys, not the {new:,} that there are")
    began, ended = merge["began"], merge["ended"]

    def rate(start: float, end: float) -> float:
        return round(float(np.count_nonzero((start <= pages) & (pages < end))) / (end - start), 1)

    before, during = rate(began - BEFORE_SECONDS, began), rate(began, ended)
    return {
        "bench": "seen --beside-crawl", "store_keys": store, "new_keys": new, "cores": len(os.sched_getaffinity(0)),
        "workers": workers, "merge_s": round(ended - began, 1), "pages_per_s_before": before,
        "pages_per_s_during": during, "pages_per_s_share": round(during / before, 3),
        "lease_ms_before": answers.between(began - BEFORE_SECONDS, began),
        "lease_ms_during": answers.between(began, ended),
    }  # fmt: skip


def _crawl(web: Any, directory: Path, ram_bytes: int, workers: int) -> tuple[dict[str, Any], Answers]:
    """Crawl until the merge is over. (the merge's times, what the crawl answered meanwhile)"""
    trigger, result = directory / "trigger", directory / "result.json"
    order = {
        "store": str(directory / "drum"), "ram_bytes": ram_bytes, "trigger": str(trigger), "result": str(result),
    }  # fmt: skip
    job = JobDir(directory / "job")
    command = [sys.executable, "-m", "bench.seen.merging", json.dumps(order), "crawl", str(job.path)]
    command += ["--seeds", str(web.directory / "seeds.txt"), "--config", str(web.directory / "crawl.toml")]
    for key, value in {**SETTINGS, "crawl.workers": workers}.items():
        command += ["-s", f"{key}={value}"]
    with (directory / "crawl.out").open("w+") as said:
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        answers = Answers(job)
        try:
            _wait_for(lambda: process.poll() is not None or ask(job.socket, "status") is not None, START_SECONDS_MAX)
            answers.ask_until(lambda: False, SETTLE_SECONDS + BEFORE_SECONDS)
            trigger.touch()
            answers.ask_until(result.exists, MERGE_SECONDS_MAX)
            process.terminate()
            code = process.wait()
        except BaseException:
            process.kill()
            process.wait()
            raise
        if code != ExitCode.INTERRUPTED or not result.exists():
            said.seek(0)
            raise RuntimeError(f"the crawl ended with exit code {code}:\n{said.read()[-2000:]}")
    merge: dict[str, Any] = json.loads(result.read_text())
    return merge, answers


def _wait_for(done: Any, seconds_max: float) -> None:
    end = time.monotonic() + seconds_max
    while not done():
        if time.monotonic() > end:
            raise RuntimeError(f"the crawl did not start within {seconds_max:.0f} s")
        time.sleep(ASK_SECONDS)
