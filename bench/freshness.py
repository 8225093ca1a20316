"""`python -m bench freshness`: how fresh the shipped frontier keeps pages that change, beside other policies.

The frontier is the shipped one: state on disk, turns, beliefs in two bytes, price (bench/_sim/revisited.py). Time and
workers are played, the web is tools/simweb/changes.py: Poisson changes, rates lognormal around 45 days (sigma 1.8, of
which 1.2 is the host's, as pages of a host change alike; 50 pages a host), a quarter of the pages never changes;
weights by the depth of a page, as the crawler gives them; depths are normal around 4, so weights are about lognormal
with sigma 1. All pages are fetched on the first day. A step of time is one turn.
The figures, weighted by page:

`late`      share of copies that are right, in the mean over the last 60% of the time
`optimum`   Cho and Garcia-Molina's stationary optimum for the same rates and capacity; `share` = late / optimum. A run
            that begins with fresh copies flatters each policy a little; so read it beside `known rates`
`all`       the same mean from the first day on

Policies: ours (learnt); ours with known rates; capacity doubled and halved in the middle, with known rates, against the
optimum of each half; and in the same world, without a disk: uniform, proportional to known rates, Nutch's rule (x0.8
after a change, x1.2 without one), CC-News' (x0.8 and a fifth of its least interval, x1.5), LambdaCrawl and
Cho-Garcia-Molina, both re-solved every ten days from rates estimated with half a visit of either kind added. Other
worlds: bench/freshness_worlds.py. Ends with 1 if a goal is not reached.

`--curves DIR` compares policies at several capacities instead, and writes how each went to DIR/freshness.jsonl;
`--plots DIR` draws that (freshness.svg, freshness-visits.svg; docs/freshness.md shows them).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench._sim.revisited import CERTAIN, Revisited
from irlcrawl.base.rows import Change
from irlcrawl.revisit.beliefs import Belief
from irlcrawl.revisit.price import due_after
from irlcrawl.revisit.weight import DEPTH_MAX, WEIGHTS
from tools.simweb.changes import Changes, Kind

F8 = NDArray[np.float64]
LATE = 0.4
HOST_PAGES, SIGMA_HOST, SIGMA_PAGE = 50, 1.2, 1.34
DEPTH, DEPTH_SPREAD = 4.0, 2.2
MOST_DAYS = 365.0
STILL = 1e-9
"""The rate of pages that never change."""
RESOLVE_DAYS = 10.0
CC_LEAST_DAYS, CC_MOST_DAYS = 90 / 1440, 90.0
CURVES = "freshness.jsonl"
CURVE_RATES = (0.02, 0.05, 0.1, 0.2, 0.4)
CURVE_POINTS, CURVE_BINS = 60, 16
GOALS = {
    "known": 0.995, "learnt 0.02": 0.95, "learnt 0.1": 0.985, "learnt 0.4": 0.993, "doubled": 0.99, "halved": 0.99,
}  # fmt: skip


@dataclass
class World:
    """Pages that change, and how many visits there are a day. `after`: capacity from the middle on, as a factor."""

    changes: Changes
    rate: F8
    weight: F8
    depth: NDArray[np.uint16]
    hosts: NDArray[np.int64]
    visits: float
    days: float
    step: float
    after: float = 1.0

    @classmethod
    def made(
        cls, pages: int, seed: int, rate: float, days: float, step: float, after: float = 1.0, zipf: bool = False
    ) -> World:
        """zipf: hosts are of very different sizes."""
        rng = np.random.default_rng(seed)
        count = max(pages // HOST_PAGES, 1)
        size = 1 / np.arange(1.0, count + 1)
        hosts = rng.choice(count, pages, p=size / size.sum()) if zipf else rng.integers(0, count, pages)
        of_host = rng.normal(0.0, SIGMA_HOST, int(hosts.max()) + 1)
        rates = np.exp(np.log(1 / 45) + of_host[hosts] + rng.normal(0.0, SIGMA_PAGE, pages))
        still = rng.random(pages) < 0.25
        kind = np.where(still, Kind.NEVER, Kind.POISSON).astype(np.uint8)
        depth = np.clip(np.rint(rng.normal(DEPTH, DEPTH_SPREAD, pages)), 0, DEPTH_MAX).astype(np.uint16)
        octaves = np.rint(8 * -0.7 * depth).astype(np.int64)  # tests hold it to weight_codes
        return cls(
            Changes(seed, kind, rates, np.full(pages, np.inf)), np.where(still, STILL, rates), WEIGHTS[128 + octaves],
            depth, hosts, rate * pages, days, step, after,
        )  # fmt: skip

    @property
    def pages(self) -> int:
        return len(self.rate)

    def capacity(self, day: float) -> int:
        return int(self.visits * self.step * (self.after if day > self.days / 2 else 1.0))

    def fresh(self, visited: F8, day: float) -> float:
        right = self.changes.last(np.arange(self.pages), np.full(self.pages, day)) <= visited
        return float((right * self.weight).sum() / self.weight.sum())

    def optimum(self) -> float:
        """Of the late phase."""
        before = max(0.5 - LATE, 0.0) / (1 - LATE)
        parts = ((before, 1.0), (1 - before, self.after))
        return sum(share * optimum(self.rate, self.weight, self.visits * factor)[0] for share, factor in parts)


@dataclass
class Outcome:
    policy: str
    rate: float
    late: float
    optimum: float
    share: float
    all: float
    visits_a_day: float
    cpu_us_a_visit: float | None = None
    disk_bytes_a_visit: float | None = None
    """Read and written by system calls, harvests of the played workers among it, archive and crawl log not."""
    curve: Curve | None = None


@dataclass
class Curve:
    """How a policy went: freshness in the mean of equal parts of the time; and of pages of depth 0, by their rates of
    change, the visits a day that they had in the late phase."""

    fresh: list[float]
    rates: list[float]
    visits: list[float]


def exact(rate: F8) -> Belief:
    return Belief(np.full(len(rate), CERTAIN), CERTAIN / rate)


def optimum(rate: F8, weight: F8, visits: float) -> tuple[float, F8]:
    """(freshness, intervals in days) of the stationary optimum with so many visits a day: bisection on the price."""
    low, high = 1e-12, 1e9
    for _ in range(80):
        level = float(np.sqrt(low * high))
        every = due_after(exact(rate), weight, level, 1e6)
        low, high = (low, level) if (1 / every).sum() < visits else (level, high)
    fresh = weight * -np.expm1(-rate * every) / (rate * every)
    return float(fresh.sum() / weight.sum()), every


def ours(world: World, name: str, known: bool) -> Outcome:
    """The shipped frontier."""
    late = np.zeros(world.pages)

    def observe(pages: NDArray[np.int64], since: F8, at: F8) -> NDArray[np.uint8]:
        np.add.at(late, pages, at > LATE * world.days)
        return np.where(world.changes.last(pages, at) > since, Change.YES, Change.SAME).astype(np.uint8)

    with tempfile.TemporaryDirectory(prefix="irlcrawl-freshness-") as directory:
        rates = world.rate if known else None
        crawl = Revisited(Path(directory) / "job", world.hosts, world.depth, observe, rates=rates)
        crawl.config.revisit.chance_min = crawl.config.revisit.every_min_seconds = 0.0
        cpu = 0.0

        def serve(day: float, capacity: int) -> None:
            nonlocal cpu
            cpu += crawl.step(world.step, capacity).cpu_seconds

        crawl.step(world.step, world.pages)
        first, before = crawl.visits, disk_bytes()
        found = _measured(world, serve, lambda: crawl.visited)
        visits = crawl.visits - first
        traffic = disk_bytes() - before
        crawl.close()
    outcome = _outcome(name, world, found, visits, late, 1e6 * cpu / max(visits, 1))
    return replace(outcome, disk_bytes_a_visit=traffic / max(visits, 1))


def disk_bytes() -> int:
    """Bytes that this process read and wrote by system calls so far."""
    told = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(told["rchar"]) + int(told["wchar"])


def played(world: World, name: str, plan: Callable[[Played], F8], truth: World | None = None) -> Outcome:
    """A policy in memory: plan(Played) gives days until the next visit of the pages just visited; those with the
    earliest dues are served, none before it is due. truth: what copies are held against, if that is another world than
    the policy sees."""
    state = Played(world)
    due = state.visited + plan(state)
    visits = 0

    def serve(day: float, capacity: int) -> None:
        nonlocal visits
        state.day = day
        some = np.argpartition(due, min(capacity, world.pages - 1))[:capacity]
        some = some[due[some] <= day + world.step]
        visits += len(some)
        state.visit(some, day)
        due[some] = day + plan(state)
        if state.resolved:
            due[:] = state.visited + state.every
            state.resolved = False

    return _outcome(name, world, _measured(world, serve, lambda: state.visited, truth or world), visits, state.late)


class Played:
    """What a policy may know: of each page how often it was visited, found changed, and over how many days."""

    def __init__(self, world: World) -> None:
        self.world, self.day = world, world.step
        self.visited: F8 = np.zeros(world.pages)
        self.some = np.arange(world.pages)  # visited last
        self.changed = np.zeros(world.pages, np.bool_)  # of those
        self.visits, self.changes, self.days = (np.zeros(world.pages) for _ in range(3))
        self.late: F8 = np.zeros(world.pages)  # visits in the late phase
        self.every: F8 = np.zeros(world.pages)
        self.solved_at = -np.inf
        self.resolved = False

    def visit(self, some: NDArray[np.int64], day: float) -> None:
        at = np.full(len(some), day + self.world.step / 2)
        self.some, self.changed = some, self.world.changes.last(some, at) > self.visited[some]
        self.visits[some] += 1
        self.late[some] += day > LATE * self.world.days
        self.changes[some] += self.changed
        self.days[some] += at - self.visited[some]
        self.visited[some] = at

    def rates(self) -> F8:
        """From a mean interval, with half a visit that found a change and half a one that did not added, so that no
        estimate is 0; 1 in 30 days of what was never visited."""
        mean = self.days / np.maximum(self.visits, 1)
        found = -np.log((self.visits - self.changes + 0.5) / (self.visits + 1)) / np.maximum(mean, 1e-6)
        return np.where(self.visits > 0, np.maximum(found, 1e-5), 1 / 30)

    def solve(self, solved: Callable[[F8, F8, float], F8]) -> F8:
        """Intervals of all pages, solved anew every RESOLVE_DAYS; of those just visited."""
        if self.day >= self.solved_at + RESOLVE_DAYS:
            capacity = self.world.capacity(self.day) / self.world.step
            self.every = solved(self.rates(), self.world.weight, capacity)
            self.solved_at, self.resolved = self.day, len(self.some) < self.world.pages
        return self.every[self.some]


def uniform(state: Played) -> F8:
    return np.full(len(state.some), state.world.pages / state.world.visits)


def proportional(state: Played) -> F8:
    return state.world.rate.sum() / state.world.visits / np.maximum(state.world.rate[state.some], 1e-12)


def nutch(state: Played) -> F8:
    """AdaptiveFetchSchedule, with a first interval that the capacity allows."""
    return _stepped(state, lambda every: np.clip(every * np.where(state.changed, 0.8, 1.2), 1 / 1440, MOST_DAYS))


def cc_news(state: Played) -> F8:
    """StormCrawler's AdaptiveScheduler with the settings of news-crawl; the first interval as for `nutch`."""
    return _stepped(state, lambda every: cc_news_next(every, state.changed))


