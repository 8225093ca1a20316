"""The table of what sites list: a row for each entry of a sitemap, an index of sitemaps or a feed, with what that says
of the page: when it changed, how often it does, how it ranks among its site's pages.

For crawling, an entry is a link, and its date a sign of change (worker/page/sitemaps.py, lastmods.py); here all of it
is kept as it was written. As there, entries are found by searches, and no XML parser is used.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from itertools import islice

from irlcrawl.base.steps import at_once
from irlcrawl.base.url import Base
from irlcrawl.export.archives import Capture
from irlcrawl.export.pages import DECODED_BYTES_MAX
from irlcrawl.export.table import Row
from irlcrawl.web.coding import decode
from irlcrawl.worker.page import charset, sitemaps

FIELD_BYTES_MAX = 16_384
ENTRY_BYTES_MAX = 65_536
"""Of an entry, so much is looked at."""
_PREFIX = rb"<(?:[\w.-]{1,32}:)?"
_ENTRY = re.compile(_PREFIX + rb"(url|sitemap|item|entry)[\s>]")
_COMMENT = re.compile(rb"<!--(?:.*?-->|.*+)", re.DOTALL)
_TEXT = rb"(?:\s[^<>]{0,1000}+)?(?<!/)>\s{0,1000}+(?:<!\[CDATA\[)?([^<]{1,%d}+)<" % FIELD_BYTES_MAX
_ATOM_LINK = re.compile(rb"""<(?:atom:)?link\s[^<>]{0,%d}?\bhref\s*=\s*["']([^"'<>]+)""" % FIELD_BYTES_MAX)
_FIELDS = [
    re.compile(_PREFIX + names + _TEXT)
    for names in (rb"(?:loc|link)", rb"(?:lastmod|updated|modified|date|pubDate|published|publication_date)",
                  rb"priority", rb"changefreq")
]  # fmt: skip


def rows_of(capture: Capture) -> Iterator[Row]:
    """Rows of table.LISTED, in the order of the list; none of what is no list."""
    if capture.revisit or not 200 <= capture.exchange.status < 300:
        return
    exchange, stored = capture.exchange, capture.url.encode()
    content_type = (exchange.value(b"content-type") or b"").decode("latin-1")
    body, _ = decode(exchange.body, exchange.coding, DECODED_BYTES_MAX)
    body, _ = at_once(sitemaps.unpacking(body, stored, DECODED_BYTES_MAX))
    if sitemaps.listed(body, content_type, stored, as_text=False) is None:
        return
    codec = charset.sniff(body, content_type)
    if codec != "utf-8":
        body = at_once(charset.recoding(body, codec))
    body = _COMMENT.sub(b"", body)
    base, date = Base(stored, stored=True), capture.record.fields.get("warc-date")
    starts = [(match.start(), match[1].decode()) for match in islice(_ENTRY.finditer(body), sitemaps.LINKS_MAX)]
    for (start, element), end in zip(starts, [*(at for at, _ in starts[1:]), len(body)], strict=True):
        entry = body[start : min(end, start + ENTRY_BYTES_MAX)]
        address, *rest = (_text(found) for found in (field.search(entry) for field in _FIELDS))
        if address is None:
            address = _text(_ATOM_LINK.search(entry))
        target = None if address is None else base.join(address)
        if target is not None:
            yield target.decode(), capture.url, element, *rest, date


def _text(found: re.Match[bytes] | None) -> str | None:
    if found is None:
        return None
    text = found[1].partition(b"]]>")[0].decode("utf-8", "replace").strip()
    return html.unescape(text) if "&" in text else text
