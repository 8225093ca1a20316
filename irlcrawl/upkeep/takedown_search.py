"""What a takedown is about to remove, by the crawl log, and what it cannot reach (takedown.py).

Where a body lies else is known before anything changes, and not afterwards: an archive that was written anew has no
other name, and a record that was replaced refers to no other. So the catalogue keeps it (`takedown`) until the same
takedown has ended: what is said at the end of one that was killed and run again is what one says that was not.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from drum import Catalog, Damaged, Edits, Files

from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import WARCS, temporary
from irlcrawl.config.lists import OptOut
from irlcrawl.frontier.state import formats
from irlcrawl.terminal import words
from irlcrawl.upkeep.takedown_log import borrows, stored
from irlcrawl.web.opt_out import OptOuts
from irlcrawl.worker.archive import log_parts, record, taken_down
from irlcrawl.worker.archive.crawl_log import LogEntry
from irlcrawl.worker.archive.reader import Record, fields_at, record_at
from irlcrawl.worker.archive.unit import Unit

KEPT = "takedown"
"""Its entry of the catalogue: the Beyond of each takedown that has not ended."""
Holder = tuple[str, int] | tuple[str, str]
"""A record that has a body: its archive and offset, or its URL and WARC-Date."""


@dataclass
class Beyond:
    """What a takedown cannot reach."""

    named: list[list[str]] = field(default_factory=list)
    """Lines of opt-outs that name something stored: a URL that they name, kind, what."""
    linked: list[str] = field(default_factory=list)
    """Archives that have another name outside of this crawl and its snapshots, where they stay as they are."""
    elsewhere: int = 0
    """Records of an earlier crawl that have the bodies of such as are taken down."""
    bereft: int = 0
    """Captures of other URLs that lose their body."""

    def __bool__(self) -> bool:
        return bool(self.linked or self.elsewhere or self.bereft)

    def __or__(self, other: Beyond) -> Beyond:
        """Of both together. Numbers are those of the one that found more: of the same takedown the second run finds a
        part of what the first one did."""
        return Beyond(
            [*self.named, *(line for line in other.named if line not in self.named)],
            sorted({*self.linked, *other.linked}),
            max(self.elsewhere, other.elsewhere),
            max(self.bereft, other.bereft),
        )

    def is_of(self, opt_outs: OptOuts) -> bool:
        """Whether it is of a takedown that named no more than these."""
        named = ((opt_outs.of(url.encode()), kind, what) for url, kind, what in self.named)
        return all(line is not None and line[:2] == (kind, what) for line, kind, what in named)

    def told(self, left: str) -> Iterator[str]:
        """In words. left: `NOT cleaned`, or that it would be so."""
        if self.elsewhere:
            what = words.plural(self.elsewhere, "record")
            yield f"{left}: {what} of an earlier crawl (archive.dedupe_from) with such a body: run it there, too"
        for name in self.linked:
            yield (
                f"{left}: {name} has another name outside of this crawl: where that is another crawl, or a snapshot of "
                "one, run it there, too; the directory of a round that `update` took in may be deleted"
            )


class Search:
    """What is stored of the URLs that are named: the log is read once, and again as far as the questions need it."""

    def __init__(self, job: JobDir, opt_outs: OptOuts, files: Files) -> None:
        """Damaged, OSError."""
        self._job, self._opt_outs, self._files = job, opt_outs, files
        self.places: dict[str, array[int]] = {}
        """Archive -> where its records to be taken down begin, in the order of the log."""
        self._named: dict[OptOut, str] = {}
        self._digests, self._gone = set[str](), set[Holder]()  # of bodies that records to be taken down have
        self._referred = set[Holder]()  # records of an earlier crawl, or run of this one, that have the body of one
        for entry, line in self.found():
            assert entry.warc is not None
            name, offset, _ = entry.warc
            self.places.setdefault(name, array("Q")).append(offset)
            self._named.setdefault(line, entry.url.decode())
            if not borrows(entry):
                self._digests.add(entry.digest)
                self._gone.add((name, offset))
            elif "warcRevisit:digest" in entry.notes:
                there = self._unit_at(name, offset)
                if there is not None and there[1].away:
                    self._referred.add(_refers_to(there[0]))

    def found(self) -> Iterator[tuple[LogEntry, OptOut]]:
        """What the crawl log says is stored of the URLs, with the line that names each. Damaged, OSError."""
        return stored(self._job, self._opt_outs, self._files)

    @cached_property
    def bereft(self) -> list[LogEntry]:
        """Captures that nobody named, of which the body stands in a record that is taken down: their own records say no
        more than that it was the same. With them are those that cannot be asked which record that is, if their digest
        is that of one. Damaged, OSError."""
        if not self._digests:
            return []
        borrowers = [
            (entry, self._holder(entry))
            for entry in self._entries()
            if entry.digest in self._digests and borrows(entry) and self._opt_outs.of(entry.url) is None
        ]
        gone = self._gone
        if visits := {holder for _, holder in borrowers if holder is not None and isinstance(holder[1], str)}:
            gone = gone | visits & set(map(_visit, (entry for entry, _ in self.found() if not borrows(entry))))
        return [entry for entry, holder in borrowers if holder is None or holder in gone]

    def beyond(self) -> Beyond:
        """Damaged, OSError."""
        own = set(map(_visit, (one for one in self._entries() if not borrows(one)))) if self._referred else set()
        return Beyond(
            [[url, line.kind, line.what] for line, url in self._named.items()],
            [name for name in sorted(self.places) if self._has_other_name(name)],
            len(self._referred - own),
            len(self.bereft),
        )

    def _entries(self) -> Iterator[LogEntry]:
        return log_parts.read(self._files, os.fspath(self._job.crawl_log))

    def _holder(self, entry: LogEntry) -> Holder | None:
        """The record that has the body of a capture; None where the record of the capture cannot be read."""
        assert entry.warc is not None
        name, offset, _ = entry.warc
        there = self._unit_at(name, offset)
        if there is None:
            return None
        one, unit = there
        if unit.original is not None:
            return name, unit.original
        return unit.holder or _refers_to(one)

    def _unit_at(self, name: str, offset: int) -> tuple[Record, Unit] | None:
        try:
            one = record_at(self._files, os.fspath(self._job.warcs / name), offset)
            return one, Unit.from_json(one.unit or "", b"")
        except (FileNotFoundError, Damaged, ValueError):
            return None

    def _has_other_name(self, name: str) -> bool:
        """Whether an archive that has something to be taken down is also called otherwise, outside of this crawl."""
        path = os.path.realpath(self._job.warcs / name)
        if not self._files.exists(path):
            return False
        there, inside = os.stat(path), {path}
        for shot in self._job.snapshots.iterdir() if self._job.snapshots.is_dir() else ():
            copy = os.path.realpath(shot / WARCS) + os.sep + name
            inside |= {copy, temporary(copy)}  # the latter by a takedown that was killed
        known = sum(os.path.lexists(one) and os.path.samestat(os.lstat(one), there) for one in inside)
        return there.st_nlink > known and any(self._has_content(path, offset) for offset in self.places[name])

    def _has_content(self, path: str, offset: int) -> bool:
        fields = fields_at(self._files, path, offset)
        return fields is None or taken_down.FIELD.lower() not in fields


def _refers_to(revisit: Record) -> Holder:
    return revisit.fields.get("warc-refers-to-target-uri", ""), revisit.fields.get("warc-refers-to-date", "")


def _visit(entry: LogEntry) -> Holder:
    """What a revisit record says of the record of an entry."""
    return record.uri(entry.url), record.date((entry.start_ms or 0) / 1000)


# -- takedowns that have not ended -------------------------------------------------------------------------------------


def kept(job: JobDir, files: Files) -> list[Beyond]:
    """What they cannot reach. Damaged, OSError."""
    if not job.has_catalogue():
        return []
    return [Beyond(**one) for one in formats.look(job.state, files).get(KEPT, [])]


def keep(job: JobDir, files: Files, left: list[Beyond]) -> None:
    """From now on these have not ended. Damaged, OSError."""
    if left == kept(job, files):
        return
    catalog, edits = Catalog.open(job.state, files), Edits()
    if left:
        edits.set(KEPT, [vars(one) for one in left])
    else:
        edits.remove(KEPT)
    try:
        catalog.commit(edits)
    finally:
        catalog.close()
