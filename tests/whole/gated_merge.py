"""`python gated_merge.py FIFO ARGUMENT…`: irlcrawl with these arguments, whose drum `seen` has small buckets.

When it has merged the first of many buckets it waits until the crawl was told to stop. A byte in FIFO says that it
waits, and one more comes for every bucket that is merged after that.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from drum import MergeStats, Repository

from irlcrawl.cli.main import main
from irlcrawl.crawl.loop import CrawlLoop

BUCKETS_LEAST = 8
SECONDS_MAX = 60.0

told = os.open(sys.argv[1], os.O_WRONLY)
told_to_stop, waited = threading.Event(), threading.Event()
merge, stop = Repository.merge, CrawlLoop.stop


def gated(drum: Repository, *args: Any, **known: Any) -> MergeStats:
    """Repository.merge; a turn of the crawl calls it once for each bucket of `seen`."""
    if drum.name != "seen":
        return merge(drum, *args, **known)
    if waited.is_set():
        os.write(told, b".")
    drum.ram_bytes = 256
    many = len(drum.buckets) >= BUCKETS_LEAST
    stats = merge(drum, *args, **known)
    if many and drum.pending_rows and not waited.is_set():
        waited.set()
        os.write(told, b".")
        told_to_stop.wait(SECONDS_MAX)
    return stats


def stopped(loop: CrawlLoop, *args: Any) -> None:
    """CrawlLoop.stop"""
    stop(loop, *args)
    told_to_stop.set()


if __name__ == "__main__":
    Repository.merge = gated  # type: ignore[method-assign]
    CrawlLoop.stop = stopped  # type: ignore[method-assign]
    sys.exit(main(sys.argv[2:]))
