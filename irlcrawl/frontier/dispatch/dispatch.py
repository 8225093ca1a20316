"""The hosts in memory: from a run on disk to a visit on a worker's pipe, and what a visit's end means for its host.

One `Host` per origin that has URLs in runs. It asks for an address, waits for its clocks in `Politeness`, is leased
for a visit, and goes when its runs are empty or its next time lies beyond the horizon. What it learnt goes back to the
hosts drum with the next turn, and so do URLs that cannot stay in runs (handover.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import cast

from irlcrawl.base.clock import Clock
from irlcrawl.base.reasons import Reason
from irlcrawl.base.rows import Robots
from irlcrawl.base.url import split
from irlcrawl.config.keys import Config
from irlcrawl.config.overrides import Overrides
from irlcrawl.frontier.dispatch.detours import DetourRequests
from irlcrawl.frontier.dispatch.dns import Resolved, ResolveError, Resolver
from irlcrawl.frontier.dispatch.handover import Handover
from irlcrawl.frontier.dispatch.loads import Loads
from irlcrawl.frontier.dispatch.outage import Outage
from irlcrawl.frontier.dispatch.visits import Ending, Host, LeasedVisit, visit_message
from irlcrawl.frontier.dispatch.workers import Fleet, RemoteWorker
from irlcrawl.frontier.politeness.politeness import HostEntry, HostState, Politeness
from irlcrawl.frontier.state.hosts import HostRecord, records_of, worth_a_row
from irlcrawl.frontier.state.lease_log import LeaseLog
from irlcrawl.frontier.state.runs import ReadyHost, ReadyRuns, Run, RunReader, Withdrawal, ready_hosts
from irlcrawl.worker.fetch.wire import Message

NAME_GONE_S = 3600.0
"""How long a name that does not exist is believed not to."""

VISIT_WEIGHT = 1 / 64
"""Of one visit in the running mean of their durations."""


class Dispatcher:
    """Owned by the event loop."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        politeness: Politeness,
        resolver: Resolver,
        runs: RunReader,
        fleet: Fleet,
        leases: LeaseLog,
        overrides: Overrides,
        outage: Outage,
        wake: Callable[[], None],
    ) -> None:
        self._config = config
        self._clock = clock
        self.politeness = politeness
        self.resolver = resolver
        self.runs = runs
        self.fleet = fleet
        self.leases = leases
        self._overrides = overrides
        self._outage = outage
        self._wake = wake
        self.hosts: dict[int, Host] = {}
        self.loads = Loads(config, politeness)
        self.handover = Handover()
        self.urls_out = 0
        self.visits_out = 0
        self.visit_seconds = config.politeness.visit_seconds
        """How long a visit takes of late, from its lease to its end."""
        self.failure: BaseException | None = None  # of a task, for the loop to raise
        self.ran_dry = False  # since the last turn began, some host used up its runs
        self._visit = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.detours = DetourRequests(
            politeness, leases, clock, lambda key, origin: self._new_host(key, 0, origin, HostRecord()),
            overrides.blocked,
        )  # fmt: skip

    # -- what a turn brings ----------------------------------------------------------------------------------------

    def bring(self, ready: list[ReadyHost], records: Iterable[HostRecord]) -> None:
        """Runs of hosts, and what is known of each host: they extend those in memory, or make them."""
        idle = []
        for one, record in zip(ready, records, strict=True):  # a Python loop per run: hosts are objects
            host = self.hosts.get(one.key)
            if host is None:
                newer = self.handover.learnt(one.key)  # learnt while the turn ran
                host = self.hosts[one.key] = self._new_host(one.key, one.site, one.origin, newer or record)
                idle.append(host)
                self.loads.enter(host)
            host.runs.append(one.run)
            self.loads.count(host, one.run.rows)
        if len(self.hosts) > 1:
            self.fleet.wanted.set()
        horizon = self._clock.now() + self._config.politeness.horizon_seconds
        dues = self.politeness.activate_many(idle)
        self.loads.told(idle)
        for host, due in zip(idle, dues, strict=True):
            if self._overrides.blocked(host.name):  # since its URLs came into runs: turns bring none of such hosts
                self._retire(host, Reason.BLOCKED)
            elif due > horizon:
                self._rest(host, due)

    def bring_all(self, ready: list[ReadyRuns]) -> None:
        """The runs of a turn, with the records that its indices carry."""
        for part in ready:
            self.bring(list(ready_hosts(part.segment, part.index)), records_of(part.index))

    def _new_host(self, key: int, site: int, origin: bytes, record: HostRecord) -> Host:
        scheme, name, port, _ = split(origin + b"/")
        now = self._clock.now()
        return Host(
            record=record,
            key=key,
            name=name,
            scheme=scheme,
            port=port,
            site=site,
            address=record.address_at(now),
            address_until=record.address_until,
            crawl_delay=record.crawl_delay,
            gap_floor=self._overrides.gap_host(name),
        )

    # -- names -----------------------------------------------------------------------------------------------------

    def resolve_ahead(self) -> None:
        """Ask for the addresses that are missing, as many at once as the configuration allows; one, and seldom, in an
        outage."""
        at_once = self._config.network.dns_in_flight_max
        if self._outage.paused:
            at_once = int(self._outage.take_name_probe())
        while len(self._tasks) < at_once:
            entry = self.politeness.unresolved()
            if entry is None:
                return
            assert isinstance(entry, Host)
            task = asyncio.get_running_loop().create_task(self._resolve(entry))
            self._tasks.add(task)
            task.add_done_callback(self._asked)

    def _asked(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.failure = task.exception()
            self._wake()

    async def _resolve(self, host: Host) -> None:
        try:
            answer: Resolved | ResolveError = await self.resolver.resolve(host.name)
        except ResolveError as error:
            answer = error
        if isinstance(answer, Resolved):
            self.loads.moves(host)
            self.politeness.resolved(host, answer.address, answer.expires)
            self.loads.moved(host)
            host.dns_failures = 0
            host.record.set_address(answer.address, answer.expires)
            self._learn(host)
        elif not answer.permanent and await self._outage.is_ours():
            self.politeness.postponed(host)
        else:
            self._unresolved(host, answer)
        self._wake()

    def _unresolved(self, host: Host, error: ResolveError) -> None:
        host.dns_failures += 1
        if host.detour is not None:
            self.detours.refuse(host, error.reason)
        elif error.permanent:
            host.record.dead, host.record.dead_until = error.reason, self._clock.now() + NAME_GONE_S
            self._retire(host, error.reason)
        elif host.dns_failures > self._config.politeness.retries_max:
            self._retire(host, error.reason)
        else:
            self.politeness.unresolvable(host)

    # -- leases ----------------------------------------------------------------------------------------------------

    def dispatch(self, allowance: int) -> int:
        """Lease whatever may be leased now, at most `allowance` URLs. Returns how many were."""
        while detour := self.politeness.pop_detour():  # also when the workers are full: their visits wait for it
            assert isinstance(detour, Host)
            self.detours.grant(detour)
        leased = 0
        for entry, rows in self.politeness.pop_many(allowance, _urls_of, self.fleet.capacity):
            assert isinstance(entry, Host)
            worker = self.fleet.choose(entry.worker)
            assert worker is not None  # there was capacity
            self._lease(entry, worker, rows)
            leased += rows
        for entry, due in self.politeness.put_back():
            if entry.state == HostState.WAITING and due > self._clock.now() + self._config.politeness.horizon_seconds:
                self._rest(cast(Host, entry), due)
        return leased

    def _lease(self, host: Host, worker: RemoteWorker, rows: int) -> None:
        now = self._clock.now()
        run = host.runs[0]
        batch = self.runs.read(run.segment, run.at, run.at + rows)
        self._visit += 1
        visit = LeasedVisit(self._visit, host, run, rows, now)
        self.leases.append(self.politeness.promises(host))
        worker.visits[visit.number] = visit
        worker.urls_out += rows
        self.urls_out += rows
        self.visits_out += 1
        self.loads.count(host, -rows)
        host.worker = worker.stream
        gap, patience = self.politeness.gap_for(host), self.politeness.patience(host)
        worker.send(visit_message(visit, batch, now, gap, patience, self.fleet.scope_version))

    # -- ends ------------------------------------------------------------------------------------------------------

    def ended(self, worker: RemoteWorker, message: Message) -> None:
        """A worker reports the end of a visit."""
        visit = worker.visits.pop(message["visit"])
        reached = message["reached"]
        host, run = visit.host, visit.run
        self._account(worker, visit, reached)
        self.fleet.worked(worker, message["requests"], message["bytes"])
        worker.unharvested += message["requests"] + reached
        run.at += reached
        if run.at >= run.end:
            del host.runs[0]
        now = self._clock.now()
        self.visit_seconds += VISIT_WEIGHT * (now - visit.leased - self.visit_seconds)
        silent = self._learn_from(host, message, now)
        crawl_delay = message["robots"]["crawl_delay"] if message["robots"] else None
        due = self.politeness.visit_over(
            host,
            ended=message["ended"],
            fetch_s=message["fetch_s"],
            requests=message["requests"],
            outcome=message["outcome"],
            retry_after=message["retry_after"],
            crawl_delay=crawl_delay,
            again=bool(host.runs),
        )
        if crawl_delay is not None:
            self.loads.told([host])
        self.detours.visit_ended(worker)
        # Of a visit that ended otherwise the last exchange had no response, whatever came before it.
        if message["answered"] and message["outcome"] in ("ok", "throttled") and host.address:
            self._outage.responded(host.address, host.site, message["ended"])
        self._settle(host, due, now, Reason(message["reason"]), silent)

    def learnt_robots(self, worker: RemoteWorker, message: Message) -> None:
        """A visit that goes on read robots.txt. A kill from now on finds it in a commit or in the archive, and its
        Crawl-delay in the clocks' log."""
        host = worker.visits[message["visit"]].host
        _take_robots(host, message["robots"])
        host.crawl_delay = host.record.crawl_delay
        self.loads.told([host])
        self.leases.append(self.politeness.promise(host))
        self._learn(host)

    def _account(self, worker: RemoteWorker, visit: LeasedVisit, reached: int) -> None:
        worker.urls_out -= visit.rows
        self.urls_out -= visit.rows
        self.visits_out -= 1
        self.loads.count(visit.host, visit.rows - reached)

    def _learn_from(self, host: Host, message: Message, now: float) -> bool:
        """Update the host's record; True when the visit ended without any response."""
        before = worth_a_row(host.record)
        failed = message["outcome"] == "failed" and Reason(message["reason"]) != Reason.ROBOTS_UNREACHABLE
        silent = failed and not message["answered"]
        robots = message["robots"]
        if robots and not (silent and robots["state"] == Robots.DENY):
            _take_robots(host, robots)
        if silent:
            host.record.failed(now)
        elif message["answered"]:
            host.record.answered(now)
        if failed:
            self.resolver.another(host.name)  # a name with several addresses: the next visit tries the next one
            host.address_until = 0.0
        if before != worth_a_row(host.record) or not host.runs:
            self._learn(host)
        return silent

    def _settle(self, host: Host, due: float, now: float, reason: Reason, silent: bool) -> None:
        """After a visit: does the host stay, rest in the calendar, or is it given up?"""
        record = host.record
        if not host.runs:
            self.ran_dry = True
            self._forget(host)
        elif silent and self._is_dead(record, now):
            died = Reason.HOST_DEAD if record.answered_at else reason
            record.dead, record.dead_until = died, now + self._config.politeness.host_dead_hours * 3600
            self._retire(host, died)
        elif record.robots_at(now) is Robots.DENY:
            if record.denials > self._config.politeness.retries_max:
                self._retire(host, Reason.ROBOTS_UNREACHABLE)
            else:
                self._rest(host, max(due, record.robots_until))
        elif due > now + self._config.politeness.horizon_seconds:
            self._rest(host, due)

    def _is_dead(self, record: HostRecord, now: float) -> bool:
        """One that never answered gets as many tries as a URL; one that did, the patience of host_dead_hours."""
        limits = self._config.politeness
        if not record.answered_at:
            return record.failures > limits.retries_max
        silent_for = now - record.failed_since
        return record.failures >= limits.host_failures_max and silent_for >= limits.host_dead_hours * 3600

    def _rest(self, host: Host, due: float) -> None:
        self._leave(host, Withdrawal(list(host.runs), Reason.OK, due, self.politeness.gap_for(host)))

    def _retire(self, host: Host, reason: Reason) -> None:
        self._leave(host, Withdrawal(list(host.runs), reason))

    def _leave(self, host: Host, withdrawal: Withdrawal) -> None:
        self.handover.withdraw(withdrawal)
        self.loads.count(host, -self.loads.rows(host))
        host.runs.clear()
        self._learn(host)
        self._forget(host)

    def _forget(self, host: Host) -> None:
        self.politeness.deactivate(host)
        self.loads.leave(host)
        self.hosts.pop(host.key, None)

    def _learn(self, host: Host) -> None:
        if host.detour is None:
            self.handover.learn(host)

    def doubted(self, worker: RemoteWorker, message: Message) -> None:
        """A visit had no response at all: is its host to be charged with it, or is it us?"""
        visit = worker.visits[message["visit"]]
        reply = {"t": "doubt", "visit": visit.number}
        host = visit.host
        self._outage.doubt(
            host.address or "", host.site, lambda charge: worker.send({**reply, "charge": charge}),
            acquainted=host.record.answered_at > 0, leased=visit.leased,
        )  # fmt: skip

    def orphaned(self, worker: RemoteWorker, left: Callable[[Run], list[Run]]) -> int:
        """A worker died and what it archived is folded: free its hosts, after what its archive says of each visit's end
        and as if a request had been under way since. `left`: a run without the rows now done. Returns how many
        URLs its visits had reached."""
        now = self._clock.now()
        self.detours.worker_died(worker)
        visits, worker.visits = list(worker.visits.values()), {}
        reached = 0
        for visit in visits:
            host = visit.host
            leased = Run(visit.run.segment, visit.run.at, visit.run.at + visit.rows)
            reached += visit.rows - sum(run.rows for run in left(leased))
            self._account(worker, visit, 0)
            host.runs = [part for run in host.runs for part in left(run)]
            self.loads.count(host, sum(run.rows for run in host.runs) - self.loads.rows(host))
            ending = worker.endings.get(host.key, Ending())
            if ending.ended < visit.leased:  # another visit's, which was told
                ending = Ending()
            due = self.politeness.visit_over(
                host, ended=now, fetch_s=ending.fetch_s, outcome=ending.outcome, again=bool(host.runs),
                retry_after=None if ending.due is None else max(0.0, ending.due - now), crawl_delay=ending.crawl_delay,
            )  # fmt: skip
            if ending.crawl_delay is not None:
                self.loads.told([host])
            self._settle(host, due, now, Reason.LOST, silent=False)
        return reached

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        self.politeness.close()


def _urls_of(hosts: Sequence[HostEntry]) -> list[int]:
    """For one visit."""
    return [host.runs[0].rows for host in cast(Sequence[Host], hosts)]


def _take_robots(host: Host, robots: Message) -> None:
    rules = tuple(robots["rules"]) if robots["rules"] else None
    host.record.learn_robots(robots["state"], robots["until"], rules, robots["crawl_delay"])
