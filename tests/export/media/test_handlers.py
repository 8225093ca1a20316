"""What pages say, by media type; and that no page makes a handler slow or fail."""

from __future__ import annotations

import re

import pcre2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selectolax import lexbor

from irlcrawl.base.url import Base
from irlcrawl.export.media import extras, html, xml
from irlcrawl.export.media.content import Link
from irlcrawl.export.media.kinds import handler_of
from irlcrawl.export.media.sniff import detected
from irlcrawl.worker.page import entries

TYPES = ("text/html", "application/xhtml+xml", "text/plain", "text/xml", "application/atom+xml")
BITS = (
    "<a href=x>", "</a>", "<a ", "'", '"', "<!--", "-->", "<script>", "</script>", "<title>", "</title>", "<item>",
    "</item>", "<link>u</link>", "<link href='v'/>", "<![CDATA[", "]]>", "<rss>", "<base href=b>", "<meta ", "&amp;",
    ">", '<script type="application/ld+json">', '{"@type": "\\ud800"}', "[" * 50, "\0", "\ufffd", "ü", " ", "/>",
    "<template>",
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(BITS), max_size=30), st.sampled_from(TYPES), st.sampled_from(("utf-8", "utf-16-le")))
def test_no_page_makes_a_handler_fail(bits: list[str], media_type: str, codec: str) -> None:
    body = "".join(bits).encode()
    handler = handler_of(media_type)
    assert handler is not None
    content = handler.read(body, codec)
    base, links = handler.links(body, codec)
    for words in (content.title, content.description, base, *content.jsonld_types, *(link.text for link in links)):
        words.encode()


LINKS_AND_HIDING = (
    rb"""<(?:a|area)(?=[\s/])(?:[^<>"']|"[^"]*"|'[^']*')*?(?<=[\s"'/])href\s*=""",
    rb"<!--(?:>|->|.*?(?=--!?>)|.*)",
    rb"<(script|style|textarea|title|template|iframe|noframes|noembed|xmp)\b%b(?:.*?(?=</\1\b)|.*)",
)


def counted(body: bytes, xhtml: bool) -> int:
    """Links by the plainest expressions, tried at each `<` that is not in what one of them matched."""
    at = found = 0
    link, *hiding = (
        re.compile(one.replace(b"%b", rb"(?![^<>]*/>)" if xhtml else b""), re.IGNORECASE | re.DOTALL)
        for one in LINKS_AND_HIDING
    )
    while (at := body.find(b"<", at)) >= 0:
        matches = [one.match(body, at) for one in (link, *hiding)]
        found += matches[0] is not None
        at = next((match.end() for match in matches if match), at + 1)
    return found


@pytest.mark.parametrize(
    ("inside", "words"),
    [
        ("<svg><style>.c{}</style><title>Logo</title></svg>Home", "LogoHome"), ("<script>x()</script>Buy", "Buy"),
        ("<style>.a{}</style><img alt='Alt'>", "Alt"), ("<div>Title</div><div>12 May</div>", "Title 12 May"),
        ("<h3>Head</h3><p>para</p>", "Head para"), ("a<b>b</b>c", "abc"),
        ("<ul><li>one</li><li>two</li></ul>", "one two"),
    ],
)  # fmt: skip
def test_the_words_of_a_link_had_code_and_ran_together(inside: str, words: str) -> None:
    _, links = html.links(f"<a href=/x>{inside}</a>".encode(), "utf-8")
    assert [link.text for link in links] == [words]


def test_a_page_for_which_there_is_no_memory_ended_an_export(monkeypatch: pytest.MonkeyPatch) -> None:
    parser = lexbor.LexborHTMLParser

    def full(markup: bytes) -> lexbor.LexborHTMLParser:
        if markup:
            raise lexbor.SelectolaxError("Can't parse HTML.")
        return parser(markup)

    monkeypatch.setattr(lexbor, "LexborHTMLParser", full)
    found = html.read(b"<title>x</title><a href=/x>", "utf-8")
    assert (found.title, found.links) == ("", 1) and list(html.links(b"<a href=/x>", "utf-8")[1]) == []


