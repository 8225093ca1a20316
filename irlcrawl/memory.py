"""Memory that was freed goes back to the system now and then, so that a crawl of weeks is as large as what it holds.

glibc keeps freed memory for what comes next and gives back only what lies at the very end of its heap. Batches of all
sizes come and go in the frontier and the workers, so that holes of many megabytes stay between what lives (measured:
half of a worker was holes), and grow for hours. Giving back 20 MB and touching it again takes 4 CPU-ms.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from irlcrawl.clock import Clock

TRIM_S = 2.0


def _find_trim() -> Callable[[int], int] | None:
    """glibc's malloc_trim(3); None where the C library has none and keeps its heap by rules of its own."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


class Trim:
    """`now_and_then()` often, on a thread that nobody waits for: it takes some milliseconds once in TRIM_S."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._trim = _find_trim()
        self._next = clock.now() + TRIM_S

    @property
    def due(self) -> bool:
        return self._clock.now() >= self._next

    def now_and_then(self) -> None:
        """Give back what is free, if that was not done for TRIM_S. Releases the GIL meanwhile."""
        if self.due and self._trim is not None:
            self._trim(0)
            self._next = self._clock.now() + TRIM_S
