"""Hosts that wait for their address, and detours: requests of a visit that go to another host."""

from __future__ import annotations

import pytest

from irlcrawl.base.keys import name_key
from irlcrawl.frontier.politeness.clocks import Kind
from irlcrawl.frontier.politeness.politeness import HostEntry, HostState, Politeness
from tests.frontier.politeness.polite_world import host, leased, politeness, visit

# ---- hosts without an address


def test_a_host_without_an_address_asks_for_it_and_is_never_leased_before() -> None:
    clock, polite = politeness()
    entry = host("a.test")
    polite.activate(entry)
    assert polite.pop() is None and polite.next_due() is None and polite.waiting == 1
    assert polite.delayed() == {"dns": 1} and polite.ready_pairs() == 1
    assert polite.unresolved() is entry and polite.unresolved() is None and polite.resolving == 1
    polite.resolved(entry, "192.0.2.1", clock.now() + 60)
    assert polite.resolving == 0 and polite.pop() is entry
    assert (entry.address, entry.address_until) == ("192.0.2.1", clock.now() + 60)


def test_a_name_is_asked_for_only_when_its_host_is_due() -> None:
    clock, polite = politeness()
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
    clock, polite = politeness()
    entry = host("a.test", "192.0.2.1", until=1_000_000_100.0)
    polite.activate(entry)
    visit(clock, polite, entry)
    clock.advance(1.0)
    assert polite.pop() is entry


def test_an_answer_for_a_host_that_left_changes_nothing() -> None:
    clock, polite = politeness()
    entry = host("a.test")
    polite.activate(entry)
    polite.unresolved()
    polite.deactivate(entry)
    polite.resolved(entry, "192.0.2.1", clock.now() + 60)
    polite.postponed(entry)
    assert entry.state == HostState.IDLE and polite.waiting == polite.resolving == 0 and len(polite.clocks) == 0


def test_a_resolved_host_waits_for_its_address_like_all_others() -> None:
    clock, polite = politeness()
    first, second = host("a.test", "192.0.2.1"), host("b.test")
    polite.activate(first)
    visit(clock, polite, first, again=False)
    polite.activate(second)
    polite.unresolved()
    polite.resolved(second, "192.0.2.1", clock.now() + 60)
    assert polite.pop() is None and polite.next_due() == clock.now() + 0.5
    assert polite.delayed() == {"address": 1}


# ---- detours: a redirect of robots.txt to another host keeps the clocks of that host, too


def detour_of(polite: Politeness, parent: HostEntry, target: HostEntry, **how: float) -> float:
    return polite.request_detour(target, parent, "token", **how)


def test_a_detour_elsewhere_waits_for_its_address_and_goes_before_all_others() -> None:
    clock, polite = politeness()
    parent = leased(clock, polite)
    other = leased(clock, polite, "o.test", "192.0.2.9")
    for i in range(3):
        polite.activate(host(f"h{i}.test", "192.0.2.9"))
    target = host("b.test")
    detour_of(polite, parent, target)
    assert polite.unresolved() is target
    polite.resolved(target, "192.0.2.9", clock.now() + 60)
    assert polite.pop_detour() is None
    polite.visit_over(other, ended=clock.now(), again=True)
    assert polite.pop_detour() is None and polite.next_due() == clock.now() + 0.5
    clock.advance(0.5)
    popped = polite.pop()
    assert popped is target and target.detour is not None and target.detour.token == "token"
    assert polite.pop() is None  # the address is held
    polite.visit_over(target, ended=clock.now(), again=False)
    clock.advance(0.5)
    assert polite.pop() is not None


def test_a_detour_that_is_due_since_the_last_look_is_no_visit() -> None:
    """It came due, or another crawl let go of the clocks, between pop_detour() and pop_many(): a visit of no URLs."""
    clock, polite = politeness()
    parent, target = leased(clock, polite), host("b.test", "192.0.2.2")
    detour_of(polite, parent, target)
    waiting = host("h.test", "192.0.2.3")
    polite.activate(waiting)
    assert polite.pop_many(10, lambda hosts: [1] * len(hosts)) == [(waiting, 1)]
    assert polite.pop_detour() is target


def test_the_name_of_a_detour_is_asked_for_before_those_of_hosts() -> None:
    clock, polite = politeness()
    parent = leased(clock, polite)
    waiting, target = host("h.test"), host("b.test")
    polite.activate(waiting)
    detour_of(polite, parent, target)
    assert [polite.unresolved(), polite.unresolved()] == [target, waiting]


def test_a_detour_shares_the_clocks_of_its_visit_and_keeps_their_gap() -> None:
    """http://a.test/robots.txt redirects to https://www.a.test/robots.txt on the same machine."""
    clock, polite = politeness()
    parent = leased(clock, polite)
    target = host("www.a.test", "192.0.2.1", "https")
    assert detour_of(polite, parent, target) == clock.now() + 0.5
    assert polite.pop_detour() is None and polite.next_due() == clock.now() + 0.5
    clock.advance(0.5)
    assert polite.pop_detour() is target
    polite.activate(host("c.test", "192.0.2.1"))
    polite.visit_over(target, ended=clock.now(), again=False)
    clock.advance(5.0)
    assert polite.pop() is None  # the visit still has the address
    polite.visit_over(parent, ended=clock.now(), again=False)
    clock.advance(0.5)
    assert polite.pop() is not None


def test_a_detour_to_the_other_scheme_of_the_same_name_keeps_the_hosts_gap() -> None:
    clock, polite = politeness()
    parent = leased(clock, polite)
    due = detour_of(polite, parent, host("a.test", "192.0.2.1", "https"), fetch_s=0.4)
    assert due == pytest.approx(clock.now() + 4.0)


def test_a_detour_whose_address_turns_out_to_be_the_visits_own_keeps_its_gap_too() -> None:
    clock, polite = politeness()
    parent = leased(clock, polite)
    target = host("b.test")
    detour_of(polite, parent, target)
    polite.unresolved()
    polite.resolved(target, "192.0.2.1", clock.now() + 60)
    assert polite.pop_detour() is None
    clock.advance(0.5)
    assert polite.pop_detour() is target


def test_a_visit_has_one_detour_at_a_time_and_takes_it_along_when_it_ends() -> None:
    clock, polite = politeness()
    parent = leased(clock, polite)
    waiting = host("b.test", "192.0.2.1", "https")
    with pytest.raises(ValueError, match="not leased"):
        detour_of(polite, host("x.test"), waiting)
    detour_of(polite, parent, waiting)
    with pytest.raises(ValueError, match="detour already"):
        detour_of(polite, parent, host("c.test", "192.0.2.3"))
    polite.deactivate(waiting)  # refused
    running = host("c.test", "192.0.2.3")
    detour_of(polite, parent, running)
    assert polite.pop_detour() is running
    polite.visit_over(parent, ended=clock.now(), again=False)
    assert running.state == HostState.IDLE and polite.leased == 0
    polite.visit_over(running, ended=clock.now(), again=False)  # its late report changes nothing
    address = polite.clocks.table.find(Kind.ADDRESS, name_key(b"192.0.2.3"))
    assert polite.clocks.table.next[address] == clock.now() + 0.5
    clock.advance(1000.0)
    polite.clocks.sweep(clock.now())
    assert len(polite.clocks) == 0
