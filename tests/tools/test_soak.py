"""What `python -m bench soak` says of a process's memory: merges pass, growth stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.soak import MIB, SAMPLE_SECONDS, Process

SAMPLES = 1500  # two hours


@given(st.floats(-20, 20), st.sets(st.integers(0, SAMPLES - 1), max_size=60))
def test_a_trend_is_what_stays_however_many_merges_were_seen(mib_per_h: float, merges: set[int]) -> None:
    process = Process()
    for number in range(SAMPLES):
        seconds = number * SAMPLE_SECONDS
        process.seconds.append(seconds)
        process.bytes.append(round((100 + mib_per_h * seconds / 3600 + (256 if number in merges else 0)) * MIB))
    assert process.trend(1800.0) == pytest.approx(mib_per_h, abs=0.5)
    slope, error = process.slope(1800.0)
    if not merges:
        assert slope == pytest.approx(mib_per_h, abs=0.01) and error < 0.01


def test_too_few_minutes_have_no_trend() -> None:
    process = Process([0.0, 5.0, 70.0], [MIB, 2 * MIB, 3 * MIB], [0, 0, 0])
    assert process.trend(60.0) == 0.0 and process.trend(1000.0) == 0.0
    assert process.trend(0.0) == pytest.approx(1.5 * 60)
