"""Random webs under virtual time, audited from outside: nothing early, nobody starved, nothing idle that may start."""

from __future__ import annotations

import random

from drum.ragged import Batch

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from irlcrawl.config import keys as config
from irlcrawl.frontier.politeness.clocks import Promise
from irlcrawl.frontier.politeness.line import CLASSES, ORDINARY
from irlcrawl.frontier.politeness.politeness import HostEntry, HostState
from tests.frontier.politeness.polite_world import Visit, World, gaps

SECONDS = st.sampled_from([0.0, 0.1, 0.5, 1.0, 3.0])
PARAMS = st.builds(
    config.Politeness,
    gap_host_seconds=SECONDS,
    gap_host_factor=st.sampled_from([0.0, 1.0, 10.0]),
    gap_host_max_seconds=st.sampled_from([2.0, 6.0]),
    gap_address_seconds=SECONDS,
    gap_site_seconds=st.sampled_from([0.0, 0.0, 0.5, 2.0]),
    gap_site_hosts=st.just(0),  # a clock that comes and goes with the number of hosts: test_gaps.py
    backoff_seconds=st.sampled_from([0.0, 1.0, 5.0]),
    cool_down_seconds=st.just(0.0),
    retry_after_max_seconds=st.sampled_from([3.0, 10.0]),
)
HOSTS = st.lists(
    st.tuples(
        st.integers(0, 12),  # name
        st.integers(0, 4),  # address
        st.integers(0, 3),  # site
        st.sampled_from(["http", "https"]),
        st.sampled_from([0.0, 0.0, 0.0, 4.0]),  # Crawl-delay
    ),
    min_size=1,
    max_size=10,
    unique_by=lambda host: (host[0], host[3]),
)
VISITS = st.lists(
    st.builds(
        Visit,
        fetch_s=st.sampled_from([0.1, 0.2, 0.4, 2.0]),
        outcome=st.sampled_from(["ok", "ok", "ok", "throttled", "failed"]),
        retry_after=st.sampled_from([None, None, 7.0, 1e9]),
    ),
    min_size=1,
    max_size=12,
)
AUDIT = settings(max_examples=40, deadline=None, phases=[Phase.explicit, Phase.generate, Phase.shrink])


def world_of(params: config.Politeness, hosts: list[tuple[int, int, int, str, float]], places: int) -> World:
    world = World(params, places)
    addresses: dict[int, int] = {}
    sites: dict[int, int] = {}
    for name, address, site, scheme, delay in hosts:
        address = addresses.setdefault(name, address)  # one name, one address, one site
        site = sites.setdefault(name, site)
        entry = world.host(f"h{name}.test", f"192.0.2.{address}", f"s{site}", scheme, crawl_delay=delay)
        entry.worth = name % CLASSES
    return world


def plan_of(visits: list[Visit], seed: int) -> list[Visit]:
    chosen = random.Random(seed)
    return chosen.choices(visits, k=97)


BETWEEN_TWO_CLOCKS = (
    config.Politeness(
        gap_host_seconds=0.0, gap_host_factor=0.0, gap_host_max_seconds=2.0, gap_address_seconds=3.0,
        gap_site_seconds=2.0, gap_site_hosts=0, backoff_seconds=0.0, cool_down_seconds=0.0, retry_after_max_seconds=3.0,
    ),
    [(0, 0, 1, "http", 0.0), (1, 0, 0, "http", 0.0), (1, 0, 0, "https", 0.0), (2, 1, 0, "http", 0.0)],
    [Visit(0.1)], 1, 0,
)  # fmt: skip
"""Two hosts of one name share their address with one of another site, and their site with one at another address."""


@given(PARAMS, HOSTS, VISITS, st.sampled_from([1, 3, 1000]), st.integers(0, 99))
@example(*BETWEEN_TWO_CLOCKS)
@AUDIT
def test_no_visit_is_early_and_no_host_starves(
    params: config.Politeness,
    hosts: list[tuple[int, int, int, str, float]],
    visits: list[Visit],
    places: int,
    seed: int,
) -> None:
    """I3. Every start is checked by the audit; every host is visited again and again while others want its clocks."""
    world = world_of(params, hosts, places)
    plan = plan_of(visits, seed)
    for entry in world.hosts:
        world.polite.activate(entry)
    for _ in range(4):
        world.run(5.0, lambda entry: plan[len(world.audit.starts) % len(plan)])
        check_counts(world)
    # The longest a clock can be closed by one visit, times all that may go first at its address and then at its site; a
    # start each in that time.
    longest = (2.0 + max(params.gap_host_max_seconds, params.retry_after_max_seconds, 4.0)) * (2 * len(hosts) + 1)
    world.run(longest, lambda entry: Visit(1.0))
    before = len(world.audit.starts)
    world.run(longest, lambda entry: Visit(1.0))
    visited = {id(entry) for _, entry in world.audit.starts[before:]}
    assert visited == {id(entry) for entry in world.hosts}


