"""The frontier's loop: when to turn, when to ask for harvests, when to lease, and when the crawl is over.

One asyncio loop holds what is in memory (dispatch.py, politeness.py); one thread at a time runs a turn (turns.py). The
loop commits what a turn did, tells the workers what changed, and takes the new runs in. Leases never wait for a turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any

from drum import Edits

from irlcrawl.base.clock import Clock
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.config.headers import secrets_of
from irlcrawl.config.keys import Config
from irlcrawl.config.overrides import Overrides
from irlcrawl.config.proxies import Proxies, read_logins
from irlcrawl.config.signing_key import read_key
from irlcrawl.config.toml import to_dict
from irlcrawl.crawl import lists, recovery
from irlcrawl.crawl.deaths import Deaths
from irlcrawl.crawl.gauges import Gauges
from irlcrawl.crawl.limits import Limits
from irlcrawl.crawl.old_rules import OLD_S, OldRules
from irlcrawl.crawl.returns import BUSY
from irlcrawl.crawl.schedule import Schedule
from irlcrawl.crawl.status import ENDED
from irlcrawl.crawl.this_run import ThisRun, log_step
from irlcrawl.crawl.turns import TELL_SECONDS, Turns
from irlcrawl.frontier.dispatch.dispatch import Dispatcher
from irlcrawl.frontier.dispatch.dns import Resolver
from irlcrawl.frontier.dispatch.outage import Outage
from irlcrawl.frontier.dispatch.workers import Fleet, RemoteWorker
from irlcrawl.frontier.politeness.clocks import Clocks, Kind
from irlcrawl.frontier.politeness.machine import Machine
from irlcrawl.frontier.politeness.politeness import Politeness
from irlcrawl.frontier.state.clock_set import set_since
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.frontier.state.lease_log import LeaseLog
from irlcrawl.frontier.state.runs import ReadyHost, RunReader
from irlcrawl.worker.fetch.wire import Message, clock_anchor
from irlcrawl.worker.harvest.rules_log import RulesLog

TICK_S = 0.5
BROUGHT_AT_ONCE = 4096
STOP_SECONDS = 8.0
"""A clean stop that takes longer drops the requests in flight: either kind of stop is over, and committed, within 10
s."""

_log = logging.getLogger("irlcrawl.frontier")


class CrawlLoop:
    """Make it, `open()` it, let `run()` work until it returns an exit code. All on one event loop."""

    def __init__(
        self, state: CrawlState, config: Config, clock: Clock, machine: Machine | None = None,
        began: float | None = None,
    ) -> None:  # fmt: skip
        """`machine`: what other crawls on this machine promise; None: none is looked for. `began`: since when limits of
        time count, unix seconds; None: from now on."""
        self.state, self.config, self.clock = state, config, clock
        self._wakeup = asyncio.Event()
        self.this_run = ThisRun(clock, float(state.counters.get("elapsed_s", 0.0)), began)
        self.fleet = Fleet(
            config.fetch.visits_per_worker, config.fetch.worker_silent_seconds, self._on_message,
            lambda worker: self.deaths.lost(worker),
        )  # fmt: skip
        self.fleet.scope_grew(state.scope.entries())
        clocks = Clocks(config.frontier.hosts_active_max)
        self.outage = Outage(
            clock, lambda: self.dispatcher.resolver.alive(), lambda: clocks.table.count(Kind.ADDRESS), self._wakeup.set
        )
        self._secrets = secrets_of(config.site)
        self._logins = read_logins(file) if (file := config.network.proxy_logins_file) else {}
        self._signing_key = read_key(file).hex() if (file := config.fetch.signing_key_file) else ""
        self._leases_path = str(state.job.leases)
        overrides = Overrides(config.site)
        politeness = Politeness(clock, config.politeness, clocks, machine, overrides.bytes_per_second_by_site())
        self.dispatcher = Dispatcher(
            config, clock, politeness, Resolver(config.network, clock, proxied=Proxies(config).resolves),
            RunReader(state.pool), self.fleet, LeaseLog(state.files, self._leases_path), overrides,
            self.outage, self._wakeup.set,
        )  # fmt: skip
        self.dispatcher.runs.committed(state.runs.segments())
        self.dispatcher.lent = lists.sites(state)
        self.limits = Limits(state, config, self.this_run.started)
        self.schedule = Schedule(config, clock, state, self.dispatcher, self.fleet)
        self.gauges = Gauges(state, self.this_run, self.dispatcher, self.schedule, self.limits, self.outage)
        self.turns = Turns(
            state, self.this_run, self.dispatcher, self.schedule, self.limits, self.gauges, self._wakeup.set
        )
        self.deaths = Deaths(
            clock, self.this_run, self.fleet, self.turns, self.limits.disk_space, self.stop, self._wakeup.set
        )
        self._old_rules = OldRules(state.files, state.dir, clock)
        self._left: ExitCode | None = None  # with which a crawl that was done was told to stop
        self._opened = False
        self._aborting = False
        self._leased = False
        self._coming: Iterator[ReadyHost] | None = None  # at the start: hosts that are still to be brought
        self._failure: BaseException | None = None  # of a callback, for `run` to raise
        self.on_visit: Callable[[str, str], None] = lambda host, outcome: None
        """Told of each visit that ends."""
        self.on_tick: Callable[[], None] = lambda: None

    # -- open ------------------------------------------------------------------------------------------------------

    async def open(self, seed_harvest: str | None, streams: list[int]) -> None:
        """Recover what a crash left (`streams`: those of workers that are gone, and the seeds'), take in the seeds, and
        bring every host with URLs in runs into memory."""
        state, now = self.state, self.clock.now()
        self.limits.disk_space.take_ballast()
        found = LeaseLog.read(state.files, self._leases_path)
        politeness = self.dispatcher.politeness
        politeness.clocks.load(state.clock_log.list.batches(), now, state.clock_set)
        crawled_before = state.catalog.get("ledger") is not None
        politeness.clocks.open(now, found.promises, found.rebooted and crawled_before)
        harvests: list[str] = []
        for stream in sorted(streams):
            left = recovery.recover_stream(state, self.config, stream)
            harvests += left.harvests
            if left.units or left.bytes_cut:
                _log.info("stream %d: %d units read again, %d bytes cut", stream, left.units, left.bytes_cut)
        if seed_harvest and seed_harvest not in harvests:
            harvests.append(seed_harvest)
        states = recovery.learn(state, politeness, harvests)
        await self.turns.first(harvests, states, streams)
        state.catalog.sweep()
        RulesLog.drop_old(state.files, state.dir, now - OLD_S, lambda stream: set_since(state.catalog, stream))
        lists.take_back(state, lists.over(state, self.clock.now()))
        self.dispatcher.lend(lists.sites(state))
        self._coming = state.runs.hosts()
        self._opened = True
        self._bring_more()
        log_step(f"{len(self.dispatcher.hosts)} hosts at hand")

    def _bring_more(self) -> None:
        """The next hosts with URLs in runs: the first of a hundred thousand need not wait for the last."""
        if self._coming is None:
            return
        ready = list(islice(self._coming, BROUGHT_AT_ONCE))
        records = recovery.known_records(self.state, [one.key for one in ready])
        self.dispatcher.bring(ready, [records[one.key] for one in ready])
        if len(ready) < BROUGHT_AT_ONCE:
            self._coming = None

    def bring_all(self) -> None:
        """Every host with URLs in runs that is still to come."""
        while self._coming is not None:
            self._bring_more()

    @property
    def paused(self) -> bool:
        """Whether the operator keeps the crawl, or some host that has URLs at hand, from being asked."""
        return self.config.crawl.pause or self.dispatcher.paused_hosts > 0

    @property
    def ending(self) -> ExitCode | None:
        """The code the crawl is stopping with."""
        return self.this_run.code

    def hello(self, stream: int) -> Message:
        return {
            "t": "hello",
            "config": to_dict(self.config),
            "secrets": self._secrets,
            "logins": self._logins,
            "signing_key": self._signing_key,
            "seed": self.state.seed,
            "scope_version": self.fleet.scope_version,
            "scope_entries": self.fleet.scope_entries(),
            "stream": stream,
            "crawl": self.state.crawl_id,
            "clock": clock_anchor(self.clock),
            "unreadable": list(self.deaths.suspects.unreadable),
        }

    # -- the loop --------------------------------------------------------------------------------------------------

    async def run(self) -> ExitCode:
        """Until nothing is left to do, a limit is reached or a stop is asked for and has been answered."""
        try:
            return await self._work()
        finally:
            self.deaths.over = True

    async def _work(self) -> ExitCode:
        while True:
            now = self.clock.now()
            self._bring_more()
            held = self.outage.paused or self._coming is not None or self.paused
            self.limits.patience.look(now, len(self.dispatcher.hosts), held or self.schedule.closed)
            if self.ending is None and (code := self.limits.reached(now)) is not None:
                (self.stop_soon if code is ExitCode.TIME_LIMIT else self.stop)(code)
            if news := self.dispatcher.politeness.clocks.news(now):
                self.dispatcher.leases.append(news)
            if self.ending is None:
                self.dispatcher.resolve_ahead()
                if not self.limits.pressure.slow_down and (not self.outage.paused or self.outage.take_probe()):
                    self._dispatch()
            self.dispatcher.politeness.share()
            self._ask_for_harvests(now)
            self.fleet.watch(now)
            self.outage.watch(now)
            self._old_rules.look()
            if self.dispatcher.lent and self._coming is None and not self.turns.running:
                self._end_lists(now)
            if self._coming is None and self.turns.due(now):
                self.turns.begin()
            if self._over():
                return await self._end()
            self.gauges.pace.look(now)
            self.on_tick()
            await self._sleep(now)
            if (failure := self.failure) is not None:
                raise failure
            if (result := self.turns.finish()) is not None and result.folded:
                self.deaths.suspects.taken_in(result.folded)

    def _end_lists(self, now: float) -> None:
        """Lists whose date has passed: their URLs are leased as any others from now on."""
        if segments := lists.over(self.state, now):
            lists.take_back(self.state, segments)
            self.dispatcher.lend(lists.sites(self.state))
            self._coming = chain.from_iterable(map(self.state.runs.hosts_of, segments))
            self.schedule.moved = True

    def fail(self, error: BaseException | None) -> None:
        """For who works beside the loop: `run` raises it."""
        self._failure = self._failure or error
        self._wakeup.set()

    @property
    def failure(self) -> BaseException | None:
        """Of a callback or a task, which nobody else would see."""
        return self._failure or self.deaths.failure or self.dispatcher.failure or self.outage.failure

    def _dispatch(self) -> None:
        if self.dispatcher.dispatch(self._allowance()) and not self._leased:
            self._leased = True
            log_step("first lease")

    async def _sleep(self, now: float) -> None:
        if self._coming is not None:
            await asyncio.sleep(0)
            return
        dues = [now + TICK_S]
        if self.ending is None:
            due = self.dispatcher.politeness.next_due()
            held = self.outage.paused or self.limits.pressure.slow_down
            if due is not None and self.fleet.capacity and self._allowance() > 0 and not held:
                dues.append(max(due, self.dispatcher.bandwidth.due))
            put_off = None if self.turns.running else self.schedule.next_due()
            if put_off is not None:
                dues.append(max(put_off, self.schedule.turn_at))
            next_visit = None if self.turns.running else self.schedule.next_visit()
            if next_visit is not None and next_visit > now:
                dues.append(next_visit)
        timeout = max(min(dues) - self.clock.now(), 0.0005)
        try:
            async with asyncio.timeout(timeout):
                await self._wakeup.wait()
        except TimeoutError:
            pass
        self._wakeup.clear()

    # -- workers ---------------------------------------------------------------------------------------------------

    def _on_message(self, worker: RemoteWorker, message: Message) -> None:
        """From a pipe's callback, which would swallow an exception: `run` raises it."""
        try:
            self._take(worker, message)
        except Exception as error:
            self._failure = error
        self._wakeup.set()

    def _take(self, worker: RemoteWorker, message: Message) -> None:
        match message["t"]:
            case "end":
                self.limits.unfolded += message["reached"]
                self.limits.received += message["bytes"]
                self.schedule.moved = True
                visit = worker.visits[message["visit"]]
                self.gauges.pace.visited(message, self.clock.now() - visit.leased)
                if message["answered"]:
                    self.gauges.recent.answered(self.clock.now(), visit.host.name, message["fetch_s"])
                self.on_visit(visit.host.name, message["outcome"])
                self.dispatcher.ended(worker, message)
            case "robots":
                self.dispatcher.learnt_robots(worker, message)
            case "harvest":
                worker.asked = False
                self.schedule.answered()
                self.gauges.pace.synced(message["sync_s"])
                # A visit may have ended while a file was written: only an empty answer says that nothing is left.
                worker.unharvested = 0 if message["file"] is None else 1
                worker.harvested(message["file"] is None)
                if message["file"] is not None:
                    self.turns.arrived(message["file"])
            case "doubt":
                self.dispatcher.doubted(worker, message)
            case "detour":
                self.dispatcher.detours.wanted(worker, worker.visits.get(message["visit"]), message)
            case "detour_end":
                self.dispatcher.detours.ended(worker, message)
            case "ready":
                if not self.fleet.working.is_set():
                    log_step("first worker ready")
                self.fleet.working.set()
            case "bye":
                worker.said_bye = True

    def _ask_for_harvests(self, now: float) -> None:
        """When hungry, take what the workers have; when idle, too, so that the end is seen."""
        if self.ending is not None or self.turns.inbox or self.turns.running or not self.schedule.should_ask(now):
            return
        for worker in self.fleet.workers:
            if worker.unharvested and not worker.asked:
                worker.asked = True
                self.schedule.asked()
                worker.send({"t": "harvest"})

    # -- the end ---------------------------------------------------------------------------------------------------

    def _allowance(self) -> int:
        """How many URLs may be leased now: one while nobody answers, and no more than limits.pages lets."""
        left = self.limits.allowance(self.dispatcher.urls_out)
        return min(left, 1) if self.outage.paused else left

    def stop(self, code: ExitCode) -> None:
        """Lease nothing more, let the workers finish what they have in hand, commit, end with `code`."""
        if self.ending is None:
            self.this_run.stop(code)
            self.fleet.end({"t": "stop"})
        elif self.ending is ExitCode.DONE:  # only archives are still to be told: the next start tells the rest
            self._left = code
            self.turns.leave()
        self._wakeup.set()

    def stop_soon(self, code: ExitCode) -> None:
        """As stop, but what is in flight after STOP_SECONDS is dropped."""
        self.stop(code)
        asyncio.get_running_loop().call_later(STOP_SECONDS, self.abort, None)

    def abort(self, code: ExitCode | None) -> None:
        """As stop, but what is in flight is dropped; None keeps the code of the stop that went before."""
        self.this_run.stop(code or self.ending or ExitCode.FORCED)
        if not self._aborting:
            self._aborting = True
            self.fleet.end({"t": "abort"})
        self._wakeup.set()

    def _over(self) -> bool:
        if self.turns.running or self.turns.handed_in or self.deaths.pending or self._coming is not None:
            return False
        if self.ending is not None:
            return not self.fleet.workers
        if self.config.revisit.enabled and self.state.pages.rows:
            return False  # only limits end it
        hosts = len(self.dispatcher.hosts) - self.dispatcher.lent_hosts
        lent = self.state.runs.rows if self.dispatcher.lent else 0  # all runs, where no other host is in memory
        return self.fleet.idle and not hosts and self.state.waiting == lent

    async def _end(self) -> ExitCode:
        """Nothing is out: say good-bye to the workers and commit the last word."""
        if self.ending is None:
            if lent := self.state.runs.rows:
                _log.warning("nothing is left but %d URLs of sites of which lists are out", lent)
            self.stop(ExitCode.INTERRUPTED if lent else ExitCode.DONE)
            while self.fleet.workers or self.deaths.pending:
                self.fleet.watch(self.clock.now())
                self.outage.watch(self.clock.now())
                await self._sleep(self.clock.now())
                if self.failure is not None:
                    raise self.failure
        self.this_run.ended = True
        code = self.this_run.code
        assert code is not None
        # A crawl that is done is not opened again: its last archives are told now. Others end within their time.
        all_told = await self.turns.last(None if code is ExitCode.DONE else TELL_SECONDS)
        if self._left is not None and not all_told:
            code = self._left
        self.dispatcher.close()
        self.outage.close()
        await self.dispatcher.resolver.close()
        self.limits.disk_space.drop_ballast()
        return code

    def hand_in(self, file: str) -> str:
        """Take over seeds, or URLs to be asked again (Turns.hand_in); BUSY while the crawl starts or ends."""
        if not self._opened or self.ending is not None:
            return BUSY
        taken = self.turns.hand_in(file)
        self.schedule.moved = True
        self._wakeup.set()
        return taken

    def say_full(self) -> None:
        """The disk is full in the middle of something: nothing of that is committed, only how the crawl ended."""
        self.limits.disk_space.drop_ballast()
        edits = Edits()
        edits.set("status", {**self.state.catalog.get("status", {}), "state": ENDED[ExitCode.DISK_FULL]})
        try:
            self.state.catalog.commit(edits)
        except OSError as error:
            _log.warning("no room even to say so: %s", error)

    def status(self) -> dict[str, Any]:
        """The record of irlcrawl.crawl.status."""
        return self.gauges.record()