@pytest.mark.parametrize("bit", ["<b", "<b '", "<!--", "<script", "<script '", "</b"])
def test_tags_that_do_not_end_kept_an_export_for_ever(bit: str) -> None:
    """A tag's name was all that followed, for each of them."""
    page = bit.encode() * (1_000_000 // len(bit)) + b"application/ld+json"
    assert html.read(page, "utf-8").jsonld_types == []


def test_a_page_that_begins_with_many_comments_never_ended_an_export() -> None:
    """There were 2^140 ways to read them as fewer and longer ones."""
    assert detected(b"<!---->" * 140 + b"x", "") == "text/plain"
    assert detected(b"<!-- a -->\n" * 20 + b"<html>", "text/plain") == "text/html"


def test_a_long_head_lost_all_but_its_title() -> None:
    css = "<style>" + "a{}" * 32_000 + "</style>"
    head = f"{css}<title>T</title><link rel=canonical href=/c><meta name=description content=d>{css}{css}{css}"
    found = html.read(f"<!doctype html><html><head>{head}</head><body></body></html>".encode(), "utf-8")
    assert (found.title, found.canonical, found.description) == ("T", "/c", "d")


def test_a_link_without_a_space_before_its_href_was_not_counted() -> None:
    assert html.read(b'<a class="b"href="/1"><a href="/2"><a class="b"hreflang="x">', "utf-8").links == 2


@pytest.mark.parametrize(
    ("markup", "types"),
    [
        ('<!-- <script type="application/ld+json">{"@type":"Ghost"}</script> -->', []),
        ('<textarea><script type=application/ld+json>{"@type":"Area"}</script></textarea>', []),
        ('<script type="application/ld+json">{"@type":"A",\n"text":"two\nlines"}</script>', ["A"]),
        ('<script type="application/ld+json">\n//<![CDATA[\n{"@type":"B"}\n//]]></script>', ["B"]),
        ('<script type="application/ld+json"><!-- {"@type":"C"} --></script>', ["C"]),
        ('<script type="application/ld+json">{"@type":"D"};</script>', ["D"]),
        ("<script data-x='a > b' TYPE=application/LD+JSON>{\"@type\":[\"E\",\"F\"]}</script>", ["E", "F"]),
        ('<script data-type="application/ld+json">{"@type":"no"}</script>', []),
        ('<script type="application/ld+json">{"@type":"G"}', ["G"]),
        ('<script>"<script type=application/ld+json>"</script><p>', []),
        ('<style><!-- a{}</style><xmp><!-- </xmp><script/type=application/ld+json>{"@type":"H"}</script>', ["H"]),
        ("<script type=" + " " * 100_000 + ">", []),
    ],
)  # fmt: skip
def test_types_of_json_ld(markup: str, types: list[str]) -> None:
    assert html.read(f"<head><title>x</title></head><body>{markup}".encode(), "utf-8").jsonld_types == types


def test_a_canonical_that_is_no_page_hid_the_next_one() -> None:
    page = (
        b"<link rel=canonical href=mailto:me><link rel=canonical href=''><link rel=canonical href=/c><title>x</title>"
    )
    assert html.read(page, "utf-8").canonical == "/c"


def test_a_title_behind_more_than_is_read_of_a_head_was_lost() -> None:
    page = b"<head><style>" + b"a{}" * 100_000 + b"</style><title>Late</title></head><body>x"
    assert html.read(page, "utf-8").title == "Late"


def test_links_are_counted_where_no_program_may_make_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_ = pcre2.compile

    def interpreted(expression: bytes, jit: bool) -> pcre2.Pattern:
        if jit:
            raise pcre2.LibraryError(-45)  # PCRE2_ERROR_JIT_BADOPTION
        return compile_(expression, jit=False)

    monkeypatch.setattr(pcre2, "compile", interpreted)
    extras.compiled.cache_clear()
    html._linking.cache_clear()
    try:
        assert html.read(b"<!-- <a href=/0> --><a href=/1><A\nHREF=/2>", "utf-8").links == 2
        assert html.read(b"<!--" + b"- " * 5_000_000, "utf-8").links is None
    finally:
        extras.compiled.cache_clear()
        html._linking.cache_clear()


@pytest.mark.parametrize("declared", ["", "text/plain", "text/html"])
def test_a_feed_without_an_xml_declaration_was_plain_text(declared: str) -> None:
    """A crawl reads it as a feed."""
    assert detected(b"<rss version='2.0'><channel>", declared) == "application/rss+xml"
    assert detected(b"<feed xmlns='http://www.w3.org/2005/Atom'>", declared) == "application/atom+xml"
    assert detected(b"<feed>", "text/plain") == "text/plain"


def test_words_of_feeds_kept_escapes() -> None:
    feed = (
        b"<rss><channel><title>A &amp;amp; B &amp;eacute;</title><item><title>It&amp;#8217;s &amp;lt;b&amp;gt;</title>"
    )
    _, links = xml.links(feed + b"<link>/x</link></item></channel></rss>", "utf-8")
    assert xml.read(feed + b"</item></channel></rss>", "utf-8").title == "A & B \xe9"
    assert [link.text for link in links] == ["It\u2019s <b>"]


def test_sitemaps_with_prefixes_had_no_links() -> None:
    body = b"<s:urlset><s:url><image:image><image:loc>/i</image:loc></image:image><s:loc>/1</s:loc></s:url></s:urlset>"
    assert [link.href for link in xml.links(body, "utf-8")[1]] == ["/1"]
    assert [e.url for e in entries.of_list(body, "text/xml", b"http://a.test/s", 1 << 20)] == [b"http://a.test/1"]


MARKUP = (
    "<a", "<A", "<area", "<abbr", " ", "\n", "/", "href=", "HREF =", "href", "hreflang=", "class=", '"x y"', "'z'", '"',
    "'", "x", "<", ">", "/>", "</", "<!--", "->", "-->", "--!>", "-", "<script", "</script>", "</scripts>", "<Style",
    "</style", "<title>", "</title>", "<span", "<strong", "<td>", "<noframes>", "<noscript>", "<xmp>", "<img", "<i>",
    '<a class="c" href="', '<a x="y"href=', '<a href="x" href="y">', "<a b='c' href=d>",
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(MARKUP), max_size=40), st.booleans())
def test_links_are_counted_as_by_plain_expressions(bits: list[str], xhtml: bool) -> None:
    body = "".join(bits).encode()
    assert html.read(body, "utf-8", xhtml).links == counted(body, xhtml)


