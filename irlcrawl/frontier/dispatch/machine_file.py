"""The file of the clocks that the crawls on a machine share: found or made, checked, locked, and who has it open.

    /dev/shm/irlcrawl-clocks-1-UID        one for each user; in a directory that not everybody may write to,
    DIRECTORY/irlcrawl-clocks-1           one for all who may

It is read and written in place, never mapped: a full or shortened file is an OSError then, not a signal. A file that is
not as it should be (another boot, another length, damage) is not mended but replaced by a new one, and so is one that
somebody deleted; the crawls that have the old one open see that from its name (`is_current`), and come to the new one.

Two kinds of locks, both of bytes beyond the end of the file, and of the open file, so that the kernel drops them when
the process is gone: `lock`, for as long as cells are read and written, and two bytes for each crawl, by its *member*
number: one says that it is alive, the other that it has told its clocks and writes what it does.

Bytes: header `irlCLCK1`, boot id (36 ASCII bytes), u4 buckets, u4 cells of a bucket, u4 xxh32 of those before it; at
byte 64 u4 the last member number given; from byte 4096 the buckets (machine_cells.py). Little endian.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import xxhash

from irlcrawl.frontier.dispatch.machine_cells import BUCKET_BYTES, BUCKETS, CELLS

NAME = "irlcrawl-clocks-1"  # with the version of the format: those of another never meet
_MAGIC = b"irlCLCK1"
_BUCKETS_AT = 4096
BYTES = _BUCKETS_AT + BUCKETS * BUCKET_BYTES
_MEMBER = struct.Struct("<I")
_MEMBER_AT = 64
_FLOCK = struct.Struct("hhqqi4x")  # fcntl(2): l_type, l_whence, l_start, l_len, l_pid, as the machine aligns them
_LOCK_AT = 1 << 40
_TOLD_AT = 1 << 41
_MEMBERS = (1 << 31) - 1
_TRIES = 16
_AT_ONCE = 4096  # buckets


class Unusable(OSError):
    """The file cannot be shared. The message is for a person."""


class MachineFile:
    """An open file; `lock` is held when `open` returns. Everything raises OSError."""

    def __init__(self, path: Path, fd: int, member: int, expected: bytes) -> None:
        self.path, self.member = path, member
        self._fd, self._expected = fd, expected

    @classmethod
    def open(cls, directory: Path, boot: str) -> MachineFile | None:
        """The file in `directory`, made if there is none that is as it should be. None: another crawl is at it."""
        path, mode = _place(directory)
        expected = _header(boot)
        for _ in range(_TRIES):
            fd = _opened(path, mode)
            if fd is None:
                _make(path, mode, expected)
                continue
            try:
                if not _lock(fd, fcntl.F_WRLCK, _LOCK_AT):
                    os.close(fd)
                    return None
                if not _is_at(fd, path):
                    os.close(fd)
                elif _is_right(fd, expected) and os.fstat(fd).st_mode & 0o777 == mode:
                    return cls(path, fd, _enter(fd), expected)
                else:
                    path.unlink()
                    os.close(fd)
            except BaseException:
                os.close(fd)
                raise
        raise Unusable(f"{path}: is replaced again and again")

    @classmethod
    def looked_at(cls, directory: Path, boot: str) -> MachineFile | None:
        """The file in `directory` to `read` and no more, without `lock`: a bucket may be half written. None: there is
        none that is as it should be."""
        path, _ = _place(directory)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        file = cls(path, fd, 0, _header(boot))
        if file.is_current():
            return file
        file.close()
        return None

    def is_current(self) -> bool:
        """Whether others who come find this file."""
        return _is_at(self._fd, self.path) and _is_right(self._fd, self._expected)

    def lock(self) -> bool:
        """False: another crawl is at it."""
        return _lock(self._fd, fcntl.F_WRLCK, _LOCK_AT)

    def unlock(self) -> None:
        _lock(self._fd, fcntl.F_UNLCK, _LOCK_AT)

    def newest(self) -> int:
        """The number of the crawl that came last."""
        return _newest(self._fd)

    def say_told(self, told: bool) -> None:
        """Whether this crawl writes what it does, so that others may rely on it."""
        _lock(self._fd, fcntl.F_WRLCK if told else fcntl.F_UNLCK, _TOLD_AT + self.member)

    def has_told(self, member: int) -> bool:
        return _locked(self._fd, _TOLD_AT + member, 1) is not None

    def is_alive(self, member: int) -> bool:
        """Whether the crawl of that number, which is not this one, has the file open."""
        return _locked(self._fd, _LOCK_AT + member, 1) is not None

    def alive(self) -> set[int]:
        """The numbers of all other crawls that have the file open."""
        found: set[int] = set()
        ranges = [(_LOCK_AT + 1, _MEMBERS)]
        while ranges:
            at, count = ranges.pop()
            if count and (locked := _locked(self._fd, at, count)) is not None:
                found.add(locked - _LOCK_AT)
                ranges += [(at, locked - at), (locked + 1, at + count - locked - 1)]
        return found

    def read(self, bucket: int) -> bytearray:
        data = os.pread(self._fd, BUCKET_BYTES, _BUCKETS_AT + bucket * BUCKET_BYTES)
        if len(data) < BUCKET_BYTES:
            raise Unusable(f"{self.path}: was cut")
        return bytearray(data)

    def read_all(self) -> Iterator[bytes]:
        """All buckets, many at a time."""
        for first in range(0, BUCKETS, _AT_ONCE):
            count = min(_AT_ONCE, BUCKETS - first) * BUCKET_BYTES
            data = os.pread(self._fd, count, _BUCKETS_AT + first * BUCKET_BYTES)
            if len(data) < count:
                raise Unusable(f"{self.path}: was cut")
            yield data

    def write(self, bucket: int, data: bytearray) -> None:
        if os.pwrite(self._fd, data, _BUCKETS_AT + bucket * BUCKET_BYTES) < BUCKET_BYTES:
            raise Unusable(f"{self.path}: no room")

    def close(self) -> None:
        """With it go its locks."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        self.close()


