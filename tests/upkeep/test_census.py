"""The census of URLs: its findings name files as those of all others do."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from drum import Catalog, Edits

from irlcrawl.base.names import Names
from irlcrawl.cli.main import main
from irlcrawl.upkeep.census import Census
from irlcrawl.worker.archive import crawl_log
from irlcrawl.worker.archive.crawl_log import LogEntry
from tests.upkeep.conftest import Copy
from tests.upkeep.test_fsck import damage
from tests.upkeep.test_repair import all_gone
from tests.worker.archive.support import TEXT, exchange_of, unit_of, writer_in
from tests.worker.archive.test_warc_revisit import KNOWN


def test_keys_that_are_not_those_of_their_urls_are_found_in_the_crawls_state(copy: Copy) -> None:
    """The finding's file was `state`, of no crawl in particular."""
    job = copy("stopped")
    catalog, edits = Catalog.open(job.state), Edits()
    crawl = catalog.get("crawl")
    edits.set("crawl", {**crawl, "seed": crawl["seed"] ^ 1})
    catalog.commit(edits)
    catalog.close()
    wrong = [found for found in damage(job) if "keys that are not theirs" in found.what]
    assert wrong and {found.file for found in wrong} == {str(job.state)}


def _visits(*changes: str) -> list[LogEntry]:
    """A page's lines, the first visit first."""
    lines = [LogEntry(0, 200, 9, b"http://a.test/", "L", notes={"outcome": "fetched", "reason": "ok"})]
    for number, change in enumerate(changes, 2):
        notes = {"outcome": "failed" if change == "" else "fetched", "reason": "ok", "visit": str(number)}
        lines.append(LogEntry(0, 200, 9, b"http://a.test/", "L", notes=notes | ({"change": change} if change else {})))
    return [crawl_log.parse(crawl_log.format_entry(line)) for line in lines]


def test_a_page_that_was_visited_again_is_done_once(tmp_path: Path) -> None:
    census = Census(str(tmp_path), Names(seed=1))
    for entry in _visits("none", "yes", "", "gone"):
        census.logged(entry)
    nothing_seen: Any = SimpleNamespace(seen=SimpleNamespace(buckets=[]), job=SimpleNamespace(state="state"))
    told = [finding.what for finding in census.urls(nothing_seen)]
    assert len(told) == 1 and told[0].startswith("1 URL ") and "without being known as seen" in told[0]


def test_a_repair_counts_a_page_that_was_visited_again_once_and_keeps_each_line(copy: Copy) -> None:
    """The line of the first visit was told as a failure that passed."""
    job = copy("done")
    lines = job.crawl_log.read_bytes().splitlines()
    url = next(crawl_log.url_of(line) for line in lines if b" outcome=fetched,reason=ok" in line)
    later = writer_in(Path(job.warcs), stream=50)
    unit = unit_of(url, page=KNOWN)
    later.append(unit, exchange_of(unit, TEXT))
    later.close()
    all_gone(job)
    assert main(["fsck", str(job.path), "--repair", "--quiet"]) == 0
    entries = [crawl_log.parse(line) for line in job.crawl_log.read_bytes().splitlines()]
    told = [(entry.outcome, entry.notes.get("visit")) for entry in entries if entry.url == url]
    assert sorted(told, key=str) == [("fetched", "7"), ("fetched", None)]
