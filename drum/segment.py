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
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from drum.codec import (
    BLOCK,
    CHUNK,
    HEADER,
    KEPT_SHIFT,
    MAGIC,
    MAGIC_END,
    RAW,
    STEPS,
    TRAILER,
    TRAILER_BYTES,
    VERSION,
    ChunkRecord,
    Halves,
    decode,
    directory_checksum,
    halves_of,
)
from drum.errors import UnknownVersion
from drum.files import Damaged, Data, Files, OpenFile, Path
from drum.ragged import BYTES, Array, Batch, Column, Ragged

import numpy as np
import xxhash
from numpy.typing import NDArray

TOGETHER_BYTES = 1 << 20  # of neighbouring blocks read at once past the page cache: each such read costs 30 us
_KIND = re.compile("[iu][1248]|f[248]")
_ENTRY_BYTES = 2 * np.dtype("<u8").itemsize  # of a label and its rows
_TAIL_BYTES = 64 << 10  # read at once when a segment is opened: nearly always the whole directory


Entries: TypeAlias = tuple[NDArray[np.uint64], NDArray[np.uint64]]
"""(labels ascending, rows of each)"""


class LabelsAt(NamedTuple):
    """Where a file has a section's labels and, behind them, the rows of each. They stay there: of what an open file
    would keep in memory they are two thirds (measured), and who counts by labels asks for them once."""

    offset: int
    entries: int
    checksum: int


