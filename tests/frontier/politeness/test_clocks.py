"""Clocks: what is remembered, what is forgotten, and what a restart finds again."""

from __future__ import annotations

import os
import struct
import time

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from drum.codec import KEY_FUNCTION
from drum.errors import UnknownVersion
from drum.files import Files
from drum.ragged import Batch
from irlcrawl.base.clock import SystemClock
from irlcrawl.frontier.politeness.clocks import CLOCK, Clocks, Coarse, fold
from irlcrawl.frontier.politeness.gates import BACKOFF_MEMORY, KIND_NAMES, NONE, Kind, Promise
from irlcrawl.frontier.state import lease_log
from irlcrawl.frontier.state.lease_log import LeaseLog
from irlcrawl.worker.fetch.wire import AnchoredClock, clock_anchor

NOW = 1_000_000_000.0


def remember(clocks: Clocks, kind: int, key: int, due: float, gap: float = 1.0, backoff: float = 0.0) -> None:
    """A clock that was used, moved and is used no more."""
    gate = clocks.gate(kind, key)
    clocks.next[gate], clocks.wait[gate], clocks.gap[gate], clocks.backoff[gate] = due, gap, gap, backoff
    clocks.moved(gate)
    clocks.let_go(gate, NOW)


def due_of(clocks: Clocks, kind: int, key: int) -> float:
    """When a clock is due that is not used now."""
    gate = clocks.gate(kind, key)
    due = clocks.next[gate]
    clocks.let_go(gate, NOW)
    return due


def rows(batch: Batch) -> list[tuple[float, ...]]:
    return list(zip(*(batch[name].tolist() for name in CLOCK), strict=True))


def test_only_future_and_backed_off_clocks_are_kept() -> None:
    clocks = Clocks()
    remember(clocks, Kind.HOST, 1, NOW - 1)
    remember(clocks, Kind.HOST, 2, NOW + 1)
    remember(clocks, Kind.HOST, 3, NOW - 1, backoff=10.0)
    remember(clocks, Kind.HOST, 4, NOW - 10 * BACKOFF_MEMORY - 1, backoff=10.0)
    assert [clocks.find(Kind.HOST, key) != NONE for key in (1, 2, 3, 4)] == [False, True, True, False]
    clocks.sweep(NOW + 2)
    assert clocks.find(Kind.HOST, 2) == NONE and len(clocks) == clocks.idle == 1


def test_kinds_do_not_share_keys() -> None:
    """The name, the address and the site of http://192.0.2.1/ have the same key."""
    clocks = Clocks()
    gates = {clocks.gate(kind, 7) for kind in range(len(KIND_NAMES))}
    assert len(gates) == 3 and [clocks.next[gate] for gate in gates] == [0.0] * 3


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 2**64 - 1), st.floats(-5, 5000)), max_size=300))
@settings(max_examples=30, deadline=None)
def test_memory_is_bounded_and_a_forgotten_clock_is_never_early(moves: list[tuple[int, int, float]]) -> None:
    clocks = Clocks(idle_max=16)
    promised: dict[tuple[int, int], float] = {}
    for kind, key, wait in moves:
        gate = clocks.gate(kind, key)
        clocks.next[gate] = max(clocks.next[gate], NOW + wait)
        promised[kind, key] = clocks.next[gate]
        clocks.let_go(gate, NOW)
        assert clocks.idle <= 16 and len(clocks) <= 16
    for (kind, key), due in promised.items():
        assert due <= NOW or due_of(clocks, kind, key) >= due


USES = st.lists(st.tuples(st.integers(1, 9), st.sampled_from([0.0, 0.5, 7.0])), min_size=1, max_size=12)


