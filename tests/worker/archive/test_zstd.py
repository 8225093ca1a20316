"""Archives of zstd frames: the library and FastWARC read every frame, warcio what is in it, and no damage is missed."""

from __future__ import annotations

import hashlib
import io
import os
import random
import subprocess
import tracemalloc
from pathlib import Path
from typing import Any

from drum import Damaged, Files

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from irlcrawl.worker.archive import record, redo, taken_down, zstd
from irlcrawl.worker.archive.reader import Record, record_at, records, unpacked
from tests.whole import others
from tests.worker.archive.support import TEXT, exchange_of, failed_unit, paths_in, unit_of, writer_in
from tests.worker.archive.test_redo import few_units, replay, write
from tests.worker.archive.test_taken_down import INFO_ID, UNIT
from tests.worker.archive.test_warc import RESPONSES

FILES = Files()
EXTENSION = b"\x53\x2a\x4d\x18\x05\0\0\0five."


def in_zstd(path: Path) -> list[bytes]:
    """The content of each frame of an archive, by the library's own parameters and decompressor."""
    data, found = path.read_bytes(), []
    while data:
        told = zstandard.get_frame_parameters(data)
        assert told.has_checksum and told.dict_id == 0 and told.window_size <= 8 << 20
        decoder = zstandard.ZstdDecompressor().decompressobj()
        found.append(decoder.decompress(data))
        assert decoder.eof and len(found[-1]) == told.content_size > 0, "the proposal wants its length in each frame"
        data = decoder.unused_data
    return found


def in_warcio(content: bytes) -> list[tuple[str, str, bytes]]:
    there = ArchiveIterator(io.BytesIO(content), no_record_parse=True)
    return [(one.rec_type, one.rec_headers["WARC-Record-ID"], one.raw_stream.read()) for one in there]


def test_every_response_is_read_back_by_others(tmp_path: Path) -> None:
    writer, written = writer_in(tmp_path, zstd_level=3), []
    for header, body, truncated in RESPONSES.values():
        unit = unit_of()
        exchange = exchange_of(unit, body, header, truncated=truncated)
        written.append((unit, exchange, writer.append(unit, exchange)))
    written.append((failed := failed_unit(), None, writer.append(failed, None)))
    writer.close()
    (path,) = paths_in(tmp_path)
    assert path.name == "irlcrawl-20231114221320500-00000-s0001.warc.zst"
    frames = in_zstd(path)
    ours = list(records(FILES, str(path)))
    assert len(frames) == len(ours) and all(frame.startswith(b"WARC/1.1\r\n") for frame in frames)
    assert [unpacked(FILES, str(path), one) for one in ours] == frames
    assert in_warcio(b"".join(frames)) == [(one.kind, one.fields["warc-record-id"], one.block) for one in ours]
    assert list(redo.units(FILES, os.fspath(tmp_path), 1)) == written


FASTWARC = """
import hashlib, sys
from fastwarc.warc import ArchiveIterator
for record in ArchiveIterator(open(sys.argv[1], "rb"), parse_http=False):
    whole = record.verify_block_digest()
    print(record.record_id, whole, hashlib.sha1(record.reader.read()).hexdigest())
"""


@pytest.mark.parametrize("zstd_level", [None, 3])
def test_fastwarc_reads_the_same(zstd_level: int | None, tmp_path: Path) -> None:
    python = others.python_with("fastwarc.warc")
    writer = writer_in(tmp_path, zstd_level=zstd_level, dedupe_bytes_min=1)
    for header, body, truncated in RESPONSES.values():
        for url in (b"http://a.test/", b"http://b.test/"):  # the second one as a revisit record, mostly
            unit = unit_of(url)
            writer.append(unit, exchange_of(unit, body, header, truncated=truncated))
    writer.close()
    (path,) = paths_in(tmp_path)
    told = subprocess.run([python, "-c", FASTWARC, str(path)], capture_output=True, text=True, check=True).stdout
    ours = list(records(FILES, str(path)))
    assert {"response", "revisit", "request", "warcinfo"} == {one.kind for one in ours}
    assert told.splitlines() == [
        f"{one.fields['warc-record-id']} True {hashlib.sha1(one.block).hexdigest()}" for one in ours
    ]


def test_the_same_body_in_the_same_file_is_stored_once(tmp_path: Path) -> None:
    writer = writer_in(tmp_path, zstd_level=3, dedupe_bytes_min=1024)
    places = [
        writer.append(unit := unit_of(url), exchange_of(unit, TEXT)) for url in (b"http://a.test/1", b"http://b.test/")
    ]
    writer.close()
    (path,) = paths_in(tmp_path)
    assert [record_at(FILES, str(path), place.record).kind for place in places] == ["response", "revisit"]
    assert [exchange.body for _, exchange, _ in redo.units(FILES, str(tmp_path), 1) if exchange] == [TEXT, TEXT]


