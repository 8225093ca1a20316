"""Links: every source, every option, the base, what is not followed, and pages written to hurt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.base.rows import Source
from irlcrawl.base.url import canonical
from irlcrawl.config import keys as config
from irlcrawl.worker.page import scan
from irlcrawl.worker.page.links import (
    SRCDOCS_MAX,
    Found,
    extract,
    extracting,
    link_header,
    refresh_target,
    robots_header,
)

PAGE = b"http://h.example/dir/page.html"
HTML = "text/html; charset=utf-8"


def found(
    body: bytes | str, content_type: str = HTML, token: str = "", nofollow: bool = False, **params: object
) -> Found:
    body = body.encode() if isinstance(body, str) else body
    return extract(
        body,
        content_type,
        PAGE,
        config.Page(**params),
        product_token=token,
        nofollow=nofollow,  # type: ignore[arg-type]
    )


def urls(body: bytes | str, content_type: str = HTML, **params: object) -> list[str]:
    """The links, without the host where it is the page's."""
    links = [url.decode() for url, _ in found(body, content_type, **params).links]
    return [link.removeprefix("http://h.example") for link in links]


@pytest.mark.parametrize(
    ("markup", "links"),
    [
        ('<a href="x">', [("/dir/x", Source.LINK)]),
        ("<A HREF=../x>", [("/x", Source.LINK)]),
        ('<map><area href="/x">', [("/x", Source.LINK)]),
        ('<link rel="Canonical" href="/x">', [("/x", Source.CANONICAL)]),
        ('<link rel="alternate" hreflang=de href="/x">', [("/x", Source.LINK)]),
        ('<link rel="next" href="/x">', [("/x", Source.LINK)]),
        ('<link rel="PREV" href="/x"><link rel="previous" href="/y">', [("/x", Source.LINK), ("/y", Source.LINK)]),
        ('<link rel="stylesheet" href="/x">', []),
        ('<link rel="alternate stylesheet" href="/x">', []),
        ('<link rel="icon" href="/x"><link href="/y">', []),
        ('<iframe src="/x"></iframe>', [("/x", Source.FRAME)]),
        (
            '<iframe srcdoc="<p><a href=&quot;/x&quot;><iframe src=/y>"></iframe>',
            [("/x", Source.LINK), ("/y", Source.FRAME)],
        ),
        ("<iframe srcdoc=\"<iframe srcdoc='<a href=/x>'>\"></iframe>", []),  # one in another is not read
        ('<iframe srcdoc="<base href=/b/><a href=x>"></iframe><a href=y>', [("/dir/y", Source.LINK)]),
        ('<base href=/b/><iframe srcdoc="<a href=x>"></iframe>', [("/b/x", Source.LINK)]),
        (
            '<iframe srcdoc="<meta name=robots content=nofollow><a href=x>"></iframe><a href=y>',
            [("/dir/y", Source.LINK)],
        ),
        ('<iframe srcdoc="<a rel=nofollow href=x><a href=y>"></iframe>', [("/dir/y", Source.LINK)]),
        ('<iframe srcdoc="<!-- "></iframe><a href=y>', [("/dir/y", Source.LINK)]),
        ('<svg><a xlink:href="/x"><text>1</text></a></svg>', [("/x", Source.LINK)]),
        ("<svg><A XLINK:HREF=/x ></a></svg><a href=/y>", [("/x", Source.LINK), ("/y", Source.LINK)]),
        ('<svg><a xlink:href="/x" href="/y"></a><use xlink:href="/z"/></svg>', [("/y", Source.LINK)]),
        ('<svg><a xlink:href="/x" rel="nofollow"></a></svg>', []),
        ('<div><template shadowrootmode="open"><a href="/x"></template></div>', [("/x", Source.LINK)]),
        ('<div><template shadowrootmode="closed"><a href="/x"></template></div>', [("/x", Source.LINK)]),
        ('<div><template shadowrootmode="other"><a href="/x"></template></div>', []),
        ('<template ShadowRootMode=OPEN><template><a href="/x"></template><a href="/y">', [("/y", Source.LINK)]),
        ('<template><template shadowrootmode="open"><a href="/x"></template></template>', []),
        ('<frameset><frame src="/x"><frame src="/y"></frameset>', [("/x", Source.FRAME), ("/y", Source.FRAME)]),
        ('<meta http-equiv="Refresh" content="0; url=/x">', [("/x", Source.LINK)]),
        ("<noscript><a href=/x></a></noscript>", [("/x", Source.LINK)]),
        ('<a href="/x">1</a><link rel=canonical href="/x">', [("/x", Source.LINK)]),
        ('<link rel=canonical href="/x"><a href="/x#y">1</a>', [("/x", Source.LINK)]),
        ('<iframe src="/x"></iframe><link rel=canonical href="/x">', [("/x", Source.CANONICAL)]),
        ("<a name=x><a><area><link rel=next><iframe></iframe><meta name=x>", []),
        ("<script>document.write('<a href=/x>')</script><!-- <a href=/x> --><title><a href=/x></title>", []),
        ("<textarea><a href=/x></textarea><style><a href=/x></style>", []),
        ("<a href='/x?a=1&amp;b=2&copy=3'>", [("/x?a=1&b=2&copy=3", Source.LINK)]),
        ("<a href=' /x\n y '>", [("/x%20y", Source.LINK)]),
        ("<a href=/x", []),
    ],
)
def test_sources(markup: str, links: list[tuple[str, Source]]) -> None:
    assert found(markup).links == [(f"http://h.example{url}".encode(), source) for url, source in links]


