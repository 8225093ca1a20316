"""Patterns of URLs, as operators and owners write them: RE2 expressions, searched for anywhere in a URL.

Stored URLs are ASCII. Another letter stands for what a path or a query has in its place: the octets of its UTF-8 as
`%C3%A9`, in either case (RFC 3987, 3.1). A host's name is in Punycode there, and a pattern has to name it so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re2

MEMORY_BYTES = 64 << 20

_PIECE = re.compile(
    r"""\\Q(?P<quoted>.*?)(?:\\E|\Z)|\\.|(?P<set>\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\])|(?P<letter>[^\x00-\x7f])|.""",
    re.DOTALL,
)
_MEMBER = re.compile(
    r"\[:\^?\w+:\]|(?P<first>\\x\{[0-9a-fA-F]+\}|\\x[0-9a-fA-F]{2}|\\.|.)(?:-(?P<last>\\.|[^\]\\]))?", re.DOTALL
)
LETTERS_MAX = 512
"""In a range of brackets."""
_QUOTES_ON = re.compile(r"(?:\\Q.*?\\E|\\[^Q]|[^\\])*+\\Q(?!.*\\E).*", re.DOTALL)
_LETTER = re.compile(r"[^\x00-\x7f]")


def compiled(pattern: str, memory_bytes: int = MEMORY_BYTES) -> re2._Regexp[bytes]:
    """For URLs in stored form. ValueError, which says what is wrong with it: also that it takes more memory."""
    import re2  # only those who have patterns pay for loading the matcher

    try:
        return re2.compile(octets(pattern), options(memory_bytes))
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        raise ValueError(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)) from error


def options(memory_bytes: int = MEMORY_BYTES) -> re2.Options:
    import re2

    found = re2.Options()
    found.max_mem = memory_bytes
    found.log_errors = False
    return found


def any_of(patterns: Iterable[str]) -> str:
    """One pattern that finds any of these, each of which is one. A quotation that a pattern leaves open (`\\Q`) ends
    with it."""
    return "|".join(f"(?:{one}\\E)" if _QUOTES_ON.fullmatch(one) else f"(?:{one})" for one in patterns)


def octets(pattern: str) -> bytes:
    """The expression for URLs in stored form. ValueError for a range in brackets of too many letters."""
    return pattern.encode() if pattern.isascii() else _PIECE.sub(_in_urls, pattern).encode("utf-8")


def _in_urls(piece: re.Match[str]) -> str:
    if (quoted := piece["quoted"]) is not None and not quoted.isascii():
        return _LETTER.sub(lambda letter: rf"\E{_escaped(letter[0])}\Q", rf"\Q{quoted}") + r"\E"
    if (letters := piece["set"]) is not None and not letters.isascii():
        return _set_in_urls(letters)
    return _escaped(piece[0]) if piece["letter"] is not None else piece[0]


def _set_in_urls(letters: str) -> str:
    """Brackets without the letters that no URL has, which are alternatives to them: `[xé]` is `(?:[x]|(?i:%C3%A9))`."""
    found: list[str] = []

    def take(member: re.Match[str]) -> str:
        first, last = member["first"], member["last"] or member["first"]
        if member[0].isascii():
            return member[0]
        if "\\" in member[0]:
            raise ValueError(f"{member[0]!r} in brackets; a letter outside of ASCII takes no backslash")
        if first.isascii() or last.isascii() or not 0 <= ord(last) - ord(first) < LETTERS_MAX:
            raise ValueError(f"{member[0]!r} in brackets; write two ranges, of at most {LETTERS_MAX} letters")
        found.extend(map(chr, range(ord(first), ord(last) + 1)))
        return ""

    negated = letters.startswith("[^")
    rest = _MEMBER.sub(take, letters[2:-1] if negated else letters[1:-1])
    if negated:
        return f"[^{rest}]" if rest else "(?s:.)"
    return f"(?:{'|'.join([*([f'[{rest}]'] if rest else []), *map(_escaped, found)])})"


def _escaped(letter: str) -> str:
    return f"(?i:{''.join(f'%{octet:02X}' for octet in letter.encode('utf-8', 'replace'))})"
