"""What the crash matrix found, by name, each at the moments that showed it."""

from __future__ import annotations

import pytest

from tests.crash import crawl
from tests.crash.disk import Outcome
from tests.crash.web import CRAWL_DELAY_S


@pytest.fixture(scope="module")
def told() -> crawl.Reference:
    return crawl.reference()


def again(told: crawl.Reference, moments: list[int], outcome: Outcome) -> None:
    """Crash at each of these changes, go on, check everything."""
    assert moments
    for at, disk in crawl.disks(told, set(moments).__contains__):
        crawl.resume(told, crawl.crashed(told, disk, at, outcome, 0), at, outcome, 0)


def first_visit(told: crawl.Reference) -> tuple[int, float]:
    """When slow.test's robots.txt, with its Crawl-delay, was archived: number of the change, time."""
    kept = next(kept for kept in told.kept if kept.url == b"http://slow.test/robots.txt")
    return kept.at, kept.when


def test_the_crawl_logs_name_is_as_durable_as_its_lines(told: crawl.Reference) -> None:
    """The log was fsynced, its directory was not: after a power loss the catalogue named a log that was not there, and
    the crawl could never be opened again (exit 6)."""
    commits = [n for n, change in enumerate(told.changes) if change[0] == "rename" and "leases.log" in change[2]]
    again(told, commits[1:4], "dropped")


def test_rules_that_a_visit_read_are_known_although_its_end_was_not_told(told: crawl.Reference) -> None:
    """A harvest with a visit's robots.txt was committed while the visit went on, and its facts were nobody's to read:
    after a kill robots.txt was asked for again, and its Crawl-delay was not kept."""
    at, when = first_visit(told)
    during = [
        n + 1
        for n, change in enumerate(told.changes)
        if n >= at and told.times[n] < when + CRAWL_DELAY_S - 0.1 and change[0] == "rename" and "leases" in change[2]
    ]
    again(told, during, "killed")


def test_a_crawl_delay_is_kept_by_a_kill_between_robots_and_the_first_page(told: crawl.Reference) -> None:
    """The clocks' log named the gap of the lease, which was made before the Crawl-delay was read, and what the archive
    said moved no clock: the first page was asked for after the short gap."""
    at, _ = first_visit(told)
    again(told, [at + 1, at + 2], "killed")
