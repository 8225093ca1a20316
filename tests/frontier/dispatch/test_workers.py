"""Who gets the next visit: workers stay balanced whatever share of the web one host is."""

from __future__ import annotations

import heapq
import random
import signal

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.frontier.dispatch.workers import Fleet, RemoteWorker, how_ended


def crawl(shares: list[int], workers: int, visit_urls: int = 64) -> list[float]:
    """Work of each worker when hosts of so many pages are crawled, one visit at a time each, gaps at zero."""
    fleet = Fleet(128, 60.0, lambda worker, message: None, lambda worker: None)
    fleet.workers = [RemoteWorker(stream, None) for stream in range(workers)]  # type: ignore[arg-type]
    draw, total = random.Random(1), [0.0] * workers
    left, sticky = list(shares), [-1] * len(shares)
    now, out = 0.0, list[tuple[float, int, int]]()  # (end, host, rows)
    waiting = list(range(len(shares)))
    while waiting or out:
        fleet.watch(now)
        for host in waiting:
            worker = fleet.choose(sticky[host])
            assert worker is not None
            sticky[host], rows = worker.stream, min(visit_urls, left[host])
            worker.urls_out += rows
            worker.visits[host] = None
            heapq.heappush(out, (now + rows * draw.uniform(0.001, 0.002) * (1 + len(worker.visits)), host, rows))
        waiting.clear()
        now, host, rows = heapq.heappop(out)
        worker = fleet.workers[sticky[host]]
        worker.urls_out -= rows
        del worker.visits[host]
        received = int(rows * draw.uniform(20_000, 60_000))
        fleet.worked(worker, rows, received)
        total[worker.stream] += rows + received / 32_000
        left[host] -= rows
        if left[host]:
            waiting.append(host)
    return total


@pytest.mark.parametrize(
    ("shares", "workers"),
    [
        ([2600, 700, 600, 500, 400, 200, 100], 2),  # docsweb's P5: one host is half the web
        ([520] * 10, 2),
        ([900] * 12, 4),  # mirrors: no host exceeds a tenth
        ([100] * 400, 4),
        ([500] * 40, 1),
    ],
)
def test_workers_are_balanced_within_15_percent(shares: list[int], workers: int) -> None:
    work = crawl(shares, workers)
    assert max(work) / (sum(work) / workers) < 1.15
    assert sum(work) > sum(shares)


def test_how_a_worker_ended_is_said_in_words() -> None:
    assert "memory" in how_ended(-signal.SIGKILL) and "silence" in how_ended(-signal.SIGKILL, killed=True)
    assert how_ended(-signal.SIGSEGV) == "was ended by signal 11"
    assert "no room" in how_ended(ExitCode.DISK_FULL)
    assert how_ended(1) == "ended with status 1"
