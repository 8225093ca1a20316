"""`irlcrawl revisit`: what it chooses and says, on a crawl that rests; what comes of it there and in one that runs."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from drum import Files
from drum.sectors import Sectors

import pytest

from irlcrawl.ask.outcomes import entries_of
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import returns_name
from irlcrawl.config.toml import to_toml
from irlcrawl.crawl.orders import Order, next_number
from irlcrawl.crawl.returns import TAKEN, write
from irlcrawl.frontier.state import formats
from tests.cli.conftest import Run, run
from tests.crawl.test_revisits import SITE, changing, crawl_of, findings, visits_in_log, visits_in_state
from tests.crawl.virtual_crawl import START, Answer, Crawl

__all__ = ["run"]


@pytest.fixture
def crawl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Crawl:
    """All of a site's nine pages were visited once or twice, and none is due for days."""
    crawl = crawl_of(tmp_path, changing(), monkeypatch, pages=9)
    crawl.config.revisit.every_min_seconds = 86400.0 * 30
    assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT
    crawl.job().config_file.write_text(to_toml(crawl.config))
    return crawl


def go_on(crawl: Crawl, pages: int) -> None:
    crawl.config.limits.pages = pages
    assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT
    assert findings(crawl) == []


def test_pages_that_were_ordered_are_visited_at_once(crawl: Crawl, run: Run) -> None:
    job = crawl.path
    code, out, _ = run("revisit", job, f"{SITE}3", f"{SITE}5")
    assert (code, out) == (ExitCode.DONE, f"ordered visits to 2 pages\ngo on:     irlcrawl resume {job}\n")
    assert run("revisit", job, "--match", r"/[56]$")[1].startswith("ordered visits to 2 pages\n")  # one of them twice
    go_on(crawl, 12)
    again = {url for url, visits in visits_in_log(crawl).items() if visits > 1}
    assert again == {f"{SITE}{page}".encode() for page in (3, 5, 6)}
    assert visits_in_state(crawl) == visits_in_log(crawl)
    assert run("revisit", job, "a.test")[1].startswith("ordered visits to 9 pages\n")
    go_on(crawl, 21)
    assert min(visits_in_log(crawl).values()) == 2
    assert visits_in_state(crawl) == visits_in_log(crawl)


def test_a_page_in_another_spelling_was_said_to_be_never_fetched(crawl: Crawl, run: Run) -> None:
    job, other = crawl.path, f"{SITE}3?utm_source=x"
    told = f"{other} is {SITE}3 in this crawl (by tracking)\n"
    code, out, err = run("revisit", job, other)
    assert (code, out.partition("\n")[0], err) == (ExitCode.DONE, "ordered visits to 1 page", told)
    go_on(crawl, 10)
    assert visits_in_log(crawl)[f"{SITE}3".encode()] == 2
    assert run("get", job, other) == (ExitCode.DONE, run("get", job, f"{SITE}3")[1], told)
    for verb in ("get", "revisit"):
        code, out, err = run(verb, job, f"{SITE}never?utm_source=x")
        assert code != ExitCode.DONE and not out and f"{SITE}never?utm_source=x" in err


def test_what_it_refuses(crawl: Crawl, run: Run) -> None:
    job = crawl.path
    for arguments, told in {
        ("http://a.test/nowhere",): "was never fetched",
        ("--match", "("): "--match takes an RE2 pattern",
        (): "revisit takes URLs, hosts, --match or --earlier",
    }.items():
        code, _, err = run("revisit", job, *arguments)
        assert code == ExitCode.CONFIG and told in err
        assert err.startswith("irlcrawl: ") and err.count("\n") == 1, "RE2 logged beside it"
    assert run("revisit", job, "b.test") == (ExitCode.DONE, "no page between two visits is one of these\n", "")
    crawl.config.revisit.enabled = False
    crawl.job().config_file.write_text(to_toml(crawl.config))
    code, _, err = run("revisit", job, f"{SITE}3")
    assert code == ExitCode.CONFIG and "revisit.enabled is false" in err


def test_an_order_for_a_page_that_two_words_name_is_counted_once(crawl: Crawl, run: Run) -> None:
    said = run("revisit", crawl.path, f"{SITE}3", "a.test", "--match", "/[56]$")[1]
    assert said.startswith("ordered visits to 9 pages\n"), "it said 10"


