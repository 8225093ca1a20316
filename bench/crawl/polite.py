"""`--polite`: thousands of hosts over https, one page at a time from each, as a crawl of the open web meets them.

docsweb serves its sets under 2,000 names, each a site of its own, on 500 addresses, with certificates of a local
authority that the crawl verifies, TLS sessions that may be resumed, and gzip. The host gap is 5 s, so 400 pages a
second are allowed; at that distance nearly every page needs a new connection. The address gap and the factor of the
last fetch's duration are the crawler's defaults. Servers and crawler share the cores. Every host starts at pages of its
own, drawn at random, as many as it may be asked for, and horizon and budget are so large that none of them is put off
behind links: mirrors that all start at their index go on in step, and ask for their largest pages by hundreds at once.
Links are found, checked and queued all the same. After `WARM_S` a steady window begins, and it ends with the crawl:

pages_per_s, pages_per_cpu_s   of the window, robots.txt aside; CPU of all the crawler's processes
utilisation                    exchanges over what gaps and durations allow (bench/crawl/achievable.py); goal 0.95
lease_wait_ms_p50, _p99        from the moment a request was due to its start
rss_bytes                      the most that all processes held
new_connections, resumed       shares of the pages that needed a handshake, and of these that resumed a session
floor_ratio                    CPU per page over `handshake_ms` (a full one, alone) + `saturated_ms` (per page of a
                               crawl of the same sets over http, without gaps, just before); goal 1.5
"""

from __future__ import annotations

import argparse
import random
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drum.files import Files

from bench.crawl import achievable, cores, handshake, ours, tree
from bench.crawl.achievable import Gaps
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.config.keys import Config
from irlcrawl.worker.archive.log_parts import read
from tools.docsweb import oracle, serve

HOST_GAP_S = 5.0
WARM_S = 40.0
END_S = 2.0  # before the end, when visits are no longer replaced
GRACE_S = 120.0
HORIZON_FACTOR = 10
SEED = 1
UTILISATION_GOAL = 0.95
FLOOR_GOAL = 1.5


def measure(directory: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Raises DocswebError, tree.CrawlFailed."""
    if options.seconds < WARM_S + END_S + HOST_GAP_S:
        raise tree.CrawlFailed(f"--seconds {options.seconds}: {WARM_S:.0f} s pass before anything is counted")
    share = cores.divided(options.cores or len(cores.available()))
    workers = options.workers or len(share.crawler)
    sets = options.sets or "p5"
    saturated, hosts = _saturated(directory, sets, workers, share.crawler, options.settings)
    mirrors = max(0, -(-options.hosts // hosts) - 1)
    with (
        tree.pinned(share.servers),
        serve.running(
            directory / "web", sets, mirrors=mirrors, addresses=options.addresses, https=True, sites=True
        ) as web,
    ):
        pages = int(options.seconds / HOST_GAP_S) + 1
        (web.directory / "seeds.txt").write_text("".join(url + "\n" for url in seeds(web, pages)))
        shaken = handshake.measure(web, tomllib.loads((web.directory / "crawl.toml").read_text())["fetch"])
        job = directory / "job"
        settings = {
            "politeness.gap_host_seconds": HOST_GAP_S,
            "politeness.horizon_seconds": HORIZON_FACTOR * options.seconds,
            "budgets.base": pages,
            "limits.seconds": options.seconds,
        }
        usage = ours.crawl(
            web, job, workers=workers, cores=share.crawler, seconds_max=options.seconds + GRACE_S, settings=settings,
            more=options.settings, codes=(ExitCode.TIME_LIMIT, ExitCode.DONE),
        )  # fmt: skip
        told = _window(web, job, usage, options.seconds)
    floor = shaken.full_ms + saturated
    told |= {
        "handshake_ms": round(shaken.full_ms, 2), "handshake_resumed_ms": round(shaken.resumed_ms, 2),
        "saturated_ms": round(saturated, 2), "page_ms": round(1000 / told["pages_per_cpu_s"], 2),
        "floor_ratio": round(1000 / told["pages_per_cpu_s"] / floor, 2), "workers": workers,
    }  # fmt: skip
    return [{"bench": "crawl-polite"} | told]


def _saturated(directory: Path, sets: str, workers: int, crawler: set[int], more: list[str]) -> tuple[float, int]:
    """CPU milliseconds a page of a crawl of the same sets over http, without gaps; and how many hosts that has."""
    with serve.running(directory / "web", sets) as web:
        job = directory / "saturated"
        usage = ours.crawl(web, job, workers=workers, cores=crawler, seconds_max=GRACE_S, more=more)
        return 1000 * usage.cpu_s / len(ours.pages_of(web.requests())), len(web.sets)


def seeds(web: serve.Web, pages: int, seed: int = SEED) -> Iterator[str]:
    """`pages` URLs of every host, or all it has, drawn at random; what is drawn is the same each time."""
    for served in web.sets:
        known = sorted(t for t, status in oracle.of_set(web, served).requested.items() if status == 200)
        for host in served.hosts:
            draw = random.Random(f"{seed} {host.name}")
            for target in draw.sample(known, min(pages, len(known))):
                yield f"{web.scheme}://{web.authority(host)}{target}"


def _window(web: serve.Web, job: Path, usage: tree.Usage, seconds: float) -> dict[str, Any]:
    """What the steady window shows."""
    defaults = Config().politeness
    gaps = Gaps(HOST_GAP_S, defaults.gap_host_factor, defaults.gap_address_seconds)
    hosts = {h.name: h.address for s in web.sets for h in s.hosts}
    requests = [r for r in web.requests() if r.host in hosts]
    began = min(r.start for r in requests)
    since, until = began + WARM_S, began + seconds - END_S
    pages = [r for r in ours.pages_of(requests) if since <= r.end < until]
    new = [r for r in pages if r.new_connection]
    cpu_s = usage.samples.cpu_at(until) - usage.samples.cpu_at(since)
    use = achievable.used(requests, hosts, since, until, gaps)
    log = read(Files(), str(JobDir(job).crawl_log))
    waits = achievable.lease_waits_ms(log, hosts, since, gaps)
    return {
        "hosts": len(hosts),
        "addresses": len(set(hosts.values())),
        "window_s": round(until - since, 1),
        "pages": len(pages),
        "pages_per_s": round(len(pages) / (until - since), 1),
        "pages_per_cpu_s": round(len(pages) / cpu_s, 1),
        "allowed_per_s": round(use.achievable / (until - since), 1),
        "utilisation": round(use.utilisation, 3),
        "lease_wait_ms_p50": achievable.percentile(waits, 0.5),
        "lease_wait_ms_p99": achievable.percentile(waits, 0.99),
        "fetch_ms_p50": round(1000 * achievable.percentile([achievable.took(r) for r in pages], 0.5), 1),
        "fetch_ms_p99": round(1000 * achievable.percentile([achievable.took(r) for r in pages], 0.99), 1),
        "new_connections": round(len(new) / len(pages), 3),
        "resumed": round(sum(r.resumed for r in new) / len(new), 3),
        "rss_bytes": usage.samples.peak_sum,
        "rss_frontier_bytes": usage.samples.peak_root,
        "frontier_cpu_share": round(usage.samples.root_share, 3),
        "pages_per_worker": ours.pages_per_worker(job),
    }


def words(lines: list[dict[str, Any]]) -> str:
    goals = {"utilisation": f" (goal {UTILISATION_GOAL})", "floor_ratio": f" (goal {FLOOR_GOAL})"}
    return "\n".join(f"{name}: {value}{goals.get(name, '')}" for name, value in lines[0].items())
