"""`irlcrawl takedown JOB`: what was stored of some URLs is taken out of the archives of a crawl and of its snapshots.

Each response becomes a record that says so, of the same length (worker/archive/taken_down.py). An archive is written
anew beside the old one, and takes its name when it is whole and on the disk. Then the lines of the crawl log say it,
too. For that the newest part of the log is put aside first: a catalogue knows the checksum of what is still written to,
but not of parts that are compressed. A kill leaves each file as it was or as it will be, and every place that something
names is right in both; running it again finishes it.
"""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field

from drum import Catalog, Damaged, Edits, Files
from drum.files import Handle

from isal import isal_zlib

from irlcrawl.base.job import JobDir, JobError, command
from irlcrawl.base.job_files import LOCK, SEEDS_STREAM, WARCS, parse_log_index, temporary
from irlcrawl.base.reasons import Reason
from irlcrawl.config.lists import OptOut
from irlcrawl.frontier.state import formats
from irlcrawl.frontier.state.sections import CrawlLog
from irlcrawl.terminal import words
from irlcrawl.terminal.progress import Bar
from irlcrawl.upkeep import snapshot
from irlcrawl.web.opt_out import OptOuts
from irlcrawl.worker.archive import log_parts, record, taken_down
from irlcrawl.worker.archive.crawl_log import LogEntry, format_entry, parse, url_of
from irlcrawl.worker.archive.last_words import Returned, returned_in
from irlcrawl.worker.archive.reader import Record, record_at

COPY_BYTES = 1 << 20
NOTE = Reason.TAKEN_DOWN.name.lower()
"""The annotation with the date, and the reason in the line of a URL that had been fetched."""


