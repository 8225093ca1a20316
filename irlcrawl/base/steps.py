"""Work in steps: a generator that stops every few milliseconds of work, so that an event loop can look after others,
and returns its result. Where it stops depends on the work alone, never on time, so that it does the same at once."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
Steps = Generator[None, None, T]
LARGE_BYTES = 2 << 20
"""Work on more of a page, at once, is a step of its own; a stop costs an ordinary page more than it gives to others."""


def at_once(steps: Steps[T]) -> T:
    """The result, without a stop."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
