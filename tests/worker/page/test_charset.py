"""The encoding of a page: who decides, in which order, and that no bytes and no label break it."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.worker.page.charset import codec_of, decode, of_content_type, sniff


@pytest.mark.parametrize(
    ("label", "codec"),
    [
        ("utf-8", "utf-8"), ("UTF8", "utf-8"), (" Utf-8\n", "utf-8"), ("iso-8859-1", "cp1252"), ("latin1", "cp1252"),
        ("us-ascii", "cp1252"), ("windows-1252", "cp1252"), ("iso-8859-9", "cp1254"), ("gb2312", "gb18030"),
        ("GBK", "gb18030"), ("shift_jis", "cp932"), ("x-sjis", "cp932"), ("euc-kr", "cp949"),
        ("ks_c_5601-1987", "cp949"),
        ("big5", "big5hkscs"), ("tis-620", "cp874"), ("utf-16", "utf-16-le"), ("utf-16be", "utf-16-be"),
        ("koi8-r", "koi8-r"), ("macintosh", "mac-roman"), ("euc-jp", "euc_jp"), ("iso-2022-jp", "iso2022_jp"),
        ("windows-1251", "cp1251"), ("iso-8859-15", "iso8859-15"),
        ("utf-7", None), ("utf-32", None), ("rot13", None), ("idna", None), ("punycode", None), ("hex", None),
        ("unicode_escape", None), ("mbcs", None), ("", None), ("none", None), ("\x00", None),
        ("é", None), ("x" * 99, None),
    ],
)  # fmt: skip
def test_labels(label: str, codec: str | None) -> None:
    assert codec_of(label) == codec
    if codec is not None:
        assert codecs.lookup(codec)


@pytest.mark.parametrize(
    ("value", "codec"),
    [
        ("text/html; charset=utf-8", "utf-8"), ('text/html;CHARSET="koi8-r"', "koi8-r"), ("text/html", None),
        ("text/html; charset='gbk'; x=y", "gb18030"), ("text/html; charset=", None), ("text/html; charset=bogus", None),
        ('text/html; charset="utf-8', "utf-8"), ("text/html; charset = utf-8", "utf-8"),
    ],
)  # fmt: skip
def test_content_type(value: str, codec: str | None) -> None:
    assert of_content_type(value) == codec


RUSSIAN = "Привет, мир! Это страница о том, как люди пишут по-русски в старых кодировках. " * 20


@pytest.mark.parametrize(
    ("body", "content_type", "codec"),
    [
        (b"\xef\xbb\xbfx", "text/html; charset=koi8-r", "utf-8"),  # a mark wins over all
        (b"\xff\xfex\0", "text/html; charset=koi8-r", "utf-16-le"),
        (b"\xfe\xff\0x", "", "utf-16-be"),
        (b"<meta charset=gbk>", "text/html; charset=koi8-r", "koi8-r"),  # then the header
        (b"<meta charset=gbk>", "text/html; charset=bogus", "gb18030"),
        (b"<META CHARSET='gbk'>", "text/html", "gb18030"),
        (b"<meta http-equiv=content-type content='text/html; charset=euc-jp'>", "", "euc_jp"),
        (b"<meta charset=utf-16>", "", "utf-8"),  # it could be read, so it is not
        (b"<?xml version='1.0' encoding='iso-8859-2'?>", "", "iso8859-2"),
        (b" " * 1024 + b"<meta charset=gbk>", "", "utf-8"),  # too late
        (b"plain", "", "utf-8"),
        (b"", "", "utf-8"),
        ("Wörter".encode(), "", "utf-8"),
        ("Wörter".encode()[:2], "", "utf-8"),  # cut in a character
        (RUSSIAN.encode("cp1251"), "", "cp1251"),
        (RUSSIAN.encode("koi8-r"), "", "koi8-r"),
        (b"\x80\x81\xff" * 3 + b"\xc3", "", None),
    ],
)
def test_who_decides(body: bytes, content_type: str, codec: str | None) -> None:
    got = sniff(body, content_type)
    assert codec_of(got) is not None
    if codec is not None:
        assert got == codec


@given(st.binary(max_size=300), st.text(max_size=40))
def test_any_bytes_become_text_that_utf8_can_carry(body: bytes, content_type: str) -> None:
    text = decode(body, sniff(body, content_type))
    assert text.encode("utf-8").decode("utf-8") == text


@given(st.text(max_size=60))
def test_any_label(label: str) -> None:
    codec = codec_of(label)
    if codec is not None:
        assert isinstance(b"\xff\x80x".decode(codec, "replace"), str)


def test_a_mark_is_not_text() -> None:
    assert decode(b"\xef\xbb\xbfx", "utf-8") == "x"
    assert decode(b"\xff\xfex\0", "utf-16-le") == "x"
