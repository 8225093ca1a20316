"""The crawl log: one line per outcome, in Heritrix's twelve fields, so that its tools and its users' habits work.

    logged status size url path via mime #stream start+duration digest tag annotations

A field without a value is `-`. Annotations are `name=value` joined by commas: `outcome` and `reason` always, what else
is worth knowing, and `warc=FILE@OFFSET+LENGTH`, the unit's response or metadata record. Whatever a URL or a server's
header holds, a field is one token of printable ASCII: other bytes, and the backslash, are written `\\xHH`.
Times are UTC to the millisecond; `path` is Heritrix's discovery path, where `3+L` stands for three links not told and
one of kind L. Annotations an audit of politeness needs: `address`, which was asked; `crawl_delay` (seconds) of a
robots.txt; `retry_after` as a 429 or 503 gave it.

A log is one file, and parts rolled away from it: `crawl.log.1.gz`, `crawl.log.2.gz`, …, the newest perhaps not
compressed yet, then `crawl.log`. Readers here take them as one, also beside a crawl that is rolling them.
"""

from __future__ import annotations

import calendar
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from isal import isal_zlib

from drum.files import Damaged, Files
from irlcrawl.archive.unit import Exchange, Location, Unit
from irlcrawl.rows import DISCOVERY_LETTER, Class, Reason, Source, name_key, origin_of

SCAN_BYTES = 1 << 20
LINE_BYTES_MAX = 4 << 20  # a URL is at most 64 KiB, and four times that escaped
COMPRESSED = ".gz"
RETRY_AFTER_CHARS = 64
THROTTLES = (429, 503)
NONE = "-"

_PLAIN = re.compile(rb"[!-\[\]-~]+")
_PLAIN_VALUE = re.compile(rb"[!-+\--\[\]-~]*")  # of an annotation: no comma
_NOT_PLAIN = re.compile(rb"[^!-+\--\[\]-~]")
_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")
_LOGGED = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\.(\d{3})Z")
_STARTED = re.compile(r"(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d{3})\+(\d+)")
_WARC = re.compile(r"(.+)@(\d+)\+(\d+)")


class BadLine(ValueError):
    """Not a line of a crawl log."""


@dataclass(slots=True)
class LogEntry:
    """One line. Times are unix milliseconds; empty values and None stand for `-`."""

    logged_ms: int
    status: int  # HTTP, or Heritrix's negative code
    size: int | None  # bytes of the body as received
    url: bytes
    path: str
    via: bytes = b""
    mime: str = ""
    stream: int | None = None
    start_ms: int | None = None
    duration_ms: int = 0  # only told together with start_ms
    digest: str = ""
    tag: str = ""
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        """fetched, failed, excluded, retry or none (robots.txt): rows.Class in lower case."""
        return self.notes.get("outcome", "")

    @property
    def reason(self) -> str:
        """rows.Reason in lower case."""
        return self.notes.get("reason", "")

    @property
    def warc(self) -> tuple[str, int, int] | None:
        """(file, offset, length) of the record in the archive; None for an outcome the archive does not hold."""
        match = _WARC.fullmatch(self.notes.get("warc", ""))
        return (match[1], int(match[2]), int(match[3])) if match else None


