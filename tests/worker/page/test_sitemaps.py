"""What sitemaps, feeds and robots.txt files list: the forms of the protocols, those of the web, and the bounds."""

from __future__ import annotations

import gzip
import re
from unittest import mock
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.base.steps import at_once
from irlcrawl.base.url import canonical
from irlcrawl.worker.page import entries, sitemaps
from irlcrawl.worker.page.sitemaps import WINDOW_BYTES, bare, without_sources

URL = b"https://www.example.com/sitemap.xml"
PROTOCOL = b"""<?xml version="1.0" encoding="UTF-8"?>
<!-- <loc>http://www.example.com/commented</loc> -->
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:image="http://www.google.com/schemas/sitemap-image/1.1">
  <url><loc>http://www.example.com/</loc><lastmod>2005-01-01</lastmod><priority>0.8</priority></url>
  <url><loc>
     http://www.example.com/catalog?item=12&amp;desc=vacation_hawaii </loc></url>
  <url><loc><![CDATA[http://www.example.com/catalog?a=1&b=2]]></loc><image:image><image:loc>/i.png</image:loc></image:image></url>
  <url><loc>http://www.example.com/</loc></url>
</urlset>"""
INDEX = b"""<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><sitemap>
<loc>http://www.example.com/sitemap1.xml.gz</loc><lastmod>2004-10-01T18:23:17+00:00</lastmod></sitemap></sitemapindex>"""
RSS = b"""<?xml version="1.0"?><rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel><title>T</title>
<link>https://a.test/</link><atom:link href="https://a.test/feed?page=2" rel="next" type="application/rss+xml"/>
<item><title>A &amp; B</title><link>https://a.test/1</link><guid>urn:x</guid></item>
<item><link><![CDATA[ https://a.test/2?a=1&b=2 ]]></link></item></channel></rss>"""
ATOM = b"""<feed xmlns="http://www.w3.org/2005/Atom"><link href="http://a.test/"/><link rel='self' href='http://a.test/f'/>
<entry><link rel="alternate" href="/2003/12/13/atom03"/><link rel="edit" href="http://a.test/edit/1"/></entry></feed>"""


def listed(
    body: bytes, content_type: str = "application/xml", url: bytes = URL, as_text: bool = False
) -> list[str] | None:
    found = sitemaps.listed(body, content_type, url, as_text)
    return None if found is None else [target.decode() for target in found[0]]


def of_robots(text: bytes, url: bytes) -> list[bytes]:
    return at_once(sitemaps.of_robots(text, url))[0]


def test_the_forms_of_the_protocols() -> None:
    site = "http://www.example.com"
    assert listed(PROTOCOL) == [
        f"{site}/", f"{site}/catalog?item=12&desc=vacation_hawaii", f"{site}/catalog?a=1&b=2",
    ]  # fmt: skip
    assert listed(INDEX, "text/xml; charset=utf-8") == [f"{site}/sitemap1.xml.gz"]
    assert listed(RSS, "application/rss+xml") == [
        "https://a.test/", "https://a.test/1", "https://a.test/2?a=1&b=2", "https://a.test/feed?page=2",
    ]  # fmt: skip
    assert listed(ATOM, "application/atom+xml", b"http://a.test/feed") == [
        "http://a.test/", "http://a.test/2003/12/13/atom03",
    ]  # fmt: skip


def test_an_entry_of_atom_was_followed_to_itself() -> None:
    """Its link `self` is the entry once more, as XML, and no page."""
    entry = b"""<entry><id>x</id><link rel="replies" type="application/atom+xml" href="/comments/1.xml"/>
        <link rel="self" href="/feeds/1"/><link rel="edit" href="/feeds/1"/><link rel="enclosure" href="/a.mp3"/>
        <link rel="next" href="/feed?page=2"/><link rel="related" href="/about-it"/>
        <link rel="alternate" type="text/html" href="/1.html"/></entry>"""
    body = b'<feed xmlns="http://www.w3.org/2005/Atom">' + entry + b"</feed>"
    site = "https://www.example.com"
    assert listed(body, "application/atom+xml") == [f"{site}/feed?page=2", f"{site}/about-it", f"{site}/1.html"]


