"""The log of commits: one append-only text file that names every live file and holds every small fact.

State is a map from key to JSON value. A commit is one line, `checksum json`, appended and fsynced, and changes any
number of keys at once; opening the catalogue replays the lines, and that is all the recovery there is. When the log has
grown well past the state it holds, the state is written as the first line of a new log, and a rename makes that the
catalogue (the highest number wins).

A torn last line was never promised to anybody and is dropped. Damage anywhere else is an error with an offset.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from drum.codec import KEY_FUNCTION_NAME
from drum.errors import UnknownVersion
from drum.files import Damaged, Files, Handle, Path
from drum.names import SEGMENT, TEMPORARY, log_name, parse_log

import xxhash

MISSING = "the catalogue names this file, and it is missing"
COMPACT_BYTES_MIN = 1 << 20  # a log shorter than this is never rewritten
COMPACT_FACTOR = 8  # rewritten when this many times longer than the state's own line
SECTOR = 512  # bytes that a disk writes whole or not at all
VERSION = 1
_SUM = 16  # hex digits of the checksum


class Edits:
    """Changes for one commit: the last word about a key counts."""

    def __init__(self) -> None:
        self.put: dict[str, Any] = {}
        self.drop: set[str] = set()

    def set(self, key: str, value: Any) -> None:
        """Give `key` a JSON value; it is serialised at commit, so do not change it afterwards."""
        self.put[key] = value
        self.drop.discard(key)

    def remove(self, key: str) -> None:
        """Drop `key`; nothing if it is not there."""
        self.put.pop(key, None)
        self.drop.add(key)

    def merge(self, other: Edits) -> None:
        """Add `other`'s changes as made after these."""
        for key in other.drop:
            self.remove(key)
        for key, value in other.put.items():
            self.set(key, value)

    def __bool__(self) -> bool:
        return bool(self.put or self.drop)


