"""The table of pages: a row a capture, with what the page says of itself and where it lies."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from irlcrawl.base.rows import NO_SEGMENT
from irlcrawl.base.steps import at_once
from irlcrawl.base.url import Base, canonical, host_of
from irlcrawl.export.archives import Archive, Capture, source_of, unit_of
from irlcrawl.export.cdxj import REVISIT
from irlcrawl.export.hostname import host_columns
from irlcrawl.export.language import language_of
from irlcrawl.export.listed import DECODED_BYTES_MAX, LISTS, MAYBE_LISTS, untold
from irlcrawl.export.media.content import Content
from irlcrawl.export.media.kinds import PDF, handler_of
from irlcrawl.export.media.sniff import detected
from irlcrawl.export.originals import Originals, refers_to
from irlcrawl.export.surt import surt
from irlcrawl.export.table import PAGES, TEXT, Column, Row
from irlcrawl.web.coding import decode
from irlcrawl.web.wishes import combined, joined, words_of
from irlcrawl.worker.archive.record import NOT_MODIFIED
from irlcrawl.worker.archive.unit import Exchange
from irlcrawl.worker.archive.warc import WarcName
from irlcrawl.worker.page import charset, sitemaps
from irlcrawl.worker.page.links import followed_rels, link_values, refresh_target

WARC, DIAGNOSTICS, ROBOTS = "warc", "crawldiagnostics", "robotstxt"
"""Common Crawl's subsets: pages with status 200, other responses, robots.txt."""
GZIP, XML = "application/gzip", "application/xml"
_NAMES = {
    "CP866": "IBM866", "SHIFT-JIS": "SHIFT_JIS", "CP949": "EUC-KR", "BIG5HKSCS": "BIG5", "ISO2022_JP": "ISO-2022-JP",
    "MAC-ROMAN": "MACINTOSH", "MAC-CYRILLIC": "X-MAC-CYRILLIC", "USER-DEFINED": "X-USER-DEFINED",
}  # fmt: skip
"""Of encodings, by Python's names, where the standard's is another word."""


class Asked(NamedTuple):
    """What beside the columns that every table of pages has."""

    text: bool = False
    language: bool = False
    robots: bool = False  # rows for robots.txt, too
    pdf: bool = False  # PDFs are read
    originals: bool = False  # of `revisit` records, what the captures say to which they refer


def columns(asked: Asked) -> tuple[Column, ...]:
    return (*PAGES, TEXT) if asked.text else PAGES


class Read(NamedTuple):
    """A capture, decoded, with the handler's way to read it."""

    content_type: str
    mime: str  # declared, as written, its essence
    found_type: str  # by its first bytes
    media_type: str  # by which it is read: of a packed list the type of what is in it
    codec: str  # of textual types; empty otherwise
    body: bytes


def read(capture: Capture) -> Read:
    """The body of a capture as a handler reads it."""
    exchange = capture.exchange
    content_type = exchange.content_type
    mime = exchange.mime
    if capture.revisit:
        return Read(content_type, REVISIT, REVISIT, REVISIT, "", b"")
    body, _ = decode(exchange.body, exchange.coding, DECODED_BYTES_MAX)
    found_type = media_type = detected(body, mime)
    if media_type == GZIP and (listed := _unpacked(capture, body)) is not None:
        body, media_type = listed
    textual = media_type != PDF and handler_of(media_type) is not None
    codec = charset.sniff(body, content_type) if textual else ""
    return Read(content_type, mime, found_type, media_type, codec, body)


def _unpacked(capture: Capture, body: bytes) -> tuple[bytes, str] | None:
    """(what is in a packed sitemap or feed, XML); None for other packed files."""
    if not capture.of_web:
        return None
    inside, _ = at_once(sitemaps.unpacking(body, capture.url.encode(), DECODED_BYTES_MAX, source_of(capture) in LISTS))
    if inside is body or sitemaps.listed(inside, "", capture.url.encode(), False) is None:
        return None
    return inside, XML


def is_robots(capture: Capture) -> bool:
    """Whether no URL of the frontier stands behind a capture: a robots.txt, asked for its rules."""
    unit = capture.record.unit
    return unit is not None and str(NO_SEGMENT) in unit and unit_of(capture.record).get("segment") == NO_SEGMENT


def _wishes(capture: Capture, original: Capture | None) -> str | None:
    """What the owner says about the page's use, in its header, in it or in the files of its host. A 304 has neither the
    page nor all of its header: the original has."""
    said = _said(capture)
    if original is not None and capture.record.fields.get("warc-profile") == NOT_MODIFIED:
        said = joined(combined([*words_of(said), *words_of(_said(original))]))
    return said or None


def _said(capture: Capture) -> str:
    unit = capture.record.unit
    said = unit_of(capture.record).get("wishes", "") if unit is not None and '"wishes"' in unit else ""
    return said.encode("utf-8", "replace").decode() if isinstance(said, str) else ""


def subset_of(capture: Capture) -> str:
    """Common Crawl's subset of a capture."""
    return ROBOTS if is_robots(capture) else WARC if capture.exchange.status == 200 else DIAGNOSTICS