def test_each_flipped_bit_is_damage_at_its_frame_or_changes_no_byte_of_the_records(tmp_path: Path) -> None:
    write(tmp_path, few_units(), zstd_level=3)
    (path,) = paths_in(tmp_path)
    data, whole = path.read_bytes(), list(records(FILES, str(path)))
    silent = 0
    for one in whole[:3]:
        for bit in range(one.offset * 8, one.end * 8, 1 if one.offset == 0 else 5):
            torn = bytearray(data)
            torn[bit // 8] ^= 1 << bit % 8
            path.write_bytes(torn)
            try:
                assert list(records(FILES, str(path))) == whole
                silent += 1
            except Damaged as error:
                assert error.offset == one.offset, bit
    assert silent < 20, "the bits that fill the last byte of a table"


def test_a_tail_of_anything_else_is_cut(tmp_path: Path) -> None:
    written = write(tmp_path, few_units(), zstd_level=3)
    (path,) = paths_in(tmp_path)
    data, noise = path.read_bytes(), random.Random(2).randbytes(70_000)
    page = written[1][2]
    raw = unpacked(FILES, str(path), record_at(FILES, str(path), page.record))
    pack, request = zstd.packer(3), data[page.offset : page.record]
    plain = zstandard.ZstdCompressor(level=3)
    for name, tail in {
        "zeros": bytes(70_000), "noise": noise, "noise after a header": pack(noise)[:12] + noise,
        "a request": request, "something else": pack(b"no record"), "much else": pack(b"x" * 5_000_000),
        "two records": pack(raw + raw), "a longer block": pack(raw + b"more"), "a gzip member": record.member(raw, 1),
        "no checksum": plain.compress(raw), "a dictionary": b"\x5d\x2a\x4d\x18" + (9).to_bytes(4, "little") + bytes(9),
        "half an extension": EXTENSION[:-1], "no length": (one := plain.compressobj()).compress(raw) + one.flush(),
    }.items():  # fmt: skip
        path.write_bytes(data + tail)
        with pytest.raises(Damaged):
            replay(tmp_path)
        assert redo.cut_tail(FILES, str(path)) == len(tail), name
        assert path.read_bytes() == data, name
    assert replay(tmp_path) == written


def test_frames_that_decoders_ignore_belong_to_the_record_before_them(tmp_path: Path) -> None:
    pack = zstd.packer(3)
    texts = [record.warcinfo(INFO_ID, f"{n}.warc.zst", 1e9, {"software": "another"}) for n in range(3)]
    path = tmp_path / "an archive of any name"
    path.write_bytes(b"".join(pack(text) + EXTENSION * n for n, text in enumerate(texts)))
    found = list(records(FILES, str(path)))
    assert [unpacked(FILES, str(path), one) for one in found] == texts
    assert [one.end for one in found] == [*(one.offset for one in found[1:]), path.stat().st_size]
    path.write_bytes(b"\x5d\x2a\x4d\x18\x04\0\0\0dict" + path.read_bytes())
    with pytest.raises(Damaged, match="not a zstd frame: a dictionary"):
        list(records(FILES, str(path)))


def test_what_unpacks_to_much_takes_little_memory(tmp_path: Path) -> None:
    text = b"WARC/1.1\r\nContent-Length: 200000000\r\n\r\n"
    path = tmp_path / "one.warc.zst"
    packer = zstandard.ZstdCompressor(level=1, write_checksum=True)
    path.write_bytes(packer.compress(text + bytes(200_000_000) + record.END))
    tracemalloc.start()
    try:
        (one,) = records(FILES, str(path), keep=False)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert one.end == path.stat().st_size < 50_000 and peak < 2_000_000


def response(body: bytes) -> bytes:
    exchange = exchange_of(UNIT, body, b"HTTP/1.1 200 OK\r\n\r\n")
    return zstd.packer(3)(record.request_and_response(UNIT, exchange, INFO_ID)[1])


def read(path: Path, frames: bytes) -> list[Record]:
    path.write_bytes(frames)
    with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(frames), read_across_frames=True) as stream:
        kinds = [one[0] for one in in_warcio(stream.read())]
    found = list(records(FILES, str(path)))
    assert [one.kind for one in found] == kinds
    return found


@pytest.mark.parametrize("size", [0, 1, 2, 700, 100_000, 3_000_000])
def test_a_record_taken_down_has_the_length_of_the_response(tmp_path: Path, size: int) -> None:
    body, path = os.urandom(size), tmp_path / "one.warc.zst"
    member = response(body)
    (old,) = read(path, member)
    new = taken_down.in_place_of(old, 1_000_000_000.5, "asked by mail")
    assert len(new) == len(member) and (size < 700 or body[:100] not in new)
    one, following = read(path, new + member)
    assert (one.offset, one.end, following.kind) == (0, len(member), "response")
    assert taken_down.since(one) == "2001-09-09T01:46:40.500Z" and taken_down.since(following) is None
    assert b"reason: taken_down\r\n" in one.block and b"detail: asked by mail" in one.block


@settings(deadline=None, max_examples=40)
@given(text=st.binary(min_size=256, max_size=800), more=st.integers(0, 40))
def test_a_text_fills_any_length_from_its_own_on(text: bytes, more: int) -> None:
    length = len(zstd.packer(19)(text)) + more
    filled = zstd.of_length(text, length)
    assert filled is not None and len(filled) == length
    assert zstd.of_length(text, length - more - 1) is None
    reader: Any = zstandard.ZstdDecompressor().stream_reader(
        io.BytesIO(filled + zstd.packer(1)(b"next")), read_across_frames=True
    )
    assert reader.read() == text + b"next"
