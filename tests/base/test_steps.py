"""Work in steps gives its result at once, too, and its errors."""

from __future__ import annotations

import pytest

from irlcrawl.base.steps import Steps, at_once


def counted(steps: int, broken: bool = False) -> Steps[int]:
    for _ in range(steps):
        yield
    if broken:
        raise ValueError("broken")
    return steps


def both() -> Steps[int]:
    return (yield from counted(3)) + (yield from counted(4))


def test_work_in_steps_has_its_result_at_once() -> None:
    assert [at_once(counted(n)) for n in (0, 1, 9)] == [0, 1, 9]
    assert at_once(both()) == 7
    assert len(list(both())) == 7


def test_what_breaks_in_a_step_is_raised() -> None:
    with pytest.raises(ValueError, match="broken"):
        at_once(counted(2, broken=True))
