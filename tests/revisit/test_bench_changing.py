"""`python -m bench changing`: freshness by a server's own log, and what it takes for a broken promise."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import numpy as np

from bench._changing_web import ChangingWeb, Fetch, Says, Simulated, body, freshness
from bench.changing import _bodies, broken_promises
from bench.freshness import World
from irlcrawl.worker.page.wording import wording
from tools.sampleweb.server import Ask

DAY_S = 4.0


def web() -> ChangingWeb:
    made = ChangingWeb(World.made(200, 5, 0.1, 40.0, 1.0), DAY_S)
    made.began = 1000.0
    return made


def fetched(made: ChangingWeb, page: int, day: float, status: int = 200) -> Fetch:
    return Fetch(page, 1000.0 + DAY_S * day, made.version(page, day), status)


def test_a_copy_is_right_until_its_page_changes_and_a_lie_renews_none() -> None:
    made = web()
    last = made.world.changes.last(np.arange(200), np.full(200, 40.0))
    changed = (last > 1) & (last < 39)
    page, other = (int(np.flatnonzero((made.says == says) & changed)[0]) for says in (Says.HONEST, Says.LYING))
    made.fetches = [fetched(made, page, 0.0), fetched(made, other, 0.0)]
    assert freshness(made, np.array([0.0, 40.0])).tolist() == [2 / 200, 0.0]
    made.fetches += [fetched(made, page, 39.99, 304), fetched(made, other, 39.99, 304)]
    assert freshness(made, np.array([0.0, 40.0]))[1] == 1 / 200, "only what an honest server says renews a copy"


def test_versions_are_told_apart_as_the_crawler_tells_them() -> None:
    assert len({wording(body(3, version)) for version in (0.0, 1.5, 1.500001, 9.0)}) == 4
    assert body(3, 1.5) == body(3, 1.5) != body(4, 1.5)


def test_a_server_says_304_as_its_kind_does() -> None:
    made = web()
    made.began = time.time()
    for says in (Says.HONEST, Says.LYING, Says.ABSENT):
        page = int(np.flatnonzero(made.says == says)[0])

        def ask(page: int, tag: str = "") -> tuple[int, dict[str, str]]:
            headers = {"if-none-match": tag} if tag else {}
            reply = asyncio.run(made(Ask("http", "h", "GET", f"/p/{page}", headers)))
            return reply.status, dict(reply.headers)

        status, headers = ask(page)
        assert status == 200 and ("ETag" in headers) == (says != Says.ABSENT)
        if says != Says.ABSENT:
            assert ask(page, headers["ETag"])[0] == 304
            assert ask(page, '"old"')[0] == 200
        assert body(page, made.fetches[-1].version) in _bodies(made.fetches[-1:], made.fetches[-1].at, made)


def test_the_simulated_crawl_visits_within_the_gaps(tmp_path: Path) -> None:
    made = web()
    simulated = Simulated(made, gap_s=1.0, every=8)
    days, fresh = simulated.run(tmp_path / "job", 20.0)
    hosts = len(made.names)
    assert hosts * 15 < simulated.visits <= hosts * 22 and len(days) == len(fresh) == 10
    assert fresh[0] < fresh[-1]


def test_promises() -> None:
    kept = {"twice": 0, "two_places": 0, "replay_wrong": 0, "fsck": 0, "lost": 2, "under_way": 3, "of_simulated": 0.98}
    assert broken_promises(kept) == []
    for name, value in {"twice": 1, "two_places": 1, "replay_wrong": 1, "lost": 4, "of_simulated": 0.9}.items():
        assert len(broken_promises(kept | {name: value})) == 1