@pytest.mark.parametrize("bit", ["<a ", "<a x='", '<a x="y" ', '<a x="', "<a\t \n", "<s", "<!", "<!--", "<script>",
                                 "<script type=application/ld+json ", "<title>", "<item>", "<item><link>", "<link ",
                                 "<", "<a href=x>", "-", "<![CDATA["])  # fmt: skip
def test_no_page_takes_more_than_linear_time(bit: str) -> None:
    """Twice as much of it takes about twice as long: a hundred times as much would take minutes, and time out."""
    body = bit.encode() * 60_000
    for media_type in TYPES:
        handler = handler_of(media_type)
        assert handler is not None
        assert handler.read(body, "utf-8").description == ""


@pytest.mark.parametrize(
    "feed",
    [
        '<feed><entry><link href="1" title="A > B"/></entry><entry><link title="a > b" href="2"/></entry>',
        "<feed xml:base='b/'><entry><link href='1'/></entry><entry xml:base='c/'><link href='2'/></entry>",
        "<rss><item><guid>http://a.test/1</guid></item><item><link>2</link><guid>http://a.test/no</guid></item>"
        "<item><guid isPermaLink='false'>http://a.test/no</guid></item>",
        "<feed xml:base='http://a.test/b/'><entry xml:base='//[a/'><link href='1'/></entry>",
    ],
)
def test_the_links_of_a_feed_were_not_those_that_a_crawl_follows(feed: str) -> None:
    body = re.sub("(</(?:item|entry)>)", r"<title>T</title>\1", feed).encode()
    base, links = xml.links(body, "utf-8")
    known = Base(b"http://a.test/f", stored=True)
    if base:
        known = Base(known.join(base) or b"", stored=True)
    shown = [(known.join(link.href), link.text) for link in links]
    assert shown == [(entry.url, "T") for entry in entries.of_list(body, "text/xml", b"http://a.test/f", 1 << 20)]


def test_items_in_cdata_took_the_words_of_a_link() -> None:
    aside = b"<![CDATA[an <item> &amp; <link>/no</link>]]>"
    feed = b"<rss><item><description>" + aside + b"</description><title>T</title><link>/1</link>"
    assert [*xml.links(feed + b"</item></rss>", "utf-8")[1]] == [Link("/1", "T", "", "item")]


def test_the_links_of_a_feed_stand_under_their_titles() -> None:
    feed = b"""<feed xml:lang="fr"><title>T</title><subtitle>S</subtitle><entry><title type="html">
        &lt;b&gt;One&lt;/b&gt;        </title><link rel="self" href="/self"/><link href="/1?a=1&amp;b=2"/></entry>
        <entry><link href="/2"/></entry></feed>"""
    assert list(xml.links(feed, "utf-8")[1]) == [Link("/1?a=1&b=2", "One", "", "entry"), Link("/2", "", "", "entry")]
    content = xml.read(feed, "utf-8")
    assert (content.title, content.description, content.lang, content.links) == ("T", "S", "fr", 2)


def test_xhtml_closes_elements_by_themselves() -> None:
    page = b"<html><head><title/><script src='x'/></head><body><a href='y'>z</a></body></html>"
    handler = handler_of("application/xhtml+xml")
    assert handler is not None and handler.read(page, "utf-8").links == 1
    assert [link.href for link in handler.links(page, "utf-8")[1]] == ["y"]


def test_words_of_images_stand_for_a_link_without_words() -> None:
    page = b"<a href=1><img alt=' an  image '></a><a href=2>word <img alt=no></a><area href=3 alt=map>"
    assert [link.text for link in html.links(page, "utf-8")[1]] == ["an image", "word", "map"]


