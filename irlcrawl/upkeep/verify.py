"""WARC files checked by themselves: every gzip member or zstd frame and record whole, every digest right, every unit
complete.

`check_file` is one pass in constant memory, which fsck uses, too. `verify` also has warcio, which shares no code with
us, read each file; it knows no zstd frames, and gets what is in them. After a broken record the next whole one is
looked for, so one flipped byte is one finding.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from drum.catalog import Catalog
from drum.errors import UnknownVersion
from drum.files import Damaged, Files, Handle
from drum.sectors import SECTOR_BYTES, Unreadable

from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import OPEN, WARC_SUFFIXES
from irlcrawl.frontier.state.harvested import away
from irlcrawl.terminal import words
from irlcrawl.terminal.progress import Bar
from irlcrawl.upkeep.findings import Finding, Findings, note
from irlcrawl.worker.archive import taken_down, zstd
from irlcrawl.worker.archive.reader import Record, records
from irlcrawl.worker.archive.record import digest, split_response
from irlcrawl.worker.archive.redo import RESPONSE, REVISIT
from irlcrawl.worker.archive.unit import Unit

GZIP_MAGIC = b"\x1f\x8b\x08"
SEARCH_BYTES = 1 << 20
PIECE_BYTES = 1 << 20
FINDINGS_MAX = 100
"""Findings that are told of one file: a disk that lost much need not be told byte by byte."""


@dataclass(frozen=True)
class Found:
    """A whole unit: the place of its last record, and its URL."""

    offset: int
    end: int
    url: bytes


def verify(files: Files, paths: list[str], bar: Bar) -> Findings:
    """Check each file, with our reader and with warcio."""
    for path in paths:
        closed = path.removesuffix(OPEN)
        try:
            yield from _verify(files, path, bar)
        except FileNotFoundError:  # beside a crawl that runs: since it was listed it was closed, or moved by its owner
            if closed != path and files.exists(closed):
                yield from _verify(files, closed, bar)
            else:
                yield note(path, "away since it was listed")


def elsewhere(job: JobDir, files: Files) -> Findings:
    """A note of archives that are not here, and one for each other machine that worked for a crawl: some lie there."""
    if gone := away(job, files):
        yield note(os.fspath(job.warcs), f"{words.plural(gone, 'archive is', 'archives are')} away, and not checked")
    try:
        catalog = Catalog.open(job.state, files, readonly=True)
    except (Damaged, UnknownVersion, OSError):  # archives are what is checked here
        return
    for key, _ in catalog.items("nodes/"):
        name = key.removeprefix("nodes/")
        yield note(os.fspath(job.warcs), f"more archives lie on machine {name}: verify its directory there")


def _verify(files: Files, path: str, bar: Bar) -> Findings:
    size = files.size(path)
    bar.stage(os.path.basename(path), size)
    found = list(check_file(files, path, bar, lambda unit: None))
    yield from found
    if not any(one.damage for one in found):
        yield from _with_warcio(path, size, bar, torn=any("torn" in one.what for one in found))


def check_file(
    files: Files, path: str, bar: Bar, on_unit: Callable[[Found], None], written: int | None = None
) -> Findings:
    """Findings of one file; calls on_unit(found) for every whole unit, in order. written: the byte up to which an open
    file is known to be whole; behind it a power loss may have taken some bytes and left later ones."""
    size, at, said = files.size(path), 0, 0
    check = _Units(path, on_unit)
    if not size and not path.endswith(OPEN):
        yield Finding(True, path, 0, "an empty archive")
    while at < size and said < FINDINGS_MAX:
        try:
            for record in records(files, path, at):
                bar.read(record.end - at)
                at = record.end
                for finding in check.take(record):
                    said += 1
                    yield finding
        except Damaged as error:
            following = next_record(files, path, error.offset + 1, size)
            behind = following == size if written is None else error.offset >= written
            if path.endswith(OPEN) and behind and not isinstance(error, Unreadable):
                yield note(path, f"torn at offset {error.offset}: {size - error.offset} bytes, cut at the next start")
                return
            said += 1
            yield Finding.of(error)
            check.forget()
            bar.read(following - at)
            at = following
    yield from check.end()
    yield from check.told()


def next_record(files: Files, path: str, start: int, size: int) -> int:
    """The offset of the next whole record at or behind `start`; `size` if there is none."""
    handle = files.open(path)
    try:
        magic = zstd.MAGIC if zstd.is_zstd(files, path, handle) else GZIP_MAGIC
        while start < size:
            data, behind = _readable(files, handle, start)
            at = data.find(magic)
            if at < 0:
                start = behind
                continue
            start += at
            try:
                next(records(files, path, start, keep=False))
                return start
            except Damaged:
                start += 1
        return size
    finally:
        files.close(handle)


def _readable(files: Files, handle: Handle, start: int) -> tuple[bytes, int]:
    """The bytes that can be read from there up to a bad sector, and where to look next if nothing is found in them."""
    try:
        return files.pread(handle, SEARCH_BYTES + len(zstd.MAGIC), start), start + SEARCH_BYTES
    except Unreadable as error:
        behind = error.offset - error.offset % SECTOR_BYTES + SECTOR_BYTES
        return files.pread(handle, error.offset - start, start) if error.offset > start else b"", behind


class _Units:
    """Checks that records, one after the other, are units as a WarcWriter appends them."""

    def __init__(self, path: str, on_unit: Callable[[Found], None]) -> None:
        self._path, self._on_unit = path, on_unit
        self._first = True
        self._ours = False  # it says that irlcrawl wrote it; of other archives only records and digests are checked
        self._request: Record | None = None
        self._taken_down = 0

    def take(self, record: Record) -> Findings:
        yield from self._digests(record)
        if self._first or record.kind == "warcinfo":  # archives may be put together to one
            if record.kind != "warcinfo":
                yield self._wrong(record, "an archive begins with a warcinfo record")
            yield from self.end()
            self._first, self._request = False, None
            self._ours = record.kind == "warcinfo" and b"irlcrawl/" in record.block
            return
        if not self._ours:
            return
        if record.unit is None:
            if self._request is not None:
                yield self._wrong(self._request, "a request without its response")
            self._request = record if record.kind == "request" else None
            if record.kind != "request":
                yield self._wrong(record, f"a {record.kind or 'nameless'} record that belongs to no unit")
            return
        yield from self._unit(record)
        self._request = None

    def _unit(self, last: Record) -> Findings:
        request, url = self._request, last.fields.get("warc-target-uri", "")
        if (last.kind in (RESPONSE, REVISIT)) != (request is not None) and not taken_down.since(last):
            yield self._wrong(last, f"a unit of {'a request and ' if request else ''}a {last.kind} record")
        elif request is not None and request.fields.get("warc-target-uri") != url:
            yield self._wrong(last, "a response that is not of the request before it")
        try:
            unit = Unit.from_json(last.unit or "", url.encode("ascii"))
        except (ValueError, UnicodeEncodeError) as error:
            yield self._wrong(last, str(error))
            return
        self._taken_down += taken_down.since(last) is not None
        self._on_unit(Found(last.offset, last.end, unit.url))

    def _digests(self, record: Record) -> Findings:
        told = record.fields.get("warc-block-digest")
        if told is not None and told.startswith("sha1:") and told != digest(record.block):
            yield self._wrong(record, "the block does not have the digest it should")
        payload = record.fields.get("warc-payload-digest")
        if payload is None or not payload.startswith("sha1:") or record.kind != RESPONSE:  # a revisit has none
            return
        try:
            _, body = split_response(record.block)
        except ValueError as error:
            yield self._wrong(record, str(error))
            return
        if digest(body) != payload:
            yield self._wrong(record, "the payload does not have the digest it should")

    def forget(self) -> None:
        """A record was lost: the unit that began before it is not held against the next one."""
        self._request, self._first, self._ours = None, False, True

    def end(self) -> Findings:
        if self._request is not None:
            if self._path.endswith(OPEN):
                yield note(self._path, f"torn at offset {self._request.offset}: a request without its response is cut")
            else:
                yield self._wrong(self._request, "a request without its response")

    def told(self) -> Findings:
        """Notes on the whole file."""
        if self._taken_down:
            yield note(self._path, f"{words.plural(self._taken_down, 'answer')} in it taken down (`irlcrawl takedown`)")

    def _wrong(self, record: Record, what: str) -> Finding:
        return Finding(True, self._path, record.offset, what)


def _with_warcio(path: str, size: int, bar: Bar, torn: bool) -> Findings:
    """The findings of another reader."""
    from warcio.archiveiterator import ArchiveIterator
    from warcio.exceptions import ArchiveLoadFailed

    at = 0
    bar.stage(f"{os.path.basename(path)}, by warcio", size)
    with open(path, "rb") as stream:
        packed = zstd.is_zstd(Files(), path)
        reader = ArchiveIterator(zstd.content(stream) if packed else stream, check_digests=True)
        try:
            for record in reader:
                while record.raw_stream.read(PIECE_BYTES):  # as stored: that has the digests, and no bombs
                    pass
                if record.digest_checker is not None and record.digest_checker.passed is False:  # None: it has none
                    yield Finding(
                        True, path, at if packed else reader.get_record_offset(), "warcio: a digest that is not right"
                    )
                bar.read(stream.tell() - at)
                at = stream.tell()
        except (ArchiveLoadFailed, EOFError, OSError, ValueError) as error:
            if not torn:
                yield Finding(True, path, at, f"warcio cannot read on: {error}")
    bar.read(size - at)


def warcs_of(files: Files, directory: str) -> Iterator[str]:
    """The archives in a directory."""
    for name in files.listdir(directory):
        if name.removesuffix(OPEN).endswith(WARC_SUFFIXES):
            yield os.path.join(directory, name)
