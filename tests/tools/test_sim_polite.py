"""Hosts of the simulated crawl, which are numbers, are visited as those of the crawler, which are objects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench._sim.polite import PoliteColumns
from irlcrawl.base.clock import VirtualClock
from irlcrawl.config import keys as config
from irlcrawl.frontier.politeness.clocks import DELAY_NAMES, Clocks
from irlcrawl.frontier.politeness.gaps import OUTCOMES
from irlcrawl.frontier.politeness.politeness import HostEntry
from tests.frontier.politeness.polite_steps import OneByOne, clocks_of, entry_of, how, steps, worth_after


class InColumns:
    """The same without an object per host: entries here are what the test knows them by."""

    def __init__(self, params: config.Politeness) -> None:
        self.clock = VirtualClock(1e9)
        self.polite = PoliteColumns(self.clock, params, Clocks())
        self.entries: dict[int, HostEntry] = {}

    def _of(self, hosts: Any) -> list[HostEntry]:
        return [self.entries[number] for number in hosts.tolist()]

    def activate(self, entries: list[HostEntry]) -> list[float]:
        if not entries:
            return []
        facts = [(one.clock_host, one.site) for one in entries]
        keys, sites = np.array(facts, np.uint64).T
        distinct, which = np.unique([one.address or "" for one in entries], return_inverse=True)
        numbers, dues = self.polite.come(
            keys,
            sites,
            self._floors(entries),
            distinct.tolist(),
            which,
            np.array([one.worth for one in entries]),
        )
        for entry, number in zip(entries, numbers.tolist(), strict=True):
            entry.number, self.entries[number] = number, entry
        return dues.tolist()

    def _floors(self, entries: list[HostEntry]) -> Any:
        return self.polite.gaps.floor_many([entry.gap_floor for entry in entries])

    def _own_gaps(self, hosts: Any) -> Any:
        entries = self._of(hosts)
        return np.maximum(self._floors(entries), [entry.crawl_delay for entry in entries])

    def pop(self, urls_max: int) -> list[tuple[HostEntry, int]]:
        hosts, urls = self.polite.begin_many(
            urls_max, self._own_gaps,
            lambda hosts: np.array([1 + entry.key % 5 for entry in self._of(hosts)]),
        )  # fmt: skip
        return list(zip(self._of(hosts), urls.tolist(), strict=True))

    def visits_over(self, ended: list[tuple[HostEntry, dict[str, Any]]]) -> list[float]:
        if not ended:
            return []
        for entry, said in ended:
            entry.worth = worth_after(entry)
            entry.crawl_delay = entry.crawl_delay if said["crawl_delay"] is None else said["crawl_delay"]
        entries = [entry for entry, _ in ended]
        hows = {name: [said[name] for _, said in ended] for name in ended[0][1]}
        dues = self.polite.end_many(
            np.array([entry.number for entry in entries]), fetch_s=np.array(hows["fetch_s"]),
            ended=np.array([np.nan if at is None else at for at in hows["ended"]]),
            requests=np.array(hows["requests"]), outcomes=np.array(list(map(OUTCOMES.index, hows["outcome"]))),
            floors=self._floors(entries), crawl_delays=np.array([entry.crawl_delay for entry in entries]),
            again=np.array(hows["again"]), worths=np.array([entry.worth for entry in entries]),
            sites=np.array([entry.site for entry in entries], np.uint64),
        )  # fmt: skip
        return dues.tolist()

    def leave(self, entries: list[HostEntry]) -> None:
        self.polite.leave_many(np.array([entry.number for entry in entries], np.int64))

    def queues(self) -> object:
        """As OneByOne.queues."""
        waiting, now = self.polite.waiting, self.clock.now()
        delays = {name: n for name, n in zip(DELAY_NAMES, waiting.delays(now).tolist(), strict=True) if n}
        return waiting.waiting, delays, waiting.next_due(now), clocks_of(self.polite.clocks, now)


@settings(max_examples=120, deadline=None)
@given(steps, st.sampled_from([0.0, 0.5]), st.integers(0, 3), st.sampled_from([0, 2, 3]))
def test_hosts_without_objects_are_visited_as_those_with(
    steps: Any, gap_address: float, leaving: int, sites_min: int
) -> None:
    params = config.Politeness(gap_address_seconds=gap_address, gap_site_hosts=0, shared_address_sites=sites_min)
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
            released = player.visits_over(rows)
            waiting[side] |= {entry.key: entry for entry, said in rows if said["again"]}
            gone = [waiting[side].pop(key) for key in list(waiting[side])[:leaving]]
            player.leave(gone)
            shown = [(entry.key, urls) for entry, urls in visits]
            seen.append((dues, shown, released, [entry.key for entry in gone], player.queues()))
            player.clock.advance(seconds)
        assert seen[0] == seen[1]


def test_a_host_that_is_not_leased_is_refused_in_columns_too() -> None:
    columns = InColumns(config.Politeness())
    entry = entry_of(0, (1, 1, 0, None))
    columns.activate([entry])
    said = {"ended": 0.0, "fetch_s": 0.0, "requests": 1, "outcome": "ok", "crawl_delay": None, "again": False}
    with pytest.raises(ValueError, match="is not leased"):
        columns.visits_over([(entry, said)])


def test_hosts_without_objects_whose_clock_is_reserved_are_refused() -> None:
    """Clocks are kept for hosts that share two with others (sites with a gap), which only Politeness knows."""
    columns = InColumns(config.Politeness())
    entry = entry_of(0, (1, 1, 0, None))
    columns.activate([entry])
    [(leased, _)] = columns.pop(1)
    columns.polite.waiting._reserved[0] = leased.number
    said = {"ended": 0.0, "fetch_s": 0.0, "requests": 1, "outcome": "ok", "crawl_delay": None, "again": True}
    with pytest.raises(ValueError, match="sites with a gap"):
        columns.visits_over([(leased, said)])
    columns.polite.waiting._reserved.clear()
    columns.visits_over([(leased, said)])
    columns.polite.waiting._reserved[0] = leased.number
    columns.clock.advance(10.0)
    with pytest.raises(ValueError, match="sites with a gap"):
        columns.pop(1)
