"""What served pages look like: text that goes by the content's number alone, and links."""

from __future__ import annotations

import numpy as np


def html(content: int, urls: list[bytes]) -> bytes:
    """A page: equal content is equal text."""
    numbers = np.random.default_rng(content).integers(0, 10_000, 150)
    text = " ".join(f"word{n}" for n in numbers.tolist()).encode()
    anchors = b"\n".join(b'<a href="%s">more</a>' % url.replace(b"&", b"&amp;") for url in urls)
    return b"<!DOCTYPE html><title>%d</title><p>%s\n%s\n" % (content, text, anchors)
