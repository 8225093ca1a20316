"""The seam: which handler reads which media type. A new type is one file and its line here."""

from __future__ import annotations

import re

from irlcrawl.export.media import html, pdf, plain, xhtml, xml
from irlcrawl.export.media.content import Handler

_HANDLERS: dict[str, Handler] = {
    "text/html": html,
    "application/xhtml+xml": xhtml,
    "application/vnd.wap.xhtml+xml": xhtml,
    "text/plain": plain,
    "text/xml": xml,
    "application/xml": xml,
}
_XML = re.compile(r"(?:application|text)/[\w.-]+\+xml")


PDF = "application/pdf"


def handler_of(media_type: str, with_pdf: bool = False) -> Handler | None:
    """None: bodies of this type are kept as bytes, and nobody reads them."""
    if media_type == PDF:
        return pdf if with_pdf else None
    return _HANDLERS.get(media_type) or (xml if _XML.fullmatch(media_type) else None)
