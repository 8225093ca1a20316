"""What the tests of drum share: keys, batches of any shape, a disk that fills up, a directory with its commits."""

from __future__ import annotations

import errno
import os
from typing import Any

from drum import BYTES, Batch, Catalog, Edits, Files, Ragged, SegmentPool, SegmentWriter
from drum.files import Data, Handle, Path

import numpy as np
from hypothesis import strategies as st

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
KINDS = ["u1", "u2", "u4", "u8", "i2", "i8", "f4", "f8", BYTES]


def spread(numbers: Any) -> Any:
    """Numbers as keys that lie far apart."""
    return np.asarray(numbers, np.uint64) * GOLDEN


def nothing(batch: Batch) -> None:
    """What is handed on goes nowhere."""


@st.composite
def batches(draw: st.DrawFn, schema: dict[str, str] | None = None, rows_max: int = 60) -> Batch:
    """A batch of random rows; of a random schema when none is given."""
    if schema is None:
        schema = {
            f"c{i}": kind for i, kind in enumerate(draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=5)))
        }
    rows = draw(st.integers(0, rows_max))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return random_batch(schema, rows, rng)


def random_batch(schema: dict[str, str], rows: int, rng: np.random.Generator) -> Batch:
    columns: dict[str, object] = {}
    for name, kind in schema.items():
        if kind == BYTES:
            columns[name] = Ragged.from_list([rng.bytes(int(rng.choice([0, 1, 7, 30]))) for _ in range(rows)])
        else:
            columns[name] = rng.integers(0, 100, rows).astype(kind)
    return Batch(columns)  # type: ignore[arg-type]


def rows_of(batch: Batch) -> list[tuple[object, ...]]:
    """A batch as tuples."""
    return list(zip(*(column.tolist() for column in batch.columns.values())))


class FullDisk(Files):
    """A file system with room for `room` more bytes; a write past that stores what fits and fails."""

    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, handle: Handle, data: Data) -> None:
        view = memoryview(data).cast("B")
        fits = view[: self.room]
        super().write(handle, fits)
        self.room -= len(fits)
        if len(fits) < len(view):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class CountingFiles(Files):
    """Bytes that went through."""

    def __init__(self) -> None:
        self.bytes_read = self.bytes_written = 0

    def write(self, handle: Handle, data: Data) -> None:
        super().write(handle, data)
        self.bytes_written += len(data)

    def pread(self, handle: Handle, length: int, offset: int) -> bytes:
        data = super().pread(handle, length, offset)
        self.bytes_read += len(data)
        return data


class Desk:
    """A directory with a catalogue and a pool, and turns that end in a commit."""

    def __init__(self, root: Path, files: Files | None = None) -> None:
        self.root, self.files = os.fspath(root), files or Files()
        self.open()

    def open(self) -> None:
        self.catalog = Catalog.open(self.root, self.files)
        self.catalog.sweep()
        self.pool = SegmentPool(self.files, self.root)

    def reopen(self) -> None:
        self.catalog.close()
        self.open()

    def turn(self, keep: bool = False) -> Turn:
        """keep: leave the segment there even if the commit names nothing in it."""
        return Turn(self, keep)


class Turn:
    """One segment and one commit: `with desk.turn() as turn: … turn.writer … turn.edits`."""

    def __init__(self, desk: Desk, keep: bool) -> None:
        self.desk, self.keep = desk, keep
        self.edits = Edits()
        self.writer = SegmentWriter(desk.files, os.path.join(desk.root, f"t{desk.catalog.number + 1:06d}.seg"))
        desk.pool.adopt(self.writer)

    def __enter__(self) -> Turn:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self.writer.abort()
            return
        self.writer.finish()
        self.desk.catalog.commit(self.edits)
        self.desk.pool.forget(self.desk.catalog.collect(written=[] if self.keep else [self.writer.name]))
