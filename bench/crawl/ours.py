"""irlcrawl itself, as every measurement here runs it: the real command line, all its features on.

On are robots.txt, canonicalisation, the seen-check on disk, budgets, gzip WARC, the crawl log and commits; every gap is
zero unless a measurement says otherwise. `[page]` is as it comes: no page of docsweb has more links than
`page.links_max`, so that recall is the oracle's all the same.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drum.files import Files

from bench.crawl import tree
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.config.keys import section_keys
from irlcrawl.worker.archive.log_parts import read
from irlcrawl.worker.fetch.worker import NAME
from tools.docsweb import audit, oracle, serve

FEATURES = "robots, canonicalisation, seen-check on disk, budgets, names, gzip WARC, crawl log, commits"
AGENT = "irlcrawl-bench/1.0 (+https://bench.test/; bench@bench.test)"
SETTINGS: dict[str, object] = {
    "crawl.user_agent": AGENT, "politeness.machine_clocks": "",  # whatever else is crawled on this machine
}  # fmt: skip
NO_GAPS: dict[str, object] = {
    "politeness.gap_host_seconds": 0,
    "politeness.gap_host_factor": 0,
    "politeness.gap_address_seconds": 0,
}


def command(web: serve.Web, job: Path, workers: int, settings: Mapping[str, object], more: Sequence[str]) -> list[str]:
    """The crawl of a whole web. `more`: key=value settings as a person gives them; they win."""
    words = [sys.executable, "-m", "irlcrawl", "crawl", str(job), "--seeds", str(web.directory / "seeds.txt")]
    words += ["--config", str(web.directory / "crawl.toml")]
    keys = SETTINGS | dict(settings) | {"crawl.workers": workers}
    return words + [word for text in [*(f"{k}={v}" for k, v in keys.items()), *more] for word in ("-s", text)]


def crawl(
    web: serve.Web,
    job: Path,
    *,
    workers: int,
    cores: set[int],
    seconds_max: float,
    settings: Mapping[str, object] = NO_GAPS,
    more: Sequence[str] = (),
    codes: Sequence[int] = (ExitCode.DONE,),
) -> tree.Usage:
    """One crawl. Raises tree.CrawlFailed."""
    words = command(web, job, workers, settings, more)
    return tree.run(
        words, job.with_suffix(".out"), cores=cores, seconds_max=seconds_max, is_worker=is_worker, codes=codes
    )


def is_worker(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_bytes().rstrip(b"\n") == NAME
    except (FileNotFoundError, ProcessLookupError):
        return False


def clients() -> list[tuple[str, list[str]]]:
    """(what to call it, settings) for each HTTP client the configuration offers; the one in use by default first."""
    for key in section_keys("fetch").values():
        if "aiohttp" in key.choices:
            others = [choice for choice in key.choices if choice != key.default]
            return [("irlcrawl", []), *((f"irlcrawl, {name}", [f"{key.path}={name}"]) for name in others)]
    return [("irlcrawl", [])]


def pages_per_worker(job: Path) -> list[int]:
    """Requests that each fetch worker made, robots.txt aside, as the crawl log says; the most first."""
    log = read(Files(), str(JobDir(job).crawl_log))
    counts = Counter(e.stream for e in log if e.start_ms is not None and e.outcome != "none")
    return sorted(counts.values(), reverse=True)


def imbalance(pages: Sequence[int]) -> float:
    """How much more the busiest worker did than the mean."""
    return max(pages) * len(pages) / sum(pages) - 1 if sum(pages) else 0.0


def pages_of(requests: Sequence[audit.Request]) -> list[audit.Request]:
    """What counts as a page: any exchange but robots.txt, and but those nginx could not read."""
    return [r for r in requests if r.uri != "/robots.txt" and (r.host, r.status) != audit.NOBODY]


def report(web: serve.Web, requests: Sequence[audit.Request], usage: tree.Usage, job: Path) -> dict[str, Any]:
    """One crawl of a whole web in numbers."""
    told = audit.report(requests, oracle.expected(web), oracle.disallowed(web))
    for fault in ("missing", "unexpected", "repeated", "disallowed"):
        for url in told[fault]:
            print(f"bench crawl: {fault}: {url}", file=sys.stderr)
    pages, samples = pages_of(requests), usage.samples
    per_worker = pages_per_worker(job)
    return {
        "pages": len({r.url for r in pages}),
        "pages_per_s": round(len(pages) / usage.seconds, 1),
        "pages_per_cpu_s": round(len(pages) / usage.cpu_s, 1),
        "peak_rss_bytes": samples.peak_sum,
        "peak_rss_frontier_bytes": samples.peak_root,
        "peak_rss_worker_bytes": sorted(samples.peaks.values(), reverse=True),
        "worker_rss_bytes_by_quarter": [
            samples.worker_bytes_at(pages[len(pages) * n // 4 - 1].end) for n in (1, 2, 3, 4)
        ],
        "pages_per_worker": per_worker,
        "imbalance": round(imbalance(per_worker), 3),
        "frontier_cpu_share": round(samples.root_share, 3),
        "recall": told["recall"],
        "repeated": len(told["repeated"]),
        "unexpected": len(told["unexpected"]),
        "disallowed": len(told["disallowed"]),
        "seconds": round(usage.seconds, 1),
        "cpu_s": round(usage.cpu_s, 1),
        "hosts": sum(len(s.hosts) for s in web.sets),
        "missing_sets": sorted(web.missing),
    }
