"""Giving URLs up: each is drained or given up, once, across kills; the last go first; re-reads stay within 2 a URL."""

from __future__ import annotations

from pathlib import Path

import pytest
from budget_crawl import Crawl
from hypothesis import given, settings
from hypothesis import strategies as st

from budgets import BudgetParams

FLAT = BudgetParams(base=3)

steps = st.lists(
    st.one_of(
        st.tuples(st.just("urls"), st.lists(st.integers(0, 5), min_size=1, max_size=40)),
        st.tuples(st.just("merge"), st.just(0)),
        st.tuples(st.just("rotate"), st.integers(1, 30)),
        st.tuples(st.just("shed"), st.integers(0, 60)),
        st.tuples(st.just("reopen"), st.just(0)),
    ),
    min_size=3, max_size=25,
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(steps)
def test_every_url_is_drained_or_given_up_once(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, object]]
) -> None:
    crawl = Crawl(tmp_path_factory.mktemp("crawl"), FLAT)
    for step, value in steps:
        if step == "urls":
            crawl.urls(value)  # type: ignore[arg-type]
        elif step == "merge":
            crawl.merge()
        elif step == "rotate":
            crawl.rotate(value)  # type: ignore[arg-type]
        elif step == "shed":
            assert isinstance(value, int)
            crawl.merge()
            waiting, before = crawl.sites.queued_rows + crawl.sites.deferred_rows, len(crawl.excluded)
            dropped = crawl.sites.shed(crawl.turn(), crawl.edits, value, crawl.exclude)
            assert dropped == len(crawl.excluded) - before
            assert dropped >= min(value, waiting)
        else:
            crawl.reopen()
        crawl.balance()
    while crawl.sites.queued_rows + crawl.sites.deferred_rows + crawl.sites.pending_rows:
        crawl.merge()
        crawl.rotate(100)
        crawl.balance()
    ended = sorted([url for _, url in crawl.drained] + crawl.excluded)
    assert ended == list(range(crawl.arrived))


def test_qf_goes_first_and_then_the_last_queues(tmp_path: Path) -> None:
    """What is over budget is of the lowest priority; of queues those that would be drained last."""
    crawl = Crawl(tmp_path, FLAT)
    crawl.urls([0] * 30 + [1] * 4)
    crawl.merge()
    queued, deferred = crawl.sites.queued_rows, crawl.sites.deferred_rows
    assert deferred > 10
    assert crawl.sites.shed(crawl.turn(), crawl.edits, deferred, crawl.exclude) == deferred
    assert crawl.sites.queued_rows == queued
    labels = crawl.sites._queues.counts()[0]
    crawl.sites.shed(crawl.turn(), crawl.edits, 3, crawl.exclude)
    assert crawl.sites._queues.counts()[0].tolist() == labels[:-3].tolist()
    crawl.commit()


def test_of_qf_the_first_of_each_site_stay(tmp_path: Path) -> None:
    """Giving up a little of QF halves each site's share there, from its end."""
    crawl = Crawl(tmp_path, FLAT)
    crawl.urls([0] * 100 + [1] * 60)
    crawl.merge()
    held = crawl.sites.deferred_rows
    crawl.sites.shed(crawl.turn(), crawl.edits, 10, crawl.exclude)
    assert 0.45 * held <= crawl.sites.deferred_rows <= 0.55 * held
    assert min(url for url in crawl.excluded if url < 100) > 50
    assert min(url for url in crawl.excluded if url >= 100) > 130
    crawl.commit()
