"""An opt-out list in a whole crawl: nothing of what owners want left alone is asked, whenever they said so."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from irlcrawl.ask import why
from irlcrawl.base.exit_codes import ExitCode
from tests.crawl.virtual_crawl import Answer, Crawl, Killed, Web, star
from tests.upkeep.conftest import save_config

OUT = ("excluded", "opted_out")


def crawled(path: Path, web: Web, lines: str, monkeypatch: pytest.MonkeyPatch) -> Crawl:
    (opted := path.parent / "opt-out.txt").write_text(lines)
    crawl = Crawl(path, web, ["http://a.test/"], monkeypatch)
    crawl.config.scope.kind, crawl.config.scope.opt_out_file = "any", str(opted)
    return crawl


def web_of(*links: str) -> Web:
    return Web({"http://a.test/": list(links), **{link: [] for link in links}})


def test_what_is_found_of_them_is_excluded_without_a_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    links = ["http://b.test/1", "http://w.c.test/", "http://d.test/me", "http://d.test/you", "http://d.test/?patient=1"]
    web = web_of(*links)
    lines = (
        "host b.test 2026-11-02 mail\nsite c.test 2026-11-02\nurl d.test/me 2026-11-02\nmatch [?]patient= 2026-11-02\n"
    )
    crawl = crawled(tmp_path / "job", web, lines, monkeypatch)
    assert crawl.run() == ExitCode.DONE
    assert {url: told for url, told in crawl.outcomes().items() if told != ("fetched", "ok")} == {
        links[0]: OUT, links[1]: OUT, links[2]: OUT, links[4]: OUT,
    }  # fmt: skip
    assert {url.split("/")[2] for _, url in web.log} == {"a.test", "d.test"}, "no robots.txt either"
    assert crawl.names.asked.keys() == {"a.test", "d.test"}
    told = why.why(save_config(crawl), links[1], crawl.clock.now())
    assert told["stands"] == "done: excluded, opted_out" and told["opt_out"] == "site c.test (2026-11-02)"


def test_a_seed_is_no_exception(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = crawled(tmp_path / "job", web_of(), "site test 2026-11-02\n", monkeypatch)
    assert crawl.run() == ExitCode.DONE and crawl.outcomes() == {"http://a.test/": OUT} and not crawl.web.log


def test_what_waits_leaves_when_the_list_grows_while_the_crawl_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = Web(star("a.test", 40))
    crawl = crawled(tmp_path / "job", web, "", monkeypatch)

    def grow(url: str) -> None:
        if len(web.log) == 10:
            Path(crawl.config.scope.opt_out_file).write_text("host a.test 2026-11-02 enough\n")

    crawl.on_request = grow
    assert crawl.run() == ExitCode.DONE
    told = list(crawl.outcomes().values())
    assert told.count(OUT) + told.count(("fetched", "ok")) == 41 and told.count(OUT) >= 20


def test_a_list_that_grew_between_two_runs_counts_for_what_waits_in_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = Web(star("a.test", 40))
    crawl = crawled(tmp_path / "job", web, "", monkeypatch)
    crawl.on_request = lambda url: crawl.kill() if len(web.log) == 10 else None
    with pytest.raises(Killed):
        crawl.run()
    crawl.on_request = lambda url: None
    Path(crawl.config.scope.opt_out_file).write_text("host a.test 2026-11-02 enough\n")
    asked = len(web.log)
    assert crawl.run() == ExitCode.DONE and len(web.log) == asked, "its robots.txt neither"
    assert list(crawl.outcomes().values()).count(OUT) >= 30


def test_a_robots_txt_that_redirects_to_such_a_host_cannot_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = web_of()
    web.answers["http://a.test/robots.txt"] = Answer(301, {"location": "http://b.test/robots.txt"})
    crawl = crawled(tmp_path / "job", web, "host b.test 2026-11-02\n", monkeypatch)
    crawl.config.politeness.host_dead_hours = 0.0
    crawl.run()
    assert {url for _, url in web.log} == {"http://a.test/robots.txt"}
    assert crawl.outcomes() == {"http://a.test/": ("excluded", "robots_unreachable")}


@pytest.mark.parametrize("wrong", [True, False])
def test_a_worker_that_began_when_the_list_was_wrong_or_away_ended_the_crawl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: bool
) -> None:
    """Eight of them in a row: what counts as it was did so only for workers that had read it."""
    web = Web(star("a.test", 40) | {"http://a.test/me": []})
    web.page("http://a.test/", ["http://a.test/me", *star("a.test", 40)["http://a.test/"]])
    crawl = crawled(tmp_path / "job", web, "url http://a.test/me 2026-11-02 mail\n", monkeypatch)
    listed = Path(crawl.config.scope.opt_out_file)

    def spoil(url: str) -> None:
        if len(web.log) == 10:
            listed.write_text("host nonsense\n") if wrong else listed.unlink()
            crawl.kill_worker(next(iter(crawl.running)))

    crawl.on_request = spoil
    assert crawl.run() == ExitCode.DONE
    told = crawl.outcomes()
    assert told.pop("http://a.test/me") == OUT and set(told.values()) == {("fetched", "ok")} and len(told) == 41


def test_an_owners_wish_came_while_a_gap_was_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more page was asked for."""
    web = Web(star("a.test", 40))
    crawl = crawled(tmp_path / "job", web, "", monkeypatch)
    crawl.config.politeness.gap_host_seconds = 4.0
    listed = Path(crawl.config.scope.opt_out_file)

    async def grow(crawl: Crawl) -> None:
        while len(web.log) < 5:
            await asyncio.sleep(0.1)
        await asyncio.sleep(1.0)  # the gap has begun
        listed.write_text("host a.test 2026-11-02 enough\n")

    assert crawl.run(grow) == ExitCode.DONE
    assert len(web.log) == 5 and list(crawl.outcomes().values()).count(OUT) == 37


def test_a_line_that_names_robots_txt_alone_says_nothing_of_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = crawled(tmp_path / "job", Web(star("a.test", 3)), "match robots[.]txt 2026-11-02\n", monkeypatch)
    assert crawl.run() == ExitCode.DONE and set(crawl.outcomes().values()) == {("fetched", "ok")}
