"""Several crawls on one table: none asks a host or an address before the gap after any of them, whatever happens."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.base.clock import VirtualClock, since_boot
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.keys import name_key
from irlcrawl.config import keys as config
from irlcrawl.frontier.dispatch.machine_clocks import DYING_S, LATE_S, LOOK_S, STUCK_S, MachineClocks
from irlcrawl.frontier.dispatch.machine_file import BYTES, NAME, MachineFile
from irlcrawl.frontier.politeness.clocks import Clocks, Kind, Promise
from irlcrawl.frontier.politeness.machine import Told
from irlcrawl.frontier.politeness.politeness import HostEntry, Outcome, Politeness
from tests.crawl.virtual_crawl import START, Crawl, Web, star
from tests.frontier.politeness.polite_world import host

LONGEST_S = 100.0
BOOT = "b0070000-0000-0000-0000-000000000001"
ULP = 1e-6
"""Of unix seconds as floats, with some to spare."""


class Party:
    """A crawl: hosts, and visits that are out with the time of their end."""

    def __init__(self, directory: Path, clock: VirtualClock, boot: str = BOOT, **keys: Any) -> None:
        self.directory, self.clock, self.boot = directory, clock, boot
        self.params = config.Politeness(**keys)
        self.hosts: list[HostEntry] = []
        self.begin([])

    def begin(self, promises: list[Promise]) -> None:
        clocks = Clocks()
        clocks.open(self.clock.now(), promises, rebooted=False)
        self.machine = MachineClocks(str(self.directory), self.clock, self.boot, LONGEST_S)
        self.polite = Politeness(self.clock, self.params, clocks, self.machine)
        self.out: list[tuple[HostEntry, float]] = []
        names = [(entry.name, entry.address, entry.crawl_delay) for entry in self.hosts]
        self.hosts = []
        for name, address, delay in names:
            self.add(name, address or "", delay)

    def add(self, name: str, address: str = "192.0.2.1", delay: float = 0.0) -> HostEntry:
        entry = host(name, address, crawl_delay=delay)
        self.hosts.append(entry)
        self.polite.activate(entry)
        return entry

    def kill(self) -> None:
        """SIGKILL, and a new start with what leases.log says."""
        promises = self.polite.promises_out() + self.polite.clocks.unsaved(self.clock.now())
        del self.machine, self.polite
        self.begin(promises)

    def lease(self, fetch_s: float = 1.0, most: int = 1000) -> list[str]:
        entries = [entry for entry, _ in self.polite.pop_many(most, lambda some: [1] * len(some))]
        self.out += [(entry, self.clock.now() + fetch_s) for entry in entries]
        return [entry.name for entry in entries]

    def end(self, how: Callable[[], dict[str, Any]] = dict) -> None:
        """The visits that are over by now."""
        now = self.clock.now()
        for entry, until in self.out:
            if until <= now:
                self.polite.visit_over(entry, **({"ended": now, "again": True} | how()))  # type: ignore[arg-type]
        self.out = [(entry, until) for entry, until in self.out if until > now]

    def visit(self, seconds: float = 0.0, **how: Any) -> None:
        """Visits of all that may be visited, of so many seconds."""
        assert self.lease(seconds)
        self.clock.advance(seconds)
        self.end(lambda: how)
        self.tick()

    def tick(self) -> None:
        """What its loop does all the time: what ended is on the table, and who came is seen."""
        self.polite.pop_many(0, lambda some: [])


def meet(*parties: Party) -> None:
    """They know of each other."""
    for _ in range(3):
        for party in parties:
            party.tick()
        parties[0].clock.advance(LOOK_S + ULP)


@pytest.fixture
def clock() -> VirtualClock:
    clock = VirtualClock()
    clock.advance(5000.0)
    return clock


def waits(party: Party) -> float:
    """How long until the crawl's next visit, though it may begin none now; it is asked as its loop would ask it."""
    began = party.clock.now()
    for _ in range(1000):
        if party.lease():
            return party.clock.now() - began
        due = party.polite.next_due()
        assert due is not None
        assert due > party.clock.now(), "next_due would make the loop spin"
        party.clock.set(min(due, party.clock.now() + LOOK_S))
    raise AssertionError("never")


