"""`bench seen --beside-crawl`: what a crawl feels of the merge of a large store.

A crawl whose drum `seen` already holds `--store` keys fetches docsweb with every gap at zero, and every page of it is
among the seeds: as in a crawl of that size something waits in the queues at all times, and every delay shows. Frontier,
workers and web server share the cores this process may use. After a while of that a harvest of `--keys` links (the
stream of bench/seen/stream.py: one in ten is new; all lead to pages of docsweb) enters, as if a worker had handed it
over, and turns of the crawl merge it and hand the new URLs on to sites and queues. Measured in the seconds before, and
from the beginning of the first of those turns to the commit of the last:

fetch_rate_before, _during, ratio     pages in nginx's access log, a second; goal of the ratio 0.8
fetch_rate_in_turns                   the same in the turns alone, without the rests between them
lease_wait_ms_p50, _p99, _max         from the moment a visit could have been leased (its host's clocks due, a worker
                                      with room) to its lease, in the frontier; goal of p99 100 ms
loop_late_ms_p99, _max                how late a timer of the frontier's event loop comes
merge_s, merge_cpu_s, turns           from the first turn to the last, and the CPU time of their thread
cpu_before, cpu_during                cores used by frontier, workers and servers
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drum import Batch, Files, Ragged, SegmentWriter
from drum.names import SEGMENT

import numpy as np

from bench.crawl import ours, polite, tree
from bench.crawl.made_state import make_state
from bench.seen.stream import Keys, splitmix64, stream
from bench.seen.systems import clone
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import SEEDS_STREAM
from irlcrawl.base.keys import priority_of
from irlcrawl.base.rows import LINK, Source
from irlcrawl.config.keys import Config
from irlcrawl.web.scope import Scope
from irlcrawl.worker.harvest.context import Context
from irlcrawl.worker.harvest.sections import write_sections
from tools.docsweb import oracle, serve

LINKS = 5_000_000
KEYS_TOGETHER = 4_000_000
SETTLE_SECONDS = 10.0
BEFORE_SECONDS = 15.0
LOOK_SECONDS = 0.1
MERGE_SECONDS_MAX = 240.0
PAGES = 150_000
BUDGET = 1_000_000  # of every site: docsweb has few, and none is to be put off


@dataclass
class Cores:
    """CPU seconds by role, sampled: (unix seconds, {role: seconds})."""

    roots: dict[str, int]  # process ids
    taken: list[tuple[float, dict[str, float]]] = field(default_factory=list)

    def watch(self, stop: threading.Event) -> None:
        while not stop.wait(LOOK_SECONDS):
            self.taken.append((time.time(), self._now()))

    def _now(self) -> dict[str, float]:
        seconds: dict[str, float] = {}
        for role, root in self.roots.items():
            for pid in tree.descendants(root):
                name = "workers" if ours.is_worker(pid) else role
                seconds[name] = seconds.get(name, 0.0) + (tree.cpu_seconds(pid) or 0.0)
        return seconds

    def between(self, start: float, end: float) -> dict[str, float]:
        inside = [seconds for when, seconds in self.taken if start <= when < end]
        took = max(LOOK_SECONDS * (len(inside) - 1), LOOK_SECONDS)
        return {name: round((inside[-1][name] - inside[0][name]) / took, 2) for name in inside[0]}


def measure(directory: Path, store: int, links: int, workers: int) -> dict[str, Any]:
    """Raises DocswebError, RuntimeError when the crawl or the merge did not do what they should. The store stays in
    `directory` for the next time."""
    seeded, scratch = _seeded(directory, store), directory / "beside"
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        scratch.mkdir()
        clone(seeded, scratch / "job", (SEGMENT,))
        with serve.running(scratch / "web") as web:
            copies = -(-PAGES // len(oracle.expected(web)))
        with serve.running(scratch / "web", mirrors=copies - 1) as web:
            urls = list(polite.seeds(web, PAGES))
            (web.directory / "seeds.txt").write_text("".join(url + "\n" for url in urls))
            new = _write_links(scratch / "links.seg", store, links, urls)
            report, used = _crawl(web, scratch, links, workers)
            pages = np.sort([request.end for request in web.requests() if request.uri != "/robots.txt"])
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if report["new_keys"] < new:
        raise RuntimeError(f"the merge found {report['new_keys']:,} new keys, not the {new:,} that there are at least")
    began, ended = report["began"], report["ended"]

    def rate(start: float, end: float) -> float:
        return round(float(np.searchsorted(pages, end) - np.searchsorted(pages, start)) / (end - start), 1)

    before, during = rate(began - BEFORE_SECONDS, began), rate(began, ended)
    turns = report["turns"]
    in_turns = sum(rate(*turn) * (turn[1] - turn[0]) for turn in turns) / sum(turn[1] - turn[0] for turn in turns)
    return {
        "bench": "seen --beside-crawl", "store_keys": store, "links": links, "new_keys": new,
        "cores": len(os.sched_getaffinity(0)), "workers": workers or os.cpu_count(),
        "fetch_rate_before": before, "fetch_rate_during": during, "ratio": round(during / before, 3),
        "fetch_rate_in_turns": round(in_turns, 1),
        **_quantiles("lease_wait_ms", report["leases"], began, ended),
        **_quantiles("lease_wait_ms_before", report["leases"], began - BEFORE_SECONDS, began),
        **_quantiles("loop_late_ms", report["lags"], began, ended),
        "merge_s": round(ended - began, 1), "merge_cpu_s": round(report["merge_cpu_s"], 1), "turns": len(turns),
        "cpu_before": used.between(began - BEFORE_SECONDS, began), "cpu_during": used.between(began, ended),
    }  # fmt: skip


def _quantiles(name: str, taken: list[tuple[float, float]], start: float, end: float) -> dict[str, float]:
    ms = [took for when, took in taken if start <= when < end] or [0.0]
    return {
        f"{name}_p50": round(float(np.quantile(ms, 0.5)), 1), f"{name}_p99": round(float(np.quantile(ms, 0.99)), 1),
        f"{name}_max": round(max(ms), 1),
    }  # fmt: skip


def _seeded(directory: Path, store: int) -> Path:
    """A JOB that has seen so many keys, made when it is not there yet. Copy it."""
    path, done = directory / f"seeded-crawl-{store}", directory / f"seeded-crawl-{store}.done"
    if not done.exists():
        shutil.rmtree(path, ignore_errors=True)
        print(f"  making a crawl that has seen {store:,} keys", file=sys.stderr, flush=True)
        config = Config()
        config.crawl.user_agent, config.budgets.base = ours.AGENT, BUDGET
        make_state(JobDir(path), config, _keys(store), store)
        done.touch()
    return path


def _keys(store: int) -> Iterator[Keys]:
    for start in range(0, store, KEYS_TOGETHER):
        yield splitmix64(np.arange(start, min(start + KEYS_TOGETHER, store), dtype=np.uint64))


def _write_links(path: Path, store: int, count: int, pages: list[str]) -> int:
    """A harvest of the seeds' stream with `count` links, all to these pages under other names; how many are new."""
    new = 0
    known = [page.encode() for page in pages]
    config = Config()
    config.crawl.user_agent = ours.AGENT
    context = Context(config, 0, Scope(config.scope, config.site, []))
    names = np.array([context.names(page) for page in known], np.uint64)
    columns = {"site": names[:, 0], "host": names[:, 1]}

    def rows() -> Iterator[Batch]:
        nonlocal new
        for links in stream(count, store, 1):
            yield _rows(links.keys, known, columns)
            new += links.new

    with SegmentWriter(Files(), str(path)) as writer:
        write_sections(writer, SEEDS_STREAM, 1, {"links": rows()})
    return new


