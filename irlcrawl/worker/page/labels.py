"""The labels of the web's encodings, and the Python codec that reads each encoding.

The table is that of the WHATWG Encoding Standard (encoding.spec.whatwg.org, 4.2 "Names and labels"): 228 labels of 40
encodings. Python's own aliases are no labels. A label often means more than it says: pages that call themselves latin1
or ascii are windows-1252, and gb2312 is gbk, which is read as gb18030.

Encodings of single bytes are exactly the standard's. Where Python's codec is another, one named `whatwg-...` is
registered here: Windows code pages keep the bytes that have no character, so that a query in a UTF-8 page that calls
itself latin1 gets its own bytes back; gbk, euc-jp and shift_jis have fewer characters in a query than in a page. Of the
others big5hkscs lacks 203 of the standard's 18,590 characters, euc_jp 463 of 7,724, and gb18030 has 20 of 23,940
elsewhere.
"""

from __future__ import annotations

import codecs
from functools import lru_cache

REPLACEMENT = "replacement"
"""In place of a codec: the encoding of labels that could hide markup from filters (iso-2022-kr, hz-gb-2312). By the
standard whatever is in it reads as one U+FFFD, so a page in it has no links."""

USER_DEFINED = "whatwg-user-defined"
"""ASCII; the upper half is U+F780 to U+F7FF."""

_TABLE = {
    "utf-8": "unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8",
    "cp866": "866 cp866 csibm866 ibm866",
    "iso8859-2": "csisolatin2 iso-8859-2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2 latin2",
    "iso8859-3": "csisolatin3 iso-8859-3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3 latin3",
    "iso8859-4": "csisolatin4 iso-8859-4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4 latin4",
    "iso8859-5": "csisolatincyrillic cyrillic iso-8859-5 iso-ir-144 iso8859-5 iso88595 iso_8859-5 iso_8859-5:1988",
    "iso8859-6": "arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6 iso-8859-6-e "
    "iso-8859-6-i iso-ir-127 iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987",
    "iso8859-7": "csisolatingreek ecma-118 elot_928 greek greek8 iso-8859-7 iso-ir-126 iso8859-7 iso88597 iso_8859-7 "
    "iso_8859-7:1987 sun_eu_greek",
    "iso8859-8": "csiso88598e csisolatinhebrew hebrew iso-8859-8 iso-8859-8-e iso-ir-138 iso8859-8 iso88598 iso_8859-8 "
    "iso_8859-8:1988 visual "
    "csiso88598i iso-8859-8-i logical",  # ISO-8859-8-I: the same bytes, shown in another direction
    "iso8859-10": "csisolatin6 iso-8859-10 iso-ir-157 iso8859-10 iso885910 l6 latin6",
    "iso8859-13": "iso-8859-13 iso8859-13 iso885913",
    "iso8859-14": "iso-8859-14 iso8859-14 iso885914",
    "iso8859-15": "csisolatin9 iso-8859-15 iso8859-15 iso885915 iso_8859-15 l9",
    "iso8859-16": "iso-8859-16",
    "koi8-r": "cskoi8r koi koi8 koi8-r koi8_r",
    "whatwg-koi8-u": "koi8-ru koi8-u",
    "mac-roman": "csmacintosh mac macintosh x-mac-roman",
    "whatwg-874": "dos-874 iso-8859-11 iso8859-11 iso885911 tis-620 windows-874",
    "whatwg-1250": "cp1250 windows-1250 x-cp1250",
    "whatwg-1251": "cp1251 windows-1251 x-cp1251",
    "whatwg-1252": "ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 "
    "iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii windows-1252 x-cp1252",
    "whatwg-1253": "cp1253 windows-1253 x-cp1253",
    "whatwg-1254": "cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 l5 latin5 "
    "windows-1254 x-cp1254",
    "whatwg-1255": "cp1255 windows-1255 x-cp1255",
    "cp1256": "cp1256 windows-1256 x-cp1256",
    "whatwg-1257": "cp1257 windows-1257 x-cp1257",
    "whatwg-1258": "cp1258 windows-1258 x-cp1258",
    "mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "gb18030": "gb18030",
    "whatwg-gbk": "chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 gbk iso-ir-58 x-gbk",
    "big5hkscs": "big5 big5-hkscs cn-big5 csbig5 x-x-big5",
    "whatwg-euc-jp": "cseucpkdfmtjapanese euc-jp x-euc-jp",
    "iso2022_jp": "csiso2022jp iso-2022-jp",
    "whatwg-shift-jis": "csshiftjis ms932 ms_kanji shift-jis shift_jis sjis windows-31j x-sjis",
    "cp949": "cseuckr csksc56011987 euc-kr iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 "
    "windows-949",
    REPLACEMENT: "csiso2022kr hz-gb-2312 iso-2022-cn iso-2022-cn-ext iso-2022-kr replacement",
    "utf-16-be": "unicodefffe utf-16be",
    "utf-16-le": "csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16 utf-16le",
    USER_DEFINED: "x-user-defined",
}

