"""Plain text: all of it is text, and nothing of it a title."""

from __future__ import annotations

from collections.abc import Iterator

from irlcrawl.export.media.content import Content, Link
from irlcrawl.worker.page import charset


def read(body: bytes, codec: str) -> Content:
    return Content()


def links(body: bytes, codec: str) -> tuple[str, Iterator[Link]]:
    return "", iter(())


def text(body: bytes, codec: str) -> str:
    return charset.decode(body, codec)