def test_a_query_with_a_parameter_named_as_an_entity_was_read_as_that_character() -> None:
    """`&copy=2` became a copyright sign wherever it was not written as `&amp;copy=2`: in CDATA, in text, by mistake."""
    want = ["https://www.example.com/?a=1&copy=2&lt=3"]
    assert listed(b"<urlset><url><loc>/?a=1&amp;copy=2&#38;lt=3</loc></url></urlset>") == want
    assert listed(b"<urlset><url><loc>/?a=1&copy=2&lt=3</loc></url></urlset>") == want
    rss = b"<rss><item><link><![CDATA[/?a=1&copy=2&lt=3]]></link></item></rss>"
    assert listed(rss, "application/rss+xml") == want
    assert listed(b"https://www.example.com/?a=1&copy=2&lt=3\n", "text/plain", as_text=True) == want
    robots = b"Sitemap: https://www.example.com/?a=1&copy=2&lt=3\n"
    assert [target.decode() for target in of_robots(robots, URL)] == want
    (entry,) = entries.of_list(rss, "application/rss+xml", URL, 1 << 20)
    assert entry.url.decode() == want[0]


def test_text_is_a_list_only_where_somebody_calls_it_a_sitemap() -> None:
    text = b"https://a.test/1\r\n  http://a.test/2 \nnot a url\n\nhttps://a.test/1\n"
    assert listed(text, "text/plain; charset=utf-8", as_text=True) == ["https://a.test/1", "http://a.test/2"]
    assert listed(text, "text/plain") is None


@pytest.mark.parametrize("kind", ["text/html; charset=UTF-8", "text/plain", "application/x-xml", "image/png", ""])
def test_a_sitemap_that_an_owner_names_was_lost_under_a_wrong_type(kind: str) -> None:
    """text/html is what PHP says of everything."""
    body = b"\xef\xbb\xbf<?xml version='1.0'?><urlset><url><loc>/a</loc></url></urlset>"
    assert listed(body, kind, as_text=True) == ["https://www.example.com/a"]
    page = b"<!doctype html><HTML><p>Begin with <urlset ><loc>/a</loc> or <rss >"
    assert listed(page, "text/html", as_text=True) is None


def test_a_text_of_urls_that_an_owner_names_was_lost_under_a_wrong_type() -> None:
    text = b"https://a.test/1\nhttps://a.test/2\n"
    for kind in ("text/html; charset=UTF-8", "application/xhtml+xml", "image/png"):
        assert listed(text, kind, as_text=True) == ["https://a.test/1", "https://a.test/2"]
        assert listed(text, kind) is None
        assert listed(b"<p>\n" + text, kind, as_text=True) is None


def test_a_byte_order_mark_and_cr_lost_lines() -> None:
    text = b"\xef\xbb\xbfhttps://a.test/1\rhttps://a.test/2\r"
    for kind in ("text/plain", "application/x-gzip", ""):
        assert listed(text, kind, as_text=True) == ["https://a.test/1", "https://a.test/2"]
    assert listed(b"%PDF-1.4\nhttps://a.test/1\n", "application/octet-stream", as_text=True) is None
    for robots in (b"\xef\xbb\xbfSitemap: /s.xml\nUser-agent: *\n", b"User-agent: *\rDisallow: /x\rSitemap: /s.xml\r"):
        assert of_robots(robots, URL) == [b"https://www.example.com/s.xml"]


def test_a_text_of_urls_is_known_by_each_of_its_lines() -> None:
    assert sitemaps.is_url_list(b"http://a.test/1\r\n\r\nhttps://a.test/2")
    assert sitemaps.is_url_list(b"http://a.test/1\n" * 10_000)
    assert not sitemaps.is_url_list(b"http://a.test/1\nand more\n")
    assert not sitemaps.is_url_list(b"") and not sitemaps.is_url_list(b"see http://a.test/1")


