"""The crawl log: twelve tokens whatever the web sends, read back as they were, found again in constant memory."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

from drum.files import Damaged, Files, Handle

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from irlcrawl.base.keys import priority_of
from irlcrawl.base.reasons import Class, Reason
from irlcrawl.base.rows import NO_SEGMENT, Carried, Source
from irlcrawl.worker.archive import crawl_log, log_parts
from irlcrawl.worker.archive.crawl_log import BadLine, LogEntry
from irlcrawl.worker.archive.unit import Location
from tests.worker.archive.support import exchange_of, failed_unit, unit_of

FILES = Files()
PLACE = Location("irlcrawl-20231114221320500-00000-s0007.warc.gz", 7, 0, 500, 900, 800, "sha1:" + "A" * 32)

ms = st.integers(0, 4_102_444_800_000)
texts = st.text(max_size=20) | st.sampled_from(["-", "", "\\", "\\x20", "a b", "a,b=c", "%20", "\r\n", "\x00"])
blobs = st.binary(max_size=30) | texts.map(str.encode)


@st.composite
def entries(draw: st.DrawFn) -> LogEntry:
    start_ms = draw(st.none() | ms)
    return LogEntry(
        logged_ms=draw(ms), status=draw(st.integers(-9999, 999)), size=draw(st.none() | st.integers(0, 2**40)),
        url=draw(blobs), path=draw(texts), via=draw(blobs), mime=draw(texts),
        stream=draw(st.none() | st.integers(0, 99_999)), start_ms=start_ms,
        duration_ms=draw(st.integers(0, 10**6)) if start_ms is not None else 0, digest=draw(texts), tag=draw(texts),
        notes=draw(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), texts, max_size=4)),
    )  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(entries())
@example(LogEntry(0, 0, None, b"-", "-", notes={"a": "-", "b": ""}))
def test_any_entry_is_twelve_plain_tokens_and_reads_back(entry: LogEntry) -> None:
    line = crawl_log.format_entry(entry)
    assert re.fullmatch(rb"[!-~]+( [!-~]+){11}", line)
    assert crawl_log.parse(line) == entry
    assert crawl_log.parse(line + b"\n") == entry


@pytest.mark.parametrize("line", [b"", b"-", b"\0" * 40, b"a b c d e f g h i j k l", b" " * 11])
def test_what_is_no_line_is_said_to_be_none(line: bytes) -> None:
    with pytest.raises(BadLine):
        crawl_log.parse(line)


def test_a_response_in_heritrix_fields() -> None:
    unit = unit_of(b"http://a.test/x?q=1", source=int(Source.FRAME), attempt=1)
    line = crawl_log.line(unit, exchange_of(unit, b"12345", truncated="length"), PLACE)
    assert line.decode().split(" ") == [
        "2023-11-14T22:13:20.375Z", "200", "5", "http://a.test/x?q=1", "1+E", "-", "text/html", "#007",
        "20231114221320250+125", "sha1:" + "A" * 32, "-",
        "outcome=fetched,reason=ok,attempt=1,truncated=length,address=192.0.2.7,"
        "warc=irlcrawl-20231114221320500-00000-s0007.warc.gz@800+600",
    ]  # fmt: skip
    entry = crawl_log.parse(line)
    assert (entry.outcome, entry.reason, entry.warc) == ("fetched", "ok", (PLACE.file, 800, 600))


@pytest.mark.parametrize(
    ("header", "noted"),
    [
        (b"Retry-After: 90", "90"), (b"Retry-After: soon, please", "soon, please"),
        (b"Retry-After: Tue, 14 Nov 2023 22:15:00 GMT", "Tue, 14 Nov 2023 22:15:00 GMT"),
        (b"Retry-After: Tue, 14 Nov 2023 22:15:00 GMT\r\nDate: Tue, 14 Nov 2023 22:13:30 GMT", "90"),
        (b"Retry-After: Tue, 14 Nov 2023 22:15:00 GMT\r\nDate: now", "Tue, 14 Nov 2023 22:15:00 GMT"),
        (b"Retry-After: soon\r\nDate: Tue, 14 Nov 2023 22:13:30 GMT", "soon"),
    ],
)  # fmt: skip
def test_what_a_server_asked_for_is_seconds_of_its_own_clock_where_that_is_known(header: bytes, noted: str) -> None:
    unit = unit_of(status=503)
    line = crawl_log.line(unit, exchange_of(unit, header=b"HTTP/1.1 503 Busy\r\n" + header + b"\r\n\r\n"), PLACE)
    assert crawl_log.parse(line).notes["retry_after"] == noted


def test_an_outcome_without_a_response_says_why() -> None:
    place = Location("f-20231114221320500-00000-s0001.warc.gz", 1, 0, 500, 300, 500, "")
    line = crawl_log.line(failed_unit(hop=2, source=int(Source.REDIRECT), detail="no route, to host"), None, place)
    assert line.decode().split(" ")[1:] == [
        "-2", "-", "http://a.test/gone", "2+RR", "-", "-", "#001", "20231114221320250+125", "-", "-",
        "outcome=failed,reason=connect,hop=2,detail=no\\x20route\\x2c\\x20to\\x20host,"
        "warc=f-20231114221320500-00000-s0001.warc.gz@500+300",
    ]  # fmt: skip
    assert crawl_log.parse(line).notes["detail"] == "no route, to host"


def test_an_outcome_decided_without_a_worker_is_in_the_log_too() -> None:
    refused = crawl_log.Decision(Class.EXCLUDED, Reason.ROBOTS, -9998, depth=1, hop=0, source=Source.LINK)
    lost = crawl_log.Decision(Class.FAILED, Reason.CONNECT, -2, depth=2, hop=1, source=Source.LINK, attempt=3)
    urls = [b"http://a.test/no", b"http://b.test/", b"http://a.test/\xe9"]
    lines = crawl_log.decided_lines(urls, [refused, lost, refused], 1_700_000_000.5)
    assert lines == [
        b"2023-11-14T22:13:20.500Z -9998 - http://a.test/no L - - - - - - outcome=excluded,reason=robots",
        b"2023-11-14T22:13:20.500Z -2 - http://b.test/ 2+R - - - - - - "
        b"outcome=failed,reason=connect,hop=1,attempt=3",
        b"2023-11-14T22:13:20.500Z -9998 - http://a.test/\\xe9 L - - - - - - outcome=excluded,reason=robots",
    ]  # fmt: skip
    assert crawl_log.parse(lines[0]).warc is None


def test_a_failure_that_passes_differs_from_a_last_word_and_from_what_is_put_back() -> None:
    """Which is which was to be seen in nothing but the order of lines."""
    passing = replace(failed_unit(), cls=Class.RETRY, retry_due=1_700_000_100.25)
    first = crawl_log.parse(crawl_log.line(passing, None, PLACE))
    assert (first.outcome, first.notes["due"]) == ("retry", "2023-11-14T22:15:00.250Z")
    last = crawl_log.parse(crawl_log.line(failed_unit(), None, PLACE))
    assert last.outcome == "failed" and "due" not in last.notes
    decided = crawl_log.Decision(Class.RETURNED, Reason.TIMEOUT, -4, 2, 0, Source.LINK, was=Class.FAILED)
    (back,) = map(crawl_log.parse, crawl_log.decided_lines([b"http://a.test/x"], [decided], 1_700_000_200.0))
    assert (back.outcome, back.reason, back.notes["was"], back.status) == ("returned", "timeout", "failed", -4)
    assert (back.path, back.start_ms, back.warc) == ("1+L", None, None)


@given(st.integers(0, 300), st.integers(0, 9), st.sampled_from(Source), st.sampled_from([b"", b"p"]))
def test_how_a_url_was_found_is_read_back_from_its_line(depth: int, hop: int, source: Source, path: bytes) -> None:
    kinds = (Source.SEED, Source.REDIRECT)
    source = Source.REDIRECT if hop else Source.SEED if not depth else source if source not in kinds else Source.LINK
    url = b"http://a.test/" + path
    decided = crawl_log.Decision(Class.EXCLUDED, Reason.ROBOTS, -9998, depth, hop, source)
    (line,) = crawl_log.decided_lines([url], [decided], 0.0)
    carried = crawl_log.carried_of(crawl_log.parse(line))
    assert carried == Carried(depth, hop, source, priority_of(depth, source, not path))


@pytest.mark.parametrize("path", ["x+L", "Z", "3+Z", "+"])
def test_a_way_that_nobody_went_is_said_to_be_none(path: str) -> None:
    with pytest.raises(BadLine, match="no discovery path"):
        crawl_log.carried_of(LogEntry(0, -4, None, b"http://a.test/", path))


def test_a_type_is_one_token_whatever_the_server_calls_it() -> None:
    unit = unit_of()
    for sent, logged in [
        (b"Text/HTML; charset=x", "text/html"), (b"text/html, text/html", "text/html"), (b"", "unknown"),
        (b"text/html charset=x", "text/html"), (b"a b\xe9", "unknown"), (b"-", "unknown"),
    ]:  # fmt: skip
        exchange = exchange_of(unit, header=b"HTTP/1.1 200 OK\r\nContent-Type: " + sent + b"\r\n\r\n")
        assert crawl_log.parse(crawl_log.line(unit, exchange, PLACE)).mime == logged


@pytest.mark.parametrize(
    ("depth", "hop", "source", "path"),
    [
        (0, 0, Source.SEED, ""), (0, 1, Source.REDIRECT, "R"), (0, 3, Source.REDIRECT, "RRR"), (1, 0, Source.LINK, "L"),
        (4, 0, Source.SCRIPT, "3+X"), (4, 1, Source.REDIRECT, "4+R"), (1, 0, Source.CANONICAL, "C"),
    ],
)  # fmt: skip
def test_discovery_paths_tell_what_is_known(depth: int, hop: int, source: Source, path: str) -> None:
    assert crawl_log.discovery_path(depth, hop, source) == path


def entry_of(url: str, status: int, reason: str, at: int = 0, warc: bool = False) -> LogEntry:
    notes = {"outcome": "fetched", "reason": reason} | ({"warc": f"f@{at}+1"} if warc else {})
    return LogEntry(at, status, None, url.encode(), "L", digest="sha1:A" if warc and status > 0 else "", notes=notes)


def write_log(path: Path, log: list[LogEntry], torn: bytes = b"") -> str:
    path.write_bytes(b"".join(crawl_log.format_entry(entry) + b"\n" for entry in log) + torn)
    return os.fspath(path)


LOG = [
    entry_of("http://a.test/", 200, "ok"),
    entry_of("http://a.test:8080/", 404, "http_error"),
    entry_of("http://a.test.example/", 403, "http_error"),
    entry_of("http://b.test/a.test/", -9998, "robots"),
    entry_of("http://b.test/reason=robots", 200, "ok"),
    entry_of("http://[::1]:80/", 500, "http_error"),
    entry_of("http://a.test?q", 301, "redirect"),
]


@pytest.mark.parametrize(
    ("filters", "chosen"),
    [
        ({}, range(7)), ({"status": "200"}, [0, 4]), ({"status": "4xx"}, [1, 2]), ({"status": "-9998"}, [3]),
        ({"status": "20"}, []), ({"host": "a.test"}, [0, 1]), ({"host": "A.TEST:8080"}, [1]), ({"host": "::1"}, [5]),
        ({"host": "[::1]"}, [5]), ({"reason": "robots"}, [3]), ({"reason": "http_error", "host": "a.test"}, [1]),
    ],
)  # fmt: skip
def test_entries_are_chosen_by_status_host_and_reason(
    tmp_path: Path, filters: dict[str, str], chosen: list[int]
) -> None:
    path = write_log(tmp_path / "crawl.log", LOG)
    assert list(log_parts.read(FILES, path, **filters)) == [LOG[i] for i in chosen]


def test_a_status_that_is_none_is_refused(tmp_path: Path) -> None:
    path = write_log(tmp_path / "crawl.log", LOG)
    for status in ("", "4.*", "ok"):
        with pytest.raises(ValueError, match="a status is"):
            list(log_parts.read(FILES, path, status=status))


def test_a_torn_last_line_is_no_line_and_any_other_is_an_error(tmp_path: Path) -> None:
    torn = crawl_log.format_entry(LOG[0])[:-5]
    assert list(log_parts.read(FILES, write_log(tmp_path / "torn.log", LOG, torn))) == LOG
    assert list(log_parts.read(FILES, write_log(tmp_path / "empty.log", []))) == []
    with pytest.raises(Damaged):
        list(log_parts.read(FILES, write_log(tmp_path / "bad.log", LOG, b"what is this\n")))


def test_a_line_that_is_none_was_said_without_its_file(tmp_path: Path) -> None:
    lines = [crawl_log.format_entry(entry) + b"\n" for entry in LOG]
    path = os.fspath(tmp_path / "crawl.log")
    for at in range(len(LOG)):
        spoilt = b"x" + lines[at][1:]
        (tmp_path / "crawl.log").write_bytes(b"".join([*lines[:at], spoilt, *lines[at + 1 :]]))
        place = f"{path}.*offset {len(b''.join(lines[:at]))}\\b"
        with pytest.raises(Damaged, match=place):
            list(log_parts.read(FILES, path))
        with pytest.raises(Damaged, match=place):
            list(log_parts.entries_of(FILES, path, LOG[at].url))


def test_rolled_parts_are_read_before_the_log_they_left(tmp_path: Path) -> None:
    path = write_log(tmp_path / "crawl.log", LOG[6:])
    write_log(tmp_path / "crawl.log.2", LOG[2:4])
    write_log(tmp_path / "crawl.log.10", LOG[4:6])
    write_log(tmp_path / "crawl.log.1", LOG[:2])
    write_log(tmp_path / "crawl.log.old", LOG)
    assert list(log_parts.read(FILES, path)) == LOG


class SmallReads(Files):
    """Gives a few bytes at a time, as if the file were so many times larger."""

    def __init__(self, most: int) -> None:
        self.most = most

    def pread(self, handle: Handle, length: int, offset: int) -> bytes:
        return super().pread(handle, min(length, self.most), offset)


@pytest.mark.parametrize("most", [1, 7, 100, 4096])
def test_lines_are_whole_wherever_a_read_ends(tmp_path: Path, most: int) -> None:
    path = write_log(tmp_path / "crawl.log", LOG, b"2023-11")
    assert list(log_parts.read(SmallReads(most), path)) == LOG
    assert log_parts.find(log_parts.entries_of(SmallReads(most), path, b"http://a.test?q"))[0] == LOG[6]


def test_a_file_without_lines_is_not_read_into_memory(tmp_path: Path) -> None:
    path = tmp_path / "crawl.log"
    with path.open("wb") as file:
        file.truncate(1 << 34)  # sparse
    with pytest.raises(Damaged, match="no line ends"):
        list(log_parts.read(FILES, os.fspath(path)))


def test_find_gives_the_last_entry_and_the_last_response(tmp_path: Path) -> None:
    url = "http://a.test/x"
    log = [
        entry_of(url, 503, "throttled", 1, warc=True),
        entry_of(url + "/", 200, "ok", 2, warc=True),
        entry_of(url, 200, "ok", 3, warc=True),
        entry_of("http://b.test/", 200, "ok", 4, warc=True),
        entry_of(url, -2, "connect", 5, warc=True),
        entry_of("http://b.test/" + url, 200, "ok", 6, warc=True),
    ]
    path = write_log(tmp_path / "crawl.log", log)
    assert log_parts.find(log_parts.entries_of(FILES, path, url.encode())) == (log[4], log[2])
    assert log_parts.find(log_parts.entries_of(FILES, path, b"http://a.test/")) == (None, None)
    write_log(tmp_path / "crawl.log", [])
    write_log(tmp_path / "crawl.log.1", log[:2])
    assert log_parts.find(log_parts.entries_of(FILES, path, url.encode())) == (log[0], log[0])


def test_robots_txt_is_outside_the_ledger_and_says_so() -> None:
    unit = unit_of(b"http://a.test/robots.txt", segment=NO_SEGMENT, cls=int(Class.NONE), depth=0)
    assert crawl_log.parse(crawl_log.line(unit, exchange_of(unit), PLACE)).outcome == "none"


def test_the_start_of_a_request_is_read_without_the_rest_of_its_line() -> None:
    line = b"2026-11-23T12:00:00.000Z 200 9 http://a.test/ - - text/html #001 20261123115959750+123 sha1:A - -"
    assert crawl_log.started_of(line) == crawl_log.parse(line).start_ms
    assert crawl_log.started_of(line.replace(b"20261123115959750+123", b"-")) is None
    for bad in (b"", line + b" more", line.replace(b"+123", b"")):
        with pytest.raises(crawl_log.BadLine):
            crawl_log.started_of(bad)
