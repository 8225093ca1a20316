"""Retry-After as servers write it: read by the worker, kept by the crawl log, checked by the audit."""

from __future__ import annotations

import email.utils
import re
from datetime import UTC

THROTTLES = frozenset((429, 503))
"""The statuses with which a server asks for fewer requests."""
MAY_THROTTLE = frozenset((403, *THROTTLES))
"""With these, and with any 5xx, a Retry-After asks for fewer requests, too. A 403 that has one limits rates; one with
each 404 would close a host."""
DIGITS_MAX = 12
_SECONDS = re.compile(r"(\d+)(?:\.\d*)?[ \t]*(?:s|secs?|seconds?)?(?:[ \t]*[,;].*)?", re.ASCII | re.IGNORECASE)
"""Also `2.0`, `120s` and `60, 60`, as servers write them and curl reads them."""


def seconds_asked(value: str, now: float, date: str = "") -> float | None:
    """Seconds that a Retry-After asks for, written as a number or a date (RFC 9110 10.2.3); None if it is neither.

    A date counts by the server's clock, which its `date` field tells. If that field is missing or wrong, `now` (unix)
    stands in for it. Neither clock need be right.
    """
    value = value.strip()
    if (number := _SECONDS.fullmatch(value)) is not None:
        return float(number[1][:DIGITS_MAX])
    at = unix_date(value)
    if at is None:
        return None
    sent = unix_date(date)
    return max(at - (now if sent is None else sent), 0.0)


def as_logged(value: str, date: str) -> str:
    """The text for the crawl log: seconds if the server's own `date` tells them, else the header as the server wrote
    it."""
    if (number := _SECONDS.fullmatch(value.strip())) is not None:
        return number[1]
    if unix_date(date) is None:
        return value
    seconds = seconds_asked(value, 0.0, date)
    return value if seconds is None else f"{seconds:.0f}"


def unix_date(date: str) -> float | None:
    """Unix seconds of a date as HTTP headers have it; None if it is none."""
    try:
        at = email.utils.parsedate_to_datetime(date)
        # asctime's has no zone: all dates of HTTP are in UTC (RFC 9110 5.6.7)
        return at.replace(tzinfo=at.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError):
        return None
