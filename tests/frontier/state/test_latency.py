"""How long URLs wait from discovery to request, against every URL remembered."""

from __future__ import annotations

import statistics
from typing import Any

from drum import Ragged

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.frontier.state.latency import Latency
from irlcrawl.worker.archive.crawl_log import LogEntry, format_entry


def line(started: float | None) -> bytes:
    start_ms = None if started is None else int(started * 1000)
    return format_entry(LogEntry(0, 200, 0, b"http://a.test/", "-", start_ms=start_ms, duration_ms=5))


STEP = st.tuples(st.sampled_from(["found", "requested", "unrequested", "left"]), st.integers(0, 40), st.integers(0, 90))


@given(st.lists(STEP, max_size=30))
def test_the_median_is_that_of_all_while_all_are_kept(steps: list[Any]) -> None:
    latency, waiting, waits, number = Latency(), dict[int, float](), [], 0
    for now, (kind, count, pick) in enumerate(steps):
        some = list(waiting)[pick % 7 :: 3][:count]
        keys = np.array(some, np.uint64)
        if kind == "found":
            fresh = np.random.default_rng(number).integers(0, 2**63, count, np.uint64)
            latency.found(fresh, float(now))
            waiting.update(dict.fromkeys(fresh.tolist(), float(now)))
            number += 1
        elif kind == "left":
            latency.left(keys)
        else:
            started = now + 0.25 if kind == "requested" else None
            latency.requested(keys, Ragged.from_list([line(started)] * len(keys)))
            waits += [started - waiting[key] for key in some if started is not None]
        if kind != "found":
            for key in some:
                del waiting[key]
        assert len(latency) == len(waiting)
        assert latency.median == (statistics.median(waits) if waits else None)


def test_i4_the_sample_is_bounded_and_no_url_is_favoured() -> None:
    """A million URLs of two kinds, one waits ten times as long: the median of those requested is that of all."""
    rng, latency = np.random.default_rng(1), Latency(waiting_max=4096)
    keys = rng.permutation(np.unique(rng.integers(0, 2**63, 1_000_000, np.uint64)))
    for part in np.array_split(keys, 40):
        latency.found(part, 1000.0)
        assert len(latency) <= 2 * 4096
    slow = rng.random(len(keys)) < 0.25
    lines = Ragged.from_list([line(1100.0), line(1010.0)])
    for part, which in zip(np.array_split(keys, 40), np.array_split(slow, 40), strict=True):
        latency.requested(part, lines.take(np.where(which, 0, 1)))
    assert latency.median == 10.0 and len(latency) == 0
    assert abs(statistics.mean(latency._waits) - 32.5) < 5, "a quarter of the sample is slow, too"