def row_of(capture: Capture, archive: Archive, asked: Asked, originals: Originals | None = None) -> Row:
    """A row of `columns(asked)`."""
    original = originals.of(capture) if originals is not None and capture.revisit else None
    page = read(original or capture)
    status = capture.exchange.status
    handler = handler_of(page.media_type, asked.pdf) if page.body else None
    found = handler.read(page.body, page.codec) if handler is not None else Content()
    if page.media_type in MAYBE_LISTS and (entries := untold(original or capture, page.body)):
        found.links = len(entries)
    words = handler.text(page.body, page.codec) if handler is not None and (asked.text or asked.language) else ""
    fields = capture.record.fields
    url = capture.url
    stored = url.encode()
    parts = _url_columns(stored)
    canonical_url = _resolved(found.canonical, found.base, stored, page.codec) if found.canonical else None
    canonical_url = canonical_url or _canonical_of(original or capture, stored)
    row: Row = (
        surt(stored).decode(), url, *parts,
        fields.get("warc-date"), status or None, _redirect(capture, status, stored),
        fields.get("warc-payload-digest", "").removeprefix("sha1:") or None,
        REVISIT if capture.revisit else page.mime or None, page.found_type,
        _charset_name(page.codec) if page.codec else None,
        language_of(words) if asked.language else None, _truncated(capture, original), archive.name,
        capture.record.offset, capture.length, _segment(archive.name),
        found.title or None, found.description or None, canonical_url, found.lang or None, found.opengraph or None,
        found.jsonld_types or None, found.links, _wishes(capture, original),
        *(refers_to(capture) if capture.revisit else (None, None)),
    )  # fmt: skip
    return (*row, words or None) if asked.text else row


def _truncated(capture: Capture, original: Capture | None) -> str | None:
    """Why a body is not whole. A `revisit` record has none at all, and so names a length (WARC 1.1, 6.7.3)."""
    whose = original or capture
    return None if whose.revisit else whose.record.fields.get("warc-truncated")


def rows(
    captures: Iterator[Capture], archive: Archive, asked: Asked, originals: Originals | None = None
) -> Iterator[tuple[str, Row]]:
    """(Common Crawl's subset, row) of each capture of an archive. originals: for `asked.originals`."""
    for capture in captures:
        subset = subset_of(capture)
        if subset != ROBOTS or asked.robots:
            yield subset, row_of(capture, archive, asked, originals)


def _url_columns(url: bytes) -> Row:
    """The columns from `url_host_name` to `url_query` of a stored URL; of any other, none of them."""
    scheme, mark, rest = url.decode().partition("://")
    authority, slash, target = rest.partition("/")
    if not mark or not slash:
        return (None,) * 15
    path, question, query = target.partition("?")
    port = authority.rpartition(":")[2] if not authority.endswith("]") else ""
    number = int(port) if port.isdigit() and port != authority else None
    return *host_columns(host_of(url)), scheme, number, f"/{path}", query if question else None


def _redirect(capture: Capture, status: int, url: bytes) -> str | None:
    location = capture.exchange.value(b"location") if 300 <= status < 400 else None
    target = canonical(location, url) if location else None
    return target.decode() if target is not None else None


def of_header(exchange: Exchange) -> Iterator[tuple[bytes, str, str]]:
    """(reference, rel, element) of the links that a header names, as the elements of HTML that they stand for: those
    that a crawl follows."""
    for reference, rel in link_values(value.decode("latin-1") for value in exchange.values(b"link")):
        if followed_rels(rel):
            yield reference.encode("latin-1"), " ".join(rel.lower().split()), "link"
    if (refresh := exchange.value(b"refresh")) and (target := refresh_target(refresh.decode("latin-1"))):
        yield target.encode("latin-1"), "", "meta"


def _canonical_of(capture: Capture, url: bytes) -> str | None:
    """The canonical URL that a header names, as for a PDF."""
    if capture.exchange.value(b"link") is None:
        return None
    for reference, rel, _ in of_header(capture.exchange):
        if "canonical" in rel.split() and (target := canonical(reference, url)) is not None:
            return target.decode()
    return None


def _resolved(href: str, base: str, url: bytes, codec: str) -> str | None:
    resolver = resolver_of(url, base, codec)
    target = resolver.join(href) if resolver is not None else None
    return target.decode() if target is not None else None


def resolver_of(url: bytes, base: str, codec: str) -> Base | None:
    """What resolves the references of a page at `url` that names this base (empty: none). None for a URL that no crawl
    fetches."""
    try:
        resolver = Base(url, codec or "utf-8")
    except ValueError:
        return None
    named = resolver.join(base) if base else None
    return resolver if named is None else Base(named, codec or "utf-8", stored=True)


@lru_cache(maxsize=64)
def _charset_name(codec: str) -> str:
    """As the standard of browsers names it (encoding.spec.whatwg.org, 4.2), in capitals as in cc-index."""
    name = codec.removeprefix("whatwg-").upper()
    if name.isdigit() or name == "CP1256":
        return f"WINDOWS-{name.removeprefix('CP')}"
    return _NAMES.get(name) or name.replace("ISO8859", "ISO-8859").replace("UTF-16-", "UTF-16").replace("_", "-")


@lru_cache(maxsize=64)
def _segment(name: str) -> str | None:
    """The stream that wrote an archive: Common Crawl's segments are parts of a crawl, too."""
    told = WarcName.parse(name)
    return None if told is None else f"s{told.stream:04d}"
