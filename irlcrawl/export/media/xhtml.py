"""XHTML: read as HTML, but for elements that close themselves (`<script src="x"/>`), which HTML takes for open ones."""

from __future__ import annotations

from collections.abc import Iterator

from irlcrawl.export.media import html
from irlcrawl.export.media.content import Content, Link


def read(body: bytes, codec: str) -> Content:
    return html.read(body, codec, xhtml=True)


def links(body: bytes, codec: str) -> tuple[str, Iterator[Link]]:
    return html.links(html.closed(body), codec)


def text(body: bytes, codec: str) -> str:
    return html.text(html.closed(body), codec)