@given(st.lists(st.tuples(st.integers(0, 2), USES, st.integers(0, 12)), max_size=6), st.booleans())
@settings(max_examples=60, deadline=None)
def test_clocks_used_together_are_as_if_used_one_by_one(
    steps: list[tuple[int, list[tuple[int, float]], int]], rebooted: bool
) -> None:
    """Some used several times at once, some known, idle, or forgotten but for what Coarse remembers."""
    together, one_by_one = Clocks(), Clocks()
    for clocks in (together, one_by_one):
        clocks.opened = NOW if rebooted else clocks.opened
        clocks._coarse[Kind.ADDRESS] = Coarse()
        clocks._coarse[Kind.ADDRESS].put(5, NOW + 33.0)
    for kind, uses, left in steps:
        keys, lengths = zip(*(use for use in uses), strict=True)
        if kind != Kind.HOST:
            lengths = (lengths[0],) * len(lengths)
        gates = together.use_all(kind, np.array(keys, np.uint64), np.array(lengths)).tolist()
        for key, gate in zip(keys, gates, strict=True):
            assert together.find(kind, key) == gate
        singles = [one_by_one.use(kind, key, gap) for key, gap in zip(keys, lengths, strict=True)]
        for clocks, used in ((together, gates), (one_by_one, singles)):
            for number, gate in enumerate(used[:left]):
                clocks.users[gate] -= 1
                clocks.next[gate] += NOW + number
                clocks.let_go(gate, NOW)
        for known in {(kind, key) for kind, uses, _ in steps for key, _ in uses}:
            found, expected = together.find(*known), one_by_one.find(*known)
            assert (found == NONE) == (expected == NONE)
            if found != NONE:
                for name in ("kind", "key", "next", "gap", "users", "flags"):
                    assert getattr(together, name)[found] == getattr(one_by_one, name)[expected]
        assert together.idle == one_by_one.idle and len(together) == len(one_by_one)


def test_a_delta_holds_what_moved_and_still_promises_something() -> None:
    clocks = Clocks()
    remember(clocks, Kind.HOST, 1, NOW + 5, 1.5)
    remember(clocks, Kind.ADDRESS, 2, NOW - 1, 0.5)
    remember(clocks, Kind.SITE, 3, NOW - 1, 0.5, backoff=7.0)
    assert sorted(rows(clocks.delta(NOW))) == [
        (Kind.HOST, 1, NOW + 5, 1.5, 1.5, 0.0),
        (Kind.SITE, 3, NOW - 1, 0.5, 0.5, 7.0),
    ]
    assert clocks.delta(NOW).rows == 0 and clocks.unsaved(NOW) == []
    remember(clocks, Kind.SITE, 3, NOW - 1, 0.5, backoff=0.0)  # its end must reach the disk too
    assert rows(clocks.delta(NOW)) == [(Kind.SITE, 3, NOW - 1, 0.5, 0.5, 0.0)]
    assert clocks.delta(NOW).schema == CLOCK


def test_what_is_unsaved_names_the_whole_wait_left() -> None:
    clocks = Clocks()
    remember(clocks, Kind.HOST, 1, NOW + 600, 1.5)
    remember(clocks, Kind.ADDRESS, 2, NOW + 0.1, 0.5, backoff=4.0)
    assert clocks.unsaved(NOW) == [Promise(Kind.HOST, 1, 600.0), Promise(Kind.ADDRESS, 2, 4.0)]


@pytest.mark.parametrize("together", [False, True])
def test_clocks_forgotten_before_they_were_saved_are_told_all_the_same(together: bool) -> None:
    clocks = Clocks()
    for key in (1, 2):
        remember(clocks, Kind.SITE, key, NOW - 1, 0.5, backoff=7.0)
    clocks.delta(NOW)
    assert [clocks.news(NOW), len(clocks)] == [[], 2]
    gates = [clocks.gate(Kind.SITE, key) for key in (1, 2)]
    for gate in gates:  # the end of their back-off, which is on the disk
        clocks.backoff[gate] = 0.0
        clocks.moved(gate)
    if together:
        clocks.let_go_all(np.array(gates), NOW)
    else:
        for gate in gates:
            clocks.let_go(gate, NOW)
    assert len(clocks) == 0
    remember(clocks, Kind.HOST, 3, NOW + 9)
    gone = [Promise(Kind.SITE, 1, 0.5), Promise(Kind.SITE, 2, 0.5)]
    assert clocks.unsaved(NOW) == clocks.news(NOW) == [*gone, Promise(Kind.HOST, 3, 9.0)]
    assert clocks.news(NOW) == []
    assert clocks.unsaved(NOW) == [*gone, Promise(Kind.HOST, 3, 9.0)]
    assert sorted(rows(clocks.delta(NOW))) == [
        (Kind.HOST, 3, NOW + 9, 1.0, 1.0, 0.0),
        (Kind.SITE, 1, NOW - 1, 0.5, 0.5, 0.0),
        (Kind.SITE, 2, NOW - 1, 0.5, 0.5, 0.0),
    ]
    assert clocks.unsaved(NOW) == clocks.news(NOW) == []


CLOCK_ROWS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(1, 6),
        st.floats(NOW - 100, NOW + 100),
        st.just(100.0),
        st.floats(0, 10),
        st.sampled_from([0.0, 0.0, 1.0, 5.0]),
    ),
    max_size=30,
)


