"""The crawl log: one line per outcome, in Heritrix's twelve fields, so that its tools and its users' habits work.

    logged status size url path via mime #stream start+duration digest tag annotations

A field without a value is `-`. Annotations are `name=value` joined by commas: `outcome` and `reason` always, further
ones as needed, and `warc=FILE@OFFSET+LENGTH`, the unit's response or metadata record. A field is one token of printable
ASCII, whatever bytes a URL or a server's header has: other bytes, and the backslash, are written `\\xHH`. Times are UTC
to the millisecond; `path` is Heritrix's discovery path, where `3+L` stands for three links of unknown kind and one of
kind L; `via` is the page that linked to the URL first, or redirected to it. Annotations for an audit of politeness:
`address`, the address that was asked; `gap_address` and `gap_site`, seconds that had to lie between the start of this
request and the start of the next, where an address is shared by many sites or a site has many hosts (their requests
overlap, and what is due changes); `crawl_delay` (seconds) of a robots.txt, as it is kept, and `crawl_delay_asked` if it
asks for more; `damaged=1` of a robots.txt whose content coding is, which closes its host; `robots_of=another` of a
robots.txt that was asked for because that of another host redirected to it, and that says nothing of its own host;
`retry_after` of an answer that throttles, in seconds if the server gave a date and told its own time. `faults` are
those of a response that was taken all the same, words joined by `+` (worker/fetch/repair.py), `wishes` those of the
page's owner about its use, joined alike (web/wishes.py); `canonical` is the URL of which a page calls itself an alias
(rel=canonical), where that is another one, `redirect` the one to which the server sends on. What was left out of a page
is told with its number: `truncated` (why its body is not whole), and those of worker/harvest/counters.CUT. Where a
proxy resolves names, `address` is 100::…, one for each name.

Of a page that was visited before, `visit` says which visit it is (or, without a response, would have been), and
`change` what it found: none (304), same (the same bytes), near (the same but for its frame, dates and digits), yes,
gone (404 or 410), error. The first visit of a page that was withheld, and is visited again all the same, has `page`, an
annotation without a value. What has no payload of its own in the archive has, as in Heritrix, `warcRevisit:notModified`
or `warcRevisit:digest`, without a value, too; the latter also where another URL had the same payload.

A failure that passes has the outcome `retry`, and in `due` the time before which the URL is not asked again. With
`fetched`, `failed` or `excluded` a URL is done: that is its last word, unless a later line has the outcome `returned`,
which says that it was put back, and in `was` the class it had (last_words.py).

This file is about lines; log_parts.py is about the files they stand in.
"""

from __future__ import annotations

import calendar
import math
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from irlcrawl.base.keys import is_home, is_host, origin_of, priority_of
from irlcrawl.base.reasons import Class, Reason
from irlcrawl.base.rows import DISCOVERY_LETTER, Carried, Source
from irlcrawl.web.retry_after import THROTTLES, as_logged
from irlcrawl.worker.archive.unit import Exchange, Location, Unit

RETRY_AFTER_CHARS = 64
NONE = "-"

_PLAIN = re.compile(rb"[!-\[\]-~]+")
_PLAIN_VALUE = re.compile(rb"[!-+\--\[\]-~]*")  # of an annotation: no comma
_NOT_PLAIN = re.compile(rb"[^!-+\--\[\]-~]")
_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")
_LOGGED = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\.(\d{3})Z")
_STARTED = re.compile(r"(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d{3})\+(\d+)")
_CLASS_NAMES = {int(cls): cls.name.lower() for cls in Class}
_SOURCES = {letter: source for source, letter in DISCOVERY_LETTER.items()}
_REASON_NAMES = {int(reason): reason.name.lower() for reason in Reason}
_OUTCOMES, _REASONS = frozenset(_CLASS_NAMES.values()), frozenset(_REASON_NAMES.values())
_WARC = re.compile(r"(.+)@(\d+)\+(\d+)")
_KEPT_BY_REDIRECTS = (Source.REQUISITE, Source.SITEMAP)
"""Sources that the target of a redirect has, too."""


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
        """fetched, failed, excluded, retry or none (robots.txt): reasons.Class in lower case."""
        return self.notes.get("outcome", "")

    @property
    def reason(self) -> str:
        """reasons.Reason in lower case."""
        return self.notes.get("reason", "")

    @property
    def warc(self) -> tuple[str, int, int] | None:
        """(file, offset, length) of the record in the archive; None for an outcome without a record there."""
        match = _WARC.fullmatch(self.notes.get("warc", ""))
        return (match[1], int(match[2]), int(match[3])) if match else None


