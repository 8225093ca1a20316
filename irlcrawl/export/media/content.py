"""The result of a handler of a media type, for a page and for each of its links."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


@dataclass(slots=True)
class Content:
    """Empty strings stand for what a page does not say."""

    title: str = ""
    description: str = ""
    canonical: str = ""  # as written; relative to `base`
    base: str = ""  # as written
    lang: str = ""  # that the page declares
    opengraph: dict[str, str] = field(default_factory=dict)  # property -> its first value
    jsonld_types: list[str] = field(default_factory=list)  # distinct, in order
    links: int | None = None  # elements that link; None: the type has none


class Link(NamedTuple):
    """A reference as the page writes it."""

    href: str
    text: str
    rel: str  # lower case, words apart by one space
    element: str  # its tag


class Handler(Protocol):
    """A file of this room. `body` is content-decoded, `codec` a Python codec. None of them raises on bad input."""

    def read(self, body: bytes, codec: str) -> Content:
        """The page's own description."""

    def links(self, body: bytes, codec: str) -> tuple[str, Iterator[Link]]:
        """(base as written, the links in order)."""

    def text(self, body: bytes, codec: str) -> str:
        """The main text, without navigation and the like where the type has such."""


def collapsed(text: str | None) -> str:
    """Text with each run of white space as one space."""
    return " ".join(text.split()) if text else ""
