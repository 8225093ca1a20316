"""The ledger adds up, or says which sides do not."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgets import Ledger, LedgerError

counts = st.integers(0, 10**12)


@given(counts, counts, st.dictionaries(st.sampled_from(["robots", "quota_site", "blocked"]), counts), counts, counts)
def test_adds_up(fetched: int, failed: int, excluded: dict[str, int], queued: int, leased: int) -> None:
    ledger = Ledger(fetched=fetched, failed=failed)
    for reason, rows in excluded.items():
        ledger.exclude(reason, rows)
    ledger.discovered = fetched + failed + sum(excluded.values()) + queued + leased
    ledger.check({"queued": queued, "leased": leased})
    again = Ledger.from_json(json.loads(json.dumps(ledger.to_json())))
    again.live = ledger.live
    again.check()
    assert again.done + again.waiting == again.discovered


@pytest.mark.parametrize(("off", "says"), [(1, "1 missing"), (-2, "2 too many")])
def test_names_both_sides(off: int, says: str) -> None:
    ledger = Ledger(discovered=20 + off, fetched=7, failed=1, excluded={"robots": 2})
    with pytest.raises(LedgerError, match=says) as error:
        ledger.check({"queued": 10})
    assert f"discovered {20 + off} URLs" in str(error.value)
    assert "fetched 7 + failed 1 + excluded(robots) 2 + queued 10 = 20" in str(error.value)


def test_a_negative_class_is_no_balance() -> None:
    ledger = Ledger(discovered=5, fetched=6)
    with pytest.raises(LedgerError, match="negative: queued"):
        ledger.check({"queued": -1})


def test_excluding_nothing_makes_no_class() -> None:
    ledger = Ledger()
    ledger.exclude("robots", 0)
    assert ledger.classes() == {"fetched": 0, "failed": 0}
