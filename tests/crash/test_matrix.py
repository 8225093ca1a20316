"""A seeded sample of the crash matrix (all of it: `python -m tests.crash`): a crawl that loses power or is killed at
any change to the disk, reopened on whatever disk that may leave, ends as the unharmed one did (I1-I3, I5, I7)."""

from __future__ import annotations

import random
from collections import Counter
from typing import get_args

import pytest

from tests.crash import crawl
from tests.crash.disk import Outcome
from tests.crash.web import MENDED_URLS

SAMPLE = 3
"""Moments per test, three disk outcomes each."""


@pytest.fixture(scope="module")
def told() -> crawl.Reference:
    return crawl.reference()


def test_the_reference_crawl_is_worth_crashing(told: crawl.Reference) -> None:
    """Every kind of outcome, several merges, compactions, rolls, vacuums; and the same each time."""
    assert 300 <= told.ledger["discovered"] <= 1000 and told.commits >= 20
    reasons = {value[1] for value in told.outcomes.values() if isinstance(value, tuple)}
    reasons |= {key.split()[2] for key in told.outcomes if key.startswith(("large.test ", "www.heavy.test "))}
    assert reasons == {
        "ok", "http_error", "redirect", "truncated", "dns", "connect", "tls", "timeout", "lost", "protocol", "address",
        "robots", "robots_unreachable", "quota_host", "quota_site", "blocked",
    }  # fmt: skip
    asked = Counter(url for _, url in told.requests)
    assert {asked[url] for url in MENDED_URLS} == {2}, "put back once each"
    names = [str(change[-1]) for change in told.changes if change[0] == "rename"]
    assert len([name for name in names if "catalog-" in name]) >= 3
    assert len([name for name in names if name.endswith(".warc.gz")]) >= 10
    assert len([name for name in names if "crawl.log" in name]) >= 2
    assert [change[:2] for change in told.changes] == [change[:2] for change in crawl.reference().changes]


@pytest.mark.parametrize("part", range(4))
def test_i1_i2_i3_i5_i7_a_crash_at_any_change_to_the_disk(told: crawl.Reference, part: int) -> None:
    draw = random.Random(part)
    chosen = set(draw.sample(range(len(told.changes) + 1), SAMPLE))
    for at, disk in crawl.disks(told, lambda n: n in chosen):
        for outcome in get_args(Outcome):
            crawl.resume(told, crawl.crashed(told, disk, at, outcome, part), at, outcome, part)


def test_i1_i2_i3_i5_i7_a_crash_right_after_a_running_crawl_took_over_urls_that_are_put_back(
    told: crawl.Reference,
) -> None:
    (taken,) = (
        n for n, change in enumerate(told.changes) if change[0] == "rename" and change[1].endswith("returns-1.seg")
    )
    ((at, disk),) = crawl.disks(told, lambda n: n == taken + 1)
    for outcome in get_args(Outcome):
        crawl.resume(told, crawl.crashed(told, disk, at, outcome, 0), at, outcome, 0)


def test_i1_i2_i3_i5_i7_a_crash_of_the_recovery_from_a_crash(told: crawl.Reference) -> None:
    draw = random.Random(99)
    chosen = set(draw.sample(range(len(told.changes) + 1), SAMPLE))
    for at, disk in crawl.disks(told, lambda n: n in chosen):
        for outcome in get_args(Outcome):
            crawl.resume(told, crawl.crashed(told, disk, at, outcome, 0), at, outcome, 0, crashes=1 + at % 3)
