"""Chunks whose lines end in LF: what went in comes out, however it is cut, and anything else is said to be none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.worker.fetch.chunks import (
    CHUNK_BYTES,
    CHUNKS_MAX,
    FIRST_LINE_MAX,
    LINE_BYTES_MAX,
    BadChunk,
    LfChunks,
    ends_in_lf,
)

ENDS = st.sampled_from([b"\n", b"\r\n"])


@given(st.data(), st.lists(st.binary(min_size=1, max_size=40), max_size=6))
def test_data_in_chunks_comes_out_whole(data: st.DataObject, bodies: list[bytes]) -> None:
    wire = b""
    for body in bodies:
        wire += (
            b"%X" % len(body)
            + data.draw(st.sampled_from([b"", b" ", b";a=b"]))
            + data.draw(ENDS)
            + body
            + data.draw(ENDS)
        )
    wire += b"00" + data.draw(ENDS) + data.draw(st.sampled_from([b"", b"X: y\n"])) + data.draw(ENDS)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(wire)), max_size=6)))
    chunks, out = LfChunks(), b""
    for start, end in zip([0, *cuts], [*cuts, len(wire)], strict=True):
        assert not chunks.done or start == len(wire)
        out += b"".join(chunks.feed(wire[start:end]))
    assert (out, chunks.done) == (b"".join(bodies), True)


@pytest.mark.parametrize(
    "wire", [b"zz\n", b"\n", b"-1\n", b"0x3\nabc\n", b"3\nabcd\n", b"1" * 17 + b"\n", b"3 3\nabc\n"]
)
def test_what_is_no_chunk_is_refused(wire: bytes) -> None:
    with pytest.raises(BadChunk):
        list(LfChunks().feed(wire))


@pytest.mark.parametrize(
    "start", [b"3\nabc", b"3;a=b\n", b"3 \n", b"3\r\n", b"3", b"abc", b"3;" + b"x" * 99 + b"\n", b"<p>\n"]
)
def test_the_first_line_is_looked_at_as_it_comes(start: bytes) -> None:
    """Once it is told, more bytes tell the same; the decision comes within FIRST_LINE_MAX bytes."""
    told = [ends_in_lf(start[:n]) for n in range(1, len(start) + 1)]
    decided = [tell for tell in told if tell is not None]
    assert len(set(decided)) <= 1 and told == [None] * (len(told) - len(decided)) + decided
    assert ends_in_lf(start.ljust(FIRST_LINE_MAX, b"x")) is not None


def test_chunks_of_a_byte_have_an_end() -> None:
    """A read of 256 KiB of them kept the loop for a sixth of a second."""
    with pytest.raises(BadChunk, match="tiny"):
        list(LfChunks().feed(b"1\na\n" * (CHUNKS_MAX + 1)))
    many = LfChunks()
    list(many.feed((b"%x\n" % CHUNK_BYTES + b"x" * CHUNK_BYTES + b"\n") * 2 * CHUNKS_MAX + b"0\n\n"))
    assert many.done


@pytest.mark.parametrize("before", [b"", b"1\na\n", b"1\na\n0\n"])
def test_a_chunk_line_without_end_was_copied_with_each_piece(before: bytes) -> None:
    """It held a worker's loop for seconds, again and again, until the worker was killed for its silence."""
    chunks = LfChunks()
    list(chunks.feed(before + b"5" * LINE_BYTES_MAX))
    with pytest.raises(BadChunk, match="without end"):
        list(chunks.feed(b"5"))
