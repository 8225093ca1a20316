"""Rows of pages that were as before: what they refer to, and with --originals what that says, whichever file has it."""

from __future__ import annotations

import json
import mmap
import shutil
import tempfile
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.config.toml import to_toml
from irlcrawl.export.dataset import STATE
from irlcrawl.export.originals import _first
from tests.cli.conftest import Run, tree
from tests.crawl.test_revisits import HTML, SITE, crawl_of
from tests.crawl.virtual_crawl import START, Answer, Crawl, Web
from tests.export.made import Page, make_job


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawl]:
    """Two runs of two pages: one that never changes, in the second run as in the first, and one that always does."""

    def mood(url: str, now: float) -> Answer | None:
        name = url.removeprefix(SITE)
        version = int(now - START) if name == "1" else 0
        title = f"<html lang=de><title>Nummer {name} {version}</title>"
        return Answer(200, HTML, (title + f"<a href={SITE}0></a><a href={SITE}1></a>" + "Text. " * 40).encode())

    with pytest.MonkeyPatch.context() as monkeypatch:
        web = Web({SITE: [f"{SITE}0", f"{SITE}1"]}, fetch_s=0.05)
        web.moods["a.test"] = mood
        crawl = crawl_of(tmp_path_factory.mktemp("originals"), web, monkeypatch, 20)
        assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT
        crawl.config.limits.pages = 40
        assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT
        crawl.job().config_file.write_text(to_toml(crawl.config))
        yield crawl


def rows_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_row_of_a_page_that_was_as_before_names_the_row_that_has_it(crawl: Crawl, run: Run) -> None:
    rows = rows_of(run("export", "pages", crawl.path)[1])
    whole = {(row["url"], row["fetch_time"]): row for row in rows if row["original_url"] is None}
    again = [row for row in rows if row["original_url"] is not None]
    assert len(rows) == 40 and len(again) > 10
    files = set()
    for row in again:
        assert (row["content_mime_type"], row["title"], row["links"]) == ("warc/revisit", None, None)
        assert row["content_truncated"] is None, "a record without a body was told as one that was cut"
        original = whole[row["original_url"], row["original_time"]]
        assert original["title"] and original["content_digest"] == row["content_digest"]
        files.add(original["warc_filename"] == row["warc_filename"])
    assert files == {True, False}, "in the same file, and in an older one"


def test_originals_fill_the_rows(crawl: Crawl, run: Run, tmp_path: Path) -> None:
    code, out, err = run("export", "pages", crawl.path, "--originals")
    assert code == ExitCode.DONE, err
    rows = rows_of(out)
    assert len(rows) == 40 and all(row["title"].startswith("Nummer ") and row["lang"] == "de" for row in rows)
    again = [row for row in rows if row["original_url"] is not None]
    assert {row["content_mime_type"] for row in again} == {"warc/revisit"}
    assert {(row["content_mime_detected"], row["content_charset"], row["links"]) for row in again} == {
        ("text/html", "UTF-8", 2)
    }
    assert len({row["title"] for row in rows if row["url"] == f"{SITE}0"}) == 1
    for jobs in (1, 2):
        assert run("export", "pages", crawl.path, "--originals", "-o", tmp_path / f"{jobs}", "--jobs", jobs)[0] == 0
        found = [row for path in sorted((tmp_path / f"{jobs}").glob("*.jsonl")) for row in rows_of(path.read_text())]
        assert sorted(map(str, found)) == sorted(map(str, rows))


def test_links_of_a_page_whose_body_is_stored_under_another_url(tmp_path: Path, run: Run) -> None:
    """They were in no table, and no edge of the graph was made of them."""
    body = b"<a href=next>On</a><a href=http://c.test/>C</a>" + b" " * 2000
    site_a, site_b = "http://a.test/", "http://b.test/"
    job = make_job(tmp_path / "job", [Page(site_a, body), Page(site_b, body)], dedupe_bytes_min=1024)
    assert {row["from_url"] for row in rows_of(run("export", "links", job.path)[1])} == {site_a}
    rows = rows_of(run("export", "links", job.path, "--originals")[1])
    assert [(row["from_url"], row["to_url"], row["anchor_text"]) for row in rows] == [
        (site, to, words) for site in (site_a, site_b) for to, words in ((f"{site}next", "On"), ("http://c.test/", "C"))
    ]
    assert run("export", "graph", job.path, "-o", tmp_path / "graph", "--originals")[0] == ExitCode.DONE
    degrees = {row["name"]: row["in_degree"] for row in rows_of((tmp_path / "graph" / "vertices.jsonl").read_text())}
    assert degrees == {"test.a": 0, "test.b": 0, "test.c": 2}


