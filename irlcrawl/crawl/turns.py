"""Turns as the loop sees them: what waits for the next one, the thread they run on, and the commit of what they did.

A turn runs beside the loop, one at a time. When a crawl stops, the one that runs ends at the next bucket of its merge;
what it has not merged stays pending.

Two threads, and no lock between them: each thing has one owner, and what the other needs is handed over as plain data.

    owner          what                                            what it hands over
    the loop       CrawlLoop and all that it makes (Dispatcher,    when a turn begins: its Task (names of harvests,
                   Politeness, Fleet, Outage, Schedule, Limits,    STATE rows, withdrawn runs, moved clocks), in it
                   Gauges, ...), RunReader, the catalogue          HostsAtHand; while it runs: ThisRun.stopping
    a turn, while  CrawlState: drums, budgets, queues, calendar,   when it is done: its Result, and the state itself;
    it runs; else  Runs, ledger, counters, streams, Scope, crawl   status and limits keep copies of what they need of
    the loop       log; RulesOfHosts                               it (`_commit`); while it runs: Gauges.merges
    nobody: they   Config, Overrides, Block, Clock, Files,
    never change,  SegmentPool, what the catalogue noted at the
    or have locks  start (by how much the system's clock was set)

tests/crawl/test_owners.py fails when either touches what is the other's.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

from drum import Batch, Edits

from irlcrawl.base.job_files import SEEDS_STREAM, harvest_name, is_returns, parse_harvest
from irlcrawl.base.memory import Trim, plain_arrays
from irlcrawl.base.url import host_of
from irlcrawl.config.hours import Hours
from irlcrawl.config.rests import failures_till_given_up
from irlcrawl.crawl import recovery
from irlcrawl.crawl.closed_archives import ClosedWarcs
from irlcrawl.crawl.gauges import Gauges, merges
from irlcrawl.crawl.limits import Limits
from irlcrawl.crawl.returns import STALE, TAKEN, number_of
from irlcrawl.crawl.schedule import Schedule
from irlcrawl.crawl.this_run import ThisRun
from irlcrawl.frontier.dispatch.dispatch import Dispatcher
from irlcrawl.frontier.dispatch.workers import RemoteWorker
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.frontier.state.harvested import WRITTEN, archives_of
from irlcrawl.frontier.turn.release import Policy
from irlcrawl.frontier.turn.rules import RulesOfHosts
from irlcrawl.frontier.turn.turn import Result, Task, Turn
from irlcrawl.web.opt_out import OptOutFile
from irlcrawl.web.robots import product_token

TELL_SECONDS = 1.0
"""How long a stop waits for archive.on_warc_closed."""

MERGES_SECONDS = 0.5
"""A turn says how far its merges are no more often."""

R = TypeVar("R")

_log = logging.getLogger("irlcrawl.frontier")


class Turns:
    """wake(): something happened that the loop should look at."""

    def __init__(
        self, state: CrawlState, run: ThisRun, dispatcher: Dispatcher, schedule: Schedule, limits: Limits,
        gauges: Gauges, wake: Callable[[], None],
    ) -> None:  # fmt: skip
        self._state, self._config, self._clock, self._wake = state, state.config, state.clock, wake
        self._run, self._dispatcher, self._schedule, self._limits = run, dispatcher, schedule, limits
        self._gauges = gauges
        self._hours = Hours(state.config)
        self._opt_outs = OptOutFile.of_crawl(state.config, os.fspath(state.job.opt_outs))
        self._thread = ThreadPoolExecutor(1, "turn", initializer=plain_arrays)
        self._trim = Trim(state.clock, keep=True)
        self.closed = ClosedWarcs(state, state.config.archive.on_warc_closed)
        self._rules = RulesOfHosts(state, product_token(state.config.crawl.user_agent))
        self.on_suspects: Callable[[list[tuple[int, int, int]]], None] = lambda suspects: None
        """Told of sites that may be traps: key, URLs tried, pages of new content."""
        self._inbox: list[str] = []  # harvests no turn has taken
        self._lost: list[RemoteWorker] = []  # dead workers whose harvests are in the inbox
        self._begun: list[tuple[int, str]] = []  # streams that were begun while a turn ran, and their machines
        self.on_commit: Callable[[], None] = lambda: None
        """Told of each commit of a turn."""
        self.away: Callable[[], set[int]] = set
        """Streams of which something is still to come, from machines that are silent."""
        self._turn: asyncio.Future[Result] | None = None
        self._awaited = False  # nothing could be leased when the last turn began
        self._turn_lost: list[RemoteWorker] = []  # dead workers, and harvests, of the turn that runs
        self._turn_harvests: list[str] = []

    # -- what waits --------------------------------------------------------------------------------------------------

    def arrived(self, harvest: str) -> None:
        """A worker handed over a harvest."""
        if not self._inbox:
            self._schedule.inbox_filled()
        self._inbox.append(harvest)
        self._limits.pressure.arrived(harvest)

    def hand_in(self, file: str) -> str:
        """Take over the harvest of seeds, or of URLs to be asked again, that lies as `file` beside the state: durable
        under its own name on return. STALE if it was drawn before the crawl took another of its stream. OSError,
        Damaged."""
        state = self._state
        assert is_returns(file), file
        path = os.path.join(state.dir, file)
        known = [*self._inbox, *(self._turn_harvests if self._turn is not None else ())]
        ours = [name for name in known if (parse_harvest(name) or ())[:1] == (SEEDS_STREAM,)]
        number = state.catalog.get(f"streams/{SEEDS_STREAM}")["next"] + len(ours)
        if number_of(state.files, path) != number:
            return STALE
        name = harvest_name(SEEDS_STREAM, number)
        state.files.rename(path, os.path.join(state.dir, name))
        self.arrived(name)
        state.files.fsync_dir(state.dir)
        return TAKEN

    async def recover(self, worker: RemoteWorker) -> None:
        """What a dead worker left is recovered; the next turn takes in all of it and closes its stream."""
        # On the turns' thread: those begun before are over then, one begun meanwhile waits behind it.
        state = self._state
        left = await self.on_thread(recovery.recover_worker, state, self._config, worker.stream)
        worker.endings = left.endings
        known = {*self._inbox, *(self._turn_harvests if self._turn is not None else ())}
        for name in left.harvests:
            if name not in known:
                self._inbox.append(name)
                self._limits.pressure.arrived(name)
        self._schedule.inbox_filled()
        self._lost.append(worker)

    def begin_streams(self, count: int, node: str = "") -> list[int]:
        """Stream numbers for new workers, committed before they write anything under them. node: the machine they are
        on, if it is not this one."""
        catalog = self._state.catalog
        first: int = catalog.get("stream-next")
        streams = list(range(first, first + count))
        edits = Edits()
        edits.set("stream-next", first + count)
        for stream in streams:
            edits.set(f"streams/{stream}", _new_stream(node))
        catalog.commit(edits)
        self._begun += [(stream, node) for stream in streams]
        if self._turn is None:
            self._note_begun()
        return streams

    def _note_begun(self) -> None:
        """Between turns: which streams there are is the turn's to know."""
        for stream, node in self._begun:
            self._state.streams.setdefault(stream, _new_stream(node))
        self._begun.clear()

    @property
    def inbox(self) -> bool:
        """Harvests wait for a turn."""
        return bool(self._inbox)

    @property
    def handed_in(self) -> bool:
        """Something waits in memory that only a turn can put away."""
        return bool(self._inbox or self._lost or self._dispatcher.handover)

    # -- one at a time -----------------------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        return self._turn is not None

    def due(self, now: float) -> bool:
        """None runs, and one should."""
        if self._turn is not None:
            return False
        if self._run.code is not None or self._lost:
            return self.handed_in
        if self._limits.pressure.slow_down:
            return True
        return self._schedule.should_turn(now, self.handed_in, self.inbox)

    def begin(self) -> None:
        """A turn takes all that waits, on its thread."""
        harvests, self._inbox = self._inbox, []
        self._turn_harvests = harvests
        self._turn_lost, self._lost = self._lost, []
        self._dispatcher.ran_dry = False
        self._schedule.began()
        self._awaited = self._schedule.starving
        urgent = self._awaited or self._limits.pressure.slow_down
        task = self._task(harvests, urgent=urgent, merge=self._run.code is None)
        self._turn = asyncio.get_running_loop().run_in_executor(self._thread, Turn(self._state).run, task)
        self._turn.add_done_callback(lambda _: self._wake())
        self._thread.submit(self._trim.now_and_then)

    def finish(self) -> Result | None:
        """If the turn is done: commit it, take in what it brought, and return what it did. Raises what it raised."""
        if self._turn is None or not self._turn.done():
            return None
        result = self._turn.result()
        self._turn = None
        self._take_in(result)
        return result

    def _take_in(self, result: Result) -> None:
        state, dispatcher = self._state, self._dispatcher
        self._note_begun()
        for worker in self._turn_lost:
            self._limits.unfolded += dispatcher.orphaned(worker, state.runs.left)
            if again := dispatcher.untold(worker, state.runs.left):
                self._limits.unfolded -= sum(one.run.rows for one in again)
                records = recovery.known_records(state, [one.key for one in again])
                dispatcher.bring(again, [records[one.key] for one in again])
        self._close_streams(result, [worker.stream for worker in self._turn_lost])
        self._turn_lost.clear()
        self._commit(result)
        for hosts in result.forgiven:
            dispatcher.forgive(hosts)
        dispatcher.bring_all(result.ready)
        if result.suspects:
            self.on_suspects(result.suspects)
        if result.dropped:
            _log.warning("the frontier was full (frontier.bytes_max): %d URLs dropped", result.dropped)
        runs = sum(part.index.rows for part in result.ready)
        _log.info(
            "turn: %d harvests, %d outcomes, %d runs brought, %.0f ms (%.0f ms CPU); %d URLs in runs, %d visits out",
            len(result.harvests), result.folded, runs, result.seconds * 1e3, result.cpu_seconds * 1e3,
            state.runs.rows, dispatcher.visits_out,
        )  # fmt: skip

    async def first(self, harvests: list[str], states: Batch | None, streams: Iterable[int]) -> None:
        """The turn of an opening: it folds what was recovered of `streams`. With URLs to lease at hand it merges
        nothing, for that takes as long as the state is large."""
        task = self._task(harvests, states=states, urgent=True, merge=self._state.runs.rows_here == 0)
        result = await self.on_thread(Turn(self._state).run, task)
        self._limits.unfolded += result.folded  # reached in an earlier run: no visit of this one tells of them
        self._close_streams(result, streams)
        self._commit(result)

    async def last(self, seconds: float | None) -> bool:
        """Nothing is out: commit the last word, and give those who are told of closed archives so long. Whether they
        were told of all."""
        task = self._task(self._inbox, urgent=False, merge=False)
        result = await self.on_thread(Turn(self._state).run, task)
        self._close_streams(result, set(self._state.streams) - self.away())
        self._commit(result)
        all_told = await asyncio.get_running_loop().run_in_executor(None, self.closed.finish, seconds)
        self._thread.shutdown()
        return all_told

    async def bring(self, rows: int) -> bool:
        """A turn of a crawl that leases nothing (irlcrawl/rounds): so many more URLs into runs. Whether it did
        anything."""
        harvests, self._inbox = self._inbox, []
        task = replace(self._task(harvests, urgent=True), rows_wanted=rows)
        result = await self.on_thread(Turn(self._state).run, task)
        self._take_in(result)
        return result.moved

    def leave(self) -> None:
        """Waits no longer for the command that is told of closed archives."""
        self.closed.leave()

    async def on_thread(self, work: Callable[..., R], *args: Any) -> R:
        """What turns must not be beside: `work(*args)` on their thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)

    # -- how -----------------------------------------------------------------------------------------------------------

    def _task(self, harvests: list[str], *, states: Batch | None = None, urgent: bool, merge: bool = True) -> Task:
        now, going_on = self._clock.now(), self._run.code is None
        dispatcher, config = self._dispatcher, self._config
        policy = Policy(
            now=now,
            load=dispatcher.loads.at_hand(now).loads,
            blocked=self._blocked() if self._dispatcher.block.any_host else None,
            blocked_url=self._dispatcher.block.url if self._dispatcher.block.any_url else None,
            allowed=self._rules.allowed,
            quota_host=config.limits.pages_per_host,
            opens=self._opens(now) if self._hours.any else None,
            denials_max=failures_till_given_up(config.politeness),
            level_s=config.frontier.level_hours * 3600,
            opt_outs=self._opt_outs.latest,
        )
        return Task(
            now=now,
            harvests=harvests,
            rows_wanted=self._schedule.rows_wanted() if going_on else 0,
            policy=policy,
            states=states if states is not None else dispatcher.handover.take_states(),
            withdrawn=dispatcher.handover.take_withdrawn(),
            clocks=dispatcher.politeness.clocks.delta(now),
            merge=merge,
            urgent=urgent,
            proceed=self._proceed(),
        )

    def _blocked(self) -> Callable[[bytes], bool]:
        block = self._dispatcher.block
        return lambda origin: block.host(host_of(origin + b"/"))

    def _opens(self, now: float) -> Callable[[bytes], float]:
        hours = self._hours
        return lambda origin: hours.opens(host_of(origin + b"/"), now)

    def _proceed(self) -> Callable[[], bool]:
        """What a turn asks between the buckets of its merges; it tells how far they are."""
        stopping, state, told = self._run.stopping, self._state, self._gauges.merges
        due = 0.0

        def proceed() -> bool:
            nonlocal due
            if (now := state.clock.now()) >= due:
                due = now + MERGES_SECONDS
                told.append(merges(state))
            return not stopping.is_set()

        return proceed

    def _close_streams(self, result: Result, streams: Iterable[int]) -> None:
        """Streams of workers that are gone need no entry once all they left is ingested: with this result at last."""
        for stream in set(streams) - {SEEDS_STREAM}:
            result.edits.remove(f"streams/{stream}")
            ended = self._state.streams.pop(stream, None)
            if ended is not None and (count := archives_of(ended["warc"])):
                result.edits.set(f"{WRITTEN}{stream}", count)

    def _commit(self, result: Result) -> None:
        """What there is now is counted, one line committed; then the clocks' log starts anew and what lost its name is
        deleted."""
        state, now, dispatcher = self._state, self._clock.now(), self._dispatcher
        state.counters["elapsed_s"] = self._run.elapsed
        self._schedule.turned(result)
        self._limits.committed(state, result)
        self._gauges.count_state(state, self._rules.nbytes)
        result.edits.set("counters", state.counters)
        result.edits.set("status", self._gauges.record())
        self.closed.before(result.edits)
        began = self._clock.now()
        state.catalog.commit(result.edits)
        self._gauges.pace.turned(result, self._clock.now() - began, self._awaited)
        self.closed.after()
        politeness = dispatcher.politeness
        dispatcher.leases.roll([*politeness.clocks.unsaved(now), *politeness.promises_out()])
        state.delete_unnamed([*result.harvests, *result.written])
        dispatcher.runs.committed(state.runs.segments())
        dispatcher.fleet.scope_grew(result.scope_entries)
        self.on_commit()


def _new_stream(node: str) -> dict[str, Any]:
    """The catalogue's entry of a stream that has handed over nothing yet."""
    return {**recovery.NEW_STREAM, "node": node} if node else dict(recovery.NEW_STREAM)
