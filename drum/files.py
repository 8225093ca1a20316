"""Every file-system call of the project's state goes through here, so that tests can fail, count and cut them.

An instance of `Files` is passed to whatever touches the disk. A test passes a subclass that runs out of space at the
n-th byte, or that forgets what was not fsynced. Errors are the OSError of the system call, never translated; they name
the file, those of a write or a sync too.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import threading
from typing import TypeAlias

import numpy as np

Path: TypeAlias = str | os.PathLike[str]
Handle: TypeAlias = int
Data: TypeAlias = bytes | bytearray | memoryview

DIRECT_BYTES = 4096  # what reads past the page cache are aligned to: no disk in use has larger sectors
_HUGE_BYTES = 2 << 20  # of a huge page, as most processors have them
_PASSING_BYTES = 64 << 10  # a shorter read is not worth going past the page cache


class Files:
    """The real file system. Handles are file descriptors, not inherited by child processes unless said."""

    def create(self, path: Path) -> Handle:
        """A new file for reading and writing; FileExistsError if there is one."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)

    def append(self, path: Path) -> Handle:
        """Open for appending (and reading), created when absent."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def update(self, path: Path) -> Handle:
        """Open for reading and for `pwrite`, created when absent."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def open(self, path: Path) -> Handle:
        """Open for reading."""
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def write(self, handle: Handle, data: Data) -> None:
        """All of `data`, or an OSError (then some of it may have been written)."""
        view = memoryview(data).cast("B")
        try:
            while len(view):
                view = view[os.write(handle, view) :]
        except OSError as error:
            _name(error, handle)
            raise

    def pwrite(self, handle: Handle, data: Data, offset: int) -> None:
        """All of `data` at `offset`, or an OSError (then some of it may have been written). Not for handles of
        `append`, whose writes go to the end."""
        view = memoryview(data).cast("B")
        try:
            while len(view):
                written = os.pwrite(handle, view, offset)
                view, offset = view[written:], offset + written
        except OSError as error:
            _name(error, handle)
            raise

    def pread(self, handle: Handle, length: int, offset: int) -> bytes:
        """`length` bytes at `offset`; fewer only at the end of the file."""
        data = os.pread(handle, length, offset)
        if len(data) == length or not data:
            return data
        pieces = [data]
        got = len(data)
        while got < length:  # a read of more than 2 GiB, or a signal
            data = os.pread(handle, length - got, offset + got)
            if not data:
                break
            pieces.append(data)
            got += len(data)
        return b"".join(pieces)

    def direct(self, handle: Handle) -> Handle:
        """Another handle on an open file, whose reads go past the page cache: no copy, and nothing to forget. OSError
        where the file system has no such reads."""
        return os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)

    def pread_into(self, handle: Handle, buffer: memoryview, offset: int) -> int:
        """Fill `buffer` from `offset` on; how many bytes, fewer only at the end of the file. Of a handle from `direct`
        the offset and the buffer's length are multiples of DIRECT_BYTES, and the buffer starts on a page."""
        got = 0
        while got < len(buffer):
            more = os.preadv(handle, [buffer[got:]], offset + got)
            got += more
            if not more or more % DIRECT_BYTES:  # an odd length is the end: the next offset would be refused
                break
        return got

    def read(self, path: Path) -> bytes:
        """The whole file."""
        handle = self.open(path)
        try:
            return self.pread(handle, os.fstat(handle).st_size, 0)
        finally:
            self.close(handle)

    def size(self, path: Path | Handle) -> int:
        return os.stat(path).st_size

    def same(self, handle: Handle, path: Path) -> bool:
        """Whether `path` names the file that `handle` has open. FileNotFoundError."""
        return os.path.samestat(os.fstat(handle), os.stat(path))

    def modified(self, path: Path) -> float:
        """When the file was last written, unix seconds."""
        return os.stat(path).st_mtime

    def free(self, path: Path) -> int:
        """Bytes that may still be written on the file system of `path`."""
        stat = os.statvfs(path)
        return stat.f_bavail * stat.f_frsize

    def total(self, path: Path) -> int:
        """Bytes of all files in a directory. One that is renamed meanwhile may be left out."""
        found = 0
        with os.scandir(path) as entries:
            for entry in entries:
                try:
                    found += entry.stat().st_size
                except FileNotFoundError:
                    continue
        return found

    def fsync(self, handle: Handle) -> None:
        try:
            os.fsync(handle)
        except OSError as error:
            _name(error, handle)
            raise

    def forget(self, handle: Handle, offset: int = 0, length: int = 0) -> None:
        """Let the page cache drop these bytes (length 0: to the end) if they are on disk: what a long pass has read or
        written once should not push out what others read again."""
        os.posix_fadvise(handle, offset, length, os.POSIX_FADV_DONTNEED)

    def fsync_dir(self, path: Path) -> None:
        """Make the names in a directory durable."""
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def close(self, handle: Handle) -> None:
        os.close(handle)

    def truncate(self, path: Path | Handle, length: int) -> None:
        os.truncate(path, length)

    def rename(self, old: Path, new: Path) -> None:
        """Atomic; replaces `new`."""
        os.replace(old, new)

    def link(self, old: Path, new: Path) -> None:
        os.link(old, new)

    def unlink(self, path: Path, missing_ok: bool = False) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def exists(self, path: Path) -> bool:
        return os.path.exists(path)

    def listdir(self, path: Path) -> list[str]:
        return sorted(os.listdir(path))

    def mkdir(self, path: Path) -> None:
        """Make a directory and its parents; nothing if it is there."""
        os.makedirs(path, exist_ok=True)

    def lock(self, path: Path) -> Handle:
        """Hold the exclusive lock on `path` (created when absent) as long as the handle, or a copy of it that a child
        process inherited, is open. The handle is inheritable by explicit pass_fds only. BlockingIOError when held."""
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise BlockingIOError(errno.EWOULDBLOCK, "locked by another process", os.fspath(path)) from None
            raise
        return handle


