"""Everything a crawl has on disk, opened: the catalogue, the four drums, queues, runs, calendar, ledger and crawl log.

Opening it is recovery's first half (the second, archives and harvests, is recovery.py). Between turns nobody changes
it; during a turn it belongs to the turn's thread, except `runs.read` and the gauges, which any thread may use.
"""

from __future__ import annotations

import os
import secrets
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgets import BudgetParams, Ledger, Sites, Worth
from drum import Batch, Catalog, Damaged, Edits, Files, Holder, Repository, SegmentPool, SegmentWriter
from drum.sectors import Sectors
from irlcrawl.base.clock import Clock
from irlcrawl.base.job import JobDir
from irlcrawl.base.reasons import CLASS_OF, CRAWL_LOG_STATUS, Class, Reason
from irlcrawl.config.keys import NO_LIMIT, Config
from irlcrawl.config.overrides import Overrides
from irlcrawl.frontier.state import formats
from irlcrawl.frontier.state.calendar import Calendar
from irlcrawl.frontier.state.clock_set import CLOCK_STEP_S_MIN, NOTED_MAX, clock_set, note_clock_set, set_since
from irlcrawl.frontier.state.hosts import OP_AGAIN, OP_NEW, RECORD
from irlcrawl.frontier.state.lease_log import boot_id
from irlcrawl.frontier.state.runs import Runs
from irlcrawl.frontier.state.sections import ClockLog, CrawlLog, ScopeLog
from irlcrawl.web.scope import Scope
from irlcrawl.worker.archive.crawl_log import LOGGED, Decision, decided_lines
from irlcrawl.worker.archive.log_parts import log_files
from irlcrawl.worker.archive.warc import warc_files
from irlcrawl.worker.harvest.builder import harvest_name
from irlcrawl.worker.harvest.counters import COUNTERS

SEEDS_STREAM = 0
LONG_MERGE_S = 1.0
REST_FACTOR = 10.0  # what took long rests so many times as long: a merge here, a turn in crawl/schedule.py
TOOK_S_MAX = 60.0  # so much of it counts: this process may have been stopped meanwhile, or the machine asleep
OPEN_FILES_MAX = 128
PROMISED = ("backoff_seconds", "retry_after_max_seconds", "shared_addresses")
COPY_WROTE = (
    "of a stream that this crawl has not begun: a copy of it wrote here, or its catalogue is older. Move the archive "
    "out of this directory, or let `fsck --repair` take in what is in it"
)
STATE_GONE = "no catalogue, though there are outcomes: the state is gone"


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


def open_sites(catalog: Catalog, pool: SegmentPool, config: Config, ram_bytes: int) -> Sites:
    """The budgets, as the configuration has them."""
    budgets = config.budgets
    return Sites(
        catalog=catalog,
        pool=pool,
        params=BudgetParams(budgets.base, budgets.top_sites, budgets.top_budget, budgets.curve),
        ram_bytes=ram_bytes,
        site_pages_max=config.limits.pages_per_site,
        site_limits=Overrides(config.site).pages_max_by_site(),
        worth=Worth(
            weight=budgets.yield_weight,
            unsupported=budgets.unsupported,
            seed_floor=budgets.seed_floor,
            hops=budgets.hops,
            nearness=budgets.home_nearness,
            floors=Overrides(config.site).budget_min_by_site(),
        ),
        ordered=True,
    )