@pytest.mark.parametrize("before", [
    b"<!-- after the opening <body> tag -->", b"<script>if (a<b) w('<body class=x>')</script>",
    b"<style>/* <body> */</style>", b"<!-- </head> --><!-- <body> --><script>'</head><body>'</script>",
])  # fmt: skip
def test_a_body_in_a_comment_or_a_script_does_not_end_the_head(before: bytes) -> None:
    for head in (b"<html><head>%s<title>A page</title></head><body>", b"<html><head>%s<title>A page</title></head><p>"):
        content = html.read(head % before + b"<a href=x>", "utf-8")
        assert (content.title, content.links) == ("A page", 1)


def test_a_title_in_the_body_is_one_and_that_of_a_drawing_is_none() -> None:
    drawn = b"<html><body><p>x<svg><title>An icon</title></svg>"
    assert html.read(drawn, "utf-8").title == ""
    assert html.read(drawn + b"<TITLE>A page</TITLE>", "utf-8").title == "A page"


def test_titles_deep_in_a_drawing_held_an_export_for_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """240 KB took nine: from each title, all elements were looked at in which it lies."""
    body = b"<html><body><svg>" + b"<g>" * 20 + b"<title>x</title>" * 20 + b"</svg><title>A page</title>"
    assert html.read(body, "utf-8").title == "A page"
    monkeypatch.setattr(html, "NODES_MAX", 300)
    assert html.read(body, "utf-8").title == ""


def test_links_of_a_page_in_utf_16_are_counted() -> None:
    page = "<title>\u0433</title><a href=x>y</a><a href=z>".encode("utf-16-le")
    content = html.read(page, "utf-16-le")
    assert (content.title, content.links) == ("\u0433", 2)


def test_lines_of_a_link_are_words_apart() -> None:
    assert [link.text for link in html.links(b"<a href=1>one<br>two<b>th</b>ree</a>", "utf-8")[1]] == ["one twothree"]


@pytest.mark.parametrize(
    ("body", "declared", "found"),
    [
        (b"%PDF-1.7", "text/html", "application/pdf"),
        (b"<!doctype html><p>", "", "text/html"),
        (b"<!-- x --><HTML >", "application/octet-stream", "text/html"),
        (b"<?xml version='1.0'?><html>", "text/html", "application/xhtml+xml"),
        (b"<?xml version='1.0'?><urlset>", "text/xml", "application/xml"),
        (b"<?xml version='1.0'?><a:feed x='y'>", "text/xml", "application/atom+xml"),
        (b"body { }", "text/css", "text/css"),
        (b"words", "", "text/plain"),
        (b"a\0b", "text/plain", "application/octet-stream"),
        (b"PK\x03\x04", "application/epub+zip", "application/epub+zip"),
        (b"", "text/html", "text/html"),
    ],
)
def test_media_types_by_their_first_bytes(body: bytes, declared: str, found: str) -> None:
    assert detected(body, declared) == found


@pytest.mark.parametrize(("xhtml", "found"), [(False, 1), (True, 2)])
def test_links_behind_an_element_that_closes_itself(xhtml: bool, found: int) -> None:
    """In HTML such a `<script/>` is open, and hides what follows up to its end tag."""
    handler = handler_of("application/xhtml+xml" if xhtml else "text/html")
    assert handler is not None
    body = b'<title>x</title><script src="x"/><a href=1>x</a><script>"<a href=2>"</script><a href=3>x</a><script/>'
    assert handler.read(body, "utf-8").links == found


def test_frames_and_the_links_of_a_head_were_in_no_table() -> None:
    page = b"""<head><link rel=Next href=2><link rel="alternate stylesheet" href=s.css><link rel=icon href=i>
        <meta http-equiv=Refresh content="3; url='later'"><meta name=x content=y></head><a href=a rel=nofollow>A</a>
        <iframe src=f>no words</iframe><iframe srcdoc="<a href=no>"></iframe>"""
    found = [(link.element, link.href, link.text, link.rel) for link in html.links(page, "utf-8")[1]]
    assert found == [
        ("link", "2", "", "next"), ("meta", "later", "", ""), ("a", "a", "A", "nofollow"), ("iframe", "f", "", ""),
    ]  # fmt: skip
    assert html.read(page, "utf-8").links == 1, "the table of pages counts as before"


def test_types_of_json_ld_have_an_end_in_each_object() -> None:
    """32,000 in one list took seconds, for each was looked for among all before it."""
    many = ",".join(f'"{number}"' for number in range(1000))
    page = f'<script type="application/ld+json">{{"@type":[{many}]}}</script>'.encode()
    assert html.read(page, "utf-8").jsonld_types == [str(number) for number in range(html.TYPES_MAX)]
