"""The files of a crawl log: the one that is written to, and the parts rolled away from it, read as one.

They are `crawl.log.1.gz`, `crawl.log.2.gz`, …, the newest perhaps not compressed yet, then `crawl.log`. They can be
read here beside a crawl that is rolling them; only a piece of one file is in memory at a time. Lines are
crawl_log.py's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol, TypeVar

from drum.files import Damaged, Files

from isal import isal_zlib

from irlcrawl.base.job_files import COMPRESSED, parse_part, part_name
from irlcrawl.worker.archive.crawl_log import BadLine, LogEntry, field_of, parse, split_line
from irlcrawl.worker.archive.reader import FLAGS_AT, RESERVED_FLAGS

T = TypeVar("T")

SCAN_BYTES = 1 << 20
PLACE_BITS = 48
LINE_BYTES_MAX = 4 << 20  # a URL is at most 64 KiB, and four times that escaped
MISSING = "this part of the crawl log is missing"


def ended_before(committed: int) -> str:
    return f"the crawl log ends before {committed}, up to where it was committed"


def rolled_parts(files: Files, path: str) -> dict[int, str]:
    """number -> path of the parts rolled away from a log, in order. If a part is there twice (a crash came between
    compressing and deleting), the one that is not compressed."""
    directory, name = os.path.split(path)
    found: dict[int, str] = {}
    for entry in files.listdir(directory or "."):  # sorted: NAME.1 comes before NAME.1.gz
        number = parse_part(name, entry)
        if number is not None:
            found.setdefault(number, os.path.join(directory, entry))
    return dict(sorted(found.items()))


def log_files(files: Files, path: str) -> list[str]:
    """The files of a log in the order in which they were written: rolled parts, then `path`."""
    parts = list(rolled_parts(files, path).values())
    return [*parts, path] if files.exists(path) else parts


def check_committed(files: Files, path: str, committed: Mapping[str, int]) -> None:
    """Raise Damaged if a part that a commit knows (sections.py: CrawlLog.entry) is gone, or if the newest file is
    shorter than the commit says. A crawl may roll and compress meanwhile: each file is looked for by its earlier name
    first."""
    rolled, size = committed.get("part", 0), committed.get("bytes", 0)
    for number in range(1, rolled + 1):
        if not _is_part(files, path, number):
            raise Damaged(part_name(path, number, True), 0, MISSING)
    try:
        there = files.size(path)
    except FileNotFoundError:
        there = 0
    if there < size and not _is_part(files, path, rolled + 1):
        raise Damaged(path, there, ended_before(size))


def _is_part(files: Files, path: str, number: int) -> bool:
    return files.exists(part_name(path, number)) or files.exists(part_name(path, number, True))


def read(
    files: Files, path: str, *, status: str | None = None, host: str | None = None, reason: str | None = None,
    within: str | None = None, note: str | None = None,
) -> Iterator[LogEntry]:  # fmt: skip
    """Entries in order, in constant memory. `status`: a number or a class like `4xx`; `host`: a host name (any port) or
    `name:port`; `within`: the same, and every name under it; `reason`: a Reason in lower case; `note`: the name of an
    annotation that they have, or `name=word`, where `word` is its value or stands in it between `+`. A torn last line
    is left out. Damaged for any other line that cannot be read, ValueError for a malformed status."""
    for _, entry in placed(files, path, status=status, host=host, reason=reason, within=within, note=note):
        yield entry


def placed(
    files: Files, path: str, *, status: str | None = None, host: str | None = None, reason: str | None = None,
    within: str | None = None, note: str | None = None, since: int = 0,
) -> Iterator[tuple[int, LogEntry]]:  # fmt: skip
    """As `read`, each entry with the place of its line (Piece.place); only lines from the place `since` on, at which
    one begins."""
    is_wanted = chooser(status=status, host=host, reason=reason, within=within, note=note)
    for piece in pieces(files, path, since=since):
        end = 0
        for text in lines_of(piece.text):
            at, end = end, end + len(text) + 1
            if is_wanted(piece.understood(split_line, text)):
                yield piece.place(at), piece.understood(parse, text)


def chooser(
    *, status: str | None = None, host: str | None = None, reason: str | None = None, within: str | None = None,
    note: str | None = None,
) -> Callable[[list[bytes]], bool]:  # fmt: skip
    """Whether the fields of a line are asked for; arguments as in `read`. ValueError for a malformed status."""
    wanted_status = _status_pattern(status) if status is not None else None
    wanted_host = host.lower().encode() if host is not None else None
    under = within.lower().encode() if within is not None else None
    wanted_reason = f"reason={reason}".encode() if reason is not None else None
    name, _, word = (note or "").partition("=")
    wanted_note = f",{name}".encode() if note is not None else None
    wanted_word = word.encode() if word else None

    def is_wanted(fields: list[bytes]) -> bool:
        return (
            (wanted_status is None or wanted_status.fullmatch(fields[1]) is not None)
            and (wanted_host is None or wanted_host in host_names(fields[3]))
            and (under is None or is_within(fields[3], under))
            and (wanted_reason is None or wanted_reason in fields[11].split(b","))
            and (wanted_note is None or _has_note(b"," + fields[11], wanted_note, wanted_word))
        )

    return is_wanted


def _has_note(notes: bytes, name: bytes, word: bytes | None) -> bool:
    """`notes` with a comma before each, `name` with its comma. Some have no value."""
    told = next((note for note in re.findall(rb",[^,]*", notes) if note == name or note.startswith(name + b"=")), None)
    if told is None or word is None:
        return told is not None
    words = told[len(name) + 1 :].split(b"+")
    # Some wishes have a value; page.wishes_obeyed names them without it.
    return word in words or (name == b",wishes" and any(one.startswith(word + b"=") for one in words))


def find(entries: Iterable[LogEntry]) -> tuple[LogEntry | None, LogEntry | None]:
    """Of a URL's entries, oldest first: (the last one, the last one with a response in the archive)."""
    last: LogEntry | None = None
    responded: LogEntry | None = None
    for entry in entries:
        last = entry
        responded = entry if entry.warc is not None and entry.digest else responded
    return last, responded


