"""`irlcrawl fsck JOB`: is everything on the disk what was written, and does it belong together?

In this order: the catalogue, every byte of every state file, the structures they make, the crawl log, the archives, and
what one says of the other. Traces of a crash are no damage: recovery is part of opening. Where the state is damaged,
only what does not need it is compared further.
"""

from __future__ import annotations

import os
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from drum import Catalog, Damaged, Files, UnknownVersion
from drum.catalog import MISSING, logs
from drum.sectors import Sectors
from drum.segment import Segment

from budgets import Ledger, LedgerError
from irlcrawl.base.job import SNAPSHOT, JobDamaged, JobDir
from irlcrawl.base.job_files import (
    COMPRESSED,
    OPEN,
    SEGMENT,
    harvests_from,
    node_of,
    parse_rules_log,
    part_name,
    rules_log_name,
)
from irlcrawl.base.names import Names
from irlcrawl.config.toml import load_stored
from irlcrawl.crawl import history
from irlcrawl.frontier.state import formats
from irlcrawl.frontier.state.harvested import Reach, missing, not_closed, reach_of, shortened
from irlcrawl.frontier.state.hosts import OP_STATE
from irlcrawl.frontier.state.lease_log import LeaseLog
from irlcrawl.frontier.state.runs import LISTS, Lent
from irlcrawl.frontier.state.start_checks import (
    COPY_WROTE,
    check_edited,
    check_last_commit,
    check_state_there,
    stored_config,
    strangers,
)
from irlcrawl.frontier.state.view import Reading
from irlcrawl.terminal import words
from irlcrawl.terminal.progress import Bar, urls
from irlcrawl.upkeep.census import Census, archive_path, examples
from irlcrawl.upkeep.drums import check_drum
from irlcrawl.upkeep.findings import Finding, Findings, note
from irlcrawl.upkeep.snapshot import read_marker
from irlcrawl.upkeep.verify import Found, check_file
from irlcrawl.worker.archive import log_parts
from irlcrawl.worker.archive.crawl_log import BadLine, parse
from irlcrawl.worker.archive.log_parts import open_part, rolled_parts
from irlcrawl.worker.archive.warc import WarcName, warc_files
from irlcrawl.worker.harvest.rules_log import PART, RULES_MAGIC, RulesLog, TornText

Steps = Generator[Finding, None, bool]
"""Findings; returns whether nothing was damaged."""


