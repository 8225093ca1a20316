"""Feeds, sitemaps and other XML, read by searches in linear time: many are not well-formed, and an XML parser can be
made to unpack a few bytes to gigabytes.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urljoin

from irlcrawl.base.steps import at_once
from irlcrawl.export.media.content import Content, Link, collapsed
from irlcrawl.worker.page import charset, sitemaps

_OPAQUE = re.compile(r"<!--.*?(?:-->|\Z)|<!\[CDATA\[(.*?)(?:\]\]>|\Z)", re.DOTALL)
_IN_TAG = rf"(?:\s{sitemaps.IN_TAG.decode()})?"
_PREFIX = r"((?:(?!image:|video:|news:)[\w.-]{1,32}:)?)"
_OF_FEEDS, _OF_SITEMAPS = (re.compile(rf"<(/?){_PREFIX}({names}){_IN_TAG}>") for names in ("item|entry", "url|sitemap"))
_FEED = re.compile(r"<((?:[\w.-]{1,32}:)?)(rss|feed|RDF)[\s>]")
_ASIDE = re.compile(
    rf"<(/?)((?:[\w.-]{{1,32}}:)?)(image|textInput|textinput|source|item|entry|channel){_IN_TAG}(?<!/)>"
)
"""What has a title, a link or a URL of its own, in a channel or an entry."""
_FEED_LANGUAGE = re.compile(r"<(?:feed|rss|rdf:RDF)\s[^<>]*?xml:lang=[\"']([^\"'<>]*)")
_LINK = re.compile(rf"<(?:[\w.-]{{1,32}}:)?link({_IN_TAG})>")
_FEED_BASE, _ENTRY_BASE = (re.compile(known.pattern.decode()) for known in (sitemaps.FEED_BASE, sitemaps.ENTRY_BASE))
_ELEMENTS = {
    name: re.compile(rf"<(((?:[\w.-]{{1,32}}:)?){name}){_IN_TAG}(?<!/)>")
    for name in ("title", "description", "subtitle", "language", "loc", "link")
}
_HREF, _REL = re.compile(r"""\bhref\s*=\s*["']([^"']*)"""), re.compile(r"""\brel\s*=\s*["']([^"']*)""")
_TAG = re.compile(r"</?[A-Za-z!?][^<>]*>")
_NO_CHARACTER = re.compile(r"&#(?:\d{9,}|[xX][0-9a-fA-F]{9,});?")
_ESCAPED = re.compile(r"&(?:#x?[0-9a-fA-F]+|[A-Za-z]+);")


def read(body: bytes, codec: str) -> Content:
    markup = _markup(body, codec)
    found = Content(links=sum(1 for _ in _links(markup)))
    if feed := _FEED.search(markup):
        first = next(_entries(markup), None)
        channel = markup[: first[3]] if first is not None else markup
        language, prefix = _FEED_LANGUAGE.search(channel), feed[1] if feed[2] == "feed" else ""
        found.title = _plain(_element(channel, "title", prefix))
        found.description = _plain(_element(channel, "description", prefix) or _element(channel, "subtitle", prefix))
        found.lang = _plain(_element(channel, "language", prefix)) or (language[1].strip() if language else "")
    return found


def links(body: bytes, codec: str) -> tuple[str, Iterator[Link]]:
    markup = _markup(body, codec)
    base = _FEED_BASE.search(markup, 0, sitemaps.LOOK_BYTES)
    return _unescaped(base[1]) if base else "", _links(markup)


def text(body: bytes, codec: str) -> str:
    return _plain(_markup(body, codec))


def _markup(body: bytes, codec: str) -> str:
    """Without comments; what stands in CDATA is escaped."""
    markup = _OPAQUE.sub(lambda found: html.escape(found[1] or "", quote=False), charset.decode(body, codec))
    if not _FEED.search(markup):
        return markup
    return at_once(sitemaps.without(markup, _ASIDE.finditer(markup), ("item", "entry", "channel"), "]]>"))


def _entries(markup: str) -> Iterator[tuple[str, str, int, int, int]]:
    """(prefix, name, start of its tag, begin, end) of what stands in each item or entry of a feed, or URL of a
    sitemap."""
    began: tuple[str, str, int, int] | None = None
    for tag in (_OF_FEEDS if _FEED.search(markup) else _OF_SITEMAPS).finditer(markup):
        if not tag[1]:
            began = tag[2], tag[3], tag.start(), tag.end()
        elif began is not None and began[1] == tag[3]:
            yield *began, tag.start()
            began = None


def _links(markup: str) -> Iterator[Link]:
    """The target of each item or entry, under its title."""
    based = "xml:base" in markup
    for prefix, name, start, begin, end in _entries(markup):
        entry = markup[begin:end]
        href, rel = _plain(_element(entry, "loc", prefix) or _element(entry, "link", prefix)), ""
        if not href:
            href, rel = _atom_link(entry) or (_permalink(entry), "")
        if href and based and (own := _ENTRY_BASE.match(markup, start)):
            with suppress(ValueError):  # an address whose bracket does not end
                href = urljoin(_unescaped(own[1]), href)
        if href:
            yield Link(href, _plain(_element(entry, "title", prefix)), rel, name)


def _permalink(entry: str) -> str:
    """Of an item without a link; empty if it has none either."""
    text = entry.encode()
    return _plain(sitemaps.permalink_in(text, 0, len(text)).decode())


def _atom_link(entry: str) -> tuple[str, str] | None:
    """(address, rel) of the page of an entry: as entries.atom_address."""
    first = None
    for link in _LINK.finditer(entry):
        target, found = _HREF.search(link[1]), _REL.search(link[1])
        rel = found[1].strip().lower() if found else ""
        if target is not None and target[1].strip():
            told = _unescaped(target[1]).strip(), rel
            if rel in ("", "alternate"):
                return told
            first = first or told
    return first


def _element(markup: str, name: str, prefix: str) -> str:
    """What stands in the first element of that name; empty without one. The same prefix as its parent's: others are of
    other vocabularies, as media:title."""
    start = next((one for one in _ELEMENTS[name].finditer(markup) if one[2] == prefix), None)
    end = markup.find(f"</{start[1]}>", start.end()) if start else -1
    return markup[start.end() : end] if start and end >= 0 else ""


def _plain(markup: str) -> str:
    """The words in a piece of markup. What is escaped, or in CDATA, is HTML, mostly."""
    unescaped = _unescaped(_TAG.sub(" ", markup))
    twice = "<" in unescaped or _ESCAPED.search(unescaped) is not None
    return collapsed(_unescaped(_TAG.sub(" ", unescaped)) if twice else unescaped)


def _unescaped(text: str) -> str:
    """The references resolved. Of thousands of digits the library makes no number."""
    return html.unescape(_NO_CHARACTER.sub("\ufffd", text)) if "&" in text else text
