"""The disk that loses power shows what it may and nothing else."""

from __future__ import annotations

import random
from typing import get_args

from drum.files import Files

from hypothesis import given
from hypothesis import strategies as st

from tests.crash.disk import SECTOR, Disk, DiskFiles, Outcome

_writes = st.lists(st.tuples(st.integers(1, 1500), st.booleans()), max_size=8)


@given(_writes, st.sampled_from(get_args(Outcome)), st.integers(0, 1 << 30))
def test_what_was_synced_is_there_and_the_rest_is_old_or_new_by_sectors(
    writes: list[tuple[int, bool]], outcome: Outcome, seed: int
) -> None:
    disk = Disk()
    files = DiskFiles(disk, lambda: 0.0, "boot")
    handle = files.append("/log")
    files.fsync_dir("/")
    durable, whole = 0, b""
    for number, (length, sync) in enumerate(writes):
        data = bytes([65 + number]) * length
        files.write(handle, data)
        whole += data
        if sync:
            files.fsync(handle)
            durable = len(whole)
    found = DiskFiles(disk.after_crash(outcome, random.Random(seed)), lambda: 0.0, "boot").read("/log")
    assert found[:durable] == whole[:durable]
    assert len(found) <= len(whole)
    if outcome == "killed":
        assert found == whole
    elif outcome == "dropped":
        assert len(found) == durable
    for at in range(durable, len(found)):  # in one sector, the bytes of one write are there together or not at all
        assert found[at] in (0, whole[at])
        if at % SECTOR and at > durable and whole[at] == whole[at - 1]:
            assert (found[at] == 0) == (found[at - 1] == 0)


def test_names_last_once_their_directory_is_synced() -> None:
    disk = Disk()
    files = DiskFiles(disk, lambda: 0.0, "boot")
    files.close(files.create("/old"))
    files.fsync_dir("/")
    files.rename("/old", "/new")
    files.close(files.create("/other"))
    seen = set()
    for seed in range(60):
        found = disk.after_crash("torn", random.Random(seed))
        seen.add(tuple(sorted(found.directories["/"].names)))
    assert seen == {("old",), ("new",), ("old", "other"), ("new", "other")}, "renames are atomic, nothing is ordered"
    assert list(disk.after_crash("dropped", random.Random(0)).directories["/"].names) == ["old"]
    files.fsync_dir("/")
    assert set(disk.after_crash("dropped", random.Random(0)).directories["/"].names) == {"new", "other"}


def test_it_has_every_call_of_files() -> None:
    """A call that the disk in memory does not know would reach the real one."""
    calls = {name for name in vars(Files) if not name.startswith("_")}
    assert calls <= {name for name in vars(DiskFiles) if not name.startswith("_")}
