"""PDF, by option (--pdf). A PDF is a program in a language of its own, and comes from strangers: so it is read in a
process of its own (pdf_reader.py), whose memory and CPU time are bounded. Of a PDF that kills it nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from irlcrawl.export.media.bounded import Bounded
from irlcrawl.export.media.content import Content, Link, collapsed
from irlcrawl.export.media.extras import needed
from irlcrawl.export.media.pdf_reader import ABOUT, LINKS, TEXT

ELEMENT = "pdf"
SECONDS_MAX, MEMORY_MAX = 10.0, 1 << 30
"""CPU-seconds a PDF, and bytes of the process's address space."""
READER = Bounded("irlcrawl.export.media.pdf_reader", SECONDS_MAX, MEMORY_MAX)


def read(body: bytes, codec: str) -> Content:
    told = _asked(ABOUT, body)
    return Content(
        title=collapsed(told.get("title")), description=collapsed(told.get("subject")), lang=told.get("lang", ""),
        links=told.get("links"),
    )  # fmt: skip


def links(body: bytes, codec: str) -> tuple[str, Iterator[Link]]:
    found = _asked(LINKS, body).get("links", [])
    return "", (Link(href.strip(), collapsed(words), "", ELEMENT) for href, words in found)


def text(body: bytes, codec: str) -> str:
    return str(_asked(TEXT, body).get("text", "")).strip()


def _asked(what: bytes, body: bytes) -> dict[str, Any]:
    """What the process says of a PDF; nothing if that ended it. JobError if the library is not installed."""
    needed("pypdfium2", "--pdf")
    return READER.asked(what, body) or {}
