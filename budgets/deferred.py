"""QF: the URLs beyond what their sites may queue now, on disk until their bucket's cycle ends.

QF is nothing but named sections, each with the cycle end of the buckets its rows belong to. At that queue number they
become pending rows of the sites drum again, as they are: nothing is copied to be read again. Buckets that split share
what was written before, for they end their cycle together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from drum import Batch, Catalog, Edits, Repository, SegmentPool, SegmentWriter
from drum.bucket import PART_SHIFT
from drum.store import TIER, to_rewrite

import numpy as np
import numpy.typing as npt

PREFIX = "budgets/deferred/"


@dataclass(frozen=True)
class _Part:
    file: str
    section: str
    rows: int
    cycle_end: int


class Deferred:
    """Reopening is constructing it again on the reopened catalogue. Rows have the columns of the sites drum's pending
    rows: `key` is the site. Within a site they come back in the order in which they were deferred."""

    def __init__(self, catalog: Catalog, pool: SegmentPool) -> None:
        self._pool = pool
        self._parts = {int(key.removeprefix(PREFIX)): _Part(**value) for key, value in catalog.items(PREFIX)}
        self._serial = max(self._parts, default=0)

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self._parts.values())

    @property
    def sections(self) -> int:
        return len(self._parts)

    @property
    def nbytes(self) -> int:
        """Stored bytes of them all."""
        return sum(self._pool.section(part.file, part.section).nbytes for part in self._parts.values())

    def next_end(self) -> int | None:
        """The queue number at which the next of them come back; None when QF is empty."""
        return min((part.cycle_end for part in self._parts.values()), default=None)

    def append(self, edits: Edits, writer: SegmentWriter, section: str, cycle_end: int) -> None:
        """Rows of a section of `writer`, to come back when queue `cycle_end` has been drained."""
        self._serial += 1
        self._put(edits, self._serial, writer, section, cycle_end)

    def give_back(self, edits: Edits, sites: Repository, cycle_end: int, op: int) -> None:
        """Make pending in `sites`, under `op`, what waits for the end of this cycle."""
        for serial, part in sorted(self._parts.items()):
            if part.cycle_end == cycle_end:
                sites.pend(edits, serial, part.file, part.section, op)
                del self._parts[serial]
                edits.remove(_key(serial))

    def give_back_newest(self, edits: Edits, sites: Repository, rows: int, op: int) -> int:
        """Make pending in `sites`, under `op`, the newest sections, until they have `rows` rows; returns how many they
        have."""
        newest: list[int] = []
        given = 0
        for serial in sorted(self._parts, reverse=True):
            if given >= rows:
                break
            newest.append(serial)
            given += self._parts[serial].rows
        for serial in reversed(newest):
            part = self._parts.pop(serial)
            sites.pend(edits, serial, part.file, part.section, op)
            edits.remove(_key(serial))
        return given

    def places(self) -> Iterator[tuple[str, str]]:
        """Every section it names (drum.vacuum.Holder)."""
        for part in self._parts.values():
            yield part.file, part.section

    def moved(self, edits: Edits, to: Mapping[tuple[str, str], tuple[str, str]]) -> None:
        """Sections are elsewhere now (drum.vacuum.Holder)."""
        for serial, part in list(self._parts.items()):
            place = to.get((part.file, part.section))
            if place is not None:
                self._parts[serial] = moved = _Part(*place, part.rows, part.cycle_end)
                edits.set(_key(serial), asdict(moved))

    def scan(self) -> Iterator[Batch]:
        """Every row, section by section (for listings)."""
        for _, part in sorted(self._parts.items()):
            yield from self._pool.section(part.file, part.section).scan()

    def tier(self, writer: SegmentWriter, edits: Edits) -> None:
        """Rewrite the newest sections of a cycle as one when eight of one size have gathered."""
        for cycle_end in {part.cycle_end for part in self._parts.values()}:
            parts = sorted((serial, part) for serial, part in self._parts.items() if part.cycle_end == cycle_end)
            count = to_rewrite([*(part.rows for _, part in parts), 1]) - 1  # as if a smallest one came
            if len(parts) >= TIER and count >= TIER:
                self._rewrite(parts[len(parts) - count :], cycle_end, writer, edits)

    def _rewrite(self, parts: list[tuple[int, _Part]], cycle_end: int, writer: SegmentWriter, edits: Edits) -> None:
        name = f"sites.deferred.{len(writer.sections)}"
        first = self._pool.section(parts[0][1].file, parts[0][1].section)
        out = writer.section(name, first.schema)
        for serial, part in parts:
            for batch in self._pool.section(part.file, part.section).scan():
                out.append(batch, partition(batch["key"]))
            del self._parts[serial]
            edits.remove(_key(serial))
        self._put(edits, parts[0][0], writer, name, cycle_end)

    def _put(self, edits: Edits, serial: int, writer: SegmentWriter, section: str, cycle_end: int) -> None:
        self._pool.adopt(writer)
        part = _Part(writer.name, section, self._pool.section(writer.name, section).rows, cycle_end)
        self._parts[serial] = part
        edits.set(_key(serial), asdict(part))


def partition(sites: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint8]:
    """The labels by which a drum finds the rows of a bucket."""
    return (sites >> np.uint64(PART_SHIFT)).astype(np.uint8)


def _key(serial: int) -> str:
    return f"{PREFIX}{serial:012d}"
