"""The media type that a body has, by its first bytes, as far as indexes and handlers need to know (WHATWG MIME sniffing
6 and 7). Where bytes say nothing, the declared type is believed.
"""

from __future__ import annotations

import re

from irlcrawl.worker.page.sitemaps import FEED_START

OCTETS = "application/octet-stream"
LOOK_BYTES = 1024

_MAGIC = (
    (b"%PDF-", "application/pdf"), (b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"), (b"GIF89a", "image/gif"), (b"\x1f\x8b\x08", "application/gzip"),
    (b"PK\x03\x04", "application/zip"), (b"wOF2", "font/woff2"), (b"wOFF", "font/woff"),
)  # fmt: skip
_IN_ZIP = ("application/epub+zip", "application/vnd.", "application/java-archive")
_XML = re.compile(rb"\s*<\?xml[\s>]")
_ROOT = re.compile(rb"<(?:[\w.-]{1,32}:)?(urlset|sitemapindex|rss|feed|RDF|svg|html)[\s>]")
_ROOTS = {b"rss": "application/rss+xml", b"feed": "application/atom+xml", b"RDF": "application/rdf+xml",
          b"svg": "image/svg+xml", b"html": "application/xhtml+xml"}  # fmt: skip
_HTML = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*+(?:(?><!--.{0,512}?-->)\s*+)*"
    rb"<(?:!doctype html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p)[\s>]",
    re.IGNORECASE | re.DOTALL,
)
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
"""Byte order marks. Every second byte behind one may be zero, which makes no text binary."""
_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_MAYBE_BINARY = ("", "text/plain")
"""What servers say of files that they do not know; other types are believed, as UTF-16 has zeros, too."""


def detected(body: bytes, declared: str) -> str:
    """The media type of a content-decoded body; `declared`: that of its header, empty without one."""
    head = body[:LOOK_BYTES]
    if not head:
        return declared or OCTETS
    for magic, found in _MAGIC:
        if head.startswith(magic):
            return declared if found == "application/zip" and declared.startswith(_IN_ZIP) else found
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    if _XML.match(head):
        root = _ROOT.search(head)
        xml = "application/xml" if root is None else _ROOTS.get(root[1], "application/xml")
        return declared if declared == "text/html" and xml == "application/xml" else xml
    if FEED_START.match(head) and (root := _ROOT.search(head)) is not None:
        return _ROOTS[root[1]]
    if _HTML.match(head):
        return "application/xhtml+xml" if declared == "application/xhtml+xml" else "text/html"
    if head.startswith(_UTF_16):
        return declared if declared not in ("", OCTETS) else "text/plain"
    if _BINARY.search(head):
        return OCTETS if declared in _MAYBE_BINARY else declared
    return declared if declared not in ("", OCTETS) else "text/plain"
