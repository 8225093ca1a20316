"""The status record of a running crawl (irlcrawl.crawl.status.FIELDS), counted from what the frontier holds.

Values that the loop owns are read when the record is made. The state is counted at each commit, since in between it may
belong to a turn (turns.py); only how far the merges are comes while one runs, as often as the turn says so.
"""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Callable
from heapq import nsmallest
from typing import Any

from irlcrawl.base.reasons import WITHOUT_RESPONSE
from irlcrawl.crawl.limits import Limits
from irlcrawl.crawl.pace import Pace
from irlcrawl.crawl.recent import Recent
from irlcrawl.crawl.schedule import Schedule
from irlcrawl.crawl.this_run import ThisRun
from irlcrawl.frontier.dispatch.dispatch import Dispatcher
from irlcrawl.frontier.dispatch.outage import Outage
from irlcrawl.frontier.state.crawl_state import CrawlState, pauses_of
from irlcrawl.worker.harvest.counters import COUNTERS

Merges = dict[str, dict[str, int]]
"""How far merges are, by drum."""

PLACES = {
    "runs": "ready", "calendar": "scheduled", "rests": "resting", "resting": "visited", "queued": "queued",
    "deferred": "over_budget", "pending": "moving",
}  # fmt: skip
"""Classes of the ledger -> what people are told of them, as `irlcrawl urls` does."""

LARGEST_SHOWN = FETCHING_SHOWN = 8
COSTLY_REST = 100.0
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Gauges:
    """Makes the record. Values that cost O(hosts) or O(files) are counted anew only so often that counting takes 1% of
    the time."""

    def __init__(
        self, state: CrawlState, run: ThisRun, dispatcher: Dispatcher, schedule: Schedule, limits: Limits,
        outage: Outage,
    ) -> None:  # fmt: skip
        self._clock, self._files, self._job = state.clock, state.files, state.job
        self._run, self._dispatcher, self._schedule = run, dispatcher, schedule
        self._limits, self._outage = limits, outage
        self._paused_all, self._pauses = state.config.crawl.pause, pauses_of(state.config, state.catalog.get("pauses"))
        self.merges: deque[Merges] = deque(maxlen=1)
        """Where a turn puts how far it is: a new dict each time, which nobody changes."""
        self.recent = Recent()
        self.machines: Callable[[], list[dict[str, Any]]] = list
        """Of each other machine, what status tells (irlcrawl/cluster/nodes.py)."""
        self.pace = Pace(dispatcher, schedule, limits, outage)
        self._costly: dict[str, Any] = {}
        self._costly_due = 0.0
        self.count_state(state, 0)

    def record(self) -> dict[str, Any]:
        """The whole record, as of now."""
        now = self._clock.now()
        if now >= self._costly_due:
            began = time.perf_counter()
            self._costly = self._count()
            self._costly_due = now + COSTLY_REST * (time.perf_counter() - began)
        state = self._run.state(self._outage.paused or self._paused_all)
        record = {"state": state, "paused": self._pauses, "pid": os.getpid(), "updated": now}
        return {**record, **self._of_state, **self._totals(), **self._costly}

    def count_state(self, state: CrawlState, rules_bytes: int) -> None:
        """Counts the values of the state, between turns. rules_bytes: of robots rules that turns keep in memory."""
        self._done = state.ledger.done
        self.recent.fetched(self._clock.now(), state.ledger.visits)
        self._state_held = _held(state, rules_bytes)
        self._of_state = _totals(state)
        self.unchecked = state.seen.pending_rows
        """URLs of which it is not known yet whether they are new."""
        self.merges.append(merges(state))

    def seeds(self) -> tuple[int, int]:
        """Given so far, and of these new, as of the last commit."""
        return self._of_state["seeds"], self._of_state["new_seeds"]

    def _totals(self) -> dict[str, Any]:
        hosts, pressure = self._dispatcher, self._limits.pressure
        return {
            "started": self._run.started,
            "elapsed_s": self._run.elapsed,
            "pages_per_s": self._pages_per_s(),
            "pages_per_s_over": self.recent.rates(self._clock.now(), self._of_state["fetched"]),
            "fetching": _fetching(hosts, self._clock.now()),
            "slowest_hosts": self.recent.slowest(self._clock.now()),
            # Of a visit that is out, the outcomes of its first URLs may be counted already.
            "queued_urls": max(self._of_state["discovered_urls"] - self._done - hosts.urls_out, 0),
            "leased_urls": hosts.urls_out,
            "active_hosts": len(hosts.hosts),
            "pass_seconds": self._schedule.turn_seconds,
            "pace": self.pace.record(),
            "merges": self.merges[-1],
            "frontier_bytes": pressure.frontier_bytes,
            "frontier_full": pressure.frontier_full,
            "harvest_bytes": pressure.harvest_bytes,
            "workers": len(hosts.fleet.workers),
            "machines": self.machines(),
            "proxies_down": dict(hosts.proxies_down.since),
            "wait_ends": self._limits.patience.ends_at(self._clock.now()),
        }

    def _pages_per_s(self) -> float | None:
        """None before it is known."""
        return self._schedule.pages_per_s if self._schedule.rate_known else None

    def _count(self) -> dict[str, Any]:
        dispatcher = self._dispatcher
        workers = [worker.process.pid for worker in dispatcher.fleet.workers if not worker.node]
        return {
            "ready_hosts": dispatcher.politeness.ready,
            "delayed_hosts": dispatcher.politeness.delayed(),
            "shared_addresses": dispatcher.politeness.shared_counts(),
            "throttled_addresses": dispatcher.politeness.throttled_counts(),
            "largest_addresses": _largest_addresses(dispatcher),
            "per_host_queue_size": _queue_sizes(dispatcher),
            "memory_bytes": _resident([os.getpid(), *workers]),
            "held": {
                "hosts": len(dispatcher.hosts),
                "clocks": len(dispatcher.politeness.clocks),
                "names": dispatcher.resolver.names,
                "block_bytes": dispatcher.runs.nbytes,
                **self._state_held,
            },
            "warc_bytes": self._files.total(self._job.warcs),
            "disk_free_bytes": self._files.free(self._job.path),
        }


