"""The encoding of a page: who decides, in which order, and that no bytes and no label break it."""

from __future__ import annotations

import codecs
from unittest import mock
from urllib.parse import unquote_to_bytes

import cchardet
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from irlcrawl.base.steps import at_once
from irlcrawl.base.url import Base
from irlcrawl.worker.page import charset
from irlcrawl.worker.page.charset import codec_of, decode, of_content_type, prescan, sniff
from irlcrawl.worker.page.labels import CODECS, REPLACEMENT, USER_DEFINED


@pytest.mark.parametrize(
    ("label", "codec"),
    [
        ("utf-8", "utf-8"), ("UTF8", "utf-8"), (" Utf-8\n", "utf-8"), ("iso-8859-1", "whatwg-1252"),
        ("latin1", "whatwg-1252"), ("us-ascii", "whatwg-1252"), ("windows-1252", "whatwg-1252"),
        ("iso-8859-9", "whatwg-1254"), ("gb2312", "whatwg-gbk"),
        ("GBK", "whatwg-gbk"), ("gb18030", "gb18030"), ("shift_jis", "whatwg-shift-jis"),
        ("x-sjis", "whatwg-shift-jis"), ("euc-kr", "cp949"),
        ("ks_c_5601-1987", "cp949"),
        ("big5", "big5hkscs"), ("tis-620", "whatwg-874"), ("utf-16", "utf-16-le"), ("utf-16be", "utf-16-be"),
        ("koi8-r", "koi8-r"), ("macintosh", "mac-roman"), ("euc-jp", "whatwg-euc-jp"), ("iso-2022-jp", "iso2022_jp"),
        ("windows-1251", "whatwg-1251"), ("iso-8859-15", "iso8859-15"),
        ("utf-7", None), ("utf-32", None), ("rot13", None), ("idna", None), ("punycode", None), ("hex", None),
        ("unicode_escape", None), ("mbcs", None), ("", None), ("none", None), ("\x00", None),
        ("é", None), ("x" * 99, None),
    ],
)  # fmt: skip
def test_labels(label: str, codec: str | None) -> None:
    assert codec_of(label) == codec
    if codec is not None:
        assert codecs.lookup(codec)


def test_every_label_of_the_standard() -> None:
    assert len(CODECS) == 228
    assert len(set(CODECS.values())) == 39, "of 40 encodings, ISO-8859-8-I is ISO-8859-8"
    for label, codec in CODECS.items():
        assert codec_of(f" {label.upper()}\n") == codec
        text = decode(b"<a href=/x>", codec)
        if codec not in (REPLACEMENT, "utf-16-le", "utf-16-be"):
            assert codecs.lookup(codec)
            assert text == "<a href=/x>", "ASCII is itself"
    assert codec_of("\u212aoi8-r") is None, "a Kelvin sign is no K"


@pytest.mark.parametrize(
    "alias", ["cp932", "windows_1251", "utf_8", "cp437", "iso8859_2", "euc_jp", "utf-32", "latin-1"]
)
def test_a_name_that_only_python_knows_is_no_label(alias: str) -> None:
    assert codecs.lookup(alias)
    assert codec_of(alias) is None


@pytest.mark.parametrize(
    "label", sorted({"x-user-defined", "koi8-u", *(n for n in CODECS if n.startswith("windows-125"))})
)
def test_no_byte_is_lost(label: str) -> None:
    """Python's codecs of Windows code pages have no character for bytes that the standard has one for."""
    codec = CODECS[label]
    assert codecs.lookup(codec).name == codec or codec in ("cp1256", "koi8-u")
    low = bytes(range(0xA0))
    assert decode(low, codec).encode(codec) == low
    every = decode(bytes(range(256)), codec)
    assert every.replace("\ufffd", "").encode(codec) == bytes(b for b, char in enumerate(every) if char != "\ufffd")
    with pytest.raises(UnicodeEncodeError):
        "\U0001f600".encode(codec)


