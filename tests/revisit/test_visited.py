"""Rows of pages after visits and failures, and a queue of them that is served in the order of dues."""

from __future__ import annotations

from typing import Any

from drum import Batch, Ragged

import numpy as np
import pytest
from numpy.typing import NDArray

from irlcrawl.base.rows import LINK, PAGE, VISIT, Change, PageFlag, Source, with_pages
from irlcrawl.revisit.beliefs import rate_code
from irlcrawl.revisit.price import due_after, first_price, moved
from irlcrawl.revisit.visited import (
    DAY_S,
    after_failures,
    after_visits,
    beliefs,
    intervals,
    looked_at,
    weights,
    worth_now,
)
from irlcrawl.revisit.weight import Terms

NOW = 1_000_000_000.0
PRICE = first_price(1 / 30)


def links(urls: list[bytes], **columns: Any) -> Batch:
    made = Batch.zeros(LINK, len(urls)).with_(url=Ragged.from_list(urls), key=np.arange(len(urls), dtype=np.uint64))
    return made.with_(**columns)


def pages(count: int, **columns: Any) -> Batch:
    """Pages that were visited once, now."""
    rows = with_pages(links([b"http://a.test/p%d" % i for i in range(count)]))
    known = {"visits": np.ones(count, "u2"), "visited": np.full(count, NOW, "u4"), "weight": np.full(count, 128, "u1")}
    return rows.with_(**known, prior=np.full(count, rate_code(np.array([1 / 30]))[0]), **columns)


def terms_of(count: int, least: float = 1 / 24, most: float = 365.0) -> Terms:
    return Terms(np.ones(count), np.full(count, least), np.full(count, most))


def visits(change: list[Change], at: Any = NOW, **columns: Any) -> Batch:
    count = len(change)
    rows = Batch.zeros(VISIT, count).with_(change=np.array(change, "u1"), at=np.broadcast_to(float(at), count).copy())
    return rows.with_(**columns)


def learn(rows: Batch, change: list[Change], at: float, price: float = PRICE) -> tuple[Batch, NDArray[Any], Any]:
    found = after_visits(rows, visits(change, at), terms_of(rows.rows), rows["prior"], price, 0.0)
    return found.resting.rows, (found.resting.due - at) / DAY_S, found


def test_a_first_visit_makes_a_page() -> None:
    rows = with_pages(links([b"http://a.test/"], source=np.array([Source.SEED], "u1")))
    found = visits([Change.FIRST], digest=np.array([77], "u8"), validators=Ragged.from_list([b"tag"]))
    learnt = after_visits(rows, found, terms_of(1), np.array([100], np.uint8), PRICE, 0.0)
    page = learnt.resting.rows
    assert set(page.columns) == {*LINK, *PAGE}
    told = {name: page[name].tolist()[0] for name in ("visits", "visited", "digest", "validators", "prior")}
    assert told == {"visits": 1, "visited": int(NOW), "digest": 77, "validators": b"tag", "prior": 100}
    assert (page["rate_a"][0], page["rate_b"][0], learnt.shape[0], learnt.days[0]) == (0, 0, 0, 0)
    assert {name: str(page[name].dtype) for name in PAGE if PAGE[name] != "bytes"} == {
        name: str(np.dtype(kind)) for name, kind in PAGE.items() if kind != "bytes"
    }


@pytest.mark.parametrize("change", [Change.NOT_MODIFIED, Change.SAME, Change.NEAR])
def test_what_did_not_change_rests_longer_and_what_changed_shorter(change: Change) -> None:
    rows = pages(2)
    before = intervals(rows, terms_of(2), PRICE, 0.0)[0]
    rows, days, found = learn(rows, [change, Change.YES], NOW + 10 * DAY_S)
    assert days[0] > before[0] and days[1] < before[1]
    assert found.days[0] == pytest.approx(10) and found.shape[0] == 0 and found.shape[1] > 0.5
    assert rows["changed"].tolist() == [0, int(NOW + 10 * DAY_S)]
    assert rows["visits"].tolist() == [2, 2]


