"""A crawl under virtual time: the shipped frontier on disk, simulated workers, a fixed capacity to fetch.

What is the crawler's own: seen, pairs, sites, queues, hosts, runs, calendar, ledger, the turn, its file and its commit
(turn.py over crawl_state.py), and the clocks of hosts and addresses (politeness.py). What is played: time,
workers (fetch.py), the part of the loop that holds hosts (hosts.py). A turn is run inline; what it brings is there
after the time its disk traffic would take, by drum/cost.py, while fetching goes on.
"""

from __future__ import annotations

import gc
import os
import resource
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from drum import Files
from drum.cost import Seen

from bench._sim.eyes import REAL, Eyes
from bench._sim.fetch import Harvester, Leased, Spent
from bench._sim.hosts import Hosts
from bench._sim.policies import Policy
from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.job import JobDir
from irlcrawl.base.memory import Trim
from irlcrawl.config.keys import Config
from irlcrawl.config.rests import failures_till_given_up
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.frontier.state.runs import ReadyRuns
from irlcrawl.frontier.turn.release import Policy as Release
from irlcrawl.frontier.turn.turn import Result, Task, Turn
from tools.simweb.web import Web

START = 1_000_000_000.0
TICK_S = 4.0
TURN_S, TURN_STARVING_S = 30.0, 4.0
DISK_BYTES_PER_S = 200e6
SEEDS = 100
COLLECT_TURNS = 16
WARM_UP = 100_000
"""Fetches after which a policy has to have learnt what it can."""


@dataclass
class Point:
    """The state of a crawl at one moment, for plots."""

    seconds: float
    fetches: int
    enemy: int
    good: int
    importance: float
    lookups: int
    rereads: int
    naive: int
    discovered: int
    queued: int
    deferred: int
    runs: int
    put_off: int  # in the calendar and among the rests
    disk_bytes: int
    rss_bytes: int


@dataclass
class Run:
    """What one policy did with one web."""

    policy: str
    seed: int
    spent: Spent
    points: list[Point] = field(default_factory=list)
    seconds: float = 0.0
    cpu_s: float = 0.0
    utilisation: float | None = None
    enemy_share_late: float | None = None
    lookups_per_url: float = 0.0
    rereads_per_url: float = 0.0
    lookups_per_url_max: float = 0.0
    rereads_per_url_max: float = 0.0
    disk_bytes_per_url: float | None = None
    peak_rss_bytes: int = 0
    extra: dict[str, Any] = field(default_factory=dict)

    def curves(self) -> dict[str, list[Any]]:
        """The points as columns, of numbers in so many digits as a plot shows."""
        names = Point.__dataclass_fields__
        return {name: [float(f"{getattr(point, name):.6g}") for point in self.points] for name in names}


class CountingFiles(Files):
    """Counts bytes, and spares the device: nothing here outlives the machine."""

    def __init__(self) -> None:
        self.written = 0

    def write(self, handle: Any, data: Any) -> None:
        super().write(handle, data)
        self.written += len(data)

    def fsync(self, handle: Any) -> None:
        pass

    def fsync_dir(self, path: Any) -> None:
        pass


