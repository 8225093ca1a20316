"""How far harvests that no commit names yet cover the archives, and whether what they cover is still there.

The first turn takes such a harvest without another look at the archive: URLs would count as fetched of which nothing is
left. So a start checks the archives between the last commit and the last harvest before it cuts or deletes anything,
and `fsck` asks the same questions.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from drum import Catalog, Damaged, Files
from drum.errors import UnknownVersion
from drum.segment import Segment

from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import harvests_from
from irlcrawl.worker.archive.reader import records
from irlcrawl.worker.archive.warc import WarcName, warc_files

Position = tuple[int, int]
"""(serial of an archive, offset in it), as a harvest covers a stream."""


WRITTEN = "archives/"
"""In the catalogue: a stream that no worker writes any more -> how many archives it has."""


class Reach(NamedTuple):
    """Of one stream: up to where a commit covers its archives, and up to where the harvests after it do."""

    committed: Position
    harvested: Position

    def needed(self, serial: int) -> int:
        """The least bytes that an archive of the stream must have; 0: it need not be there."""
        (first, begin), (last, end) = self
        if serial == last:
            return end
        if serial == first:
            return max(begin, 1)
        return 1 if first < serial < last else 0

    def known(self, serial: int, size: int) -> int:
        """Up to which byte an archive of that size was harvested: all of those before the last one."""
        return self.harvested[1] if serial == self.harvested[0] else size if serial < self.harvested[0] else 0


def reach_of(files: Files, state: str, catalog: Catalog) -> dict[int, Reach]:
    """By stream that writes archives here, and not on another machine. Damaged when a harvest cannot be read."""
    found, there = {}, set(files.listdir(state))
    for key, value in catalog.items("streams/"):
        if value.get("node"):
            continue
        stream, position = int(key.split("/")[1]), (value["warc"][0], value["warc"][1])
        committed = position
        for name in harvests_from(there, stream, value["next"]):
            serial, offset = Segment.open(files, os.path.join(state, name)).sections["outcomes"].meta["warc"]
            position = (serial, offset)
        found[stream] = Reach(committed, position)
    return found


def missing(job: JobDir, files: Files, reach: dict[int, Reach]) -> Iterator[tuple[int, int]]:
    """(stream, serial) of archives that are not here though a worker had not closed them, or no commit covers all of
    them: they are nobody's to move."""
    there = {(file.stream, file.serial) for file in _archives(job, files)}
    for stream, (committed, harvested) in reach.items():
        for serial in range(committed[0], harvested[0] + 1):
            if reach[stream].needed(serial) and (stream, serial) not in there:
                yield stream, serial


def away(job: JobDir, files: Files, known: Collection[str] = ()) -> int:
    """How many archives a commit covers that are neither here nor named in `known`: they were moved away, or are on
    another machine of the crawl. 0 where no catalogue can be read."""
    try:
        catalog = Catalog.open(job.state, files, readonly=True)
    except (Damaged, UnknownVersion, OSError):
        return 0
    there = {(file.stream, file.serial) for file in _archives(job, files)}
    there |= {(one.stream, one.serial) for name in known if (one := WarcName.parse(name)) is not None}
    written = {key.removeprefix(WRITTEN): count for key, count in catalog.items(WRITTEN)}
    written |= {key.removeprefix("streams/"): archives_of(value["warc"]) for key, value in catalog.items("streams/")}
    return sum((int(stream), serial) not in there for stream, count in written.items() for serial in range(count))


def archives_of(position: Sequence[int]) -> int:
    """How many files a stream has written that is at this position."""
    serial, offset = position
    return serial + bool(offset)


def shortened(job: JobDir, files: Files, reach: dict[int, Reach]) -> Iterator[Damaged]:
    """Archives that end before what was harvested of them."""
    for file in _archives(job, files):
        path = os.path.join(job.warcs, file.on_disk)
        needed = reach[file.stream].needed(file.serial) if file.stream in reach else 0
        if (size := files.size(path)) < needed:
            yield Damaged(path, size, f"the archive ends before {needed}, up to where it was harvested")


def check_archives(job: JobDir, files: Files, catalog: Catalog) -> None:
    """`check_reached` of all streams that write here, as a start does it."""
    check_reached(job, files, reach_of(files, str(job.state), catalog))


def check_reached(job: JobDir, files: Files, reach: dict[int, Reach]) -> None:
    """Damaged when an archive from which a stream goes on is missing (say because its disk is not mounted), or what no
    commit names of it is not as it was harvested."""
    for stream, serial in missing(job, files, reach):
        raise Damaged(str(job.warcs), 0, not_closed(serial, stream))
    for error in shortened(job, files, reach):
        raise error
    for file in _archives(job, files):
        if file.stream in reach:
            _check_harvested(files, os.path.join(job.warcs, file.on_disk), file, reach[file.stream])


def _archives(job: JobDir, files: Files) -> list[WarcName]:
    return warc_files(files, str(job.warcs)) if files.exists(job.warcs) else []


def not_closed(serial: int, stream: int) -> str:
    return f"archive {serial} of stream {stream} is missing, and it was not closed yet (is its disk mounted?)"


def _check_harvested(files: Files, path: str, file: WarcName, reach: Reach) -> None:
    """Read what lies between the last commit and the last harvest; each gzip member has a checksum."""
    if file.serial < reach.committed[0]:
        return
    start = reach.committed[1] if file.serial == reach.committed[0] else 0
    until = reach.known(file.serial, files.size(path))
    if start >= until:
        return
    for record in records(files, path, start, keep=False):
        if record.end >= until:
            break
    if record.end != until:
        raise Damaged(path, record.offset, f"no unit ends at {until}, up to where it was harvested")
