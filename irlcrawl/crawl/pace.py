"""Where the last minute of a crawl went, for `irlcrawl why JOB --slow`: of each thing that may hold it up, how much of
the time it did.

Everything is a sum that only grows: seconds of CPU, requests, and for what is so or not at a moment (all places taken,
the bandwidth used up) the seconds for which it was so. Every two seconds the sums are kept; what a minute brought is
the difference of two of them.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Any

from irlcrawl.crawl.limits import Limits
from irlcrawl.crawl.schedule import Schedule
from irlcrawl.frontier.dispatch.dispatch import Dispatcher
from irlcrawl.frontier.dispatch.outage import Outage
from irlcrawl.frontier.turn.turn import Result
from irlcrawl.worker.fetch.wire import Message

SAMPLE_SECONDS, WINDOW_SECONDS = 2.0, 60.0
CPU_SECONDS = 0.5
"""CPU times are asked for no more often in real time: under virtual time a crawl of weeks takes minutes."""

PACE = {
    "seconds": "over which all this was counted",
    "requests_per_s": "robots.txt and repeated ones included",
    "bytes_per_s": "of headers and bodies",
    "places": "visits that workers may carry at once",
    "visits": "visits that were out, on average",
    "places_full": "share of the time in which no worker had a place left",
    "visit_s": "seconds of a visit, from its lease to its end",
    "fetch_s": "seconds of a request, until the last byte of its answer",
    "fetching": "share of visits' time in which a request was under way; the rest are gaps",
    "body": "share of requests' time from the first byte of an answer to its last",
    "hosts": "in memory, on average",
    "names_waiting": "hosts that lacked an address, on average",
    "names_asked": "of these, asked for",
    "loop_cpu": "share of the time in which the frontier's loop computed",
    "loop_kept": "... in which it could have, but other processes had the CPU",
    "workers_cpu": "the same of a worker, on average of all",
    "workers_kept": "... kept from the CPU",
    "passes": "share of the time in which a pass over the state ran",
    "passes_cpu": "... of this, in which it computed; the rest is the disk, or other processes",
    "passes_awaited": "share of the time in which nothing could be requested before the pass that ran was over",
    "commits": "share of the time in which the loop waited for a commit to be on the disk",
    "syncs": "share of the time in which a worker waited for the disk (archive, harvests), on average of all",
    "bandwidth_used": "share of the time in which limits.bytes_per_second let nothing be leased",
    "merges_awaited": "share of the time in which nothing was leased because too many harvests were not merged",
    "no_network": "share of the time in which no name and no server answered",
    "closed": "share of the time in which no host may be asked at that hour",
}
"""What the field `pace` of the status record has, all over the last minute or so."""


def cpu_of_thread() -> tuple[float, float]:
    """Seconds for which the calling thread computed, and for which it was kept from it by others."""
    return time.thread_time(), _scheduled("/proc/thread-self/schedstat")[1]


def cpu_of_process(pid: int) -> tuple[float, float]:
    """The same of the first thread of a process, which is a worker's loop; (0, 0) if it is gone."""
    return _scheduled(f"/proc/{pid}/schedstat")


def _scheduled(path: str) -> tuple[float, float]:
    try:
        with open(path, encoding="ascii") as stream:
            ran, waited = stream.read().split()[:2]
        return int(ran) / 1e9, int(waited) / 1e9
    except OSError:  # gone, or a kernel without such counts
        return 0.0, 0.0


