"""Sites as a whole: in-degree, queues, QF and rotation over real files, against the model and across reopening."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path

import drum.repository
from drum import Batch

import numpy as np
import pytest
from beast_model import Model, Record
from budget_crawl import Crawl, key_of, model_of, record_of, urls_of
from hypothesis import example, given, settings
from hypothesis import strategies as st

from budgets import BudgetParams, LedgerError
from budgets.star import CURVES

pairs = st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda pair: pair[0] != pair[1])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("pairs"), st.lists(pairs, min_size=1, max_size=12)),
        st.tuples(st.just("urls"), st.lists(st.integers(0, 7), min_size=1, max_size=20)),
        st.tuples(st.just("urls"), st.integers(0, 7).flatmap(lambda s: st.integers(1, 60).map(lambda n: [s] * n))),
        st.tuples(st.just("merge"), st.none()),
        st.tuples(st.just("rotate"), st.integers(0, 30)),
        st.tuples(st.just("commit"), st.none()),
        st.tuples(st.just("reopen"), st.none()),
    ),
    max_size=25,
)
params = st.builds(
    BudgetParams, base=st.integers(1, 4), top_sites=st.integers(1, 4), top_budget=st.integers(1, 12),
    curve=st.sampled_from(CURVES),
)  # fmt: skip
rams = st.sampled_from([4 << 20, 6_000])


@pytest.fixture(autouse=True)
def tiny_merges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a drum of a few rows split its buckets."""
    monkeypatch.setattr(drum.repository, "_RAM_LEAST", 0)


def step(crawl: Crawl, name: str, value: object) -> list[tuple[int, int]]:
    method = getattr(crawl, name)
    return (method() if value is None else method(value)) or []


def step_model(
    model: Model, crawl: Crawl, waiting: list[tuple[int, int]], name: str, value: object
) -> set[tuple[int, int]]:
    """The same step in the model, after the crawl did it: its drum has told when it split."""
    lows, crawl.lows = crawl.lows, []
    if name == "pairs":
        waiting += [(a * 1000 + b, key_of(b)) for a, b in value]  # type: ignore[attr-defined]
    elif name == "urls":
        first = crawl.arrived - len(value)  # type: ignore[arg-type]
        model.pending += [(key_of(s), first + i) for i, s in enumerate(value)]  # type: ignore[arg-type, var-annotated]
    elif name == "merge":
        for found in lows:
            model.follow(found)
        model.merge(waiting)
        waiting.clear()
    elif name == "rotate":
        model.splits = lows
        out = model.rotate(value)  # type: ignore[arg-type]
        assert not lows  # each merge of the drum was one of the model
        return set(out)
    return set()


def in_order(drained: list[tuple[int, int]], model: Model) -> None:
    """Of a site, URLs that never waited in QF come out as they arrived, and so do those that did."""
    last: dict[tuple[int, bool], int] = defaultdict(lambda: -1)
    for site, url in drained:
        kind = (site, url in model.deferred_once)
        assert url > last[kind]
        last[kind] = url


PAST_AN_END = [("urls", [0, 0]), ("merge", None), ("rotate", 1), ("urls", [0]), ("merge", None), ("rotate", 2)]
"""Rotation goes past the end of a cycle while QF is empty."""


@given(steps, params, rams, st.sampled_from([0, 0, 15]))
@example([*PAST_AN_END, ("urls", [0] * 10)], BudgetParams(base=1, curve="log"), 4 << 20, 0)  # the model had missed it
@settings(max_examples=150, deadline=None)
def test_agrees_with_the_model(plan: list[tuple[str, object]], p: BudgetParams, ram_bytes: int, quota: int) -> None:
    with tempfile.TemporaryDirectory() as root:
        crawl = Crawl(Path(root), p, ram_bytes, quota)
        model = model_of(crawl)
        waiting: list[tuple[int, int]] = []
        for name, value in [*plan, ("merge", None), ("rotate", 10**9)]:
            drained = step(crawl, name, value)
            expected = step_model(model, crawl, waiting, name, value)
            assert set(drained) == expected
            assert crawl.sites.current == model.current
            assert sorted(crawl.excluded) == sorted(url for _, url in model.excluded)
            assert crawl.sites.queued_rows == sum(map(len, model.queues.values()))
            assert crawl.sites.deferred_rows == len(model.qf)
            assert (crawl.sites.rereads, crawl.sites.discovered) == (model.rereads, model.discovered)
            for site in map(key_of, range(8)):
                assert record_of(crawl.sites, site) == model.records.get(site, Record())
            crawl.balance()
        assert len(crawl.drained) + len(crawl.excluded) == crawl.arrived  # nothing is left behind
        if p.curve != "none":
            in_order(crawl.drained, model)


