"""By how much the system's clock was set between the runs of a crawl, so that nothing waits for an hour more, or for
years, because of it.

Within a run no step of the system's clock is seen (irlcrawl/clock.py). Across runs the dates in the state, that is dues
in the calendar and what host records believe until when, rest by a clock that nobody sets: unix time less all seconds
by which the system's clock was set forward so far. What workers wrote, harvests and archives, has the unix time of
their run, so what is read of it later is moved by what was set since that run.

Catalogue `clock-set`: [first stream of a run, seconds in all before it], oldest first; absent where nobody ever set it.
"""

from __future__ import annotations

from drum import Catalog, Edits
from irlcrawl.clock import Clock

CLOCK_SET = "clock-set"
NOTED_MAX = 100


def clock_set(catalog: Catalog, stream: int | None = None) -> float:
    """Whole seconds by which the system's clock was set forward (negative: back) since the crawl began: up to now, or
    up to the run of a stream."""
    noted: list[tuple[int, float]] = catalog.get(CLOCK_SET, [])
    return next((seconds for first, seconds in reversed(noted) if stream is None or stream >= first), 0.0)


def set_since(catalog: Catalog, stream: int) -> float:
    """The same since the run of a stream."""
    return clock_set(catalog) - clock_set(catalog, stream)


def note_clock_set(catalog: Catalog, edits: Edits, clock: Clock, boot: str, stream: int) -> None:
    """At a start, before `clock-anchors` has this run: how far the clock was set since the last one. Of a machine that
    was started anew meanwhile only a clock behind the last turn tells: it was set back by so much at least."""
    anchors: list[tuple[int, str, float]] = catalog.get("clock-anchors", [])
    if anchors and boot and anchors[-1][1] == boot:
        seconds = round(clock.now() - clock.since_boot() - anchors[-1][2])
    else:
        seconds = round(min(0.0, clock.now() - catalog.get("learnt", 0.0) - clock_set(catalog)))
    if seconds:
        noted: list[tuple[int, float]] = catalog.get(CLOCK_SET, [])
        edits.set(CLOCK_SET, [*noted[1 - NOTED_MAX :], (stream, clock_set(catalog) + seconds)])
