"""A signal that ends a command before it listens to signals itself, as an exception.

Python remembers a KeyboardInterrupt that came while it executed text, as it does to make a dataclass or a namedtuple;
then `python -m irlcrawl` would die by SIGINT at its end, whatever its exit code. A subclass is not remembered.
"""

from __future__ import annotations

import signal
from types import FrameType


class Interrupted(KeyboardInterrupt):
    """What a signal raises."""


def interrupt_on(number: signal.Signals) -> None:
    """From now on. What is ignored (nohup) stays so."""
    if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
        signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise Interrupted
