"""DRUM for those who want just that: arrays of keys in, batches of verdicts out, everything else by itself.

`Drum` owns a directory. Rows gather in RAM, go to disk as partitioned pending segments when RAM is full, and are merged
when enough of them wait for the pass over the store to be worth it. The crawler uses `Repository` directly, because
there several drums share one commit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TypeAlias

import numpy as np
import xxhash

from drum.bucket import RamBuckets, RecentKeys, write_parts
from drum.catalog import Catalog, Edits
from drum.files import Files, Path
from drum.kernels import CheckUpdate, Kernel, Keys, Mask
from drum.ragged import Batch, Column, Schema
from drum.repository import MergeStats, Repository
from drum.segment import SegmentPool
from drum.writer import SegmentWriter

MERGE_ROWS_MIN = 1 << 20
MERGE_SHARE = 4  # merge when a quarter of the store's rows wait
CACHE_BYTES_MAX = 32 << 20

Verdicts: TypeAlias = Callable[[Batch], None]


class Drum:
    """A store of 64-bit keys in the directory `path` (made if absent), held under an exclusive lock.

    emit(batch): what the kernel hands on, whole rows, in arrival order within a part of the key space. It is called
    within a merge, before the commit: after a crash between the two the same rows come again.
    kernel: default CheckUpdate(): the first row of every key never seen before.
    values: fixed-size columns stored beside keys, for kernels that have some.
    ram_bytes: for everything: an eighth (at most 32 MiB) for the cache of recent keys, a quarter for waiting rows, half
    for a merge.
    merge_rows: merge when so many rows wait; 0: a quarter of the store's, at least 1,048,576.

    BlockingIOError: another process has it open. Damaged. OSError: nothing was committed, rows in RAM are kept.
    """

    def __init__(
        self,
        path: Path,
        *,
        emit: Verdicts,
        kernel: Kernel | None = None,
        values: Schema | None = None,
        ram_bytes: int = 256 << 20,
        merge_rows: int = 0,
        files: Files | None = None,
    ) -> None:
        self.path = os.fspath(path)
        self.files = files or Files()
        self.emit = emit
        self.kernel: Kernel = kernel or CheckUpdate()
        self.values = dict(values or {})
        self.merge_rows = merge_rows
        self.merges = 0
        self.merged_rows = 0
        self._ram_bytes = ram_bytes
        self._ram = RamBuckets(ram_bytes // 4)
        repeats = isinstance(self.kernel, CheckUpdate) and self.kernel.ignores_repeats
        self.recent = RecentKeys(min(ram_bytes // 8, CACHE_BYTES_MAX)) if repeats else None
        self.files.mkdir(self.path)
        self._lock = self.files.lock(os.path.join(self.path, "LOCK"))
        self._catalog = Catalog.open(self.path, self.files)
        self._catalog.sweep()
        self._pool = SegmentPool(self.files, self.path)
        self._repository = self._load()

    @property
    def rows(self) -> int:
        """Keys stored."""
        return self._repository.rows

    @property
    def waiting_rows(self) -> int:
        """Rows without a verdict."""
        return self._ram.rows + self._repository.pending_rows

    def add(self, keys: Keys, **aux: Column) -> None:
        """Rows for the kernel: keys u8[n], and any columns beside them that are to come back with the verdict. The
        same columns in every call. Arrays are kept for a while: do not change them."""
        batch = Batch({"key": np.ascontiguousarray(keys, dtype=np.uint64), **aux})
        if self.recent is not None:
            batch = batch.filter(self.recent.unseen(batch["key"]))
        self._ram.add(batch)
        if self.waiting_rows >= (self.merge_rows or max(MERGE_ROWS_MIN, self.rows // MERGE_SHARE)):
            self.merge()
        elif self._ram.full:
            self.spill()

    def spill(self) -> None:
        """Make every row added so far durable, without a verdict yet."""
        if self._ram.rows:
            with _Commit(self) as commit:
                write_parts(commit.writer, "rows", self._ram.batches)
                self._pool.adopt(commit.writer)
                self._repository.pend(commit.edits, 0, commit.writer.name, "rows")

    def merge(self) -> MergeStats:
        """Give every row added so far its verdict."""
        if not self.waiting_rows:
            return MergeStats()
        with _Commit(self) as commit:
            for batch in self._ram.batches:
                self._repository.pend_batch(batch)
            stats = self._repository.merge(
                self.kernel, writer=commit.writer, edits=commit.edits, emit=lambda _, batch: self.emit(batch)
            )
        self.merges += 1
        self.merged_rows += stats.rows
        return stats

    def lookup(self, keys: Keys) -> tuple[Mask, Batch]:
        """(stored[n], values) of keys, apart from rows still waiting. Reads much for few: for tests and tools."""
        return self._repository.lookup(keys)

    def close(self) -> None:
        """Make waiting rows durable and let go of the directory. Opening again gives them their verdicts later."""
        if self._lock >= 0:
            self.spill()
            self._release()

    def __enter__(self) -> Drum:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.merge()
            self.close()
        else:
            self._release()

    def _release(self) -> None:
        self._pool.close()
        self._catalog.close()
        self.files.close(self._lock)
        self._lock = -1

    def _load(self) -> Repository:
        return Repository(
            "keys", catalog=self._catalog, pool=self._pool, values=self.values, ram_bytes=self._ram_bytes // 2
        )


class _Commit:
    """One segment and one catalogue line, or, when anything fails, neither."""

    def __init__(self, drum: Drum) -> None:
        self.drum = drum
        self.edits = Edits()
        name = f"{drum._catalog.number + 1:08d}.seg"
        drum._pool.forget([name])  # of an attempt that failed
        self.writer = SegmentWriter(drum.files, os.path.join(drum.path, name))

    def __enter__(self) -> _Commit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        drum = self.drum
        try:
            if kind is None:
                self._finish()
        except BaseException:
            kind = OSError
            raise
        finally:
            if kind is not None:
                self.writer.abort()
                drum._repository = drum._load()

    def _finish(self) -> None:
        drum = self.drum
        if self.writer.sections:
            self.writer.finish()
        else:
            self.writer.abort()
        drum._catalog.commit(self.edits)
        drum._ram.clear()
        drum._pool.forget(drum._catalog.collect(written=[self.writer.name]))


def keys_of(rows: Sequence[bytes], seed: int = 0) -> Keys:
    """64-bit xxh3 keys of byte strings; give a store of hostile strings a secret seed."""
    return np.fromiter((xxhash.xxh3_64_intdigest(row, seed) for row in rows), dtype=np.uint64, count=len(rows))
