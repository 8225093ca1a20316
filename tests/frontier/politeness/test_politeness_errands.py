"""Errands: a request of a visit that goes to another host (a redirect of robots.txt) keeps that host's clocks, too."""

from __future__ import annotations

import pytest

from irlcrawl.base.keys import name_key
from irlcrawl.frontier.politeness.gates import Kind
from irlcrawl.frontier.politeness.politeness import HostEntry, HostState, Politeness
from tests.frontier.politeness.test_politeness import bench, host, leased


def errand_of(polite: Politeness, parent: HostEntry, target: HostEntry, **how: float) -> float:
    return polite.request_slot(target, parent, "token", **how)


def test_an_errand_elsewhere_waits_for_its_address_and_goes_before_all_others() -> None:
    clock, polite = bench()
    parent = leased(clock, polite)
    other = leased(clock, polite, "o.test", "192.0.2.9")
    for i in range(3):
        polite.activate(host(f"h{i}.test", "192.0.2.9"))
    target = host("b.test")
    errand_of(polite, parent, target)
    assert polite.unresolved() is target
    polite.resolved(target, "192.0.2.9", clock.now() + 60)
    assert polite.pop_errand() is None
    polite.release(other, ended=clock.now(), again=True)
    assert polite.pop_errand() is None and polite.next_due() == clock.now() + 0.5
    clock.advance(0.5)
    popped = polite.pop()
    assert popped is target and target.errand is not None and target.errand.token == "token"
    assert polite.pop() is None  # the address is held
    polite.release(target, ended=clock.now(), again=False)
    clock.advance(0.5)
    assert polite.pop() is not None


def test_an_errand_shares_the_clocks_of_its_visit_and_keeps_their_gap() -> None:
    """http://a.test/robots.txt redirects to https://www.a.test/robots.txt on the same machine."""
    clock, polite = bench()
    parent = leased(clock, polite)
    target = host("www.a.test", "192.0.2.1", "https")
    assert errand_of(polite, parent, target) == clock.now() + 0.5
    assert polite.pop_errand() is None and polite.next_due() == clock.now() + 0.5
    clock.advance(0.5)
    assert polite.pop_errand() is target
    polite.activate(host("c.test", "192.0.2.1"))
    polite.release(target, ended=clock.now(), again=False)
    clock.advance(5.0)
    assert polite.pop() is None  # the visit still has the address
    polite.release(parent, ended=clock.now(), again=False)
    clock.advance(0.5)
    assert polite.pop() is not None


def test_an_errand_to_the_other_scheme_of_the_same_name_keeps_the_hosts_gap() -> None:
    clock, polite = bench()
    parent = leased(clock, polite)
    due = errand_of(polite, parent, host("a.test", "192.0.2.1", "https"), fetch_s=0.4)
    assert due == pytest.approx(clock.now() + 4.0)


def test_an_errand_whose_address_turns_out_to_be_the_visits_own_keeps_its_gap_too() -> None:
    clock, polite = bench()
    parent = leased(clock, polite)
    target = host("b.test")
    errand_of(polite, parent, target)
    polite.unresolved()
    polite.resolved(target, "192.0.2.1", clock.now() + 60)
    assert polite.pop_errand() is None
    clock.advance(0.5)
    assert polite.pop_errand() is target


def test_a_visit_has_one_errand_at_a_time_and_takes_it_along_when_it_ends() -> None:
    clock, polite = bench()
    parent = leased(clock, polite)
    waiting = host("b.test", "192.0.2.1", "https")
    with pytest.raises(ValueError, match="not leased"):
        errand_of(polite, host("x.test"), waiting)
    errand_of(polite, parent, waiting)
    with pytest.raises(ValueError, match="errand already"):
        errand_of(polite, parent, host("c.test", "192.0.2.3"))
    polite.deactivate(waiting)  # refused
    running = host("c.test", "192.0.2.3")
    errand_of(polite, parent, running)
    assert polite.pop_errand() is running
    polite.release(parent, ended=clock.now(), again=False)
    assert running.state == HostState.IDLE and polite.leased == 0
    polite.release(running, ended=clock.now(), again=False)  # its late report changes nothing
    address = polite.clocks.find(Kind.ADDRESS, name_key(b"192.0.2.3"))
    assert polite.clocks.next[address] == clock.now() + 0.5
    clock.advance(1000.0)
    polite.clocks.sweep(clock.now())
    assert len(polite.clocks) == 0


# ---- what is shown, and what is refused
