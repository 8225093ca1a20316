"""Records of an archive, read forward one gzip member or zstd frame at a time, in bounded memory and linear time.

Bytes that are not a whole member (of an archive of zstd frames: a whole frame, zstd.py) with exactly one whole record
are `Damaged` at that member's offset. The caller knows whether that is a torn tail (redo.py cuts it) or a broken
archive (an error for people).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from drum.files import Damaged, Files

from isal import isal_zlib

from irlcrawl.worker.archive import zstd
from irlcrawl.worker.archive.record import UNIT_FIELD, WARC_VERSION

READ_BYTES = 256 << 10
READ_HEAD_BYTES = 8 << 10
# What follows a member in the piece that ended it comes back as a copy: small pieces keep small members linear.
PIECE_BYTES = 16 << 10
INFLATED_BYTES = 256 << 10
HEAD_BYTES_MAX = 1 << 20  # of a WARC header; ours hold a URL and a unit, a few KB at most
_GZIP = 31  # zlib's wbits for a gzip wrapper, checksum and length verified
OLDER_VERSION = b"WARC/1.0"  # of archives that others made: to check and to read they are the same
FLAGS_AT, RESERVED_FLAGS = 3, 0xE0  # of a gzip member (RFC 1952 2.3.1.2): isal reads on where all others refuse
_InflateError: type[Exception] = isal_zlib.error  # type: ignore[assignment]  # its stub says instance, not class


@dataclass(slots=True)
class Record:
    """One record. With keep=False its `block` is empty."""

    offset: int  # of its gzip member or zstd frame
    end: int  # of that; also of frames behind it that decoders ignore
    fields: dict[str, str]  # WARC header, names in lower case
    block: bytes
    zstd: bool = False  # it is a zstd frame

    @property
    def kind(self) -> str:
        return self.fields.get("warc-type", "")

    @property
    def unit(self) -> str | None:
        """The JSON of the unit that this record ends."""
        return self.fields.get(UNIT_FIELD.lower())


def records(files: Files, path: str, offset: int = 0, *, keep: bool = True) -> Iterator[Record]:
    """Every record from `offset`, at which a member must begin, to the end of the file. Damaged for anything that is
    not a whole record. Holds one record in memory (with keep=False, none)."""
    reader = _Members(files, path, offset)
    try:
        while not reader.at_end():
            yield reader.record(keep)
    finally:
        reader.close()


def unpacked(files: Files, path: str, record: Record) -> bytes:
    """A record as it is stored, decompressed: header and block."""
    handle = files.open(path)
    try:
        data = files.pread(handle, record.end - record.offset, record.offset)
    finally:
        files.close(handle)
    return zstd.unpacked(data) if record.zstd else isal_zlib.decompress(data, _GZIP)


def fields_at(files: Files, path: str, offset: int) -> dict[str, str] | None:
    """The WARC header of the record at `offset`, whose block is not read; None if it is longer than
    READ_HEAD_BYTES, or none is there."""
    if zstd.is_zstd(files, path):
        return _fields_of_frame(files, path, offset)
    handle = files.open(path)
    try:
        data = files.pread(handle, READ_HEAD_BYTES, offset)
    finally:
        files.close(handle)
    try:
        head, end, _ = isal_zlib.decompressobj(_GZIP).decompress(data, READ_HEAD_BYTES).partition(b"\r\n\r\n")
    except _InflateError:
        return None
    return _parse_head(head) if end else None


def _fields_of_frame(files: Files, path: str, offset: int) -> dict[str, str] | None:
    reader = _Members(files, path, offset)
    try:
        return _parse_head(reader.head(READ_HEAD_BYTES))
    except Damaged:
        return None
    finally:
        reader.close()


def record_at(files: Files, path: str, offset: int) -> Record:
    """The record that begins at `offset`. Raises Damaged when there is none."""
    for record in records(files, path, offset):
        return record
    raise Damaged(path, offset, "the file ends where a record should begin")


_SPACES = " \t\n\r\x0b\x0c"  # those of bytes


class _Members:
    def __init__(self, files: Files, path: str, offset: int) -> None:
        self._files = files
        self._path = path
        self._at = offset  # of the next byte not yet consumed
        self._read = b""  # bytes of the file from _read_at
        self._read_at = offset
        self._handle = files.open(path)
        self._zstd = zstd.is_zstd(files, path, self._handle)
        self._unpacked, self._called = (self._unframed, "zstd frame") if self._zstd else (self._inflate, "gzip member")
        self._context = zstd.decompressor()

    def close(self) -> None:
        self._files.close(self._handle)

    def at_end(self) -> bool:
        return not self._peek()

    def record(self, keep: bool) -> Record:
        begin = self._at
        pieces = self._unpacked(begin)
        head, rest = self._head(pieces, begin)
        fields = _parse_head(head)
        if fields is None:
            raise Damaged(self._path, begin, f"a {self._called} that is no WARC record")
        length = fields.get("content-length", "")
        if not (length.isascii() and length.isdigit() and len(length) <= 18):
            raise Damaged(self._path, begin, "a WARC record without a length")
        block, tail = _block(rest, pieces, int(length), keep)
        if tail != b"\r\n\r\n":
            raise Damaged(self._path, begin, "a WARC record whose length is not the one it says")
        if self._zstd:
            self._at += self._skipped()
        return Record(begin, self._at, fields, block, self._zstd)

    def head(self, bytes_max: int) -> bytes:
        """The WARC header of the record that begins here. Damaged where none does, or a longer one."""
        head, _ = self._head(self._unpacked(self._at), self._at)
        if len(head) > bytes_max:
            raise Damaged(self._path, self._at, "a longer header than that")
        return head

    def _head(self, pieces: Iterator[bytes], begin: int) -> tuple[bytes, bytes]:
        """The WARC header without its blank line, and what was inflated after it."""
        data = b""
        for piece in pieces:
            data += piece
            end = data.find(b"\r\n\r\n", 0, HEAD_BYTES_MAX)
            if end >= 0:
                return data[:end], data[end + 4 :]
            if len(data) > HEAD_BYTES_MAX:
                break
        raise Damaged(self._path, begin, f"a {self._called} that is no WARC record")

    def _unframed(self, begin: int) -> Iterator[bytes]:
        """One frame's content in pieces; when it is exhausted, _at is the end of the frame."""

        def take(length: int) -> bytes:
            data = b""
            while len(data) < length:
                piece = self._peek()[: length - len(data)]
                if not piece:
                    raise Damaged(self._path, begin, "a zstd frame cut short")
                self._at += len(piece)
                data += piece
            return data

        try:
            yield from zstd.frame(self._context, take)
        except zstd.NotAFrame as error:
            raise Damaged(self._path, begin, f"not a zstd frame: {error}") from None

    def _skipped(self) -> int:
        """Bytes of the whole frames that come next and that decoders ignore."""
        total = 0
        if self._peek().startswith(zstd.MAGIC):
            return total
        while size := zstd.skipped(self._files.pread(self._handle, 8, self._at + total)):
            if self._at + total + size > self._files.size(self._handle):
                break
            total += size
        return total

    def _inflate(self, begin: int) -> Iterator[bytes]:
        """One member's content in pieces; when it is exhausted, _at is the end of the member."""
        inflater = isal_zlib.decompressobj(_GZIP)
        while True:
            piece = self._peek()
            if not piece:
                raise Damaged(self._path, begin, "a gzip member cut short")
            flags = begin + FLAGS_AT - self._at
            if 0 <= flags < len(piece) and piece[flags] & RESERVED_FLAGS:
                raise Damaged(self._path, begin, "not a gzip member: flags that none has")
            self._at += len(piece)
            while piece:
                try:
                    data = inflater.decompress(piece, INFLATED_BYTES)
                except _InflateError as error:
                    raise Damaged(self._path, begin, f"not a gzip member: {error}") from None
                if inflater.eof:
                    self._at -= len(inflater.unused_data)
                    yield data
                    return
                yield data
                piece = inflater.unconsumed_tail

    def _peek(self) -> bytes:
        """Up to PIECE_BYTES from _at; empty at the end of the file."""
        start = self._at - self._read_at
        if not 0 <= start < len(self._read):
            self._read, self._read_at, start = self._ahead(), self._at, 0
        return self._read[start : start + PIECE_BYTES]

    def _ahead(self) -> bytes:
        """The next bytes of the file, up to the first that cannot be read (for those to whom that is damage)."""
        try:
            return self._files.pread(self._handle, READ_BYTES, self._at)
        except Damaged as error:
            if error.offset <= self._at:
                raise
            return self._files.pread(self._handle, error.offset - self._at, self._at)