class OpenFile:
    """A handle that is closed when nobody refers to it any more: readers of a file that a pool let go, or that got its
    final name meanwhile, keep it open."""

    __slots__ = ("_direct", "files", "handle")

    def __init__(self, files: Files, handle: Handle) -> None:
        self.files, self.handle = files, handle
        self._direct: Handle | None = None  # -1: the file system has no such reads

    def pread(self, length: int, offset: int) -> bytes:
        return self.files.pread(self.handle, length, offset)

    def pread_once(self, length: int, offset: int) -> Data:
        """The same of what nobody is expected to read again soon, without a copy and a place in the page cache where
        the file system can do that. Good until this thread's next call."""
        with _opening:
            if self._direct is None:
                self._direct = self._open_direct()
        start = offset - offset % DIRECT_BYTES
        wanted = -(-(offset + length - start) // DIRECT_BYTES) * DIRECT_BYTES
        if self._direct >= 0 and length >= _PASSING_BYTES:
            try:
                buffer = _buffer(wanted)
                got = self.files.pread_into(self._direct, buffer, start)
                return buffer[offset - start : max(min(got, offset - start + length), offset - start)]
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                self.files.close(self._direct)  # larger sectors than ours
                self._direct = -1
        data = self.pread(length, offset)
        self.files.forget(self.handle, start, offset + length - start)  # and the page shared with what was before
        return data

    def _open_direct(self) -> Handle:
        try:
            return self.files.direct(self.handle)
        except OSError:
            return -1

    def size(self) -> int:
        return self.files.size(self.handle)

    def __del__(self) -> None:
        self.files.close(self.handle)
        if self._direct is not None and self._direct >= 0:
            self.files.close(self._direct)


def _name(error: OSError, handle: Handle) -> None:
    """Give the error the name of its file, which a call on a handle lacks; with two disks, the name says which one
    failed."""
    with contextlib.suppress(OSError):
        error.filename = os.readlink(f"/proc/self/fd/{handle}")


_opening = threading.Lock()
_local = threading.local()


def _buffer(length: int) -> memoryview:
    """Memory that starts on a page, this thread's own and the same in every call. A huge page where there is one: the
    kernel pins all of it at once, which is most of what a read past the page cache costs."""
    found: memoryview | None = getattr(_local, "buffer", None)
    if found is None or len(found) < length:
        size = -(-max(length, _HUGE_BYTES) // _HUGE_BYTES) * _HUGE_BYTES
        memory = mmap.mmap(-1, size + _HUGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)
        start = -np.frombuffer(memory, np.uint8).ctypes.data % _HUGE_BYTES
        found = _local.buffer = memoryview(memory)[start : start + size]
    return found[:length]


class Damaged(Exception):
    """Stored bytes are not what was written. Never skipped: it names the file and the offset of what is wrong."""

    def __init__(self, file: Path, offset: int, what: str) -> None:
        super().__init__(f"{os.fspath(file)}: damaged at offset {offset}: {what}")
        self.file = os.fspath(file)
        self.offset = offset
        self.what = what

    def __reduce__(self) -> tuple[type[Damaged], tuple[str, int, str]]:
        return Damaged, (self.file, self.offset, self.what)
