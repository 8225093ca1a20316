"""A crawl of the sample web, exported whole, says what its files say: read by code that shares nothing with ours."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.config.toml import to_toml
from tests.cli.conftest import Run
from tests.crawl.virtual_crawl import Answer, Crawl, Web
from tests.export import truth

SITE = Path(__file__).resolve().parents[2] / "tools" / "sampleweb" / "site"
TYPES = {
    ".html": "text/html",
    ".txt": "text/plain",
    ".css": "text/css",
    ".key": "application/octet-stream",
}


def served() -> dict[str, tuple[str, bytes]]:
    """URL -> (media type, body) of the files."""
    found = {}
    for path in sorted(file for file in SITE.rglob("*") if file.is_file()):
        host, *parts = path.relative_to(SITE).parts
        parts[-1] = "" if parts[-1] == "index.html" else parts[-1]
        url = f"http://{host}/" + quote("/".join(parts))
        body = path.read_bytes()
        charset = "iso-8859-1" if b"iso-8859-1" in body.lower() else "utf-8"
        found[url] = (
            TYPES.get(path.suffix, "text/html") + ("" if charset == "utf-8" else f"; charset={charset}"),
            body,
        )
    return found


@pytest.fixture
def crawled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, dict[str, truth.Page]]:
    files = served()
    web = Web()
    for url, (media_type, body) in files.items():
        web.answers[url] = Answer(200, {"content-type": media_type}, body)
    web.answers["http://garden.test/moved"] = Answer(301, {"location": "/about.html"})
    seeds = [url for url in files if url.endswith(("/", ".html"))] + ["http://garden.test/moved"]
    crawl = Crawl(tmp_path / "job", web, seeds, monkeypatch, workers=2)
    assert crawl.run() == ExitCode.DONE
    JobDir(crawl.path).write_config(to_toml(crawl.config))
    fetched = {url for url, (outcome, _) in crawl.outcomes().items() if outcome == "fetched"}
    pages = {}
    for url, (media_type, body) in files.items():
        if url in fetched and media_type.startswith("text/html"):
            pages[url] = truth.Page(url, body.decode("latin-1" if "8859" in media_type else "utf-8"))
    assert len(pages) > 15
    return crawl.path, pages


def exported(run: Run, *words: object) -> list[dict[str, object]]:
    code, out, err = run("export", *words, "--quiet")
    assert code == ExitCode.DONE, err
    return [json.loads(line) for line in out.splitlines()]


def test_pages(crawled: tuple[Path, dict[str, truth.Page]], run: Run) -> None:
    job, pages = crawled
    rows = {row["url"]: row for row in exported(run, "pages", job)}
    assert not [url for url in rows if str(url).endswith("/robots.txt")]
    assert rows["http://garden.test/moved"]["fetch_redirect"] == "http://garden.test/about.html"
    html = {
        url: row for url, row in rows.items() if row["content_mime_type"] == "text/html" and row["fetch_status"] == 200
    }
    assert html.keys() == pages.keys()
    for url, page in pages.items():
        row = html[url]
        told = (row["title"] or "", row["description"] or "", row["lang"] or "")
        assert told == (page.title, page.description, page.language), url
        assert row["warc_filename"] in {path.name for path in (job / "warcs").iterdir()}


def test_links_with_their_words(crawled: tuple[Path, dict[str, truth.Page]], run: Run) -> None:
    job, pages = crawled
    found: dict[object, list[tuple[object, object, object]]] = {url: [] for url in pages}
    redirects = []
    for row in exported(run, "links", job):
        if row["element"] == "redirect":
            redirects.append((row["from_url"], row["to_url"]))
        else:
            found[row["from_url"]].append((row["to_url"], row["anchor_text"] or "", row["rel"] or ""))
    assert redirects == [("http://garden.test/moved", "http://garden.test/about.html")]
    for url, page in pages.items():
        assert found[url] == page.links, url
    assert sum(map(len, found.values())) > 60


def test_hosts(crawled: tuple[Path, dict[str, truth.Page]], run: Run) -> None:
    job, _ = crawled
    rows = {row["url_host_name"]: row for row in exported(run, "hosts", job)}
    lines = [line.split("\t") for line in run("urls", job)[1].splitlines()]
    for host, row in rows.items():
        mine = [status for status, _, url in lines if url.split("/")[2] == host]
        assert row["status_2xx"] == sum(status.startswith("2") for status in mine), host
        assert row["fetched"] == sum(int(status) > 0 for status in mine), host
    assert set(rows) == {url.split("/")[2] for *_, url in lines} and {"garden.test", "library.garden.test"} <= set(rows)


def test_the_graph(crawled: tuple[Path, dict[str, truth.Page]], run: Run, tmp_path: Path) -> None:
    """Of hosts: an edge for each pair of them with a link between, and every fetched host is a vertex."""
    job, pages = crawled
    out = tmp_path / "graph"
    assert run("export", "graph", job, "-o", out, "--by", "host")[0] == ExitCode.DONE
    vertices = [json.loads(line) for line in (out / "vertices.jsonl").read_text().splitlines()]
    edges = [json.loads(line) for line in (out / "edges.jsonl").read_text().splitlines()]
    names = {row["id"]: ".".join(reversed(row["name"].split("."))) for row in vertices}
    expected = {
        (url.split("/")[2], link[0].split("/")[2].split(":")[0]) for url, page in pages.items() for link in page.links
    }
    expected = {(start, end) for start, end in expected if start != end}
    assert {(names[row["from_id"]], names[row["to_id"]]) for row in edges} == expected and len(edges) == len(expected)
    for row in vertices:
        name = names[row["id"]]
        assert row["in_degree"] == sum(end == name for _, end in expected)
        assert row["out_degree"] == sum(start == name for start, _ in expected)
    assert [row["name"] for row in vertices] == sorted(row["name"] for row in vertices)
    assert {url.split("/")[2] for url in pages} <= set(names.values())
