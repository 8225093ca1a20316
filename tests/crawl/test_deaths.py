"""Workers and whole crawls that die at any request: every URL is done once, nothing archived is asked for again, and no
row is out twice (I1, I2). The ledger is checked at every commit by the code itself (I1)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from drum import Edits
from drum.catalog import Catalog

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.crawl.suspects import DEATHS_MAX, READING_DEATHS_MAX
from irlcrawl.frontier.dispatch.workers import RemoteWorker
from irlcrawl.worker.archive.log_parts import read
from irlcrawl.worker.archive.unit import Exchange, Unit
from irlcrawl.worker.fetch import service
from irlcrawl.worker.fetch.visit import UNREADABLE
from irlcrawl.worker.fetch.wire import Message
from tests.crawl.virtual_crawl import Crawl, Killed, Web, star

NAMES = [f"h{n}.s{n % 3}.test" for n in range(6)]


def small_web() -> Web:
    links = {url: links for name in NAMES for url, links in star(name, 12).items()}
    links[f"http://{NAMES[0]}/"] += [f"http://{name}/" for name in NAMES]
    return Web(links, fetch_s=0.2)


def started(path: Path, monkeypatch: pytest.MonkeyPatch, **known: float) -> Crawl:
    crawl = Crawl(path, small_web(), [f"http://{NAMES[0]}/"], monkeypatch, workers=2)
    crawl.latency_s = known.get("latency_s", 0.0)
    crawl.config.politeness.gap_host_seconds = 0.1
    crawl.config.frontier.harvest_seconds = 2.0
    return crawl


def crawl_on(crawl: Crawl, kills: list[int], deaths: list[float]) -> int:
    """Run until the end: everything is killed at the requests with these numbers, workers after these seconds. Returns
    how many requests were in flight when something died, at most."""
    requests = 0
    in_flight = 0

    def on_request(_: str) -> None:
        nonlocal requests
        requests += 1
        if requests in kills:
            crawl.kill()

    async def kill_workers(crawl: Crawl) -> None:
        for seconds in deaths:
            await asyncio.sleep(seconds)
            if crawl.running:
                crawl.kill_worker(min(crawl.running))

    crawl.on_request = on_request
    for _ in range(len(kills) + 1):
        try:
            assert crawl.run(kill_workers if deaths else None, hours=0.5) == ExitCode.DONE
            break
        except Killed:
            in_flight += len(NAMES)
    return in_flight + len(deaths) * (len(kills) + 1) * len(NAMES)


@settings(max_examples=18, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.integers(1, 90), max_size=3, unique=True),
    st.lists(st.sampled_from([0.3, 0.7, 1.1, 2.3]), max_size=3),
    st.sampled_from([0.0, 0.15, 1.0]),
)
def test_i1_i2_every_url_once_whoever_dies_when(
    tmp_path_factory: pytest.TempPathFactory, kills: list[int], deaths: list[float], latency_s: float
) -> None:
    """I1, I2: exact recall, each URL done once, and only requests that were in flight at a death are repeated."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        crawl = started(tmp_path_factory.mktemp("job") / "job", monkeypatch, latency_s=latency_s)
        in_flight = crawl_on(crawl, kills, deaths)
        assert set(crawl.outcomes()) == set(crawl.web.answers)
        assert crawl.web.pages_asked.total() - len(crawl.web.answers) <= in_flight


@pytest.mark.parametrize("death", [2.2, 2.3, 2.4, 5.0])
def test_i2_a_stream_stays_in_the_catalogue_until_its_last_harvest_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, death: float
) -> None:
    """I2: a turn begun while a dead worker's remains were read used to close its stream, one turn before what was found
    there got in; a kill between the two commits forgot archived pages."""
    crawl = started(tmp_path / "job", monkeypatch, latency_s=0.3)
    commit = Catalog.commit

    def watch(catalog: Catalog, edits: Edits) -> int:
        number = commit(catalog, edits)
        if crawl.loop is not None:
            for file in crawl.loop.turns._inbox:
                assert catalog.get(f"streams/{int(file.split('-')[1])}") is not None, f"{file} would be forgotten"
        return number

    monkeypatch.setattr(Catalog, "commit", watch)
    crawl_on(crawl, [], [death])
    assert set(crawl.outcomes()) == set(crawl.web.answers)


