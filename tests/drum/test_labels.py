"""Counting labels in groups against counting them one by one."""

from __future__ import annotations

from collections import Counter

from drum import labels as module
from drum.labels import LabelCounts

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

batches = st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=30), min_size=1, max_size=12)


@settings(max_examples=200, deadline=None)
@given(batches, st.sampled_from((None, 1, 2, 7)), st.sampled_from((1, 5, 65_536)))
def test_groups_have_the_rows_of_their_labels(batches: list[list[int]], most: int | None, fold_min: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FOLD_MIN", fold_min)
        counts = LabelCounts(most)
        for batch in batches:
            counts.add(*np.unique(np.array(batch, np.uint64), return_counts=True))
        ends, rows = counts.entries()
    every = Counter(label for batch in batches for label in batch)
    assert most is None or len(ends) <= most
    assert counts.coarse == (len(ends) < len(every))
    assert ends[-1] == max(every) and set(ends.tolist()) <= set(every)
    before = -1
    for end, held in zip(ends.tolist(), rows.tolist(), strict=True):
        assert held == sum(number for label, number in every.items() if before < label <= end)
        before = end


def test_groups_are_of_about_one_size() -> None:
    counts = LabelCounts(100)
    for start in range(0, 1_000_000, 50_000):
        counts.add(np.arange(start, start + 50_000, dtype=np.uint64), np.ones(50_000, np.int64))
    ends, rows = counts.entries()
    assert counts.coarse and len(ends) <= 100 and rows.sum() == 1_000_000
    assert rows.max() <= 5 * rows.mean()
