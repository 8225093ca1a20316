"""The one immutable file format: named sections of rows, stored by column in checksummed blocks.

Harvests, pending rows, sorted slices, queues and ready URLs are all sections of segments, so there is one codec to
trust, one place where damage is found, and one garbage rule (drum/catalog.py). FORMAT.md gives the bytes.

A block holds at most 65,536 rows and about 1 MiB, and each of its columns is a chunk with its own checksum, so a merge
reads the keys of a section without its URLs. Rows may carry a label (a partition, a queue number, a due time): blocks
then know the range of their labels and readers skip the others. The label itself is not stored: it is a function of the
columns, by which readers filter the blocks they get.
"""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import xxhash
import zstandard
from numpy.typing import NDArray

from drum.files import Damaged, Files, OpenFile, Path
from drum.ragged import BYTES, Array, Batch, Column, Ragged, Schema

MAGIC = b"drumseg\n"
MAGIC_END = b"drumend\n"
VERSION = 1
HEADER = MAGIC + VERSION.to_bytes(4, "little") + bytes(4)
TRAILER = np.dtype([("start", "<u8"), ("length", "<u8"), ("sections", "<u4"), ("version", "<u4"), ("checksum", "<u8")])
TRAILER_BYTES = TRAILER.itemsize + len(MAGIC_END)

BLOCK = np.dtype([("rows", "<u4"), ("label_lo", "<u8"), ("label_hi", "<u8")])
CHUNK = np.dtype([("offset", "<u8"), ("stored", "<u4"), ("raw", "<u4"), ("checksum", "<u8"), ("encoding", "u1")])
RAW, ZSTD = 0, 1

BLOCK_ROWS = 65_536
BLOCK_BYTES = 1 << 20
GROUP_BYTES = 4 << 20  # labelled rows are buffered to this size before they are grouped
_TAIL_BYTES = 64 << 10  # read at once when a segment is opened: nearly always the whole directory
_ZSTD_LEAST = 64  # bytes below which compression is not tried
_PROBE = 4096  # bytes of a chunk compressed first: what does not shrink (hashes) is stored as it is

_local = threading.local()


def _decompressor() -> zstandard.ZstdDecompressor:
    found: zstandard.ZstdDecompressor | None = getattr(_local, "decompressor", None)
    if found is None:
        found = _local.decompressor = zstandard.ZstdDecompressor()
    return found


