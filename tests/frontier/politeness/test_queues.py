"""Who is next, what waits and for what, and that what left is forgotten."""

from __future__ import annotations

import pytest

from irlcrawl.base.clock import VirtualClock
from irlcrawl.config import keys as config
from irlcrawl.frontier.politeness.clocks import Clocks
from irlcrawl.frontier.politeness.line import CLASSES
from irlcrawl.frontier.politeness.politeness import Politeness
from tests.frontier.politeness.polite_world import host, leased, politeness, visit


def test_who_waits_longer_goes_first_also_after_changing_queues() -> None:
    clock, polite = politeness()
    holder = host("x.test", "192.0.2.1")
    polite.activate(holder)
    older, younger = host("a.test", "192.0.2.1"), host("b.test", "192.0.2.1")
    polite.observe(clock_host=older.clock_host, address=None, site=older.site, ended=clock.now(), crawl_delay=3.0)
    assert polite.pop() is holder
    polite.activate(older)  # its own clock is not due for three seconds
    polite.activate(younger)
    clock.advance(3.0)
    assert polite.pop() is None
    polite.visit_over(holder, ended=clock.now(), again=False)
    clock.advance(0.5)
    assert polite.pop() is older


def test_of_hosts_that_are_due_the_better_goes_first_and_the_worst_is_not_forgotten() -> None:
    """Sixty hosts wait when six come whose home page nobody has seen: they and those that waited longest take turns.
    The worst of all, which came among the first, goes after at most twice the visits that were due before it."""
    _, polite = politeness()
    ordinary = [host(f"o{n}.test", f"192.0.2.{n}") for n in range(60)]
    worst, best = host("worst.test", "198.51.100.1"), [host(f"b{n}.test", f"203.0.113.{n}") for n in range(6)]
    worst.worth = CLASSES - 1
    for entry in best:
        entry.worth = 0
    polite.activate_many([*ordinary[:10], worst, *ordinary[10:]])
    polite.activate_many(best)
    order = [entry for _ in range(67) if (entry := polite.pop()) is not None]
    assert order[0:12:2] == best and order[1:12:2] == ordinary[:6]
    assert order.index(worst) <= 2 * 10 + 1
    assert len(order) == 67


def test_a_host_is_worth_what_it_says_when_it_begins_to_wait() -> None:
    clock, polite = politeness()
    one, other = host("a.test", "192.0.2.1"), host("b.test", "192.0.2.2")
    polite.activate_many([one, other])
    for entry in (polite.pop(), polite.pop()):
        assert entry is not None
        entry.worth = CLASSES - 1 if entry is one else 0
        polite.visit_over(entry, ended=clock.now(), again=True)
    clock.advance(1.0)
    assert [polite.pop(), polite.pop()] == [other, one]


@pytest.mark.parametrize("many", [1, 1 << 30])
def test_a_clock_that_came_due_unnoticed_is_worth_the_same_for_hosts_that_come_one_by_one_or_together(
    many: int,
) -> None:
    """Nobody waits for it when it comes due: it is of the ordinary kind, whatever comes to it in the same moment."""
    clock, polite = politeness()
    polite.many = many
    gone, late = host("a.test", "192.0.2.1"), host("a.test", "192.0.2.4")
    polite.observe(clock_host=gone.clock_host, address=None, site=gone.site, ended=clock.now(), crawl_delay=3.0)
    polite.activate(gone)
    polite.deactivate(gone)
    clock.advance(4.0)
    worst, good = host("w.test", "192.0.2.2"), host("g.test", "192.0.2.3")
    worst.worth, late.worth, good.worth = CLASSES - 1, 0, 1
    polite.activate_many([worst, late, good])
    assert polite.pop() is good


def test_delays_are_counted_by_reason_and_what_is_due_is_ready() -> None:
    clock, polite = politeness()
    plans: list[tuple[str, dict[str, object]]] = [
        ("gap.test", {}),
        ("delay.test", {"crawl_delay": 50.0}),
        ("after.test", {"outcome": "throttled", "retry_after": 60.0}),
        ("backoff.test", {"outcome": "throttled"}),
    ]
    for i, (name, how) in enumerate(plans):
        entry = host(name, f"192.0.2.{i}")
        polite.activate(entry)
        visit(clock, polite, entry, **how)
    leased(clock, polite, "busy.test", "198.51.100.1")
    for i in range(3):
        polite.activate(host(f"shared{i}.test", "198.51.100.1"))
    polite.activate(host("name.test"))
    polite.activate(host("ready.test", "198.51.100.7"))
    expected = {"host gap": 1, "crawl-delay": 1, "retry-after": 1, "backoff": 1, "address": 3, "dns": 1}
    assert polite.delayed() == expected and polite.ready == 1
    assert polite.waiting == sum(expected.values()) + 1 and polite.leased == 1
    clock.advance(1.0)
    assert polite.delayed() == {name: n for name, n in expected.items() if name != "host gap"} and polite.ready == 2


def test_ready_pairs_count_what_could_start() -> None:
    clock, polite = politeness(gap_host_seconds=1.0, gap_address_seconds=0.5, shared_address_sites=0, gap_site_hosts=0)
    for i in range(10):
        polite.activate(host(f"h{i}.one.test", "192.0.2.1"))  # one address, one site
        polite.activate(host(f"h.site{i}.test", "192.0.2.2"))  # one address, ten sites, a start every 0.5 s
        polite.activate(host(f"h{i}.two.test", f"198.51.100.{i}"))  # ten addresses
        polite.activate(host(f"h{i}.none.test"))  # no address, one site
    assert polite.ready_pairs(0.0) == 1 + 1 + 10 + 1
    assert polite.ready_pairs(2.0) == 1 + 5 + 10 + 1
    assert polite.ready_pairs(2.0, limit=4) == 4
    out = [polite.pop() for _ in range(12)]
    assert polite.pop() is None and polite.ready_pairs(2.0) == 1
    for entry in out:
        assert entry is not None
        polite.visit_over(entry, ended=clock.now(), again=False)
    assert polite.ready_pairs(0.0) == 1
    assert polite.ready_pairs(0.5) == 1 + 1 + 1


def test_clocks_forgotten_before_they_come_due_leave_the_line() -> None:
    """The line kept the number of each far clock, with its row of columns, until the clock would have come due."""
    clock = VirtualClock()
    polite = Politeness(clock, config.Politeness(), Clocks(idle_max=100))
    for i in range(2500):
        entry = host(f"h{i}.test", f"10.0.{i // 250}.{i % 250}")
        polite.activate(entry)
        visit(clock, polite, entry, crawl_delay=90_000.0)
        polite.deactivate(entry)  # it waited, and its URLs went into the calendar
    assert len(polite.clocks.table.kind) < 2000
    last = host("last.test", "10.1.0.0")
    polite.activate(last)
    assert polite.pop() is last and polite.pop() is None
