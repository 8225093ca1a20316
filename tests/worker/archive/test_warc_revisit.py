"""Revisit records of a page's later visits: what they say, and that they are units like all others."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

from drum.files import Files

import pytest

from irlcrawl.base.reasons import Reason
from irlcrawl.base.rows import PageFlag
from irlcrawl.terminal.progress import Bar
from irlcrawl.upkeep import salvage
from irlcrawl.upkeep.verify import verify
from irlcrawl.worker.archive import crawl_log, redo
from irlcrawl.worker.archive.known import Known
from irlcrawl.worker.archive.record import digest
from tests.worker.archive.support import HEADER, TEXT, check, exchange_of, paths_in, unit_of, writer_in

SHA1 = hashlib.sha1(TEXT).digest()
KNOWN = Known(
    visits=6, stored=1_600_000_000.123, digest=int.from_bytes(SHA1[:8], "big"), flags=PageFlag.VALIDATOR,
    validators=SHA1[8:] + b'"tag"',
)  # fmt: skip
NOT_MODIFIED = b'HTTP/1.1 304 Not Modified\r\nETag: "tag"\r\nX-Odd: \xe9\r\n\r\n'


def _head(path: Path, record: int, end: int) -> tuple[dict[str, str], bytes]:
    head, _, block = gzip.decompress(path.read_bytes()[record:end]).partition(b"\r\n\r\n")
    return dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:]), block


def test_a_304_names_the_record_that_holds_the_page(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    unit = unit_of(page=KNOWN, reason=int(Reason.NOT_MODIFIED), status=304)
    exchange = exchange_of(unit, b"", NOT_MODIFIED)
    where = writer.append(unit, exchange)
    writer.close()
    (path,) = paths_in(tmp_path)
    fields, block = _head(path, where.record, where.end)
    told = {name: fields[name] for name in fields if name.startswith(("WARC-Refers", "WARC-Profile", "WARC-Payload"))}
    assert told == {
        "WARC-Payload-Digest": digest(TEXT),
        "WARC-Profile": "http://netpreserve.org/warc/1.1/revisit/server-not-modified",
        "WARC-Refers-To-Target-URI": "http://a.test/", "WARC-Refers-To-Date": "2020-09-13T12:26:40.123Z",
    }  # fmt: skip
    assert (fields["WARC-Type"], fields["Content-Length"], block) == ("revisit", "0", b"\r\n\r\n")
    assert "WARC-Truncated" not in fields
    ((again, came, place),) = redo.units(Files(), str(tmp_path), 1)
    assert (again, came, place) == (unit, exchange, where), "with the header of the 304, though no record has it"
    line = crawl_log.parse(crawl_log.line(unit, exchange, where))
    assert (line.status, line.size, line.digest, line.reason) == (304, 0, digest(TEXT), "not_modified")
    assert b",warcRevisit:notModified,visit=7," in crawl_log.line(unit, exchange, where)
    assert check(path) == 0


def test_the_same_bytes_again_name_the_record_that_holds_them(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    unit = unit_of(page=KNOWN)
    where = writer.append(unit, exchange_of(unit, TEXT))
    writer.close()
    (path,) = paths_in(tmp_path)
    fields, block = _head(path, where.record, where.end)
    assert fields["WARC-Type"] == "revisit" and fields["WARC-Truncated"] == "length"
    assert fields["WARC-Profile"] == "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
    assert fields["WARC-Refers-To-Date"] == "2020-09-13T12:26:40.123Z"
    assert block == HEADER + b"\r\n\r\n" and fields["WARC-Payload-Digest"] == digest(TEXT)
    ((again, came, _),) = redo.units(Files(), str(tmp_path), 1)
    assert came is not None and again == unit
    live, replayed = exchange_of(unit, TEXT), exchange_of(unit, b"")
    assert crawl_log.line(again, came, where) == crawl_log.line(unit, live, where)
    assert crawl_log.line(unit, live, where) == crawl_log.line(unit, replayed, where)
    assert b",warcRevisit:digest,visit=7," in crawl_log.line(unit, live, where)
    assert check(path) == 0


@pytest.mark.parametrize(
    ("page", "truncated"),
    [(KNOWN._replace(stored=0.0), None), (KNOWN._replace(digest=1), None), (KNOWN, "length"), (None, None)],
)
def test_what_no_record_holds_is_stored(page: Known | None, truncated: str | None, tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    unit = unit_of(page=page)
    where = writer.append(unit, exchange_of(unit, TEXT, truncated=truncated))
    writer.close()
    assert unit.size is None
    (path,) = paths_in(tmp_path)
    assert _head(path, where.record, where.end)[0]["WARC-Type"] == "response"


def test_a_304_with_an_endless_header_is_stored_as_it_came(tmp_path: Path) -> None:
    """In a field of the WARC header, each byte as an escape, it would be more than any reader takes."""
    writer = writer_in(tmp_path)
    unit = unit_of(page=KNOWN, reason=int(Reason.NOT_MODIFIED), status=304)
    exchange = exchange_of(unit, b"", NOT_MODIFIED.replace(b"\xe9", b"\xe9" * 200_000))
    where = writer.append(unit, exchange)
    writer.close()
    assert list(redo.units(Files(), str(tmp_path), 1)) == [(unit, exchange, where)]
    assert _head(paths_in(tmp_path)[0], where.record, where.end)[0]["WARC-Type"] == "response"


def test_a_date_refers_to_the_millisecond_that_was_written(tmp_path: Path) -> None:
    """A date of seconds with a fraction has no exact number: as many as there are name the record they came from."""
    writer = writer_in(tmp_path)
    for ms in range(0, 1000, 7):
        start = 1_700_000_000 + ms / 1000
        unit = unit_of(b"http://a.test/%d" % ms, start=start)
        first = writer.append(unit, exchange_of(unit, TEXT))
        again = unit_of(b"http://a.test/%d" % ms, page=KNOWN._replace(stored=start))
        where = writer.append(again, exchange_of(again, TEXT))
        raw = (tmp_path / (where.file + ".open")).read_bytes()
        dates = [
            gzip.decompress(raw[place.record : place.end]).partition(name)[2][:24]
            for place, name in ((first, b"WARC-Date: "), (where, b"WARC-Refers-To-Date: "))
        ]
        assert dates[0] == dates[1]


def test_all_that_reads_archives_knows_them(tmp_path: Path) -> None:
    writer = writer_in(tmp_path, dedupe_bytes_min=1024)
    for url in (b"http://a.test/", b"http://b.test/"):
        for page, header, reason in (
            (None, HEADER, Reason.OK), (KNOWN, HEADER, Reason.OK), (KNOWN, NOT_MODIFIED, Reason.NOT_MODIFIED),
        ):  # fmt: skip
            unit = unit_of(url, page=page, reason=int(reason))
            body = b"" if reason is Reason.NOT_MODIFIED else TEXT
            writer.append(unit, exchange_of(unit, body, header))
    writer.close()
    (path,) = paths_in(tmp_path)
    assert list(verify(Files(), [str(path)], Bar())) == []
    units = list(salvage.units(Files(), str(path)))
    assert units == list(redo.units(Files(), str(tmp_path), 1)) and len(units) == 6


def test_where_the_payload_is_damaged_the_outcome_is_not_lost(tmp_path: Path) -> None:
    writer = writer_in(tmp_path, dedupe_bytes_min=1024)
    places = []
    for url in (b"http://a.test/", b"http://b.test/"):
        unit = unit_of(url)
        places.append(writer.append(unit, exchange_of(unit, TEXT)))
    writer.close()
    (path,) = paths_in(tmp_path)
    raw = bytearray(path.read_bytes())
    raw[places[0].end - 12] ^= 1
    path.write_bytes(raw)
    ((unit, exchange, where),) = salvage.units(Files(), str(path))
    assert (unit.url, where) == (b"http://b.test/", places[1])
    assert exchange is not None and exchange.body == b"" and unit.size == len(TEXT)
