"""When Politeness wants to know an address, and what becomes of a host whose name has none."""

from __future__ import annotations

import pytest

from irlcrawl.frontier.politeness.politeness import HostState
from tests.frontier.politeness.test_politeness import bench, host, visit


def test_a_host_without_an_address_asks_for_it_and_is_never_leased_before() -> None:
    clock, polite = bench()
    entry = host("a.test")
    polite.activate(entry)
    assert polite.pop() is None and polite.next_due() is None and polite.waiting == 1
    assert polite.delayed() == {"dns": 1} and polite.ready_pairs() == 1
    assert polite.unresolved() is entry and polite.unresolved() is None and polite.resolving == 1
    polite.resolved(entry, "192.0.2.1", clock.now() + 60)
    assert polite.resolving == 0 and polite.pop() is entry
    assert (entry.address, entry.address_until) == ("192.0.2.1", clock.now() + 60)


def test_a_name_is_asked_for_only_when_its_host_is_due() -> None:
    clock, polite = bench()
    entry = host("a.test")
    polite.activate(entry)
    polite.unresolved()
    polite.resolved(entry, "192.0.2.1", clock.now() + 1.0)
    visit(clock, polite, entry, crawl_delay=30.0)
    clock.advance(29.9)
    assert polite.pop() is None and polite.unresolved() is None  # expired long ago, but not needed yet
    clock.advance(0.1)
    assert polite.pop() is None and polite.unresolved() is entry
    polite.resolved(entry, "192.0.2.2", clock.now())  # no time to live: good for one visit all the same
    assert polite.pop() is entry and entry.address == "192.0.2.2"


def test_an_address_that_is_still_good_is_not_asked_for_again() -> None:
    clock, polite = bench()
    entry = host("a.test", "192.0.2.1", until=1_000_000_100.0)
    polite.activate(entry)
    visit(clock, polite, entry)
    clock.advance(1.0)
    assert polite.pop() is entry


def test_a_name_that_does_not_resolve_backs_off_its_host() -> None:
    clock, polite = bench()
    entry = host("a.test")
    polite.activate(entry)
    waits = []
    for _ in range(3):
        assert polite.unresolved() is entry
        waits.append(polite.unresolvable(entry) - clock.now())
        assert polite.delayed() == {"dns": 1} and polite.unresolved() is None
        clock.advance(waits[-1])
        assert polite.pop() is None
    assert waits == pytest.approx([5, 10, 20])


def test_an_answer_for_a_host_that_left_changes_nothing() -> None:
    clock, polite = bench()
    entry = host("a.test")
    polite.activate(entry)
    polite.unresolved()
    polite.deactivate(entry)
    polite.resolved(entry, "192.0.2.1", clock.now() + 60)
    polite.unresolvable(entry)
    assert entry.state == HostState.IDLE and polite.waiting == polite.resolving == 0 and len(polite.clocks) == 0


def test_a_resolved_host_waits_for_its_address_like_all_others() -> None:
    clock, polite = bench()
    first, second = host("a.test", "192.0.2.1"), host("b.test")
    polite.activate(first)
    visit(clock, polite, first, again=False)
    polite.activate(second)
    polite.unresolved()
    polite.resolved(second, "192.0.2.1", clock.now() + 60)
    assert polite.pop() is None and polite.next_due() == clock.now() + 0.5
    assert polite.delayed() == {"address": 1}


# ---- errands: a robots.txt that redirects to another authority
