"""The simulated crawl: the same each time, within BEAST's bound at every turn, an oracle hardly meets an enemy."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from bench._sim.crawl import Crawl, Run
from bench._sim.policies import policies
from tools.simweb.params import Params
from tools.simweb.web import Web

SMALL = Params(seed=3, pages_nominal=3_000_000)


def crawl(path: Path, policy: str, fetches: int = 4_000) -> Run:
    return Crawl(path / policy, Web(SMALL), policies()[policy], fetches, rate=200.0).run()


@pytest.mark.parametrize("policy", list(policies()))
def test_every_policy_crawls_within_the_bound(tmp_path: Path, policy: str) -> None:
    run = crawl(tmp_path, policy)
    assert run.spent.fetches >= 4_000
    assert run.lookups_per_url_max <= 3 and run.rereads_per_url_max <= 2
    assert run.spent.good + run.spent.enemy <= run.spent.fetches
    share = run.spent.enemy / run.spent.fetches
    assert (share < 0.03) == (policy == "oracle"), "pages of sites that turn after they were queued"


def test_a_run_is_the_same_each_time(tmp_path: Path) -> None:
    measured = ("disk_bytes", "rss_bytes")
    runs = [crawl(tmp_path / name, "ours", 2_000) for name in ("one", "two")]
    points = [[{k: v for k, v in asdict(p).items() if k not in measured} for p in run.points] for run in runs]
    assert points[0] == points[1]
