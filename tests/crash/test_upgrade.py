"""A crawl that an older version left behind becomes one of the present version, also when that is cut off: at every
change that opening it makes to the disk, by a kill or a power loss, the next start goes on from what is there."""

from __future__ import annotations

import itertools
import random
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, get_args

import pytest

from drum import Catalog
from irlcrawl.base.job import ExitCode
from irlcrawl.frontier.state import formats
from irlcrawl.worker.archive import redo
from tests.crash.crawl import FINAL, JOB, DiskCrawl, crawl_on, empty_disk
from tests.crash.disk import Disk, Outcome
from tests.crawl.virtual_crawl import START, Killed
from tests.upkeep import versions

LATER = START + 86_400.0
FIRST, EVERY = 12, 8
"""Changes until the commit that makes it a crawl of the present version; of those after it, up to the first request."""


def disk_of(version: str) -> Disk:
    """JOB as that version left it, all of it durable."""
    disk = empty_disk()
    numbers = itertools.count(1)
    with tarfile.open(versions.HERE / f"{version}.tar.gz") as archive:
        for member in archive:
            path = str(JOB.parent / member.name)
            if member.isdir():
                disk.apply(("mkdir", path))
            elif (stream := archive.extractfile(member)) is not None:
                number = next(numbers)
                disk.apply(("create", path, number), LATER)
                disk.apply(("write", number, 0, stream.read()), LATER)
                disk.apply(("fsync", number))
    for path in disk.directories:
        disk.apply(("fsync_dir", path))
    return disk


@contextmanager
def opened(disk: Disk, boot: str) -> Iterator[DiskCrawl]:
    with crawl_on(disk, versions.web(), LATER, boot) as crawl:
        crawl.seeds = [versions.SEED]
        versions.configure(crawl.config)
        yield crawl


def until_asked(disk: Disk, boot: str, crash_at: int | None = None) -> tuple[DiskCrawl, int]:
    """Start on `disk` until the first request, or a crash at that change to it: the crawl, and its changes so far."""
    with opened(disk, boot) as crawl:
        crawl.files.crash_at = crash_at
        crawl.on_request = lambda _: crawl.kill()
        with pytest.raises(Killed):
            crawl.run()
        return crawl, crawl.files.changes


def facts(crawl: DiskCrawl) -> dict[str, Any]:
    """What the crawl on this disk knows of its URLs, once it has asked for one."""
    crawl.files.dead = False
    catalog = Catalog.open(JOB / "state", crawl.files, readonly=True)
    assert catalog.get("crawl")["format"] == formats.FORMAT
    streams = {name: stream for name, stream in catalog.items("streams/") if stream["next"]}  # others are new workers'
    return {name: catalog.get(name) for name in ("ledger", "counters")} | streams


def archived_on(crawl: DiskCrawl) -> set[str]:
    """URLs that need not be asked for again."""
    where = str(JOB / "warcs")
    units = [redo.units(crawl.files, where, stream) for stream in redo.streams(crawl.files, where)]
    return {unit.url.decode() for unit, _, _ in itertools.chain(*units) if unit.cls in FINAL}


@pytest.mark.parametrize("version", versions.RELEASED)
def test_i1_becoming_the_present_version_cut_off_at_any_change(version: str) -> None:
    whole, changes = until_asked(disk_of(version), "boot 0")
    wanted = facts(whole)
    assert wanted["ledger"]["discovered"] > 250
    for at in [*range(FIRST), *range(FIRST + int(version), changes, EVERY)]:
        for outcome in get_args(Outcome) if at < FIRST else get_args(Outcome)[at % 3 :][:1]:
            disk = disk_of(version)
            until_asked(disk, "boot 0", at)
            found = disk.after_crash(outcome, random.Random(f"{version} {at}"))
            again, _ = until_asked(found, "boot 0" if outcome == "killed" else "boot 1")
            assert facts(again) == wanted, f"{outcome} at {at}"


@pytest.mark.parametrize("version", versions.RELEASED)
def test_i2_an_upgrade_cut_off_ends_as_one_that_was_not(version: str) -> None:
    disk = disk_of(version)
    until_asked(disk, "boot 0", random.Random(version).randrange(20))
    with opened(disk.after_crash("torn", random.Random(version)), "boot 1") as crawl:
        archived = archived_on(crawl)
        assert len(archived) > 50
        assert crawl.run() == ExitCode.DONE
        outcomes = crawl.outcomes()
        pages = {url for url in crawl.web.answers if not url.endswith("robots.txt")}
        assert set(outcomes) == pages | {"http://a.two.test/gone", "http://a.two.test/secret/1"}
        assert not archived & set(crawl.web.pages_asked)