def entries_of(files: Files, path: str, url: bytes, since: int = 0) -> Iterator[LogEntry]:
    """Every entry of `url` from the place `since` on, oldest first, in constant memory; only lines that contain the URL
    are parsed. Damaged."""
    needle = b" " + field_of(url) + b" "
    for piece in pieces(files, path, since=since):
        chunk = piece.text
        at = chunk.find(needle)
        while at >= 0:
            end = chunk.find(b"\n", at)
            entry = piece.understood(parse, chunk[chunk.rfind(b"\n", 0, at) + 1 : end])
            if entry.url == url:
                yield entry
            at = chunk.find(needle, end)


def _status_pattern(status: str) -> re.Pattern[bytes]:
    if not re.fullmatch(r"-?[0-9x]+", status):
        raise ValueError(f"a status is a number, or a class like 4xx: not {status!r}")
    return re.compile(status.replace("x", "[0-9]").encode())


class Part(Protocol):
    """A file of a log, read forward."""

    path: str

    def read(self) -> bytes:
        """The next bytes of its text; empty at the end."""

    def skip(self, to: int) -> int:
        """Before the first read: leave out text before that byte, as far as that costs nothing. Where it begins now."""


class Piece(NamedTuple):
    """Whole lines of a log."""

    text: bytes
    path: str  # of the file they stand in
    part: int  # its number: what is written to now has the one after the last part
    at: int  # where they begin in its text

    def place(self, at: int) -> int:
        """Where the line that begins at text[at] stands in the log: a number that grows from line to line, the same for
        every reader at any time."""
        return (self.part << PLACE_BITS) + self.at + at

    def lines_with(self, word: bytes) -> Iterator[tuple[int, bytes]]:
        """(where it begins in `text`, line) of those that contain the word."""
        at = self.text.find(word)
        while at >= 0:
            begin, end = self.text.rfind(b"\n", 0, at) + 1, self.text.find(b"\n", at)
            end = len(self.text) if end < 0 else end
            yield begin, self.text[begin:end]
            at = self.text.find(word, end)

    def understood(self, reader: Callable[[bytes], T], line: bytes) -> T:
        """The result of a reader's function for one of the lines. Its BadLine becomes Damaged, with the place of the
        line."""
        try:
            return reader(line)
        except BadLine as error:
            at = 0 if self.path.endswith(COMPRESSED) else self.at + self.text.index(line)
            raise Damaged(self.path, at, str(error)) from None


def pieces(files: Files, path: str, committed: Mapping[str, int] | None = None, since: int = 0) -> Iterator[Piece]:
    """A whole log; or as much of it as a commit knows (sections.py: CrawlLog.entry), also where the log was rolled
    since. `since`: only from that place on, at which a line begins. Damaged, OSError."""
    if committed is not None:
        check_committed(files, path, committed)
    live, parts = _opened(files, path)
    last = committed.get("part", 0) + 1 if committed is not None else max(parts, default=0) + 1
    bounds = {last: committed.get("bytes", 0)} if committed is not None else {}
    if committed is not None and "rolled_bytes" in committed:
        bounds[last - 1] = committed["rolled_bytes"]
    try:
        for number in [*(number for number in parts if number < last), last]:
            if number < since >> PLACE_BITS:
                continue
            begin = max(since - (number << PLACE_BITS), 0)
            if number in parts:
                part = _open_part(files, parts[number], part_name(path, number, True))
                yield from pieces_of(part, number, bounds.get(number), begin)
            elif live is not None:
                yield from pieces_of(live, number, bounds.get(number), begin)
    finally:
        if live is not None:
            live.close()


