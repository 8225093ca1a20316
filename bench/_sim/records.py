"""What is known of hosts in memory, a row of STATE each: HostRecord and Handover (irlcrawl/frontier) as columns."""

from __future__ import annotations

from typing import Any

from drum import Batch

import numpy as np
from numpy.typing import NDArray

from bench._sim.table import Table
from irlcrawl.base.reasons import Reason
from irlcrawl.base.rows import Robots
from irlcrawl.config.rests import FAILURES_MAX, Rests
from irlcrawl.frontier.state.hosts import STATE

I8s = NDArray[np.int64]
F8s = NDArray[np.float64]
ROW = {"key": "u8", **STATE}
FAILURE = ("failures", "failed_since", "rests_until")
LEARNT = {**ROW, "order": "i8"}
"""order: the how manieth change since the last turn began made it news; 0: it is none."""


class Records:
    """By the number of a host. Columns of numbers name a host once."""

    def __init__(self) -> None:
        self._rows = Table(LEARNT)
        self._news = 0
        self._gone: list[Batch] = []  # LEARNT rows of hosts that left memory since, each key once

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._rows[name]

    def newest(self, keys: NDArray[np.uint64], states: Batch) -> Batch:
        """LEARNT rows of hosts that come into memory: as a turn found them, or as they left memory meanwhile."""
        columns = {name: states[name].copy() for name in STATE}
        rows = Batch({"key": keys, **columns, "order": np.zeros(len(keys), np.int64)})
        gone = Batch.concat([Batch.empty(LEARNT), *self._gone])
        again = np.isin(gone["key"], keys)
        self._gone = [gone.filter(~again)]
        back, order = gone.filter(again), np.argsort(keys)
        at = order[np.searchsorted(keys, back["key"], sorter=order)]
        for name in (*STATE, "order"):
            rows[name][at] = back[name]
        return rows

    def put(self, hosts: I8s, rows: Batch) -> None:
        """LEARNT rows of hosts that are in memory from now on."""
        self._rows.reach(int(hosts.max(initial=-1)) + 1)
        for name in LEARNT:
            self._rows[name][hosts] = rows[name]

    def put_away(self, hosts: I8s) -> None:
        """Hosts leave memory; what is news of them stays."""
        order = self._rows["order"]
        told = hosts[order[hosts] > 0]
        self.put_aside(self._take(told))
        order[told] = 0

    def put_aside(self, rows: Batch) -> None:
        """LEARNT rows of hosts that are not in memory."""
        self._gone.append(rows)

    def _take(self, hosts: I8s) -> Batch:
        return Batch({name: self._rows[name][hosts] for name in LEARNT})

    def take_states(self) -> Batch | None:
        """As Handover.take_states: `key` and STATE of the hosts whose record changed since the last call."""
        order = self._rows["order"]
        here = np.flatnonzero(order)
        rows = Batch.concat([Batch.empty(LEARNT), *self._gone, self._take(here)])
        order[here], self._gone, self._news = 0, [], 0
        return rows.take(np.argsort(rows["order"])).select([*ROW]) if rows.rows else None

    # -- changes -----------------------------------------------------------------------------------------------------

    def next_news(self, count: int) -> I8s:
        """The places of so many changes among all."""
        self._news += count
        return np.arange(self._news - count + 1, self._news + 1)

    def learn(self, hosts: I8s) -> None:
        """They are news, in this order."""
        order = self._rows["order"]
        fresh = hosts[order[hosts] == 0]
        order[fresh] = self.next_news(len(fresh))

    def answered(self, hosts: I8s, at: float) -> None:
        """As HostRecord.answered."""
        rows = self._rows
        rows["failures"][hosts], rows["failed_since"][hosts], rows["rests_until"][hosts] = 0, 0.0, 0.0
        rows["failure"][hosts] = Reason.OK
        rows["answered_at"][hosts], rows["dead"][hosts] = at, Reason.OK

    def failed(self, hosts: I8s, at: float, rests: Rests, reason: Reason) -> None:
        """As HostRecord.failed."""
        self._rows["failure"][hosts] = reason
        for name, column in failed({name: self._rows[name][hosts] for name in FAILURE}, at, rests).items():
            self._rows[name][hosts] = column

    def refused(self, hosts: I8s, at: float, reason: Reason) -> None:
        """As HostRecord.refused."""
        rows, failures = self._rows, self._rows["failures"][hosts]
        rows["failed_since"][hosts[failures == 0]] = at
        rows["failures"][hosts] = failures + (failures < FAILURES_MAX)
        self.rest(hosts, np.full(len(hosts), at), reason)
        rows["answered_at"][hosts], rows["dead"][hosts] = at, Reason.OK

    def rest(self, hosts: I8s, until: F8s, reason: Reason) -> None:
        """They rest until then at least."""
        self._rows["failure"][hosts] = reason
        self._rows["rests_until"][hosts] = np.maximum(self._rows["rests_until"][hosts], until)

    def died(self, hosts: I8s, reason: Reason, until: float) -> None:
        self._rows["dead"][hosts], self._rows["dead_until"][hosts] = reason, until

    def learn_robots(self, hosts: I8s, state: NDArray[np.uint8], until: F8s, crawl_delay: NDArray[np.float32]) -> None:
        """As HostRecord.learn_robots, without rules: they are applied where a URL is asked for."""
        rows = self._rows
        news = (rows["robots"][hosts] != state) | (rows["robots_until"][hosts] != until)
        hosts, state, until, crawl_delay = hosts[news], state[news], until[news], crawl_delay[news]
        rows["robots"][hosts], rows["robots_until"][hosts], rows["crawl_delay"][hosts] = state, until, crawl_delay
        for name in ("rules_log", "rules_offset", "rules_length"):
            rows[name][hosts] = 0
        denials = rows["denials"][hosts]
        rows["denials"][hosts] = np.where(state == Robots.DENY, denials + (denials < FAILURES_MAX), 0)


def failed(known: dict[str, NDArray[Any]], at: float, rests: Rests) -> dict[str, NDArray[Any]]:
    """As HostRecord.failed: the columns FAILURE of hosts, afterwards."""
    failures = np.minimum(known["failures"].astype(np.int64) + 1, FAILURES_MAX)
    since = np.where(failures == 1, at, known["failed_since"])
    return {"failures": failures, "failed_since": since, "rests_until": at + rests_after(rests, failures)}


def rests_after(rests: Rests, failures: I8s) -> F8s:
    """As Rests.after."""
    return np.minimum(rests.first * rests.factor ** np.minimum(failures - 1, 100).astype(np.float64), rests.longest)
