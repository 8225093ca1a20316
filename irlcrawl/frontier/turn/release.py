"""From drained URLs with their hosts' records to runs: what may go, what waits or rests, what leaves for good.

Pure: rows in, rows out. URLs of one host come out best first (priority byte, then arrival); a host gets at most as
many as it can use within the horizon, the others go to the calendar behind what is already waiting, and age there, so
that none starves behind ever new and better ones; those of a host that failed rest until it is asked again, and then
until one of them was answered; where fresh rules, a block, an owner's opt-out, a quota or a dead host decide, a URL
leaves here without a request.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from drum import Batch, Ragged
from drum.kernels import group_starts, sort_keys

import numpy as np
from numpy.typing import NDArray

from irlcrawl.base.keys import PRIORITY_AGED, PRIORITY_LEVEL_SHIFT
from irlcrawl.base.reasons import Reason
from irlcrawl.base.rows import LINK, PAGE, Robots
from irlcrawl.frontier.state.hosts import STATE, HostRecord, probed, records_of
from irlcrawl.frontier.turn.pages import Again
from irlcrawl.web.opt_out import OptOuts

CALENDAR, RESTS = -1, -2
"""Fates of a row for which its host has no room, and of one that rests; 0: it goes to a run; a Reason: it leaves."""

HOST_STEP, HOST_STEP_MAX, HOST_SINKS = 0.2, 1.0, 0.99
"""The price of a full host goes so much of the way to the worth of the last page that went, which is looked at in
logarithms and no farther away than this; that of a host with room for all sinks by this factor."""

_PHASE_BITS = 24

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
    """Where every row of a release went. `due` and `rests` (it waits among the rests, not in the calendar) are per row
    of `later`; `reasons` per row of `left`. Of pages that were visited before: `served`, the worth of each that went at
    a host with room for all; `stayed`, how many did not fit; `prices` of hosts, as far as they changed."""

    urls: Batch
    index: Batch
    later: Batch
    due: NDArray[np.float64]
    rests: NDArray[np.bool_]
    left: Batch
    reasons: list[Reason] = field(default_factory=list)
    served: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    stayed: int = 0
    prices: Batch = field(default_factory=lambda: Batch({"key": np.empty(0, np.uint64), "price": np.empty(0, "f4")}))


@dataclass
class Policy:
    """All that a release needs to know beside the rows."""

    now: float
    load: Callable[[NDArray[np.uint64], Batch], HostLoads]  # keys of hosts, their STATE
    blocked: Callable[[bytes], bool] | None  # origin; None: none is
    allowed: Callable[[HostRecord, list[bytes]], list[bool]]  # fresh rules against URLs
    quota_host: int  # 0: none
    denials_max: int  # with so many in a row a robots.txt is given up
    blocked_url: Callable[[bytes], bool] | None = None  # None: none is
    opens: Callable[[bytes], float] | None = None  # origin -> when it may be asked (Hours); None: all at any time
    level_s: float = 0.0  # seconds that surplus waits until it goes up a level; 0: never
    opt_outs: Callable[[], OptOuts | None] = lambda: None  # what owners want left alone, as the list is now


def release(rows: Batch, policy: Policy, again: Again | None = None) -> Verdicts:
    """Sort the emitted rows of the hosts drum (LINK + STATE + ordinal) into runs, calendar, rests and out.

    Returns Verdicts with `urls` a LINK batch sorted by host, `index` a RUN batch. again: pages are visited again; then
    rows have POOL, too. Rows that have PAGE keep it.
    """
    order = np.argsort(rows["priority"], kind="stable")
    host, by_host = sort_keys(rows["host"][order])
    order = order[by_host]
    worths = None
    if again is not None:
        rows = rows.with_(prior=again.priors(rows), told=again.told(rows))
        if rows["visits"].any():
            worths = again.worth_now(rows, policy.now)
            order = _interleaved(rows, worths, order)
    links = rows.select([*LINK, *PAGE] if "visits" in rows else [*LINK]).take(order)
    starts = group_starts(host)
    hosts = _Hosts(starts[:-1], starts[1:], rows.select([*STATE]).take(order[starts[:-1]]))
    origins = origins_of(links["url"].take(hosts.starts))
    fate, due = _judge(links, rows["ordinal"][order], hosts, origins, policy)
    late = fate == CALENDAR
    told = None
    if again is not None and worths is not None:
        told = _priced(links, fate, due, worths[order], hosts, rows["price"][order[starts[:-1]]], again)
        late &= links["visits"] == 0
    if policy.level_s and late.any():
        older = aged(links["priority"], links["key"], policy.now, due, policy.level_s)
        links = links.with_(priority=np.where(late, older, links["priority"]))
    verdicts = _collect(links, fate, due, hosts, origins)
    if told is not None:
        verdicts.served, verdicts.stayed, verdicts.prices = told
    return verdicts


def _interleaved(rows: Batch, worths: NDArray[np.float64], order: NDArray[np.int64]) -> NDArray[np.int64]:
    """`order`, in which rows of a host go by priority, with its pages by their worth among the new URLs: each kind gets
    of the host's room in proportion to its rows."""
    page = rows["visits"][order] > 0
    by_worth = np.where(page, -worths[order], 0.0)  # a stable sort: new URLs stay in their order
    host = rows["host"][order]
    order = order[np.lexsort((by_worth, page, host))]
    host, page = rows["host"][order], rows["visits"][order] > 0
    starts = group_starts(host)
    kinds = np.flatnonzero(np.concatenate(([True], (host[1:] != host[:-1]) | (page[1:] != page[:-1]))))
    counts = np.diff(np.append(kinds, len(host)))
    rank = np.arange(len(host)) - np.repeat(kinds, counts)
    share = (rank + 0.5) / np.repeat(counts, counts)
    group = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    return order[np.lexsort((share, group))]


