"""Whether a parser of HTML takes time and memory that go with a page's length; if not, it works in a process of its own
(bounded.py).

The rules of HTML let a few bytes make a parser work for hours or fill memory: it looks through all elements that are
open, and each paragraph opens the `<b>` and `<font>` anew that none ended (WHATWG HTML 13.2.4.2, 13.2.4.3).
"""

from __future__ import annotations

from irlcrawl.export.media.extras import compiled, needed

TAME_BYTES = 256 << 10
"""A smaller page takes a parser seconds at most, however its elements lie."""
CLONES_MAX = 1_000_000
"""Formatting elements that a parser may open anew, some 400 bytes each: at a tag, all that are open."""

_FORMATS = "b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u"
"""Elements that are opened anew; but for `a`, of which each ends the one before."""
_INLINE = r"""(?:\s++[\w:-]++(?:=(?:"[^"<>]*+"|'[^'<>]*+'|[^\s"'<>=`/]++))?+)*+\s*+>"""
_LEFT_OPEN = rf"""(?i)<(?=[bcefinstu])(?:({_FORMATS}){_INLINE}(?:[^<]++|<(a|span|{_FORMATS}){_INLINE}[^<]*+</\2>)*+</\1>
(*SKIP)(*FAIL)|(?:{_FORMATS})[\s/>])""".replace("\n", "").encode()
"""The tag of a formatting element that does not end after words and elements of words."""


def tame(markup: bytes) -> bool:
    if len(markup) > TAME_BYTES:
        return False
    tags = markup.count(b"<")
    return tags * tags <= CLONES_MAX or tags * _left_open(markup) <= CLONES_MAX


def _left_open(markup: bytes) -> int:
    """At least as many as the formatting elements that are ever open at once."""
    try:
        _, found = compiled(_LEFT_OPEN).subn(b"", markup)
    except needed("pcre2", "reading HTML").LibraryError:  # without machine code it bounds its steps
        return len(markup)
    return int(found) + 2
