"""Writing segments: rows buffered into blocks, grouped by label, under a temporary name until they are durable."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from typing import Any

from drum.codec import (
    BLOCK,
    BLOCK_BYTES,
    BLOCK_ROWS,
    CHUNK,
    HEADER,
    KEPT_SHIFT,
    MAGIC_END,
    TRAILER,
    VERSION,
    ChunkRecord,
    directory_checksum,
    encode,
    encode_sorted,
    raw_bytes,
)
from drum.files import Data, Files, OpenFile, Path
from drum.kernels import sort_keys
from drum.labels import LabelCounts
from drum.names import TEMPORARY
from drum.ragged import BYTES, Array, Batch, Column, Ragged, Schema
from drum.segment import Section

import numpy as np
import xxhash
import zstandard

_PARAMETERS = zstandard.ZstdCompressionParameters.from_level(1, min_match=6)
"""Of the fast strategy: matches of 6 bytes rather than 7 make URLs smaller, and take less time."""
GROUP_BYTES = 4 << 20  # labelled rows are buffered to this size before they are grouped


class Tail:
    """The end of a file that is being written, where all its sections write.

    Sections know it and not the writer, which knows them: a circle would keep the file open, and a megabyte of
    compressor, until garbage is collected.
    """

    __slots__ = ("bytes", "compressor", "file", "path", "state")

    def __init__(self, file: OpenFile, path: str) -> None:
        self.file, self.path = file, path
        self.bytes = 0
        self.compressor = zstandard.ZstdCompressor(compression_params=_PARAMETERS)
        self.state = "open"  # then "finished" or "aborted"

    def put(self, chunks: Sequence[Data]) -> int:
        """Append to the file; returns the offset."""
        if self.state != "open":
            raise ValueError(f"{self.path}: already {self.state}")
        offset = self.bytes
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        self.file.files.write(self.file.handle, data)
        self.bytes += len(data)
        return offset


def _in_the_way(path: str) -> IsADirectoryError:
    return IsADirectoryError(errno.EISDIR, "a directory is where a file is to be written: move it away", path)


class SegmentWriter:
    """Writes `path` + ".tmp"; `finish` makes it durable and gives it its name. Not for several threads at once.

    A section that was ended can be read back before the file is finished (`SegmentPool.adopt`).
    """

    def __init__(self, files: Files, path: Path) -> None:
        self.files = files
        self.path = os.fspath(path)
        self.name = os.path.basename(self.path)
        self.sections: dict[str, SectionWriter] = {}
        self.once = False  # nobody will read it again soon: see Files.forget
        try:
            handle = files.create(self.path + TEMPORARY)
        except FileExistsError:  # of a writer that was killed: names are given to one writer at a time
            try:
                files.unlink(self.path + TEMPORARY)
            except IsADirectoryError:
                raise _in_the_way(self.path + TEMPORARY) from None
            handle = files.create(self.path + TEMPORARY)
        self.tail = Tail(OpenFile(files, handle), self.path)
        try:
            self.tail.put([HEADER])
        except OSError:
            self.abort()
            raise

    def section(
        self,
        name: str,
        schema: Schema,
        meta: dict[str, Any] | None = None,
        *,
        sorted_by: str | None = None,
        block_rows: int = BLOCK_ROWS,
        cluster: str | None = None,
        labels_max: int | None = None,
    ) -> SectionWriter:
        """A new section. With `sorted_by`, rows arrive ascending by that unsigned column over the whole section, and
        blocks record its first and last value as their label range. `block_rows`: smaller blocks, for a section that
        is read a few rows at a time. `cluster`: the rows of each block are sorted (stably) by that column, so that what
        they have in common compresses; readers sort them by label again. `labels_max`: the directory has at most so
        many entries of labels, each for a group of them where there are more (drum/labels.py)."""
        if name in self.sections:
            raise ValueError(f"{self.path}: section {name!r} twice")
        self.sections[name] = made = SectionWriter(
            self.tail, name, schema, meta, sorted_by, block_rows, cluster, labels_max
        )  # fmt: skip
        return made

    def copy(self, section: Section, name: str) -> SectionWriter:
        """Move a section's bytes into this file without decoding them (checksums are verified)."""
        made = self.section(name, section.schema, section.meta, sorted_by=section.sorted_by)
        made.copy(section)
        return made

    @property
    def bytes(self) -> int:
        """Of the file so far."""
        return self.tail.bytes

    @property
    def state(self) -> str:
        """ "open", then "finished" or "aborted"."""
        return self.tail.state

    def finish(self) -> int:
        """Write the directory, fsync, rename, fsync the directory of the file. Returns the file's bytes. After an
        OSError the file is gone."""
        try:
            entries = [section.end().encode() for section in self.sections.values()]
            directory = b"".join(entries)
            trailer = np.zeros(1, TRAILER)
            trailer["start"], trailer["length"] = self.bytes, len(directory)
            trailer["sections"], trailer["version"] = len(entries), VERSION
            trailer["checksum"] = directory_checksum(directory, trailer)
            self.tail.put([directory, trailer.tobytes(), MAGIC_END])
            self.files.fsync(self.tail.file.handle)
            if self.once:
                self.files.forget(self.tail.file.handle)
            self.files.rename(self.path + TEMPORARY, self.path)
            self.files.fsync_dir(os.path.dirname(self.path) or ".")
        except IsADirectoryError:
            self.abort()
            raise _in_the_way(self.path) from None
        except OSError:
            self.abort()
            self.files.unlink(self.path, missing_ok=True)
            raise
        self.tail.state = "finished"
        return self.bytes

    def abort(self) -> None:
        """Throw the file away. Nothing when it was finished."""
        if self.state == "open":
            self.tail.state = "aborted"
            self.files.unlink(self.path + TEMPORARY, missing_ok=True)

    def __enter__(self) -> SegmentWriter:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and self.state == "open":
            self.finish()
        else:
            self.abort()


