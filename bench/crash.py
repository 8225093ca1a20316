"""`python -m bench crash [--kills N]`: what real kills of real processes cost a crawl.

A crawl of docsweb by the real command line. At N moments drawn from a seed something is killed with SIGKILL: the whole
process group, one worker, or the frontier alone; one moment in eight a worker is stopped instead, and must be found
hung. Whenever the crawl is gone the same command goes on with it, until it ends. Then nginx's access log and the WARC
files (read by warcio), and none of the crawl's own books, say

`kills`           what was killed, by kind
`lost`            URLs of the oracle that were not answered, or whose answer is not in the archive
`twice`           URLs archived twice, or asked for again after their unit was written
`repeated`        URLs asked for again that had not been archived: in flight when something was killed. At most one per
                  visit open at a kill; `open_visits` counts the addresses that were asked just before each kill
`broken_records`  records that warcio cannot read, archive files left without their final name, and `revisit` records
                  that refer to a response that is not there
`early_requests`  requests closer together on one host or address than the gap that was asked for
`resume_s_median` seconds from the start of a resuming command to the first request it makes, or to its own end

It ends with 1 when a promise was broken: `lost`, `twice`, `broken_records` or `early_requests` not 0, or more
repeated than visits were open.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter, defaultdict
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from warcio.archiveiterator import ArchiveIterator
from warcio.exceptions import ArchiveLoadFailed

from bench import _jobs
from bench.crawl import ours, tree
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import WARC_SUFFIXES
from tools.docsweb import audit, oracle, serve
from tools.options import amount, whole

POLL_SECONDS = 0.05
SECONDS_MAX = 3600.0
GAP_S = 0.05
VISIT_S = 1.0
DATE_S = 1.5
"""WARC-Date and nginx's start of one request differ by less."""
SETTINGS: dict[str, object] = {
    "politeness.gap_host_seconds": GAP_S, "politeness.gap_address_seconds": GAP_S, "politeness.gap_host_factor": 0,
    "politeness.shared_address_sites": 0, "politeness.gap_site_hosts": 0,  # a visit holds its address: what is measured
    "politeness.machine_clocks": "",  # of a crawl that runs beside the benchmark it knows nothing
    "fetch.worker_silent_seconds": 10, "frontier.harvest_seconds": 3, "politeness.visit_seconds": VISIT_S,
}  # fmt: skip
KINDS = ("group", "worker", "frontier", "hung")
WEIGHTS = (3, 2, 2, 1)
NONE_OF_THESE = ("lost", "twice", "broken_records", "early_requests")


@dataclass
class Kills:
    """What was done to the crawl, and what became of it."""

    done: list[tuple[str, float]] = field(default_factory=list)  # kind, unix seconds
    starts: list[float] = field(default_factory=list)  # unix seconds of every command but the first
    codes: list[int] = field(default_factory=list)  # of commands that were not killed


def main(argv: list[str]) -> int:
    return _jobs.run(measure, _options(argv), "crash", broken_promises)


def broken_promises(told: dict[str, Any]) -> list[str]:
    """The promises that a result breaks, in words."""
    wrong = _jobs.not_zero(told, NONE_OF_THESE)
    if told["repeated"] > told["open_visits"]:
        wrong.append(f"{told['repeated']} requests were repeated, and {told['open_visits']} visits were open")
    return wrong


def _options(argv: list[str]) -> argparse.Namespace:
    parser = _jobs.parser("crash", __doc__)
    parser.add_argument("--kills", type=whole(0), default=100, help="default %(default)s")
    parser.add_argument("--every", type=amount(), default=3.0, help="seconds between kills, on average (%(default)s)")
    parser.add_argument("--mirrors", type=whole(0), default=8, help="of each docsweb set (default %(default)s)")
    parser.add_argument("--sets", default="all", help="docsweb sets or groups (default %(default)s)")
    parser.add_argument("--addresses", type=whole(1), default=20, help="of all hosts together (default %(default)s)")
    parser.add_argument("--workers", type=whole(1), default=2)
    parser.add_argument("--seed", type=whole(0), default=1)
    return parser.parse_args(argv)


