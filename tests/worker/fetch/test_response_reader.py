"""The reader of responses: any cut of the bytes is the same response, any bytes are bounded, and no connection is used
again that might be out of step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.worker.fetch.response import BrokenBody, NotHttp, ResponseReader
from tests.worker.fetch.test_response import VECTORS


def read(pieces: list[bytes], header_bytes_max: int = 1 << 16, body_bytes_max: int = 1 << 16) -> tuple[object, ...]:
    """What a reader saw, and how it ended."""
    reader = ResponseReader(header_bytes_max)
    reader.begin(body_bytes_max)
    end: object = None
    try:
        for piece in pieces:
            reader.feed(piece)
            if reader.done or reader.over:
                break
        end = reader.over or reader.end()
    except (NotHttp, BrokenBody) as error:
        end = type(error)
    faults = reader.faults if reader.header else ()
    return reader.header, reader.status if reader.header else 0, bytes(reader.body), reader.over, end, faults


@given(st.data(), st.sampled_from(sorted(VECTORS)), st.sampled_from([2, 1 << 16]))
def test_it_does_not_matter_how_the_network_cuts_a_response(data: st.DataObject, name: str, bound: int) -> None:
    wire = VECTORS[name].wire
    cuts = sorted(data.draw(st.sets(st.integers(0, len(wire)), max_size=12)))
    pieces = [wire[start:end] for start, end in zip([0, *cuts], [*cuts, len(wire)], strict=True)]
    assert read([piece for piece in pieces if piece], body_bytes_max=bound) == read([wire], body_bytes_max=bound)


def test_a_length_beside_chunks_was_told_only_of_bodies_that_were_read_to_their_end() -> None:
    wire = VECTORS["length-beside-chunks"].wire
    for cut in range(len(wire)):
        found = read([wire[:cut], wire[cut:]] if cut else [wire], body_bytes_max=2)
        assert found[-1] == ("length-beside-chunks",), cut


@given(st.lists(st.binary(max_size=64), max_size=8), st.booleans())
def test_whatever_comes_is_read_or_refused(pieces: list[bytes], good_start: bool) -> None:
    reader = ResponseReader(100)
    reader.begin(50)
    try:
        for piece in [b"HTTP/1.1 200 OK\r\n"] * good_start + pieces:
            reader.feed(piece)
            assert len(reader.body) <= 50
    except (NotHttp, BrokenBody):
        pass
    assert reader.header is None or len(reader.header) <= 100


def test_a_connection_carries_no_second_exchange_after_a_doubtful_first() -> None:
    """More bytes than the length says, a length beside chunks, `Connection: close`."""
    good = VECTORS["length"].wire
    doubtful = [VECTORS[name].wire for name in ("more-than-promised", "a-second-response", "length-beside-chunks")]
    doubtful += [good.replace(b"200 OK", b"200 OK\r\nConnection: close"), good.replace(b"HTTP/1.1", b"HTTP/1.0")]
    for wire in [good, VECTORS["chunked"].wire, VECTORS["204"].wire, *doubtful]:
        reader = ResponseReader(1 << 16)
        reader.begin(1000)
        reader.feed(wire)
        assert reader.done and reader.reusable == (wire not in doubtful), wire


def test_one_reader_reads_one_response_after_another() -> None:
    reader = ResponseReader(1 << 16)
    names = ("length", "chunked", "204", "100-continue", "length-twice-first", "304", "chunk-trailers", "length-zero")
    for name in names:
        vector = VECTORS[name]
        reader.begin(1000)
        reader.feed(vector.wire)
        assert (reader.done, reader.reusable, reader.status, bytes(reader.body)) == (True, True, *vector[2:4]), name
        assert "+".join(reader.faults) == vector.faults


@pytest.mark.parametrize(
    ("start", "more", "end"),
    [
        (b"", b"HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n", NotHttp),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n", b"X: y\r\n", BrokenBody),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;", b"x" * 20, BrokenBody),
    ],
)
def test_what_frames_a_body_has_an_end(start: bytes, more: bytes, end: type[Exception]) -> None:
    """1xx responses, trailers and chunk extensions went on until the deadline, as fast as the network brought them."""
    reader = ResponseReader(1000)
    reader.begin(1000)
    with pytest.raises(end):
        for piece in [start, *[more] * 200]:
            reader.feed(piece)


@pytest.mark.parametrize(
    "body", [b"Content-Length: 3\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"]
)
def test_the_body_of_an_interim_response_was_taken_for_that_of_the_page(body: bytes) -> None:
    reader = ResponseReader(1000)
    reader.begin(1000)
    with pytest.raises(NotHttp, match="status of 103 with a body"):
        reader.feed(b"HTTP/1.1 103 Early Hints\r\n" + body + b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\ny")
    reader = ResponseReader(1000)
    reader.begin(1000)
    reader.feed(b"HTTP/1.1 100 Continue\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\ny")
    assert reader.done and bytes(reader.body) == b"y"


def test_the_smallest_chunks_are_no_flood() -> None:
    reader = ResponseReader(100)
    reader.begin(10_000)
    reader.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(5000):
        reader.feed(b"00000001\r\nx\r\n")
    reader.feed(b"0\r\n\r\n")
    assert reader.done and reader.reusable and bytes(reader.body) == b"x" * 5000
    reader.begin(10)  # and nothing of it is held against the next one
    reader.feed(b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\ny")
    assert reader.done and bytes(reader.body) == b"y"
