"""Who owns what (irlcrawl/crawl/turns.py), watched in a whole crawl whose turns run on a thread of their own: what the
loop owns is touched by the loop's thread alone, and the state by the turn's alone while a turn is under way.

Time is virtual. A turn is computed at once, on its thread, and known seconds later: meanwhile the loop goes on, and all
that it does falls into the time of the turn."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from drum import Catalog, Repository

import pytest

from budgets import Ledger, Sites
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.config.keys import Site
from irlcrawl.crawl.deaths import Deaths
from irlcrawl.crawl.disk_space import DiskSpace
from irlcrawl.crawl.gauges import Gauges
from irlcrawl.crawl.limits import Limits
from irlcrawl.crawl.loop import CrawlLoop
from irlcrawl.crawl.pressure import Pressure
from irlcrawl.crawl.schedule import Schedule
from irlcrawl.crawl.this_run import ThisRun
from irlcrawl.crawl.turns import Turns
from irlcrawl.frontier.dispatch.dispatch import Dispatcher
from irlcrawl.frontier.dispatch.handover import Handover
from irlcrawl.frontier.dispatch.loads import Loads
from irlcrawl.frontier.dispatch.outage import Outage
from irlcrawl.frontier.dispatch.visits import Host
from irlcrawl.frontier.dispatch.workers import Fleet, RemoteWorker
from irlcrawl.frontier.politeness.clocks import Clocks
from irlcrawl.frontier.politeness.politeness import Politeness
from irlcrawl.frontier.state.calendar import Calendar
from irlcrawl.frontier.state.crawl_state import CrawlState, Pace
from irlcrawl.frontier.state.runs import RunReader, Runs
from irlcrawl.frontier.state.sections import ClockLog, CrawlLog, ScopeLog
from irlcrawl.frontier.turn.rules import RulesOfHosts
from irlcrawl.web.scope import Scope
from tests.crawl.virtual_crawl import Answer, Crawl, VirtualLoop, Web, star

LOOPS = (
    CrawlLoop, Clocks, Deaths, Dispatcher, DiskSpace, Fleet, Gauges, Handover, Host, Limits, Loads, Outage,
    Politeness, Pressure, RemoteWorker, RunReader, Schedule, ThisRun, Turns,
)  # fmt: skip
TURNS = (Calendar, ClockLog, CrawlLog, RulesOfHosts, Ledger, Pace, Repository, Runs, ScopeLog, Sites)
SHARED = ("catalog", "clock", "config", "crawl_id", "dir", "files", "job", "pool", "seed", "turn_file")
"""Of CrawlState: nobody's, or the loop's."""
TURN_S = 3.0


class Trespass(AssertionError):
    pass


@contextmanager
def watched(crawl: Crawl, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Turns have a thread; whoever touches what is another's gets a Trespass."""
    loops = threading.get_ident()
    run_in_executor = VirtualLoop.run_in_executor

    def on_thread(loop: VirtualLoop, executor: Any, work: Callable[..., Any], *rest: Any) -> Any:
        if executor is None:  # nothing of ours: a process that is waited for
            loop._latency_s = 0.0
            return run_in_executor(loop, executor, work, *rest)
        loop._latency_s = TURN_S
        return run_in_executor(loop, executor, lambda: executor.submit(work, *rest).result())

    def under_way() -> bool:
        turns = vars(crawl.loop).get("turns") if crawl.loop is not None else None
        return turns is not None and vars(turns)["_turn"] is not None

    def guard(owned: type, trespasses: Callable[[Any, str], bool]) -> None:
        def get(self: Any, name: str) -> Any:
            if not name.startswith("__") and trespasses(self, name):
                raise Trespass(f"{owned.__name__}.{name} on thread {threading.current_thread().name}")
            return object.__getattribute__(self, name)

        def put(self: Any, name: str, value: Any) -> None:
            if trespasses(self, name):
                raise Trespass(f"{owned.__name__}.{name} is set on thread {threading.current_thread().name}")
            object.__setattr__(self, name, value)

        monkeypatch.setattr(owned, "__getattribute__", get, raising=False)
        monkeypatch.setattr(owned, "__setattr__", put, raising=False)

    def in_turn() -> bool:
        return threading.get_ident() != loops

    def in_loop() -> bool:
        return not in_turn() and under_way()

    def of_ours(scope: Any) -> bool:
        """Workers, which are in this process here, have scopes of their own."""
        return crawl.loop is not None and vars(vars(crawl.loop)["state"])["scope"] is scope

    for owned in LOOPS:
        guard(owned, lambda _, name: in_turn())
    for owned in TURNS:
        guard(owned, lambda _, name: in_loop())
    guard(Scope, lambda scope, name: in_loop() and of_ours(scope))
    guard(CrawlState, lambda _, name: in_loop() and name not in SHARED)
    with monkeypatch.context() as patch:
        commit = Catalog.commit

        def by_loop(catalog: Catalog, *rest: Any) -> None:
            if in_turn():
                raise Trespass("a commit by the turn's thread")
            commit(catalog, *rest)

        patch.setattr(Catalog, "commit", by_loop)
        monkeypatch.setattr(VirtualLoop, "run_in_executor", on_thread)
        yield


