"""Pages are read in slices, so that no page holds the worker's loop for long: others' answers come in between.

An ordinary page is read at once. Another one goes on in a slice per pass of the loop, one such page after the other,
and few at a time, because each may hold a body, its text and its links. What the loop was held for counts in no
exchange (`held`): an answer that had to wait for us says nothing about its server.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

from irlcrawl.base.clock import Clock
from irlcrawl.base.steps import Steps
from irlcrawl.worker.fetch.reading import Reading

SLICE_SECONDS = 0.005
AT_ONCE_STEPS = 4
"""Steps of a page that are done at once; this bounds what a page that waits has unpacked (web/coding.py)."""
PAGES_MAX = 2
"""Pages that are read in slices at a time. Each may take ten times fetch.body_bytes_max of memory."""

T = TypeVar("T")


class Slices:
    """The reading of one worker's pages."""

    def __init__(self, clock: Clock, reading: Reading | None = None) -> None:
        """`reading` is told which page is at work."""
        self._clock = clock
        self._reading = reading or Reading()
        self._pages = asyncio.Semaphore(PAGES_MAX)
        self._turn = asyncio.Lock()
        self._loop = asyncio.get_running_loop()
        self.held = 0.0
        """Seconds for which pages have held the loop in its current pass."""

    async def run(self, steps: Steps[T], url: bytes = b"") -> T:
        """The result of the steps, of the page `url`. Raises what they raise."""
        while self.held >= 2 * SLICE_SECONDS:  # other pages had this pass
            await asyncio.sleep(0)
        done, result = self._slice(steps, url, AT_ONCE_STEPS)
        if done:
            return result
        async with self._pages:
            while True:
                async with self._turn:
                    await asyncio.sleep(0)
                    done, result = self._slice(steps, url)
                    if done:
                        return result

    def hold(self, began: float) -> None:
        """The loop was held from `began` until now."""
        if not self.held:
            self._loop.call_soon(self._new_pass)  # what the loop reads in this pass comes before
        self.held += self._clock.now() - began

    def _slice(self, steps: Steps[T], url: bytes, most: int = -1) -> tuple[bool, T]:
        """Whether the steps are done, and their result, after a slice of time or `most` steps."""
        began = self._clock.now()
        self._reading.begin(url)
        try:
            while most and self._clock.now() < began + SLICE_SECONDS:
                next(steps)
                most -= 1
        except StopIteration as end:
            return True, end.value
        finally:
            self._reading.end()
            self.hold(began)
        return False, None  # type: ignore[return-value]

    def _new_pass(self) -> None:
        self.held = 0.0
