"""`python -m bench changing`: a real crawl of pages that change, killed again and again, beside the simulated one.

2,000 pages on 40 loopback hosts change as in `python -m bench freshness`, with a day of six seconds; hosts answer
conditional requests truly, with a 304 always, without validators, or truly and slowly. The real command line visits
them for --seconds, and is killed (SIGKILL, the whole group) --kills times meanwhile. By the server's own log of
versions and fetches:

`late`            share of copies that are right, in the mean over the last 60% of the time
`of_simulated`    ... over the same of the shipped frontier under a virtual clock, in the same world with the same gaps
`lost`            answers that the crawl log does not have; at most those that were under way at a kill (`under_way`)
`twice`           visits in the crawl log that the server did not see
`two_places`      pages that rest or wait in two places, or with another number of visits than the log has
`revisits`        revisit records in the archive; `replay_wrong` those whose original is not there, or is not what the
                  server would have sent (or, of a server that lies, sent last)

It ends with 1 when one of these is not as promised, or `of_simulated` is below 0.97. Hosts are full in this crawl: the
gap between two requests is what bounds it.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from contextlib import ExitStack, redirect_stdout
from datetime import datetime
from pathlib import Path
from typing import Any

from drum.files import Files

import numpy as np
from warcio.archiveiterator import ArchiveIterator

from bench import _jobs
from bench._changing_web import ChangingWeb, Fetch, Says, Simulated, body, freshness, revisit_config
from bench.crawl import ours, tree
from bench.freshness import LATE, World
from irlcrawl.base.job import JobDir
from irlcrawl.cli.main import main as irlcrawl
from irlcrawl.frontier.state.view import Reading
from irlcrawl.worker.archive.log_parts import read
from tools.options import amount, whole
from tools.sampleweb.server import Origin, RunningWeb, running

GOAL = 0.97
END_SECONDS = 120.0
UNDER_WAY_S = 1.0
"""An answer that was sent so shortly before a kill may be in no archive."""


def main(argv: list[str]) -> int:
    return _jobs.run(measure, _options(argv), "changing", broken_promises)


def broken_promises(told: dict[str, Any]) -> list[str]:
    wrong = _jobs.not_zero(told, ("twice", "two_places", "replay_wrong", "fsck"))
    if told["lost"] > told["under_way"]:
        wrong.append(f"{told['lost']} answers are lost, and {told['under_way']} were under way")
    if told["of_simulated"] < GOAL:
        wrong.append(f"of_simulated is {told['of_simulated']:.4f}; the goal is {GOAL}")
    return wrong


def _options(argv: list[str]) -> argparse.Namespace:
    parser = _jobs.parser("changing", __doc__)
    parser.add_argument("--pages", type=whole(50), default=2000, help="50 a host (default %(default)s)")
    parser.add_argument("--seconds", type=amount(), default=1440.0, help="of the crawl (default %(default)s)")
    parser.add_argument("--kills", type=whole(0), default=20, help="default %(default)s")
    parser.add_argument("--gap", type=amount(), default=1.5, help="seconds between requests to a host (%(default)s)")
    parser.add_argument("--day", type=amount(), default=6.0, help="seconds of a day of the world (%(default)s)")
    parser.add_argument("--every", type=whole(1), default=8, help="revisit.unconditional_every (default %(default)s)")
    parser.add_argument("--workers", type=whole(1), default=2)
    parser.add_argument("--seed", type=whole(0), default=5)
    return parser.parse_args(argv)


def measure(directory: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The simulation, then the crawl, then the judgement. Raises tree.CrawlFailed."""
    days = options.seconds / options.day
    web = ChangingWeb(World.made(options.pages, options.seed, 0.1, days, 1.0), options.day)
    simulated = Simulated(web, options.gap, options.every)
    at, expected = simulated.run(directory / "simulated", options.seconds)
    late = at > LATE * days
    job = directory / "job"
    origins = [Origin(name, f"127.66.{n >> 8}.{(n & 255) + 1}") for n, name in enumerate(web.names)]
    with running(origins, web, directory / "access.log") as server:
        kills = _crawl(_command(server, web, job, options), web, job, options)
    found = freshness(web, at)
    by_kind = {
        says.name.lower(): round(float(np.mean([web.says[f.page] == says for f in web.fetches])), 3) for says in Says
    }
    return {
        "bench": "changing", "pages": options.pages, "hosts": len(web.names), "seconds": options.seconds,
        "kills": len(kills), "visits": len(web.fetches), "visits_simulated": simulated.visits, "visits_of": by_kind,
        "not_modified": sum(fetch.status == 304 for fetch in web.fetches),
        "late": round(float(found[late].mean()), 4), "late_simulated": round(float(expected[late].mean()), 4),
        "of_simulated": round(float(found[late].mean() / expected[late].mean()), 4),
        "fsck": _fsck(job), **_books(job, web, kills), **_replayed(job, web),
    }  # fmt: skip


