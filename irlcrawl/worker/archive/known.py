"""What is known of a page that is visited again: as it goes with its lease to the worker, and with its unit into the
archive, so that a replayed visit is compared with the same.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from irlcrawl.base.rows import BYTES, PAGE, PageFlag

ETAG_BYTES_MAX = 64
"""Longer ones are not kept: of a page with such a one only Last-Modified is asked for."""
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
DIGEST_BYTES, REST_BYTES = 8, 12
"""A SHA-1 in two pieces: the one that every page keeps, and the one that stands before its ETag."""


class Known(NamedTuple):
    """Columns of rows.PAGE, as they were at the visit before."""

    visits: int = 0
    stored: float = 0.0  # 0: no record of its own holds the payload whole, so that nothing may refer to one
    digest: int = 0
    content: int = 0
    modified: int = 0
    flags: int = 0
    validators: bytes = b""
    hub: bytes = b""

    @property
    def sha1(self) -> bytes | None:
        """Of the payload of the last full record; None where only a part of it is kept."""
        rest = self.validators[:REST_BYTES]
        return self.digest.to_bytes(DIGEST_BYTES, "big") + rest if len(rest) == REST_BYTES else None

    def holds(self, sha1: bytes) -> bool:
        """Whether a payload of this digest is the one of the last full record, as far as is kept of it."""
        rest = self.validators[:REST_BYTES] or sha1[DIGEST_BYTES:]
        return sha1[:DIGEST_BYTES] == self.digest.to_bytes(DIGEST_BYTES, "big") and sha1[DIGEST_BYTES:] == rest

    @property
    def unknown(self) -> bool:
        """Whether nothing is known of what it was: it was fetched before pages were visited again."""
        return self.visits == 1 and not (self.digest or self.content)

    @property
    def etag(self) -> bytes:
        return self.validators[REST_BYTES:]

    def to_json(self) -> dict[str, Any]:
        """By column, without those that are 0 or empty; bytes in base64."""
        told: dict[str, Any] = {name: value for name, value in zip(COLUMNS, self, strict=True) if value}
        for name in told.keys() & _BYTES:
            told[name] = base64.b64encode(told[name]).decode()
        return told

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Known:
        """ValueError, TypeError if it is none."""
        own: dict[str, Any] = {name: values[name] for name in COLUMNS if name in values}
        for name in own.keys() & _BYTES:
            own[name] = base64.b64decode(own[name])
        return cls(**own)


COLUMNS: Final = Known._fields
_BYTES: Final = frozenset(name for name in COLUMNS if PAGE[name] == BYTES)


def conditions(known: Known | None, every: int) -> tuple[tuple[str, str], ...]:
    """The header fields (RFC 9110 13.1) that ask for a page only if it changed; empty where it is to be asked for
    unconditionally. every: revisit.unconditional_every."""
    if known is None or not known.flags & PageFlag.VALIDATOR or not known.stored or len(known.validators) < REST_BYTES:
        return ()
    if every and (known.visits + 1) % every == 0:
        return ()
    asked = []
    if known.etag:
        asked.append(("If-None-Match", known.etag.decode("ascii")))
    if 0 < known.modified <= known.stored:  # a date in the future is none that a server compares (RFC 9110 13.1.3)
        asked.append(("If-Modified-Since", _http_date(known.modified)))
    return tuple(asked)


def _http_date(at: int) -> str:
    """Unix seconds as IMF-fixdate (RFC 9110 5.6.7), in half the time of email.utils.formatdate."""
    year, month, day, hour, minute, second, weekday, _, _ = time.gmtime(at)
    return f"{_DAYS[weekday]}, {day:02} {_MONTHS[month - 1]} {year:04} {hour:02}:{minute:02}:{second:02} GMT"
