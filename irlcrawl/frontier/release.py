"""From drained URLs with their hosts' records to runs: what may go, what waits in the calendar, what leaves for good.

Pure: rows in, rows out. URLs of one host come out best first (priority byte, then arrival); a host gets at most as
many as it can use within the horizon, the rest go to the calendar behind what is already waiting; where fresh rules, a
block, a quota or a dead host decide, a URL leaves here without a request.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from drum import Batch, Ragged
from irlcrawl.frontier.hosts import STATE, HostRecord, records_of
from irlcrawl.rows import LINK, Class, Reason, Robots, origin_of


@dataclass
class HostLoad:
    """What the loop holds for a host: how many of its URLs are in runs, how many more it may have, and its pace."""

    room: int  # URLs it may still get
    gap: float  # seconds between two of its requests
    free_at: float  # unix seconds when what it has waiting will be done


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
    load: Callable[[int, HostRecord], HostLoad]  # host key, record
    blocked: Callable[[bytes], bool]  # origin
    allowed: Callable[[HostRecord, list[bytes]], list[bool]]  # fresh rules against URLs
    quota_host: int  # 0: none
    denials_max: int


def class_of(reason: Reason) -> Class:
    """The ledger class of a URL that leaves without a request."""
    return Class.EXCLUDED if reason >= Reason.ROBOTS else Class.FAILED


def release(rows: Batch, policy: Policy) -> Verdicts:
    """Sort the emitted rows of the hosts drum (LINK + STATE + ordinal) into runs, calendar and out.

    Returns Verdicts with `urls` a LINK batch sorted by host, `index` a RUN batch.
    """
    order = np.lexsort((np.arange(rows.rows), rows["priority"], rows["host"]))
    rows = rows.take(order)
    host = rows["host"]
    starts = np.flatnonzero(np.concatenate(([True], host[1:] != host[:-1]))) if rows.rows else np.empty(0, np.int64)
    ends = np.append(starts[1:], rows.rows)[: len(starts)]
    states = rows.select([*STATE]).take(starts)
    links = rows.select([*LINK])
    fate = np.zeros(rows.rows, np.int16)  # 0: to a run; > 0: leaves for that reason; -1: calendar
    due = np.zeros(rows.rows, np.float64)
    keys = host[starts].tolist()
    # A Python loop per host: each host that gets a run becomes an object in memory anyway.
    for start, end, key, record in zip(starts.tolist(), ends.tolist(), keys, records_of(states), strict=True):
        _judge(links, fate, due, start, end, key, record, rows["ordinal"], policy)
    return _collect(links, fate, due, starts, ends, states)


def _judge(
    links: Batch,
    fate: NDArray[np.int16],
    due: NDArray[np.float64],
    start: int,
    end: int,
    key: int,
    record: HostRecord,
    ordinal: NDArray[np.uint64],
    policy: Policy,
) -> None:
    """Decide rows [start, end), all of one host, in place."""
    now, part = policy.now, slice(start, end)
    state = record.robots_at(now)
    if policy.blocked(origin_of(links["url"][start])):
        fate[part] = Reason.BLOCKED
        return
    if record.dead and record.dead_until > now:
        fate[part] = record.dead
        return
    if policy.quota_host:  # before any row may go to the calendar: those that come back from there have passed it
        fate[part][ordinal[part] >= policy.quota_host] = Reason.QUOTA_HOST
    if state is Robots.DENY:
        given_up = record.denials > policy.denials_max
        fate[part][fate[part] == 0] = Reason.ROBOTS_UNREACHABLE if given_up else -1
        due[part] = record.robots_until
        return
    load = policy.load(key, record)
    going = np.flatnonzero(fate[part] == 0) + start
    surplus = going[max(load.room, 0) :]
    if state is Robots.RULES:
        surplus = _apply_rules(links, fate, going, max(load.room, 0), record, policy)
    fate[surplus] = -1
    due[surplus] = load.free_at + load.gap * np.arange(1, len(surplus) + 1)


def _apply_rules(
    links: Batch, fate: NDArray[np.int16], rows: NDArray[np.int64], room: int, record: HostRecord, policy: Policy
) -> NDArray[np.int64]:
    """Hold rows to the rules until `room` of them may go; returns those nobody looked at: they come back, and matching
    a URL with the rules costs more than all else that happens to it here."""
    at = gone = 0
    while gone < room and at < len(rows):
        asked = rows[at : at + room - gone]
        allowed = np.array(policy.allowed(record, links["url"].take(asked).tolist()), np.bool_)
        fate[asked[~allowed]] = Reason.ROBOTS
        gone += int(np.count_nonzero(allowed))
        at += len(asked)
    return rows[at:]


def _collect(
    links: Batch,
    fate: NDArray[np.int16],
    due: NDArray[np.float64],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    states: Batch,
) -> Verdicts:
    go, later, left = fate == 0, fate < 0, fate > 0
    before = np.concatenate(([0], np.cumsum(go)))
    run_start, run_rows = before[starts], before[ends] - before[starts]
    runs = np.flatnonzero(run_rows)
    urls = links.filter(go)
    first = starts[runs]
    index = Batch(
        {
            "key": links["host"][first],
            "site": links["site"][first],
            "start": run_start[runs].astype(np.uint32),
            "rows": run_rows[runs].astype(np.uint32),
            "origin": Ragged.from_list([origin_of(links["url"][i]) for i in first.tolist()]),
            **{name: states[name][runs] for name in STATE},
        }
    )
    reasons = [Reason(value) for value in fate[left].tolist()]
    return Verdicts(urls, index, links.filter(later), due[later], links.filter(left), reasons)
