"""Real documentation, crawled and exported whole: titles, descriptions, languages and links with their words are those
that the standard library reads out of what the server has (tests/export/truth.py imports nothing of irlcrawl)."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from webcrawl import NO_GAPS, Crawl

from tests.export import truth
from tools.docsweb import oracle, serve
from tools.docsweb.sets import DocswebError
from tools.docsweb.web import Web

pytestmark = pytest.mark.slow


def asked(web: Web, url: str) -> bytes | None:
    """The body of a page of HTML that the server has; None for any other URL."""
    parts = urlsplit(url)
    (host,) = (host for served in web.sets for host in served.hosts if host.name == parts.hostname)
    with contextlib.closing(web.connect(host)) as connection:
        connection.request("GET", parts._replace(scheme="", netloc="").geturl(), headers={"Host": parts.netloc})
        response = connection.getresponse()
        body = response.read()
        html = response.status == 200 and response.getheader("Content-Type", "").startswith("text/html")
        return body if html else None


def exported(job: Path, what: str) -> list[dict[str, object]]:
    command = [sys.executable, "-m", "irlcrawl", "export", what, str(job), "--quiet"]
    told = subprocess.run(command, capture_output=True, check=True).stdout
    return [json.loads(line) for line in told.splitlines()]


@pytest.mark.parametrize("sets", ["gtk,python", "all"])
def test_an_export_says_what_the_files_say(sets: str, tmp_path: Path) -> None:
    job = tmp_path / "job"
    settings = NO_GAPS | {
        "page.links_max": 1_000_000, "fetch.body_bytes_max": 1 << 28,
        "archive.dedupe_bytes_min": 0,  # a revisit says which page it is as, not what that says
    }  # fmt: skip
    try:
        with serve.running(tmp_path / "web", sets) as web:
            ended = Crawl(job, f"127.0.0.1:{web.dns_port}", web.seeds, settings, web.network).run(250)
            assert ended.code == 0, ended.output
            bodies = {url: body for url in oracle.expected(web) if (body := asked(web, url)) is not None}
    except DocswebError as error:
        pytest.skip(f"docsweb cannot be served: {error}")
    pages = {row["url"]: row for row in exported(job, "pages") if row["content_mime_type"] == "text/html"}
    found: dict[object, list[tuple[object, object, object]]] = {}
    for row in exported(job, "links"):
        if row["element"] != "redirect":
            link = row["to_url"], row["anchor_text"] or "", row["rel"] or ""
            found.setdefault(row["from_url"], []).append(link)
    assert bodies.keys() <= pages.keys()
    differing = []
    for url, body in bodies.items():
        try:
            page = truth.Page(url, body.decode())
        except UnicodeDecodeError:
            page = truth.Page(url, body.decode("latin-1"))
        row = pages[url]
        told = row["title"] or "", row["description"] or "", row["lang"] or ""
        if told != (page.title, page.description, page.language) or found.get(url, []) != page.links:
            differing.append((url, told, [one for one in zip(found.get(url, []), page.links) if one[0] != one[1]][:2]))
    assert differing == [], len(differing)