def test_the_same_visit_gives_the_same_row_whenever_it_is_replayed() -> None:
    rows = pages(200, rate_a=np.full(200, 70, "u1"), rate_b=np.full(200, 90, "u1"))
    change = [Change.YES, Change.SAME] * 100
    first, again = (learn(rows, change, NOW + 3.3 * DAY_S)[0] for _ in range(2))
    assert all(first[name].tolist() == again[name].tolist() for name in first.columns)
    assert len(set(first["rate_b"].tolist())) > 1  # each page draws for itself
    alone = learn(rows.slice(7, 8), change[7:8], NOW + 3.3 * DAY_S)[0]
    assert [alone[name].tolist()[0] for name in PAGE] == [first[name].tolist()[7] for name in PAGE]


def test_an_error_teaches_nothing_and_is_asked_again_after_a_day_at_least() -> None:
    rows = pages(1, rate_a=np.array([120], "u1"), rate_b=np.array([64], "u1"))  # hundreds of changes a day
    after, days, _ = learn(rows, [Change.ERROR], NOW + 5 * DAY_S)
    assert days[0] >= 1.0
    for name in ("visited", "changed", "rate_a", "rate_b", "flags"):
        assert after[name].tolist() == rows[name].tolist()
    assert after["visits"].tolist() == [2]


def test_a_page_is_gone_when_it_is_missing_for_a_week() -> None:
    rows, told = pages(1), []
    for day in (10.0, 11.0, 14.0):
        rows, days, found = learn(rows, [Change.GONE], NOW + day * DAY_S)
        assert not found.gone.any() and rows["flags"][0] & PageFlag.GONE_ONCE
        told.append(days[0])
    assert told[0] == 1.0 and rows["changed"][0] == NOW + 10 * DAY_S
    back = learn(rows, [Change.YES], NOW + 18 * DAY_S)[0]
    assert back["flags"][0] & PageFlag.GONE_ONCE == 0
    rows, _, found = learn(rows, [Change.GONE], NOW + 17 * DAY_S)
    assert found.gone.tolist() == [True] and rows.rows == 0


def test_a_failed_or_forbidden_visit_leaves_the_belief_and_ends_later() -> None:
    rows = pages(3, rate_a=np.array([0, 120, 0], "u1"), rate_b=np.array([0, 64, 200], "u1"))
    denied = np.array([False, False, True])
    resting = after_failures(rows, denied, terms_of(3), PRICE, 0.0, NOW)
    days = (resting.due - NOW) / DAY_S
    assert 1 < days[0] <= 30 and days[1] <= 30 and days[2] == 30
    assert resting.shut.all() and (resting.rows["flags"] & PageFlag.DENIED).astype(bool).tolist() == denied.tolist()
    assert all(resting.rows[name].tolist() == rows[name].tolist() for name in ("rate_a", "rate_b", "visited", "visits"))


def test_bounds_hold_whatever_the_price() -> None:
    rows = pages(4, rate_a=np.array([0, 0, 120, 0], "u1"), rate_b=np.array([0, 0, 64, 0], "u1"))
    terms = Terms(np.ones(4), np.full(4, 2.0), np.full(4, 5.0))
    for price in (1e-9, 1e9):
        found = after_visits(rows, visits([Change.SAME] * 4), terms, rows["prior"], price, 0.0)
        days = (found.resting.due - NOW) / DAY_S
        assert ((days >= 2 - 1e-9) & (days <= 5 + 1e-9)).all()
        assert found.resting.shut.all() == (price < 1)
    rare = after_visits(pages(1), visits([Change.SAME]), terms_of(1), rows["prior"][:1], 1e-9, 0.1)
    belief = beliefs(rare.resting.rows)
    chance = 1 - (1 + (rare.resting.due[0] - NOW) / DAY_S / belief.b[0]) ** -belief.a[0]
    assert chance == pytest.approx(0.1, abs=1e-3)


def test_a_page_taken_before_its_due_waits_for_its_bounds_and_a_dear_one_for_the_price() -> None:
    rows = pages(3).with_(visited=np.array([NOW, NOW - 3 * DAY_S, NOW - 3 * DAY_S], "u4"))
    due = np.array([NOW + 9 * DAY_S, NOW + 9 * DAY_S, NOW])
    cheap = looked_at(rows, due, terms_of(3), 1e-6, 0.0, NOW)
    assert cheap.go.tolist() == [False, True, True]
    assert cheap.shut[0] and cheap.due[0] == NOW + DAY_S / 24
    dear = looked_at(rows, due, terms_of(3), 1e3, 0.0, NOW)
    assert dear.go.tolist() == [False, True, False]
    assert dear.due[2] == NOW + 3 * DAY_S and not dear.shut[2]  # twice as long as since the visit
    retried = looked_at(rows.with_(attempt=np.ones(3, "u1")), due, terms_of(3), 1e3, 0.0, NOW)
    assert retried.go[2]


