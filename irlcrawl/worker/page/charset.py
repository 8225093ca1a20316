"""Which encoding a page is in, by the way a browser decides; where a browser would ask its locale, a detector decides.

Order (WHATWG HTML 13.2.3): byte order mark, the Content-Type header, a declaration in the first 1,024 bytes. Where a
browser falls back to its locale, valid UTF-8 is UTF-8, and a detector (faust-cchardet) is asked about any other body.
Labels are those of the WHATWG Encoding Standard (labels.py); any other label (utf-7, rot13, idna) is ignored.
"""

from __future__ import annotations

import codecs
import re
from functools import lru_cache

import cchardet

from irlcrawl.base.steps import Steps, at_once
from irlcrawl.worker.page.labels import CODECS, REPLACEMENT, USER_DEFINED

PRESCAN_BYTES = 1024
DETECT_BYTES = 64 << 10
SNIFF_BYTES = 1 << 20
"""Of a page that declares nothing looked at between two stops: whether it is UTF-8."""
PIECE_BYTES = 128 << 10
"""Of a page recoded between two stops."""
FALLBACK = "whatwg-1252"
_UTF_16 = ("utf-16-le", "utf-16-be")


@lru_cache(maxsize=1024)
def codec_of(label: str) -> str | None:
    """The Python codec of a WHATWG encoding label (or REPLACEMENT), None when the label names no web encoding."""
    return CODECS.get(label.strip("\t\n\f\r ").lower()) if label.isascii() else None


_PARAMETER = re.compile(r"charset\s*=\s*(?:\"([^\"]*)\"?|'([^']*)'?|([^\s;,\"']+))", re.IGNORECASE)


def of_content_type(content_type: str) -> str | None:
    """The codec that a Content-Type value names, or None."""
    found = _PARAMETER.search(content_type)
    return codec_of(found[1] or found[2] or found[3] or "") if found else None


_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


def sniff(body: bytes, content_type: str = "") -> str:
    """The codec to decode `body` with, or REPLACEMENT (see decode); never None."""
    return at_once(sniffing(body, content_type))


def sniffing(body: bytes, content_type: str = "") -> Steps[str]:
    """sniff(), in steps."""
    for mark, codec in _BOMS:
        if body.startswith(mark):
            return codec
    declared = of_content_type(content_type) or prescan(body[:PRESCAN_BYTES])
    if declared is not None:
        return declared
    start, consumed = 0, 1
    try:
        while start < len(body) and consumed:  # nothing: it is cut in the middle of a character
            if start:
                yield
            _, consumed = codecs.utf_8_decode(body[start : start + SNIFF_BYTES], "strict", False)
            start += consumed
    except UnicodeDecodeError:
        return _detected(body[:DETECT_BYTES])
    return "utf-8"


_DETECTORS_OWN = {"uhc": "cp949"}
"""Codecs of encodings that the detector calls by a name that is no label."""


def _detected(body: bytes) -> str:
    """The codec of a body that is not UTF-8, though the detector may say so, and that declares nothing."""
    guess = (cchardet.detect(body)["encoding"] or "").lower()
    codec = _DETECTORS_OWN.get(guess) or codec_of(guess)
    return FALLBACK if codec in (None, "utf-8", REPLACEMENT) else codec


def decode(body: bytes, codec: str) -> str:
    """`body` as text: invalid bytes become U+FFFD, a byte order mark is dropped. In REPLACEMENT all of it is invalid.
    Never raises."""
    if codec == REPLACEMENT:
        return "\ufffd" if body else ""
    text = body.decode(codec, "replace")
    return text[1:] if text.startswith("\ufeff") else text


def recoding(body: bytes, codec: str, bytes_max: int | None = None) -> Steps[bytes]:
    """`body` in UTF-8, as decode() reads it, in steps; bytes_max: as far as about so many bytes of it, for a byte may
    become three."""
    if codec == REPLACEMENT or len(body) <= PIECE_BYTES:
        return decode(body, codec).encode("utf-8", "replace")
    decoder = codecs.getincrementaldecoder(codec)("replace")
    text = decoder.decode(body[:PIECE_BYTES]).removeprefix("\ufeff")
    pieces = [text.encode("utf-8", "replace")]
    recoded = len(pieces[0])
    for start in range(PIECE_BYTES, len(body), PIECE_BYTES):
        yield
        if bytes_max is not None and recoded > bytes_max:
            break
        end = start + PIECE_BYTES
        pieces.append(decoder.decode(body[start:end], end >= len(body)).encode("utf-8", "replace"))
        recoded += len(pieces[-1])
    return b"".join(pieces)