@given(steps, params, rams)
@settings(max_examples=40, deadline=None)
def test_reopening_between_any_two_steps_changes_nothing(
    plan: list[tuple[str, object]], p: BudgetParams, ram_bytes: int
) -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        steady, interrupted = Crawl(Path(one), p, ram_bytes, 40), Crawl(Path(two), p, ram_bytes, 40)
        for name, value in [*plan, ("merge", None), ("rotate", 25), ("rotate", 10**9)]:
            if name in ("commit", "reopen"):
                continue
            assert step(steady, name, value) == step(interrupted, name, value)  # in the same order, too
            interrupted.reopen()
            assert steady.sites.top(20) == interrupted.sites.top(20)
            assert steady.sites.current == interrupted.sites.current
            assert steady.sites.queued_rows == interrupted.sites.queued_rows
            assert steady.sites.deferred_rows == interrupted.sites.deferred_rows
            assert steady.excluded == interrupted.excluded
            interrupted.balance()


@pytest.fixture
def crawl(tmp_path: Path) -> Crawl:
    return Crawl(tmp_path, BudgetParams())


def test_one_site_whose_urls_all_arrive_at_once(crawl: Crawl) -> None:
    """13,000 URLs, budget 10: over a thousand queues, in a handful of passes and within the bound of re-reads."""
    crawl.urls([0] * 13_000)
    crawl.merge()
    assert (crawl.sites.queued_rows, crawl.sites.deferred_rows) == (20, 12_980)
    done = crawl.sites.rotate(crawl.turn(), crawl.edits, 20_000, lambda batch: None, crawl.exclude)
    assert done.rows == 13_000
    assert done.cycles == 2
    assert crawl.sites.rereads == 12_980 + (12_980 - 10_240)
    assert crawl.sites.queued_rows == crawl.sites.deferred_rows == 0
    assert crawl.sites.current == 2 + 1298


def test_what_is_pending_does_not_overtake_what_waits_in_qf(tmp_path: Path) -> None:
    """A cycle may end before the URLs of this turn were merged: they go to QF behind those it holds."""
    crawl = Crawl(tmp_path, BudgetParams(base=1))
    crawl.urls([0] * 7)
    crawl.merge()
    crawl.urls([0] * 4)
    crawl.rotate(3)
    crawl.rotate(100)
    assert [url for _, url in crawl.drained] == [0, 1, 7, 8, 2, 3, 4, 5, 6, 9, 10]


def test_a_site_that_comes_in_dribs_and_drabs_keeps_the_bound(crawl: Crawl) -> None:
    """A site grows faster than it may be drained, a little in each of many turns."""
    for _ in range(60):
        crawl.urls([0] * 97 + [1] * 3)
        crawl.merge()
        assert 10 <= len(crawl.rotate(10)) <= 20
        crawl.commit()
        crawl.balance()
    assert crawl.sites.rereads > 0


