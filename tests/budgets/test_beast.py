"""The placement kernel and its helpers against one-URL-at-a-time models."""

from __future__ import annotations

from drum import Batch, Bucket

import numpy as np
from beast_model import Model, Record
from hypothesis import given, settings
from hypothesis import strategies as st

from budgets.beast import (
    DEFER,
    EXCLUDE,
    IN_DEGREE,
    PLACE,
    RECORD,
    REREAD,
    SLOTS,
    Placement,
    Position,
    Quotas,
    Widening,
    drain_to,
)
from budgets.star import BudgetParams, Ints, Star

FLAT = BudgetParams(base=1)


class ByDegree(Star):
    """A budget of base + in-degree, so that a merge's in-degree updates visibly change its placements."""

    def budgets(self, in_degree: np.ndarray) -> Ints:
        return self.params.base + in_degree.astype(np.int64)


def star(base: int) -> Star:
    return ByDegree(BudgetParams(base=base), 0, 0, np.zeros(0, np.int64))


records = st.builds(
    Record, in_degree=st.integers(0, 3), tail=st.integers(0, 14), count=st.integers(0, 6),
    deferred=st.integers(0, 9), placed=st.integers(0, 9),
)  # fmt: skip


@st.composite
def merges(draw: st.DrawFn) -> tuple[dict[int, Record], dict[int, tuple[int, int, int]], int, int, int]:
    """Stored records; per site how many links, QF URLs and new URLs come; current, j, base budget."""
    stored = draw(st.dictionaries(st.integers(0, 9), records, max_size=6))
    counts = st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 12))
    items = {}
    for site, (links, again, new) in draw(st.dictionaries(st.integers(0, 9), counts, max_size=6)).items():
        again = min(again, stored[site].deferred if site in stored else 0)
        if links + again + new:
            items[site] = (links, again, new)
    return stored, items, draw(st.integers(0, 12)), draw(st.integers(2, 5)), draw(st.integers(1, 4))


def run(
    stored: dict[int, Record],
    items: dict[int, tuple[int, int, int]],
    current: int,
    j: int,
    base: int,
    quotas: Quotas,
    slot: int = SLOTS - 1,
) -> tuple[Placement, dict[int, Record], dict[tuple[int, int, int], int]]:
    """One kernel call. Returns the records after it, and where each row (site, op, position in that op) went."""
    sites = sorted(items)
    rows = [(site, op, i) for site in sites for op, n in enumerate(items[site]) for i in range(n)]
    starts = np.cumsum([0, *(sum(items[site]) for site in sites)])
    batch = Batch({"key": np.array([r[0] for r in rows], "u8"), "op": np.array([r[1] for r in rows], "u1")})
    values = Batch({c: np.array([getattr(stored.get(s, Record()), c) for s in sites], t) for c, t in RECORD.items()})
    kernel = Placement(star(base), Position(current, slot), quotas)
    kernel.begin(Bucket(extra={"j": j, "cycle_end": current + 1}))
    result = kernel(np.array([s in stored for s in sites], bool), values, batch, starts)
    after = dict(stored)
    for g, site in enumerate(sites):
        if result.write[g]:
            after[site] = Record(*(int(result.values[c][g]) for c in RECORD))
    queue = result.columns["queue"].tolist()
    assert [bool(e) for e in result.emit] == [op != IN_DEGREE for _, op, _ in rows]
    return kernel, after, {row: queue[n] for n, row in enumerate(rows) if row[1] != IN_DEGREE}


