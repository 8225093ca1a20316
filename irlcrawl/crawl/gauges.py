"""The status record of a running crawl (irlcrawl.crawl.status.FIELDS), counted from what the frontier holds."""

from __future__ import annotations

import heapq
import os
import time
from typing import TYPE_CHECKING, Any

from irlcrawl.base.reasons import WITHOUT_RESPONSE
from irlcrawl.worker.harvest.counters import COUNTERS

if TYPE_CHECKING:
    from irlcrawl.crawl.loop import CrawlLoop

LARGEST_SHOWN = 5
COSTLY_REST = 100.0
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Gauges:
    """Makes the record. What costs O(hosts) or O(files) is counted anew only so often that it takes 1% of the time."""

    def __init__(self, loop: CrawlLoop) -> None:
        self._loop = loop
        self._costly: dict[str, Any] = {}
        self._costly_due = 0.0

    def record(self, state_name: str) -> dict[str, Any]:
        """The whole record, with `state` as given."""
        now = self._loop.clock.now()
        if now >= self._costly_due:
            began = time.perf_counter()
            self._costly = self._count()
            self._costly_due = now + COSTLY_REST * (time.perf_counter() - began)
        return {"state": state_name, "pid": os.getpid(), "updated": now, **self._totals(now), **self._costly}

    def _totals(self, now: float) -> dict[str, Any]:
        loop = self._loop
        state, hosts = loop.state, loop.dispatcher
        ledger, counters = state.ledger, state.counters
        return {
            "started": loop.started,
            "elapsed_s": loop.elapsed_before + now - loop.started,
            "fetched": ledger.fetched,
            "fetched_by_reason": dict(counters.get("fetched_by_reason", {})),
            "failed": ledger.failed,
            "failed_by_reason": dict(counters.get("failed_by_reason", {})),
            "excluded": sum(ledger.excluded.values()),
            "excluded_by_reason": dict(ledger.excluded),
            "pages_per_s": loop.schedule.pages_per_s,
            "discovered_urls": ledger.discovered,
            # Of a visit that is out, the outcomes of its first URLs may be counted already.
            "queued_urls": max(ledger.discovered - ledger.done - hosts.urls_out, 0),
            "leased_urls": hosts.urls_out,
            "calendar_urls": state.calendar.rows,
            "calendar_due": state.calendar.next_due(),
            **{counted.field: counters.get(name, 0) for name, counted in COUNTERS.items() if counted.field},
            "queued_hosts": len(hosts.hosts),
            "fetch_failures": _without_response(counters),
            "frontier_latency_s": loop.schedule.turn_seconds,
            "merges": _merges(loop),
            "frontier_bytes": loop.pressure.frontier_bytes,
            "frontier_full": loop.pressure.frontier_full,
            "harvest_bytes": loop.pressure.harvest_bytes,
            "lookups_per_url": state.sites.lookups / max(state.sites.discovered, 1),
            "rereads_per_url": state.sites.rereads / max(state.sites.discovered, 1),
            "workers": len(loop.fleet.workers),
        }

    def _count(self) -> dict[str, Any]:
        loop = self._loop
        job, files = loop.state.job, loop.state.files
        return {
            "ready_hosts": loop.politeness.ready,
            "delayed_hosts": loop.politeness.delayed(),
            "per_host_queue_size": _queue_sizes(loop),
            "memory_bytes": _resident([os.getpid(), *(worker.process.pid for worker in loop.fleet.workers)]),
            "held": _held(loop),
            "warc_bytes": files.total(job.warcs),
            "disk_free_bytes": files.free(job.path),
        }


def _merges(loop: CrawlLoop) -> dict[str, dict[str, int]]:
    """How far the merges are that were begun and are not over, by drum."""
    found = {}
    for drum in loop.state.drums:
        done, buckets = drum.progress()
        waiting = drum.pending_rows
        if drum.merging or (waiting and 0 < done < buckets):
            found[drum.name] = {"buckets_done": done, "buckets": buckets, "rows_waiting": waiting}
    return found


def _held(loop: CrawlLoop) -> dict[str, int]:
    """How much of what grows for a while, and must stop growing, is in memory (I4)."""
    state = loop.state
    return {
        "hosts": len(loop.dispatcher.hosts),
        "clocks": len(loop.clocks),
        "names": loop.resolver.names,
        "rules_bytes": loop.turns.rules.nbytes,
        "block_bytes": state.runs.cached_bytes,
        "merge_rows": state.seen.ram_rows + state.sites.ram_rows + state.hosts.ram_rows,
        "queue_index_bytes": state.sites.index_bytes,
        "files_open": state.pool.files_open,
        "catalog_entries": len(state.catalog.items()),
    }


def _without_response(counters: dict[str, Any]) -> int:
    """Requests that ended without a response, repeated ones included."""
    outcomes = (counters.get("failed_by_reason", {}), counters.get("retry_by_reason", {}))
    return sum(told.get(reason.name.lower(), 0) for told in outcomes for reason in WITHOUT_RESPONSE)


def _queue_sizes(loop: CrawlLoop) -> dict[str, Any]:
    """Mean and maximum of the URLs in runs per host in memory, and the hosts that have most."""
    hosts = list(loop.dispatcher.hosts.values())
    largest = heapq.nlargest(LARGEST_SHOWN, hosts, key=lambda host: host.rows)
    return {
        "mean": sum(host.rows for host in hosts) / len(hosts) if hosts else 0.0,
        "max": largest[0].rows if largest else 0,
        "largest": {f"{host.scheme}://{host.name}:{host.port}": host.rows for host in largest},
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
