"""Near-duplicates: of many in a row, a trap, the end; and what the links of one are worth."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.cli import main as cli
from irlcrawl.config.toml import to_toml
from irlcrawl.crawl.status import lines, read_status
from irlcrawl.worker.page import repetition
from irlcrawl.worker.page.repetition import Repetition, directory_key
from tests.crawl.virtual_crawl import Answer, Crawl, Killed, Web


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=60), st.integers(1, 5))
def test_agrees_with_a_plain_count(pages: list[tuple[int, bool]], most: int) -> None:
    found, told = Repetition(most), list[bool]()
    rows = dict.fromkeys(range(3), 0)
    for directory, novel in pages:
        told.append(not novel and rows[directory] >= most)
        rows[directory] = 0 if novel else rows[directory] + 1
        assert found.trapped(directory, novel) == told[-1]


def test_i4_directories_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repetition, "DIRECTORIES_MAX", 10)
    found = Repetition(2)
    for directory in range(100):
        found.trapped(directory, novel=False)
    assert len(found._rows) == 10


def test_a_directory_is_a_path_without_its_last_segment_or_all_of_it_before_a_query() -> None:
    same = [b"http://a.com/c/1.html", b"http://a.com/c/2.html"], [b"http://a.com/cal?d=1", b"http://a.com/cal?d=2/3"]
    for one, other in same:
        assert directory_key(one) == directory_key(other)
    assert (
        directory_key(b"http://a.com/c/1") != directory_key(b"http://a.com/cal?d=1") != directory_key(b"http://a.com/")
    )


class Calendar(Web):
    """A calendar without end, whose months differ in digits, beside 30 pages of text that look like a list."""

    def answer(self, url: str, host: str, now: float) -> Answer:
        html = {"content-type": "text/html"}
        if "/cal?m=" in url:
            month = int(url.rpartition("=")[2])
            return Answer(200, html, f'<a href="/cal?m={month + 1}">next</a> month {month}'.encode())
        if "/list/" in url:
            number = int(url.rpartition("/")[2])
            following = f'<a href="/list/{number + 1}">next</a>' if number < 30 else ""
            return Answer(200, html, f"{following} {'x' * number}".encode())
        return super().answer(url, host, now)


@pytest.mark.parametrize("most", [0, 10])
def test_a_calendar_ends_and_a_list_is_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    web = Calendar({"http://a.test/": ["http://a.test/cal?m=1", "http://a.test/list/1"]})
    crawl = Crawl(tmp_path / "job", web, ["http://a.test/"], monkeypatch)
    crawl.config.page.near_duplicates_max = most
    assert crawl.run() == ExitCode.DONE
    months = [url for url in crawl.outcomes() if "cal?" in url]
    assert sum("/list/" in url for url in crawl.outcomes()) == 30
    if most:
        assert len(months) == most + 2, "the first is new, ten are let through, the next is a dead end"
        record = read_status(crawl.job())
        assert record["trapped_urls"] == 1
        assert any("1 in traps" in line for line in lines(record))
    else:
        assert len(months) == crawl.config.scope.depth_max, "only how far it is from a seed ends it"


class Copies(Web):
    """Two pages that differ in digits alone, each with a link of its own to another page and to another site."""

    def answer(self, url: str, host: str, now: float) -> Answer:
        _, copy, number = url.partition("/copy/")
        if not copy:
            return super().answer(url, host, now)
        links = f'<a href="/more/{number}"></a><a href="http://other{number}.test/"></a>'
        return Answer(200, {"content-type": "text/html"}, links.encode())


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("last", [True, False])
def test_links_of_a_page_whose_content_was_met_go_last_and_support_no_other_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], last: bool, killed: bool
) -> None:
    """budgets.duplicates_last, as the requests and `why` show it, also where the copies are read again by a start."""
    own = ["http://a.test/copy/1", "http://a.test/copy/2", "http://a.test/own"]
    web = Copies({"http://a.test/": own, own[2]: ["http://a.test/more/3"]})
    crawl = Crawl(tmp_path / "job", web, ["http://a.test/"], monkeypatch)
    crawl.config.budgets.duplicates_last = last
    if killed:
        crawl.on_request = lambda url: crawl.kill() if url == own[2] else None
        with pytest.raises(Killed):
            crawl.run()
        crawl.on_request = lambda url: None
    assert crawl.run() == ExitCode.DONE
    asked = [url.rpartition("/")[2] for _, url in web.log if "/more/" in url]
    assert killed or asked == (["1", "3", "2"] if last else ["1", "2", "3"])
    crawl.job().write_config(to_toml(crawl.config))
    degrees = []
    for number in (1, 2):
        assert cli.main(["why", str(crawl.path), f"other{number}.test", "--json"]) == 0
        degrees.append(json.loads(capsys.readouterr().out)["in_degree"])
    assert degrees == [1, 0 if last else 1]
