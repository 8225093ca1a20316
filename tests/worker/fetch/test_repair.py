"""Headers that llhttp refuses: what is repaired frames its body as it did without the faults, and what is in doubt is
not repaired."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.base.reasons import Reason
from irlcrawl.worker.archive.unit import Exchange
from irlcrawl.worker.fetch import response
from irlcrawl.worker.fetch.repair import repaired
from irlcrawl.worker.fetch.response import NotHttp, ResponseReader
from tests.worker.fetch.test_response import VECTORS
from tests.worker.fetch.test_response_reader import read

FAULTS = (
    b"X y: z", b"X : z", b"\xe4\xff: z", b": z", b"what is this", b"X: a\rb", b"X: a\r\r", b"<p>Content-Length 9</p>",
    b"X y: Content-Length: 9", b"X-Content-Length y: 9", b"Expose : Transfer-Encoding",
)  # fmt: skip
FRAMED = {
    (b"Content-Length: 3",): b"abcdef",
    (b"content-length :03", b"Content-Length: 03"): b"abcdef",
    (b"Transfer-Encoding: chunked",): b"3\r\nabc\r\n0\r\n\r\n",
    (b"Transfer-Encoding: gzip", b"Transfer-Encoding: chunked"): b"3\r\nabc\r\n0\r\n\r\n",
    (b"Connection: close",): b"abc",
    (b"Content-Length: 3 bytes",): b"abcdef",
    (b"Content-Length: 3;",): b"abcdef",
    (b"Transfer-Encoding:", b"Content-Length: 3"): b"abcdef",
}
DOUBTFUL = (
    b"Content-Length: 4", b"Content-Length: 3, 4", b"X: a\rContent-Length: 3", b"X: a\rtransfer-encoding: chunked",
    b"Content-Length\x0c: 3", b"Transfer-\xa0Encoding: chunked", b"X: y\0z",
    b"X: y\r\n Content-Length: 3", b"Content-Length: 3 bytes, 4", b"Content-Length: 4 bytes",
)  # fmt: skip
STARTS = (b"HTTP/1.1 200 OK", b"HTTP/1.1  200 OK", b"HTTP/1.2 200 OK", b"HTTP/1.0 200", b"HTTP/1.1 200 O\rK")
ENDS = st.sampled_from([b"\r\n", b"\n"])


@given(
    st.data(), st.sampled_from(STARTS), st.lists(st.sampled_from(FAULTS), max_size=3), st.sampled_from(list(FRAMED)),
    ENDS,
)  # fmt: skip
def test_faults_change_nothing_about_the_body(
    data: st.DataObject, start: bytes, faults: list[bytes], fields: tuple[bytes, ...], end: bytes
) -> None:
    lines = data.draw(st.permutations([*faults, *fields]))
    if (b"Transfer-Encoding: gzip") in lines:  # the order of these two is what they say
        lines = [*faults, *fields]
    wire = end.join([start, *lines, b"", b""]) + FRAMED[fields]
    cuts = sorted(data.draw(st.sets(st.integers(0, len(wire)), max_size=6)))
    pieces = [wire[a:b] for a, b in zip([0, *cuts], [*cuts, len(wire)], strict=True) if a < b]
    header, status, body, over, whole, _ = read(pieces)
    assert (status, body, over, whole) == (200, b"abc", False, True)
    assert header == wire[: len(wire) - len(FRAMED[fields])]


@given(st.data(), st.sampled_from(DOUBTFUL), st.sampled_from(FAULTS), ENDS)
def test_a_faulty_header_in_which_the_framing_is_in_doubt_stays_refused(
    data: st.DataObject, doubtful: bytes, fault: bytes, end: bytes
) -> None:
    lines = data.draw(st.permutations([doubtful, fault, b"Content-Length: 3"]))
    assert read([end.join([b"HTTP/1.1 200 OK", *lines, b"", b""]) + b"abc"])[4] is NotHttp


@pytest.mark.parametrize("field", [b"X: y", b"Content-Length: +3", b"Content-Length: 99999999999999999999999"])
def test_what_has_no_known_fault_is_not_repaired(field: bytes) -> None:
    assert repaired(b"HTTP/1.1 200 OK\r\n" + field + b"\r\n\r\n") is None


@given(st.binary(max_size=80))
def test_any_bytes_are_repaired_or_not(rest: bytes) -> None:
    copy = repaired(b"HTTP/1.1 200 OK\r\n" + rest + b"\r\n\r\n")
    assert copy is None or (copy[1] and copy[0].endswith(b"\r\n\r\n") and copy[0].count(b"\r\n\r\n") == 1)


def test_a_header_that_llhttp_takes_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    def noted(header: bytes) -> None:
        asked.append(header)

    monkeypatch.setattr(response, "repaired", noted)
    for vector in VECTORS.values():
        if vector.reason is not Reason.PROTOCOL and vector.faults in ("", "chunk-lf"):
            read([vector.wire])
    assert asked == []


@pytest.mark.parametrize(
    "line",
    [
        *STARTS, b"http/1.1 200 OK", b"Http/1.1\t200 OK", b"HTTP/1.1\r200 OK", b"HTTP/1.1\r\n 200 OK", b"HTTP/2 200",
        b"HTTP/1.1 \t 200", b"\r\nHTTP/1.1 200 OK",
    ],
)  # fmt: skip
@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
def test_a_page_behind_an_odd_status_line_was_stored_against_the_wish_in_it(line: bytes, end: bytes) -> None:
    """Its status was 0 to whatever reads the stored header, so nothing looked for wishes in the page."""
    reader = ResponseReader(1000)
    reader.begin(100)
    try:
        reader.feed(line + end + b"Content-Length: 1" + end + end + b"x")
    except NotHttp:
        return
    assert reader.done and reader.header is not None and reader.status == 200
    assert Exchange(b"http://a.test/", "", b"", reader.header, b"x").status == 200
