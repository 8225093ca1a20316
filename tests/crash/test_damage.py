"""I5: one byte of any file of the state is wrong, and the crawl goes on: either the damage is found and named, or
nothing that was read depended on it; it never spreads into what the crawl writes, says or asks for."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import get_args

from drum import Damaged

import pytest

from irlcrawl.base.job import JobDir
from irlcrawl.config.keys import Config
from irlcrawl.config.toml import to_toml
from irlcrawl.terminal.progress import Bar
from irlcrawl.upkeep.fsck import Fsck
from tests.crash import crawl
from tests.crash import web as crash_web
from tests.crash.disk import DIRECTORY, Disk, Outcome
from tests.crawl.virtual_crawl import Killed

FLIPS_PER_FILE = 4
ASKED_AGAIN = re.compile(r"asked for again: \['http://[^/]*/robots\.txt'(, 'http://[^/]*/robots\.txt')*\]$")


@pytest.fixture(scope="module")
def told() -> crawl.Reference:
    return crawl.reference()


def moment(told: crawl.Reference) -> tuple[int, Disk]:
    """In the middle, with a harvest that nobody named yet and a commit behind it."""
    wanted = {
        at
        for at in range(len(told.changes) // 2, len(told.changes))
        if told.changes[at - 1][0] == "rename" and "harvest-" in told.changes[at - 1][2]
    }
    disks = ((at, disk.after_crash("killed", random.Random(0))) for at, disk in crawl.disks(told, wanted.__contains__))
    return next((at, disk) for at, disk in disks if commits(disk) > 1)


def commits(disk: Disk) -> int:
    """Lines of the catalogue's log: one right after it was begun anew."""
    names = disk.directories[str(crawl.JOB / "state")].names
    return next(disk.inodes[number].data.count(b"\n") for name, number in names.items() if name.startswith("catalog-"))


def flipped(disk: Disk, draw: random.Random) -> Iterator[tuple[str, int, Disk]]:
    """The disk with a byte changed: the first, the last and some of every file of the state, to zero among others."""
    state = str(crawl.JOB / "state")
    for name in sorted(disk.directories[state].names):
        size = len(disk.inodes[disk.directories[state].names[name]].data)
        for offset in [0, size - 1, *(draw.randrange(size) for _ in range(FLIPS_PER_FILE - 2))]:
            copy = disk.after_crash("killed", draw)
            data = copy.inodes[copy.directories[state].names[name]].data
            data[offset] = draw.choice([0, data[offset] ^ 1 << draw.randrange(8)]) if data[offset] else 1
            yield name, offset, copy


def test_i5_a_byte_of_any_state_file_is_wrong(told: crawl.Reference) -> None:
    at, disk = moment(told)
    found: dict[str, int] = {}
    for name, offset, broken in flipped(disk, random.Random(1)):
        kind = name.partition("-")[0]
        try:
            crawl.resume(told, broken, at, "killed", 0)
        except Damaged as error:
            assert error.file.endswith(name), f"byte {offset} of {name} is wrong, but the damage is said to be {error}"
            found[kind] = found.get(kind, 0) + 1
        except Killed:
            raise AssertionError(f"byte {offset} of {name} killed the crawl") from None
        except AssertionError as error:
            if kind != "robots" or not ASKED_AGAIN.search(str(error)):  # lost rules are said so and asked for again
                raise AssertionError(f"byte {offset} of {name} is wrong, and it spread: {error}") from error
    assert set(found) >= {"catalog", "turn", "harvest"}


@pytest.mark.parametrize("outcome", get_args(Outcome))
def test_fsck_calls_nothing_damage_that_a_crash_may_leave(
    told: crawl.Reference, outcome: Outcome, tmp_path: Path
) -> None:
    """`leases.log`, which is never synced, was damage after a power loss, and so was what power had left of the end of
    an archive where some of it was gone and some behind it there: --repair made everything anew."""
    moments = {*range(len(told.changes) // 9, len(told.changes), len(told.changes) // 9), 127, 1447, 1807}
    for at, disk in crawl.disks(told, moments.__contains__):
        job = laid_out(crawl.crashed(told, disk, at, outcome, 7), tmp_path / str(at))
        found = Fsck(job, Bar(), now=partial(told.times.__getitem__, at - 1)).run()
        assert not [one for one in found if one.damage], f"after {at} changes"


def laid_out(disk: Disk, root: Path) -> JobDir:
    """JOB of a disk in memory as files; its configuration, which no start there reads, as a real one."""
    for path, directory in disk.directories.items():
        if path.startswith(str(crawl.JOB)):
            here = root / Path(path).relative_to(crawl.JOB.parent)
            here.mkdir(parents=True)
            for name, number in directory.names.items():
                if number != DIRECTORY:
                    (here / name).write_bytes(disk.inodes[number].data)
    job = JobDir(root / crawl.JOB.name)
    if job.exists():
        config = Config()
        crash_web.configure(config)
        job.config_file.write_text(to_toml(config))
    return job


def test_a_commit_with_a_zero_byte_in_it_is_damage_and_not_a_torn_line(told: crawl.Reference) -> None:
    """A zero anywhere in the last line made it pass for one that never reached the disk: a commit was forgotten whose
    files were named by nothing else."""
    at, disk = moment(told)
    state = str(crawl.JOB / "state")
    name = next(name for name in disk.directories[state].names if name.startswith("catalog-"))
    data = disk.inodes[disk.directories[state].names[name]].data
    data[data.rindex(b"\n", 0, len(data) - 1) + 300] = 0
    with pytest.raises(Damaged, match=name):
        crawl.resume(told, disk, at, "killed", 0)