def batch_of(part: list[tuple[int, int, float, float, float, float]]) -> Batch:
    columns = list(zip(*part, strict=True)) if part else [()] * len(CLOCK)
    return Batch({name: np.array(column, dtype) for (name, dtype), column in zip(CLOCK.items(), columns, strict=True)})


@given(st.lists(CLOCK_ROWS, max_size=4))
@settings(max_examples=60, deadline=None)
def test_folding_keeps_the_newest_row_of_each_clock(
    parts: list[list[tuple[int, int, float, float, float, float]]],
) -> None:
    newest = {(row[0], row[1]): row for part in parts for row in part}
    expected = sorted(
        row for row in newest.values() if row[2] > NOW or (row[5] > 0 and row[2] + BACKOFF_MEMORY * row[5] > NOW)
    )
    folded = fold(map(batch_of, parts), NOW)
    assert rows(folded) == expected
    assert rows(fold([folded], NOW)) == expected

    clocks = Clocks()
    clocks.load(map(batch_of, parts), NOW)
    assert len(clocks) == len(expected)
    for kind, key, due, _, gap, backoff in expected:
        gate = clocks.find(kind, key)
        assert (clocks.next[gate], clocks.gap[gate], clocks.backoff[gate]) == (due, gap, backoff)


def test_a_wall_clock_that_was_set_back_closes_no_host_for_years() -> None:
    clocks = Clocks()
    year = 365 * 86_400.0
    clocks.load([batch_of([(0, 1, NOW + year, 30.0, 1.0, 0.0), (0, 2, NOW + 20.0, 30.0, 1.0, 0.0)])], NOW)
    assert [due_of(clocks, 0, key) - NOW for key in (1, 2)] == [30.0, 20.0]


def test_what_leases_name_is_due_a_gap_after_the_opening() -> None:
    clocks = Clocks()
    clocks.load([batch_of([(0, 1, NOW + 50, 90.0, 1.0, 0.0)])], NOW)
    clocks.open(NOW, [Promise(0, 1, 30.0), Promise(0, 2, 30.0), Promise(1, 2, 0.5)], rebooted=False)
    assert due_of(clocks, 0, 1) == NOW + 50  # the later time wins
    assert due_of(clocks, 0, 2) == NOW + 30
    assert due_of(clocks, 1, 2) == NOW + 0.5
    assert due_of(clocks, 0, 3) == 0.0
    moved = {(row[0], row[1]) for row in rows(clocks.delta(NOW))}
    assert moved == {(0, 1), (0, 2), (1, 2)}  # or a second kill would forget them


def test_the_pause_after_a_reboot_outlives_another_restart() -> None:
    first, second = Clocks(), Clocks()
    first.open(NOW, [], rebooted=True)
    second.open(NOW + 5, first.unsaved(NOW + 1), rebooted=False)
    assert first.opened == second.opened == NOW
    assert Clocks().unsaved(NOW) == []


@pytest.mark.parametrize("step", [3600.0, -3600.0, 0.0])
def test_a_clock_set_between_two_runs_opens_no_host_early_and_keeps_none_longer(step: float) -> None:
    """A host that asked for half an hour of peace: ten minutes later there are twenty left, whatever the clock says."""
    first, second = Clocks(), Clocks()
    remember(first, Kind.HOST, 1, NOW + 1800.0, gap=1800.0)
    now = NOW + 600.0 + step
    second.load([first.delta(NOW)], now, step)
    assert due_of(second, Kind.HOST, 1) - now == 1200.0


def test_the_systems_clock_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SystemClock()
    before = clock.now()
    for step in (3600.0, -3600.0):
        monkeypatch.setattr(time, "time", lambda step=step: NOW + step)
        assert 0 <= clock.now() - before < 60


