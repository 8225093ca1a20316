"""A kill, and then a power loss: what the dead had written and not synced was there for recovery to see, and may be
gone after all. Each structure by itself: killed at every change, recovered, and without power at every change of that.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module

from drum import Catalog, Edits

import pytest

from irlcrawl.base.job_files import OPEN
from irlcrawl.frontier.state.sections import CrawlLog
from irlcrawl.worker.archive import redo
from irlcrawl.worker.archive.log_parts import read
from irlcrawl.worker.archive.warc import warc_files
from irlcrawl.worker.harvest.rules_log import RulesLog
from tests.crash.disk import Disk, DiskFiles, PowerLoss
from tests.worker.archive.support import exchange_of, unit_of, writer_in

SEEDS = 4
LINE = b"2026-01-02T03:04:05.678Z 200 1 http://a.test/%d - - - - - - - outcome=fetched,reason=ok"
Work = Callable[[DiskFiles], None]


def on(disk: Disk, crash_at: int | None = None) -> DiskFiles:
    files = DiskFiles(disk, lambda: 0.0, "boot")
    files.crash_at = crash_at
    return files


def cut_off(disk: Disk, work: Work, at: int) -> bool:
    """Do it on the disk; whether it was cut off at that change."""
    with suppress(PowerLoss):
        work(on(disk, at))
        return False
    return True


def found_after(work: Work, recover: Work) -> Iterator[DiskFiles]:
    """Each disk a start may find: `work` killed, `recover` cut off by a power loss, or over before the power is."""
    killed_at, killed = 0, True
    while killed:
        dead = Disk()
        dead.apply(("mkdir", "/d"))
        dead.apply(("fsync_dir", "/"))
        killed = cut_off(dead, work, killed_at)
        cut_at, cut = 0, True
        while cut:
            disk = dead.after_crash("killed", random.Random(0))
            cut = cut_off(disk, recover, cut_at)
            for seed in range(SEEDS):
                yield on(disk.after_crash("torn" if seed else "dropped", random.Random(f"{killed_at} {cut_at} {seed}")))
            cut_at += 1
        killed_at += 1


def test_a_commit_that_recovery_saw_and_the_log_it_stands_in_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """The older log is deleted, and so are files that the last commit does not name: it must not vanish again."""
    monkeypatch.setattr(import_module("drum.catalog"), "COMPACT_BYTES_MIN", 150)
    monkeypatch.setattr(import_module("drum.catalog"), "COMPACT_FACTOR", 1)
    seen = 0

    def commit(catalog: Catalog) -> None:
        edits = Edits()
        edits.set("n", catalog.number + 1)
        catalog.commit(edits)

    def work(files: DiskFiles) -> None:
        nonlocal seen
        seen = 0
        catalog = Catalog.open("/d", files)
        for _ in range(5):
            commit(catalog)
            seen = catalog.number

    def recover(files: DiskFiles) -> None:
        nonlocal seen
        catalog = Catalog.open("/d", files)
        seen = catalog.number
        commit(catalog)
        seen = catalog.number

    for files in found_after(work, recover):
        catalog = Catalog.open("/d", files)
        assert catalog.number >= seen and catalog.get("n", 0) == catalog.number


def test_archives_that_recovery_finished_stay_whole_and_finished() -> None:
    """A writer killed as it closed its last file had not made the name durable, and nobody did: after a power loss the
    file was `.open` again, of a stream that was over, and no start finished it."""
    over: list[bytes] | None = None

    def units(files: DiskFiles) -> list[bytes]:
        return [unit.url for unit, _, _ in redo.units(files, "/d", 1)]

    def work(files: DiskFiles) -> None:
        writer = writer_in("/d", roll_bytes=1200, files=files)  # type: ignore[arg-type]
        for number in range(3):
            unit = unit_of(b"http://a.test/%d" % number)
            writer.append(unit, exchange_of(unit))
        writer.close()

    def recover(files: DiskFiles) -> None:
        nonlocal over
        over = None
        redo.recover(files, "/d", 1)
        over = units(files)

    for files in found_after(work, recover):
        if over is None:
            redo.recover(files, "/d", 1)
        else:
            assert not [file.on_disk for file in warc_files(files, "/d") if file.on_disk.endswith(OPEN)]
            assert units(files) == over


def test_robots_texts_that_recovery_kept_are_no_damage() -> None:
    """Whole texts of a killed worker were left unsynced: after a power loss their log ended in zeros, of a stream that
    was over, and fsck called that damage."""
    over: list[bytes] | None = None

    def texts(files: DiskFiles) -> list[bytes]:
        return [text for text, _ in RulesLog.texts(files, "/d/robots-0001.log")]

    def work(files: DiskFiles) -> None:
        log = RulesLog(files, "/d", 1)
        for number in range(3):
            log.append(b"User-agent: *\nDisallow: /%d\n" % number * 40)
        files.fsync_dir("/d")  # a harvest's, on its way

    def recover(files: DiskFiles) -> None:
        nonlocal over
        over = None
        RulesLog(files, "/d", 1).recover()
        if files.exists("/d/robots-0001.log"):
            files.fsync_dir("/d")
            over = texts(files)

    for files in found_after(work, recover):
        if over is not None:
            assert texts(files) == over


def test_lines_that_were_committed_stay_in_a_log_that_rolls() -> None:
    """It rolls and compresses its parts; a commit says of each line that it is there."""
    path, nothing = "/d/crawl.log", dict[str, int]()
    alive, last = (nothing, 0), (nothing, 0)  # what the last commit of the killed, and of recovery, says: entry, lines

    def append(log: CrawlLog, number: int) -> tuple[dict[str, int], int]:
        log.append([LINE % number])
        return log.entry(), number + 1

    def work(files: DiskFiles) -> None:
        nonlocal alive, last
        alive = last = (nothing, 0)
        log = CrawlLog(files, path, {}, 200)
        for number in range(8):
            alive = last = append(log, number)

    def recover(files: DiskFiles) -> None:
        nonlocal last
        last = alive
        last = append(CrawlLog(files, path, alive[0], 200), alive[1])

    for files in found_after(work, recover):
        CrawlLog(files, path, last[0], 200).close()
        assert [int(entry.url[len("http://a.test/") :]) for entry in read(files, path)] == list(range(last[1]))
