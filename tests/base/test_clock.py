"""The process's clock follows neither steps of the system's clock nor loses the time the machine slept."""

from __future__ import annotations

import time

import pytest

from irlcrawl.base.clock import SystemClock
from irlcrawl.worker.fetch.wire import AnchoredClock, clock_anchor

NOW = 1_000_000_000.0


def test_the_systems_clock_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SystemClock()
    before = clock.now()
    for step in (3600.0, -3600.0):
        monkeypatch.setattr(time, "time", lambda step=step: NOW + step)
        assert 0 <= clock.now() - before < 60


def test_after_the_machine_slept_times_were_too_early_by_its_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Archives and the log of a crawl on a laptop were dated hours too early after a night with the lid closed: the
    monotonic clock stands still meanwhile."""
    clock = SystemClock()
    anchored = AnchoredClock(*clock_anchor(clock))
    before, booted_s, now = clock.now(), time.clock_gettime(time.CLOCK_BOOTTIME), time.clock_gettime
    night = {time.CLOCK_BOOTTIME: booted_s + 8 * 3600.0}
    monkeypatch.setattr(time, "clock_gettime", lambda which: night[which] if which in night else now(which))
    assert clock.now() - before == pytest.approx(8 * 3600.0, abs=60)
    assert anchored.now() == pytest.approx(clock.now(), abs=60)
