"""Clocks: what is remembered, what is forgotten, and what a restart finds again."""

from __future__ import annotations

from drum.ragged import Batch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.frontier.politeness.clocks import (
    BACKOFF_MEMORY,
    CLOCK,
    KIND_NAMES,
    RATE_MEMORY_S,
    SHARED,
    Clocks,
    Coarse,
    Kind,
    Promise,
    fold,
)
from irlcrawl.frontier.politeness.columns import NONE

NOW = 1_000_000_000.0


def remember(clocks: Clocks, kind: int, key: int, due: float, gap: float = 1.0, backoff: float = 0.0) -> None:
    """A clock that was used, moved and is used no more."""
    clock = clocks.find_or_make(kind, key)
    table = clocks.table
    table.next[clock], table.wait[clock], table.gap[clock], table.backoff[clock] = due, gap, gap, backoff
    clocks.moved([clock])
    clocks.let_go([clock], NOW)


def due_of(clocks: Clocks, kind: int, key: int) -> float:
    """When a clock is due that is not used now."""
    clock = clocks.find_or_make(kind, key)
    due = clocks.table.next[clock]
    clocks.let_go([clock], NOW)
    return due


def rows(batch: Batch) -> list[tuple[float, ...]]:
    return list(zip(*(batch[name].tolist() for name in CLOCK), strict=True))


def test_only_future_and_backed_off_clocks_are_kept() -> None:
    clocks = Clocks()
    remember(clocks, Kind.HOST, 1, NOW - 1)
    remember(clocks, Kind.HOST, 2, NOW + 1)
    remember(clocks, Kind.HOST, 3, NOW - 1, backoff=10.0)
    remember(clocks, Kind.HOST, 4, NOW - 10 * BACKOFF_MEMORY - 1, backoff=10.0)
    assert [clocks.table.find(Kind.HOST, key) != NONE for key in (1, 2, 3, 4)] == [False, True, True, False]
    clocks.sweep(NOW + 2)
    assert clocks.table.find(Kind.HOST, 2) == NONE and len(clocks) == clocks.idle == 1


def test_kinds_do_not_share_keys() -> None:
    """The name, the address and the site of http://192.0.2.1/ have the same key."""
    clocks = Clocks()
    used = {clocks.find_or_make(kind, 7) for kind in range(len(KIND_NAMES))}
    assert len(used) == 3 and [clocks.table.next[clock] for clock in used] == [0.0] * 3


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 2**64 - 1), st.floats(-5, 5000)), max_size=300))
@settings(max_examples=30, deadline=None)
def test_memory_is_bounded_and_a_forgotten_clock_is_never_early(moves: list[tuple[int, int, float]]) -> None:
    clocks = Clocks(idle_max=16)
    promised: dict[tuple[int, int], float] = {}
    for kind, key, wait in moves:
        clock = clocks.find_or_make(kind, key)
        clocks.table.next[clock] = max(clocks.table.next[clock], NOW + wait)
        promised[kind, key] = clocks.table.next[clock]
        clocks.let_go([clock], NOW)
        assert clocks.idle <= 16 and len(clocks) <= 16
    for (kind, key), due in promised.items():
        assert due <= NOW or due_of(clocks, kind, key) >= due


def test_a_clock_that_was_remembered_coarsely_keeps_its_promise_across_a_start() -> None:
    """It had no wait, and a start lets no clock wait longer than that: a kill after so many hosts broke promises."""
    clocks, keys = Clocks(idle_max=4), range(1, 40)
    for _ in range(2):  # the second time most are made of what is remembered
        clocks.open(NOW, [Promise(Kind.HOST, key, 5.0) for key in keys], rebooted=False)
    many = clocks.use_many(Kind.HOST, np.array(keys, np.uint64), np.zeros(len(keys))).tolist()
    clocks.moved(many)
    again = Clocks()
    again.load([clocks.delta(NOW)], NOW)
    assert all(due_of(again, Kind.HOST, key) >= NOW + 5.0 for key in keys)


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
        many = together.use_many(kind, np.array(keys, np.uint64), np.array(lengths)).tolist()
        for key, clock in zip(keys, many, strict=True):
            assert together.table.find(kind, key) == clock
        singles = [one_by_one.use(kind, key, gap) for key, gap in zip(keys, lengths, strict=True)]
        for clocks, used in ((together, many), (one_by_one, singles)):
            for number, clock in enumerate(used[:left]):
                clocks.table.users[clock] -= 1
                clocks.table.next[clock] += NOW + number
                clocks.let_go([clock], NOW)
        for known in {(kind, key) for kind, uses, _ in steps for key, _ in uses}:
            found, expected = together.table.find(*known), one_by_one.table.find(*known)
            assert (found == NONE) == (expected == NONE)
            if found != NONE:
                for name in ("kind", "key", "next", "gap", "users", "flags"):
                    assert getattr(together.table, name)[found] == getattr(one_by_one.table, name)[expected]
        assert together.idle == one_by_one.idle and len(together) == len(one_by_one)


def test_a_delta_holds_what_moved_and_still_promises_something() -> None:
    clocks = Clocks()
    remember(clocks, Kind.HOST, 1, NOW + 5, 1.5)
    remember(clocks, Kind.ADDRESS, 2, NOW - 1, 0.5)
    remember(clocks, Kind.SITE, 3, NOW - 1, 0.5, backoff=7.0)
    assert sorted(rows(clocks.delta(NOW))) == [
        (Kind.HOST, 1, NOW + 5, 1.5, 1.5, 0.0, 0, 0.0),
        (Kind.SITE, 3, NOW - 1, 0.5, 0.5, 7.0, 0, 0.0),
    ]
    assert clocks.delta(NOW).rows == 0 and clocks.unsaved(NOW) == []
    remember(clocks, Kind.SITE, 3, NOW - 1, 0.5, backoff=0.0)  # its end must reach the disk too
    assert rows(clocks.delta(NOW)) == [(Kind.SITE, 3, NOW - 1, 0.5, 0.5, 0.0, 0, 0.0)]
    assert clocks.delta(NOW).schema == CLOCK


