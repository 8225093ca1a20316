"""What sitemaps and feeds say of the pages that they list, as rows."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.rows import Source
from irlcrawl.worker.page import sitemaps
from tests.cli.conftest import Run
from tests.export.made import Page, make_job

XML = {"Content-Type": "application/xml"}
SITEMAP = b"""<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:news="http://www.google.com/schemas/sitemap-news/0.9">
<url><loc>http://a.test/1?a=1&amp;b=2</loc><lastmod>2005-01-01</lastmod><changefreq>monthly</changefreq>
<priority>0.8</priority></url>
<!-- <url><loc>http://a.test/no</loc><priority>1.0</priority></url> -->
<url><loc><![CDATA[ /2 ]]></loc></url>
<url><loc>mailto:x@a.test</loc><priority>1.0</priority></url>
<url><loc>http://a.test/n</loc><news:news><news:publication_date>2008-12-23</news:publication_date></news:news></url>
</urlset>"""
INDEX = b"""<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><sitemap><loc>http://a.test/s1.xml.gz</loc>
<lastmod>2004-10-01T18:23:17+00:00</lastmod></sitemap></sitemapindex>"""
RSS = b"""<rss version="2.0"><channel><link>http://a.test/</link><lastBuildDate>x</lastBuildDate><item><link>/r</link>
<pubDate>Tue, 03 Jun 2003 09:39:21 GMT</pubDate></item></channel></rss>"""
ATOM = b"""<feed xmlns="http://www.w3.org/2005/Atom"><link href="/self" rel="self"/><entry><title>T</title>
<link rel="self" href="/feeds/a"/><link href="/a" rel="alternate"/>
<updated>2003-12-13T18:30:02Z</updated></entry></feed>"""


def test_each_entry_of_a_list_is_a_row_with_what_is_said_of_it(tmp_path: Path, run: Run) -> None:
    job = make_job(tmp_path / "job", [
        Page("http://a.test/s.xml", SITEMAP, XML), Page("http://a.test/i.xml", INDEX, XML),
        Page("http://a.test/s1.xml.gz", gzip.compress(SITEMAP[:-100].replace(b"/1?", b"/packed?")),
             {"Content-Type": "application/gzip"}),
        Page("http://a.test/rss", RSS, {"Content-Type": "application/rss+xml"}),
        Page("http://a.test/atom", ATOM, {"Content-Type": "application/atom+xml"}),
        Page("http://a.test/", b"<a href=/x>x</a>"), Page("http://a.test/gone.xml", SITEMAP, XML, status=404),
    ])  # fmt: skip
    code, out, _ = run("export", "listed", job.path)
    assert code == ExitCode.DONE
    rows = [json.loads(line) for line in out.splitlines()]
    assert all(row["fetch_time"].startswith("2023-11-14T22:30:0") for row in rows)
    said = {row["list_url"].removeprefix("http://a.test/"): [] for row in rows}
    for row in rows:
        said[row["list_url"].removeprefix("http://a.test/")].append(
            [row["url"].removeprefix("http://a.test"), row["element"], row["lastmod"], row["priority"],
             row["changefreq"]]
        )  # fmt: skip
    assert said.pop("s1.xml.gz")[0] == ["/packed?a=1&b=2", "url", "2005-01-01", "0.8", "monthly"]
    assert said == {
        "s.xml": [["/1?a=1&b=2", "url", "2005-01-01", "0.8", "monthly"], ["/2", "url", None, None, None],
                  ["/n", "url", None, None, None]],
        "i.xml": [["/s1.xml.gz", "sitemap", "2004-10-01T18:23:17+00:00", None, None]],
        "rss": [["/r", "item", "Tue, 03 Jun 2003 09:39:21 GMT", None, None]],
        "atom": [["/a", "entry", "2003-12-13T18:30:02Z", None, None]],
    }  # fmt: skip


FEED = b"""<rss version="2.0" xmlns:media="http://search.yahoo.com/mrss/" xmlns:itunes="i"><channel>
<image><url>http://a.test/i.png</url><title>Logo</title><link>http://a.test/image</link></image>
<title>News</title><description>All</description><language>en-gb</language>
<item><media:group><media:title>grp</media:title></media:group><itunes:title>short</itunes:title>
<title>if a &lt; b and c &gt; d</title><link>/1</link><source url="/s">Other</source></item></channel></rss>"""
SOURCES = b"""<a:feed xmlns:a="http://www.w3.org/2005/Atom"><a:entry><a:source><a:title>Orig</a:title>
<a:link rel="alternate" href="/orig"/><a:updated>2001-01-01T00:00:00Z</a:updated></a:source><a:title>Mine</a:title>
<a:link rel="Alternate" href="/x1"/><a:published>2025-01-01T00:00:00Z</a:published>
<a:updated>2026-01-01T00:00:00Z</a:updated></a:entry>
<a:entry><a:title>Rel</a:title><a:link rel="related" href="/x2"/></a:entry></a:feed>"""
VIDEOS = b"""<urlset xmlns:video="v"><url><loc>/v</loc><video:video><video:title>V</video:title>
<video:publication_date>2001-01-01</video:publication_date></video:video><lastmod>2026-03-03</lastmod></url></urlset>"""


def test_what_others_say_within_a_feed_was_taken_for_what_its_entries_say(tmp_path: Path, run: Run) -> None:
    job = make_job(tmp_path / "job", [
        Page("http://a.test/rss", FEED, {"Content-Type": "application/rss+xml"}),
        Page("http://a.test/atom", SOURCES, {"Content-Type": "application/atom+xml"}),
        Page("http://a.test/s.xml", VIDEOS, XML),
    ])  # fmt: skip
    rows = [json.loads(line) for line in run("export", "listed", job.path)[1].splitlines()]
    assert [(row["url"].removeprefix("http://a.test"), row["lastmod"]) for row in rows] == [
        ("/1", None), ("/x1", "2026-01-01T00:00:00Z"), ("/x2", None), ("/v", "2026-03-03"),
    ]  # fmt: skip
    rows = [json.loads(line) for line in run("export", "links", job.path)[1].splitlines()]
    assert [(row["to_url"].removeprefix("http://a.test"), row["anchor_text"]) for row in rows] == [
        ("/1", "if a < b and c > d"), ("/x1", "Mine"), ("/x2", "Rel"), ("/v", None),
    ]  # fmt: skip
    pages = [json.loads(line) for line in run("export", "pages", job.path)[1].splitlines()]
    assert [(page["title"], page["description"], page["lang"], page["links"]) for page in pages] == [
        ("News", "All", "en-gb", 1), (None, None, None, 2), (None, None, None, 1),
    ]  # fmt: skip


BASED = b"""<feed xmlns="http://www.w3.org/2005/Atom" xml:base="/blog/"><title>T</title>
<entry><title>One</title><link href="1" rel="alternate" title="Home > News"/></entry>
<entry xml:base="sub/"><title>Two</title><link title='a > "b"' href="2?a=1&amp;b=2"/></entry></feed>"""
PERMALINKS = b"""<rss version="2.0"><channel><item><title>Three</title><guid>http://a.test/3</guid></item>
<item><title>No</title><guid isPermaLink="false">http://a.test/no</guid></item>
<item><description><![CDATA[<item> <link>/no</link>]]></description><title><![CDATA[<b>Four</b>]]></title><link/>
<guid title="a > b"><![CDATA[http://a.test/4]]></guid></item></channel></rss>"""


def test_links_of_feeds_were_others_than_a_crawl_follows(tmp_path: Path, run: Run) -> None:
    """Those with xml:base, those in a permalink, and those behind a `>` in an attribute or an element in CDATA."""
    job = make_job(tmp_path / "job", [
        Page("http://a.test/atom", BASED, {"Content-Type": "application/atom+xml"}),
        Page("http://a.test/rss", PERMALINKS, {"Content-Type": "application/rss+xml"}),
        Page("http://a.test/s.xml", b"<urlset><url><loc title='a > b'>/5</loc></url></urlset>", XML),
    ])  # fmt: skip
    want = {
        "/blog/1": "One", "/blog/sub/2?a=1&b=2": "Two", "/3": "Three", "/4": "Four", "/5": None,
    }  # fmt: skip
    listed = [json.loads(line) for line in run("export", "listed", job.path)[1].splitlines()]
    assert [row["url"].removeprefix("http://a.test") for row in listed] == list(want)
    links = [json.loads(line) for line in run("export", "links", job.path)[1].splitlines()]
    assert {row["to_url"].removeprefix("http://a.test"): row["anchor_text"] for row in links} == want
    pages = [json.loads(line) for line in run("export", "pages", job.path)[1].splitlines()]
    assert [row["links"] for row in pages] == [2, 2, 1]


@pytest.mark.parametrize("html", ["<picture><source srcset=a><img></picture>", "<video><source src=v></video>"])
def test_a_source_of_html_swallowed_the_items_up_to_one_of_the_feed(tmp_path: Path, run: Run, html: str) -> None:
    item = "<item><title>T{0}</title><description><![CDATA[{1}]]></description><link>/{0}</link></item>"
    items = "".join(item.format(number, html) for number in range(5))
    rss = f"<rss><channel>{items}<item><link>/5</link><source url='/s'>S</source></item></channel></rss>"
    source = "<source><title>S</title></source>"
    entry = f"<entry><content type='html'><![CDATA[{{1}}]]></content><link href='/{{0}}'/>{source}</entry>"
    atom = f"<feed xmlns='http://www.w3.org/2005/Atom'>{''.join(entry.format(n, html) for n in range(6))}</feed>"
    for text in (rss, atom):
        job = make_job(tmp_path / str(len(text)), [Page("http://a.test/f", text.encode(), XML)])
        for what, column in (("listed", "url"), ("links", "to_url")):
            rows = [json.loads(line) for line in run("export", what, job.path)[1].splitlines()]
            assert [row[column] for row in rows] == [f"http://a.test/{number}" for number in range(6)]
        assert len(sitemaps.listed(text.encode(), "application/xml", b"http://a.test/f", False)[0]) == 6


def test_links_of_packed_sitemaps_were_in_no_table(tmp_path: Path, run: Run) -> None:
    packed = gzip.compress(b"<urlset><url><loc>http://a.test/1</loc></url></urlset>")
    type_ = {"Content-Type": "application/x-gzip"}
    job = make_job(tmp_path / "job", [
        Page("http://a.test/s.xml.gz", packed, type_), Page("http://a.test/s", packed, type_, source=Source.SITEMAP),
        Page("http://a.test/other.gz", gzip.compress(b"<p>http://a.test/no"), type_),
    ])  # fmt: skip
    rows = [json.loads(line) for line in run("export", "links", job.path)[1].splitlines()]
    assert [(row["from_url"], row["to_url"]) for row in rows] == [
        ("http://a.test/s.xml.gz", "http://a.test/1"), ("http://a.test/s", "http://a.test/1"),
    ]  # fmt: skip
    pages = [json.loads(line) for line in run("export", "pages", job.path)[1].splitlines()]
    assert [row["links"] for row in pages] == [1, 1, None]
    assert {row["content_mime_detected"] for row in pages} == {"application/gzip"}


def test_lists_that_a_crawl_followed_had_no_rows(tmp_path: Path, run: Run) -> None:
    """Those in plain text, and those under a type such as text/html, of which a robots.txt had said what they are."""
    text, html = {"Content-Type": "text/plain"}, {"Content-Type": "text/html"}
    job = make_job(tmp_path / "job", [
        Page("http://a.test/1.txt", b"http://a.test/a\r\nhttp://a.test/b\n", text, source=Source.SITEMAP),
        Page("http://a.test/2.txt", b"http://a.test/c\n", text, source=Source.SEED),
        Page("http://a.test/3.txt", b"http://a.test/no\n", text),
        Page("http://a.test/4.xml", b"<urlset><url><loc>/d</loc></url></urlset>", html, source=Source.SITEMAP),
        Page("http://a.test/5.xml", b"<urlset><url><loc>/no</loc></url></urlset>", html),
        Page("http://a.test/6.txt", "http://a.test/e\n".encode("utf-16"), text, source=Source.SITEMAP),
        Page("http://a.test/7.txt.gz", gzip.compress(b"http://a.test/f\n"), {"Content-Type": "application/gzip"},
             source=Source.SITEMAP),
        Page("http://a.test/8", b"http://a.test/g\n", text, source=Source.REDIRECT, depth=0),
        Page("http://a.test/9", b"http://a.test/h\n", html, source=Source.SITEMAP),
        Page("http://a.test/10", b"http://a.test/no\n", text, source=Source.REDIRECT),
    ])  # fmt: skip
    rows = [json.loads(line) for line in run("export", "listed", job.path)[1].splitlines()]
    assert [row["url"].removeprefix("http://a.test/") for row in rows] == list("abcdefgh")
    assert {row["element"] for row in rows} == {"url"} and {row["lastmod"] for row in rows} == {None}
    links = [json.loads(line) for line in run("export", "links", job.path)[1].splitlines()]
    assert [(row["from_url"], row["to_url"]) for row in links] == [(row["list_url"], row["url"]) for row in rows]
    assert {(row["element"], row["anchor_text"]) for row in links} == {("url", None)}
    pages = [json.loads(line) for line in run("export", "pages", job.path)[1].splitlines()]
    assert [row["links"] for row in pages] == [2, 1, None, 1, 0, 1, 1, 1, 1, None]


def test_a_list_without_end_has_as_many_rows_as_a_crawl_takes_links_of_it(tmp_path: Path, run: Run) -> None:
    entries = b"".join(b"<url><loc>/%d</loc></url>" % number for number in range(sitemaps.LINKS_MAX + 5))
    job = make_job(tmp_path / "job", [Page("http://a.test/s.xml", b"<urlset>" + entries + b"</urlset>", XML)])
    out = run("export", "listed", job.path)[1]
    assert out.count("\n") == sitemaps.LINKS_MAX
