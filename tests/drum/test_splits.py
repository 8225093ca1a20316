"""Where a bucket is cut that does not fit."""

from __future__ import annotations

from pathlib import Path

from drum import Batch, Bucket, CheckUpdate, Repository
from drum.pending import CROWD_ROWS, middle_of
from drum.store import KEY_MAX

import numpy as np
from drum_support import Desk
from hypothesis import given
from hypothesis import strategies as st

KEYS = st.integers(0, KEY_MAX)


@given(st.tuples(KEYS, KEYS).filter(lambda pair: pair[0] != pair[1]), st.data())
def test_both_parts_of_a_cut_have_keys(ends: tuple[int, int], data: st.DataObject) -> None:
    bucket = Bucket(min(ends), max(ends))
    few = data.draw(st.lists(st.integers(bucket.lo, bucket.hi), max_size=4))
    keys = np.repeat(np.array(few, np.uint64), CROWD_ROWS)
    assert bucket.lo < middle_of(bucket, keys) <= bucket.hi


@given(KEYS, st.lists(KEYS, max_size=CROWD_ROWS // 2))
def test_a_key_with_most_of_the_rows_stands_alone_after_few_cuts(hot: int, others: list[int]) -> None:
    keys = np.array([hot] * 20 * CROWD_ROWS + others, np.uint64)
    bucket, cuts = Bucket(), 0
    while bucket.lo < bucket.hi:
        middle = middle_of(bucket, keys[(keys >= np.uint64(bucket.lo)) & (keys <= np.uint64(bucket.hi))])
        bucket = Bucket(middle, bucket.hi) if hot >= middle else Bucket(bucket.lo, middle - 1)
        cuts += 1
    assert cuts <= 4


def test_one_site_with_more_rows_than_fit_leaves_few_buckets(tmp_path: Path) -> None:
    """It was halved sixty times: as many empty buckets, each with a line in the catalogue, and its rows read each
    time."""
    desk = Desk(tmp_path)
    sites = Repository("sites", catalog=desk.catalog, pool=desk.pool, values={"n": "u4"}, ram_bytes=1 << 20)
    sites.ram_bytes = 100_000
    keys = np.concatenate([np.full(5000, 77, np.uint64), np.arange(50, dtype=np.uint64) * np.uint64(KEY_MAX // 50)])
    with desk.turn() as turn:
        sites.pend_batch(Batch({"key": keys, "n": np.ones(len(keys), np.uint32)}))
        stats = sites.merge(CheckUpdate(), writer=turn.writer, edits=turn.edits, emit=lambda bucket, batch: None)
    assert stats.added == 51 and 0 < stats.splits <= 4
