"""Pages that are called out of their rest, by signals that are believed and by the operator, through turns with real
files: the ledger at every commit, each page in one place, the same after kills."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench._sim.revisited import Revisited
from irlcrawl.base.rows import Change
from irlcrawl.frontier.state.known_pages import known_page
from tests.frontier.turn.test_pages import crawl_of, known

COUNT, HOSTS = 40, 4


def told_crawl(path: Path) -> Revisited:
    """Page i changes every i + 1 days; hosts 0 and 1 say so at once, host 2 says so of all pages each day, host 3
    nothing."""
    crawl = crawl_of(path, COUNT, HOSTS)
    crawl.config.revisit.share_max = 1.0
    crawl.step(0.5, COUNT)
    return crawl


def signals_of(crawl: Revisited, step: float) -> tuple[Any, Any]:
    """Of the step before."""
    day, pages = crawl.day - step, np.arange(COUNT)
    changed = np.floor((day + step) / (pages + 1.0)) * (pages + 1.0)
    honest = (pages % HOSTS < 2) & (changed > day)
    lying = (pages % HOSTS == 2) & (np.floor(day) != np.floor(day + step))
    at = np.where(honest, changed, day + step / 2)
    chosen = np.flatnonzero(honest | lying)
    return chosen, at[chosen]


def live_ones(crawl: Revisited) -> None:
    """Each page is in one place: at rest, where the drum `pages` says, or in a run."""
    keys = []
    for batch in crawl.state.pages.scan():
        keys += batch["key"].tolist()
        for key, due, visits in zip(*(batch[name].tolist() for name in ("key", "due", "visits")), strict=True):
            known = known_page(crawl.state.known, key)
            row = crawl.state.pages.row(key, known.label, known.shut) if known is not None else None
            assert row is not None and (row["due"][0], row["visits"][0]) == (due, visits)
    for key in crawl._keys[~np.isin(crawl._keys, keys)].tolist():
        on_its_way = known_page(crawl.state.known, key)
        assert on_its_way is not None and on_its_way.label == 0
    keys += [key for batch in crawl.state.runs.waiting() for key in batch["key"].tolist()]
    assert len(keys) == len(set(keys)) == COUNT


def beliefs_of_hosts(crawl: Revisited) -> dict[int, tuple[float, float]]:
    names = crawl._links["host"][:HOSTS].tolist()
    found = {
        key: (right, wrong) for bucket in crawl.state.hosts.buckets for batch in crawl.state.hosts.scan(bucket)
        for key, right, wrong in zip(*(batch[name].tolist() for name in ("key", "right", "wrong")), strict=True)
    }  # fmt: skip
    return {host: found.get(key, (0.0, 0.0)) for host, key in enumerate(names)}


def test_signals_are_believed_of_hosts_that_earned_it(tmp_path: Path) -> None:
    crawl = told_crawl(tmp_path / "job")
    for _ in range(90):
        crawl.tell(*signals_of(crawl, 0.5))
        crawl.step(0.5, 6)
    live_ones(crawl)
    hosts = beliefs_of_hosts(crawl)
    assert min(hosts[host][0] / sum(hosts[host]) for host in (0, 1)) >= 0.7
    assert hosts[2][0] / sum(hosts[2]) < 0.7 and hosts[3] == (0.0, 0.0)
    told = dict.fromkeys(range(COUNT), 0)
    for batch in crawl.state.pages.scan():
        told.update(zip(np.searchsorted(crawl._keys, batch["key"]).tolist(), batch["told"].tolist(), strict=True))
    of_host: dict[int, list[int]] = {host: [] for host in range(HOSTS)}
    for place, code in told.items():
        of_host[int(crawl._order[place]) % HOSTS].append(code)
    assert np.mean(of_host[0]) > 100 and max(of_host[2]) == max(of_host[3]) == 0
    assert crawl.state.counters["visits_called"] > 50
    crawl.close()


@pytest.mark.parametrize("killed", ["turn", "worker"])
def test_kills_leave_each_called_page_in_one_place(tmp_path: Path, killed: str) -> None:
    crawl = told_crawl(tmp_path / "job")
    for number in range(60):
        crawl.tell(*signals_of(crawl, 0.5))
        if killed == "turn" and number % 5 == 3:
            crawl.turn(6, commit=False)
            crawl.crash()
        crawl.step(0.5, 6)
        if killed == "worker" and number % 7 == 2:
            crawl.crash()
        if number % 4 == 0:
            live_ones(crawl)
    assert crawl.state.counters["visits_called"] > 0
    crawl.turn(0)
    assert sum(visits for visits, *_ in known(crawl).values()) == crawl.visits
    crawl.close()


def test_an_order_calls_pages_whatever_is_known_of_them(tmp_path: Path) -> None:
    """Also such as rest shut; what their rows left behind comes to nothing when its time has come."""
    crawl = crawl_of(tmp_path / "job", COUNT, HOSTS)
    crawl.config.revisit.every_min_seconds = 20 * 86400.0
    crawl.config.revisit.share_max = 1.0
    crawl.crash()
    crawl.step(0.5, COUNT)
    crawl.turn(0)
    assert crawl.state.pages.shut.rows > 0
    crawl.clock.advance(3600)
    crawl.tell(np.arange(0, COUNT, 2), np.zeros(COUNT // 2), now=True)
    result = crawl.turn(COUNT)
    assert sum(int(ready.index["rows"].sum()) for ready in result.ready) == COUNT // 2
    before = {page: row[:2] for page, row in known(crawl).items()}
    crawl.work(result, 0.5)
    crawl.turn(0)
    live_ones(crawl)
    after = {page: row[:2] for page, row in known(crawl).items()}
    assert sorted(page for page in after if after[page][0] > before[page][0]) == list(range(0, COUNT, 2))
    for _ in range(15):
        crawl.step(3.0, COUNT)
        live_ones(crawl)
    assert [store.rows for store in crawl.state.pages.left] == [0, 0]
    crawl.close()


def test_a_called_page_keeps_its_belief(tmp_path: Path) -> None:
    crawl = crawl_of(tmp_path / "job", COUNT, HOSTS)
    for _ in range(40):
        crawl.step(0.5, 10)
    crawl.turn(0)
    before = known(crawl)
    crawl.tell(np.arange(COUNT), np.zeros(COUNT), now=True)
    crawl.turn(0)
    assert {page: row[:4] for page, row in known(crawl).items()} == {page: row[:4] for page, row in before.items()}
    assert crawl.state.pages.rows < COUNT
    crawl.close()


def test_off_the_drum_of_pages_has_nothing(tmp_path: Path) -> None:
    crawl = crawl_of(tmp_path / "job", 6, 2)
    crawl.config.revisit.enabled = False
    crawl.crash()
    crawl.step(0.5, 10)
    crawl.tell(np.arange(6), np.ones(6))
    crawl.step(0.5, 10)
    assert not [key for key, _ in crawl.state.catalog.items("drum/pages/")]
    crawl.close()


def test_a_page_takes_24_bytes_in_the_drum(tmp_path: Path) -> None:
    crawl = Revisited(
        tmp_path / "job", np.arange(6000) % 40, (np.arange(6000) % 4).astype(np.uint16),
        lambda which, since, at: np.full(len(which), Change.SAME),
    )  # fmt: skip
    crawl.step(0.5, 6000)
    crawl.tell(np.arange(1), np.ones(1))
    crawl.step(0.5, 0)
    crawl.step(0.5, 0)
    state = crawl.state
    stored = sum(
        state.pool.section(part.file, part.section).nbytes for bucket in state.known.buckets for part in bucket.slices
    )
    assert state.known.rows == 6000 and stored <= 24 * 6000
    crawl.close()
