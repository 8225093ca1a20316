"""What a server may send in the place of a page: a challenge to prove that a person asks, or a domain's parking page.

A small table of signs, each of which names its maker. A header decides alone where its maker documents it (Cloudflare
`cf-mitigated`, AWS WAF `x-amzn-waf-action`, Vercel `x-vercel-mitigated`). Everything else is looked for in the first
kilobytes of a small body: the marks of an element or script that such a page has and the page behind it has not. So
Cloudflare's beacon, Imperva's script or a captcha in a form make no page a challenge: what counts there is a stub that
has nothing else.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Protocol

import re2

BODY_BYTES_MAX = 12 << 10
"""A longer body, as received, is a page."""
HEAD_BYTES = 4096
"""So much of a body, decoded, is looked at."""
STUB_BYTES_MAX = 3000
"""A page that is no longer than this, decoded, has room for nothing beside a challenge."""
PARKED = "parked"
STATUSES = frozenset((200, 202, 403, 405))
"""With which challenges come, beside those of a host that throttles. (AWS WAF: 202 and 405.)"""

_HEADERS = {
    b"cf-mitigated": ("cloudflare", (b"challenge",)),
    b"x-amzn-waf-action": ("aws", (b"challenge", b"captcha")),
    b"x-vercel-mitigated": ("vercel", (b"challenge",)),
    b"sg-captcha": ("siteground", (b"challenge",)),
}
"""Header -> its maker, and the values that say a challenge."""
_BODIES = (
    ("cloudflare", b"_cf_chl_opt", rb"_cf_chl_opt\s*=\s*\{"),
    ("anubis", b"anubis_challenge", rb"<script id=\"anubis_challenge\""),
    ("akamai", b"sec-if-cpt-container", rb"id=\"sec-if-cpt-container\""),
    ("datadome", b"var dd={", rb"<p id=\"cmsg\">[^<]*</p>\s*<script[^>]*>\s*var dd=\{"),
    ("perimeterx", b"px-captcha", rb"<div id=\"px-captcha\""),
    ("ddos-guard", b"DDoS-Guard", rb"<title>DDoS-Guard</title>"),
    ("sucuri", b"sucuri_cloudproxy_js", rb"\bsucuri_cloudproxy_js\s*="),
    ("aliyun", b"var arg1='", rb"<script>\s*var arg1='[0-9A-F]{40}';"),
    ("f5", b'window["bobcmn"]', rb"Please enable JavaScript to view the page content"),
    (PARKED, b"data-adblockkey=", rb"<html[^>]*\bdata-adblockkey="),
    (PARKED, b"window.park", rb"<script>window\.park ?= ?\"ey"),
    (PARKED, b"sedoparking.com", rb"\bsedoparking\.com/frmpark/"),
)
"""(maker, bytes that are there, pattern that makes sure)."""
_STUBS = (
    ("incapsula", b"_Incapsula_Resource", rb"src=\"/_Incapsula_Resource\?"),
    ("siteground", b"/.well-known/sgcaptcha/", rb"content=\"0; ?/\.well-known/sgcaptcha/\?"),
    ("testcookie", b"slowAES.decrypt(", rb"\btoHex\(slowAES\.decrypt\("),
    ("imunify360", b"wsidchk", rb"<title>One moment, please\.\.\.</title>"),
    (PARKED, b"/lander", rb"window\.location\.href ?= ?\"/lander\""),
    ("captcha", b"h-captcha", rb"class=\"h-captcha[\" ]"),
    ("captcha", b"g-recaptcha", rb"class=\"g-recaptcha[\" ]"),
    ("captcha", b"cf-turnstile", rb"class=\"cf-turnstile[\" ]"),
)
"""The same of bodies that hold nothing else."""


def _any_mark() -> re2._Regexp[bytes]:
    """Finds one of the plain bytes of both tables. Most pages have none, and one look at a page says so."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    return re2.compile(b"|".join(re2.escape(mark) for _, mark, _ in (*_BODIES, *_STUBS)), options)


_MARK = _any_mark()
_HTML = (b"text/html", b"application/xhtml+xml")
_LINK = re.compile(rb"<(?:a|input|textarea|select)\b(?![^>]*\btype=[\"']?(?:hidden|submit))[^>]*>", re.IGNORECASE)
_PERSON = re.compile(rb"robot|human|captcha|security check|verif", re.IGNORECASE)


class Response(Protocol):
    """What is asked of a response (worker/archive/unit.Exchange)."""

    @property
    def body(self) -> bytes:
        """As received."""

    def value(self, name: bytes) -> bytes | None:
        """The first value of a header, its name in lower case."""

    def decoded_soon(self, bytes_max: int) -> bytes | None:
        """The body with its content coding undone; None if that takes long."""


class Sign(NamedTuple):
    """What stands in the place of a page, by its maker or kind."""

    maker: str

    @property
    def parked(self) -> bool:
        """The domain has no pages; else a page may be behind it."""
        return self.maker == PARKED


def sign_of(status: int, response: Response, decoded_bytes_max: int) -> Sign | None:
    """What a response is in the place of a page; None: it is one."""
    if status not in STATUSES:
        return None
    for name, (maker, values) in _HEADERS.items():
        value = response.value(name)
        if value is not None and value.lower() in values:
            return Sign(maker)
    body, mime = response.body, response.value(b"content-type")
    if not 0 < len(body) <= BODY_BYTES_MAX or mime is None or not mime.lower().startswith(_HTML):
        return None
    decoded = response.decoded_soon(decoded_bytes_max)
    if decoded is None:  # no stand-in unpacks to so much
        return None
    head = decoded[:HEAD_BYTES]
    if _MARK.search(head) is None:
        return None
    maker = _maker(head, _BODIES)
    if not maker and len(decoded) <= STUB_BYTES_MAX:
        maker = _maker(head, _STUBS)
        if maker == "captcha" and (_LINK.search(head) or not _PERSON.search(head)):
            return None
    return Sign(maker) if maker else None


def _maker(head: bytes, table: tuple[tuple[str, bytes, bytes], ...]) -> str:
    for maker, there, pattern in table:
        if there in head and re.search(pattern, head, re.IGNORECASE):
            return maker
    return ""
