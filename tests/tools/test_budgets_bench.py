"""The simulated crawl: the same each time, within BEAST's bound at every turn, an oracle hardly meets an enemy."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench._sim.arrivals import one_site
from bench._sim.crawl import Crawl, Run
from bench._sim.policies import policies, variants
from bench._sim.quick import KeySet, Quick
from bench.budgets import _words, line, main
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
    curves = runs[0].curves()
    assert curves["fetches"] == [p.fetches for p in runs[0].points] and len(curves["naive"]) == len(curves["seconds"])


def test_startable_visits_are_those_that_politeness_counts(tmp_path: Path) -> None:
    found: list[tuple[int, int]] = []

    def watch(running: Crawl) -> None:
        hosts, waiting, now = running.hosts, running.hosts.polite.waiting, running.clock.now()
        sites = hosts._facts["site"]
        found.extend(
            (hosts.startable(s), waiting.startable(now, s, 1 << 20, sites.__getitem__)[0]) for s in (0.0, 3.0, 30.0)
        )

    Crawl(tmp_path / "job", Web(SMALL), policies()["ours"], 2_000, rate=200.0).run(watch)
    assert all(mine == theirs for mine, theirs in found) and max(found)[0] > 100


def test_the_quick_run_meets_enemies_and_its_oracle_hardly_does(tmp_path: Path) -> None:
    runs = {
        name: Quick(tmp_path / name, Web(SMALL), policies()[name], 4_000, 200.0).run() for name in ("ours", "oracle")
    }
    assert all(run.spent.fetches >= 4_000 and run.lookups_per_url <= 3 for run in runs.values())
    assert runs["oracle"].spent.enemy < runs["ours"].spent.enemy
    again = Quick(tmp_path / "again", Web(SMALL), policies()["ours"], 4_000, 200.0).run()
    assert again.spent == runs["ours"].spent


def test_a_quick_run_tells_no_figure_that_it_has_not(tmp_path: Path) -> None:
    """It said `100% busy` and `0 B on disk a queued URL`, and called the last lookups the most there were."""
    run = Quick(tmp_path / "job", Web(SMALL), policies()["paper"], 4_000, 200.0).run()
    found = line(run, None)
    assert found["utilisation"] is None and found["disk_bytes_per_url"] is None
    assert run.lookups_per_url <= run.lookups_per_url_max <= 3 and run.rereads_per_url <= run.rereads_per_url_max <= 2
    assert "busy" not in _words(found) and "B on disk" not in _words(found)


def test_plots_without_matplotlib_were_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "bench._sim.plots", raising=False)
    (tmp_path / "budgets.jsonl").touch()
    assert main(["--plots", str(tmp_path)]) == 1
    assert "make bench-venv" in capsys.readouterr().err


def test_every_variant_opens_a_crawl(tmp_path: Path) -> None:
    for name, policy in variants().items():
        Quick(tmp_path / name, Web(SMALL), policy, 200, 200.0).run()


@given(st.lists(st.lists(st.integers(0, 50), max_size=20), max_size=8))
def test_a_key_set_knows_every_key_it_was_given(batches: list[list[int]]) -> None:
    keys, known = KeySet(), set[int]()
    for batch in batches:
        fresh = keys.fresh(np.unique(np.array(batch, np.uint64)))
        assert fresh.tolist() == sorted(set(batch) - known)
        known |= set(batch)


def test_all_urls_of_a_site_at_once_stay_within_the_bound(tmp_path: Path) -> None:
    found = one_site(tmp_path, 50_000)
    assert found["lookups_per_url_max"] <= 3 and found["rereads_per_url_max"] <= 2
    assert found["naive_lookups_per_url"] > 30
