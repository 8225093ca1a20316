"""A unit, the traces of one outcome in the archive: the shapes that worker, replay and readers share.

A unit is everything that a leased URL (or a robots.txt) left behind, appended at once: a request and its response, or
one metadata record for an outcome without a response. Its last record carries `Irlcrawl-Unit: {json}`, from which
replay makes the same harvest that was lost; the presence of that field says that the unit is whole.
"""

from __future__ import annotations

import json
import re
from dataclasses import MISSING, dataclass, field, fields, replace
from operator import attrgetter
from typing import Any, Final

import orjson

from irlcrawl.base.rows import Carried
from irlcrawl.base.steps import Steps, at_once
from irlcrawl.web.coding import decoding
from irlcrawl.web.media_type import essence, extracted
from irlcrawl.worker.archive.known import Known

TRUNCATED: Final = ("length", "time", "disconnect", "unspecified")
"""WARC-Truncated: the body hit its byte bound, its deadline, or a connection that closed early; or it is not
wanted."""

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_STATUS = re.compile(rb"(?i:HTTP)/\d(?:\.\d)?[ \t\r\n]+(\d{3})(?!\d)(?:[ \t]+([^\r\n]*))?")
"""As lax as what is taken for a status line (worker/fetch/repair.py), where it is folded, too."""


@dataclass(slots=True)
class Unit:
    """Where a URL came from, what it was leased as, and its outcome. Enumerations are those of the room base."""

    url: bytes  # canonical, ASCII; WARC-Target-URI
    segment: int  # the ready segment leased from; rows.NO_SEGMENT when no URL stands behind it
    row: int  # its row there
    key: int
    host: int
    carried: Carried  # as of this request; in JSON each of its columns is a field
    cls: int  # reasons.Class
    reason: int  # reasons.Reason
    status: int  # HTTP status, or the negative code of the crawl log
    start: float  # unix seconds: the request went out, or the decision was made
    duration_ms: int = 0
    retry_due: float | None = None  # unix seconds, when cls is RETRY
    robots: dict[str, Any] | None = None  # the host fact this unit brought (rows.FACT columns), JSON values
    detail: str = ""  # what went wrong, for people
    address: str = ""  # the address tried, where no exchange tells it
    faults: str = ""  # what is wrong with the response, and was taken all the same: words joined by `+`
    paces: dict[str, float] | None = None  # Lease.paces, where the request was made
    page: Known | None = None  # of a page that is visited again: what was known of it
    # Of a revisit record, by the writer of the archive:
    size: int | None = None  # bytes of the body as received, which is not stored
    original: int | None = None  # where in the same file the record begins that holds it; None: an older visit does
    holder: tuple[str, int] | None = None  # of another file of this crawl: its name, and where the record begins there
    own: float | None = None  # of a payload that one of them holds: that record's WARC-Date, if it is of the same URL
    away: bool = False  # an earlier crawl holds it (payloads.py), or an earlier run of this one
    header: str = ""  # of a 304 as received: its record has none, for replay tools would send the 304 on
    wishes: str = ""  # of the page's owner about its use (web/wishes.py)

    @property
    def borrowed(self) -> bool:
        """Whether the record of another URL holds its payload."""
        return self.original is not None or self.holder is not None or self.away

    def to_json(self) -> str:
        """One line of ASCII, without the URL (the record has it) and without fields at their default."""
        values: dict[str, Any] = self.carried.to_json()
        values.update(zip(_REQUIRED, _required_of(self), strict=True))
        for name, value, default in zip(_OPTIONAL, _optional_of(self), _DEFAULTS, strict=True):
            if value is not default and value != default:
                values[name] = value
        if self.page is not None:
            values["page"] = self.page.to_json()
        return _packed(values)

    @classmethod
    def from_json(cls, text: str | bytes, url: bytes) -> Unit:
        """ValueError when `text` is not a unit. Unknown fields are ignored: a later version may have added them."""
        try:
            values = json.loads(text)
        except RecursionError:
            raise ValueError("a unit is not so deep") from None
        if not isinstance(values, dict):
            raise ValueError("a unit is a JSON object")
        try:
            own = {n: v for n, v in values.items() if n in _KNOWN}
            if own.get("holder") is not None:
                file, offset = own["holder"]
                own["holder"] = str(file), int(offset)
            page = Known.from_json(values["page"]) if "page" in values else None
            return cls(url=url, carried=Carried.from_json(values), page=page, **own)
        except TypeError as error:
            raise ValueError(f"not a unit: {error}") from None


_OWN: Final = tuple(f for f in fields(Unit) if f.name not in ("url", "carried", "page"))
_KNOWN: Final = frozenset(f.name for f in _OWN)
_REQUIRED: Final = tuple(f.name for f in _OWN if f.default is MISSING)
_OPTIONAL: Final = tuple(f.name for f in _OWN if f.default is not MISSING)
_DEFAULTS: Final = tuple(f.default for f in _OWN if f.default is not MISSING)
_required_of, _optional_of = attrgetter(*_REQUIRED), attrgetter(*_OPTIONAL)


def _packed(values: dict[str, Any]) -> str:
    """One line of printable ASCII as json writes it; by orjson, which takes a seventh of the time, where its line shows
    that json's is the same. orjson leaves DEL and what is not ASCII as they are, and makes null of a number that is
    infinite or none, which json refuses. (No value of a unit is null.)"""
    try:
        line = orjson.dumps(values)
    except TypeError:  # half of a surrogate pair, a number of more than 64 bits
        return _encode(values)
    return line.decode() if line.isascii() and b"\x7f" not in line and b"null" not in line else _encode(values)