def _priced(
    links: Batch, fate: NDArray[np.int16], due: NDArray[np.float64], worths: NDArray[np.float64], hosts: _Hosts,
    prices: NDArray[np.float32], again: Again,
) -> tuple[NDArray[np.float64], int, Batch]:  # fmt: skip
    """A price for each host that is full: the worth of the last page that went. Pages that did not fit rest (`due`, in
    place) until they are worth that. Returns Verdicts' `served`, `stayed` and `prices`."""
    page = links["visits"] > 0
    host = np.repeat(np.arange(len(hosts.starts)), hosts.ends - hosts.starts)
    went, stayed = page & (fate == 0), page & (fate == CALENDAR)
    count = len(hosts.starts)
    full = np.bincount(host[stayed], minlength=count) > 0
    before = np.maximum(prices.astype(np.float64), again.price)
    last = np.full(count, np.inf)
    np.minimum.at(last, host[went], worths[went])
    counted = went & ~full[host] & np.isfinite(worths)
    some = np.isfinite(last) & (last > 0)
    step = HOST_STEP * np.clip(np.log(np.where(some, last, 1.0)) - np.log(before), -HOST_STEP_MAX, HOST_STEP_MAX)
    price = np.where(full, before * np.exp(np.where(some, step, 0.0)), before * HOST_SINKS)
    price = np.maximum(price, again.price)
    late = np.flatnonzero(stayed)
    patient = late[worths[late] < price[host[late]]]  # the others are called: they go as soon as there is room
    due[patient] = np.maximum(due[patient], again.due_at(links.take(patient), price[host[patient]]))
    told = np.where(price > again.price, price, 0.0).astype(np.float32)
    changed = np.flatnonzero((told != prices) & (np.bincount(host[page], minlength=count) > 0))
    keys = links["host"][hosts.starts[changed]]
    return worths[counted], len(late), Batch({"key": keys, "price": told[changed]})