CODECS = {label: codec for codec, labels in _TABLE.items() for label in labels.split()}
"""The Python codec of each label (lower case), or REPLACEMENT."""

_NO_CHARACTER = "\ufffe"
"""What codecs.charmap_decode takes for none."""


def _upper_half(codec: str, changed: dict[int, str]) -> str:
    """The characters of bytes from 0x80 on. Where Python has none, one below 0xA0 is a control."""
    return "".join(
        changed.get(byte) or (chr(byte) if byte < 0xA0 and char == "\ufffd" else char.replace("\ufffd", _NO_CHARACTER))
        for byte, char in enumerate(bytes(range(0x80, 0x100)).decode(codec, "replace"), 0x80)
    )


_UPPER_HALVES = {
    USER_DEFINED: "".join(map(chr, range(0xF780, 0xF800))),
    "whatwg-koi8-u": _upper_half("koi8-u", {0xAE: "\u045e", 0xBE: "\u040e"}),
    "whatwg-1255": _upper_half("cp1255", {0xCA: "\u05ba"}),
    **{f"whatwg-{page}": _upper_half(f"cp{page}", {}) for page in (874, 1250, 1251, 1252, 1253, 1254, 1257, 1258)},
}


_NARROWER = {
    "whatwg-gbk": ("gb18030", {"€": b"\x80"}),
    "whatwg-euc-jp": ("euc_jp", {"\xa5": b"\\", "\u203e": b"~", "\u2212": b"\xa1\xdd"}),
    "whatwg-shift-jis": ("cp932", {"\xa5": b"\\", "\u203e": b"~", "\u2212": b"\x81\x7c"}),
}
"""Encodings that read like a codec of Python's, and write no more than two bytes a character, of which that character
would be read again; and what they write otherwise (Encoding Standard 10.1.2, 10.2.2, 12.1.2, 12.3.2)."""


def _narrower(name: str) -> codecs.CodecInfo:
    wide, own = _NARROWER[name]
    python = codecs.lookup(wide)

    @lru_cache(maxsize=4096)
    def written(char: str) -> bytes:
        """Empty: the encoding has no such character."""
        known = char.encode(wide, "ignore")
        return own.get(char) or (known if len(known) <= 2 and known.decode(wide) == char else b"")

    def encode(text: str, errors: str = "strict") -> tuple[bytes, int]:
        parts: list[bytes] = []
        for at, char in enumerate(text):  # of a query
            if not (known := written(char)):
                error = UnicodeEncodeError(name, text, at, at + 1, "the encoding has no such character")
                told, _ = codecs.lookup_error(errors)(error)
                known = told.encode(wide) if isinstance(told, str) else told
            parts.append(known)
        return b"".join(parts), len(text)

    return codecs.CodecInfo(
        encode=encode, decode=python.decode, name=name, incrementaldecoder=python.incrementaldecoder
    )


def _codec(name: str) -> codecs.CodecInfo | None:
    name = name.replace("_", "-")  # as Python asks for it
    if name in _NARROWER:
        return _narrower(name)
    upper = _UPPER_HALVES.get(name)
    if upper is None:
        return None
    table = "".join(map(chr, range(0x80))) + upper
    bytes_of = codecs.charmap_build(table)

    class Decoder(codecs.IncrementalDecoder):
        def decode(self, data: bytes, final: bool = False) -> str:  # type: ignore[override]
            return codecs.charmap_decode(data, self.errors, table)[0]

    return codecs.CodecInfo(
        encode=lambda text, errors="strict": codecs.charmap_encode(text, errors, bytes_of),
        decode=lambda data, errors="strict": codecs.charmap_decode(bytes(data), errors, table),
        name=name,
        incrementaldecoder=Decoder,
    )


codecs.register(_codec)