@given(PARAMS, HOSTS, st.lists(st.integers(0, 30), max_size=8), st.lists(st.sampled_from([0.0, 1.5, 1e12]), min_size=1))
@AUDIT
def test_hosts_that_come_together_are_visited_as_if_they_came_one_by_one(
    params: config.Politeness, hosts: list[tuple[int, int, int, str, float]], asked: list[int], until: list[float]
) -> None:
    """Clocks that are not due, shared ones, and addresses known not long enough among them."""
    told = []
    for together in (False, True):
        world = world_of(params, hosts, places=1000)
        polite = world.polite
        for at, which in enumerate(asked):
            entry = world.hosts[which % len(world.hosts)]
            known = {"clock_host": entry.clock_host, "address": entry.address, "site": entry.site}
            polite.observe(**known, ended=world.clock.now() + 0.137 * at)
        for at, entry in enumerate(world.hosts):
            entry.address_until = min(until[at % len(until)] + world.clock.now(), 1e12)
        dues = polite.activate_many(world.hosts) if together else [polite.activate(entry) for entry in world.hosts]
        visited = []
        for _ in range(40):
            while (entry := polite.pop()) is not None:
                visited.append((world.clock.now(), entry.key))
                polite.visit_over(entry, ended=None, again=False)
            world.clock.advance(0.25)
        told.append((dues, visited, [entry.state for entry in world.hosts], polite.delayed()))
    assert told[0] == told[1]


def check_counts(world: World) -> None:
    waiting = [entry for entry in world.hosts if entry.state == HostState.WAITING]
    polite = world.polite
    assert polite.waiting == len(waiting) and polite.leased == len(world.hosts) - len(waiting)
    assert sum(polite.delayed().values()) + polite.ready == len(waiting)


@given(PARAMS, HOSTS, VISITS, st.integers(0, 99))
@AUDIT
def test_whatever_may_start_does(
    params: config.Politeness, hosts: list[tuple[int, int, int, str, float]], visits: list[Visit], seed: int
) -> None:
    """Workers to spare: after every tick no waiting host is left whose clocks are all due and free."""
    params.backoff_seconds = 0.0  # the audit knows only the least back-off, not its growth
    params.gap_site_seconds = 0.0  # reservations, which keep a clock free on purpose, need hosts that share two
    world = world_of(params, list({host[0]: host for host in hosts}.values()), places=1000)
    plan = plan_of(visits, seed)
    for entry in world.hosts:
        world.polite.activate(entry)

    def nothing_is_left() -> None:
        now = world.clock.now()
        for entry in world.hosts:
            assert entry.state == HostState.LEASED or not world.audit.may_start(entry, now)

    world.run(20.0, lambda entry: plan[len(world.audit.starts) % len(plan)], each=nothing_is_left)


@given(
    PARAMS,
    HOSTS,
    st.lists(
        st.tuples(st.sampled_from(["out", "in", "run", "gone", "answer", "retry"]), st.integers(0, 9)), max_size=60
    ),
    st.integers(0, 99),
)
@AUDIT
def test_hosts_come_and_go_and_lose_their_addresses(
    params: config.Politeness,
    hosts: list[tuple[int, int, int, str, float]],
    steps: list[tuple[str, int]],
    seed: int,
) -> None:
    """Clocks outlive the hosts in memory; a host whose address expired waits for it, then for its clock."""
    world = world_of(params, hosts, places=4)
    chosen = random.Random(seed)
    polite = world.polite
    asked: list[HostEntry] = []
    for what, which in steps:
        entry = world.hosts[which % len(world.hosts)]
        if what == "in" and entry.state == HostState.IDLE:
            polite.activate(entry)
        elif what == "out" and entry.state not in (HostState.IDLE, HostState.LEASED):
            polite.deactivate(entry)
        elif what == "gone":
            entry.address_until = 0.0
        elif what in ("answer", "retry"):
            while (unnamed := polite.unresolved()) is not None:
                asked.append(unnamed)
            if asked and what == "answer":
                answered = asked.pop(0)
                assert answered.address is not None
                polite.resolved(answered, answered.address, world.clock.now() + chosen.choice([0.0, 1.0, 100.0]))
            elif asked:
                polite.postponed(asked.pop(0))
        elif what == "run":
            world.run(
                1.0,
                lambda entry: Visit(chosen.choice([0.1, 0.3, 1.5])),
                again=lambda entry: chosen.random() < 0.8,
            )
        states = [entry.state for entry in world.hosts]
        assert polite.resolving == states.count(HostState.RESOLVING)
        assert polite.waiting == len(states) - states.count(HostState.IDLE) - states.count(HostState.LEASED)
    world.run(5.0, again=lambda entry: False)
    for entry in world.hosts:
        if entry.state != HostState.IDLE:
            polite.deactivate(entry)
    world.clock.advance(10_000.0)
    polite.clocks.sweep(world.clock.now())
    assert len(polite.clocks) == 0, "a clock is left that nobody uses and that promises nothing"
    assert polite.next_due() is None and polite.waiting == 0 and polite.ready_pairs(100.0) == 0