def _place(directory: Path) -> tuple[Path, int]:
    """(path, mode) of the file. All who may write to the directory share it, but not where that is everybody: there
    each user has a file of their own."""
    may = directory.stat().st_mode
    if may & stat.S_IWOTH:
        return directory / f"{NAME}-{os.geteuid()}", 0o600
    return directory / NAME, 0o660 if may & stat.S_IWGRP else 0o600


def _opened(path: Path, mode: int) -> int | None:
    """None: there is no such file. Unusable if it is no file, or somebody else put it there."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    found = os.fstat(fd)
    if stat.S_ISREG(found.st_mode) and (mode & 0o060 or found.st_uid == os.geteuid()):
        return fd
    os.close(fd)
    raise Unusable(f"{path}: is not a file of this user")


def _make(path: Path, mode: int, header: bytes) -> None:
    """A new file at `path`, whole from the first moment on; nothing if another crawl was quicker."""
    fd, temporary = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    try:
        os.fchmod(fd, mode)
        os.ftruncate(fd, BYTES)
        os.pwrite(fd, header, 0)
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.close(fd)
        os.unlink(temporary)


def _header(boot: str) -> bytes:
    header = _MAGIC + boot.encode("ascii").ljust(36) + struct.pack("<II", BUCKETS, CELLS)
    return header + struct.pack("<I", xxhash.xxh32_intdigest(header))


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except FileNotFoundError:
        return False


def _is_right(fd: int, expected: bytes) -> bool:
    return os.fstat(fd).st_size == BYTES and os.pread(fd, len(expected), 0) == expected


def _newest(fd: int) -> int:
    data = os.pread(fd, _MEMBER.size, _MEMBER_AT)
    return int(_MEMBER.unpack(data)[0]) if len(data) == _MEMBER.size else 0


def _enter(fd: int) -> int:
    """A member number of its own, which nobody had."""
    last = _newest(fd)
    for more in range(1, _TRIES):
        member = (last + more) % _MEMBERS or 1
        if _lock(fd, fcntl.F_WRLCK, _LOCK_AT + member):
            os.pwrite(fd, _MEMBER.pack(member), _MEMBER_AT)
            return member
    raise Unusable("no number is free in it")


def _lock(fd: int, kind: int, at: int) -> bool:
    """Lock or unlock a byte; False: another process has it."""
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, at, 1, 0))
    except (BlockingIOError, PermissionError):  # EAGAIN or EACCES, as fcntl(2) says
        return False
    return True


def _locked(fd: int, at: int, count: int) -> int | None:
    """One of `count` bytes that another process has locked."""
    told = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, at, count, 0))
    kind, _, found, _, _ = _FLOCK.unpack(told)
    return None if kind == fcntl.F_UNLCK else int(found)
