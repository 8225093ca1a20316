"""When pages changed, by what a sitemap or a feed says of them: `lastmod`, `updated`, `pubDate`.

Read only where a list is visited again, and only what is later than the visit before: a sitemap of 50,000 pages then
names the few that changed. Of each entry its page and its date are taken as entries.py does.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from irlcrawl.base.steps import Steps
from irlcrawl.worker.page import sitemaps
from irlcrawl.worker.page.entries import address_in, date_in, entry_of, spans

STAMPED_LEAST = 8
"""Of so many entries or more, all are doubted if more than half have one date: a generator stamped them."""
DAY_S = 86_400.0


def changed_since(body: bytes, url: bytes, since: float, now: float) -> Steps[dict[bytes, float]]:
    """Addresses in stored form -> the unix second at which they changed, of the entries of the list at `url`, fetched
    at `now`, that changed after `since`. A day without a time is its end, at most `now`; what is to come is no date.
    body: in UTF-8. In steps."""
    body = yield from sitemaps.without_sources((yield from sitemaps.bare(body)))
    base, based = sitemaps.base_of(body, url), b"xml:base" in body
    found, dates = dict[bytes, float](), Counter[float]()
    for span in spans(entry_of(body), body):
        if span is None:
            yield
            continue
        start, end, element = span
        date = date_in(body, start, end) if element != "sitemap" else None
        at = None if date is None else _unix(date[1].partition(b"]]>")[0])
        if at is None or at > now + DAY_S:
            continue
        dates[at] += 1
        if at <= since:
            continue
        text = address_in(body, start, end).partition(b"]]>")[0].decode("utf-8", "replace").strip()
        own = sitemaps.base_at(body, start, base) if based else base
        target = own.join(sitemaps.unescaped(text)) if text else None
        if target is not None and target != url:
            found[target] = min(at, now)
    total = dates.total()
    if total >= STAMPED_LEAST and 2 * dates.most_common(1)[0][1] > total:
        return {}
    return found


def _unix(text: bytes) -> float | None:
    """W3C's date and time (sitemaps, Atom), or RFC 822's (RSS); a day alone is its end."""
    words = text.strip()[:64].decode("latin-1")
    try:
        if words[:1].isdigit() and words[4:5] == "-":
            at = datetime.fromisoformat(words)
        else:
            at = parsedate_to_datetime(words)
        day = DAY_S - 1 if len(words) == len("2026-11-23") else 0.0
        return at.replace(tzinfo=at.tzinfo or UTC).timestamp() + day
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
