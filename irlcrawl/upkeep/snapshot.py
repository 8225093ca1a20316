"""`irlcrawl snapshot JOB NAME`: a crawl as it was at one commit, in JOB/snapshots/NAME, while the crawl goes on.

Files that no longer change are shared by hard link: segments, closed archives, rolled logs, robots texts of workers
that are gone. Files that are still written to are copied up to where the commit knows them: the catalogue, the newest
crawl log, the archive that each worker has open, its robots texts. So recovery, here or there, never touches a byte
that both have. Pages fetched after that commit are not in the snapshot: its crawl would fetch them again.

A snapshot is a JOB that never changes: every verb that asks can ask it, and `open_as` makes any number of crawls of it.
Taking one costs O(files), and a copy of the open files: at most archive.roll_bytes a worker.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drum import Catalog, Damaged, Edits, Files, UnknownVersion
from drum.catalog import MISSING
from drum.names import parse_log

from irlcrawl.base.exit_codes import is_disk_full
from irlcrawl.base.job import JobDir, JobError, JobFull, JobLocked, command
from irlcrawl.base.job_files import (
    CONFIG,
    CRAWL_LOG,
    LOGS,
    SEEDS_STREAM,
    SNAPSHOT,
    STATE,
    WARCS,
    harvests_from,
    is_snapshot_name,
    is_unfinished,
    parse_rules_log,
    part_name,
    temporary,
    unfinished_name,
)
from irlcrawl.config.keys import ConfigError
from irlcrawl.frontier.state import formats
from irlcrawl.frontier.state.harvested import WRITTEN, archives_of
from irlcrawl.frontier.state.start_checks import check_state_there
from irlcrawl.terminal.progress import Bar
from irlcrawl.worker.archive import log_parts
from irlcrawl.worker.archive.warc import warc_files
from irlcrawl.worker.harvest.rules_log import PART

ATTEMPTS_MAX = 100
COPY_BYTES = 64 << 20
"""Copied at once; a file of fewer bytes is there in a moment."""
TAKING = "another snapshot is being taken or deleted"
FACTS = {"commit", "fetched", "taken", "name"}
VERSION = 1
"""Version of the marker file. The files beside it have the version of JOB."""


class _Moved(Exception):
    """A commit came in between: start again with the next one."""


@dataclass(frozen=True)
class Snapshot:
    name: str
    path: Path
    taken: float  # unix seconds
    commit: int
    fetched: int
    bytes: int  # of its files, shared ones included


def snapshots(job: JobDir) -> Iterator[Snapshot]:
    """Every snapshot, oldest first. Damaged."""
    yield from sorted(map(_snapshot, paths(job)), key=lambda one: (one.taken, one.name))


def paths(job: JobDir) -> list[Path]:
    """The directories of whole snapshots."""
    found = job.snapshots.iterdir() if job.snapshots.is_dir() else ()
    return sorted(path for path in found if (path / SNAPSHOT).is_file() and is_snapshot_name(path.name))


def _snapshot(path: Path) -> Snapshot:
    facts = read_marker(path)
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return Snapshot(path.name, path, facts["taken"], facts["commit"], facts["fetched"], size)


def read_marker(path: Path) -> dict[str, Any]:
    """The facts that a snapshot's marker holds. Damaged, UnknownVersion."""
    marker = path / SNAPSHOT
    data = marker.read_bytes()
    try:
        facts: dict[str, Any] = json.loads(data)
        first = facts.keys() == FACTS  # those of the first snapshots had no checksum
        facts.pop("crc", None)
        if first or data == _marker(facts):
            if facts.get("snapshot", VERSION) > VERSION:
                raise UnknownVersion(str(marker), facts["snapshot"], str(VERSION))
            return facts
    except (ValueError, AttributeError):
        pass
    raise Damaged(marker, 0, "not what was written when the snapshot was taken")


def _marker(facts: dict[str, Any]) -> bytes:
    return json.dumps({**facts, "crc": zlib.crc32(json.dumps(facts).encode())}).encode() + b"\n"


def take(job: JobDir, name: str, files: Files | None = None, bar: Bar | None = None) -> Snapshot:
    """Take a snapshot. bar: shows how far large copies are. ConfigError for a name that is not allowed, JobError,
    JobLocked, JobFull, Damaged."""
    files = files or Files()
    if not is_snapshot_name(name):
        raise ConfigError(f"{name!r}: a snapshot's name is made of letters, digits, '.', '_' and '-'")
    if (job.path / SNAPSHOT).exists():
        raise JobError(f"{job.path}: a snapshot already, which stays as it is")
    target = job.snapshots / name
    if not job.has_catalogue():
        check_state_there(job, files)
        raise JobError(f"{job.path}: the crawl has committed nothing yet, so there is nothing to keep")
    with _alone(job.snapshots, TAKING):
        if target.exists():
            raise JobError(f"{target}: is there already; {command('snapshots', job.path, '--delete', name)}")
        _clear(job)
        _take(job, target, files, bar or Bar())
    return _snapshot(target)


