"""A merge of many buckets: readable while it runs, stopped between them, committed on its way; nothing is lost."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from drum import Drum, Statistics

import numpy as np
import pytest
from drum_support import nothing, spread
from hypothesis import given, settings
from hypothesis import strategies as st


def buckets_of(drum: Drum) -> int:
    return len(drum._repository.buckets)


def tight(path: Path, **options: Any) -> Drum:
    """A drum whose buckets hold a few thousand keys."""
    drum = Drum(path, ram_bytes=1 << 20, merge_rows=1 << 40, **options)
    drum._repository.ram_bytes = 64 << 10
    return drum


def test_statistics_are_readable_while_it_merges(tmp_path: Path) -> None:
    heard: list[Statistics] = []
    other: list[Statistics] = []

    def progress(statistics: Statistics) -> None:
        heard.append(statistics)
        thread = threading.Thread(target=lambda: other.append(drum.statistics))
        thread.start()
        thread.join()

    drum = tight(tmp_path, emit=nothing, progress=progress)
    drum.add(spread(np.arange(20_000)))
    drum.add(spread(np.arange(20_000)))
    drum.merge()
    drum._repository.ram_bytes = 64 << 10
    heard.clear()
    other.clear()
    drum.add(spread(np.arange(10_000, 30_000)))
    drum.merge()
    assert len(heard) >= 4
    assert heard == other
    assert [one.buckets_done for one in heard] == sorted({one.buckets_done for one in heard})
    assert all(one.merging and 0 < one.buckets_done < one.buckets for one in heard)
    assert all(one.waiting_rows == heard[0].waiting_rows <= 20_000 for one in heard)
    after = drum.statistics
    assert (after.rows, after.waiting_rows, after.merging, after.merges) == (30_000, 0, False, 2)
    assert after.asked == 60_000
    assert after.repeats > 20_000, "the cache knows the last keys"
    assert after.disk_bytes == sum(path.stat().st_size for path in tmp_path.glob("*.seg"))
    drum.close()


@settings(max_examples=25, deadline=None)
@given(
    calls=st.lists(st.tuples(st.integers(0, 9000), st.integers(1, 6000)), min_size=1, max_size=5),
    stops=st.lists(st.integers(1, 9), min_size=30, max_size=30),
    aux=st.booleans(), spilled=st.booleans(), reopen=st.booleans(),
)  # fmt: skip
def test_an_interrupted_merge_goes_on_where_it_stopped(
    tmp_path_factory: pytest.TempPathFactory, calls: list[tuple[int, int]], stops: list[int], aux: bool, spilled: bool,
    reopen: bool,
) -> None:  # fmt: skip
    path = tmp_path_factory.mktemp("drum")
    handed: list[int] = []
    stop = iter(stops)
    left = [next(stop)]

    def progress(statistics: Statistics) -> bool:
        left[0] -= 1
        return left[0] > 0

    def opened() -> Drum:
        return tight(path, emit=lambda batch: handed.extend(batch["key"].tolist()), progress=progress)

    drum = opened()
    expected: set[int] = set()
    for start, rows in calls:
        keys = spread(np.arange(start, start + rows))
        expected |= set(keys.tolist())
        drum.add(keys, **({"id": np.arange(rows)} if aux else {}))
        if spilled:
            drum.spill()
        drum._repository.ram_bytes = 64 << 10
        drum.merge()
        left[0] = next(stop)
        if reopen:
            drum.close()
            drum = opened()
    left[0] = 10**9
    while drum.waiting_rows:
        drum.merge()
    assert sorted(handed) == sorted(expected)
    assert drum.rows == len(expected)
    drum.close()


def test_interrupt_from_another_thread_stops_at_a_bucket(tmp_path: Path) -> None:
    drum = tight(tmp_path, emit=nothing)
    drum.add(spread(np.arange(30_000)))
    drum.merge()
    drum._repository.ram_bytes = 64 << 10
    assert buckets_of(drum) > 4
    drum.emit = lambda batch: drum.interrupt()
    drum.add(spread(np.arange(30_000, 60_000)))
    stats = drum.merge()
    assert stats.left == buckets_of(drum) - stats.buckets > 0
    assert drum.waiting_rows == 30_000 - stats.rows > 0
    drum.emit = nothing
    assert drum.merge().left == 0
    assert drum.rows == 60_000
    drum.close()


def test_a_long_merge_commits_on_its_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a bucket's merge replaced goes before the next ones are written: the disk never holds two whole stores."""
    monkeypatch.setattr("drum.library.drum.COMMIT_BYTES", 8 << 10)
    sizes: list[int] = []

    def progress(statistics: Statistics) -> None:
        sizes.append(sum(path.stat().st_size for path in tmp_path.glob("*.seg*")))

    handed: list[int] = []
    drum = tight(tmp_path, emit=lambda batch: handed.extend(batch["key"].tolist()), progress=progress)
    drum.add(spread(np.arange(60_000)))
    for _ in range(9):
        drum._repository.ram_bytes = 64 << 10
        drum.merge()
        drum.add(spread(np.arange(drum.rows, drum.rows + 10_000)))
        drum.spill()
    before = drum._directory.catalog.number
    at_rest = drum.statistics.disk_bytes
    sizes.clear()
    drum.merge()
    assert drum._directory.catalog.number - before >= 3
    assert max(sizes) <= 1.5 * at_rest
    assert sorted(handed) == sorted(spread(np.arange(150_000)).tolist())
    drum.close()
