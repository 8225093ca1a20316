"""Retry-After as servers write it: for the worker that reads it, and for the audit of what was kept of it."""

from __future__ import annotations

import email.utils
from datetime import UTC

DIGITS_MAX = 12


def seconds_asked(value: str, now: float) -> float | None:
    """Seconds from `now` (unix) that a Retry-After asks for, a number or a date (RFC 9110 10.2.3); None if it is
    neither."""
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value[:DIGITS_MAX])
    try:
        at = email.utils.parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    at = at.replace(tzinfo=at.tzinfo or UTC)  # asctime's has no zone: all dates of HTTP are in UTC (RFC 9110 5.6.7)
    return max(at.timestamp() - now, 0.0)
