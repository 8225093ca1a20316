"""Everything a crawl has on disk, opened: the catalogue, the drums, queues, runs, calendar, rests, ledger and
crawl log.

Opening it is recovery's first half (the second, archives and harvests, is recovery.py). Between turns it belongs to the
loop; during a turn to the turn's thread, but for the catalogue (crawl/turns.py: who owns what).
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

from drum import Batch, Catalog, Edits, Files, Holder, Repository, SegmentPool, SegmentWriter
from drum.sectors import Sectors

import numpy as np
from numpy.typing import NDArray

from budgets import Ledger
from irlcrawl.base.clock import Clock
from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import SEEDS_STREAM, harvest_name, turn_name
from irlcrawl.base.reasons import CLASS_OF, CRAWL_LOG_STATUS, Class, Reason
from irlcrawl.config.keys import NO_LIMIT, Config
from irlcrawl.frontier.state import formats
from irlcrawl.frontier.state.clock_set import CLOCK_STEP_S_MIN, NOTED_MAX, clock_set, note_clock_set, set_since
from irlcrawl.frontier.state.hosts import STANDINGS
from irlcrawl.frontier.state.latency import Latency
from irlcrawl.frontier.state.lease_log import boot_id
from irlcrawl.frontier.state.novelty import Novelty
from irlcrawl.frontier.state.sections import ClockLog, CrawlLog, ScopeLog
from irlcrawl.frontier.state.start_checks import check_opened, check_state_there, given, stored_config
from irlcrawl.frontier.state.stores import budget_floors, open_stores
from irlcrawl.revisit.price import first_price
from irlcrawl.web.scope import Scope
from irlcrawl.worker.archive.crawl_log import LOGGED, Decision, decided_lines
from irlcrawl.worker.harvest.counters import COUNTERS

LONG_MERGE_S = 1.0
REST_FACTOR = 10.0  # what took long rests so many times as long: a merge here, a turn in crawl/schedule.py
TOOK_S_MAX = 60.0  # so much of it counts: this process may have been stopped meanwhile, or the machine asleep
OPEN_FILES_MAX = 128
EARLY_ROWS = 16
OF_SITES = ("hours", "time_zone", "gap_host_seconds", "bytes_per_second")
PROMISED = ("unit", "backoff_seconds", "retry_after_max_seconds", "shared_addresses")

_log = logging.getLogger("irlcrawl.crawl")


class Pace:
    """When a drum may be merged: a merge that took over a second rests ten times as long, unless nothing is ready."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: dict[str, tuple[float, float]] = {}  # name -> (end, duration)

    def may(self, name: str, urgent: bool) -> bool:
        end, duration = self._last.get(name, (0.0, 0.0))
        return urgent or duration <= LONG_MERGE_S or self._clock.now() >= end + REST_FACTOR * duration

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self._last[name] = (self._clock.now(), min(time.perf_counter() - began, TOOK_S_MAX))


def note_start(catalog: Catalog, edits: Edits, config: Config, clock: Clock, boot: str) -> None:
    """What an audit of a crawl (politeness_audit.py) has to know of the run that begins: what it promises to hosts,
    and which time its clock has, if either is not as before. Requests of a run are those of its streams. The first
    ones are forgotten when there are very many."""
    stream = catalog.get("stream-next", SEEDS_STREAM + 1)
    clocks: list[tuple[int, str, float]] = catalog.get("clock-anchors", [])
    anchor = clock.now() - clock.since_boot()
    if not clocks or clocks[-1][1] != boot or abs(clocks[-1][2] - anchor) >= CLOCK_STEP_S_MIN:
        note_clock_set(catalog, edits, clock, boot, stream)
        edits.set("clock-anchors", [*clocks[1 - NOTED_MAX :], (stream, boot, anchor)])
    known: list[dict[str, Any]] = catalog.get("promises", [])
    politeness = {name: value for name, value in vars(config.politeness).items() if "gap" in name or name in PROMISED}
    gaps = {name: site.gap_host_seconds for name, site in config.site.items() if site.gap_host_seconds is not None}
    promised = {"politeness": politeness, "sites": gaps}
    if not known or known[-1]["promised"] != promised:
        edits.set("promises", [*known[1 - NOTED_MAX :], {"from": clock.now(), "stream": stream, "promised": promised}])