def _totals(state: CrawlState) -> dict[str, Any]:
    ledger, counters = state.ledger, state.counters
    return {
        "fetched": ledger.visits,
        "fetched_by_reason": dict(counters.get("fetched_by_reason", {})),
        "failed": ledger.failed,
        "failed_by_reason": dict(counters.get("failed_by_reason", {})),
        "excluded": sum(ledger.excluded.values()),
        "excluded_by_reason": dict(ledger.excluded),
        "discovered_urls": ledger.discovered,
        "frontier_latency_s": state.latency.median,
        "waiting_by_place": {PLACES[name]: urls for name, urls in ledger.live.items()},
        "lists_out": len(state.runs.lent),
        "lent_urls": state.runs.rows - state.runs.rows_here,
        "lists_until": max((lent.until + state.clock_set for lent in state.runs.lent.values()), default=None),
        "scheduled_urls": state.calendar.rows,
        "scheduled_due": state.calendar.next_due(),
        "resting_urls": state.rests.rows,
        "resting_due": state.rests.next_due(),
        "resting_hosts": dict(counters.get("hosts_resting", {})),
        "pages": state.pages.rows,
        "pages_due": state.pages.next_due() if state.config.revisit.enabled else None,
        "pages_gone": ledger.gone,
        "visits_by_change": dict(counters.get("visits_by_change", {})),
        "visits_failed": counters.get("revisits_failed", 0),
        "visit_price": state.price if state.config.revisit.enabled else None,
        **{counted.field: counters.get(name, 0) for name, counted in COUNTERS.items() if counted.field},
        "seeds": counters.get("seeds", 0),
        "new_seeds": counters.get("new_seeds", 0),
        "fetch_failures": _without_response(counters),
        "lookups_per_url": state.sites.lookups / max(state.sites.discovered, 1),
        "over_budget_per_url": state.sites.rereads / max(state.sites.discovered, 1),
    }


def merges(state: CrawlState) -> Merges:
    """How far the merges are that were begun and are not over. For the thread that owns the state."""
    found = {}
    for drum in state.drums:
        done, buckets = drum.progress()
        waiting = drum.pending_rows
        if drum.merging or (waiting and 0 < done < buckets):
            found[drum.name] = {"buckets_done": done, "buckets": buckets, "rows_waiting": waiting}
    return found


def _held(state: CrawlState, rules_bytes: int) -> dict[str, int]:
    """How much of what grows for a while, and must stop growing, is in memory of the state's (I4)."""
    return {
        "rules_bytes": rules_bytes,
        "merge_rows": state.seen.ram_rows + state.sites.ram_rows + state.hosts.ram_rows,
        "queue_index_bytes": state.sites.index_bytes,
        "files_open": state.pool.files_open,
        "catalog_entries": len(state.catalog.items()),
    }


def _without_response(counters: dict[str, Any]) -> int:
    """Requests that ended without a response, repeated ones and visits to known pages included."""
    outcomes = [counters.get(f"{name}_by_reason", {}) for name in ("failed", "retry", "visits_failed")]
    return sum(told.get(reason.name.lower(), 0) for told in outcomes for reason in WITHOUT_RESPONSE)


def _fetching(dispatcher: Dispatcher, now: float) -> dict[str, float]:
    """Host -> since how many seconds it is visited, the longest first."""
    visits = [visit for worker in dispatcher.fleet.workers for visit in worker.visits.values()]
    longest = nsmallest(FETCHING_SHOWN, visits, key=lambda visit: visit.leased)
    return {f"{visit.host.scheme}://{visit.host.name}:{visit.host.port}": now - visit.leased for visit in longest}


def _largest_addresses(dispatcher: Dispatcher) -> dict[str, int]:
    """Address -> hosts in memory that resolve to it, the most first."""
    hosts = Counter(host.address for host in dispatcher.hosts.values() if host.address is not None)
    return dict(hosts.most_common(LARGEST_SHOWN))


def _queue_sizes(dispatcher: Dispatcher) -> dict[str, Any]:
    """Mean and maximum of the URLs in runs per host in memory, and the hosts that have most."""
    hosts, loads = dispatcher.hosts, dispatcher.loads
    largest = loads.largest(hosts.values(), LARGEST_SHOWN)
    return {
        "mean": loads.total() / len(hosts) if hosts else 0.0,
        "max": loads.rows(largest[0]) if largest else 0,
        "largest": {f"{host.scheme}://{host.name}:{host.port}": loads.rows(host) for host in largest},
    }


def _resident(pids: list[int]) -> int:
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/statm", encoding="ascii") as stream:
                total += int(stream.read().split()[1]) * PAGE_BYTES
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended a moment ago
    return total
