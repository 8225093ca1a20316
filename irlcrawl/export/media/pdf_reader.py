"""The process that reads PDFs for pdf.py, by PDFium (pypdfium2), as Chromium does: ten times as fast as pypdf (on
documentation of Erlang: 1,040 and 100 pages per CPU-second).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

from irlcrawl.export.media.bounded import serve

ABOUT, LINKS, TEXT = b"a", b"l", b"t"
"""What is asked of a PDF."""
PAGES_MAX = 1000
"""Pages that are read of a PDF."""
CHARS_MAX = 4 << 20
LINKS_MAX = 10_000


def told(what: bytes, body: bytes) -> dict[str, Any]:
    """What is asked of a PDF, as JSON; nothing of one that is none."""
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(body)
    except pypdfium2.PdfiumError:
        return {}
    try:
        if what == ABOUT:
            about = document.get_metadata_dict()
            count = sum(1 for _ in _links(document, words=False))
            return {"title": about["Title"], "subject": about["Subject"], "lang": _language(document), "links": count}
        if what == LINKS:
            return {"links": list(_links(document, words=True))}
        return {"text": _text(document)}
    finally:
        document.close()


def _pages(document: Any) -> Iterator[Any]:
    """Pages that can be read, each open until the next."""
    import pypdfium2

    for number in range(min(len(document), PAGES_MAX)):
        try:
            page = document[number]
        except pypdfium2.PdfiumError:
            continue
        yield page
        page.close()


def _text(document: Any) -> str:
    parts, room = list[str](), CHARS_MAX
    for page in _pages(document):
        text = page.get_textpage()
        parts.append(text.get_text_bounded()[:room])
        text.close()
        room -= len(parts[-1])
        if not room:
            break
    return "\n".join("\n".join(part.splitlines()) for part in parts)


def _links(document: Any, words: bool) -> Iterator[tuple[str, str]]:
    """(URL, the words in its box) of links that lead out of the document."""
    from pypdfium2 import raw

    left = LINKS_MAX
    for page in _pages(document):
        text = page.get_textpage() if words else None
        at, link, box = ctypes.c_int(0), raw.FPDF_LINK(), raw.FS_RECTF()
        while left and raw.FPDFLink_Enumerate(page.raw, at, link):
            action = raw.FPDFLink_GetAction(link)
            if not action or raw.FPDFAction_GetType(action) != raw.PDFACTION_URI:
                continue
            length = raw.FPDFAction_GetURIPath(document.raw, action, None, 0)
            buffer = ctypes.create_string_buffer(length)
            raw.FPDFAction_GetURIPath(document.raw, action, buffer, length)
            shown = ""
            if text is not None and raw.FPDFLink_GetAnnotRect(link, box):
                shown = text.get_text_bounded(box.left, box.bottom, box.right, box.top)
            left -= 1
            yield buffer.value.decode("utf-8", "replace"), shown
        if text is not None:
            text.close()


def _language(document: Any) -> str:
    from pypdfium2 import raw

    length = raw.FPDFCatalog_GetLanguage(document.raw, None, 0)
    buffer = ctypes.create_string_buffer(length)
    raw.FPDFCatalog_GetLanguage(document.raw, ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)), length)
    return buffer.raw[: max(length - 2, 0)].decode("utf-16-le", "replace")


if __name__ == "__main__":
    serve(told)
