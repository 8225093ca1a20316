"""Hosts of the simulated crawl: columns against an object per host, and the table of leases against a dictionary."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

from drum import Batch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bench._sim.leases import Leases, RunQueues
from bench._sim.records import Records
from irlcrawl.base.reasons import Reason
from irlcrawl.base.rows import Robots
from irlcrawl.config.keys import Politeness
from irlcrawl.config.rests import rests_of_hosts
from irlcrawl.frontier.dispatch.handover import Handover
from irlcrawl.frontier.dispatch.visits import Host
from irlcrawl.frontier.state.hosts import HostRecord, state_batch
from irlcrawl.frontier.state.runs import WORTH, Run, Runs

Row = tuple[int, int, int, int]
RESTS = rests_of_hosts(Politeness())


class Segments:
    """What Leases asks of Runs: rows of segments, and which are done."""

    def __init__(self) -> None:
        self.rows: dict[int, list[Row]] = {}
        self._segments: dict[int, Any] = {}

    def add(self, number: int, rows: list[Row]) -> None:
        self.rows[number] = rows
        self._segments[number] = SimpleNamespace(done=np.zeros(len(rows), np.bool_))

    def _section(self, number: int) -> Any:
        rows = self.rows[number]

        def scan(columns: tuple[str, ...]) -> Iterator[Batch]:
            kinds = {"key": np.uint64, "depth": np.uint16, "attempt": np.uint8, "priority": np.uint8}
            for start in range(0, len(rows), 3):
                block = zip(*rows[start : start + 3], strict=True)
                yield Batch({name: np.array(part, kinds[name]) for name, part in zip(columns, block, strict=True)})

        return SimpleNamespace(rows=len(rows), scan=scan)

    def finish(self, number: int, row: int) -> None:
        segment = self._segments.get(number)
        if segment is not None:
            segment.done[row % len(segment.done)] = True
            if segment.done.all():
                del self._segments[number]


rows = st.lists(
    st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 999), st.integers(0, 9), st.integers(0, 255)),
    min_size=1,
    max_size=8,
)
turns = st.lists(st.tuples(st.lists(rows, max_size=2), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 7)))))


@given(turns)
def test_leases_give_each_url_that_is_not_done_and_keep_no_other(
    steps: list[tuple[list[list[Row]], list[tuple[int, int]]]],
) -> None:
    runs = Segments()
    leases = Leases(cast(Runs, runs))
    number = 0
    for new, done in steps:
        left = sum(int((~segment.done).sum()) for segment in runs._segments.values())
        numbers = []
        for some in new:
            runs.add(number, some)
            numbers.append(number)
            number += 1
        leases.bring(numbers)
        assert len(leases) == left + sum(map(len, new)), "what was done when the turn's runs came is gone"
        live = [(n, at) for n, segment in runs._segments.items() for at in np.flatnonzero(~segment.done).tolist()]
        live.reverse()
        if live:
            taken = leases.take(*np.array(live, np.int64).T)
            columns = (taken[name].tolist() for name in Leases.COLUMNS)
            assert list(zip(*columns, strict=True)) == [runs.rows[n][at] for n, at in live]
        for segment, row in done:
            runs.finish(segment, row)


queues = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "advance", "take"]),
        st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), unique_by=lambda one: one[0], max_size=4),
    ),
)  # fmt: skip


@given(queues)
def test_runs_of_a_host_are_leased_in_the_order_in_which_they_came(steps: list[tuple[str, list[Any]]]) -> None:
    queues, expected = RunQueues(), {host: list[Run]() for host in range(6)}
    queues.come(np.arange(6))
    for segment, (what, some) in enumerate(steps):
        some = [one for one in some if what == "add" or expected[one[0]]]
        hosts, rows = np.array(some, np.int64).reshape(-1, 2).T
        if what == "add":
            queues.add(hosts, segment, 10 * hosts, 10 * hosts + rows, WORTH[hosts])
            for host, many in some:
                expected[host].append(Run(segment, 10 * host, 10 * host + many, host))
        elif what == "advance":
            most = np.array([expected[host][0].rows for host, _ in some], np.int64)
            left = queues.advance(hosts, np.minimum(rows, most), WORTH[rows])
            for host, many in some:
                first = expected[host][0]
                first.at, first.priority = min(first.at + many, first.end), many
                expected[host] = expected[host] if first.rows else expected[host][1:]
            assert left.tolist() == [bool(expected[host]) for host, _ in some]
        else:
            for host, _ in some:
                assert [(run.at, run.end) for run in queues.take(host)] == [(run.at, run.end) for run in expected[host]]
                expected[host] = []
        here = [host for host, runs in expected.items() if runs]
        told = zip(*(column.tolist() for column in queues.first(np.array(here, np.int64))), strict=True)
        firsts = [expected[host][0] for host in here]
        assert [*told] == [(run.segment, run.at, run.end) for run in firsts]
        assert queues.worth(np.array(here, np.int64)).tolist() == [run.worth for run in firsts]


changes = st.lists(
    st.tuples(
        st.sampled_from(["come", "leave", "robots", "robots", "answered", "refused", "failed", "died", "told"]),
        st.lists(st.integers(0, 5), unique=True, min_size=1, max_size=4),
        st.sampled_from([Robots.ALLOW, Robots.DENY]), st.sampled_from([0.0, 0.0, 5.0]),
    ),
)  # fmt: skip


@given(changes)
def test_what_is_learnt_of_hosts_is_told_as_of_those_that_are_objects(steps: list[Any]) -> None:
    records, handover = Records(), Handover()
    hosts: dict[int, Host] = {}
    first = HostRecord(robots=Robots.RULES, rules_length=7, denials=65_535, failures=65_534, answered_at=1.0)
    for at, (what, keys, robots, delay) in enumerate(steps):
        now = float(at // 3)
        there = [key for key in keys if (key in hosts) != (what == "come")]
        numbers = np.array([9 - key for key in there], np.int64)  # a host's number here, whenever it is in memory
        if what == "come":
            records.put(numbers, records.newest(*known_of(there, first)))
            for key in there:
                record = handover.learnt(key) or known_record(first)
                hosts[key] = Host(record=record, key=key, name="", scheme="http", port=80, site=0)
        elif what == "leave":
            records.put_away(numbers)
            for key in there:
                del hosts[key]
        elif what == "told":
            told, expected = records.take_states(), handover.take_states()
            assert (told is None) == (expected is None)
            if told is not None and expected is not None:
                assert all(told[name].tolist() == expected[name].tolist() for name in expected.columns)
                assert told.columns.keys() == expected.columns.keys()
        elif what == "robots":
            state, until, delays = np.full(len(there), robots), np.full(len(there), now), np.full(len(there), delay)
            records.learn_robots(numbers, state.astype(np.uint8), until, delays.astype(np.float32))
            records.learn(numbers)
            for key in there:
                hosts[key].record.learn_robots(robots, now, None, delay)
                handover.learn(hosts[key])
        elif what == "died":
            records.died(numbers, Reason.CONNECT, now)
            for key in there:
                hosts[key].record.dead, hosts[key].record.dead_until = Reason.CONNECT, now
        else:  # news to nobody, until something else is
            more = {"failed": (RESTS, Reason.TLS), "refused": (Reason.THROTTLED,)}.get(what, ())
            getattr(records, what)(numbers, now, *more)
            for key in there:
                getattr(hosts[key].record, what)(now, *more)
        for key in hosts:
            row = state_batch([(key, hosts[key].record)])
            assert all(records[name][9 - key] == row[name][0] for name in row.columns)


def known_record(record: HostRecord) -> HostRecord:
    return HostRecord(*(getattr(record, name) for name in HostRecord.__slots__))


def known_of(keys: list[int], record: HostRecord) -> tuple[Any, Batch]:
    """(keys, STATE) as a turn's index has them."""
    batch = state_batch((key, record) for key in keys)
    return batch["key"], batch.select([name for name in batch.columns if name != "key"])