def test_what_is_unsaved_names_the_whole_wait_left() -> None:
    clocks = Clocks()
    remember(clocks, Kind.HOST, 1, NOW + 600, 1.5)
    remember(clocks, Kind.ADDRESS, 2, NOW + 0.1, 0.5, backoff=4.0)
    assert clocks.unsaved(NOW) == [Promise(Kind.HOST, 1, 600.0), Promise(Kind.ADDRESS, 2, 4.0)]


@pytest.mark.parametrize("swept", [False, True])
def test_clocks_forgotten_before_they_were_saved_are_told_all_the_same(swept: bool) -> None:
    clocks = Clocks()
    for key in (1, 2):
        remember(clocks, Kind.SITE, key, NOW - 1, 0.5, backoff=7.0)
    clocks.delta(NOW)
    assert [clocks.news(NOW), len(clocks)] == [[], 2]
    used = [clocks.find_or_make(Kind.SITE, key) for key in (1, 2)]
    for clock in used:  # the end of their back-off, which is on the disk
        clocks.table.backoff[clock] = 0.0
        clocks.moved([clock])
    if swept:
        clocks.let_go(used, NOW - 2)  # when they were not due yet
        assert clocks.idle == 2
        clocks.sweep(NOW)
    else:
        clocks.let_go(used, NOW)
    assert len(clocks) == 0
    remember(clocks, Kind.HOST, 3, NOW + 9)
    gone = [Promise(Kind.SITE, 1, 0.5), Promise(Kind.SITE, 2, 0.5)]
    assert clocks.unsaved(NOW) == clocks.news(NOW) == [*gone, Promise(Kind.HOST, 3, 9.0)]
    assert clocks.news(NOW) == []
    assert clocks.unsaved(NOW) == [*gone, Promise(Kind.HOST, 3, 9.0)]
    assert sorted(rows(clocks.delta(NOW))) == [
        (Kind.HOST, 3, NOW + 9, 1.0, 1.0, 0.0, 0, 0.0),
        (Kind.SITE, 1, NOW - 1, 0.5, 0.5, 0.0, 0, 0.0),
        (Kind.SITE, 2, NOW - 1, 0.5, 0.5, 0.0, 0, 0.0),
    ]
    assert clocks.unsaved(NOW) == clocks.news(NOW) == []


CLOCK_ROWS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(1, 6),
        st.one_of(st.floats(NOW - 100, NOW + 100), st.floats(NOW - 2 * RATE_MEMORY_S, NOW)),
        st.just(100.0),
        st.floats(0, 10),
        st.sampled_from([0.0, 0.0, 1.0, 5.0]),
        st.sampled_from([0, 0, 7, SHARED]),
        st.sampled_from([0.0, 2.5]),
    ),
    max_size=30,
)


Row = tuple[int, int, float, float, float, float, int, float]


def batch_of(part: list[Row]) -> Batch:
    columns = list(zip(*part, strict=True)) if part else [()] * len(CLOCK)
    return Batch({name: np.array(column, dtype) for (name, dtype), column in zip(CLOCK.items(), columns, strict=True)})


@given(st.lists(CLOCK_ROWS, max_size=4))
@settings(max_examples=60, deadline=None)
def test_folding_keeps_the_newest_row_of_each_clock(parts: list[list[Row]]) -> None:
    newest = {(row[0], row[1]): row for part in parts for row in part}

    def promises(due: float, backoff: float, sites: int) -> bool:
        learnt = sites == SHARED and due + RATE_MEMORY_S > NOW
        return due > NOW or (backoff > 0 and due + BACKOFF_MEMORY * backoff > NOW) or learnt

    expected = sorted(row for row in newest.values() if promises(row[2], row[5], row[6]))
    folded = fold(map(batch_of, parts), NOW)
    assert rows(folded) == expected
    assert rows(fold([folded], NOW)) == expected

    clocks = Clocks()
    clocks.load(map(batch_of, parts), NOW)
    assert len(clocks) == len(expected)
    for kind, key, due, _, gap, backoff, sites, limit in expected:
        table = clocks.table
        clock = table.find(kind, key)
        assert (table.next[clock], table.gap[clock], table.backoff[clock]) == (due, gap, backoff)
        assert table.limit[clock] == limit
        assert table.sites[clock] == sites


def test_a_wall_clock_that_was_set_back_closes_no_host_for_years() -> None:
    clocks = Clocks()
    year = 365 * 86_400.0
    clocks.load(
        [batch_of([(0, 1, NOW + year, 30.0, 1.0, 0.0, 0, 0.0), (0, 2, NOW + 20.0, 30.0, 1.0, 0.0, 0, 0.0)])], NOW
    )
    assert [due_of(clocks, 0, key) - NOW for key in (1, 2)] == [30.0, 20.0]


def test_what_leases_name_is_due_a_gap_after_the_opening() -> None:
    clocks = Clocks()
    clocks.load([batch_of([(0, 1, NOW + 50, 90.0, 1.0, 0.0, 0, 0.0)])], NOW)
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
