"""Time is an argument: every component takes a Clock, so that tests and the simulator can run it under their own time.

`now()` is unix seconds that never step. The wall clock is read once at the start; from then on the clock that counts
since the machine started carries it on, so a step of the system's clock moves no promise made to a host. That clock
also counts while the machine sleeps: otherwise archives would be dated hours too early after a night with the lid
closed.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Unix seconds, never going back while the process lives."""
        ...

    def since_boot(self) -> float:
        """Seconds since the machine started, sleep included: tells a stepped clock from time that passed."""
        ...


def since_boot() -> float:
    """Seconds since the machine started, sleep included; the same in all processes of this machine."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SystemClock:
    def __init__(self) -> None:
        self._booted = time.time() - since_boot()  # unix seconds

    def now(self) -> float:
        return self._booted + since_boot()

    def since_boot(self) -> float:
        return since_boot()


class VirtualClock:
    """A clock that moves only when told."""

    def __init__(self, start: float = 1_000_000_000.0) -> None:
        self._now = start
        self._booted = start

    def now(self) -> float:
        return self._now

    def since_boot(self) -> float:
        return self._now - self._booted

    def step(self, seconds: float) -> None:
        """Simulates that somebody sets the system's clock between two runs of a crawl."""
        self._now += seconds
        self._booted += seconds

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError(f"time goes forward: advance({seconds})")
        self._now += seconds

    def set(self, at: float) -> None:
        self._now = max(self._now, at)
