"""Markup read without building a tree, in linear time whatever it is.

A tree can take time and memory quadratic in the page: nested elements, thousands of attributes, formatting elements
that every paragraph reopens. One megabyte of `<div>` keeps Lexbor busy for minutes, and closing tags prove nothing,
for they can hide in comments and attributes. So a tree is built only of pages that cannot hold enough of anything
(`for_tree`); the others are read by HTML's tokenizer rules alone. That takes 1.1 to 1.6 times as long on ordinary
pages, and gave the same links on each of 3,905 pages of Debian documentation. What it cannot know is what only the
tree decides: a link inside `<template>` counts as a link.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

TREE_TAGS_MAX = 3000
"""So few tags may do what they like: at worst a fifth of a second and 200 MB (`<p><font color=N></p>`)."""
TREE_ATTRIBUTES_MAX = 16_384
"""So many attributes on one element take Lexbor a third of a second."""
SHORT_BYTES = 32 << 10
"""A shorter page cannot hold more attributes than that."""


def for_tree(markup: bytes) -> bool:
    """Whether a tree builder can take no more than a fraction of a second for `markup`."""
    raw = np.frombuffer(markup, np.uint8)
    if np.count_nonzero(raw == 0x3C) > TREE_TAGS_MAX:
        return False
    return len(raw) <= SHORT_BYTES or _attribute_ends(raw) <= TREE_ATTRIBUTES_MAX


def _attribute_ends(raw: np.ndarray) -> int:
    """At least the number of attributes: each ends in white space, a slash, a closing quote or with its tag."""
    space = raw <= 0x20
    slash = raw == 0x2F
    runs = np.count_nonzero(space[:-1] > space[1:])
    slashes = np.count_nonzero(slash[1:] & (raw[:-1] != 0x3C))
    quotes = np.count_nonzero(raw == 0x22) + np.count_nonzero(raw == 0x27)
    tags = np.count_nonzero(raw == 0x3E)
    return int(runs + slashes + quotes // 2 + tags)


_RAW_TEXT = ("script", "style", "title", "textarea", "xmp", "iframe", "noembed", "noframes")
_STOPS = "|".join(("a", "area", "link", "frame", "meta", "base", "plaintext", *_RAW_TEXT))

# In the patterns every alternative consumes all it looks at (possessively, or to the end): that makes them linear.
# Python before 3.11.5 (Debian 12 has 3.11.2) forgets to go back when the last alternative of a possessive group fails
# half-way (gh-106052): there the last alternative is one that fails at once.
_OR_NOT = r"|(?!)"
_S = r"[ \t\n\r\f]"
_VALUE = r"""(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|[^ \t\n\r\f>"'][^ \t\n\r\f>]*+)?+"""
_ATTRIBUTE = rf"[^ \t\n\r\f/>][^ \t\n\r\f/>=]*+(?:{_S}*+={_S}*+{_VALUE}{_OR_NOT})?+"
_ATTRIBUTES = rf"(?:[ \t\n\r\f/]*+{_ATTRIBUTE}{_OR_NOT})*+"
_SKIP = re.compile(
    rf"""(?: [^<]++
           | < (?: /[^>]*+ (?:>|\Z)
                 | !-- (?: -?> | .*?(?:--!?>|\Z))
                 | [!?][^>]*+
                 | (?!(?:{_STOPS})[ \t\n\r\f/>]) [a-z][^ \t\n\r\f/>]*+ {_ATTRIBUTES} [ \t\n\r\f/]*+ (?:>|\Z)
                 | (?![!?/a-z])
               )
           {_OR_NOT}
         )*+""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE | re.ASCII,
)
"""Everything up to the next start tag of interest."""
_TAG = re.compile(rf"<([a-zA-Z]++)({_ATTRIBUTES})[ \t\n\r\f/]*+(?:(>)|\Z)")
_RAW_TEXT_END = {name: re.compile(rf"</{name}(?=[ \t\n\r\f/>])", re.IGNORECASE | re.ASCII) for name in _RAW_TEXT}
_REFERENCE = re.compile(r"&(?:#[0-9]++;?|#[xX][0-9a-fA-F]++;?|[a-zA-Z][a-zA-Z0-9]*+(?:;|(?!=)))")


class Attributes:
    """The attributes of a start tag, read when they are asked for."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def get(self, name: str) -> str | None:
        """The value of the first attribute of that (lower-case) name; None when there is none."""
        found = _finder(name).match(self._text)
        if found is None:
            return None
        value = found[1] or found[2] or found[3] or ""
        return _REFERENCE.sub(_character, value) if "&" in value else value


@lru_cache(maxsize=64)
def _finder(name: str) -> re.Pattern[str]:
    """Matches a start tag's attributes up to the first of that name; its value is group 1, 2 or 3."""
    others = rf"(?:[ \t\n\r\f/]*+(?!{re.escape(name)}(?:[ \t\n\r\f/=]|\Z)){_ATTRIBUTE}{_OR_NOT})*+"
    value = r"""(?:"([^"]*+)|'([^']*+)|([^ \t\n\r\f>"'][^ \t\n\r\f>]*+))"""
    return re.compile(
        rf"{others}[ \t\n\r\f/]*+{re.escape(name)}(?:{_S}*+={_S}*+{value}?+{_OR_NOT})?+", re.IGNORECASE | re.ASCII
    )


def _character(reference: re.Match[str]) -> str:
    """What a character reference in an attribute stands for; a number with very many digits is none there is."""
    return "\ufffd" if len(reference[0]) > 40 else html.unescape(reference[0])


class Element(NamedTuple):
    """A start tag; with `tag` and `attrs.get` it can stand in for a node of a tree."""

    tag: str
    attrs: Attributes


def elements(markup: str) -> Iterator[Element]:
    """The start tags of elements that can name a link (a, area, base, frame, iframe, link, meta), in order."""
    at = 0
    while True:
        skipped = _SKIP.match(markup, at)
        tag = _TAG.match(markup, skipped.end() if skipped else at)
        if tag is None or tag[3] is None:
            return  # the end, or a tag that the page ends in
        name = tag[1].lower()
        if name == "plaintext":
            return
        end = _RAW_TEXT_END.get(name)
        if end is None or name == "iframe":
            yield Element(name, Attributes(tag[2]))
        at = tag.end()
        if end is not None:
            found = end.search(markup, at)
            if found is None:
                return
            at = found.start()
