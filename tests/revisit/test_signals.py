"""How far signals are believed."""

from __future__ import annotations

import numpy as np

from irlcrawl.revisit.beliefs import Belief
from irlcrawl.revisit.price import due_after
from irlcrawl.revisit.signals import KEPT_MAX, faded, told_codes, unannounced


def test_a_host_is_believed_when_enough_of_its_signals_were_right() -> None:
    right, wrong = np.array([5.0, 8.0, 7.0, 6.0, 60.0]), np.array([0.0, 0.0, 3.0, 4.0, 30.0])
    told = told_codes(right, wrong, right + 1)
    assert (told > 0).tolist() == [False, True, True, False, False]


def test_silence_of_a_host_that_tells_of_all_changes_lets_its_pages_rest() -> None:
    belief = Belief(np.full(3, 2.0), np.full(3, 20.0))
    told = told_codes(np.full(3, 50.0), np.zeros(3), np.array([50.0, 100.0, 1e9]))
    assert told.tolist() == [242, 128, 1]
    days = due_after(unannounced(belief, told), np.ones(3), 1.0, 1e4)
    assert days[0] > 1.8 * days[1] > 1.8 * days[2]
    assert due_after(unannounced(belief, np.zeros(3, np.uint8)), np.ones(3), 1.0, 1e4)[0] < days[2]


def test_counts_fade_together() -> None:
    right, wrong, changes = (np.array(column, np.float32) for column in ([60, 10], [10, 10], [30, 2 * KEPT_MAX]))
    assert faded(right, wrong, changes).tolist() == [0.5, 0.5]
    assert faded(right / 2, wrong / 2, changes / 2).tolist() == [1.0, 1.0]