@pytest.mark.parametrize(
    ("label", "byte", "char"),
    [
        ("x-user-defined", 0x80, "\uf780"), ("x-user-defined", 0xFF, "\uf7ff"), ("koi8-u", 0xAE, "ў"),
        ("latin1", 0x80, "€"), ("latin1", 0x81, "\x81"), ("windows-1255", 0xCA, "\u05ba"),
        ("windows-1253", 0xAA, "\ufffd"),
        ("tis-620", 0x85, "…"), ("tis-620", 0x86, "\x86"), ("tis-620", 0xDB, "\ufffd"), ("windows-1251", 0x98, "\x98"),
    ],
)  # fmt: skip
def test_bytes_by_the_standards_index(label: str, byte: int, char: str) -> None:
    assert decode(bytes([byte]), CODECS[label]) == char


@pytest.mark.parametrize(
    ("label", "char", "written"),
    [
        ("gbk", "中", b"\xd6\xd0"), ("gbk", "€", b"\x80"), ("gb2312", "😀", None), ("gbk", "㐀", None),
        ("shift_jis", "ソ", b"\x83\\"), ("shift_jis", "¥", b"\\"), ("shift_jis", "‾", b"~"),
        ("shift_jis", "−", b"\x81|"), ("shift_jis", "〜", None), ("euc-jp", "¥", b"\\"), ("euc-jp", "丂", None),
        ("euc-jp", "−", b"\xa1\xdd"), ("euc-jp", "ｱ", b"\x8e\xb1"), ("gbk", "\ud800", None),
    ],
)  # fmt: skip
def test_a_query_had_what_only_larger_encodings_have(label: str, char: str, written: bytes | None) -> None:
    """That of gbk was in gb18030, of which its server reads no four bytes."""
    codec = CODECS[label]
    url = Base("http://a.test/", codec).join(f"?a{char}b") or b""
    assert unquote_to_bytes(url.partition(b"?")[2]) == b"a" + (written or b"&#%d;" % ord(char)) + b"b"
    with pytest.raises(UnicodeEncodeError):
        "\U0001f600".encode(codec)


def test_a_page_in_the_replacement_encoding_says_nothing() -> None:
    assert decode(b"<a href=/x>", REPLACEMENT) == "\ufffd"
    assert decode(b"", REPLACEMENT) == ""


@pytest.mark.parametrize(
    ("value", "codec"),
    [
        ("text/html; charset=utf-8", "utf-8"), ('text/html;CHARSET="koi8-r"', "koi8-r"), ("text/html", None),
        ("text/html; charset='gbk'; x=y", "whatwg-gbk"), ("text/html; charset=", None),
        ("text/html; charset=bogus", None),
        ('text/html; charset="utf-8', "utf-8"), ("text/html; charset = utf-8", "utf-8"),
    ],
)  # fmt: skip
def test_content_type(value: str, codec: str | None) -> None:
    assert of_content_type(value) == codec


KOREAN = "안녕하세요 이것은 한국어 문서입니다. 사람들이 오래된 인코딩으로 글을 쓰는 방법에 대한 페이지. " * 20
RUSSIAN = "Привет, мир! Это страница о том, как люди пишут по-русски в старых кодировках. " * 20


@pytest.mark.parametrize(
    ("body", "content_type", "codec"),
    [
        (b"\xef\xbb\xbfx", "text/html; charset=koi8-r", "utf-8"),  # a mark wins over all
        (b"\xff\xfex\0", "text/html; charset=koi8-r", "utf-16-le"),
        (b"\xfe\xff\0x", "", "utf-16-be"),
        (b"<meta charset=gbk>", "text/html; charset=koi8-r", "koi8-r"),  # then the header
        (b"<meta charset=gbk>", "text/html; charset=bogus", "whatwg-gbk"),
        (b"<META CHARSET='gbk'>", "text/html", "whatwg-gbk"),
        (b"<meta http-equiv=content-type content='text/html; charset=euc-jp'>", "", "whatwg-euc-jp"),
        (b"<meta charset=utf-16>", "", "utf-8"),  # it could be read, so it is not
        (b"<?xml version='1.0' encoding='iso-8859-2'?>", "", "iso8859-2"),
        (b" " * 1024 + b"<meta charset=gbk>", "", "utf-8"),  # too late
        (b"plain", "", "utf-8"),
        (b"", "", "utf-8"),
        ("Wörter".encode(), "", "utf-8"),
        ("Wörter".encode()[:2], "", "utf-8"),  # cut in a character
        (RUSSIAN.encode("cp1251"), "", "whatwg-1251"),
        (RUSSIAN.encode("koi8-r"), "", "koi8-r"),
        (b"\x80\x81\xff" * 3 + b"\xc3", "", None),
        (KOREAN.encode("cp949"), "", "cp949"),  # the detector has a name of its own for it
        (b"<meta charset=koi8-r>", "text/html; charset=hz-gb-2312", REPLACEMENT),
        (b"\xef\xbb\xbfx", "text/html; charset=hz-gb-2312", "utf-8"),
        (b"x", "text/html; charset=x-user-defined", "whatwg-user-defined"),
    ],
)
def test_who_decides(body: bytes, content_type: str, codec: str | None) -> None:
    got = sniff(body, content_type)
    assert got == REPLACEMENT or codecs.lookup(got)
    if codec is not None:
        assert got == codec


