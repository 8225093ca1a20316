"""A crawl that is told of an earlier one stores no payload that the earlier one has."""

from __future__ import annotations

import gzip
import json
import random
import shutil
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

from drum import Files

import pytest
from warcio.archiveiterator import ArchiveIterator

from irlcrawl.ask.get import Unavailable, get
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.cli import main
from irlcrawl.config.toml import to_toml
from irlcrawl.terminal.progress import Bar
from irlcrawl.upkeep.fsck import Fsck
from irlcrawl.upkeep.verify import verify
from irlcrawl.worker.archive.payloads import build
from irlcrawl.worker.archive.record import digest
from tests.crawl.virtual_crawl import Answer, Crawl, Killed, Web

SITE = "http://a.test/"
HTML = {"content-type": "text/html"}
PAGES = 8


def web(changed: int = 0) -> Web:
    """Pages of two kilobytes, each of which leads to the next; the last `changed` say something else."""
    web = Web(fetch_s=0.05)
    for number in range(PAGES):
        drawn = random.Random(number if number < PAGES - changed else 1000 + number)
        text = "".join(drawn.choices("abcdefghijkl ", k=2000))
        path = str(number) if number else ""
        web.answers[SITE + path] = Answer(200, HTML, f'<a href="/{number + 1}">x</a><p>{text}'.encode())
    return web


def crawled(
    path: Path, monkeypatch: pytest.MonkeyPatch, played: Web, sources: list[Path], kill_at: int = 0, **archive_keys: Any
) -> Crawl:
    with monkeypatch.context() as patch:
        crawl = Crawl(path, played, [SITE], patch)
        crawl.config.archive.dedupe_from = list(map(str, sources))
        for name, value in archive_keys.items():
            setattr(crawl.config.archive, name, value)
        asked = 0

        def request(url: str) -> None:
            nonlocal asked
            asked += 1
            if asked == kill_at:
                crawl.kill()

        crawl.on_request = request
        begin, archive = crawl._crawl, crawl.config.archive

        async def begun(*rest: Any) -> ExitCode:
            if sources:  # as the supervisor does
                build(crawl.files, crawl.job(), archive.dedupe_from, archive.dedupe_bytes_min)
            return await begin(*rest)

        crawl._crawl = begun  # type: ignore[method-assign]
        for _ in range(2):
            try:
                crawl.run()
                break
            except Killed:
                crawl.leased.clear()
                crawl.archived.clear()  # a page whose links were lost with the body is asked for again
        crawl.job().config_file.write_text(to_toml(crawl.config))
        return crawl