def _rows(keys: Keys, pages: list[bytes], of: dict[str, Keys]) -> Batch:
    """LINK rows, each the URL of a page with a query that makes it another."""
    columns: dict[str, Any] = {**Batch.zeros(LINK, len(keys)).columns}
    page = (splitmix64(keys) % np.uint64(len(pages))).astype(np.int64)
    columns |= {"key": keys, "site": of["site"][page], "host": of["host"][page]}
    columns["source"][:], columns["depth"][:], columns["priority"][:] = Source.LINK, 5, priority_of(5, Source.LINK)
    urls = [b"%b?%x" % (pages[n], key) for n, key in zip(page.tolist(), keys.tolist(), strict=True)]
    return Batch({**columns, "url": Ragged.from_list(urls)})


def _crawl(web: Any, scratch: Path, links: int, workers: int) -> tuple[dict[str, Any], Cores]:
    """Crawl until the links are merged, and end."""
    trigger, result = scratch / "trigger", scratch / "report.json"
    order = {"trigger": str(trigger), "harvest": str(scratch / "links.seg"), "rows": links, "report": str(result)}
    command = ours.command(web, scratch / "job", workers, ours.NO_GAPS, [])
    command = [command[0], "-m", "bench.seen.merging", json.dumps(order), *command[3:]]
    with (scratch / "crawl.out").open("w+") as said:
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        nginx = int((web.directory / "nginx.pid").read_text())
        used, stop = Cores({"frontier": process.pid, "servers": nginx}), threading.Event()
        watcher = threading.Thread(target=used.watch, args=(stop,))
        watcher.start()
        try:
            _wait(process, SETTLE_SECONDS + BEFORE_SECONDS, lambda: False)
            trigger.touch()
            _wait(process, MERGE_SECONDS_MAX, result.exists)
            process.terminate()
            code = process.wait()
        finally:
            process.kill()
            process.wait()
            stop.set()
            watcher.join()
        if code != ExitCode.INTERRUPTED or not result.exists():
            said.seek(0)
            raise RuntimeError(f"the crawl ended with exit code {code}, links not merged:\n{said.read()[-2000:]}")
    report: dict[str, Any] = json.loads(result.read_text())
    return report, used


def _wait(process: subprocess.Popen[bytes], seconds: float, done: Any) -> None:
    end = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end and not done():
        time.sleep(LOOK_SECONDS)