def line(unit: Unit, exchange: Exchange | None, location: Location, cut: Mapping[str, str] | None = None) -> bytes:
    """The line, without newline, of an outcome with a unit in the archive. It depends on nothing but the arguments, so
    replay logs the same line. `cut`: annotations for what was left out of a page."""
    notes = outcome_notes(unit.cls, unit.reason, hop=unit.carried.hop, attempt=unit.carried.attempt)
    if unit.size is not None:
        notes["warcRevisit:notModified" if unit.header else "warcRevisit:digest"] = ""
    if unit.page is not None:
        notes["visit"] = str(unit.page.visits + 1)
    if unit.retry_due is not None:
        notes["due"] = _iso(int(unit.retry_due * 1000))
    if exchange is not None and exchange.truncated:
        notes["truncated"] = exchange.truncated
    notes |= cut or {}
    if unit.faults:
        notes["faults"] = unit.faults
    if unit.wishes:
        notes["wishes"] = unit.wishes
    if unit.detail:
        notes["detail"] = unit.detail
    if address := (exchange.ip if exchange is not None else "") or unit.address:
        notes["address"] = address
    for kind, gap in (unit.paces or {}).items():
        notes[f"gap_{kind}"] = f"{math.floor(gap * 1e6) / 1e6:g}"  # never more: an audit adds up thousands of them
    # A robots.txt that another host redirected to speaks for that one.
    if unit.robots is not None and not is_host(unit.host, origin_of(unit.url)):
        notes["robots_of"] = "another"
    elif unit.robots is not None:
        for name in ("crawl_delay", "crawl_delay_asked", "damaged"):
            if unit.robots.get(name):
                notes[name] = f"{unit.robots[name]:g}"
    throttled = unit.reason == Reason.THROTTLED or (exchange is not None and exchange.status in THROTTLES)
    if throttled and exchange is not None and (after := exchange.value(b"retry-after")):
        date = (exchange.value(b"date") or b"").decode("latin-1")
        notes["retry_after"] = as_logged(after.decode("latin-1"), date)[:RETRY_AFTER_CHARS]
    notes["warc"] = f"{location.file}@{location.record}+{location.end - location.record}"
    start_ms = int(unit.start * 1000)
    return format_entry(
        LogEntry(
            logged_ms=start_ms + unit.duration_ms,
            status=unit.status,
            size=None if exchange is None else len(exchange.body) if unit.size is None else unit.size,
            url=unit.url,
            path=discovery_path(unit.carried.depth, unit.carried.hop, unit.carried.source),
            via=unit.carried.via,
            mime=(exchange.mime or "unknown") if exchange is not None else "",
            stream=location.stream,
            start_ms=start_ms,
            duration_ms=unit.duration_ms,
            digest=location.digest,
            notes=notes,
        )
    )


class Decision(NamedTuple):
    """How a URL was reached, and the outcome it got without a worker."""

    cls: int
    reason: int
    status: int
    depth: int
    hop: int
    source: int
    attempt: int = 0
    via: bytes = b""
    was: int = Class.NONE  # of a URL that is put back: the class it had
    visit: int = 0  # of a page that is visited no more: how often it was


LOGGED = Decision._fields[3:-2]
"""The columns of a link row that its line tells."""


def decided_lines(urls: Iterable[bytes], decisions: Iterable[Decision], at: float) -> list[bytes]:
    """Lines, without newlines, of URLs without a unit in the archive; decided at `at` (unix seconds)."""
    lines, known = [], dict[Decision, tuple[bytes, bytes, bytes]]()
    # A Python loop per URL: each line is a piece of text of its own.
    for url, decision in zip(urls, decisions, strict=True):
        alike = decision._replace(via=b"")
        parts = known.get(alike)
        if parts is None:
            parts = known[alike] = _parts(alike, at)
        before, path, behind = parts
        lines.append(before + field_of(url) + path + field_of(decision.via) + behind)
    return lines


def _parts(one: Decision, at: float) -> tuple[bytes, bytes, bytes]:
    """The parts of a line before the URL, between URL and via, and behind: many lines have the same."""
    notes = outcome_notes(one.cls, one.reason, hop=one.hop, attempt=one.attempt)
    if one.cls == Class.RETURNED:
        notes["was"] = _CLASS_NAMES[one.was]
    if one.visit:
        notes["visit"] = str(one.visit)
    known = discovery_path(one.depth, one.hop, one.source)
    entry = LogEntry(int(at * 1000), one.status, None, b"", known, notes=notes)
    logged, status, size, _, path, _, behind = format_entry(entry).split(b" ", 6)
    return b" ".join((logged, status, size, b"")), b" " + path + b" ", b" " + behind


def outcome_notes(cls: int, reason: int, *, hop: int, attempt: int) -> dict[str, str]:
    notes = {"outcome": _CLASS_NAMES[cls], "reason": _REASON_NAMES[reason]}
    if hop:
        notes["hop"] = str(hop)
    if attempt:
        notes["attempt"] = str(attempt)
    return notes