def test_reputation_lets_a_site_queue_more(tmp_path: Path) -> None:
    """Eight sites link to site 0, one to site 1 (twice): distinct other sites count, and the next merge pays."""
    crawl = Crawl(tmp_path, BudgetParams(base=2, top_sites=2, top_budget=602, curve="linear"))
    crawl.pairs([(other, 0) for other in range(1, 9)] + [(5, 1), (5, 1)])
    crawl.merge()
    crawl.pairs([(5, 1), (8, 0)])
    crawl.urls([0] * 60 + [1] * 60 + [2] * 60)
    crawl.merge()
    crawl.commit()
    found = {record.site: record for record in crawl.sites.top(3)}
    assert [record.in_degree for record in crawl.sites.top(3)] == [8, 1, 0]
    assert [found[key_of(site)].budget for site in range(3)] == [50, 8, 2]
    drained = crawl.rotate(60)
    assert [sum(site == key_of(s) for site, _ in drained) for s in range(3)] == [50, 8, 2]


def test_top_and_site(crawl: Crawl) -> None:
    crawl.pairs([(a, b) for b in range(6) for a in range(20, 20 + b)])
    crawl.merge()
    assert [(r.site, r.in_degree) for r in crawl.sites.top(3)] == [(key_of(b), b) for b in (5, 4, 3)]
    found = crawl.sites.site(key_of(4))
    assert found is not None and found.in_degree == 4
    assert crawl.sites.site(key_of(99)) is None
    assert crawl.sites.sites == 5


def test_quota_and_override(tmp_path: Path) -> None:
    """Past its quota a site's URLs are handed to `exclude` as they came, also when it was lowered meanwhile."""
    crawl = Crawl(tmp_path, BudgetParams(base=5), quota=30, limits={key_of(1): 12})
    out: list[Batch] = []
    crawl.sites.pend_urls(urls_of([0] * 40 + [1] * 40, 0))
    crawl.sites.merge(crawl.turn(), crawl.edits, out.append)
    left = [url for batch in out for url in batch["url"].tolist()]
    assert left == [b"u%d" % n for n in [*range(30, 40), *range(52, 80)]]
    assert (crawl.sites.excluded, crawl.sites.queued_rows, crawl.sites.deferred_rows) == (38, 20, 22)
    crawl.quota = 15
    crawl.reopen()
    crawl.rotate(1000)
    assert sorted(crawl.excluded) == list(range(15, 30))
    assert len(crawl.drained) == 15 + 12


def test_many_small_turns_leave_few_sections(crawl: Crawl) -> None:
    for _ in range(100):
        crawl.urls([0] * 30)
        crawl.merge()
        crawl.commit()
    assert crawl.sites.queued_rows + crawl.sites.deferred_rows == 3000
    assert crawl.sites._deferred.sections <= 16 and crawl.sites._queues.sections <= 16
    assert [url for _, url in crawl.rotate(10**6)] == list(range(3000))


def test_a_lost_row_is_a_ledger_error(crawl: Crawl) -> None:
    crawl.urls([0] * 30)
    crawl.merge()
    crawl.sites.check()
    crawl.sites.drained -= 1
    with pytest.raises(LedgerError, match=r"30 URLs placed, but queued 20 \+ deferred 10 .* = 29"):
        crawl.sites.check()


def test_nothing_to_do_is_nothing(crawl: Crawl) -> None:
    crawl.merge()
    assert crawl.rotate(100) == []
    assert crawl.sites.current == 0 and not crawl.turn().sections


def test_cycles_of_another_bucket_do_not_stop_rotation(tmp_path: Path) -> None:
    """Sites in several buckets, one of them over budget: all URLs come out, whichever bucket ends its cycle when."""
    crawl = Crawl(tmp_path, BudgetParams(base=3), ram_bytes=20_000)
    rng = np.random.default_rng(1)
    for _ in range(10):
        crawl.urls([*rng.integers(0, 40, 150).tolist(), *[3] * 50])
        crawl.merge()
        crawl.rotate(60)
        crawl.commit()
        crawl.balance()
    assert len(crawl.sites._sites.buckets) > 3
    ends = {bucket.extra.get("cycle_end") for bucket in crawl.sites._sites.buckets}
    assert len(ends) > 1
    crawl.rotate(10**6)
    assert sorted(url for _, url in crawl.drained) == list(range(2000))
