"""The hosts in memory of a simulated crawl: irlcrawl/frontier/dispatch.py's part, with visits as rows of columns.

The clocks are the crawler's own (politeness.py), asked as the crawler asks them. Names resolve at once, and what is
wrong with a host is known from the web's arithmetic; what the frontier learns from it, and when, is as in a real crawl.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench._sim.fetch import RETRIES_MAX, Leased
from drum import Batch
from irlcrawl.clock import VirtualClock
from irlcrawl.config import Config
from irlcrawl.frontier.clocks import Clocks
from irlcrawl.frontier.hosts import HostRecord, records_of, state_batch
from irlcrawl.frontier.politeness import HostEntry, Politeness, State
from irlcrawl.frontier.release import HostLoad
from irlcrawl.frontier.runs import ReadyHost, Run, Runs
from irlcrawl.frontier.visits import Withdrawal
from irlcrawl.rows import LINK, Reason, Robots
from tools.simweb.answers import Fault
from tools.simweb.web import Web

DEAD_S = 3600.0


class SimHost(HostEntry):
    """A host with URLs in runs."""

    __slots__ = ("fault", "record", "rows", "runs")

    def __init__(self, record: HostRecord, fault: int, **known: Any) -> None:
        super().__init__(**known)
        self.record, self.fault = record, fault
        self.runs: deque[Run] = deque()
        self.rows = 0

    @property
    def clock_host(self) -> int:
        """Its own: no host here answers to two schemes."""
        return self.key


class Hosts:
    """Runs in, leased rows out."""

    def __init__(self, web: Web, config: Config, clock: VirtualClock, runs: Runs) -> None:
        self.web, self.config, self.clock, self.runs = web, config, clock, runs
        self.clocks = Clocks(config.frontier.hosts_active_max)
        self.polite = Politeness(clock, config.politeness, self.clocks)
        self.hosts: dict[int, SimHost] = {}
        self.address_rows: dict[str, int] = {}
        self._segments: dict[int, Batch] = {}
        self._dirty: dict[int, HostRecord] = {}
        self._withdrawn: list[Withdrawal] = []
        self._newcomers = 0

    # -- for the turn ----------------------------------------------------------------------------------------------

    def take_states(self) -> Batch | None:
        if not self._dirty:
            return None
        batch = state_batch(self._dirty.items())
        self._dirty.clear()
        return batch

    def take_withdrawn(self) -> list[Withdrawal]:
        taken, self._withdrawn = self._withdrawn, []
        return taken

    def load(self, key: int, record: HostRecord) -> HostLoad:
        """As Dispatcher.load."""
        now, config = self.clock.now(), self.config
        host = self.hosts.get(key)
        if host is None:
            self._newcomers += 1
            horizons = (len(self.hosts) + self._newcomers - 1) // config.frontier.hosts_active_max
            if horizons:
                due = now + horizons * config.politeness.horizon_seconds
                return HostLoad(0, self._gap_unknown(record), due)
        active = host if host is not None and host.state != State.IDLE else None
        gap = self._gap_unknown(record) if active is None else self.polite.gap_for(active)
        cap = config.frontier.urls_per_host_max
        if gap > 0:
            cap = max(4, min(cap, int(config.politeness.horizon_seconds / gap)))
        rows = 0 if host is None else host.rows
        address = record.address_at(now) if host is None else host.address
        together = max(rows, self.address_rows.get(address, 0)) if address else rows
        due = now if active is None else max(now, self.polite.due(active))
        return HostLoad(room=cap - together, gap=gap, free_at=due + gap * min(cap, together + cap))

    def _gap_unknown(self, record: HostRecord) -> float:
        return max(self.config.politeness.gap_host_seconds, record.crawl_delay)

    def bring(self, ready: list[ReadyHost]) -> None:
        """The runs of a turn."""
        self._newcomers = 0
        if not ready:
            return
        for number in {one.run.segment for one in ready}:
            parts = [batch.select(["key", "depth", "attempt"]) for batch in self.runs._section(number).scan()]
            self._segments[number] = Batch.concat(parts)
        hosts = self.web.keyed_hosts(np.array([one.key for one in ready], np.uint64))
        facts = zip(self.web.fault(hosts).tolist(), self.web.address(hosts).tolist(), strict=True)
        known: dict[int, list[HostRecord]] = {}
        for one, (fault, address) in zip(ready, facts, strict=True):  # a Python loop per run: each becomes an object
            records = known.get(id(one.state)) or known.setdefault(id(one.state), records_of(one.state))
            self._bring(one, records[one.row], fault, f"10.{address >> 16}.{address >> 8 & 255}.{address & 255}")

    def _bring(self, one: ReadyHost, record: HostRecord, fault: int, address: str) -> None:
        host = self.hosts.get(one.key)
        if host is None:
            record = self._dirty.get(one.key) or record
            host = self.hosts[one.key] = SimHost(
                record, fault, key=one.key, name="", scheme="http", port=80, site=one.site,
                address=address, address_until=np.inf, crawl_delay=record.crawl_delay,
            )  # fmt: skip
        host.runs.append(one.run)
        self._count(host, one.run.rows)
        if fault == Fault.DNS:
            record.dead, record.dead_until = Reason.DNS, self.clock.now() + DEAD_S
            self._leave(host, Reason.DNS)
        elif host.state == State.IDLE:
            due = self.polite.activate(host)
            if due > self.clock.now() + self.config.politeness.horizon_seconds:
                self._leave(host, Reason.OK, due)

    # -- visits ------------------------------------------------------------------------------------------------------

    def visit(self, allowance: int) -> tuple[Leased | None, int]:
        """Let workers visit what may be visited now, at most about `allowance` URLs, and take in what came of it.
        Returns the URLs that are done and the requests that were made (robots.txt among them)."""
        entries: list[SimHost] = []
        runs: list[tuple[int, int, int]] = []
        left = allowance
        while left > 0:
            entry = self.polite.pop()
            if entry is None:
                break
            assert isinstance(entry, SimHost)
            run = entry.runs[0]
            dumb = entry.fault in (Fault.CONNECT, Fault.TIMEOUT)
            rows = 1 if dumb else min(self.polite.visit_size(entry), run.rows, left)
            entries.append(entry)
            runs.append((run.segment, run.at, rows))
            left -= rows
        if not entries:
            return None, 0
        return self._fetch(entries, np.array(runs, np.int64))

    def _fetch(self, entries: list[SimHost], runs: NDArray[np.int64]) -> tuple[Leased, int]:
        now, web = self.clock.now(), self.web
        segment, at, count = runs.T
        visit = np.repeat(np.arange(len(runs)), count)
        starts = np.cumsum(count) - count
        row = at[visit] + np.arange(len(visit)) - starts[visit]
        columns: dict[str, NDArray[Any]] = {
            name: np.empty(len(row), LINK[name]) for name in ("key", "depth", "attempt")
        }
        of = segment[visit]
        for number in np.unique(of).tolist():
            rows = np.flatnonzero(of == number)
            for name, column in columns.items():
                column[rows] = self._segments[number][name][row[rows]]
        pages = web.keyed(columns["key"])
        answers = web.answers(pages, 0.0, columns["attempt"])
        rules = web.robots(web.keyed_hosts(np.array([entry.key for entry in entries], np.uint64)))
        asks = np.array([entry.record.robots_at(now) is Robots.UNKNOWN for entry in entries])
        denied = asks & (rules["state"] == Robots.DENY)
        allowed = web.allowed(pages)
        status = np.where(allowed, answers["status"], 0).astype(np.int16)
        seconds = np.where(allowed, answers["seconds"], 0.0)
        spent = np.add.reduceat(seconds, starts)
        requests = np.add.reduceat(allowed, starts, dtype=np.int64)
        bad = np.minimum.reduceat(np.where(status == 503, 1, np.where(status < 0, 0, 2)), starts)
        last = seconds[starts + count - 1]
        facts = (part.tolist() for part in (spent, requests, bad, last, count, asks, denied, rules["crawl_delay"]))
        for entry, *fact in zip(entries, *facts, strict=True):  # a visit is an object of the politeness structures
            self._ended(entry, now, *fact)
        done = ~denied[visit]
        base = self.config.politeness.retry_delay_seconds
        leased = Leased(
            of.astype(np.uint32)[done], row.astype(np.uint32)[done], columns["key"][done], columns["depth"][done],
            columns["attempt"][done], status[done], (now + base * 3.0 ** columns["attempt"])[done],
        )  # fmt: skip
        return leased, int((allowed & done).sum())

    def _ended(
        self, host: SimHost, now: float, spent: float, requests: int, bad: int, last: float, rows: int, asks: bool,
        denied: bool, delay: float,
    ) -> None:  # fmt: skip
        """A visit is over."""
        record, outcome = host.record, ("failed", "throttled", "ok")[bad]
        if asks and outcome != "failed":
            before = replace(record)
            state = Robots.DENY if denied else Robots.ALLOW  # rules are applied where the URL is asked for
            config = self.config.robots
            until = now + (config.deny_seconds if denied else config.fresh_seconds)
            record.learn_robots(state, until, None, delay)
            if before != record:
                self._dirty[host.key] = record
        if outcome == "failed":
            record.failed(now)
            self._dirty[host.key] = record
        elif requests:
            record.answered(now)
        gap = self.polite.gap_for(host)
        ended = now + spent + gap * max(requests - 1, 0)
        if not denied:
            run = host.runs[0]
            run.at += rows
            if run.at >= run.end:
                host.runs.popleft()
            self._count(host, -rows)
        due = self.polite.release(
            host, ended=ended, fetch_s=last, requests=requests + asks, outcome=outcome,  # type: ignore[arg-type]
            crawl_delay=delay if asks else None, again=bool(host.runs),
        )  # fmt: skip
        if not host.runs:
            self._forget(host)
        elif denied:
            gone = record.denials > self.config.politeness.retries_max
            self._leave(host, Reason.ROBOTS_UNREACHABLE if gone else Reason.OK, max(due, record.robots_until))
        elif record.failures > RETRIES_MAX and not record.answered_at:
            record.dead, record.dead_until = Reason.CONNECT, now + DEAD_S
            self._leave(host, Reason.CONNECT)
        elif due > now + self.config.politeness.horizon_seconds:
            self._leave(host, Reason.OK, due)

    def _leave(self, host: SimHost, reason: Reason, due: float = 0.0) -> None:
        """Its URLs go: for good, or into the calendar."""
        gap = self.polite.gap_for(host) if host.state != State.IDLE else self._gap_unknown(host.record)
        self._withdrawn.append(Withdrawal(list(host.runs), reason, due, gap))
        self._count(host, -host.rows)
        host.runs.clear()
        self._dirty[host.key] = host.record
        self._forget(host)

    def _forget(self, host: SimHost) -> None:
        self.polite.deactivate(host)
        self.hosts.pop(host.key, None)

    def _count(self, host: SimHost, rows: int) -> None:
        host.rows += rows
        assert host.address is not None
        left = self.address_rows.get(host.address, 0) + rows
        if left > 0:
            self.address_rows[host.address] = left
        else:
            self.address_rows.pop(host.address, None)

    def drop_segments(self, live: set[int]) -> None:
        """Forget the columns of segments that are wholly done."""
        for number in [number for number in self._segments if number not in live]:
            del self._segments[number]


