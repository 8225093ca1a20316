"""From drained URLs with their hosts' records to runs: what may go, what waits in the calendar, what leaves for good.

Pure: rows in, rows out. URLs of one host come out best first (priority byte, then arrival); a host gets at most as
many as it can use within the horizon, the rest go to the calendar behind what is already waiting; where fresh rules, a
block, a quota or a dead host decide, a URL leaves here without a request.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from drum import Batch, Ragged
from drum.kernels import group_starts, sort_keys

import numpy as np
from numpy.typing import NDArray

from irlcrawl.base.reasons import Reason
from irlcrawl.base.rows import LINK, Robots
from irlcrawl.frontier.state.hosts import STATE, HostRecord, records_of

AHEAD_S = 3600.0
"""No surplus of a host waits longer than this for its turn before it is looked at again: its pace may be another by
then. A gap of five minutes after one slow answer must not put a thousand URLs off for days."""


@dataclass
class HostLoads:
    """What the loop holds for some hosts, a row each: how many more URLs they may have in runs, and their pace."""

    room: NDArray[np.int64]  # URLs it may still get; below 0 counts as 0
    gap: NDArray[np.float64]  # seconds between two of its requests
    free_at: NDArray[np.float64]  # unix seconds when what it has waiting will be done


@dataclass
class Verdicts:
    """Where every row of a release went. `due` is per row of `later`; `reasons` per row of `left`."""

    urls: Batch
    index: Batch
    later: Batch
    due: NDArray[np.float64]
    left: Batch
    reasons: list[Reason] = field(default_factory=list)


@dataclass
class Policy:
    """What a release needs to know beside the rows."""

    now: float
    load: Callable[[NDArray[np.uint64], Batch], HostLoads]  # keys of hosts, their STATE
    blocked: Callable[[bytes], bool] | None  # origin; None: none is
    allowed: Callable[[HostRecord, list[bytes]], list[bool]]  # fresh rules against URLs
    quota_host: int  # 0: none
    denials_max: int


def release(rows: Batch, policy: Policy) -> Verdicts:
    """Sort the emitted rows of the hosts drum (LINK + STATE + ordinal) into runs, calendar and out.

    Returns Verdicts with `urls` a LINK batch sorted by host, `index` a RUN batch.
    """
    order = np.argsort(rows["priority"], kind="stable")
    host, by_host = sort_keys(rows["host"][order])
    order = order[by_host]
    links = rows.select([*LINK]).take(order)
    starts = group_starts(host)
    hosts = _Hosts(starts[:-1], starts[1:], rows.select([*STATE]).take(order[starts[:-1]]))
    origins = origins_of(links["url"].take(hosts.starts))
    fate, due = _judge(links, rows["ordinal"][order], hosts, origins, policy)
    return _collect(links, fate, due, hosts, origins)


def origins_of(urls: Ragged) -> Ragged:
    """`origin_of` of every row."""
    urls = Ragged(urls.blob, urls.offsets)
    slashes = np.concatenate([np.flatnonzero(urls.blob == ord("/")), np.full(3, len(urls.blob))])
    third = slashes[np.searchsorted(slashes, urls.offsets[:-1]) + 2]  # the first two are next to each other
    return urls.heads(np.minimum(third, urls.offsets[1:]) - urls.offsets[:-1])


@dataclass
class _Hosts:
    """The hosts of a release: rows [starts, ends) are the host's, `states` has a row each."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    states: Batch

    def spread(self, column: NDArray[Any]) -> NDArray[Any]:
        """A value for each host as one for each row."""
        return np.repeat(column, self.ends - self.starts)


def _judge(
    links: Batch, ordinal: NDArray[np.uint64], hosts: _Hosts, origins: Ragged, policy: Policy
) -> tuple[NDArray[np.int16], NDArray[np.float64]]:
    """(fate, due) of every row. Fate 0: to a run; > 0: leaves for that reason; -1: into the calendar."""
    states, now = hosts.states, policy.now
    whole = np.where(states["dead_until"] > now, states["dead"], 0).astype(np.int16)  # of all rows of a host
    if policy.blocked is not None:
        whole[[policy.blocked(origin) for origin in origins.tolist()]] = Reason.BLOCKED
    robots = np.where((states["robots_until"] > now) & (whole == 0), states["robots"], Robots.UNKNOWN)
    fate = hosts.spread(whole)
    if policy.quota_host:  # before any row may go to the calendar: those that come back from there have passed it
        fate[(fate == 0) & (ordinal >= policy.quota_host)] = Reason.QUOTA_HOST
    denied = robots == Robots.DENY
    closed = hosts.spread(denied) & (fate == 0)
    refused = np.where(states["denials"] > policy.denials_max, Reason.ROBOTS_UNREACHABLE, -1).astype(np.int16)
    fate[closed] = hosts.spread(refused)[closed]
    due = np.where(closed, hosts.spread(states["robots_until"]), 0.0)
    open_ = np.flatnonzero((whole == 0) & ~denied)
    room, gap, free_at = np.zeros((3, len(whole)))
    load = policy.load(links["host"][hosts.starts[open_]], states.take(open_))
    room[open_], gap[open_], free_at[open_] = np.maximum(load.room, 0), load.gap, load.free_at
    ruled = np.flatnonzero((robots == Robots.RULES) & (whole == 0))
    # A Python loop per host with rules: they are looked up and matched one host at a time.
    for at, record in zip(ruled.tolist(), records_of(states.take(ruled)), strict=True):
        part = slice(hosts.starts[at], hosts.ends[at])
        _apply_rules(links, fate, np.flatnonzero(fate[part] == 0) + part.start, int(room[at]), record, policy)
    going = fate == 0
    before = np.cumsum(going) - going  # rows that may go, of hosts before and of this one
    surplus = before - hosts.spread(before[hosts.starts]) - hosts.spread(room)
    late = going & (surplus >= 0)
    fate[late] = -1
    due[late] = (hosts.spread(free_at) + np.minimum(hosts.spread(gap) * (surplus + 1), AHEAD_S))[late]
    return fate, due


def _apply_rules(
    links: Batch, fate: NDArray[np.int16], rows: NDArray[np.int64], room: int, record: HostRecord, policy: Policy
) -> None:
    """Hold rows of a host to its rules until `room` of them may go. Nobody looks at the others: they come back, and
    matching a URL with the rules costs more than all else that happens to it here."""
    at = gone = 0
    while gone < room and at < len(rows):
        asked = rows[at : at + room - gone]
        allowed = np.array(policy.allowed(record, links["url"].take(asked).tolist()), np.bool_)
        fate[asked[~allowed]] = Reason.ROBOTS
        gone += int(np.count_nonzero(allowed))
        at += len(asked)


def _collect(
    links: Batch, fate: NDArray[np.int16], due: NDArray[np.float64], hosts: _Hosts, origins: Ragged
) -> Verdicts:
    go, later, left = fate == 0, fate < 0, fate > 0
    before = np.concatenate(([0], np.cumsum(go)))
    run_start, run_rows = before[hosts.starts], before[hosts.ends] - before[hosts.starts]
    runs = np.flatnonzero(run_rows)
    first = hosts.starts[runs]
    index = Batch(
        {
            "key": links["host"][first],
            "site": links["site"][first],
            "start": run_start[runs].astype(np.uint32),
            "rows": run_rows[runs].astype(np.uint32),
            "origin": origins.take(runs),
            **{name: hosts.states[name][runs] for name in STATE},
        }
    )
    reasons = [Reason(value) for value in fate[left].tolist()]
    return Verdicts(links.filter(go), index, links.filter(later), due[later], links.filter(left), reasons)
