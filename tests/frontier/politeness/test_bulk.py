"""Visits by the hundred are those that come one by one: two frontiers get the same hosts and reports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.keys import name_key
from irlcrawl.config import keys as config
from irlcrawl.frontier.politeness.bulk import Bulk
from irlcrawl.frontier.politeness.clocks import CLOCK
from irlcrawl.frontier.politeness.gaps import OUTCOMES, Outcome
from irlcrawl.frontier.politeness.politeness import HostEntry, HostState, Politeness

Host = tuple[int, int, int, int | None]
HOW: list[Outcome] = ["ok", "ok", "ok", "failed", "throttled", "unreached"]
SITES = 12


def entry_of(number: int, host: Host) -> HostEntry:
    name, address, delay, until = host
    return HostEntry(
        key=number, name=f"h{name}.s{name % SITES}.test", scheme="http", port=80, site=name_key(b"%d" % (name % SITES)),
        address=f"192.0.2.{address}" if address else None, address_until=1e12 if until is None else 1e9 + until,
        crawl_delay=float(delay), gap_floor=0.0 if name % 7 == 0 else None,
    )  # fmt: skip


class OneByOne:
    """What a frontier does with its hosts; `InBatches` and `InColumns` do the same by the hundred."""

    many = 1 << 30

    def __init__(self, params: config.Politeness) -> None:
        self.clock = VirtualClock(1e9)
        self.polite = Politeness(self.clock, params)
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

    def leave(self, entries: list[HostEntry]) -> None:
        for entry in entries:
            self.polite.deactivate(entry)

    def state(self) -> object:
        """All that can be seen of it."""
        polite = self.polite
        return (
            polite.waiting, polite.leased, polite.ready, polite.delayed(), polite.ready_pairs(5.0), polite.next_due(),
            clocks_of(polite, self.clock.now()),
        )  # fmt: skip


class InBatches(OneByOne):
    many = 1

    def pop(self, urls_max: int, visits_max: int) -> list[tuple[HostEntry, int]]:
        return self.polite.pop_all(urls_max, lambda entries: [1 + entry.key % 5 for entry in entries], visits_max)


class InColumns:
    """The same without an object per host: entries here are what the test knows them by."""

    def __init__(self, params: config.Politeness) -> None:
        self.clock = VirtualClock(1e9)
        self.bulk = Bulk(self.clock, params)
        self.entries: dict[int, HostEntry] = {}

    def _of(self, hosts: Any) -> list[HostEntry]:
        return [self.entries[number] for number in hosts.tolist()]

    def activate(self, entries: list[HostEntry]) -> list[float]:
        if not entries:
            return []
        facts = [(one.clock_host, one.site) for one in entries]
        keys, sites = np.array(facts, np.uint64).T
        delays = np.array([one.crawl_delay for one in entries])
        distinct, which = np.unique([one.address or "" for one in entries], return_inverse=True)
        numbers, dues = self.bulk.come(keys, sites, self.bulk._gaps.floors(entries), delays, distinct.tolist(), which)
        for entry, number in zip(entries, numbers.tolist(), strict=True):
            entry.number, self.entries[number] = number, entry
        return dues.tolist()

    def pop(self, urls_max: int) -> list[tuple[HostEntry, int]]:
        hosts, urls = self.bulk.begin_all(
            urls_max, lambda hosts: self.bulk.own_gaps(self._of(hosts)),
            lambda hosts: np.array([1 + entry.key % 5 for entry in self._of(hosts)]),
        )  # fmt: skip
        return list(zip(self._of(hosts), urls.tolist(), strict=True))

    def release(self, ended: list[tuple[HostEntry, dict[str, Any]]]) -> list[float]:
        if not ended:
            return []
        for entry, how in ended:
            entry.crawl_delay = entry.crawl_delay if how["crawl_delay"] is None else how["crawl_delay"]
        entries = [entry for entry, _ in ended]
        hows = {name: [how[name] for _, how in ended] for name in ended[0][1]}
        dues = self.bulk.end_all(
            np.array([entry.number for entry in entries]), fetch_s=np.array(hows["fetch_s"]),
            ended=np.array([np.nan if at is None else at for at in hows["ended"]]),
            requests=np.array(hows["requests"]), outcomes=np.array(list(map(OUTCOMES.index, hows["outcome"]))),
            floors=self.bulk._gaps.floors(entries), crawl_delays=np.array([entry.crawl_delay for entry in entries]),
            again=np.array(hows["again"]),
        )  # fmt: skip
        return dues.tolist()

    def leave(self, entries: list[HostEntry]) -> None:
        self.bulk.leave_all(np.array([entry.number for entry in entries], np.int64))


def clocks_of(polite: Bulk, now: float) -> object:
    """All that can be seen of clocks, and of hosts that wait for them."""
    delta = polite.clocks.delta(now)
    order = np.lexsort((delta["key"], delta["kind"]))
    return (
        polite._bench.waiting, polite._bench.delays(now).tolist(), polite._bench.next_due(now), len(polite.clocks),
        polite.clocks.idle, [delta[name][order].tolist() for name in CLOCK],
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
            assert all(entry.state == HostState.LEASED for entry in out[one])
            end, out[one] = out[one][kept:], out[one][:kept]
            rows = [(entry, how(hows[at % len(hows)], now)) for at, entry in enumerate(end)]
            released = one.release(rows)
            shown = [(entry.key, urls) for entry, urls in visits]
            states = [(entry.state, entry.crawl_delay) for entry in entries[one]]
            seen.append((dues, names, shown, released, states, one.state()))
            one.clock.advance(seconds)
        assert seen[0] == seen[1]


@settings(max_examples=120, deadline=None)
@given(steps, st.sampled_from([0.0, 0.5]), st.integers(0, 3))
def test_hosts_without_objects_are_visited_as_those_with(steps: Any, gap_address: float, leaving: int) -> None:
    params = config.Politeness(gap_address_seconds=gap_address)
    one, columns = both = OneByOne(params), InColumns(params)
    entries: list[list[HostEntry]] = [[], []]
    waiting: list[dict[int, HostEntry]] = [{}, {}]
    out: list[list[HostEntry]] = [[], []]
    for come, (urls_max, _), hows, kept, seconds in steps:
        seen = []
        for side, player in enumerate(both):
            now = player.clock.now()
            known = [(name, address or 9, delay, None) for name, address, delay, _ in come]
            fresh = [entry_of(len(entries[side]) + at, host) for at, host in enumerate(known)]
            entries[side] += fresh
            dues = player.activate(fresh)
            waiting[side] |= {entry.key: entry for entry in fresh}
            visits = one.pop(urls_max, 1 << 30) if player is one else columns.pop(urls_max)
            out[side] += [entry for entry, _ in visits]
            for entry, _ in visits:
                del waiting[side][entry.key]
            end, out[side] = out[side][kept:], out[side][:kept]
            rows = [(entry, how(hows[at % len(hows)], now)) for at, entry in enumerate(end)]
            released = player.release(rows)
            waiting[side] |= {entry.key: entry for entry, said in rows if said["again"]}
            gone = [waiting[side].pop(key) for key in list(waiting[side])[:leaving]]
            player.leave(gone)
            shown = [(entry.key, urls) for entry, urls in visits]
            polite = one.polite if player is one else columns.bulk
            seen.append((dues, shown, released, [entry.key for entry in gone], clocks_of(polite, now)))
            player.clock.advance(seconds)
        assert seen[0] == seen[1]


def test_a_host_that_is_not_leased_is_refused_in_columns_too() -> None:
    columns = InColumns(config.Politeness())
    entry = entry_of(0, (1, 1, 0, None))
    columns.activate([entry])
    how = {"ended": 0.0, "fetch_s": 0.0, "requests": 1, "outcome": "ok", "crawl_delay": None, "again": False}
    with pytest.raises(ValueError, match="is not leased"):
        columns.release([(entry, how)])


def test_hosts_without_objects_whose_clock_is_reserved_are_refused() -> None:
    """Clocks are kept for hosts that share two with others (sites with a gap), which only Politeness knows."""
    columns = InColumns(config.Politeness())
    entry = entry_of(0, (1, 1, 0, None))
    columns.activate([entry])
    [(leased, _)] = columns.pop(1)
    columns.bulk._bench._reserved[0] = leased.number
    how = {"ended": 0.0, "fetch_s": 0.0, "requests": 1, "outcome": "ok", "crawl_delay": None, "again": True}
    with pytest.raises(ValueError, match="sites with a gap"):
        columns.release([(leased, how)])
    columns.bulk._bench._reserved.clear()
    columns.release([(leased, how)])
    columns.bulk._bench._reserved[0] = leased.number
    columns.clock.advance(10.0)
    with pytest.raises(ValueError, match="sites with a gap"):
        columns.pop(1)