# ---- no request before its time

HOSTS = [("a.test", "192.0.2.1"), ("b.test", "192.0.2.1"), ("c.test", "192.0.2.2"), ("a.test", "192.0.2.2")]
OUTCOMES: list[Outcome] = ["ok", "ok", "ok", "throttled", "failed", "unreached"]
steps = st.lists(
    st.tuples(
        st.integers(0, 2),  # crawl
        st.sampled_from(["lease", "lease", "lease", "lease one", "end", "kill", "cut", "delete"]),
        st.sampled_from([0.0, 0.0, 0.2, 0.6, 1.0, 3.0]),  # seconds before it
        st.sampled_from([0.0, 0.1, 2.0]),  # fetch_s
        st.sampled_from(OUTCOMES),
        st.sampled_from([None, None, 5.0]),  # Retry-After
        st.booleans(),  # the host is told to keep a Crawl-delay
    ),
    max_size=60,
)


class Log:
    """What servers see, by host name and by address: may anybody ask now?"""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.due: dict[str, float] = {}
        self.ended: dict[str, float] = {}
        self.asked: dict[str, int] = {}

    def least(self, party: Party, entry: HostEntry) -> dict[str, float]:
        params = party.params
        host = max(params.gap_host_seconds, entry.crawl_delay)
        return {entry.name: host, entry.address or "": params.gap_address_seconds}

    def starts(self, party: Party, entry: HostEntry) -> None:
        now = self._clock.now() + ULP
        for key, gap in self.least(party, entry).items():
            assert key not in self.asked, f"two requests at once to {key}"
            assert self.due.get(key, 0.0) <= now, f"{key}: {self.due[key] - now} s before its time"
            assert self.ended.get(key, -1e9) + gap <= now, f"{key}: less than {gap} s after another crawl's request"
            self.asked[key] = id(party)

    def ends(self, party: Party, entry: HostEntry, asked: bool, retry_after: float | None) -> None:
        now = self._clock.now()
        for key, gap in self.least(party, entry).items():
            del self.asked[key]
            if asked:
                wait = max(gap, retry_after or 0.0) if key == entry.name else gap
                self.ended[key] = now
                self.due[key] = max(self.due.get(key, 0.0), now + wait)


@settings(max_examples=100, deadline=None)
@given(steps)
def test_no_request_comes_before_the_gap_after_any_crawls_request(steps: Any) -> None:
    clock = VirtualClock()
    clock.advance(5000.0)
    log = Log(clock)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        parties = [
            Party(directory, clock, gap_host_seconds=gap, gap_address_seconds=address, gap_host_factor=0.0)
            for gap, address in ((1.0, 0.5), (2.0, 0.1), (0.5, 1.0))
        ]
        for party in parties:
            for name, address in HOSTS:
                party.add(name, address)
        meet(*parties)
        for which, action, seconds, fetch_s, outcome, retry_after, delays in steps:
            clock.advance(seconds)
            for party in parties:
                finish(party, log, outcome, retry_after, delays)
            party = parties[which]
            match action:
                case "lease" | "lease one":
                    before = len(party.out)
                    party.lease(fetch_s, 1 if action == "lease one" else 1000)
                    for entry, _ in party.out[before:]:
                        log.starts(party, entry)
                case "kill":
                    for entry, _ in party.out:
                        log.ends(party, entry, True, None)
                    party.kill()
                case "cut" | "delete":  # and all see it, before anybody asks again
                    file = directory / NAME
                    if file.exists():
                        os.truncate(file, 5000) if action == "cut" else file.unlink()
                    clock.advance(LOOK_S + ULP)
                    meet(*parties)
                    log.ended.clear()  # only clocks that are not due are told again