def cc_news_next(every: F8, changed: NDArray[np.bool_]) -> F8:
    """The interval after one that found a change, or none."""
    return np.where(changed, 0.8 * every + 0.2 * CC_LEAST_DAYS, np.minimum(1.5 * every, CC_MOST_DAYS))


def _stepped(state: Played, after: Callable[[F8], F8]) -> F8:
    """Intervals that each visit makes out of the one before."""
    some = state.some
    every = state.every[some]
    state.every[some] = np.where(every == 0, state.world.pages / state.world.visits, after(every))
    return state.every[some]


def lambda_crawl(rate: F8, weight: F8, visits: float) -> F8:
    """Its optimum for harmonic staleness (Kolobov et al., NeurIPS 2019), on a clock."""
    low, high = 1e-12, 1e12
    for _ in range(80):
        level = np.sqrt(low * high)
        every = 2 / (np.sqrt(rate**2 + 4 * weight * rate / level) - rate)
        low, high = (low, level) if (1 / every).sum() < visits else (level, high)
    return np.minimum(every, 1e6)


def _measured(
    world: World, serve: Callable[[float, int], None], visited: Callable[[], F8], truth: World | None = None
) -> F8:
    """Freshness after each step."""
    fresh = []
    for day in np.arange(world.step, world.days, world.step).tolist():
        serve(day, world.capacity(day))
        fresh.append((truth or world).fresh(visited(), day + world.step))
    return np.array(fresh)


