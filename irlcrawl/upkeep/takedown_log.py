"""The lines of a crawl log say what was taken down (takedown.py): those of a crawl, and those of its snapshots.

Its newest part is put aside first: a catalogue knows the checksum of what is still written to, but not of parts that
are compressed. Each part is written anew beside the old one. When it is whole and on the disk, a commit counts what is
other in it, and names it (`mended`); then it takes the old one's name. What a kill leaves between these, the next
takedown finishes.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass

from drum import Catalog, Edits, Files
from drum.files import Handle

from isal import isal_zlib

from irlcrawl.base.job import JobDir, JobError
from irlcrawl.base.job_files import LOCK, parse_log_index, temporary
from irlcrawl.base.reasons import Reason
from irlcrawl.config.lists import OptOut
from irlcrawl.frontier.state import formats
from irlcrawl.frontier.state.sections import CrawlLog
from irlcrawl.web.opt_out import OptOuts
from irlcrawl.worker.archive import log_parts, record
from irlcrawl.worker.archive.crawl_log import LogEntry, format_entry, parse, url_of
from irlcrawl.worker.archive.last_words import Returned, returned_in

NOTE = Reason.TAKEN_DOWN.name.lower()
"""The annotation with the date, and the reason in the line of a URL that had been fetched."""
MENDED = "mended"
"""An entry of the catalogue: the part of the log whose lines are counted as mended, until they are."""
_OF_CONTENT = ("canonical", "redirect")
"""Annotations that tell what a server sent; those of plug-ins, too, which have a dot in their names."""


@dataclass
class Mending:
    """Of the log of one crawl, which does not run, or of a snapshot."""

    job: JobDir
    opt_outs: OptOuts
    reason: str  # empty: that of the line that names a URL
    at: float  # unix seconds
    away: Container[str]  # archives that are not here: nothing in them was taken down
    files: Files
    lines: int = 0
    """Lines that were mended."""

    def run(self) -> int:
        """Do it; returns how many lines were mended. The log's indexes have the lines as they were: they go first, and
        none is made meanwhile. JobError, Damaged, OSError."""
        self.files.mkdir(self.job.indexes)
        try:
            lock = self.files.lock(self.job.indexes / LOCK)
        except OSError as error:
            raise JobError(f"{self.job.indexes}: a question is making the log's index; try again") from error
        try:
            for name in self.files.listdir(self.job.indexes):
                if parse_log_index(name) is not None:
                    self.files.unlink(self.job.indexes / name, missing_ok=True)
            self.files.fsync_dir(self.job.indexes)
            self._mend_lines()
        finally:
            self.files.close(lock)
        return self.lines

    def _mend_lines(self) -> None:
        path = os.fspath(self.job.crawl_log)
        catalog = Catalog.open(self.job.state, self.files)
        try:
            self._finish(catalog)
            log = CrawlLog(self.files, path, catalog.get("log", {}), roll_bytes=1)
            try:
                log.put_aside(lambda: _commit(catalog, log=log.entry()))
            finally:
                log.close()
            pieces = log_parts.pieces(self.files, path)
            returned = Returned(returned_in(pieces))
            for number, part in log_parts.rolled_parts(self.files, path).items():
                self._mend_part(part, number, returned, catalog)
        finally:
            catalog.close()

    def _finish(self, catalog: Catalog) -> None:
        """A part that a commit counted takes its name, if it has not."""
        if (name := catalog.get(MENDED)) is None:
            return
        path = os.fspath(self.job.logs / name)
        if self.files.exists(temporary(path)):
            self.files.rename(temporary(path), path)
        self.files.fsync_dir(self.job.logs)
        _commit(catalog, **{MENDED: None})

    def _mend_part(self, path: str, number: int, returned: Returned, catalog: Catalog) -> None:
        before, new = self.lines, temporary(path)
        self.files.unlink(new, missing_ok=True)  # of one that was interrupted
        handle = self.files.create(new)
        try:
            moved = self._write_mended(handle, path, number, returned)
            if self.lines > before:
                self.files.fsync(handle)
        except BaseException:
            self.files.unlink(new, missing_ok=True)
            raise
        finally:
            self.files.close(handle)
        if self.lines == before:
            self.files.unlink(new)
            return
        self.files.fsync_dir(self.job.logs)
        counters = dict(catalog.get("counters", {}))
        counters["fetched_by_reason"] = _moved(counters.get("fetched_by_reason", {}), moved)
        _commit(catalog, counters=counters, **{MENDED: os.path.basename(path)})
        self._finish(catalog)

    def _write_mended(self, handle: Handle, path: str, number: int, returned: Returned) -> Counter[str]:
        """A compressed part of the log. Returns which reasons became `taken_down`, and how often: those of last
        words."""
        moved: Counter[str] = Counter()
        packer = isal_zlib.compressobj(1, wbits=31)
        for piece in log_parts.pieces_of(log_parts.open_part(self.files, path), number):
            self.files.write(handle, packer.compress(b"".join(self._mended(piece, returned, moved))))
        self.files.write(handle, packer.flush())
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
                    text = format_entry(self.said(entry, self.reason or named.reason))
                    self.lines += 1
            yield text + b"\n"

    def said(self, entry: LogEntry, reason: str) -> LogEntry:
        """An entry that says it, without what an answer said. Without a digest no verb takes its record for a
        response."""
        entry.digest = ""
        for name in [name for name in entry.notes if name in _OF_CONTENT or "." in name]:
            del entry.notes[name]
        entry.notes |= {"detail": reason, NOTE: record.date(self.at)}
        return entry


def stored(job: JobDir, opt_outs: OptOuts, files: Files) -> Iterator[tuple[LogEntry, OptOut]]:
    """What the crawl log says is stored of the URLs that are named, with the line that names each. Damaged, OSError."""
    if not job.has_catalogue() or not job.logs.is_dir():
        return
    committed = formats.look(job.state, files).get("log", {})
    for piece in log_parts.pieces(files, os.fspath(job.crawl_log), committed):
        for text in log_parts.lines_of(piece.text):  # a Python loop per line: its URL decides
            named = opt_outs.of(piece.understood(url_of, text))
            if named is not None and has_content(entry := piece.understood(parse, text)):
                yield entry, named


def has_content(entry: LogEntry) -> bool:
    """Whether the archive holds what a server sent, as far as the line knows."""
    return entry.warc is not None and bool(entry.digest)


def borrows(entry: LogEntry) -> bool:
    """Whether another record has the body."""
    return any(name.startswith("warcRevisit:") for name in entry.notes)


def _commit(catalog: Catalog, **entries: object) -> None:
    """None: the entry is removed."""
    edits = Edits()
    for key, value in entries.items():
        if value is None:
            edits.remove(key)
        elif catalog.get(key) != value:
            edits.set(key, value)
    if edits:
        catalog.commit(edits)


def _moved(known: dict[str, int], moved: Counter[str]) -> dict[str, int]:
    """Numbers by reason, after some of them became `taken_down`."""
    numbers = {reason: number - moved[reason] for reason, number in known.items()}
    numbers[NOTE] = numbers.get(NOTE, 0) + sum(moved.values())
    return {reason: number for reason, number in numbers.items() if number}
