"""A disk in memory that loses power: what was not made durable may be gone, whole, torn or out of order.

The model is that of POSIX and of no file system in particular, so it is harsher than each of them:

* a write is durable once its file is fsynced; until then each 512-byte sector of it is old or new on its own, and the
  file's length is that of any moment since the last fsync; what was never written reads as zeros;
* a name (created, renamed, linked, unlinked, a directory) is durable once its directory is fsynced; until then each
  change is there or not, but none without those it builds on;
* nothing that was durable changes.

`Disk.apply` takes changes as plain tuples, so a crawl's changes can be kept (`journal`) and its disk brought back as it
was after any number of them. `DiskFiles` is `drum.Files` on such a disk.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from drum.files import Data, Files, Handle, Path

SECTOR = 512
Outcome = Literal["killed", "dropped", "torn"]
"""killed: only the processes died. dropped: nothing survives that was not synced. torn: anything that may."""

Change = tuple[Any, ...]
DIRECTORY = -1
BOOT_ID = "/proc/sys/kernel/random/boot_id"


class PowerLoss(BaseException):
    """The machine is gone; nothing that runs may handle it."""


@dataclass
class Inode:
    data: bytearray = field(default_factory=bytearray)  # what reads see
    durable: bytes = b""
    unsynced: list[Change] = field(default_factory=list)  # ("write", offset, data) and ("truncate", length)
    modified: float = 0.0

    def change(self, change: Change) -> None:
        self.unsynced.append(change)
        _change(self.data, change)

    def after(self, outcome: Outcome, draw: random.Random) -> bytes:
        """What is found after the crash."""
        if outcome == "killed" or not self.unsynced:
            return bytes(self.data)
        if outcome == "dropped":
            return self.durable
        data = bytearray(self.durable)
        sized = draw.randint(0, len(self.unsynced))  # so many changes of the length survive
        likely = draw.choice((0.0, 0.2, 0.5, 0.9, 1.0))
        length = len(data)
        for number, change in enumerate(self.unsynced):
            if change[0] == "truncate":
                if number < sized:
                    _change(data, change)
                    length = change[1]
                continue
            _, offset, new = change
            at = offset
            while at < offset + len(new):
                end = min(at // SECTOR * SECTOR + SECTOR, offset + len(new))
                if draw.random() < likely:
                    _change(data, ("write", at, new[at - offset : end - offset]))
                at = end
            if number < sized:
                length = max(length, offset + len(new))
        del data[length:]
        data.extend(bytes(length - len(data)))
        return bytes(data)


def _change(data: bytearray, change: Change) -> None:
    if change[0] == "truncate":
        del data[change[1] :]
        data.extend(bytes(change[1] - len(data)))
    else:
        _, offset, new = change
        if offset > len(data):
            data.extend(bytes(offset - len(data)))
        data[offset : offset + len(new)] = new


@dataclass
class Directory:
    names: dict[str, int] = field(default_factory=dict)  # name -> inode, or DIRECTORY
    durable: dict[str, int] = field(default_factory=dict)
    unsynced: list[Change] = field(default_factory=list)  # ("set", name, inode), ("drop", name), ("rename", old, new)

    def change(self, change: Change) -> None:
        self.unsynced.append(change)
        _rename(self.names, change)

    def after(self, outcome: Outcome, draw: random.Random) -> dict[str, int]:
        if outcome == "killed":
            return dict(self.names)
        names = dict(self.durable)
        undone: set[str] = set()
        likely = draw.choice((0.2, 0.5, 0.9))
        for change in self.unsynced if outcome == "torn" else ():
            touched = set(change[1:]) if change[0] == "rename" else {change[1]}
            if undone & touched or draw.random() >= likely:
                undone |= touched
            else:
                _rename(names, change)
        return names


def _rename(names: dict[str, int], change: Change) -> None:
    match change:
        case ("set", name, inode):
            names[name] = inode
        case ("drop", name):
            del names[name]
        case ("rename", old, new):
            names[new] = names.pop(old)


class Disk:
    def __init__(self) -> None:
        self.inodes: dict[int, Inode] = {}
        self.directories: dict[str, Directory] = {"/": Directory()}

    def apply(self, change: Change, now: float = 0.0) -> None:
        """One change. Its preconditions were checked by whoever made it first."""
        match change:
            case ("create", path, number):
                self.inodes[number] = Inode(modified=now)
                self._parent(path).change(("set", os.path.basename(path), number))
            case ("write", number, offset, data):
                self.inodes[number].change(("write", offset, data))
                self.inodes[number].modified = now
            case ("truncate", number, length):
                self.inodes[number].change(("truncate", length))
                self.inodes[number].modified = now
            case ("fsync", number):
                inode = self.inodes[number]
                inode.durable, inode.unsynced = bytes(inode.data), []
            case ("fsync_dir", path):
                directory = self.directories[path]
                directory.durable, directory.unsynced = dict(directory.names), []
            case ("mkdir", path):
                self._parent(path).change(("set", os.path.basename(path), DIRECTORY))
                self.directories[path] = Directory()
            case ("rename", old, new):
                self._parent(old).change(("rename", os.path.basename(old), os.path.basename(new)))
            case ("link", old, new):
                self._parent(new).change(("set", os.path.basename(new), self.inode(old)))
            case ("unlink", path):
                self._parent(path).change(("drop", os.path.basename(path)))
            case _:
                raise AssertionError(change)

    def inode(self, path: str) -> int:
        directory = self.directories.get(os.path.dirname(path))
        number = directory.names.get(os.path.basename(path)) if directory else None
        if number is None:
            raise FileNotFoundError(2, "No such file or directory", path)
        return number

    def exists(self, path: str) -> bool:
        directory = self.directories.get(os.path.dirname(path))
        return path in self.directories or (directory is not None and os.path.basename(path) in directory.names)

    def _parent(self, path: str) -> Directory:
        return self.directories[os.path.dirname(path)]

    def after_crash(self, outcome: Outcome, draw: random.Random) -> Disk:
        """The disk as the next start finds it, nothing of it shared with this one. After a power loss all of it is
        durable; after a kill only what was: a power loss soon after it takes what the dead had not synced."""
        if outcome == "killed":
            return self._copy()
        found = Disk()
        numbers: set[int] = set()
        names = {"/": self.directories["/"].after(outcome, draw)}
        for path in sorted(self.directories)[1:]:  # parents come first
            above = names.get(os.path.dirname(path), {})
            if above.get(os.path.basename(path)) == DIRECTORY:
                names[path] = self.directories[path].after(outcome, draw)
        for path, known in names.items():
            found.directories[path] = Directory(dict(known), dict(known))
            numbers.update(known.values())
        for number in sorted(numbers - {DIRECTORY}):
            inode = self.inodes[number]
            data = inode.after(outcome, draw)
            found.inodes[number] = Inode(bytearray(data), data, [], inode.modified)
        return found

    def _copy(self) -> Disk:
        found = Disk()
        for path, known in self.directories.items():
            found.directories[path] = Directory(dict(known.names), dict(known.durable), list(known.unsynced))
        for number, inode in self.inodes.items():
            found.inodes[number] = replace(inode, data=bytearray(inode.data), unsynced=list(inode.unsynced))
        return found


class DiskFiles(Files):
    """`drum.Files` on a Disk. At the change number `crash_at` (from 0) everything stops: it is made, `on_crash` is
    called, and this and every later call raises PowerLoss. Reads change nothing, so a crash at one is a crash at the
    change before it."""

    def __init__(self, disk: Disk, now: Callable[[], float], boot: str) -> None:
        self.disk, self.now, self.boot = disk, now, boot
        self.changes = 0
        self.crash_at: int | None = None
        self.on_crash: Callable[[], None] = lambda: None
        self.dead = False
        self.journal: list[Change] | None = None
        self._handles: dict[int, list[int]] = {}  # handle -> [inode, position, or -1 to append]
        self._next_handle = 1 << 20
        self._next_inode = max(disk.inodes, default=0) + 1

    def _alive(self) -> None:
        if self.dead:
            raise PowerLoss

    def _change(self, *change: Any) -> None:
        self._alive()
        self.disk.apply(change, self.now())
        if self.journal is not None:
            self.journal.append(change)
        self.changes += 1
        if self.crash_at is not None and self.changes > self.crash_at:
            self.dead = True
            self.on_crash()
            raise PowerLoss

    def _handle(self, inode: int, position: int) -> Handle:
        self._next_handle += 1
        self._handles[self._next_handle] = [inode, position]
        return self._next_handle

    def _created(self, path: str) -> int:
        number = self._next_inode
        self._next_inode += 1
        if os.path.dirname(path) not in self.disk.directories:
            raise FileNotFoundError(2, "No such file or directory", path)
        self._change("create", path, number)
        return number

    def create(self, path: Path) -> Handle:
        self._alive()
        name = os.fspath(path)
        if self.disk.exists(str(name)):
            raise FileExistsError(17, "File exists", name)
        return self._handle(self._created(str(name)), 0)

    def append(self, path: Path) -> Handle:
        self._alive()
        name = str(os.fspath(path))
        return self._handle(self.disk.inode(name) if self.disk.exists(name) else self._created(name), -1)

    def update(self, path: Path) -> Handle:
        self._alive()
        name = str(os.fspath(path))
        return self._handle(self.disk.inode(name) if self.disk.exists(name) else self._created(name), 0)

    def open(self, path: Path) -> Handle:
        self._alive()
        if str(path) == BOOT_ID:
            return self._handle(0, 0)
        return self._handle(self.disk.inode(str(path)), 0)

    def write(self, handle: Handle, data: Data) -> None:
        known = self._handles[handle]
        new = bytes(data)
        if not new:
            return
        at = known[1] if known[1] >= 0 else len(self.disk.inodes[known[0]].data)
        if known[1] >= 0:
            known[1] += len(new)
        self._change("write", known[0], at, new)

    def pwrite(self, handle: Handle, data: Data, offset: int) -> None:
        if data:
            self._change("write", self._handles[handle][0], offset, bytes(data))

    def pread(self, handle: Handle, length: int, offset: int) -> bytes:
        self._alive()
        number = self._handles[handle][0]
        data = self.disk.inodes[number].data if number else self.boot.encode()
        return bytes(data[offset : offset + length])

    def direct(self, handle: Handle) -> Handle:
        self._alive()
        return self._handle(self._handles[handle][0], 0)

    def pread_into(self, handle: Handle, buffer: memoryview, offset: int) -> int:
        data = self.pread(handle, len(buffer), offset)
        buffer[: len(data)] = data
        return len(data)

    def read(self, path: Path) -> bytes:
        self._alive()
        return bytes(self.disk.inodes[self.disk.inode(str(path))].data)

    def _number(self, path: Path | Handle) -> int:
        return self._handles[path][0] if isinstance(path, int) else self.disk.inode(str(path))

    def size(self, path: Path | Handle) -> int:
        self._alive()
        return len(self.disk.inodes[self._number(path)].data)

    def same(self, handle: Handle, path: Path) -> bool:
        return self._number(handle) == self._number(path)

    def modified(self, path: Path) -> float:
        self._alive()
        return self.disk.inodes[self._number(path)].modified

    def free(self, path: Path) -> int:
        return 1 << 40

    def total(self, path: Path) -> int:
        self._alive()
        numbers = self.disk.directories[str(path)].names.values()
        return sum(len(self.disk.inodes[number].data) for number in numbers)

    def forget(self, handle: Handle, offset: int = 0, length: int = 0) -> None:
        self._alive()

    def fsync(self, handle: Handle) -> None:
        self._change("fsync", self._handles[handle][0])

    def fsync_dir(self, path: Path) -> None:
        self._change("fsync_dir", str(path))

    def close(self, handle: Handle) -> None:
        self._handles.pop(handle, None)

    def truncate(self, path: Path | Handle, length: int) -> None:
        self._change("truncate", self._number(path), length)

    def rename(self, old: Path, new: Path) -> None:
        self._alive()
        self.disk.inode(str(old))
        assert os.path.dirname(old) == os.path.dirname(new), "two directories, and no fsync makes them one change"
        self._change("rename", str(old), str(new))

    def link(self, old: Path, new: Path) -> None:
        self._alive()
        if self.disk.exists(str(new)):
            raise FileExistsError(17, "File exists", str(new))
        self._change("link", str(old), str(new))

    def unlink(self, path: Path, missing_ok: bool = False) -> None:
        self._alive()
        if not self.disk.exists(str(path)):
            if missing_ok:
                return
            raise FileNotFoundError(2, "No such file or directory", str(path))
        self._change("unlink", str(path))

    def exists(self, path: Path) -> bool:
        self._alive()
        return self.disk.exists(str(path))

    def listdir(self, path: Path) -> list[str]:
        self._alive()
        return sorted(self.disk.directories[str(path)].names)

    def mkdir(self, path: Path) -> None:
        self._alive()
        name = str(path)
        if name in self.disk.directories:
            return
        self.mkdir(os.path.dirname(name))
        self._change("mkdir", name)

    def lock(self, path: Path) -> Handle:
        return self.append(path)
