"""What owners say about use, in a whole crawl: recorded for every page in log and archive, and obeyed if asked to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from drum import Files

import pytest

from irlcrawl.ask.get import Unavailable, get
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.cli import main
from irlcrawl.crawl.returns import Selection
from irlcrawl.worker.archive import log_parts
from irlcrawl.worker.archive.reader import Record, records
from irlcrawl.worker.archive.unit import Unit
from irlcrawl.worker.fetch import wishes
from tests.crawl.test_returns import put_back
from tests.crawl.test_revisits import crawl_of, findings, visits_in_log, visits_in_state
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
    reserved = list(log_parts.read(Files(), log, note="wishes=tdm-reservation"))
    assert [one.url.decode() for one in reserved] == [f"{SITE}/header"], "as page.wishes_obeyed names it"


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


def test_what_is_no_page_stays_what_it_is_and_its_body_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bodies of errors and redirects were stored against a wish, and a challenge was told as a withheld page."""
    web, said = site(), {"x-robots-tag": "noindex", **HTML}
    web.answers |= {
        f"{SITE}/plain": Answer(200, {"cf-mitigated": "challenge", **said}, b"<a href=/no>BODY"),
        f"{SITE}/header": Answer(301, {"location": "/moved", **said}, b"BODY"),
        f"{SITE}/moved": Answer(410, said, b"BODY"),
        f"{SITE}/ai/x": Answer(200, HTML, b"<p>kept"),
    }
    crawl = crawled(tmp_path / "job", web, monkeypatch)
    crawl.config.page.wishes_obeyed = ["noindex"]
    assert crawl.run() == ExitCode.DONE
    outcomes = {url.removeprefix(SITE): reason for url, (_, reason) in crawl.outcomes().items()}
    assert {url: outcomes[url] for url in ("/plain", "/header", "/moved", "/ours", "/ai/x")} == {
        "/plain": "challenge", "/header": "redirect", "/moved": "http_error", "/ours": "http_error", "/ai/x": "ok",
    }  # fmt: skip
    stored = {one.fields["warc-target-uri"].removeprefix(SITE): one for one in archived(crawl.path)}
    for url in ("/plain", "/header", "/moved", "/ours"):
        assert stored[url].block.endswith(b"\r\n\r\n") and stored[url].fields["warc-truncated"] == "unspecified"
    assert stored["/ai/x"].block.endswith(b"<p>kept") and findings(crawl) == []


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


def test_a_withheld_page_was_never_visited_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor was one that was known. Once it may be kept, it is stored, though it is the same: there is no record to refer
    to."""
    web, url = Web({f"{SITE}/": []}), f"{SITE}/".encode()
    web.answers[f"{SITE}/"] = Answer(200, {"x-robots-tag": "noarchive", **HTML}, META)
    web.page(f"{SITE}/behind")
    crawl = crawl_of(tmp_path, web, monkeypatch, 10)
    crawl.config.page.wishes_obeyed = ["noarchive"]
    assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT
    withheld = visits_in_log(crawl)[url]
    assert withheld > 3 and visits_in_state(crawl)[url] == withheld and findings(crawl) == []
    assert put_back(crawl, Selection(reasons=("withheld",))) == {}, "it goes on being visited"
    crawl.config.page.wishes_obeyed, crawl.config.limits.pages = [], 16
    assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT and findings(crawl) == []
    mine = [one for one in archived(crawl.path) if one.fields["warc-target-uri"].encode() == url]
    kinds = [one.kind for one in mine]
    assert kinds[: withheld + 2] == [*["metadata"] * withheld, "response", "revisit"]
    assert mine[withheld + 1].fields["warc-refers-to-date"] == mine[withheld].fields["warc-date"]


def test_a_row_of_a_304_has_the_wishes_of_its_original(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The text of the original came with no more of its owner's wishes than the 304 says."""
    web, url = Web(fetch_s=0.05), f"{SITE}/"
    whole = Answer(200, {"etag": '"1"', **HTML}, META)
    web.moods["a.test"] = lambda asked, now: (
        (Answer(304, {"etag": '"1"', "x-robots-tag": "noindex"}) if web.pages_asked[url] > 1 else whole)
        if asked == url else None
    )  # fmt: skip
    crawl = crawl_of(tmp_path, web, monkeypatch, 3)
    crawl.config.scope.exclude = ["/behind"]
    assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT and findings(crawl) == []

    def wishes_of_rows(*options: str) -> list[str]:
        assert main.main(["export", "pages", str(crawl.path), *options]) == ExitCode.DONE
        return [json.loads(line)["wishes"] for line in capsys.readouterr().out.splitlines()]

    assert wishes_of_rows("--originals") == ["noai+noarchive", *["noai+noarchive+noindex"] * 2]
    assert wishes_of_rows() == ["noai+noarchive", *["noindex"] * 2]