@contextmanager
def _alone(path: Path, doing: str) -> Iterator[None]:
    """Lock the directory of snapshots: each process that makes or deletes one clears the remains of others.
    JobLocked."""
    path.mkdir(parents=True, exist_ok=True)
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise JobLocked(f"{path}: in use: {doing}") from None
    finally:
        os.close(directory)


@contextmanager
def alone(job: JobDir) -> Iterator[None]:
    """As long as it lasts no snapshot is taken or deleted, and there are no remains of one. JobLocked."""
    with _alone(job.snapshots, TAKING):
        _clear(job)
        yield


def _clear(job: JobDir) -> None:
    """Delete the remains of a snapshot that was being taken or deleted."""
    for left in job.snapshots.iterdir():
        if is_unfinished(left.name):
            shutil.rmtree(left)


def _take(job: JobDir, target: Path, files: Files, bar: Bar) -> None:
    building, name = job.snapshots / unfinished_name(target.name), target.name
    try:
        facts = _build(job, building, files, bar)
        facts |= {"taken": time.time(), "name": name, "snapshot": VERSION}
        _write(building / SNAPSHOT, _marker(facts))
        for directory in (building / STATE, building / WARCS, building / LOGS, building):
            files.fsync_dir(directory)
        files.rename(building, target)
        files.fsync_dir(job.snapshots)
    except OSError as error:
        if is_disk_full(error):
            raise JobFull(f"{job.path}: no room on its disk for a snapshot") from error
        if error.errno == errno.EXDEV:
            elsewhere = "is on another file system than the snapshots, and cannot be shared with them"
            raise JobError(f"{error.filename}: {elsewhere}") from error
        raise
    finally:
        shutil.rmtree(building, ignore_errors=True)  # there no more when all went well


def delete(job: JobDir, name: str) -> None:
    """Delete a snapshot; files that it shares stay with the others. JobError if there is none, JobLocked."""
    path = _existing(job, name)
    with _alone(job.snapshots, TAKING):
        gone = job.snapshots / unfinished_name(f"{name}.deleted")
        path.rename(gone)
        shutil.rmtree(gone)


def open_as(job: JobDir, name: str, target: Path) -> None:
    """Make `target`, which must be new and on the same file system, a crawl that goes on from a snapshot. JobError."""
    source = _existing(job, name)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise JobError(f"{target}: is there already; name a new directory")
    if job.path.resolve() in target.resolve().parents:
        raise JobError(f"{target}: lies in {job.path}, which is another crawl; name a directory elsewhere")
    files = Files()
    with _alone(target, "a snapshot is being opened there"):
        if any(target.iterdir()):  # another was, just before
            raise JobError(f"{target}: is there already; name a new directory")
        _open_as(source, target, files)


def _open_as(source: Path, target: Path, files: Files) -> None:
    formats.look(source / STATE, files)
    try:
        for directory in (STATE, WARCS, LOGS):
            (target / directory).mkdir()
            for path in sorted((source / directory).iterdir()):
                changes = path.name == CRAWL_LOG or parse_log(path.name) is not None
                _copy(path, target / directory / path.name) if changes else files.link(
                    path, target / directory / path.name
                )
            files.fsync_dir(target / directory)
        _copy(source / CONFIG, new := target / temporary(CONFIG))
        files.rename(new, target / CONFIG)  # now it is a crawl, and a whole one
        files.fsync_dir(target)
    except BaseException as error:
        shutil.rmtree(target, ignore_errors=True)
        if isinstance(error, OSError) and error.errno == errno.EXDEV:
            raise JobError(f"{target}: is on another file system than {source}, and cannot share its files") from error
        raise


def _existing(job: JobDir, name: str) -> Path:
    path = job.snapshots / name
    if not is_snapshot_name(name) or not (path / SNAPSHOT).is_file():
        known = ", ".join(one.name for one in paths(job)) or "none"
        raise JobError(f"{job.path}: no snapshot {name!r}; there are: {known}")
    return path


def _build(job: JobDir, building: Path, files: Files, bar: Bar) -> dict[str, Any]:
    """Make all files but the marker, of one commit. Meanwhile the crawl may commit, and delete files that lost their
    names."""
    for _ in range(ATTEMPTS_MAX):
        shutil.rmtree(building, ignore_errors=True)
        for directory in (STATE, WARCS, LOGS):
            (building / directory).mkdir(parents=True)
        try:
            # Listed before: what a commit takes in after that and deletes is missed when it is linked.
            there = set(files.listdir(job.state))
            catalog = formats.look(job.state, files)
            _state(job, building / STATE, catalog, files, there, bar)
            _logs(job, building / LOGS, catalog, files, bar)
            _archives(job, building / WARCS, catalog, files, bar)
            _copy(job.config_file, building / CONFIG)
            return {"commit": catalog.number, "fetched": (catalog.get("ledger") or {}).get("visits", 0)}
        except (FileNotFoundError, _Moved) as error:
            last = error
    raise JobError(f"{job.path}: could not be held still long enough for a snapshot: {last}")