@given(PARAMS, HOSTS, VISITS, st.lists(st.floats(0.0, 4.0), min_size=1, max_size=4), st.booleans(), st.integers(0, 99))
@AUDIT
def test_promises_survive_kills_at_any_moment(
    params: config.Politeness,
    hosts: list[tuple[int, int, int, str, float]],
    visits: list[Visit],
    lives: list[float],
    back_at_once: bool,
    seed: int,
) -> None:
    """I3 across restarts: what a commit and leases.log hold is enough, wherever the process dies.

    A request in flight at the kill counts as ended then: the lock proves that no worker is left.
    """
    world = world_of(params, hosts, places=4)
    plan = plan_of(visits, seed)
    deltas: list[Batch] = []
    log: list[Promise] = []
    for entry in world.hosts:
        world.polite.activate(entry)

    def live(seconds: float) -> None:
        world.run(seconds, leased, each=lambda: log.extend(world.polite.clocks.news(world.clock.now())))

    def leased(entry: HostEntry) -> Visit:
        log.extend(world.polite.promises(entry))
        return plan[len(world.audit.starts) % len(plan)]

    for life, seconds in enumerate(lives):
        live(seconds)
        if life % 2 == 0:  # a commit
            deltas.append(world.polite.clocks.delta(world.clock.now()))
            log[:] = [*world.polite.clocks.unsaved(world.clock.now()), *world.polite.promises_out()]
            live(seconds / 2)
        world.kill()
        world.clock.advance(0.0 if back_at_once else 0.3)
        clocks = world.polite.clocks
        clocks.load(deltas, world.clock.now())
        clocks.open(world.clock.now(), log, rebooted=False)
        for entry in world.hosts:
            world.polite.activate(entry)
    live(10.0)


def test_after_a_reboot_nothing_is_due_before_the_opening_and_its_gap() -> None:
    params = config.Politeness(gap_host_seconds=2.0, gap_address_seconds=0.5)
    world = World(params)
    world.polite.clocks.open(world.clock.now(), [], rebooted=True)
    opened = world.clock.now()
    slow = world.host("slow.test", "192.0.2.1", crawl_delay=30.0)
    fast = world.host("fast.test", "192.0.2.2")
    assert world.polite.activate(slow) == opened + 30.0
    assert world.polite.activate(fast) == opened + 2.0
    assert world.polite.activate(world.host("own.test", "192.0.2.4", gap_floor=0.0)) == opened + 0.5  # its address
    world.run(29.0, again=lambda entry: False)
    late = world.host("late.test", "192.0.2.3")
    world.polite.activate(late)
    world.run(2.0, again=lambda entry: False)
    assert [(at - opened, entry.name) for at, entry in world.audit.starts] == [
        (0.5, "own.test"), (2.0, "fast.test"), (29.0, "late.test"), (30.0, "slow.test"),
    ]  # fmt: skip


# ---- throughput, exactly