@given(merges(), st.integers(0, 12), st.sampled_from([0, 1, 300, 512, 1000, SLOTS - 1]))
@settings(max_examples=300)
def test_kernel_places_as_the_model_does(
    merge: tuple[dict[int, Record], dict[int, tuple[int, int, int]], int, int, int], quota: int, slot: int
) -> None:
    stored, items, current, j, base = merge
    for record in stored.values():  # a state that placing can lead to
        record.tail = min(record.tail, current + j)
        if quota:
            record.placed = min(record.placed, quota)
            record.deferred = min(record.deferred, quota - record.placed)
    held = {site: record.deferred for site, record in stored.items()}
    items = {site: (links, min(again, held.get(site, 0)), new) for site, (links, again, new) in items.items()}
    items = {site: n for site, n in items.items() if sum(n)}
    model = Model(lambda degree: base + degree, lambda site: quota, span=j, current=current, slot=slot)
    model.records = {site: Record(**vars(record)) for site, record in stored.items()}
    before = {site: Record(**vars(record)) for site, record in stored.items()}

    kernel, after, went = run(before, items, current, j, base, Quotas(quota), slot)

    expected: dict[tuple[int, int, int], int] = {}
    for site, (links, again, new) in items.items():
        if links:
            model.link(site, links)
        for op, n in ((REREAD, again), (PLACE, new)):
            for i in range(n):
                record = model.records.setdefault(site, Record())
                if op == REREAD:
                    record.deferred -= 1
                    if not model.place(record, site, 0):
                        record.deferred += 1
                        expected[site, op, i] = DEFER
                        continue
                    expected[site, op, i] = model.label
                    continue
                waiting, out = record.deferred, len(model.excluded)
                model.put(site, 0)
                excluded, deferred = len(model.excluded) > out, record.deferred > waiting
                expected[site, op, i] = int(EXCLUDE) if excluded else DEFER if deferred else model.label
    assert went == expected
    assert {s: vars(r) for s, r in after.items()} == {
        s: vars(r) for s, r in model.records.items() if s in after or vars(r) != vars(Record())
    }
    assert kernel.rereads == sum(again for _, again, _ in items.values())
    assert kernel.lookups == kernel.rereads + sum(new for _, _, new in items.values())


@given(
    st.lists(records, max_size=8),
    st.integers(0, 10),
    st.integers(1, 6),
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from([0, 1, 300, 512, 1000, SLOTS - 1]),
)
def test_widening_is_the_least_doubling_that_places_half(
    found: list[Record], current: int, j: int, base: int, pieces: int, slot: int
) -> None:
    keys = [(site * 0x9E3779B97F4A7C15) % 2**64 for site in range(len(found))]
    for record in found:
        record.tail = min(record.tail, current + j)
    model = Model(lambda degree: base + degree, current=current, slot=slot)
    widening = Widening(Position(current, slot), j)
    for part in range(pieces):
        mine = found[part::pieces]
        names = ("tail", "count", "in_degree", "deferred")
        tail, count, degree, deferred = (np.array([getattr(r, c) for r in mine], np.int64) for c in names)
        widening.add(np.array(keys[part::pieces], np.uint64), tail, count, base + degree, deferred)
    total = sum(r.deferred for r in found)
    span = 2 * j
    while 2 * sum(min(r.deferred, model.free(site, r, span)) for site, r in zip(keys, found, strict=True)) < total:
        span *= 2
    assert widening.span() == span
    assert widening.deferred == total


def test_widening_copes_with_a_site_of_a_billion_urls() -> None:
    widening = Widening(Position(0, SLOTS - 1), 2)
    widening.add(np.array([0], np.uint64), np.array([0]), np.array([0]), np.array([10]), np.array([10**9]))
    assert 10 * widening.span() >= 5 * 10**8 > 10 * widening.span() // 2


@given(st.dictionaries(st.integers(1, 30), st.integers(1, 9), max_size=8), st.integers(1, 40), st.integers(0, 31))
def test_drain_to(queues: dict[int, int], wanted: int, stop: int) -> None:
    labels = np.array(sorted(queues), "u8")
    rows = np.array([queues[label] for label in sorted(queues)], "u8")
    total, expected = 0, None
    for label in sorted(queues):
        total += queues[label]
        if total >= wanted:
            expected = label if label <= stop else None
            break
    assert drain_to(labels, rows, wanted, stop) == expected


@given(st.integers(0, 5), st.dictionaries(st.integers(0, 9), st.integers(0, 5)), st.lists(st.integers(0, 12)))
def test_quotas(general: int, single: dict[int, int], sites: list[int]) -> None:
    quotas = Quotas(general, single).of(np.array(sites, np.uint64)).tolist()
    for site, quota in zip(sites, quotas, strict=True):
        wanted = single.get(site, general)
        assert quota == wanted if wanted else quota > 2**62


def test_a_lowered_quota_reaches_what_waits_in_qf() -> None:
    """The limit may be changed when a crawl is resumed: URLs already queued stay, those in QF beyond it leave."""
    stored = {7: Record(tail=3, count=2, deferred=5, placed=4)}
    _, after, went = run(stored, {7: (0, 5, 2)}, current=9, j=9, base=2, quotas=Quotas(0, {7: 6}))
    labels = [10 * SLOTS, 10 * SLOTS + SLOTS // 2]
    assert [went[7, REREAD, i] for i in range(5)] == [*labels, EXCLUDE, EXCLUDE, EXCLUDE]
    assert [went[7, PLACE, i] for i in range(2)] == [EXCLUDE, EXCLUDE]
    assert vars(after[7]) == vars(Record(tail=10, count=2, deferred=0, placed=6))
