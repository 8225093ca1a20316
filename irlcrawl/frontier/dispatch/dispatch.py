"""The hosts in memory: from a run on disk to a visit on a worker's pipe, and what a visit's end means for its host.

One `Host` per origin that has URLs in runs. It asks for an address, waits for its clocks in `Politeness`, is leased
for a visit, and goes when its runs are empty or its next time lies beyond the horizon. What it learnt goes back to the
hosts drum with the next turn, and so do URLs that cannot stay in runs (handover.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from irlcrawl.base.clock import Clock
from irlcrawl.base.keys import host_key, is_stand_in, name_key, origin_of
from irlcrawl.base.reasons import Reason
from irlcrawl.base.rows import Robots
from irlcrawl.base.url import SiteOf, host_of, split
from irlcrawl.config.hours import Hours
from irlcrawl.config.keys import Config
from irlcrawl.config.overrides import Overrides
from irlcrawl.config.proxies import Proxies
from irlcrawl.config.rests import failures_till_given_up, rests_of_hosts
from irlcrawl.frontier.dispatch.bandwidth import Bandwidth
from irlcrawl.frontier.dispatch.detours import DetourRequests
from irlcrawl.frontier.dispatch.dns import Resolved, ResolveError, Resolver
from irlcrawl.frontier.dispatch.handover import Handover
from irlcrawl.frontier.dispatch.loads import Loads
from irlcrawl.frontier.dispatch.outage import Outage
from irlcrawl.frontier.dispatch.proxies_down import ProxiesDown
from irlcrawl.frontier.dispatch.visits import LATEST_START_S, Ending, Host, LeasedVisit, visit_message
from irlcrawl.frontier.dispatch.workers import Fleet, RemoteWorker
from irlcrawl.frontier.politeness.clocks import Promise
from irlcrawl.frontier.politeness.politeness import HostEntry, HostState, Politeness
from irlcrawl.frontier.state.hosts import HostRecord, records_of, worth_a_row
from irlcrawl.frontier.state.lease_log import LeaseLog
from irlcrawl.frontier.state.runs import ReadyHost, ReadyRuns, Run, RunReader, Withdrawal, ready_hosts
from irlcrawl.web.block import Block
from irlcrawl.worker.fetch.wire import Message

REFUSED_S = 3600.0
"""How long a name is left alone whose addresses are not allowed."""

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
        self._rests = rests_of_hosts(config.politeness)
        self._failures_max = failures_till_given_up(config.politeness)
        self._clock = clock
        self.politeness = politeness
        self.resolver = resolver
        self.runs = runs
        self.fleet = fleet
        self.leases = leases
        self._overrides = overrides
        self.block = Block(config)
        self._outage = outage
        self._wake = wake
        self.bandwidth = Bandwidth(config.limits.bytes_per_second, config.fetch.body_bytes_max)
        self._proxies = Proxies(config)
        self.proxies_down = ProxiesDown(self._proxies, clock)
        self._rates = overrides.bytes_per_second_by_site()
        self._site_of = SiteOf(config.scope.private_suffixes)
        hours = Hours(config)
        self._hours = hours if hours.any else None
        self.hosts: dict[int, Host] = {}
        self.loads = Loads(config, politeness)
        self.handover = Handover()
        self.urls_out = 0
        self.visits_out = 0
        self.visit_seconds = config.politeness.visit_seconds
        """How long a visit takes of late, from its lease to its end."""
        self.failure: BaseException | None = None  # of a task, for the loop to raise
        self.paused_hosts = 0  # of those in memory
        self.lent: set[int] = set()  # sites of which lists are out (irlcrawl/rounds): they are asked from there
        self.lent_hosts = 0  # of those in memory
        self.ran_dry = False  # since the last turn began, some host used up its runs
        self._visit = 0
        self._promises: list[Promise] = []  # of the leases of this pass, which are not sent yet
        self._unsent: list[tuple[RemoteWorker, Message]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.detours = DetourRequests(
            politeness, leases, clock, self._detour_host, lambda name: self.block.host(name),
            self._kept_from,
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
                if host.crawl_delay and (asked := self.detours.take_asked(host)) is not None:
                    self.politeness.keep_delay(host, asked)
                idle.append(host)
                self.loads.enter(host)
                host.worth = one.run.worth
            host.runs.append(one.run)
            self.loads.count(host, one.run.rows)
        if len(self.hosts) > 1:
            self.fleet.wanted.set()
        horizon = self._clock.now() + self._config.politeness.horizon_seconds
        idle = [host for host in idle if not self._kept(host)]
        dues = self.politeness.activate_many(idle)
        self.loads.told(idle)
        for host, due in zip(idle, dues, strict=True):
            due = max(due, host.record.rests_until)  # learnt while the turn ran, or before a kill
            if (opens := self._closed_until(host)) > due:
                self._put_off(host, opens, rests=False)
            elif due > horizon or host.record.rests_until > self._clock.now():
                self._put_off(host, due)

    def asks(self, host: Host) -> bool:
        """Whether a host in memory is neither paused nor lent."""
        return host.site not in self.lent and not self._paused(host.name)

    def lend(self, sites: set[int]) -> None:
        """Of which sites lists are out from now on. Hosts of those that are back may be asked again."""
        back, self.lent = self.lent - sites, sites
        held = [host for host in self.hosts.values() if host.site in back and not self._paused(host.name)]
        for host in held:  # a Python loop over the hosts of a list, at its end
            self.lent_hosts -= 1
            origin = origin_of(self.runs.read(host.runs[0].segment, host.runs[0].at, host.runs[0].at + 1)["url"][0])
            ready = [ReadyHost(host.key, host.site, origin, run) for run in host.runs]
            self.loads.count(host, -self.loads.rows(host))
            self._forget(host)
            self.bring(ready, [host.record] * len(ready))

    def _paused(self, name: str) -> bool:
        return self._config.crawl.pause or self._overrides.paused(name)

    def _kept_from(self, origin: bytes) -> bool:
        """Whether a detour to an origin must wait: it is paused, or its site is asked from elsewhere."""
        name = host_of(origin + b"/")
        return self._paused(name) or (bool(self.lent) and name_key(self._site_of(name).encode()) in self.lent)

    def _kept(self, host: Host) -> bool:
        """Whether the operator keeps a host that came into memory from being asked: a blocked one leaves (its URLs came
        into runs before it was blocked), a paused one stays, and waits for no clock; so does one whose site is lent."""
        if self.block.host(host.name):
            self._retire(host, Reason.BLOCKED)
        elif self._paused(host.name):
            self.loads.hold(host)
            self.paused_hosts += 1
        elif host.site in self.lent:
            self.loads.hold(host)
            self.lent_hosts += 1
        else:
            return False
        return True

    def bring_all(self, ready: list[ReadyRuns]) -> None:
        """The runs of a turn, with the records that its indices carry."""
        for part in ready:
            self.bring(list(ready_hosts(part.segment, part.index)), records_of(part.index))

    def forgive(self, keys: NDArray[np.uint64]) -> None:
        """URLs of these hosts were put back: nothing is held against those of them that are in memory."""
        there = np.fromiter(self.hosts, np.uint64, len(self.hosts))
        for key in there[np.isin(there, keys)].tolist():
            host = self.hosts[key]
            host.record.forgive()
            self._learn(host)

    def _new_host(self, key: int, site: int, origin: bytes, record: HostRecord) -> Host:
        scheme, name, port, _ = split(origin + b"/")
        address = record.address_at(self._clock.now())
        if address is not None and (stands_in := is_stand_in(address)) != self._proxies.resolves(name):
            address = None  # found by a run with other proxies
        elif address is not None and not stands_in and not self.resolver.admits(address):
            address = None  # ... with another network.allow, or by another's
        return Host(
            record=record,
            key=key,
            name=name,
            scheme=scheme,
            port=port,
            site=site,
            address=address,
            address_until=record.address_until,
            crawl_delay=record.crawl_delay,
            gap_floor=self._overrides.gap_host(name),
        )

    def _detour_host(self, origin: bytes, parent: Host) -> Host:
        """A host of which a visit of `parent` needs a robots.txt, apart from that in memory. All that is known of it is
        its Crawl-delay, if it or a change of it is in memory. The clock of its site is the visit's matter if it is the
        same."""
        site = name_key(self._site_of(host_of(origin + b"/")).encode())
        known = self.hosts.get(key := host_key(origin, site))
        record = known.record if known is not None else self.handover.learnt(key)
        of_record = HostRecord(crawl_delay=record.crawl_delay if record else 0.0)
        return self._new_host(key, 0 if site == parent.site else site, origin, of_record)

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
        self._wake()  # not before: there is room for another question now

    async def _resolve(self, host: Host) -> None:
        try:
            answer: Resolved | ResolveError = await self.resolver.resolve(host.name)
        except ResolveError as error:
            answer = error
        if isinstance(answer, Resolved):
            self.loads.moves(host)
            self.politeness.resolved(host, answer.address, answer.expires)
            self.loads.moved(host)
            host.record.set_address(answer.address, answer.expires)
            self._learn(host)
        elif not answer.permanent and await self._outage.is_ours():
            self.politeness.postponed(host)
        else:
            self._unresolved(host, answer)

    def _unresolved(self, host: Host, error: ResolveError) -> None:
        record, now = host.record, self._clock.now()
        if host.detour is not None:
            self.detours.refuse(host, error.reason)
        elif error.reason is Reason.ADDRESS:
            record.dead, record.dead_until = error.reason, now + REFUSED_S
            self._retire(host, error.reason)
        else:
            record.failed(now, self._rests, error.reason)
            if self._is_dead(record, now):
                self._retire(host, self._die(record, error.reason, now))
            else:
                self._put_off(host, record.rests_until)

    # -- leases ----------------------------------------------------------------------------------------------------

    def dispatch(self, allowance: int) -> int:
        """Lease whatever may be leased now, at most `allowance` URLs. Returns how many were."""
        while detour := self.politeness.pop_detour():  # also when the workers are full: their visits wait for it
            assert isinstance(detour, Host)
            self.detours.grant(detour)
        leased, allowance = 0, self.bandwidth.urls(self._clock.now(), allowance)
        for entry, rows in self.politeness.pop_many(allowance, _urls_of, self.fleet.capacity):
            assert isinstance(entry, Host)
            if opens := self._closed_until(entry) or self.proxies_down.held_until(entry.name):
                self.politeness.visit_over(entry, ended=None, requests=0, outcome="unreached", again=False)
                self._put_off(entry, opens, rests=False)
                continue
            worker = self.fleet.choose(entry.worker)
            assert worker is not None  # there was capacity
            self._lease(entry, worker, rows)
            leased += rows
        self._send()
        for entry, due in self.politeness.put_back():
            if entry.state == HostState.WAITING and due > self._clock.now() + self._config.politeness.horizon_seconds:
                self._put_off(cast(Host, entry), due)
        return leased

    def _lease(self, host: Host, worker: RemoteWorker, rows: int) -> None:
        now = self._clock.now()
        run = host.runs[0]
        batch = self.runs.read(run.segment, run.at, run.at + rows)
        self._visit += 1
        visit = LeasedVisit(self._visit, host, run, rows, now, self.bandwidth.leased(rows))
        self._promises += self.politeness.promises(host)
        run.priority = int(batch["priority"][-1])  # the best come first
        worker.visits[visit.number] = visit
        worker.urls_out += rows
        self.urls_out += rows
        self.visits_out += 1
        self.loads.count(host, -rows)
        host.worker = worker.stream
        gap, patience = self.politeness.gap_in_visit(host), self.politeness.patience(host)
        paces = self.politeness.paces(host)
        latest = now + LATEST_START_S
        if self._hours is not None:
            latest = min(latest, self._hours.closes(host.name, now))
        message = visit_message(visit, batch, now, gap, patience, paces, self.fleet.scope_version, latest)
        self._unsent.append((worker, message))

    def _send(self) -> None:
        """The leases of this pass, after one write that names their clocks."""
        if self._unsent:
            self.leases.append(self._promises)
            for worker, message in self._unsent:
                worker.send(message)
            self._promises.clear()
            self._unsent.clear()

    def _closed_until(self, host: Host) -> float:
        """When the hours of a host begin, if it may not be asked now; else 0."""
        if self._hours is None:
            return 0.0
        now = self._clock.now()
        opens = self._hours.opens(host.name, now)
        return opens if opens > now else 0.0

    # -- ends ------------------------------------------------------------------------------------------------------

    def ended(self, worker: RemoteWorker, message: Message) -> None:
        """A worker reports the end of a visit."""
        visit = worker.visits.pop(message["visit"])
        reached = message["reached"]
        host, run = visit.host, visit.run
        self._account(worker, visit, reached)
        self.fleet.worked(worker, message["requests"], message["bytes"])
        self.bandwidth.ended(visit.charged, message["bytes"], message["requests"])
        worker.unharvested += message["requests"] + reached
        if worker.node and reached:
            worker.told.append((host.key, host.site, Run(run.segment, run.at, run.at + reached, run.priority)))
        run.at += reached
        if run.at >= run.end:
            del host.runs[0]
        if host.runs:
            host.worth = host.runs[0].worth
        now = self._clock.now()
        self.visit_seconds += VISIT_WEIGHT * (now - visit.leased - self.visit_seconds)
        in_vain = self._learn_from(host, message, now)
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
            paid=self._paid(host, message),
        )
        if crawl_delay is not None:
            self.loads.told([host])
        self.detours.visit_ended(worker)
        # Of a visit that ended otherwise the last exchange had no response, whatever came before it.
        if message["answered"] and message["outcome"] in ("ok", "throttled") and host.address:
            self._outage.responded(host.address, host.site, message["ended"])
        if down := message["proxy_down"]:
            self.proxies_down.failed(*down)
        elif message["answered"]:
            self.proxies_down.answered(host.name)
        not_before = max(visit.not_before, self.proxies_down.waits_until(host.name))
        backs_off = message["outcome"] in ("throttled", "failed")
        self._settle(host, due, now, Reason(message["reason"]), in_vain, backs_off, not_before)

    def _paid(self, host: Host, message: Message) -> float:
        """Seconds from the end of a visit until its bytes would have come at the rate of its site."""
        rate = self._rates.get(host.site)
        if not rate or message["ended"] is None:
            return 0.0
        return float(message["bytes"] / rate - (message["ended"] - message["started"]))

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
        """Update the host's record; True when the visit had no response at all, or none but a 429 or 503."""
        before = worth_a_row(host.record)
        failed = message["outcome"] == "failed" and Reason(message["reason"]) != Reason.ROBOTS_UNREACHABLE
        silent = failed and not message["answered"]
        refused = message["outcome"] == "throttled" and message["reached"] == 1
        robots = message["robots"]
        if robots and not (silent and robots["state"] == Robots.DENY):
            _take_robots(host, robots)
        if silent:
            host.record.failed(now, self._rests, Reason(message["reason"]))
        elif refused:
            host.record.refused(now, Reason(message["reason"]))
        elif message["answered"]:
            host.record.answered(now)
        if failed:
            self.resolver.another(host.name)  # a name with several addresses: the next visit tries the next one
            host.address_until = host.record.address_until = 0.0
        if before != worth_a_row(host.record) or not host.runs:
            self._learn(host)
        return silent or refused

    def _settle(
        self, host: Host, due: float, now: float, reason: Reason, in_vain: bool, backs_off: bool,
        not_before: float = 0.0,
    ) -> None:  # fmt: skip
        """After a visit: does the host stay, wait elsewhere, or is it given up? in_vain: its record counts the visit
        among the failures; backs_off: its clock does. not_before: LeasedVisit."""
        record, died = host.record, None
        due_far = due > now + self._config.politeness.horizon_seconds
        if in_vain and self._is_dead(record, now):
            died = self._die(record, reason, now)
        elif backs_off and due_far:
            record.rest(due, reason)
        if not host.runs:
            self.ran_dry = self.ran_dry or not record.probed
            self._learn(host)
            self._forget(host)
        elif died is not None:
            self._retire(host, died)
        elif record.robots_at(now) is Robots.DENY:
            if record.denials >= self._failures_max:
                self._retire(host, Reason.ROBOTS_UNREACHABLE)
            else:
                self._put_off(host, max(due, record.robots_until))
        elif due_far or max(record.rests_until, not_before) > now:
            self._put_off(host, max(due, record.rests_until, not_before))

    def _is_dead(self, record: HostRecord, now: float) -> bool:
        """It was asked at the end of each rest, for as long as the configuration says. Time in which no crawl ran does
        not count."""
        failed_for = now - record.failed_since
        return record.failures >= self._failures_max and failed_for >= self._config.politeness.host_dead_hours * 3600

    def _die(self, record: HostRecord, reason: Reason, now: float) -> Reason:
        """It is dead for a while. Returns the reason for which its URLs leave."""
        died = Reason.HOST_DEAD if record.answered_at else reason
        record.dead, record.dead_until = died, now + self._config.politeness.host_dead_hours * 3600
        return died

    def _put_off(self, host: Host, due: float, rests: bool | None = None) -> None:
        """Its URLs wait on the disk: all until the host is probed, else one after the other."""
        rests = host.record.probed if rests is None else rests
        # A back-off is over by then, or soon after.
        gap = 0.0 if rests else float(self.politeness.own_gap_many([host])[0])
        self._leave(host, Withdrawal(list(host.runs), Reason.OK, due, gap, rests))

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
            backs_off = ending.outcome in ("throttled", "failed")
            self._settle(host, due, now, Reason.LOST, in_vain=False, backs_off=backs_off)
        return reached

    def untold(self, worker: RemoteWorker, left: Callable[[Run], list[Run]]) -> list[ReadyHost]:
        """The URLs of visits that ended on a machine whose harvests of them will never come."""
        told, worker.told, worker.told_before = worker.told_before + worker.told, [], []
        lost = [(key, site, part) for key, site, run in told for part in left(run)]
        return [
            ReadyHost(key, site, origin_of(self.runs.read(part.segment, part.at, part.at + 1)["url"][0]), part)
            for key, site, part in lost
        ]

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
