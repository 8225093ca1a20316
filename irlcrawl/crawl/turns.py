"""Turns as the loop sees them: what waits for the next one, the thread they run on, and the commit of what they did.

A turn runs beside the loop, one at a time. When a crawl stops, the one that runs ends at the next bucket of its merge;
what it has not merged stays pending.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from drum import Batch
from irlcrawl.base.memory import Trim, plain_arrays
from irlcrawl.base.url import host_of
from irlcrawl.crawl.closed_archives import ClosedWarcs
from irlcrawl.frontier.dispatch.workers import RemoteWorker
from irlcrawl.frontier.state.crawl_state import SEEDS_STREAM
from irlcrawl.frontier.turn.release import Policy
from irlcrawl.frontier.turn.rules import RulesOfHosts
from irlcrawl.frontier.turn.turn import Result, Task, Turn
from irlcrawl.web.robots import product_token

if TYPE_CHECKING:
    from irlcrawl.crawl.loop import CrawlLoop

TELL_SECONDS = 1.0
"""How long a stop waits for archive.on_warc_closed."""

_log = logging.getLogger("irlcrawl.frontier")


class Turns:
    def __init__(self, loop: CrawlLoop) -> None:
        self._loop = loop
        self._thread = ThreadPoolExecutor(1, "turn", initializer=plain_arrays)
        self._trim = Trim(loop.clock, keep=True)
        self._closed = ClosedWarcs(loop.state, loop.config.archive.on_warc_closed)
        self.rules = RulesOfHosts(loop.state, product_token(loop.config.crawl.user_agent))
        self._inbox: list[str] = []  # harvests no turn has taken
        self._lost: list[RemoteWorker] = []  # dead workers whose harvests are in the inbox
        self._turn: asyncio.Future[Result] | None = None
        self._turn_lost: list[RemoteWorker] = []  # dead workers, and harvests, of the turn that runs
        self._turn_harvests: list[str] = []

    # -- what waits --------------------------------------------------------------------------------------------------

    def arrived(self, harvest: str) -> None:
        """A worker handed over a harvest."""
        loop = self._loop
        if not self._inbox:
            loop.schedule.inbox_filled()
        self._inbox.append(harvest)
        loop.pressure.arrived(harvest)

    def take_remains(self, worker: RemoteWorker, harvests: list[str]) -> None:
        """What a dead worker left has been recovered: the next turn takes in all of it and closes its stream."""
        known = {*self._inbox, *(self._turn_harvests if self._turn is not None else ())}
        for name in harvests:
            if name not in known:
                self._inbox.append(name)
                self._loop.pressure.arrived(name)
        self._loop.schedule.inbox_filled()
        self._lost.append(worker)

    @property
    def inbox(self) -> bool:
        """Harvests wait for a turn."""
        return bool(self._inbox)

    @property
    def handed_in(self) -> bool:
        """Something waits in memory that only a turn can put away."""
        return bool(self._inbox or self._lost or self._loop.dispatcher.handover)

    # -- one at a time -----------------------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        return self._turn is not None

    def due(self, now: float) -> bool:
        """None runs, and one should."""
        loop = self._loop
        if self._turn is not None:
            return False
        if loop.ending is not None or self._lost:
            return self.handed_in
        if loop.pressure.slow_down:
            return True
        return loop.schedule.should_turn(now, self.handed_in, self.inbox)

    def begin(self) -> None:
        """A turn takes all that waits, on its thread."""
        loop = self._loop
        harvests, self._inbox = self._inbox, []
        self._turn_harvests = harvests
        self._turn_lost, self._lost = self._lost, []
        loop.dispatcher.ran_dry = False
        loop.schedule.began()
        urgent = loop.schedule.starving or loop.pressure.slow_down
        task = self._task(harvests, urgent=urgent, merge=loop.ending is None)
        self._turn = asyncio.get_running_loop().run_in_executor(self._thread, Turn(loop.state).run, task)
        self._turn.add_done_callback(lambda _: loop.wake())
        self._thread.submit(self._trim.now_and_then)

    def finish(self) -> None:
        """If the turn is done: commit it, and take in what it brought. Raises what it raised."""
        if self._turn is not None and self._turn.done():
            result = self._turn.result()
            self._turn = None
            self._take_in(result)

    def _take_in(self, result: Result) -> None:
        loop = self._loop
        for worker in self._turn_lost:
            loop.limits.unfolded += loop.dispatcher.orphaned(worker, loop.state.runs.left)
        self._close_streams(result, [worker.stream for worker in self._turn_lost])
        self._turn_lost.clear()
        self._commit(result)
        loop.dispatcher.bring_all(result.ready)
        if result.scope_entries:
            entries = [entry.decode("ascii") for entry in result.scope_entries]
            version = loop.state.scope.version
            loop.fleet.broadcast({"t": "scope", "version": version, "entries": entries})
        loop.limits.unfolded -= result.folded
        if result.folded:
            loop.deaths.page_taken_in()
        if result.dropped:
            _log.warning("the frontier was full (frontier.bytes_max): %d URLs dropped", result.dropped)
        runs = sum(part.index.rows for part in result.ready)
        _log.info(
            "turn: %d harvests, %d outcomes, %d runs brought, %.0f ms (%.0f ms CPU); %d URLs in runs, %d visits out",
            len(result.harvests), result.folded, runs, result.seconds * 1e3, result.cpu_seconds * 1e3,
            loop.state.runs.rows, loop.dispatcher.visits_out,
        )  # fmt: skip

    async def first(self, harvests: list[str], states: Batch | None, streams: Iterable[int]) -> None:
        """The turn of an opening: it folds what was recovered of `streams`. With URLs to lease at hand it merges
        nothing, for that takes as long as the state is large."""
        task = self._task(harvests, states=states, urgent=True, merge=self._loop.state.runs.rows == 0)
        result = await self.on_thread(Turn(self._loop.state).run, task)
        self._close_streams(result, streams)
        self._commit(result)

    async def last(self, seconds: float | None) -> bool:
        """Nothing is out: commit the last word, and give those who are told of closed archives so long. Whether they
        were told of all."""
        result = Turn(self._loop.state).run(self._task(self._inbox, urgent=False, merge=False))
        self._close_streams(result, list(self._loop.state.streams))
        self._commit(result)
        all_told = await asyncio.get_running_loop().run_in_executor(None, self._closed.finish, seconds)
        self._thread.shutdown()
        return all_told

    def leave(self) -> None:
        """Who is told of closed archives is not waited for any longer."""
        self._closed.leave()

    async def on_thread(self, work: Callable[..., Any], *args: Any) -> Any:
        """What turns must not be beside: `work(*args)` on their thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)

    # -- how -----------------------------------------------------------------------------------------------------------

    def _task(self, harvests: list[str], *, states: Batch | None = None, urgent: bool, merge: bool = True) -> Task:
        loop = self._loop
        now = loop.clock.now()
        policy = Policy(
            now=now,
            load=loop.dispatcher.loads.of,
            blocked=self._blocked if loop.overrides.block_any else None,
            allowed=self.rules.allowed,
            quota_host=loop.config.limits.pages_per_host,
            denials_max=loop.config.politeness.retries_max,
        )
        return Task(
            now=now,
            harvests=harvests,
            rows_wanted=loop.schedule.rows_wanted() if loop.ending is None else 0,
            policy=policy,
            states=states if states is not None else loop.dispatcher.handover.take_states(),
            withdrawn=loop.dispatcher.handover.take_withdrawn(),
            clocks=loop.clocks.delta(now),
            merge=merge,
            urgent=urgent,
            proceed=lambda: loop.ending is None,
        )

    def _blocked(self, origin: bytes) -> bool:
        return self._loop.overrides.blocked(host_of(origin + b"/"))

    def _close_streams(self, result: Result, streams: Iterable[int]) -> None:
        """Streams of workers that are gone need no entry once all they left is ingested: with this result at last."""
        for stream in set(streams) - {SEEDS_STREAM}:
            result.edits.remove(f"streams/{stream}")
            self._loop.state.streams.pop(stream, None)

    def _commit(self, result: Result) -> None:
        """One line; then what lost its name is deleted and the clocks' log starts anew."""
        loop = self._loop
        state, now = loop.state, loop.clock.now()
        state.counters["elapsed_s"] = loop.elapsed_before + now - loop.started
        result.edits.set("counters", state.counters)
        result.edits.set("status", loop.status())
        self._closed.before(result.edits)
        state.catalog.commit(result.edits)
        self._closed.after()
        promises = [*loop.clocks.unsaved(now), *loop.politeness.promises_out()]
        loop.dispatcher.leases.roll(promises)
        state.delete_unnamed([*result.harvests, *result.written])
        loop.schedule.turned(result)
        loop.disk_space.count()
        loop.pressure.committed(result.harvests)
        loop.dispatcher.scope_version = state.scope.version
