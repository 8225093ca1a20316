"""Markup read without building a tree: the fallback for pages that are made to hurt a tree builder.

An HTML tree can take time and memory quadratic in the page (nested elements, thousands of attributes, formatting
elements that every paragraph reopens); a megabyte of `<div>` keeps Lexbor busy for minutes. `costly` says, in a small
part of the time a parse takes, whether a page could; `elements` then reads it with the tokenizer's rules alone, in
linear time. What it cannot know is what only the tree decides (a link inside `<template>` counts as a link).
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

TAGS_FREE = 3000
"""So few tags may do what they like: at worst a fifth of a second and 200 MB."""
DEPTH_TAGS_FREE = 8192
"""So many may nest as they like (a tenth of a second)."""
TAGS_MAX = 2_000_000
DEPTH_MAX = 512
"""Elements open at once, those aside that close each other. Browsers stop at the same depth."""
REOPENED_MAX = 4_000_000
"""Unclosed formatting elements times tags: each paragraph reopens every one of them."""
BYTES_FREE = 64 << 10
ATTRIBUTE_ENDS_FREE = 24_576
"""In a page so short, or with so few bytes that can end an attribute, one element with all of them takes under 1 s."""
ATTRIBUTES_MAX = 256

_FORMATTING = ["b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"]
_SELF_LIMITING = [
    # closed by the next of their kind
    "a", "p", "li", "dd", "dt", "tr", "td", "th", "tbody", "thead", "tfoot", "caption", "colgroup", "option",
    "optgroup", "rb", "rt", "rtc", "rp", "html", "head", "body",
    # empty
    "area", "base", "br", "col", "embed", "frame", "hr", "img", "input", "link", "meta", "param", "source", "track",
    "wbr",
]  # fmt: skip


def costly(markup: bytes) -> bool:
    """Whether a tree builder could take far longer than a page of this size deserves. `markup` is UTF-8."""
    raw = np.frombuffer(markup, np.uint8)
    if len(raw) > BYTES_FREE and _attribute_ends(raw) > ATTRIBUTE_ENDS_FREE and _MANY_ATTRIBUTES.search(markup):
        return True
    if b"<selectedcontent" in markup:  # mirrors an option's content each time one is selected
        return True
    tags = int(np.count_nonzero(raw == 0x3C))
    if tags <= TAGS_FREE:
        return False
    if tags > TAGS_MAX:
        return True
    words, closing = _tag_words(markup)
    if tags <= DEPTH_TAGS_FREE:
        some = np.flatnonzero(_MAY_FORMAT[words.astype(np.uint16)])
        words, closing = words[some], closing[some]
    formatting = depth = 0
    for name, unclosed in _unclosed(words, closing):  # distinct names: a few dozen
        if name in _FORMATTING_WORDS:
            formatting += unclosed
        elif name not in _SELF_LIMITING_WORDS:
            depth += unclosed
    return formatting * tags > REOPENED_MAX or depth > DEPTH_MAX


def _attribute_ends(raw: np.ndarray) -> int:
    """At least the number of attributes in the page: each ends in white space, a slash, a closing quote or its tag."""
    space = raw <= 0x20
    slash = raw == 0x2F
    runs = np.count_nonzero(space[:-1] > space[1:])
    slashes = np.count_nonzero(slash[1:] & (raw[:-1] != 0x3C))
    quotes = np.count_nonzero(raw == 0x22) + np.count_nonzero(raw == 0x27)
    return int(runs + slashes + quotes // 2)


def _tag_words(markup: bytes) -> tuple[np.ndarray, np.ndarray]:
    """(u8[n], bool[n]): the eight bytes after each `<` or `</`, lower case, little endian; and whether it was `</`.

    Tags inside comments and scripts count too: they only make the bounds larger.
    """
    padded = markup + bytes(16)
    raw = np.frombuffer(padded, np.uint8)
    at = np.flatnonzero(raw == 0x3C)
    closing = raw[at + 1] == 0x2F
    return np.ndarray((len(markup) + 9,), "<u8", padded, 0, (1,))[at + 1 + closing] | _LOWER_CASE, closing


def _unclosed(words: np.ndarray, closing: np.ndarray) -> list[tuple[int, int]]:
    """(name, count) for each tag name: the most elements of it that are ever open at once.

    An end tag without a start tag closes nothing, so this bounds depth from above for markup in any order. A name is
    its first eight bytes.
    """
    if not len(words):
        return []
    name_byte = _NAME_BYTE[words.view(np.uint8).reshape(-1, 8)]
    alive = np.ones(len(words), bool)
    for j in range(8):  # columns, not rows
        alive &= name_byte[:, j]
        words = words & ~np.where(alive, _ZERO, _BYTES[j])
    packed = ((words * _MIX) >> _ORDINAL_BITS << _ORDINAL_BITS) | np.arange(len(words), dtype=np.uint64)
    packed.sort()  # by name, then place; SIMD, unlike a stable argsort
    order = (packed & ((_ONE << _ORDINAL_BITS) - _ONE)).astype(np.int64)
    words = words[order]
    first = np.flatnonzero(np.concatenate(([True], words[1:] != words[:-1])))
    size = np.diff(np.append(first, len(words)))
    total = np.cumsum(1 - 2 * closing[order].astype(np.int64))
    before = np.concatenate(([0], total[first[1:] - 1]))
    open_now = total - np.repeat(before, size)
    # each name's floor lies below all of the name before it, so one running minimum serves them all
    floor = np.repeat(-np.arange(len(first), dtype=np.int64) * (2 * len(words) + 2), size)
    lowest = np.minimum.accumulate(np.minimum(open_now, 0) + floor) - floor
    return list(zip(words[first].tolist(), np.maximum.reduceat(open_now - lowest, first).tolist()))


def _words(names: list[str]) -> frozenset[int]:
    return frozenset(int.from_bytes(name.encode()[:8], "little") for name in names)


_FORMATTING_WORDS = _words(_FORMATTING)
_SELF_LIMITING_WORDS = _words(_SELF_LIMITING)
_MAY_FORMAT = np.zeros(1 << 16, bool)
"""By the first two bytes of a tag, lower case: whether it may be a formatting element."""
for _name in _FORMATTING:
    _seconds = [ord(_name[1])] if len(_name) > 1 else [c | 0x20 for c in b" \t\n\r\f/>"]
    for _second in _seconds:
        _MAY_FORMAT[ord(_name[0]) | _second << 8] = True
_LOWER_CASE = np.uint64(0x2020202020202020)
_NAME_BYTE = np.zeros(256, bool)
_NAME_BYTE[0x30:] = True
_NAME_BYTE[0x3E] = False
_BYTES = np.array([0xFF << (8 * j) for j in range(8)], np.uint64)
_ZERO, _ONE = np.uint64(0), np.uint64(1)
_ORDINAL_BITS = np.uint64(24)
_MIX = np.uint64(0x9E3779B97F4A7C15)

_VALUE = r"""(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|[^\s>"'][^\s>]*+)?+"""
_ATTRIBUTE = rf"[^\s/>][^\s/>=]*+(?:\s*+=\s*+{_VALUE})?+"
_MANY_ATTRIBUTES = re.compile(rf"<[a-zA-Z][^\s/>]*+(?:[\s/]*+{_ATTRIBUTE}){{{ATTRIBUTES_MAX}}}".encode())
_ONE_ATTRIBUTE = re.compile(r"""([^\s/>][^\s/>=]*+)(?:\s*+=\s*+(?:"([^"]*+)"?|'([^']*+)'?|([^\s>"'][^\s>]*+))?+)?+""")
# Every alternative consumes all it looks at (possessive, or to the end), so the scan is linear.
_TOKEN = re.compile(
    rf"<(?:!--(?:-?>|.*?(?:--!?>|\Z))|([a-zA-Z][^\s/>]*+)((?:[\s/]*+{_ATTRIBUTE})*+)[\s/]*+(?:(>)|\Z)|[!?/][^>]*+)",
    re.DOTALL,
)
_RAW_TEXT = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE)
    for name in ("script", "style", "title", "textarea", "xmp", "iframe", "noembed", "noframes")
}
_REFERENCE = re.compile(r"&(?:#\d++;?|#[xX][\da-fA-F]++;?|[a-zA-Z][a-zA-Z\d]*+(?:;|(?!=)))")


class Element(NamedTuple):
    tag: str
    attrs: dict[str, str]


def elements(markup: str, wanted: frozenset[str]) -> Iterator[Element]:
    """Every start tag whose lower-case name is `wanted`, in order."""
    at = 0
    while (token := _TOKEN.search(markup, at)) is not None:
        at = token.end()
        if token[3] is None:
            continue  # no start tag, or one that the page ends in
        tag = token[1].lower()
        if tag in wanted:
            yield Element(tag, _attributes(token[2]))
        if tag == "plaintext":
            return
        if tag in _RAW_TEXT:
            end = _RAW_TEXT[tag].search(markup, at)
            if end is None:
                return
            at = end.start()


def _attributes(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for count, attribute in enumerate(_ONE_ATTRIBUTE.finditer(text)):
        if count == ATTRIBUTES_MAX:
            break
        value = attribute[2] or attribute[3] or attribute[4] or ""
        if "&" in value:
            value = _REFERENCE.sub(_character, value)
        found.setdefault(attribute[1].lower(), value)
    return found


def _character(reference: re.Match[str]) -> str:
    """What a character reference in an attribute stands for; a number with very many digits is none there is."""
    return "\ufffd" if len(reference[0]) > 40 else html.unescape(reference[0])
