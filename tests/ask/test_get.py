"""Pages out of the archive of a crawl, running or over, and plain words where there is none."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path

from drum.files import Damaged, Files

import brotlicffi as brotli
import pytest
import zstandard

from irlcrawl.ask import get
from irlcrawl.ask.get import Unavailable
from irlcrawl.base.reasons import Class, Reason
from irlcrawl.base.rows import Source
from irlcrawl.worker.archive import crawl_log, log_parts
from irlcrawl.worker.archive.warc import Exchange, Unit, WarcWriter
from tests.worker.archive.support import exchange_of, failed_unit, unit_of, writer_in

PAGE = b"<html>" + b"<p>page</p>" * 500
HTML = b"Content-Type: text/html"


class Job:
    """A job directory as far as `get` looks at it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.warcs = path / "warcs"
        self.warcs.mkdir(parents=True)
        self.log = path / "logs" / "crawl.log"
        self.log.parent.mkdir()
        self.writer: WarcWriter = writer_in(self.warcs)

    def add(self, unit: Unit, exchange: Exchange | None) -> None:
        self.log_line(crawl_log.line(unit, exchange, self.writer.append(unit, exchange)))

    def add_page(self, url: bytes, body: bytes = PAGE, *header: bytes, status: int = 200) -> None:
        unit = unit_of(url, status=status)
        head = b"\r\n".join((b"HTTP/1.1 %d Whatever" % status, *header, b"", b""))
        self.add(unit, exchange_of(unit, body, head))

    def log_line(self, line: bytes) -> None:
        with self.log.open("ab") as file:
            file.write(line + b"\n")

    def get(self, url: str | bytes, what: get.What = "payload") -> bytes:
        return get.get(self.path, url, what)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path / "job")


CODINGS = {
    "gzip": lambda data: gzip.compress(data, mtime=0),  # the same bytes in the next second
    "br": brotli.compress,
    "zstd": zstandard.compress,
}


@pytest.mark.parametrize("coding", CODINGS)
def test_a_payload_is_what_the_page_was(job: Job, coding: str) -> None:
    header = (HTML, b"Transfer-Encoding: chunked", b"Content-Encoding: " + coding.encode())
    job.add_page(b"http://a.test/", CODINGS[coding](PAGE), *header)
    assert job.get("http://a.test/") == PAGE
    assert job.get("http://a.test/", "headers") == b"\r\n".join((b"HTTP/1.1 200 Whatever", *header, b"", b""))
    record = job.get("http://a.test/", "record")
    assert record.startswith(b"WARC/1.1\r\nWARC-Type: response\r\n")
    assert record.endswith(CODINGS[coding](PAGE) + b"\r\n\r\n")


def test_codings_on_lines_of_their_own_are_all_taken_off(job: Job) -> None:
    body = brotli.compress(gzip.compress(PAGE))
    job.add_page(b"http://a.test/", body, b"Content-Encoding: gzip", b"content-encoding: br")
    assert job.get("http://a.test/") == PAGE


def test_what_is_whole_of_a_cut_or_damaged_body_is_given(job: Job) -> None:
    job.add_page(b"http://a.test/cut", gzip.compress(PAGE, mtime=0)[:-12], HTML, b"Content-Encoding: gzip")
    assert PAGE.startswith(job.get("http://a.test/cut"))
    job.add_page(b"http://a.test/plain", PAGE, HTML, b"Content-Encoding: gzip")
    assert job.get("http://a.test/plain") == PAGE
    job.add_page(b"http://a.test/none", b"", HTML)
    assert job.get("http://a.test/none") == b""