class SegmentWriter:
    """Writes `path` + ".tmp"; `finish` makes it durable and gives it its name. Not for several threads at once.

    A section that was ended can be read back before the file is finished (`SegmentPool.adopt`).
    """

    def __init__(self, files: Files, path: Path) -> None:
        self.files = files
        self.path = os.fspath(path)
        self.name = os.path.basename(self.path)
        self.bytes = len(HEADER)
        self.sections: dict[str, SectionWriter] = {}
        self.compressor = zstandard.ZstdCompressor(level=1)
        self.state = "open"  # then "finished" or "aborted"
        self.file = OpenFile(files, files.create(self.path + ".tmp"))
        try:
            files.write(self.file.handle, HEADER)
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
    ) -> SectionWriter:
        """A new section. With `sorted_by`, rows arrive ascending by that unsigned column over the whole section, and
        blocks record its first and last value as their label range. `block_rows`: smaller blocks, for a section that
        is read a few rows at a time."""
        if name in self.sections:
            raise ValueError(f"{self.path}: section {name!r} twice")
        self.sections[name] = made = SectionWriter(self, name, schema, meta, sorted_by, block_rows)
        return made

    def copy(self, section: Section, name: str) -> SectionWriter:
        """Move a section's bytes into this file without decoding them (checksums are verified)."""
        made = self.section(name, section.schema, section.meta, sorted_by=section.sorted_by)
        made.copy(section)
        return made

    def put(self, chunks: list[bytes]) -> int:
        """Append to the file; returns the offset. For SectionWriter."""
        if self.state != "open":
            raise ValueError(f"{self.path}: already {self.state}")
        offset = self.bytes
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        self.files.write(self.file.handle, data)
        self.bytes += len(data)
        return offset

    def finish(self) -> int:
        """Write the directory, fsync, rename, fsync the directory of the file. Returns the file's bytes. After an
        OSError the file is gone."""
        try:
            entries = [section.end().encode() for section in self.sections.values()]
            directory = b"".join(entries)
            trailer = np.zeros(1, TRAILER)
            trailer["start"], trailer["length"] = self.bytes, len(directory)
            trailer["sections"], trailer["version"] = len(entries), VERSION
            trailer["checksum"] = _checksum_of_directory(directory, trailer)
            self.put([directory, trailer.tobytes(), MAGIC_END])
            self.files.fsync(self.file.handle)
            self.files.rename(self.path + ".tmp", self.path)
            self.files.fsync_dir(os.path.dirname(self.path) or ".")
        except OSError:
            self.abort()
            raise
        self.state = "finished"
        return self.bytes

    def abort(self) -> None:
        """Throw the file away. Nothing when it was finished."""
        if self.state == "open":
            self.state = "aborted"
            self.files.unlink(self.path + ".tmp", missing_ok=True)

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
        writer: SegmentWriter,
        name: str,
        schema: Schema,
        meta: dict[str, Any] | None,
        sorted_by: str | None,
        block_rows: int = BLOCK_ROWS,
    ) -> None:
        self.writer = writer
        self.name = name
        self.schema = dict(schema)
        self.meta: dict[str, Any] = meta or {}
        self.sorted_by = sorted_by
        self.block_rows = block_rows
        self.rows = 0
        self.ended: Section | None = None
        self._blocks: list[tuple[int, int, int]] = []
        self._chunks: list[tuple[int, int, int, int, int]] = []
        self._counts: dict[int, int] = {}
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
            raise ValueError(f"{self.writer.path}: section {self.name!r} has ended")
        if not batch.rows:
            return
        if self.rows and (labels is not None) != self._labelled:
            raise ValueError(f"{self.writer.path}: section {self.name!r} has rows with labels and rows without")
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
            start = self.writer.put([data])
            first = chunks[0][0]
            self._blocks.append((rows, lo, hi))
            self._chunks += [(start + offset - first, *rest) for offset, *rest in chunks]  # type: ignore[misc]
        for label, rows in zip(*(part.tolist() for part in section.label_counts()), strict=True):
            self._counts[label] = self._counts.get(label, 0) + rows
        self.rows += section.rows

    def end(self) -> Section:
        """No more rows: write what is buffered. Returns the section, readable while the writer is open."""
        if self.ended is None:
            self._flush()
            columns = max(len(self.schema), 1)
            self.ended = Section(
                file=self.writer.file, path=self.writer.path, name=self.name, schema=self.schema, meta=self.meta,
                sorted_by=self.sorted_by, rows=self.rows, blocks=np.array(self._blocks, dtype=BLOCK),
                chunks=np.array(self._chunks, dtype=CHUNK).reshape(-1, columns),
                labels=np.array(sorted(self._counts), dtype="<u8"),
                counts=np.array([self._counts[label] for label in sorted(self._counts)], dtype="<u8"),
                labelled=self._labelled,
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
        if labels is not None and not self.sorted_by:
            if np.any(labels[1:] < labels[:-1]):
                order = np.argsort(labels, kind="stable")
                batch, labels = batch.take(order), labels[order]
            edges = np.flatnonzero(np.concatenate(([True], labels[1:] != labels[:-1])))
            sizes = np.diff(edges, append=len(labels))
            for label, rows in zip(labels[edges].tolist(), sizes.tolist(), strict=True):
                self._counts[label] = self._counts.get(label, 0) + rows
        for start, stop in self._cuts(batch):
            lo, hi = (0, 0) if labels is None else (int(labels[start]), int(labels[stop - 1]))
            self._block(batch.slice(start, stop), lo, hi)

    def _labels(self) -> Array | None:
        if self.sorted_by:
            return np.concatenate([part[self.sorted_by] for part, _ in self._pending])
        if not self._labelled:
            return None
        labels = [labels for _, labels in self._pending if labels is not None]
        return labels[0] if len(labels) == 1 else np.concatenate(labels)

    def _cuts(self, batch: Batch) -> Iterator[tuple[int, int]]:
        """Row ranges of blocks."""
        ends = np.arange(1, batch.rows + 1, dtype=np.int64) * self._row_bytes
        for column in batch.columns.values():
            if isinstance(column, Ragged):
                ends += column.offsets[1:]
        start, before = 0, 0
        while start < batch.rows:  # once a block
            stop = int(np.searchsorted(ends, before + BLOCK_BYTES, side="right"))
            stop = max(start + 1, min(stop, start + self.block_rows))
            yield start, stop
            start, before = stop, int(ends[stop - 1])

    def _block(self, batch: Batch, lo: int, hi: int) -> None:
        pieces, chunks = [], []
        offset = self.writer.bytes
        for column in batch.columns.values():
            raw = _raw_bytes(column)
            data, encoding = _encode(raw, self.writer.compressor)
            chunks.append((offset, len(data), len(raw), xxhash.xxh3_64_intdigest(data), encoding))
            pieces.append(data)
            offset += len(data)
        self.writer.put(pieces)
        self._blocks.append((batch.rows, lo, hi))
        self._chunks += chunks


class Section:
    """Rows of one section of a segment, read block by block.

    blocks: structured rows/label_lo/label_hi, one a block; the range is (0, 0) in a section without labels.
    Every read verifies the checksums of what it reads and raises Damaged(file, offset, what).
    """

    __slots__ = (
        "_chunk_rows", "blocks", "chunks", "counts", "file", "labelled", "labels", "meta", "name", "path", "rows",
        "schema", "sorted_by",
    )  # fmt: skip

    def __init__(
        self, *, file: OpenFile, path: str, name: str, schema: dict[str, str], meta: dict[str, Any],
        sorted_by: str | None, rows: int, blocks: Array, chunks: Array, labels: Array, counts: Array, labelled: bool,
    ) -> None:  # fmt: skip
        self.file, self.path = file, path
        self.name, self.schema, self.meta, self.sorted_by = name, schema, meta, sorted_by
        self.rows, self.blocks, self.chunks = rows, blocks, chunks
        self.labels, self.counts, self.labelled = labels, counts, labelled
        self._chunk_rows: list[list[tuple[int, int, int, int, int]]] | None = None

    @property
    def nbytes(self) -> int:
        """Stored bytes of all blocks."""
        return int(self.chunks["stored"].sum())

    def label_counts(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """(labels ascending, rows of each); empty for a section without labels."""
        return self.labels, self.counts

    def read(self, block: int, columns: Iterable[str] | None = None) -> Batch:
        """Some or all columns of a block."""
        names = list(self.schema) if columns is None else list(columns)
        wanted = self._wanted(names)
        rows = int(self.blocks["rows"][block])
        chunks = self._chunk_list()[block]
        out: dict[str, Column] = {}
        for first, last in _runs(wanted):
            start, stop = chunks[first][0], chunks[last][0] + chunks[last][1]
            data = self._pread(start, stop - start)
            for number in range(first, last + 1):
                name = list(self.schema)[number]
                out[name] = self._decode(name, rows, chunks[number], data, start)
        return Batch({name: out[name] for name in names})

    def scan(self, columns: Iterable[str] | None = None) -> Iterator[Batch]:
        """All blocks in order."""
        names = None if columns is None else list(columns)
        for block in range(len(self.blocks)):
            yield self.read(block, names)

    def between(self, lo: int, hi: int, columns: Iterable[str] | None = None) -> Iterator[Batch]:
        """The blocks whose label range meets [lo, hi], in order. The caller filters rows; a section without labels
        gives all its blocks."""
        names = None if columns is None else list(columns)
        for block in self.blocks_between(lo, hi).tolist():
            yield self.read(block, names)

    def blocks_between(self, lo: int, hi: int) -> NDArray[np.int64]:
        """The numbers of the blocks that `between` reads."""
        if not self.labelled and not self.sorted_by:
            return np.arange(len(self.blocks))
        return np.flatnonzero((self.blocks["label_hi"] >= np.uint64(lo)) & (self.blocks["label_lo"] <= np.uint64(hi)))

    def raw(self, block: int) -> tuple[bytes, list[tuple[int, int, int, int, int]]]:
        """A block's stored bytes, verified, and its chunk records (offset, stored, raw, checksum, encoding)."""
        chunks = self._chunk_list()[block]
        start, stop = chunks[0][0], chunks[-1][0] + chunks[-1][1]
        data = self._pread(start, stop - start)
        for name, chunk in zip(self.schema, chunks, strict=True):
            self._verify(name, chunk, data, start)
        return data, chunks

    def verify(self) -> None:
        """Read and check every byte."""
        for block in range(len(self.blocks)):
            self.read(block)

    def _wanted(self, names: list[str]) -> list[int]:
        places = {name: number for number, name in enumerate(self.schema)}
        for name in names:
            if name not in places:
                raise KeyError(f"{self.path}: section {self.name!r} has no column {name!r}, only {list(self.schema)}")
        return sorted({places[name] for name in names})

    def _chunk_list(self) -> list[list[tuple[int, int, int, int, int]]]:
        if self._chunk_rows is None:  # plain tuples: reading a numpy record field by field costs more than the block
            self._chunk_rows = [block.tolist() for block in self.chunks]
        return self._chunk_rows

    def _pread(self, start: int, length: int) -> bytes:
        data = self.file.pread(length, start)
        if len(data) != length:
            raise Damaged(self.path, start + len(data), f"section {self.name!r}: the file ends inside a block")
        return data

    def _verify(self, name: str, chunk: tuple[int, int, int, int, int], data: bytes, start: int) -> memoryview:
        offset, stored, _, checksum, _ = chunk
        view = memoryview(data)[offset - start : offset - start + stored]
        if xxhash.xxh3_64_intdigest(view) != checksum:
            raise Damaged(self.path, offset, f"section {self.name!r}, column {name!r}: wrong checksum")
        return view

    def _decode(self, name: str, rows: int, chunk: tuple[int, int, int, int, int], data: bytes, start: int) -> Column:
        view: bytes | memoryview = self._verify(name, chunk, data, start)
        offset, _, raw, _, encoding = chunk
        try:
            if encoding == ZSTD:
                view = _decompressor().decompress(view, max_output_size=raw)
            return _column(view, self.schema[name], rows)
        except (zstandard.ZstdError, ValueError) as error:
            raise Damaged(self.path, offset, f"section {self.name!r}, column {name!r}: {error}") from error

    def encode(self) -> bytes:
        """This section's entry of the directory."""
        head = {
            "name": self.name, "schema": list(self.schema.items()), "meta": self.meta, "rows": self.rows,
            "blocks": len(self.blocks), "labels": len(self.labels), "labelled": self.labelled,
            "sorted_by": self.sorted_by,
        }  # fmt: skip
        text = json.dumps(head, separators=(",", ":")).encode()
        parts = [part.tobytes() for part in (self.blocks, self.chunks, self.labels, self.counts)]
        return b"".join([len(text).to_bytes(4, "little"), text, *parts])

    def __repr__(self) -> str:
        return f"Section({self.path}#{self.name}, {self.rows} rows)"


class Segment:
    """An open segment file. Closed when the last reference to it or to one of its sections is gone."""

    def __init__(self, files: Files, path: Path) -> None:
        self.path = os.fspath(path)
        self.file = OpenFile(files, files.open(path))
        self.sections: dict[str, Section] = {}
        self.bytes = 0

    @classmethod
    def open(cls, files: Files, path: Path) -> Segment:
        """Read and check the directory. Damaged; OSError."""
        segment = cls(files, path)
        segment._read_directory()
        return segment

    def verify(self) -> None:
        """Read and check every byte of the file. The chunks of all sections cover it between header and directory."""
        for section in self.sections.values():
            section.verify()

    def _read_directory(self) -> None:
        size = self.bytes = self.file.size()
        if size < len(HEADER) + TRAILER_BYTES:
            raise Damaged(self.path, size, "too short for a segment")
        header = self.file.pread(len(HEADER), 0)
        if header != HEADER:
            wrong = next(i for i, (a, b) in enumerate(zip(header, HEADER, strict=True)) if a != b)
            what = "not a segment (magic)" if wrong < len(MAGIC) else f"segment version is not {VERSION}"
            raise Damaged(self.path, wrong, what)
        start = max(0, size - _TAIL_BYTES)
        tail = self.file.pread(size - start, start)
        if tail[-len(MAGIC_END) :] != MAGIC_END:
            raise Damaged(self.path, size - len(MAGIC_END), "the segment's end is missing (truncated?)")
        at = size - TRAILER_BYTES
        trailer = np.frombuffer(tail[at - start : size - len(MAGIC_END) - start], TRAILER)
        first, length, count, version, checksum = trailer[0].tolist()
        if version != VERSION or first + length != at or first < len(HEADER):
            raise Damaged(self.path, at, "impossible trailer")
        if first < start:
            tail, start = self.file.pread(at - first, first) + tail[at - start :], first
        directory = tail[first - start : at - start]
        if _checksum_of_directory(directory, trailer) != checksum:
            raise Damaged(self.path, first, "wrong checksum of the directory or trailer")
        position = 0
        for _ in range(count):
            position = self._read_entry(directory, position)

    def _read_entry(self, directory: bytes, position: int) -> int:
        length = int.from_bytes(directory[position : position + 4], "little")
        position += 4
        head = json.loads(directory[position : position + length])
        position += length
        parts = []
        columns = len(head["schema"])
        for dtype, count in (
            (BLOCK, head["blocks"]), (CHUNK, head["blocks"] * columns), (np.dtype("<u8"), head["labels"]),
            (np.dtype("<u8"), head["labels"]),
        ):  # fmt: skip
            parts.append(np.frombuffer(directory, dtype, count, position) if count else np.empty(0, dtype))
            position += dtype.itemsize * count
        self.sections[head["name"]] = Section(
            file=self.file, path=self.path, name=head["name"], schema=dict(head["schema"]), meta=head["meta"],
            sorted_by=head["sorted_by"], rows=head["rows"], blocks=parts[0],
            chunks=parts[1].reshape(-1, max(columns, 1)), labels=parts[2], counts=parts[3], labelled=head["labelled"],
        )  # fmt: skip
        return position


class SegmentPool:
    """Opens the segments of one directory as they are needed and keeps the `open_max` last used open. Any thread."""

    def __init__(self, files: Files, root: Path, open_max: int = 64) -> None:
        self.files, self.root, self.open_max = files, os.fspath(root), open_max
        self._open: OrderedDict[str, Segment] = OrderedDict()
        self._writers: dict[str, SegmentWriter] = {}
        self._lock = threading.Lock()

    def segment(self, file: str) -> Segment:
        with self._lock:
            segment = self._open.get(file)
            if segment is None:
                segment = self._open[file] = Segment.open(self.files, os.path.join(self.root, file))
            self._open.move_to_end(file)
            while len(self._open) > self.open_max:
                self._open.popitem(last=False)  # closed when whoever still reads it lets go
            return segment

    def section(self, file: str, section: str) -> Section:
        """A section by the names a catalogue entry gives. KeyError when the file has no such section."""
        with self._lock:
            writer = self._writers.get(file)
            if writer is not None and writer.state == "open":
                return writer.sections[section].end()
            self._writers.pop(file, None)
        sections = self.segment(file).sections
        if section not in sections:
            raise KeyError(f"{os.path.join(self.root, file)} has no section {section!r}, only {list(sections)}")
        return sections[section]

    def adopt(self, writer: SegmentWriter) -> None:
        """Let sections that `writer` has ended be read under the file's coming name before it is finished."""
        with self._lock:
            self._writers[writer.name] = writer

    def forget(self, files: Iterable[str]) -> None:
        """Let go of files that were deleted."""
        with self._lock:
            for file in files:
                self._open.pop(file, None)
                self._writers.pop(file, None)

    def close(self) -> None:
        with self._lock:
            self._open.clear()
            self._writers.clear()


def _checksum_of_directory(directory: bytes, trailer: Array) -> int:
    return xxhash.xxh3_64_intdigest(directory + trailer.tobytes()[: -TRAILER["checksum"].itemsize])


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    """Ascending numbers as (first, last) of each run of neighbours."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def _raw_bytes(column: Column) -> bytes:
    if isinstance(column, Ragged):
        return column.lengths.astype("<u4").tobytes() + column.blob.tobytes()
    return column.tobytes()


def _column(data: bytes | memoryview, kind: str, rows: int) -> Column:
    if kind != BYTES:
        column: Array = np.frombuffer(data, "<" + kind)
        if len(column) != rows:
            raise ValueError(f"{len(column)} values for {rows} rows")
        return column
    ragged = Ragged.from_lengths(np.frombuffer(data, np.uint8, offset=4 * rows), np.frombuffer(data, "<u4", rows))
    if int(ragged.offsets[-1]) != len(ragged.blob):
        raise ValueError("row lengths do not fill the column")
    return ragged


def _encode(raw: bytes, compressor: zstandard.ZstdCompressor) -> tuple[bytes, int]:
    """zstd where it saves at least an eighth, else as it is."""
    if len(raw) < _ZSTD_LEAST:
        return raw, RAW
    if len(raw) > 4 * _PROBE:
        start = (len(raw) - _PROBE) // 2
        if len(compressor.compress(raw[start : start + _PROBE])) > _PROBE * 7 // 8:
            return raw, RAW
    data = compressor.compress(raw)
    return (data, ZSTD) if len(data) < len(raw) * 7 // 8 else (raw, RAW)
