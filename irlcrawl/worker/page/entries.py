"""Entries of sitemaps and feeds, with what each says of its page: when it changed, how often it does, how it ranks
among its site's pages.

To follow a list its addresses are enough (sitemaps.py); this is for lists that say more, and for those who ask. As
there, no XML parser is used: an entry begins with its element's tag, and the first of each field in it is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from irlcrawl.base.rows import Source
from irlcrawl.base.steps import Steps, at_once
from irlcrawl.base.url import Base
from irlcrawl.worker.page import sitemaps

FIELD_BYTES_MAX = 16_384
ENTRY_BYTES_MAX = 65_536
"""Of an entry, so much is looked at."""
STEP_BYTES, ENTRY_COST = 128 << 10, 256
"""Looked at between two stops; an entry counts as its length and ENTRY_COST."""
RANK_MAX = 5
"""Of the links of a sitemap that says priorities, those with the highest have rank 0."""
RANK_STEP = 0.2
PREFIX = rb"<(?:[\w.-]{1,32}:)?"
TEXT = rb"(?:\s" + sitemaps.IN_TAG + rb")?(?<!/)>\s{0,1000}+(?:<!\[CDATA\[)?([^<]{1,%d}+)<" % FIELD_BYTES_MAX
_OF_FEEDS, _OF_SITEMAPS = (re.compile(PREFIX + names + rb"[\s>]") for names in (rb"(item|entry)", rb"(url|sitemap)"))
_PAGE = re.compile(PREFIX + rb"(url)[\s>]")
_ATOM_LINK = re.compile(PREFIX + rb"link\s(" + sitemaps.IN_TAG + rb")>")
_HREF = re.compile(rb"""\bhref\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_REL = re.compile(rb"""\brel\s*=\s*["']([^"']*)["']""")
_ADDRESS, _CHANGED, _PUBLISHED, _PRIORITY, _FREQUENCY = (
    re.compile(rb"<(?!image:)" + PREFIX[1:] + names + TEXT)
    for names in (rb"(?:loc|link)", rb"(?:lastmod|updated|modified)", rb"(?:date|pubDate|published)", rb"priority",
                  rb"changefreq")
)  # fmt: skip
_NUMBER = re.compile(rb"\s*([01](?:\.\d{1,9}+)?|\.\d{1,9}+)\d*\s*")


class Entry(NamedTuple):
    """As written, but for the URL; None for what it does not say."""

    url: bytes  # in stored form
    element: str  # url, sitemap, item, entry
    lastmod: str | None
    priority: str | None
    changefreq: str | None


def of_list(
    body: bytes, content_type: str, url: bytes, bytes_max: int, source: int = Source.LINK
) -> Iterator[Entry]:  # fmt: skip
    """The entries of the list at `url`, in its order, at most sitemaps.LINKS_MAX; none of what is no list. body: with
    its content coding undone; a file that is itself compressed is unpacked to `bytes_max`. source: of the URL, rows.py:
    what a crawl takes for a list depends on who named it. Of a list in plain text an entry has nothing but its URL."""
    body, _ = at_once(sitemaps.unpacking(body, url, bytes_max, source == Source.SITEMAP))
    lists = sitemaps.listed(body, content_type, url, sitemaps.may_be_list(source, body))
    if lists is None:
        return
    body = at_once(sitemaps.in_utf8(body, content_type))
    if sitemaps.is_plain(body):
        yield from (Entry(target, "url", None, None, None) for target in lists[0])
        return
    body = at_once(sitemaps.without_sources(at_once(sitemaps.bare(body))))
    base, based = sitemaps.base_of(body, url), b"xml:base" in body
    for start, end, element in filter(None, spans(entry_of(body), body)):
        address = _unescaped(address_in(body, start, end))
        own = sitemaps.base_at(body, start, base) if based else base
        target = own.join(address) if address else None
        if target is not None:
            date = date_in(body, start, end)
            priority, frequency = (_text(field.search(body, start, end)) for field in (_PRIORITY, _FREQUENCY))
            yield Entry(target, element, _text(date), priority, frequency)


def entry_of(body: bytes) -> re.Pattern[bytes]:
    """What begins an entry of a list: the channel of a feed may have an image, with a `<url>` of its own."""
    return _OF_FEEDS if sitemaps.is_feed(body) else _OF_SITEMAPS


