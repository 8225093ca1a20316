"""Pages that are visited again, through turns with real files: the ledger at every commit, each lease carried out once,
and the same beliefs to the bit after any kill."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

from drum import Batch, Ragged

import numpy as np
import pytest

from bench._sim.revisited import DAY_S, Revisited
from irlcrawl.base.reasons import Class, Reason
from irlcrawl.base.rows import OUTCOME, RETRY, VISIT, Change
from irlcrawl.frontier.state import crawl_state
from irlcrawl.frontier.turn import pages
from irlcrawl.frontier.turn.turn import Result
from irlcrawl.revisit.weight import DAY_S as A_DAY_S

PAGES = 60


def crawl_of(path: Path, count: int = PAGES, hosts: int = 5, **more: Any) -> Revisited:
    """Page i changes every i + 1 days."""

    def observe(which: Any, since: Any, at: Any) -> Any:
        every = which + 1.0
        return np.where(np.floor(at / every) > np.floor(since / every), Change.YES, Change.SAME)

    hosts_of, depth = np.arange(count) % hosts, (np.arange(count) % 3).astype(np.uint16)
    crawl = Revisited(path, hosts_of, depth, observe, **more)
    crawl.config.revisit.chance_min = crawl.config.revisit.every_min_seconds = 0.0
    return crawl


def known(crawl: Revisited) -> dict[int, tuple[Any, ...]]:
    rows = crawl.rows()
    assert len(rows) == len(crawl.hosts)
    return rows


def test_pages_are_visited_again_and_the_ledger_adds_up(tmp_path: Path) -> None:
    crawl = crawl_of(tmp_path / "job")
    for _ in range(60):
        crawl.step(0.5, 20)  # each turn checks I1
    rows, ledger = known(crawl), crawl.state.ledger
    assert (ledger.discovered, ledger.fetched, ledger.gone) == (PAGES, 0, 0)
    assert min(visits for visits, *_ in rows.values()) >= 2
    crawl.turn(0)
    assert ledger.visits == crawl.visits == sum(crawl.state.counters["visits_by_change"].values())
    assert sum(visits for visits, *_ in known(crawl).values()) == crawl.visits
    fast, slow = (np.mean([rows[page][0] for page in part]) for part in (range(2, 12), range(45, 55)))
    assert fast > 1.3 * slow
    assert crawl.state.live()["resting"] + crawl.state.live()["runs"] == PAGES
    crawl.close()


@pytest.mark.parametrize("kills", ["t", "w", "tw"])
def test_beliefs_are_the_same_to_the_bit_after_kills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: str
) -> None:
    """t: in a turn, after its file and before its commit; w: between a harvest and the turn that takes it in. How many
    pages a turn takes early is forgotten by a kill; here it is no bound."""
    monkeypatch.setattr(secrets, "randbits", lambda bits: 12345)
    monkeypatch.setattr(crawl_state, "EARLY_ROWS", 1 << 18)
    monkeypatch.setattr(pages, "EARLY_ROWS", 1 << 18)
    told = []
    for name, killed in (("whole", False), ("killed", True)):
        crawl = crawl_of(tmp_path / name)
        for number in range(40):
            if killed and "t" in kills and number % 7 == 3:
                harvests = list(crawl._harvests)
                crawl.turn(15, commit=False)
                crawl.crash()
                assert crawl._harvests == harvests
            crawl.step(0.5, 15)
            if killed and "w" in kills and number % 5 == 2:
                crawl.crash()
        crawl.turn(0)
        told.append({page: row[:4] for page, row in known(crawl).items()})
        crawl.close()
    assert told[0] == told[1]


def harvest(crawl: Revisited, result: Result, cls: Class, reason: Reason, change: Change | None = None) -> Batch:
    """Every row that a turn brought ends alike. Returns the rows."""
    parts, runs = [], crawl.state.runs
    for ready in result.ready:
        count = int(ready.index["rows"].sum())
        place = {"segment": np.full(count, ready.segment, "u4"), "row": np.arange(count, dtype="u4")}
        parts.append(runs.take(place["segment"], place["row"], pages=True).with_(**place))
    rows = Batch.concat(parts)
    told = {name: rows[name] for name in ("segment", "row", "key", "host")}
    outcomes = Batch.zeros(OUTCOME, rows.rows).with_(
        **told, cls=np.full(rows.rows, cls, "u1"), reason=np.full(rows.rows, reason, "u1"),
        line=Ragged.from_list([b"-"] * rows.rows),
    )  # fmt: skip
    sections = {"outcomes": [outcomes]}
    now = crawl.clock.now()
    if change is not None:
        visits = Batch.zeros(VISIT, rows.rows).with_(segment=rows["segment"], row=rows["row"])
        kinds = np.full(rows.rows, change, "u1")
        sections["visits"] = [visits.with_(at=np.full(rows.rows, now), change=kinds)]
    if cls is Class.RETRY:
        again = rows.select([name for name in RETRY if name != "due"]).with_(due=np.full(rows.rows, now + 600.0))
        sections["retries"] = [again.with_(attempt=np.ones(rows.rows, "u1"))]
    crawl._write(crawl.stream, crawl.number, sections)
    crawl.number += 1
    return rows


def fetched_once(path: Path, count: int = 6) -> Revisited:
    crawl = crawl_of(path, count, 2)
    crawl.step(0.1, count)
    crawl.turn(0)
    assert crawl.state.pages.rows == count
    crawl.clock.advance(20 * DAY_S)
    return crawl


@pytest.mark.parametrize(
    ("cls", "reason"),
    [(Class.FAILED, Reason.TIMEOUT), (Class.RETRY, Reason.CONNECT), (Class.EXCLUDED, Reason.ROBOTS),
     (Class.FETCHED, Reason.HTTP_ERROR)],
)  # fmt: skip
def test_a_visit_that_came_to_nothing_leaves_the_belief_and_the_ledger(
    tmp_path: Path, cls: Class, reason: Reason
) -> None:
    crawl = fetched_once(tmp_path / "job")
    before = known(crawl)
    harvest(crawl, crawl.turn(100), cls, reason)
    crawl.turn(0)
    state = crawl.state
    assert (state.live()["resting"], state.pages.shut.rows) == (6, 6)
    assert (state.ledger.fetched, state.ledger.failed, state.ledger.excluded, state.rests.rows) == (0, 0, {}, 0)
    assert known(crawl) == before
    dues = np.concatenate([batch["due"] for batch in state.pages.scan()]) - crawl.clock.now()
    if cls is Class.RETRY:
        assert dues == pytest.approx(600, abs=1)
        assert all(batch["attempt"].tolist() == [1] * batch.rows for batch in state.pages.scan())
    else:
        assert dues.min() >= A_DAY_S - 1
    crawl.close()


def test_a_page_that_is_gone_for_a_week_leaves_for_good(tmp_path: Path) -> None:
    crawl = fetched_once(tmp_path / "job")
    for days in (0.0, 1.1, 8.0):
        crawl.clock.advance(days * DAY_S)
        result = crawl.turn(100)
        assert sum(int(ready.index["rows"].sum()) for ready in result.ready) == 6
        harvest(crawl, result, Class.FETCHED, Reason.HTTP_ERROR, Change.GONE)
        crawl.turn(0)
    ledger = crawl.state.ledger
    assert (ledger.gone, crawl.state.pages.rows, crawl.state.waiting) == (6, 0, 0)
    crawl.close()


def test_first_responses_that_are_no_pages_are_done(tmp_path: Path) -> None:
    crawl = crawl_of(tmp_path / "job", 6, 2)
    harvest(crawl, crawl.turn(100), Class.FETCHED, Reason.HTTP_ERROR, Change.FIRST)
    crawl.turn(0)
    assert (crawl.state.ledger.fetched, crawl.state.pages.rows) == (6, 0)
    crawl.close()


def test_revisits_are_switched_off_and_on_again(tmp_path: Path) -> None:
    """Off: pages stay at rest, also those that were in runs, and new ones are fetched once."""
    crawl = fetched_once(tmp_path / "job")
    result = crawl.turn(100)
    crawl.config.revisit.enabled = False
    crawl.crash()
    before = known(crawl)
    harvest(crawl, result, Class.FETCHED, Reason.OK)  # by workers that tell of no visits
    crawl.turn(100)
    assert crawl.state.pages.rows == 6 and known(crawl) == before
    crawl.clock.advance(400 * DAY_S)
    assert not crawl.turn(100).ready and crawl.state.waiting == 0
    crawl.config.revisit.enabled = True
    crawl.crash()
    assert sum(int(ready.index["rows"].sum()) for ready in crawl.turn(100).ready) == 6
    crawl.close()


def test_a_full_host_visits_its_best_pages_and_has_a_price(tmp_path: Path) -> None:
    """Two hosts alike, but that each takes 3 visits a day: the price of the one with many pages is its own."""
    count = 80
    crawl = Revisited(
        tmp_path / "job", np.where(np.arange(count) < 70, 0, 1), (np.arange(count) % 2 * 4).astype(np.uint16),
        lambda which, since, at: np.full(len(which), Change.YES), slots=3,
    )  # fmt: skip
    crawl.config.revisit.chance_min = crawl.config.revisit.every_min_seconds = 0.0
    crawl.config.revisit.share_max = 1.0
    for _ in range(150):
        crawl.step(1.0, 40)
    prices = {
        key: price for bucket in crawl.state.hosts.buckets for batch in crawl.state.hosts.scan(bucket)
        for key, price in zip(batch["key"].tolist(), batch["price"].tolist(), strict=True)
    }  # fmt: skip
    full = crawl._links["host"][0].item()
    assert prices[full] > crawl.state.price
    rows = known(crawl)
    near, deep = (np.mean([rows[page][0] for page in range(first, 70, 2)]) for first in (0, 1))
    assert near > 2 * deep
    crawl.close()


def test_discovery_and_visits_share_a_turn(tmp_path: Path) -> None:
    crawl = crawl_of(tmp_path / "job", 600, 5)
    first = crawl.step(0.5, 200)
    crawl.clock.advance(30 * DAY_S)
    assert sum(int(ready.index["rows"].sum()) for ready in first.ready) == 200

    def share(price: float) -> float:
        crawl.state.price = price
        result = crawl.turn(100)
        rows = Batch.concat([
            crawl.state.runs.take(np.full(n, ready.segment), np.arange(n), pages=True)
            for ready in result.ready for n in [int(ready.index["rows"].sum())]
        ])  # fmt: skip
        return float((rows["visits"] > 0).mean())

    assert 1 < crawl.state.worth_new < 100
    assert 0.15 <= share(0.01) <= 0.25  # revisit.share_min: a first fetch is worth more than another visit
    crawl.state.worth_new = 0.001
    assert 0.75 <= share(0.01) <= 0.85  # revisit.share_max
    crawl.close()


def test_off_a_ready_segment_has_no_columns_of_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = crawl_of(tmp_path / "job", 6, 2)
    crawl.config.revisit.enabled = False
    crawl.crash()
    result = crawl.turn(100)
    (ready,) = result.ready
    assert "visits" not in crawl.state.runs._section(ready.segment).schema
    crawl.work(result, 0.1)
    crawl.turn(0)
    assert (crawl.state.ledger.fetched, crawl.state.pages.rows, crawl.state.catalog.get("price")) == (6, 0, None)
    crawl.close()


def test_a_lease_that_is_told_twice_is_carried_out_once(tmp_path: Path) -> None:
    crawl = fetched_once(tmp_path / "job")
    result = crawl.turn(100)
    harvest(crawl, result, Class.FETCHED, Reason.OK, Change.YES)
    name = crawl._harvests[-1]
    text = (crawl.job.state / name).read_bytes()
    crawl.turn(0)
    before, visits = known(crawl), crawl.state.ledger.visits
    again = name.replace(f"{crawl.number - 1:06d}", f"{crawl.number:06d}")
    (crawl.job.state / again).write_bytes(text)
    crawl._harvests.append(again)
    crawl.turn(0)
    assert (known(crawl), crawl.state.ledger.visits) == (before, visits)
    crawl.close()
