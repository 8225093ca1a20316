"""The process that reads pages of HTML for html.py which may take a parser hours or gigabytes (tame.py)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from irlcrawl.export.media import html
from irlcrawl.export.media.bounded import serve


def told(what: bytes, markup: bytes) -> dict[str, Any]:
    """What is asked of a page in UTF-8, as JSON."""
    if what == html.ABOUT:
        return asdict(html.about(markup))
    if what == html.LINKS:
        base, links = html.links_of(markup)
        return {"base": base, "links": list(links)}
    return {"text": html.text_of(markup)}


if __name__ == "__main__":
    serve(told)
