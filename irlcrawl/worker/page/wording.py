"""What a page says, for telling a change from another wording of the same: a fingerprint without its frame, its dates
and its digits.

Of two visits of one page more is alike than of two pages of one site, so this looks closer than fingerprint.py: at
short texts, too. It leaves out what turns without the page being another one: digits, the words of dates beside them,
and what stands in `nav`, `aside` and `footer`, in scripts and styles.
"""

from __future__ import annotations

import re
from itertools import filterfalse

import xxhash

from irlcrawl.worker.page.fingerprint import BODY_BYTES_MAX, DIGITS, PIECE

BLANKS = b" \t\r\n\f"
TEXTS_BYTES_MIN = 64
"""A page that says less is told by all its bytes, digits apart."""
FRAMES_MAX = 2000
"""Tags of a page that are looked at to find its frame: what is behind them belongs to the page."""

_FRAME = re.compile(rb"<(/?)(?=[anfst])(nav|aside|footer|script|style|noscript|template)(?=[\s>/])")
_TEXT = re.compile(rb">\s*+([^<\s][^<]{7,}+)")
_DIGIT = re.compile(rb"[0-9]").search
_LETTERS = bytes(c if chr(c).isalpha() or c >= 0x80 else 0x20 for c in range(256))
_DATES = frozenset(
    b"""jan feb mar apr may jun jul aug sep sept oct nov dec january february march april june july august september
    october november december mon tue tues wed thu thur thurs fri sat sun monday tuesday wednesday thursday friday
    saturday sunday am pm a p m gmt utc cet cest est edt pst pdt st nd rd th t z uhr h min s ago just now today
    yesterday second seconds minute minutes hour hours day days week weeks month months year years
    januar februar m\xc3\xa4rz mai juni juli oktober dezember montag dienstag mittwoch donnerstag freitag samstag
    sonntag janvier f\xc3\xa9vrier mars avril juin juillet ao\xc3\xbbt septembre octobre novembre d\xc3\xa9cembre
    enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre de""".split()
)


def wording(body: bytes, html: bool = True) -> int:
    """u8, never 0, of a decoded body. html: of its texts; else of all of it, digits apart. Linear in its length."""
    if html:
        plain, dated = _texts(_without_frame(body[:BODY_BYTES_MAX].lower()))
        said = plain.translate(None, BLANKS) + _undated(dated)
        if len(said) >= TEXTS_BYTES_MIN:
            return xxhash.xxh3_64_intdigest(said) or 1
    hasher = xxhash.xxh3_64()
    for start in range(0, len(body), PIECE):
        hasher.update(body[start : start + PIECE].translate(None, DIGITS))
    return hasher.intdigest() or 1


def _texts(body: bytes) -> tuple[bytes, bytes]:
    """The texts without digits, each once in order of appearance, one behind the other; and those with digits."""
    plain: list[bytes] = []
    dated: list[bytes] = []
    for text in dict.fromkeys(_TEXT.findall(body)):
        (dated if _DIGIT(text) else plain).append(text)
    return b"".join(plain), b" ".join(dated)


def _undated(text: bytes) -> bytes:
    """Lower-case text without digits and the words of dates."""
    return b"".join(filterfalse(_DATES.__contains__, text.translate(_LETTERS).split()))


def _without_frame(body: bytes) -> bytes:
    """An element of the frame ends with the last end tag of its name that it begins with, or not at all: then it is
    none."""
    kept: list[bytes] = []
    at, name, begin, depth = 0, b"", 0, 0
    for number, tag in enumerate(_FRAME.finditer(body)):
        if number == FRAMES_MAX:
            break
        closes, found = tag[1], tag[2]
        if not name:
            if not closes:
                name, begin, depth = found, tag.start(), 1
        elif found == name:
            depth += -1 if closes else 1
            if not depth:
                kept.append(body[at:begin])
                at, name = tag.start(), b""
    kept.append(body[at:])
    return b"".join(kept)