def _block(rest: bytes, pieces: Iterator[bytes], length: int, keep: bool) -> tuple[bytes, bytes]:
    """The record's block (empty unless kept) and what follows it, at most a little more than the four bytes due."""
    kept = [rest[:length]] if keep else []
    got = len(rest)
    tail = rest[length:]
    for piece in pieces:
        wanted = max(0, length - got)
        if keep and wanted:
            kept.append(piece[:wanted])
        if len(tail) <= 4:
            tail += piece[wanted:]
        got += len(piece)
    return b"".join(kept), tail


def _parse_head(head: bytes) -> dict[str, str] | None:
    if head.isascii() and head.startswith((WARC_VERSION + b"\r\n", OLDER_VERSION + b"\r\n")):
        told: dict[str, str] = {}
        for text in head.decode().split("\r\n")[1:]:
            name, colon, value = text.partition(":")
            if not colon:
                return None
            told[name.lower()] = value.strip(_SPACES)
        return told
    return _parse_any_head(head)


def _parse_any_head(head: bytes) -> dict[str, str] | None:
    version, *lines = head.split(b"\r\n")
    if version not in (WARC_VERSION, OLDER_VERSION):
        return None
    fields: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon:
            return None
        fields[name.decode("latin-1").lower()] = value.strip().decode("utf-8", "replace")
    return fields
