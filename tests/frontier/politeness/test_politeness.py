"""What the frontier may ask of Politeness, one rule at a time: gaps, visits, what is shown. (Names and errands are in
files of their own.)"""

from __future__ import annotations

from itertools import pairwise

import pytest

from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.keys import name_key
from irlcrawl.config import keys as config
from irlcrawl.frontier.politeness.clocks import Clocks
from irlcrawl.frontier.politeness.gates import NONE, Kind
from irlcrawl.frontier.politeness.politeness import HostEntry, Outcome, Politeness

FAR = 1e12


def host(name: str, address: str | None = None, scheme: str = "http", until: float = FAR, **more: float) -> HostEntry:
    return HostEntry(
        key=name_key(f"{scheme}://{name}".encode()),
        name=name,
        scheme=scheme,
        port=80,
        site=name_key(".".join(name.split(".")[-2:]).encode()),
        address=address,
        address_until=until,
        **more,  # type: ignore[arg-type]
    )


def bench(**keys: object) -> tuple[VirtualClock, Politeness]:
    clock = VirtualClock()
    return clock, Politeness(clock, config.Politeness(**keys))  # type: ignore[arg-type]


def visit(clock: VirtualClock, polite: Politeness, entry: HostEntry, **how: object) -> float:
    """One visit of no duration; returns how long until the host is due again."""
    popped = polite.pop()
    assert popped is entry
    how = {"ended": clock.now(), "again": True, **how}
    return polite.release(entry, **how) - clock.now()  # type: ignore[arg-type]


# ---- gaps


def leased(clock: VirtualClock, polite: Politeness, name: str = "a.test", address: str = "192.0.2.1") -> HostEntry:
    entry = host(name, address)
    polite.activate(entry)
    assert polite.pop() is entry
    return entry


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
    clock, polite = bench()
    entry = host("a.test", "192.0.2.1", **more)
    polite.activate(entry)
    assert visit(clock, polite, entry, **how) == pytest.approx(wait)


@pytest.mark.parametrize(
    "how", [{"ended": None}, {"requests": 0}, {"ended": None, "outcome": "unreached", "requests": 0}]
)
def test_a_visit_without_a_request_moves_no_clock(how: dict[str, object]) -> None:
    clock, polite = bench()
    entry = host("a.test", "192.0.2.1")
    polite.activate(entry)
    assert visit(clock, polite, entry, **how) <= 0
    assert polite.pop() is entry


def test_the_gap_runs_from_the_end_of_the_exchange_not_from_its_report() -> None:
    clock, polite = bench()
    entry = host("a.test", "192.0.2.1")
    polite.activate(entry)
    polite.pop()
    clock.advance(0.7)
    assert polite.release(entry, ended=clock.now() - 0.5, again=True) == pytest.approx(clock.now() + 0.5)


def test_http_and_https_share_the_clock_of_the_name_but_not_a_crawl_delay_beyond_it() -> None:
    clock, polite = bench()
    plain, secure = host("a.test", "192.0.2.1", crawl_delay=60.0), host("a.test", "192.0.2.1", "https")
    polite.activate(plain)
    polite.activate(secure)
    visit(clock, polite, plain)
    assert polite.pop() is None
    clock.advance(60.0)
    assert polite.pop() is secure
    assert polite.gap_for(secure) == 1.0 and polite.gap_for(plain) == 60.0


def test_back_off_doubles_to_its_bound_and_eases_with_good_visits() -> None:
    clock, polite = bench(gap_address_seconds=0.0, gap_host_max_seconds=60.0)
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


def test_an_address_backs_off_less_than_its_host_and_a_shared_range_not_at_all() -> None:
    clock, polite = bench(shared_addresses=["203.0.113.0/24"], gap_shared_address_seconds=0.25)
    for address, most in (("192.0.2.1", 40.0), ("203.0.113.9", 0.25)):
        entries = [host(f"h{i}.for{address}.test", address) for i in range(20)]
        for entry in entries:
            polite.activate(entry)
        gate = polite.clocks.find(Kind.ADDRESS, name_key(address.encode()))
        waits = []
        for _ in entries:
            clock.set(polite.clocks.next[gate])
            popped = polite.pop()
            assert popped is not None
            polite.release(popped, ended=clock.now(), outcome="failed", again=False)
            waits.append(polite.clocks.next[gate] - clock.now())
        assert max(waits) == pytest.approx(most)
        assert waits[0] == pytest.approx(min(1.0, most))


def test_a_host_that_answers_frees_its_address_from_the_back_off_of_others() -> None:
    clock, polite = bench()
    bad, good = host("bad.test", "192.0.2.1"), host("good.test", "192.0.2.1")
    polite.activate(bad)
    visit(clock, polite, bad, outcome="failed", again=False)
    polite.activate(good)
    clock.advance(1.0)
    visit(clock, polite, good)
    address = polite.clocks.find(Kind.ADDRESS, name_key(b"192.0.2.1"))
    assert polite.clocks.next[address] == pytest.approx(clock.now() + 0.5)


def test_sites_have_a_clock_only_with_a_floor() -> None:
    for floor, free in ((0.0, True), (9.0, False)):
        clock, polite = bench(gap_site_seconds=floor)
        first, second = host("a.site.test", "192.0.2.1"), host("b.site.test", "192.0.2.2")
        polite.activate(first)
        polite.activate(second)
        assert polite.pop() is first
        assert (polite.pop() is second) == free
        polite.release(first, ended=clock.now(), again=False)
        clock.advance(8.9)
        assert free or polite.pop() is None
        clock.advance(0.1)
        assert free or polite.pop() is second


