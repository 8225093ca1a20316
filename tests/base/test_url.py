"""URLs: one stored form per URL, whatever a page writes; what a seed line means; parts for a connection; sites."""

from __future__ import annotations

import pytest
import url as url_py
from hypothesis import example, given
from hypothesis import strategies as st

from irlcrawl.base.keys import origin_of
from irlcrawl.base.url import HREF_CHARS_MAX, Base, SeedError, SiteOf, canonical, host_of, seed_url, split

PIECES = [
    "http:", "https:", "HTTP:", "ftp:", "javascript:", "data:", "//", "/", "\\", "?", "#", "@", ":", ":80", ":443",
    ":8080", ":0", "[::1]", "1.2.3.4", "0x7f.1", "example.com", "EXAMPLE.com.", "bücher.de", "xn--bcher-kva.de", "a_b",
    "user:pw@", "..", ".", "%2e", "%2E%2e", "%", "%41", "%zz", " ", "\t", "\n", "\r", "\0", "é", "ß", "🦊",
    "\ud800", "\udc00", "\u200d", "|", "^", "`", "{", "}", "'", '"', "<", ">", "~", "a", "b", "page.html", "&amp;", "=",
    "+", ";", ",", "\x7f", "\x80",
]  # fmt: skip
SHREDS = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
TEXTS = st.one_of(SHREDS, SHREDS.map("http://".__add__), SHREDS.map("http://h/".__add__), st.text(max_size=30))
BASES = st.sampled_from(
    ["http://h/", "https://h.example/a/b/c.html?q=1", "http://[::1]:81/x/y/", "http://10.0.0.1/é?é"]
)


@given(TEXTS)
@example("http:////x")
@example('HTTP:"')
@example("http://h/ #x")
@example("http://h/\ud83e\udd8a?\ud83e")
def test_the_stored_form_is_ascii_and_its_own(text: str) -> None:
    stored = canonical(text)
    if stored is None:
        return
    assert stored.isascii()
    assert stored.startswith((b"http://", b"https://"))
    assert not set(stored) & set(b"# \t\r\n\0<>")  # (a quote is allowed in a host name, WHATWG says)
    assert b"@" not in origin_of(stored)
    assert canonical(stored) == stored
    assert canonical(stored.decode()) == stored
    assert Base("https://other/").join(stored.decode()) == stored


@given(TEXTS, BASES)
@example("foo #bar", "http://h/")
@example("#", "http://h/a?b")
@example("", "http://h/a?b")
@example("/\t//x", "http://h/a?b")
@example("http:x", "http://h/a/b")
def test_joining_is_url_pys_full_join_without_fragment_and_userinfo(href: str, base: str) -> None:
    got = Base(base).join(href)
    assert got == canonical(href, base)
    try:
        full = url_py.URL.parse(base).join(href)
    except (url_py.URLError, UnicodeError):
        return  # repaired, or refused
    whole = full.with_fragment(None)
    if whole.scheme in ("http", "https"):
        whole = whole.with_username("").with_password(None)
    if got is None:
        host = (whole.host_str or "").removesuffix(".")
        carried = len(host) <= 253 and all(0 < len(label) <= 63 for label in host.split("."))
        assert whole.scheme not in ("http", "https") or whole.port == 0 or not carried
    else:
        assert got == str(whole).encode()


@given(TEXTS)
def test_parts_make_the_whole(text: str) -> None:
    stored = canonical(text)
    if stored is None:
        return
    scheme, host, port, target = split(stored)
    shown = f"[{host}]" if ":" in host else host
    default = port == {"http": 80, "https": 443}[scheme]
    assert f"{scheme}://{shown}{'' if default else f':{port}'}{target}".encode() == stored
    assert host == host_of(stored)
    assert target.startswith("/")
    assert 0 < port < 65_536


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("http://user:pw@Ex%41mple.com:80/a/../b?q=é#f", b"http://example.com/b?q=%C3%A9"),
        (b"https://h:443", b"https://h/"),
        (b"http://h/caf\xe9?\xc3\xa9\xff", b"http://h/caf%E9?%C3%A9%FF"),
        (b"http://caf\xe9/", None),
        ("http://h/\ud800", b"http://h/%EF%BF%BD"),
        ("http://h/%7e/~", b"http://h/%7e/~"),
        ("http://h/a b #c", b"http://h/a%20b%20"),
        ("http://h?x", b"http://h/?x"),
        ("http://h/?", b"http://h/?"),
        (" \x00http://h/\x1f", b"http://h/"),
        ("http:///h/x", b"http://h/x"),
        ("http://faß.de/", b"http://xn--fa-hia.de/"),
        ("http://0x7f.1/", b"http://127.0.0.1/"),
        ("http://[0:0::1]/", b"http://[::1]/"),
        ("http://h.:8080/", b"http://h.:8080/"),
        ("HTTP://a_b.c/", b"http://a_b.c/"),
        ("mailto:a@b", None), ("javascript:void(0)", None), ("data:text/html,x", None), ("ftp://h/", None),
        ("file:///etc/passwd", None), ("ws://h/", None), ("blob:http://h/x", None), ("//h/x", None), ("h/x", None),
        ("", None), ("http://", None), ("http://a b/", None), ("http://h:65536/", None), ("http://h:0/", None),
        ("http://a..b/", None), ("http://.h/", None), ("http://" + "a" * 64 + ".com/", None), ("http://[::1", None),
        ("http://" + "a." * 127 + "com/", None), ("http://1.2.3.256/", None),
        ("http://h/" + "a" * HREF_CHARS_MAX, None),
    ],
)  # fmt: skip
def test_canonical(text: str | bytes, want: bytes | None) -> None:
    assert canonical(text) == want


def test_a_base_must_be_crawlable() -> None:
    with pytest.raises(ValueError, match="mailto"):
        Base("mailto:x")
    assert canonical("/x", "mailto:x") is None
    assert Base(b"http://u:p@h/a#b").url == b"http://h/a"


@pytest.mark.parametrize(
    ("charset", "href", "want"),
    [
        ("utf-8", "/é?é", b"http://h/%C3%A9?%C3%A9"),
        ("cp1252", "/é?é#é", b"http://h/%C3%A9?%E9"),  # only the query is in the page's encoding
        ("cp1252", "?€&я", b"http://h/?%80&%26%231103%3B"),
        ("cp932", "?x=ソ", b"http://h/?x=%83\\"),
        ("utf-16-le", "?é", b"http://h/?%C3%A9"),
        ("iso2022_jp", "?あa", b"http://h/?%1B$B$%22%1B(Ba"),
        ("koi8-r", "http://я.рф/я?я", b"http://xn--41a.xn--p1ai/%D1%8F?%D1"),
    ],
)
def test_the_pages_encoding_shapes_the_query(charset: str, href: str, want: bytes) -> None:
    assert Base("http://h/", charset).join(href) == want


@pytest.mark.parametrize(
    ("line", "want"),
    [
        ("example.com", b"http://example.com/"),
        (" example.com/a b ", b"http://example.com/a%20b"),
        ("example.com:8080/x", b"http://example.com:8080/x"),
        ("localhost:8080", b"http://localhost:8080/"),
        ("//example.com", b"http://example.com/"),
        ("HTTPS://Example.com", b"https://example.com/"),
        ("http:example.com", b"http://example.com/"),
        ("[::1]:8080", b"http://[::1]:8080/"),
        ("127.0.0.1", b"http://127.0.0.1/"),
        ("bücher.de", b"http://xn--bcher-kva.de/"),
        ("example.com/?u=http://x", b"http://example.com/?u=http://x"),
    ],
)
def test_seeds(line: str, want: bytes) -> None:
    assert seed_url(line) == want


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "empty"), ("mailto:a@b", "'mailto'"), ("ftp://x", "'ftp'"), ("javascript:1+1", "'javascript'"),
        ("two words", "not a URL"), ("http://", "not a URL"), ("http://h:99999", "not a URL"), ("h:0", "port 0"),
        ("http://a..b", "DNS"), ("x" * 70_000, "longer"), ("http://h\ud800/", "not a URL"),
        ("http://[zz]/", "not a URL"), ("/path", "host"), ("?query", "host"), ("\\\\h\\x", "host"),
    ],
)  # fmt: skip
def test_bad_seeds_say_why(line: str, reason: str) -> None:
    with pytest.raises(SeedError, match=reason):
        seed_url(line)


@given(TEXTS)
def test_a_seed_is_a_stored_url_or_a_reason(text: str) -> None:
    try:
        stored = seed_url(text)
    except SeedError as error:
        assert str(error)
    else:
        assert canonical(stored) == stored


@pytest.mark.parametrize("bad", [b"", b"example.com", b"ftp://h/", b"http://h"])
def test_split_refuses_what_is_no_stored_url(bad: bytes) -> None:
    with pytest.raises(ValueError, match="stored"):
        split(bad)


@pytest.mark.parametrize(
    ("host", "icann", "private"),
    [
        ("www.example.com", "example.com", "example.com"),
        ("a.b.example.co.uk", "example.co.uk", "example.co.uk"),
        ("user.github.io", "github.io", "user.github.io"),
        ("x.blogspot.com", "blogspot.com", "x.blogspot.com"),
        ("192.168.0.1", "192.168.0.1", "192.168.0.1"),
        ("::1", "::1", "::1"),
        ("[2001:db8::1]", "2001:db8::1", "2001:db8::1"),
        ("localhost", "localhost", "localhost"),
        ("co.uk", "co.uk", "co.uk"),
        ("www.example.com.", "example.com", "example.com"),
        ("m1.docs.test", "docs.test", "docs.test"),
        ("www.xn--85x722f.xn--55qx5d.cn", "xn--85x722f.xn--55qx5d.cn", "xn--85x722f.xn--55qx5d.cn"),
    ],
)
def test_sites(host: str, icann: str, private: str) -> None:
    assert SiteOf()(host) == icann
    assert SiteOf(private_suffixes=True)(host) == private


@given(st.from_regex(r"([a-z0-9_-]{1,8}\.){0,5}(com|uk|co\.uk|test|io|github\.io|kobe\.jp|ck)\.?", fullmatch=True))
def test_a_site_is_a_suffix_of_its_hosts_and_its_own_site(host: str) -> None:
    site_of = SiteOf(names_max=16)
    site = site_of(host)
    assert site_of(site) == site
    assert f".{host.rstrip('.')}".endswith(f".{site}")