@pytest.mark.parametrize(("known", "share"), [(True, 0.995), (False, 0.975)])
def test_serving_in_the_order_of_dues_finds_the_optimum(known: bool, share: float) -> None:
    """A queue in memory: 2,000 pages, a visit a page and 10 days, 500 days. A first price that was too high starved
    fast pages for a year, whatever the price became: 0.99 of the optimum instead of all."""
    rng = np.random.default_rng(5)
    count, step = 2000, 0.25
    capacity = int(0.1 * count * step)
    rate = np.where(rng.random(count) < 0.25, 1e-6, np.exp(rng.normal(np.log(1 / 45), 1.8, count)))
    rows = pages(count).with_(visited=(NOW - rng.uniform(0, 20, count) * DAY_S).astype("u4"))
    if known:  # beliefs that are certain, and stay so: exposures are out of reach of any interval
        rows = rows.with_(prior=rate_code(rate), rate_a=np.full(count, 0, "u1"))
    price, fresh = 30 * first_price(1 / 30), []
    terms = terms_of(count, 0.0)
    due = np.full(count, NOW)
    exact = _certain(rate) if known else None
    for day in np.arange(0.0, 500.0, step):
        now = NOW + day * DAY_S
        while True:
            at = np.argpartition(due, capacity)[:capacity]
            some, few = rows.take(at), _of(terms, at)
            with _beliefs(exact, at):
                looked = looked_at(some, due[at], few, price, 0.0, now)
                if looked.go.all():
                    break
                due[at[~looked.go]] = looked.due[~looked.go]
        change = rng.random(capacity) < -np.expm1(-rate[at] * (now - some["visited"]) / DAY_S)
        with _beliefs(exact, at):
            price = moved(price, worth_now(some, few, now), count)
            found = after_visits(
                some, visits(np.where(change, Change.YES, Change.SAME).tolist(), now), few, some["prior"], price, 0.0
            )
        due[at] = found.resting.due
        columns = {name: rows[name].copy() for name in ("visits", "visited", "rate_a", "rate_b")}
        for name, column in columns.items():
            column[at] = found.resting.rows[name]
        rows = rows.with_(**columns)
        if day >= 250:
            fresh.append(np.exp(-rate * ((now - rows["visited"]) / DAY_S + step / 2)).mean())
    assert np.mean(fresh) / _optimum(rate, 0.1 * count) > share
    assert (weights(rows, terms) == 1).all()


def _of(terms: Terms, at: NDArray[np.int64]) -> Terms:
    return Terms(terms.weight[at], terms.least[at], terms.most[at])


def _certain(rate: NDArray[np.float64]) -> Any:
    from irlcrawl.revisit.beliefs import Belief

    return Belief(np.full(len(rate), 1e7), 1e7 / rate)


class _beliefs:
    """While it is entered, rows are believed to change at their own rates."""

    def __init__(self, exact: Any, at: NDArray[np.int64]) -> None:
        self._exact, self._at = exact, at

    def __enter__(self) -> None:
        from irlcrawl.revisit import visited

        if self._exact is not None:
            a, b = self._exact.a[self._at], self._exact.b[self._at]
            visited.beliefs = lambda rows: type(self._exact)(a, b)  # type: ignore[assignment]

    def __exit__(self, *error: object) -> None:
        from irlcrawl.revisit import visited

        visited.beliefs = beliefs


def _optimum(rate: NDArray[np.float64], capacity: float) -> float:
    """Cho and Garcia-Molina's, by bisection on the price."""
    low, high = 1e-9, 1e9
    for _ in range(80):
        level = np.sqrt(low * high)
        every = due_after(_certain(rate), np.ones(len(rate)), level, 1e6)
        low, high = (low, level) if (1 / every).sum() < capacity else (level, high)
    return float((-np.expm1(-rate * every) / (rate * every)).mean())