def test_rdf_in_the_head_of_a_page_in_xhtml_is_no_feed() -> None:
    page = b'<html xmlns="http://www.w3.org/1999/xhtml"><head><rdf:RDF xmlns:rdf="x"/></head><a href="/x">x</a></html>'
    assert listed(page, "application/xhtml+xml") is None


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"<html><loc>http://a.test/</loc></html>", "text/html"), (b"<svg><a href='/x'/></svg>", "image/svg+xml"),
        (b"<html xmlns='x'><urlsets></html>", "application/xhtml+xml"), (PROTOCOL, "text/html"), (b"", "text/xml"),
        (b"{}", "application/json"),
    ],
)  # fmt: skip
def test_other_bodies_are_neither(body: bytes, content_type: str) -> None:
    assert listed(body, content_type) is None


def test_what_the_web_sends_as_sitemaps() -> None:
    """No declaration, prefixes, an end that is missing, UTF-16, an encoding, an `&` as it is."""
    assert listed(b"<ns:urlset><ns:url><ns:loc>/a</ns:loc></ns:url><ns:url><ns:loc>/b?x=1&y=2</ns:loc>") == [
        "https://www.example.com/a", "https://www.example.com/b?x=1&y=2",
    ]  # fmt: skip
    assert listed("<urlset><loc>/ä</loc></urlset>".encode("utf-16")) == ["https://www.example.com/%C3%A4"]
    latin = '<?xml version="1.0" encoding="iso-8859-1"?><urlset><loc>/ä</loc></urlset>'.encode("latin-1")
    assert listed(latin, "text/xml; charset=iso-8859-1") == ["https://www.example.com/%C3%A4"]
    assert listed(b"<urlset><loc>mailto:x</loc><loc>javascript:1</loc><loc></loc></urlset>") == []


PARTS = st.sampled_from([
    b"<loc>http://a.test/1</loc>", b"<url><loc> /2 </loc></url>", b"<loc><![CDATA[/3]]></loc>",
    b"<!-- <loc>/4</loc> -->", b"<x:loc a='b'>/5&amp;6</x:loc>", b"<link>/7</link>", b"<link href='/8'/>",
    b"http://a.test/10\n", b"\nhttp://a.test/11\r\n", b"<loc>", b"<!--", b"-->", b"\n", b" ", b"<",
])  # fmt: skip


def unpacked(body: bytes, url: bytes, bytes_max: int) -> tuple[bytes, bool]:
    return at_once(sitemaps.unpacking(body, url, bytes_max))


def test_a_packed_sitemap_is_unpacked_up_to_a_bound() -> None:
    packed = gzip.compress(INDEX)
    assert unpacked(packed, b"http://a.test/s.xml.gz?v=1", 1 << 20) == (INDEX, False)
    assert unpacked(packed, b"http://a.test/s.xml.gz", 50) == (INDEX[:50], True)
    assert unpacked(packed, b"http://a.test/s.XML.GZ", 1 << 20) == (INDEX, False)
    assert unpacked(packed, b"http://a.test/s.bin", 1 << 20) == (packed, False)
    assert at_once(sitemaps.unpacking(packed, b"http://a.test/s.bin", 1 << 20, named=True)) == (INDEX, False)
    assert unpacked(INDEX, b"http://a.test/s.gz", 1 << 20) == (INDEX, False)


def test_links_beyond_the_most_of_the_protocol_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sitemaps, "LINKS_MAX", 3)
    body = b"<urlset>" + b"".join(b"<loc>/%d</loc>" % n for n in (1, 2, 2, 3, 4, 5, 4)) + b"</urlset>"
    found = sitemaps.listed(body, "text/xml", URL, False)
    assert found == ([b"https://www.example.com/%d" % n for n in (1, 2, 3)], 2)