def test_an_order_for_what_is_no_page_said_that_visits_were_ordered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    web = changing()
    usual = web.moods["a.test"]
    web.moods["a.test"] = lambda url, now: Answer(404) if url.endswith("/3") else usual(url, now)
    crawl = crawl_of(tmp_path, web, monkeypatch, pages=9)
    assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT
    crawl.job().config_file.write_text(to_toml(crawl.config))
    code, _, err = run("revisit", crawl.path, f"{SITE}3")
    assert code == ExitCode.CONFIG and "is not visited again: it ended as http error (404)" in err


def test_an_order_for_a_redirect_advised_what_retry_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    web = changing()
    usual = web.moods["a.test"]
    moved = Answer(302, {"location": f"{SITE}5"})
    web.moods["a.test"] = lambda url, now: moved if url.endswith("/3") else usual(url, now)
    crawl = crawl_of(tmp_path, web, monkeypatch, pages=9)
    assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT
    crawl.job().config_file.write_text(to_toml(crawl.config))
    code, _, err = run("revisit", crawl.path, f"{SITE}3")
    assert code == ExitCode.CONFIG and f"it leads to another URL (302): {SITE}5 may be one that is" in err
    assert run("takedown", crawl.path, f"{SITE}3", "--reason", "asked")[0] == ExitCode.DONE
    code, _, err = run("revisit", crawl.path, f"{SITE}3")
    assert code == ExitCode.CONFIG and "what was stored of it was taken down" in err and "retry" not in err


def test_an_order_for_a_page_of_before_revisits_said_that_visits_were_ordered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    crawl = crawl_of(tmp_path, changing(), monkeypatch, pages=9)
    crawl.config.revisit.enabled = False
    assert crawl.run(hours=24) in (ExitCode.SIZE_LIMIT, ExitCode.DONE)
    crawl.config.revisit.enabled = True
    crawl.job().config_file.write_text(to_toml(crawl.config))
    code, _, err = run("revisit", crawl.path, f"{SITE}3")
    assert code == ExitCode.CONFIG and "it was fetched while revisit.enabled was false" in err


@pytest.mark.parametrize("left", ["gone", "opted out"])
def test_an_order_for_a_page_that_left_said_that_a_visit_was_ordered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run, left: str
) -> None:
    """A page that is gone for less than a week is still visited, so it may be ordered."""
    web = changing()
    usual, day = web.moods["a.test"], 86400.0
    web.moods["a.test"] = lambda url, now: (
        Answer(410) if url.endswith("/3") and now > START + day and left == "gone" else usual(url, now)
    )
    crawl = crawl_of(tmp_path, web, monkeypatch, pages=10_000)
    crawl.tick_every(600.0, 600.0)
    crawl.config.revisit.every_min_seconds, crawl.config.revisit.every_max_seconds = day / 2, day
    crawl.config.limits.seconds = 5 * day
    crawl.run(hours=24 * 20)
    crawl.job().config_file.write_text(to_toml(crawl.config))
    assert run("revisit", crawl.path, f"{SITE}3")[1].startswith("ordered visits to 1 page\n")
    if left == "opted out":
        crawl.config.scope.opt_out_file = str(tmp_path / "list")
        (tmp_path / "list").write_text(f"url {SITE}3 2026-01-02 by letter\n")
    crawl.config.limits.seconds = 15 * day
    crawl.run(hours=24 * 20)
    assert findings(crawl) == []
    code, _, err = run("revisit", crawl.path, f"{SITE}3")
    assert code == ExitCode.CONFIG
    assert f"{SITE}3 is not visited again: " in err
    assert ("it is gone: 410 for " if left == "gone" else "its owner opted out") in err


def test_a_running_crawl_takes_an_order(crawl: Crawl) -> None:
    async def order(crawl: Crawl) -> None:
        await asyncio.sleep(100)
        job, files = JobDir(crawl.path), Sectors()
        catalog = formats.look(job.state)
        file = returns_name(os.getpid())
        rows = Order(urls=(f"{SITE}4".encode(),)).rows(job, crawl.config, lambda url: entries_of(job, url))
        assert write(Files(), str(job.state / file), next_number(job, catalog, files), rows, "signals") == 1
        assert crawl.loop is not None and crawl.loop.hand_in(file) == TAKEN

    crawl.config.limits.pages = 10
    assert crawl.run(order, hours=1) == ExitCode.SIZE_LIMIT
    assert visits_in_log(crawl)[f"{SITE}4".encode()] == 2
    assert findings(crawl) == []
