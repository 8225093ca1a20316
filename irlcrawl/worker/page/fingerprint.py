"""What tells that two pages say the same: a fingerprint of a page's texts, numbers apart.

Pages of a calendar, of a list, behind a session id or of a mirror say the same between other links. So of a page in
HTML count its title, if that has no digits, and its distinct texts in the order in which they first appear: the long
stretches between two tags, digits and blanks left out, scripts and styles too. Short ones are labels, prices, dates
with the names of their months; how often a text stands there says nothing ("read more" below each of twelve entries).

A page whose texts differ in one word has another fingerprint. What lets a few words go is sketch.py, by option.
"""

from __future__ import annotations

import re

import xxhash

DIGITS = b"0123456789"
DIGITS_AND_BLANKS = DIGITS + b" \t\r\n\f"
PIECE = 64 << 10
"""Of a page at a time: a copy of all of a large one would be new pages of memory each time (base/memory.py)."""
TEXTS_BYTES_MIN = 64
"""A page with less text is told by all its bytes, digits apart: its markup may be all it has to say."""
BODY_BYTES_MAX = 1 << 20
"""Bytes of a page in which texts are looked for."""
TITLE_WITHIN = 16 << 10
"""Bytes in which a page's title is looked for."""

_TEXTS = re.compile(rb">[^<]{20,}+(?:<(?=/s(?:cript|tyle)))?+")
"""In bytes: one search for a single byte a tag. That byte counts as well, without a group that would leave it out. A
script that has a `<` gives texts that nobody reads: a miss at worst."""
_UNREAD = ord("<")
"""The last byte of what is no text. It is found and left out: a search that refused it would begin again at each `>` in
it."""


def fingerprint(body: bytes, html: bool = True, texts: list[bytes] | None = None) -> int:
    """u8, never 0, of a decoded body. html: by its title and texts (texts_of, if they are known); else by all of it,
    digits apart."""
    if html:
        said = b"".join(texts_of(body) if texts is None else texts).translate(None, DIGITS_AND_BLANKS)
        if len(said) >= TEXTS_BYTES_MIN:
            return xxhash.xxh3_64_intdigest(_title(body) + said) or 1
    hasher = xxhash.xxh3_64()
    for start in range(0, len(body), PIECE):
        hasher.update(body[start : start + PIECE].translate(None, DIGITS))
    return hasher.intdigest() or 1


def texts_of(body: bytes) -> list[bytes]:
    """The distinct long texts of a page in order, each with the byte before it."""
    found = dict.fromkeys(_TEXTS.findall(body, 0, BODY_BYTES_MAX))
    return [text for text in found if text[-1] != _UNREAD]


def _title(body: bytes) -> bytes:
    """Empty if it has digits: it may be a date, or the number of a page."""
    start = body.find(b"<title", 0, TITLE_WITHIN)
    if start < 0:
        return b""
    title = body[start : body.find(b"<", start + 1, TITLE_WITHIN)]
    return title if len(title.translate(None, DIGITS)) == len(title) else b""