def finish(party: Party, log: Log, outcome: Outcome, retry_after: float | None, delays: bool) -> None:
    for entry, until in party.out:
        if until <= log._clock.now():
            if delays and outcome != "unreached":
                entry.crawl_delay = 4.0
            log.ends(party, entry, outcome != "unreached", retry_after)
    nothing = outcome == "unreached"
    now = log._clock.now()
    party.end(lambda: {"outcome": outcome, "retry_after": retry_after, "ended": None if nothing else now})
    party.tick()


# ---- what one crawl sees of another


@pytest.fixture
def pair(tmp_path: Path, clock: VirtualClock) -> Iterator[tuple[Party, Party]]:
    """Two crawls with one host each, of one name and address."""
    first, second = (Party(tmp_path, clock, gap_host_factor=0.0) for _ in range(2))
    first.add("a.test")
    second.add("a.test")
    meet(first, second)
    yield first, second


def test_a_host_is_asked_by_one_crawl_at_a_time(pair: tuple[Party, Party]) -> None:
    first, second = pair
    assert first.lease(3.0) == ["a.test"]
    assert second.lease() == []
    first.clock.advance(3.0)
    first.end()
    first.tick()
    assert waits(second) == pytest.approx(1.0, abs=1e-3)


def test_a_host_that_another_crawl_had_was_said_to_wait_for_its_gap(tmp_path: Path, clock: VirtualClock) -> None:
    """`why --slow` named politeness.gap_host_seconds, while a gap of ten seconds of another crawl was kept."""
    slow, quick = (Party(tmp_path, clock, gap_host_seconds=gap) for gap in (10.0, 2.0))
    slow.add("a.test")
    meet(slow, quick)
    slow.visit()
    quick.add("a.test")
    assert not quick.lease() and quick.polite.delayed() == {"another crawl": 1}
    assert waits(quick) > 8.0
    clock.advance(1.0)
    quick.end()
    assert quick.polite.delayed() == {"host gap": 1}


def test_hosts_at_one_address_share_its_gap_alone(pair: tuple[Party, Party]) -> None:
    first, second = pair
    second.add("b.test")
    first.visit()
    second.clock.advance(0.6)
    assert second.lease() == ["b.test"]


def test_two_crawls_that_want_one_host_take_turns(pair: tuple[Party, Party], clock: VirtualClock) -> None:
    began, visits = clock.now(), dict.fromkeys(pair, 0)
    while clock.now() < began + 200:
        for party in pair:
            party.end()
            visits[party] += len(party.lease(0.3))
        dues = [party.polite.next_due() for party in pair] + [until for party in pair for _, until in party.out]
        clock.set(min([due for due in dues if due is not None and due > clock.now()] + [clock.now() + LOOK_S]))
    few, many = sorted(visits.values())
    assert few >= many - 2
    assert few + many >= 120, "one of them could have had the host 154 times"


def test_a_crawl_that_no_longer_wants_its_turn_costs_the_other_one_a_moment(pair: tuple[Party, Party]) -> None:
    first, second = pair
    first.lease(2.0)
    assert second.lease() == []
    second.polite.deactivate(second.hosts[0])
    first.clock.advance(2.0)
    first.end()
    assert waits(first) == pytest.approx(1.0 + LATE_S, abs=0.01)
    first.clock.advance(2.0)
    first.end()
    assert waits(first) == pytest.approx(1.0, abs=0.01)


def test_what_a_server_asked_of_one_crawl_the_other_one_keeps(pair: tuple[Party, Party]) -> None:
    first, second = pair
    first.visit(retry_after=7200.0, outcome="throttled")
    assert second.lease() == []
    ((entry, due),) = second.polite.put_back()
    assert (entry, due) == (second.hosts[0], pytest.approx(first.clock.now() + 7200.0, abs=1e-3))


