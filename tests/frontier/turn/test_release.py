"""release() against a loop over rows: nothing lost or doubled, best first, caps, reasons, dues."""

from __future__ import annotations

from collections import defaultdict

from drum import Batch, Ragged

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.base.keys import origin_of
from irlcrawl.base.reasons import Reason
from irlcrawl.base.rows import LINK, Robots
from irlcrawl.frontier.state.hosts import STATE, HostRecord, state_batch
from irlcrawl.frontier.turn.release import HostLoads, Policy, origins_of, release

NOW = 1000.0

record = st.builds(
    HostRecord,
    robots=st.sampled_from(list(Robots)),
    robots_until=st.sampled_from([NOW - 1, NOW, NOW + 50]),
    denials=st.sampled_from([0, 3, 4]),
    rests_until=st.sampled_from([0.0, 0.0, NOW - 1, NOW, NOW + 20, NOW + 70]),
    dead=st.sampled_from([Reason.OK, Reason.HOST_DEAD, Reason.DNS]),
    dead_until=st.sampled_from([NOW - 1, NOW + 10]),
)
row = st.tuples(st.integers(0, 3), st.integers(0, 255), st.integers(0, 6))  # host, priority, ordinal
load = st.tuples(st.integers(-2, 8), st.sampled_from([0.0, 0.5, 10.0]), st.sampled_from([NOW, NOW + 100]))


def emitted(rows: list[tuple[int, int, int]], records: list[HostRecord]) -> Batch:
    """What the hosts drum emits for these rows; the key of a row is its number."""
    count = len(rows)
    columns = {**Batch.zeros(LINK, count).columns}
    columns["key"] = np.arange(count, dtype=np.uint64)
    columns["host"] = np.array([host for host, _, _ in rows], np.uint64)
    columns["site"] = columns["host"] + np.uint64(100)
    columns["priority"] = np.array([priority for _, priority, _ in rows], np.uint8)
    urls = Ragged.from_list([b"http://h%d.test/%d" % (host, at) for at, (host, _, _) in enumerate(rows)])
    states = state_batch((host, records[host]) for host, _, _ in rows)
    ordinal = np.array([ordinal for _, _, ordinal in rows], np.uint64)
    return Batch({**columns, "url": urls, **{name: states[name] for name in STATE}, "ordinal": ordinal})


@settings(deadline=None, max_examples=300)
@given(
    st.lists(row, max_size=30), st.lists(record, min_size=4, max_size=4), st.lists(load, min_size=4, max_size=4),
    st.sets(st.integers(0, 3), max_size=1), st.sampled_from([0, 3]), st.sets(st.integers(0, 3), max_size=2),
)  # fmt: skip
def test_every_row_goes_where_the_rules_say(
    rows: list[tuple[int, int, int]],
    records: list[HostRecord],
    loads: list[tuple[int, float, float]],
    blocked: set[int],
    quota: int,
    shut: set[int],
) -> None:
    policy = Policy(
        now=NOW,
        load=lambda keys, states: HostLoads(*np.array([loads[key] for key in keys.tolist()]).reshape(-1, 3).T),
        blocked=lambda origin: int(origin[8:9]) in blocked,
        allowed=lambda record, urls: [not url.endswith(b"3") for url in urls],
        quota_host=quota,
        denials_max=4,
        opens=lambda origin: NOW + 60 if int(origin[8:9]) in shut else NOW,
    )
    verdicts = release(emitted(rows, records), policy)
    runs, later, left = expected(rows, records, loads, blocked, quota, shut)
    taken: dict[int, list[int]] = {}
    index = verdicts.index
    for key, start, count, site, origin in zip(
        *(index[name].tolist() for name in ("key", "start", "rows", "site", "origin")), strict=True
    ):
        assert key not in taken, "one run a host"
        taken[key] = verdicts.urls["key"][start : start + count].tolist()
        assert (site, origin) == (key + 100, b"http://h%d.test" % key)
    assert taken == runs
    assert sum(map(len, taken.values())) == verdicts.urls.rows
    told = zip(verdicts.later["key"].tolist(), verdicts.due.tolist(), verdicts.rests.tolist(), strict=True)
    assert {key: (due, rests) for key, due, rests in told} == later
    assert dict(zip(verdicts.left["key"].tolist(), verdicts.reasons, strict=True)) == left
    assert verdicts.urls.rows + verdicts.later.rows + verdicts.left.rows == len(rows)
    assert set(index.columns) >= set(STATE)
    for key, until in zip(index["key"].tolist(), index["robots_until"].tolist(), strict=True):
        assert until == records[key].robots_until, "a run carries its own host's record"


def expected(
    rows: list[tuple[int, int, int]],
    records: list[HostRecord],
    loads: list[tuple[int, float, float]],
    blocked: set[int],
    quota: int,
    shut: set[int],
) -> tuple[dict[int, list[int]], dict[int, tuple[float, bool]], dict[int, Reason]]:
    """(runs by host, due by row and whether it rests, reason by row), row by row."""
    runs: dict[int, list[int]] = defaultdict(list)
    surplus: dict[int, int] = defaultdict(int)
    later: dict[int, tuple[float, bool]] = {}
    left: dict[int, Reason] = {}
    for number in sorted(range(len(rows)), key=lambda number: (rows[number][1], number)):
        host, _, ordinal = rows[number]
        known, (room, gap, free_at) = records[host], loads[host]
        fresh = known.robots if known.robots_until > NOW else Robots.UNKNOWN
        if host in blocked:
            left[number] = Reason.BLOCKED
        elif known.dead and known.dead_until > NOW:
            left[number] = Reason(known.dead)
        elif quota and ordinal >= quota:
            left[number] = Reason.QUOTA_HOST
        elif fresh == Robots.DENY and known.denials > 3:
            left[number] = Reason.ROBOTS_UNREACHABLE
        elif fresh == Robots.DENY:
            later[number] = max(known.robots_until, known.rests_until), True
        elif known.rests_until > NOW:
            later[number] = known.rests_until, True
        elif host in shut:
            later[number] = NOW + 60, False
        elif fresh == Robots.RULES and len(runs[host]) < room and str(number).endswith("3"):
            left[number] = Reason.ROBOTS
        elif len(runs[host]) < room:
            runs[host].append(number)
        else:
            surplus[host] += 1
            later[number] = free_at + gap * surplus[host], known.probed
    return {host: numbers for host, numbers in runs.items() if numbers}, later, left


@given(st.lists(st.from_regex(rb"https?://[a-z0-9.:]{1,12}(/[a-z/?=:]{0,12})?", fullmatch=True)), st.data())
def test_the_origins_of_a_column_are_those_of_its_urls(urls: list[bytes], data: st.DataObject) -> None:
    kept = data.draw(st.lists(st.booleans(), min_size=len(urls), max_size=len(urls)))
    some = Ragged.from_list(urls).filter(np.array(kept, bool))
    assert origins_of(some).tolist() == [origin_of(url) for url, is_kept in zip(urls, kept, strict=True) if is_kept]
