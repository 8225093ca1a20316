"""What waits in a crawl, URL by URL, read from disk beside a crawl that may be running (or not).

Reads the catalogue as of now and opens every file it names before the first URL is told: a running crawl may delete
them meanwhile, but what is open stays readable, so the listing is one consistent moment of the crawl.
"""

from __future__ import annotations

from collections.abc import Iterator

from budgets.deferred import Deferred
from drum import Batch, Catalog, Damaged, Fifo, Files, SegmentPool
from irlcrawl.frontier.runs import Runs
from irlcrawl.job import JobDir
from irlcrawl.rows import origin_of

ATTEMPTS = 5
OPEN_MAX = 1 << 16


def queued(job: JobDir) -> Iterator[tuple[bytes, bytes, str]]:
    """(url, origin, where) of every URL that is not done; `where` is one of runs, calendar, queues, deferred.

    Nothing before the first commit. Constant memory. Damaged, OSError.
    """
    try:
        catalog, pool = _open(job)
    except FileNotFoundError:
        return  # no catalogue yet
    places: list[tuple[str, Iterator[Batch]]] = [
        ("runs", Runs(catalog, pool).waiting()),
        ("calendar", Fifo("calendar", catalog, pool, label="due").scan()),
        ("queues", Fifo("queues", catalog, pool, label="queue").scan()),
        ("deferred", Deferred(catalog, pool).scan()),
    ]
    for where, batches in places:
        for batch in batches:
            for url in batch["url"].tolist():
                yield url, origin_of(url), where


def _open(job: JobDir) -> tuple[Catalog, SegmentPool]:
    """The catalogue and a pool that holds every file it names open."""
    for _ in range(ATTEMPTS):
        catalog = Catalog.open(job.state, readonly=True)
        pool = SegmentPool(Files(), catalog.root, OPEN_MAX)
        try:
            for file in catalog.live_files():
                pool.segment(file)
            return catalog, pool
        except FileNotFoundError:
            continue  # a commit came between: take the newer catalogue
    raise Damaged(job.state, 0, "files that the catalogue names are missing")
