"""Programs that start others must end them however they are ended themselves: SIGTERM and SIGHUP become SystemExit, so
that context managers and `finally` run as they do for Ctrl-C."""

from __future__ import annotations

import signal
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def exit_when_told() -> None:
    """From now on, in this process; the exit code is a shell's. What is ignored (nohup) stays so."""
    for number in SIGNALS:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)


def _end(number: int, _: FrameType | None) -> None:
    for other in SIGNALS:  # `timeout` sends it twice: the second one must not cut short what ends the rest
        if signal.getsignal(other) is _end:
            signal.signal(other, lambda *_: None)
    raise SystemExit(128 + number)
