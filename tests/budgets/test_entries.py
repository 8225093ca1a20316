"""Entries of a site, seeds and home pages: before its other URLs, and nearer than they would stand."""

from __future__ import annotations

from drum import Batch, Bucket

import numpy as np
from beast_model import Model, Record
from hypothesis import given, settings
from hypothesis import strategies as st
from test_beast import star

from budgets import Worth
from budgets.beast import DEFER, ENTRY_PRIORITY, PLACE, RECORD, SLOTS, Placement, Position, Quotas

records = st.builds(
    Record, in_degree=st.integers(0, 3), tail=st.integers(0, 9), count=st.integers(0, 6), placed=st.integers(0, 9),
    seeds=st.integers(0, 1),
)  # fmt: skip


@given(
    records, st.lists(st.integers(0, ENTRY_PRIORITY), min_size=1, max_size=30), st.integers(0, 7), st.integers(1, 3),
    st.sampled_from([0, 1, 300, 1000, SLOTS - 1]), st.sampled_from([1, 2, 7, 64]), st.integers(0, 2**64 - 1),
)  # fmt: skip
@settings(max_examples=300)
def test_entries_go_first_and_stand_nearer_in_the_queue_they_are_in(
    record: Record, priorities: list[int], current: int, base: int, slot: int, nearness: int, site: int
) -> None:
    """Against the model, one URL at a time: the queue is the one of any URL, so BEAST's bound is what it was; the part
    of it is so many times nearer to what rotation drains next."""
    record.tail = min(record.tail, current + 2)
    model = Model(lambda degree: base + degree, span=2, current=current, slot=slot)
    model.records = {site: Record(**vars(record))}
    least = {0: 1, 1: max(nearness // 8, 1)}.get(record.in_degree, nearness)
    near = nearness if record.seeds else least
    expected = {}
    for at in sorted(range(len(priorities)), key=lambda i: nearness > 1 and priorities[i] >= ENTRY_PRIORITY):
        if not model.place(model.records[site], site, at):
            expected[at] = DEFER
            continue
        queue, part = divmod(model.label, SLOTS)
        if priorities[at] < ENTRY_PRIORITY:
            here = min(slot + 1, part) if queue == current else 0
            part = here + (part - here) // near
        expected[at] = queue * SLOTS + part
        assert queue > current or part > slot or model.label % SLOTS <= slot, "never before what was drained"

    n = len(priorities)
    kernel = Placement(
        star(base), Position(current, slot), Quotas(), worth=Worth(nearness=nearness), columns=("priority",)
    )
    kernel.begin(Bucket(extra={"j": 2, "cycle_end": current + 1}))
    stored = Batch({name: np.array([getattr(record, name)], kind) for name, kind in RECORD.items()})
    items = Batch({
        "key": np.full(n, site, "u8"), "op": np.full(n, PLACE, "u1"), "priority": np.array(priorities, "u1"),
    })  # fmt: skip
    result = kernel(np.array([True]), stored, items, np.array([0, n]))
    assert dict(enumerate(result.columns["queue"].tolist())) == expected