@given(st.binary(max_size=300), st.text(max_size=40))
def test_any_bytes_become_text_that_utf8_can_carry(body: bytes, content_type: str) -> None:
    text = decode(body, sniff(body, content_type))
    assert text.encode("utf-8").decode("utf-8") == text


@example("replacement")
@given(st.text(max_size=60))
def test_any_label(label: str) -> None:
    codec = codec_of(label)
    if codec is not None:
        assert isinstance(decode(b"\xff\x80x", codec), str)


def test_a_mark_is_not_text() -> None:
    assert decode(b"\xef\xbb\xbfx", "utf-8") == "x"
    assert decode(b"\xff\xfex\0", "utf-16-le") == "x"


@pytest.mark.parametrize("body", [("똠방각하 펲시콜라 뷁 쓩 " * 60).encode("cp949"), b"a" * (64 << 10) + b"\xff"])
def test_the_detector_called_bytes_utf8_that_are_not(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cchardet, "detect", lambda _: {"encoding": "UTF-8"})
    with pytest.raises(UnicodeDecodeError):
        body.decode("utf-8")
    assert sniff(body) == "whatwg-1252"


DECLARATIONS = [
    (b"<meta charset=gbk>", "whatwg-gbk"),
    (b"<META\tCHARSET = 'gbk' >", "whatwg-gbk"),
    (b"<meta/charset=gbk>", "whatwg-gbk"),
    (b"<meta charset=gbk", None),  # it may go on
    (b"<meta charset=>", None),
    (b"<meta charset=bogus><meta charset=gbk>", "whatwg-gbk"),
    (b"<meta charset=bogus charset=gbk>", None),
    (b"<metadata charset=gbk>", None),
    (b"</meta charset=gbk>", None),
    (b"<meta name=description content='charset=gbk'>", None),
    (b"<meta name=description content='a>b <meta charset=gbk>'><meta charset=koi8-r>", "koi8-r"),
    (b"<meta content='text/html; charset=gbk' http-equiv=Content-Type>", "whatwg-gbk"),
    (b"<meta http-equiv=content-type content='text/html; charset=gbk' charset=koi8-r>", "koi8-r"),
    (b"<meta http-equiv=content-type content='text/html; charset=gbk' charset=bogus>", None),
    (b"<meta http-equiv=refresh content='text/html; charset=gbk'>", None),
    (b"<meta http-equiv=content-type content='charset charset = gbk;x'>", "whatwg-gbk"),
    (b"<meta http-equiv=content-type content='charset=\"gbk\"x'>", "whatwg-gbk"),
    (b"<meta http-equiv=content-type content='charset=\"gbk'>", None),
    (b"<!-- <meta charset=gbk> --><meta charset=koi8-r>", "koi8-r"),
    (b"<!-- <meta charset=gbk>", None),
    (b"<!--><meta charset=gbk>", "whatwg-gbk"),
    (b"<!doctype html '<meta charset=gbk>", None),
    (b"<script src=x charset=gbk></script>", None),
    (b"<script>var x = 'charset=gbk'</script>", None),
    (b"<p title='<meta charset=gbk>'>", None),
    (b"<p title='><meta charset=gbk>", None),
    (b'<p title="\'"><meta charset=gbk>', "whatwg-gbk"),
    (b"a < b <meta charset=gbk>", "whatwg-gbk"),
    (b"<meta charset=utf-16be>", "utf-8"),
    (b"<meta charset=x-user-defined>", "whatwg-1252"),
    (b"<meta charset=iso-2022-kr>", REPLACEMENT),
    (b"<?xml version='1.0' encoding = \"gbk\"?>", "whatwg-gbk"),
    (b"<?xml version='1.0' encoding='gbk'?><meta charset=koi8-r>", "koi8-r"),
    (b"<?xml version='1.0' encoding='utf-16'?>", "utf-8"),
    (b"<?xml version='1.0'?><x encoding='gbk'>", None),
    (b" <?xml version='1.0' encoding='gbk'?>", None),
    ("<?xml version='1.0'?>".encode("utf-16-le"), "utf-16-le"),
    ("<?xml version='1.0'?>".encode("utf-16-be"), "utf-16-be"),
]


