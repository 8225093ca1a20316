"""Payloads that the open file holds already: stored once, and told by a revisit record that every reader follows."""

from __future__ import annotations

import errno
import gzip
import hashlib
import os
import re
from pathlib import Path
from typing import Any

from drum.files import Files, Handle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from irlcrawl.base.rows import NO_SEGMENT
from irlcrawl.worker.archive import redo
from irlcrawl.worker.archive.dedupe import Held
from irlcrawl.worker.archive.record import digest
from irlcrawl.worker.archive.unit import Location
from irlcrawl.worker.archive.warc import WarcWriter
from tests.worker.archive.support import HEADER, TEXT, check, exchange_of, paths_in, unit_of, writer_in

FIRST, SECOND = b"http://a.test/", b"http://b.test/again?x"


def add(writer: WarcWriter, url: bytes, body: bytes = TEXT, header: bytes = HEADER, **fields: Any) -> Location:
    unit = unit_of(url, **{name: fields.pop(name) for name in ("segment", "start") if name in fields})
    return writer.append(unit, exchange_of(unit, body, header, **fields))


def kinds(directory: Path) -> list[str]:
    found = []
    for path in paths_in(directory):
        with path.open("rb") as stream:
            found += [record.rec_type for record in ArchiveIterator(stream)]
    return [kind for kind in found if kind not in ("warcinfo", "request")]


def test_the_same_payload_at_another_url_is_a_revisit_record_byte_for_byte(tmp_path: Path) -> None:
    writer = writer_in(tmp_path, dedupe_bytes_min=1024)
    first = add(writer, FIRST, start=1_700_000_000.9999)
    header = HEADER.replace(b"200 OK", b"200 Fine")
    second = add(writer, SECOND, header=header)
    writer.close()
    (path,) = paths_in(tmp_path)
    raw = path.read_bytes()
    head, _, block = gzip.decompress(raw[second.record : second.end]).partition(b"\r\n\r\n")
    text = head.decode()
    for name in ("Record-ID", "Concurrent-To", "Warcinfo-ID"):
        text = re.sub(rf"(WARC-{name}): <urn:uuid:[0-9a-f-]+>", r"\1: ID", text)
    assert text.splitlines() == [
        "WARC/1.1", "WARC-Type: revisit", "WARC-Record-ID: ID", "WARC-Concurrent-To: ID", "WARC-Warcinfo-ID: ID",
        "WARC-Target-URI: http://b.test/again?x", "WARC-Date: 2023-11-14T22:13:20.250Z",
        "WARC-IP-Address: 192.0.2.7", f"WARC-Block-Digest: {digest(header)}", f"WARC-Payload-Digest: {digest(TEXT)}",
        "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest",
        "WARC-Refers-To-Target-URI: http://a.test/", "WARC-Refers-To-Date: 2023-11-14T22:13:20.999Z",
        "WARC-Truncated: length",
        'Irlcrawl-Unit: {"depth":2,"hop":0,"source":2,"priority":4,"attempt":0,"via":"","segment":3,"row":14,'
        '"key":18446744073709551601,"host":9223372036854775817,"cls":0,"reason":0,"status":200,'
        f'"start":1700000000.25,"duration_ms":125,"size":{len(TEXT)},"original":{first.record}}}',
        "Content-Type: application/http; msgtype=response", f"Content-Length: {len(header)}",
    ]  # fmt: skip
    assert block == header + b"\r\n\r\n"
    assert second.digest == first.digest == digest(TEXT)
    assert check(path) == 0


def test_it_is_read_again_with_its_payload(tmp_path: Path) -> None:
    writer = writer_in(tmp_path, dedupe_bytes_min=1024)
    header = HEADER.replace(b"text/html", b"text/plain").replace(b"\r\n\r\n", b"\r\nContent-Length: 7\r\n\r\n")
    places = [add(writer, FIRST), add(writer, SECOND, header=header), add(writer, FIRST)]
    writer.close()
    units = list(redo.units(Files(), str(tmp_path), 1))
    assert [exchange.body for _, exchange, _ in units if exchange] == [TEXT] * 3
    assert [exchange.header for _, exchange, _ in units if exchange] == [HEADER, header, HEADER]
    assert [location for *_, location in units] == places
    assert [unit.original for unit, *_ in units] == [None, places[0].record, places[0].record]


