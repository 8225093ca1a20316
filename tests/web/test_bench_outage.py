"""`python -m bench outage`: how it judges what it saw."""

from __future__ import annotations

from bench import outage


def test_what_an_outage_was_charged_with_is_said_and_ended_with_1() -> None:
    """It ended with 0 whoever was charged."""
    told = {"failed": 0, "retries": 0, "backed_off": 0, "repeated": 7}
    assert outage.charged(told) == []
    for name in outage.NONE_OF_THESE:
        assert outage.charged({**told, name: 2}) == [f"{name} is 2"]