def test_only_pages_that_can_be_asked_for() -> None:
    schemes = ["javascript:x()", "mailto:a@b", "data:text/html,<a>", "tel:1", "ftp://h/", "file:///x", "about:blank"]
    bad = ["http://", "http://h:99999/", "http://a b/", "//[", "http://a..b/"]
    body = "".join(f'<a href="{href}">' for href in schemes + bad) + "<a href=https://other.example/y#z>"
    assert urls(body) == ["https://other.example/y"]


def test_fragments_repeats_and_the_page_itself_are_dropped() -> None:
    hrefs = ["#a", "x#a", "x#b", "./x", "", "page.html", "page.html#c", "y #z"]
    body = "".join(f"<a href='{href}'>" for href in hrefs)
    assert urls(body) == ["/dir/x", "/dir/y%20"]
    assert found(body).named == len(hrefs), "a page that repeats its menu has more links of its own"


@pytest.mark.parametrize(
    ("markup", "links", "base"),
    [
        ("<base href=/b/><a href=x>", ["/b/x"], "/b/"),
        ("<a href=x><base href=/b/c>", ["/b/x"], "/b/c"),  # wherever it stands, and a file's folder counts
        ("<base target=_top><base href=b/><base href=/c/><a href=x>", ["/dir/b/x"], "/dir/b/"),  # the first with href
        ("<base href=https://o.example><a href=x><a href=#y>", ["https://o.example/x", "https://o.example/"], None),
        ("<base href=javascript:1><a href=x>", ["/dir/x"], "/dir/page.html"),
        ("<base href='http://['><a href=x>", ["/dir/x"], "/dir/page.html"),
        ("<base href=''><a href=x>", ["/dir/x"], "/dir/page.html"),
    ],
)
def test_base(markup: str, links: list[str], base: str | None) -> None:
    assert urls(markup) == links
    if base is not None:
        assert found(markup).base == f"http://h.example{base}".encode()


def test_nofollow_on_a_link() -> None:
    body = "<a rel='ugc NoFollow' href=x><a href=y rel=nofollow><a href=y><a rel=nofollower href=z>"
    assert urls(body) == ["/dir/y", "/dir/z"]
    assert [u for u, _ in extract(body.encode(), HTML, PAGE, config.Page(nofollow=False)).links] == [
        b"http://h.example/dir/x", b"http://h.example/dir/y", b"http://h.example/dir/z",
    ]  # fmt: skip
    assert urls("<link rel='next nofollow' href=/x>") == []


