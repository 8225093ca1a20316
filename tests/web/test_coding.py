"""Content codings undone: what went in comes out, cut where asked, whatever a server sends."""

from __future__ import annotations

import gzip
import random
import tracemalloc
import zlib
from collections.abc import Callable

import brotlicffi as brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.web.coding import decode


def bare_deflate(data: bytes) -> bytes:
    encoder = zlib.compressobj(wbits=-15)
    return encoder.compress(data) + encoder.flush()


CODINGS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("X-GZIP", gzip.compress),
    "zlib": ("deflate", zlib.compress),
    "bare": ("deflate", bare_deflate),
    "br": ("br", lambda data: brotli.compress(data, quality=3)),
    "zstd": ("zstd", lambda data: zstandard.compress(data)),
    "two": ("gzip, br", lambda data: brotli.compress(gzip.compress(data), quality=1)),
    "three": ("zstd , identity,, deflate", lambda data: zlib.compress(zstandard.compress(data))),
}
PAGE = b"<html><body>" + b"".join(b"<p>number %d</p>" % i for i in range(20_000)) + b"</body></html>"


@pytest.mark.parametrize("name", CODINGS)
class TestCodings:
    def test_round_trip(self, name: str) -> None:
        header, encode = CODINGS[name]
        for body in (PAGE, b"", b"x", random.Random(1).randbytes(200_000)):
            assert decode(encode(body), header, 1 << 20) == (body, False)

    def test_the_limit_cuts(self, name: str) -> None:
        header, encode = CODINGS[name]
        if "," not in header:  # with several, the limit holds for each stage
            for limit in (0, 1, 1000, len(PAGE) - 1):
                assert decode(encode(PAGE), header, limit) == (PAGE[:limit], True)
        assert decode(encode(PAGE), header, len(PAGE)) == (PAGE, False)

    def test_an_early_end_keeps_what_came(self, name: str) -> None:
        header, encode = CODINGS[name]
        body, truncated = decode(encode(PAGE)[:-30], header, 1 << 20)
        assert truncated
        assert PAGE.startswith(body)

    def test_a_body_that_is_not_in_its_coding_is_taken_as_it_came(self, name: str) -> None:
        header, _ = CODINGS[name]
        for body in (b"", b"hello", PAGE):
            assert decode(body, header, 1 << 20) == (body, False)

    @pytest.mark.parametrize("seed", range(20))
    def test_damage_never_raises(self, name: str, seed: int) -> None:
        header, encode = CODINGS[name]
        damaged = bytearray(encode(PAGE))
        chance = random.Random(seed)
        for _ in range(3):
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        body, _ = decode(bytes(damaged), header, 100_000)
        assert len(body) <= 100_000


@pytest.mark.parametrize("header", [None, "", "identity", "rot13", "gzip, rot13", ", ".join(["gzip"] * 9)])
def test_what_is_no_coding_leaves_the_body(header: str | None) -> None:
    assert decode(gzip.compress(b"x"), header, 1000) == (gzip.compress(b"x"), False)
    assert decode(b"hello", header, 3) == (b"hel", True)


def test_members_follow_each_other_and_padding_ends_them() -> None:
    members = gzip.compress(b"one ") + gzip.compress(b"two")
    assert decode(members + b"\0" * 9, "gzip", 100) == (b"one two", False)
    frames = zstandard.compress(b"one ") + zstandard.compress(b"two")
    assert decode(frames, "zstd", 100) == (b"one two", False)


def flipped(data: bytes, at: int) -> bytes:
    damaged = bytearray(data)
    damaged[at] ^= 1
    return bytes(damaged)


@pytest.mark.parametrize("page", [b"x", b"<p>hello</p>" * 9, PAGE, random.Random(2).randbytes(70_000)], ids=len)
def test_a_whole_stream_with_a_wrong_end_is_the_page(page: bytes) -> None:
    """Once a page under 64 KiB was empty, and a robots.txt without rules."""
    gzipped, zipped = gzip.compress(page), zlib.compress(page)
    for at in (-8, -5, -4, -1):  # checksum and length
        assert decode(flipped(gzipped, at), "gzip", 1 << 20) == (page, False)
        assert decode(gzipped + flipped(gzipped, at), "gzip", 1 << 20) == (page * 2, False)
        assert decode(flipped(gzipped, at) + gzipped, "gzip", 1 << 20) == (page, True), "one is mended, or thousands"
    for at in (-4, -1):
        assert decode(flipped(zipped, at), "deflate", 1 << 20) == (page, False)
    assert decode(flipped(gzipped, -8), "gzip", len(page) - 1) == (page[:-1], True)