def address_in(body: bytes, start: int, end: int) -> bytes:
    """The page of an entry, as it is written: in the text of an element, in a link of Atom, or, where it has neither,
    in an item's permalink; empty if it names none."""
    found = _ADDRESS.search(body, start, end)
    if found is not None:
        return found[1]
    return atom_address(body, start, end) or sitemaps.permalink_in(body, start, end)


def date_in(body: bytes, start: int, end: int) -> re.Match[bytes] | None:
    """When an entry says that its page changed (group 1), or else when it was published."""
    return _CHANGED.search(body, start, end) or _PUBLISHED.search(body, start, end)


def ranks(body: bytes, url: bytes) -> Steps[dict[bytes, int]]:
    """Of the sitemap at `url`: the rank, 1..RANK_MAX, of pages whose priority is less than that of others. A priority
    counts by its distance to the list's highest, so one that is the same everywhere says nothing, as the protocol has
    it; where none is said it is 0.5. body: in UTF-8. In steps."""
    if b"priority>" not in body:
        return {}
    body = yield from sitemaps.bare(body)
    said: list[tuple[bytes, float]] = []
    for span in spans(_PAGE, body):
        if span is None:
            yield
            continue
        address, found = _ADDRESS.search(body, *span[:2]), _PRIORITY.search(body, *span[:2])
        number = None if found is None else _NUMBER.fullmatch(found[1])
        if address is not None:
            said.append((address[1], min(float(number[1]), 1.0) if number else 0.5))
    highest = max((priority for _, priority in said), default=0.0)
    base, ranked, worked = Base(url, stored=True), dict[bytes, int](), 0
    for reference, priority in said:
        rank = min(int((highest - priority) / RANK_STEP + 1e-6), RANK_MAX)
        if not rank:
            continue
        worked += len(reference) + ENTRY_COST
        if worked > STEP_BYTES:
            worked = 0
            yield
        target = base.join(_unescaped(reference))
        if target is not None:
            ranked[target] = min(rank, ranked.get(target, RANK_MAX))
    return ranked


def spans(entry: re.Pattern[bytes], body: bytes) -> Iterator[tuple[int, int, str] | None]:
    """(start, end, element) of each entry, as far as it is looked at, sitemaps.LINKS_MAX at most; None: a stop, at
    least each STEP_BYTES. entry: its first group is the element's name."""
    worked = 0
    for span in _spans(entry, body):
        worked += ENTRY_COST + (span[1] - span[0] if span else 0)
        if span is None or worked > STEP_BYTES:
            worked = 0
            yield None
        if span is not None:
            yield span


def _spans(entry: re.Pattern[bytes], body: bytes) -> Iterator[tuple[int, int, str] | None]:
    """None: a stop of the search."""
    before, count = None, 0
    for match in sitemaps.elements(entry, body):
        if match is None:
            yield None
            continue
        if before is not None:
            yield before.start(), min(match.start(), before.start() + ENTRY_BYTES_MAX), before[1].decode()
            count += 1
        if count == sitemaps.LINKS_MAX:
            return
        before = match
    if before is not None:
        yield before.start(), min(len(body), before.start() + ENTRY_BYTES_MAX), before[1].decode()


def atom_address(body: bytes, start: int, end: int) -> bytes:
    """The page of an entry that has `<link href>`: that of the link `alternate`, as a link without `rel` is, too
    (RFC 4287 4.2.7.2); other links are of the entry itself, its comments, its picture. Without an alternate: the first;
    empty if there is none."""
    first = b""
    for link in _ATOM_LINK.finditer(body, start, end):
        href, rel = _HREF.search(link[1]), _REL.search(link[1])
        address = (href[1] or href[2] or b"") if href is not None else b""
        if address and (rel is None or rel[1].strip().lower() in (b"", b"alternate")):
            return address
        first = first or address
    return first


def _text(found: re.Match[bytes] | None) -> str | None:
    return None if found is None else _unescaped(found[1])


def _unescaped(field: bytes) -> str:
    return sitemaps.unescaped(field.partition(b"]]>")[0].decode("utf-8", "replace").strip())