@pytest.mark.parametrize("rel", ["ugc,nofollow", "nofollow, noopener", "noopener ,NOFOLLOW", "next,nofollow,"])
def test_values_of_rel_apart_by_commas_were_followed(rel: str) -> None:
    """Search engines take them so."""
    assert urls(f'<a href="/x" rel="{rel}"><a href="/y" rel="noopener,me"><area href=/z rel="{rel}">') == ["/y"]
    assert urls(f"<link rel='next {rel}' href=/x>") == []
    assert list(link_header([f'</x>; rel="next {rel}"'], nofollow=True)) == []
    page = extract(f'<a href="/x" rel="{rel}">'.encode(), HTML, PAGE, config.Page(nofollow=False))
    assert page.unvouched == {b"http://h.example/x"}


def test_a_link_counts_once_however_often_its_rel_says_what_it_is() -> None:
    page = found("<link rel='" + "next alternate prev " * 10_000 + "canonical' href=/x>")
    assert (page.links, page.named) == ([(b"http://h.example/x", Source.LINK)], 2)
    header = '</x>; rel="' + "next prev " * 10_000 + '"'
    assert list(link_header([header], nofollow=True)) == [("/x", Source.LINK)]


VOUCHED = [
    '<a href="/x">', "<a href=/x rel='noopener external'>", "<area href=/x>", '<iframe src="/x"></iframe>',
    "<link rel=next href=/x>", "<p hidden=until-found><a href=/x></p>", "<body style='display:none'><a href=/x>",
    '<iframe srcdoc="<a href=/x>"></iframe>', "<div hidden></div><a href=/x>",
    "<meta http-equiv=refresh content='0;/x'>", "<svg><a xlink:href=/x></svg>",
]  # fmt: skip
UNVOUCHED = [
    '<a href="/x" rel="ugc">', "<a rel='external SPONSORED' href=/x>", "<area href=/x rel=ugc>",
    "<a hidden href=/x></a>", '<div hidden><p><a href="/x#y"></p></div>', "<noscript><a href=/x></noscript>",
    "<link rel='next ugc' href=/x>",
    "<ul style='display: none'><li><a href=/x></ul>", '<i style="visibility:hidden"><a href=/x></i>',
    '<iframe src="/x" style="display:none"></iframe>', '<iframe hidden srcdoc="<a href=/x>"></iframe>',
    '<iframe srcdoc="<a href=/x rel=ugc>"></iframe>', "<svg hidden><a xlink:href=/x></svg>",
    "<script>go('/x')</script>",
]  # fmt: skip


@given(st.lists(st.sampled_from(VOUCHED + UNVOUCHED), min_size=1, max_size=4))
def test_a_page_vouches_for_a_link_if_it_names_it_once_for_all_to_see(named: list[str]) -> None:
    page = found("".join(named), scripts=True)
    assert [url for url, _ in page.links] == [b"http://h.example/x"], "they are followed all the same"
    assert page.unvouched == (set() if any(one in VOUCHED for one in named) else {b"http://h.example/x"})


@pytest.mark.parametrize(
    "markup",
    [
        '<a href="/x" rel=nofollow>', "<meta name=robots content=nofollow><a href=/x>",
        "<link rel='next nofollow' href=/x>", "<meta name=robots content=nofollow><a href=/x><noscript></noscript>",
        '<iframe srcdoc="<meta name=robots content=nofollow><a href=/x>"></iframe>',
    ],
)  # fmt: skip
def test_nofollow_that_is_not_honoured_is_no_vote(markup: str) -> None:
    assert found(markup).links == []
    page = extract(markup.encode(), HTML, PAGE, config.Page(nofollow=False))
    assert page.unvouched == {b"http://h.example/x"} == {url for url, _ in page.links}


