"""Pages that are visited for their new links."""

from __future__ import annotations

from typing import Any

from drum import Batch, Ragged

import numpy as np
import pytest

from irlcrawl.base.rows import LINK, PAGE, PageFlag
from irlcrawl.revisit.hubs import (
    LINK_OCTAVES,
    days_to_overflow,
    learnt_links,
    link_codes,
    link_rate_codes,
    link_rates,
    link_worths,
)
from irlcrawl.revisit.price import worth
from irlcrawl.revisit.visited import silent, weights, wished_after
from irlcrawl.revisit.weight import Terms


def hubs(count: int, items: int = 20, **columns: Any) -> Batch:
    rows = Batch.zeros({**LINK, **PAGE}, count).with_(
        key=np.arange(count, dtype=np.uint64) + np.uint64(7), visits=np.ones(count, np.uint16),
        weight=np.full(count, 128, np.uint8), prior=np.full(count, 90, np.uint8),
        flags=np.full(count, PageFlag.FEED, np.uint8), hub=Ragged.from_list([b"ab" * items] * count),
    )  # fmt: skip
    return rows.with_(**columns)


def terms(count: int) -> Terms:
    return Terms(np.ones(count), np.zeros(count), np.full(count, 365.0))


@pytest.mark.parametrize("rate", [0.05, 0.7, 6.0])
def test_the_rate_of_new_links_is_learnt(rate: float) -> None:
    """In the mean over many hubs; with what the latest visits found, for the older ones fade."""
    draw, rows = np.random.default_rng(3), hubs(400)
    for visit in range(60):
        days = draw.uniform(0.5, 1.5, 400) * 3 / rate
        new = draw.poisson(rate * days).astype(np.uint16)
        rows = rows.with_(visits=np.full(400, visit + 1, np.uint16))
        links_a, links_b = learnt_links(rows, days, new, np.ones(400, np.bool_))
        rows = rows.with_(links_a=links_a, links_b=links_b)
    assert link_rates(rows).mean() == pytest.approx(rate, rel=0.06)


def test_hubs_are_visited_by_the_square_root_of_their_rate_and_before_they_overflow() -> None:
    rates = np.array([0.01, 0.04, 0.16, 50.0])
    a, b = link_codes(np.clip(np.rint(8 * np.log2(rates)) + 128, 1, 255).astype(np.uint8))
    rows = hubs(4, 250, links_a=a, links_b=b, prior=np.zeros(4, np.uint8))
    days = wished_after(rows, terms(4), 1e-3)
    found = np.sqrt(2 * 1e-3 / (link_rates(rows) * 2.0**LINK_OCTAVES))
    assert days[:3] == pytest.approx(found[:3], rel=0.01)
    assert (days <= days_to_overflow(rows)).all()
    few = rows.with_(hub=Ragged.from_list([b"ab" * 5] * 4))
    assert wished_after(few, terms(4), 1e3)[3] == pytest.approx(2.5 / link_rates(rows)[3])


def test_freshness_and_links_are_worth_the_price_together() -> None:
    rows = hubs(3, links_a=np.full(3, 70, np.uint8), links_b=np.array([60, 90, 120], np.uint8))
    price = 0.3
    days = wished_after(rows, terms(3), price)
    total = worth(silent(rows), weights(rows, terms(3)), days) + link_worths(rows) * days**2 / 2
    assert total == pytest.approx(price, rel=1e-4)


def test_a_rate_is_kept_in_one_byte() -> None:
    rows = hubs(5, links_a=np.array([0, 50, 80, 96, 10], np.uint8), links_b=np.array([0, 90, 80, 60, 100], np.uint8))
    rows = rows.with_(hub=Ragged.from_list([b""] + [b"ab"] * 4))
    codes = link_rate_codes(rows)
    assert codes[0] == 0 and (codes[1:] > 0).all()
    a, b = link_codes(codes)
    again = link_rates(rows.with_(links_a=a, links_b=b))
    assert again[0] == 0 and again[1:] == pytest.approx(link_rates(rows)[1:], rel=0.15)