def aged(
    priority: NDArray[np.uint8], keys: NDArray[np.uint64], now: float, due: NDArray[np.float64], level_s: float
) -> NDArray[np.uint8]:
    """Priorities of URLs that waited from `now` to `due` (unix seconds): each goes up a level every `level_s` seconds,
    at moments of its own, which its key says, so that it counts no wait twice or not at all, however short its waits
    are. Seeds and home pages stay what they are; none passes them."""
    phase = (keys & np.uint64((1 << _PHASE_BITS) - 1)).astype(np.float64) * (level_s / (1 << _PHASE_BITS))
    levels = np.floor((due + phase) / level_s) - np.floor((now + phase) / level_s)
    better = priority - np.clip(levels, 0, 255) * (1 << PRIORITY_LEVEL_SHIFT)
    return np.where(priority > PRIORITY_AGED, np.maximum(better, PRIORITY_AGED), priority).astype(np.uint8)


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
    """(fate, due) of every row."""
    states, now = hosts.states, policy.now
    whole = np.where(states["dead_until"] > now, states["dead"], 0).astype(np.int16)  # of all rows of a host
    if policy.blocked is not None:
        whole[[policy.blocked(origin) for origin in origins.tolist()]] = Reason.BLOCKED
    opt_outs = policy.opt_outs()
    if opt_outs is not None:
        whole[[opt_outs.of_host(origin + b"/") is not None for origin in origins.tolist()]] = Reason.OPTED_OUT
    robots = np.where((states["robots_until"] > now) & (whole == 0), states["robots"], Robots.UNKNOWN)
    fate = hosts.spread(whole)
    if policy.blocked_url is not None:  # a Python loop per URL, where the operator has patterns for it
        asked = np.flatnonzero(fate == 0)
        matched = [policy.blocked_url(url) for url in links["url"].take(asked).tolist()]
        fate[asked[np.array(matched, np.bool_)]] = Reason.BLOCKED
    if opt_outs is not None and opt_outs.of_urls:
        left = np.flatnonzero(fate == 0)  # a Python loop per URL: only URLs say whether a pattern is in them
        urls = links["url"].take(left).tolist()
        fate[left[[opt_outs.of(url) is not None for url in urls]]] = Reason.OPTED_OUT
    if policy.quota_host:  # before any row may go to the calendar: those that come back from there have passed it
        fate[(fate == 0) & (ordinal >= policy.quota_host)] = Reason.QUOTA_HOST
    denied = robots == Robots.DENY
    until = np.maximum(states["rests_until"], np.where(denied, states["robots_until"], 0.0))
    closed = hosts.spread(until > now) & (fate == 0)
    refused = denied & (states["denials"] >= policy.denials_max)
    fate[closed] = hosts.spread(np.where(refused, Reason.ROBOTS_UNREACHABLE, RESTS).astype(np.int16))[closed]
    due = np.where(closed, hosts.spread(until), 0.0)
    opens = np.zeros(len(whole))
    if policy.opens is not None:
        opens[:] = [policy.opens(origin) for origin in origins.tolist()]
        shut = hosts.spread(opens > now) & (fate == 0)
        fate[shut], due[shut] = CALENDAR, hosts.spread(opens)[shut]
    open_ = np.flatnonzero((whole == 0) & (until <= now) & (opens <= now))
    room, gap, free_at = np.zeros((3, len(whole)))
    load = policy.load(links["host"][hosts.starts[open_]], states.take(open_))
    room[open_], gap[open_], free_at[open_] = np.maximum(load.room, 0), load.gap, load.free_at
    ruled = np.flatnonzero((robots == Robots.RULES) & (whole == 0) & (opens <= now))
    # A Python loop per host with rules: they are looked up and matched one host at a time.
    for at, record in zip(ruled.tolist(), records_of(states.take(ruled)), strict=True):
        part = slice(hosts.starts[at], hosts.ends[at])
        _apply_rules(links, fate, np.flatnonzero(fate[part] == 0) + part.start, int(room[at]), record, policy)
    going = fate == 0
    before = np.cumsum(going) - going  # rows that may go, of hosts before and of this one
    surplus = before - hosts.spread(before[hosts.starts]) - hosts.spread(room)
    late = going & (surplus >= 0)
    fate[late] = hosts.spread(np.where(probed(states), RESTS, CALENDAR).astype(np.int16))[late]
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
            "priority": links["priority"][first],
            "origin": origins.take(runs),
            **{name: hosts.states[name][runs] for name in STATE},
        }
    )
    reasons = [Reason(value) for value in fate[left].tolist()]
    rests = fate[later] == RESTS
    return Verdicts(links.filter(go), index, links.filter(later), due[later], rests, links.filter(left), reasons)
