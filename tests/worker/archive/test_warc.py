"""Other tools read what we write: warcio, which shares no code with us, gives back every byte."""

from __future__ import annotations

import base64
import gzip
import io
import os
import random
import subprocess
import sys
import uuid
import zlib
from pathlib import Path
from typing import Any

from drum.files import Files

import brotlicffi as brotli
import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from irlcrawl.base.clock import VirtualClock
from irlcrawl.worker.archive import redo
from irlcrawl.worker.archive.record import digest_text, member, new_id, sha1_of, stored_header, wire_header
from irlcrawl.worker.archive.warc import Unit, WarcName
from tests.worker.archive.support import (
    HEADER,
    REQUEST,
    TEXT,
    check,
    exchange_of,
    failed_unit,
    paths_in,
    unit_of,
    writer_in,
)

WARCIO = "import sys; sys.modules['brotli'] = None; from warcio.cli import main; sys.exit(main(sys.argv[1:]))"


def head(*lines: bytes, status: bytes = b"HTTP/1.1 200 OK") -> bytes:
    return b"\r\n".join((status, *lines, b"", b""))


def deflated(data: bytes) -> bytes:
    return zlib.compress(data)


RESPONSES = {
    "plain": (head(b"Content-Type: text/html"), TEXT, None),
    "length": (head(b"Content-Length: %d" % len(TEXT)), TEXT, None),
    "chunked": (head(b"Transfer-Encoding: chunked", b"Content-Type: text/html"), TEXT, None),
    "chunked gzip": (head(b"transfer-encoding: chunked", b"Content-Encoding: gzip"), gzip.compress(TEXT), None),
    "gzip": (head(b"Content-Encoding: gzip"), gzip.compress(TEXT), None),
    "deflate": (head(b"Content-Encoding: deflate"), deflated(TEXT), None),
    "br": (head(b"Content-Encoding: br"), brotli.compress(TEXT), None),
    "zstd": (head(b"Content-Encoding: zstd"), zstandard.compress(TEXT), None),
    "gzip cut": (head(b"Content-Encoding: gzip"), gzip.compress(TEXT)[:90], "length"),
    "gzip that is none": (head(b"Content-Encoding: gzip"), TEXT, None),
    "gzip with more behind": (head(b"Content-Encoding: gzip"), gzip.compress(TEXT) + b"trailing" * 9000, None),
    "length cut": (head(b"Content-Length: 999999"), TEXT, "disconnect"),
    "time": (head(b"Content-Length: 999999"), b"", "time"),
    "empty": (head(b"Content-Length: 0"), b"", None),
    "204": (head(status=b"HTTP/1.1 204 No Content"), b"", None),
    "304": (head(b"Content-Length: 5000", b'ETag: "x"', status=b"HTTP/1.1 304 Not Modified"), b"", None),
    "no reason": (head(b"Content-Type: text/html", status=b"HTTP/1.1 200"), TEXT, None),
    "no reason but a space": (head(b"A: b", status=b"HTTP/1.1 200 "), TEXT, None),
    "HTTP/1.0": (head(b"A: b", status=b"HTTP/1.0 200 OK"), TEXT, None),
    "duplicates": (head(b"Set-Cookie: a=1", b"Set-Cookie: b=2", b"set-cookie: a=1"), TEXT, None),
    "obs-fold": (head(b"X-Long: one", b"  two", b"\tthree", b"Content-Type: text/html"), TEXT, None),
    "obs-fold of nothing": (head(b"X-Long: one", b"  ", b"\t", b"X-After: here"), TEXT, None),
    "folded transfer coding": (head(b"Transfer-Encoding:", b" chunked", b"A: b"), TEXT, None),
    "space before the colon": (head(b"Transfer-Encoding : chunked", b"Content-Length : 3"), TEXT, None),
    "not latin": (head("X-Name: Grüße 漢字".encode(), b"X-Raw: \xff\xfe\x80\x85"), TEXT, None),
    "a line of nothing but space, in Unicode": (head(b"\xc2\xa0\xe3\x80\x80", b"A: b", b"\x85", b"\x1f"), TEXT, None),
    "no colon": (head(b"nonsense", b"", b"A: b"), TEXT, None),
    "no name": (head(b": value", b":", b"A:"), TEXT, None),
    "bare newlines": (b"HTTP/1.1 200 OK\nContent-Type: text/html\nTransfer-Encoding: chunked\n\n", TEXT, None),
    "prefix taken": (head(b"X-Crawler-Transfer-Encoding: chunked", b"x-crawler-a: b", b"X-Crawler-"), TEXT, None),
    "two lengths": (head(b"Content-Length: %d" % len(TEXT), b"Content-Length: 7"), TEXT, None),
    "status line alone": (head(), TEXT, None),
    "long line": (head(b"X-Long: " + b"y" * 60_000), TEXT, None),
    "body of noise": (head(), random.Random(4).randbytes(300_000), None),
    "body like a record": (head(), b"WARC/1.1\r\nWARC-Type: response\r\n\r\n" + TEXT, None),
}


