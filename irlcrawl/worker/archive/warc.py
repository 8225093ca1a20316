"""The WARC files of one worker: a unit is one append, so a crash leaves whole units and at most one torn tail.

A worker is a stream, and a stream has its own files, numbered by serial: no name ever has two writers. A file's name
ends in `.open` until the file is full or its writer closes it; redo.py finishes files that a crash left open.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from drum.files import Damaged, Files, Handle

from irlcrawl.base.clock import Clock
from irlcrawl.base.job_files import OPEN, Warc, is_prefix, parse_warc, warc_name
from irlcrawl.base.reasons import Reason
from irlcrawl.base.rows import NO_SEGMENT
from irlcrawl.worker.archive import record, taken_down, zstd
from irlcrawl.worker.archive.dedupe import Held
from irlcrawl.worker.archive.reader import fields_at
from irlcrawl.worker.archive.record import Refers
from irlcrawl.worker.archive.unit import Exchange, Location, Unit
from irlcrawl.worker.archive.window import Place

if TYPE_CHECKING:
    from irlcrawl.worker.archive.payloads import Known, Payloads
    from irlcrawl.worker.archive.window import Window

HEADER_BYTES_MAX = 16 << 10
"""A 304 with a longer header is stored as a response: a field of a WARC header cannot have any length."""

__all__ = ["Exchange", "Location", "Unit", "WarcName", "WarcWriter", "warc_files", "warcinfo_values"]


@dataclass(frozen=True, slots=True)
class WarcName:
    """A file of an archive directory, by its name."""

    name: str  # without `.open`
    stream: int
    serial: int
    open: bool

    @property
    def on_disk(self) -> str:
        return self.name + OPEN if self.open else self.name

    @classmethod
    def parse(cls, name: str) -> WarcName | None:
        """None for a file that no WarcWriter made."""
        told = parse_warc(name)
        return None if told is None else cls(name.removesuffix(OPEN), told.stream, told.serial, told.open)


def warc_files(files: Files, directory: str, stream: int | None = None) -> list[WarcName]:
    """The archive's files by (stream, serial), of one stream if it is given. A symlink left in place of a moved archive
    counts as the archive; a dangling one counts as missing."""
    found = [name for entry in files.listdir(directory) if (name := WarcName.parse(entry)) is not None]
    there = (f for f in found if stream in (None, f.stream) and not _leads_nowhere(os.path.join(directory, f.on_disk)))
    return sorted(there, key=lambda f: (f.stream, f.serial))


def _leads_nowhere(path: str) -> bool:
    return os.path.islink(path) and not os.path.exists(path)


def warcinfo_values(
    *, software: str, user_agent: str, operator: str, is_part_of: str, settings: str = ""
) -> dict[str, str]:
    """The fields of every file's warcinfo record. settings: config/toml.py: making."""
    return {
        "software": software,
        "robots": "obey (RFC 9309)",
        "hostname": socket.gethostname(),
        "operator": operator,
        "isPartOf": is_part_of,
        "http-header-user-agent": user_agent,
        "settings": settings,
    }