def test_a_crawl_keeps_its_own_longer_gap_after_anothers_request(tmp_path: Path, clock: VirtualClock) -> None:
    quick = Party(tmp_path, clock, gap_host_factor=0.0)
    slow = Party(tmp_path, clock, gap_host_factor=0.0, gap_host_seconds=20.0)
    quick.add("a.test")
    slow.add("a.test")
    meet(quick, slow)
    quick.visit()
    assert waits(slow) == pytest.approx(20.0, abs=1e-3)


def test_a_visit_that_asked_nothing_leaves_the_clocks_as_they_were(tmp_path: Path, clock: VirtualClock) -> None:
    """A third crawl with a long gap counts it from the last request."""
    first, idle = (Party(tmp_path, clock, gap_host_factor=0.0) for _ in range(2))
    slow = Party(tmp_path, clock, gap_host_factor=0.0, gap_host_seconds=20.0)
    for party in (first, idle, slow):
        party.add("a.test")
    meet(first, idle, slow)
    first.visit()
    clock.advance(5.0)
    idle.visit(ended=None, requests=0, outcome="unreached")
    assert waits(slow) == pytest.approx(15.0, abs=1e-3)


@pytest.mark.parametrize("met", [True, False])
@pytest.mark.parametrize("gap", [1.0, 3.0])
def test_a_crawl_that_ended_is_respected_as_one_that_runs(
    tmp_path: Path, clock: VirtualClock, met: bool, gap: float
) -> None:
    """By one that ran beside it, and by one that comes when it is gone."""
    first, second = (Party(tmp_path, clock, gap_host_factor=0.0, gap_host_seconds=each) for each in (1.0, gap))
    first.add("a.test")
    second.add("a.test")
    if met:
        meet(first, second)
    assert first.lease(0.0)
    first.end()
    first.polite.close()
    del first
    assert waits(second) == pytest.approx(gap, abs=1e-3)
    clock.advance(100.0)
    second.end()
    assert waits(second) == pytest.approx(gap, abs=1e-3)


def test_a_crawl_delay_learnt_in_a_visit_outlives_a_kill(pair: tuple[Party, Party]) -> None:
    first, second = pair
    first.lease(50.0)
    first.hosts[0].crawl_delay = 30.0
    first.polite.promise(first.hosts[0])
    first.tick()
    assert second.lease() == []
    del first.machine, first.polite
    assert waits(second) == pytest.approx(30.0, abs=2 * LOOK_S)


def test_what_a_killed_crawl_had_out_is_due_a_gap_later(pair: tuple[Party, Party]) -> None:
    first, second = pair
    first.lease(50.0)
    assert second.lease() == []
    del first.machine, first.polite
    assert waits(second) == pytest.approx(1.0, abs=2 * LOOK_S)


def test_a_crawl_that_comes_back_is_not_kept_from_its_own_hosts(pair: tuple[Party, Party]) -> None:
    first, _ = pair
    first.lease(50.0)
    first.kill()
    assert waits(first) == pytest.approx(1.0, abs=1e-3)


def test_a_crawl_that_stands_still_keeps_a_host_no_longer_than_a_visit_can_last(pair: tuple[Party, Party]) -> None:
    first, second = pair
    first.lease(50.0)
    assert waits(second) == pytest.approx(LONGEST_S + 1.0, abs=1.0)
    first.clock.advance(1.0)
    first.end()  # it wakes up
    first.tick()
    assert first.lease() == [], "the other crawl's visit is out"


def test_a_detour_takes_the_clocks_of_its_host(pair: tuple[Party, Party], clock: VirtualClock) -> None:
    first, second = pair
    detour = host("b.test", "192.0.2.2")
    second.add("b.test", "192.0.2.2")
    assert first.lease(10.0)
    first.polite.request_detour(detour, first.hosts[0], "token")
    assert first.polite.pop_detour() is detour
    assert second.lease() == []
    clock.advance(0.5)
    first.polite.visit_over(detour, ended=clock.now(), again=False)
    first.tick()
    clock.advance(1.1)
    assert second.lease(5.0) == ["b.test"]
    first.polite.request_detour(host("b.test", "192.0.2.2"), first.hosts[0], "token")
    assert first.polite.pop_detour() is None


