"""Pages of the simulated web change as often as they should, and the same whenever they are asked."""

from __future__ import annotations

import numpy as np
import pytest

from tools.simweb.changes import Changes, Kind

PAGES = 300


def changes(kind: Kind, rate: float, switch: float = np.inf) -> Changes:
    return Changes(7, np.full(PAGES, kind, np.uint8), np.full(PAGES, rate), np.full(PAGES, switch))


def times(web: Changes, until: float, step: float) -> list[set[float]]:
    """Of each page all changes that looks `step` days apart see."""
    found: list[set[float]] = [set() for _ in range(PAGES)]
    for day in np.arange(step, until, step):
        for page, at in enumerate(web.last(np.arange(PAGES), np.full(PAGES, day)).tolist()):
            if np.isfinite(at):
                assert at <= day + 1e-9
                found[page].add(round(at, 9))
    return found


@pytest.mark.parametrize("kind", [Kind.POISSON, Kind.PERIODIC, Kind.WEEKDAY])
def test_pages_change_at_their_mean_rate(kind: Kind) -> None:
    seen = times(changes(kind, 0.1), 280.0, 0.5)
    mean = np.mean([len(page) for page in seen]) / 280
    assert mean == pytest.approx(0.1, rel=0.15)


def test_a_poisson_page_has_as_much_variance_as_mean() -> None:
    counts = [len(page) for page in times(changes(Kind.POISSON, 0.05), 200.0, 0.5)]
    assert np.var(counts) == pytest.approx(np.mean(counts), rel=0.35)


def test_a_periodic_page_has_one_interval_and_a_switching_one_two_rates() -> None:
    page = sorted(times(changes(Kind.PERIODIC, 0.2), 100.0, 0.5)[3])
    assert np.diff(page) == pytest.approx(5.0)
    seen = times(changes(Kind.SWITCHING, 0.5, 50.0), 100.0, 0.25)
    before = np.array([sum(at < 50 for at in page) for page in seen])
    after = np.array([sum(at >= 50 for at in page) for page in seen])
    assert before.mean() == pytest.approx(25, rel=0.2)
    assert {True, False} == set((after > 2 * before).tolist()) and (np.abs(after - before) > 10).mean() > 0.9


def test_office_pages_change_on_working_days_and_a_still_page_never() -> None:
    at = np.array([change for page in times(changes(Kind.WEEKDAY, 0.3), 60.0, 0.5) for change in page])
    assert (np.mod(at, 7) < 5).all() and (np.mod(at, 1) >= 8 / 24 - 1e-6).all() and (np.mod(at, 1) <= 18 / 24).all()
    assert not np.isfinite(changes(Kind.NEVER, 1.0).last(np.arange(PAGES), np.full(PAGES, 500.0))).any()


def test_bursts_leave_long_silences() -> None:
    still = {}
    for kind in (Kind.POISSON, Kind.BURSTY):
        last = changes(kind, 1.0).last(np.arange(PAGES), np.full(PAGES, 300.0))
        still[kind] = (last < 295.0).mean()
    assert still[Kind.POISSON] == pytest.approx(np.exp(-5), abs=0.02)
    assert still[Kind.BURSTY] == pytest.approx(np.exp(-5 / 8), abs=0.08)


def test_the_answer_does_not_depend_on_who_asks_when() -> None:
    web, rng = changes(Kind.POISSON, 0.3), np.random.default_rng(1)
    pages, days = rng.integers(0, PAGES, 300), rng.uniform(0, 300, 300)
    together = web.last(pages, days)
    alone = np.concatenate([web.last(pages[at : at + 1], days[at : at + 1]) for at in range(300)])
    assert np.array_equal(together, alone)
