"""curl's own tests of HTTP: what curl takes we take, and read alike. `curl-tests` is the directory with the
data of the tests in curl's repository, which also says what their format is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from irlcrawl.worker.fetch.response import BrokenBody, NotHttp, ResponseReader
from tests.conformance.conftest import Told
from tests.conformance.vectors import path_of

MACROS = {
    b"%CR": b"\r", b"%SP": b" ", b"%TAB": b"\t", b"%AMP": b"&", b"%GT": b">", b"%LT": b"<", b"%HOSTIP": b"127.0.0.1",
    b"%HTTPPORT": b"80", b"%TESTNUMBER": b"1",
}  # fmt: skip
NO_BODY = re.compile(rb"(?:^| )(?:-\w*I|--head|-p|--proxytunnel)\b")
"""Commands whose responses have no body, whatever their header says."""
_OPTION = rb"-[HAebds] (?:\"[^\"]*\"|'[^']*'|\S+)"
PLAIN = re.compile(rb"\s*(?:%b )*http://%%HOSTIP:%%HTTPPORT/\S*(?: %b)*\s*" % (_OPTION, _OPTION))
"""The command of a test in which curl prints all of one response."""
CUT = {"test269", "test1909", "test3035", "test3223"}
"""Bodies shorter than their Content-Length: curl is told to take them, or asks again. We keep what came, as cut."""
REFUSED = {
    "test395": "a Content-Length beyond 64 bits, which curl leaves out",
    "test770": "a Content-Length of 6,06,6: other readers than curl might see two",
}
"""What curl takes and we do not."""


class Case(NamedTuple):
    name: str
    wire: bytes
    printed: bytes | None  # by curl; None: it is not told, or there is more than one response


def section(text: bytes, tag: bytes) -> tuple[bytes, bytes] | None:
    """The first section of that name: its attributes and its lines."""
    found = re.search(rb"<%b((?: [^>]*)?)>\n(.*?)</%b>" % (tag, tag), text, re.DOTALL)
    return (found[1], found[2]) if found else None


def expanded(attributes: bytes, lines: bytes) -> bytes:
    """The bytes that the lines of a section stand for."""
    lines = re.sub(rb"%hex\[(.*?)\]hex%", lambda found: unescaped(found[1]), lines, flags=re.DOTALL)
    lines = re.sub(
        rb"%repeat\[(\d+) x (.*?)\]%", lambda found: unescaped(found[2]) * int(found[1]), lines, flags=re.DOTALL
    )
    for macro, text in MACROS.items():
        lines = lines.replace(macro, text)
    head, blank, body = lines.partition(b"\n\n") if b'crlf="headers"' in attributes else (lines, b"", b"")
    if b"crlf=" in attributes:
        head, blank = re.sub(rb"(?<!\r)\n", b"\r\n", head), blank.replace(b"\n", b"\r\n")
    lines = head + blank + body
    return lines[:-1] if b'nonewline="yes"' in attributes else lines


def unescaped(text: bytes) -> bytes:
    return re.sub(rb"%([0-9A-Fa-f]{2})", lambda found: bytes((int(found[1], 16),)), text)


def cases() -> Iterator[Case]:
    """The responses of all tests of HTTP in which curl ends well."""
    for path in sorted(path_of("curl-tests").glob("test[0-9]*")):
        text = path.read_bytes()
        server, tool, error = (section(text, tag) for tag in (b"server", b"tool", b"errorcode"))
        command = (section(text, b"command") or (b"", b""))[1]
        if server is None or server[1].split() != [b"http"] or tool is not None or NO_BODY.search(command):
            continue
        if b"%if" in text or b"%include" in text or (error is not None and error[1].split() != [b"0"]):
            continue
        replies = re.findall(rb"<data(\d*)((?: [^>]*)?)>\n(.*?)</data\1>", text, re.DOTALL)
        for _, attributes, lines in replies:
            wire, check = expanded(attributes, lines), section(text, b"datacheck")
            told = len(replies) == 1 and PLAIN.fullmatch(command) and b"nocheck" not in attributes
            if wire.startswith(b"HTTP/"):
                yield Case(path.name, wire, (expanded(*check) if check else wire) if told else None)


def test_responses_that_curl_takes(told: Told) -> None:
    seen, compared, refused, cut = 0, 0, set(), set()
    for case in cases():
        seen += 1
        reader = ResponseReader(header_bytes_max=65_536)
        reader.begin(10 << 20)
        try:
            reader.feed(case.wire)
            if not (reader.done or reader.end()):
                cut.add(case.name)
        except (NotHttp, BrokenBody):
            refused.add(case.name)
            continue
        if case.printed is not None and reader.header is not None:
            final = case.printed[case.printed.index(reader.header) :]  # behind 1xx responses, of which we keep none
            read = reader.header + bytes(reader.body)
            assert final == read or (final.startswith(read) and b"\nTrailer:" in case.wire), (
                case
            )  # curl prints trailers
            compared += 1
    assert (refused, cut) == (REFUSED.keys(), CUT)
    assert seen > 800 and compared >= 30
    told("curl-tests (responses)", seen)