@pytest.mark.parametrize(("head", "codec"), DECLARATIONS)
def test_prescan(head: bytes, codec: str | None) -> None:
    assert prescan(head) == codec
    assert model_prescan(head) == codec


PIECES = st.sampled_from([
    b"<", b">", b"/", b"!", b"?", b"-", b"--", b"=", b"'", b'"', b" ", b"\t", b";", b"a", b"x", b"\0", b"\xff",
    b"encoding", b"encoding='gbk'",
    b"<!--", b"-->", b"<meta", b"<META ", b"<meta ", b"<meta/", b"<p ", b"</p", b"<script>", b"charset", b"CharSet=",
    b"charset=gbk", b"charset='koi8-r'", b'charset="', b"gbk", b"bogus", b"utf-16", b"x-user-defined", b"content=",
    b"content='", b"content='text/html; charset=gbk'", b"http-equiv=content-type", b"http-equiv='Content-Type'",
])  # fmt: skip


@settings(max_examples=500)
@given(st.builds(bytes.__add__, st.sampled_from([b"", b"", b"<?xml "]), st.lists(PIECES, max_size=20).map(b"".join)))
def test_prescan_is_the_standards(head: bytes) -> None:
    assert prescan(head) == model_prescan(head)


@given(st.lists(PIECES, min_size=200, max_size=200).map(b"".join), st.integers(0, 40))
def test_a_prescan_ends(head: bytes, start: int) -> None:
    assert prescan((head[start:] * 4)[:1024]) == model_prescan((head[start:] * 4)[:1024])


SPACES = b"\t\n\x0c\r "
LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def model_prescan(data: bytes) -> str | None:
    """The standard's steps, byte by byte; running out of bytes is an IndexError."""
    starts = {b"<\0?\0x\0": "utf-16-le", b"\0<\0?\0x": "utf-16-be"}
    if data[:6] in starts:
        return starts[data[:6]]
    try:
        at = 0
        while True:
            data[at]
            if data.startswith(b"<!--", at):
                at += 4
                while not (data[at] == ord(">") and data[at - 2 : at] == b"--"):
                    at += 1
            elif data[at : at + 5].lower() == b"<meta" and data[at + 5] in SPACES + b"/":
                at, codec = model_meta(data, at + 5)
                if codec is not None:
                    return codec
            elif data[at] == ord("<") and data[at + 1 + (data[at + 1] == ord("/"))] in LETTERS:
                while data[at] not in SPACES + b">":
                    at += 1
                while (found := model_attribute(data, at))[1] is not None:
                    at = found[0]
                at = found[0]
            elif data[at : at + 2] in (b"<!", b"</", b"<?"):
                while data[at] != ord(">"):
                    at += 1
            at += 1
    except IndexError:
        return None if not data.startswith(b"<?xml") else model_xml(data)


