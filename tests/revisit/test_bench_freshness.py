"""`python -m bench freshness` on a small world: what its policies do, and that its curves are drawn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from drum import Batch, Ragged

import numpy as np
import pytest

from bench.freshness import (
    CC_LEAST_DAYS,
    CC_MOST_DAYS,
    POLICIES,
    World,
    cc_news_next,
    compared,
    main,
    nutch,
    played,
)
from bench.freshness_worlds import Raw
from irlcrawl.base.rows import LINK, Source
from irlcrawl.revisit.weight import WEIGHTS, weight_codes


def world(rate: float = 0.1) -> World:
    return World.made(300, 5, rate, 40.0, 1.0)


def test_pages_weigh_as_the_crawler_weighs_them() -> None:
    some = world()
    links = Batch.zeros(LINK, some.pages).with_(
        url=Ragged.from_list([b"http://a.test/p"] * some.pages), depth=some.depth,
        source=np.full(some.pages, Source.LINK, np.uint8),
    )  # fmt: skip
    assert some.weight == pytest.approx(WEIGHTS[weight_codes(links)])


def test_cc_news_shrinks_towards_its_least_interval_and_grows_to_its_most() -> None:
    every, yes, no = np.array([1.0]), np.array([True]), np.array([False])
    assert cc_news_next(every, no) == 1.5 and cc_news_next(every, yes) == 0.8 + 0.2 * CC_LEAST_DAYS
    for _ in range(60):
        every = cc_news_next(every, yes)
    assert every == pytest.approx(CC_LEAST_DAYS, rel=1e-3)
    for _ in range(60):
        every = cc_news_next(every, no)
    assert every == CC_MOST_DAYS


@pytest.mark.parametrize("name", ["uniform", "nutch", "cc-news"])
def test_a_rule_stays_within_capacity_and_below_the_optimum(name: str) -> None:
    found = POLICIES[name](world())
    assert found.visits_a_day <= 30 and 0.5 < found.share < 1.02
    assert found.curve is not None and len(found.curve.fresh) == 39
    assert sum(found.curve.visits) > 0


def test_a_rule_may_see_another_world_than_the_one_it_is_judged_by() -> None:
    some = world()
    raw = replace(some, changes=Raw(some.changes, some.depth == 0))  # type: ignore[arg-type]
    found = played(raw, "nutch", nutch, truth=some)
    assert 0.5 < found.late < 1 and found.late != POLICIES["nutch"](some).late


def test_curves_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is missing: make bench-venv")
    assert main(["--plots", str(tmp_path)]) == 4 and "there is no" in capsys.readouterr().err
    monkeypatch.setattr("bench.freshness.CURVE_RATES", (0.1,))
    monkeypatch.setitem(POLICIES, "learnt", POLICIES["uniform"])  # the frontier takes seconds
    compared(world, tmp_path)
    assert main(["--plots", str(tmp_path)]) == 0
    for name in ("freshness.svg", "freshness-visits.svg"):
        assert (tmp_path / name).stat().st_size < 60_000 and "Nutch" in (tmp_path / name).read_text()
