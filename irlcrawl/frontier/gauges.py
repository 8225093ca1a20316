"""The status record of a running crawl (irlcrawl.watch.status.FIELDS), counted from what the frontier holds."""

from __future__ import annotations

import heapq
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from irlcrawl.frontier.frontier import Frontier

LARGEST_SHOWN = 5
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def status(frontier: Frontier, state_name: str) -> dict[str, Any]:
    """The record; cheap enough for twice a second."""
    state, hosts, politeness = frontier.state, frontier.hosts, frontier.politeness
    ledger, counters = state.ledger, state.counters
    ready = politeness.ready
    stat = os.statvfs(state.job.path)
    return {
        "state": state_name,
        "pid": os.getpid(),
        "started": frontier.started,
        "updated": frontier.clock.now(),
        "elapsed_s": frontier.elapsed_before + frontier.clock.now() - frontier.started,
        "fetched": ledger.fetched,
        "fetched_by_reason": dict(counters.get("fetched_by_reason", {})),
        "failed": ledger.failed,
        "failed_by_reason": dict(counters.get("failed_by_reason", {})),
        "excluded": sum(ledger.excluded.values()),
        "excluded_by_reason": dict(ledger.excluded),
        "bytes": counters.get("bytes", 0),
        "pages_per_s": frontier.schedule.pages_per_s,
        "discovered_urls": ledger.discovered,
        "queued_urls": ledger.discovered - ledger.done - hosts.urls_out,
        "leased_urls": hosts.urls_out,
        "duplicate_urls": counters.get("duplicates", 0),
        "out_of_scope_urls": counters.get("out_of_scope", 0),
        "queued_hosts": len(hosts.hosts),
        "ready_hosts": ready,
        "delayed_hosts": politeness.delayed(),
        "per_host_queue_size": _queue_sizes(frontier),
        "fetch_failures": hosts.counts.visits_failed,
        "retry_count": counters.get("retries", 0),
        "frontier_latency_s": frontier.schedule.turn_seconds,
        "workers": len(frontier.fleet.links),
        "memory_bytes": _resident([os.getpid(), *(link.process.pid for link in frontier.fleet.links)]),
        "warc_bytes": _size_of(str(state.job.warcs)),
        "disk_free_bytes": stat.f_bavail * stat.f_frsize,
    }


def _size_of(directory: str) -> int:
    with os.scandir(directory) as entries:
        return sum(entry.stat().st_size for entry in entries)


def _queue_sizes(frontier: Frontier) -> dict[str, Any]:
    """Mean and maximum of the URLs in runs per host in memory, and the hosts that have most."""
    hosts = list(frontier.hosts.hosts.values())
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
        except FileNotFoundError:
            continue  # it ended a moment ago
    return total