def test_fifty_hosts_on_ten_addresses_keep_every_address_busy() -> None:
    """Each address starts a request every gap + fetch time, and its hosts take turns."""
    params = config.Politeness(gap_host_seconds=0.5, gap_address_seconds=0.5, gap_host_factor=10.0)
    world = World(params)
    for i in range(50):
        world.polite.activate(world.host(f"h{i}.test", f"127.0.1.{i % 10}"))
    world.run(120.0, lambda entry: Visit(0.05))
    addresses = world.starts_of(lambda entry: entry.address)
    assert len(addresses) == 10
    for times in addresses.values():
        assert len(times) >= int(120.0 / 0.55)
        assert gaps(times) == pytest.approx([0.55] * (len(times) - 1), abs=1e-5)
    for times in world.starts_of(lambda entry: entry.name).values():
        assert gaps(times) == pytest.approx([5 * 0.55] * (len(times) - 1), abs=1e-5)


def test_a_slow_host_keeps_no_other_host_of_its_address_waiting() -> None:
    """While one host is closed for long, the others have the address."""
    world = World(config.Politeness(gap_host_seconds=1.0, gap_address_seconds=0.5))
    world.polite.activate(world.host("slow.test", "192.0.2.1", crawl_delay=3600.0))
    for i in range(3):
        world.polite.activate(world.host(f"h{i}.test", "192.0.2.1"))
    world.run(60.0, lambda entry: Visit(0.01))
    starts = world.starts_of(lambda entry: entry.name)
    assert len(starts["slow.test"]) == 1
    assert sum(map(len, starts.values())) >= int(60.0 / 0.52)


@pytest.mark.parametrize("worth", [ORDINARY, CLASSES - 1])
def test_old_hosts_are_not_starved_by_a_stream_of_new_ones(worth: int) -> None:
    """One worker, more new hosts than it can visit, which may be worth more: those that were here before still get
    their turn."""
    world = World(config.Politeness(gap_host_seconds=1.0), places=1)
    old = [world.host(f"old{i}.test", f"192.0.2.{i}") for i in range(5)]
    for entry in old:
        entry.worth = worth
        world.polite.activate(entry)
    for i in range(400):
        world.polite.activate(world.host(f"new{i}.test", f"198.51.{i // 250}.{i % 250}"))
        world.run(0.1, lambda entry: Visit(0.1), again=lambda entry: entry in old)
    starts = world.starts_of(lambda entry: entry.name)
    assert min(len(starts[entry.name]) for entry in old) >= 5


def test_nobody_passes_an_older_host_in_the_line_for_a_clock_they_share() -> None:
    """One worker, one address, two sites with a gap: a host whose own clock came due first does not take the site's
    clock from one that has waited for it longer."""
    params = config.Politeness(gap_host_seconds=0.0, gap_host_factor=0.0, gap_address_seconds=0.0, gap_site_seconds=2.0)
    world = World(params, places=1)
    for name, site, delay in [("a", 0, 0.0), ("b", 1, 4.0), ("c", 0, 0.0), ("d", 1, 4.0), ("e", 1, 0.0)]:
        world.polite.activate(world.host(f"{name}.test", "192.0.2.1", f"s{site}", crawl_delay=delay))
    world.run(20.0, lambda entry: Visit(0.1))
    world.run(200.0, lambda entry: Visit(1.0))
    for times in world.starts_of(lambda entry: entry.name).values():
        assert max(gaps(times)) <= 15.0


def test_a_host_that_needs_two_busy_clocks_gets_both_in_the_end() -> None:
    """Its address is wanted by others of other sites, its site by others on other addresses."""
    params = config.Politeness(gap_host_seconds=0.0, gap_host_factor=0.0, gap_address_seconds=0.3, gap_site_seconds=0.7)
    world = World(params)
    for i in range(6):
        world.polite.activate(world.host(f"a{i}.test", "192.0.2.1", f"other{i}"))
        world.polite.activate(world.host(f"b{i}.test", f"198.51.100.{i}", "site"))
    both = world.host("both.test", "192.0.2.1", "site")
    world.polite.activate(both)
    world.run(300.0, lambda entry: Visit(0.11 if entry.address == "192.0.2.1" else 0.23))
    starts = world.starts_of(lambda entry: entry.name)
    assert len(starts["both.test"]) >= 10
    assert max(gaps(starts["both.test"])) < 40.0


def test_a_gap_of_zero_neither_spins_nor_waits() -> None:
    params = config.Politeness(gap_host_seconds=0.0, gap_host_factor=0.0, gap_address_seconds=0.0)
    world = World(params)
    world.polite.activate(world.host("fast.test", "192.0.2.1"))
    world.run(10.0, lambda entry: Visit(0.01))
    assert len(world.audit.starts) >= 999
    assert gaps(at for at, _ in world.audit.starts) == pytest.approx([0.01] * (len(world.audit.starts) - 1), abs=1e-5)