@dataclass(slots=True)
class Exchange:
    """One request and its response, as received, except that the body's transfer coding is undone."""

    url: bytes
    ip: str
    request: bytes  # request line, header and blank line (and body, if any), as sent
    header: bytes  # status line, header lines as received, and the blank line that ends them
    body: bytes  # transfer coding taken off, content coding still on
    truncated: str | None = None  # one of TRUNCATED
    start: float = 0.0  # unix seconds: the request went out
    duration: float = 0.0  # seconds until the last byte of the response; replay gives it to the millisecond
    protocol: str = ""  # by its name in ALPN; empty: HTTP/1.1. Its header is as HTTP/1.1 would have carried it
    _status: int = field(default=-1, init=False, repr=False, compare=False)
    _fields: list[tuple[bytes, bytes]] | None = field(default=None, init=False, repr=False, compare=False)
    _firsts: dict[bytes, bytes] = field(default_factory=dict, init=False, repr=False, compare=False)  # with _fields
    _mime: str | None = field(default=None, init=False, repr=False, compare=False)
    _decoded: tuple[bytes, bool] | None = field(default=None, init=False, repr=False, compare=False)
    _begun: Steps[tuple[bytes, bool]] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def status(self) -> int:
        """The HTTP status; 0 when the status line has none."""
        if self._status < 0:
            match = _STATUS.match(self.header)
            self._status = int(match[1]) if match else 0
        return self._status

    @property
    def fields(self) -> list[tuple[bytes, bytes]]:
        """(name in lower case, value) per header line in order; folded lines joined by a space, others skipped."""
        if self._fields is None:
            self._fields = self._read_fields()
            self._firsts = dict(reversed(self._fields))
        return self._fields

    def _read_fields(self) -> list[tuple[bytes, bytes]]:
        found: list[tuple[bytes, bytes]] = []
        folded: list[bytes] = []  # the last value, and the lines that go on with it
        for line in self.header.split(b"\n")[1:]:
            if line[:1] in (b" ", b"\t"):
                if found and (more := line.strip()):
                    folded = folded or [value for value in (found[-1][1],) if value]
                    folded.append(more)
                continue
            if folded:
                found[-1] = (found[-1][0], b" ".join(folded))
                folded = []
            name, colon, value = line.partition(b":")
            if colon:
                found.append((name.strip().lower(), value.strip()))
        if folded:
            found[-1] = (found[-1][0], b" ".join(folded))
        return found

    def values(self, name: bytes) -> list[bytes]:
        """Every value of one header (name in lower case), in order."""
        fields = self.fields
        return [value for n, value in fields if n == name] if name in self._firsts else []

    def value(self, name: bytes) -> bytes | None:
        """The first value of one header (name in lower case)."""
        if self._fields is None:
            _ = self.fields
        return self._firsts.get(name)

    @property
    def coding(self) -> str:
        """Content-Encoding, all lines of it; empty without one."""
        return b", ".join(self.values(b"content-encoding")).decode("latin-1")

    def decoded(self, bytes_max: int) -> tuple[bytes, bool]:
        """The body with its content coding undone, as web/coding.decode gives it; each caller has the same bound."""
        return at_once(self.decoding(bytes_max))

    def decoding(self, bytes_max: int) -> Steps[tuple[bytes, bool]]:
        """decoded(), in steps."""
        if self._decoded is None:
            if self._begun is None:
                self._begun = decoding(self.body, self.coding, bytes_max)
            self._decoded = yield from self._begun
        return self._decoded

    def decoded_soon(self, bytes_max: int) -> bytes | None:
        """The body of decoded(), if one step makes it; None: it takes more, and the rest is left to decoding()."""
        if self._decoded is None and self._begun is None:
            self._begun = decoding(self.body, self.coding, bytes_max)
            try:
                next(self._begun)
            except StopIteration as done:
                self._decoded = done.value
        return None if self._decoded is None else self._decoded[0]

    @property
    def mime(self) -> str:
        """The essence of Content-Type in lower case, `type/subtype`; empty without one."""
        if self._mime is None:
            self._mime = essence(self.content_type)
        return self._mime

    @property
    def content_type(self) -> str:
        """Content-Type, of several the one that counts (web/media_type.py); empty without one."""
        return extracted([value.decode("latin-1") for value in self.values(b"content-type")])


def without_body(exchange: Exchange) -> Exchange:
    """The same as far as its header."""
    return replace(exchange, body=b"", truncated=exchange.truncated or "unspecified")


@dataclass(frozen=True, slots=True)
class Location:
    """The place of a unit: bytes [offset, offset + length) of `file`, which is called `file`.open while it is written
    to."""

    file: str  # name inside the archive directory, without `.open`
    stream: int
    serial: int
    offset: int
    length: int
    record: int  # where the unit's last record (response or metadata) begins
    digest: str  # WARC-Payload-Digest of the response, `sha1:BASE32`; empty without a response

    @property
    def end(self) -> int:
        return self.offset + self.length

    @property
    def position(self) -> tuple[int, int]:
        """(serial, offset) just behind this unit: the position that a harvest names if this unit is its last."""
        return self.serial, self.end