@dataclass
class Takedown:
    """One of them. JOB's lock is held, and no crawl runs. reason: for people; empty: that of the line that names a
    URL. at: unix seconds."""

    job: JobDir
    opt_outs: OptOuts
    reason: str
    at: float
    bar: Bar
    files: Files = field(default_factory=Files)
    records: int = 0
    """Records that were replaced, each once, however many snapshots share it."""
    lines: int = 0
    """Lines of the crawl log that were mended."""
    left_bereft: int = 0
    """Captures of other URLs that lost their body."""
    away: Counter[str] = field(default_factory=Counter)
    """Archive -> records to be taken down in it, of archives that are not here."""

    def found(self) -> Iterator[tuple[LogEntry, OptOut]]:
        """What the crawl log says is stored of the URLs, with the line that names each. Damaged, OSError."""
        if not self.job.has_catalogue() or not self.job.logs.is_dir():
            return
        committed = formats.look(self.job.state, self.files).get("log", {})
        for piece in log_parts.pieces(self.files, os.fspath(self.job.crawl_log), committed):
            for text in log_parts.lines_of(piece.text):  # a Python loop per line: its URL decides
                named = self.opt_outs.of(piece.understood(url_of, text))
                if named is not None and has_content(entry := piece.understood(parse, text)):
                    yield entry, named

    def bereft(self) -> list[LogEntry]:
        """Captures that nobody named, of which the body stands in a record that is taken down: their own records say no
        more than that it was the same. Damaged, OSError."""
        digests = {entry.digest for entry, _ in self.found() if not _borrows(entry)}
        if not digests:
            return []
        whole, bereft = set(), []
        for entry in log_parts.read(self.files, os.fspath(self.job.crawl_log)):
            if entry.digest in digests and entry.warc is not None and self.opt_outs.of(entry.url) is None:
                if _borrows(entry):
                    bereft.append(entry)
                else:
                    whole.add(entry.digest)
        return [entry for entry in bereft if entry.digest not in whole]

    def run(self) -> None:
        """Do it all. JobError where the crawl did not end cleanly; Damaged, OSError."""
        check_ended(self.job, self.files)
        self.left_bereft = len(self.bereft())
        places: dict[str, array[int]] = {}
        for entry, _ in self.found():
            assert entry.warc is not None
            places.setdefault(entry.warc[0], array("Q")).append(entry.warc[1])
        with snapshot.alone(self.job) if places else nullcontext():
            for name in sorted(places):
                self._archive(name, sorted(places[name]))
        if places.keys() - self.away.keys():
            self._mend_log()

    # -- archives ------------------------------------------------------------------------------------------------------

    def _archive(self, name: str, offsets: list[int]) -> None:
        """One archive, and what snapshots have of it."""
        path = os.fspath(self.job.warcs / name)
        shots = [os.fspath(one / WARCS / name) for one in snapshot.paths(self.job)]
        copies = [copy for copy in shots if self.files.exists(copy)]
        if not self.files.exists(path):
            self.away[name] = len(offsets)
            for copy in copies:
                self._rewrite(os.path.realpath(copy), offsets)
            return
        path = os.path.realpath(path)  # an archive may have been moved, and a link left in its place
        shared = [copy for copy in copies if os.path.samefile(copy, path) and not os.path.islink(copy)]
        self.records += self._rewrite(path, offsets)
        for copy in copies:
            if os.path.samefile(copy, path):
                continue
            if copy in shared:
                new = temporary(copy)
                self.files.unlink(new, missing_ok=True)
                self.files.link(path, new)
                self.files.rename(new, copy)
                self.files.fsync_dir(os.path.dirname(copy))
            else:
                self._rewrite(os.path.realpath(copy), offsets)

    def _rewrite(self, path: str, offsets: list[int]) -> int:
        """A new file in the place of an archive, without the content of the records at these offsets; the file stays if
        they have none. Returns how many were replaced."""
        files, new, size = self.files, temporary(path), self.files.size(path)
        self.bar.stage(os.path.basename(path), size)
        files.unlink(new, missing_ok=True)  # of one that was interrupted
        source, at, replaced = files.open(path), 0, 0
        target = files.create(new)
        try:
            for offset in offsets:
                if offset >= size:  # a snapshot has less of it
                    break
                one = record_at(files, path, offset)
                if taken_down.since(one) is not None:
                    continue
                named = self._named(one, path)
                self._copy(source, target, at, offset)
                files.write(target, taken_down.in_place_of(one, self.at, self.reason or named.reason))
                at, replaced = one.end, replaced + 1
            if replaced:
                self._copy(source, target, at, size)
                files.fsync(target)
        except BaseException:
            files.unlink(new, missing_ok=True)
            raise
        finally:
            files.close(source)
            files.close(target)
        if replaced:
            files.rename(new, path)
            files.fsync_dir(os.path.dirname(path))
        else:
            files.unlink(new)
        return replaced

    def _named(self, one: Record, path: str) -> OptOut:
        """The line that names the URL of a record with content. Damaged if it is none."""
        named = self.opt_outs.of(one.fields.get("warc-target-uri", "").encode("ascii", "replace"))
        if named is None or one.kind not in taken_down.CONTENT or one.unit is None:
            raise Damaged(path, one.offset, "the crawl log says that an answer to be taken down lies here; it does not")
        return named

    def _copy(self, source: Handle, target: Handle, start: int, end: int) -> None:
        while start < end:
            data = self.files.pread(source, min(COPY_BYTES, end - start), start)
            self.files.write(target, data)
            self.bar.read(len(data))
            start += len(data)

    # -- the crawl log -------------------------------------------------------------------------------------------------

    def _mend_log(self) -> None:
        """Its indexes have the lines as they were: they go first, and none is made meanwhile."""
        self.files.mkdir(self.job.indexes)
        try:
            lock = self.files.lock(self.job.indexes / LOCK)
        except OSError as error:
            raise JobError(f"{self.job.indexes}: a question is making the log's index; try again") from error
        try:
            for name in self.files.listdir(self.job.indexes):
                if parse_log_index(name) is not None:
                    self.files.unlink(self.job.indexes / name, missing_ok=True)
            self._mend_lines()
        finally:
            self.files.close(lock)

    def _mend_lines(self) -> None:
        path = os.fspath(self.job.crawl_log)
        catalog = Catalog.open(self.job.state, self.files)
        try:
            log = CrawlLog(self.files, path, catalog.get("log", {}), roll_bytes=1)
            try:
                log.put_aside(lambda: _commit(catalog, "log", log.entry()))
            finally:
                log.close()
            pieces = log_parts.pieces(self.files, path)
            returned = Returned(returned_in(pieces))
            for number, part in log_parts.rolled_parts(self.files, path).items():
                moved = self._mend_part(part, number, returned)
                if moved:
                    counters = dict(catalog.get("counters", {}))
                    counters["fetched_by_reason"] = _moved(counters.get("fetched_by_reason", {}), moved)
                    _commit(catalog, "counters", counters)
        finally:
            catalog.close()

    def _mend_part(self, path: str, number: int, returned: Returned) -> Counter[str]:
        """A compressed part of the log. Returns which reasons became `taken_down`, and how often: those of last
        words."""
        moved: Counter[str] = Counter()
        before = self.lines
        with suppress(_Unchanged), _Packed(self.files, path) as packed:
            for piece in log_parts.pieces_of(log_parts.open_part(self.files, path), number):
                packed.write(b"".join(self._mended(piece, returned, moved)))
            if self.lines == before:
                raise _Unchanged
        return moved

    def _mended(self, piece: log_parts.Piece, returned: Returned, moved: Counter[str]) -> Iterator[bytes]:
        at = 0
        for text in log_parts.lines_of(piece.text):
            place, at = piece.place(at), at + len(text) + 1
            named = self.opt_outs.of(piece.understood(url_of, text))
            if named is not None and has_content(entry := piece.understood(parse, text)):
                assert entry.warc is not None
                if entry.warc[0] not in self.away:
                    if entry.outcome == "fetched" and not returned.since(entry.url, place):
                        moved[entry.reason] += 1
                        entry.notes["reason"] = NOTE
                    text = format_entry(self._told(entry, self.reason or named.reason))
                    self.lines += 1
            yield text + b"\n"

    def _told(self, entry: LogEntry, reason: str) -> LogEntry:
        """An entry that says it. Without a digest no verb takes its record for a response."""
        entry.digest = ""
        entry.notes |= {"detail": reason, NOTE: record.date(self.at)}
        return entry


