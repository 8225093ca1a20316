"""What a server may send in the place of a page: a challenge to prove that a person asks, or a domain's parking page.

A small table of signs, each of which names its maker. A header decides alone where its maker documents it (Cloudflare
`cf-mitigated`, AWS WAF `x-amzn-waf-action`, Vercel `x-vercel-mitigated`). Everything else is looked for in the first
kilobytes of a small body: the marks of an element or script that such a page has and the page behind it has not. So
Cloudflare's beacon, Imperva's script or a captcha in a form make no page a challenge: what counts there is a stub that
has nothing else.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import brotlicffi
import re2
import zstandard
from isal import isal_zlib

from irlcrawl.web.coding import ZSTD_WINDOW_MAX
from irlcrawl.web.damaged import ERRORS

BODY_BYTES_MAX = 12 << 10
"""A longer body, as received, is a page."""
HEAD_BYTES = 2048
"""So much of a body, as received, is looked at."""
STUB_BYTES_MAX = 3000
"""A page that is no longer than this, decoded, has room for nothing beside a challenge."""
PARKED = "parked"
STATUSES = frozenset((200, 202, 403, 405))
"""With which challenges come, beside those of a host that throttles. (AWS WAF: 202 and 405.)"""

_HEADERS = {
    b"cf-mitigated": ("cloudflare", (b"challenge",)),
    b"x-amzn-waf-action": ("aws", (b"challenge", b"captcha")),
    b"x-vercel-mitigated": ("vercel", (b"challenge",)),
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
    (PARKED, b"data-adblockkey=", rb"<html[^>]*\bdata-adblockkey="),
    (PARKED, b"window.park", rb"<script>window\.park ?= ?\"ey"),
    (PARKED, b"sedoparking.com", rb"\bsedoparking\.com/frmpark/"),
)
"""(maker, bytes that are there, pattern that makes sure)."""
_STUBS = (
    ("incapsula", b"_Incapsula_Resource", rb"src=\"/_Incapsula_Resource\?"),
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
_FIELD = re.compile(rb"[ \t]*:[ \t]*([^\r\n]*)")
_LINK = re.compile(rb"<(?:a|input|textarea|select)\b(?![^>]*\btype=[\"']?(?:hidden|submit))[^>]*>", re.IGNORECASE)
_PERSON = re.compile(rb"robot|human|captcha|security check|verif", re.IGNORECASE)


class Sign(NamedTuple):
    """What stands in the place of a page, by its maker or kind."""

    maker: str

    @property
    def parked(self) -> bool:
        """The domain has no pages; else a page may be behind it."""
        return self.maker == PARKED


def sign_of(status: int, header: bytes, body: bytes) -> Sign | None:
    """What a response (its header, and its body as received) is in the place of a page; None: it is one."""
    if status not in STATUSES:
        return None
    fields = header.lower()
    for name, (maker, values) in _HEADERS.items():
        if name in fields and _value(fields, name) in values:
            return Sign(maker)
    if not 0 < len(body) <= BODY_BYTES_MAX or not _value(fields, b"content-type").startswith(_HTML):
        return None
    head = _decoded(body[:HEAD_BYTES], _value(fields, b"content-encoding"))
    if _MARK.search(head) is None:
        return None
    maker = _maker(head, _BODIES)
    if not maker and len(body) <= HEAD_BYTES and len(head) <= STUB_BYTES_MAX:
        maker = _maker(head, _STUBS)
        if maker == "captcha" and (_LINK.search(head) or not _PERSON.search(head)):
            return None
    return Sign(maker) if maker else None


def _value(fields: bytes, name: bytes) -> bytes:
    """The value of a header in lower case; empty without one."""
    at = fields.find(b"\n" + name)
    match = _FIELD.match(fields, at + 1 + len(name)) if at >= 0 else None
    return match[1].rstrip() if match else b""


def _maker(head: bytes, table: tuple[tuple[str, bytes, bytes], ...]) -> str:
    for maker, there, pattern in table:
        if there in head and re.search(pattern, head, re.IGNORECASE):
            return maker
    return ""


def _decoded(start: bytes, coding: bytes) -> bytes:
    """What the start of a body unpacks to; as it came where that cannot be told."""
    try:
        if coding in (b"gzip", b"x-gzip"):
            return bytes(isal_zlib.decompressobj(wbits=31).decompress(start, 2 * HEAD_BYTES))
        if coding == b"br":
            return bytes(brotlicffi.Decompressor().process(start, output_buffer_limit=2 * HEAD_BYTES))
        if coding == b"zstd":
            with zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_MAX).stream_reader(start) as reader:
                return reader.read(2 * HEAD_BYTES)
    except ERRORS:
        pass
    return start