@pytest.mark.parametrize("page", [b"x", PAGE, random.Random(2).randbytes(70_000)], ids=len)
def test_a_gzip_stream_that_lacks_its_checksum_alone_is_the_page(page: bytes) -> None:
    """Browsers show it; a robots.txt that is damaged closes its host."""
    whole = gzip.compress(page)
    for missing in range(1, min(len(whole) - 2, 300)):
        body, truncated = decode(whole[:-missing], "gzip", 1 << 20)
        assert truncated == (missing > 8) and page.startswith(body)
        assert body == page or truncated


@pytest.mark.parametrize("tail", [b"\n", bytes(9), b"<!-- served -->", b"x" * 5000])
def test_a_tail_behind_br_is_left_out(tail: bytes) -> None:
    for page in (PAGE, PAGE[: 1 << 16], PAGE[:6000]):
        assert decode(brotli.compress(page) + tail, "br", 1 << 20) == (page, False)
    for text in (b"; a comment\n", b"\x06 text"):  # an empty stream, as it happens, and no br
        assert decode(text + tail, "br", 1 << 20) == (text + tail, False)


@pytest.mark.parametrize("name", ["gzip", "zlib", "br"])
@pytest.mark.parametrize("page", [PAGE[:3000], PAGE])
def test_what_comes_before_damage_is_there_to_the_byte(name: str, page: bytes) -> None:
    header, encode = CODINGS[name]
    whole = encode(page)
    for share in (3, 2):
        start = whole[: len(whole) * (share - 1) // share]
        before, _ = decode(start, header, 1 << 20)  # what an early end leaves
        body, truncated = decode(start + b"\xff" * 999, header, 1 << 20)
        assert truncated and len(body) > len(page) // 4
        assert body.startswith(before) and page.startswith(before)


@pytest.mark.parametrize("name", ["gzip", "br", "zstd"])
def test_a_bomb_costs_its_limit(name: str) -> None:
    header, encode = CODINGS[name]
    bomb = encode(bytes(64 << 20))
    tracemalloc.start()
    try:
        body, truncated = decode(bomb, header, 1 << 20)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (len(body), truncated) == (1 << 20, True)
    assert peak < 12 << 20  # the limit, and the most a piece can unpack to


def test_many_empty_members_end() -> None:
    assert decode(gzip.compress(b"") * 100_000, "gzip", 100) == (b"", True)
    assert decode(zstandard.compress(b"") * 10_000, "zstd", 100) == (b"", False)


def test_a_zstd_window_beyond_what_http_allows_is_refused() -> None:
    params = zstandard.ZstdCompressionParameters.from_level(1, window_log=25)
    encoder = zstandard.ZstdCompressor(compression_params=params).compressobj()
    wide = encoder.compress(PAGE) + encoder.flush()
    assert decode(wide, "zstd", 1 << 20) == (b"", True)


@given(st.binary(max_size=400), st.sampled_from([header for header, _ in CODINGS.values()]), st.integers(0, 500))
def test_any_bytes(body: bytes, header: str, limit: int) -> None:
    out, truncated = decode(body, header, limit)
    assert len(out) <= limit
    assert isinstance(truncated, bool)


def test_a_wrong_checksum_behind_a_zstd_frame_took_all_of_it() -> None:
    packed = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(PAGE))
    packed[-1] ^= 1
    assert decode(bytes(packed), "zstd", 1 << 20) == (PAGE, False)
    assert decode(bytes(packed) * 2, "zstd", 1 << 20) == (PAGE, True), "thousands of them would take seconds"


@pytest.mark.parametrize("tail", [b"\n", bytes(8), b"<!-- 200 bytes -->" * 12])
def test_a_tail_behind_zstd_frames_is_padding(tail: bytes) -> None:
    assert decode(zstandard.compress(PAGE) * 2 + tail, "zstd", 1 << 20) == (PAGE * 2, False)
