"""What a site itself lists: sitemaps and sitemap indices (sitemaps.org, protocol 0.9), RSS, Atom, RDF; and the
`Sitemap:` lines of a robots.txt.

Many of them are no well-formed XML, and an XML parser can be made to unpack a few bytes to gigabytes. So the few
elements that name URLs are found by searches, in linear time, in markup that says what it is near its start.
"""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterable, Iterator
from typing import AnyStr

from irlcrawl.base.rows import Source
from irlcrawl.base.steps import LARGE_BYTES, Steps, at_once
from irlcrawl.base.url import Base
from irlcrawl.web.coding import decoding
from irlcrawl.web.media_type import essence
from irlcrawl.worker.page import charset

LINKS_MAX = 50_000
"""URLs taken of one sitemap: more are none by the protocol."""
OF_ROBOTS_MAX = 2000
"""Sitemaps taken of one robots.txt; of 4,231 files eight name more than 100, the longest 1,293."""
REFERENCES_PER_LINK = 4
"""For each URL that may be taken so many references are looked at: some are no links, some name the same URL."""
BLANKS_PER_LINK = 8
"""So many entries without a reference."""
REFERENCE_BYTES_MAX = 16_384
BLANKS_MAX = 1000
WINDOW_BYTES = 256 << 10
"""Of a sitemap searched between two stops."""
ELEMENT_BYTES_MAX = 20_000
"""An element, its attributes, blanks and text at their most."""
RESOLVED_BYTES = 64 << 10
"""Of references resolved between two stops; a reference counts as its length and 64."""
RECODED_BYTES_MAX = 32 << 20
"""Of a list in another encoding."""
COMMENTS_MAX = 100_000
"""Behind so many nothing is read; a page in CDATA counts as one."""
COMMENTS_BEFORE_MAX, COMMENT_BEFORE_BYTES_MAX = 100, 256 << 10
"""Before a sitemap's own first element; the most of one."""
LOOK_BYTES = 4096
"""Markup looks like a sitemap or a feed within so many bytes, if it is one."""
XML_TYPES = re.compile(r"(?:application|text)/(?:x-xml|rss|atom|(?:[\w.+-]+\+)?xml)")
_UNTOLD = ("", "application/gzip", "application/x-gzip", "application/octet-stream", "binary/octet-stream")
"""Types that say nothing of what is in the file."""