def _command(server: RunningWeb, web: ChangingWeb, job: Path, options: argparse.Namespace) -> list[str]:
    seeds = job.with_suffix(".seeds")
    urls = (server.url(f"h{host}.test", f"/p/{page}") for page, host in enumerate(web.world.hosts.tolist()))
    seeds.write_text("".join(url + "\n" for url in urls))
    settings: dict[str, object] = {
        **ours.SETTINGS, "crawl.workers": options.workers, "scope.kind": "host",
        "network.resolvers": f'["{server.resolver}"]', "network.allow": '["127.0.0.0/8"]',
        "politeness.gap_host_seconds": options.gap, "politeness.gap_host_factor": 0,
        "politeness.gap_address_seconds": 0, "politeness.shared_address_sites": 0, "politeness.gap_site_hosts": 0,
        "politeness.visit_seconds": options.gap, "politeness.horizon_seconds": max(2 * options.gap, 1.0),
        "frontier.harvest_seconds": 0.5, "revisit.enabled": "true",
        **{f"revisit.{name}": value for name, value in revisit_config(options.day, options.every).items()},
    }  # fmt: skip
    words = [sys.executable, "-m", "irlcrawl", "crawl", os.fspath(job), "--seeds", os.fspath(seeds)]
    return words + [word for key, value in settings.items() for word in ("-s", f"{key}={value}")]


def _crawl(command: list[str], web: ChangingWeb, job: Path, options: argparse.Namespace) -> list[float]:
    """Until --seconds after the first request; the moments of the kills (unix seconds)."""
    began, kills = time.time(), list[float]()
    with job.with_suffix(".out").open("a+", errors="replace") as said, ExitStack() as ends:

        def start() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                command, stdout=said, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, process_group=0
            )

        process = start()
        ends.callback(lambda: tree.end(process))  # the one that runs then
        moments = [options.seconds * (n + 1) / (options.kills + 1) for n in range(options.kills)]
        for seconds in [*moments, options.seconds]:
            left = (web.began or began) + seconds - time.time()
            try:
                code = process.wait(max(left, 0.0))
            except subprocess.TimeoutExpired:
                if len(kills) == options.kills:
                    break
            else:
                said.seek(0)
                raise tree.CrawlFailed(f"exit code {code}:\n{said.read()[-tree.OUTPUT_SHOWN :]}")
            kills.append(time.time())
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process = start()
            print(f"kill {len(kills)} after {len(web.fetches)} answers", file=sys.stderr, flush=True)
        process.send_signal(signal.SIGTERM)
        process.wait(END_SECONDS)
    return kills


def _fsck(job: Path) -> int:
    with redirect_stdout(sys.stderr):
        return irlcrawl(["fsck", os.fspath(job), "--quiet"])


def _books(job: Path, web: ChangingWeb, kills: list[float]) -> dict[str, int]:
    """What the crawl's log and state say, against the server's log."""
    entries = read(Files(), str(JobDir(job).crawl_log))
    logged = Counter(_page(entry.url.decode()) for entry in entries if entry.outcome == "fetched")
    served = Counter(fetch.page for fetch in web.fetches)
    hosts = web.world.hosts
    under_way = sum(
        len({int(hosts[fetch.page]) for fetch in web.fetches if kill - UNDER_WAY_S <= fetch.at <= kill})
        for kill in kills
    )
    reading = Reading.open(JobDir(job))
    assert reading is not None
    places: defaultdict[int, list[int]] = defaultdict(list)
    for batch in (*reading.pages.scan(), *reading.runs.waiting()):
        for url, visits in zip(batch["url"].tolist(), batch["visits"].tolist(), strict=True):
            places[_page(url.decode())].append(visits)
    return {
        "lost": (served - logged).total(), "under_way": under_way, "twice": (logged - served).total(),
        "two_places": sum(places[page] != [visits] for page, visits in logged.items()),
    }  # fmt: skip


def _page(url: str) -> int:
    return int(url.rpartition("/")[2])


def _replayed(job: Path, web: ChangingWeb) -> dict[str, int]:
    """Every revisit record leads to a record with the body that the server had."""
    whole: dict[tuple[str, str], bytes] = {}
    again: list[tuple[str, float, tuple[str, str], str]] = []
    digests: dict[tuple[str, str], str] = {}
    for path in sorted(JobDir(job).warcs.iterdir()):
        with path.open("rb") as stream:
            for record in ArchiveIterator(stream):
                get = record.rec_headers.get_header
                url, date, digest = (get(f"WARC-{name}") for name in ("Target-URI", "Date", "Payload-Digest"))
                if record.rec_type == "response" and "/p/" in url:
                    whole[url, date], digests[url, date] = record.content_stream().read(), digest
                elif record.rec_type == "revisit":
                    refers = get("WARC-Refers-To-Target-URI"), get("WARC-Refers-To-Date")
                    again.append((url, datetime.fromisoformat(date).timestamp(), refers, digest))
    fetches: defaultdict[int, list[Fetch]] = defaultdict(list)
    for fetch in web.fetches:
        fetches[fetch.page].append(fetch)
    wrong = sum(
        refers not in whole or digests[refers] != digest or whole[refers] not in _bodies(fetches[_page(url)], at, web)
        for url, at, refers, digest in again
    )
    return {"revisits": len(again), "replay_wrong": wrong}


def _bodies(fetches: list[Fetch], at: float, web: ChangingWeb) -> list[bytes]:
    """What a visit to a page that began at `at` may have found: of a server that lies, what it sent whole before."""
    if web.says[fetches[0].page] == Says.LYING:
        return [body(fetch.page, fetch.version) for fetch in fetches if fetch.status == 200]
    later = [fetch for fetch in fetches if fetch.at >= at - 0.01]
    return [body(fetch.page, fetch.version) for fetch in later[:1]]