class SectionWriter:
    """Rows for one section; buffered until a block is full, so that many small appends make few blocks."""

    def __init__(
        self,
        tail: Tail,
        name: str,
        schema: Schema,
        meta: dict[str, Any] | None,
        sorted_by: str | None,
        block_rows: int = BLOCK_ROWS,
        cluster: str | None = None,
        labels_max: int | None = None,
    ) -> None:
        self._tail = tail
        self.name = name
        self.schema = dict(schema)
        self.meta: dict[str, Any] = meta or {}
        self.sorted_by = sorted_by
        self.block_rows = block_rows
        self.cluster = cluster
        self.rows = 0
        self.ended: Section | None = None
        self._blocks: list[tuple[int, int, int]] = []
        self._chunks: list[ChunkRecord] = []
        self._counts = LabelCounts(labels_max)
        self._labelled = False
        self._pending: list[tuple[Batch, Array | None]] = []
        self._pending_bytes = 0
        self._pending_rows = 0
        self._row_bytes = sum(4 if kind == BYTES else np.dtype(kind).itemsize for kind in self.schema.values())

    def append(self, batch: Batch, labels: Array | None = None) -> None:
        """Add rows. With labels (u1, u4 or u8, one a row) rows are stably grouped by label, within at least
        GROUP_BYTES of rows or the batch if that is larger; without, they stay in order. The batch is kept for a while:
        do not change its arrays. All appends of a section have labels, or none has."""
        if self.ended is not None:
            raise ValueError(f"{self._tail.path}: section {self.name!r} has ended")
        if not batch.rows:
            return
        if self.rows and (labels is not None) != self._labelled:
            raise ValueError(f"{self._tail.path}: section {self.name!r} has rows with labels and rows without")
        self._labelled = labels is not None
        self.rows += batch.rows
        self._pending.append((self._checked(batch), labels))
        self._pending_bytes += batch.nbytes
        self._pending_rows += batch.rows
        if self._pending_bytes >= (GROUP_BYTES if self._labelled else BLOCK_BYTES) or (
            self._pending_rows >= BLOCK_ROWS and not self._labelled
        ):
            self._flush()

    def copy(self, section: Section) -> None:
        """Append all blocks of a section of the same schema as they are."""
        if section.schema != self.schema or section.sorted_by != self.sorted_by:
            raise ValueError(f"section {self.name!r} is {self.schema}, not {section.schema}")
        self._flush()
        self._labelled = bool(section.labelled)
        for number in range(len(section.blocks)):
            rows, lo, hi = section.blocks[number].tolist()
            data, chunks = section.raw(number)
            start = self._tail.put([data])
            first = chunks[0][0]
            self._blocks.append((rows, lo, hi))
            self._chunks += [(start + offset - first, *rest) for offset, *rest in chunks]  # type: ignore[misc]
        self._counts.add(*section.label_counts(), coarse=section.coarse)
        self.rows += section.rows

    def end(self) -> Section:
        """No more rows: write what is buffered. Returns the section, readable while the writer is open."""
        if self.ended is None:
            self._flush()
            columns = max(len(self.schema), 1)
            labels, counts = self._counts.entries()
            self.ended = Section(
                file=self._tail.file, path=self._tail.path, name=self.name, schema=self.schema, meta=self.meta,
                sorted_by=self.sorted_by, rows=self.rows, blocks=np.array(self._blocks, dtype=BLOCK),
                chunks=np.array(self._chunks, dtype=CHUNK).reshape(-1, columns),
                entries=(labels.astype("<u8"), counts.astype("<u8")), labelled=self._labelled,
                coarse=self._counts.coarse,
            )  # fmt: skip
        return self.ended

    def _checked(self, batch: Batch) -> Batch:
        """The batch with the schema's columns in the schema's order and dtypes."""
        columns: dict[str, Column] = {}
        for name, kind in self.schema.items():
            column = batch.columns.get(name)
            if column is None or isinstance(column, Ragged) != (kind == BYTES):
                raise ValueError(f"section {self.name!r} needs {name!r} as {kind}, the batch is {batch.schema}")
            columns[name] = column if isinstance(column, Ragged) else column.astype("<" + kind, copy=False)
        return Batch(columns)

    def _flush(self) -> None:
        if not self._pending:
            return
        batch = Batch.concat([part for part, _ in self._pending])
        labels = self._labels()
        self._pending, self._pending_bytes, self._pending_rows = [], 0, 0
        order = None
        if labels is not None and not self.sorted_by:
            if np.any(labels[1:] < labels[:-1]):
                labels, order = sort_keys(labels)
            edges = np.flatnonzero(np.concatenate(([True], labels[1:] != labels[:-1])))
            self._counts.add(labels[edges], np.diff(edges, append=len(labels)))
        for start, stop in self._cuts(batch, order):
            lo, hi = (0, 0) if labels is None else (int(labels[start]), int(labels[stop - 1]))
            self._block(self._of_block(batch, order, start, stop), lo, hi)

    def _of_block(self, batch: Batch, order: Array | None, start: int, stop: int) -> Batch:
        """Rows start to stop of the batch in that order, put together by `cluster`: copied once."""
        if order is None and self.cluster is None:
            return batch.slice(start, stop)
        rows = np.arange(start, stop) if order is None else order[start:stop]
        if self.cluster is not None:
            rows = rows[sort_keys(batch[self.cluster][rows])[1]]
        return batch.pick(rows)

    def _labels(self) -> Array | None:
        if self.sorted_by:
            return np.concatenate([part[self.sorted_by] for part, _ in self._pending])
        if not self._labelled:
            return None
        labels = [labels for _, labels in self._pending if labels is not None]
        return labels[0] if len(labels) == 1 else np.concatenate(labels)

    def _cuts(self, batch: Batch, order: Array | None) -> Iterator[tuple[int, int]]:
        """Row ranges of blocks, of rows in that order."""
        if not any(isinstance(column, Ragged) for column in batch.columns.values()):
            step = max(1, min(self.block_rows, BLOCK_BYTES // max(self._row_bytes, 1)))
            for start in range(0, batch.rows, step):
                yield start, min(start + step, batch.rows)
            return
        ends = np.arange(1, batch.rows + 1, dtype=np.int64) * self._row_bytes
        for column in batch.columns.values():
            if isinstance(column, Ragged):
                ends += np.cumsum(column.lengths if order is None else column.lengths[order])
        start, before = 0, 0
        while start < batch.rows:  # once a block
            stop = int(np.searchsorted(ends, before + BLOCK_BYTES, side="right"))
            stop = max(start + 1, min(stop, start + self.block_rows))
            yield start, stop
            start, before = stop, int(ends[stop - 1])

    def _block(self, batch: Batch, lo: int, hi: int) -> None:
        pieces: list[Data] = []
        chunks: list[ChunkRecord] = []
        offset = self._tail.bytes
        for name, column in batch.columns.items():
            data: Data
            if name == self.sorted_by and self.schema[name] == "u8":
                assert not isinstance(column, Ragged)
                (data, encoding), length = encode_sorted(column), column.nbytes
            else:
                raw, kept = raw_bytes(column)
                probe = isinstance(column, Ragged) or (column.itemsize > 1 and not kept)  # short numbers are no hashes
                (data, encoding), length = encode(raw, self._tail.compressor, probe), len(raw)
                encoding |= kept << KEPT_SHIFT
            chunks.append((offset, len(data), length, xxhash.xxh3_64_intdigest(data), encoding))
            pieces.append(data)
            offset += len(data)
        self._tail.put(pieces)
        self._blocks.append((batch.rows, lo, hi))
        self._chunks += chunks
