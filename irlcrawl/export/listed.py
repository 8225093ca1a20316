"""The table of what sites list: a row for each entry of a sitemap, an index of sitemaps or a feed, with what that says
of the page, as it was written (worker/page/entries.py)."""

from __future__ import annotations

from collections.abc import Iterator

from irlcrawl.export.archives import Capture
from irlcrawl.export.pages import DECODED_BYTES_MAX, source_of
from irlcrawl.export.table import Row
from irlcrawl.web.coding import decode
from irlcrawl.worker.page import entries


def rows_of(capture: Capture) -> Iterator[Row]:
    """Rows of table.LISTED, in the order of the list; none of what is no list."""
    if capture.revisit or not 200 <= capture.exchange.status < 300:
        return
    exchange = capture.exchange
    content_type = exchange.content_type
    body, _ = decode(exchange.body, exchange.coding, DECODED_BYTES_MAX)
    date = capture.record.fields.get("warc-date")
    for entry in entries.of_list(body, content_type, capture.url.encode(), DECODED_BYTES_MAX, source_of(capture)):
        yield entry.url.decode(), capture.url, *entry[1:], date