FEEDS = (b"rss", b"feed", b"RDF")
_KIND = re.compile(rb"<(?:[\w.-]{1,32}:)?(urlset|sitemapindex|rss|feed|RDF)[\s>]")
IN_TAG = rb"""(?:[^<>"']{1,1000}+|"[^"<]{0,%d}+"|'[^'<]{0,%d}+'|["']){0,100}+""" % ((REFERENCE_BYTES_MAX,) * 2)
"""What stands in a tag behind its name. A `>` between quotes does not end it."""
_TEXT = rb"\s{0,%d}+(?:<!\[CDATA\[)?([^<]{1,%d}+)<" % (BLANKS_MAX, REFERENCE_BYTES_MAX)
_LOC = re.compile(rb"<(?:(?!image:)[\w.-]{1,32}:)?loc(?:\s" + IN_TAG + rb")?>" + _TEXT)
_ENTRY = rb"<(?:[\w.-]{1,32}:)?(?:(item|entry)[\s>]|"
_PERMALINK = rb"guid(?!\s[^<]{0,1000}isPermaLink\s*=\s*[\"']false)(?:\s" + IN_TAG + rb")?(?<!/)>" + _TEXT
_RSS_LINK = re.compile(_ENTRY + rb"link(?:\s" + IN_TAG + rb")?(?<!/)>" + _TEXT + rb"|" + _PERMALINK + rb")")
_GUID = re.compile(rb"<" + _PERMALINK)
_HTTP = re.compile(rb"\s*https?://", re.IGNORECASE)
_ATOM_LINK = re.compile(_ENTRY + rb"link\s(" + IN_TAG + rb")>)")
_BASE = rb"\s[^<]{0,1000}?\bxml:base\s*=\s*[\"']([^\"'<>]{1,2000})[\"']"
FEED_BASE = re.compile(rb"<(?:[\w.-]{1,32}:)?(?:feed|rss|RDF|channel)" + _BASE)
ENTRY_BASE = re.compile(rb"<[\w.:-]{1,40}" + _BASE)
FEED_START = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*+(?:<\?[^<>]*+>\s*+)*"
    rb"<(?:rss[\s>]|(?:[\w.-]{1,32}:)?feed\s[^<>]*http://www\.w3\.org/2005/Atom|rdf:RDF\s[^<>]*http://purl\.org/rss/)",
)
"""The start of a feed that came as HTML (WHATWG MIME sniffing 7.3), without comments."""
_SOURCE = re.compile(rb"<!\[CDATA\[|<(/?)((?:[\w.-]{1,32}:)?)(source|entry)(?=[\s>])[^<>]{0,1000}+(?<!/)>")
_COMMENT, _HIDDEN = (re.compile(rb"<!(?:(--)" + other + rb")") for other in (
    rb"", rb"|\[CDATA\[(?![^<\]]{0,2000}+\]\]>)",
))  # fmt: skip
"""What begins a comment, or CDATA that may have markup in it."""
TAGS_MAX = 100_000
"""Looked at in a feed for what `without` takes out."""
_HREF = re.compile(rb"""\bhref\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_REL = re.compile(rb"""\brel\s*=\s*["']([^"']*)["']""")
_ATOM_RELS = (b"", b"alternate", b"next", b"prev", b"previous", b"related")
"""What leads to a page, or to another part of the feed. `related` does, too: where an entry is about a page of another
site, its alternate is that page, and its own one is related. `self` is the feed or the entry once more, as XML."""
_REFERENCE = re.compile(r"&(?:#\d{1,8}|#[xX][0-9a-fA-F]{1,8}|[A-Za-z][A-Za-z0-9]{0,40});")
_LINE = re.IGNORECASE | re.MULTILINE
_ROBOTS_LINE = re.compile(
    rb"^[ \t]*+site-?map(?:[ \t]*+:[ \t]*+|[ \t]++(?=https?://))([^\s#]{1,%d}+)" % REFERENCE_BYTES_MAX, _LINE
)
_SITEMAP = re.compile(rb"<(?:[\w.-]{1,32}:)?(?:urlset|sitemapindex)[\s>]")
_BOM = b"\xef\xbb\xbf"
_TEXT_LINE = re.compile(rb"^[ \t]*+(https?://[^\s<>\"]{1,%d}+)[ \t]*+\r?$" % REFERENCE_BYTES_MAX, _LINE)


def of_robots(text: bytes, url: bytes) -> Steps[tuple[list[bytes], int]]:
    """(the sitemaps that the robots.txt at `url` names, in stored form, each once, how many more there are than
    OF_ROBOTS_MAX). In steps."""
    lines = (match[1] for match in _ROBOTS_LINE.finditer(_in_lines(text)))
    return _stored(lines, url, OF_ROBOTS_MAX)


def unpacking(body: bytes, url: bytes, bytes_max: int, named: bool = False) -> Steps[tuple[bytes, bool]]:
    """A file that is itself compressed (`sitemap.xml.gz`), unpacked to at most `bytes_max`: (bytes, whether that is not
    all); any other body as it is. named: a robots.txt or a sitemap names it. In steps."""
    if body.startswith(b"\x1f\x8b") and (named or url.partition(b"?")[0].lower().endswith(b".gz")):
        return (yield from decoding(body, "gzip", bytes_max))
    return body, False


def listed(body: bytes, content_type: str, url: bytes, as_text: bool) -> tuple[list[bytes], int] | None:
    """(the URLs that a sitemap or a feed at `url` lists, in stored form, each once, how many more there are than
    LINKS_MAX); None for what is neither. `as_text`: a robots.txt or a sitemap names it, so plain text is a list, too,
    and under any type a text of nothing but URLs."""
    return at_once(listing(body, content_type, url, as_text))


def listing(body: bytes, content_type: str, url: bytes, as_text: bool) -> Steps[tuple[list[bytes], int] | None]:
    """listed(), in steps."""
    mime = essence(content_type)
    told = mime in _UNTOLD or mime == "text/plain" or _is_xml(mime)
    in_lines = as_text and is_url_list(body)
    if not (told or in_lines or (as_text and _says_sitemap(body)) or FEED_START.match(_beginning(body))):
        return None
    body = yield from in_utf8(body, content_type)
    kind = _KIND.search(_beginning(body))
    if kind is None:
        is_text = as_text and (mime == "text/plain" or is_url_list(body))
        return (yield from _stored(_lines(_in_lines(body)), url, LINKS_MAX)) if is_text else None
    body = yield from bare(body)
    if kind[1] not in FEEDS:
        return (yield from _stored(_texts(_LOC, body), url, LINKS_MAX))
    body = yield from without_sources(body)
    base = base_of(body, url)
    return (yield from _stored(_of_feed(body, base), url, LINKS_MAX, base))


def in_utf8(body: bytes, content_type: str) -> Steps[bytes]:
    """A list in UTF-8. In steps."""
    codec = yield from charset.sniffing(body, content_type)
    if len(body) > LARGE_BYTES:
        yield
    return body if codec == "utf-8" else (yield from charset.recoding(body, codec, RECODED_BYTES_MAX))


def base_of(body: bytes, url: bytes) -> Base:
    """What the references in the list at `url`, in UTF-8, refer to: a feed may name it (xml:base)."""
    return _named(FEED_BASE.search(body, 0, LOOK_BYTES), Base(url, stored=True))


def base_at(body: bytes, start: int, base: Base) -> Base:
    """The same for the entry that begins at `start`, in a feed with the base `base`."""
    return _named(ENTRY_BASE.match(body, start), base)


def _named(found: re.Match[bytes] | None, base: Base) -> Base:
    named = None if found is None else base.join(unescaped(found[1].decode("utf-8", "replace")))
    return base if named is None else Base(named, stored=True)


def permalink_in(body: bytes, start: int, end: int) -> bytes:
    """The address of an item's page in its `guid`; empty if it has none there."""
    found = _GUID.search(body, start, end)
    return found[1].partition(b"]]>")[0] if found is not None and _HTTP.match(found[1]) else b""


def source_of(source: int, depth: int) -> int:
    """The source of a URL as far as lists go: where a seed moved (a redirect keeps the depth) is the seed."""
    return Source.SEED if source == Source.REDIRECT and depth == 0 else source


def may_be_list(source: int, body: bytes) -> bool:
    """Whether a body may be a list although its type does not say so, as text/html and text/plain: a robots.txt or a
    sitemap names it as one (`source`: source_of its URL); a seed has to look like one."""
    return source == Source.SITEMAP or (source == Source.SEED and (is_url_list(body) or _says_sitemap(body)))


def is_url_list(body: bytes) -> bool:
    """Whether each line of a text is a URL, as far as its first LOOK_BYTES show."""
    *lines, last = _in_lines(body[:LOOK_BYTES]).splitlines() or [b""]
    if len(body) <= LOOK_BYTES:
        lines.append(last)
    lines = [line for line in lines if line.strip()]
    return bool(lines) and all(map(_TEXT_LINE.fullmatch, lines))


def _is_xml(mime: str) -> bool:
    """A page in XHTML may have RDF in its head, and is a page."""
    return mime != "application/xhtml+xml" and XML_TYPES.fullmatch(mime) is not None


def _says_sitemap(body: bytes) -> bool:
    """Whether a body that came under a type such as text/html is a sitemap, and no page that speaks of one."""
    head = _beginning(body)
    found = _SITEMAP.search(head)
    return found is not None and b"<html" not in head[: found.start()].lower()


def _in_lines(text: bytes) -> bytes:
    """Without a byte order mark, in lines that end in LF."""
    return text.removeprefix(_BOM).replace(b"\r", b"\n")


def is_feed(body: bytes) -> bool:
    """Whether what `listed` understands is a feed, no sitemap."""
    kind = _KIND.search(_beginning(body))
    return kind is not None and kind[1] in FEEDS


def is_index(body: bytes) -> bool:
    """Whether what `listed` understands lists sitemaps."""
    kind = _KIND.search(_beginning(body))
    return kind is not None and kind[1] == b"sitemapindex"


def is_plain(body: bytes) -> bool:
    """Whether what `listed` understands, in UTF-8, has no markup but a URL in each line."""
    return _KIND.search(_beginning(body)) is None


def _beginning(body: bytes) -> bytes:
    """The first LOOK_BYTES of markup outside comments, of which COMMENTS_BEFORE_MAX may be in between."""
    kept, at = b"", 0
    for _ in range(COMMENTS_BEFORE_MAX):
        start = body.find(b"<!--", at, at + LOOK_BYTES)
        if start < 0:
            return (kept + body[at : at + LOOK_BYTES])[:LOOK_BYTES]
        kept += body[at:start]
        end = body.find(b"-->", start + 4, start + COMMENT_BEFORE_BYTES_MAX)
        if end < 0:
            break
        at = end + 3
    return kept[:LOOK_BYTES]


def without_sources(body: bytes) -> Steps[bytes]:
    """An Atom feed without what its entries tell of the feeds that they were taken from (RFC 4287 4.2.11): titles,
    links, dates. HTML has a `<source>` of its own, which needs no end. In steps."""
    if b"source>" not in body or (kind := _KIND.search(_beginning(body))) is None or kind[1] != b"feed":
        return body
    return (yield from without(body, elements(_SOURCE, body), (b"entry",), b"]]>"))


def without(
    markup: AnyStr, tags: Iterable[re.Match[AnyStr] | None], bounds: Collection[AnyStr], cdata_end: AnyStr
) -> Steps[AnyStr]:
    """Markup without the elements that begin and end by `tags`: groups 1 to 3 are slash, prefix and name; without a
    name a match begins CDATA; None: a stop. Those called as one of `bounds` stay, and no element goes on beyond their
    tags. In steps."""
    kept: list[AnyStr] = []
    at = behind = count = 0
    began: re.Match[AnyStr] | None = None
    for tag in tags:
        if tag is None:
            yield
            continue
        if tag.start() < behind:
            continue  # in CDATA
        count += 1
        if count > TAGS_MAX:
            break
        if tag[3] is None:
            behind = markup.find(cdata_end, tag.end()) + len(cdata_end)
            if behind < len(cdata_end):
                break
        elif tag[3] in bounds:
            began = None
        elif not tag[1]:
            began = tag
        elif began is not None and began.group(2, 3) == tag.group(2, 3):
            kept.append(markup[at : began.start()])
            at, began = tag.end(), None
    kept.append(markup[at:])
    return markup[:0].join(kept)


def bare(body: bytes) -> Steps[bytes]:
    """A list without its comments, a feed without the markup in its CDATA, too: that is a page, with elements of its
    own. As far as COMMENTS_MAX of them. In steps."""
    in_cdata = is_feed(body) and (yield from _has(body, b"<![CDATA["))
    if not in_cdata and not (yield from _has(body, b"<!--")):
        return body
    kept: list[bytes] = []
    at = count = 0
    for begin in elements(_HIDDEN if in_cdata else _COMMENT, body):
        if begin is None:
            yield
            continue
        start, inside = begin.span()
        if start < at:
            continue
        if begin[1]:
            end = body.find(b"-->", inside)
            behind = end + 3
        else:
            end = behind = body.find(b"]]>", inside)
            start = body.find(b"<", inside, end if end >= 0 else len(body))
            if start < 0:
                continue
        count += 1
        if count > COMMENTS_MAX:
            return b"".join(kept)
        kept.append(body[at:start])
        at = behind if end >= 0 else len(body)
    return b"".join((*kept, body[at:]))


def _has(body: bytes, mark: bytes) -> Steps[bool]:
    found = mark in body
    if len(body) > LARGE_BYTES:
        yield
    return found


def elements(element: re.Pattern[bytes], body: bytes) -> Iterator[re.Match[bytes] | None]:
    """Matches of an element; None: a stop."""
    start = at = 0
    while start < len(body):
        end = start + WINDOW_BYTES
        for match in element.finditer(body, max(start, at), end + ELEMENT_BYTES_MAX):
            if match.start() >= end:
                break
            at = match.end()
            yield match
        start = end
        yield None


def _lines(body: bytes) -> Iterator[bytes | None]:
    start = 0
    while start < len(body):
        end = body.find(b"\n", start + WINDOW_BYTES) + 1 or len(body)
        yield from (match[1] for match in _TEXT_LINE.finditer(body[start:end]))
        start = end
        yield None


def _texts(element: re.Pattern[bytes], body: bytes) -> Iterator[bytes | None]:
    """What stands in elements, with CDATA undone; None: a stop."""
    return (match and match[1].partition(b"]]>")[0] for match in elements(element, body))


def _of_feed(body: bytes, base: Base) -> Iterator[bytes | Base | None]:
    """Of RSS and RDF `<link>URL</link>`, of Atom `<link href=URL>` (which RSS may have, too); None: a stop; a Base: of
    what follows."""
    based = b"xml:base" in body
    permalink, linked = b"", True  # of an item without a link (RSS 2.0, guid)
    for match in elements(_RSS_LINK, body):
        if match is None:
            yield None
        elif match[1]:
            yield permalink
            permalink, linked = b"", False
            if based:
                yield base_at(body, match.start(), base)
        elif match[2]:
            permalink, linked = b"", True
            yield match[2].partition(b"]]>")[0]
        elif not linked and _HTTP.match(match[3]):
            permalink = match[3].partition(b"]]>")[0]
    yield permalink
    yield base
    for match in elements(_ATOM_LINK, body):
        if match is None:
            yield None
        elif match[1]:
            if based:
                yield base_at(body, match.start(), base)
        else:
            href, rel = _HREF.search(match[2]), _REL.search(match[2])
            if href is not None and (rel[1].strip().lower() if rel else b"") in _ATOM_RELS:
                yield href[1] or href[2] or b""


def unescaped(text: str) -> str:
    """The text of an element with its references resolved. Only what ends in `;` is one, as in XML: as in HTML, the
    `&copy=1` of a query would become a copyright sign, which many write without `&amp;`, in CDATA or as plain text."""
    return _REFERENCE.sub(lambda found: html.unescape(found[0]), text) if "&" in text else text


def _stored(
    references: Iterable[bytes | Base | None], url: bytes, links_max: int, base: Base | None = None
) -> Steps[tuple[list[bytes], int]]:  # fmt: skip
    """References in stored form, each once and without the document itself, and how many more than `links_max` there
    are, as far as REFERENCES_PER_LINK; None among them is a stop. base: what they refer to, if not to `url`; so is a
    Base among them for what follows."""
    found: dict[bytes, None] = {}
    known: set[bytes] = set()
    looked = beyond = worked = blank = 0
    base = base or Base(url, stored=True)
    for reference in references:
        if reference is not None:
            worked += 64 + len(reference.url if isinstance(reference, Base) else reference)
        if reference is None or worked > RESOLVED_BYTES:
            worked = 0
            yield
        if not reference or isinstance(reference, Base):  # of entries that name nothing
            blank += 1
            if blank > BLANKS_PER_LINK * links_max:
                return list(found), beyond + 1
        if isinstance(reference, Base):
            base, known = reference, known if reference is base else set()
            continue
        if not reference or reference in known:
            continue
        known.add(reference)
        looked += 1
        if looked > REFERENCES_PER_LINK * links_max:
            return list(found), beyond + 1
        if len(found) >= links_max:
            beyond += 1
            continue
        text = reference.decode("utf-8", "replace").strip()
        target = base.join(unescaped(text))
        if target is not None and target != url:
            found[target] = None
    return list(found), beyond
