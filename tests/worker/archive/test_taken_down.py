"""The record in place of a response: as long as that was, whole for every reader, and without any of its content."""

from __future__ import annotations

import gzip
import os
from dataclasses import replace
from pathlib import Path

from drum import Files

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from irlcrawl.base.reasons import Class, Reason
from irlcrawl.base.rows import Carried
from irlcrawl.worker.archive import record, taken_down
from irlcrawl.worker.archive.reader import Record, records
from irlcrawl.worker.archive.unit import Exchange, Unit

INFO_ID = "<urn:uuid:11111111-1111-4111-8111-111111111111>"
UNIT = Unit(
    url=b"http://a.test/x", segment=1, row=2, key=2**63, host=2**62 + 5, carried=Carried(depth=1, via=b"http://a.test/"),
    cls=Class.FETCHED, reason=Reason.OK, status=200, start=1e9, duration_ms=12, wishes="noai",
)  # fmt: skip


def response(body: bytes) -> bytes:
    """The gzip member of a response with as short a header as there can be."""
    exchange = Exchange(UNIT.url, "10.0.0.1", b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", body)
    return record.member(record.request_and_response(UNIT, exchange, INFO_ID)[1], 1)


def read(tmp_path: Path, members: bytes) -> list[Record]:
    (path := tmp_path / "one.warc.gz").write_bytes(members)
    with open(path, "rb") as stream:
        there = ArchiveIterator(stream, check_digests="raise")
        kinds = [(one.rec_type, one.content_stream().read())[0] for one in there]
    found = list(records(Files(), str(path)))
    assert [one.kind for one in found] == kinds
    return found


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 700, 100_000, 10_000_000])
def test_it_has_the_length_of_the_response_and_none_of_its_content(tmp_path: Path, size: int) -> None:
    body = os.urandom(size)
    member = response(body)
    (old,) = read(tmp_path, member)
    new = taken_down.in_place_of(old, 1_000_000_000.5, "asked by mail")
    assert len(new) == len(member) and (size < 700 or body[:100] not in new)
    one, following = read(tmp_path, new + member)
    assert (one.offset, one.end, following.kind) == (0, len(member), "response")
    assert taken_down.since(one) == "2001-09-09T01:46:40.500Z" and taken_down.since(following) is None
    unit = Unit.from_json(one.unit or "", UNIT.url)
    assert (unit.reason, unit.detail, unit.key) == (Reason.TAKEN_DOWN, "asked by mail", UNIT.key)
    assert b"reason: taken_down\r\nstatus: 200\r\ndetail: asked by mail\r\n" in one.block
    assert gzip.decompress(new).startswith(b"WARC/1.1\r\nWARC-Type: metadata\r\n")


def test_the_record_of_a_robots_txt_kept_what_its_host_said_in_tdmrep_json(tmp_path: Path) -> None:
    fact = {"robots": 1, "failed": 0}
    unit = replace(UNIT, robots={**fact, "tdm": "irlcrawl-tdm: 1 / https://a.test/john"})
    exchange = Exchange(UNIT.url, "10.0.0.1", b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"User-agent: *\n")
    (old,) = read(tmp_path, record.member(record.request_and_response(unit, exchange, INFO_ID)[1], 1))
    (new,) = read(tmp_path, taken_down.in_place_of(old, 1e9, "x"))
    assert Unit.from_json(new.unit or "", UNIT.url).robots == fact


@settings(deadline=None, max_examples=50)
@given(reason=st.text(max_size=400), size=st.integers(0, 60))
def test_a_reason_that_does_not_fit_is_cut(tmp_path_factory: pytest.TempPathFactory, reason: str, size: int) -> None:
    member = response(os.urandom(size))
    (old,) = read(directory := tmp_path_factory.mktemp("one"), member)
    (one,) = read(directory, taken_down.in_place_of(old, 1e9, reason))
    assert one.end == len(member)
    assert reason.startswith(Unit.from_json(one.unit or "", UNIT.url).detail)


def test_what_has_no_room_is_refused(tmp_path: Path) -> None:
    (old,) = read(tmp_path, response(b""))
    old.end = 200
    with pytest.raises(ValueError, match="200 bytes are too few"):
        taken_down.in_place_of(old, 1e9, "")