def note_start(catalog: Catalog, edits: Edits, config: Config, clock: Clock, boot: str) -> None:
    """What those who audit a crawl have to know of the run that begins (watch/gapaudit.py): what it promises to hosts,
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


def has_outcomes(job: JobDir, files: Files) -> bool:
    """Whether archives or a crawl log show that a crawl was here."""
    if files.exists(job.warcs) and warc_files(files, str(job.warcs)):
        return True
    return files.exists(job.logs) and any(files.size(path) for path in log_files(files, str(job.crawl_log)))


def check_state_there(job: JobDir, files: Files) -> bool:
    """Whether there is a catalogue. Damaged when there is none, and something shows that there was one."""
    there = files.exists(job.state) and Catalog.exists(job.state, files)
    if not there and has_outcomes(job, files):
        raise Damaged(str(job.state), 0, STATE_GONE)
    return there


def check_last_commit(catalog: Catalog) -> None:
    """Damaged when there is a turn's file of a later commit than the last one the catalogue has: whole lines that are
    missing at its end leave no other trace, and opening it would delete what they named."""
    there = catalog.files.listdir(catalog.root)
    newest = max((name for name in there if name.startswith("turn-") and name.endswith(".seg")), default="")
    if newest > turn_name(catalog.number + 1):
        path = os.path.join(catalog.root, f"catalog-{catalog.generation:06d}.log")
        raise Damaged(path, catalog.bytes, f"ends with commit {catalog.number}, and {newest} is of a later one")


def check_open_archives(job: JobDir, files: Files, catalog: Catalog) -> None:
    """Damaged when an archive that a worker had not closed is missing, say because its disk is not mounted: what nobody
    harvested of it would be fetched again, and when it came back nobody would finish it."""
    there = {(file.stream, file.serial) for file in warc_files(files, str(job.warcs))}
    for key, value in catalog.items("streams/"):
        stream, (serial, offset) = int(key.split("/")[1]), value["warc"]
        if offset and (stream, serial) not in there:
            what = f"archive {serial} of stream {stream} is missing, and it was not closed yet (is its disk mounted?)"
            raise Damaged(str(job.warcs), 0, what)


def strangers(job: JobDir, files: Files, catalog: Catalog) -> Iterator[Damaged]:
    """Archives of another crawl that a start would read on from, cut, or meet where a new worker writes: their units
    name places of that crawl, and would end URLs of this one that nobody asked for. A copy of this one is another, too:
    the numbers of its streams are committed before anything is written under them."""
    crawl, new = catalog.get("crawl") or {}, catalog.get("stream-next", SEEDS_STREAM + 1)
    for file in warc_files(files, str(job.warcs)):
        known = catalog.get(f"streams/{file.stream}")
        if file.stream < new and (known is None or (file.serial < known["warc"][0] and not file.open)):
            continue
        from irlcrawl.worker.archive.redo import made_by  # a crawl that begins reads no archive

        path = os.path.join(job.warcs, file.on_disk)
        maker = made_by(files, path)
        if crawl and maker not in (crawl["id"], None):
            yield Damaged(path, 0, "an archive of another crawl: move it out of this directory")
        elif crawl and maker is not None and file.stream >= new:
            yield Damaged(path, 0, COPY_WROTE)


def turn_name(commit: int) -> str:
    """The file of a turn, named after the commit it is written for: each name is used once."""
    return f"turn-{commit:09d}.seg"


class CrawlState:
    """Open with `CrawlState.open`; JOB's lock must be held."""

    def __init__(self, job: JobDir, config: Config, clock: Clock, files: Files, catalog: Catalog) -> None:
        self.job, self.config, self.clock, self.files, self.catalog = job, config, clock, files, catalog
        self.dir = str(job.state)
        self.pool = SegmentPool(files, self.dir, OPEN_FILES_MAX)
        identity = catalog.get("crawl")
        self.seed: int = identity["seed"]
        self.crawl_id: str = identity["id"]
        ram = config.crawl.ram_bytes // 4  # four drums, one merged at a time, and the batches between them
        self.seen = Repository("seen", catalog=catalog, pool=self.pool, values={}, ram_bytes=ram)
        self.sites = open_sites(catalog, self.pool, config, ram)
        self.hosts = Repository("hosts", catalog=catalog, pool=self.pool, values=RECORD, ram_bytes=ram)
        self.calendar = Calendar(catalog, self.pool)
        self.runs = Runs(catalog, self.pool)
        self.clock_log = ClockLog(catalog, self.pool)
        self.pace = Pace(clock)
        self.scope_log = ScopeLog(catalog, self.pool)
        self.scope = Scope(config.scope, config.site, self.scope_log.entries())
        saved = catalog.get("ledger")
        self.ledger = Ledger.from_json(saved) if saved else Ledger()
        self.counters: dict[str, Any] = dict(catalog.get("counters", {}))
        self.streams: dict[int, dict[str, Any]] = {int(k.split("/")[1]): v for k, v in catalog.items("streams/")}
        self.ingests: int = catalog.get("ingests", 0)
        self.log = CrawlLog(files, str(job.crawl_log), catalog.get("log", {}), config.archive.log_roll_bytes)

    @classmethod
    def open(
        cls, job: JobDir, config: Config, clock: Clock, files: Files | None = None,
        write_config: Callable[[], None] = lambda: None,
    ) -> CrawlState:  # fmt: skip
        """Open or create JOB/state. write_config() puts `config` into JOB, once, when nothing speaks against the start
        any more. UnknownVersion, Damaged, OSError."""
        files = files or Sectors()
        begun = check_state_there(job, files)
        if not begun:
            write_config()  # a catalogue without a configuration is no crawl
        catalog = Catalog.open(job.state, files)
        edits = Edits()
        formats.check(catalog.root, catalog.get("crawl"))
        check_last_commit(catalog)
        check_open_archives(job, files, catalog)
        for stranger in strangers(job, files, catalog):
            raise stranger
        if catalog.get("crawl") is None:
            edits.set("crawl", formats.identity(secrets.token_hex(8), secrets.randbits(63), clock.now()))
            edits.set(f"streams/{SEEDS_STREAM}", {"next": 0, "warc": [0, 0]})
            edits.set("stream-next", SEEDS_STREAM + 1)
            note_start(catalog, edits, config, clock, boot_id(files))
            catalog.commit(edits)
        state = cls(job, config, clock, files, catalog)
        if begun:
            write_config()
        edits = Edits()  # only now that everything could be opened
        formats.migrate(catalog, edits)
        note_start(catalog, edits, config, clock, boot_id(files))
        if files.exists(job.config_file) and (crc := zlib.crc32(files.read(job.config_file))) != catalog.get("config"):
            edits.set("config", crc)
        if edits:
            catalog.commit(edits)
        return state

    # -- what turns use --------------------------------------------------------------------------------------------

    def new_segment(self) -> SegmentWriter:
        """The file of the next commit."""
        return SegmentWriter(self.files, os.path.join(self.dir, turn_name(self.catalog.number + 1)))

    @property
    def holders(self) -> list[Holder]:
        """Whatever names sections in the catalogue (drum.vacuum)."""
        return [
            self.seen, *self.sites.holders, self.hosts, self.calendar.holder, self.runs, self.clock_log.list,
            self.scope_log.list,
        ]  # fmt: skip

    @property
    def clock_set(self) -> float:
        """Seconds between unix time and the clock by which dates rest (clockset.py)."""
        return clock_set(self.catalog)

    def set_since(self, harvest: str) -> float:
        """Seconds by which the system's clock was set forward since the run that wrote a harvest."""
        return set_since(self.catalog, self.pool.section(harvest, "outcomes").meta["stream"])

    def take_note(self, edits: Edits, meta: dict[str, Any]) -> None:
        """Of a harvest that was ingested: its stream's position, its counters."""
        stream = meta["stream"]
        self.streams[stream] = {"next": meta["number"] + 1, "warc": meta["warc"]}
        edits.set(f"streams/{stream}", self.streams[stream])
        for name in COUNTERS:
            self.count(name, meta["counters"].get(name, 0))

    def count(self, name: str, more: int) -> None:
        self.counters[name] = self.counters.get(name, 0) + more

    def count_done(self, classes: NDArray[np.uint8], reasons: NDArray[np.uint8]) -> None:
        """Outcomes of URLs that are in the ledger, as Class and Reason columns."""
        for cls, reason in set(zip(classes.tolist(), reasons.tolist(), strict=True)):
            rows = int(((classes == cls) & (reasons == reason)).sum())
            name = Reason(reason).name.lower()
            if cls == Class.FETCHED:
                self.ledger.fetched += rows
            elif cls == Class.FAILED:
                self.ledger.failed += rows
            elif cls == Class.EXCLUDED:
                self.ledger.exclude(name, rows)
            told = self.counters.setdefault(Class(cls).name.lower() + "_by_reason", {})
            told[name] = told.get(name, 0) + rows

    def log_lines(self, rows: Batch, reasons: list[Reason], now: float) -> list[bytes]:
        """Crawl log lines of URLs that are done without a request."""
        facts = zip(reasons, *(rows[name].tolist() for name in LOGGED), strict=True)
        decisions = (Decision(CLASS_OF[reason], reason, CRAWL_LOG_STATUS[reason], *fact) for reason, *fact in facts)
        return decided_lines(rows["url"].tolist(), decisions, now)

    def live(self) -> dict[str, int]:
        """URLs that are not done, by where they are (I1); leased ones are among those in runs."""
        by_op = self.hosts.pending_by_op()
        return {
            "pending": self.sites.pending_rows + by_op.get(OP_NEW, 0) + by_op.get(OP_AGAIN, 0),
            "queued": self.sites.queued_rows,
            "deferred": self.sites.deferred_rows,
            "calendar": self.calendar.rows,
            "runs": self.runs.rows,
        }

    @property
    def is_new(self) -> bool:
        """Whether it never had any seeds, not even such as no turn has taken yet."""
        seeds = harvest_name(SEEDS_STREAM, self.streams[SEEDS_STREAM]["next"])
        taken = self.ingests or self.ledger.discovered or self.files.exists(os.path.join(self.dir, seeds))
        return not taken

    @property
    def waiting(self) -> int:
        """URLs discovered and not done, and harvest rows nobody has looked at."""
        return sum(self.live().values()) + self.seen.pending_rows

    @property
    def drums(self) -> list[Repository]:
        return [self.seen, *self.sites.drums, self.hosts]

    @property
    def merge_bytes(self) -> int:
        """What the largest merge that is pending may write, about."""
        return max(drum.merge_bytes() for drum in self.drums)

    @property
    def frontier_bytes(self) -> int:
        """Bytes on disk of the URLs that wait: queues, QF, calendar and runs."""
        return self.sites.nbytes + self.calendar.nbytes + self.runs.nbytes

    @property
    def frontier_rows(self) -> int:
        return self.sites.queued_rows + self.sites.deferred_rows + self.calendar.rows + self.runs.rows

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
