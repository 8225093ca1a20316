"""A durable queue of batches: sections named in the catalogue, taken by label.

Every row has a label, an unsigned integer column of its own: the number of the queue it stands in, the time at which it
is due. Taking through a label hands out every row up to it, of all queue numbers in one pass, however many there are;
what was taken is one integer a section. Sections wholly taken lose their name; many small ones are rewritten as one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from drum.catalog import Catalog, Edits
from drum.kernels import sort_keys
from drum.pool import SegmentPool
from drum.ragged import Batch
from drum.store import TIER, to_rewrite
from drum.vacuum import Place
from drum.writer import SectionWriter, SegmentWriter

import numpy as np
from numpy.typing import NDArray

_FIRST_LABELS = 16


@dataclass
class _Part:
    """A section of the queue. Rows with a label up to `taken` are gone (-1: none)."""

    serial: int
    file: str
    section: str
    labels: NDArray[np.uint64]  # of the rows left, ascending; of a coarse section the last of each group
    counts: NDArray[np.int64]
    low: int  # no row left has a lower label
    coarse: bool
    row_bytes: float  # stored bytes of a row, on average
    taken: int = -1

    @property
    def rows(self) -> int:
        return int(self.counts.sum())

    def to_json(self) -> dict[str, Any]:
        return {"file": self.file, "section": self.section, "taken": self.taken}


class Fifo:
    """Named `name` within a catalogue; reopening is constructing it again.

    label: the column (unsigned, any width) whose value is a row's label. Rows come out section by section in the order
    of their appending, within a section by label, then arrival. Appending a label that was already taken is fine: the
    row is there for the next take.

    cluster: a column by which the rows of a block are put together, so that they compress; the order of arrival is then
    kept only among rows with one value of it.

    labels_max: entries of labels a section may have, in memory and in its directory; where it has more labels it counts
    groups of them, and what is taken within a group is counted in its blocks. None: one entry a label.
    """

    def __init__(
        self, name: str, catalog: Catalog, pool: SegmentPool, label: str = "label", cluster: str | None = None,
        labels_max: int | None = None,
    ) -> None:  # fmt: skip
        self.name, self.pool, self.label, self.cluster, self.labels_max = name, pool, label, cluster, labels_max
        self.prefix = f"fifo/{name}/"
        self._lock = threading.Lock()
        self._parts = [
            self._load(int(key.removeprefix(self.prefix)), value["file"], value["section"], value["taken"])
            for key, value in catalog.items(self.prefix)
        ]
        self._serial = max((part.serial for part in self._parts), default=0)

    @property
    def rows(self) -> int:
        """Rows not taken, exact."""
        with self._lock:
            return sum(part.rows for part in self._parts)

    @property
    def nbytes(self) -> int:
        """Stored bytes of the rows not taken, as if all of a section were of one length."""
        with self._lock:
            return int(sum(part.rows * part.row_bytes for part in self._parts))

    @property
    def sections(self) -> int:
        return len(self._parts)

    @property
    def index_bytes(self) -> int:
        """Held in memory: 16 bytes for each entry of labels of each section."""
        with self._lock:
            return sum(part.labels.nbytes + part.counts.nbytes for part in self._parts)

    @property
    def first(self) -> int | None:
        """The smallest label of a row not taken; None when the queue is empty. Cheap."""
        with self._lock:
            return min((part.low for part in self._parts), default=None)

    @property
    def newest(self) -> int:
        """The number of the newest section, which is at least 1; 0 when the queue is empty. Those put later have higher
        ones; `tier` gives that of the oldest to sections that it joins."""
        with self._lock:
            return max((part.serial for part in self._parts), default=0)

    @property
    def oldest(self) -> int | None:
        """The number of the oldest section; None when the queue is empty."""
        with self._lock:
            return min((part.serial for part in self._parts), default=None)

    def counts(
        self, rows: int | None = None, until: int | None = None
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:  # fmt: skip
        """(labels ascending, rows not taken of each). With `labels_max`, rows of a group stand at its last label.

        rows: only of so many of the first labels that they have that many rows, if there are as many; it costs as much
        as these labels, however many others there are. until: the number of the last section that counts."""
        with self._lock:
            every = [(part.labels, part.counts) for part in self._parts if until is None or part.serial <= until]
        if not every:
            return np.empty(0, np.uint64), np.empty(0, np.int64)
        chosen = every if rows is None else first_entries(every, max(rows, 1))
        labels, inverse = np.unique(np.concatenate([labels for labels, _ in chosen]), return_inverse=True)
        sums = np.zeros(len(labels), np.int64)
        np.add.at(sums, inverse, np.concatenate([counts for _, counts in chosen]))
        return labels, sums

    def label_for(self, rows: int, until: int | None = None) -> int | None:
        """The smallest label of `counts` through which at least `rows` rows can be taken; the last label if all are
        fewer; None when the queue is empty."""
        labels, counts = self.counts(rows, until)
        if not len(labels):
            return None
        return int(labels[min(int(np.searchsorted(np.cumsum(counts), rows)), len(labels) - 1)])

    def put(self, writer: SegmentWriter, edits: Edits, batch: Batch) -> None:
        """Write a batch as a section of `writer` and append that."""
        if batch.rows:
            name = f"fifo.{self.name}.{len(writer.sections)}"
            self._section(writer, name, batch).append(batch, labels=batch[self.label])
            self.append(edits, writer, name)

    def append(self, edits: Edits, where: SegmentWriter | str, section: str) -> None:
        """Append a section, written with labels equal to the label column: of a writer still open (no more rows may be
        added to it), or of the file named `where`."""
        if isinstance(where, SegmentWriter):
            self.pool.adopt(where)
            where = where.name
        part = self._load(self._serial + 1, where, section, -1)
        if part.rows:
            with self._lock:
                self._serial += 1
                self._parts.append(part)
            self._name(edits, part)

    def take_through(self, edits: Edits, label: int, until: int | None = None) -> Iterator[Batch]:
        """Every row with a label up to `label`, taken when the edits are committed. In memory the rows count as taken
        at once, even if the iterator is not run to its end; run it before the files that lost their last row are
        deleted. until: the number of the last section that rows are taken of."""
        with self._lock:
            parts = [part for part in self._parts if until is None or part.serial <= until]
            before = [(part, part.taken) for part in parts if part.low <= label]
            for part, _ in before:
                self._take(part, label)
            self._parts = [part for part in self._parts if part.rows]
        for part, _ in before:
            if part.rows:
                self._name(edits, part)
            else:
                edits.remove(self._key(part))
        return self._read(before, label)

    def places(self) -> Iterator[Place]:
        """Every section it names (vacuum.Holder)."""
        with self._lock:
            parts = list(self._parts)
        for part in parts:
            yield part.file, part.section

    def moved(self, edits: Edits, to: Mapping[Place, Place]) -> None:
        """Sections are elsewhere now (vacuum.Holder)."""
        with self._lock:
            parts = list(self._parts)
        for part in parts:
            place = to.get((part.file, part.section))
            if place is not None:
                part.file, part.section = place
                self._name(edits, part)

    def scan(self) -> Iterator[Batch]:
        """Every row not taken, section by section; takes nothing."""
        with self._lock:
            parts = [(part, part.taken) for part in self._parts]
        return self._read(parts, None)

    def labelled(self, label: int) -> Iterator[Batch]:
        """The rows with this label that are not taken; takes nothing, and reads only the blocks that may have any."""
        with self._lock:
            parts = [(part, label - 1) for part in self._parts if part.taken < label]
        return self._read(parts, label)

    def tier(self, writer: SegmentWriter, edits: Edits) -> int:
        """Rewrite the newest sections as one when eight of one size have gathered. Returns the rows moved."""
        with self._lock:
            parts = list(self._parts)
        if len(parts) < TIER:
            return 0
        count = to_rewrite([*(part.rows for part in parts), 1]) - 1  # as if a smallest one came
        if count < 2:
            return 0
        self.pool.adopt(writer)
        old = parts[len(parts) - count :]
        name = f"fifo.{self.name}.{len(writer.sections)}"
        out = None
        for part in old:
            for batch in self._read([(part, part.taken)], None):
                out = out or self._section(writer, name, batch)
                out.append(batch, labels=batch[self.label])
        assert out is not None  # parts without rows are not kept
        made = self._load(old[0].serial, writer.name, name, -1)
        with self._lock:
            self._parts = [*parts[: len(parts) - count], made]
        for part in old[1:]:
            edits.remove(self._key(part))
        self._name(edits, made)
        return made.rows

    def drop_last(self, writer: SegmentWriter, edits: Edits, rows: int, drop: Callable[[Batch], None]) -> int:
        """Take the `rows` rows with the highest labels, whole entries of `counts`: drop(batch) gets them. Sections that
        had any are rewritten without them, so the disk has the room back. Returns how many it were."""
        labels, counts = self.counts()
        if rows <= 0 or not len(labels):
            return 0
        before = int(np.searchsorted(np.cumsum(counts[::-1]), rows))
        lowest = max(len(labels) - 1 - before, 0)
        first = int(labels[lowest - 1]) + 1 if lowest else 0
        dropped = 0
        with self._lock:
            parts = list(self._parts)
        left: list[_Part] = []
        for part in parts:
            if int(part.labels[-1]) < first:
                left.append(part)
                continue
            name = f"fifo.{self.name}.{len(writer.sections)}"
            out = None
            for batch in self._read([(part, part.taken)], None):
                late = batch[self.label] >= first
                if late.any():
                    drop(batch.filter(late))
                    dropped += int(late.sum())
                if not late.all():
                    out = out or self._section(writer, name, batch)
                    kept = batch.filter(~late)
                    out.append(kept, labels=kept[self.label])
            if out is None:
                edits.remove(self._key(part))
            else:
                self.pool.adopt(writer)
                left.append(self._load(part.serial, writer.name, name, -1))
                self._name(edits, left[-1])
        with self._lock:
            self._parts = left
        return dropped

    def _section(self, writer: SegmentWriter, name: str, batch: Batch) -> SectionWriter:
        return writer.section(name, batch.schema, cluster=self.cluster, labels_max=self.labels_max)

    def _load(self, serial: int, file: str, section: str, taken: int) -> _Part:
        found = self.pool.section(file, section)
        labels, counts = found.label_counts()
        low = int(found.blocks["label_lo"].min()) if found.rows else 0
        row_bytes = found.nbytes / max(found.rows, 1)
        part = _Part(serial, file, section, labels.copy(), counts.astype(np.int64), low, found.coarse, row_bytes)
        self._take(part, taken)
        return part

    def _take(self, part: _Part, label: int) -> None:
        """Rows up to `label` are gone, those of a group that it cuts in two among them."""
        if label < 0:
            return
        part.taken = max(part.taken, label)
        if label < part.low:
            return
        gone = int(np.searchsorted(part.labels, np.uint64(label), side="right"))
        whole = gone and part.labels[gone - 1] == label
        if gone:  # as copies: what is gone would stay in memory with what is left
            part.labels, part.counts = part.labels[gone:].copy(), part.counts[gone:].copy()
        part.low = int(part.labels[0]) if len(part.labels) and not part.coarse else label + 1
        if part.coarse and len(part.labels):
            if not whole:
                left = self._rows_between(part, label + 1, int(part.labels[0]))
                part.counts = np.concatenate(([left], part.counts[1:]))
            part.low = self._first_after(part, label)

    def _first_after(self, part: _Part, label: int) -> int:
        """The least label of a row after `label`, if there is one; a block that `label` cuts in two is read."""
        section = self.pool.section(part.file, part.section)
        low, high = section.blocks["label_lo"], section.blocks["label_hi"]
        whole = low[low > label]
        first = int(whole.min()) if len(whole) else 2**64 - 1
        if ((low <= label) & (high > label)).any():
            for batch in section.between(label + 1, first, [self.label]):
                labels = batch[self.label]
                if len(later := labels[labels > label]):
                    first = min(first, int(later.min()))
        return first

    def _rows_between(self, part: _Part, low: int, high: int) -> int:
        """Rows with a label of low to high, taken or not."""
        section = self.pool.section(part.file, part.section)
        labels = (batch[self.label] for batch in section.between(low, high, [self.label]))
        return sum(int(np.count_nonzero((some >= low) & (some <= high))) for some in labels)

    def _read(self, parts: list[tuple[_Part, int]], label: int | None) -> Iterator[Batch]:
        """Rows of sections with a label after what was taken of each and up to `label`."""
        for part, taken in parts:
            section = self.pool.section(part.file, part.section)
            high = 2**64 - 1 if label is None else label
            for batch in section.between(taken + 1, high):
                labels = batch[self.label]
                mask = labels >= taken + 1
                if label is not None:
                    mask &= labels <= label
                if not mask.any():
                    continue
                if not mask.all():
                    batch, labels = batch.filter(mask), labels[mask]
                if np.any(labels[1:] < labels[:-1]):  # put together by another column
                    batch = batch.take(sort_keys(labels)[1])
                yield batch

    def _key(self, part: _Part) -> str:
        return f"{self.prefix}{part.serial:012d}"

    def _name(self, edits: Edits, part: _Part) -> None:
        edits.set(self._key(part), part.to_json())


Entries: TypeAlias = tuple[NDArray[np.uint64], NDArray[np.int64]]
"""(labels ascending, rows of each)"""


def first_entries(parts: list[Entries], rows: int, most: int = _FIRST_LABELS) -> list[Entries]:
    """Of each part the entries up to one and the same label, which have `rows` rows in all; all of them when there are
    fewer. most: entries of a part that are tried first."""
    while longer := [labels[most] for labels, _ in parts if len(labels) > most]:
        end = min(longer)
        ends = [int(np.searchsorted(labels[:most], end)) for labels, _ in parts]
        chosen = [(labels[:stop], counts[:stop]) for (labels, counts), stop in zip(parts, ends, strict=True)]
        if sum(int(counts.sum()) for _, counts in chosen) >= rows:
            return chosen
        most *= 4
    return parts