# -- what a page declares ---------------------------------------------------------------------------------------------

_S = r"[\t\n\f\r ]"
_NAME = r"[\t\n\f\r /]*+ ([^\t\n\f\r />] [^\t\n\f\r />=]*+)"
_VALUE = r"""(?: "([^"]*+)" | '([^']*+)' | ([^\t\n\f\r >"'] [^\t\n\f\r >]*+) | (?=>|\Z) )"""
_ATTRIBUTE = rf"{_NAME} (?: {_S}*+ = {_S}*+ {_VALUE} | (?! {_S}*+ = ) )"
_ATTRIBUTES = f"(?: {_ATTRIBUTE.replace('([', '(?:[')} | (?!) )*+"
"""A possessive group ends with an alternative that fails at once, as in scan.py (gh-106052)."""


def _compiled(expression: str) -> re.Pattern[bytes]:
    return re.compile(expression.encode(), re.VERBOSE | re.DOTALL | re.IGNORECASE)


_NO_META = _compiled(
    rf"""(?: [^<]++
           | <!-- (?: -?> | .*?--> )
           | (?! <meta [\t\n\f\r /] ) </?[a-z] [^\t\n\f\r >]*+ {_ATTRIBUTES} [\t\n\f\r /]*+ >
           | < (?: !(?!--) | /(?![a-z]) | \? ) [^>]*+ >
           | < (?! [!/?a-z] )
           | (?!)
         )*+"""
)
"""Text, comments, and tags other than <meta>, each to its end."""
_META = _compiled(rf"<meta (?= [\t\n\f\r /] ) ({_ATTRIBUTES}) [\t\n\f\r /]*+ >")
_EACH_ATTRIBUTE = _compiled(_ATTRIBUTE)
_IN_CONTENT = _compiled(rf"""charset {_S}*+ = {_S}*+ (?: "([^"]*+)" | '([^']*+)' | ["'] | ([^\t\n\f\r ;]*+) )""")
_XML = re.compile(
    rb"<\?xml(?=[^>]*+>)(?:(?!encoding)[^>])*+encoding[\0- ]*+=[\0- ]*+(?:\"([^\"\0- ]*+)\"|'([^'\0- ]*+)')"
)
_XML_STARTS = {"<?x".encode(codec): codec for codec in _UTF_16}


def prescan(head: bytes) -> str | None:
    """The codec (or REPLACEMENT) that the first bytes of a page declare; None if they declare none. This is "prescan a
    byte stream to determine its encoding" of WHATWG HTML 13.2.3.2: a tag or comment that `head` ends in counts for
    nothing. As there, the text of a script is read like any other text."""
    utf_16 = _XML_STARTS.get(head[:6])
    if utf_16 is not None:
        return utf_16
    at = 0 if b"charset" in head.lower() else len(head)  # no <meta> names a charset without that word
    while (skipped := _NO_META.match(head, at)) and (meta := _META.match(head, skipped.end())):
        codec = _of_meta(meta[1])
        if codec is not None:
            return "utf-8" if codec in _UTF_16 else FALLBACK if codec == USER_DEFINED else codec
        at = meta.end()
    xml = _XML.match(head)
    codec = codec_of((xml[1] or xml[2] or b"").decode("latin-1")) if xml else None
    return "utf-8" if codec in _UTF_16 else codec  # it was readable as ASCII, so it is not UTF-16


@lru_cache(maxsize=256)  # pages of a site begin alike
def _of_meta(attributes: bytes) -> str | None:
    """What a <meta> with these attributes declares: an attribute `charset` decides, though its label be unknown."""
    values: dict[bytes, bytes] = {}
    for name, *value in _EACH_ATTRIBUTE.findall(attributes):
        values.setdefault(name.lower(), b"".join(value))
    label = values.get(b"charset")
    if label is None and values.get(b"http-equiv", b"").lower() == b"content-type":
        named = _IN_CONTENT.search(values.get(b"content", b""))
        label = named and (named[1] or named[2] or named[3])
    return codec_of(label.decode("latin-1")) if label else None
