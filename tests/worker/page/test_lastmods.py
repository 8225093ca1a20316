"""What lists say of when pages changed."""

from __future__ import annotations

import pytest

from irlcrawl.base.steps import at_once
from irlcrawl.worker.page.lastmods import changed_since

URL = b"http://a.test/sitemap.xml"
NOON = 1_795_435_200.0  # 2026-11-23 12:00 UTC


def told(body: bytes, since: float = NOON - 86_400, now: float = NOON) -> dict[bytes, float]:
    return at_once(changed_since(body, URL, since, now))


def test_a_sitemap_names_what_changed_since() -> None:
    body = b"""<urlset><url><loc>http://a.test/1</loc><lastmod>2026-11-23T11:00:00Z</lastmod></url>
    <url><loc> /2?a=1&amp;b=2 </loc><image:loc>http://a.test/i.png</image:loc>
      <lastmod>2026-11-23T11:00:00+01:00</lastmod></url>
    <url><loc>http://a.test/old</loc><lastmod>2026-11-20</lastmod></url>
    <url><loc>http://a.test/today</loc><lastmod>2026-11-23</lastmod></url>
    <url><loc>http://a.test/none</loc></url><url><loc>http://a.test/odd</loc><lastmod>soon</lastmod></url>
    <url><loc>http://a.test/ahead</loc><lastmod>2031-01-01</lastmod></url></urlset>"""
    assert told(body) == {
        b"http://a.test/1": NOON - 3600, b"http://a.test/2?a=1&b=2": NOON - 7200, b"http://a.test/today": NOON,
    }  # fmt: skip


def test_feeds_name_their_items() -> None:
    rss = b"""<rss><channel><link>http://a.test/</link><item><title>x</title><link><![CDATA[http://a.test/n]]></link>
    <pubDate>Mon, 23 Nov 2026 11:30:00 GMT</pubDate></item></channel></rss>"""
    atom = b"""<feed><updated>2026-11-23T11:59:00Z</updated><entry><link rel="alternate" href="/n"/>
    <updated>2026-11-23T11:30:00Z</updated></entry></feed>"""
    assert told(rss) == told(atom) == {b"http://a.test/n": NOON - 1800}


def test_a_signal_of_an_atom_feed_named_the_entry_itself_and_not_its_page() -> None:
    """Of several links the first was taken, which in Blogger's feeds is that of the comments."""
    atom = b"""<feed><entry><updated>2026-11-23T11:30:00Z</updated><link rel='replies' href='/n/comments'/>
    <link rel='self' href='/feeds/n'/><link rel='alternate' type='text/html' href='/n'/></entry></feed>"""
    assert told(atom) == {b"http://a.test/n": NOON - 1800}
    assert told(atom.replace(b"alternate", b"edit")) == {b"http://a.test/n/comments": NOON - 1800}


def test_a_list_that_stamps_its_entries_says_nothing() -> None:
    def entries(dates: list[bytes]) -> bytes:
        rows = (b"<url><loc>/%d</loc><lastmod>%b</lastmod></url>" % row for row in enumerate(dates))
        return b"<urlset>" + b"".join(rows)

    one, others = b"2026-11-23T11:00:00Z", [b"2026-11-23T10:%02d:00Z" % minute for minute in range(9)]
    assert told(entries([one] * 8)) == told(entries([one] * 10 + others)) == {}
    assert len(told(entries([one] * 8 + others))) == 17
    assert len(told(entries([one] * 3))) == 3


@pytest.mark.parametrize("piece", [b"<url>", b"<url><loc>", b"<url><lastmod>", b"<entry><link ", b"<lastmod>2026"])
def test_it_ends_soon_whatever_is_in_the_list(piece: bytes) -> None:
    assert told(piece * (300_000 // len(piece))) == {}
