"""By how much the system's clock was set between the runs of a crawl, so that no URL waits hours or years longer for
it.

Within a run no step of the system's clock is seen (base/clock.py). Across runs the dates in the state are *at rest*:
unix time less all seconds by which the system's clock was set so far, forward less back. These are dues in the
calendar, the committed clocks, dates in the hosts drum, and `learnt`. Files that workers wrote, harvests and archives,
have the unix time of their run, so dates read from them later are moved by the seconds set since that run.

Catalogue `clock-set`: [first stream of a run, seconds in all before it], oldest first; absent if the clock was never
set. (`clock-anchors` has each start's clock to the millisecond, for putting log lines in order: politeness_audit.py.)
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
    """Note at a start, before `clock-anchors` has this run, how far the clock was set since the last run that had a
    worker (a run without one dated nothing, and its streams would begin where ours do). If the machine was restarted
    meanwhile, only a clock behind the last turn tells anything: it was set back by at least that much."""
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