def scheduled_by(config: Config) -> str:
    """A digest of all by which a turn decides until when a URL waits in the calendar."""
    sites = {name: [getattr(site, key) for key in OF_SITES] for name, site in config.site.items()}
    values = [vars(config.politeness), {name: set_ for name, set_ in sites.items() if set_ != [None] * len(OF_SITES)}]
    return blake2b(json.dumps(values, sort_keys=True).encode(), digest_size=16).hexdigest()


def pauses_of(config: Config, known: dict[str, Any] | None) -> dict[str, Any]:
    """What is paused: `*` (all) or the name of a [site] section -> by whom and since when, if that is `known`."""
    names = ["*"] * config.crawl.pause + [name for name, site in config.site.items() if site.pause]
    return {name: (known or {}).get(name, {"by": None, "since": None}) for name in names}


class CrawlState:
    """Open with `CrawlState.open`; JOB's lock must be held."""

    def __init__(self, job: JobDir, config: Config, clock: Clock, files: Files, catalog: Catalog) -> None:
        self.job, self.config, self.clock, self.files, self.catalog = job, config, clock, files, catalog
        self.dir = str(job.state)
        self.pool = SegmentPool(files, self.dir, OPEN_FILES_MAX)
        identity = catalog.get("crawl")
        self.seed: int = identity["seed"]
        self.crawl_id: str = identity["id"]
        ram = (
            config.crawl.ram_bytes // 4
        )  # a drum, of those that are merged one at a time, and the batches between them
        self.stores = open_stores(catalog, self.pool, config, ram, budget_floors(config))
        self.seen, self.sites, self.hosts = self.stores.seen, self.stores.sites, self.stores.hosts
        self.calendar, self.rests, self.runs = self.stores.calendar, self.stores.rests, self.stores.runs
        self.pages, self.known, self.near = self.stores.pages, self.stores.known, self.stores.near
        self.price: float = catalog.get("price", first_price(1 / config.revisit.first_rate_days))
        """What a visit to a page has to be worth (irlcrawl/revisit/price.py)."""
        self.worth_new = 0.0
        """What the first fetch of a URL is worth, by those that turns brought; 0 as long as none did."""
        self.early = EARLY_ROWS
        """How many pages a turn takes before their dues."""
        self.clock_log = ClockLog(catalog, self.pool)
        self.pace = Pace(clock)
        self.latency = Latency()
        self.novelty = Novelty()
        self.scope_log = ScopeLog(catalog, self.pool)
        self.scope = Scope(config.scope, config.site, self.scope_log.entries())
        saved = catalog.get("ledger")
        self.ledger = Ledger.from_json(saved) if saved else Ledger()
        self.counters: dict[str, Any] = dict(catalog.get("counters", {}))
        self.streams: dict[int, dict[str, Any]] = {int(k.split("/")[1]): v for k, v in catalog.items("streams/")}
        self.ingests: int = catalog.get("ingests", 0)
        self.edited: list[str] = []
        """What was changed in irlcrawl.toml by hand since the last run."""
        self.given: list[str] = []
        """What the start that opened this changed besides: options, and the end of a pause."""
        self.log = CrawlLog(files, str(job.crawl_log), catalog.get("log", {}), config.archive.log_roll_bytes)
        self._scheduled: dict[str, Any] = catalog.get("scheduled", {})
        self.calendar.again = self._scheduled.get("again", 0)
        self._scheduled_by = scheduled_by(config)

    @classmethod
    def open(
        cls, job: JobDir, config: Config, clock: Clock, files: Files | None = None,
        write_config: Callable[[], None] = lambda: None,
    ) -> CrawlState:  # fmt: skip
        """Open or create JOB/state. write_config() puts `config` into JOB, once, when nothing speaks against the start
        any more. UnknownVersion, Damaged, OSError."""
        files = files or Sectors()
        begun = check_state_there(job, files)
        edited = stored_config(job, files)
        if not begun:
            write_config()  # a catalogue without a configuration is no crawl
        catalog = Catalog.open(job.state, files)
        edits = Edits()
        changed = check_opened(job, files, catalog, edited, begun)
        for change in changed:
            _log.warning("%s was edited since the last run: %s", job.config_file.name, change)
        if catalog.get("crawl") is None:
            edits.set("crawl", formats.identity(secrets.token_hex(8), secrets.randbits(63), clock.now()))
            edits.set(f"streams/{SEEDS_STREAM}", {"next": 0, "warc": [0, 0]})
            edits.set("stream-next", SEEDS_STREAM + 1)
            edits.set("scheduled", {"by": scheduled_by(config), "again": 0})
            note_start(catalog, edits, config, clock, boot_id(files))
            catalog.commit(edits)
        state = cls(job, config, clock, files, catalog)
        state.edited = changed
        if begun:
            state.given = given(edited, config)
            write_config()
        edits = Edits()  # only now that everything could be opened
        note_start(catalog, edits, config, clock, boot_id(files))
        if (text := stored_config(job, files)) not in (None, catalog.get("config")):
            edits.set("config", text)
        if (pauses := pauses_of(config, known := catalog.get("pauses"))) != (known or {}):
            edits.set("pauses", pauses)
        if state._scheduled.get("by") != state._scheduled_by:
            state.calendar.look_again()
        state.note_scheduled(edits)
        if edits:
            catalog.commit(edits)
        return state

    def note_scheduled(self, edits: Edits) -> None:
        """By what the dues of the calendar were reckoned, and how far turns are that look again at those of a run with
        other gaps or hours: such URLs would wait for a date that nobody wants any more."""
        now = {"by": self._scheduled_by, "again": self.calendar.again}
        if now != self._scheduled:
            self._scheduled = now
            edits.set("scheduled", now)

    # -- what turns use --------------------------------------------------------------------------------------------

    def new_segment(self) -> SegmentWriter:
        """The file of the next commit, begun."""
        return SegmentWriter(self.files, self.turn_file())

    def turn_file(self) -> str:
        """The path of the file of a turn that begins now: the turn's commit is the next one, or a later one where
        streams are begun meanwhile."""
        return os.path.join(self.dir, turn_name(self.catalog.number + 1))

    @property
    def holders(self) -> list[Holder]:
        """Whatever names sections in the catalogue (drum.vacuum)."""
        return [
            self.seen, *self.sites.holders, self.hosts, self.calendar.holder, self.rests.holder, self.runs,
            *(store.holder for store in (*self.pages.stores, *self.pages.left)), self.known,
            self.clock_log.list, self.scope_log.list, *self.near.holders,
        ]  # fmt: skip

    @property
    def clock_set(self) -> float:
        """Seconds between unix time and the clock by which dates rest (clock_set.py)."""
        return clock_set(self.catalog)

    def set_since(self, harvest: str) -> float:
        """Seconds by which the system's clock was set forward since the run that wrote a harvest."""
        return set_since(self.catalog, self.pool.section(harvest, "outcomes").meta["stream"])

    def take_note(self, edits: Edits, meta: dict[str, Any]) -> None:
        """Of a harvest that was ingested: its stream's position, its counters."""
        stream = meta["stream"]
        self.streams[stream] = {**self.streams.get(stream, {}), "next": meta["number"] + 1, "warc": meta["warc"]}
        edits.set(f"streams/{stream}", self.streams[stream])
        for name in COUNTERS:
            self.count(name, meta["counters"].get(name, 0))

    def count(self, name: str, more: int) -> None:
        self.counters[name] = self.counters.get(name, 0) + more

    def count_standings(self, moved: NDArray[np.int64]) -> None:
        """So many more hosts in the drum have each of STANDINGS."""
        told = self.counters.setdefault("hosts_resting", {})
        for name, more in zip(STANDINGS, moved.tolist(), strict=True):
            if more:
                told[name] = told.get(name, 0) + more
                if not told[name]:
                    del told[name]

    def count_done(self, classes: NDArray[np.uint8], reasons: NDArray[np.uint8], times: int = 1) -> None:
        """Outcomes of URLs that are in the ledger, as Class and Reason columns; times -1: of URLs that are put back."""
        for cls, reason in set(zip(classes.tolist(), reasons.tolist(), strict=True)):
            rows = times * int(((classes == cls) & (reasons == reason)).sum())
            name = Reason(reason).name.lower()
            if cls == Class.FETCHED:
                self.ledger.fetched += rows
                self.ledger.visits += rows
            elif cls == Class.FAILED:
                self.ledger.failed += rows
            elif cls == Class.EXCLUDED:
                self.ledger.exclude(name, rows)
            told = self.counters.setdefault(Class(cls).name.lower() + "_by_reason", {})
            told[name] = told.get(name, 0) + rows
            if not told[name]:
                del told[name]

    def log_lines(self, rows: Batch, reasons: list[Reason], now: float) -> list[bytes]:
        """Crawl log lines of URLs that are done without a request, or of pages that are visited no more."""
        visits = rows["visits"].tolist() if "visits" in rows else [0] * rows.rows
        facts = zip(reasons, visits, *(rows[name].tolist() for name in LOGGED), strict=True)
        decisions = (
            Decision(CLASS_OF[reason], reason, CRAWL_LOG_STATUS[reason], *fact)._replace(visit=visit)
            for reason, visit, *fact in facts
        )
        return decided_lines(rows["url"].tolist(), decisions, now)

    def returned_lines(self, rows: Batch, now: float) -> list[bytes]:
        """Crawl log lines of URLs that are put back (RETURN)."""
        columns = (rows[name].tolist() for name in ("reason", "status", "depth", "hop", "source", "via", "cls"))
        decisions = (
            Decision(Class.RETURNED, reason, status, depth, hop, source, via=via, was=was)
            for reason, status, depth, hop, source, via, was in zip(*columns, strict=True)
        )
        return decided_lines(rows["url"].tolist(), decisions, now)

    def live(self) -> dict[str, int]:
        """URLs that are not done for good, by where they are (I1); leased ones are among those in runs."""
        return self.stores.live()

    @property
    def is_new(self) -> bool:
        """Whether it never had any seeds, not even such as no turn has taken yet."""
        seeds = harvest_name(SEEDS_STREAM, self.streams[SEEDS_STREAM]["next"])
        taken = self.ingests or self.ledger.discovered or self.files.exists(os.path.join(self.dir, seeds))
        return not taken

    @property
    def waiting(self) -> int:
        """URLs discovered and not done, pages that rest left out, and harvest rows nobody has looked at."""
        return sum(self.live().values()) - self.pages.rows + self.seen.pending_rows

    @property
    def drums(self) -> list[Repository]:
        return [self.seen, *self.sites.drums, self.hosts, self.known, self.near.drum]

    @property
    def merge_bytes(self) -> int:
        """About how many bytes the largest pending merge may write."""
        return max(drum.merge_bytes() for drum in self.drums)

    @property
    def frontier_bytes(self) -> int:
        """Bytes on disk of the URLs that wait: queues, QF, calendar, rests and runs."""
        return self.sites.nbytes + self.calendar.nbytes + self.rests.nbytes + self.runs.nbytes

    @property
    def frontier_rows(self) -> int:
        live = self.live()
        return sum(live.values()) - live["pending"] - live["resting"]

    @property
    def room_bytes(self) -> int:
        """Until frontier.bytes_max; less than 0: the frontier is full."""
        most = self.config.frontier.bytes_max
        return most - self.frontier_bytes if most else NO_LIMIT

    @property
    def delayed(self) -> bool:
        """Links that were harvested stay where they are, until there is room."""
        return self.config.frontier.when_full == "delay" and self.room_bytes < 0

    def save(self, edits: Edits) -> None:
        edits.set("ledger", self.ledger.to_json())
        if self.config.revisit.enabled:
            edits.set("price", self.price)
        edits.set("counters", self.counters)
        edits.set("ingests", self.ingests)
        edits.set("log", self.log.entry())

    def delete_unnamed(self, files: Iterable[str]) -> None:
        """After a commit: delete what lost its name with it, and those of `files` that it did not name."""
        self.pool.forget(self.catalog.collect(written=files))

    def close(self) -> None:
        self.log.close()
        self.pool.close()
        self.catalog.close()