def _state(job: JobDir, target: Path, catalog: Catalog, files: Files, there: set[str], bar: Bar) -> None:
    """Segments by link, and the catalogue's committed prefix as a copy in which no worker's stream is open any more.
    Among the segments are harvests that no commit names yet: seeds that no turn has taken, and URLs that wait after a
    repair."""
    seeds = catalog.get(f"streams/{SEEDS_STREAM}", {"next": 0})["next"]
    for name in [*catalog.live_files(), *harvests_from(there, SEEDS_STREAM, seeds)]:
        try:
            files.link(job.state / name, target / name)
        except FileNotFoundError:
            if formats.look(job.state, files).number != catalog.number:
                raise  # a commit came between
            raise Damaged(str(job.state / name), 0, MISSING) from None
    log = os.path.basename(catalog.log)
    _copy(job.state / log, target / log, catalog.bytes, bar)
    live = _live_streams(catalog)
    for name in sorted(files.listdir(job.state)):  # anew: records of this commit may point to one that was just begun
        number = parse_rules_log(name)
        if number is not None and number % PART < catalog.get("stream-next", 0):
            copied = number % PART in live
            _copy(job.state / name, target / name) if copied else files.link(job.state / name, target / name)
    edits = Edits()
    for stream, position in live.items():
        edits.remove(f"streams/{stream}")
        if count := archives_of(position):
            edits.set(f"{WRITTEN}{stream}", count)
    own = Catalog.open(target, files)
    if edits:
        own.commit(edits)
    own.close()


def _live_streams(catalog: Catalog) -> dict[int, list[int]]:
    """Stream -> archive position of the workers that may still write."""
    streams = {int(key.split("/")[1]): value["warc"] for key, value in catalog.items("streams/")}
    return {stream: position for stream, position in streams.items() if stream != SEEDS_STREAM}


def _logs(job: JobDir, target: Path, catalog: Catalog, files: Files, bar: Bar) -> None:
    """Rolled parts by link, the newest file up to its committed length."""
    log = catalog.get("log") or {}
    rolled, length = log.get("part", 0), log.get("bytes", 0)
    log_parts.check_committed(files, os.fspath(job.crawl_log), log)
    for number in range(1, rolled + 1):
        plain, packed = part_name(CRAWL_LOG, number), part_name(CRAWL_LOG, number, True)
        name = packed if (job.logs / packed).exists() else plain
        files.link(job.logs / name, target / name)
    since = job.logs / part_name(CRAWL_LOG, rolled + 1)  # the newest file then may have been rolled since
    source = since if since.exists() else job.crawl_log
    if not source.exists() and not length:
        return
    _copy(source, target / CRAWL_LOG, length, bar)
    if "crc" in log and zlib.crc32((target / CRAWL_LOG).read_bytes()) != log["crc"]:
        raise _Moved("the crawl log was rolled")


def _archives(job: JobDir, target: Path, catalog: Catalog, files: Files, bar: Bar) -> None:
    """Closed and wholly committed archives by link; of each other one a copy up to where the commit knows it."""
    live, next_stream = _live_streams(catalog), catalog.get("stream-next", 0)
    for file in warc_files(files, os.fspath(job.warcs)) if job.warcs.is_dir() else ():
        if file.stream >= next_stream:
            continue
        source = job.warcs / file.on_disk
        serial, offset = live.get(file.stream, (file.serial + 1, 0))
        if file.serial > serial or (file.serial == serial and not offset):
            continue
        if source.is_symlink() and not file.open:  # moved, and a link left in its place
            (target / file.name).symlink_to(source.resolve())
        elif file.serial < serial or (not file.open and source.stat().st_size == offset):
            files.link(source if source.exists() else job.warcs / file.name, target / file.name)
        else:
            _copy(source if source.exists() else job.warcs / file.name, target / file.name, offset, bar)


def _copy(source: Path, target: Path, length: int | None = None, bar: Bar | None = None) -> None:
    """The first `length` bytes (default: all), inside the kernel and without copying where the file system can."""
    with open(source, "rb") as old, open(target, "xb") as new:
        left = os.fstat(old.fileno()).st_size if length is None else length
        if bar is not None and left > COPY_BYTES:
            bar.stage(source.name, left)
        while left:
            done = os.copy_file_range(old.fileno(), new.fileno(), min(left, COPY_BYTES))
            if not done:
                raise _Moved(f"{source} is shorter than the catalogue says")
            left -= done
            if bar is not None:
                bar.read(done)
        os.fsync(new.fileno())


def _write(path: Path, data: bytes) -> None:
    with open(path, "xb") as stream:
        stream.write(data)
        os.fsync(stream.fileno())