def pieces_of(part: Part, number: int, until: int | None = None, begin: int = 0) -> Iterator[Piece]:
    """A file of a log, from the line at `begin` as far as `until` (None: its end), in pieces of whole lines."""
    at = part.skip(begin)
    for chunk in chunks(part):
        if at + len(chunk) > begin:
            skipped = max(begin - at, 0)
            if until is not None and at + len(chunk) >= until:
                if at + skipped < until:
                    yield Piece(chunk[skipped : until - at], part.path, number, at + skipped)
                return
            yield Piece(chunk[skipped:] if skipped else chunk, part.path, number, at + skipped)
        at += len(chunk)


def _open_if_there(files: Files, path: str) -> Plain | None:
    try:
        return Plain(files, path)
    except FileNotFoundError:
        return None


def _opened(files: Files, path: str) -> tuple[Plain | None, dict[int, str]]:
    """The newest file of a log, open, and the parts before it, as of one moment: the log may be rolled meanwhile, which
    renames the newest file."""
    while True:
        live = _open_if_there(files, path)
        parts = rolled_parts(files, path)
        if live is None or live.is_still(path):
            return live, parts
        live.close()


def _open_part(files: Files, path: str, compressed: str) -> Part:
    try:
        return open_part(files, path)
    except FileNotFoundError:
        return open_part(files, compressed)  # a running crawl compressed it since we looked


def open_part(files: Files, path: str) -> Part:
    """A file of a log, opened as compressed or plain text by its name. OSError."""
    return Unpacked(files, path) if path.endswith(COMPRESSED) else Plain(files, path)


class Plain:
    """A file of plain text."""

    def __init__(self, files: Files, path: str) -> None:
        self._handle: int | None = None
        self.path = path
        self._files = files
        self._handle = files.open(path)
        self._at = 0

    def read(self) -> bytes:
        assert self._handle is not None
        data = self._files.pread(self._handle, SCAN_BYTES, self._at)
        self._at += len(data)
        return data

    def skip(self, to: int) -> int:
        self._at = to
        return to

    def is_still(self, path: str) -> bool:
        """Whether `path` names this very file."""
        assert self._handle is not None
        try:
            return self._files.same(self._handle, path)
        except FileNotFoundError:
            return False

    def close(self) -> None:
        if self._handle is not None:
            self._files.close(self._handle)
            self._handle = None

    def __del__(self) -> None:
        self.close()


class Unpacked(Plain):
    """A gzip file. Damaged, always at offset 0: its one checksum is of the whole file, and a wrong bit may show
    anywhere behind its place."""

    def __init__(self, files: Files, path: str) -> None:
        super().__init__(files, path)
        self._inflater = isal_zlib.decompressobj(31)

    def skip(self, to: int) -> int:
        return 0

    def read(self) -> bytes:
        while not self._inflater.eof:
            begins = self._at == 0
            piece = self._inflater.unconsumed_tail or super().read()
            if begins and len(piece) > FLAGS_AT and piece[FLAGS_AT] & RESERVED_FLAGS:
                raise Damaged(self.path, 0, "not the gzip file that was written: flags that none has")
            try:
                data = self._inflater.decompress(piece, SCAN_BYTES) if piece else b""
            except _InflateError as error:
                raise Damaged(self.path, 0, f"not the gzip file that was written: {error}") from None
            if not piece:
                raise Damaged(self.path, 0, "a gzip file without its end")
            if data:
                return data
        if self._inflater.unused_data or super().read():
            raise Damaged(self.path, 0, "a gzip file with something behind its end")
        return b""


_InflateError: type[Exception] = isal_zlib.error  # type: ignore[assignment]  # its stub says instance, not class


def chunks(part: Part) -> Iterator[bytes]:
    """A file in pieces of whole lines; a torn line at its end is left out. Damaged."""
    at, rest = 0, b""
    while data := part.read():
        at += len(data)
        end = data.rfind(b"\n") + 1
        if end:
            yield rest + data[:end]
            rest = data[end:]
        else:
            rest += data
            if len(rest) > LINE_BYTES_MAX:
                raise Damaged(part.path, at - len(rest), f"no line ends within {LINE_BYTES_MAX} bytes")


def lines_of(chunk: bytes) -> list[bytes]:
    """The lines of a piece of text, without their newlines. Only a newline ends a line of a log."""
    return chunk.removesuffix(b"\n").split(b"\n") if chunk else []


def is_within(url: bytes, name: bytes) -> bool:
    """Whether the host of a stored URL is `name` (or `name:port`), or lies under it."""
    return any((b"." + one).endswith(b"." + name) for one in host_names(url))


def host_names(url: bytes) -> tuple[bytes, ...]:
    """The names by which a stored URL's host may be asked for: name, name:port, an IPv6 address also without its
    brackets."""
    scheme, _, rest = url.partition(b"://")
    authority = rest.partition(b"/")[0]
    name, colon, port = authority.rpartition(b":")
    if not (colon and port.isdigit()):
        name, port = authority, b"443" if scheme == b"https" else b"80"
    return name, name + b":" + port, name.strip(b"[]")