def test_lines_of_a_robots_text() -> None:
    text = b"User-agent: *\nSitemap: https://a.test/s1.xml # the first\r\nDisallow: /\n sitemap :/s2.xml\n" \
           b"Xsitemap: /no\nSitemap:\nSitemap: https://a.test/s1.xml\rSITEMAP: ftp://a.test/"  # fmt: skip
    assert of_robots(text, b"http://b.test/robots.txt") == [b"https://a.test/s1.xml", b"http://b.test/s2.xml"]
    spelled = b"Sitemap https://a.test/s3.xml\nSite-map: /s4.xml\nSitemap for people\nSitemap\nSite map: /no\n"
    assert of_robots(spelled, b"http://b.test/robots.txt") == [
        b"https://a.test/s3.xml", b"http://b.test/s4.xml",
    ]  # fmt: skip


def test_the_101st_sitemap_of_a_robots_text_was_dropped_without_a_word() -> None:
    many = b"".join(b"Sitemap: /%d\n" % n for n in range(sitemaps.OF_ROBOTS_MAX + 7))
    found, beyond = at_once(sitemaps.of_robots(many, b"http://b.test/robots.txt"))
    assert (len(found), beyond) == (sitemaps.OF_ROBOTS_MAX, 7)


def test_sitemap_lines_that_name_nothing_held_the_loop() -> None:
    """30,000 lines that are no URLs: 0.17 seconds."""
    lines = b"".join(b"sitemap:///[%d\n" % n for n in range(30_000))
    with mock.patch.object(sitemaps.Base, "join", autospec=True, return_value=None) as join:
        steps = list(sitemaps.of_robots(lines, b"http://b.test/robots.txt"))
    assert join.call_count <= 4 * sitemaps.OF_ROBOTS_MAX
    assert join.call_count / (len(steps) + 1) < 1000


PATHS = st.lists(st.text("ab/?=&;%äß\u4e2d'\"<> ", max_size=12).map(lambda text: "http://a.test/" + text), max_size=20)


@settings(max_examples=200, deadline=None)
@given(PATHS)
def test_every_url_of_a_well_formed_sitemap_is_found(urls: list[str]) -> None:
    body = "<urlset>" + "".join(f"<url><loc>{escape(url)}</loc></url>" for url in urls) + "</urlset>"
    expected = dict.fromkeys(found for url in urls if (found := canonical(url.strip())) is not None)
    assert listed(body.encode()) == [url.decode() for url in expected]


@st.composite
def attributes(draw: st.DrawFn) -> str:
    """Attributes of XML, in which everything stands as it is that may."""
    said = ""
    for name, value in draw(st.dictionaries(st.sampled_from("abcd"), st.text("> /='\"x<&", max_size=8))).items():
        mark = draw(st.sampled_from("'\""))
        value = value.replace("&", "&amp;").replace("<", "&lt;").replace(mark, "&#34;" if mark == '"' else "&#39;")
        said += f" {name} = {mark}{value}{mark}"
    return said


@given(st.lists(attributes(), min_size=1, max_size=6), st.sampled_from(["", " "]))
def test_a_greater_than_sign_in_an_attribute_made_urls_that_do_not_exist(said: list[str], space: str) -> None:
    site = "https://www.example.com"
    want = [f"{site}/{n}" for n in range(len(said))]
    for form in (
        "<url><loc{0}{2}>/{1}</loc></url>", "<item><link{0}{2}>/{1}</link></item>",
        "<entry><link{0} href='/{1}'{2}/></entry>", "<entry><link href='/{1}'{0}{2}/></entry>",
        f"<item><guid{{0}}>{site}/{{1}}</guid></item><item><guid{{0}} isPermaLink='false'>{site}/no</guid></item>",
    ):  # fmt: skip
        root = {"<url": "urlset", "<ite": "rss", "<ent": "feed"}[form[:4]]
        body = f"<{root}>{''.join(form.format(one, n, space) for n, one in enumerate(said))}</{root}>".encode()
        ElementTree.fromstring(body)  # it is well-formed
        assert listed(body) == want
        assert [entry.url.decode() for entry in entries.of_list(body, "text/xml", URL, 1 << 20)] == want