class Pace:
    """Owned by the event loop."""

    def __init__(self, dispatcher: Dispatcher, schedule: Schedule, limits: Limits, outage: Outage) -> None:
        self._dispatcher, self._schedule, self._limits, self._outage = dispatcher, schedule, limits, outage
        self._sums: dict[str, float] = defaultdict(float)
        self._kept: deque[tuple[float, dict[str, float]]] = deque()
        self._due = self._cpu_due = 0.0
        self._workers: dict[int, tuple[float, float]] = {}  # pid -> its CPU time at the last look

    def visited(self, message: Message, seconds: float) -> None:
        """A visit is over that took so long since its lease; its worker's message."""
        sums = self._sums
        sums["ended"] += 1
        sums["visit_s"] += seconds
        sums["requests"] += message["requests"]
        sums["bytes"] += message["bytes"]
        sums["fetching_s"] += message["fetching_s"]
        sums["body_s"] += message["body_s"]

    def turned(self, result: Result, commit_s: float, awaited: bool) -> None:
        """A turn was committed, and the loop waited so long for that. awaited: nothing could be leased before."""
        self._sums["passes_cpu"] += result.cpu_seconds
        self._sums["passes_awaited"] += result.seconds * awaited
        self._sums["passes_s"] += result.seconds
        self._sums["commits"] += commit_s

    def synced(self, seconds: float) -> None:
        """A worker waited so long for the disk."""
        self._sums["syncs"] += seconds

    def look(self, now: float) -> None:
        """In each pass of the loop; every SAMPLE_SECONDS it looks."""
        if now < self._due:
            return
        self._due = now + SAMPLE_SECONDS
        if self._kept:
            self._add(now, now - self._kept[-1][0])
        if (real := time.monotonic()) >= self._cpu_due:
            self._cpu_due = real + CPU_SECONDS
            self._count_cpu(worker.process.pid for worker in self._dispatcher.fleet.workers if not worker.node)
        self._kept.append((now, self._sums.copy()))
        while len(self._kept) > 2 and self._kept[1][0] <= now - WINDOW_SECONDS:
            self._kept.popleft()

    def _add(self, now: float, seconds: float) -> None:
        """What was so for the seconds since the last look, going by this moment."""
        hosts, limits = self._dispatcher, self._limits
        found: dict[str, float] = {
            "places": hosts.fleet.places,
            "visits": hosts.visits_out,
            "places_full": bool(hosts.fleet.workers) and not hosts.fleet.capacity,
            "hosts": len(hosts.hosts),
            "names_waiting": hosts.politeness.unresolved_hosts,
            "names_asked": hosts.politeness.resolving,
            "bandwidth_used": hosts.bandwidth.exhausted(now),
            "merges_awaited": limits.pressure.slow_down,
            "no_network": self._outage.paused,
            "closed": self._schedule.closed,
            "workers": len(hosts.fleet.workers),
        }
        for name, value in found.items():
            self._sums[name] += value * seconds

    def _count_cpu(self, pids: Iterable[int]) -> None:
        ran, kept = cpu_of_thread()
        self._sums["loop_cpu"], self._sums["loop_kept"] = ran, kept
        now = {pid: cpu_of_process(pid) for pid in pids}
        for pid, (ran, kept) in now.items():
            before = self._workers.get(pid, (ran, kept))
            self._sums["workers_cpu"] += max(ran - before[0], 0.0)
            self._sums["workers_kept"] += max(kept - before[1], 0.0)
        self._workers = now

    def record(self) -> dict[str, float]:
        """PACE; empty before two looks."""
        if len(self._kept) < 2:
            return {}
        (since, before), (until, after) = self._kept[0], self._kept[-1]
        seconds = until - since
        ratio = _ratio

        def sums(name: str) -> float:
            return after.get(name, 0.0) - before.get(name, 0.0)

        workers = sums("workers")
        shares = (
            "places", "visits", "places_full", "hosts", "names_waiting", "names_asked", "loop_cpu", "loop_kept",
            "commits", "passes_awaited", "bandwidth_used", "merges_awaited", "no_network", "closed",
        )  # fmt: skip
        found: dict[str, Any] = {
            "seconds": seconds,
            "requests_per_s": sums("requests") / seconds,
            "bytes_per_s": sums("bytes") / seconds,
            "visit_s": ratio(sums("visit_s"), sums("ended")),
            "fetch_s": ratio(sums("fetching_s"), sums("requests")),
            "fetching": ratio(sums("fetching_s"), sums("visit_s")),
            "body": ratio(sums("body_s"), sums("fetching_s")),
            "passes": sums("passes_s") / seconds,
            "passes_cpu": ratio(sums("passes_cpu"), sums("passes_s")),
            "workers_cpu": ratio(sums("workers_cpu"), workers),
            "workers_kept": ratio(sums("workers_kept"), workers),
            "syncs": ratio(sums("syncs"), workers),
            **{name: sums(name) / seconds for name in shares},
        }
        return {name: round(found[name], 4) for name in PACE}


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