class Section:
    """Rows of one section of a segment, read block by block.

    blocks: structured rows/label_lo/label_hi, one a block; the range is (0, 0) in a section without labels.
    Every read verifies the checksums of what it reads and raises Damaged(file, offset, what).
    """

    __slots__ = (
        "blocks", "chunks", "coarse", "entries", "file", "labelled", "meta", "name", "path", "rows", "schema",
        "sorted_by",
    )  # fmt: skip

    def __init__(
        self, *, file: OpenFile, path: str, name: str, schema: dict[str, str], meta: dict[str, Any],
        sorted_by: str | None, rows: int, blocks: Array, chunks: Array, entries: Entries | LabelsAt, labelled: bool,
        coarse: bool = False,
    ) -> None:  # fmt: skip
        self.file, self.path = file, path
        self.name, self.schema, self.meta, self.sorted_by = name, schema, meta, sorted_by
        self.rows, self.blocks, self.chunks = rows, blocks, chunks
        self.entries, self.labelled, self.coarse = entries, labelled, coarse

    @property
    def nbytes(self) -> int:
        """Stored bytes of all blocks."""
        return int(self.chunks["stored"].sum())

    def label_counts(self) -> Entries:
        """(labels ascending, rows of each); empty for a section without labels. In a `coarse` section rows with a
        label above the one before and up to this one. Of a finished file they are read each time. Damaged."""
        if not isinstance(self.entries, LabelsAt):
            return self.entries
        offset, entries, checksum = self.entries
        data = self.file.pread(entries * _ENTRY_BYTES, offset)
        if xxhash.xxh3_64_intdigest(data) != checksum:
            raise Damaged(self.path, offset, f"section {self.name!r}: its labels changed since the file was opened")
        labels, counts = np.frombuffer(data, "<u8").reshape(2, -1)
        return labels, counts

    def read(self, block: int, columns: Iterable[str] | None = None, once: bool = False) -> Batch:
        """Some or all columns of a block. once: nobody is expected to read it again soon (`OpenFile.pread_once`)."""
        every = list(self.schema)
        names = every if columns is None else list(columns)
        wanted = list(range(len(every))) if columns is None else self._wanted(names)
        rows = int(self.blocks["rows"][block])
        chunks = self._chunks(block)
        out: dict[str, Column] = {}
        for first, last in _runs(wanted):
            start, stop = chunks[first][0], chunks[last][0] + chunks[last][1]
            data = self._pread(start, stop - start, once)
            for number in range(first, last + 1):
                name = every[number]
                out[name] = self._decode(name, rows, chunks[number], data, start, once)
        return Batch({name: out[name] for name in names})

    def sorted_keys(self, blocks: Sequence[int], once: bool = False) -> Iterator[Array | Halves]:
        """The u8 column it is sorted by, of some blocks in order, packed where it is so on disk. once: as in `read`;
        then neighbours are read together, and what comes is good until this thread reads anything else in this way."""
        assert self.sorted_by is not None
        number = list(self.schema).index(self.sorted_by)
        rows = self.blocks["rows"][list(blocks)].tolist()
        chunks = [self._chunks(block)[number] for block in blocks]
        first = 0
        while first < len(chunks):
            last, start, stop = first + 1, chunks[first][0], chunks[first][0] + chunks[first][1]
            while once and last < len(chunks) and chunks[last][0] == stop <= start + TOGETHER_BYTES - chunks[last][1]:
                stop += chunks[last][1]
                last += 1
            data = self._pread(start, stop - start, once)
            for at in range(first, last):
                yield self._keys(rows[at], chunks[at], data, start, once)
            first = last

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

    def raw(self, block: int) -> tuple[Data, list[ChunkRecord]]:
        """A block's stored bytes, verified, and its chunk records (offset, stored, raw, checksum, encoding)."""
        chunks = self._chunks(block)
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

    def _chunks(self, block: int) -> list[ChunkRecord]:
        """As plain tuples: reading a numpy record field by field costs more than the block. Those of all blocks would
        be a quarter of a kilobyte a chunk in memory."""
        chunks: list[ChunkRecord] = self.chunks[block].tolist()
        return chunks

    def _pread(self, start: int, length: int, once: bool = False) -> Data:
        if length < 0:
            raise Damaged(self.path, start, f"section {self.name!r}: the chunks of a block are not in order")
        data = self.file.pread_once(length, start) if once else self.file.pread(length, start)
        if len(data) != length:
            raise Damaged(self.path, start + len(data), f"section {self.name!r}: the file ends inside a block")
        return data

    def _verify(self, name: str, chunk: ChunkRecord, data: Data, start: int) -> memoryview:
        offset, stored, _, checksum, _ = chunk
        view = memoryview(data)[offset - start : offset - start + stored]
        if xxhash.xxh3_64_intdigest(view) != checksum:
            raise self._damaged(name, chunk, "wrong checksum")
        return view

    def _decode(self, name: str, rows: int, chunk: ChunkRecord, data: Data, start: int, once: bool) -> Column:
        view = self._verify(name, chunk, data, start)
        if once and chunk[4] % (1 << KEPT_SHIFT) == RAW:
            view = memoryview(bytes(view))  # the column shares it, and the next read takes that memory again
        try:
            return decode(view, chunk, self.schema[name], rows)
        except ValueError as error:
            raise self._damaged(name, chunk, error) from error

    def _keys(self, rows: int, chunk: ChunkRecord, data: Data, start: int, once: bool) -> Array | Halves:
        name = str(self.sorted_by)
        if chunk[4] != STEPS:
            keys = self._decode(name, rows, chunk, data, start, once)
            assert not isinstance(keys, Ragged)
            return keys
        try:
            return halves_of(self._verify(name, chunk, data, start), rows)
        except ValueError as error:
            raise self._damaged(name, chunk, error) from error

    def _damaged(self, name: str, chunk: ChunkRecord, why: object) -> Damaged:
        return Damaged(self.path, chunk[0], f"section {self.name!r}, column {name!r}: {why}")

    def encode(self) -> bytes:
        """This section's entry of the directory."""
        labels, counts = self.label_counts()
        head = {
            "name": self.name, "schema": list(self.schema.items()), "meta": self.meta, "rows": self.rows,
            "blocks": len(self.blocks), "labels": len(labels), "labelled": self.labelled,
            "sorted_by": self.sorted_by, **({"coarse": True} if self.coarse else {}),
        }  # fmt: skip
        text = json.dumps(head, separators=(",", ":")).encode()
        parts = [part.tobytes() for part in (self.blocks, self.chunks, labels, counts)]
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
        try:
            header = self.file.pread(len(HEADER), 0)
        except IsADirectoryError:
            raise Damaged(self.path, 0, "a directory is in this file's place: move it away") from None
        size = self.bytes = self.file.size()
        if size < len(HEADER) + TRAILER_BYTES:
            raise Damaged(self.path, size, "too short for a segment")
        if header != HEADER:
            raise self._unknown(header, size)
        start = max(0, size - _TAIL_BYTES)
        tail = self.file.pread(size - start, start)
        if tail[-len(MAGIC_END) :] != MAGIC_END:
            raise Damaged(self.path, size - len(MAGIC_END), "the segment's end is missing (truncated?)")
        at = size - TRAILER_BYTES
        trailer = np.frombuffer(tail[at - start : size - len(MAGIC_END) - start], TRAILER)
        first, length, count, version, checksum = trailer[0].tolist()
        if first + length != at or first < len(HEADER):
            raise Damaged(self.path, at, "impossible trailer")
        if first < start:
            tail, start = self.file.pread(at - first, first) + tail[at - start :], first
        directory = tail[first - start : at - start]
        if directory_checksum(directory, trailer) != checksum:
            raise Damaged(self.path, first, "wrong checksum of the directory or trailer")
        if version != VERSION:
            raise Damaged(self.path, len(MAGIC), f"segment version {VERSION} at its beginning, {version} at its end")
        position = 0
        for _ in range(count):
            position = self._read_entry(directory, position, first)

    def _unknown(self, header: bytes, size: int) -> Exception:
        """What to say of a header that is none of ours: another version says so at the end of its file, too."""
        version = int.from_bytes(header[len(MAGIC) : len(MAGIC) + 4], "little")
        tail = self.file.pread(TRAILER_BYTES, size - TRAILER_BYTES)
        trailer = np.frombuffer(tail[: TRAILER.itemsize], TRAILER)
        agreed = header.startswith(MAGIC) and tail.endswith(MAGIC_END) and int(trailer["version"][0]) == version
        if agreed and version != VERSION:
            return UnknownVersion(self.path, version, str(VERSION))
        wrong = next(i for i, (a, b) in enumerate(zip(header, HEADER, strict=True)) if a != b)
        if wrong < len(MAGIC):
            return Damaged(self.path, wrong, "not a segment (magic)")
        return Damaged(self.path, wrong, f"segment version {version} is none that this program reads")

    def _read_entry(self, directory: bytes, position: int, start: int) -> int:
        """An entry of the directory, which begins at `start` of the file; where the next one is. Arrays are copies: the
        directory itself would stay in memory with them."""
        length = int.from_bytes(directory[position : position + 4], "little")
        head = _head(directory[position + 4 : position + 4 + length])
        if head is None:
            raise Damaged(self.path, start + position, "not an entry of a segment's directory")
        position += 4 + length
        schema = _schema(tuple(map(tuple, head["schema"])))
        entries: int = head["labels"]
        count: int = head["blocks"]
        chunks_at = position + BLOCK.itemsize * count
        labels_at = chunks_at + CHUNK.itemsize * count * len(schema)
        end = labels_at + _ENTRY_BYTES * entries
        if end > len(directory):
            raise Damaged(self.path, start + position, f"section {head['name']!r}: its entry ends too soon")
        blocks = np.frombuffer(directory[position:chunks_at], BLOCK)
        chunks = np.frombuffer(directory[chunks_at:labels_at], CHUNK)
        if blocks["rows"].sum() != head["rows"] or (len(chunks) and chunks["offset"].max() > start):
            raise Damaged(self.path, start + position, f"section {head['name']!r}: its blocks do not fit the file")
        labels = LabelsAt(start + labels_at, entries, xxhash.xxh3_64_intdigest(directory[labels_at:end]))
        self.sections[head["name"]] = Section(
            file=self.file, path=self.path, name=head["name"], schema=schema, meta=head["meta"],
            sorted_by=head["sorted_by"], rows=head["rows"], blocks=blocks,
            chunks=chunks.reshape(-1, max(len(schema), 1)), entries=labels, labelled=head["labelled"],
            coarse=head.get("coarse", False),
        )  # fmt: skip
        return end


def _head(text: bytes) -> dict[str, Any] | None:
    """The JSON of an entry; None when it is of another shape, as another program may have written it: its checksum is
    right."""
    try:
        head = json.loads(text)
        schema = _schema(tuple((column, kind) for column, kind in head["schema"]))
        sized = all(type(head[name]) is int and head[name] >= 0 for name in ("rows", "blocks", "labels"))
        named = isinstance(head["name"], str) and isinstance(head["meta"], dict)
        marked = type(head["labelled"]) is bool and (head["sorted_by"] is None or schema[head["sorted_by"]] == "u8")
        return head if sized and named and marked else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


@lru_cache(256)
def _schema(columns: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """One for all sections with these columns: nobody changes it. ValueError for a kind that is none."""
    for _, kind in columns:
        if kind != BYTES and not _KIND.fullmatch(kind):
            raise ValueError(f"{kind!r} is no kind of column")
    return dict(columns)


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    """Ascending numbers as (first, last) of each run of neighbours."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs
