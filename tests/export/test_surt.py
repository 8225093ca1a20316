"""URL keys are those of the library `surt`, which other indexes are made with."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.base.url import canonical
from irlcrawl.export.surt import surt

HOSTS = (
    "example.com", "www.example.com", "www2.a.co.uk", "192.168.0.1", "[::1]", "[2001:db8::1]:99", "h.test:8080",
    "h.test:80", "h.test:443", "a.test.", "xn--bcher-kva.de", "www.com", "wwwfoo.com", "3com.com", "m.www.example.com",
    "awww.example.com", "wiki.www2.w3.org",
)  # fmt: skip
PIECES = (
    "/", "//", "/./", "/../", "..", ".", "a", "B", "%41", "%2541", "%25", "%", "%zz", "ü", "?", "&", "=", "a=1", "b=2",
    "sid=", "jsessionid=" + "a" * 32, "sid=" + "b" * 32, "PHPSESSID=" + "c" * 32, "cfid=1&cftoken=2", "http://", "www.",
    "ASPSESSIONIDabcdefgh=" + "a" * 24, "/(s(" + "a" * 24 + "))/", "/(" + "b" * 24 + ")/", "x.aspx", " ", "%20", "%00",
    "\\", '"', "<", "^", "`", "{", "|", "~", "@", ":", "+", ";", "%2f", "%3f", "%23", "%26", "%3D",
)  # fmt: skip
urls = st.builds(
    lambda scheme, host, pieces: f"{scheme}://{host}/{''.join(pieces)}",
    st.sampled_from(("http", "https")), st.sampled_from(HOSTS), st.lists(st.sampled_from(PIECES), max_size=7),
)  # fmt: skip


@settings(max_examples=500, deadline=None)
@given(urls)
def test_keys_are_those_of_the_library(url: str) -> None:
    theirs = pytest.importorskip("surt", reason="surt is not installed: pip install surt").surt
    stored = canonical(url)
    assert stored is not None
    assert surt(stored).decode() == theirs(stored.decode())


@pytest.mark.parametrize(
    ("url", "key"),
    [
        (b"http://www.Example.com/", b"com,example)/"),
        (b"https://example.com:443/A/b/?b=2&a=1", b"com,example)/a/b?a=1&b=2"),
        (b"http://example.com:81/x//y/../z", b"com,example:81)/x/z"),
        (b"http://[::1]:99/", b"::1:99)/"),
        (b"http://example.com/?sid=" + b"a" * 32, b"com,example)/"),
        (b"http://example.com/%2541", b"com,example)/a"),
        (b"http://m.www.example.com/", b"com,example,www,m)/"),
        (b"http://awww.example.com/", b"com,example,awww)/"),
    ],
)
def test_keys(url: bytes, key: bytes) -> None:
    assert surt(url) == key
