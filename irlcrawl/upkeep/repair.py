"""`irlcrawl fsck JOB --repair`: a whole crawl out of what can be read of a damaged one.

Nothing is patched. From what salvage.py can read, a new state and a new crawl log are made beside the old ones and then
put in their places; the old ones stay as state.damaged-N and logs.damaged-N until somebody deletes them. Archives are
read and never changed, but for a torn tail that any start would cut.

  seen, ledger     from the crawl log, and from the archives for outcomes whose lines are gone
  the crawl log    its readable lines, and lines made anew from archived units
  queues and runs  every URL of a readable section that is not done, and the links of the archived pages: all of them
                   enter like a harvest, and what is known is dropped there
  sites            stored in-degrees, or the links between sites on archived pages
  hosts, clocks    as far as their sections can be read
  pages            those that were visited again go on being it, as far as their rows can be read

So a URL is lost only when the section it waited in is gone and no archived page here links to it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from drum import Batch, Catalog, CheckUpdate, Edits, Files, Update
from drum.sectors import Sectors, Unreadable
from drum.spill import Spill

import numpy as np

from budgets import RECORD as SITE
from budgets import Histogram
from budgets.sites import HISTOGRAM
from irlcrawl.base.clock import Clock
from irlcrawl.base.job import REPAIRED, JobDamaged, JobDir
from irlcrawl.base.job_files import (
    COMPRESSED,
    CRAWL_LOG,
    INDEXES,
    LOGS,
    OPEN,
    OWN_LOG,
    REPAIR_COMPLETE,
    SEEDS_STREAM,
    STATE,
    STEERING_LOG,
    UNDELIVERED,
    damaged_name,
    parse_rules_log,
    rules_log_name,
)
from irlcrawl.base.keys import name_key
from irlcrawl.base.reasons import DONE_NAMES, Class, Reason
from irlcrawl.base.rows import Carried
from irlcrawl.config.checks import check_start
from irlcrawl.config.keys import ConfigError
from irlcrawl.config.toml import load_stored, parse_stored
from irlcrawl.frontier.politeness.clocks import CLOCK, fold
from irlcrawl.frontier.state import formats
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.frontier.state.hosts import RECORD as HOST
from irlcrawl.frontier.state.hosts import standing_counts, standings
from irlcrawl.terminal import words
from irlcrawl.terminal.progress import Bar
from irlcrawl.upkeep import salvage
from irlcrawl.upkeep.census import archive_path
from irlcrawl.upkeep.rebuild import Commit, Harvests, Outcomes, Salvaged, carry
from irlcrawl.upkeep.takedown_search import KEPT
from irlcrawl.web.scope import Scope
from irlcrawl.worker.archive import redo
from irlcrawl.worker.archive.crawl_log import BadLine, LogEntry, carried_of, is_seed
from irlcrawl.worker.archive.crawl_log import line as line_of
from irlcrawl.worker.archive.last_words import Returned
from irlcrawl.worker.archive.warc import WarcName, warc_files
from irlcrawl.worker.harvest.context import Context
from irlcrawl.worker.harvest.process import process

KEY = np.dtype([("key", "<u8")])
POINTER = np.dtype([("key", "<u8"), ("offset", "<u8")])
"""Where a line of the old crawl log points: name_key of the archive, offset of the record."""
KEY_BITS, POINTER_BITS = 8, 6
CARRIED = (
    "config", "promises", "clock-anchors", "clock-set", "learnt", "stream-next", "status", "ingests", "price", KEPT,
)  # fmt: skip


def finish_interrupted(job: JobDir) -> None:
    """A repair that had made everything and was putting it in place: go on with that. Else start anew."""
    ready = (job.path / f"{STATE}{REPAIRED}" / REPAIR_COMPLETE).exists()
    for name in (LOGS, STATE):
        made = job.path / f"{name}{REPAIRED}"
        if made.exists() and ready:
            _put_in_place(job.path, name)
        elif made.exists():
            shutil.rmtree(made)


def config_of_last_run(job: JobDir) -> str:
    """The text of irlcrawl.toml as the catalogue has it. JobDamaged when that cannot be read either; UnknownVersion;
    OSError."""
    entries, _ = salvage.catalogue(str(job.state), Sectors())
    text = entries.get("config")
    try:
        if text is not None:
            parse_stored(text, job.state)
            return str(text)
    except ConfigError:
        pass
    raise JobDamaged(
        f"{job.config_file}: damaged or missing, and the catalogue does not tell what was in it: write it by hand "
        "(irlcrawl config prints every key)"
    )


def repair(job: JobDir, damaged: set[str], clock: Clock, bar: Bar) -> Iterator[str]:
    """Do it; sentences about what was and what was not recoverable. JOB's lock is held. UnknownVersion; OSError."""
    yield from _Repair(job, damaged, clock, bar).run()


