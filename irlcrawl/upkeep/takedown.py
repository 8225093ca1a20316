"""`irlcrawl takedown JOB`: what was stored of some URLs is taken out of the archives of a crawl and of its snapshots.

Each response becomes a record that says so, of the same length (worker/archive/taken_down.py). First it is looked what
that cannot reach (takedown_search.py). An archive is written anew beside the old one, and takes its name when it is
whole and on the disk. Then the lines of the crawl log say it, too (takedown_log.py), those of the snapshots first. A
kill leaves each file as it was or as it will be, and every place that something names is right in both; running it
again finishes it, and says all of it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field

from drum import Damaged, Files
from drum.files import Handle

from irlcrawl.base.job import JobDir, JobError, command
from irlcrawl.base.job_files import CDXJ, SEEDS_STREAM, WARCS, temporary, warc_stem
from irlcrawl.config.lists import OptOut
from irlcrawl.frontier.state import formats
from irlcrawl.terminal import words
from irlcrawl.terminal.progress import Bar
from irlcrawl.upkeep import snapshot
from irlcrawl.upkeep.takedown_log import Mending, stored
from irlcrawl.upkeep.takedown_search import Beyond, Search, keep, kept
from irlcrawl.web.opt_out import OptOuts
from irlcrawl.worker.archive import taken_down
from irlcrawl.worker.archive.reader import Record, record_at

COPY_BYTES = 1 << 20


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
    beyond: list[Beyond] = field(default_factory=list)
    """What it could not reach; then what others could not that were killed, and were not run again."""
    away: Counter[str] = field(default_factory=Counter)
    """Archive -> records to be taken down in it, of archives that are not here."""

    def search(self) -> Search:
        """Damaged, OSError."""
        return Search(self.job, self.opt_outs, self.files)

    def left(self, search: Search) -> list[Beyond]:
        """As `beyond`, as long as nothing has changed; with what the same takedown found that was killed. Damaged,
        OSError."""
        own, others = search.beyond(), list[Beyond]()
        for one in kept(self.job, self.files):
            if one.is_of(self.opt_outs):
                own |= one
            else:
                others.append(one)
        return [own, *others]

    def run(self) -> None:
        """Do it all, but for the `end`. JobError where the crawl did not end cleanly; Damaged, OSError."""
        check_ended(self.job, self.files)
        search = self.search()
        places = search.places
        with snapshot.alone(self.job) if places else nullcontext():
            self.beyond = own, *others = self.left(search)
            keep(self.job, self.files, [own, *others] if own else others)
            for name in sorted(places):
                self._archive(name, sorted(set(places[name])))
            if changed := places.keys() - self.away.keys():
                self._drop_indexes({warc_stem(name) for name in changed})
                for shot in map(JobDir, snapshot.paths(self.job)):
                    if next(stored(shot, self.opt_outs, self.files), None) is not None:
                        self._lines_of(shot)
                self.lines = self._lines_of(self.job)  # the last: by these one knows that there is nothing left to do

    def end(self) -> None:
        """It was told what it could not reach."""
        keep(self.job, self.files, self.beyond[1:])

    def _lines_of(self, job: JobDir) -> int:
        return Mending(job, self.opt_outs, self.reason, self.at, self.away, self.files).run()

    def _drop_indexes(self, stems: set[str]) -> None:
        """Indexes tell the digests of what lay in an archive, until another export or start makes them anew. Snapshots
        keep none."""
        if not self.job.indexes.is_dir():
            return
        for name in self.files.listdir(self.job.indexes):
            stem, found, _ = name.partition(CDXJ)  # behind it may stand that somebody was making it
            if (found and stem in stems) or name == self.job.payloads.name:
                self.files.unlink(self.job.indexes / name, missing_ok=True)
        self.files.fsync_dir(self.job.indexes)

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
    for beyond in takedown.beyond:
        if beyond.bereft:
            what = words.plural(beyond.bereft, "capture")
            say(f"with them went the bodies of {what} of other URLs, which had the same (--dry-run lists them)")
        for line in beyond.told("NOT cleaned"):
            say(line)
    if not takedown.lines and not takedown.away:
        say("nothing of what was named is stored here, or it was taken down before")
    for name, away in takedown.away.items():
        what = words.plural(away, "record")
        say(f"NOT taken down: {what} in {name}, which is away; put it back and run the command again")
    return not takedown.away
