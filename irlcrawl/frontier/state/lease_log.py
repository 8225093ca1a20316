"""leases.log: the clocks of every lease, named before its first request goes out, so that a kill breaks no promise.

A commit holds the clocks as they were; what was leased since would be forgotten by a killed process, and its hosts
asked again too early. So each lease appends its clocks here first: no fsync, for a killed process leaves its writes to
the kernel. A reboot may lose the end of the file: then the boot id in its header differs, and the reader is told to
hold everything back for one gap. Each commit starts a new log.

    found = LeaseLog.read(files, path)                        # when an existing crawl is opened
    clocks.load(sections, now, clock_set); clocks.open(now, found.promises, found.rebooted)
    log = LeaseLog(files, path); log.roll(clocks.unsaved(now))   # also for a new crawl
    log.append(polite.promises(entry))                        # before the lease is sent
    log.append(clocks.news(now))                              # once per tick: what ended visits taught
    rows = clocks.delta(now); …commit…; log.roll(clocks.unsaved(now) + polite.promises_out())

Bytes: header `irlLEAS1`, boot id (36 ASCII bytes), u4 key function (as in segments), u4 check; then per clock u4
check, u1 kind, 3 zero bytes, u8 key, f8 gap seconds; little endian; check = xxh32 of the bytes it stands before (for
the header: of those before it).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from drum.catalog import SECTOR
from drum.codec import KEY_FUNCTION, KEY_FUNCTION_NAME
from drum.errors import UnknownVersion
from drum.files import Files

import xxhash

from irlcrawl.base.job_files import temporary
from irlcrawl.frontier.politeness.clocks import REBOOT, Promise

MAGIC = b"irlLEAS1"
_HEADER = struct.Struct("<8s36sII")
_ROW = struct.Struct("<B3xQd")
_CHECK = struct.Struct("<I")
_ROW_BYTES = _CHECK.size + _ROW.size
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def boot_id(files: Files) -> str:
    """Names this run of the kernel; "" where the system does not tell (then every open is one after a reboot)."""
    try:
        handle = files.open(_BOOT_ID)
    except FileNotFoundError:
        return ""
    try:
        return files.pread(handle, 36, 0).decode("ascii").strip()
    finally:
        files.close(handle)


@dataclass(frozen=True, slots=True)
class Found:
    """promises: what the log names; rebooted: it may not be all, because the machine went down since (or the log is
    missing, unreadable, or damaged before its end)."""

    promises: list[Promise]
    rebooted: bool


class LeaseLog:
    """The log being written. Errors: OSError of the file system."""

    def __init__(self, files: Files, path: str | os.PathLike[str]) -> None:
        self._handle: int | None = None
        self._files = files
        self._path = os.fspath(path)
        self._boot = boot_id(files)

    def append(self, promises: Iterable[Promise]) -> None:
        """Name the clocks of one or more leases, in one write, before they are sent. Needs a `roll` first."""
        if self._handle is None:
            raise ValueError(f"{self._path}: append before roll")
        self._files.write(self._handle, b"".join(map(_row, promises)))

    def roll(self, promises: Iterable[Promise]) -> None:
        """After a commit (and at the start): a new log with what the commit does not cover, atomically in the old one's
        place. A crash before this leaves the old log, which names more than it must: hosts wait longer, never less."""
        new = temporary(self._path)
        self._files.unlink(new, missing_ok=True)
        handle = self._files.create(new)
        header = MAGIC + self._boot.encode("ascii").ljust(36) + _CHECK.pack(KEY_FUNCTION)
        header += _CHECK.pack(xxhash.xxh32_intdigest(header))
        self._files.write(handle, header + b"".join(map(_row, promises)))
        self._files.rename(new, self._path)
        self.close()
        self._handle = handle

    def close(self) -> None:
        if self._handle is not None:
            self._files.close(self._handle)
            self._handle = None

    def __del__(self) -> None:
        self.close()

    @staticmethod
    def check(files: Files, path: str | os.PathLike[str]) -> tuple[int, bool] | None:
        """(offset, whether a power loss may leave it so) of the first thing in a log that is not as it was written. The
        log is never synced, so power may take its end, or leave zeros for any sector; a torn last row is nothing."""
        data = files.read(path)
        begin, _ = _header(data, path)
        if not begin:
            return 0, len(data) < _HEADER.size or _never_written(data, 0, _HEADER.size)
        torn: int | None = None
        for at in range(begin, len(data) - _ROW_BYTES + 1, _ROW_BYTES):
            if _CHECK.unpack_from(data, at)[0] != xxhash.xxh32_intdigest(data[at + _CHECK.size : at + _ROW_BYTES]):
                if not _never_written(data, at, at + _ROW_BYTES):
                    return at, False
                torn = at if torn is None else torn
        return None if torn is None else (torn, True)

    @staticmethod
    def read(files: Files, path: str | os.PathLike[str]) -> Found:
        """The log of an existing crawl. A torn last row is a lease that was never sent."""
        if not files.exists(path):
            return Found([], rebooted=True)
        data = files.read(path)
        begin, boot = _header(data, path)
        if not begin:
            return Found([], rebooted=True)
        promises: list[Promise] = []
        whole = (len(data) - begin) // _ROW_BYTES * _ROW_BYTES + begin
        for at in range(begin, whole, _ROW_BYTES):  # a row per clock leased since the last commit: thousands
            row = data[at + _CHECK.size : at + _ROW_BYTES]
            kind, key, gap = _ROW.unpack(row)
            if _CHECK.unpack_from(data, at)[0] != xxhash.xxh32_intdigest(row) or kind > REBOOT:
                return Found(promises, rebooted=True)
            promises.append(Promise(kind, key, gap))
        here = boot_id(files)
        rebooted = not here or boot != here
        return Found(promises, rebooted)


def _header(data: bytes, path: str | os.PathLike[str]) -> tuple[int, str]:
    """(where the rows begin, boot id); (0, "") of what is not a header as it was written. UnknownVersion."""
    if len(data) < _HEADER.size:
        return 0, ""
    magic, boot, function, check = _HEADER.unpack_from(data)
    if magic != MAGIC or check != xxhash.xxh32_intdigest(data[: _HEADER.size - _CHECK.size]):
        return 0, ""
    if function != KEY_FUNCTION:
        raise UnknownVersion(os.fspath(path), f"1 with keys by function {function}", f"keys by {KEY_FUNCTION_NAME}")
    return _HEADER.size, boot.decode("ascii", "replace").strip()


def _never_written(data: bytes, begin: int, end: int) -> bool:
    """Whether there are only zeros of what one of the sectors holds of these bytes."""
    ends = [*range(begin + SECTOR - begin % SECTOR, end, SECTOR), end]
    return any(not data[first:last].strip(b"\0") for first, last in zip([begin, *ends], ends))


def _row(promise: Promise) -> bytes:
    row = _ROW.pack(promise.kind, promise.key, promise.gap)
    return _CHECK.pack(xxhash.xxh32_intdigest(row)) + row
