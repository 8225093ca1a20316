"""Back-pressure: harvests that wait are bounded, and what waits behind them, whatever is killed when."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.keys import name_key
from irlcrawl.base.reasons import Reason
from irlcrawl.crawl.pressure import Pressure
from irlcrawl.crawl.seeding import write_seeds
from irlcrawl.crawl.status import lines, read_status
from irlcrawl.frontier.turn.turn import Turn
from tests.crawl.virtual_crawl import Crawl, Killed, VirtualLoop, Web, star
from tests.frontier.turn.test_turn import Player, reachable, web_of
from tools.simweb.params import Params
from tools.simweb.web import Web as SimWeb

WIDE = 100
"""Links of a page of the wide web: harvests grow much faster than they are merged."""
PAGES = [f"http://h{host}.test/{page}" for host in range(30) for page in range(30)]


BOUND = 1 << 17


@pytest.mark.parametrize("bytes_max", [BOUND, 1 << 30])
def test_workers_wait_for_slow_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bytes_max: int) -> None:
    """Turns take two minutes. While they are behind nothing more is requested: harvests stay within their bound and
    what was in hand; without the bound several times as much waits. Everything is fetched either way."""
    web = Web({url: [f"{url}/{leaf}-{key_of(url)}" for leaf in range(WIDE)] for url in PAGES})
    crawl = Crawl(tmp_path / "job", web, PAGES, monkeypatch)
    crawl.config.frontier.harvests_bytes_max = bytes_max
    crawl.config.frontier.harvest_seconds = 2.0
    crawl.config.limits.pages = len(PAGES)
    crawl.config.fetch.visits_per_worker = 8
    run_in_executor = VirtualLoop.run_in_executor

    def slow(loop: VirtualLoop, executor: Any, work: Callable[..., Any], *rest: Any) -> Any:
        loop._latency_s = 120.0 if isinstance(getattr(work, "__self__", None), Turn) else 0.0
        return run_in_executor(loop, executor, work, *rest)

    monkeypatch.setattr(VirtualLoop, "run_in_executor", slow)
    peak = 0
    arrived = Pressure.arrived

    def watch(pressure: Pressure, harvest: str) -> None:
        nonlocal peak
        arrived(pressure, harvest)
        peak = max(peak, pressure.harvest_bytes)

    monkeypatch.setattr(Pressure, "arrived", watch)
    assert crawl.run(hours=100) == ExitCode.SIZE_LIMIT
    assert len(crawl.outcomes()) == len(PAGES)
    if bytes_max == BOUND:
        assert peak < 2 * BOUND, "40 URLs in hand, and two seconds of harvest"
    else:
        assert peak > 4 * BOUND


def key_of(url: str) -> str:
    """Text that does not compress."""
    return f"{name_key(url.encode()):x}"


def play(path: Path, seed: int, steps: str, when_full: str, bytes_max: int) -> Player:
    """A crawl of a random web with kills, whose frontier may take `bytes_max`."""
    web = web_of(seed, 80)
    player = Player(path, web, room=5)
    player.config.frontier.bytes_max, player.config.frontier.when_full = bytes_max, when_full
    player.play(next(iter(web)), steps)
    return player


def over(player: Player) -> None:
    player.state.close()
    player.job.release()


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 10**6), st.text(alphabet="wttc", max_size=25), st.sampled_from([1, 700, 2000]))
def test_delayed_links_are_all_merged_in_the_end(
    tmp_path_factory: pytest.TempPathFactory, seed: int, steps: str, bytes_max: int
) -> None:
    """Delay loses nothing, however little room there is and whatever is killed when (I1, I2)."""
    player = play(tmp_path_factory.mktemp("job"), seed, steps, "delay", bytes_max)
    expected = reachable(player.web, next(iter(player.web)))
    assert set(player.fetched) == expected
    assert player.fetched.total() == len(expected)
    over(player)


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 10**6), st.text(alphabet="wttc", max_size=25), st.sampled_from([700, 2000]))
def test_what_is_dropped_is_logged_and_seen(
    tmp_path_factory: pytest.TempPathFactory, seed: int, steps: str, bytes_max: int
) -> None:
    """Drop: every URL found is fetched or has its line, once, and never comes back, though pages go on leading to it;
    the ledger has a class for it (I1)."""
    player = play(tmp_path_factory.mktemp("job"), seed, steps, "drop", bytes_max)
    ledger = player.state.ledger
    dropped = ledger.excluded.get("frontier_full", 0)
    assert ledger.excluded in ({}, {"frontier_full": dropped})
    assert ledger.discovered == ledger.fetched + dropped == player.fetched.total() + dropped
    assert set(player.fetched.values()) <= {1}
    lines = player.job.crawl_log.read_bytes().split(b"\n")[:-1]
    told = [line.split()[3] for line in lines if not line.startswith(b"fetched ")]
    assert len(told) == len(set(told)) == dropped
    assert not set(told) & set(player.fetched)
    over(player)


def test_a_full_frontier_drops_and_stays_within_its_bound(tmp_path: Path) -> None:
    player = play(tmp_path / "job", 3, "", "drop", 1 << 30)
    found, room = player.state.ledger.discovered, 1500
    over(player)
    player = Player(tmp_path / "small", player.web, room=5)
    player.config.frontier.bytes_max, player.config.frontier.when_full = room, "drop"
    player.inbox.append(write_seeds(player.state, player.config, list(player.web), 0))
    player.turn()
    assert player.state.ledger.excluded["frontier_full"] > 0
    assert player.state.frontier_bytes <= 1.5 * room, "blocks of few rows compress worse"
    assert player.state.ledger.discovered >= found
    over(player)


def crawl_of(path: Path, monkeypatch: pytest.MonkeyPatch, when_full: str) -> Crawl:
    """Three sites of 300 pages."""
    web = Web({url: links for name in "abc" for url, links in star(f"{name}.test", 300).items()})
    crawl = Crawl(path, web, [f"http://{name}.test/" for name in "abc"], monkeypatch)
    crawl.config.frontier.bytes_max, crawl.config.frontier.when_full = 4000, when_full
    return crawl


def test_stop_says_what_to_do_and_goes_on_with_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Exit code 14 and a sentence that names the keys; the same crawl with another value fetches the rest, once."""
    crawl = crawl_of(tmp_path / "job", monkeypatch, "stop")
    assert crawl.run() == ExitCode.SIZE_LIMIT
    assert "frontier.bytes_max allows 4,000" in caplog.text
    assert "frontier.when_full = delay or drop" in caplog.text
    first = crawl.outcomes()
    assert 3 <= len(first) < 100
    assert crawl.run() == ExitCode.SIZE_LIMIT, "it is as full as it was"
    crawl.config.frontier.bytes_max = 0
    assert crawl.run() == ExitCode.DONE
    assert len(crawl.outcomes()) == 903
    assert set(crawl.web.pages_asked.values()) == {1}


