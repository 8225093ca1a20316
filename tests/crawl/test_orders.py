"""`irlcrawl revisit`: what it chooses and says, on a crawl that rests; what comes of it there and in one that runs."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from drum import Files
from drum.sectors import Sectors

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import returns_name
from irlcrawl.config.toml import to_toml
from irlcrawl.crawl.orders import Order, next_number, write
from irlcrawl.crawl.returns import TAKEN
from irlcrawl.frontier.state import formats
from tests.cli.conftest import Run, run
from tests.crawl.test_revisits import SITE, changing, crawl_of, findings, visits_in_log, visits_in_state
from tests.crawl.virtual_crawl import Crawl

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


def test_what_it_refuses(crawl: Crawl, run: Run) -> None:
    job = crawl.path
    for arguments, told in {
        ("http://a.test/nowhere",): "was never fetched",
        ("--match", "("): "--match takes an RE2 pattern",
        (): "revisit takes URLs, hosts, or --match",
    }.items():
        code, _, err = run("revisit", job, *arguments)
        assert code == ExitCode.CONFIG and told in err
        assert err.startswith("irlcrawl: ") and err.count("\n") == 1, "RE2 logged beside it"
    assert run("revisit", job, "b.test") == (ExitCode.DONE, "no page between two visits is one of these\n", "")
    crawl.config.revisit.enabled = False
    crawl.job().config_file.write_text(to_toml(crawl.config))
    code, _, err = run("revisit", job, f"{SITE}3")
    assert code == ExitCode.CONFIG and "revisit.enabled is false" in err


def test_an_order_for_what_is_no_page_was_said_to_be_taken_and_came_to_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    crawl = crawl_of(tmp_path, changing(), monkeypatch, pages=3)
    crawl.config.revisit.enabled = False
    assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT
    crawl.config.revisit.enabled = True
    go_on(crawl, 6)
    crawl.job().config_file.write_text(to_toml(crawl.config))
    first, *_, last = visits_in_log(crawl)
    code, out, err = run("revisit", crawl.path, first.decode())
    assert (code, out) == (ExitCode.CONFIG, "") and "is not visited again: pages are 2xx responses" in err
    assert run("revisit", crawl.path, last.decode())[1].startswith("ordered visits to 1 page\n")


def test_a_running_crawl_takes_an_order(crawl: Crawl) -> None:
    async def order(crawl: Crawl) -> None:
        await asyncio.sleep(100)
        job, files = JobDir(crawl.path), Sectors()
        catalog = formats.look(job.state)
        file = returns_name(os.getpid())
        rows = Order(urls=(f"{SITE}4".encode(),)).rows(job, crawl.config)
        assert write(Files(), str(job.state / file), next_number(job, catalog, files), rows) == 1
        assert crawl.loop is not None and crawl.loop.hand_in(file) == TAKEN

    crawl.config.limits.pages = 10
    assert crawl.run(order, hours=1) == ExitCode.SIZE_LIMIT
    assert visits_in_log(crawl)[f"{SITE}4".encode()] == 2
    assert findings(crawl) == []