def crawl_of(path: Path, monkeypatch: pytest.MonkeyPatch) -> Crawl:
    """With rules, a block, redirects of seeds out of the scope, a host that refuses for a while, pages put off."""
    hosts = [f"h{number}.test" for number in range(6)]
    links: dict[str, list[str]] = {}
    for number, host in enumerate(hosts):
        links.update(star(host, 12))
        links[f"http://{host}/"] += [f"http://{other}/" for other in hosts] + ["http://blocked.test/"] * (number == 0)
    web = Web(links)
    web.answers["http://h1.test/robots.txt"] = Answer(
        200, {"content-type": "text/plain"}, b"User-agent: *\nDisallow: /1\nCrawl-delay: 2\n"
    )
    web.answers["http://moved.test/"] = Answer(301, {"location": "http://h5.test/"})
    web.answers["http://h2.test/3"] = Answer(503, {"retry-after": "30"})
    crawl = Crawl(path, web, ["http://h0.test/", "http://moved.test/"], monkeypatch, workers=2)
    crawl.config.scope.kind = "host"
    crawl.config.site = {"blocked.test": Site(block=True)}
    crawl.config.limits.pages_per_host = 10
    crawl.config.frontier.urls_per_host_max = 5
    crawl.config.frontier.harvest_seconds = 1.0
    return crawl


async def ask(crawl: Crawl) -> None:
    """How far it is, all the time; and a worker dies while a turn is under way."""
    killed = False
    while True:
        await asyncio.sleep(0.3)
        if crawl.loop is not None:
            crawl.loop.status()
            if not killed and crawl.loop.turns.running and crawl.running:
                killed = True
                crawl.kill_worker(next(iter(crawl.running)))


def test_neither_thread_touches_what_the_other_owns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = crawl_of(tmp_path / "job", monkeypatch)
    crawl.config.scope.kind = "any"
    with watched(crawl, monkeypatch):
        assert crawl.run(ask) == ExitCode.DONE
    reasons = {reason for _, reason in crawl.outcomes().values()}
    assert {"ok", "robots", "blocked", "quota_host"} <= reasons
    assert len(crawl.links) == 3, "a worker took a dead one's place"


def test_a_scope_that_grows_during_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that was begun while a turn took in new entries was told of a scope that no commit had."""
    crawl = crawl_of(tmp_path / "job", monkeypatch)
    with watched(crawl, monkeypatch):
        assert crawl.run(ask) == ExitCode.DONE
    assert {"http://h0.test/", "http://h5.test/"} <= set(crawl.outcomes())


def of_turn(crawl: Crawl, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was: hosts were looked up where the loop has them."""
    allowed = RulesOfHosts.allowed

    def look(rules: RulesOfHosts, *rest: Any) -> list[bool]:
        assert crawl.loop is not None and crawl.loop.dispatcher.hosts
        return allowed(rules, *rest)

    monkeypatch.setattr(RulesOfHosts, "allowed", look)


def of_loop(crawl: Crawl, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was: the ledger was read for the status record."""
    record = Gauges.record
    monkeypatch.setattr(Gauges, "record", lambda gauges: {**record(gauges), "done": crawl.loop.state.ledger.done})  # type: ignore[union-attr]


@pytest.mark.parametrize("trespass", [of_turn, of_loop])
def test_the_watch_notices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trespass: Callable[..., None]) -> None:
    crawl = crawl_of(tmp_path / "job", monkeypatch)
    crawl.config.scope.kind = "any"
    trespass(crawl, monkeypatch)

    async def look(crawl: Crawl) -> None:
        while True:
            await asyncio.sleep(0.3)
            if crawl.loop is not None:
                try:
                    crawl.loop.status()
                except Trespass as error:
                    crawl._end(error)

    with watched(crawl, monkeypatch), pytest.raises(Trespass):
        crawl.run(look)
