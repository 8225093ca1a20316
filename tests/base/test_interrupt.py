"""A signal as an exception, but where it is ignored (with python -m: tests/cli/test_interrupted.py)."""

from __future__ import annotations

import signal

import pytest

from irlcrawl.base.interrupt import Interrupted, interrupt_on


def test_a_signal_is_raised_and_what_nohup_ignores_stays_so() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        interrupt_on(signal.SIGTERM)
        with pytest.raises(Interrupted):
            signal.raise_signal(signal.SIGTERM)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        interrupt_on(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