def discovery_path(depth: int, hop: int, source: int) -> str:
    """How the URL was reached: letters for the redirects since the last link, or for that link; before them the number
    of earlier links, whose kind is not known any more. Empty for a seed. The letters of a requisite, and of what a
    sitemap or a robots.txt named, are all of that kind."""
    if hop:
        known, links = (
            DISCOVERY_LETTER[Source(source) if source in _KEPT_BY_REDIRECTS else Source.REDIRECT] * hop,
            depth,
        )
    elif depth:
        known, links = DISCOVERY_LETTER[Source(source)], depth - 1
    else:
        known, links = "", 0
    return f"{links}+{known}" if links else known


def carried_of(entry: LogEntry) -> Carried:
    """What the link row of the URL said of it, as far as its line tells: the way it was found. Raises BadLine."""
    links, plus, known = entry.path.rpartition("+")
    try:
        before, hop = int(links) if plus else 0, int(entry.notes.get("hop", 0))
        source = _SOURCES[(known[:1] if hop else known) or NONE]
    except (KeyError, ValueError):
        raise BadLine(f"no discovery path: {entry.path[:200]!r}") from None
    depth = before if hop or not known else before + 1
    return Carried(depth, hop, source, priority_of(depth, source, is_home(entry.url)), via=entry.via)


def is_seed(entry: LogEntry) -> bool:
    """Whether no link led to the URL: a seed, or a redirect's target from one."""
    return not entry.path.strip(DISCOVERY_LETTER[Source.REDIRECT])


def logged_time(entry: LogEntry) -> str:
    """ISO 8601, UTC, milliseconds."""
    return _iso(entry.logged_ms)


def _iso(unix_ms: int) -> str:
    seconds, ms = divmod(unix_ms, 1000)
    return f"{_digits(seconds, '%Y-%m-%dT%H:%M:%S')}.{ms:03d}Z"


def format_entry(entry: LogEntry) -> bytes:
    """A line without newline."""
    started = NONE
    if entry.start_ms is not None:
        seconds, ms = divmod(entry.start_ms, 1000)
        started = f"{_digits(seconds, '%Y%m%d%H%M%S')}{ms:03d}+{entry.duration_ms}"
    return b" ".join((
        f"{logged_time(entry)} {entry.status} {NONE if entry.size is None else entry.size}".encode(),
        field_of(entry.url), field_of(entry.path), field_of(entry.via), field_of(entry.mime),
        f"#{entry.stream:03d} {started}".encode() if entry.stream is not None else f"{NONE} {started}".encode(),
        field_of(entry.digest), field_of(entry.tag), _notes_of(entry.notes) or b"-",
    ))  # fmt: skip


def _notes_of(notes: Mapping[str, str]) -> bytes:
    """All at once if no value is to be escaped, as nearly always."""
    text = ",".join([f"{name}={value}" if value else name for name, value in notes.items()])
    joined = text.encode("utf-8", "surrogateescape")
    if joined.count(b",") < max(len(notes), 1) and _PLAIN.fullmatch(joined):
        return joined
    return b",".join(
        name.encode() + b"=" + _escaped(value, _PLAIN_VALUE) if value else name.encode()
        for name, value in notes.items()
    )


def parse(line: bytes) -> LogEntry:
    """The entry of one line (with or without newline). Raises BadLine."""
    line = line.removesuffix(b"\n")
    if not (line.isascii() and line.decode().isprintable()):
        raise BadLine(f"a line of a crawl log is printable ASCII: {line[:200]!r}")
    logged, status, size, url, path, via, mime, stream, started, digest, tag, notes = split_line(line)
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


def started_of(line: bytes) -> int | None:
    """When the request of a line began, in unix milliseconds; None if there was none. Raises BadLine."""
    try:
        return _parse_started(split_line(line)[8])[0]
    except ValueError as error:
        raise BadLine(f"{error}: {line[:200]!r}") from error


def url_of(line: bytes) -> bytes:
    """The URL of a line, which is not looked at any further. Raises BadLine."""
    fields = line.split(b" ", 4)
    return _unescaped((fields if len(fields) == 5 else split_line(line))[3])


def split_line(line: bytes) -> list[bytes]:
    """The twelve fields as they are written. Raises BadLine."""
    fields = line.split(b" ")
    if len(fields) != 12:
        raise BadLine(f"a line of a crawl log has 12 fields, not {len(fields)}: {line[:200]!r}")
    return fields


def field_of(value: bytes | str) -> bytes:
    """A field's value as it is written: `-` for none; a value that is `-` itself is escaped."""
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
    if (outcome := notes.get("outcome")) is not None and not (
        outcome in _OUTCOMES and notes.get("reason") in _REASONS
    ):  # fmt: skip
        raise ValueError("no such outcome or reason")
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