def line(unit: Unit, exchange: Exchange | None, location: Location) -> bytes:
    """The line, without newline, of an outcome the archive holds. Depends on nothing but its arguments, so replay logs
    what was lost."""
    notes = outcome_notes(unit.cls, unit.reason, hop=unit.hop, attempt=unit.attempt)
    if exchange is not None and exchange.truncated:
        notes["truncated"] = exchange.truncated
    if unit.detail:
        notes["detail"] = unit.detail
    if address := exchange.ip if exchange is not None else unit.address:
        notes["address"] = address
    # A robots.txt that another host redirected to speaks for that one.
    if unit.robots is not None and unit.robots.get("crawl_delay") and unit.host == name_key(origin_of(unit.url)):
        notes["crawl_delay"] = f"{unit.robots['crawl_delay']:g}"
    if exchange is not None and exchange.status in THROTTLES and (after := exchange.value(b"retry-after")):
        notes["retry_after"] = after[:RETRY_AFTER_CHARS].decode("latin-1")
    notes["warc"] = f"{location.file}@{location.record}+{location.end - location.record}"
    start_ms = int(unit.start * 1000)
    return format_entry(
        LogEntry(
            logged_ms=start_ms + unit.duration_ms,
            status=unit.status,
            size=len(exchange.body) if exchange is not None else None,
            url=unit.url,
            path=discovery_path(unit.depth, unit.hop, unit.source),
            mime=(exchange.mime or "unknown") if exchange is not None else "",
            stream=location.stream,
            start_ms=start_ms,
            duration_ms=unit.duration_ms,
            digest=location.digest,
            notes=notes,
        )
    )


def decided_line(
    url: bytes, *, at: float, cls: int, reason: int, status: int, depth: int, hop: int, source: int, attempt: int = 0
) -> bytes:
    """The line, without newline, of an outcome decided without a worker (unix seconds `at`): nothing in the archive."""
    path = discovery_path(depth, hop, source)
    notes = outcome_notes(cls, reason, hop=hop, attempt=attempt)
    return format_entry(LogEntry(int(at * 1000), status, None, url, path, notes=notes))


def outcome_notes(cls: int, reason: int, *, hop: int, attempt: int) -> dict[str, str]:
    notes = {"outcome": Class(cls).name.lower(), "reason": Reason(reason).name.lower()}
    if hop:
        notes["hop"] = str(hop)
    if attempt:
        notes["attempt"] = str(attempt)
    return notes


def discovery_path(depth: int, hop: int, source: int) -> str:
    """How the URL was reached: letters for the redirects since the last link, or that link; before them the number of
    links whose kind is not known any more. Empty for a seed."""
    if hop:
        known, links = DISCOVERY_LETTER[Source.REDIRECT] * hop, depth
    elif depth:
        known, links = DISCOVERY_LETTER[Source(source)], depth - 1
    else:
        known, links = "", 0
    return f"{links}+{known}" if links else known


def logged_time(entry: LogEntry) -> str:
    """ISO 8601, UTC, milliseconds."""
    seconds, ms = divmod(entry.logged_ms, 1000)
    return f"{_digits(seconds, '%Y-%m-%dT%H:%M:%S')}.{ms:03d}Z"


def format_entry(entry: LogEntry) -> bytes:
    """A line without newline."""
    started = NONE
    if entry.start_ms is not None:
        seconds, ms = divmod(entry.start_ms, 1000)
        started = f"{_digits(seconds, '%Y%m%d%H%M%S')}{ms:03d}+{entry.duration_ms}"
    notes = b",".join(name.encode() + b"=" + _escaped(value, _PLAIN_VALUE) for name, value in entry.notes.items())
    return b" ".join((
        f"{logged_time(entry)} {entry.status} {NONE if entry.size is None else entry.size}".encode(),
        _token(entry.url), _token(entry.path), _token(entry.via), _token(entry.mime),
        f"#{entry.stream:03d} {started}".encode() if entry.stream is not None else f"{NONE} {started}".encode(),
        _token(entry.digest), _token(entry.tag), notes or b"-",
    ))  # fmt: skip


def parse(line: bytes) -> LogEntry:
    """The entry of one line (with or without newline). BadLine when it is none."""
    logged, status, size, url, path, via, mime, stream, started, digest, tag, notes = _fields(line.rstrip(b"\n"))
    try:
        start_ms, duration_ms = _parse_started(started)
        return LogEntry(
            logged_ms=_parse_logged(logged),
            status=int(status),
            size=None if size == b"-" else int(size),
            url=_unescaped(url),
            path=_text(path),
            via=_unescaped(via),
            mime=_text(mime),
            stream=None if stream == b"-" else int(stream.removeprefix(b"#")),
            start_ms=start_ms,
            duration_ms=duration_ms,
            digest=_text(digest),
            tag=_text(tag),
            notes=_parse_notes(notes),
        )
    except ValueError as error:
        raise BadLine(f"{error}: {line[:200]!r}") from None


