"""The shipped frontier with pages that are visited again, on disk, under a virtual clock; workers are played in bulk.

What is the crawler's own: CrawlState, turns with their files and commits, the hosts drum, runs, beliefs, prices and
rests. What is played: the clock, and workers, that visit what a turn brought and write one harvest of it. A step of
time is one turn; it brings as many URLs as the capacity allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from drum import Batch, Edits, Ragged, SegmentWriter

import numpy as np
from numpy.typing import NDArray

from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import SEEDS_STREAM, harvest_name, parse_harvest
from irlcrawl.base.keys import host_key, name_key, url_keys
from irlcrawl.base.reasons import Class, Reason
from irlcrawl.base.rows import LINK, OUTCOME, VISIT, Change, Source
from irlcrawl.config.keys import Config
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.frontier.turn.release import HostLoads, Policy
from irlcrawl.frontier.turn.turn import Result, Task, Turn
from irlcrawl.revisit import visited
from irlcrawl.revisit.beliefs import Belief
from irlcrawl.worker.harvest.sections import write_sections

F8: TypeAlias = NDArray[np.float64]
I8s: TypeAlias = NDArray[np.int64]
START = 1_000_000_000.0
DAY_S = 86_400.0
TURNS_MAX = 5
CERTAIN = 1e7
"""The shape of a belief that is certain."""


def links_of(state: CrawlState, hosts: I8s, depth: NDArray[np.uint16]) -> Batch:
    """LINK rows of pages, page i on host hosts[i] (each a site of its own)."""
    urls = [b"http://h%d.test/p%d" % (host, page) for page, host in enumerate(hosts.tolist())]
    names = [f"h{host}.test".encode() for host in range(int(hosts.max()) + 1)]
    sites = np.array([name_key(name) for name in names], np.uint64)
    origins = np.array([host_key(b"http://" + name, name_key(name)) for name in names], np.uint64)
    return Batch.zeros(LINK, len(urls)).with_(
        key=np.array(url_keys(urls, state.seed, sites[hosts].tolist()), np.uint64),
        site=sites[hosts], host=origins[hosts], depth=depth, url=Ragged.from_list(urls),
        source=np.full(len(urls), Source.LINK, np.uint8), priority=np.full(len(urls), 64, np.uint8),
    )  # fmt: skip


@dataclass
class Revisited:
    """A crawl of pages that are all known at its begin. observe(pages, since, at) -> Change of each visit (u1), or a
    dict of that (`change`) and further columns of VISIT; days are counted from START. slots: most URLs that a host
    takes in a step (0: no bound)."""

    path: Path
    hosts: I8s
    depth: NDArray[np.uint16]
    observe: Callable[[I8s, F8, F8], Any]
    config: Config = field(default_factory=Config)
    slots: int = 0
    rates: F8 | None = None  # of the pages, if the frontier is to know them
    gap_s: float = 1.0
    busy_days: float = 1 / 8  # a host is free again so long after it took what it may

    def __post_init__(self) -> None:
        config = self.config
        config.crawl.user_agent = "bench/1 (+http://contact.test/)"
        config.scope.kind = "any"
        config.revisit.enabled = True
        config.budgets.base = max(config.budgets.base, len(self.hosts))
        self.clock = VirtualClock(START)
        self.job = JobDir(self.path)
        self.job.acquire()
        self.visited: F8 = np.full(len(self.hosts), -np.inf)
        self.visits = 0
        self._gone: dict[int, int] = {}  # host -> URLs that went in this step
        self.open()

    def open(self) -> None:
        """Open the crawl, or open it again after a crash: what is not on the disk is forgotten."""
        self.state = state = CrawlState.open(self.job, self.config, self.clock)
        self._links = links_of(state, self.hosts, self.depth)
        self._order = np.argsort(self._links["key"])
        self._keys = self._links["key"][self._order]
        self.number = 0
        self._harvests = sorted(
            name
            for name in state.files.listdir(state.dir)
            if parse_harvest(name) and name not in state.catalog.live_files()
        )
        if state.is_new:
            self._write(SEEDS_STREAM, state.streams[SEEDS_STREAM]["next"], {"links": [self._links]})
        self.stream: int = state.catalog.get("stream-next")
        edits = Edits()
        edits.set("stream-next", self.stream + 1)
        state.streams[self.stream] = {"next": 0, "warc": [0, 0]}
        edits.set(f"streams/{self.stream}", state.streams[self.stream])
        state.catalog.commit(edits)

    def crash(self) -> None:
        """Forget what is not on the disk. A harvest that no commit names is taken in by the next turn; what a turn
        brought that was never visited is lost to this driver, so crash before `work` or after it."""
        self.state.close()
        self.open()

    def close(self) -> None:
        self.state.close()
        self.job.release()

    @property
    def day(self) -> float:
        return (self.clock.now() - START) / DAY_S

    def step(self, days: float, capacity: int) -> Result:
        """A turn that brings so many URLs, and their visits, spread over the time until the next step. Where hosts are
        bounded, further turns bring what the first could not: those of a crawl follow one another within seconds."""
        self._gone.clear()
        result = self.turn(capacity)
        left = capacity - self._count(result)
        for _ in range(TURNS_MAX if self.slots else 0):
            if left <= 0 or not result.moved:
                break
            more = self.turn(left)
            left -= self._count(more)
            result.ready += more.ready
            result.cpu_seconds += more.cpu_seconds
            result.moved = more.moved
        self.work(result, days)
        self.clock.advance(days * DAY_S)
        return result

    def _count(self, result: Result) -> int:
        """URLs that a turn brought into runs; their hosts have so much less room in this step."""
        for ready in result.ready:
            for key, rows in zip(ready.index["key"].tolist(), ready.index["rows"].tolist(), strict=True):
                self._gone[key] = self._gone.get(key, 0) + rows
        return sum(int(ready.index["rows"].sum()) for ready in result.ready)

    def turn(self, capacity: int, commit: bool = True) -> Result:
        """commit False: the crawl is killed before the commit; then `crash`."""
        state, now = self.state, self.clock.now()
        harvests, self._harvests = self._harvests, []
        policy = Policy(
            now=now, load=self._load, blocked=None, allowed=lambda record, urls: [True] * len(urls), quota_host=0,
            denials_max=3,
        )  # fmt: skip
        with self._known():
            result = Turn(state).run(Task(now, harvests, capacity, policy, urgent=True))
        if commit:
            state.catalog.commit(result.edits)
            state.delete_unnamed([*result.harvests, *result.written])
        return result

    def _load(self, keys: NDArray[np.uint64], states: Batch) -> HostLoads:
        ones = np.ones(len(keys))
        gone = np.array([self._gone.get(key, 0) for key in keys.tolist()], np.int64)
        room = (self.slots or 1 << 40) * ones - gone
        return HostLoads(room.astype(np.int64), self.gap_s * ones, self.clock.now() + self.busy_days * DAY_S * ones)

    def work(self, result: Result, days: float) -> None:
        """Visit all that a turn brought, and write the harvest of it."""
        runs, now = self.state.runs, self.clock.now()
        parts = []
        for ready in result.ready:
            count = int(ready.index["rows"].sum())
            place = {"segment": np.full(count, ready.segment, np.uint32), "row": np.arange(count, dtype=np.uint32)}
            parts.append(runs.take(place["segment"], place["row"], pages=True).with_(**place))
        if not parts:
            return
        rows = Batch.concat(parts)
        pages = self._order[np.searchsorted(self._keys, rows["key"])]
        at = now + (np.arange(rows.rows) + 0.5) / rows.rows * days * DAY_S
        when = (at - START) / DAY_S
        more: dict[str, Any] = {}
        change = self.observe(pages, self.visited[pages], when)
        if isinstance(change, dict):
            more = change
            change = more.pop("change")
        change = np.where(rows["visits"] == 0, Change.FIRST, change).astype(np.uint8)
        self.visited[pages] = when
        self.visits += rows.rows
        told = {name: rows[name] for name in ("segment", "row", "key", "host")}
        outcomes = Batch.zeros(OUTCOME, rows.rows).with_(
            **told, cls=np.full(rows.rows, Class.FETCHED, np.uint8), reason=np.full(rows.rows, Reason.OK, np.uint8),
            status=np.full(rows.rows, 200, np.int16), line=Ragged.from_list([b"-"] * rows.rows),
        )  # fmt: skip
        visits = Batch.zeros(VISIT, rows.rows).with_(
            segment=rows["segment"], row=rows["row"], at=at, change=change, **more
        )  # fmt: skip
        self._write(self.stream, self.number, {"outcomes": [outcomes], "visits": [visits]})
        self.number += 1

    def tell(self, pages: I8s, days: F8, now: bool = False) -> None:
        """A harvest of signals: pages changed on these days; now: an order of the operator."""
        if len(pages):
            rows = self._links.take(pages).with_(at=START + days * DAY_S, now=np.full(len(pages), now, np.uint8))
            self._write(self.stream, self.number, {"signals": [rows]})
            self.number += 1

    def _write(self, stream: int, number: int, rows: dict[str, list[Batch]]) -> None:
        name = harvest_name(stream, number)
        with SegmentWriter(self.state.files, str(self.job.state / name)) as writer:
            write_sections(writer, stream, number, rows)
        self._harvests.append(name)

    @contextmanager
    def _known(self) -> Iterator[None]:
        """The frontier knows the rates, if it is to: beliefs are certain of them."""
        own = visited.beliefs
        rates = self.rates
        if rates is not None:

            def beliefs(rows: Batch) -> Belief:
                rate = rates[self._order[np.searchsorted(self._keys, rows["key"])]]
                return Belief(np.full(rows.rows, CERTAIN), CERTAIN / rate)

            visited.beliefs = beliefs
        try:
            yield
        finally:
            visited.beliefs = own

    def rows(self) -> dict[int, tuple[Any, ...]]:
        """What the crawl knows of each page, by number."""
        found: dict[int, tuple[Any, ...]] = {}
        for place in (self.state.pages.scan(), self.state.runs.waiting()):
            for batch in place:
                names = ("visits", "visited", "rate_a", "rate_b", "prior", "weight")
                pages = self._order[np.searchsorted(self._keys, batch["key"])].tolist()
                found.update(zip(pages, zip(*(batch[name].tolist() for name in names), strict=True), strict=True))
        return found
