"""Pages that change in fast motion: served to a real crawl, and played to the simulated one, for `bench changing`.

The world is that of `bench freshness`, whose day takes some seconds here. Hosts differ in what they say to a
conditional request: the truth, always 304, nothing (they send no validators), or the truth after a while.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench._sim.revisited import DAY_S, Revisited
from bench.freshness import World
from irlcrawl.base.rows import Change
from irlcrawl.config.keys import Config
from tools.sampleweb.server import Ask, Reply

F8 = NDArray[np.float64]
FIRST_RATE_DAYS, MOST_DAYS = 30.0, 365.0
SLOW_S = 0.3
SLOTS = 2
"""URLs that a host takes in a step of the simulation."""


class Says(IntEnum):
    HONEST = 0
    LYING = 1
    ABSENT = 2
    SLOW = 3


_OF_EIGHT = np.array([
    Says.HONEST, Says.LYING, Says.ABSENT, Says.SLOW, Says.HONEST, Says.HONEST, Says.ABSENT, Says.HONEST,
])  # fmt: skip


class Fetch(NamedTuple):
    """An answer: which page, when (unix seconds), since when its content is as it is (day), and the status."""

    page: int
    at: float
    version: float
    status: int


@dataclass
class ChangingWeb:
    """day_s: seconds of a day; its first begins with the first request for a page."""

    world: World
    day_s: float
    fetches: list[Fetch] = field(default_factory=list)
    began: float = 0.0

    @property
    def says(self) -> NDArray[np.int64]:
        """Of each page's host."""
        return _OF_EIGHT[self.world.hosts % len(_OF_EIGHT)]

    @property
    def names(self) -> list[str]:
        """Of hosts."""
        return [f"h{host}.test" for host in range(int(self.world.hosts.max()) + 1)]

    def day(self, at: float) -> float:
        return max(at - self.began, 0.0) / self.day_s if self.began else 0.0

    def version(self, page: int, day: float) -> float:
        return float(self.world.changes.last(np.array([page]), np.array([day]))[0])

    async def __call__(self, ask: Ask) -> Reply:
        if not ask.path.startswith("/p/"):
            return Reply(404)
        page = int(ask.path.removeprefix("/p/"))
        says = int(self.says[page])
        if says == Says.SLOW:
            await asyncio.sleep(SLOW_S)
        now = time.time()
        self.began = self.began or now
        version = self.version(page, self.day(now))
        tag = '"one"' if says == Says.LYING else f'"{version:.9f}"'
        validators = [] if says == Says.ABSENT else [("ETag", tag)]
        status = 304 if validators and ask.headers.get("if-none-match") == tag else 200
        self.fetches.append(Fetch(page, now, version, status))
        return Reply(status, b"" if status == 304 else body(page, version), headers=validators)


def body(page: int, version: float) -> bytes:
    """Words that are others in each version, for digits count for nothing when pages are compared."""
    rng = np.random.default_rng([page, int(max(version, 0.0) * 1e9)])
    letters = rng.choice([*b"abcdefghijklmnop"], (60, 6)).astype(np.uint8)
    return b"<title>a page</title><p>" + b" ".join(word.tobytes() for word in letters)


def freshness(web: ChangingWeb, days: F8) -> F8:
    """The share of copies that are right at these days (ascending), by the server's own log: a copy is as the page was
    when its body was sent, or when an honest server said that it is as it was."""
    copies, says = np.full(web.world.pages, -np.inf), web.says
    fetches = iter(sorted(web.fetches, key=lambda fetch: fetch.at))
    fetch, found = next(fetches, None), []
    for day in days.tolist():
        while fetch is not None and web.day(fetch.at) <= day:
            if fetch.status == 200 or says[fetch.page] != Says.LYING:
                copies[fetch.page] = web.day(fetch.at)
            fetch = next(fetches, None)
        found.append(right(web.world, copies, day))
    return np.array(found)


def right(world: World, copies: F8, day: float) -> float:
    """The share of copies made at these days that are right."""
    last = world.changes.last(np.arange(world.pages), np.full(world.pages, day))
    return float(((last <= copies) & np.isfinite(copies)).mean())


def revisit_config(day_s: float, every: int) -> dict[str, float]:
    """Values of [revisit], as in the world's own time."""
    return {
        "chance_min": 0.0, "every_min_seconds": 0.0, "first_rate_days": FIRST_RATE_DAYS * day_s / DAY_S,
        "every_max_days": MOST_DAYS * day_s / DAY_S, "unconditional_every": every,
    }  # fmt: skip


class Simulated:
    """The shipped frontier under a virtual clock, on the same web: no sockets, no workers, no kills."""

    def __init__(self, web: ChangingWeb, gap_s: float, every: int) -> None:
        self._web, self._every, self._gap_s, self._step_s = web, every, gap_s, SLOTS * gap_s
        pages = web.world.pages
        self._copies = np.full(pages, -np.inf)
        self._visits = np.zeros(pages, np.int64)
        self._trusted = np.ones(pages, np.bool_)
        self.visits = 0

    def run(self, path: Path, seconds: float) -> tuple[F8, F8]:
        """(days, freshness at each)."""
        world, config = self._web.world, Config()
        for name, value in revisit_config(self._web.day_s, self._every).items():
            setattr(config.revisit, name, value)
        depth = np.zeros(world.pages, np.uint16)
        crawl = Revisited(
            path, world.hosts, depth, self._observe, config, slots=SLOTS, gap_s=self._gap_s,
            busy_days=self._step_s / DAY_S,
        )  # fmt: skip
        capacity = SLOTS * len(self._web.names)
        days, fresh = [], []
        while crawl.day * DAY_S < seconds:
            crawl.step(self._step_s / DAY_S, capacity)
            days.append(crawl.day * DAY_S / self._web.day_s)
            fresh.append(right(world, self._copies, days[-1]))
        self.visits = crawl.visits
        crawl.close()
        return np.array(days), np.array(fresh)

    def _observe(self, pages: NDArray[np.int64], since: F8, at: F8) -> NDArray[np.uint8]:
        days, says = at * DAY_S / self._web.day_s, self._web.says[pages]
        again = self._visits[pages] > 0
        changed = again & (self._web.world.changes.last(pages, days) > self._copies[pages])
        asked = again & (says != Says.ABSENT) & self._trusted[pages] & ((self._visits[pages] + 1) % self._every != 0)
        lied = asked & (says == Says.LYING)
        self._copies[pages[~lied]] = days[~lied]
        self._trusted[pages[changed & ~lied & (says == Says.LYING)]] = False  # another page under the tag it had
        self._visits[pages] += 1
        same = np.where(asked, Change.NOT_MODIFIED, Change.SAME)
        return np.where(changed & ~lied, Change.YES, same).astype(np.uint8)
