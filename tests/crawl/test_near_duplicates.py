"""Mirrors with edited words in whole crawls: a drum sees them where the fingerprint of texts does not."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from irlcrawl.base.job import JobDir
from irlcrawl.base.keys import name_key
from irlcrawl.config.toml import to_toml
from irlcrawl.frontier.state.view import Reading
from irlcrawl.terminal.progress import Bar
from irlcrawl.upkeep.fsck import Fsck
from tests.crawl.virtual_crawl import Answer, Crawl, Killed, Web

HTML = {"content-type": "text/html"}
PAGES = 6


def text(number: int, word: str) -> str:
    drawn = random.Random(number)
    words = ["".join(drawn.choices("abcdefghijklmnop", k=drawn.randint(2, 9))) for _ in range(400)]
    words[50] = word
    return "".join(f"<p>{' '.join(words[at : at + 20])} end of paragraph.</p>" for at in range(0, 400, 20))


def mirrored() -> Web:
    """Two sites with the same articles, in each of which the second has another word; each supports a site."""
    web = Web(fetch_s=0.1)
    for site in ("first", "mirror"):
        links = "".join(f'<a href="/{number}">x</a>' for number in range(PAGES))
        links += f"<p>This is the home page of {site}, which has some articles and not much more to say than that.</p>"
        links += '<a href="http://mirror.test/">x</a>' if site == "first" else ""
        web.answers[f"http://{site}.test/"] = Answer(200, HTML, links.encode())
        for number in range(PAGES):
            body = f'{text(number, site)}<a href="http://{site}-{number}.test/">x</a>'
            web.answers[f"http://{site}.test/{number}"] = Answer(200, HTML, body.encode())
    return web


def crawled(path: Path, monkeypatch: pytest.MonkeyPatch, on: bool = True, kills: int = 0) -> Crawl:
    """One worker, first.test before mirror.test."""
    crawl = Crawl(path, mirrored(), ["http://first.test/"], monkeypatch)
    crawl.config.page.near_duplicates = on
    crawl.config.budgets.link_list_sites = 0
    seen = 0

    def request(url: str) -> None:
        nonlocal seen
        seen += 1
        if kills and seen in (5, 12, 20)[:kills]:
            crawl.kill()

    crawl.on_request = request
    for _ in range(kills + 1):
        try:
            crawl.run()
            crawl.job().config_file.write_text(to_toml(crawl.config))
            return crawl
        except Killed:
            crawl.leased.clear()
    raise AssertionError("killed too often")


def said(path: Path) -> dict[str, object]:
    reading = Reading.open(JobDir(path))
    assert reading is not None
    sites, drum = reading.sites, reading.near.drum
    records = {name: sites.site(name_key(f"{name}.test".encode())) for name in ("first", "mirror", "first-3")}
    supported = sum(
        (record := sites.site(name_key(f"mirror-{number}.test".encode()))) is not None and record.in_degree > 0
        for number in range(PAGES)
    )
    return {
        "novel": {name: record and (record.asked, record.novel) for name, record in records.items()},
        "supported": supported,
        "counted": reading.catalog.get("counters")["near_duplicates"],
        "parts": [key for bucket in drum.buckets for batch in drum.scan(bucket) for key in batch["key"].tolist()],
    }  # fmt: skip


def test_a_mirror_brings_nothing_new_and_supports_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = crawled(tmp_path / "on", monkeypatch)
    found = said(tmp_path / "on")
    assert found["novel"]["first"] == (PAGES + 1, PAGES + 1) and found["novel"]["mirror"] == (PAGES + 1, 1)  # type: ignore[index]
    assert found["supported"] == 0
    assert 3 * PAGES < len(found["parts"]) < 6 * PAGES  # type: ignore[arg-type]
    assert found["counted"] == PAGES
    assert not [str(finding) for finding in Fsck(crawl.job(), Bar(), now=crawl.clock.now).run() if finding.damage]


def test_off_it_costs_nothing_and_sees_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawled(tmp_path, monkeypatch, on=False)
    found = said(tmp_path)
    assert found["novel"]["mirror"] == (PAGES + 1, PAGES + 1) and found["supported"] == PAGES and not found["parts"]  # type: ignore[index]


def test_after_crashes_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        crawled(tmp_path / "whole", patch)
    crawled(tmp_path / "killed", monkeypatch, kills=3)
    assert said(tmp_path / "killed") == said(tmp_path / "whole")
