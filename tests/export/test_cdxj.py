"""CDXJ: the same index as cdxj-indexer makes of the same archives; made once for each archive that is closed."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import subprocess
import threading
from pathlib import Path

from drum.files import Files

import pytest
from warcio.warcwriter import WARCWriter

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.base.reasons import Reason
from irlcrawl.export.processes import each
from irlcrawl.export.sorted_lines import SortedLines, merged
from tests.cli.conftest import Run
from tests.export.made import Page, add, make_job
from tests.whole import others

HTML = {"Content-Type": "text/html; charset=utf-8"}
PAGES = [
    Page("http://b.example/", b"<title>b</title>"),
    Page("http://www.a.example/x?b=2&a=1", b"hello", {"Content-Type": "Text/Plain;charset=x"}),
    Page("http://a.example/x?a=1&b=2", b"hello", {"content-TYPE": "text/html charset=y"}),
    Page("https://a.example/gone", b"", {}, status=404),
    Page("https://a.example/gone", b"", {}, status=404),
    Page("http://a.example/r", b"", {"Location": "/x"}, status=301),
    Page("http://a.example/robots.txt", b"User-agent: *\n", {"Content-Type": "text/plain"}, robots=True),
    Page("http://c.example/lost", reason=Reason.TIMEOUT, status=-4),
    Page("http://d.example/1", b"x", raw=b"HTTP/1.1  200  OK\r\nContent-Type:\r\n text/css\r\n\r\n"),
    Page("http://d.example/2", b"x", raw=b"HTTP/1.0 200\nContent-type : image/gif;x\nContent-Type: text/html\n\n"),
    Page("http://d.example/3", b"x", raw=b"HTTP/1.1 200 OK\r\nContent-Type: te\xe9xt/\xfc\r\nX-Y: \xc3\xbc\r\n\r\n"),
    Page("http://d.example/4", b"x", raw=b"HTTP/1.1 200 OK\r\nno colon\r\nContent-Type: a/b\r\n\r\n"),
    Page("http://m.www.e.example/", b"x"), Page("http://awww.e.example/", b"x"), Page("http://www2.e.example/", b"x"),
    Page("http://d.example/5", b"x", raw=b"HTTP/1.1 200 OK\r\nContent-Type:\r\n\r\n"),
]  # fmt: skip


@pytest.fixture
def job(tmp_path: Path) -> JobDir:
    job = make_job(tmp_path / "job", PAGES, roll_bytes=3000)
    add(job, PAGES[3:6], stream=2)
    return job


def test_the_index_is_that_of_cdxj_indexer(job: JobDir, run: Run) -> None:
    script = "import sys; from cdxj_indexer.main import write_cdx_index as w; w(sys.argv[1], sys.argv[2:], {'sort': 1})"
    python = others.python_with("cdxj_indexer.main")
    _of_others(job)
    paths = sorted(str(path) for path in job.warcs.iterdir())
    assert len(paths) > 3
    out = job.path.parent / "theirs.cdxj"
    subprocess.run([python, "-c", script, str(out), *paths], check=True)
    code, ours, err = run("export", "cdxj", job.path, "--jobs", 1)
    assert code == ExitCode.DONE, err
    assert ours == out.read_text()
    assert len(ours.splitlines()) == 22 and '"warc/revisit"' in ours


def _of_others(job: JobDir) -> None:
    """An archive with records that warcio wrote: a revisit with and one without a header, a resource, metadata."""
    from warcio.statusandheaders import StatusAndHeaders

    with open(job.warcs / "other-20230101000000000-00000-s0009.warc.gz", "wb") as stream:
        writer = WARCWriter(stream, gzip=True, warc_version="WARC/1.1")
        writer.write_record(writer.create_warcinfo_record("x", {"software": "other"}))
        http = StatusAndHeaders("304 Not Modified", [("Content-Type", "text/html")], protocol="HTTP/1.1")
        for headers, url in ((http, "http://a.example/again"), (None, "http://a.example/bare")):
            digest = "sha1:B6QJ6BNJ3R4B23XXMRKZKHLPGJY2VE4O"
            writer.write_record(writer.create_revisit_record(url, digest, url, "2023-01-01T00:00:00Z", headers))
        for kind, content_type in (("resource", "image/png"), ("metadata", "application/warc-fields"),
                                   ("metadata", "application/json")):  # fmt: skip
            payload = io.BytesIO(b"{}")
            url = f"http://a.example/{kind}"
            writer.write_record(writer.create_warc_record(url, kind, payload=payload, warc_content_type=content_type))


def test_an_archive_is_read_once(job: JobDir, run: Run) -> None:
    code, first, _ = run("export", "cdxj", job.path, "--jobs", 1, "--quiet")
    kept = {path.name: path.stat().st_ino for path in job.indexes.iterdir()}
    assert code == ExitCode.DONE and len(kept) == len(list(job.warcs.iterdir()))
    add(job, PAGES[:1], stream=3)
    (one,) = (path for path in job.warcs.iterdir() if path.name.endswith("-s0002.warc.gz"))
    one.write_bytes(one.read_bytes())  # whoever changes an archive gets another index
    os.utime(one, ns=(0, 0))
    out = job.path.parent / "all.cdxj"
    assert run("export", "cdxj", job.path, "-o", out)[:2] == (ExitCode.DONE, "")
    lines = out.read_text().splitlines()
    assert len(lines) == len(first.splitlines()) + 1 and lines == sorted(lines)
    same = {path.name for path in job.indexes.iterdir() if kept.get(path.name) == path.stat().st_ino}
    assert {name.removesuffix(".cdxj") for name in kept.keys() - same} == {one.name.removesuffix(".warc.gz")}


def test_an_open_archive_is_left_out_and_told(job: JobDir, run: Run) -> None:
    add(job, [Page("http://open.example/")], stream=4, close=False)
    for path in job.warcs.glob("*-s0004*"):
        assert path.name.endswith(".open")
    code, out, err = run("export", "cdxj", job.path)
    assert code == ExitCode.DONE and "open.example" not in out
    assert f"1 archive was left open by a crawl that was killed, and left out; irlcrawl resume {job.path} closes" in err
    with job:
        assert "1 archive is still written to and left out" in run("export", "cdxj", job.path)[2]


def test_a_crawl_that_cannot_be_written_to(job: JobDir, run: Run) -> None:
    job.indexes.write_text("in the way")
    code, out, _ = run("export", "cdxj", job.path)
    assert code == ExitCode.DONE and len(out.splitlines()) == 18


def test_nothing_is_written_into_a_snapshot(job: JobDir, run: Run) -> None:
    (job.path / "SNAPSHOT").touch()
    assert len(run("export", "cdxj", job.path)[1].splitlines()) == 18 and not job.indexes.exists()


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_damaged_archive_is_named_and_left_out(job: JobDir, run: Run, jobs: int) -> None:
    """One kept all others from being exported."""
    archives = sorted(job.warcs.iterdir())
    for one in archives[:2]:
        one.write_bytes(one.read_bytes()[:-9])
    code, out, err = run("export", "cdxj", job.path, "--jobs", jobs, "--quiet")
    assert code == ExitCode.DAMAGED and any(str(one) in err for one in archives[:2])
    assert "it was left out of the export, as was 1 more damaged archive; to check all of it" in err
    assert "move this one away" in err and "--repair" not in err
    for one in archives[:2]:
        one.unlink()
    assert run("export", "cdxj", job.path) == (ExitCode.DONE, out, "") and len(out.splitlines()) > 1


@pytest.mark.parametrize("words", [["cdxj"], ["nothing", "job"], ["cdxj", "job", "--jobs", "0"]])
def test_a_wrong_command_line(words: list[str], job: JobDir, run: Run) -> None:
    words = [str(job.path) if word == "job" else word for word in words]
    assert run("export", *words)[0] == ExitCode.CONFIG


def test_a_line_is_json_behind_key_and_time(job: JobDir, run: Run) -> None:
    (line,) = (line for line in run("export", "cdxj", job.path)[1].splitlines() if line.startswith("example,b)/ "))
    key, moment, values = line.split(" ", 2)
    record = json.loads(values)
    assert (key, moment) == ("example,b)/", "20231114223000") and record["url"] == "http://b.example/"
    with open(job.warcs / record["filename"], "rb") as stream:
        stream.seek(int(record["offset"]))
        assert stream.read(int(record["length"]))[:2] == b"\x1f\x8b"


def test_more_lines_than_memory_holds(tmp_path: Path) -> None:
    lines = SortedLines(str(tmp_path), run_bytes=200)
    words = [b"%d\n" % (number * 37 % 101) for number in range(300)]
    for word in words:
        lines.add(word)
    assert list(lines) == sorted(set(words)) and len(list(tmp_path.iterdir())) > 50


def test_more_files_than_are_merged_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irlcrawl.export.sorted_lines.FILES_MAX", 3)
    for number in range(11):
        (tmp_path / f"{number}.in").write_bytes(b"00\n%02d\n99\n" % number)
    paths = [str(path) for path in tmp_path.iterdir()]
    assert list(merged(paths, str(tmp_path))) == [*(b"%02d\n" % n for n in range(11)), b"99\n"]


def test_work_in_processes_is_the_same_work() -> None:
    assert sorted(each(abs, [-3, 1, -2], 2, [])) == sorted(each(abs, [-3, 1, -2], 1, []))


def wait_unless_first(number: int) -> int:
    if number:
        threading.Event().wait()
    return number


def test_an_interrupted_export_does_not_wait_for_its_processes() -> None:
    """It waited until the archives at hand were read, which may take minutes."""
    work = each(wait_unless_first, [0, 1, 2], 2, [])
    assert next(work) == (0, 0)
    work.close()
    assert not multiprocessing.active_children()


def test_reading_is_by_our_files(job: JobDir) -> None:
    from irlcrawl.export.archives import captures, closed

    archives, still_open = closed(job, Files())
    found = [capture.url for archive in archives for capture in captures(Files(), archive)]
    assert still_open == 0 and len(found) == 18 and "http://c.example/lost" not in found
