"""What served pages look like: text that goes by the content's number alone, and links."""

from __future__ import annotations

import numpy as np

from tools.simweb.paths import WORDS


def html(content: int, urls: list[bytes], date: bytes = b"") -> bytes:
    """A page: equal content is equal text, beside the date and the links."""
    numbers = np.random.default_rng(content).integers(0, len(WORDS) ** 2, 150)
    text = b" ".join(WORDS[n // len(WORDS)] + WORDS[n % len(WORDS)] for n in numbers.tolist())
    anchors = b"\n".join(b'<a href="%s">more</a>' % url.replace(b"&", b"&amp;") for url in urls)
    return b"<!DOCTYPE html><title>%d</title><p>%s</p><p>%s\n%s\n" % (content, date, text, anchors)