def test_a_detour_to_its_visits_own_address_is_not_in_its_way(pair: tuple[Party, Party], clock: VirtualClock) -> None:
    first, second = pair
    detour = host("b.test", "192.0.2.1")
    second.add("c.test")
    assert first.lease(10.0)
    first.polite.request_detour(detour, first.hosts[0], "token")
    clock.advance(1.0)
    assert first.polite.pop_detour() is detour
    first.polite.visit_over(detour, ended=clock.now(), again=False)
    clock.advance(2.0)
    first.tick()
    assert second.lease() == [], "the address is still its visit's"


def test_clocks_without_a_gap_are_not_shared(tmp_path: Path, clock: VirtualClock) -> None:
    first, second = (
        Party(tmp_path, clock, gap_host_seconds=0.0, gap_host_factor=0.0, gap_address_seconds=0.0) for _ in range(2)
    )
    first.add("a.test")
    second.add("a.test")
    meet(first, second)
    assert first.lease() == second.lease() == ["a.test"]
    assert not any((tmp_path / NAME).read_bytes()[4096:])


def test_a_crawl_alone_is_never_kept_waiting(tmp_path: Path, clock: VirtualClock) -> None:
    """Its visits are those of a crawl that shares nothing."""
    starts = []
    for directory in (tmp_path, tmp_path / "missing"):
        party = Party(directory, VirtualClock(), gap_host_factor=0.0)
        for number in range(40):
            party.add(f"h{number}.test", f"192.0.2.{number % 7}", delay=float(number % 3))
        starts.append([])
        for step in range(400):
            party.clock.advance(0.1)
            party.end(lambda step=step: {"outcome": OUTCOMES[step % 6]})
            starts[-1].append(party.lease(0.05 * (step % 9), 1 + step % 20))
    assert starts[0] == starts[1]