@dataclass
class Fsck:
    """One look at a JOB whose lock is held. `findings` are given as they come; `damaged` says which files were."""

    job: JobDir
    bar: Bar
    files: Files = field(default_factory=Sectors)
    now: Callable[[], float] = time.time
    damaged: set[str] = field(default_factory=set)
    closed_to_starts: set[str] = field(default_factory=set)
    """Archives that the next start has to read on from where it cannot."""

    def run(self) -> Findings:
        for finding in self._run():
            if finding.damage:
                self.damaged.add(finding.file)
            yield finding

    def _run(self) -> Findings:
        if (self.job.path / SNAPSHOT).exists():
            try:
                read_marker(self.job.path)
            except Damaged as error:
                yield Finding.of(error)
        catalog = yield from self._catalog()
        configured = yield from self._config()
        if configured and catalog is not None:
            yield from self._config_of_last_run(catalog)
        whole = catalog is not None and (yield from self._segments(catalog))
        yield from self._small_logs(catalog)
        reading = None
        if whole and configured:
            reading = yield from self._structure()
        with tempfile.TemporaryDirectory(prefix="irlcrawl-fsck-") as directory:
            private = reading is not None and reading.config.scope.private_suffixes
            census = Census(directory, Names(reading.seed if reading is not None else 0, private))
            read = yield from self._log(census, catalog)
            if reading is not None and read:
                yield from self._urls(census, reading)
            yield from self._archives(census if read and catalog is not None else None, catalog, reading is not None)
            if reading is None and catalog is not None:
                yield note(str(self.job.path), "damaged, so what waits was not compared with what is done")

    def _config(self) -> Steps:
        try:
            if self.job.lost_config():
                self.job.check_configured()
            load_stored(self.job.config_file)
        except JobDamaged as error:
            yield self._bad_config(error)
            return False
        return True

    def _bad_config(self, error: JobDamaged) -> Finding:
        return Finding(True, file := str(self.job.config_file), None, str(error).removeprefix(f"{file}: "))

    def _config_of_last_run(self, catalog: Catalog) -> Findings:
        """It may be edited, so what still is a configuration is no damage; but a value that changed is told."""
        text = stored_config(self.job, self.files)
        try:
            changed = check_edited(self.job, catalog, text)
        except JobDamaged as error:
            yield self._bad_config(error)
            return
        if catalog.get("config") not in (None, text):
            told = f": {'; '.join(changed)}" if changed else ""
            yield note(str(self.job.config_file), f"not as the last run left it (edited since, or damaged){told}")

    # -- state ---------------------------------------------------------------------------------------------------------

    def _catalog(self) -> Generator[Finding, None, Catalog | None]:
        state = str(self.job.state)
        self.bar.stage("catalogue", sum(self._size(state, name) for name in self._catalogues()))
        try:
            check_state_there(self.job, self.files)
            catalog = formats.look(state, self.files)
            check_last_commit(catalog)
        except FileNotFoundError:
            yield note(state, "no catalogue: the crawl has committed nothing yet")
            return None
        except Damaged as error:
            yield Finding.of(error)
            return None
        *older, newest = self._catalogues()
        if (torn := self._size(state, newest) - catalog.bytes) > 0:
            yield note(os.path.join(state, newest), f"its last {torn} bytes are no commit, and are cut when it opens")
        if older:
            yield note(state, f"older catalogues that the next start deletes: {', '.join(older)}")
        return catalog

    def _segments(self, catalog: Catalog) -> Steps:
        """Every byte of every state file."""
        state, whole = str(self.job.state), True
        named, there = set(catalog.live_files()), set(self._names(lambda name: name.endswith(SEGMENT)))
        streams = [(int(key.split("/")[1]), stream["next"]) for key, stream in catalog.items("streams/")]
        handed_in = {name for stream, number in streams for name in harvests_from(there, stream, number)}
        self.bar.stage("state", sum(self._size(state, name) for name in there))
        for name in sorted(named - there):
            whole = False
            yield Finding(True, os.path.join(state, name), None, MISSING)
        for name in sorted(there):
            if name not in named and name not in handed_in:
                yield note(os.path.join(state, name), "without a name in the catalogue: deleted when the crawl opens")
                continue
            sound = yield from self._segment(os.path.join(state, name))
            whole = whole and sound
        if handed_in:
            yield note(state, f"harvests that the next start takes in: {len(handed_in)}")
        return whole

    def _segment(self, path: str) -> Steps:
        whole = True
        try:
            segment = Segment.open(self.files, path)
        except Damaged as error:
            yield Finding.of(error)
            return False
        for section in segment.sections.values():
            for block in range(len(section.blocks)):
                try:
                    section.read(block)
                except Damaged as error:
                    whole = False
                    yield Finding.of(error)
                self.bar.read(int(section.chunks["stored"][block].sum()))
        return whole

    def _small_logs(self, catalog: Catalog | None) -> Findings:
        """Robots texts and the clocks of leases."""
        state = str(self.job.state)
        streams = [int(key.split("/")[1]) for key, _ in catalog.items("streams/")] if catalog is not None else []
        names = self._names(lambda name: parse_rules_log(name) is not None)
        recovered = {name for name in names if (parse_rules_log(name) or 0) % PART in streams}  # at the next start
        self.bar.stage("robots texts", sum(self._size(state, name) for name in names))
        for name in names:
            path = os.path.join(state, name)
            try:
                for text, _ in RulesLog.texts(self.files, path):
                    self.bar.read(len(text))
            except Damaged as error:
                if isinstance(error, TornText) and name in recovered:  # `_rules` knows whether a host's text is gone
                    yield note(path, f"torn at offset {error.offset} by a power loss, and cut when the crawl opens")
                else:
                    yield Finding.of(error)
            except UnknownVersion as error:  # in a crawl that is not of a later version: a damaged header
                yield Finding(True, path, len(RULES_MAGIC), str(error))
        yield from self._leases(str(self.job.leases))
        try:
            if self.files.exists(self.job.history):
                history.check(self.job.history)
        except Damaged as error:  # no crawl needs it
            yield note(error.file, f"{error.what}: the next run begins another one")

    def _leases(self, path: str) -> Findings:
        """What is wrong with it makes every host wait for its gap again."""
        try:
            wrong = LeaseLog.check(self.files, path) if self.files.exists(path) else None
        except Damaged as error:
            yield Finding.of(error)
            return
        if wrong is not None:
            offset, torn = wrong
            then = "every host waits for its gap again"
            if torn:
                yield note(path, f"torn at offset {offset} by a power loss: {then}")
            else:
                yield Finding(True, path, offset, f"not a clock that was written ({then})")

    def _structure(self) -> Generator[Finding, None, Reading | None]:
        """What the sections make: drums, runs, queues, and the ledger over them. None when it cannot be opened."""
        state = str(self.job.state)
        try:
            reading = Reading.open(self.job, self.files)
            if reading is None or not reading.begun:
                return None
            for drum in (reading.seen, reading.hosts, *reading.sites.drums, reading.known, reading.near.drum):
                yield from check_drum(drum, state)
            yield from self._rules(reading)
            yield from self._ledger(reading)
            return reading
        except Damaged as error:  # a section that is not there
            yield Finding.of(error)
            return None
        except (KeyError, IndexError, ValueError) as error:  # one of another shape
            yield Finding(True, state, None, f"the catalogue says what its files do not hold: {error}")
            return None

    def _rules(self, reading: Reading) -> Findings:
        """The texts that host records point to are there, as far as they are still used."""
        now, hosts = self.now() - reading.clock_set, reading.hosts
        merged = (batch for bucket in hosts.buckets for batch in hosts.scan(bucket))
        for batch in chain(merged, hosts.waiting(OP_STATE)):
            used = batch.filter((batch["rules_length"] > 0) & (batch["robots_until"] > now))
            pointers = zip(*(used[name].tolist() for name in ("rules_log", "rules_offset", "rules_length")))
            for pointer in pointers:  # one a host whose rules are in use
                path = os.path.join(reading.job.state, rules_log_name(pointer[0]))
                if path not in self.damaged and not self._is_text(pointer):
                    yield Finding(True, path, pointer[1], "a host's robots.txt should be here, and is not")

    def _is_text(self, pointer: tuple[int, int, int]) -> bool:
        """Whether a text of that length is there: in a log that ends before, is gone or is another's, none is."""
        try:
            RulesLog.read(self.files, str(self.job.state), pointer)
        except (Damaged, FileNotFoundError):
            return False
        return True

    def _ledger(self, reading: Reading) -> Findings:
        saved = reading.catalog.get("ledger")
        if saved is None:
            return
        ledger = Ledger.from_json(saved)
        try:
            ledger.check(reading.stores.live())
            reading.sites.check()
        except LedgerError as error:
            yield Finding(True, str(self.job.state), None, str(error))
        if ledger.discovered != reading.seen.rows:
            yield Finding(
                True, str(self.job.state), None,
                f"the ledger counts {ledger.discovered} URLs discovered, `seen` holds {reading.seen.rows}",
            )  # fmt: skip

    def _urls(self, census: Census, reading: Reading) -> Findings:
        waiting = sum(
            place.rows for place in (reading.runs, reading.calendar, reading.rests, reading.pages, reading.queues)
        )
        self.bar.stage("what waits", waiting, urls)
        for place, batch in reading.waiting():
            self.bar.read(batch.rows)
            yield from census.waiting(place, batch, str(self.job.state))
        yield from census.urls(reading)
        saved = reading.catalog.get("ledger")
        if saved is None:
            return
        told: dict[str, int] = {}
        for (outcome, reason), lines in census.outcomes.items():
            name = f"excluded({reason})" if outcome == "excluded" else outcome
            told[name] = told.get(name, 0) + lines
        wanted = {"fetched": saved["fetched"] + saved["gone"] + census.pages, "failed": saved["failed"]}
        wanted |= {f"excluded({reason})": rows for reason, rows in saved["excluded"].items()}
        for name in wanted.keys() | {name for name in told if name not in ("none", "retry", "returned")}:
            if wanted.get(name, 0) != told.get(name, 0):
                lines_say = words.plural(told.get(name, 0), "line says", "lines say")
                what = f"{lines_say} {name}, the ledger counts {wanted.get(name, 0)}"
                yield Finding(True, str(self.job.crawl_log), None, what)

    # -- logs and archives ---------------------------------------------------------------------------------------------

    def _log(self, census: Census, catalog: Catalog | None) -> Steps:
        """Every committed line of the crawl log, into the census."""
        path = str(self.job.crawl_log)
        committed: dict[str, int] = (catalog.get("log") if catalog is not None else None) or {}
        parts = rolled_parts(self.files, path) if self.job.logs.is_dir() else {}
        rolled = committed.get("part", 0) if catalog is not None else max(parts, default=0)
        there = [part for part in [*parts.values(), path] if self.files.exists(part)]
        self.bar.stage("crawl log", sum(map(self.files.size, there)))
        whole = True
        for number in range(1, rolled + 1):
            if number not in parts:
                whole = False
                yield Finding(True, part_name(path, number, True), None, log_parts.MISSING)
            else:
                known = number == rolled and not parts[number].endswith(COMPRESSED) and "rolled_crc" in committed
                until, crc = (committed["rolled_bytes"], committed["rolled_crc"]) if known else (None, None)
                whole = (yield from self._log_file(census, parts[number], until, crc)) and whole
        live = parts.get(rolled + 1, path)  # a roll that no commit names is taken back when the crawl opens
        until = committed.get("bytes", 0) if catalog is not None else None
        return (yield from self._log_file(census, live, until, committed.get("crc"))) and whole

    def _log_file(self, census: Census, path: str, until: int | None, crc: int | None) -> Steps:
        """One file, of which `until` bytes (None: all) were committed."""
        size, whole = self.files.size(path) if self.files.exists(path) else 0, True
        if until is not None and size < until:
            yield Finding(True, path, size, log_parts.ended_before(until))
            whole = False
        elif until is not None and size > until:
            yield note(path, f"its last {size - until} bytes were not committed, and are cut when the crawl goes on")
        if size or path.endswith(COMPRESSED):
            whole = (yield from self._log_part(census, path, until, crc)) and whole
        return whole

    def _log_part(self, census: Census, path: str, until: int | None, crc: int | None) -> Steps:
        """One file, up to `until` bytes; with a `crc` those bytes must have it."""
        whole, at, found, packed = True, 0, 0, path.endswith(COMPRESSED)
        try:
            for chunk in log_parts.chunks(open_part(self.files, path)):
                chunk = chunk if until is None else chunk[: max(until - at, 0)]
                self.bar.read(len(chunk))
                found = zlib.crc32(chunk, found)
                for text in log_parts.lines_of(chunk):
                    try:
                        census.logged(parse(text))
                    except BadLine as error:
                        whole = False
                        yield Finding(True, path, None if packed else at, str(error))
                    at += len(text) + 1
        except Damaged as error:
            yield Finding.of(error)
            return False
        if crc is not None and whole and found != crc:
            yield Finding(True, path, 0, "its committed bytes do not have the checksum they had")
            return False
        return whole

    def _archives(self, census: Census | None, catalog: Catalog | None, seeded: bool) -> Findings:
        """Every archive that is here; those that are away must be closed and committed."""
        warcs = str(self.job.warcs)
        there = warc_files(self.files, warcs) if self.job.warcs.is_dir() else []
        for stranger in strangers(self.job, self.files, catalog) if catalog and there else ():
            if stranger.what == COPY_WROTE:
                self.closed_to_starts.add(stranger.file)
            yield Finding.of(stranger)
        reach = self._reach(catalog)
        short = {error.file: error for error in shortened(self.job, self.files, reach)}
        self.bar.stage("archives", sum(self._size(warcs, file.on_disk) for file in there))
        streams = {int(key.split("/")[1]): value for key, value in catalog.items("streams/")} if catalog else {}
        by_name = {file.name: file for file in there}
        for name in census.in_order(list(by_name)) if census is not None else sorted(by_name):
            file = by_name[name]
            path, units = os.path.join(warcs, file.on_disk), list[Found]()
            size = self.files.size(path)
            covered = _covered(file, streams, size, catalog)
            known = reach[file.stream].known(file.serial, size) if file.stream in reach else covered
            for found in check_file(self.files, path, self.bar, units.append, known):
                behind_commit = covered < size and found.offset is not None and found.offset >= covered
                if found.damage and file.stream in streams and behind_commit:
                    self.closed_to_starts.add(path)
                yield found
            if path in short:
                self.closed_to_starts.add(path)
                yield Finding.of(short[path])
            if census is not None and seeded:
                yield from census.archive(name, path, units, covered, size)
                if behind := sum(unit.end > covered for unit in units):
                    yield note(
                        path, f"{words.plural(behind, 'unit')} behind the last commit, read again at the next start"
                    )
        logged = sorted(census.archives) if census is not None else []
        names = {(one.stream, one.serial): name for name in logged if (one := WarcName.parse(name)) is not None}
        lost = set(missing(self.job, self.files, reach))
        for stream, serial in sorted(lost):
            called = names.get((stream, serial))  # None where no committed line points into it
            path = os.path.join(warcs, called + OPEN) if called is not None else warcs
            self.closed_to_starts.add(path)
            yield Finding(True, path, None, not_closed(serial, stream))
        lost_names = {names.get(place) for place in lost}
        away = [name for name in logged if name not in lost_names and archive_path(warcs, name, OPEN) is None]
        if away and census is not None:
            gone = sum(census.archives[name] for name in away)
            yield note(
                warcs,
                f"{words.plural(len(away), 'archive')} with {words.plural(gone, 'unit')} away: {examples(iter(away))}",
            )
            prefix = load_stored(self.job.config_file).archive.prefix if self.job.exists() else ""
            for node, count in sorted(Counter(node_of(name, prefix) for name in away).items(), key=str):
                if node is not None:
                    yield note(warcs, f"{words.plural(count, 'archive')} of these: on machine {node}")

    def _reach(self, catalog: Catalog | None) -> dict[int, Reach]:
        """How far harvests cover the archives; nothing where they cannot be read, which was told."""
        if catalog is None:
            return {}
        try:
            return reach_of(self.files, str(self.job.state), catalog)
        except Damaged:
            return {}

    # -- files ---------------------------------------------------------------------------------------------------------

    def _names(self, wanted: Callable[[str], bool]) -> list[str]:
        """Those names in state/."""
        return [name for name in self.files.listdir(self.job.state) if wanted(name)] if self.job.state.is_dir() else []

    def _catalogues(self) -> list[str]:
        """Oldest first."""
        return logs(self.job.state, self.files) if self.job.state.is_dir() else []

    def _size(self, directory: str, name: str) -> int:
        return self.files.size(os.path.join(directory, name))


def _covered(file: WarcName, streams: dict[int, Any], size: int, catalog: Catalog | None) -> int:
    """Up to which byte of an archive a commit knows its units; none of one that an `update` was killed over."""
    if file.stream in streams:
        serial, offset = streams[file.stream]["warc"]
        return size if file.serial < serial else offset if file.serial == serial else 0
    lent = [Lent(*entry) for _, entry in catalog.items(LISTS)] if catalog is not None else []
    if any(file.stream in range(one.first, one.first + one.streams) for one in lent):
        return 0
    return size if catalog is not None and file.stream < catalog.get("stream-next", 0) else 0
