"""A crawl of tests/crash/web.py on a disk in memory: once without harm, and again from any moment of that one.

`Reference` is the unharmed crawl: it keeps every change to the disk with the time it was made at and what had been
archived and asked by then. `resume(reference, n, outcome)` goes on from the disk after change n as a power loss or a
kill leaves it, until the crawl ends, and `check` holds what came of it against the reference and the invariants.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from drum import Catalog, Segment

import pytest

from budgets import Ledger
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import returns_name
from irlcrawl.base.reasons import Class
from irlcrawl.base.rows import Robots
from irlcrawl.crawl import gauges
from irlcrawl.crawl.returns import TAKEN, Drawing, Selection, write
from irlcrawl.frontier.state import crawl_state as state_module
from irlcrawl.frontier.turn import turn as turn_module
from irlcrawl.worker.archive import record, redo, warc
from irlcrawl.worker.archive.log_parts import read
from irlcrawl.worker.archive.unit import Unit
from irlcrawl.worker.fetch import service
from irlcrawl.worker.fetch.http import Fetched, Request
from tests.crash import web as crash_web
from tests.crash.disk import Change, Disk, DiskFiles, Outcome
from tests.crawl.virtual_crawl import Crawl, Killed, Web

JOB = Path("/disk/job")
DOWN_S = 0.05
"""From a crash to the next start: short, so that a promise that only a slow restart would keep is seen to break."""
TICK_S = 1.0  # of the worker, tests/crawl/virtual_crawl.py
CONFIG = "# a configuration\n" + 30 * "[limits]  # in several sectors\n"
HOURS = 2.0
ROLL_BYTES = 25_000
FINAL = (Class.FETCHED, Class.FAILED, Class.EXCLUDED)


class MemoryJob(JobDir):
    """JOB on the disk in memory; nobody else is there to lock it against. Its directories become durable with the
    configuration, as those of a real one."""

    def __init__(self, path: Path, files: DiskFiles) -> None:
        super().__init__(path)
        self.memory = files

    def acquire(self, wait_seconds: float | None = None) -> None:
        for directory in (self.path, self.state, self.warcs, self.logs):
            if not self.memory.exists(directory):
                self.memory.mkdir(directory)
        self.write_config(CONFIG, self.memory)

    def release(self) -> None:
        pass


class RollingWriter(warc.WarcWriter):
    """Starts a new file more often than a configuration may ask for."""

    def __init__(self, *known: Any, roll_bytes: int, **rest: Any) -> None:
        super().__init__(*known, roll_bytes=ROLL_BYTES, **rest)


class DiskCrawl(Crawl):
    """A crawl whose files are DiskFiles; a crash of them kills it."""

    files: DiskFiles

    def job(self) -> JobDir:
        return MemoryJob(self.path, self.files)

    async def _fetch(self, request: Request) -> Fetched:
        if self.files.dead:
            raise asyncio.CancelledError
        return await super()._fetch(request)


@contextmanager
def crawl_on(disk: Disk, web: Web, now: float, boot: str) -> Iterator[DiskCrawl]:
    """A crawl on this disk, ready to run from the time `now` on."""
    with pytest.MonkeyPatch.context() as patch:
        _deterministic(patch)
        files = DiskFiles(disk, lambda: crawl.clock.now(), boot)
        crawl = DiskCrawl(JOB, web, [crash_web.SEED], patch, workers=2, names=crash_web.TimedNames(), files=files)
        crawl.clock.set(now)
        crash_web.configure(crawl.config)
        files.on_crash = crawl.kill
        yield crawl


def _deterministic(patch: pytest.MonkeyPatch) -> None:
    """The same crawl each time, with the rare made frequent: compaction of the catalogue and vacuum of its files."""
    numbers = random.Random(1)
    secrets = SimpleNamespace(token_hex=lambda size: "ab" * size, randbits=lambda bits: 12345)
    stopped = SimpleNamespace(perf_counter=lambda: 0.0, thread_time=lambda: 0.0)
    patch.setattr(state_module, "secrets", secrets)
    patch.setattr(state_module, "time", stopped)
    patch.setattr(turn_module, "time", stopped)
    patch.setattr(gauges, "_resident", lambda pids: 0)
    patch.setattr(record, "new_id", lambda: f"<urn:uuid:{numbers.getrandbits(128):032x}>")
    patch.setattr(import_module("drum.catalog"), "COMPACT_BYTES_MIN", 16_000)
    patch.setattr(import_module("drum.catalog"), "COMPACT_FACTOR", 3)
    patch.setattr(import_module("drum.vacuum"), "LIVE_SHARE_LEAST", 0.6)
    patch.setattr(turn_module, "RELEASE_ROWS_MAX", 60)
    patch.setattr(service, "WarcWriter", RollingWriter)


@dataclass
class Kept:
    """A unit of the archive: the change that wrote it, and what it says."""

    at: int
    when: float
    url: bytes
    final: bool


@dataclass
class Reference:
    """The crawl nothing happened to."""

    changes: list[Change] = field(default_factory=list)
    times: list[float] = field(default_factory=list)  # of each change
    asked: list[int] = field(default_factory=list)  # requests made before each change
    kept: list[Kept] = field(default_factory=list)
    requests: list[tuple[float, str]] = field(default_factory=list)
    outcomes: dict[str, object] = field(default_factory=dict)
    ledger: dict[str, Any] = field(default_factory=dict)
    commits: int = 0
    ended: float = 0.0


async def operator(crawl: DiskCrawl) -> None:
    """Beside the crawl: once their host is mended, URLs that failed are put back as by `irlcrawl retry`, until none has
    failed."""
    assert crawl.loop is not None
    await asyncio.sleep(max(0.0, crash_web.MENDED_AT - crawl.clock.now()))
    selection = Selection(hosts=(crash_web.MENDED.encode(),))
    path = JOB / "state" / returns_name(1)
    seen = -1
    while True:
        await asyncio.sleep(0.5)
        if seen == (seen := crawl.loop.state.catalog.number):
            continue  # since the last look nothing was committed: there is nothing new to put back
        catalog = Catalog.open(JOB / "state", crawl.files, readonly=True)
        drawing = Drawing(crawl.job(), catalog, crawl.files, selection)
        if write(crawl.files, str(path), drawing.number, drawing.rows(crawl.config)):
            if crawl.loop.hand_in(path.name) == TAKEN:
                crawl.archived -= set(map(str.encode, crash_web.MENDED_URLS))
            else:
                crawl.files.unlink(path)
                seen = -1  # not now


def empty_disk() -> Disk:
    """With the directory in which JOB is made."""
    disk = Disk()
    disk.apply(("mkdir", str(JOB.parent)))
    disk.apply(("fsync_dir", "/"))
    return disk


def reference() -> Reference:
    """Crawl without harm, with a journal."""
    told = Reference()
    web = crash_web.build()
    with crawl_on(empty_disk(), web, 0.0, "boot 0") as crawl:
        crawl.files.journal = told.changes
        apply = crawl.files.disk.apply

        def journal(change: Change, now: float = 0.0) -> None:
            told.times.append(now)
            told.asked.append(len(web.log))
            apply(change, now)

        crawl.files.disk.apply = journal  # type: ignore[method-assign]
        crawl.on_kept = lambda unit: told.kept.append(_kept(len(told.times), crawl.clock.now(), unit))
        assert crawl.run(operator, hours=HOURS) == ExitCode.DONE
        told.requests, told.ended = web.log, crawl.clock.now()
        told.outcomes = crash_web.settled(crawl.outcomes())
        catalog = Catalog.open(JOB / "state", crawl.files, readonly=True)
        told.ledger, told.commits = catalog.get("ledger"), catalog.number
    return told


def _kept(at: int, when: float, unit: Unit) -> Kept:
    return Kept(at, when, unit.url, unit.cls in FINAL or (unit.robots or {}).get("robots") == Robots.RULES)


@dataclass
class Life:
    """What is known of a crash: when, what was promised about the archive by then, and what had been asked."""

    crashed: float
    asked: int
    promised: set[str]  # URLs whose final unit must have survived, and robots.txt


def resume(told: Reference, disk: Disk, at: int, outcome: Outcome, seed: int, crashes: int = 0) -> None:
    """Go on from `disk` (the reference's after `at` changes, as the crash left it) to the end, and check everything.
    With `crashes`, the recovery is cut off so many times more, at random changes of it; every other one from a kill by
    a power loss, which takes what neither the killed crawl nor its recovery had synced."""
    draw = random.Random(f"{at} {outcome} {seed} again")
    later: Outcome = "torn" if outcome == "killed" and at % 2 else outcome
    power = outcome != "killed" or (crashes > 0 and later != "killed")
    now = told.times[at - 1] if at else crash_web.START
    web = crash_web.build()
    web.log = told.requests[: told.asked[at - 1] if at else 0]
    horizon = now - 3.0 - 2 * TICK_S if power else now
    written = at - (outcome == "killed")  # the last write may be torn
    promised = {k.url.decode() for k in told.kept if k.at <= written and k.final and k.when <= horizon}
    lives = [Life(now, len(web.log), promised)]
    boot = 0
    for life in range(crashes + 1):
        boot += (later if life else outcome) != "killed"
        with crawl_on(disk, web, now + DOWN_S, f"boot {boot}") as crawl:
            kept: list[Kept] = []
            crawl.on_kept = lambda unit, crawl=crawl, kept=kept: kept.append(_kept(0, crawl.clock.now(), unit))
            if life < crashes:
                crawl.files.crash_at = draw.randrange(60)
            try:
                assert crawl.run(operator, hours=HOURS) == ExitCode.DONE
            except Killed:
                now = crawl.clock.now()
                horizon = now - 3.0 - 2 * TICK_S if power else now
                promised = promised | {k.url.decode() for k in kept if k.final and k.when <= horizon}
                lives.append(Life(now, len(web.log), promised))
                disk = disk.after_crash(later, draw)
                continue
            check(told, crawl, lives)
            return


def check(told: Reference, crawl: DiskCrawl, lives: list[Life]) -> None:
    """I1, I2, I3, I5, I7 of a crawl that ended after crashes."""
    found = crash_web.settled(crawl.outcomes())  # I2: fails where a URL is done twice
    assert found == told.outcomes, _difference(told.outcomes, found)
    catalog = Catalog.open(JOB / "state", crawl.files, readonly=True)
    ledger = catalog.get("ledger")
    assert ledger == told.ledger, f"I1: {ledger} is not {told.ledger}"
    Ledger.from_json(ledger).check({})
    _check_state(crawl, catalog)
    _check_archive(crawl)
    for life in lives:
        may_be_again = {crash_web.SHARED_RULES, *crash_web.MENDED_URLS}
        again = {url for _, url in crawl.web.log[life.asked :]} & (life.promised - may_be_again)
        assert not again, f"I2: archived and asked for again: {sorted(again)[:5]}"
    _check_gaps(crawl, lives)


def _difference(wanted: dict[str, object], found: dict[str, object]) -> str:
    keys = [key for key in sorted({*wanted, *found}) if wanted.get(key) != found.get(key)]
    return "I2: " + "; ".join(f"{key}: {wanted.get(key)} became {found.get(key)}" for key in keys[:8])


def _check_state(crawl: DiskCrawl, catalog: Catalog) -> None:
    """I5: what is named is whole, and nothing is there that is not named."""
    files = crawl.files
    assert files.read(JOB / "irlcrawl.toml").decode() == CONFIG
    there = [name for name in files.listdir(JOB / "state") if name.endswith((".seg", ".tmp"))]
    assert there == catalog.live_files(), "a file without a name, or a name without a file"
    for name in there:
        Segment.open(files, JOB / "state" / name).verify()
    assert len([name for name in files.listdir(JOB / "state") if name.startswith("catalog-")]) == 1


def _check_archive(crawl: DiskCrawl) -> None:
    """I2, I5: every archive is whole and closed, no URL has two final units (but one that failed and was put back), and
    the crawl log points at them."""
    files, where = crawl.files, str(JOB / "warcs")
    names = warc.warc_files(files, where)
    assert not [name.on_disk for name in names if name.open]
    final: dict[bytes, tuple[str, int]] = {}
    failed: set[bytes] = set()
    for stream in redo.streams(files, where):
        for unit, _, location in redo.units(files, where, stream):
            if unit.cls in FINAL:
                if unit.cls == Class.FAILED and unit.url.decode() in crash_web.MENDED_URLS:
                    assert unit.url not in failed, f"I2: {unit.url!r} failed twice"
                    failed.add(unit.url)
                    continue
                assert unit.url not in final, f"I2: {unit.url!r} is archived twice"
                final[unit.url] = (location.file, location.record)
    logged = {
        entry.url: entry.warc[:2]
        for entry in read(files, str(JOB / "logs" / "crawl.log"))
        if entry.warc is not None and entry.notes["outcome"] not in ("retry", "none")
    }
    assert logged == final, "the crawl log and the archive differ"


def _check_gaps(crawl: DiskCrawl, lives: list[Life]) -> None:
    """I3: nothing is asked before its host's, its address's and its server's own wait is over. A request cut off by a
    crash ended with it; a Crawl-delay that the crash took with robots.txt is not known any more."""
    last: dict[str, float] = defaultdict(lambda: float("-inf"))  # clock -> when its last request ended
    for number, (started, url) in enumerate(crawl.web.log):
        host = url.split("/")[2]
        address = f"address {crawl.names.answers.get(host, host)}"
        before = [life for life in lives if life.asked <= number]
        forgot = bool(before) and last[host] <= before[-1].crashed  # its last request was in an earlier life
        delay = crash_web.CRAWL_DELAY_S if host == "slow.test" else 0.0
        if forgot and f"http://{host}/robots.txt" not in before[-1].promised:
            delay = 0.0
        for clock, gap in {host: max(crash_web.GAP_HOST_S, delay), address: crash_web.GAP_ADDRESS_S}.items():
            early = last[clock] + gap - started
            assert early <= 1e-3, f"I3: {url} {early:.3f} s early ({clock})"
            ends = [life.crashed for life in lives if life.asked > number]
            last[clock] = min([started + crash_web.FETCH_S, *ends])


def disks(told: Reference, wanted: Callable[[int], bool]) -> Iterator[tuple[int, Disk]]:
    """(n, the reference's disk after n changes) for the wanted n, ascending; do not change it."""
    disk = empty_disk()
    for at in range(len(told.changes) + 1):
        if wanted(at):
            yield at, disk
        if at < len(told.changes):
            disk.apply(told.changes[at], told.times[at])


def crashed(told: Reference, disk: Disk, at: int, outcome: Outcome, seed: int) -> Disk:
    """`disk` after the crash. A kill may come in the middle of the last write."""
    draw = random.Random(f"{at} {outcome} {seed}")
    found = disk.after_crash(outcome, draw)
    if outcome == "killed" and at and told.changes[at - 1][0] == "write" and seed % 2:
        _, number, offset, data = told.changes[at - 1]
        inode = found.inodes.get(number)
        if inode is not None and len(inode.data) == offset + len(data):
            cut = draw.randrange(len(data))
            del inode.data[offset + cut :]
            inode.unsynced[-1] = ("write", offset, data[:cut])
    return found
