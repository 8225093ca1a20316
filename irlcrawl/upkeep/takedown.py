"""`irlcrawl takedown JOB`: what was stored of some URLs is taken out of the archives of a crawl and of its snapshots.

Each response becomes a record that says so, of the same length (worker/archive/taken_down.py). An archive is written
anew beside the old one, and takes its name when it is whole and on the disk. Then the lines of the crawl log say it,
too (takedown_log.py), those of the snapshots first. A kill leaves each file as it was or as it will be, and every place
that something names is right in both; running it again finishes it. What can be told only before archives are written
anew is written down first (JOB/logs/takedown.json), so that the run which finishes it says all.
"""

from __future__ import annotations

import json
import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field

from drum import Damaged, Files
from drum.files import Handle

from irlcrawl.base.job import JobDir, JobError, command
from irlcrawl.base.job_files import SEEDS_STREAM, TAKEDOWN, WARCS, cdxj_name, temporary
from irlcrawl.config.lists import OptOut
from irlcrawl.frontier.state import formats
from irlcrawl.terminal import words
from irlcrawl.terminal.progress import Bar
from irlcrawl.upkeep import snapshot
from irlcrawl.upkeep.takedown_log import Mending, borrows, stored
from irlcrawl.web.opt_out import OptOuts
from irlcrawl.worker.archive import log_parts, record, taken_down
from irlcrawl.worker.archive.crawl_log import LogEntry
from irlcrawl.worker.archive.reader import Record, record_at
from irlcrawl.worker.archive.unit import Unit

COPY_BYTES = 1 << 20
Holder = tuple[str, int] | tuple[str, str]
"""A record that has a body: its archive and offset, or its URL and WARC-Date."""


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
    elsewhere: int = 0
    """Records of an earlier crawl that have the bodies of replaced ones, and are as they were."""
    linked: list[str] = field(default_factory=list)
    """Archives that have another name outside of this crawl and its snapshots, where they are as they were."""
    away: Counter[str] = field(default_factory=Counter)
    """Archive -> records to be taken down in it, of archives that are not here."""
    _referred: set[tuple[str, str]] = field(default_factory=set)
    """Records of an earlier crawl, or of an earlier run of this one, that had the body of a replaced one."""

    def found(self) -> Iterator[tuple[LogEntry, OptOut]]:
        """What the crawl log says is stored of the URLs, with the line that names each. Damaged, OSError."""
        return stored(self.job, self.opt_outs, self.files)

    def bereft(self) -> list[LogEntry]:
        """Captures that nobody named, of which the body stands in a record that is taken down: their own records say no
        more than that it was the same. With them are those that cannot be asked which record that is, if their digest
        is that of one. Damaged, OSError."""
        digests, gone = set[str](), set[Holder]()
        for entry, _ in self.found():
            if entry.warc is not None and not borrows(entry):
                digests.add(entry.digest)
                gone.add(entry.warc[:2])
        if not digests:
            return []
        borrowers = [
            (entry, self._holder(entry))
            for entry in log_parts.read(self.files, os.fspath(self.job.crawl_log))
            if entry.digest in digests and borrows(entry) and self.opt_outs.of(entry.url) is None
        ]
        if visits := {holder for _, holder in borrowers if holder is not None and isinstance(holder[1], str)}:
            gone |= visits & set(map(_visit, (entry for entry, _ in self.found() if not borrows(entry))))
        return [entry for entry, holder in borrowers if holder is None or holder in gone]

    def _holder(self, entry: LogEntry) -> Holder | None:
        """The record that has the body of a capture; None where the record of the capture cannot be read."""
        assert entry.warc is not None
        name, offset, _ = entry.warc
        try:
            one = record_at(self.files, os.fspath(self.job.warcs / name), offset)
            unit = Unit.from_json(one.unit or "", entry.url)
        except (FileNotFoundError, Damaged, ValueError):
            return None
        if unit.original is not None:
            return name, unit.original
        return unit.holder or _refers_to(one)

    def run(self) -> None:
        """Do it all. JobError where the crawl did not end cleanly; Damaged, OSError."""
        check_ended(self.job, self.files)
        self.left_bereft = len(self.bereft())
        places: dict[str, array[int]] = {}
        for entry, _ in self.found():
            assert entry.warc is not None
            places.setdefault(entry.warc[0], array("Q")).append(entry.warc[1])
        with snapshot.alone(self.job) if places else nullcontext():
            self._look(places)
            for name in sorted(places):
                self._archive(name, sorted(places[name]))
            if places.keys() - self.away.keys():
                for shot in map(JobDir, snapshot.paths(self.job)):
                    if next(stored(shot, self.opt_outs, self.files), None) is not None:
                        self._lines_of(shot)
                if self._referred:
                    whole = (
                        one for one in log_parts.read(self.files, os.fspath(self.job.crawl_log)) if not borrows(one)
                    )
                    self.elsewhere = len(self._referred.difference(map(_visit, whole)))
                self.lines = self._lines_of(self.job)  # the last: by these one knows that there is nothing left to do
                self.files.unlink(self.job.logs / TAKEDOWN, missing_ok=True)

    def _look(self, places: dict[str, array[int]]) -> None:
        """Which archives have another name elsewhere, and which records elsewhere the bodies of those to be replaced: a
        run that was killed may have seen more."""
        files, path = self.files, os.fspath(self.job.logs / TAKEDOWN)
        known = json.loads(files.read(path)) if files.exists(path) else {"linked": [], "referred": []}
        linked, self._referred = set(known["linked"]), {(uri, date) for uri, date in known["referred"]}
        for name, offsets in places.items():
            archive = os.fspath(self.job.warcs / name)
            if not files.exists(archive):
                continue
            elsewhere = os.stat(archive).st_nlink > len(self._shared(name)) + 1
            for offset in offsets:
                one = record_at(files, archive, offset)
                if taken_down.since(one) is None:
                    if elsewhere:
                        linked.add(name)
                    if one.unit is not None and Unit.from_json(one.unit, b"").away:
                        self._referred.add(_refers_to(one))
        self.linked = sorted(linked)
        if linked or self._referred:
            self._note(path, json.dumps({"linked": self.linked, "referred": sorted(self._referred)}))

    def _note(self, path: str, text: str) -> None:
        files, new = self.files, temporary(path)
        files.unlink(new, missing_ok=True)
        handle = files.create(new)
        try:
            files.write(handle, text.encode())
            files.fsync(handle)
        finally:
            files.close(handle)
        files.rename(new, path)
        files.fsync_dir(os.path.dirname(path))

    def _copies(self, name: str) -> list[str]:
        """What snapshots have of an archive."""
        shots = [os.fspath(one / WARCS / name) for one in snapshot.paths(self.job)]
        return [copy for copy in shots if self.files.exists(copy)]

    def _shared(self, name: str) -> list[str]:
        """Those of them that are the same file by another name."""
        path = os.path.realpath(self.job.warcs / name)
        return [copy for copy in self._copies(name) if os.path.samefile(copy, path) and not os.path.islink(copy)]

    def _lines_of(self, job: JobDir) -> int:
        return Mending(job, self.opt_outs, self.reason, self.at, self.away, self.files).run()

    # -- archives ------------------------------------------------------------------------------------------------------

    def _archive(self, name: str, offsets: list[int]) -> None:
        """One archive, and what snapshots have of it."""
        path, copies = os.fspath(self.job.warcs / name), self._copies(name)
        self.files.unlink(self.job.indexes / cdxj_name(name), missing_ok=True)  # an export makes it again
        if not self.files.exists(path):
            self.away[name] = len(offsets)
            for copy in copies:
                self._rewrite(os.path.realpath(copy), offsets)
            return
        path = os.path.realpath(path)  # an archive may have been moved, and a link left in its place
        shared = self._shared(name)
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


