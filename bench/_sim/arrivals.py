"""BEAST's bound when URLs arrive in the worst order: all URLs of one site at once, and nothing after them.

The shipped queues and QF on disk. The naive scheme, one queue that is read again each time something may go on, is
counted beside them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drum import Batch, Catalog, Edits, SegmentPool, SegmentWriter

import numpy as np

from bench._sim.crawl import CountingFiles
from budgets import BudgetParams, Sites
from irlcrawl.base.job_files import turn_name

SITE = 0x9E3779B97F4A7C15
STEP_ROWS = 10_000


def one_site(path: Path, urls: int) -> dict[str, Any]:
    """What every step of draining `urls` URLs of a site without reputation found: the highest figures."""
    files = CountingFiles()
    catalog, pool = Catalog.open(path, files), SegmentPool(files, path)
    sites = Sites(catalog=catalog, pool=pool, params=BudgetParams(), ram_bytes=64 << 20)
    key = np.arange(1, urls + 1, dtype=np.uint64)
    sites.pend_urls(Batch({"key": key, "site": np.full(urls, SITE, np.uint64)}))
    lookups = rereads = 0.0
    drained = naive = steps = 0
    while drained < urls:
        edits, current, waiting = Edits(), sites.current, urls - drained
        writer = SegmentWriter(files, path / turn_name(steps))
        sites.merge(writer, edits, lambda rows: None)
        drained += sites.rotate(writer, edits, STEP_ROWS, lambda rows: None, lambda rows: None).rows
        writer.finish()
        catalog.commit(edits)
        pool.forget(catalog.collect())
        sites.check()
        naive += (sites.current - current) * waiting
        lookups = max(lookups, sites.lookups / sites.discovered)
        rereads = max(rereads, sites.rereads / sites.discovered)
        steps += 1
    catalog.close()
    return {
        "arrivals": "one site at once", "urls": urls, "queues": sites.current, "steps": steps,
        "lookups_per_url_max": round(lookups, 3), "rereads_per_url_max": round(rereads, 3),
        "naive_lookups_per_url": round(naive / urls),
    }  # fmt: skip