def rolled_parts(files: Files, path: str) -> dict[int, str]:
    """number -> path of the parts rolled away from a log, in order; where a part is there twice, the one that is not
    compressed (a crash came between the two steps)."""
    directory, name = os.path.split(path)
    pattern = re.compile(re.escape(name) + r"\.(\d+)(\.gz)?")
    found: dict[int, str] = {}
    for entry in files.listdir(directory or "."):  # sorted: NAME.1 comes before NAME.1.gz
        match = pattern.fullmatch(entry)
        if match is not None:
            found.setdefault(int(match[1]), os.path.join(directory, entry))
    return dict(sorted(found.items()))


def log_files(files: Files, path: str) -> list[str]:
    """The files of a log in the order written: parts rolled away, then `path`."""
    parts = list(rolled_parts(files, path).values())
    return [*parts, path] if files.exists(path) else parts


def read(
    files: Files, path: str, *, status: str | None = None, host: str | None = None, reason: str | None = None,
    within: str | None = None,
) -> Iterator[LogEntry]:  # fmt: skip
    """Entries in order, in constant memory. `status`: a number or a class like `4xx`; `host`: a host name (any port)
    or `name:port`; `within`: the same, and every name under it; `reason`: rows.Reason in lower case. A torn last line
    is no line; BadLine for any other that cannot be read, ValueError for a status that is none."""
    wanted_status = _status_pattern(status) if status is not None else None
    wanted_host = host.lower().encode() if host is not None else None
    under = within.lower().encode() if within is not None else None
    wanted_reason = f"reason={reason}".encode() if reason is not None else None
    for chunk in _log_chunks(files, path):
        for text in chunk[:-1].split(b"\n"):
            fields = _fields(text)
            if wanted_status is not None and not wanted_status.fullmatch(fields[1]):
                continue
            if wanted_host is not None and wanted_host not in _host_names(fields[3]):
                continue
            if under is not None and not any((b"." + name).endswith(b"." + under) for name in _host_names(fields[3])):
                continue
            if wanted_reason is not None and wanted_reason not in fields[11].split(b","):
                continue
            yield parse(text)


def find(files: Files, path: str, url: bytes) -> tuple[LogEntry | None, LogEntry | None]:
    """(the last entry of `url`, the last one that has a response in the archive)."""
    last: LogEntry | None = None
    responded: LogEntry | None = None
    for entry in entries_of(files, path, url):
        last = entry
        responded = entry if entry.warc is not None and entry.digest else responded
    return last, responded


def entries_of(files: Files, path: str, url: bytes) -> Iterator[LogEntry]:
    """Every entry of `url`, oldest first. Constant memory, no line parsed that does not hold the URL."""
    needle = b" " + _token(url) + b" "
    for chunk in _log_chunks(files, path):
        at = chunk.find(needle)
        while at >= 0:
            end = chunk.find(b"\n", at)
            entry = parse(chunk[chunk.rfind(b"\n", 0, at) + 1 : end])
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


def _log_chunks(files: Files, path: str) -> Iterator[bytes]:
    """A whole log in pieces of whole lines."""
    live, parts = _opened(files, path)
    try:
        for number, part in parts.items():
            yield from chunks(_open_part(files, part, f"{path}.{number}{COMPRESSED}"))
        if live is not None:
            yield from chunks(live)
    finally:
        if live is not None:
            live.close()


def _open_if_there(files: Files, path: str) -> Plain | None:
    try:
        return Plain(files, path)
    except FileNotFoundError:
        return None


