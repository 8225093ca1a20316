"""An event loop under a virtual clock: it never waits, so a crawl of minutes takes milliseconds, one of weeks minutes.

When nothing is ready the loop sets the clock to the next timer. What would go to a thread is done at once. So a run is
the same each time, as long as nothing in it asks another clock. `tests/crawl/virtual_crawl.py` and bench/weather.py
run whole crawls on it.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable
from typing import Any

from irlcrawl.base.clock import VirtualClock


class _Selector(selectors.DefaultSelector):
    """Never waits: when nothing is there to read, the time that would have passed has passed."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> Any:
        events = super().select(0)
        if not events and timeout is None:
            raise AssertionError("nothing will ever happen again")
        if not events and timeout:
            self._clock.advance(timeout)
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    """What goes to a thread is done at once, and known `latency_s` later."""

    def __init__(self, clock: VirtualClock, latency_s: float) -> None:
        super().__init__(_Selector(clock))
        self._virtual = clock
        self._latency_s = latency_s
        self._clock_resolution = 1e-6  # of a float that holds unix seconds
        self.killed = False

    def time(self) -> float:
        return self._virtual.now()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """What a kill cut off has nobody to tell."""
        if not self.killed:
            super().call_exception_handler(context)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        future = self.create_future()
        try:
            result = func(*args)
        except Exception as error:
            tell = functools.partial(future.set_exception, error)
        else:
            tell = functools.partial(future.set_result, result)
        self.call_later(self._latency_s, lambda: future.cancelled() or tell())
        return future