@pytest.mark.parametrize(
    ("meta", "nofollow", "noindex"),
    [
        ("<meta name=robots content=nofollow>", True, False),
        ("<META NAME=Robots CONTENT='noindex, NoFollow'>", True, True),
        ("<meta name=robots content=none>", True, True),
        ("<meta name=robots content='index,follow'>", False, False),
        ("<meta name=foobot content='nofollow'>", True, False),
        ("<meta name=otherbot content='nofollow'>", False, False),
        ("<meta name='' content='nofollow'>", False, False),
        ("<meta name=description content='nofollow'>", False, False),
        ("<meta name=robots content=noindex><meta name=FOOBOT content=nofollow>", True, True),
        ("<meta name=robots content='otherbot: noindex, nofollow'>", False, False),
        ("<meta name=robots content='otherbot: noindex, FooBot: nofollow'>", True, False),
        ("<meta name=robots content='nofollow, unavailable_after: 25 Jun 2030 15:00:00 PST, noindex'>", True, True),
    ],
)
def test_meta_robots(meta: str, nofollow: bool, noindex: bool) -> None:
    body = (meta + "<a href=x>").encode()
    page = extract(body, HTML, PAGE, config.Page(), product_token="FooBot")
    assert (page.nofollow, page.noindex) == (nofollow, noindex)
    assert len(page.links) == (0 if nofollow else 1)
    ignoring = extract(body, HTML, PAGE, config.Page(nofollow=False), product_token="FooBot")
    assert (ignoring.nofollow, len(ignoring.links)) == (nofollow, 1)


def test_no_token_means_no_name_of_ours() -> None:
    assert urls("<meta name='' content=nofollow><a href=x>") == ["/dir/x"]


def test_the_header_says_nofollow() -> None:
    body = b"<a href=x>"
    assert extract(body, HTML, PAGE, config.Page(), nofollow=True).links == []
    assert len(extract(body, HTML, PAGE, config.Page(nofollow=False), nofollow=True).links) == 1


@pytest.mark.parametrize(
    ("values", "want"),
    [
        (["nofollow"], (True, False)),
        (["NOINDEX , NoFollow"], (True, True)),
        (["none"], (True, True)),
        (["unavailable_after: 25 Jun 2030 15:00:00 PST", "noindex"], (False, True)),
        (["otherbot: noindex, nofollow"], (False, False)),
        (["foobot: nofollow"], (True, False)),
        (["otherbot: nofollow, FooBot: noindex"], (False, True)),
        (["otherbot: nofollow", "noindex"], (False, True)),
        (["max-snippet: 5, nofollow"], (True, False)),
        (["unavailable_after: Friday, 25-Jun-10 15:00:00 PST, nofollow"], (True, False)),  # its colons name nobody
        (["unavailable_after: 2030-06-25T15:00:00+00:00, noindex"], (False, True)),
        (["otherbot: unavailable_after: 25 Jun 2030 15:00:00 PST, nofollow"], (False, False)),
        (["noindex nofollow"], (True, True)),
        (["otherbot : none, * : noindex"], (False, True)),
        ([], (False, False)),
        (["", ",,:"], (False, False)),
    ],
)
def test_robots_header(values: list[str], want: tuple[bool, bool]) -> None:
    assert robots_header(values, "FooBot") == want


@pytest.mark.parametrize(
    ("value", "want"),
    [
        ("0; url=/x", "/x"), ("5;URL='/x y'z", "/x y"), ('0, url="/x', "/x"), ("0 /x", "/x"), ("0;/x", "/x"),
        (" 1.5 ; url = x ", "x"), (".5;url=x", "x"), ("0;url", "url"), ("0; urls", "urls"), ("5", None), ("5;", None),
        ("", None), ("url=/x", None), ("x;url=/y", None), ("-1;url=/x", None), ("0;url=", None), ("0;url=''", None),
        ("0; '/x'", "/x"), ('0 "/x y" z', "/x y"), ("0;'/x", "/x"), ("0;'url=/x'", "url=/x"), ("0;\"\"", None),
        ("0 ;", None),
    ],
)  # fmt: skip
def test_refresh(value: str, want: str | None) -> None:
    assert refresh_target(value) == want


