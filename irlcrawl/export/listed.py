"""The table of what sites list: a row for each entry of a sitemap, an index of sitemaps or a feed, with what that says
of the page, as it was written (worker/page/entries.py)."""

from __future__ import annotations

from collections.abc import Iterator

from irlcrawl.base.rows import Source
from irlcrawl.export.archives import Capture, source_of
from irlcrawl.export.table import Row
from irlcrawl.web.coding import decode
from irlcrawl.worker.page import entries

DECODED_BYTES_MAX = 64 << 20
"""Of a body that decodes to more, so much is read."""
LISTS = (Source.SITEMAP, Source.SEED)
"""Sources of URLs that may be lists under any media type."""
_SIGNS = tuple(f'"source":{source:d},' for source in (*LISTS, Source.REDIRECT))
"""In a unit as archives have it: to load the units of all pages would take longer."""
MAYBE_LISTS = ("text/html", "text/plain", "application/gzip")
"""Media types that do not say whether a body is a list."""


def rows_of(capture: Capture) -> Iterator[Row]:
    """Rows of table.LISTED, in the order of the list; none of what is no list."""
    if capture.revisit or not 200 <= capture.exchange.status < 300:
        return
    exchange = capture.exchange
    body, _ = decode(exchange.body, exchange.coding, DECODED_BYTES_MAX)
    date = capture.record.fields.get("warc-date")
    for entry in _entries(capture, body, source_of(capture)):
        yield entry.url.decode(), capture.url, *entry[1:], date


def untold(capture: Capture, body: bytes) -> list[entries.Entry]:
    """The entries of a body, content-decoded, of one of MAYBE_LISTS that the crawl took for a list, as a robots.txt, a
    sitemap or a seed named its URL. Empty for a page."""
    unit = capture.record.unit
    if unit is None or not any(sign in unit for sign in _SIGNS):
        return []
    source = source_of(capture)
    return list(_entries(capture, body, source)) if source in LISTS else []


def _entries(capture: Capture, body: bytes, source: int) -> Iterator[entries.Entry]:
    if not capture.of_web:
        return iter(())
    return entries.of_list(body, capture.exchange.content_type, capture.url.encode(), DECODED_BYTES_MAX, source)