def model_meta(data: bytes, at: int) -> tuple[int, str | None]:
    seen: set[bytes] = set()
    got_pragma, need_pragma, charset = False, None, ""  # "": null, None: failure
    while True:
        at, name, value = model_attribute(data, at)
        if name is None:
            break
        if name in seen:
            continue
        seen.add(name)
        if name == b"http-equiv":
            got_pragma = value == b"content-type"
        elif name == b"content":
            codec = model_content(value)
            if codec is not None and charset == "":
                charset, need_pragma = codec, True
        elif name == b"charset":
            charset, need_pragma = codec_of(value.decode("latin-1")), False
    if need_pragma is None or (need_pragma and not got_pragma) or charset is None:
        return at, None
    return at, {"utf-16-le": "utf-8", "utf-16-be": "utf-8", USER_DEFINED: "whatwg-1252"}.get(charset, charset)


def model_attribute(data: bytes, at: int) -> tuple[int, bytes | None, bytes]:
    while data[at] in SPACES + b"/":
        at += 1
    if data[at] == ord(">"):
        return at, None, b""
    name, value = b"", b""
    while not (data[at] == ord("=") and name):
        if data[at] in SPACES:
            while data[at] in SPACES:
                at += 1
            if data[at] != ord("="):
                return at, name, b""
            break
        if data[at] in b"/>":
            return at, name, b""
        name += data[at : at + 1].lower()
        at += 1
    at += 1
    while data[at] in SPACES:
        at += 1
    if data[at] in b"\"'":
        quote = data[at]
        at += 1
        while data[at] != quote:
            value += data[at : at + 1].lower()
            at += 1
        return at + 1, name, value
    while data[at] not in SPACES + b">":
        value += data[at : at + 1].lower()
        at += 1
    return at, name, value


def model_content(value: bytes) -> str | None:
    at = 0
    while (at := value.find(b"charset", at)) >= 0:
        at += 7
        rest = value[at:].lstrip(SPACES)
        if not rest.startswith(b"="):
            continue
        rest = rest[1:].lstrip(SPACES)
        if rest[:1] in (b"'", b'"'):
            label, closed, _ = rest[1:].partition(rest[:1])
            return codec_of(label.decode("latin-1")) if closed else None
        for end in SPACES + b";":
            rest = rest.split(bytes([end]))[0]
        return codec_of(rest.decode("latin-1"))
    return None


def model_xml(data: bytes) -> str | None:
    declaration, ended, _ = data.partition(b">")
    value = declaration.partition(b"encoding")[2].lstrip(bytes(range(0x21)))
    if not ended:
        return None
    if not value.startswith(b"="):
        return None
    value = value[1:].lstrip(bytes(range(0x21)))
    if value[:1] not in (b"'", b'"'):
        return None
    label, closed, _ = value[1:].partition(value[:1])
    if not closed or any(byte <= 0x20 for byte in label):
        return None
    codec = codec_of(label.decode("latin-1"))
    return "utf-8" if codec in ("utf-16-le", "utf-16-be") else codec


@given(st.sampled_from(sorted(set(CODECS.values()))), st.binary(max_size=60) | st.text(max_size=30), st.integers(1, 9))
def test_a_page_recoded_in_pieces_is_the_same_page(codec: str, page: bytes | str, size: int) -> None:
    python = "latin-1" if codec == charset.REPLACEMENT or codec.startswith("whatwg-") else codec
    body = page.encode(python, "replace") if isinstance(page, str) else page
    with mock.patch.object(charset, "PIECE_BYTES", size):
        assert at_once(charset.recoding(body, codec)) == charset.decode(body, codec).encode("utf-8", "replace")


@given(
    st.lists(st.sampled_from(["a", "é", "中", "😀"]), max_size=12).map("".join),
    st.integers(0, 3),
    st.binary(max_size=2),
)
def test_utf_8_is_told_in_pieces_as_at_once(text: str, cut: int, behind: bytes) -> None:
    body = text.encode()[: -cut or None] + behind
    codec = charset.sniff(body)
    with mock.patch.object(charset, "SNIFF_BYTES", 5):
        assert charset.sniff(body) == codec


def test_megabytes_of_all_widths_held_the_loop_until_they_were_looked_at() -> None:
    body = b"a" * 4_000_000 + "é中😀".encode() * 100_000
    assert sum(1 for _ in charset.sniffing(body)) >= 4
