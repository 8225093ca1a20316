"""XHTML: read as HTML, but for elements that close themselves (`<script src="x"/>`), which HTML takes for open ones."""

from __future__ import annotations

import re
from collections.abc import Iterator

from irlcrawl.export.media import html
from irlcrawl.export.media.content import Content, Link

_CLOSES_ITSELF = re.compile(
    rb"<(script|style|title|textarea|iframe|noframes|noscript|xmp|a|div|span|p)((?:\s[^<>]*)?)/>", re.IGNORECASE
)


def read(body: bytes, codec: str) -> Content:
    return html.read(_closed(body), codec)


def links(body: bytes, codec: str) -> tuple[str, Iterator[Link]]:
    return html.links(_closed(body), codec)


def text(body: bytes, codec: str) -> str:
    return html.text(_closed(body), codec)


def _closed(markup: bytes) -> bytes:
    return _CLOSES_ITSELF.sub(rb"<\1\2></\1>", markup)