def _outcome(name: str, world: World, fresh: F8, visits: int, late_visits: F8, cpu: float | None = None) -> Outcome:
    best, rate = world.optimum(), world.visits / world.pages
    late, every = float(fresh[int(LATE * len(fresh)) :].mean()), float(fresh.mean())
    parts = [round(float(part.mean()), 5) for part in np.array_split(fresh, CURVE_POINTS) if len(part)]
    curve = Curve(parts, *by_rate(world, late_visits / ((1 - LATE) * world.days)))
    return Outcome(name, rate, late, best, late / best, every, visits / world.days, cpu, None, curve)


def by_rate(world: World, a_day: F8) -> tuple[list[float], list[float]]:
    """(mean rates of change, means of `a_day`) of pages of depth 0 that change, in groups of about one size."""
    some = np.flatnonzero((world.depth == 0) & (world.rate > STILL))
    groups = np.array_split(some[np.argsort(world.rate[some])], CURVE_BINS)
    means = [(float(world.rate[group].mean()), float(a_day[group].mean())) for group in groups if len(group)]
    return [round(rate, 6) for rate, _ in means], [round(visits, 5) for _, visits in means]


POLICIES: dict[str, Callable[[World], Outcome]] = {
    "known": lambda world: ours(world, "known", True),
    "learnt": lambda world: ours(world, "learnt", False),
    "uniform": lambda world: played(world, "uniform", uniform),
    "proportional": lambda world: played(world, "proportional", proportional),
    "nutch": lambda world: played(world, "nutch", nutch),
    "cc-news": lambda world: played(world, "cc-news", cc_news),
    "lambdacrawl": lambda world: played(world, "lambdacrawl", lambda state: state.solve(lambda_crawl)),
    "cgm": lambda world: played(world, "cgm", lambda state: state.solve(lambda *facts: optimum(*facts)[1])),
}


