"""What the dispatcher may ask of Politeness: many hosts at once as one by one, misuse, and what it keeps in memory."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.base.clock import VirtualClock
from irlcrawl.config import keys as config
from irlcrawl.frontier.politeness.clocks import Clocks
from irlcrawl.frontier.politeness.politeness import HostEntry, HostState, Politeness
from tests.frontier.politeness.polite_steps import InBatches, OneByOne, entry_of, how, steps
from tests.frontier.politeness.polite_world import host, politeness, visit


@settings(max_examples=120, deadline=None)
@given(
    steps, st.sampled_from([0.0, 0.5]), st.sampled_from([0.0, 0.0, 0.0, 3.0]), st.sampled_from([0, 2]),
    st.sampled_from([0, 2, 3]),
)  # fmt: skip
def test_visits_in_batches_are_those_that_come_one_by_one(
    steps: Any, gap_address: float, gap_site: float, site_hosts: int, address_sites: int
) -> None:
    params = config.Politeness(
        gap_address_seconds=gap_address, gap_site_seconds=gap_site, gap_site_hosts=site_hosts,
        shared_address_sites=address_sites,
    )  # fmt: skip
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
            released = one.visits_over(rows)
            shown = [(entry.key, urls) for entry, urls in visits]
            states = [(entry.state, entry.crawl_delay) for entry in entries[one]]
            seen.append((dues, names, shown, released, states, one.state()))
            one.clock.advance(seconds)
        assert seen[0] == seen[1]


def test_misuse_is_refused() -> None:
    _, polite = politeness()
    entry = host("a.test", "192.0.2.1")
    polite.deactivate(entry)
    with pytest.raises(ValueError, match="not leased"):
        polite.visit_over(entry, ended=None, again=False)
    polite.activate(entry)
    with pytest.raises(ValueError, match="active"):
        polite.activate(entry)
    assert polite.pop() is entry
    with pytest.raises(ValueError, match="leased"):
        polite.deactivate(entry)


def test_memory_for_hosts_that_left_is_given_back() -> None:
    clock = VirtualClock()
    polite = Politeness(clock, config.Politeness(), Clocks(idle_max=100))
    for i in range(2000):
        entry = host(f"h{i}.test", f"10.0.{i // 250}.{i % 250}")
        polite.activate(entry)
        visit(clock, polite, entry, again=False, crawl_delay=1000.0)
        assert polite.clocks.idle <= 100
    again = host("h0.test", "10.0.0.0", crawl_delay=1000.0)
    assert polite.activate(again) >= clock.now() + 999.0  # forgotten, but not early
