"""With archive.dedupe_window what one worker stored is stored by no other one, and a kill changes nothing of that."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

from drum import Files

import pytest

from irlcrawl.ask.get import Unavailable, get
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.cli import main
from irlcrawl.config.toml import to_toml
from irlcrawl.terminal.progress import Bar
from irlcrawl.upkeep.fsck import Fsck
from irlcrawl.upkeep.verify import verify
from irlcrawl.worker.archive.reader import records
from irlcrawl.worker.archive.unit import Unit
from tests.crawl.virtual_crawl import Answer, Crawl, Killed, Web

A, B = "http://a.test/", "http://b.test/"
PAGES = 7
HTML = {"content-type": "text/html"}


def web() -> Web:
    """Two mirrors, one a worker: A is read from its first page on, B from its last one."""
    played = Web(fetch_s=0.05)
    for number in range(PAGES):
        text = "".join(random.Random(number).choices("abcdefghijkl ", k=2000))
        links = "".join(f'<a href="{near}">x</a>' for near in (number - 1, number + 1) if 0 <= near < PAGES)
        for host in (A, B):
            played.answers[f"{host}{number}"] = Answer(200, HTML, f"{links}<p>{text}".encode())
    return played


def crawl_of(path: Path, monkeypatch: pytest.MonkeyPatch, window: int = 1000) -> Crawl:
    crawl = Crawl(path, web(), [f"{A}0", f"{B}{PAGES - 1}"], monkeypatch, workers=2)
    crawl.config.archive.dedupe_window, crawl.config.archive.archive_sync_seconds = window, 0.5
    return crawl


def stored(crawl: Crawl) -> Counter[str]:
    """Payload of a page -> how many records hold it."""
    found: Counter[str] = Counter()
    for path in crawl.job().warcs.iterdir():
        for record in records(Files(), str(path)):
            if record.kind == "response" and "robots.txt" not in record.fields["warc-target-uri"]:
                found[record.fields["warc-payload-digest"]] += 1
    return found


def check(crawl: Crawl) -> None:
    assert all(outcome == ("fetched", "ok") for outcome in crawl.outcomes().values())
    assert crawl.outcomes().keys() == crawl.web.answers.keys()
    crawl.job().config_file.write_text(to_toml(crawl.config))
    for url, answer in crawl.web.answers.items():
        assert get(crawl.path, url) == answer.body
    assert not [str(one) for one in Fsck(crawl.job(), Bar(), now=crawl.clock.now).run() if one.damage]
    warcs = [str(path) for path in crawl.job().warcs.iterdir()]
    assert not [str(one) for one in verify(Files(), warcs, Bar()) if one.damage]


@pytest.mark.parametrize(("window", "most"), [(1000, PAGES + 2), (0, 2 * PAGES)])
def test_a_page_that_one_worker_stored_no_other_one_stores(
    window: int, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for what both fetch before either has it on the disk: where they meet."""
    crawl = crawl_of(tmp_path / "job", monkeypatch, window)
    crawl.run()
    check(crawl)
    assert len(list(crawl.job().warcs.iterdir())) == 2 and len(stored(crawl)) == PAGES
    assert stored(crawl).total() <= most and (window or stored(crawl).total() == most)
    assert crawl.job().window.exists() == bool(window)


@pytest.mark.parametrize("kill_at", range(9, 15))
def test_a_kill_has_nothing_asked_or_stored_again(
    kill_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Units that no harvest covers are read again, with payloads out of the other worker's file."""
    crawl, count = crawl_of(tmp_path / "job", monkeypatch), 0

    def kept_one(unit: Unit) -> None:
        nonlocal count
        count += 1
        if count == kill_at:
            crawl.kill()

    crawl.on_kept = kept_one
    with pytest.raises(Killed):
        crawl.run()
    crawl.leased.clear()
    kept = {url.decode() for url in crawl.archived}
    pages = crawl.web.pages_asked
    crawl.run()
    check(crawl)
    assert all(crawl.web.pages_asked[url] == pages[url] for url in kept)
    assert set(stored(crawl).values()) <= {1, 2}


def test_an_export_says_of_each_page_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the record that has its body lies in the other worker's file."""
    crawl = crawl_of(tmp_path / "job", monkeypatch)
    crawl.run()
    check(crawl)
    out = str(tmp_path / "pages")
    words = ["export", "pages", str(crawl.path), "-o", out, "--originals", "--jobs", "1", "--quiet"]
    assert main.main(words) == ExitCode.DONE
    rows = [json.loads(line) for path in Path(out).glob("*.jsonl") for line in path.open()]
    links = {row["url"]: row["links"] for row in rows}
    assert links == {url: answer.body.count(b"<a ") for url, answer in crawl.web.answers.items()}


def test_get_names_the_file_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = crawl_of(tmp_path / "job", monkeypatch)
    crawl.run()
    check(crawl)
    gone, *_ = sorted(crawl.job().warcs.iterdir())
    gone.unlink()
    said = []
    for url in crawl.web.answers:
        try:
            get(crawl.path, url)
        except Unavailable as error:
            said.append(str(error))
    assert [one for one in said if f"its body is in {gone.name} at offset" in one]
