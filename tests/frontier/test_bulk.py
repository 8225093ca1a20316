"""Visits by the hundred are those that come one by one: two frontiers get the same hosts and reports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl import config
from irlcrawl.clock import VirtualClock
from irlcrawl.frontier.bulk import BulkPoliteness
from irlcrawl.frontier.clocks import CLOCK
from irlcrawl.frontier.politeness import HostEntry, Outcome, Politeness, State
from irlcrawl.rows import name_key

Host = tuple[int, int, int, int | None]
OUTCOMES: list[Outcome] = ["ok", "ok", "ok", "failed", "throttled", "unreached"]
SITES = 12


def entry_of(number: int, host: Host) -> HostEntry:
    name, address, delay, until = host
    return HostEntry(
        key=number, name=f"h{name}.s{name % SITES}.test", scheme="http", port=80, site=name_key(b"%d" % (name % SITES)),
        address=f"192.0.2.{address}" if address else None, address_until=1e12 if until is None else 1e9 + until,
        crawl_delay=float(delay), gap_floor=0.0 if name % 7 == 0 else None,
    )  # fmt: skip


class OneByOne:
    """What a frontier does with its hosts; `InBatches` does the same by the hundred."""

    made: type[Politeness] = Politeness
    many = 1 << 30

    def __init__(self, params: config.Politeness) -> None:
        self.clock = VirtualClock(1e9)
        self.polite = self.made(self.clock, params)
        self.polite.many = self.many

    def activate(self, entries: list[HostEntry]) -> list[float]:
        return self.polite.activate_all(entries)

    def pop(self, urls_max: int, visits_max: int) -> list[tuple[HostEntry, int]]:
        visits: list[tuple[HostEntry, int]] = []
        while urls_max > 0 and len(visits) < visits_max and (entry := self.polite.pop()) is not None:
            visits.append((entry, min(self.polite.visit_size(entry), 1 + entry.key % 5, urls_max)))
            urls_max -= visits[-1][1]
        return visits

    def release(self, ended: list[tuple[HostEntry, dict[str, Any]]]) -> list[float]:
        return [self.polite.release(entry, **how) for entry, how in ended]

    def state(self) -> object:
        """All that can be seen of it."""
        polite, now = self.polite, self.clock.now()
        delta = polite.clocks.delta(now)
        order = np.lexsort((delta["key"], delta["kind"]))
        return (
            polite.waiting, polite.leased, polite.ready, polite.delayed(), polite.ready_pairs(5.0), polite.next_due(),
            len(polite.clocks), polite.clocks.idle, [delta[name][order].tolist() for name in CLOCK],
        )  # fmt: skip


class InBatches(OneByOne):
    made = BulkPoliteness
    many = 1
    polite: BulkPoliteness

    def pop(self, urls_max: int, visits_max: int) -> list[tuple[HostEntry, int]]:
        return self.polite.pop_all(urls_max, lambda entries: [1 + entry.key % 5 for entry in entries], visits_max)

    def release(self, ended: list[tuple[HostEntry, dict[str, Any]]]) -> list[float]:
        entries = [entry for entry, _ in ended]
        hows = [how for _, how in ended]
        return self.polite.release_all(
            entries, ended=np.array([np.nan if how["ended"] is None else how["ended"] for how in hows]),
            fetch_s=np.array([how["fetch_s"] for how in hows]), requests=np.array([how["requests"] for how in hows]),
            outcomes=[how["outcome"] for how in hows], crawl_delays=[how["crawl_delay"] for how in hows],
            again=[how["again"] for how in hows],
        )  # fmt: skip


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
    st.sampled_from(OUTCOMES), st.sampled_from([None, None, 2.0]), st.booleans(),
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


@settings(max_examples=120, deadline=None)
@given(steps, st.sampled_from([0.0, 0.5]), st.sampled_from([0.0, 0.0, 0.0, 3.0]))
def test_visits_in_batches_are_those_that_come_one_by_one(steps: Any, gap_address: float, gap_site: float) -> None:
    params = config.Politeness(gap_address_seconds=gap_address, gap_site_seconds=gap_site)
    both = OneByOne(params), InBatches(params)
    entries: dict[OneByOne, list[HostEntry]] = {one: [] for one in both}
    out: dict[OneByOne, list[HostEntry]] = {one: [] for one in both}
    for come, most, hows, kept, seconds in steps:
        seen = []
        for one in both:
            polite, now = one.polite, one.clock.now()
            fresh = [entry_of(len(entries[one]) + at, host) for at, host in enumerate(come)]
            entries[one] += fresh
            dues = one.activate(fresh)
            names = []
            while (entry := polite.unresolved()) is not None:
                names.append(entry.key)
                polite.resolved(entry, f"192.0.2.{1 + entry.key % 9}", now + 5.0)
            visits = one.pop(*most)
            out[one] += [entry for entry, _ in visits]
            assert all(entry.state == State.LEASED for entry in out[one])
            end, out[one] = out[one][kept:], out[one][:kept]
            rows = [(entry, how(hows[at % len(hows)], now)) for at, entry in enumerate(end)]
            released = one.release(rows)
            shown = [(entry.key, urls) for entry, urls in visits]
            states = [(entry.state, entry.crawl_delay) for entry in entries[one]]
            seen.append((dues, names, shown, released, states, one.state()))
            one.clock.advance(seconds)
        assert seen[0] == seen[1]


def test_a_host_that_is_not_leased_is_refused_in_a_batch_too() -> None:
    one = InBatches(config.Politeness())
    entry = entry_of(0, (1, 1, 0, None))
    one.activate([entry])
    how = {"ended": 0.0, "fetch_s": 0.0, "requests": 1, "outcome": "ok", "crawl_delay": None, "again": False}
    with pytest.raises(ValueError, match="is not leased"):
        one.release([(entry, how)])
