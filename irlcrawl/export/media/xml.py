"""Feeds, sitemaps and other XML, read by searches in linear time: many are not well-formed, and an XML parser can be
made to unpack a few bytes to gigabytes.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from irlcrawl.export.media.content import Content, Link, collapsed
from irlcrawl.worker.page import charset

_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_PREFIX = r"(?:(?!image:|video:|news:)[\w.-]{1,32}:)?"
_ENTRY_TAG = re.compile(rf"<(/?){_PREFIX}(item|entry|url|sitemap)(?=[\s>])[^<>]*>")
_FEED = re.compile(r"<(?:[\w.-]{1,32}:)?(?:rss|feed|RDF)[\s>]")
_FEED_LANGUAGE = re.compile(r"<(?:feed|rss|rdf:RDF)\s[^<>]*?xml:lang=[\"']([^\"'<>]*)")
_ATOM_LINK = re.compile(rf"<{_PREFIX}link\s([^<>]*)>")
_HREF, _REL = re.compile(r"""\bhref\s*=\s*["']([^"']*)"""), re.compile(r"""\brel\s*=\s*["']([^"']*)""")
_TAG = re.compile(r"<[^<>]*>")
_ESCAPED = re.compile(r"&(?:#x?[0-9a-fA-F]+|[A-Za-z]+);")
_CDATA = re.compile(r"<!\[CDATA\[|\]\]>")


def read(body: bytes, codec: str) -> Content:
    markup = _markup(body, codec)
    found = Content(links=sum(1 for _ in _links(markup)))
    if _FEED.search(markup):
        first = next(_entries(markup), None)
        channel = markup[: first[1]] if first is not None else markup
        language = _FEED_LANGUAGE.search(channel)
        found.title = _plain(_element(channel, "title"))
        found.description = _plain(_element(channel, "description") or _element(channel, "subtitle"))
        found.lang = _plain(_element(channel, "language")) or (language[1].strip() if language else "")
    return found


def links(body: bytes, codec: str) -> tuple[str, Iterator[Link]]:
    return "", _links(_markup(body, codec))


def text(body: bytes, codec: str) -> str:
    return _plain(_markup(body, codec))


def _markup(body: bytes, codec: str) -> str:
    return _COMMENT.sub("", charset.decode(body, codec))


def _entries(markup: str) -> Iterator[tuple[str, int, int]]:
    """(tag, begin, end) of what stands in each item, entry or URL."""
    began: tuple[str, int] | None = None
    for tag in _ENTRY_TAG.finditer(markup):
        if not tag[1]:
            began = tag[2], tag.end()
        elif began is not None and began[0] == tag[2]:
            yield *began, tag.start()
            began = None


def _links(markup: str) -> Iterator[Link]:
    """The target of each item or entry, under its title."""
    for tag, begin, end in _entries(markup):
        entry = markup[begin:end]
        href, rel = _plain(_element(entry, "loc") or _element(entry, "link")), ""
        for link in _ATOM_LINK.finditer(entry) if not href else ():
            found = _REL.search(link[1])
            target = _HREF.search(link[1])
            if target is not None and (found is None or found[1] in ("", "alternate")):
                href, rel = html.unescape(target[1]).strip(), found[1] if found else ""
                break
        if href:
            yield Link(href, _plain(_element(entry, "title")), rel, tag)


def _element(markup: str, name: str) -> str:
    """What stands in the first element of that name; empty without one."""
    start = re.search(rf"<({_PREFIX}{name})(?:\s[^<>]*)?(?<!/)>", markup)
    end = markup.find(f"</{start[1]}>", start.end()) if start else -1
    return markup[start.end() : end] if start and end >= 0 else ""


def _plain(markup: str) -> str:
    """The words in a piece of markup. What is escaped, or in CDATA, is HTML, mostly."""
    unescaped = html.unescape(_TAG.sub(" ", _CDATA.sub("", markup)))
    twice = "<" in unescaped or _ESCAPED.search(unescaped) is not None
    return collapsed(html.unescape(_TAG.sub(" ", unescaped)) if twice else unescaped)
