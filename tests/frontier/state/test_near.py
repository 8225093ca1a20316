"""The drum `near` against all pages compared with all before them, whatever passes there are."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from drum import Batch, Catalog, Edits, Files, Ragged, SegmentPool, SegmentWriter

import numpy as np
import pytest

from irlcrawl.base.rows import NEAR
from irlcrawl.frontier.state import near as module
from irlcrawl.frontier.state.near import NearDuplicates

SITE = 7


class Store:
    """The drum with a catalogue of its own; `turn` is a turn with a harvest of these pages."""

    def __init__(self, path: Path) -> None:
        self.path, self.number = path, 0
        self.verdicts: list[int] = []
        self.pairs: list[tuple[int, int, int]] = []
        self.near_counted = 0
        self.open()

    def open(self) -> None:
        files = Files()
        self.catalog = Catalog.open(self.path, files)
        self.pool = SegmentPool(files, str(self.path), 100)
        self.near = NearDuplicates(self.catalog, self.pool, 64 << 20)

    def turn(
        self, pages: list[tuple[int, ...]], urgent: bool = True, proceed: Callable[[], bool] = lambda: True
    ) -> bool:
        edits, files = Edits(), Files()
        self.number += 1
        with SegmentWriter(files, str(self.path / f"harvest-{self.number}.seg")) as harvest:
            section = harvest.section("near", NEAR)
            if pages:
                section.append(rows(pages))
        self.near.take_in(edits, f"harvest-{self.number}.seg")
        writer = SegmentWriter(files, str(self.path / f"turn-{self.number}.seg"))
        did = self.near.merge(lambda: writer, edits, self._judged, urgent, proceed)
        writer.finish() if writer.sections else writer.abort()
        self.catalog.commit(edits)
        self.pool.forget(self.catalog.collect(written=[writer.name, f"harvest-{self.number}.seg"]))
        return did

    def _judged(self, yields: Batch, pairs: Batch, near: int) -> None:
        self.verdicts += (1 - yields["novel"]).tolist()
        self.pairs += list(zip(*(pairs[name].tolist() for name in ("key", "site", "from")), strict=True))
        self.near_counted += near


def rows(pages: list[tuple[int, ...]]) -> Batch:
    """Each supports the site of its first part's number."""
    columns = np.array(pages, np.uint64).T
    return Batch({
        "site": np.full(len(pages), SITE, np.uint64), "open": np.ones(len(pages), np.uint8),
        **{f"part{number}": column.copy() for number, column in enumerate(columns)},
        "pairs": Ragged.from_list([np.array([[page[0], 1]], "<u8").tobytes() for page in pages]),
    })  # fmt: skip


def drawn_pages(count: int, seed: int) -> list[tuple[int, ...]]:
    """Every second one is made of an earlier one, with up to five bits of a part changed and the others drawn anew."""
    drawn = random.Random(seed)
    pages: list[tuple[int, ...]] = []
    for _ in range(count):
        parts = [drawn.getrandbits(64) for _ in range(3)]
        if pages and drawn.random() < 0.5:
            which = drawn.randrange(3)
            parts[which] = drawn.choice(pages)[which]
            for bit in drawn.sample(range(64), drawn.randrange(6)):
                parts[which] ^= 1 << bit
        pages.append(tuple(parts))
    return pages


def modelled(pages: list[tuple[int, ...]]) -> list[int]:
    flat = np.array(pages, np.uint64)
    found = []
    for at in range(len(pages)):
        before = flat[:at].reshape(-1)
        distance = np.bitwise_count(before[:, None] ^ flat[at][None, :])
        found.append(int((distance <= 3).any()))
    return found


@pytest.mark.parametrize("turns", [1, 3, 17])
def test_verdicts_do_not_depend_on_turns(tmp_path: Path, turns: int) -> None:
    pages = drawn_pages(300, turns)
    store = Store(tmp_path)
    for start in range(0, len(pages), -(-len(pages) // turns)):
        assert store.turn(pages[start : start + -(-len(pages) // turns)])
        store.open()
    wanted = modelled(pages)
    assert store.verdicts == wanted and 90 < sum(wanted) == store.near_counted
    assert store.pairs == [(page[0], 1, SITE) for page, verdict in zip(pages, wanted, strict=True) if not verdict]
    assert not store.near.waiting_rows and not store.turn([])


def test_a_pass_goes_on_in_later_turns_and_begins_again_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = drawn_pages(400, 5)
    store = Store(tmp_path)
    store.turn(pages[:300])
    monkeypatch.setattr(module, "TURN_PARTS", 1)
    monkeypatch.setattr(module, "_stored", small_pieces(module._stored))
    asked = 0
    while store.near.waiting_rows or not asked:
        store.turn(pages[300 + asked : 301 + asked] if asked < 100 else [])
        asked += 1
        if asked == 40:
            store.open()  # what the pass had found is gone
    assert asked > 100
    assert store.verdicts == modelled(pages)


def small_pieces(stored: Callable[..., object]) -> Callable[..., object]:
    def pieces(*args: object) -> object:
        for keys in stored(*args):  # type: ignore[attr-defined]
            for start in range(0, len(keys), 200):
                yield keys[start : start + 200]

    return pieces


def test_few_pages_wait_where_many_are_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHARE", 4)
    pages = drawn_pages(200, 9)
    store = Store(tmp_path)
    store.turn(pages[:100], urgent=False)
    assert not store.turn(pages[100:110], urgent=False) and store.near.waiting_rows == 10
    assert store.turn(pages[110:140], urgent=False) and not store.near.waiting_rows
    assert not store.turn(pages[140:150], urgent=False)
    assert store.turn(pages[150:], urgent=True)
    assert store.verdicts == modelled(pages)