def _opened(files: Files, path: str) -> tuple[Plain | None, dict[int, str]]:
    """The newest file of a log, open, and the parts before it: of one moment, though the log may be rolled meanwhile
    (its newest file then has another name)."""
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
    """A file of a log, by its name compressed or not. OSError."""
    return Unpacked(files, path) if path.endswith(COMPRESSED) else Plain(files, path)


class Plain:
    """Text as it is in a file."""

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
    """Text of a gzip file. Damaged where its bytes are not what was written."""

    def __init__(self, files: Files, path: str) -> None:
        super().__init__(files, path)
        self._inflater = isal_zlib.decompressobj(31)

    def read(self) -> bytes:
        while not self._inflater.eof:
            at = self._at
            piece = self._inflater.unconsumed_tail or super().read()
            try:
                data = self._inflater.decompress(piece, SCAN_BYTES) if piece else b""
            except _InflateError as error:
                raise Damaged(self.path, at, f"not the gzip file that was written: {error}") from None
            if not piece:
                raise Damaged(self.path, self._at, "a gzip file cut short")
            if data:
                return data
        return b""


_InflateError: type[Exception] = isal_zlib.error  # type: ignore[assignment]  # its stub says instance, not class


def chunks(part: Part) -> Iterator[bytes]:
    """A file in pieces of whole lines; what follows the last newline is a torn line and left out."""
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
                raise BadLine(f"{part.path}: no line ends within {LINE_BYTES_MAX} bytes before offset {at}")


def _fields(line: bytes) -> list[bytes]:
    fields = line.split(b" ")
    if len(fields) != 12:
        raise BadLine(f"a line of a crawl log has 12 fields, not {len(fields)}: {line[:200]!r}")
    return fields


def _token(value: bytes | str) -> bytes:
    """`-` for nothing; what is nothing but `-` is escaped."""
    if not value:
        return b"-"
    token = _escaped(value, _PLAIN)
    return token if token != b"-" else b"\\x2d"


def _escaped(value: bytes | str, plain: re.Pattern[bytes]) -> bytes:
    data = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
    if plain.fullmatch(data):
        return data
    return _NOT_PLAIN.sub(lambda match: b"\\x%02x" % match[0][0], data)


def _unescaped(token: bytes) -> bytes:
    if token == b"-":
        return b""
    if b"\\" not in token:
        return token
    return _ESCAPE.sub(lambda match: bytes((int(match[1], 16),)), token)


def _text(token: bytes) -> str:
    return _unescaped(token).decode("utf-8", "surrogateescape")


def _parse_notes(token: bytes) -> dict[str, str]:
    if token == b"-":
        return {}
    notes = {}
    for note in token.split(b","):
        name, _, value = note.partition(b"=")
        notes[name.decode()] = "-" if value == b"-" else _text(value)
    return notes


def _parse_logged(token: bytes) -> int:
    match = _LOGGED.fullmatch(token.decode())
    if match is None:
        raise ValueError("no time of logging")
    *moment, ms = map(int, match.groups())
    return calendar.timegm((*moment, 0, 0, 0)) * 1000 + ms


def _parse_started(token: bytes) -> tuple[int | None, int]:
    if token == b"-":
        return None, 0
    match = _STARTED.fullmatch(token.decode())
    if match is None:
        raise ValueError("no start and duration")
    *moment, ms, duration_ms = map(int, match.groups())
    return calendar.timegm((*moment, 0, 0, 0)) * 1000 + ms, duration_ms


@lru_cache(maxsize=16)
def _digits(seconds: int, style: str) -> str:
    return time.strftime(style, time.gmtime(seconds))


def _host_names(url: bytes) -> tuple[bytes, ...]:
    """What a logged URL's host may be called: name, name:port, and an IPv6 address without its brackets."""
    authority = url.partition(b"://")[2].partition(b"/")[0]
    name, colon, port = authority.rpartition(b":")
    if not (colon and port.isdigit()):
        name = authority
    return name, authority, name.strip(b"[]")