class _Repair:
    def __init__(self, job: JobDir, damaged: set[str], clock: Clock, bar: Bar) -> None:
        self.job, self.damaged, self.bar, self.clock = job, damaged, bar, clock
        self.files = Sectors()
        self.config = load_stored(job.config_file)
        check_start(self.config)  # archived pages are read as a crawl reads them
        self.entries, self.catalogue_whole = salvage.catalogue(str(job.state), self.files)
        self.old = salvage.Segments(str(job.state), self.files, self.entries, self.catalogue_whole)
        if not self.catalogue_whole and not self.old.made_with(self.entries.get("crawl", {}).get("seed", 0)):
            self.entries.pop("crawl", None)
        self.new_job = JobDir(job.path)
        self.new_job.state = job.path / f"{STATE}{REPAIRED}"
        self.new_job.logs = job.path / f"{LOGS}{REPAIRED}"
        self.new_job.crawl_log = self.new_job.logs / CRAWL_LOG

        self.archives: dict[str, bool] = {}
        """Those the crawl log points into -> whether they are here."""

        self.waits: set[int] = set()
        """name_keys of URLs of which the last word of the crawl log is that they were put back."""

        self.opened: dict[bytes, None] = {}
        """Scope entries of seeds, and of what they redirected to, that are done."""

    def run(self) -> Iterator[str]:
        for directory in (self.new_job.state, self.new_job.logs):
            directory.mkdir()
        yield from self._identity()
        state = CrawlState.open(self.new_job, self.config, self.clock, self.files)
        try:
            with tempfile.TemporaryDirectory(prefix="irlcrawl-repair-") as spilled:
                self.known = Spill(spilled, "known", KEY, KEY_BITS)
                self.seen = Spill(spilled, "seen", KEY, KEY_BITS)
                self.lines = Spill(spilled, "lines", POINTER, POINTER_BITS)
                yield from self._done(state)
                self._scope(state)
                yield from self._drums(state)
                yield from self._visited(state)
                yield from self._waiting(state)
                yield from self._lost()
                self._tell_done(state)
        finally:
            state.close()
        for pattern in (f"{OWN_LOG}*", STEERING_LOG, UNDELIVERED):
            for path in sorted(self.job.logs.glob(pattern)):
                shutil.copy2(path, self.new_job.logs / path.name)
        (self.new_job.state / REPAIR_COMPLETE).touch()
        self.files.fsync_dir(self.new_job.state)
        for name in (LOGS, STATE):
            yield f"{name}: the old files are in {_put_in_place(self.job.path, name).name}"
        (self.job.state / REPAIR_COMPLETE).unlink()

    def _identity(self) -> Iterator[str]:
        """The first commit: who the crawl is, and what small facts were readable."""
        crawl = self.entries.get("crawl")
        edits = Edits()
        if crawl is None:
            yield "the catalogue: lost, and with it the seed of the keys; every URL is given a new key"
        else:
            edits.set("crawl", {**crawl, "format": formats.FORMAT, "keys": formats.KEYS})
        for key in CARRIED:
            if key in self.entries:
                edits.set(key, self.entries[key])
        recounted = ("fetched_by_reason", "failed_by_reason", "excluded_by_reason", "hosts_resting")
        counters = self.entries.get("counters", {})
        edits.set("counters", {name: value for name, value in counters.items() if name not in recounted})
        streams = [file.stream for file in warc_files(self.files, str(self.job.warcs))]
        edits.set("stream-next", max([SEEDS_STREAM, *streams, self.entries.get("stream-next", 0) - 1]) + 1)
        number = max(1, self.entries.get(f"streams/{SEEDS_STREAM}", {"next": 1})["next"])
        edits.set(f"streams/{SEEDS_STREAM}", {"next": number, "warc": [0, 0]})
        catalog = Catalog.open(self.new_job.state, self.files)
        if crawl is None:
            edits.set("crawl", formats.identity(os.urandom(8).hex(), int.from_bytes(os.urandom(7)), self.clock.now()))
        catalog.commit(edits)
        catalog.close()
        if not self.catalogue_whole:
            yield "the catalogue: made anew from the commits that could be read, and from all files there are"
        for path in sorted(self.job.state.iterdir()):
            if parse_rules_log(path.name) is not None and str(path) not in self.damaged:
                os.link(path, self.new_job.state / path.name)

    # -- what is done --------------------------------------------------------------------------------------------------

    def _done(self, state: CrawlState) -> Iterator[str]:
        """Every outcome once: the new crawl log, `seen` and the ledger."""
        self.pages = Salvaged(state)
        sink = Outcomes(state, self.known, self.opened, self.pages)
        # Damaged, or nothing says that they are not: the archive knows better.
        doubtful: list[tuple[LogEntry, bytes, bool]] = []
        lines = enumerate(salvage.log_lines(self.files, str(self.job.crawl_log)))
        returned = Returned((name_key(entry.url), at) for at, (*_, entry) in lines if entry.outcome == "returned")
        for at, (file, text, entry) in enumerate(salvage.log_lines(self.files, str(self.job.crawl_log))):
            last = not returned.since(entry.url, at)
            if len(returned) and last:
                if entry.outcome == "returned":
                    self.waits.add(name_key(entry.url))
                elif entry.outcome in DONE_NAMES:
                    self.waits.discard(name_key(entry.url))
            pointer = entry.warc
            if pointer is not None and pointer[0] not in self.archives:
                self.archives[pointer[0]] = archive_path(str(self.job.warcs), pointer[0], OPEN) is not None
            if file in self.damaged or not (self.catalogue_whole or file.endswith(COMPRESSED)):
                doubtful.append((entry, text, last))
                continue
            if pointer is not None:
                self.lines.add((name_key(pointer[0].encode()), pointer[1]))
            again = "visit" in entry.notes
            sink.add(entry.url, entry.outcome, entry.reason, text, opens=is_seed(entry), last=last, again=again)
        sink.flush()
        read = sink.lines
        self._make_lines(sink)
        sink.flush()
        made = sink.lines - read
        for entry, text, last in doubtful:
            if self._believable(entry):
                again = "visit" in entry.notes
                sink.add(entry.url, entry.outcome, entry.reason, text, opens=is_seed(entry), last=last, again=again)
        sink.flush()
        state.counters.update(sink.counters())
        kept = words.plural(sink.lines - made, "line")
        yield f"the crawl log: {kept} kept, {words.count(made)} made anew from the archives"
        yield f"seen and the ledger: {words.plural(state.ledger.done, 'URL is', 'URLs are')} done"

    def _tell_done(self, state: CrawlState) -> None:
        """In the status record: of outcomes that are lost, the URLs wait, or are unknown."""
        ledger, counters = state.ledger, state.counters
        by_reason = {name: dict(counters.get(name, {})) for name in ("fetched_by_reason", "failed_by_reason")}
        done = {
            "fetched": ledger.visits, "failed": ledger.failed, "excluded": sum(ledger.excluded.values()),
            "excluded_by_reason": dict(ledger.excluded), "discovered_urls": ledger.discovered, **by_reason,
        }  # fmt: skip
        if (status := self.entries.get("status")) is not None:
            with Commit(state) as (_, edits):
                edits.set("status", {**status, **done})

    def _believable(self, entry: LogEntry) -> bool:
        """Whether a line that may be garbled says what the archives here do not know better."""
        if entry.warc is None:
            return entry.outcome != "fetched"  # what was fetched is in an archive
        name = entry.warc[0]
        return WarcName.parse(name) is not None and archive_path(str(self.job.warcs), name, OPEN) is None  # away

    def _make_lines(self, sink: Outcomes) -> None:
        """Units whose line is gone (or was never committed) have one again; what a crash left open is finished."""
        warcs = str(self.job.warcs)
        there = warc_files(self.files, warcs) if self.job.warcs.is_dir() else []
        self.bar.stage("archives", sum(self.files.size(os.path.join(warcs, file.on_disk)) for file in there))
        for file in reversed(there):  # of a URL that was put back the last outcome counts, and it is the first to come
            path, end = os.path.join(warcs, file.on_disk), 0
            key = name_key(file.name.encode())
            rows = self.lines.part(self.lines.number_of(key))
            known = set(rows["offset"][rows["key"] == np.uint64(key)].tolist())
            for unit, exchange, location in salvage.units(self.files, path):
                self.bar.read(location.length)
                end = location.end
                if location.record not in known:
                    outcome, reason = Class(unit.cls).name.lower(), Reason(unit.reason).name.lower()
                    text, waits = line_of(unit, exchange, location), name_key(unit.url) in self.waits
                    again, opens = unit.page is not None, unit.carried.depth == 0
                    sink.add(unit.url, outcome, reason, text, opens=opens, last=not waits, again=again)
            if file.open:
                self._finish(path, end)

    def _finish(self, path: str, end: int) -> None:
        """Close an archive that a dead worker left open, behind its last whole unit: `end`, 0 when it has none."""
        try:
            redo.keep(self.files, path, end) if end else redo.cut_tail(self.files, path)
        except Unreadable:
            return  # there may be a unit where the disk fails, perhaps only this time
        redo.finish(self.files, path)
        self.files.fsync_dir(str(self.job.warcs))

    # -- what is known -------------------------------------------------------------------------------------------------

    def _drums(self, state: CrawlState) -> Iterator[str]:
        """Sites, hosts and clocks as far as they can be read."""
        pairs, sites = state.sites.drums
        before = dict(self.old.lost)
        carry(state, sites, Update(tuple(SITE)), map(_site_rows, self.old.slices(self.entries, "sites")))
        carry(state, pairs, CheckUpdate(), self.old.slices(self.entries, "pairs"))
        if self.old.lost != before or not self.catalogue_whole:
            # Half of the pairs and half of the degrees do not belong together: both from the archives.
            with Commit(state) as (_, edits):
                for key, _ in [*state.catalog.items(pairs.prefix), *state.catalog.items(sites.prefix)]:
                    edits.remove(key)
            yield "sites: in-degrees are counted anew, from the archived pages that are here"
        else:
            degrees = Histogram()
            for batch in (batch for bucket in sites.buckets for batch in sites.scan(bucket)):
                known = batch["in_degree"][batch["in_degree"] > 0]
                degrees.change(np.zeros_like(known), known)
            with Commit(state) as (_, edits):
                edits.set(HISTOGRAM, degrees.to_json())
            yield f"sites: {words.count(sites.rows)} with their in-degrees; quotas and queues begin anew"
        before = dict(self.old.lost)
        carry(state, state.hosts, Update(tuple(HOST)), map(self._host_rows, self.old.slices(self.entries, "hosts")))
        for batch in (batch for bucket in state.hosts.buckets for batch in state.hosts.scan(bucket)):
            state.count_standings(standing_counts(standings(batch)))
        clocks = [batch.select(CLOCK) for batch in self.old.listed(self.entries, "clocks/")]
        with Commit(state) as (writer, edits):
            if clocks:
                now = self.clock.now() - state.clock_set
                state.clock_log.add(writer, edits, fold(clocks, now), now)
        missing = "" if self.old.lost == before else "; others are asked for robots.txt again, after their gap"
        yield f"hosts: {words.count(state.hosts.rows)} with robots rules, addresses and failures{missing}"

    def _host_rows(self, batch: Batch) -> Batch:
        """Without pointers to robots texts that are gone."""
        logs = {int(log) for log in np.unique(batch["rules_log"])}
        gone = [log for log in logs if not (self.new_job.state / rules_log_name(log)).exists()]
        lost = np.isin(batch["rules_log"], gone) & (batch["rules_length"] > 0)
        keep = {name: np.where(lost, 0, batch[name]).astype(HOST[name]) for name in ("robots", "rules_length")}
        return batch.with_(**keep, released=np.zeros(batch.rows, HOST["released"])).select(["key", *HOST])

    def _visited(self, state: CrawlState) -> Iterator[str]:
        """Pages that are visited again, as far as their rows can be read; others were fetched once."""
        for batch in self.old.pages():
            self.pages.page(batch)
        self.pages.close()
        if self.pages.pages:
            yield f"pages that are visited again: {words.count(self.pages.pages)}, with what was known of their changes"

    def _scope(self, state: CrawlState) -> None:
        """What seeds opened: as it was written, and by those that are done."""
        entries = [entry for batch in self.old.listed(self.entries, "scope/") for entry in batch["entry"].tolist()]
        entries += self.opened
        with Commit(state) as (writer, edits):
            state.scope_log.add(state.scope, lambda: writer, edits, entries)

    # -- what waits ----------------------------------------------------------------------------------------------------

    def _waiting(self, state: CrawlState) -> Iterator[str]:
        """URLs of readable sections, then links of archived pages, as harvests that the next start takes in."""
        out = Harvests(state, self.known)
        scope = Scope(self.config.scope, self.config.site, state.scope.entries())
        context = Context(self.config, state.seed, scope)
        for batch in self.old.urls():
            columns = [batch[name].tolist() for name in salvage.URL_COLUMNS]
            for url, *rest in zip(*columns):
                carried = Carried(*rest)
                for entry in scope.entries_of_seed(url, context.spelling.of(url)) if carried.depth == 0 else ():
                    if scope.add([entry]):
                        out.scope.fresh.append((entry,))
                out.add(url, carried, context)
        for _, _, told in salvage.log_lines(self.files, str(self.job.crawl_log)) if self.waits else ():
            if told.outcome == "returned" and name_key(told.url) in self.waits:
                with suppress(BadLine):
                    out.add(told.url, carried_of(told), context)
        sections = out.rows
        warcs = str(self.job.warcs)
        there = warc_files(self.files, warcs)
        self.bar.stage("links of the archives", sum(self.files.size(os.path.join(warcs, f.on_disk)) for f in there))
        for file in there:
            for unit, exchange, location in salvage.units(self.files, os.path.join(warcs, file.on_disk)):
                self.bar.read(location.length)
                found = process(unit, exchange, location, context)
                if unit.cls == Class.RETRY:
                    out.add(unit.url, unit.carried.again(), context)
                out.take(found.links, found.pairs, found.scope)
        out.close()
        yield (
            f"queues and runs: {words.plural(sections, 'URL')} read from sections, "
            f"{words.plural(out.rows - sections, 'link')} from archived pages; the next start drops those that are done"
        )

    def _lost(self) -> Iterator[str]:
        """Keys that were seen once, and that nothing above knows."""
        gone = 0
        if "crawl" in self.entries:  # with other keys there is nothing to compare
            for batch in self.old.slices(self.entries, "seen"):
                self.seen.add_many(key=batch["key"])
        for number in range(1 << KEY_BITS):
            gone += len(np.setdiff1d(self.seen.part(number)["key"], self.known.part(number)["key"]))
        if gone:
            yield f"NOT recoverable: {words.plural(gone, 'URL')} seen and not done"
        away = list(self.archives.values()).count(False)
        if away and (self.old.lost or not self.catalogue_whole):
            archives = words.plural(away, "archive")
            yield f"NOT recoverable: lost URLs that waited, where only pages in {archives} that are away link to them"
        for file, blocks in sorted(self.old.lost.items()):
            yield f"unreadable: {file}, {words.plural(blocks, 'piece')}"


def _site_rows(batch: Batch) -> Batch:
    """In-degrees and what else is told of a site; its places in queues begin anew."""
    begun = {name: np.zeros(batch.rows, SITE[name]) for name in ("tail", "count", "deferred", "placed")}
    return batch.with_(**begun)


def _put_in_place(job: Path, name: str) -> Path:
    """NAME.repaired becomes NAME, which becomes NAME.damaged-N (returned)."""
    number = 1
    while (aside := job / damaged_name(name, number)).exists():
        number += 1
    files = Files()
    if name == LOGS:  # what was made of the old ones speaks for no other
        for index in sorted((job / INDEXES).glob("log-*")):
            files.unlink(index)
    if (job / name).exists():
        files.rename(job / name, aside)
    files.rename(job / f"{name}{REPAIRED}", job / name)
    files.fsync_dir(job)
    return aside
