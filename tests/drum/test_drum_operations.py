"""Several operations in one stream: of each key those of lower number come first, whenever merges happen."""

from __future__ import annotations

from typing import Any

from drum import Batch, Drum, Result

import numpy as np
import pytest
from drum_support import spread
from hypothesis import given, settings
from hypothesis import strategies as st


class Account:
    """Op 0 pays in, op 1 asks for the balance; all of op 0 comes first."""

    columns = ("amount",)

    def __call__(self, found: Any, stored: Batch, items: Batch, starts: Any) -> Result:
        group = np.repeat(np.arange(len(found)), np.diff(starts))
        paid = np.bincount(group, weights=items["amount"] * (items["op"] == 0), minlength=len(found))
        balance = stored["balance"] + paid.astype("i8")
        asked = items["op"] == 1
        return Result(Batch({"balance": balance}), np.ones(len(found), bool), asked, {"balance": balance[group]})


@settings(max_examples=25, deadline=None)
@given(
    calls=st.lists(st.tuples(st.integers(0, 1), st.lists(st.integers(0, 30), max_size=30), st.booleans()), max_size=12),
    ram_bytes=st.sampled_from([4096, 1 << 20]), ends=st.sampled_from(["merge", "reopen"]),
)  # fmt: skip
def test_operations_mixed_in_one_stream(
    tmp_path_factory: pytest.TempPathFactory, calls: list[tuple[int, list[int], bool]], ram_bytes: int, ends: str
) -> None:
    path = tmp_path_factory.mktemp("bank")
    told: list[tuple[int, int]] = []

    def opened() -> Drum:
        return Drum(
            path, kernel=Account(), values={"balance": "i8"}, ram_bytes=ram_bytes, merge_rows=1 << 40,
            emit=lambda batch: told.extend(zip(batch["key"].tolist(), batch["balance"].tolist())),
        )  # fmt: skip

    model: dict[int, int] = {}
    asked: list[int] = []
    expected: list[tuple[int, int]] = []
    drum = opened()
    for op, keys, settle in [*calls, (1, [], True)]:
        amount = np.arange(len(keys)) % 7 if op == 0 else np.zeros(len(keys), np.int64)
        drum.add(spread(keys), op=op, amount=amount)
        for key, value in zip(spread(keys).tolist(), amount.tolist()):
            if op == 0:
                model[key] = model.get(key, 0) + value
            else:
                asked.append(key)
        if settle:
            if ends == "reopen":
                drum.close()
                drum = opened()
            drum.merge()
            expected += [(key, model.setdefault(key, 0)) for key in asked]
            asked = []
    assert sorted(told) == sorted(expected)
    assert drum.rows == len(model)
    drum.close()
