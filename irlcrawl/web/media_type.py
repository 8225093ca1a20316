"""The media type that a Content-Type names. One that names none is as good as no header: the body says what it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

JOINED_CHARS_MAX = 4096
LOOK_CHARS = 256
"""RFC 6838 (4.2) allows 127 for a type, and as many for a subtype."""
_ESSENCE = re.compile(r"\s*([\w!#$%&'*+.^`|~-]+/[\w!#$%&'*+.^`|~-]+)(?:[\s;,(]|$)", re.ASCII)
_UNKNOWN = ("*/*", "application/unknown", "unknown/unknown")


_PART = re.compile(r'(?:[^,"]|"[^"]*"?)+')
_CHARSET = "charset"


def extracted(values: Sequence[str]) -> str:
    """What the values of Content-Type come to, of one header line or several: the last that names a type, and the
    charset that an earlier one of the same type said (Fetch standard, "extract a MIME type"). The first as it is where
    none does: it may name a charset. Empty without a value."""
    if len(values) == 1 and "," not in values[0]:
        return values[0]
    chosen = ""
    for part in _PART.findall(", ".join(values)[:JOINED_CHARS_MAX]):
        if named := essence(part):
            same = named == essence(chosen) and _CHARSET in chosen.lower() and _CHARSET not in part.lower()
            chosen = chosen if same else part.strip()
    return chosen or (values[0] if values else "")


def essence(content_type: str) -> str:
    """`type/subtype` of a Content-Type value in lower case (WHATWG MIME sniffing 4.4); of several values joined into
    one the first. As in Chromium a space ends it, where a semicolon is missing. Empty for what names no type
    (`charset=utf-8`, `html`), and for the types that mean an unknown one (5.1)."""
    return _essence(content_type[:LOOK_CHARS])


@lru_cache(maxsize=1024)
def _essence(head: str) -> str:
    found = _ESSENCE.match(head)
    named = found[1].lower() if found is not None else ""
    return "" if named in _UNKNOWN else named