def _refers_to(revisit: Record) -> tuple[str, str]:
    return revisit.fields.get("warc-refers-to-target-uri", ""), revisit.fields.get("warc-refers-to-date", "")


def _visit(entry: LogEntry) -> Holder:
    """What a revisit record says of the record of an entry."""
    return record.uri(entry.url), record.date((entry.start_ms or 0) / 1000)


def check_ended(job: JobDir, files: Files) -> None:
    """JobError where a crawl was killed, or its disk was full, and nobody went on with it: what its workers left is not
    in the log yet."""
    if not job.has_catalogue():
        return
    catalog = formats.look(job.state, files)
    if any(key != f"streams/{SEEDS_STREAM}" for key, _ in catalog.items("streams/")):
        go_on = command("resume", job.path)
        raise JobError(f"{job.path}: its run did not end cleanly; go on with it, stop it, run this again: {go_on}")


def told(takedown: Takedown, say: Callable[[str], None]) -> bool:
    """Say what was done; whether that is all there was to do."""
    records, lines = words.plural(takedown.records, "record"), words.plural(takedown.lines, "line")
    say(f"taken down: {records}, {lines} of the crawl log")
    if takedown.left_bereft:
        what = words.plural(takedown.left_bereft, "capture")
        say(f"with them went the bodies of {what} of other URLs, which had the same (--dry-run lists them)")
    if takedown.elsewhere:
        what = words.plural(takedown.elsewhere, "record")
        say(f"{what} of an earlier crawl (archive.dedupe_from) still has such a body: run it there, too")
    for name in takedown.linked:
        say(
            f"NOT cleaned: {name} has another name outside of this crawl: where that is another crawl, or a snapshot "
            "of one, run it there, too; the directory of a round that `update` took in may be deleted"
        )
    if not takedown.lines and not takedown.away:
        say("nothing of what was named is stored here, or it was taken down before")
    for name, away in takedown.away.items():
        what = words.plural(away, "record")
        say(f"NOT taken down: {what} in {name}, which is away; put it back and run the command again")
    return not takedown.away
