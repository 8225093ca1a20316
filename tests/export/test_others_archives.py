"""Archives that programs of others wrote, or that were changed: each odd record is read, or its archive is named as
damaged and all others are exported."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from tests.cli.conftest import Run
from tests.export.made import Page, make_job

HTML = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
FEED = b"HTTP/1.1 200 OK\r\nContent-Type: application/rss+xml\r\n"
RSS = b"<rss><item><link>/x</link></item></rss>"
DIGITS = b"&#" + b"9" * 9000 + b";"


def record(
    url: str = "http://b.test/", body: bytes = b"<title>x</title><a href=/y>y</a>", http: bytes = HTML, *lines: bytes,
    kind: bytes = b"response", date: str = "2026-01-01T00:00:00Z",
) -> bytes:  # fmt: skip
    block = http + b"\r\n" + body
    head = [
        b"WARC/1.1", b"WARC-Type: " + kind, b"WARC-Record-ID: <urn:uuid:88ab45e2-b2e5-4e55-8af9-b20a668f4030>",
        b"WARC-Target-URI: " + url.encode(), b"WARC-Date: " + date.encode(), *lines,
        b"Content-Type: application/http; msgtype=response", b"Content-Length: %d" % len(block), b"", b"",
    ]  # fmt: skip
    return gzip.compress(b"\r\n".join(head) + block + b"\r\n\r\n")


@pytest.fixture
def job(tmp_path: Path) -> JobDir:
    return make_job(tmp_path / "job", [Page("http://a.test/", b"<title>mine</title>")])


READ = {
    "url-not-ascii": record("http://é.test/é"),
    "url-without-path": record("http://b.test"),
    "url-of-dns": record("dns:b.test"),
    "feed-without-host": record("urn:b.test", b"<rss><item><link>/y</link></item></rss>", FEED),
    "url-in-brackets": record("<http://b.test/>", b"<rss><item><link>/y</link></item></rss>", FEED),
    "url-of-dns-list": record("dns:b.test", b"http://b.test/x\n", b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n",
                              b'Irlcrawl-Unit: {"source":6,"depth":1}'),
    "url-of-ftp-packed": record("ftp://b.test/x.gz", gzip.compress(RSS),
                                b"HTTP/1.1 200 OK\r\nContent-Type: application/gzip\r\n"),
    "url-bracket-alone": record("<http://b.test/", RSS, FEED),
    "refers-to-no-url": record(
        "http://b.test/", b"", HTML, b"WARC-Refers-To-Target-URI: http://[::1/x",
        b"WARC-Refers-To-Date: 2026-01-01T00:00:00Z", kind=b"revisit",
    ),
    "unit-none": record("http://b.test/", b"x", HTML, b"Irlcrawl-Unit: {4294967295"),
    "unit-list": record("http://b.test/", b"x", HTML, b"Irlcrawl-Unit: [4294967295]"),
    "unit-deep": record("http://b.test/", b"x", HTML, b'Irlcrawl-Unit: {"wishes":' + b"[" * 100_000 + b"4294967295"),
    "unit-wishes": record("http://b.test/", b"x", HTML, b'Irlcrawl-Unit: {"wishes":5}'),
    "unit-wishes-surrogate": record("http://b.test/", b"x", HTML, b'Irlcrawl-Unit: {"wishes":"\\ud800"}'),
    "unit-source": record("http://b.test/", b"x", HTML, b'Irlcrawl-Unit: {"source":"x","depth":"y"}'),
    "refers-to-no-date": record(
        "http://b.test/", b"", HTML, b"WARC-Refers-To-Target-URI: http://b.test/", b"WARC-Refers-To-Date: y",
        kind=b"revisit",
    ),
    "reference-of-digits": record("http://b.test/", b"<rss><item><title>" + DIGITS + b"</title></item></rss>", FEED),
    "reference-in-link": record("http://b.test/", b"<rss><item><link>" + DIGITS + b"</link></item></rss>", FEED),
    "header-folded": record("http://b.test/", b"x", HTML + b"X: 1\r\n" + b" x\n" * 20_000),
}  # fmt: skip
DAMAGED = {
    "url-port": record("http://b.test:xx/"),
    "url-port-beyond": record("http://b.test:99999999999999/"),
    "url-port-plain": record("http://b.test:99999/", RSS, FEED),
    "url-bracket": record("http://[::1/x"),
    "date-none": record(date=""),
    "date-words": record(date="yesterday"),
    "date-of-no-month": record(date="2026-99-01T00:00:00Z"),
}


@pytest.mark.parametrize("name", [*READ, *DAMAGED])
def test_a_record_of_others_ended_an_export_with_a_traceback(job: JobDir, run: Run, tmp_path: Path, name: str) -> None:
    (job.warcs / "others-20260101000000000-00000-s0009.warc.gz").write_bytes({**READ, **DAMAGED}[name])
    expected = ExitCode.DAMAGED if name in DAMAGED else ExitCode.DONE
    for words in (
        ["pages", "-o", tmp_path / "pages", "--format", "parquet"], ["links", "-o", tmp_path / "links"], ["listed"],
        ["graph", "-o", tmp_path / "graph"], ["cdxj"], ["wacz", "-o", tmp_path / "w.wacz"],
    ):  # fmt: skip
        code, _, err = run("export", words[0], job.path, *words[1:])
        assert code == expected and ("others-" in err) == (name in DAMAGED), err
    assert "mine" in run("export", "pages", job.path)[1], "the rows of the others"


def test_urls_in_brackets_or_capitals_as_wget_and_others_write_them_are_urls(job: JobDir, run: Run) -> None:
    """`export links` had no link of a page that wget had archived."""
    urls = b"<http://b.test/one>", b"HTTP://B.test:80/two"
    (job.warcs / "others-20260101000000000-00000-s0009.warc.gz").write_bytes(b"".join(record(u.decode()) for u in urls))
    pages = [json.loads(line) for line in run("export", "pages", job.path)[1].splitlines()]
    assert [page["url"] for page in pages if page["links"]] == ["http://b.test/one", "http://b.test/two"]
    links = [json.loads(line) for line in run("export", "links", job.path)[1].splitlines()]
    assert [(link["from_url"], link["to_url"]) for link in links] == [
        ("http://b.test/one", "http://b.test/y"), ("http://b.test/two", "http://b.test/y"),
    ]  # fmt: skip
    assert "\ntest,b)/one 2026" in run("export", "cdxj", job.path)[1]


def test_urls_of_wget_stood_in_brackets_in_every_table(job: JobDir, run: Run) -> None:
    (job.warcs / "others-20260101000000000-00000-s0009.warc.gz").write_bytes(
        record("<http://b.test/p>")
        + record("<http://b.test/f>", RSS, FEED)
        + record("<HTTP://B.test:80/Up>", b"")
        + record(
            "<http://b.test/again>", b"", HTML, b"WARC-Refers-To-Target-URI: <http://b.test/f>",
            b"WARC-Refers-To-Date: 2026-01-01T00:00:00Z", kind=b"revisit",
        )
        + record("<metadata://gnu.org/software/wget/warc/x>", kind=b"metadata")
    )  # fmt: skip

    def rows(what: str, *words: str) -> list[dict[str, object]]:
        code, out, err = run("export", what, job.path, *words)
        assert code == ExitCode.DONE, err
        return [json.loads(line) for line in out.splitlines()]

    urls = [f"http://b.test/{path}" for path in ("p", "f", "Up", "again")]
    pages = rows("pages", "--originals")
    assert [row["url"] for row in pages[1:]] == urls and pages[2]["url_surtkey"] == "test,b)/f"
    assert (pages[4]["original_url"], pages[4]["links"]) == ("http://b.test/f", 1)
    links = [(row["from_url"], row["to_url"]) for row in rows("links", "--originals")]
    assert links == [(urls[0], "http://b.test/y"), (urls[1], "http://b.test/x"), (urls[3], "http://b.test/x")]
    assert [row["list_url"] for row in rows("listed")] == urls[1:2]
    keys = [line.split(" ")[0] for line in run("export", "cdxj", job.path)[1].splitlines()]
    assert keys == [
        "org,gnu)/software/wget/warc/x",
        "test,a)/",
        *(f"test,b)/{one}" for one in ("again", "f", "p", "up")),
    ]
