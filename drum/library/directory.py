"""The directory of one drum: who may use it, what in it is its own, and commits of a file and a line at a time."""

from __future__ import annotations

import errno
import os

from drum.catalog import MISSING, Catalog, Edits
from drum.errors import Closed, Incompatible, Locked
from drum.files import Damaged, Files, Handle, Path
from drum.names import LOCK, TEMPORARY, numbered, parse_log, parse_numbered
from drum.pool import SegmentPool
from drum.writer import SegmentWriter

_OPTIONS = "options"


class Directory:
    """Made if it is absent, locked until `close`, recovered, and for drums with these options only. Locked,
    Incompatible, Damaged, UnknownVersion; OSError."""

    _lock: Handle = -1

    def __init__(self, path: Path, files: Files, options: dict[str, object]) -> None:
        self.path, self.files, self._options = os.fsdecode(path), files, options
        self._process = os.getpid()
        self.files.mkdir(self.path)
        try:
            self._lock = self.files.lock(os.path.join(self.path, LOCK))
        except BlockingIOError as error:
            raise Locked(error.errno, "this drum is open already, in this process or another", self.path) from None
        try:
            self.pool = SegmentPool(self.files, self.path)
            self._open()
        except BaseException:
            self.files.close(self._lock)
            self._lock = -1
            raise

    @property
    def open(self) -> bool:
        return self._lock >= 0

    def check(self) -> None:
        """Closed; Locked in a process that was forked off ours: two would write the same files."""
        if self._lock < 0:
            raise Closed(f"{self.path}: this drum is closed")
        if self._process != os.getpid():
            raise Locked(errno.EWOULDBLOCK, "this drum is open in the process that forked this one", self.path)

    def close(self) -> None:
        if self._lock >= 0:
            self.pool.close()
            self.catalog.close()
            lock, self._lock = self._lock, -1
            self.files.close(lock)

    def _open(self) -> None:
        self.catalog = Catalog.open(self.path, self.files)
        self._check_catalog()
        self.catalog.sweep(keep=[name for name in self.files.listdir(self.path) if not _is_own(name)])
        self.bytes = self._size()

    def _check_catalog(self) -> None:
        """Incompatible, Damaged: nothing was touched."""
        made, last = self.catalog.get(_OPTIONS), self.catalog.number
        if made is None and last:
            raise Incompatible(f"{self.path}: these files are not a drum's")
        if made is not None and {"key_bits": 64, **made} != self._options:
            raise Incompatible(f"{self.path}: this drum was made with {made}, not {self._options}")
        for name in self.files.listdir(self.path):
            if (parse_numbered(name) or 0) > last + 1:  # a commit that did not come about has the next number
                raise Damaged(self.path, 0, f"the catalogue ends with commit {last}, and {name} is of a later one")

    def _size(self) -> int:
        """Bytes of the files that the catalogue names. Damaged when one is missing."""
        total = 0
        for name in self.catalog.live_files():
            path = os.path.join(self.path, name)
            try:
                total += self.files.size(path)
            except FileNotFoundError:
                raise Damaged(path, 0, MISSING) from None
        return total


def _is_own(name: str) -> bool:
    name = name.removesuffix(TEMPORARY)
    return parse_numbered(name) is not None or parse_log(name) is not None


class Commit:
    """One segment and one catalogue line: `writer` and `edits` take what is in them, then `finish`, or, when anything
    fails, `undo`."""

    def __init__(self, directory: Directory) -> None:
        self.directory, self.edits = directory, Edits()
        self._before = directory.catalog.number
        name = numbered(self._before + 1)
        directory.pool.forget([name])  # of an attempt that failed
        self.writer = SegmentWriter(directory.files, os.path.join(directory.path, name))

    def finish(self) -> None:
        at = self.directory
        if self.writer.sections:
            self.writer.finish()
        else:
            self.writer.abort()
        if at.catalog.get(_OPTIONS) is None:
            self.edits.set(_OPTIONS, at._options)
        at.catalog.commit(self.edits)
        at.pool.forget(at.catalog.collect(written=[self.writer.name]))
        at.bytes = at._size()

    def undo(self, error: BaseException) -> bool:
        """After an error: the directory is as before, or, where the error came later, the commit stands: whether."""
        at = self.directory
        self.writer.abort()
        if at.catalog.broken and not isinstance(error, OSError):  # an interrupt in its midst: what the log has counts
            at.catalog.close()
            at._open()
        at.catalog.collect(written=[self.writer.name])  # room for another attempt
        return at.catalog.number > self._before
