"""By how much the system's clock was set between the runs of a crawl, so that nothing waits for an hour more, or for
years, because of it.

Within a run no step of the system's clock is seen (base/clock.py). Across runs the dates in the state, that is dues
in the calendar, the committed clocks, what the hosts drum believes until when, and `learnt`, are *at rest*: unix time
less all seconds by which the system's clock was set so far, forward less back. What workers wrote, harvests and
archives, has the unix time of their run, so what is read of it later is moved by what was set since that run.

Catalogue `clock-set`: [first stream of a run, seconds in all before it], oldest first; absent where nobody ever set it.
(`clock-anchors` has each start's clock to the millisecond, for those who put log lines in order: politeness_audit.py.)
"""

from __future__ import annotations

import logging
import math

from drum import Catalog, Edits
from irlcrawl.base.clock import Clock

CLOCK_SET = "clock-set"
NOTED_MAX = 100
CLOCK_STEP_S_MIN = 0.001

_log = logging.getLogger("irlcrawl.start")


def clock_set(catalog: Catalog, stream: int | None = None) -> float:
    """Whole seconds by which the system's clock was set forward (negative: back) since the crawl began: up to now, or
    up to the run of a stream."""
    noted: list[tuple[int, float]] = catalog.get(CLOCK_SET, [])
    return next((seconds for first, seconds in reversed(noted) if stream is None or stream >= first), 0.0)


def set_since(catalog: Catalog, stream: int) -> float:
    """The same since the run of a stream."""
    return clock_set(catalog) - clock_set(catalog, stream)


def note_clock_set(catalog: Catalog, edits: Edits, clock: Clock, boot: str, stream: int) -> None:
    """At a start, before `clock-anchors` has this run: how far the clock was set since the last one that had a worker;
    one that had none (its streams would begin where ours do) dated nothing. Of a machine that was started anew
    meanwhile only a clock behind the last turn tells: it was set back by so much at least."""
    noted = [tuple(one) for one in catalog.get(CLOCK_SET, []) if one[0] < stream]
    anchors = [one for one in catalog.get("clock-anchors", []) if one[0] < stream]
    before = noted[-1][1] if noted else 0.0
    if anchors and boot and anchors[-1][1] == boot:
        seconds = clock.now() - clock.since_boot() - anchors[-1][2]
    else:
        seconds = min(0.0, clock.now() - catalog.get("learnt", 0.0) - before)
    seconds = math.ceil(seconds - CLOCK_STEP_S_MIN)  # whole: dates lose no digits; upwards: none is early
    if before + seconds != clock_set(catalog):
        edits.set(CLOCK_SET, [*noted[1 - NOTED_MAX :], (stream, before + seconds)])
    if seconds:
        _log.info("the system's clock was set by %d s since the last run", seconds)