def measure(directory: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One crawl with its kills. Raises DocswebError and tree.CrawlFailed."""
    job = directory / "job"
    with serve.running(directory / "web", options.sets, mirrors=options.mirrors, addresses=options.addresses) as web:
        command = ours.command(web, job, options.workers, SETTINGS, [])
        kills = _crawl(command, job.with_suffix(".out"), options)
        requests = web.requests()
        expected = oracle.expected(web)
    written, broken = archive(JobDir(job).warcs)
    return judge(requests, expected, written, broken, kills)


def _crawl(command: list[str], output: Path, options: argparse.Namespace) -> Kills:
    """Until it ends by itself after the last kill."""
    draw = random.Random(options.seed)
    kills = Kills()
    deadline = time.monotonic() + SECONDS_MAX
    moments = [draw.uniform(0.2, 2.0) * options.every for _ in range(options.kills)]
    kinds = draw.choices(KINDS, WEIGHTS, k=options.kills)
    with output.open("a+", errors="replace") as said, ExitStack() as ends:
        process = _start(command, said.fileno())
        ends.callback(lambda: tree.end(process))  # the one that runs then
        while True:
            wait = moments[len(kills.done)] if len(kills.done) < options.kills else SECONDS_MAX
            try:
                code = process.wait(max(0.0, min(wait, deadline - time.monotonic())))
            except subprocess.TimeoutExpired:
                if time.monotonic() >= deadline:
                    raise tree.CrawlFailed(f"no end within {SECONDS_MAX:.0f} s") from None
                kind = kinds[len(kills.done)]
                kills.done.append((kind, time.time()))
                if not _kill(kind, process, draw):
                    continue
            else:
                kills.codes.append(code)
                if code not in (ExitCode.DONE, ExitCode.LOCKED):
                    said.seek(0)
                    raise tree.CrawlFailed(f"exit code {code}:\n{said.read()[-tree.OUTPUT_SHOWN :]}")
                if code == ExitCode.DONE:
                    return kills
                process = _start(command, said.fileno())  # somebody of the last one was still there
                continue
            kills.starts.append(time.time())
            process = _start(command, said.fileno())


def _start(command: list[str], output: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, process_group=0)


def _kill(kind: str, crawl: subprocess.Popen[bytes], draw: random.Random) -> bool:
    """Whether the crawl is gone with it."""
    if kind in ("worker", "hung"):
        workers = [pid for pid in tree.descendants(crawl.pid) if ours.is_worker(pid)]
        if workers:
            with suppress(ProcessLookupError):
                os.kill(draw.choice(workers), signal.SIGKILL if kind == "worker" else signal.SIGSTOP)
        return False
    if kind == "group":
        os.killpg(crawl.pid, signal.SIGKILL)
    else:
        crawl.kill()
    crawl.wait()
    return True


def archive(warcs: Path) -> tuple[dict[str, list[float]], int]:
    """Of a directory: (URL -> unix seconds of its requests; records that cannot be read, files not closed, references
    to nothing). A payload that is stored already is stored as a `revisit` that refers to it."""
    found: dict[str, list[float]] = defaultdict(list)
    responses: set[tuple[str, str]] = set()
    references: list[tuple[str, str]] = []
    broken = 0
    for path in sorted(warcs.iterdir()):
        broken += not path.name.endswith(WARC_SUFFIXES)
        try:
            with path.open("rb") as stream:
                for record in ArchiveIterator(stream, check_digests="raise"):
                    record.content_stream().read()
                    if record.rec_type not in ("response", "revisit"):
                        continue
                    field = record.rec_headers.get_header
                    url, when = field("WARC-Target-URI"), field("WARC-Date")
                    found[url].append(datetime.fromisoformat(when).timestamp())
                    if record.rec_type == "response":
                        responses.add((url, when))
                    else:
                        references.append((field("WARC-Refers-To-Target-URI"), field("WARC-Refers-To-Date")))
        except (ArchiveLoadFailed, EOFError, ValueError) as error:
            print(f"bench crash: {path.name}: {error}", file=sys.stderr)
            broken += 1
    return found, broken + sum(reference not in responses for reference in references)


def judge(
    requests: list[audit.Request], expected: set[str], written: dict[str, list[float]], broken: int, kills: Kills
) -> dict[str, Any]:
    """What became of a crawl, by the servers' log and its archives."""
    pages = [r for r in requests if r.uri != "/robots.txt" and (r.host, r.status) != audit.NOBODY]
    asked: dict[str, list[float]] = defaultdict(list)
    for request in pages:
        asked[request.url].append(request.start)
    stored = {url: dates for url, dates in written.items() if not url.endswith("/robots.txt")}
    lost = {url for url in expected if url not in asked or url not in stored}
    twice = {url for url, dates in stored.items() if len(dates) > 1}
    # The archive has the moment of the request it holds: a later one came after its unit was written.
    twice |= {url for url, starts in asked.items() if url in stored and max(starts) > max(stored[url]) + DATE_S}
    repeated = sum(len(starts) - 1 for url, starts in asked.items() if url not in twice)
    early = [
        f"{one.url} {gap:.3f} s after {before.url} on its {clock}; {_since(kills, before.end)}"
        for clock in ("host", "address")
        for gap, before, one in audit.gaps(requests, clock)
        if gap + audit.RESOLUTION_S < GAP_S
    ]
    for name, examples in (("lost", sorted(lost)), ("twice", sorted(twice)), ("early", early)):
        for example in examples[: audit.NAMED_MAX]:
            print(f"bench crash: {name}: {example}", file=sys.stderr)
    starts = sorted(r.start for r in requests)
    lives = pairwise([*kills.starts, float("inf")])
    resumes = [min((s for s in starts if start < s < end), default=end) - start for start, end in lives]
    return {
        "bench": "crash",
        "kills": dict(Counter(kind for kind, _ in kills.done)),
        "resumed": len(kills.starts),
        "locked": kills.codes.count(ExitCode.LOCKED),
        "pages": len(asked),
        "lost": len(lost),
        "twice": len(twice),
        "repeated": repeated,
        "open_visits": _open_visits(requests, kills),
        "broken_records": broken,
        "early_requests": len(early),
        "resume_s_median": round(statistics.median(resumes or [0.0]), 2),
        "hosts": len({r.host for r in pages}),
    }


def _since(kills: Kills, moment: float) -> str:
    """Which kill came last before an exchange ended: one that was in flight then ends later for its server."""
    before = [(kind, when) for kind, when in kills.done if when <= moment]
    if not before:
        return "that had ended before any kill"
    kind, when = before[-1]
    return f"that had ended {moment - when:.3f} s after a kill ({kind})"


def _open_visits(requests: list[audit.Request], kills: Kills) -> int:
    """A visit holds its address, and asks something within every VISIT_S."""
    visits = 0
    for _, moment in kills.done:
        visits += len({r.address for r in requests if moment - VISIT_S - GAP_S <= r.end and r.start <= moment})
    return visits
