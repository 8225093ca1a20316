"""Which encoding a page is in, by the way a browser decides; where a browser would ask its locale, a detector decides.

Order (WHATWG HTML 13.2.3): byte order mark, the Content-Type header, a declaration in the first 1,024 bytes. Where a
browser falls back to its locale, valid UTF-8 is UTF-8, and a detector (faust-cchardet) is asked about any other body.
Labels become Python codecs by the WHATWG Encoding Standard, so that `iso-8859-1` means windows-1252; labels of no web
encoding (utf-7, rot13, idna) are ignored.
"""

from __future__ import annotations

import codecs
import re
from functools import lru_cache

import cchardet

PRESCAN_BYTES = 1024
DETECT_BYTES = 64 << 10
FALLBACK = "cp1252"

_SUPERSETS = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874",
    "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949", "big5": "big5hkscs",
    "utf-16": "utf-16-le", "iso8859-8": "iso8859-8",
}  # fmt: skip
"""Names that the web uses for a larger encoding."""

_WEB = frozenset({
    "utf-8", "utf-16-le", "utf-16-be", "cp866", "iso8859-2", "iso8859-3", "iso8859-4", "iso8859-5", "iso8859-6",
    "iso8859-7", "iso8859-8", "iso8859-10", "iso8859-13", "iso8859-14", "iso8859-15", "iso8859-16", "koi8-r", "koi8-u",
    "mac-roman", "mac-cyrillic", "cp874", "cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256",
    "cp1257", "cp1258", "gb18030", "big5hkscs", "euc_jp", "iso2022_jp", "cp932", "cp949",
})  # fmt: skip

_LABELS = {
    "x-sjis": "cp932", "windows-31j": "cp932", "ms_kanji": "cp932", "ms932": "cp932", "x-gbk": "gb18030",
    "ks_c_5601-1987": "cp949", "ks_c_5601-1989": "cp949", "windows-949": "cp949", "ksc_5601": "cp949",
    "korean": "cp949", "windows-874": "cp874", "dos-874": "cp874", "big5-hkscs": "big5hkscs", "x-x-big5": "big5hkscs",
    "cn-big5": "big5hkscs", "x-euc-jp": "euc_jp", "unicode": "utf-16-le", "ucs-2": "utf-16-le",
    "csunicode": "utf-16-le", "iso-10646-ucs-2": "utf-16-le", "unicodefffe": "utf-16-be", "unicodefeff": "utf-16-le",
    "unicode11utf8": "utf-8", "unicode20utf8": "utf-8", "x-unicode20utf8": "utf-8", "x-mac-roman": "mac-roman",
    "macintosh": "mac-roman", "x-mac-cyrillic": "mac-cyrillic", "x-mac-ukrainian": "mac-cyrillic", "koi": "koi8-r",
    "koi8": "koi8-r", "koi8_r": "koi8-r", "koi8-ru": "koi8-u", "iso-8859-8-i": "iso8859-8", "iso-8859-8-e": "iso8859-8",
    "logical": "iso8859-8", "visual": "iso8859-8", "dos-866": "cp866", "ibm866": "cp866", "gb_2312-80": "gb18030",
}  # fmt: skip


@lru_cache(maxsize=1024)
def codec_of(label: str) -> str | None:
    """The Python codec of a WHATWG encoding label, or None when the label names no web encoding."""
    label = label.strip("\t\n\f\r ").lower()
    if label in _LABELS:
        return _LABELS[label]
    if len(label) > 32 or not label.isascii() or "\0" in label:
        return None
    try:
        name = codecs.lookup(label).name
    except (LookupError, ValueError):
        return None
    name = _SUPERSETS.get(name, name)
    return name if name in _WEB else None


_PARAMETER = re.compile(r"charset\s*=\s*(?:\"([^\"]*)\"?|'([^']*)'?|([^\s;,\"']+))", re.IGNORECASE)


def of_content_type(content_type: str) -> str | None:
    """The codec that a Content-Type value names, or None."""
    found = _PARAMETER.search(content_type)
    return codec_of(found[1] or found[2] or found[3] or "") if found else None


_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_META = re.compile(rb"<meta\b[^>]*?charset\s*=\s*[\"']?\s*([^\s\"'/>;]+)", re.IGNORECASE)
_XML = re.compile(rb"^\s*<\?xml[^>]*?encoding\s*=\s*[\"']([^\"']+)", re.IGNORECASE)


def sniff(body: bytes, content_type: str = "") -> str:
    """The codec to decode `body` with; never None."""
    for mark, codec in _BOMS:
        if body.startswith(mark):
            return codec
    declared = of_content_type(content_type) or _in_markup(body[:PRESCAN_BYTES])
    if declared is not None:
        return declared
    try:
        body.decode("utf-8")
        return "utf-8"
    except UnicodeDecodeError as error:
        if error.end >= len(body) - 3 and error.reason == "unexpected end of data":
            return "utf-8"  # cut in the middle of a character
    guess = cchardet.detect(body[:DETECT_BYTES])["encoding"]
    return (codec_of(guess) if guess else None) or FALLBACK


def _in_markup(head: bytes) -> str | None:
    found = _META.search(head) or _XML.search(head)
    codec = codec_of(found[1].decode("latin-1")) if found else None
    return "utf-8" if codec in ("utf-16-le", "utf-16-be") else codec  # it was readable as ASCII, so it is not UTF-16


def decode(body: bytes, codec: str) -> str:
    """`body` as text: invalid bytes become U+FFFD, a byte order mark is dropped. Never raises."""
    text = body.decode(codec, "replace")
    return text[1:] if text.startswith("\ufeff") else text
