"""The state on disk, read beside a crawl that may be running: for `urls`, `why`, `report` and `fsck`.

A reading takes the catalogue as of now, and opens every file that it names before it answers anything. A running crawl
may delete them meanwhile, but open files stay readable, so a reading is one consistent moment of the crawl. Everything
is read forward, in constant memory; a look-up by key costs a few blocks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from typing import Any

from drum import Batch, Catalog, Damaged, Fifo, Files, SegmentPool
from drum.catalog import MISSING
from drum.sectors import Sectors

from budgets import outlet
from budgets.deferred import Deferred
from irlcrawl.base.job import JobDir
from irlcrawl.base.keys import origin_of
from irlcrawl.base.rows import LINK
from irlcrawl.config.keys import Config, ConfigError
from irlcrawl.config.overrides import Overrides
from irlcrawl.config.toml import load_stored
from irlcrawl.frontier.politeness.clocks import Clocks
from irlcrawl.frontier.state import formats
from irlcrawl.frontier.state.clock_set import clock_set
from irlcrawl.frontier.state.hosts import OPS_OF_URLS, keyed_by_url
from irlcrawl.frontier.state.lease_log import LeaseLog
from irlcrawl.frontier.state.sections import SectionList
from irlcrawl.frontier.state.start_checks import check_state_there
from irlcrawl.frontier.state.stores import budget_floors, open_stores
from irlcrawl.web.scope import Scope

ATTEMPTS_MAX = 1000
"""How many commits may come between the reading of the catalogue and of its files."""
OPEN_MAX = 1 << 16
RAM_BYTES = 64 << 20

PLACES = ("ready", "scheduled", "resting", "visited", "queued", "over_budget", "moving")
"""Where a URL that is not done may be, as people are told: in a run, to be leased; in the calendar, until its host may
take it; among the rests, after a failure; a page between two visits; in a numbered queue; beyond its site's budget
(QF); between two passes."""
TO_FETCH = tuple(place for place in PLACES if place != "visited")
"""Where URLs are that were never fetched."""


class Reading:
    """One moment of a crawl; open it with `Reading.open`."""

    def __init__(self, job: JobDir, config: Config, catalog: Catalog, pool: SegmentPool) -> None:
        self.job, self.config, self.catalog, self.pool = job, config, catalog, pool
        self.files = pool.files
        identity: dict[str, Any] = catalog.get("crawl") or {}
        self.begun = bool(identity)
        """Whether the crawl has committed anything."""
        self.seed: int = identity.get("seed", 0)
        try:
            floors = budget_floors(config)
        except ConfigError:  # the list is gone: what can be asked without it is answered
            floors = Overrides(config.site).budget_min_by_site()
        self.stores = open_stores(catalog, pool, config, RAM_BYTES, floors)
        self.seen, self.sites, self.hosts = self.stores.seen, self.stores.sites, self.stores.hosts
        self.calendar, self.rests, self.runs = self.stores.calendar, self.stores.rests, self.stores.runs
        self.pages, self.known, self.near = self.stores.pages, self.stores.known, self.stores.near
        self.queues = Fifo("queues", catalog, pool, label="queue")
        self.deferred = Deferred(catalog, pool)

    @classmethod
    def open(cls, job: JobDir, files: Files | None = None) -> Reading | None:
        """A reading; None before the first commit. JobDamaged, UnknownVersion, Damaged, OSError."""
        try:
            catalog, pool = _open(job, files or Sectors())
        except FileNotFoundError:
            check_state_there(job, files or Files())
            return None  # no catalogue yet
        return cls(job, load_stored(job.config_file), catalog, pool)

    def waiting(self, places: Collection[str] = PLACES) -> Iterator[tuple[str, Batch]]:
        """(place, LINK rows) of every URL that is not done, block by block, in some of the PLACES. Rows of the
        calendar, of rests and of pages that rest have `due` too (unix seconds), those of queues `queue`; those of pages
        that were visited PAGE."""
        scans: dict[str, Callable[[], Iterator[Batch]]] = {
            "ready": self.runs.waiting, "scheduled": self.calendar.scan, "resting": self.rests.scan,
            "visited": self.pages.scan, "queued": self.queues.scan, "over_budget": self._deferred,
            "moving": self._moving,
        }  # fmt: skip
        for place in PLACES:
            if place in places:
                for batch in scans[place]():
                    yield place, batch

    def _deferred(self) -> Iterator[Batch]:
        for batch in self.deferred.scan():
            yield outlet.keyed_by_url(batch).select(LINK)

    def _moving(self) -> Iterator[Batch]:
        for batch in self.sites.pending_urls():
            yield batch.select(LINK)
        for op, batch in self.hosts.scan_pending():
            if op in OPS_OF_URLS:
                yield keyed_by_url(batch)

    @property
    def clock_set(self) -> float:
        """Seconds between unix time and the clock by which dates rest (clock_set.py)."""
        return clock_set(self.catalog)

    def scope(self) -> Scope:
        """The crawl's scope as committed."""
        entries = SectionList("scope", self.catalog, self.pool)
        return Scope(
            self.config.scope, self.config.site, [e for batch in entries.batches() for e in batch["entry"].tolist()]
        )

    def clocks(self, now: float) -> Clocks:
        """The clocks as a crawl that is opened now would have them."""
        clocks = Clocks()
        clocks.load(SectionList("clocks", self.catalog, self.pool).batches(), now, self.clock_set)
        promises = LeaseLog.read(self.files, self.job.leases).promises
        clocks.open(now, promises, rebooted=False)
        return clocks


def queued(
    job: JobDir, files: Files | None = None, places: Collection[str] = TO_FETCH
) -> Iterator[tuple[bytes, bytes, str]]:
    """(url, origin, place) of every URL in some of the PLACES; nothing before the first commit. Damaged, OSError."""
    reading = Reading.open(job, files)
    if reading is None or not reading.begun:
        return
    for place, batch in reading.waiting(places):
        for url in batch["url"].tolist():
            yield url, origin_of(url), place


def _open(job: JobDir, files: Files) -> tuple[Catalog, SegmentPool]:
    """The catalogue, and a pool in which every file that it names is open. What is open already stays so when a commit
    comes between, so the next attempt has only the files of that commit to open."""
    pool = SegmentPool(files, job.state, OPEN_MAX)
    before: Catalog | None = None
    for _ in range(ATTEMPTS_MAX):
        catalog = formats.look(job.state, files)
        if before is not None:
            pool.forget(set(before.live_files()).difference(catalog.live_files()))
        for file in catalog.live_files():
            try:
                pool.segment(file)
            except FileNotFoundError:
                missing = file
                break
        else:
            return catalog, pool
        if before is not None and before.number == catalog.number:
            break
        before = catalog
    raise Damaged(os.path.join(job.state, missing), 0, MISSING)