def read_back(path: Path) -> list[Any]:
    """(type, WARC header, block) of every record, by warcio."""
    found = []
    with path.open("rb") as stream:
        for record in ArchiveIterator(stream, no_record_parse=True):
            found.append((record.rec_type, record.rec_headers, record.raw_stream.read()))
    return found


def payloads(path: Path) -> list[bytes]:
    """The payload of every response, by warcio: what is left of the block once it has parsed the HTTP header."""
    with path.open("rb") as stream:
        return [r.raw_stream.read() for r in ArchiveIterator(stream) if r.rec_type == "response"]


@pytest.mark.parametrize("name", RESPONSES)
def test_a_response_reads_back_byte_for_byte(tmp_path: Path, name: str) -> None:
    header, body, truncated = RESPONSES[name]
    unit = unit_of(b"http://a.test/" + name.replace(" ", "-").replace(",", "").encode())
    exchange = exchange_of(unit, body, header, truncated=truncated)
    writer = writer_in(tmp_path)
    writer.append(unit, exchange)
    writer.close()
    (path,) = paths_in(tmp_path)
    (_, info, _), (_, request, request_block), (_, response, block) = read_back(path)
    assert request_block == REQUEST
    assert block.endswith(body) and wire_header(block[: len(block) - len(body)]) == header
    assert payloads(path) == [body]
    assert response["WARC-Truncated"] == truncated
    assert response["WARC-Target-URI"] == request["WARC-Target-URI"] == unit.url.decode()
    assert response["WARC-IP-Address"] == "192.0.2.7"
    assert response["WARC-Date"] == "2023-11-14T22:13:20.250Z"
    assert response["WARC-Concurrent-To"] == request["WARC-Record-ID"]
    assert response["WARC-Warcinfo-ID"] == info["WARC-Record-ID"]
    assert info["WARC-Filename"] == path.name
    assert check(path) == 0
    assert [(u, e) for u, e, _ in redo.units(Files(), os.fspath(tmp_path), 1)] == [(unit, exchange)]