def test_a_clock_never_goes_back() -> None:
    clock, polite = bench()
    entry = host("a.test", "192.0.2.1")
    polite.activate(entry)
    visit(clock, polite, entry, outcome="throttled", retry_after=60.0)
    polite.observe(clock_host=entry.clock_host, address="192.0.2.1", site=entry.site, ended=clock.now() - 5.0)
    assert polite.due(entry) == clock.now() + 60.0
    assert polite.delayed() == {"retry-after": 1}


def test_who_waits_longer_goes_first_also_after_changing_queues() -> None:
    clock, polite = bench()
    holder = host("x.test", "192.0.2.1")
    polite.activate(holder)
    older, younger = host("a.test", "192.0.2.1"), host("b.test", "192.0.2.1")
    polite.observe(clock_host=older.clock_host, address=None, site=older.site, ended=clock.now(), crawl_delay=3.0)
    assert polite.pop() is holder
    polite.activate(older)  # its own clock is not due for three seconds
    polite.activate(younger)
    clock.advance(3.0)
    assert polite.pop() is None
    polite.release(holder, ended=clock.now(), again=False)
    clock.advance(0.5)
    assert polite.pop() is older


# ---- visits


def test_a_visit_holds_as_many_urls_as_fit_in_its_seconds() -> None:
    clock, polite = bench()
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
        _, polite = bench(gap_host_seconds=0.0, gap_address_seconds=gap)
        first, second = host("a.test", "192.0.2.1"), host("b.test", "192.0.2.1")
        polite.activate(first)
        assert not polite.shared(first)
        polite.activate(second)
        assert polite.shared(first) and polite.visit_size(first) == size
        polite.deactivate(second)
        assert not polite.shared(first) and polite.visit_size(first) > 1


def test_a_visit_keeps_no_address_from_others_for_a_gap_of_its_own() -> None:
    """With no address gap a host with a gap of a second held its address for five of them; with one, its first visit
    (robots.txt, a second, a page) held it for that second."""
    for gap in (0.0, 0.5):
        _, polite = bench(gap_address_seconds=gap)
        first, second = host("a.test", "192.0.2.1", gap_floor=1.0), host("b.test", "192.0.2.1")
        polite.activate(first)
        assert polite.patience(first) == 5.0 and polite.visit_size(first) == 6
        polite.activate(second)
        assert polite.patience(first) == gap and polite.visit_size(first) == 1


def test_a_visit_is_one_url_where_others_wait_for_a_site_with_a_floor() -> None:
    _, polite = bench(gap_site_seconds=1.0)
    first, second = host("a.site.test", "192.0.2.1"), host("b.site.test", "192.0.2.2")
    polite.activate(first)
    polite.activate(second)
    assert polite.shared(first) and polite.visit_size(first) == 1


# ---- names


def test_delays_are_counted_by_reason_and_what_is_due_is_ready() -> None:
    clock, polite = bench()
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
    clock, polite = bench(gap_host_seconds=1.0, gap_address_seconds=0.5)
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
        polite.release(entry, ended=clock.now(), again=False)
    assert polite.ready_pairs(0.0) == 1
    assert polite.ready_pairs(0.5) == 1 + 1 + 1


def test_misuse_is_refused() -> None:
    _, polite = bench()
    entry = host("a.test", "192.0.2.1")
    polite.deactivate(entry)
    with pytest.raises(ValueError, match="not leased"):
        polite.release(entry, ended=None, again=False)
    polite.activate(entry)
    with pytest.raises(ValueError, match="active"):
        polite.activate(entry)
    assert polite.pop() is entry
    with pytest.raises(ValueError, match="leased"):
        polite.deactivate(entry)


def test_a_malformed_shared_network_names_its_key() -> None:
    with pytest.raises(config.ConfigError, match=r"politeness\.shared_addresses"):
        bench(shared_addresses=["192.0.2.0/99"])


def test_a_replayed_exchange_moves_the_clocks_as_its_report_would_have() -> None:
    how: dict[str, object] = {"fetch_s": 0.4, "outcome": "throttled", "retry_after": 30.0}
    clock, live = bench(gap_site_seconds=2.0)
    entry = host("a.test", "192.0.2.1", crawl_delay=3.0)
    live.activate(entry)
    visit(clock, live, entry, again=False, **how)
    _, replayed = bench(gap_site_seconds=2.0)
    replayed.observe(
        clock_host=entry.clock_host, address="192.0.2.1", site=entry.site, ended=clock.now(), crawl_delay=3.0, **how
    )  # type: ignore[arg-type]
    for kind, key in ((Kind.HOST, entry.clock_host), (Kind.ADDRESS, name_key(b"192.0.2.1")), (Kind.SITE, entry.site)):
        moved = [
            (clocks.next[gate], clocks.gap[gate], clocks.backoff[gate])
            for clocks in (live.clocks, replayed.clocks)
            if (gate := clocks.find(kind, key)) != NONE
        ]
        assert len(moved) == 2 and moved[0] == moved[1]


def test_a_lease_promises_the_gap_of_each_of_its_clocks() -> None:
    _, polite = bench(gap_site_seconds=2.0)
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


def test_clocks_forgotten_before_they_come_due_leave_the_line() -> None:
    """The line kept the number of each far clock, with its row of columns, until the clock would have come due."""
    clock = VirtualClock()
    polite = Politeness(clock, config.Politeness(), Clocks(idle_max=100))
    for i in range(8000):
        entry = host(f"h{i}.test", f"10.0.{i // 250}.{i % 250}")
        polite.activate(entry)
        visit(clock, polite, entry, crawl_delay=90_000.0)
        polite.deactivate(entry)  # it waited, and its URLs went into the calendar
    assert len(polite.clocks.kind) < 2000
    last = host("last.test", "10.1.0.0")
    polite.activate(last)
    assert polite.pop() is last and polite.pop() is None