def compared(world: Callable[[float], World], where: Path) -> None:
    """Write how policies go at CURVE_RATES; a line each, the optimum's first."""
    lines = []
    for rate in CURVE_RATES:
        here = world(rate)
        best, every = optimum(here.rate, here.weight, here.visits)
        told = asdict(Curve([], *by_rate(here, 1 / every)))
        lines.append({"policy": "optimum", "rate": rate, "days": here.days, "late": best, **told})
        for name in ("learnt", "lambdacrawl", "nutch", "cc-news", "uniform"):
            found = POLICIES[name](here)
            assert found.curve is not None
            lines.append({"policy": name, "rate": rate, "days": here.days, "late": found.late, **asdict(found.curve)})
            print(f"{name} at {rate:g}: {found.late:.4f} of {best:.4f}", flush=True)
            (where / CURVES).write_text("".join(json.dumps(line) + "\n" for line in lines))


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench freshness", description=__doc__.split("\n")[0])
    parser.add_argument("--pages", type=int, default=100_000)
    parser.add_argument("--days", type=float, default=240.0)
    parser.add_argument("--step", type=float, default=0.25, help="days from one turn to the next")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--only", action="append", help="a row of the table; may be repeated")
    parser.add_argument("--curves", type=Path, metavar="DIR", help=f"only compare, and write DIR/{CURVES}")
    parser.add_argument("--plots", type=Path, metavar="DIR", help=f"only draw DIR/{CURVES} there (extra 'bench')")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(argv)

    def world(rate: float = 0.1, after: float = 1.0) -> World:
        return World.made(given.pages, given.seed, rate, given.days, given.step, after)

    def learnt(rate: float) -> Callable[[], Outcome]:
        return lambda: ours(world(rate), f"learnt {rate:g}", False)

    if given.plots:
        return _drawn(given.plots)
    if given.curves:
        compared(world, given.curves)
        return 0
    rows: dict[str, Callable[[], Outcome]] = {
        **{f"learnt {rate:g}": learnt(rate) for rate in (0.02, 0.1, 0.4)},
        "doubled": lambda: ours(world(0.1, 2.0), "doubled", True),
        "halved": lambda: ours(world(0.1, 0.5), "halved", True),
        **{name: partial(run, world()) for name, run in POLICIES.items() if name != "learnt"},
    }
    missed = []
    for name, run in rows.items():
        if given.only and name not in given.only:
            continue
        began = time.perf_counter()
        found = run()
        goal = GOALS.get(name)
        if goal is not None and found.share < goal:
            missed.append(name)
        if given.json:
            print(json.dumps({"bench": "freshness", "pages": given.pages, "goal": goal, **_told(found)}), flush=True)
        else:
            cpu = f", {found.cpu_us_a_visit:.0f} us CPU of turns a visit" if found.cpu_us_a_visit else ""
            cpu += f", {found.disk_bytes_a_visit:.0f} B of disk" if found.disk_bytes_a_visit else ""
            wanted = f" (goal {goal:.1%})" if goal else ""
            print(
                f"{name:<14}late {found.late:.4f} of {found.optimum:.4f}: {found.share:.2%}{wanted}, from day 0 "
                f"{found.all:.4f}, {found.visits_a_day:.0f} visits a day{cpu}, {time.perf_counter() - began:.0f} s",
                flush=True,
            )
    return 1 if missed else 0


def _told(found: Outcome) -> dict[str, Any]:
    told = asdict(found)
    told.pop("curve")
    return told


def _drawn(where: Path) -> int:
    if not (where / CURVES).is_file():
        print(f"bench freshness --plots: there is no {where / CURVES}; --curves {where} writes it", file=sys.stderr)
        return 4
    try:
        from bench._sim.fresh_plots import draw  # matplotlib is needed for nothing else
    except ModuleNotFoundError as error:
        print(f"bench freshness --plots: {error}; make bench-venv installs it", file=sys.stderr)
        return 1
    draw(where / CURVES, where)
    return 0
