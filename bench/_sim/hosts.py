"""The hosts in memory of a simulated crawl, as Dispatcher has them, with hosts and visits as columns.

The clocks are the crawler's own (polite.py). Names resolve at once, and what is wrong with a host is known from the
web's arithmetic; what the frontier learns from it, and when, is as in a real crawl. A host is its number among the
crawler's waiting hosts from the turn that brings it until it leaves: nothing here is an object per host or run, but
those few that leave with URLs in runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from drum import Batch

import numpy as np
from numpy.typing import NDArray

from bench._sim.fetch import Leased
from bench._sim.leases import Leases, RunQueues
from bench._sim.polite import PoliteColumns
from bench._sim.records import FAILURE, Records, failed, rests_after
from bench._sim.table import Table
from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.reasons import Reason
from irlcrawl.base.rows import Robots
from irlcrawl.config.keys import Config
from irlcrawl.config.rests import failures_till_given_up, rests_of_hosts, rests_of_urls
from irlcrawl.frontier.dispatch.handover import Handover
from irlcrawl.frontier.dispatch.loads import InMemory, loads_of
from irlcrawl.frontier.politeness.clocks import Clocks, Flag, Kind
from irlcrawl.frontier.politeness.columns import NONE, view
from irlcrawl.frontier.politeness.gaps import FAILED, OK, THROTTLED
from irlcrawl.frontier.politeness.queues import VISIT_SECONDS_LEAST
from irlcrawl.frontier.state.hosts import STATE, probed
from irlcrawl.frontier.state.runs import WORTH, ReadyRuns, Run, Runs, Withdrawal
from irlcrawl.frontier.turn.release import HostLoads
from tools.simweb.answers import Fault
from tools.simweb.web import Web

I8s = NDArray[np.int64]
F8s = NDArray[np.float64]
Bools = NDArray[np.bool_]
SILENT = (Fault.CONNECT, Fault.TIMEOUT)
"""Faults of hosts that answer nothing: a visit ends with its first request."""
FACTS = {"key": "u8", "site": "u8", "fault": "u1", "silent": "?", "crawl_delay": "f8", "rows": "i8"}
"""Of a host in memory; silent: its fault is of SILENT; rows: its URLs in runs that are not done."""


@dataclass
class Ends:
    """Visits that are over, a row each."""

    now: float
    spent: F8s  # seconds
    requests: I8s  # robots.txt not counted
    outcomes: I8s  # of gaps.OUTCOMES
    last: F8s  # seconds of the last exchange
    asks: Bools  # for robots.txt, too
    denied: Bools  # which nobody could read
    delay: NDArray[np.float32]  # Crawl-delay


class Hosts:
    """Runs in, leased rows out."""

    def __init__(self, web: Web, config: Config, clock: VirtualClock, runs: Runs) -> None:
        self.web, self.config, self.clock = web, config, clock
        self.clocks = Clocks(config.frontier.hosts_active_max)
        self.polite = PoliteColumns(clock, config.politeness, self.clocks)
        self.handover = Handover()
        self.records = Records()
        self.leases = Leases(runs)
        self._queues = RunQueues()
        self._rests = rests_of_hosts(config.politeness)
        self._failures_max = failures_till_given_up(config.politeness)
        self._dead_s = config.politeness.host_dead_hours * 3600
        self._facts = Table(FACTS)
        self._of_clock = Table({"host": "i8"})  # by the clock of its name, while it is in memory
        self._at_address = Table({"rows": "i8"})  # URLs in runs, by the clock of an address
        self._count = self._newcomers = 0

    def __len__(self) -> int:
        return self._count

    def _own_gaps(self, hosts: I8s) -> F8s:
        return np.maximum(self.config.politeness.gap_host_seconds, self._facts["crawl_delay"][hosts])

    def _urls_of(self, hosts: I8s) -> I8s:
        """For one visit."""
        _, at, end = self._queues.first(hosts)
        return np.where(self._facts["silent"][hosts], 1, end - at)

    def _count_rows(self, hosts: I8s, rows: I8s) -> None:
        """So many more URLs wait in runs."""
        if len(hosts):
            self._facts["rows"][hosts] += rows
            np.add.at(self._at_address["rows"], self.polite.address_clocks(hosts), rows)

    # -- for the turn ----------------------------------------------------------------------------------------------

    def bring(self, ready: list[ReadyRuns]) -> None:
        """The runs of a turn."""
        self._newcomers = 0
        self.leases.bring([part.segment for part in ready])
        for part in ready:
            self._bring(part.segment, part.index)

    def _bring(self, segment: int, index: Batch) -> None:
        start, rows = index["start"].astype(np.int64), index["rows"].astype(np.int64)
        hosts = self._find(index["key"])
        new = np.flatnonzero(hosts == NONE)
        numbers = self.web.keyed_hosts(index["key"][new])
        known = self.records.newest(index["key"][new], index.select([*STATE]).take(new))
        fault = self.web.fault(numbers)
        named = fault != Fault.DNS
        come, lost = new[named], new[~named]
        worth = WORTH[index["priority"]]
        hosts[come], dues = self._enter(
            known.filter(named), index["site"][come], fault[named], numbers[named], worth[come]
        )
        there = np.flatnonzero(hosts != NONE)
        self._queues.add(hosts[there], segment, start[there], (start + rows)[there], worth[there])
        self._count_rows(hosts[there], rows[there])
        runs = [Run(segment, at, at + many) for at, many in zip(start[lost].tolist(), rows[lost].tolist())]
        self._lose(runs, known.filter(~named))
        now, rests = self.clock.now(), self.records["rests_until"][hosts[come]]
        late = (dues > now + self.config.politeness.horizon_seconds) | (rests > now)
        dues = np.maximum(dues, rests)
        self._leave(hosts[come[late]], np.full(int(late.sum()), Reason.OK), dues[late])

    def _find(self, keys: NDArray[np.uint64]) -> I8s:
        """The numbers of hosts in memory, NONE for others: whose clock somebody uses is here."""
        clocks = self.clocks.table.find_many(Kind.HOST, keys)
        hosts = np.full(len(clocks), NONE)
        here = np.flatnonzero(clocks != NONE)
        if len(here):
            here = here[view(self.clocks.table.users)[clocks[here]] > 0]
        hosts[here] = self._of_clock["host"][clocks[here]]
        return hosts

    def _enter(self, known: Batch, sites: NDArray[np.uint64], faults: NDArray[np.uint8],
               numbers: NDArray[np.uint64], worths: NDArray[np.uint8]) -> tuple[I8s, F8s]:  # fmt: skip
        """Hosts come into memory: their numbers, and when they are due."""
        keys, delays = known["key"], known["crawl_delay"].astype(np.float64)
        if not len(keys):
            return np.zeros(0, np.int64), np.zeros(0)
        addresses, which = np.unique(self.web.address(numbers), return_inverse=True)
        floors = np.full(len(keys), self.config.politeness.gap_host_seconds)
        hosts, dues = self.polite.come(keys, sites, floors, [str(one) for one in addresses.tolist()], which, worths)
        self._facts.reach(int(hosts.max()) + 1)
        facts = (keys, sites, faults, np.isin(faults, SILENT), delays, 0)
        for name, column in zip(FACTS, facts, strict=True):
            self._facts[name][hosts] = column
        for table in (self._of_clock, self._at_address):
            table.reach(len(self.clocks.table.kind))
        self._of_clock["host"][view(self.polite.waiting.host_clock)[hosts]] = hosts
        self.records.put(hosts, known)
        self._queues.come(hosts)
        self._count += len(hosts)
        return hosts, dues

    def _lose(self, runs: list[Run], known: Batch) -> None:
        """Runs of hosts that have no address, and what is known of them: as Dispatcher._unresolved."""
        now = self.clock.now()
        columns = {
            name: column.astype(known[name].dtype)
            for name, column in failed({name: known[name] for name in FAILURE}, now, self._rests).items()
        }
        columns["order"] = np.where(known["order"] > 0, known["order"], self.records.next_news(known.rows))
        dead = (columns["failures"] >= self._failures_max) & (now - columns["failed_since"] >= self._dead_s)
        columns["dead"] = np.where(dead, Reason.DNS, known["dead"]).astype(np.uint8)
        columns["dead_until"] = np.where(dead, now + self._dead_s, known["dead_until"])
        reasons, dues = np.where(dead, Reason.DNS, Reason.OK).tolist(), columns["rests_until"].tolist()
        for run, reason, due in zip(runs, reasons, dues, strict=True):
            self.handover.withdraw(Withdrawal([run], Reason(reason), due, rests=True))
        self.records.put_aside(known.with_(**columns))

    def loads(self, keys: NDArray[np.uint64], states: Batch) -> HostLoads:
        """As Loads.of."""
        now, polite = self.clock.now(), self.polite
        known = InMemory.nobody(self.config, now, states)
        hosts = self._find(keys)
        here = np.flatnonzero(hosts != NONE)
        if len(here):
            hosts = hosts[here]
            known.gap[here] = gap = polite.gaps_of(hosts, self._own_gaps(hosts))
            at_address = self._at_address["rows"][address := polite.address_clocks(hosts)]
            paced = view(self.clocks.table.flags)[address] & Flag.PACED > 0
            at_address = np.where(paced, at_address * view(self.clocks.table.gap)[address] / gap, at_address)
            known.unknown[here], known.rows[here] = False, np.maximum(self._facts["rows"][hosts], at_address)
            known.due[here] = polite.waiting.due_many(hosts)
        loads = loads_of(self.config, now, known, self._count + self._newcomers)
        self._newcomers += len(keys) - len(here)
        return loads

    # -- visits ------------------------------------------------------------------------------------------------------

    def visit(self, allowance: int) -> tuple[Leased | None, int]:
        """Let workers visit what may be visited now, at most about `allowance` URLs, and take in what came of it.
        Returns the URLs that are done and the requests that were made (robots.txt among them)."""
        hosts, urls = self.polite.begin_many(allowance, self._own_gaps, self._urls_of)
        return self._fetch(hosts, urls) if len(hosts) else (None, 0)

    def _fetch(self, entries: I8s, count: I8s) -> tuple[Leased, int]:
        now, web = self.clock.now(), self.web
        segment, at, _ = self._queues.first(entries)
        visit = np.repeat(np.arange(len(count)), count)
        starts = np.cumsum(count) - count
        row = (at - starts)[visit] + np.arange(len(visit))
        urls = self.leases.take(segment[visit], row)
        pages = web.keyed(urls["key"])
        hosts = web.keyed_hosts(self._facts["key"][entries])
        rules = web.robots(hosts)
        code, took = web.replies(pages, urls["attempt"], self._facts["fault"][entries], hosts, visit)
        robots, until = self.records["robots"][entries], self.records["robots_until"][entries]
        asks = (robots == Robots.UNKNOWN) | (until <= now)
        denied = asks & (rules["state"] == Robots.DENY)
        allowed = web.permitted(pages, rules.take(visit))
        status = np.where(allowed, code, 0).astype(np.int16)
        seconds = np.where(allowed, took, 0.0)
        worst = np.where(status == 503, THROTTLED, np.where(status < 0, FAILED, OK))
        ends = Ends(
            now=now, spent=np.add.reduceat(seconds, starts), requests=np.add.reduceat(allowed, starts, dtype=np.int64),
            outcomes=np.maximum.reduceat(worst, starts), last=seconds[starts + count - 1], asks=asks, denied=denied,
            delay=rules["crawl_delay"],
        )  # fmt: skip
        self._ended(entries, count, ends, WORTH[urls["priority"][starts + count - 1]])
        done = ~denied[visit]
        again_at = now + rests_after(rests_of_urls(self.config.politeness), urls["attempt"].astype(np.int64) + 1)
        leased = Leased(
            segment[visit].astype(np.uint32), row.astype(np.uint32), urls["key"], urls["depth"], urls["attempt"],
            status, again_at,
        )  # fmt: skip
        return (leased if done.all() else leased.filter(done)), int((allowed & done).sum())

    def _ended(self, hosts: I8s, count: I8s, ends: Ends, worth: NDArray[np.uint8]) -> None:
        """Visits of `count` URLs are over, the last of which had this worth."""
        self._learn(hosts, ends)
        own = self._own_gaps(hosts)
        ended = ends.now + ends.spent + self.polite.gaps_of(hosts, own) * np.maximum(ends.requests - 1, 0)
        done = np.where(ends.denied, 0, count)
        left = self._queues.advance(hosts, done, worth)
        worths = np.zeros(len(hosts), np.uint8)
        worths[left] = self._queues.worth(hosts[left])
        self._count_rows(hosts, -done)
        delay = self._facts["crawl_delay"]
        delay[hosts] = np.where(ends.asks, ends.delay, delay[hosts])
        dues = self.polite.end_many(
            hosts, ended=ended, fetch_s=ends.last, requests=ends.requests + ends.asks, outcomes=ends.outcomes,
            floors=np.full(len(hosts), self.config.politeness.gap_host_seconds), crawl_delays=delay[hosts], again=left,
            worths=worths, sites=self._facts["site"][hosts],
        )  # fmt: skip
        died = self._judge(hosts, ends, dues)
        self._settle(hosts[left], ends.now, dues[left], ends.denied[left], died[left])
        self._forget(hosts[~left])

    def _learn(self, hosts: I8s, ends: Ends) -> None:
        """What visits said of their hosts."""
        now, robots = ends.now, self.config.robots
        failed = ends.outcomes == FAILED
        refused = _refused(ends)
        read, answered = ends.asks & ~failed, ~failed & ~refused & (ends.requests > 0)
        denied = ends.denied[read]
        state = np.where(denied, Robots.DENY, Robots.ALLOW).astype(np.uint8)
        rest = rests_after(self._rests, self.records["denials"][hosts[read]].astype(np.int64) + 1)
        until = now + np.where(denied, rest, robots.fresh_seconds)
        back = answered & ((self.records["rests_until"][hosts] > 0) | (self.records["failures"][hosts] > 0))
        self.records.learn_robots(hosts[read], state, until, ends.delay[read])
        self.records.failed(hosts[failed], now, self._rests, Reason.CONNECT)
        self.records.refused(hosts[refused], now, Reason.THROTTLED)
        self.records.answered(hosts[answered], now)
        self.records.learn(hosts[read | failed | refused | back])

    def _judge(self, hosts: I8s, ends: Ends, due: F8s) -> I8s:
        """As Dispatcher._settle, of what it means for a host's record: the reason for which it is dead now, or OK."""
        known, now = self.records, ends.now
        in_vain, bad = (ends.outcomes == FAILED) | _refused(ends), ends.outcomes != OK
        dead = in_vain & (known["failures"][hosts] >= self._failures_max)
        dead &= now - known["failed_since"][hosts] >= self._dead_s
        answered = known["answered_at"][hosts] > 0
        for reason, some in ((Reason.CONNECT, hosts[dead & ~answered]), (Reason.HOST_DEAD, hosts[dead & answered])):
            known.died(some, reason, now + self._dead_s)
        rests = bad & ~dead & (due > now + self.config.politeness.horizon_seconds)
        for outcome, reason in ((FAILED, Reason.CONNECT), (THROTTLED, Reason.THROTTLED)):
            some = rests & (ends.outcomes == outcome)
            known.rest(hosts[some], due[some], reason)
        known.learn(hosts[rests])
        return np.where(dead, known["dead"][hosts], Reason.OK).astype(np.int64)

    def _settle(self, hosts: I8s, now: float, due: F8s, denied: Bools, died: I8s) -> None:
        """Hosts with URLs left, after a visit: do they stay?"""
        known = self.records
        refused = denied & (known["denials"][hosts] >= self._failures_max)
        rests = known["rests_until"][hosts]
        far = due > now + self.config.politeness.horizon_seconds
        due = np.maximum(due, np.where(denied, np.maximum(known["robots_until"][hosts], rests), rests))
        reason = np.where(died > 0, died, np.where(refused, Reason.ROBOTS_UNREACHABLE, Reason.OK))
        leave = denied | (died > 0) | far | (rests > now)
        self._leave(hosts[leave], reason[leave], due[leave])

    def _leave(self, hosts: I8s, reasons: I8s, dues: F8s) -> None:
        """Their URLs go: for good, into the calendar, or into the rests."""
        if not len(hosts):
            return
        rests = probed(Batch({name: self.records[name][hosts] for name in STATE}))
        gaps = np.where(rests, 0.0, self.polite.gaps_in_visit(hosts, self._own_gaps(hosts)))
        facts = (column.tolist() for column in (hosts, reasons, dues, gaps, rests))
        for host, reason, due, gap, rest in zip(*facts, strict=True):  # few, and to the turn each is an object
            self.handover.withdraw(Withdrawal(self._queues.take(host), Reason(reason), due, gap, rest))
        self._count_rows(hosts, -self._facts["rows"][hosts])
        self.records.learn(hosts)
        self.polite.leave_many(hosts)
        self._forget(hosts)

    def _forget(self, hosts: I8s) -> None:
        """They are no longer in memory."""
        self.records.put_away(hosts)
        self._count -= len(hosts)

    # -- looking ahead -----------------------------------------------------------------------------------------------

    def startable(self, within_s: float) -> int:
        """As Politeness.ready_pairs without a limit, over columns: what is asked for once a turn is of all hosts."""
        waiting, horizon = self.polite.waiting, self.clock.now() + within_s
        next_, held, gap, backoff, first, flags = (
            np.array(getattr(self.clocks.table, name)) for name in ("next", "held", "gap", "backoff", "first", "flags")
        )
        free = (held == 0) & (next_ <= horizon)
        clocks = np.flatnonzero(free & (first != NONE) & (flags & Flag.ARMED > 0))
        pause = np.maximum(gap, backoff)
        left = horizon - np.maximum(horizon - within_s, next_)
        starts = 1 + (left / np.where(pause > 0, pause, VISIT_SECONDS_LEAST)).astype(np.int64)
        queues = np.array(waiting.queue_clock, np.int64)
        long = np.bincount(queues[queues != NONE], minlength=len(starts))[clocks] > 1
        several = clocks[long & (starts[clocks] > 1)]
        fronts = (waiting.front(clock, count) for clock, count in zip(several.tolist(), starts[several].tolist()))
        others = [host for front in fronts for host in islice(front, 1, None)]
        hosts = np.concatenate([first[clocks], others]).astype(np.int64)
        address = self.polite.address_clocks(hosts)
        hosts, address = hosts[free[address]], address[free[address]]
        several_here = (np.bincount(address, minlength=len(starts)) > 1)[address]
        alone = int(len(address) - several_here.sum())
        hosts, address = hosts[several_here], address[several_here]
        sites = self._facts["site"][hosts]
        order = np.lexsort((sites, address))
        sites, address = sites[order], address[order]
        distinct = np.ones(len(sites), np.bool_)
        distinct[1:] = (sites[1:] != sites[:-1]) | (address[1:] != address[:-1])
        visits = np.bincount(address[distinct], minlength=len(starts))
        return alone + int(np.minimum(visits, starts)[visits > 0].sum())


def _refused(ends: Ends) -> Bools:
    """Visits that brought nothing but a 503."""
    return (ends.outcomes == THROTTLED) & (ends.requests == 1)
