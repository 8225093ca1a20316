"""Harvests that a dead worker owes: units of its archive that no harvest covers are read again, where the archive lies.

The frontier does it for workers of its own machine, a node (irlcrawl/cluster) for those of another one. The worker must
be gone. Doing it again gives the same files.
"""

from __future__ import annotations

from drum import Files
from drum.segment import Segment

from irlcrawl.base.clock import Clock
from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import harvests_from
from irlcrawl.worker.harvest.builder import HarvestBuilder
from irlcrawl.worker.harvest.context import Context

Position = tuple[int, int]
"""(serial, offset) of an archive up to which harvests cover a stream."""


def complete(files: Files, job: JobDir, stream: int, number: int, position: Position) -> tuple[list[str], Position]:
    """The harvests of a stream from `number` on that are whole, and the position up to which they cover its archives,
    `position` if there are none. OSError, Damaged."""
    names = list(harvests_from(set(files.listdir(job.state)), stream, number))
    return names, covered(files, job, names[-1]) if names else position


def covered(files: Files, job: JobDir, harvest: str) -> Position:
    """Up to where a harvest and those before it cover their stream's archives. OSError, Damaged."""
    serial, offset = Segment.open(files, job.state / harvest).sections["outcomes"].meta["warc"]
    return serial, offset


def redone(
    files: Files, job: JobDir, stream: int, number: int, position: Position, context: Context, clock: Clock
) -> tuple[list[str], int, int]:
    """(harvests written, from `number` on; units read again; bytes cut from torn archives) of what lies behind
    `position`. OSError, Damaged."""
    # A crawl that begins reads no archive, and no page: loading both takes its time.
    from irlcrawl.worker.archive import redo
    from irlcrawl.worker.harvest.process import process

    config, warcs = context.config, str(job.warcs)
    cut = redo.recover(files, warcs, stream, position)
    builder = HarvestBuilder(
        files, str(job.state), stream, clock, first_number=number, duplicates_last=config.budgets.duplicates_last,
        near_duplicates_max=config.page.near_duplicates_max,
    )  # fmt: skip
    builder.rules_log.recover()
    names, units = list[str | None](), 0
    for unit, exchange, location in redo.units(files, warcs, stream, position):
        builder.add(process(unit, exchange, location, context))
        position = location.position
        units += 1
        if builder.nbytes >= config.frontier.harvest_bytes:
            names.append(builder.write(position))
    names.append(builder.write(position))
    builder.rules_log.close()
    return [name for name in names if name], units, cut
