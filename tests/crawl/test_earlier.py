"""`irlcrawl revisit --earlier`: what was fetched while `revisit.enabled` was false becomes pages."""

from __future__ import annotations

from pathlib import Path

from drum import Files

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.config.toml import to_toml
from irlcrawl.crawl.status import read_status
from irlcrawl.worker.archive.log_parts import read
from tests.cli.conftest import Run, run
from tests.crawl.test_orders import go_on
from tests.crawl.test_revisits import SITE, changing, crawl_of, visits_in_log, visits_in_state
from tests.crawl.virtual_crawl import Crawl

__all__ = ["run"]


def earlier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Crawl:
    """All nine pages of a site were fetched before pages were visited again; the start page never changes, page 0 does
    each two minutes."""
    crawl = crawl_of(tmp_path, changing(), monkeypatch, pages=100)
    crawl.config.revisit.enabled = False
    assert crawl.run(hours=24) == ExitCode.DONE
    crawl.config.revisit.enabled = True
    crawl.job().config_file.write_text(to_toml(crawl.config))
    return crawl


def test_what_was_fetched_before_pages_were_visited_again_had_no_way_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    crawl = earlier(tmp_path, monkeypatch)
    job = crawl.path
    made = f"made pages of 9 URLs that were fetched earlier\ngo on:     irlcrawl resume {job}\n"
    assert run("revisit", job, "--earlier") == (ExitCode.DONE, made, "")
    assert run("revisit", job, "--earlier", f"{SITE}3")[1].startswith("made pages of 1 URL "), (
        "no turn has seen them yet"
    )
    archived = dict(visits_in_log(crawl))
    go_on(crawl, 40)
    visits = visits_in_log(crawl)
    assert visits.keys() == archived.keys() and min(visits.values()) >= 2 and visits_in_state(crawl) == visits
    record = read_status(crawl.job())
    assert record["fetched"] == sum(visits.values()) and sum(record["waiting_by_place"].values()) == 9
    entries = [entry for entry in read(Files(), str(crawl.job().crawl_log)) if entry.notes.get("visit") == "2"]
    assert {entry.notes["change"] for entry in entries} == {"unknown"}, "nothing was known to compare with"
    later = [entry for entry in read(Files(), str(crawl.job().crawl_log)) if int(entry.notes.get("visit", 0)) > 2]
    assert {entry.notes["change"] for entry in later if entry.url == SITE.encode()} <= {"same"}
    assert run("revisit", job, "--earlier")[1] == "none of these is a URL that was fetched well and is no page\n"


def test_a_page_is_made_of_what_is_named_in_another_spelling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    crawl = earlier(tmp_path, monkeypatch)
    code, out, err = run("revisit", crawl.path, "--earlier", f"{SITE}3?utm_source=x")
    assert code == ExitCode.DONE and out.startswith("made pages of 1 URL ") and err.endswith("(by tracking)\n")


def test_pages_of_some_hosts_and_patterns_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    crawl = earlier(tmp_path, monkeypatch)
    assert run("revisit", crawl.path, "--earlier", "b.test")[1].startswith("none of these")
    assert run("revisit", crawl.path, "--earlier", "--match", "/[56]$", f"{SITE}3")[1].startswith(
        "made pages of 3 URLs"
    )
    crawl.config.limits.pages = 20
    crawl.run(hours=24)
    assert {url for url, visits in visits_in_log(crawl).items() if visits > 1} == {
        f"{SITE}{page}".encode() for page in (3, 5, 6)
    }
    assert run("revisit", crawl.path, "--earlier")[1].startswith("made pages of 6 URLs")
    assert run("revisit", crawl.path, f"{SITE}1")[0] == ExitCode.CONFIG, "no turn made it a page yet"
