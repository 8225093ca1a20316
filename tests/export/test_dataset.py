"""Tables in a directory: bit by bit, resumed, changed archives anew; JSON lines and Parquet alike."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path

import pytest
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.export import dataset, pages
from irlcrawl.export.media import html
from irlcrawl.worker.page.labels import CODECS
from tests.cli.conftest import Run, tree
from tests.export.made import Page, add, make_job

PAGES = [
    Page("http://www.a.example/", b"""<html lang=en><head><title> A\n page </title>
        <meta name=description content="what it is"><link rel="x canonical" href="/home">
        <meta property="og:title" content="O"><base href="/b/"></head><body>
        <a href=c>c</a> <!-- <a href=no> --> <script type="application/ld+json">
        {"@graph": [{"@type": "Article", "author": {"@type": ["Person", "Agent"]}}]}</script></body>"""),
    Page("http://a.example:81/p?q=1", b"plain \xfc", {"Content-Type": "text/plain; charset=latin1"}),
    Page("http://a.example/robots.txt", b"User-agent: *\n", {"Content-Type": "text/plain"}, robots=True),
    Page("https://b.example/x", b"gone", {"Content-Type": "text/html"}, status=404, wishes="noai+train-ai=n"),
    Page("https://b.example/feed", b"<?xml version='1.0'?><rss><channel><title>News</title><language>de</language>"
         b"<item><title>One &amp; two</title><link>https://b.example/1</link></item></channel></rss>",
         {"Content-Type": "text/xml"}),
    Page("https://b.example/cut", b"%PDF-1.4", {"Content-Type": "text/html"}, truncated="length"),
]  # fmt: skip


@pytest.fixture
def job(tmp_path: Path) -> JobDir:
    job = make_job(tmp_path / "job", PAGES[:3])
    add(job, PAGES[3:], stream=2)
    return job


def rows_in(directory: Path) -> list[dict[str, object]]:
    return [json.loads(line) for path in sorted(directory.rglob("*.jsonl")) for line in path.read_text().splitlines()]


def rows_in_text(text: str) -> list[str]:
    return [str(json.loads(line)) for line in text.splitlines()]


def test_a_row_of_pages(job: JobDir, run: Run, tmp_path: Path) -> None:
    assert run("export", "pages", job.path, "-o", tmp_path / "out")[0] == ExitCode.DONE
    rows = {str(row["url"]): row for row in rows_in(tmp_path / "out")}
    first = rows["http://www.a.example/"]
    assert first["title"] == "A page" and first["description"] == "what it is" and first["lang"] == "en"
    assert first["canonical"] == "http://www.a.example/home" and first["opengraph"] == {"og:title": "O"}
    assert first["jsonld_types"] == ["Article", "Person", "Agent"] and first["links"] == 1
    assert first["url_surtkey"] == "example,a)/" and first["url_host_name_reversed"] == "example.a.www"
    assert first["url_host_registered_domain"] == "a.example" and first["fetch_time"] == "2023-11-14T22:30:00.000Z"
    plain = rows["http://a.example:81/p?q=1"]
    assert (plain["url_port"], plain["url_path"], plain["url_query"]) == (81, "/p", "q=1")
    assert (plain["content_charset"], plain["links"], plain["title"]) == ("WINDOWS-1252", None, None)
    assert [row["wishes"] for row in rows.values() if row["wishes"]] == ["noai+train-ai=n"]
    assert rows["https://b.example/x"]["wishes"] is not None
    feed, cut = rows["https://b.example/feed"], rows["https://b.example/cut"]
    assert (feed["content_mime_detected"], feed["title"], feed["lang"]) == ("application/rss+xml", "News", "de")
    assert (cut["content_mime_detected"], cut["content_truncated"]) == ("application/pdf", "length")
    assert rows["https://b.example/x"]["fetch_status"] == 404 and len(rows) == 5, "no robots.txt"


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_a_page_in_utf_16_was_taken_for_bytes(tmp_path: Path, run: Run, codec: str) -> None:
    """Every second byte of it is zero; its byte order mark says why."""
    body = ("\ufeff" + "<html><title>Größe</title><a href=/x>Länge</a>").encode(codec)
    job = make_job(tmp_path / "utf-16", [Page("http://a.example/", body, {"Content-Type": "text/html"})])
    row = json.loads(run("export", "pages", job.path)[1])
    assert (row["content_mime_detected"], row["content_charset"], row["title"]) == (
        "text/html",
        codec.upper().replace("16-", "16"),
        "Größe",
    )
    link = json.loads(run("export", "links", job.path)[1])
    assert (link["to_url"], link["anchor_text"]) == ("http://a.example/x", "Länge")


def test_a_page_that_was_as_before_has_a_row_without_content(job: JobDir, run: Run) -> None:
    """As in the index: its media type says that it is a revisit."""
    with open(job.warcs / "other-20230101000000000-00000-s0009.warc.gz", "wb") as stream:
        writer = WARCWriter(stream, gzip=True, warc_version="WARC/1.1")
        http = StatusAndHeaders("304 Not Modified", [("ETag", "x")], protocol="HTTP/1.1")
        for headers, url in ((http, "http://a.example/again"), (None, "http://a.example/bare")):
            writer.write_record(writer.create_revisit_record(url, "sha1:AAAA", url, "2023-01-01T00:00:00Z", headers))
    rows = [json.loads(line) for line in run("export", "pages", job.path)[1].splitlines()]
    found = {row["url"]: row for row in rows if row["content_mime_type"] == "warc/revisit"}
    again, bare = found["http://a.example/again"], found["http://a.example/bare"]
    assert (again["fetch_status"], bare["fetch_status"], again["content_digest"]) == (304, None, "AAAA")
    assert again["title"] is None and not [row for row in rows if row["url"] == bare["url"] and row["links"]]
    assert len(run("export", "links", job.path)[1].splitlines()) == 3


def test_a_page_of_which_its_server_says_that_it_is_as_before_had_no_status(job: JobDir, run: Run) -> None:
    """The header of a 304 stands beside its record, for replay tools would send the 304 on."""
    with open(job.warcs / "irlcrawl-20230101000000000-00000-s0009.warc.gz", "wb") as stream:
        writer = WARCWriter(stream, gzip=True, warc_version="WARC/1.1")
        unit = json.dumps({"segment": 0, "status": 304, "header": "HTTP/1.1 304 Not Modified\r\nETag: \xe9\r\n\r\n"})
        url = "http://a.example/again"
        writer.write_record(
            writer.create_revisit_record(
                url, "sha1:AAAA", url, "2023-01-01T00:00:00Z", warc_headers_dict={"Irlcrawl-Unit": unit}
            )
        )
    rows = {row["url"]: row for row in map(json.loads, run("export", "pages", job.path)[1].splitlines())}
    again = rows[url]
    assert (again["fetch_status"], again["content_mime_type"], again["title"]) == (304, "warc/revisit", None)


def test_what_is_new_is_added(job: JobDir, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("export", "pages", job.path, "-o", out)[0] == ExitCode.DONE
    before = {path.name: path.stat().st_ino for path in out.glob("*.jsonl")}
    add(job, [Page("http://c.example/")], stream=3)
    _, _, err = run("export", "pages", job.path, "-o", out, "--jobs", 2)
    assert "1 row of 1 archive added" in err
    assert {path.name: path.stat().st_ino for path in out.glob("*.jsonl")}.items() > before.items()
    (moved,) = job.warcs.glob("*s0001*")
    moved.unlink()
    assert "0 rows of 0 archives" in run("export", "pages", job.path, "-o", out)[2]
    assert len(rows_in(out)) == 6, "what was exported of an archive that was moved away stays"


def test_an_archive_that_was_changed_is_exported_anew(job: JobDir, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run("export", "links", job.path, "-o", out)
    (changed,) = job.warcs.glob("*s0001*")
    changed.unlink()
    add(job, [], stream=9)
    other = make_job(tmp_path / "other", [Page("http://z.example/", b"<a href=/1>1</a><a href=/2>2</a>")])
    (new,) = other.warcs.iterdir()
    new.rename(changed)
    assert "2 rows of 1 archive" in run("export", "links", job.path, "-o", out)[2]
    assert {row["from_url"] for row in rows_in(out)} == {"http://z.example/", "https://b.example/feed"}


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_export_that_is_interrupted_goes_on(
    job: JobDir, run: Run, tmp_path: Path, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    whole = tmp_path / "whole"
    run("export", "pages", job.path, "-o", whole)
    (broken,) = job.warcs.glob("*s0002*")
    kept = broken.read_bytes()
    broken.write_bytes(kept[:-9])
    code, _, err = run("export", "pages", job.path, "-o", out, "--jobs", jobs)
    assert code == ExitCode.DAMAGED and str(broken) in err
    assert not list(out.glob("*s0002*.jsonl")), "nothing half made has its name"
    assert len(list(out.iterdir())) == 2, "the state and the archive that is whole"
    code, streamed, _ = run("export", "pages", job.path)
    assert code == ExitCode.DAMAGED and set(rows_in_text(streamed)) >= set(map(str, rows_in(out)))
    broken.write_bytes(kept)
    with open(out / dataset.STATE, "ab") as stream:
        stream.write(b'{"archive": "tor')  # killed while it was written
    assert run("export", "pages", job.path, "-o", out, "--jobs", jobs)[0] == ExitCode.DONE
    same = {name: data for name, data in tree(out).items() if name != dataset.STATE}
    assert same == {name: data for name, data in tree(whole).items() if name != dataset.STATE}
    assert "0 rows of 0 archives" in run("export", "pages", job.path, "-o", out)[2]


def test_a_directory_in_which_nothing_was_exported_yet_takes_other_options(
    job: JobDir, run: Run, tmp_path: Path
) -> None:
    """After an export that failed at once, for want of a library, or was killed as it began, the same directory was
    refused: "made by an export with other options"."""
    begun = b'{"export": 2, "what": "pages", "format": "parquet"}\n'
    for number, state in enumerate((b"", begun[:16], begun)):
        out = tmp_path / str(number)
        out.mkdir()
        (out / dataset.STATE).write_bytes(state)
        code, _, err = run("export", "pages", job.path, "-o", out)
        assert code == ExitCode.DONE, err
        assert len(rows_in(out)) == 5 and "0 rows of 0 archives" in run("export", "pages", job.path, "-o", out)[2]


def test_two_exports_at_a_time_into_one_directory(job: JobDir, run: Run, tmp_path: Path) -> None:
    """They wrote into one another's files: one ended with "x.jsonl.tmp: No such file or directory"."""
    out = tmp_path / "out"
    with contextlib.closing(dataset.Dataset.open(str(out), dataset.Plan("pages"))):
        code, _, err = run("export", "pages", job.path, "-o", out)
        assert code == ExitCode.FAILED and "another export writes there now" in err and not list(out.glob("*.jsonl*"))
    assert run("export", "pages", job.path, "-o", out)[0] == ExitCode.DONE and len(rows_in(out)) == 5