def test_a_bomb_is_refused_and_its_record_is_there(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(get, "DECODED_BYTES_MAX", len(PAGE) - 1)
    job.add_page(b"http://a.test/", gzip.compress(PAGE), b"Content-Encoding: gzip")
    with pytest.raises(Unavailable, match=f"decode to more than {len(PAGE) - 1}"):
        job.get("http://a.test/")
    assert b"Content-Encoding: gzip" in job.get("http://a.test/", "record")


def test_a_url_may_be_written_as_people_write_it(job: Job) -> None:
    job.add_page(b"http://a.test/caf%C3%A9?x=%20y")
    assert job.get("HTTP://A.Test:80/./café?x= y#part") == PAGE
    assert job.get(b"http://a.test/caf%C3%A9?x=%20y") == PAGE


def test_the_archive_is_read_while_it_is_written_and_after(job: Job) -> None:
    job.add_page(b"http://a.test/")
    assert job.get("http://a.test/") == PAGE
    job.writer.close()
    assert job.get("http://a.test/") == PAGE
    job.add_page(b"http://a.test/", b"newer")
    assert job.get("http://a.test/") == b"newer"


def test_the_last_response_counts_whatever_came_after_it(job: Job) -> None:
    job.add_page(b"http://a.test/gone", b"busy", status=503)
    job.add(failed_unit(b"http://a.test/gone"), None)
    assert job.get("http://a.test/gone") == b"busy"
    assert job.get("http://a.test/gone", "record").startswith(b"WARC/1.1\r\nWARC-Type: response")


def test_what_was_not_archived_is_explained(job: Job) -> None:
    url = "http://a.test/gone"
    with pytest.raises(LookupError, match="not in the crawl log: still waiting"):
        job.get(url)
    job.add(failed_unit(url.encode()), None)
    said = "no response is archived: failed, reason connect, status -2, at 2023-11-14T22:13:20.375Z"
    with pytest.raises(LookupError, match=re.escape(f"{url}: {said} (its WARC record says more)")):
        job.get(url)
    assert b"detail: connection refused" in job.get(url, "record")
    refused = crawl_log.Decision(Class.EXCLUDED, Reason.ROBOTS, -9998, depth=1, hop=0, source=Source.LINK)
    job.log_line(*crawl_log.decided_lines([b"http://a.test/no"], [refused], 1_700_000_000))
    for what in ("payload", "headers", "record"):
        with pytest.raises(LookupError, match=r"excluded, reason robots, status -9998, at [^ ]*Z$"):
            job.get("http://a.test/no", what)
    with pytest.raises(LookupError, match="mailto:me: not a URL that a crawl fetches"):
        job.get("mailto:me")


def test_a_directory_that_is_no_job_has_no_pages(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="not in the crawl log"):
        get.get(tmp_path, "http://a.test/")


def test_a_file_moved_away_is_named(job: Job) -> None:
    job.add_page(b"http://a.test/")
    job.writer.close()
    (path,) = job.warcs.iterdir()
    path.rename(job.path / "elsewhere")
    with pytest.raises(LookupError, match=f"archived in {path.name} at offset [0-9]+, but .*warcs has no such file"):
        job.get("http://a.test/")


def test_an_archive_that_is_not_what_the_log_says_is_damage(job: Job) -> None:
    job.add_page(b"http://a.test/one")
    job.add_page(b"http://a.test/two")
    job.writer.close()
    one, two = log_parts.read(Files(), os.fspath(job.log))
    assert one.warc and two.warc
    job.log.write_bytes(job.log.read_bytes().replace(b"http://a.test/two", b"http://a.test/six"))
    with pytest.raises(Damaged, match=f"at offset {two.warc[1]}: the crawl log says"):
        job.get("http://a.test/six")
    (path,) = job.warcs.iterdir()
    data = bytearray(path.read_bytes())
    data[one.warc[1] + 200] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(Damaged, match=f"at offset {one.warc[1]}: not a gzip member"):
        job.get("http://a.test/one")
    path.write_bytes(bytes(data[: one.warc[1]]))
    with pytest.raises(Damaged, match="the file ends where a record should begin"):
        job.get("http://a.test/one")


def test_a_place_beyond_any_file_in_the_log_is_damage(job: Job) -> None:
    """A traceback: the number did not fit into what a file takes."""
    job.add_page(b"http://a.test/one")
    job.writer.close()
    (one,) = log_parts.read(Files(), os.fspath(job.log))
    assert one.warc
    name, offset, _ = one.warc
    told = job.log.read_bytes()
    job.log.write_bytes(told.replace(f"{name}@{offset}+".encode(), f"{name}@{'9' * 30}+".encode()))
    with pytest.raises(Damaged, match="where no file reaches"):
        job.get("http://a.test/one")