def kinds(path: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for warc in JobDir(path).warcs.iterdir():
        with warc.open("rb") as stream:
            for record in ArchiveIterator(stream):
                if record.rec_type in ("response", "revisit") and "robots" not in record.rec_headers["WARC-Target-URI"]:
                    found[record.rec_type] += 1
                    if record.rec_type == "revisit":
                        assert record.rec_headers["WARC-Refers-To-Target-URI"].startswith(SITE)
                        assert record.rec_headers["WARC-Profile"].endswith("/identical-payload-digest")
    return found


def test_payloads_of_an_earlier_crawl_are_named_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = crawled(tmp_path / "first", monkeypatch, web(), [])
    crawl = crawled(tmp_path / "second", monkeypatch, web(changed=2), [tmp_path / "first"])
    assert len(crawl.outcomes()) == PAGES + 1 == len(first.outcomes())
    assert kinds(tmp_path / "first") == {"response": PAGES + 1} and kinds(tmp_path / "second") == {
        "revisit": PAGES - 2, "response": 3,
    }  # fmt: skip
    for url, answer in crawl.web.answers.items():
        assert get(tmp_path / "second", url) == answer.body
    assert not [str(one) for one in Fsck(crawl.job(), Bar(), now=crawl.clock.now).run() if one.damage]
    warcs = [str(path) for path in crawl.job().warcs.iterdir()]
    assert not [str(one) for one in verify(Files(), warcs, Bar()) if one.damage]
    shutil.rmtree(tmp_path / "first")
    with pytest.raises(Unavailable, match="first"):
        get(tmp_path / "second", SITE)


def test_a_page_whose_harvest_was_lost_is_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its links are not in this archive, and may not be in the other one any more."""
    crawled(tmp_path / "first", monkeypatch, web(), [])
    crawl = crawled(tmp_path / "second", monkeypatch, web(), [tmp_path / "first"], kill_at=5)
    assert set(crawl.outcomes()) == {SITE, *(f"{SITE}{number}" for number in range(1, PAGES + 1))}
    assert all(outcome == ("fetched", "ok") for url, outcome in crawl.outcomes().items() if url != f"{SITE}{PAGES}")
    assert max(crawl.web.pages_asked.values()) == 2
    for url, answer in crawl.web.answers.items():
        assert get(tmp_path / "second", url) == answer.body


def test_a_restart_knows_what_the_crawl_had_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawled(tmp_path / "job", monkeypatch, web(), [])
    assert build(Files(), JobDir(tmp_path / "job"), [], 1024) == PAGES
    assert build(Files(), JobDir(tmp_path / "job"), [], 1 << 20) == 0


def test_a_body_is_found_through_the_cdxj_file_that_names_its_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawled(tmp_path / "first", monkeypatch, web(), [])
    source = tmp_path / "elsewhere" / "first.cdxj"
    shutil.copytree(tmp_path / "first" / "warcs", source.parent)
    assert main.main(["export", "cdxj", str(tmp_path / "first"), "-o", str(source), "--quiet"]) == ExitCode.DONE
    shutil.rmtree(tmp_path / "first")
    crawl = crawled(tmp_path / "second", monkeypatch, web(changed=2), [source])
    assert kinds(tmp_path / "second") == {"revisit": PAGES - 2, "response": 3}
    for url, answer in crawl.web.answers.items():
        assert get(tmp_path / "second", url) == answer.body
    for path in source.parent.glob("*.warc.*"):
        path.unlink()
    with pytest.raises(Unavailable, match=r"first\.cdxj"):
        get(tmp_path / "second", SITE)


def test_bodies_that_were_taken_down_were_referred_to_and_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By an index that was made before."""
    first, source = tmp_path / "first", tmp_path / "first" / "warcs" / "old.cdxj"
    crawled(first, monkeypatch, web(), [])
    assert main.main(["export", "cdxj", str(first), "-o", str(source), "--quiet"]) == ExitCode.DONE
    assert main.main(["takedown", str(first), SITE, f"{SITE}3", "--reason", "x", "--quiet"]) == ExitCode.DONE
    crawl = crawled(tmp_path / "second", monkeypatch, web(), [source])
    assert kinds(tmp_path / "second") == {"revisit": PAGES - 2, "response": 3}
    for url, answer in crawl.web.answers.items():
        assert get(tmp_path / "second", url) == answer.body


def test_exports_say_what_they_can_of_bodies_that_are_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawled(tmp_path / "first", monkeypatch, web(), [])
    job = crawled(tmp_path / "second", monkeypatch, web(changed=2), [tmp_path / "first"]).job()
    for what in ("cdxj", "pages", "wacz"):
        out = str(tmp_path / what)
        assert main.main(["export", what, str(job.path), "-o", out, "--jobs", "1", "--quiet"]) == ExitCode.DONE
    lines = [json.loads(line.split(" ", 2)[2]) for line in (tmp_path / "cdxj").read_text().splitlines()]
    rows = [json.loads(line) for path in (tmp_path / "pages").glob("*.jsonl") for line in path.open()]
    urls = {SITE, *(f"{SITE}{number}" for number in range(1, PAGES + 1))}
    digests = {url: digest(answer.body) for url, answer in web(changed=2).answers.items()}
    away = {SITE, *(f"{SITE}{number}" for number in range(1, PAGES - 2))}
    assert {line["url"] for line in lines} >= urls and {row["url"] for row in rows} == urls
    for told in lines:
        if told["url"] in digests:
            assert told["digest"] == digests[told["url"]] and told["status"] == "200"
            assert (told["mime"] == "warc/revisit") == (told["url"] in away)
    for row in rows:
        if row["url"] in digests:
            assert "sha1:" + row["content_digest"] == digests[row["url"]] and row["fetch_status"] == 200
            assert (row["content_mime_type"] == "warc/revisit") == (row["url"] in away)
    with zipfile.ZipFile(tmp_path / "wacz") as package:
        names = {f"archive/{path.name}" for path in job.warcs.iterdir()}
        assert names <= set(package.namelist())
        indexed = gzip.decompress(package.read("indexes/index.cdx.gz"))
        assert indexed.decode() == (tmp_path / "cdxj").read_text()
        listed = b"".join(package.read(name) for name in package.namelist() if name.endswith("ages.jsonl"))
        shown = {line.get("url") for line in map(json.loads, listed.splitlines())} - {None}
    assert shown == digests.keys() - away, "a page whose body is elsewhere cannot be opened from this file alone"
