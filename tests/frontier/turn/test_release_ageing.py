"""URLs that wait because their host is busy with better ones go up: none starves."""

from __future__ import annotations

from drum import Batch, Ragged

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.base.keys import PRIORITY_AGED, PRIORITY_LAST, priority_of
from irlcrawl.base.rows import LINK, Source
from irlcrawl.frontier.state.hosts import STATE, HostRecord, state_batch
from irlcrawl.frontier.turn.release import HostLoads, Policy, aged, release

HOUR = 3600.0
LEVEL_S = 12 * HOUR
LEVELS = 31


def rows_of(keys: list[int], priorities: list[int]) -> Batch:
    """What the hosts drum emits of one host."""
    columns = {**Batch.zeros(LINK, len(keys)).columns}
    columns["key"], columns["priority"] = np.array(keys, np.uint64), np.array(priorities, np.uint8)
    state = state_batch((0, HostRecord()) for _ in keys)
    urls = Ragged.from_list([b"http://busy.test/%d" % key for key in keys])
    ordinal = np.zeros(len(keys), np.uint64)
    return Batch({**columns, "url": urls, **{name: state[name] for name in STATE}, "ordinal": ordinal})


def served_after(level_s: float, last: int, hours_max: int) -> float:
    """Hours until a host gives a URL of priority `last` its turn, which each hour has room for ten and is brought
    twenty new URLs one link from a seed: inf if it never does."""
    now, at_hand, number = 1e9, [(2**63 + 5, last, 0.0)], 1
    for hour in range(hours_max):
        new = range(number, number + 20)
        number += 20
        due = [one for one in at_hand if one[2] <= now]
        at_hand = [one for one in at_hand if one[2] > now]
        keys = [*(key * 0x9E3779B97F4A7C15 % 2**64 for key in new), *(key for key, _, _ in due)]
        rows = rows_of(keys, [*(priority_of(1, Source.LINK) for _ in new), *(priority for _, priority, _ in due)])
        # A full host has its next room within the hour, whatever waits: its surplus is back before long.
        load = HostLoads(np.array([10]), np.array([1.0]), np.array([now + HOUR]))
        policy = Policy(
            now=now, load=lambda hosts, states, load=load: load,
            blocked=None, allowed=lambda record, urls: [True] * len(urls), quota_host=0, denials_max=3,
            level_s=level_s,
        )  # fmt: skip
        verdicts = release(rows, policy)
        if 2**63 + 5 in verdicts.urls["key"].tolist():
            return hour
        later = verdicts.later
        at_hand += zip(later["key"].tolist(), later["priority"].tolist(), verdicts.due.tolist(), strict=True)
        now += HOUR
    return np.inf


@pytest.mark.parametrize("last", [PRIORITY_LAST, priority_of(5, Source.LINK)])
def test_the_last_url_of_a_busy_host_starved_behind_ever_new_and_better_ones(last: int) -> None:
    bound_h = (LEVELS + 1) * LEVEL_S / HOUR  # the worst that there is goes before all new ones by then
    before = 20 * 8  # URLs that came within the time in which it was as good as they
    assert served_after(LEVEL_S, last, 500) <= bound_h + before / 10
    assert served_after(0.0, last, 500) == np.inf, "without ageing"


@given(
    st.lists(st.floats(0, 5 * LEVEL_S), min_size=1, max_size=8), st.integers(0, 255), st.integers(0, 2**64 - 1)
)  # fmt: skip
def test_waits_add_up_to_the_levels_of_one_long_wait(waits: list[float], priority: int, key: int) -> None:
    """However they are cut; what goes first anyhow stays, and nothing passes it."""

    def after(priority: int, now: float, due: float) -> int:
        got = aged(np.array([priority], np.uint8), np.array([key], np.uint64), now, np.array([due]), LEVEL_S)
        return int(got[0])

    now, got = 1e9, priority
    for wait in waits:
        got, now = after(got, now, now + wait), now + wait
    assert got == after(priority, 1e9, now)
    if priority <= PRIORITY_AGED:
        assert got == priority
    else:
        levels = sum(waits) / LEVEL_S
        assert max(PRIORITY_AGED, priority - 8 * (levels + 1)) <= got <= max(PRIORITY_AGED, priority - 8 * (levels - 1))