class _Unchanged(Exception):
    """A part of the log has no line to be mended."""


class _Packed:
    """A new gzip file in the place of an old one, when all of it is written."""

    def __init__(self, files: Files, path: str) -> None:
        self._files, self._path, self._new = files, path, temporary(path)

    def __enter__(self) -> _Packed:
        self._files.unlink(self._new, missing_ok=True)
        self._handle = self._files.create(self._new)
        self._packer = isal_zlib.compressobj(1, wbits=31)
        return self

    def write(self, text: bytes) -> None:
        self._files.write(self._handle, self._packer.compress(text))

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        files = self._files
        try:
            if kind is None:
                files.write(self._handle, self._packer.flush())
                files.fsync(self._handle)
        finally:
            files.close(self._handle)
        if kind is not None:
            files.unlink(self._new, missing_ok=True)
            return
        files.rename(self._new, self._path)
        files.fsync_dir(os.path.dirname(self._path))


def has_content(entry: LogEntry) -> bool:
    """Whether the archive holds what a server sent, as far as the line knows."""
    return entry.warc is not None and bool(entry.digest)


def _borrows(entry: LogEntry) -> bool:
    """Whether another record has the body."""
    return any(name.startswith("warcRevisit:") for name in entry.notes)


def check_ended(job: JobDir, files: Files) -> None:
    """JobError where a crawl was killed, or its disk was full, and nobody went on with it: what its workers left is not
    in the log yet."""
    if not job.has_catalogue():
        return
    catalog = formats.look(job.state, files)
    if any(key != f"streams/{SEEDS_STREAM}" for key, _ in catalog.items("streams/")):
        go_on = command("resume", job.path)
        raise JobError(f"{job.path}: its run did not end cleanly; go on with it, stop it, run this again: {go_on}")


def _commit(catalog: Catalog, key: str, value: object) -> None:
    if catalog.get(key) != value:
        edits = Edits()
        edits.set(key, value)
        catalog.commit(edits)


def _moved(known: dict[str, int], moved: Counter[str]) -> dict[str, int]:
    """Numbers by reason, after some of them became `taken_down`."""
    numbers = {reason: number - moved[reason] for reason, number in known.items()}
    numbers[NOTE] = numbers.get(NOTE, 0) + sum(moved.values())
    return {reason: number for reason, number in numbers.items() if number}


def told(takedown: Takedown, say: Callable[[str], None]) -> bool:
    """Say what was done; whether that is all there was to do."""
    records, lines = words.plural(takedown.records, "record"), words.plural(takedown.lines, "line")
    say(f"taken down: {records}, {lines} of the crawl log")
    if takedown.left_bereft:
        what = words.plural(takedown.left_bereft, "capture")
        say(f"with them went the bodies of {what} of other URLs, which had the same (--dry-run lists them)")
    if not takedown.lines and not takedown.away:
        say("nothing of what was named is stored here, or it was taken down before")
    for name, away in takedown.away.items():
        what = words.plural(away, "record")
        say(f"NOT taken down: {what} in {name}, which is away; put it back and run the command again")
    return not takedown.away