TDMREP = b'[{"location": "/plain", "tdm-reservation": 0}, {"location": "/*", "tdm-reservation": 1}]'
TDM_URL = f"{SITE}/.well-known/tdmrep.json"


def reserved(crawl: Crawl) -> dict[str, set[str]]:
    """What of the wishes in the log is TDMRep's, by path, where there is any."""
    log = log_parts.read(Files(), str(JobDir(crawl.path).crawl_log))
    told = {one.url.decode().removeprefix(SITE): one.notes.get("wishes", "").split("+") for one in log}
    kept = {url: {wish for wish in words if wish.startswith("tdm-")} for url, words in told.items()}
    return {url: words for url, words in kept.items() if words}


@pytest.mark.parametrize("robots", [True, False])
def test_tdmrep_json_is_asked_for_once_a_host_and_its_rules_are_wishes_of_the_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, robots: bool
) -> None:
    """Also where there is no robots.txt beside it. What comes with a page takes its place."""
    web = site()
    web.answers[TDM_URL] = Answer(200, {"content-type": "application/json"}, TDMREP)
    if not robots:
        del web.answers[f"{SITE}/robots.txt"]
    web.answers[f"{SITE}/header"] = Answer(200, {"tdm-reservation": "0", **HTML}, b"<p>page")
    crawl = crawled(tmp_path / "job", web, monkeypatch)
    crawl.config.page.tdmrep, crawl.config.page.wishes_obeyed = True, ["tdm-reservation"]
    assert crawl.run() == ExitCode.DONE
    one, none = {"tdm-reservation=1"}, {"tdm-reservation=0"}
    assert reserved(crawl) == {
        "/": one, "/meta": one, "/header": none, "/plain": none, "/ours": one, "/behind": one, "/ai/x": one,
    }  # fmt: skip
    withheld = {url.removeprefix(SITE) for url, (_, reason) in crawl.outcomes().items() if reason == "withheld"}
    assert withheld == {"/", "/meta", "/behind", "/ai/x"}
    assert crawl.outcomes()[f"{SITE}/ours"] == ("fetched", "http_error"), "an error was withheld, and no error any more"
    assert web.pages_asked[TDM_URL] == 1


@pytest.mark.parametrize(("answer", "robots", "asked"), [
    (Answer(404, {}, b""), b"", 1),
    (Answer(200, {}, TDMREP), b"User-agent: *\nDisallow: /.well-known/", 0),
    (Answer(302, {"location": "https://elsewhere.test/x"}, b""), b"", 1),
])  # fmt: skip
def test_without_tdmrep_json_a_host_reserves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Answer, robots: bytes, asked: int
) -> None:
    web = site()
    web.answers |= {TDM_URL: answer, f"{SITE}/robots.txt": Answer(200, {"content-type": "text/plain"}, robots)}
    crawl = crawled(tmp_path / "job", web, monkeypatch)
    crawl.config.page.tdmrep = True
    assert crawl.run() == ExitCode.DONE
    assert reserved(crawl) == {"/header": {"tdm-reservation=1"}}
    assert web.pages_asked[TDM_URL] == asked and crawl.outcomes()[f"{SITE}/plain"] == ("fetched", "ok")


def test_a_host_that_throttles_its_tdmrep_json_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Retry-After was not looked at: the page was asked for after the usual gap. What the file says holds later."""
    web = site()
    web.answers[TDM_URL] = Answer(200, {}, TDMREP)
    asked = iter(range(100))
    busy = Answer(429, {"retry-after": "300"})
    web.moods["a.test"] = lambda url, now: busy if url == TDM_URL and not next(asked) else None
    crawl = crawled(tmp_path / "job", web, monkeypatch)
    crawl.config.page.tdmrep = True
    crawl.config.politeness.retry_after_max_seconds = 1000.0
    assert crawl.run() == ExitCode.DONE
    times = [at for at, _ in web.log]
    assert web.log[1][1] == TDM_URL and times[2] - times[1] >= 300
    assert {reason for _, reason in crawl.outcomes().values()} == {"ok", "http_error"}


def test_tdmrep_json_counts_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a kill leaves in the archive alone is made again from the unit of the robots.txt."""
    web = site()
    web.answers[TDM_URL] = Answer(200, {}, TDMREP)
    crawl = crawled(tmp_path / "job", web, monkeypatch)
    crawl.config.page.tdmrep = True

    def kill(unit: Unit) -> None:
        if unit.url.endswith(b"/header"):
            crawl.kill()

    crawl.on_kept = kill
    with pytest.raises(Killed):
        crawl.run()
    crawl.on_kept = lambda unit: None
    assert crawl.run() == ExitCode.DONE
    assert set(reserved(crawl)) == {"/", "/meta", "/header", "/plain", "/ours", "/behind", "/ai/x"}
    assert web.pages_asked[TDM_URL] == 1
