"""Sections move out of files that are mostly dead: nothing that is read changes, and the files go."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from drum import Batch, Catalog, CheckUpdate, Damaged, Edits, Fifo, Files, Place, Repository, SegmentPool, SegmentWriter
from drum import vacuum as run_vacuum
from drum.files import Handle

import numpy as np
import pytest

SCHEMA = {"key": "u8"}


class Named:
    """A holder that names sections and remembers what was in them."""

    def __init__(self, pool: SegmentPool) -> None:
        self.pool = pool
        self.held: dict[Place, list[int]] = {}

    def places(self) -> Iterable[Place]:
        return list(self.held)

    def moved(self, edits: Edits, to: Mapping[Place, Place]) -> None:
        self.held = {to.get(place, place): rows for place, rows in self.held.items()}

    def check(self) -> None:
        for (file, section), rows in self.held.items():
            found = [key for batch in self.pool.section(file, section).scan() for key in batch["key"].tolist()]
            assert found == rows


def write(root: Path, name: str, sections: int, rows: int, named: Named) -> None:
    random = np.random.default_rng(len(name) + rows)
    with SegmentWriter(Files(), root / name) as writer:
        for number in range(sections):
            keys = random.integers(0, 2**63, rows, dtype=np.uint64)
            writer.section(str(number), SCHEMA).append(Batch({"key": keys}))
            named.held[name, str(number)] = keys.tolist()


def vacuumed(root: Path, named: Named, name: str = "new.seg", **limits: int) -> dict[Place, Place]:
    writer = SegmentWriter(Files(), root / name)
    moves = run_vacuum(named.pool, writer, [named], **limits)
    writer.finish()
    named.moved(Edits(), moves)
    return moves


def test_sections_of_a_mostly_dead_file_move_and_read_the_same(tmp_path: Path) -> None:
    named = Named(SegmentPool(Files(), tmp_path))
    write(tmp_path, "dead.seg", 10, 500, named)
    write(tmp_path, "full.seg", 10, 500, named)
    for number in range(2, 10):
        del named.held["dead.seg", str(number)]
    moves = vacuumed(tmp_path, named)
    assert {place[0] for place in moves} == {"dead.seg"}
    assert {file for file, _ in named.held} == {"full.seg", "new.seg"}
    os.unlink(tmp_path / "dead.seg")
    named.pool.forget(["dead.seg"])
    named.check()


def test_too_many_files_become_fewer_a_bounded_amount_at_once(tmp_path: Path) -> None:
    named = Named(SegmentPool(Files(), tmp_path))
    for number in range(12):
        write(tmp_path, f"{number:02d}.seg", 1, 100, named)
    assert vacuumed(tmp_path, named, files_max=12) == {}
    assert len(vacuumed(tmp_path, named, "some.seg", files_max=3, bytes_max=2500)) == 3
    vacuumed(tmp_path, named, "all.seg", files_max=3)
    assert {file for file, _ in named.held} == {"all.seg"}
    named.check()


def test_more_files_than_may_be_open_are_not_all_opened_again_each_time(tmp_path: Path) -> None:
    """A crawl of millions had 256 files, 128 of them open: each turn opened all of them, a sixth of its time."""

    class Opened(Files):
        opened = 0

        def open(self, path: Path | str) -> Handle:
            self.opened += 1
            return super().open(path)

    files = Opened()
    named = Named(SegmentPool(files, tmp_path, open_max=4))
    for number in range(12):
        write(tmp_path, f"{number}.seg", 1, 20, named)
    for turn in range(3):
        vacuumed(tmp_path, named, f"new{turn}.seg")
    assert files.opened == 12


def test_repository_and_fifo_go_on_after_a_move_and_a_reopening(tmp_path: Path) -> None:
    """Slices, pending sections and queue parts are found where they went (I7)."""
    files, catalog = Files(), Catalog.open(tmp_path)
    pool = SegmentPool(files, tmp_path)
    seen = Repository("seen", catalog=catalog, pool=pool, values={}, ram_bytes=1 << 20)
    queue = Fifo("queue", catalog, pool, label="due")
    emitted: list[int] = []
    for turn in range(8):
        edits = Edits()
        keys = np.arange(turn * 50, turn * 50 + 100, dtype=np.uint64) * np.uint64(2**55 // 7)
        with SegmentWriter(files, tmp_path / f"turn{turn}.seg") as writer:
            seen.pend_batch(Batch({"key": keys}))
            if turn % 3 == 2:
                seen.spill(writer, edits)
            else:
                seen.merge(
                    CheckUpdate(), writer=writer, edits=edits, emit=lambda _, b: emitted.extend(b["key"].tolist())
                )
            queue.put(writer, edits, Batch({"key": keys, "due": np.arange(100, dtype=np.uint32)}))
            ballast = np.random.default_rng(turn).integers(0, 2**64, 1000, dtype=np.uint64)
            writer.section("ballast", SCHEMA).append(Batch({"key": ballast}))  # dead at once
            holders = [seen, queue]
            moves = run_vacuum(pool, writer, holders)
        for holder in holders:
            holder.moved(edits, moves)
        catalog.commit(edits)
        pool.forget(catalog.collect())
        catalog.close()
        catalog = Catalog.open(tmp_path)
        pool = SegmentPool(files, tmp_path)
        seen = Repository("seen", catalog=catalog, pool=pool, values={}, ram_bytes=1 << 20)
        queue = Fifo("queue", catalog, pool, label="due")
    with SegmentWriter(files, tmp_path / "last.seg") as writer:
        seen.merge(CheckUpdate(), writer=writer, edits=Edits(), emit=lambda _, b: emitted.extend(b["key"].tolist()))
    assert len(emitted) == len(set(emitted)) == 450
    assert sum(batch.rows for batch in queue.take_through(Edits(), 2**32 - 1)) == 800
    assert len([name for name in os.listdir(tmp_path) if name.startswith("turn")]) <= 2


def test_damage_is_found_before_it_is_copied(tmp_path: Path) -> None:
    named = Named(SegmentPool(Files(), tmp_path))
    write(tmp_path, "dead.seg", 10, 500, named)
    named.held = {place: rows for place, rows in named.held.items() if place[1] == "0"}
    with open(tmp_path / "dead.seg", "r+b") as stream:
        stream.seek(100)
        byte = stream.read(1)
        stream.seek(100)
        stream.write(bytes([byte[0] ^ 1]))
    with pytest.raises(Damaged, match=r"dead\.seg"):
        vacuumed(tmp_path, named)
