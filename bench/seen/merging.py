"""`python -m bench.seen.merging JSON ARGUMENT…`: irlcrawl with these arguments, watched from inside, given links.

Nothing of the crawl is changed but this: when told, a harvest that was prepared (bench/seen/beside.py) enters like one
that a worker handed over, and the next turn merges it into the crawl's own drum `seen`.

JSON: {"trigger": a file whose appearance tells, "harvest": the prepared file, on the file system of JOB, "rows": how
many links it has, "report": where a Report is written when they are merged, as JSON, under a temporary name first}.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import irlcrawl.cli.main
from irlcrawl.base.job_files import SEEDS_STREAM, harvest_name
from irlcrawl.crawl import supervisor
from irlcrawl.crawl.loop import CrawlLoop
from irlcrawl.frontier.dispatch.visits import Host
from irlcrawl.frontier.dispatch.workers import RemoteWorker
from irlcrawl.frontier.politeness.hosts import HostEntry
from irlcrawl.frontier.turn.turn import Result

LAG_SECONDS = 0.005
ORDER: dict[str, Any] = {}


@dataclass
class Report:
    """What the frontier saw; all times are unix seconds. `leases`: (when, milliseconds since it could have been given:
    the host's clocks were due, and a worker had room). `lags`: (when, milliseconds that the loop came late)."""

    began: float = 0.0  # of the first turn that had the links
    ended: float = 0.0  # of the commit after which none of them waits
    merge_cpu_s: float = 0.0  # of the turns between
    turns: list[tuple[float, float]] = field(default_factory=list)  # begin, end
    new_keys: int = 0
    leases: list[tuple[float, float]] = field(default_factory=list)
    lags: list[tuple[float, float]] = field(default_factory=list)


class Watched(CrawlLoop):
    def __init__(self, *known: Any) -> None:
        super().__init__(*known)
        self.report = Report()
        self._prepared = Path(ORDER["harvest"])
        self._merging = False
        self._full = False  # no worker had room when leases were given last
        self._room_since = 0.0
        self._ready_since: dict[int, float] = {}  # by host: since it is in memory with its address known
        self._lease, self.dispatcher._lease = self.dispatcher._lease, self._timed  # type: ignore[method-assign]
        self._begin, self.turns.begin = self.turns.begin, self._turn_begins  # type: ignore[method-assign]
        self._finish, self.turns.finish = self.turns.finish, self._turn_ended  # type: ignore[method-assign]
        polite: Any = self.dispatcher.politeness
        self._resolved, polite.resolved = polite.resolved, self._timed_resolved
        self._activate_many, polite.activate_many = polite.activate_many, self._timed_activate_many
        self._late = asyncio.get_running_loop().create_task(self._look())

    def _timed_resolved(self, entry: HostEntry, address: str, expires: float) -> None:
        self._ready_since[entry.key] = self.clock.now()
        self._resolved(entry, address, expires)

    def _timed_activate_many(self, entries: Sequence[HostEntry]) -> list[float]:
        self._ready_since.update((entry.key, self.clock.now()) for entry in entries)
        due: list[float] = self._activate_many(entries)
        return due

    def _timed(self, host: Host, worker: RemoteWorker, rows: int) -> None:
        """A lease. What stands in the way of one: clocks that are not due, and workers that are full."""
        now = self.clock.now()
        could = max(self.dispatcher.politeness.due(host), self._room_since, self._ready_since[host.key])
        self.report.leases.append((time.time(), 1e3 * max(now - could, 0.0)))
        self._lease(host, worker, rows)
        self._full = not self.fleet.capacity

    def _take(self, worker: RemoteWorker, message: Any) -> None:
        if message["t"] == "end" and self._full:
            self._full, self._room_since = False, message["ended"] or self.clock.now()
        super()._take(worker, message)

    async def _look(self) -> None:
        due = time.perf_counter()
        while True:
            due += LAG_SECONDS
            await asyncio.sleep(max(due - time.perf_counter(), 0.0))
            late = time.perf_counter() - due
            self.report.lags.append((time.time(), 1e3 * late))
            due = max(due, time.perf_counter() - LAG_SECONDS)

    def _ask_for_harvests(self, now: float) -> None:
        if not self._merging and self._prepared.exists() and Path(ORDER["trigger"]).exists():
            name = harvest_name(SEEDS_STREAM, self.state.streams[SEEDS_STREAM]["next"])
            self._prepared.rename(Path(self.state.dir) / name)
            self.turns._inbox.append(name)
            self.schedule.inbox_filled()
            self.schedule.moved = self._merging = True
        super()._ask_for_harvests(now)

    def _turn_begins(self) -> None:
        if self._merging and not self.report.began:
            self.report.began = time.time()
            self.report.new_keys = self.state.seen.rows
        self._begin()

    def _turn_ended(self) -> Result | None:
        result = self._finish()
        if result is not None and self.report.began and not self.report.ended:
            self._note(result)
        return result

    def _note(self, result: Result) -> None:
        report = self.report
        now = time.time()
        report.turns.append((now - result.seconds, now))
        report.merge_cpu_s += result.cpu_seconds
        if self.state.seen.pending_rows < ORDER["rows"] // 100:
            report.ended = now
            report.new_keys = self.state.seen.rows - report.new_keys
            self._late.cancel()
            scratch = Path(ORDER["report"]).with_suffix(".tmp")
            scratch.write_text(json.dumps(asdict(report)))
            os.replace(scratch, ORDER["report"])


def main(argv: list[str]) -> int:
    ORDER.update(json.loads(argv[0]))
    supervisor.CrawlLoop = Watched  # type: ignore[assignment, misc]
    return irlcrawl.cli.main.main(argv[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