def test_after_the_machine_slept_times_were_too_early_by_its_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Archives and the log of a crawl on a laptop were dated hours too early after a night with the lid closed: the
    monotonic clock stands still meanwhile."""
    clock = SystemClock()
    anchored = AnchoredClock(*clock_anchor(clock))
    before, booted_s, now = clock.now(), time.clock_gettime(time.CLOCK_BOOTTIME), time.clock_gettime
    night = {time.CLOCK_BOOTTIME: booted_s + 8 * 3600.0}
    monkeypatch.setattr(time, "clock_gettime", lambda which: night[which] if which in night else now(which))
    assert clock.now() - before == pytest.approx(8 * 3600.0, abs=60)
    assert anchored.now() == pytest.approx(clock.now(), abs=60)


# ---- lease_log.log

PROMISES = st.lists(
    st.builds(Promise, st.integers(0, 3), st.integers(0, 2**64 - 1), st.floats(0, 1e6)), min_size=1, max_size=8
)


@given(PROMISES, PROMISES)
@settings(max_examples=20, deadline=None)
def test_every_cut_of_the_log_gives_the_whole_rows_before_it(
    tmp_path_factory: pytest.TempPathFactory, first: list[Promise], second: list[Promise]
) -> None:
    files, path = Files(), os.fspath(tmp_path_factory.mktemp("log") / "leases.log")
    log = LeaseLog(files, path)
    log.roll(first)
    log.append(second)
    log.close()
    data = files.read(path)
    header = len(data) - 24 * (len(first) + len(second))
    for length in range(len(data), -1, -1):
        files.truncate(path, length)
        found = LeaseLog.read(files, path)
        if length < header:
            assert found.rebooted and not found.promises
        else:
            assert not found.rebooted and found.promises == (first + second)[: (length - header) // 24]


def test_a_new_log_replaces_the_old_one_and_goes_on(tmp_path: object) -> None:
    files, path = Files(), f"{tmp_path}/leases.log"
    log = LeaseLog(files, path)
    with pytest.raises(ValueError, match="before roll"):
        log.append([])
    log.roll([])
    log.append([Promise(0, 1, 1.0)])
    log.roll([Promise(0, 2, 2.0)])
    log.append([Promise(1, 3, 0.5)])
    assert LeaseLog.read(files, path).promises == [Promise(0, 2, 2.0), Promise(1, 3, 0.5)]
    assert files.listdir(os.fspath(str(tmp_path))) == ["leases.log"]
    log.close()


def test_a_reboot_a_missing_log_and_damage_inside_are_told(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    files, path = Files(), f"{tmp_path}/leases.log"
    assert LeaseLog.read(files, path).rebooted
    log = LeaseLog(files, path)
    log.roll([Promise(0, 1, 1.0), Promise(0, 2, 2.0)])
    log.close()
    assert not LeaseLog.read(files, path).rebooted

    data = bytearray(files.read(path))
    data[-30] ^= 1  # in the row before the last
    with open(path, "wb") as file:
        file.write(data)
    assert LeaseLog.read(files, path) == lease_log.Found([], rebooted=True)

    log.roll([Promise(0, 1, 1.0)])
    log.close()
    monkeypatch.setattr(lease_log, "boot_id", lambda files: "0" * 36)
    found = LeaseLog.read(files, path)
    assert found.rebooted and found.promises == [Promise(0, 1, 1.0)]
    monkeypatch.setattr(lease_log, "boot_id", lambda files: "")
    assert LeaseLog.read(files, path).rebooted


@pytest.mark.parametrize("sector", [0, 1, 2])
def test_a_sector_that_power_left_empty_is_told_from_a_flipped_byte(tmp_path: object, sector: int) -> None:
    files, path = Files(), f"{tmp_path}/leases.log"
    log = LeaseLog(files, path)
    log.roll([Promise(0, number, 1.0) for number in range(1, 61)])
    log.close()
    data = files.read(path)
    assert len(data) // 512 == 2 and LeaseLog.check(files, path) is None

    def checked(now: bytes) -> tuple[int, bool] | None:
        with open(path, "wb") as file:
            file.write(now)
        return LeaseLog.check(files, path)

    begin, end = sector * 512, min(sector * 512 + 512, len(data))
    first = 0 if not sector else 52 + (begin - 52) // 24 * 24
    assert checked(data[:begin] + bytes(end - begin) + data[end:]) == (first, True)
    assert checked(b"") == (0, True)
    for at in range(begin, end - 24):
        found = checked(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        assert found is not None and found[0] <= at and not found[1]


def test_the_log_names_its_key_function(tmp_path: object) -> None:
    files, path = Files(), f"{tmp_path}/leases.log"
    log = LeaseLog(files, path)
    log.roll([Promise(0, 1, 1.0)])
    log.close()
    data = files.read(path)
    assert data[:8] == b"irlLEAS1" and struct.unpack_from("<I", data, 44) == (KEY_FUNCTION,)
    header = data[:44] + struct.pack("<I", KEY_FUNCTION + 1)
    with open(path, "wb") as file:
        file.write(header + struct.pack("<I", xxhash.xxh32_intdigest(header)) + data[52:])
    with pytest.raises(UnknownVersion, match="keys by"):
        LeaseLog.read(files, path)
