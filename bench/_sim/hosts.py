"""The hosts in memory of a simulated crawl: irlcrawl/frontier/dispatch.py's part, with visits as rows of columns.

The clocks are the crawler's own (politeness.py), asked as the crawler asks them. Names resolve at once, and what is
wrong with a host is known from the web's arithmetic; what the frontier learns from it, and when, is as in a real crawl.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import cast

import numpy as np
from numpy.typing import NDArray

from bench._sim.fetch import RETRIES_MAX, Leased
from drum import Batch
from irlcrawl.clock import VirtualClock
from irlcrawl.config import Config
from irlcrawl.frontier.bulk import BulkPoliteness
from irlcrawl.frontier.clocks import Clocks
from irlcrawl.frontier.gates import NONE, Flag
from irlcrawl.frontier.handover import Handover
from irlcrawl.frontier.hosts import HostRecord, records_of
from irlcrawl.frontier.loads import Loads
from irlcrawl.frontier.politeness import HostEntry, Outcome, State
from irlcrawl.frontier.runs import ReadyHost, Runs
from irlcrawl.frontier.visits import Host, Withdrawal
from irlcrawl.frontier.workbench import VISIT_SECONDS_LEAST
from irlcrawl.rows import Reason, Robots
from tools.simweb.answers import Fault
from tools.simweb.web import Web

DEAD_S = 3600.0
ROW_BITS, ROW_MASK = np.uint64(32), np.uint64(0xFFFFFFFF)
OUTCOMES: tuple[Outcome, ...] = ("failed", "throttled", "ok")
SILENT = frozenset((Fault.CONNECT.value, Fault.TIMEOUT.value))
"""Faults of hosts that answer nothing: a visit ends with its first request."""


class SimHost(Host):
    """A host with URLs in runs, and what is wrong with it."""

    __slots__ = ("fault",)

    def __init__(self, record: HostRecord, fault: int, key: int, site: int, address: str) -> None:
        # Those of Host and HostEntry, one by one: a hundred thousand are made, and passing on by name is half of it.
        self.key, self.name, self.scheme, self.port, self.site = key, "", "http", 80, site
        self.address, self.address_until, self.crawl_delay = address, np.inf, record.crawl_delay
        self.gap_floor, self.errand, self.state, self.number = None, None, State.IDLE, NONE
        self.record, self.runs, self.rows, self.worker, self.dns_failures = record, [], 0, -1, 0
        self.fault = fault

    @property
    def clock_host(self) -> int:
        """Its own: no host here answers to two schemes."""
        return self.key


@dataclass
class Ends:
    """Visits that are over, a row each."""

    now: float
    spent: NDArray[np.float64]  # seconds
    requests: NDArray[np.int64]  # robots.txt not counted
    bad: NDArray[np.int64]  # of OUTCOMES
    last: NDArray[np.float64]  # seconds of the last exchange
    asks: NDArray[np.bool_]  # for robots.txt, too
    denied: NDArray[np.bool_]  # which nobody could read
    delay: NDArray[np.float32]  # Crawl-delay


def _urls_of(hosts: Sequence[HostEntry]) -> list[int]:
    """For one visit."""
    some = cast(Sequence[SimHost], hosts)
    return [1 if host.fault in SILENT else host.runs[0].end - host.runs[0].at for host in some]


def _records(ready: list[ReadyHost]) -> list[HostRecord]:
    """What a turn's index says of each host."""
    records: list[HostRecord] = []
    for _, some in groupby(ready, key=lambda one: id(one.state)):  # a turn brings few indices, one after the other
        part = list(some)
        records += records_of(part[0].state.take(np.array([one.row for one in part])))
    return records