def test_a_host_that_another_crawl_closed_for_hours_rests_in_the_calendar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in memory, where hosts are that can be asked before long (I4)."""
    crawl = Crawl(tmp_path / "job", Web(star("a.test", 3)), ["http://a.test/", "http://b.test/"], monkeypatch)
    resting = []

    async def look(crawl: Crawl) -> None:
        await asyncio.sleep(3600)
        assert crawl.loop is not None
        resting.append((len(crawl.loop.dispatcher.hosts), crawl.loop.state.calendar.rows))
        await asyncio.Event().wait()

    other = MachineClocks(str(tmp_path), crawl.clock, BOOT, LONGEST_S)
    told = Told(Promise(Kind.HOST, name_key(b"a.test"), 7200.0), crawl.clock.now() + 7200.0, held=False)
    assert other.begin(tuple)
    other.close(lambda: [told])
    crawl.machine = MachineClocks(str(tmp_path), crawl.clock, BOOT, LONGEST_S)
    assert crawl.run(look) == ExitCode.DONE
    assert resting == [(0, 1)]
    assert min(at for at, url in crawl.web.log if "a.test" in url) >= START + 7200
    assert {outcome for outcome, _ in crawl.outcomes().values()} == {"fetched"}


# ---- the shared place is not as it should be


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def alone(party: Party, times: int = 5) -> bool:
    """Whether the crawl goes on."""
    for _ in range(times):
        party.clock.advance(1.0)
        party.visit()
    return True


@pytest.mark.parametrize("what", ["missing", "a file", "closed"])
def test_a_directory_that_cannot_be_used_is_told_once(
    tmp_path: Path, clock: VirtualClock, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "d"
    if what == "a file":
        directory.write_text("")
    elif what == "closed":
        directory.mkdir(0o500)
        if os.access(directory, os.W_OK):
            pytest.skip("root may write anywhere")
    party = Party(directory, clock)
    party.add("a.test")
    assert alone(party)
    assert len(complaints(caplog)) == 1
    assert str(directory) in complaints(caplog)[0]
    assert "politeness.machine_clocks" in complaints(caplog)[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file of another user")
def test_a_file_of_another_user_is_not_used(
    tmp_path: Path, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    tmp_path.chmod(0o1777)
    file = tmp_path / f"{NAME}-{os.geteuid()}"
    file.write_bytes(b"theirs")
    os.chown(file, 12345, 12345)
    party = Party(tmp_path, clock)
    party.add("a.test")
    assert alone(party)
    assert len(complaints(caplog)) == 1
    assert file.read_bytes() == b"theirs"


def test_a_link_is_not_followed(tmp_path: Path, clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / NAME).symlink_to(precious)
    party = Party(tmp_path / "shared", clock)
    party.add("a.test")
    assert alone(party)
    assert len(complaints(caplog)) == 1
    assert precious.read_text() == "precious"


def test_where_everybody_may_write_a_user_has_a_file_that_nobody_else_may_read(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    file = MachineFile.open(tmp_path, BOOT)
    assert file is not None
    assert file.path == tmp_path / f"{NAME}-{os.geteuid()}"
    assert file.path.stat().st_mode & 0o777 == 0o600


def test_a_directory_of_a_group_has_a_file_of_the_group(tmp_path: Path) -> None:
    tmp_path.chmod(0o770)
    file = MachineFile.open(tmp_path, BOOT)
    assert file is not None
    assert file.path == tmp_path / NAME
    assert file.path.stat().st_mode & 0o777 == 0o660


@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * BYTES, b"\0" * BYTES, b"irlCLCK1" + b"\0" * (BYTES - 8)])
def test_a_file_that_is_not_as_it_should_be_is_replaced(tmp_path: Path, clock: VirtualClock, content: bytes) -> None:
    (tmp_path / NAME).write_bytes(content)
    first, second = Party(tmp_path, clock), Party(tmp_path, clock)
    first.add("a.test")
    second.add("a.test")
    meet(first, second)
    assert first.lease(3.0)
    assert second.lease() == []


def test_what_is_left_of_another_boot_holds_nobody_back(tmp_path: Path, clock: VirtualClock) -> None:
    """Its times are of another beginning."""
    old = Party(tmp_path, clock, boot="b0070000-0000-0000-0000-000000000000")
    old.add("a.test", delay=500.0)
    old.visit()
    old.polite.close()
    new = Party(tmp_path, clock)
    new.add("a.test")
    assert new.lease()


@pytest.mark.parametrize("harm", ["cut", "delete", "header", "replace"])
def test_crawls_find_each_other_again_after_harm(pair: tuple[Party, Party], harm: str) -> None:
    """When both have looked twice, with all they had out."""
    first, second = pair
    assert first.lease(50.0)
    assert second.lease() == []
    file = first.directory / NAME
    match harm:
        case "cut":
            os.truncate(file, 10_000)
        case "delete":
            file.unlink()
        case "header":
            with file.open("r+b") as handle:
                handle.write(b"damaged")
        case "replace":
            file.unlink()
            file.write_bytes(b"\xff" * BYTES)
    for _ in range(3):
        first.clock.advance(LOOK_S + ULP)
        first.tick()
        second.tick()
    second.clock.advance(5.0)
    assert second.lease() == []


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_what_two_crawls_tell_of_a_host_after_harm_holds_for_all(
    pair: tuple[Party, Party], order: tuple[int, int]
) -> None:
    """The crawl that had told less took the cell for its own, and asked hours before its time."""
    first, second = pair
    first.visit(retry_after=100.0)
    (first.directory / NAME).unlink()
    second.begin([Promise(Kind.HOST, name_key(b"a.test"), 10.0)])
    first.clock.advance(LOOK_S + ULP)
    for at in order:
        pair[at].tick()
    meet(first, second)
    first.clock.advance(20.0)
    assert second.lease() == []
    third = Party(first.directory, first.clock, gap_host_factor=0.0)
    third.add("a.test", "192.0.2.9")
    assert waits(third) > 75.0


@pytest.mark.parametrize("byte", [b"\xff", b"\x7f", b"\x42", b"\0"])
def test_damaged_cells_hold_nobody_back_for_ever(pair: tuple[Party, Party], byte: bytes) -> None:
    first, second = pair
    first.visit()
    with (first.directory / NAME).open("r+b") as handle:
        handle.seek(4096)
        handle.write(byte * (BYTES - 4096))
    assert waits(second) < 40 * 86_400
    assert waits(first) < 40 * 86_400


def test_no_room_is_told_once_and_stops_nobody(
    pair: tuple[Party, Party], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = pair
    first.tick()

    def full(fd: int, data: bytes, at: int) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    assert alone(first)
    assert len(complaints(caplog)) == 1
    monkeypatch.undo()
    first.clock.advance(1.0)
    assert first.lease(10.0)
    assert second.lease() == [], "with room again they share again"


def test_a_crawl_that_was_stopped_at_the_table_stops_no_other(
    pair: tuple[Party, Party], caplog: pytest.LogCaptureFixture
) -> None:
    first, second = pair
    second.tick()
    assert first.machine.begin(tuple)  # and no end
    for _ in range(3):
        assert second.lease() == [], "not yet: a moment later it may be gone"
        second.clock.advance(STUCK_S / 2 - 0.1)
    second.clock.advance(1.0)
    assert alone(second)
    assert len(complaints(caplog)) == 1
    first.machine.end()
    second.clock.advance(1.0)
    second.lease(10.0)
    assert first.lease() == []


# ---- processes

VISIT = """
import sys
from irlcrawl.frontier.politeness.machine import Told
from irlcrawl.base.clock import SystemClock
from irlcrawl.frontier.dispatch.machine_clocks import MachineClocks
from irlcrawl.frontier.politeness.clocks import Promise
machine = MachineClocks(sys.argv[1], SystemClock(), sys.argv[2], 100.0)
out = Told(Promise(0, int(sys.argv[3]), 0.5), 0.0, held=True)
while True:
    machine.begin(lambda: [out])
    machine.end()
    print("seen", flush=True)
    sys.stdin.readline()
