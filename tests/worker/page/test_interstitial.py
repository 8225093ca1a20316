"""Challenges and parking pages are told from pages, and pages that only speak of them are none."""

from __future__ import annotations

import gzip

import brotlicffi
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.worker.archive.unit import Exchange
from irlcrawl.worker.page.interstitial import BODY_BYTES_MAX, sign_of

TEXT = b"<p>Lorem ipsum dolor sit amet, <a href=/x>consectetur</a> adipiscing elit.</p>\n"

STANDS_FOR = {
    "cloudflare": b'<!DOCTYPE html><title>Just a moment...</title><script>window._cf_chl_opt = {cvId:"3"};</script>',
    "anubis": b"<!doctype html><title>Making sure you're not a bot!</title><style>a{}</style>"
    b'<script id="anubis_challenge" type="application/json">{"rules":{}}</script>',
    "akamai": b'<html><body><div id="sec-if-cpt-container" role="main"></div>Powered and protected by Akamai</body>',
    "datadome": b'<html><body><p id="cmsg">Please enable JS and disable any ad blocker</p>'
    b"<script data-cfasync=\"false\">var dd={'rt':'c','host':'geo.captcha-delivery.com'}</script>",
    "perimeterx": b'<html><title>Access to this page has been denied</title><div id="px-captcha"></div>',
    "ddos-guard": b"<!doctype html><html><head><title>DDoS-Guard</title></head><body>Checking your browser</body>",
    "sucuri": b"<html><title>You are being redirected...</title><script>var s={};sucuri_cloudproxy_js='';</script>",
    "incapsula": b'<html><head><META NAME="ROBOTS"><script src="/_Incapsula_Resource?SWJI=1"></script>',
    "aliyun": b"<html><script>\nvar arg1='0123456789ABCDEF0123456789ABCDEF01234567';\n(function(a,c){})()</script>",
    "f5": b'<html><head><script>(function(){window["bobcmn"] = "10111";})()</script></head><body><noscript>'
    b"Please enable JavaScript to view the page content.<br/>Your support ID is: 1.</noscript></body></html>",
    "siteground": b'<html><head><meta http-equiv="refresh" content="0;/.well-known/sgcaptcha/?r=%2F&y=ipr:1.2.3.4:1.5">'
    b"</meta></head></html>",
    "testcookie": b'<html><body><script src="/aes.js"></script><script>document.cookie="__test="'
    b'+toHex(slowAES.decrypt(c,2,a,b))+"; path=/";location.href="http://a.test/?i=1";</script></body></html>',
    "imunify360": b"<html><head><title>One moment, please...</title></head><script>var s='wsidchk';</script></html>",
    "captcha": b'<title>Are you a human?</title><form><div class="h-captcha" id="x"></div><input type="submit">',
    "parked": b'<!doctype html><html data-adblockkey="MFwwDQYJKoZIhvcN"><head><script>window.park = "eyJ1dWlkIjoi"',
}


def header(*lines: bytes, kind: bytes = b"text/html; charset=utf-8") -> bytes:
    return b"\r\n".join([b"HTTP/1.1 200 OK", b"Server: x", b"Content-Type: " + kind, *lines, b"", b""])


def maker(body: bytes, *lines: bytes, status: int = 200, **kind: bytes) -> str:
    found = sign_of(status, Exchange(b"", "", b"", header(*lines, **kind), body), 1 << 20)
    return "" if found is None else found.maker


@pytest.mark.parametrize("name", STANDS_FOR)
def test_what_stands_in_the_place_of_a_page(name: str) -> None:
    body = STANDS_FOR[name]
    assert maker(body) == maker(body, status=403) == name
    assert maker(gzip.compress(body), b"Content-Encoding: gzip") == name
    assert maker(brotlicffi.compress(body), b"content-encoding: BR") == name
    assert maker(zstandard.compress(body), b"Content-Encoding: zstd") == name
    assert maker(body, status=404) == maker(body, status=301) == maker(body, kind=b"text/plain") == ""


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (b"cf-mitigated: challenge", "cloudflare"), (b"CF-Mitigated:challenge ", "cloudflare"),
        (b"x-amzn-waf-action: captcha", "aws"), (b"x-vercel-mitigated: challenge", "vercel"),
        (b"SG-Captcha: challenge", "siteground"),
        (b"cf-mitigated: none", ""), (b"x-note: cf-mitigated: challenge", ""), (b"x-vercel-mitigated: deny", ""),
    ],
)  # fmt: skip
def test_headers_that_decide_alone(line: bytes, name: str) -> None:
    assert maker(TEXT * 1000, line) == maker(b"", line, status=202) == name


@pytest.mark.parametrize(
    "body",
    [
        b"<title>Just a moment... and other films</title>" + TEXT,
        b"<p>Free hosting answers with toHex(slowAES.decrypt(c,2,a,b)) and wsidchk" + TEXT * 100,
        b'<script>window["bobcmn"] = "1"</script>' + TEXT,
        b"<script>var arg1='a'; var acw_sc__v2 = 1</script><p>content=0;/.well-known/sgcaptcha/?r" + TEXT,
        TEXT + b'<script src="/cdn-cgi/challenge-platform/scripts/jsd/main.js"></script>',
        b"<title>Anubis</title><p>Look for &lt;script id=anubis_challenge&gt; or anubis_challenge" + TEXT,
        b'<script src="/_Incapsula_Resource?SWJIYLWA=1"></script>' + TEXT * 100,
        b'<title>Verify your address</title><form><input name=mail><div class="g-recaptcha"></div></form>',
        b'<title>Security check-in desk</title><div class="h-captcha"></div><a href="/">home</a>',
        b"<script>window.parking = 1; window.park = 'x'</script>" + TEXT,
        b"<p>How to detect var dd={ and px-captcha and sec-if-cpt-container and _cf_chl_opt" + TEXT,
        b"",
    ],
)
def test_a_page_that_speaks_of_challenges_is_a_page(body: bytes) -> None:
    assert maker(body) == ""


def test_a_long_body_is_a_page() -> None:
    body = STANDS_FOR["akamai"]
    assert maker(body + b" " * (BODY_BYTES_MAX - len(body))) == "akamai"
    assert maker(body + b" " * (BODY_BYTES_MAX + 1 - len(body))) == ""


@given(st.binary(max_size=200), st.sampled_from([b"gzip", b"br", b"zstd", b"deflate", b"gzip, br", b"", b"x"]))
def test_whatever_comes_is_looked_at(body: bytes, coding: bytes) -> None:
    maker(body, b"Content-Encoding: " + coding)
