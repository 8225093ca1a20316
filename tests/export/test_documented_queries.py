"""The queries of README.md, run on an export by DuckDB and Polars; and the columns of Common Crawl's index."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.export.table import CAPTURE
from tests.cli.conftest import REPOSITORY, Run
from tests.export.made import Page, make_job

CC_INDEX = (
    "url_surtkey url url_host_name url_host_tld url_host_2nd_last_part url_host_3rd_last_part url_host_4th_last_part "
    "url_host_5th_last_part url_host_registry_suffix url_host_registered_domain url_host_private_suffix "
    "url_host_private_domain url_host_name_reversed url_protocol url_port url_path url_query fetch_time fetch_status "
    "fetch_redirect content_digest content_mime_type content_mime_detected content_charset content_languages "
    "content_truncated warc_filename warc_record_offset warc_record_length warc_segment"
)
"""The columns of cc-index, in order, without its partitions."""


def example(kind: str) -> str:
    (found,) = re.findall(rf"```{kind}\n(.*?)```", (REPOSITORY / "README.md").read_text(), re.DOTALL)
    return str(found)


@pytest.fixture
def tables(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> JobDir:
    pytest.importorskip("pyarrow", reason="pyarrow is missing: pip install 'irlcrawl[export]'")
    pages = [Page(f"http://www.a.example/{number}", b"<title>Page</title><a href=/gone>x</a>") for number in range(3)]
    job = make_job(
        tmp_path / "job", [*pages, Page("http://www.a.example/gone", b"no", status=404), Page("http://b.test/")]
    )
    monkeypatch.chdir(tmp_path)
    assert run("export", "pages", job.path, "-o", "pages", "--format", "parquet")[0] == ExitCode.DONE
    assert run("export", "links", job.path, "-o", "links", "--format", "parquet")[0] == ExitCode.DONE
    assert run("export", "pages", job.path, "-o", "cc", "--format", "parquet", "--crawl", "C-1")[0] == ExitCode.DONE
    return job


@pytest.mark.usefixtures("tables")
def test_duckdb() -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is missing: pip install duckdb")
    (row,) = duckdb.sql(example("sql")).fetchall()
    assert row[:2] == ("http://www.a.example/gone", 3) and row[2].startswith("http://www.a.example/")


@pytest.mark.usefixtures("tables")
def test_polars(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("polars", reason="polars is missing: pip install polars")
    values: dict[str, object] = {}
    exec(example("py"), values)
    assert values["sites"].collect().sort("pages").rows() == [("b.test", 1, None), ("a.example", 3, 4.0)]  # type: ignore[attr-defined]


@pytest.mark.usefixtures("tables")
def test_partitions_of_common_crawl_in_duckdb() -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is missing: pip install duckdb")
    table = "read_parquet('cc/**/*.parquet', hive_partitioning = true)"
    counted = duckdb.sql(
        f"SELECT crawl, subset, count(*), max(fetch_time) > '2023-11-14' FROM {table} GROUP BY ALL ORDER BY 2"
    )
    assert counted.fetchall() == [("C-1", "crawldiagnostics", 1, True), ("C-1", "warc", 4, True)]


def test_every_column_of_common_crawls_index_is_there() -> None:
    assert [column.name for column in CAPTURE] == CC_INDEX.split()