def test_an_original_in_a_file_that_was_moved_away_is_named_and_no_more(crawl: Crawl, run: Run, tmp_path: Path) -> None:
    first = min(crawl.job().warcs.iterdir())
    first.rename(tmp_path / first.name)
    try:
        code, out, _ = run("export", "pages", crawl.path, "--originals")
    finally:
        (tmp_path / first.name).rename(first)
    away = [row for row in rows_of(out) if row["title"] is None]
    assert code == ExitCode.DONE and away
    assert all(row["original_url"] == row["url"] and row["original_time"] < row["fetch_time"] for row in away)


@pytest.mark.parametrize("what", ["pages", "links", "graph"])
def test_an_original_that_was_still_being_written_was_never_looked_for_again(
    tmp_path: Path, run: Run, what: str
) -> None:
    """Beside a running crawl: the same command never filled the columns."""
    body = b"<title>T</title><a href=http://c.test/>C</a>" + b" " * 2000
    pages = [Page("http://a.test/", body), Page("http://b.test/", body)]
    job = make_job(tmp_path / "job", pages, dedupe_bytes_min=1024, roll_bytes=1)
    assert '"warc/revisit"' in run("export", "pages", job.path)[1]
    first, _ = sorted(job.warcs.iterdir())
    being_written = first.with_name(f"{first.name}.open")
    first.rename(being_written)
    out, whole = tmp_path / "out", tmp_path / "whole"
    assert run("export", what, job.path, "-o", out, "--originals")[0] == ExitCode.DONE
    being_written.rename(first)
    for directory in (out, whole):
        assert run("export", what, job.path, "-o", directory, "--originals")[0] == ExitCode.DONE
    assert {name: data for name, data in tree(out).items() if name != STATE} == (
        {name: data for name, data in tree(whole).items() if name != STATE}
    )
    if what == "pages":
        assert "0 rows of 0 archives" in run("export", what, job.path, "-o", out, "--originals")[2]


@pytest.mark.parametrize("what", ["pages", "links", "graph"])
def test_after_a_takedown_rows_of_other_archives_kept_what_was_taken_down(tmp_path: Path, run: Run, what: str) -> None:
    """A `revisit` record in an archive that did not change had the text of one that did."""
    jobs = []
    for name, target in (("job", "c"), ("other", "d")):
        body = f"<title>{target}</title><a href=http://{target}.test/>x</a>".encode() + b" " * 2000
        pages = [Page("http://a.test/", body), Page("http://b.test/", body)]
        jobs.append(make_job(tmp_path / name, pages, dedupe_bytes_min=1024, roll_bytes=1))
    first, changed = (min(job.warcs.iterdir()) for job in jobs)
    assert '"warc/revisit"' in run("export", "pages", jobs[0].path)[1]
    out, whole = tmp_path / "out", tmp_path / "whole"
    assert run("export", what, jobs[0].path, "-o", out, "--originals")[0] == ExitCode.DONE
    shutil.copyfile(changed, first)
    for directory in (out, whole):
        assert run("export", what, jobs[0].path, "-o", directory, "--originals")[0] == ExitCode.DONE
    assert {name: data for name, data in tree(out).items() if name != STATE} == (
        {name: data for name, data in tree(whole).items() if name != STATE}
    )
    assert not any(b"c.test" in data or b'"c"' in data for name, data in tree(out).items() if name != STATE)
    first.unlink()
    if what != "graph":
        assert "0 rows of 0 archives" in run("export", what, jobs[0].path, "-o", out, "--originals")[2]


def test_what_lists_say_takes_no_originals(crawl: Crawl, run: Run) -> None:
    code, _, err = run("export", "listed", crawl.path, "--originals")
    assert code == ExitCode.CONFIG and "--originals: export listed takes no such option" in err


WORDS = st.text("abc ", max_size=6).map(str.encode)


@given(st.lists(WORDS, min_size=1, max_size=30), WORDS)
def test_the_first_line_is_found_by_halves(lines: list[bytes], wanted: bytes) -> None:
    lines = sorted(line + b"\n" for line in lines)
    with tempfile.TemporaryFile() as stream:
        stream.write(b"".join(lines))
        stream.flush()
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as index:
            at = bisect_left(lines, wanted, key=lambda line: line[: len(wanted)])
            assert _first(index, wanted) == sum(map(len, lines[:at]))