@pytest.mark.parametrize("when_full", ["delay", "drop"])
@pytest.mark.parametrize("kill_at", [5, 200])
def test_killed_while_it_was_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when_full: str, kill_at: int
) -> None:
    """SIGKILL and on: each URL found ends once, as fetched or as dropped, and delay drops none."""
    crawl = crawl_of(tmp_path / "job", monkeypatch, when_full)
    crawl.on_request = lambda url: crawl.kill() if len(crawl.web.log) == kill_at else None
    with pytest.raises(Killed):
        crawl.run()
    assert crawl.run() == ExitCode.DONE
    outcomes = crawl.outcomes()
    dropped = [url for url, outcome in outcomes.items() if outcome == ("excluded", Reason.FRONTIER_FULL.name.lower())]
    assert len(outcomes) == 903
    assert bool(dropped) == (when_full == "drop")
    assert not set(dropped) & set(crawl.web.pages_asked)
    record = read_status(crawl.job())
    assert record["excluded_by_reason"].get("frontier_full", 0) == len(dropped)
    assert record["lookups_per_url"] <= 3
    assert any(line.startswith("disk") for line in lines(record))


def test_a_url_that_waits_takes_less_than_forty_bytes(tmp_path: Path) -> None:
    """URLs of 60 bytes and more, of many sites and in no order, a few thousand a turn."""
    web = SimWeb(Params(pages_nominal=10**6))
    urls = web.urls(np.unique(web.links(web.seeds(500)).targets)).tolist()
    random.Random(1).shuffle(urls)
    player = Player(tmp_path / "job", {})
    for number, start in enumerate(range(0, len(urls), 2_000)):
        seeds = urls[start : start + 2_000]
        player.inbox.append(write_seeds(player.state, player.config, seeds, number))
        player.turn()
    sites = player.state.sites
    waiting = sites.queued_rows + sites.deferred_rows
    assert waiting > 4_000 and sum(map(len, urls)) > 60 * len(urls)
    assert sites.nbytes < 40 * waiting
    over(player)