"""


def test_a_process_that_was_killed_keeps_its_hosts_for_a_gap(tmp_path: Path) -> None:
    clock = VirtualClock()
    key = name_key(b"a.test")
    command = [sys.executable, "-c", VISIT, str(tmp_path), BOOT, str(key)]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == b"seen\n"
        clock.advance(since_boot())
        machine = MachineClocks(str(tmp_path), clock, BOOT, LONGEST_S)
        for _ in range(1000):  # the other one is to see that somebody came, which it looks for twice a second
            if machine.begin(tuple):
                break
            other.stdin.write(b"\n")
            other.stdin.flush()
            assert other.stdout.readline() == b"seen\n"
            time.sleep(0.01)
        machine.end()

        def due() -> float:
            assert machine.begin(tuple)
            dues = machine.take([Promise(Kind.HOST, key, 0.5)])
            machine.end()
            return max(dues, default=clock.now()) - clock.now()

        assert due() == pytest.approx(0.5, abs=0.01), "to be looked at again then"
        clock.advance(10.0)
        assert due() == pytest.approx(0.5, abs=0.01), "it may be out for another 90 s"
        other.send_signal(signal.SIGKILL)
        other.wait()
        assert due() == pytest.approx(0.5 + DYING_S, abs=0.01)
        clock.advance(0.51 + DYING_S)
        assert due() == 0.0
    finally:
        other.kill()
        other.wait()
        other.stdin.close()  # type: ignore[union-attr]
        other.stdout.close()  # type: ignore[union-attr]