def test_the_command_line_of_warcio_finds_no_fault(tmp_path: Path) -> None:
    writer = writer_in(tmp_path, roll_bytes=200_000)
    for header, body, truncated in RESPONSES.values():
        unit = unit_of()
        writer.append(unit, exchange_of(unit, body, header, truncated=truncated))
        writer.append(failed_unit(detail="line one\r\nWARC/1.1\r\n\r\nline two: \u2028 caf\u00e9"), None)
    writer.close()
    paths = [os.fspath(path) for path in paths_in(tmp_path)]
    assert len(paths) > 2
    done = subprocess.run([sys.executable, "-c", WARCIO, "check", *paths], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_broken_payload_is_noticed_by_warcio(tmp_path: Path) -> None:
    """The check that the other tests rely on can fail."""
    writer = writer_in(tmp_path)
    location = writer.append(unit_of(), exchange_of(unit_of(), TEXT))
    writer.close()
    (path,) = paths_in(tmp_path)
    data = path.read_bytes()
    record = bytearray(gzip.decompress(data[location.record : location.end]))
    record[-10] ^= 1
    path.write_bytes(data[: location.record] + gzip.compress(bytes(record)))
    assert check(path) == 1


@settings(deadline=None, max_examples=50)
@given(
    st.binary(max_size=300), st.binary(max_size=50), st.sampled_from([1, 300, 1400]), st.integers(0, 3),
)  # fmt: skip
@example(b"", b"x" * 5, 65_535 // 5, 1)
@example(b"head", b"x", 65_536, 0)
@example(b"head", b"x", 2 * 65_535, 3)
def test_a_packed_body_is_stored_in_a_member_like_any_other(head: bytes, unit: bytes, times: int, level: int) -> None:
    body = unit * times
    record = head + body
    written = member(record, level, len(body))
    one = zlib.decompressobj(31)
    assert one.decompress(written) == record
    assert one.eof and not one.unused_data
    assert len(written) <= 400 + len(record) + 5 * (len(body) // 65_535 + 1)


def test_record_ids_are_random_uuids() -> None:
    ids = [new_id() for _ in range(200)]
    assert len(set(ids)) == 200
    for name in ids:
        parsed = uuid.UUID(name[len("<urn:uuid:") : -1])
        assert (name, parsed.version, parsed.variant) == (f"<{parsed.urn}>", 4, uuid.RFC_4122)


def test_stored_headers_tell_the_truth_about_the_stored_body() -> None:
    header = head(b"transfer-encoding: gzip, chunked", b"Content-Length: 10", b"A: b")
    assert stored_header(header, 200, 4) == head(
        b"X-Crawler-transfer-encoding: gzip, chunked", b"X-Crawler-Content-Length: 10", b"A: b"
    )
    assert stored_header(head(b"Content-Length: 4"), 200, 4) == head(b"Content-Length: 4")
    not_modified = head(b"Content-Length: 4", status=b"HTTP/1.1 304 Not Modified")
    assert stored_header(not_modified, 304, 0) == not_modified
    for endless in (b"", b"\r\n", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody"):
        with pytest.raises(ValueError, match="ends with a blank line"):
            stored_header(endless, 200, 0)


pieces = st.sampled_from(
    [
        b"Content-Length: 3", b"Content-Length", b"transfer-encoding", b"X-Crawler-", b":", b" ", b"\t", b"\r", b"\x85",
        b"\xc2\xa0", b"\x0c", b"\x1c", b"a", b"\xff", b"\n", b"\r\n",
    ]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    header=st.lists(st.one_of(pieces, st.binary(max_size=6)), max_size=12).map(b"".join),
    body=st.binary(max_size=40),
    ending=st.sampled_from([b"\r\n\r\n", b"\n\n", b"\n\r\n"]),
)
@example(header=b"", body=b"\r\n\r\n", ending=b"\n\n")
def test_any_header_survives(
    header: bytes, body: bytes, ending: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever lies between the status line and the blank line, we and warcio agree where the body begins."""
    wire = b"HTTP/1.1 200 OK\r\n" + header + ending
    directory = tmp_path_factory.mktemp("any")
    unit = unit_of()
    writer = writer_in(directory)
    writer.append(unit, exchange_of(unit, body, wire))
    writer.close()
    (path,) = paths_in(directory)
    assert payloads(path) == [body]
    assert check(path) == 0
    ((_, exchange, _),) = redo.units(Files(), os.fspath(directory), 1)
    assert exchange is not None and (exchange.header, exchange.body) == (wire, body)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(-1e300, 1e300) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
u64 = st.integers(0, 2**64 - 1)
units = st.builds(
    unit_of,
    st.text("abc/?=%&~-_.", max_size=30).map(lambda text: b"http://a.test/" + text.encode()),
    segment=st.integers(0, 2**32 - 1), key=u64, host=u64, status=st.integers(-10_000, 599),
    start=st.floats(0, 4e9), duration_ms=st.integers(0, 10**6), retry_due=st.none() | st.floats(0, 4e9),
    robots=st.none() | st.dictionaries(st.text(), json_values, max_size=3), detail=st.text(),
    depth=st.integers(0, 2**16 - 1), hop=st.integers(0, 255), attempt=st.integers(0, 255),
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(units)
def test_any_unit_survives(unit: Unit) -> None:
    text = unit.to_json()
    assert text.isascii() and text.isprintable()
    assert Unit.from_json(text, unit.url) == unit


@pytest.mark.parametrize("detail", ["\x7f", "\n", "ä\u2028", "\ud800", "null", '"\\'])
def test_a_unit_is_a_line_of_printable_ascii_whatever_it_says(detail: str) -> None:
    unit = unit_of(detail=detail)
    text = unit.to_json()
    assert text.isascii() and text.isprintable() and Unit.from_json(text, unit.url) == unit


@pytest.mark.parametrize("number", [float("inf"), float("nan"), -float("inf")])
def test_a_unit_with_a_number_that_is_none_is_refused(number: float) -> None:
    with pytest.raises(ValueError):
        unit_of(start=number).to_json()


def test_a_unit_of_a_later_version_is_read_and_nonsense_is_not() -> None:
    text = unit_of().to_json()
    assert Unit.from_json(text[:-1] + ',"new":1}', b"http://a.test/") == unit_of()
    for nonsense in ("", "[]", "{}", "{", '{"row":1}'):
        with pytest.raises(ValueError):
            Unit.from_json(nonsense, b"http://a.test/")


def test_an_outcome_without_a_response_says_what_happened(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    writer.append(failed_unit(address="192.0.2.9"), None)
    writer.close()
    _, (kind, header, block) = read_back(paths_in(tmp_path)[0])
    assert (kind, header["WARC-IP-Address"]) == ("metadata", "192.0.2.9")
    assert header["Content-Type"] == "application/warc-fields"
    fields = dict(line.split(": ", 1) for line in block.decode().splitlines())
    assert fields == {
        "outcome": "failed", "reason": "connect", "status": "-2", "detail": "connection refused", "fetchTimeMs": "125",
    }  # fmt: skip


def test_warcinfo_tells_who_and_with_what(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    writer.append(failed_unit(), None)
    writer.close()
    kind, _, block = read_back(paths_in(tmp_path)[0])[0]
    fields = dict(line.split(": ", 1) for line in block.decode().splitlines())
    assert kind == "warcinfo"
    assert fields.pop("hostname")
    assert fields == {
        "software": "irlcrawl/test",
        "format": "WARC File Format 1.1",
        "conformsTo": "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/",
        "robots": "obey (RFC 9309)",
        "operator": "me",
        "isPartOf": "job",
        "http-header-user-agent": "Crawler/1 (+https://c.test; me@c.test)",
        "settings": "page.requisites = true",
    }


def test_files_are_open_until_closed_and_named_by_time_serial_and_stream(tmp_path: Path) -> None:
    clock = VirtualClock(1_700_000_000.123)
    writer = writer_in(tmp_path, stream=12, prefix="my.crawl", clock=clock)
    assert writer.position == (0, 0) and paths_in(tmp_path) == []
    first = writer.append(failed_unit(), None)
    assert first.file == "my.crawl-20231114221320123-00000-s0012.warc.gz"
    assert [path.name for path in paths_in(tmp_path)] == [first.file + ".open"]
    assert writer.position == first.position
    writer.close()
    assert [path.name for path in paths_in(tmp_path)] == [first.file]
    clock.advance(86_400)
    second = writer.append(failed_unit(), None)
    assert (second.file, second.serial) == ("my.crawl-20231115221320123-00001-s0012.warc.gz", 1)
    assert WarcName.parse(second.file + ".open") == WarcName(second.file, 12, 1, True)
    for other in ("page.warc.gz", "x-20231114221320123-00000-s0012.warc.gz.tmp", "cdx"):
        assert WarcName.parse(other) is None


def test_a_file_is_rolled_between_units(tmp_path: Path) -> None:
    writer = writer_in(tmp_path, roll_bytes=20_000)
    noise = random.Random(2)
    written = []
    for size in (3_000, 9_000, 9_000, 50_000, 10, 10):
        unit = unit_of()
        exchange = exchange_of(unit, noise.randbytes(size))
        written.append((unit, exchange, writer.append(unit, exchange)))
    writer.close()
    assert [row[2].serial for row in written] == [0, 0, 1, 2, 3, 3]
    sizes = [path.stat().st_size for path in paths_in(tmp_path)]
    assert max(sizes[:2] + sizes[3:]) <= 20_000 < sizes[2]
    assert sum(sizes) == writer.bytes_written
    assert check(*paths_in(tmp_path)) == 0
    assert list(redo.units(Files(), os.fspath(tmp_path), 1)) == written


def test_a_location_is_where_any_tool_finds_the_response(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    writer.append(failed_unit(), None)
    unit = unit_of()
    location = writer.append(unit, exchange_of(unit, TEXT))
    data = paths_in(tmp_path)[0].read_bytes()
    assert gzip.decompress(data[location.record : location.end]).endswith(HEADER + TEXT + b"\r\n\r\n")
    request, response = list(ArchiveIterator(io.BytesIO(data[location.offset : location.end])))
    assert (request.rec_type, response.rec_type) == ("request", "response")
    assert response.rec_headers["WARC-Payload-Digest"] == location.digest


def test_no_name_has_two_writers(tmp_path: Path) -> None:
    writer_in(tmp_path, stream=5).append(failed_unit(), None)
    with pytest.raises(FileExistsError, match="stream 5"):
        writer_in(tmp_path, stream=5)
    late = writer_in(tmp_path, stream=6)
    writer_in(tmp_path, stream=6).append(failed_unit(), None)
    with pytest.raises(FileExistsError):
        late.append(failed_unit(), None)


@pytest.mark.parametrize("prefix", ["", "a b", "a/b", "../a", "a\n"])
def test_a_prefix_is_a_plain_name(tmp_path: Path, prefix: str) -> None:
    with pytest.raises(ValueError, match=r"archive\.prefix"):
        writer_in(tmp_path, prefix=prefix)


def test_nothing_is_written_of_an_exchange_that_cannot_be_stored(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    for bad in ({"header": b"HTTP/1.1 200 OK\r\n"}, {"truncated": "because"}):
        with pytest.raises(ValueError):
            writer.append(unit_of(), exchange_of(unit_of(), **bad))
    assert paths_in(tmp_path) == []


def test_an_exchange_tells_its_header_fields() -> None:
    exchange = exchange_of(
        unit_of(), header=b"HTTP/1.1 404 Not\r\nA: 1\r\n  2\r\na:3\r\nbad\r\nContent-Type: Text/HTML ;x\r\n\r\n"
    )
    assert exchange.status == 404
    assert exchange.fields == [(b"a", b"1 2"), (b"a", b"3"), (b"content-type", b"Text/HTML ;x")]
    assert exchange.values(b"a") == [b"1 2", b"3"]
    assert (exchange.value(b"none"), exchange.mime) == (None, "text/html")
    assert exchange_of(unit_of(), header=b"ICY\r\n\r\n").status == 0


@given(st.binary(min_size=20, max_size=20))
def test_a_digest_is_written_in_base32(sha1: bytes) -> None:
    assert digest_text(sha1) == "sha1:" + base64.b32encode(sha1).decode()
    assert sha1_of(digest_text(sha1)) == sha1