ASIDES = st.sampled_from([
    b"<!--", b"-->", b"<![CDATA[", b"]]>", b"<link>/no</link>", b"<", b"]", b"-", b">", b"word ", b"<!",
])  # fmt: skip


@settings(max_examples=300)
@given(st.lists(ASIDES, max_size=30).map(b"".join), st.integers(1, 60))
def test_a_feed_is_read_without_comments_and_markup_in_cdata(body: bytes, window: int) -> None:
    def kept(found: re.Match[bytes]) -> bytes:
        text, mark, _ = (found[1] or b"").partition(b"<")
        return b"" if found[1] is None else b"<![CDATA[" + text + (found[2] if found[2] or not mark else b"")

    body = b"<rss>" + body
    with mock.patch.object(sitemaps, "WINDOW_BYTES", window):
        found = at_once(bare(body))
    assert found == re.sub(rb"(?s)<!--.*?(?:-->|\Z)|<!\[CDATA\[(.*?)(\]\]>|\Z)", kept, body)


@pytest.mark.parametrize(
    "part",
    [
        b"<loc>", b"<loc> ", b"<link ", b'<link href="', b"<!--", b"<loc><![CDATA[", b"<a:loc ", b"<link href='x' ",
        b"<link>\n\n", b"&amp;",
    ],
)  # fmt: skip
def test_hostile_markup_comes_to_an_end(part: bytes) -> None:
    """Four megabytes would take hours in quadratic time."""
    body = b"<rss>" + part * ((4 << 20) // len(part))
    for content in (body, b"<urlset>" + body):
        assert sitemaps.listed(content, "text/xml", URL, False) is not None


@given(st.lists(PARTS, max_size=30).map(b"".join), st.integers(1, 60))
def test_a_sitemap_read_in_windows_is_the_same(body: bytes, window: int) -> None:
    for start, kind in ((b"<urlset>", "text/xml"), (b"<rss>", "text/xml"), (b"", "text/plain")):
        whole = sitemaps.listed(start + body, kind, b"http://a.test/s", as_text=True)
        with mock.patch.object(sitemaps, "WINDOW_BYTES", window):
            assert sitemaps.listed(start + body, kind, b"http://a.test/s", as_text=True) == whole


def test_a_sitemap_of_blanks_and_half_elements_is_read_in_linear_time() -> None:
    """The suite's timeout is the assertion."""
    for piece in (b"<loc ", b"<loc>" + b" " * 999 + b"<", b"<a:", b"<!--", b"<!---->", b"<link href"):
        assert sitemaps.listed(b"<urlset>" + piece * (3_000_000 // len(piece)), "text/xml", b"http://a.test/s", False)


def test_a_gt_between_quotes_ended_the_tag_and_made_urls_that_nobody_has() -> None:
    body = b"<urlset><url><loc title='a > b'>http://a.test/1</loc></url><url><loc title='>'>http://a.test/2</loc></url>"
    assert sitemaps.listed(body, "text/xml", b"http://a.test/s", False) == ([b"http://a.test/1", b"http://a.test/2"], 0)
    half = b"<link title=\"a > b'"
    assert sitemaps.listed(b"<feed>" + half * 200_000, "text/xml", b"http://a.test/s", False), "in linear time"


ATOM_NS = "http://www.w3.org/2005/Atom"


@pytest.mark.parametrize(
    ("feed", "urls"),
    [
        ("<rss version='2.0'><channel><item><link>/a</link></item></channel></rss>", ["/a"]),
        ("<?xml version='1.0'?><!-- x -->\n<rss><channel><link>/</link><item><guid>https://www.example.com/g</guid></item>"
         "<item><guid isPermaLink='false'>https://www.example.com/no</guid></item></channel></rss>", ["/", "/g"]),
        ("<rss><channel><link>/</link><item><link>/a</link><guid>https://www.example.com/no</guid></item></channel></rss>",
         ["/", "/a"]),
        (f"<feed xmlns='{ATOM_NS}' xml:base='/blog/'><entry><link href='a'/></entry></feed>", ["/blog/a"]),
        (f"<feed xmlns='{ATOM_NS}' xml:base='/blog/'><entry xml:base='1/'><link href='a'/></entry>"
         "<entry><link href='a'/></entry></feed>", ["/blog/1/a", "/blog/a"]),
        ("<rss xml:base='/blog/'><channel><item><link>a</link></item><item xml:base='1/'><link>a</link></item>",
         ["/blog/a", "/blog/1/a"]),
        ("<rss><channel><link>/</link><item><link>/a</link></item><item><guid>https://www.example.com/g</guid></item>"
         "<item><guid>https://www.example.com/no</guid><link>/b</link></item><item><guid>urn:x</guid></item></channel>",
         ["/", "/a", "/g", "/b"]),
        ("<rdf:RDF xmlns:rss='http://purl.org/rss/1.0/'><rss:item><rss:link>/a</rss:link></rss:item>", ["/a"]),
        (f"<ns0:feed xmlns:ns0='{ATOM_NS}'><ns0:entry><ns0:link href='/a'/></ns0:entry></ns0:feed>", ["/a"]),
        ("<html><rss>", None), ("<feed><link href='/a'>", None),
    ],
)  # fmt: skip
def test_a_feed_that_came_as_html_or_without_links_was_lost(feed: str, urls: list[str] | None) -> None:
    found = listed(feed.encode(), "text/html; charset=utf-8")
    assert found == (None if urls is None else [f"https://www.example.com{url}" for url in urls])


def test_a_page_that_begins_with_many_comments_is_no_feed() -> None:
    """There are 2^1000 ways to read them as fewer and longer ones."""
    assert listed(b"<!---->" * 1000 + b"<p>", "text/html") is None
    assert listed(b"<!---->" * 50 + b"<rss><item><link>/a</link>", "text/html") == ["https://www.example.com/a"]


def test_a_sitemap_behind_a_long_comment_was_none() -> None:
    body = (
        b"<?xml version='1.0'?>\n<!-- " + b"licence " * 1000 + b"-->\n<!----><urlset><url><loc>/a</loc></url></urlset>"
    )
    assert listed(body) == ["https://www.example.com/a"]
    assert listed(b"<!-- <urlset> -->" + b" " * sitemaps.LOOK_BYTES + b"<urlset>") is None
    assert listed(b"<!---->" * 200_000 + b"<urlset>") is None


def test_behind_very_many_comments_nothing_is_read() -> None:
    comments = sitemaps.COMMENTS_MAX - 2
    body = (
        b"<urlset><loc>/1</loc>" + b"<!---->" * comments + b"<loc>/2</loc><!-- <loc>/no</loc> --><!--x--><loc>/3</loc>"
    )
    assert listed(body + b"<!--x-->") == ["https://www.example.com/1", "https://www.example.com/2"]
    assert len(listed(body) or []) == 3


def test_a_feed_of_lt_held_the_loop_until_its_sources_were_found() -> None:
    feed = b'<feed xmlns="http://www.w3.org/2005/Atom"><source></source>'
    for part in (b"<", b"<![CDATA[]]>", b"<entry>"):
        steps = without_sources(feed + part * (4 * WINDOW_BYTES // len(part)))
        assert sum(1 for _ in steps) >= 2


def test_a_source_in_cdata_ends_nothing() -> None:
    feed = b'<feed xmlns="http://www.w3.org/2005/Atom"><entry><source>a<![CDATA[ </source>%s ]]>b</source>c</entry>'
    for filling in (b"", b"x" * (2 * WINDOW_BYTES)):
        assert at_once(without_sources(at_once(bare(feed % filling)))) == feed[: feed.index(b"<source>")] + b"c</entry>"