class WarcWriter:
    """Appends units. One thread appends and closes; any thread may `sync` meanwhile. A file has at most `roll_bytes`
    bytes, unless a single unit is larger."""

    def __init__(
        self,
        files: Files,
        directory: str | os.PathLike[str],
        prefix: str,
        stream: int,
        *,
        info: Mapping[str, str],
        roll_bytes: int,
        gzip_level: int,
        clock: Clock,
        zstd_level: int | None = None,
        dedupe_bytes_min: int = 0,
        payloads: Payloads | None = None,
        window: Window | None = None,
    ) -> None:
        """`info`: see warcinfo_values; `zstd_level`: None for gzip; `dedupe_bytes_min`: archive.dedupe_bytes_min;
        `payloads`: what earlier crawls hold; `window`: what all workers stored of late. ValueError for a prefix that
        cannot be part of a file name; FileExistsError if the stream has files already, for offsets of two writers would
        mean different things."""
        self._handle: Handle | None = None
        if not is_prefix(prefix):
            raise ValueError(f"archive.prefix is made of letters, digits, '.', '_' and '+', not {prefix!r}")
        self._files = files
        self._directory = os.fspath(directory)
        self._prefix = prefix
        self._stream = stream
        self._info = dict(info)
        self._roll_bytes = roll_bytes
        self._zstd = zstd_level is not None
        self._member: Callable[..., bytes] = partial(record.member, level=gzip_level)
        if zstd_level is not None:
            self._member = zstd.packer(zstd_level)
        self._clock = clock
        self._dedupe_bytes_min = dedupe_bytes_min
        self._payloads = payloads
        self._window = window
        self._untold: list[tuple[bytes, Place]] = []  # for the window, once they are on the disk
        self._held: Held | None = None  # of the open file
        self._sha1 = b""  # of the payload of the last unit
        if existing := warc_files(files, self._directory, stream):
            raise FileExistsError(f"stream {stream} already has an archive: {existing[0].on_disk}")
        self._name = ""
        self._warcinfo_id = ""
        self._serial = 0
        self._offset = 0  # end of the last whole unit; an open file has at least one
        self._dirty = False  # appended to since the last fsync began
        self._unsynced: OSError | None = None  # an fsync that failed: the kernel may say well the next time, untruly
        self._syncing = threading.Lock()  # whoever has it may use the handle: it is neither closed nor cut meanwhile
        self.bytes_written = 0
        """Bytes appended in all files."""

    @property
    def position(self) -> tuple[int, int]:
        """(serial, offset): the end of the last unit. Replay starts here if a harvest covers everything before."""
        return self._serial, self._offset

    def append(self, unit: Unit, exchange: Exchange | None) -> Location:
        """Append a unit in one write, its payload only if it is not stored already (`refers`): the unit is told by
        `size`, `original` and `header`. After an OSError nothing of it stays, and the next append starts a new file.
        ValueError for an exchange that cannot be stored (see record.py); nothing is written then."""
        if self._handle is None:
            self._warcinfo_id = record.new_id()
        first, last, digest = self._members(unit, exchange)
        length = len(first) + len(last)
        if self._handle is not None and self._offset + length > self._roll_bytes:
            self.close()
            return self.append(unit, exchange)  # formatted again: it names the warcinfo record of its file
        prologue = b"" if self._handle is not None else self._open()
        assert self._handle is not None
        try:
            self._files.write(self._handle, b"".join((prologue, first, last)))
        except OSError:
            self._abandon()
            raise
        self._dirty = True  # only now: a sync that began before may have missed it
        offset = self._offset + len(prologue)
        self._offset = offset + length
        self.bytes_written += len(prologue) + length
        if self._held is not None and exchange is not None and unit.size is None and self._is_worth(unit, exchange):
            self._held.put(self._sha1, offset + len(first))
            if self._window is not None:
                self._untold.append((self._sha1, Place(self._name, offset + len(first))))
        return Location(self._name, self._stream, self._serial, offset, length, offset + len(first), digest)

    def sync(self) -> None:
        """Units appended before the call survive a power loss once this returns. After an OSError nothing is certain,
        and every later call fails as well."""
        with self._syncing:
            self._sync()

    def _sync(self) -> None:
        if self._unsynced is not None:
            raise OSError(*self._unsynced.args)
        if self._handle is not None and self._dirty:
            self._dirty = False  # before: what is appended meanwhile needs another
            told, self._untold = self._untold, []
            try:
                self._files.fsync(self._handle)
            except OSError as error:
                self._unsynced = error
                raise
            if self._window is not None:
                self._window.put(told)

    def close(self) -> None:
        """Finish the open file, if any: sync it and take `.open` off its name. A later append starts the next file."""
        if self._handle is None:
            return
        with self._syncing:
            self._sync()
            self._files.close(self._handle)
            self._handle = None
        path = os.path.join(self._directory, self._name)
        self._files.rename(path + OPEN, path)
        self._files.fsync_dir(self._directory)

    def __del__(self) -> None:
        """Nobody writes any more: what `close` would have finished is recovery's now."""
        if self._handle is not None:
            self._files.close(self._handle)

    def _members(self, unit: Unit, exchange: Exchange | None) -> tuple[bytes, bytes, str]:
        """What comes before the unit's last record, that record, and the payload digest."""
        if exchange is None:
            return b"", self._member(record.metadata(unit, self._warcinfo_id)), ""
        unit.size = unit.original = unit.holder = unit.own = None
        unit.header, unit.away = "", False
        sha1 = unit.page.sha1 if unit.reason == Reason.NOT_MODIFIED and unit.page is not None else None
        refers: Refers | None
        if sha1 is not None and len(exchange.header) <= HEADER_BYTES_MAX:
            refers, self._sha1 = self._not_modified(unit, exchange), sha1
        else:
            self._sha1 = record.sha1(exchange.body)
            refers = self._refers(unit, exchange, self._sha1)
        digest = record.digest_text(self._sha1)
        request, response = record.request_and_response(unit, exchange, self._warcinfo_id, digest, refers)
        packed = len(exchange.body) + len(record.END) if refers is None and record.is_packed(exchange.body) else 0
        return self._member(request), self._member(response, packed=packed), digest

    @staticmethod
    def _not_modified(unit: Unit, exchange: Exchange) -> Refers:
        """What holds the payload by the word of its server, whose header goes into the unit."""
        assert unit.page is not None
        unit.size, unit.header = len(exchange.body), exchange.header.decode("latin-1")
        return Refers(record.NOT_MODIFIED, record.uri(unit.url), record.date(unit.page.stored))

    def _refers(self, unit: Unit, exchange: Exchange, sha1: bytes) -> Refers | None:
        """What holds the payload of an exchange already: by the digest that was known of the page, or in a file; None
        if its record is to hold it."""
        page = unit.page
        if exchange.truncated or not exchange.body:
            return None
        if page is not None and page.stored and page.holds(sha1):
            unit.size = len(exchange.body)
            return Refers(record.IDENTICAL, record.uri(unit.url), record.date(page.stored))
        if not self._dedupe_bytes_min or not self._is_worth(unit, exchange):
            return None
        refers = self._in_this_file(unit, exchange, sha1) or self._in_another_file(unit, exchange, sha1)
        if refers is None:
            return self._in_another_crawl(unit, exchange, sha1)
        if refers.uri == record.uri(unit.url):
            unit.own = record.seconds_of(refers.date)
        return refers

    def _in_another_crawl(self, unit: Unit, exchange: Exchange, sha1: bytes) -> Refers | None:
        known = self._payloads.find(sha1) if self._payloads is not None else None
        if known is None or self._is_taken_down(known):
            return None
        unit.size, unit.away = len(exchange.body), True
        return Refers(record.IDENTICAL, known.uri.decode("ascii"), known.date.decode("ascii"))

    def _is_taken_down(self, known: Known) -> bool:
        """Whether the payload is gone though its source names it: an index that was made before. An archive that is not
        here cannot be asked."""
        final = os.fsdecode(known.file)
        for path in (final + OPEN, final) if final else ():
            try:
                there = fields_at(self._files, path, known.offset)
            except (OSError, Damaged):
                continue
            return there is not None and taken_down.FIELD.lower() in there
        return False

    def _in_this_file(self, unit: Unit, exchange: Exchange, sha1: bytes) -> Refers | None:
        if self._held is None or self._handle is None:
            return None
        offset = self._held.find(sha1)
        if offset is None:
            return None
        refers = self._at(os.path.join(self._directory, self._name + OPEN), offset, sha1)
        if refers is not None:
            unit.size, unit.original = len(exchange.body), offset
        return refers

    def _in_another_file(self, unit: Unit, exchange: Exchange, sha1: bytes) -> Refers | None:
        place = self._window.find(sha1) if self._window is not None else None
        if place is None:
            return None
        final = os.path.join(self._directory, place.file)
        for path in (final + OPEN, final):  # `.open` first: when it is gone by now, it has its final name
            try:
                refers = self._at(path, place.offset, sha1)
            except FileNotFoundError:  # its owner moved it
                continue
            if refers is not None:
                unit.size, unit.holder = len(exchange.body), (place.file, place.offset)
            return refers
        return None

    def _at(self, path: str, offset: int, sha1: bytes) -> Refers | None:
        """The record there, if it is one that holds a payload of that digest."""
        there = fields_at(self._files, path, offset)
        if there is None or there.get("warc-payload-digest") != record.digest_text(sha1):
            return None
        return Refers(record.IDENTICAL, there["warc-target-uri"], there["warc-date"])

    def _is_worth(self, unit: Unit, exchange: Exchange) -> bool:
        """Whether the payload may stand once for several URLs. A robots.txt is kept as it came."""
        long = len(exchange.body) >= self._dedupe_bytes_min
        return long and exchange.truncated is None and unit.segment != NO_SEGMENT

    def _open(self) -> bytes:
        """Create the next file; returns its warcinfo member, which is written together with the first unit."""
        now_ms = int(self._clock.now() * 1000)
        stamp = time.strftime("%Y%m%d%H%M%S", time.gmtime(now_ms // 1000)) + f"{now_ms % 1000:03d}"
        serial = self._serial + 1 if self._name else 0
        name = warc_name(Warc(self._prefix, stamp, serial, self._stream, zstd=self._zstd))
        info = record.warcinfo(self._warcinfo_id, name, now_ms / 1000, self._info)
        self._handle = self._files.create(os.path.join(self._directory, name + OPEN))
        self._files.fsync_dir(self._directory)
        self._name, self._serial, self._offset = name, serial, 0
        self._held = Held() if self._dedupe_bytes_min else None
        return self._member(info)

    def _abandon(self) -> None:
        """A write failed part way: cut the torn unit off, keep the whole ones, and leave the name to recovery."""
        with self._syncing:
            handle, self._handle = self._handle, None
            self._untold = []
            assert handle is not None
            try:
                self._files.truncate(handle, self._offset)
                self._files.fsync(handle)
            finally:
                self._files.close(handle)