@pytest.mark.parametrize(
    ("value", "want"),
    [
        ("</x>; rel=next", [("/x", Source.LINK)]),
        ('</x> ; REL = "Prev"', [("/x", Source.LINK)]),
        ("<https://o.example/?a,b;c>;rel=canonical", [("https://o.example/?a,b;c", Source.CANONICAL)]),
        ('</x>; rel="shortlink alternate canonical"', [("/x", Source.LINK), ("/x", Source.CANONICAL)]),
        ("</x>; rel=next; rel=canonical", [("/x", Source.LINK)]),  # the first counts
        ('</x>; title="a, \\"<b>; rel=next"; rel=prev, </y>; rel=next', [("/x", Source.LINK), ("/y", Source.LINK)]),
        ("</x>; title*=UTF-8'de'n%c3%a4chstes; rel=next;, ,</y>;rel=prev", [("/x", Source.LINK), ("/y", Source.LINK)]),
        ("<>; rel=canonical", [("", Source.CANONICAL)]),
        ('</x>; rel=preload; as=style, </y>; rel="stylesheet alternate"', []),
        ("</x>", []),
        ("</x>; rel", []),
        ("</x>; rev=next", []),
        ('</x>; rel=next; anchor="/other"', []),
        ('</x>; rel="next nofollow"', []),
        ("</x>; rel=next </y>; rel=prev", [("/x", Source.LINK)]),
        ("</x>; rel=next, /y; rel=next, </z>; rel=next", [("/x", Source.LINK)]),  # up to the fault
        ('</x>; rel="next', [("/x", Source.LINK)]),
        ("</x; rel=next", []),
        ("", []),
    ],
)
def test_link_header(value: str, want: list[tuple[str, Source]]) -> None:
    assert list(link_header([value], nofollow=True)) == want
    assert list(link_header(["<broken", value], nofollow=True)) == want


def test_a_link_header_may_be_told_to_follow_all() -> None:
    assert list(link_header(['</x>; rel="next nofollow"'], nofollow=False)) == [("/x", Source.LINK)]


