"""How long the gaps are: why a host waits after a visit, how many URLs a visit has, what a lease promises."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.base.keys import name_key
from irlcrawl.config import keys as config
from irlcrawl.frontier.politeness.clocks import Clocks, Kind
from irlcrawl.frontier.politeness.columns import NONE
from irlcrawl.frontier.politeness.gaps import OUTCOMES, Gaps, Outcome
from irlcrawl.frontier.politeness.politeness import HostEntry, Politeness
from tests.frontier.politeness.polite_world import host, politeness, visit


@pytest.mark.parametrize(
    ("how", "more", "wait"),
    [
        ({}, {}, 1.0),
        ({"fetch_s": 0.3}, {}, 3.0),
        ({"fetch_s": 1e6}, {}, 300.0),
        ({"crawl_delay": 7.0}, {}, 7.0),
        ({"crawl_delay": 90_000.0}, {}, 90_000.0),
        ({}, {"crawl_delay": 20.0}, 20.0),
        ({}, {"gap_floor": 0.0}, 0.5),  # the address still has its own
        ({}, {"gap_floor": 12.0}, 12.0),
        ({"outcome": "throttled"}, {}, 5.0),
        ({"outcome": "failed"}, {}, 5.0),
        ({"outcome": "throttled", "retry_after": 77.0}, {}, 77.0),
        ({"outcome": "throttled", "retry_after": 2.0}, {}, 5.0),
        ({"outcome": "throttled", "retry_after": 1e9}, {}, 86_400.0),
        ({"outcome": "throttled", "retry_after": 77.0, "crawl_delay": 99.0}, {}, 99.0),
        ({"outcome": "failed", "ended": None}, {}, 5.0),
    ],
)
def test_the_longest_reason_to_wait_counts(how: dict[str, object], more: dict[str, float], wait: float) -> None:
    clock, polite = politeness()
    entry = host("a.test", "192.0.2.1", **more)
    polite.activate(entry)
    assert visit(clock, polite, entry, **how) == pytest.approx(wait)


@pytest.mark.parametrize(
    "how", [{"ended": None}, {"requests": 0}, {"ended": None, "outcome": "unreached", "requests": 0}]
)
def test_a_visit_without_a_request_moves_no_clock(how: dict[str, object]) -> None:
    clock, polite = politeness()
    entry = host("a.test", "192.0.2.1")
    polite.activate(entry)
    assert visit(clock, polite, entry, **how) <= 0
    assert polite.pop() is entry


def test_the_gap_runs_from_the_end_of_the_exchange_not_from_its_report() -> None:
    clock, polite = politeness()
    entry = host("a.test", "192.0.2.1")
    polite.activate(entry)
    polite.pop()
    clock.advance(0.7)
    assert polite.visit_over(entry, ended=clock.now() - 0.5, again=True) == pytest.approx(clock.now() + 0.5)


def test_http_and_https_share_the_clock_of_the_name_but_not_a_crawl_delay_beyond_it() -> None:
    clock, polite = politeness()
    plain, secure = host("a.test", "192.0.2.1", crawl_delay=60.0), host("a.test", "192.0.2.1", "https")
    polite.activate(plain)
    polite.activate(secure)
    visit(clock, polite, plain)
    assert polite.pop() is None
    clock.advance(60.0)
    assert polite.pop() is secure
    assert polite.gap_for(secure) == 1.0 and polite.gap_for(plain) == 60.0


def test_back_off_doubles_to_its_bound_and_eases_with_good_visits() -> None:
    clock, polite = politeness(gap_address_seconds=0.0, rest_max_seconds=60.0, cool_down_seconds=0.0)
    entry = host("a.test", "192.0.2.1")
    polite.activate(entry)

    def waits(outcome: Outcome, count: int) -> list[float]:
        found = []
        for _ in range(count):
            found.append(visit(clock, polite, entry, outcome=outcome))
            clock.advance(found[-1])
        return found

    assert waits("throttled", 6) == pytest.approx([5, 10, 20, 40, 60, 60])
    eased = waits("ok", 40)
    assert all(later <= earlier for earlier, later in pairwise(eased))
    assert eased[0] < 60 and eased[1] < 12 and eased[-1] == pytest.approx(1.0)
    assert waits("failed", 1) == pytest.approx([5])


def test_the_third_throttling_in_a_row_without_retry_after_cools_down() -> None:
    clock, polite = politeness(gap_address_seconds=0.0)
    entry, other = host("a.test", "192.0.2.1"), host("b.test", "192.0.2.2")
    for each, retry_after, expected in ((entry, None, [5, 10, 60, 120]), (other, 7.0, [7, 10, 20, 40])):
        polite.activate(each)
        for wait in expected:
            assert visit(clock, polite, each, outcome="throttled", retry_after=retry_after) == pytest.approx(wait)
            clock.advance(wait)
        polite.deactivate(each)


@pytest.mark.parametrize(
    ("unit", "shared"), [("host", []), ("site", ["same site"]), ("address", ["same address", "same site"])]
)
def test_the_unit_says_which_hosts_share_a_gap_with_all_that_lengthens_it(unit: str, shared: list[str]) -> None:
    """By default the others are held for the gap of an address alone, here half a second."""
    for name, second in (
        ("same site", host("b.a.test", "192.0.2.1")), ("same address", host("c.test", "192.0.2.1")),
        ("other", host("d.test", "192.0.2.2")),
    ):  # fmt: skip
        for outcome, fetch_s, wait in (("ok", 0.0, 1.0), ("ok", 0.4, 4.0), ("throttled", 0.0, 5.0)):
            clock, polite = politeness(unit=unit, gap_site_hosts=0)
            first = host("a.a.test", "192.0.2.1")
            polite.activate_many([first, second])
            popped = polite.pop()
            while popped is second:  # either may be first
                polite.visit_over(second, ended=None, again=True)
                popped = polite.pop()
            assert popped is first
            polite.visit_over(first, ended=clock.now(), fetch_s=fetch_s, outcome=outcome, again=True)
            held = polite.due(second) - clock.now()
            assert held == pytest.approx(wait) if name in shared else held <= max(0.5, wait / 4), (unit, name, outcome)
            polite.deactivate(first)
            polite.deactivate(second)


@pytest.mark.parametrize("unit", ["site", "address"])
def test_a_unit_keeps_the_gap_of_its_own_where_that_is_longer_than_a_hosts(unit: str) -> None:
    """After the first request it was replaced by the gap of a host."""
    clock, polite = politeness(unit=unit, gap_host_seconds=0.5, **{f"gap_{unit}_seconds": 2.0})
    entry = host("a.test", "192.0.2.1")
    polite.activate(entry)
    for _ in range(3):
        assert visit(clock, polite, entry) == pytest.approx(2.0)
        clock.advance(2.0)


def test_robots_txt_and_a_page_are_one_visit_however_long_the_back_off() -> None:
    """Of a host that refused all pages robots.txt alone was a good visit: back-off of a day was over with it."""
    clock, polite = politeness(gap_address_seconds=0.5, visit_seconds=15.0, cool_down_seconds=0.0)
    entry = host("a.test", "192.0.2.1")
    polite.activate(entry)
    for backoff in (0.0, 5.0, 10.0, 20.0, 40.0):
        assert polite.gap_for(entry) == max(1.0, backoff)
        assert polite.gap_in_visit(entry) == (max(1.0, backoff) if backoff < 15 else 1.0)
        assert backoff < 15 or polite.visit_size(entry) == 1
        clock.advance(visit(clock, polite, entry, outcome="throttled"))


def test_an_address_backs_off_less_than_its_host() -> None:
    clock, polite = politeness()
    entries = [host(f"h{i}.few.test", "192.0.2.1") for i in range(20)]
    polite.activate_many(entries)
    number = polite.clocks.table.find(Kind.ADDRESS, name_key(b"192.0.2.1"))
    waits = []
    for _ in entries:
        clock.set(max(polite.clocks.table.next[number], clock.now()))
        while (popped := polite.pop()) is None:
            clock.advance(0.1)
        polite.visit_over(popped, ended=clock.now(), outcome="failed", again=False)
        waits.append(polite.clocks.table.next[number] - clock.now())
    assert max(waits) == pytest.approx(40.0) and waits[0] == pytest.approx(1.0)


# ---- addresses that many sites share


def at_one_address(polite: Politeness, sites: int, hosts: int = 1) -> list[HostEntry]:
    entries = [host(f"h{i}.site{site}.test", "192.0.2.1") for site in range(sites) for i in range(hosts)]
    polite.activate_many(entries)
    return entries


def address_gap(polite: Politeness) -> float:
    return polite.clocks.table.gap[polite.clocks.table.find(Kind.ADDRESS, name_key(b"192.0.2.1"))]


def popped(polite: Politeness) -> list[HostEntry]:
    found = []
    while (entry := polite.pop()) is not None:
        found.append(entry)
    return found


def test_an_address_is_shared_from_so_many_sites_on_not_hosts() -> None:
    for sites, hosts, shared in ((2, 40, False), (60, 1, True), (7, 1, False)):
        _, polite = politeness(gap_site_hosts=0)
        entries = at_one_address(polite, sites, hosts)
        assert polite.paces(entries[0]) == ({"address": 0.5} if shared else {})
        assert bool(polite.shared_gaps()) == shared


def test_an_address_is_found_to_be_shared_whichever_way_its_hosts_come() -> None:
    """One by one, and their names resolved later; while a visit holds the address it stays as it was."""
    clock, polite = politeness()
    entries = [host(f"h.site{site}.test") for site in range(60)]
    for entry in entries[:2]:
        polite.activate(entry)
        assert polite.unresolved() is entry
        polite.resolved(entry, "192.0.2.1", 1e12)
    first = polite.pop()
    assert first is entries[0]
    for entry in entries[2:]:
        polite.activate(entry)
        assert polite.unresolved() is entry
        polite.resolved(entry, "192.0.2.1", 1e12)
    assert polite.pop() is None and not polite.shared_gaps()
    polite.visit_over(first, ended=clock.now(), again=True)
    assert polite.shared_gaps() == {"192.0.2.1": 0.5}
    clock.advance(0.5)
    assert len(popped(polite)) == 1
    clock.advance(0.5)
    assert len(popped(polite)) == 1, "while the other is still out"


def test_the_visits_of_a_shared_address_overlap_and_begin_a_gap_apart() -> None:
    clock, polite = politeness()
    at_one_address(polite, 60)
    begun = []
    for _ in range(80):
        begun.append(len(popped(polite)))
        clock.advance(0.1)
    assert begun == [1, 0, 0, 0, 0] * 16
    assert polite.leased == 16 and all(polite.visit_size(entry) == 1 for entry in polite._leased)


def test_a_shared_range_begins_with_the_shortest_gap_and_learns_too() -> None:
    clock, polite = politeness(shared_addresses=["192.0.2.0/24"], gap_shared_address_seconds=0.25)
    entries = at_one_address(polite, 4)
    assert polite.paces(entries[0]) == {"address": 0.25} and address_gap(polite) == 0.25
    for entry in entries[:2]:
        assert polite.pop() is entry
        polite.visit_over(entry, ended=clock.now(), outcome="throttled", again=False)
        clock.advance(0.25)
    assert address_gap(polite) == 0.5


def test_what_is_learnt_is_committed_and_taken_back() -> None:
    clock, polite = politeness()
    entries = at_one_address(polite, 60)
    polite.clocks.table.rates[polite.clocks.table.find(Kind.ADDRESS, name_key(b"192.0.2.1"))].rate = 10.0
    first = polite.pop()
    assert first is not None
    polite.visit_over(first, ended=clock.now(), again=True)
    assert address_gap(polite) == pytest.approx(0.1, rel=0.2)
    kept, gap = polite.clocks.delta(clock.now()), address_gap(polite)
    for entry in entries:
        polite.deactivate(entry)
    assert address_gap(polite) == gap, "nobody uses it, and it is remembered"
    for days, expected in ((0.5, gap), (2.0, 0.5)):
        for keys, paced in (({}, True), ({"shared_address_sites": 0}, False)):
            later, again = politeness(**keys)
            later.advance(days * 86_400)
            again.clocks.load([kept], later.now())
            again.activate(entry := host("other.test", "192.0.2.1"))
            known = days < 1 and paced
            assert again.paces(entry) == ({"address": expected} if known else {})
            assert address_gap(again) == (expected if known else 0.5)


def test_hundreds_of_sites_that_come_at_once_are_no_address_known_from_before_a_restart() -> None:
    """Their bits were all bits there are, as those of an address of which a rate is known: two hundred sites on
    loopback shared two requests a second for minutes, which grew by one in five minutes."""
    clock, polite = politeness()
    at_one_address(polite, 400)
    for _ in range(100):
        for entry in popped(polite):
            polite.visit_over(entry, ended=clock.now(), again=True)
        clock.advance(0.1)
    assert address_gap(polite) < 0.2


def test_an_address_without_a_gap_is_never_shared() -> None:
    _, polite = politeness(gap_address_seconds=0.0)
    assert polite.paces(at_one_address(polite, 60)[0]) == {}


# ---- sites with many hosts


def of_one_site(polite: Politeness, hosts: int, since: int = 0) -> list[HostEntry]:
    entries = [host(f"h{i}.one.test", f"192.0.2.{i}") for i in range(since, since + hosts)]
    polite.activate_many(entries)
    return entries


def test_a_site_has_a_clock_while_it_has_more_hosts_than_its_rate_allows() -> None:
    clock, polite = politeness()
    first = of_one_site(polite, 5)
    assert popped(polite) == first, "five hosts with a second's gap keep its rate by themselves"
    more = of_one_site(polite, 15, since=5)
    assert all(polite.paces(entry) == {"site": 0.2} for entry in more) and not polite.paces(first[0])
    for entry in first:
        polite.visit_over(entry, ended=clock.now(), again=True)
        assert polite.paces(entry) == {"site": 0.2}, "from its next visit on"
    begun = []
    for _ in range(40):
        begun.append(len(popped(polite)))
        clock.advance(0.1)
    assert begun == [1, 0] * 20
    for entry in more:
        polite.visit_over(entry, ended=clock.now(), again=False)
    polite.visit_over(first[0], ended=clock.now(), again=True)
    assert polite.paces(first[0]) == {} and polite.visit_size(first[0]) == 6


def test_the_rate_of_a_site_follows_the_gap_of_its_hosts() -> None:
    for keys, gap_floor, gap in (({}, None, 0.2), ({}, 0.0, None), ({"gap_host_seconds": 0.0}, None, None),
                                 ({"gap_site_hosts": 2}, 10.0, 5.0), ({"gap_site_hosts": 0}, None, None)):  # fmt: skip
        _, polite = politeness(**keys)
        entries = [host(f"h{i}.one.test", f"192.0.2.{i}", gap_floor=gap_floor) for i in range(20)]
        polite.activate_many(entries)
        assert polite.paces(entries[0]) == ({} if gap is None else {"site": gap})


def test_a_host_that_answers_frees_its_address_from_the_back_off_of_others() -> None:
    clock, polite = politeness()
    bad, good = host("bad.test", "192.0.2.1"), host("good.test", "192.0.2.1")
    polite.activate(bad)
    visit(clock, polite, bad, outcome="failed", again=False)
    polite.activate(good)
    clock.advance(1.0)
    visit(clock, polite, good)
    address = polite.clocks.table.find(Kind.ADDRESS, name_key(b"192.0.2.1"))
    assert polite.clocks.table.next[address] == pytest.approx(clock.now() + 0.5)


def test_a_site_with_few_hosts_has_a_clock_only_with_a_floor() -> None:
    for floor, free in ((0.0, True), (9.0, False)):
        clock, polite = politeness(gap_site_seconds=floor)
        first, second = host("a.site.test", "192.0.2.1"), host("b.site.test", "192.0.2.2")
        polite.activate(first)
        polite.activate(second)
        assert polite.pop() is first
        assert (polite.pop() is second) == free
        polite.visit_over(first, ended=clock.now(), again=False)
        clock.advance(8.9)
        assert free or polite.pop() is None
        clock.advance(0.1)
        assert free or polite.pop() is second


def test_a_clock_never_goes_back() -> None:
    clock, polite = politeness()
    entry = host("a.test", "192.0.2.1")
    polite.activate(entry)
    visit(clock, polite, entry, outcome="throttled", retry_after=60.0)
    polite.observe(clock_host=entry.clock_host, address="192.0.2.1", site=entry.site, ended=clock.now() - 5.0)
    assert polite.due(entry) == clock.now() + 60.0
    assert polite.delayed() == {"retry-after": 1}


def test_a_replayed_exchange_moves_the_clocks_as_its_report_would_have() -> None:
    how: dict[str, object] = {"fetch_s": 0.4, "outcome": "throttled", "retry_after": 30.0}
    clock, live = politeness(gap_site_seconds=2.0)
    entry = host("a.test", "192.0.2.1", crawl_delay=3.0)
    live.activate(entry)
    visit(clock, live, entry, again=False, **how)
    _, replayed = politeness(gap_site_seconds=2.0)
    replayed.observe(
        clock_host=entry.clock_host, address="192.0.2.1", site=entry.site, ended=clock.now(), crawl_delay=3.0, **how
    )  # type: ignore[arg-type]
    for kind, key in ((Kind.HOST, entry.clock_host), (Kind.ADDRESS, name_key(b"192.0.2.1")), (Kind.SITE, entry.site)):
        moved = [
            (clocks.table.next[number], clocks.table.gap[number], clocks.table.backoff[number])
            for clocks in (live.clocks, replayed.clocks)
            if (number := clocks.table.find(kind, key)) != NONE
        ]
        assert len(moved) == 2 and moved[0] == moved[1]


# ---- inside a visit


def test_a_visit_holds_as_many_urls_as_fit_in_its_seconds() -> None:
    clock, polite = politeness()
    sizes = []
    for gap_floor in (1.0, 2.0, 0.5, 6.0, 0.01):
        entry = host(f"h{gap_floor}.test", f"192.0.2.{int(gap_floor * 100)}", gap_floor=gap_floor)
        polite.activate(entry)
        sizes.append(polite.visit_size(entry))
    assert sizes == [6, 3, 11, 1, 11]  # the address keeps half a second
    fast = Politeness(clock, config.Politeness(gap_host_seconds=0.0, gap_address_seconds=0.0, visit_urls_max=64))
    entry = host("fast.test", "192.0.2.1")
    fast.activate(entry)
    assert fast.visit_size(entry) == 64 and fast.gap_for(entry) == 0.0


def test_a_visit_is_one_url_where_others_wait_for_the_address() -> None:
    for gap, size in ((0.5, 1), (0.0, 64)):
        _, polite = politeness(gap_host_seconds=0.0, gap_address_seconds=gap)
        first, second = host("a.test", "192.0.2.1"), host("b.test", "192.0.2.1")
        polite.activate(first)
        assert polite.visit_size(first) > 1
        polite.activate(second)
        assert polite.visit_size(first) == size
        polite.deactivate(second)
        assert polite.visit_size(first) > 1


def test_a_visit_keeps_no_address_from_others_for_a_gap_of_its_own() -> None:
    """With no address gap a host with a gap of a second held its address for five of them; with one, its first visit
    (robots.txt, a second, a page) held it for that second."""
    for gap in (0.0, 0.5):
        _, polite = politeness(gap_address_seconds=gap)
        first, second = host("a.test", "192.0.2.1", gap_floor=1.0), host("b.test", "192.0.2.1")
        polite.activate(first)
        assert polite.patience(first) == 5.0 and polite.visit_size(first) == 6
        polite.activate(second)
        assert polite.patience(first) == gap and polite.visit_size(first) == 1


def test_a_visit_is_one_url_where_others_wait_for_a_site_with_a_floor() -> None:
    _, polite = politeness(gap_site_seconds=1.0)
    first, second = host("a.site.test", "192.0.2.1"), host("b.site.test", "192.0.2.2")
    polite.activate(first)
    polite.activate(second)
    assert polite.visit_size(first) == 1


def test_a_lease_promises_the_gap_of_each_of_its_clocks() -> None:
    _, polite = politeness(gap_site_seconds=2.0)
    entry = host("a.test", "192.0.2.1", crawl_delay=30.0)
    polite.activate(entry)
    polite.pop()
    promised = {(kind, key): gap for kind, key, gap in polite.promises(entry)}
    assert promised == {
        (Kind.HOST, entry.clock_host): 30.0,
        (Kind.SITE, entry.site): 2.0,
        (Kind.ADDRESS, name_key(b"192.0.2.1")): 0.5,
    }
    assert sorted(polite.promises_out()) == sorted(polite.promises(entry))


HOSTS = st.lists(
    st.tuples(
        st.integers(0, 9),  # name
        st.integers(0, 4),  # address, 0: not known
        st.integers(0, 3),  # site, 0: none
        st.sampled_from([0.0, 0.0, 3.0, 40.0]),  # own gap
        st.sampled_from(OUTCOMES),
    ),
    min_size=1,
    max_size=20,
)


@given(HOSTS, st.sampled_from([0.0, 0.5]), st.sampled_from([0.0, 0.0, 7.0]))
@settings(max_examples=60, deadline=None)
def test_many_hosts_have_the_gaps_and_visits_that_each_has_by_itself(
    hosts: list[tuple[int, int, int, float, Outcome]], gap_address: float, gap_site: float
) -> None:
    clocks = Clocks()
    params = config.Politeness(
        gap_host_seconds=0.0, gap_address_seconds=gap_address, gap_site_seconds=gap_site,
        shared_addresses=["192.0.2.4/32"], gap_shared_address_seconds=2.0,
    )  # fmt: skip
    gaps, found = Gaps(params, clocks), []
    for name, address, site, own, outcome in hosts:
        used = [clocks.use(Kind.HOST, name, gaps.floor(own)), gaps.use_site(site)]
        used.append(gaps.use_address(f"192.0.2.{address}") if address else NONE)
        gaps.move([clock for clock in used if clock != NONE], 0.0, 0.0, 1000.0, 0.2, outcome, None)
        found.append(used)
    own, table = np.array([host[3] for host in hosts]), np.array(found, np.int64)
    singles = [[clock for clock in used if clock != NONE] for used in found]
    assert gaps.longest_many(own, table).tolist() == list(map(gaps.longest, own.tolist(), singles))
    assert gaps.visit_size_many(own, table).tolist() == list(map(gaps.visit_size, own.tolist(), singles))
    again = gaps.use_site_many(np.array([host[2] for host in hosts], np.uint64))
    assert again.tolist() == [used[1] for used in found]
    addresses = sorted({f"192.0.2.{host[1]}" for host in hosts})
    which = [addresses.index(f"192.0.2.{host[1]}") for host in hosts]
    at = gaps.use_address_many(addresses, np.array(which)).tolist()
    assert all(used[2] in (NONE, clock) for used, clock in zip(found, at, strict=True))


def test_a_malformed_shared_network_names_its_key() -> None:
    with pytest.raises(config.ConfigError, match=r"politeness\.shared_addresses"):
        politeness(shared_addresses=["192.0.2.0/99"])
