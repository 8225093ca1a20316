"""BEAST's bound: at every point of every run at most 2 re-reads and 3 lookups a discovered URL, whatever the order in
which URLs arrive. (One queue that is looked through for what may go now passes 30 lookups: bench/budgets counts it.)"""

from __future__ import annotations

from pathlib import Path

import pytest
from budget_crawl import Crawl
from hypothesis import given, settings
from hypothesis import strategies as st

from budgets import BudgetParams, Worth
from budgets.star import CURVES

MILLION = 1_000_000


class Watched(Crawl):
    """Holds the bound against every merge, those inside a rotation too."""

    def open(self) -> None:
        super().open()
        merge = self.sites._merge

        def watched(*args: object, **kwargs: object) -> None:
            merge(*args, **kwargs)  # type: ignore[arg-type]
            sites = self.sites
            assert sites.rereads <= 2 * sites.discovered, (sites.rereads, sites.discovered)
            assert sites.lookups <= 3 * sites.discovered, (sites.lookups, sites.discovered)

        self.sites._merge = watched  # type: ignore[method-assign]


arrivals = st.one_of(
    st.tuples(st.just("flood"), st.integers(0, 3), st.integers(100, 3000)),
    st.tuples(st.just("trickle"), st.integers(0, 30), st.integers(1, 5)),
    st.tuples(st.just("linked"), st.integers(0, 3), st.integers(1, 30)),
    st.tuples(st.just("drain"), st.integers(1, 400), st.just(0)),
    st.tuples(st.just("cycle"), st.just(0), st.just(0)),
    st.tuples(st.just("reopen"), st.just(0), st.just(0)),
    st.tuples(st.just("fetched"), st.integers(0, 3), st.integers(1, 60)),
    st.tuples(st.just("shed"), st.integers(1, 2000), st.just(0)),
    st.tuples(st.just("other budgets"), st.integers(1, 20), st.sampled_from([2, 50, 5000])),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(arrivals, min_size=4, max_size=25), st.integers(1, 4))
def test_no_order_of_arrival_breaks_the_bound(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]], base: int
) -> None:
    """Floods, trickles, budgets that reputation raises, yields lower and a new configuration changes, rotation stopped
    right where cycles end, and URLs given up."""
    crawl = Watched(
        tmp_path_factory.mktemp("crawl"), BudgetParams(base=base, top_sites=4, top_budget=50), worth=Worth(weight=1.0)
    )
    for step, a, b in steps:
        if step in ("flood", "trickle"):
            crawl.urls([a] * b)
            crawl.merge()
        elif step == "linked":
            crawl.pairs([(100 + b * 40 + other, a) for other in range(b)])
            crawl.merge()
        elif step == "drain":
            crawl.rotate(a)
        elif step == "cycle":  # up to the end of the cycle, and a flood before QF is read
            end = crawl.sites._deferred.next_end()
            while end is not None and crawl.sites.current < end and crawl.sites.queued_rows:
                crawl.rotate(1)
            crawl.urls([0] * 500)
        elif step == "fetched":
            crawl.yields([(a, 0)] * b)
        elif step == "shed":
            crawl.merge()
            crawl.sites.shed(crawl.turn(), crawl.edits, a, crawl.exclude)
        elif step == "other budgets":
            crawl.params = BudgetParams(base=a, top_budget=b, curve=CURVES[a % len(CURVES)])
            crawl.reopen()
        else:
            crawl.reopen()
        crawl.balance()
    while crawl.sites.queued_rows + crawl.sites.deferred_rows + crawl.sites.pending_rows:
        crawl.merge()
        crawl.rotate(5000)
        crawl.balance()
    assert len(crawl.drained) + len(crawl.excluded) == crawl.arrived


@pytest.mark.slow
def test_a_million_urls_of_one_site_at_once(tmp_path: Path) -> None:
    """The same million through BEAST: every one comes out, in order, within 2 re-reads a URL at each merge."""
    crawl = Watched(tmp_path, BudgetParams(), ram_bytes=64 << 20)
    for start in range(0, MILLION, 100_000):
        assert crawl.arrived == start
        crawl.urls([0] * 100_000)
    crawl.merge()
    drained = 0
    while drained < MILLION:
        done = crawl.sites.rotate(crawl.turn(), crawl.edits, 50_000, lambda batch: None, crawl.exclude)
        drained += done.rows
        crawl.commit()
    assert drained == MILLION
    assert crawl.sites.rereads / MILLION < 2
    print(f"{crawl.sites.lookups / MILLION:.3f} lookups, {crawl.sites.rereads / MILLION:.3f} re-reads a URL")