def test_a_worker_that_dies_at_the_good_bye_leaves_no_archive_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All was done, and the crawl ended without looking at what the dead worker left: its WARC stayed `.open`."""
    crawl = started(tmp_path / "job", monkeypatch, latency_s=0.2)
    send, killed = RemoteWorker.send, list[int]()

    def last_word(worker: RemoteWorker, message: Message) -> None:
        send(worker, message)
        if message["t"] == "stop" and not killed:
            killed.append(worker.stream)
            crawl.kill_worker(worker.stream)

    monkeypatch.setattr(RemoteWorker, "send", last_word)
    assert crawl.run(hours=0.5) == ExitCode.DONE
    assert killed
    assert set(crawl.outcomes()) == set(crawl.web.answers)
    assert len(list(crawl.job().warcs.iterdir())) == 2
    assert not list(crawl.job().warcs.glob("*.open"))


# -- pages that end their workers --------------------------------------------------------------------------------------


def deadly(monkeypatch: pytest.MonkeyPatch, evil: Callable[[str], bool]) -> Counter[str]:
    """Pages whose reading ends its worker; how often each did."""
    discover, ended = service.discovering, Counter[str]()

    def discovering(unit: Unit, exchange: Exchange | None, *rest: Any) -> Any:
        if exchange is not None and evil(url := unit.url.decode()):
            ended[url] += 1
            raise RuntimeError("no parser lives through this")
        return discover(unit, exchange, *rest)

    monkeypatch.setattr(service, "discovering", discovering)
    return ended


def test_a_page_that_ended_its_worker_was_leased_again_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After eight workers the crawl stopped, and its next start met the same page."""
    crawl = started(tmp_path / "job", monkeypatch)
    evil = {f"http://{NAMES[0]}/5", f"http://{NAMES[1]}/", f"http://{NAMES[2]}/robots.txt"}
    ended = deadly(monkeypatch, evil.__contains__)
    assert crawl.run(hours=10) == ExitCode.DONE
    assert ended == dict.fromkeys(evil, 2)
    found = crawl.outcomes()
    assert found[f"http://{NAMES[0]}/5"] == found[f"http://{NAMES[1]}/"] == ("failed", "protocol")
    of_robots = {url for url in found if found[url] == ("excluded", "robots_unreachable")}
    assert of_robots == {f"http://{NAMES[2]}/"}
    fetched = {url for url in found if found[url] == ("fetched", "ok")}
    assert fetched == {url for name in (NAMES[0], *NAMES[3:]) for url in star(name, 12)} - evil
    logged = [entry for entry in read(crawl.files, str(crawl.job().crawl_log)) if entry.url.decode() in evil]
    assert {entry.notes["detail"] for entry in logged if entry.notes["outcome"] == "failed"} == {UNREADABLE}


def test_a_start_goes_on_behind_a_page_that_ends_its_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill between the two deaths that make it unreadable costs another two."""
    crawl = Crawl(tmp_path / "job", small_web(), [f"http://{NAMES[0]}/"], monkeypatch)
    evil = f"http://{NAMES[0]}/"
    ended = deadly(monkeypatch, evil.__eq__)

    async def kill(crawl: Crawl) -> None:
        while not ended:
            await asyncio.sleep(0.01)
        crawl.kill()

    with pytest.raises(Killed):
        crawl.run(kill)
    assert crawl.run(hours=1) == ExitCode.DONE
    assert ended[evil] == 3
    assert crawl.outcomes() == {evil: ("failed", "protocol")}


@pytest.mark.parametrize("sites", [1, 10])
def test_workers_that_die_of_every_page_end_the_crawl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sites: int
) -> None:
    """Then it is not the pages: hardly any is given up for it."""
    seeds = [f"http://h{number % 5}.s{number % sites}.test/{number}" for number in range(100)]
    crawl = Crawl(tmp_path / "job", Web({seed: [] for seed in seeds}), seeds, monkeypatch)
    deadly(monkeypatch, lambda url: not url.endswith("/robots.txt"))
    assert crawl.run(hours=100) == ExitCode.FAILED
    assert len(crawl.links) <= (READING_DEATHS_MAX if sites == 1 else 2 * DEATHS_MAX)