class Leases:
    """What a lease needs of the URLs in ready segments that are not done, in one table: a row each, by segment and row.

    Hosts with many URLs keep a few rows of old segments alive, so only those rows are kept."""

    COLUMNS = ("key", "depth", "attempt")

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._place = np.zeros(0, np.uint64)  # ascending
        self._rows = Batch({"key": np.zeros(0, np.uint64), "depth": np.zeros(0, np.uint16),
                            "attempt": np.zeros(0, np.uint8)})  # fmt: skip

    def __len__(self) -> int:
        return len(self._place)

    def bring(self, numbers: Iterable[int]) -> None:
        """New segments; what was done meanwhile is forgotten."""
        segments, starts = np.unique(self._place >> ROW_BITS, return_index=True)
        ends = np.append(starts, len(self))[1:]
        left = [self._left(*part) for part in zip(segments.tolist(), starts, ends, strict=True)]
        kept = np.concatenate([np.zeros(0, np.int64), *left])
        places, rows = [self._place[kept]], [self._rows.take(kept)]
        for number in sorted(numbers):
            section = self._runs._section(number)
            places.append(_places(np.uint64(number), np.arange(section.rows)))
            rows += section.scan(self.COLUMNS)
        self._place, self._rows = np.concatenate(places), Batch.concat(rows)

    def _left(self, number: int, start: int, end: int) -> NDArray[np.int64]:
        """Which of the rows from start to end, those of a segment, are not done."""
        segment = self._runs._segments.get(number)
        if segment is None:  # wholly done
            return np.zeros(0, np.int64)
        return start + np.flatnonzero(~segment.done[self._place[start:end] & ROW_MASK])

    def take(self, segment: NDArray[np.int64], row: NDArray[np.int64]) -> Batch:
        return self._rows.take(np.searchsorted(self._place, _places(segment.astype(np.uint64), row)))


def _places(segment: NDArray[np.uint64] | np.uint64, row: NDArray[np.int64]) -> NDArray[np.uint64]:
    return (segment << ROW_BITS) | row.astype(np.uint64)