class Catalog:
    """Open with `Catalog.open`. One writer at a time (the job's lock sees to it); any number of read-only openers."""

    def __init__(self, root: Path, files: Files, readonly: bool) -> None:
        self.root, self.files, self.readonly = os.fspath(root), files, readonly
        self.number = 0  # of the last commit
        self.generation = 0  # of the log
        self.bytes = 0  # committed length of the log
        self._state: dict[str, Any] = {}
        self._uses: Counter[str] = Counter()  # file -> entries that name it
        self._lost: set[str] = set()  # files no entry names any more, not yet deleted
        self._handle: Handle | None = None
        self._snapshot_bytes = 0
        self._broken = False  # the log may have other bytes than we know of

    @classmethod
    def open(cls, root: Path, files: Files | None = None, readonly: bool = False) -> Catalog:
        """Replay the log; an absent one is made (readonly: FileNotFoundError). Damaged, also where segments are and no
        log (nobody would ever name them again, and the next sweep would delete them), and where one it names is gone
        (then its last lines may be, too): nothing was touched. OSError."""
        catalog = cls(root, files or Files(), readonly)
        for attempt in range(10):
            names = logs(catalog.root, catalog.files)
            if not names:
                if readonly:
                    raise FileNotFoundError(f"{catalog.root}: no catalogue")
                orphans = sorted(name for name in catalog.files.listdir(catalog.root) if name.endswith(SEGMENT))
                if orphans:
                    raise Damaged(catalog.root, 0, f"no catalogue, and {len(orphans)} files of one ({orphans[0]}, …)")
                catalog._start()
                return catalog
            try:
                catalog._replay(names[-1])
                break
            except FileNotFoundError:  # its writer switched to a new log between our listing and our opening
                if attempt == 9 or not readonly:
                    raise
        if not readonly:
            catalog._check_files()
            catalog._take_over(names)
        return catalog

    @classmethod
    def exists(cls, root: Path, files: Files) -> bool:
        """Whether a catalogue was begun in `root`."""
        return bool(logs(root, files))

    def get(self, key: str, default: Any = None) -> Any:
        """The value; treat it as read-only."""
        return self._state.get(key, default)

    def __contains__(self, key: str) -> bool:
        return key in self._state

    def items(self, prefix: str = "") -> list[tuple[str, Any]]:
        """Keys that start with `prefix`, ascending, with their values."""
        return sorted((item for item in self._state.items() if item[0].startswith(prefix)), key=lambda item: item[0])

    def commit(self, edits: Edits) -> int:
        """Append the edits as one line and fsync. Returns the commit's number. After an OSError nothing has changed;
        if the log could not even be cut back to its committed length, every later commit fails: reopen."""
        if self.readonly or self._handle is None:
            raise ValueError(f"{self.root}: the catalogue is open for reading only, or closed")
        if self._broken:
            raise OSError(f"{self.root}: an earlier write failed half-way; open the catalogue again")
        line = _line({"n": self.number + 1, "put": edits.put, "drop": sorted(edits.drop)})
        self._broken = True  # until the line is there and known, or gone: a KeyboardInterrupt may come anywhere
        try:
            self.files.write(self._handle, line)
            self.files.fsync(self._handle)
        except OSError:
            self.files.truncate(self._handle, self.bytes)
            self.files.fsync(self._handle)
            self._broken = False
            raise
        self.number += 1
        self.bytes += len(line)
        self._apply(edits.put, edits.drop)
        self._broken = False
        if self.bytes > max(COMPACT_BYTES_MIN, COMPACT_FACTOR * self._snapshot_bytes):
            self.compact()
        return self.number

    def compact(self) -> None:
        """Start a new log with the present state. Without room for it the old log simply goes on."""
        line = self._snapshot_line()
        old = self._path(self.generation)
        self._broken = True  # until it is known which log counts
        try:
            handle = self._write_log(self.generation + 1, line)
        except OSError:
            self._snapshot_bytes = self.bytes  # try again when the log has grown by as much
            self._give_up(self._path(self.generation + 1))
            return
        assert self._handle is not None
        retired, self._handle = self._handle, handle
        self.generation += 1
        self.bytes = self._snapshot_bytes = len(line)
        self._broken = False
        self.files.close(retired)
        with suppress(OSError):  # the new one counts; who opens the catalogue next deletes the old one
            self.files.unlink(old, missing_ok=True)

    def _give_up(self, path: str) -> None:
        """A new log could not be made durable. If it has its name already, it would count after all (the highest
        number does), without what the old one is told from now on: it must be gone, or there are no more commits."""
        with suppress(OSError):
            self.files.unlink(path + TEMPORARY, missing_ok=True)
            self.files.unlink(path, missing_ok=True)
            self.files.fsync_dir(self.root)
            self._broken = False

    @property
    def log(self) -> str:
        """The path of the log that counts."""
        return self._path(self.generation)

    @property
    def broken(self) -> bool:
        """A commit failed, or was interrupted, and what the log has of it is not known: open it again."""
        return self._broken

    def names(self, file: str) -> bool:
        """Whether any entry names the file."""
        return self._uses[file] > 0

    def live_files(self) -> list[str]:
        """Every file an entry names, ascending."""
        return sorted(file for file, uses in self._uses.items() if uses > 0)

    def collect(self, keep: Iterable[str] = (), written: Iterable[str] = ()) -> list[str]:
        """Delete the files that lost their last name since the catalogue was opened, except `keep`; call after a
        commit, or one that failed. written: files finished for that commit, deleted too if it named nothing in them.
        Returns what was deleted: nothing when it is not known what the disk has of a commit that failed. A file that
        cannot be deleted is tried again with the next call: the commit stands, and a file without a name harms
        nobody."""
        if self._broken:
            return []
        self._lost.update(name for name in written if not self.names(name))
        gone = self._lost - set(keep)
        self._lost -= gone
        return self._delete(gone)

    def sweep(self, keep: Iterable[str] = ()) -> list[str]:
        """Delete every *.seg and *.tmp of the directory that no entry names, except `keep`; call on open, when nobody
        is writing a file that has no name yet."""
        held = set(keep)
        found = (name for name in self.files.listdir(self.root) if name.endswith((SEGMENT, TEMPORARY)))
        self._lost.clear()
        return self._delete(name for name in found if name not in held and not self.names(name))

    def close(self) -> None:
        """Let go of the log. Nothing depends on it being called."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            self.files.close(handle)

    def __del__(self) -> None:
        self.close()

    def _delete(self, names: Iterable[str]) -> list[str]:
        gone = []
        for name in sorted(names):
            try:
                self.files.unlink(os.path.join(self.root, name), missing_ok=True)
                gone.append(name)
            except OSError:
                self._lost.add(name)
        return gone

    def _apply(self, put: dict[str, Any], drop: Iterable[str]) -> None:
        for key in drop:
            if key in self._state:
                self._count(self._state.pop(key), -1)
        for key, value in put.items():
            self._count(value, 1)
            if key in self._state:
                self._count(self._state[key], -1)
            self._state[key] = value

    def _count(self, value: Any, by: int) -> None:
        for name in files_of(value):
            self._uses[name] += by
            if self._uses[name] <= 0:
                del self._uses[name]
                self._lost.add(name)
            else:
                self._lost.discard(name)

    def _path(self, generation: int) -> str:
        return os.path.join(self.root, log_name(generation))

    def _start(self) -> None:
        line = self._snapshot_line()
        self._handle = self._write_log(0, line)
        self.bytes = self._snapshot_bytes = len(line)

    def _snapshot_line(self) -> bytes:
        return _line({"catalog": VERSION, "keys": KEY_FUNCTION_NAME, "n": self.number, "put": self._state, "drop": []})

    def _write_log(self, generation: int, line: bytes) -> Handle:
        """A log of one line under its final name, open for appending."""
        path = self._path(generation)
        self.files.unlink(path + TEMPORARY, missing_ok=True)
        handle = self.files.append(path + TEMPORARY)
        try:
            self.files.write(handle, line)
            self.files.fsync(handle)
            self.files.rename(path + TEMPORARY, path)
            self.files.fsync_dir(self.root)
        except OSError:
            self.files.close(handle)
            raise
        return handle

    def _replay(self, name: str) -> None:
        path = os.path.join(self.root, name)
        data = self.files.read(path)
        generation = parse_log(name)
        assert generation is not None
        self.generation = generation
        at = 0
        while at < len(data):
            end = data.find(b"\n", at)
            record = parse_line(data[at : end if end >= 0 else len(data)])
            if end < 0 or record is None:
                if at and _torn(data, at, end):
                    break
                raise Damaged(path, at, "not a line of a catalogue (wrong checksum or shape)")
            self._replay_record(path, at, record)
            at = end + 1
            if self._snapshot_bytes == 0:
                self._snapshot_bytes = at
        if at == 0:
            raise Damaged(path, 0, "an empty catalogue")
        self.bytes = at

    def _replay_record(self, path: str, at: int, record: dict[str, Any]) -> None:
        if at == 0:
            version, keys = record.get("catalog"), record.get("keys")
            if not isinstance(version, int):
                raise Damaged(path, 0, "not a catalogue")
            if version != VERSION:
                raise UnknownVersion(path, version, str(VERSION))
            if keys != KEY_FUNCTION_NAME:
                raise UnknownVersion(path, f"{version} with keys by {keys}", f"keys by {KEY_FUNCTION_NAME}")
            self._state, self._uses = {}, Counter()
        elif record["n"] != self.number + 1:
            raise Damaged(path, at, f"commit {record['n']} follows commit {self.number}")
        self.number = record["n"]
        for name in (name for value in record["put"].values() for name in files_of(value)):
            if not isinstance(name, str) or name in ("", ".", "..") or os.path.basename(name) != name:
                raise Damaged(path, at, f"names {name!r}, which can be no file of this directory")  # it may be deleted
        self._apply(record["put"], record["drop"])

    def _check_files(self) -> None:
        there = set(self.files.listdir(self.root))
        for name in self.live_files():
            if name not in there:
                raise Damaged(os.path.join(self.root, name), 0, MISSING)

    def _take_over(self, names: list[str]) -> None:
        """Make the log ours: cut off a torn line, drop older logs that a crash left behind the switch. What a writer
        that was killed had written and not synced counts from now on, so it is made durable before any file goes."""
        path = self._path(self.generation)
        self._handle = self.files.append(path)
        if self.files.size(self._handle) > self.bytes:
            self.files.truncate(self._handle, self.bytes)
        self.files.fsync(self._handle)
        self.files.fsync_dir(self.root)
        for name in names[:-1]:
            self.files.unlink(os.path.join(self.root, name), missing_ok=True)


def logs(root: Path, files: Files) -> list[str]:
    """Names of the logs in a directory, oldest first; the last one counts."""
    found = [(number, name) for name in files.listdir(root) if (number := parse_log(name)) is not None]
    return [name for _, name in sorted(found)]


def files_of(value: Any) -> list[str]:
    """The files a catalogue value keeps alive: {"file": NAME} and {"files": [NAME, …]}."""
    if not isinstance(value, dict):
        return []
    names = list(value.get("files", ()))
    if isinstance(value.get("file"), str):
        names.append(value["file"])
    return names


def _line(record: dict[str, Any]) -> bytes:
    text = json.dumps(record, separators=(",", ":"), allow_nan=False).encode()
    return f"{xxhash.xxh3_64_intdigest(text):016x} ".encode() + text + b"\n"


def parse_line(line: bytes) -> dict[str, Any] | None:
    """The record of a line without its newline; None when it is not what was written."""
    text = line[_SUM + 1 :]
    if line[: _SUM + 1] != f"{xxhash.xxh3_64_intdigest(text):016x} ".encode():
        return None
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return record if _has_shape(record) else None


def _has_shape(record: Any) -> bool:
    """Whether a record is a commit: a checksum is as easily made by another program."""
    if not isinstance(record, dict):
        return False
    number, put, drop = record.get("n"), record.get("put"), record.get("drop")
    return (
        type(number) is int and isinstance(put, dict) and isinstance(drop, list)
        and all(isinstance(key, str) for key in drop)
        and all(isinstance(value.get("files", []), list) for value in put.values() if isinstance(value, dict))
    )  # fmt: skip


def _torn(data: bytes, at: int, end: int) -> bool:
    """Whether the bad line at `at` is the last one and was never written whole.

    The newline is a line's last byte, so a line that has one was whole once, and is damaged; unless sectors of it never
    reached the disk and read as zeros. A line whose newline alone is wrong was whole, too.
    """
    if end >= 0:
        starts = range(at // SECTOR * SECTOR, len(data), SECTOR)
        return end + 1 == len(data) and any(not data[max(start, at) : start + SECTOR].strip(b"\0") for start in starts)
    return parse_line(data[at:-1]) is None