def test_what_is_short_or_cut_or_a_robots_txt_is_stored_as_it_came(tmp_path: Path) -> None:
    writer = writer_in(tmp_path, dedupe_bytes_min=1024)
    for url in (FIRST, SECOND):
        add(writer, url, TEXT[:1023])
        add(writer, url, TEXT, segment=NO_SEGMENT)
        add(writer, url, TEXT + b"cut", truncated="length")
    writer.close()
    assert kinds(tmp_path) == ["response"] * 6


def test_off_everything_is_stored(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    add(writer, FIRST)
    add(writer, SECOND)
    writer.close()
    assert kinds(tmp_path) == ["response"] * 2


def test_a_file_refers_to_nothing_but_itself(tmp_path: Path) -> None:
    """So it may be moved or deleted once it is closed."""
    writer = writer_in(tmp_path, dedupe_bytes_min=1024, roll_bytes=3000)
    bodies = [os.urandom(1100) if number % 4 == 0 else TEXT for number in range(40)]
    for number, body in enumerate(bodies):
        where = add(writer, b"http://a.test/%d" % number, body)
        if number and where.offset < 1000:
            assert writer._held is not None and writer._held.find(hashlib.sha1(bodies[0]).digest()) is None
    writer.close()
    paths = paths_in(tmp_path)
    assert len(paths) > 5 and "revisit" in kinds(tmp_path)
    units = list(redo.units(Files(), str(tmp_path), 1))
    assert [exchange.body for _, exchange, _ in units if exchange] == bodies
    for path in paths:
        with path.open("rb") as stream:
            held = set()
            for record in ArchiveIterator(stream):
                payload = record.rec_headers.get_header("WARC-Payload-Digest")
                held |= {payload} if record.rec_type == "response" else set()
                assert record.rec_type != "revisit" or payload in held


def test_a_unit_that_was_not_written_holds_nothing(tmp_path: Path) -> None:
    class Full(Files):
        full = False

        def write(self, handle: Handle, data: bytes) -> None:
            if self.full:
                raise OSError(errno.ENOSPC, "no space")
            super().write(handle, data)

    files = Full()
    writer = writer_in(tmp_path, files=files, dedupe_bytes_min=1024)
    add(writer, FIRST, b"x" * 2000)
    files.full = True
    with pytest.raises(OSError, match="no space"):
        add(writer, FIRST)
    files.full = False
    add(writer, SECOND)
    writer.close()
    redo.recover(Files(), str(tmp_path), 1)
    assert kinds(tmp_path) == ["response", "response"]


def test_a_record_that_holds_something_else_is_not_referred_to(tmp_path: Path) -> None:
    """The table knows eight bytes of a digest; the record that it names says the rest."""
    writer = writer_in(tmp_path, dedupe_bytes_min=1024)
    first = add(writer, FIRST)
    other = TEXT + b"other"
    assert writer._held is not None
    writer._held.put(hashlib.sha1(other).digest(), first.record)
    add(writer, SECOND, other)
    writer.close()
    assert kinds(tmp_path) == ["response", "response"]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10**12)), max_size=60))
def test_the_table_forgets_and_never_invents(puts: list[tuple[int, int]]) -> None:
    held, model = Held(bits=3), dict[bytes, int]()
    for number, offset in puts:
        sha1 = hashlib.sha1(b"%d" % number).digest()
        found = held.find(sha1)
        assert found is None or found == model[sha1]
        held.put(sha1, offset)
        model[sha1] = offset
        assert held.find(sha1) == offset