@pytest.mark.parametrize("piece", ["<", "</x>;", "</x>,", ' "', '"\\', ";;", " \t", "</x>; a=", '</x>;a="b";'])
def test_a_megabyte_of_link_header(piece: str) -> None:
    """The suite's timeout is the assertion."""
    value = "</first>; rel=next, " + piece * (1_000_000 // len(piece))
    assert next(link_header([value], nofollow=True)) == ("/first", Source.LINK)
    assert len(list(link_header([value], nofollow=True))) == 1


@pytest.mark.parametrize(
    ("content_type", "body", "count"),
    [
        ("text/html", b"<a href=x>", 1),
        ("TEXT/HTML;charset=x", b"<a href=x>", 1),
        ("text/html, text/html; charset=utf-8", b"<a href=x>", 1),
        ("application/xhtml+xml", b"<a href='x'/>", 1),
        ("", b"<!DOCTYPE html><a href=x>", 1),
        ("", b"\xef\xbb\xbf \n<!-- c --><HTML><a href=x>", 1),
        ("", b"<a href=x>", 1),
        ("", b"%PDF <a href=x>", 0),
        ("", b"", 0),
        ("text/plain", b"<a href=x>", 0),
        ("application/pdf", b"<a href=x>", 0),
        ("application/xml", b"<a href='x'/>", 0),
        ("nonsense", b"<a href=x>", 1),  # as without a type
        (";", b"<html><a href=x>", 1),
    ],
)
def test_what_is_html(content_type: str, body: bytes, count: int) -> None:
    assert len(urls(body, content_type)) == count


def test_xhtml_may_close_a_script_at_once() -> None:
    head = "<html><head><script src='s'/><title/></head>"
    body = head + "<body><a href='x'/><iframe src='y'/><a href='z'>z</a></body></html>"
    assert urls(body, "application/xhtml+xml") == ["/dir/x", "/dir/y", "/dir/z"]
    assert urls(body, "text/html") == []  # as a browser does


@pytest.mark.parametrize(
    ("charset", "codec"),
    [
        ("windows-1252", "whatwg-1252"),
        ("iso-8859-1", "whatwg-1252"),
        ("shift_jis", "whatwg-shift-jis"),
        ("koi8-r", "koi8-r"),
        ("gbk", "whatwg-gbk"),
    ],
)
def test_the_pages_charset_names_paths_in_utf8_and_queries_in_itself(charset: str, codec: str) -> None:
    word = {"whatwg-1252": "é", "whatwg-shift-jis": "ソ", "koi8-r": "я", "whatwg-gbk": "中"}[codec]
    page = found(f"<a href='/{word}?{word}'>".encode(codec), f"text/html; charset={charset}")
    assert page.charset == codec
    path = "".join(f"%{byte:02X}" for byte in word.encode())
    query = b"".join(bytes([b]) if 0x20 < b < 0x7F else b"%%%02X" % b for b in word.encode(codec))
    assert page.links == [(f"http://h.example/{path}?".encode() + query, Source.LINK)]


def test_a_query_in_utf8_on_a_page_that_says_latin1_lost_bytes() -> None:
    """0x81, 0x8d, 0x8f, 0x90 and 0x9d are in no character of Python's cp1252: `%26%2365533%3B` was asked for."""
    body = "<a href='/?q=Ноты, ÁÍ'>".encode()
    word = "".join(f"%{byte:02X}" if byte > 0x7F else chr(byte) for byte in "Ноты,%20ÁÍ".encode())
    assert urls(body, "text/html; charset=iso-8859-1") == [f"/?q={word}"]


def test_a_page_in_the_replacement_encoding_has_no_links() -> None:
    assert urls("<a href=/x>", "text/html; charset=iso-2022-kr") == []
    assert urls("<meta charset=hz-gb-2312><a href=/x>", "text/html") == []


def test_a_charset_in_a_comment_script_or_description_decided() -> None:
    """Any `charset=` behind a `<meta` did, so the paths of a UTF-8 page were read in another encoding."""
    link = "<a href=/é>"
    for head in (
        "<!-- <meta charset=latin1> -->",
        "<meta name=generator><script src=x charset=latin1></script>",
        "<meta name=description content='how to write charset=latin1'>",
    ):
        assert urls(head + link, "text/html") == ["/%C3%A9"]


def test_bytes_that_are_not_the_charset_do_not_stop_it() -> None:
    assert urls(b"\xef\xbb\xbf<a href='/\xff\x00x'><a href=/y>") == ["/%EF%BF%BD%EF%BF%BDx", "/y"]
    assert urls(b"\xff\xfe<\0a\0 \0h\0r\0e\0f\0=\0x\0>\0\xd8\xd8", "text/html") == ["/dir/x"]
    assert urls("<a href='/&#xd800;&#0;&#x110000;'>") == ["/%EF%BF%BD%EF%BF%BD%EF%BF%BD"]


SCRIPT = r"""<script>
var a = "/path/x", b = 'https:\/\/o.example\/y?z=1', c = `next.html`, d = "not a link", e = "a/b",
f = "//cdn.example/q", g = "/", h = "text/html", i = '/un closed', j = "p.php?a=1";
</script><script src=/s.js></script>"""


def test_strings_in_scripts_by_option() -> None:
    assert urls(SCRIPT) == []
    want = ["/path/x", "https://o.example/y?z=1", "/dir/next.html", "http://cdn.example/q", "/dir/p.php?a=1"]
    assert urls(SCRIPT, scripts=True) == want
    assert {source for _, source in found(SCRIPT, scripts=True).links} == {Source.SCRIPT}
    assert urls("var x = '/a/b'", "text/javascript", scripts=True) == ["/a/b"]
    assert urls("var x = '/a/b'", "text/javascript") == []
    assert found(SCRIPT + "<a href=/path/x>", scripts=True).links[0] == (b"http://h.example/path/x", Source.LINK)


def test_links_max() -> None:
    body = "".join(f"<a href={i}>" for i in range(100_000))
    page = found(body, links_max=1000)
    assert [url for url, _ in page.links] == [b"http://h.example/dir/%d" % i for i in range(1000)]
    assert page.beyond == 3001, "so many were read; of the rest of the page nothing was"
    assert found("".join(f"<a href={i}>" for i in range(1200)), links_max=1000).beyond == 200
    assert found("".join(f"<a href={i}>" for i in range(1000)), links_max=1000).beyond == 0
    mixed = "".join(f"<a href=mailto:{i}>" for i in range(900)) + "<a href=x>"
    assert urls(mixed, links_max=300) == ["/dir/x"]


def test_a_giant_base_costs_no_more_than_its_bound() -> None:
    body = f"<base href='/{'b' * 60_000}/'>" + "".join(f"<a href={i}>" for i in range(10_000))
    page = found(body)
    assert page.beyond == 10_000 - len(page.links)
    assert sum(len(url) for url, _ in page.links) <= 16 << 20
    assert urls(f"<base href='/{'b' * 1_000_000}/'><a href=/x>") == ["/x"]
    assert urls(f"<a href='/{'b' * 1_000_000}'><a href=/x>") == ["/x"]


def numbered(pattern: str, size: int = 400_000) -> str:
    return "".join(pattern.replace("%d", str(i)) for i in range(size // len(pattern)))


HOSTILE = {
    "nested": "<div>",
    "nested with closers of nothing": "<div></x>",
    "fonts": "<p><font color=%d></p>",
    "fonts closed wrongly": "<p><font color=%d></b></p>",
    "bold": "<b>",
    "bold links": "<b><a href=/l>",
    "unknown": "<x%d>",
    "tables": "<table><tr><td>",
    "div behind a table": "<div><table><td></div>",
    "lists": "<ul><li>",
    "svg": "<svg><a>",
    "svg in svg": "<svg>",
    "templates": "<template>",
    "options": "<select><option selected><selectedcontent>",
    "self closed": "<path/>",
    "comments": "<!--",
    "open tags": "<a ",
    "open quotes": "<a b=\"'",
    "odd": "<",
    "ends": "</p>",
    "amp": "&amp",
    "raw": "<script",
    "formats": "<b><i><u><p>x",
    "foreign": "<svg><![CDATA[",
    "ticks": "<script>`/x",
    "headings": "<h1></h2>",
    "shadow roots": "<template shadowrootmode=open>",
    "shadow roots with templates": "<template shadowrootmode=open><template></template>",
    "xlinks": "<svg><a xlink:href=#%d>",
    "uses": "<svg><use xlink:href=#%d />",
    "hidden elements": "<i hidden>%d",
    "hidden items": "<li hidden>",
    "styles that hide": "<i style='display:none'><b>",
    "words that hide": "hidden style=display:none ",
    "words that hide in a comment": "<!-- <i hidden> ",
    "words in odd tags": "<i title='>' hidden>",
    "tags of many names that hide": "<x%d hidden></x%d>",
    "srcdocs": "<iframe srcdoc=<a></iframe>",
    "srcdocs in srcdocs": "<iframe srcdoc='<iframe srcdoc=%d>'></iframe>",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_pages_that_would_take_a_tree_builder_minutes(kind: str) -> None:
    """The suite's timeout is the assertion: without the scanner most of these do not end."""
    page = found("<a href=/first>" + numbered(HOSTILE[kind]) + "\">'--></script><a href=/last>", scripts=True)
    assert page.links[0][0] == b"http://h.example/first"
    assert len(page.links) <= 4


def test_only_so_many_srcdocs_are_read() -> None:
    body = "".join(f"<iframe srcdoc='<a href={i}>'></iframe>" for i in range(SRCDOCS_MAX + 10)) + "<a href=last>"
    assert urls(body) == [*(f"/dir/{i}" for i in range(SRCDOCS_MAX)), "/dir/last"]


def test_a_script_of_quotes_held_the_loop_until_it_was_read() -> None:
    steps = extracting(b'"' * 2_000_000, "text/javascript", PAGE, config.Page(scripts=True))
    assert sum(1 for _ in steps) >= 6


def test_a_page_in_a_page_held_the_loop_until_it_was_read() -> None:
    body = "<iframe srcdoc='" + '<a href="/x"><p hidden>' * 11_000 + "'>"
    assert sum(1 for _ in extracting(body.encode(), HTML, PAGE, config.Page())) >= 20


@pytest.mark.parametrize("content", ["1" * 1_000_000, "1." * 500_000, "." * 1_000_000, "0" + " " * 1_000_000])
def test_a_refresh_after_a_million_digits_takes_no_hours(content: str) -> None:
    """Where a number ends was tried at each of its digits, twice. The suite's timeout is the assertion."""
    assert refresh_target(content) is None
    assert refresh_target(content + ";url=/x") == "/x"
    assert urls(f'<meta http-equiv=refresh content="{content}"><a href=/last>') == ["/last"]


def test_a_link_at_the_start_of_a_page_was_read_again_for_each_nofollow_in_it() -> None:
    """The suite's timeout is the assertion: 144 KB took 6.6 s, twice as many four times as long."""
    assert urls('<a title="' + "nofollow " * 200_000 + '" href=/first><a href=/last>') == ["/first", "/last"]
    assert urls('<a href="/first" title="' + "nofollow " * 200_000 + '"><a href=/last>') == ["/first", "/last"]


@pytest.mark.parametrize("attribute", ["a%d", "a%d=x", "a%d='>'", 'a%d="<a>"', "a%d=%d/"])
def test_megabytes_of_attributes(attribute: str) -> None:
    body = "<a href=/first " + " ".join(attribute.replace("%d", str(i)) for i in range(100_000)) + "><a href=/last>"
    assert urls(body)[0] == "/first"
    assert urls(body)[-1] == "/last"


@pytest.mark.parametrize(
    "body", [b"\0" * 500_000, b"\xff" * 500_000, b"<a href='" + b"&#" + b"9" * 500_000 + b"'>", b" " * 500_000]
)
def test_megabytes_of_nothing(body: bytes) -> None:
    assert len(found(body).links) <= 1


SHREDS = st.lists(
    st.sampled_from(
        [
            b"<a href=",
            b"<A HREF='",
            b'<a href="',
            b"<base href=",
            b"<link rel=canonical href=",
            b"<iframe src=",
            b"<meta name=robots ",
            b"content=nofollow",
            b"<script>",
            b"</script>",
            b"<!--",
            b"-->",
            b"<table>",
            b"<svg>",
            b"<template>",
            b"<template shadowrootmode=open>",
            b"</template>",
            b"<iframe srcdoc='",
            b"<a xlink:href=",
            b"</a>",
            b">",
            b"'",
            b'"',
            b"/",
            b"x",
            b"?q",
            b"#f",
            b"http://",
            b"javascript:",
            b"\0",
            b"\xff",
            b"\xed\xa0\x80",
            b"&#xd800;",
            b" ",
            b"\n",
            b"=",
            b"<",
            b"&amp;",
            "é".encode(),
        ]
    ),
    max_size=30,
).map(b"".join)


@given(
    SHREDS | st.binary(max_size=200),
    st.sampled_from(["text/html", "text/html; charset=utf-16", "", "application/xhtml+xml"]),
)
def test_any_bytes_give_stored_urls(body: bytes, content_type: str) -> None:
    page = extract(body, content_type, PAGE, config.Page(scripts=True, links_max=5), product_token="foobot")
    assert len(page.links) <= 5
    assert len({url for url, _ in page.links}) == len(page.links)
    for url, source in page.links:
        assert canonical(url) == url != PAGE
        assert isinstance(source, Source)


@given(SHREDS)
def test_the_scanner_survives_any_bytes(body: bytes) -> None:
    for element in scan.elements(body):
        assert isinstance(element, bytes) or element.tag in ("a", "base", "link", "iframe", "meta")