class Crawl:
    def __init__(
        self, path: Path, web: Web, policy: Policy, fetches: int, rate: float, progress: bool = False, eyes: str = REAL
    ) -> None:  # fmt: skip
        config = Config()
        config.scope.kind = "any"
        config.crawl.user_agent = "sim/1 (+http://contact.test/)"
        policy.configure(config)
        self.web, self.fetches, self.rate, self.policy = web, fetches, rate, policy
        self.clock = VirtualClock(START)
        self.files = CountingFiles()
        job = JobDir(path)
        job.acquire()
        self.job = job
        self.state = CrawlState.open(job, config, self.clock, self.files)
        policy.attach(self.state, web)
        self.config = config
        self.harvester = Harvester(web, self.state, Eyes(web, eyes), policy.admit)
        self.hosts = Hosts(web, config, self.clock, self.state.runs)
        self.run_ = Run(policy.name, web.params.seed, Spent())
        self._leased: list[Leased] = []
        self._requests = 0
        self._turned_at = START
        self._turn_s = 0.0
        self._brings: tuple[float, list[ReadyRuns]] | None = None
        self._seen = Seen([])
        self._merged = 0  # rows that passed `seen`
        self._naive = 0
        self._trim = Trim(self.clock, keep=True)
        self._began = time.process_time()
        self._late: Spent | None = None
        self._progress = progress

    def run(self, watch: Callable[[Crawl], None] = lambda crawl: None) -> Run:
        """To the wanted number of fetches, or to the end of the web."""
        gc.disable()  # nothing comes and goes as objects, and to look for it is 5% of a run; see _turn
        self._turn([self.harvester.seeds(self.web.seeds(SEEDS))])
        idle = 0
        while self._requests < self.fetches and idle < 36_000:
            now = self.clock.now()
            if self._brings is not None and self._brings[0] <= now:
                self.hosts.bring(self._brings[1])
                self._brings = None
            allowance = min(int(self.rate * TICK_S), self.fetches - self._requests)
            leased, requests = self.hosts.visit(allowance)
            if leased is not None:
                self._leased.append(leased)
            self._requests += requests
            idle = 0 if requests else idle + 1
            starving = leased is None or len(leased.key) < allowance // 2
            rest = TURN_STARVING_S if starving else TURN_S
            if self._brings is None and now >= self._turned_at + max(rest, 10.0 * self._turn_s):
                self._turn(self._handed_in())
                watch(self)
            self.clock.advance(TICK_S)
        self._turn(self._handed_in())
        return self._finish()

    @property
    def when(self) -> float:
        return min(1.0, self._requests / self.fetches)

    def _handed_in(self) -> list[str]:
        if not self._leased:
            return []
        name, spent = self.harvester.harvest(Leased.concat(self._leased), self.when)
        self._leased = []
        total = self.run_.spent
        for part in spent.__dataclass_fields__:
            setattr(total, part, getattr(total, part) + getattr(spent, part))
        if self._late is None and total.fetches >= WARM_UP:
            self._late = Spent(**asdict(total))
        return [name]

    def _turn(self, harvests: list[str]) -> None:
        state, now = self.state, self.clock.now()
        written, current, known = self.files.written, state.sites.current, state.seen.rows
        wanted = int(1.5 * self.rate * max(TURN_S, 10.0 * self._turn_s))
        policy = Release(
            now=now, load=self.hosts.loads, blocked=None,
            allowed=lambda record, urls: [True] * len(urls),  # simulated workers look before they ask, as real ones do
            quota_host=self.config.limits.pages_per_host,
            denials_max=failures_till_given_up(self.config.politeness),
            level_s=self.config.frontier.level_hours * 3600,
        )  # fmt: skip
        task = Task(
            now=now, harvests=harvests, policy=policy,
            rows_wanted=max(0, wanted - self.hosts.startable(TURN_S)), clocks=self.hosts.clocks.delta(now),
            states=self.hosts.records.take_states(), withdrawn=self.hosts.handover.take_withdrawn(),
        )  # fmt: skip
        result = Turn(state).run(task)
        self._commit(result)
        merged = self.harvester.linked - state.seen.pending_rows - self._merged
        self._merged += merged
        traffic = self._seen.merge(max(merged, 1), state.seen.rows - known, spilled=True)
        traffic_bytes = traffic.read + traffic.written + 2.0 * (self.files.written - written)
        self._turn_s = traffic_bytes / DISK_BYTES_PER_S
        self._turned_at = now
        self._brings = (now + self._turn_s, result.ready)
        waiting = state.sites.queued_rows + state.sites.deferred_rows
        if len(self.run_.points) % COLLECT_TURNS == 0:
            gc.collect()
            self._trim.now_and_then()
        self._naive += (state.sites.current - current) * waiting
        self._point()

    def _commit(self, result: Result) -> None:
        self.state.catalog.commit(result.edits)
        self.state.delete_unnamed([*result.harvests, *result.written])

    def _point(self) -> None:
        state, run = self.state, self.run_
        live = state.live()
        discovered = state.sites.discovered
        disk = sum(entry.stat().st_size for entry in os.scandir(state.dir))
        point = Point(
            self.clock.now() - START, run.spent.fetches, run.spent.enemy, run.spent.good, run.spent.importance,
            state.sites.lookups, state.sites.rereads, self._naive + discovered, discovered, live["queued"],
            live["deferred"], live["runs"], live["calendar"] + live["rests"], disk,
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        )  # fmt: skip
        run.points.append(point)
        if discovered:
            run.lookups_per_url_max = max(run.lookups_per_url_max, point.lookups / discovered)
            run.rereads_per_url_max = max(run.rereads_per_url_max, point.rereads / discovered)
        if self._progress:
            cpu = time.process_time() - self._began
            print(f"{point.seconds:8.0f} s {point.fetches:9d} fetched {point.enemy / max(1, point.fetches):5.1%} enemy "
                  f"queued {point.queued} deferred {point.deferred} runs {point.runs} put off {point.put_off} "
                  f"hosts {len(self.hosts)} sites {state.sites.sites} "
                  f"in queue {state.sites.current}:{state.sites.slot} turn {self._turn_s:.2f} s; "
                  f"{point.rss_bytes >> 20} MiB, {point.fetches / cpu:.0f} fetches per CPU-s", flush=True)  # fmt: skip

    def _queued_bytes(self) -> float | None:
        """Bytes on disk of a URL that waits in a queue or in QF; None where none does."""
        places = [*self.state.sites._queues.places(), *self.state.sites._deferred.places()]
        sections = [self.state.pool.section(*place) for place in places]
        stored = sum(int(section.chunks["stored"].sum()) for section in sections)
        rows = sum(section.rows for section in sections)
        return stored / rows if rows else None

    def _finish(self) -> Run:
        run, state = self.run_, self.state
        run.seconds = self.clock.now() - START
        run.cpu_s = time.process_time() - self._began
        run.utilisation = self._requests / (self.rate * run.seconds)
        late, total = self._late, run.spent
        if late is not None and total.fetches > late.fetches:
            run.enemy_share_late = (total.enemy - late.enemy) / (total.fetches - late.fetches)
        run.lookups_per_url = state.sites.lookups / max(1, state.sites.discovered)
        run.rereads_per_url = state.sites.rereads / max(1, state.sites.discovered)
        run.peak_rss_bytes = run.points[-1].rss_bytes
        run.disk_bytes_per_url = self._queued_bytes()
        state.close()
        self.job.release()
        gc.enable()
        return run
