"""The drum of pages by key, against a model of one page after the other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from drum import Batch, Catalog, Edits, Files, Repository, SegmentPool, SegmentWriter

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from irlcrawl.base.rows import LINK
from irlcrawl.frontier.state.known_pages import (
    HELD,
    KNOWN,
    OP_EARLIER,
    OP_KNOWN,
    OP_NOW,
    OP_SIGNAL,
    PENDING,
    SIGNALLED,
    WANTED,
    EverKnown,
    KnownKernel,
    known_page,
)

PRICE = 1.0
REST, TAKE, SIGNAL, NOW, PASS, FETCHED = range(6)
STEPS = st.lists(
    st.tuples(
        st.sampled_from([REST, TAKE, SIGNAL, NOW, PASS, FETCHED]), st.integers(0, 3), st.integers(0, 2), st.booleans()
    ),
    max_size=40,
)


@dataclass
class Model:
    """A page by the rules of the module, in words of its own."""

    due: int = 0
    visited: int = 0
    visits: int = 0
    shut: bool = False
    signalled: bool = False


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_pages_are_called_as_one_after_the_other_would_be(tmp_path_factory, steps) -> None:  # type: ignore[no-untyped-def]
    directory: Path = tmp_path_factory.mktemp("known")
    files = Files()
    catalog, number = Catalog.open(directory, files), 0
    drum = Repository(
        "pages", catalog=catalog, pool=SegmentPool(files, str(directory)), values=KNOWN, ram_bytes=4 << 20
    )
    models = {key: Model() for key in range(1, 5)}
    waiting: list[tuple[int, int, int, bool]] = []
    for time, (what, page, extra, flag) in enumerate([*steps, (PASS, 0, 0, False)], 10):
        key = page + 1
        if what == PASS:
            for known, model in models.items():
                told = [one for one in waiting if one[1] == known and one[0] in (REST, TAKE)]
                label = model.due if not told else told[-1][2] if told[-1][0] == REST else 0
                asked = {one[0] for one in waiting if one[1] == known}
                was = bool(model.visits) or any(one[0] == REST for one in told)
                assert known_page(drum, known) == ((label, False, NOW in asked, SIGNAL in asked) if was else None)
                assert EverKnown(drum)(np.array([known], np.uint64))[0] == was
            called, scored, earlier = passed(drum, files, directory, number := number + 1)
            assert (sorted(called), sorted(scored)) == tuple(map(sorted, by_model(models, waiting)))
            fetched = {one[1] for one in waiting if one[0] == FETCHED}
            assert sorted(earlier) == sorted(key for key in fetched if not models[key].visits), "what was never a page"
            for known, model in models.items():
                found, values = drum.lookup(np.array([known], np.uint64))
                assert found[0] or model.visits == 0
                assert int(values["due"][0]) == model.due and bool(values["marks"][0] & SIGNALLED) == model.signalled
            waiting.clear()
            continue
        waiting.append((what, key, time * 10 + extra, flag))
        if what == REST:
            row = Batch.zeros(PENDING, 1).with_(
                key=np.array([key], np.uint64), due=np.array([time * 10 + extra], np.uint32),
                visited=np.array([time], np.uint32), visits=np.array([1], np.uint16),
                marks=np.array([HELD if flag else 0], np.uint8), found=np.array([extra], np.uint8),
            )  # fmt: skip
            drum.pend_batch(row, OP_KNOWN)
        elif what == TAKE:
            drum.pend_batch(Batch.zeros(PENDING, 1).with_(key=np.array([key], np.uint64)), OP_KNOWN)
        else:
            row = Batch.zeros({**LINK, **WANTED}, 1).with_(key=np.array([key], np.uint64))
            if what == SIGNAL:
                row = row.with_(
                    after=np.array([max(time - 3 * extra, 1)], np.uint32),
                    factor=np.array([1e6 if flag else 0.0], np.float32), told=np.array([200], np.uint8),
                )  # fmt: skip
            drum.pend_batch(row, {SIGNAL: OP_SIGNAL, NOW: OP_NOW, FETCHED: OP_EARLIER}[what])
    catalog.close()


def passed(
    drum: Repository, files: Files, directory: Path, number: int
) -> tuple[list[int], list[tuple[int, bool]], list[int]]:
    called, earlier = list[int](), list[int]()
    scored: list[tuple[int, bool]] = []

    def emit(_: object, rows: Batch) -> None:
        if "url" in rows:
            called.extend(rows["key"][~rows["earlier"]].tolist())
            earlier.extend(rows["key"][rows["earlier"]].tolist())
        else:
            scored.extend(zip(rows["key"].tolist(), rows["right"].tolist(), strict=True))

    ops = drum.pending_by_op()
    kernel = KnownKernel(OP_KNOWN in ops, bool(ops.keys() - {OP_KNOWN}), PRICE, 1 / 30, 1e6)
    with SegmentWriter(files, str(directory / f"turn-{number}.seg")) as writer:
        drum.merge(kernel, writer=writer, edits=Edits(), emit=emit)
        writer.section("nothing", {"key": "u8"})
    return called, scored, earlier


def by_model(
    models: dict[int, Model], waiting: list[tuple[int, int, int, bool]]
) -> tuple[list[int], list[tuple[int, bool]]]:
    called, scored = [], []
    judged = set()
    for what, key, value, flag in waiting:
        page = models[key]
        if what == REST:
            page.due, page.visits, page.visited, page.shut = value, 1, value // 10, flag
            if value % 10:  # a visit that taught something
                if page.signalled and key not in judged:
                    scored.append((key, value % 10 == 2))
                judged.add(key)
                page.signalled = False
        elif what == TAKE:
            page.due = 0
    for what, key, value, _ in waiting:
        page = models[key]
        if what == SIGNAL and page.visits and max(value // 10 - 3 * (value % 10), 1) > page.visited:
            page.signalled = True
    for wanted in (NOW, SIGNAL):
        for what, key, value, flag in waiting:
            page = models[key]
            late = max(value // 10 - 3 * (value % 10), 1) > page.visited
            if what == wanted and page.visits and page.due and (what == NOW or (late and flag and not page.shut)):
                called.append(key)
                page.due = 0
    return called, scored
