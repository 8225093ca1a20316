"""One crawl of docsweb and its mirrors at full speed: what `python -m bench crawl` does without --peers or --polite."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bench.crawl import cores, ours, tree
from tools.docsweb import oracle, serve

PAGES = 50_000
SECONDS_MAX = 3600.0


def measure(directory: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Raises DocswebError, tree.CrawlFailed."""
    sets, pages = options.sets or "all", options.pages or PAGES
    share = cores.divided(options.cores)
    workers = options.workers or len(share.crawler)
    with serve.running(directory / "web", sets) as web:
        copies = -(-pages // len(oracle.expected(web)))
    with tree.pinned(share.servers), serve.running(directory / "web", sets, mirrors=copies - 1) as web:
        oracle.expected(web)  # before the clock starts
        job = directory / "job"
        usage = ours.crawl(
            web, job, workers=workers, cores=share.crawler, seconds_max=SECONDS_MAX, more=options.settings
        )
        told = ours.report(web, web.requests(), usage, job)
    place = f"shared, {len(share.crawler)}" if options.cores else f"crawler {len(share.crawler)}, servers 1"
    return [{"bench": "crawl", "cores": place, "workers": workers, **told}]


def words(lines: list[dict[str, Any]]) -> str:
    return "\n".join(f"{name}: {value}" for name, value in lines[0].items())
