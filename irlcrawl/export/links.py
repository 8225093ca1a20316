"""The table of links: a row for each reference of a page, with the words it stands under, and for each redirect."""

from __future__ import annotations

from collections.abc import Iterator

from irlcrawl.base.reasons import OF_PAGES
from irlcrawl.base.url import canonical
from irlcrawl.export.archives import Capture
from irlcrawl.export.listed import MAYBE_LISTS, untold
from irlcrawl.export.media.kinds import handler_of
from irlcrawl.export.originals import Originals
from irlcrawl.export.pages import of_header, read, resolver_of
from irlcrawl.export.table import Row

REDIRECT = "redirect"
"""The `element` of a row that stands for a redirect."""


def rows_of(capture: Capture, pdf: bool = False, originals: Originals | None = None) -> Iterator[Row]:
    """Rows of table.LINKS, in the order of the page. Links that no crawl follows (`mailto:` and the like), and those to
    the page itself, are left out. originals: where the page of a `revisit` record is found; without it, such a record
    has no links."""
    status, url, date = capture.exchange.status, capture.url, capture.record.fields.get("warc-date")
    stored = url.encode()
    if 300 <= status < 400:
        location = capture.exchange.value(b"location")
        target = canonical(location, stored) if location else None
        if target is not None and target != stored:
            yield url, target.decode(), None, None, REDIRECT, date
    found = originals.of(capture) if originals is not None and capture.revisit else capture
    if found is None or found.revisit or found.exchange.status not in OF_PAGES:
        return
    page = read(found)
    if page.media_type in MAYBE_LISTS and (entries := untold(found, page.body)):
        for entry in entries:
            if entry.url != stored:
                yield url, entry.url.decode(), None, None, entry.element, date
        return
    for href, rel, element in of_header(found.exchange):
        target = canonical(href, stored)
        if target is not None and target != stored:
            yield url, target.decode(), None, rel or None, element, date
    handler = handler_of(page.media_type, pdf) if page.body else None
    if handler is None:
        return
    base, links = handler.links(page.body, page.codec)
    resolver = resolver_of(stored, base, page.codec)
    if resolver is None:
        return
    for link in links:
        target = resolver.join(link.href)
        if target is not None and target != stored:
            yield url, target.decode(), link.text or None, link.rel or None, link.element, date
