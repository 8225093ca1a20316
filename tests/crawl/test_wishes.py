"""What owners say about use, in a whole crawl: recorded for every page in log and archive, and obeyed if asked to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from drum import Files

import pytest

from irlcrawl.ask.get import Unavailable, get
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.worker.archive import log_parts
from irlcrawl.worker.archive.reader import Record, records
from irlcrawl.worker.archive.unit import Unit
from irlcrawl.worker.fetch import wishes
from tests.crawl.virtual_crawl import Answer, Crawl, Killed, Web

SITE = "http://a.test"
HTML = {"content-type": "text/html"}
META = b'<html><head><meta name="robots" content="noarchive, noai"></head><a href="/behind">x</a>'


def site() -> Web:
    """A home page that leads to a page of each kind."""
    web = Web({f"{SITE}/": [f"{SITE}/{name}" for name in ("meta", "header", "plain", "ours", "ai/x")],
               f"{SITE}/plain": [], f"{SITE}/behind": [], f"{SITE}/ai/x": []})  # fmt: skip
    robots = b"User-agent: *\nContent-Signal: ai-train=no\nContent-Usage: /ai train-ai=n\n"
    web.answers |= {
        f"{SITE}/robots.txt": Answer(200, {"content-type": "text/plain"}, robots),
        f"{SITE}/meta": Answer(200, HTML, META),
        f"{SITE}/header": Answer(200, {"x-robots-tag": "noai", "tdm-reservation": "1", **HTML}, b"<p>page"),
        f"{SITE}/ours": Answer(404, {"x-robots-tag": "irlcrawl-test: noindex", **HTML}, META),
    }  # fmt: skip
    return web


WISHES = {
    "/": "ai-train=n",
    "/plain": "ai-train=n",
    "/behind": "ai-train=n",
    "/ai/x": "ai-train=n+train-ai=n",
    "/meta": "ai-train=n+noai+noarchive",
    "/header": "ai-train=n+noai+tdm-reservation=1",
    "/ours": "ai-train=n+noindex",
}


def crawled(path: Path, web: Web, monkeypatch: pytest.MonkeyPatch) -> Crawl:
    crawl = Crawl(path, web, [f"{SITE}/"], monkeypatch)
    crawl.config.scope.kind = "site"
    crawl.config.crawl.user_agent = "irlcrawl-test/1.0 (+https://example.org/)"
    return crawl


def archived(path: Path) -> Iterator[Record]:
    """The last record of each unit of a page."""
    for warc in sorted(JobDir(path).warcs.iterdir()):
        yield from (
            one for one in records(Files(), str(warc)) if one.unit and "robots.txt" not in one.fields["warc-target-uri"]
        )


def test_wishes_are_recorded_in_log_and_archive_and_no_page_is_withheld(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = crawled(tmp_path / "job", site(), monkeypatch)
    assert crawl.run() == ExitCode.DONE
    log = str(JobDir(crawl.path).crawl_log)
    told = {one.url.decode().removeprefix(SITE): one.notes.get("wishes") for one in log_parts.read(Files(), log)}
    assert told.pop("/robots.txt") is None and told == WISHES
    units = (Unit.from_json(one.unit or "", one.fields["warc-target-uri"].encode()) for one in archived(crawl.path))
    assert {unit.url.decode().removeprefix(SITE): unit.wishes for unit in units} == WISHES
    assert {reason for _, reason in crawl.outcomes().values()} == {"ok", "http_error"}
    chosen = [one.url.decode() for one in log_parts.read(Files(), log, note="wishes=noai")]
    assert sorted(chosen) == [f"{SITE}/header", f"{SITE}/meta"]
    assert not list(log_parts.read(Files(), log, note="wishes=no"))


def test_a_page_whose_wishes_cannot_be_read_is_archived_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker would have died with it, and each one after that."""

    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(wishes, "named", fail)
    crawl = crawled(tmp_path / "job", site(), monkeypatch)
    assert crawl.run() == ExitCode.DONE and crawl.outcomes()[f"{SITE}/behind"] == ("fetched", "ok")


def test_a_wish_that_is_obeyed_keeps_the_body_out_of_the_archive_but_not_its_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = crawled(tmp_path / "job", site(), monkeypatch)
    crawl.config.page.wishes_obeyed = ["noarchive", "tdm-reservation"]
    assert crawl.run() == ExitCode.DONE
    outcomes = {url.removeprefix(SITE): told for url, told in crawl.outcomes().items()}
    withheld = {url for url, (_, reason) in outcomes.items() if reason == "withheld"}
    assert withheld == {"/meta", "/header"} and outcomes["/behind"] == ("fetched", "ok")
    kinds = {one.fields["warc-target-uri"].removeprefix(SITE): one for one in archived(crawl.path)}
    assert {url for url, one in kinds.items() if one.kind == "metadata"} == withheld
    assert b"wishes: ai-train=n+noai+noarchive\r\n" in kinds["/meta"].block
    with pytest.raises(Unavailable, match="reason withheld"):
        get(crawl.path, f"{SITE}/meta")


def test_a_withheld_page_whose_links_a_kill_took_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = site()
    crawl = crawled(tmp_path / "job", web, monkeypatch)
    crawl.config.page.wishes_obeyed = ["noarchive"]

    def kill(unit: Unit) -> None:
        if unit.url.endswith(b"/meta"):
            crawl.kill()

    crawl.on_kept = kill
    with pytest.raises(Killed):
        crawl.run()
    crawl.on_kept = lambda unit: None
    crawl.archived.discard(f"{SITE}/meta".encode())
    assert crawl.run() == ExitCode.DONE
    assert crawl.outcomes()[f"{SITE}/behind"] == ("fetched", "ok") and web.pages_asked[f"{SITE}/meta"] == 2
    assert crawl.outcomes()[f"{SITE}/meta"] == ("fetched", "withheld")