class Hosts:
    """Runs in, leased rows out."""

    def __init__(self, web: Web, config: Config, clock: VirtualClock, runs: Runs) -> None:
        self.web, self.config, self.clock, self.runs = web, config, clock, runs
        self.clocks = Clocks(config.frontier.hosts_active_max)
        self.polite = BulkPoliteness(clock, config.politeness, self.clocks)
        self.hosts: dict[int, SimHost] = {}
        self.loads = Loads(config, clock, self.polite, self.hosts)
        self.handover = Handover()
        self.leases = Leases(runs)

    # -- for the turn ----------------------------------------------------------------------------------------------

    def bring(self, ready: list[ReadyHost]) -> None:
        """The runs of a turn."""
        self.loads.arrived()
        if not ready:
            return
        self.leases.bring({one.run.segment for one in ready})
        numbers = self.web.keyed_hosts(np.array([one.key for one in ready], np.uint64))
        facts = zip(_records(ready), self.web.fault(numbers).tolist(), self.web.address(numbers).tolist(), strict=True)
        hosts, come = [], []
        for one, (record, fault, address) in zip(ready, facts, strict=True):  # a Python loop per run: each is an object
            host = self.hosts.get(one.key)
            if host is None:
                newer = self.handover.learnt(one.key)
                host = self.hosts[one.key] = SimHost(newer or record, fault, one.key, one.site, str(address))
                come.append(host)
            host.runs.append(one.run)
            hosts.append(host)
        self.loads.count_all(hosts, [one.run.end - one.run.at for one in ready])
        now = self.clock.now()
        for host in come:
            if host.fault == Fault.DNS:
                host.record.dead, host.record.dead_until = Reason.DNS, now + DEAD_S
                self._leave(host, Reason.DNS)
        horizon = now + self.config.politeness.horizon_seconds
        come = [host for host in come if host.fault != Fault.DNS]
        for host, due in zip(come, self.polite.activate_all(come), strict=True):
            if due > horizon:
                self._leave(host, Reason.OK, due)

    # -- visits ------------------------------------------------------------------------------------------------------

    def visit(self, allowance: int) -> tuple[Leased | None, int]:
        """Let workers visit what may be visited now, at most about `allowance` URLs, and take in what came of it.
        Returns the URLs that are done and the requests that were made (robots.txt among them)."""
        visits = self.polite.pop_all(allowance, _urls_of)
        if not visits:
            return None, 0
        entries = [cast(SimHost, entry) for entry, _ in visits]
        runs = [(entry.runs[0].segment, entry.runs[0].at, urls) for entry, urls in visits]  # type: ignore[attr-defined]
        return self._fetch(entries, np.array(runs, np.int64))

    def _fetch(self, entries: list[SimHost], runs: NDArray[np.int64]) -> tuple[Leased, int]:
        now, web = self.clock.now(), self.web
        segment, at, count = runs.T
        visit = np.repeat(np.arange(len(runs)), count)
        starts = np.cumsum(count) - count
        row = (at - starts)[visit] + np.arange(len(visit))
        urls = self.leases.take(segment[visit], row)
        pages = web.keyed(urls["key"])
        hosts = web.keyed_hosts(np.array([entry.key for entry in entries], np.uint64))
        rules = web.robots(hosts)
        faults = np.array([entry.fault for entry in entries], np.uint8)
        code, took = web.replies(pages, urls["attempt"], faults, hosts, visit)
        asks = np.array([not entry.record.robots or entry.record.robots_until <= now for entry in entries])
        denied = asks & (rules["state"] == Robots.DENY)
        allowed = web.permitted(pages, rules.take(visit))
        status = np.where(allowed, code, 0).astype(np.int16)
        seconds = np.where(allowed, took, 0.0)
        bad = np.minimum.reduceat(np.where(status == 503, 1, np.where(status < 0, 0, 2)), starts)
        ends = Ends(
            now=now, spent=np.add.reduceat(seconds, starts), requests=np.add.reduceat(allowed, starts, dtype=np.int64),
            bad=bad, last=seconds[starts + count - 1], asks=asks, denied=denied, delay=rules["crawl_delay"],
        )  # fmt: skip
        self._ended(entries, count, ends)
        done = ~denied[visit]
        base = self.config.politeness.retry_delay_seconds
        again_at = now + base * 3.0 ** urls["attempt"]
        leased = Leased(
            segment[visit].astype(np.uint32), row.astype(np.uint32), urls["key"], urls["depth"], urls["attempt"],
            status, again_at,
        )  # fmt: skip
        return (leased if done.all() else leased.filter(done)), int((allowed & done).sum())

    def _ended(self, entries: list[SimHost], count: NDArray[np.int64], ends: Ends) -> None:
        """Visits of `count` URLs are over."""
        self._learn(entries, ends)
        ended = ends.now + ends.spent
        for place in np.flatnonzero(ends.requests > 1).tolist():
            ended[place] += self.polite.gap_for(entries[place]) * float(ends.requests[place] - 1)
        done = np.where(ends.denied, 0, count).tolist()
        for entry, rows in zip(entries, done, strict=True):
            run = entry.runs[0]
            run.at += rows
            if run.at >= run.end:
                del entry.runs[0]
        self.loads.count_all(entries, [-rows for rows in done])
        asked = zip(ends.asks.tolist(), ends.delay.tolist(), strict=True)
        dues = self.polite.release_all(
            entries, ended=ended, fetch_s=ends.last, requests=ends.requests + ends.asks,
            outcomes=[OUTCOMES[bad] for bad in ends.bad.tolist()],
            crawl_delays=[delay if asks else None for asks, delay in asked],
            again=[bool(entry.runs) for entry in entries],
        )  # fmt: skip
        for entry, due, denied in zip(entries, dues, ends.denied.tolist(), strict=True):
            if entry.runs:
                self._settle(entry, ends.now, due, denied)
            else:
                self.hosts.pop(entry.key, None)

    def _learn(self, entries: list[SimHost], ends: Ends) -> None:
        """What visits said of their hosts, whose records are objects."""
        now, robots, learn = ends.now, self.config.robots, self.handover.learn
        facts = (part.tolist() for part in (ends.bad, ends.requests, ends.asks, ends.denied, ends.delay))
        for host, bad, requests, asks, denied, delay in zip(entries, *facts, strict=True):
            record = host.record
            if asks and bad:
                state = Robots.DENY if denied else Robots.ALLOW  # rules are applied where the URL is asked for
                until = now + (robots.deny_seconds if denied else robots.fresh_seconds)
                record.learn_robots(state, until, None, delay)
                learn(host)
            if not bad:
                record.failed(now)
                learn(host)
            elif requests:
                record.answered(now)

    def _settle(self, host: SimHost, now: float, due: float, denied: bool) -> None:
        """A host with URLs left, after a visit: does it stay?"""
        record = host.record
        if denied:
            gone = record.denials > self.config.politeness.retries_max
            self._leave(host, Reason.ROBOTS_UNREACHABLE if gone else Reason.OK, max(due, record.robots_until))
        elif record.failures > RETRIES_MAX and not record.answered_at:
            record.dead, record.dead_until = Reason.CONNECT, now + DEAD_S
            self._leave(host, Reason.CONNECT)
        elif due > now + self.config.politeness.horizon_seconds:
            self._leave(host, Reason.OK, due)

    def _leave(self, host: Host, reason: Reason, due: float = 0.0) -> None:
        """Its URLs go: for good, or into the calendar."""
        least = max(self.config.politeness.gap_host_seconds, host.record.crawl_delay)
        gap = self.polite.gap_for(host) if host.state != State.IDLE else least
        self.handover.withdraw(Withdrawal(list(host.runs), reason, due, gap))
        self.loads.count(host, -host.rows)
        host.runs.clear()
        self.handover.learn(host)
        self._forget(host)

    def _forget(self, host: Host) -> None:
        self.polite.deactivate(host)
        self.hosts.pop(host.key, None)

    # -- looking ahead -----------------------------------------------------------------------------------------------

    def startable(self, within_s: float) -> int:
        """As Politeness.ready_pairs without a limit, over columns: what is asked for once a turn is of all hosts."""
        bench, horizon = self.polite._bench, self.clock.now() + within_s
        next_, held, gap, backoff, first, flags = (
            np.array(getattr(self.clocks, name)) for name in ("next", "held", "gap", "backoff", "first", "flags")
        )
        free = (held == 0) & (next_ <= horizon)
        gates = np.flatnonzero(free & (first != NONE) & (flags & Flag.ARMED > 0))
        pause = np.maximum(gap, backoff)
        left = horizon - np.maximum(horizon - within_s, next_)
        starts = 1 + (left / np.where(pause > 0, pause, VISIT_SECONDS_LEAST)).astype(np.int64)
        several = [gate for gate in gates[starts[gates] > 1].tolist() if gate in bench._behind]
        others = [list(bench._some(gate, int(starts[gate])))[1:] for gate in several]
        hosts = np.concatenate([first[gates], *others]).astype(np.int64)
        address = np.array(bench.address_gate, np.int64)[hosts]
        hosts, address = hosts[free[address]], address[free[address]]
        several_here = (np.bincount(address, minlength=len(starts)) > 1)[address]
        alone = int(len(address) - several_here.sum())
        hosts, address = hosts[several_here], address[several_here]
        sites = np.array([entry.site for entry in bench.entries_of(hosts)], np.uint64)
        order = np.lexsort((sites, address))
        sites, address = sites[order], address[order]
        distinct = np.ones(len(sites), np.bool_)
        distinct[1:] = (sites[1:] != sites[:-1]) | (address[1:] != address[:-1])
        visits = np.bincount(address[distinct], minlength=len(starts))
        return alone + int(np.minimum(visits, starts)[visits > 0].sum())
