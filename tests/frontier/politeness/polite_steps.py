"""The same hosts, visits and reports for several frontiers: one treats hosts one by one, others hundreds at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.keys import name_key
from irlcrawl.config import keys as config
from irlcrawl.frontier.politeness.clocks import CLOCK, Clocks
from irlcrawl.frontier.politeness.gaps import Outcome
from irlcrawl.frontier.politeness.line import CLASSES
from irlcrawl.frontier.politeness.politeness import HostEntry, Politeness

Host = tuple[int, int, int, int | None]
HOW: list[Outcome] = ["ok", "ok", "ok", "failed", "throttled", "unreached"]
SITES = 12


def entry_of(number: int, host: Host) -> HostEntry:
    name, address, delay, until = host
    entry = HostEntry(
        key=number, name=f"h{name}.s{name % SITES}.test", scheme="http", port=80, site=name_key(b"%d" % (name % SITES)),
        address=f"192.0.2.{address}" if address else None, address_until=1e12 if until is None else 1e9 + until,
        crawl_delay=float(delay), gap_floor=0.0 if name % 7 == 0 else None,
    )  # fmt: skip
    entry.worth = number * 5 % 7 % CLASSES
    return entry


def worth_after(entry: HostEntry) -> int:
    """What a host is worth after a visit."""
    return (entry.worth + 1 + entry.key) % CLASSES


class OneByOne:
    """What a frontier does with its hosts. `InBatches` does the same by the hundred, and so do the simulator's hosts
    (tests/tools/test_sim_polite.py)."""

    many = 1 << 30

    def __init__(self, params: config.Politeness) -> None:
        self.clock = VirtualClock(1e9)
        self.polite = Politeness(self.clock, params)
        self.polite.many = self.many

    def activate(self, entries: list[HostEntry]) -> list[float]:
        return self.polite.activate_many(entries)

    def pop(self, urls_max: int, visits_max: int) -> list[tuple[HostEntry, int]]:
        visits: list[tuple[HostEntry, int]] = []
        while urls_max > 0 and len(visits) < visits_max and (entry := self.polite.pop()) is not None:
            visits.append((entry, min(self.polite.visit_size(entry), 1 + entry.key % 5, urls_max)))
            urls_max -= visits[-1][1]
        return visits

    def visits_over(self, ended: list[tuple[HostEntry, dict[str, Any]]]) -> list[float]:
        for entry, _ in ended:
            entry.worth = worth_after(entry)
        return [self.polite.visit_over(entry, **how) for entry, how in ended]

    def leave(self, entries: list[HostEntry]) -> None:
        for entry in entries:
            self.polite.deactivate(entry)

    def queues(self) -> object:
        """What can be seen of its queues and clocks."""
        polite = self.polite
        return polite.waiting, polite.delayed(), polite.next_due(), clocks_of(polite.clocks, self.clock.now())

    def state(self) -> object:
        """All that can be seen of it."""
        polite = self.polite
        return polite.leased, polite.ready, polite.ready_pairs(5.0), self.queues()


class InBatches(OneByOne):
    many = 1

    def pop(self, urls_max: int, visits_max: int) -> list[tuple[HostEntry, int]]:
        return self.polite.pop_many(urls_max, lambda entries: [1 + entry.key % 5 for entry in entries], visits_max)


def clocks_of(clocks: Clocks, now: float) -> object:
    """All that can be seen of clocks."""
    delta = clocks.delta(now)
    order = np.lexsort((delta["key"], delta["kind"]))
    return len(clocks), clocks.idle, [delta[name][order].tolist() for name in CLOCK]


def how(report: tuple[Any, ...], now: float) -> dict[str, Any]:
    ago, *rest = report
    said = dict(zip(("fetch_s", "requests", "outcome", "crawl_delay", "again"), rest, strict=True))
    return {"ended": None if ago is None else now - ago, **said}


hosts = st.tuples(
    st.integers(0, 40), st.sampled_from([0, 1, 1, 2, 2, 3, 4, 5, 6, 7, 8]), st.sampled_from([0, 0, 0, 3]),
    st.sampled_from([None, None, None, 4]),
)  # fmt: skip
reports = st.tuples(
    st.sampled_from([None, 0.0, 0.0, 0.25]), st.sampled_from([0.0, 0.1, 2.0]), st.integers(0, 2),
    st.sampled_from(HOW), st.sampled_from([None, None, 2.0]), st.booleans(),
)  # fmt: skip
steps = st.lists(
    st.tuples(
        st.lists(hosts, max_size=12),
        st.sampled_from([(1, 99), (4, 99), (30, 99), (1000, 999), (1000, 3), (1000, 999)]),
        st.lists(reports, min_size=1, max_size=8),
        st.integers(0, 3), st.sampled_from([0.0, 0.3, 1.0, 7.0]),
    ),
    min_size=1, max_size=10,
)  # fmt: skip