@pytest.mark.parametrize("words", [[], ["--crawl", "C"]])
def test_rows_that_an_archive_has_no_more_are_gone(job: JobDir, run: Run, tmp_path: Path, words: list[str]) -> None:
    """The file of an archive whose last page was taken down stayed, with the page."""
    out = tmp_path / "out"
    run("export", "pages", job.path, "-o", out, *words)
    (changed,) = job.warcs.glob("*s0002*")
    other = make_job(tmp_path / "other", [Page("https://b.example/robots.txt", b"User-agent: *\n", robots=True)])
    (new,) = other.warcs.iterdir()
    new.rename(changed)
    assert run("export", "pages", job.path, "-o", out, *words)[0] == ExitCode.DONE
    assert {str(row["url"]) for row in rows_in(out) if "b.example" in str(row["url"])} == (
        {"https://b.example/robots.txt"} if words else set()
    )


def test_standard_output_has_the_same_rows(job: JobDir, run: Run, tmp_path: Path) -> None:
    for what in ("pages", "links"):
        run("export", what, job.path, "-o", tmp_path / what)
        streamed = [json.loads(line) for line in run("export", what, job.path)[1].splitlines()]
        assert streamed == rows_in(tmp_path / what) and streamed


def test_common_crawls_partitions(job: JobDir, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("export", "pages", job.path, "-o", out, "--crawl", "TEST-1")[0] == ExitCode.DONE
    subsets = {path.name: {row["url"] for row in rows_in(path)} for path in (out / "crawl=TEST-1").iterdir()}
    assert subsets["subset=robotstxt"] == {"http://a.example/robots.txt"}
    assert subsets["subset=crawldiagnostics"] == {"https://b.example/x"}
    assert len(subsets["subset=warc"]) == 4


@pytest.mark.parametrize("what", ["pages", "links"])
def test_parquet_has_the_rows_of_json_lines(job: JobDir, run: Run, tmp_path: Path, what: str) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is missing: pip install 'irlcrawl[export]'")
    run("export", what, job.path, "-o", tmp_path / "json")
    assert run("export", what, job.path, "-o", tmp_path / "out", "--format", "parquet")[0] == ExitCode.DONE
    found = [
        row for path in sorted((tmp_path / "out").glob("*.parquet")) for row in parquet.read_table(path).to_pylist()
    ]
    for row in found:
        row["fetch_time"] = (
            row["fetch_time"].strftime("%Y-%m-%dT%H:%M:%S.") + f"{row['fetch_time'].microsecond // 1000:03}Z"
        )
        if row.get("opengraph") is not None:
            row["opengraph"] = dict(row["opengraph"])
    assert found == rows_in(tmp_path / "json")


def test_hosts_and_graph_as_parquet(job: JobDir, run: Run, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is missing: pip install 'irlcrawl[export]'")
    assert run("export", "graph", job.path, "-o", tmp_path / "g", "--format", "parquet")[0] == ExitCode.DONE
    assert parquet.read_table(tmp_path / "g" / "vertices.parquet")["name"].to_pylist() == ["example.a", "example.b"]
    assert run("export", "hosts", job.path, "-o", tmp_path / "h.parquet", "--format", "parquet")[0] == ExitCode.DONE
    assert parquet.read_table(tmp_path / "h.parquet").num_rows == 0, "nothing was committed here"


def test_hosts_into_a_directory_leave_no_file_behind(job: JobDir, run: Run, tmp_path: Path) -> None:
    """The message named another file, x.tmp, and that was left there."""
    (tmp_path / "x").mkdir()
    code, _, err = run("export", "hosts", job.path, "-o", tmp_path / "x")
    assert code == ExitCode.FAILED and f"{tmp_path / 'x'}: a directory; name a file" in err
    assert not (tmp_path / "x.tmp").exists()


@pytest.mark.parametrize("what", ["hosts", "cdxj", "wacz"])
def test_a_device_was_replaced_by_a_file_and_so_was_a_symlink(job: JobDir, run: Run, tmp_path: Path, what: str) -> None:
    """`-o /dev/null` as root left a machine without that device."""
    pipe, link, away = tmp_path / "pipe", tmp_path / "link", tmp_path / "away"
    os.mkfifo(pipe)
    code, _, err = run("export", what, job.path, "-o", pipe)
    assert code == ExitCode.FAILED and f"{pipe}: a device or a pipe; name a file" in err and pipe.is_fifo()
    reads, writes = os.pipe()
    code, _, err = run("export", what, job.path, "-o", f"/dev/fd/{writes}")
    os.close(reads)
    os.close(writes)
    assert code == ExitCode.FAILED and "a device or a pipe; name a file" in err
    away.mkdir()
    link.symlink_to(away / "file")
    assert run("export", what, job.path, "-o", link)[0] == ExitCode.DONE
    assert link.is_symlink() and [path.name for path in away.iterdir()] == ["file"]
    code, _, err = run("export", what, job.path, "-o", tmp_path / "none" / "file")
    assert code == ExitCode.FAILED and f"there is no directory {tmp_path / 'none'}" in err


@pytest.mark.parametrize(
    ("what", "kept"),
    [
        ("pages", "interrupted: the archives that were done are kept in out; the same command goes on with the others"),
        ("wacz", "interrupted: out was not written; the same command begins anew, with the indexes of archives that"),
        ("hosts", "interrupted: out was not written; the same command begins anew\n"),
        (None, "interrupted: what was written to standard output is not all of it\n"),
    ],
)
def test_an_export_that_was_interrupted_said_nothing(
    job: JobDir, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, what: str | None, kept: str
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for at in ("dataset.write", "dataset.rows", "wacz.write", "hosts.rows"):
        monkeypatch.setattr(f"irlcrawl.export.{at}", interrupted)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    code, _, err = run("export", what or "pages", job.path, "--quiet", *(["-o", "out"] if what else []))
    assert code == ExitCode.INTERRUPTED and kept in err


def test_main_text_and_language(job: JobDir, run: Run, tmp_path: Path) -> None:
    pytest.importorskip("resiliparse", reason="resiliparse is missing: pip install 'irlcrawl[text]'")
    words = b"The quick brown fox jumps over the lazy dog, and then it goes home to sleep in the warm straw. " * 5
    add(
        job,
        [Page("http://t.example/", b"<body><nav><a href=/>Home</a></nav><main><p>" + words + b"</p></main>")],
        stream=5,
    )
    run("export", "pages", job.path, "-o", tmp_path / "out", "--text", "--language")
    row = next(row for row in rows_in(tmp_path / "out") if row["url"] == "http://t.example/")
    assert (
        row["content_languages"] == "eng" and "quick brown fox" in str(row["text"]) and "Home" not in str(row["text"])
    )


def test_the_graph_in_the_formats_of_others(job: JobDir, run: Run, tmp_path: Path) -> None:
    import gzip

    add(job, [Page("http://www.a.example/", b"<a href=https://b.example/>b</a><a href=http://c.example/>c</a>"
                                            b"<a href=http://d.a.example>d</a><a href=http://www.a.example./x>x</a>"),
              Page("http://b.example/", b"<a href=http://www.a.example/>a</a>"),
              Page("http://alone.example/")], stream=4)  # fmt: skip
    for format_ in ("cc", "webgraph"):
        assert run("export", "graph", job.path, "-o", tmp_path / "g", "--format", format_)[0] == ExitCode.DONE
    assert gzip.decompress((tmp_path / "g" / "vertices.txt.gz").read_bytes()).decode().splitlines() == [
        "0\texample.a\t3", "1\texample.alone\t1", "2\texample.b\t1", "3\texample.c\t1",
    ], "Common Crawl's graph of domains has the number of their hosts"  # fmt: skip
    assert b".tmp" not in (tmp_path / "g" / "vertices.txt.gz").read_bytes(), "`gunzip -N` made a file of that name"
    edges = [(0, 2), (0, 3), (2, 0)]
    packed = gzip.decompress((tmp_path / "g" / "edges.txt.gz").read_bytes())
    assert [tuple(map(int, line.split(b"\t"))) for line in packed.splitlines()] == edges
    assert (tmp_path / "g" / "graph.graph-txt").read_text().split("\n") == ["4", "2 3", "", "0", "", ""]
    assert run("export", "graph", job.path, "-o", tmp_path / "h", "--format", "cc", "--by", "host")[0] == ExitCode.DONE
    by_host = gzip.decompress((tmp_path / "h" / "vertices.txt.gz").read_bytes()).decode().splitlines()
    assert by_host[:3] == ["0\texample.a", "1\texample.a.d", "2\texample.a.www"], "that of hosts has not"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pages", "--format", "parquet"], "-o"),
        (["graph"], "-o"),
        (["links", "--text", "-o", "out"], "--text"),
        (["pages", "--format", "cc", "-o", "out"], "--format"),
        (["pages", "--crawl", "../up", "-o", "out"], "--crawl"),
        (["hosts", "--jobs", "2"], "--jobs"),
        (["pages", "-o", "taken"], "taken"),
    ],
)
def test_a_wrong_command_line(
    job: JobDir, run: Run, words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    code, _, err = run("export", words[0], job.path, *words[1:])
    assert code == ExitCode.CONFIG and said in err and not (tmp_path / "out").exists()


def test_another_export_into_the_same_directory_is_refused(job: JobDir, run: Run, tmp_path: Path) -> None:
    run("export", "pages", job.path, "-o", tmp_path / "out")
    code, _, err = run("export", "links", job.path, "-o", tmp_path / "out", "--format", "parquet")
    assert code == ExitCode.CONFIG
    assert "made by `export pages`, and this is `export links --format parquet`: give the same options" in err
    run("export", "graph", job.path, "-o", tmp_path / "graph", "--by", "host")
    code, _, err = run("export", "graph", job.path, "-o", tmp_path / "graph")
    assert code == ExitCode.CONFIG and "made by `export graph --by host`, and this is `export graph`" in err
    state = tmp_path / "out" / dataset.STATE
    state.write_bytes(state.read_bytes().replace(b'"export": 4', b'"export": 3'))
    code, _, err = run("export", "pages", job.path, "-o", tmp_path / "out")
    assert code == ExitCode.CONFIG and "made by another version of irlcrawl" in err


def test_an_archive_without_a_byte_passed_as_whole(job: JobDir, run: Run, tmp_path: Path) -> None:
    empty = max(job.warcs.iterdir())
    empty.write_bytes(b"")
    for what in ("pages", "links", "graph", "cdxj", "wacz"):
        code, _, err = run("export", what, job.path, "-o", tmp_path / what)
        assert code == ExitCode.DAMAGED and f"{empty}: damaged at offset 0: an empty archive" in err


@pytest.mark.parametrize("what", ["pages", "graph"])
def test_files_that_were_deleted_were_never_made_again(job: JobDir, run: Run, tmp_path: Path, what: str) -> None:
    out = tmp_path / "out"
    run("export", what, job.path, "-o", out)
    before = tree(out)
    for path in out.glob("*s000*"):
        path.unlink()
    assert run("export", what, job.path, "-o", out)[0] == ExitCode.DONE
    assert {name: data for name, data in tree(out).items() if name != dataset.STATE} == (
        {name: data for name, data in before.items() if name != dataset.STATE}
    )


def test_html_with_zeros_was_binary(tmp_path: Path, run: Run) -> None:
    """UTF-16 that only the header declares, and a page with a zero."""
    page = "<!doctype html><html><head><title>T</title></head><a href=/x>x</a>"
    job = make_job(tmp_path / "job", [
        Page("http://a.test/1", page.encode("utf-16-be"), {"Content-Type": "text/html; charset=utf-16be"}),
        Page("http://a.test/2", b"<header>\0</header><title>T</title><a href=/x>x</a>", {"Content-Type": "text/html"}),
        Page("http://a.test/3", b"a\0b", {"Content-Type": "text/plain"}),
    ])  # fmt: skip
    rows = [json.loads(line) for line in run("export", "pages", job.path)[1].splitlines()]
    assert [(row["title"], row["links"]) for row in rows] == [("T", 1), ("T", 1), (None, None)]
    assert rows[2]["content_mime_detected"] == "application/octet-stream"


def test_a_redirect_to_itself_was_a_link(tmp_path: Path, run: Run) -> None:
    there = {"Location": "/1", "Content-Type": "text/html"}
    job = make_job(tmp_path / "job", [Page("http://a.test/1", b"", there, status=302)])
    assert run("export", "links", job.path)[:2] == (ExitCode.DONE, "")


def test_what_a_killed_export_of_a_graph_left_stayed(job: JobDir, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run("export", "graph", job.path, "-o", out)
    (out / f"{dataset.TEMPORARY}x").mkdir()
    (out / f"{dataset.TEMPORARY}x" / "edges").touch()
    assert run("export", "graph", job.path, "-o", out)[0] == ExitCode.DONE
    assert not list(out.glob(f"{dataset.TEMPORARY}*")) and not list(out.glob("tmp*"))


def test_a_graph_in_an_earlier_format_was_left_as_it_was_unsaid(job: JobDir, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert "earlier export" not in run("export", "graph", job.path, "-o", out, "--format", "cc")[2]
    told = run("export", "graph", job.path, "-o", out)[2]
    assert "vertices.txt.gz and edges.txt.gz are of an earlier export, in another --format" in told


@pytest.mark.parametrize(
    ("library", "words", "extra"),
    [
        ("selectolax", [], "export"),
        ("pcre2", [], "export"),
        ("pyarrow", ["--format", "parquet"], "export"),
        ("resiliparse", ["--text"], "text"),
        ("resiliparse", ["--language"], "text"),
    ],
)
def test_a_missing_library_is_named(
    job: JobDir, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str, words: list[str], extra: str
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    code, _, err = run("export", "pages", job.path, "-o", tmp_path / "out", "--jobs", 1, *words)
    assert code == ExitCode.FAILED and f"pip install 'irlcrawl[{extra}]'" in err
    begun = [path.name for path in (tmp_path / "out").iterdir()] if (tmp_path / "out").exists() else []
    assert not begun, "of --text it showed when the export had begun"


def test_links_are_counted_as_a_browser_would() -> None:
    page = (
        b"<A HREF=1>x</A><a\nhref='2'><a title='>' href=3><area href=4><a name=x><abbr href=5><a data-href=6>"
        b"<!-- <a href=7> --><script>'<a href=8>'</script><textarea><a href=9></textarea>"
        b"<!--><a href=10><title><a href=11>"
    )
    assert html.read(page, "utf-8").links == 5


def test_each_charset_has_a_name_of_the_standard() -> None:
    """CP932 is Python's name; browsers and cc-index say Shift_JIS."""
    for label, codec in CODECS.items():
        assert CODECS[pages._charset_name(codec).lower()] == codec, label


def test_links_that_a_header_names_had_no_rows(tmp_path: Path, run: Run) -> None:
    """A crawl follows them; a PDF has no other way to say its canonical URL."""
    header = {"Content-Type": "application/pdf", "Refresh": "0; url=/on",
              "Link": '</c.html>; rel="canonical", </s.css>; rel=preload, </n>; rel=next'}  # fmt: skip
    html = Page(
        "http://a.test/h", b"<link rel=canonical href=/own><a href=/x>x</a>", header | {"Content-Type": "text/html"}
    )
    job = make_job(tmp_path / "headers", [Page("http://a.test/p", b"%PDF-1.4", header), html])
    pages_ = [json.loads(line) for line in run("export", "pages", job.path)[1].splitlines()]
    assert [page["canonical"] for page in pages_] == ["http://a.test/c.html", "http://a.test/own"]
    rows = [json.loads(line) for line in run("export", "links", job.path)[1].splitlines()]
    named = [("/c.html", "canonical", "link"), ("/n", "next", "link"), ("/on", None, "meta")]
    assert [(row["to_url"].removeprefix("http://a.test"), row["rel"], row["element"]) for row in rows] == [
        *named, *named, ("/own", "canonical", "link"), ("/x", None, "a"),
    ]  # fmt: skip
