"""Markup read without building a tree, in linear time whatever it is.

A tree can take time and memory quadratic in the page: nested elements, thousands of attributes, formatting elements
that every paragraph reopens. One megabyte of `<div>` keeps Lexbor busy for minutes, and closing tags prove nothing,
for they can hide in comments and attributes. So a tree is built only of pages that cannot hold enough of anything
(`for_tree`); the others are read by HTML's tokenizer rules alone, a whole run of ordinary markup at once. On ordinary
pages that takes one and a half times as long, and it gave the same references in the same order on each of 12,969 pages
of Debian documentation. What it cannot know is what only the tree decides: a link inside `<template>` counts as a link.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple, cast

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
_STOPS = ("a", "area", "link", "frame", "meta", "base", "plaintext", "svg", "math", *_RAW_TEXT)
_STOP = "|".join("".join(f"[{letter}{letter.upper()}]" for letter in name) for name in _STOPS)

# In the patterns every alternative consumes all it looks at (possessively, or to the end): that makes them linear.
# Python before 3.11.5 (Debian 12 has 3.11.2) forgets to go back when the last alternative of a possessive group fails
# half-way (gh-106052): there the last alternative is one that fails at once.
_OR_NOT = r"|(?!)"
_S = r"[ \t\n\r\f]"
_VALUE = r"""(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|[^ \t\n\r\f>"'][^ \t\n\r\f>]*+)?+"""
_ATTRIBUTE = rf"[^ \t\n\r\f/>][^ \t\n\r\f/>=]*+(?:{_S}*+={_S}*+{_VALUE}{_OR_NOT})?+"
_ATTRIBUTES = rf"(?:[ \t\n\r\f/]*+{_ATTRIBUTE}{_OR_NOT})*+"

_NAME = r"[a-z][a-z0-9_:-]*+"
_TEXT = r"""[^"<>]*+"""
_PLAIN = re.compile(
    rf"""[^<]*+
        (?: < (?: /[a-zA-Z][^<>]*+
                | a (?: {_S}++{_NAME}="{_TEXT}" {_OR_NOT})*+ {_S}*+
                | (?!(?:{_STOP})[ \t\n\r\f/>]) [a-zA-Z][^ \t\n\r\f/<>"'=]*+
                  (?: [ \t\n\r\f/]++[^ \t\n\r\f/<>"'=]++
                      (?: ="{_TEXT}" | ='[^'<>]*+' | =[^ \t\n\r\f<>"'=`]++ {_OR_NOT})?+
                      {_OR_NOT}
                  )*+ [ \t\n\r\f/]*+
                {_OR_NOT}
              ) > [^<]*+
            {_OR_NOT}
        )*+""",
    re.VERBOSE,
)
"""A run of text and tags in which every `<` starts a tag and every `>` ends one; an `<a>` in it is written as nearly
everybody writes it. So the references in the run can be found without looking at anything else."""
_HREF = re.compile(rf"""<a(?:{_S}++(?!href=){_NAME}="{_TEXT}"{_OR_NOT})*+{_S}++href="({_TEXT})\"""")
_ANCHOR = re.compile(rf"""<a(?=[ \t\n\r\f>])((?:{_S}++{_NAME}="{_TEXT}"{_OR_NOT})*+)""")
_OTHER = re.compile(
    rf"""< (?: /[^>]*+ (?:>|\Z)
            | !-- (?: -?> | .*?(?:--!?>|\Z))
            | [!?][^>]*+
            | (?!(?:{_STOP})[ \t\n\r\f/>]) [a-zA-Z][^ \t\n\r\f/>]*+ {_ATTRIBUTES} [ \t\n\r\f/]*+ (?:>|\Z)
            | (?![!?/a-zA-Z])
          )""",
    re.VERBOSE | re.DOTALL,
)
"""One token that is no start tag of interest."""
_TAG = re.compile(rf"<([a-zA-Z]++)({_ATTRIBUTES})[ \t\n\r\f/]*+(?:(>)|\Z)")
_RAW_TEXT_END = {name: re.compile(rf"</{name}(?=[ \t\n\r\f/>])", re.IGNORECASE | re.ASCII) for name in _RAW_TEXT}
_FOREIGN_END = {name: re.compile(rf"</{name}[ \t\n\r\f/>]", re.IGNORECASE | re.ASCII) for name in ("svg", "math")}
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
        return unescaped(found[1] or found[2] or found[3] or "")


@lru_cache(maxsize=64)
def _finder(name: str) -> re.Pattern[str]:
    """Matches a start tag's attributes up to the first of that name; its value is group 1, 2 or 3."""
    others = rf"(?:[ \t\n\r\f/]*+(?!{re.escape(name)}(?:[ \t\n\r\f/=]|\Z)){_ATTRIBUTE}{_OR_NOT})*+"
    value = r"""(?:"([^"]*+)|'([^']*+)|([^ \t\n\r\f>"'][^ \t\n\r\f>]*+))"""
    return re.compile(
        rf"{others}[ \t\n\r\f/]*+{re.escape(name)}(?:{_S}*+={_S}*+{value}?+{_OR_NOT})?+", re.IGNORECASE | re.ASCII
    )


def unescaped(value: str) -> str:
    """An attribute's value as it is meant: character references resolved."""
    return _REFERENCE.sub(_character, value) if "&" in value else value


def _character(reference: re.Match[str]) -> str:
    """What a character reference in an attribute stands for; a number with very many digits is none there is."""
    return "\ufffd" if len(reference[0]) > 40 else html.unescape(reference[0])


class Element(NamedTuple):
    """A start tag; with `tag` and `attrs.get` it can stand in for a node of a tree."""

    tag: str
    attrs: Attributes


def elements(markup: str, rels: str = "") -> Iterator[Element | list[str]]:
    """The start tags of elements that can name a link (a, area, base, frame, iframe, link, meta), in order.

    Most `<a>` come as lists of their references as they are written (see unescaped), many at once. Not so where `rels`
    (lower case) occurs, the value of an attribute `rel` to look for: there each is an element.
    """
    markup = markup.replace("\0", "\ufffd")
    at = 0
    foreign_end = 0
    while True:
        start, at = at, cast(re.Match[str], _PLAIN.match(markup, at)).end()
        if rels and markup.find("rel=", start, at) >= 0 and rels in markup[start:at].lower():
            for anchor in _ANCHOR.finditer(markup, start, at):
                yield Element("a", Attributes(anchor[1]))
        elif references := _HREF.findall(markup, start, at):
            yield references
        other = _OTHER.match(markup, at)
        if other is not None:
            at = other.end()
            continue
        tag = _TAG.match(markup, at)
        if tag is None or tag[3] is None:
            return  # the end, or a tag that the page ends in
        name = tag[1].lower()
        at = tag.end()
        if name == "plaintext":
            return
        if name in _FOREIGN_END:
            if at > foreign_end:
                closing = _FOREIGN_END[name].search(markup, at)
                foreign_end = len(markup) if closing is None else closing.start()
            continue
        end = _RAW_TEXT_END.get(name)
        if end is None or name == "iframe":
            yield Element(name, Attributes(tag[2]))
        if end is not None and not (at < foreign_end and markup[at - 2] == "/"):
            found = end.search(markup, at)
            if found is None:
                return
            at = found.start()
