"""DRUM for those who want just that: arrays of keys in, batches of verdicts out, everything else by itself.

`Drum` owns a directory. Rows gather in RAM, go to disk as pending sections when RAM is full, and are merged when enough
of them wait for the pass over the store to be worth it. The crawler uses `Repository` directly, because there several
drums share one commit.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TypeAlias

from drum import cost
from drum.bucket import KeyBuffer, RamBuckets, RecentKeys
from drum.errors import Busy, Incompatible
from drum.files import Files, Path
from drum.kernels import CheckUpdate, Kernel, Keys, Mask, Update
from drum.library import checks
from drum.library.directory import Commit, Directory
from drum.merge import MergeStats
from drum.ragged import BYTES, Batch, Column, Schema
from drum.repository import Repository

import numpy as np

CACHE_BYTES_MAX = 32 << 20
KEYS_EIGHTHS = 6  # of the RAM setting, for waiting rows that are only keys
COMMIT_BYTES = 256 << 20  # a long merge commits when it has written so much, so that what it replaced can go

Verdicts: TypeAlias = Callable[[Batch], None]


@dataclass(frozen=True)
class Statistics:
    """Where a drum stands. Counts since it was opened, except `rows`, `waiting_rows` and `disk_bytes`."""

    rows: int  # keys stored
    waiting_rows: int  # rows without a verdict
    disk_bytes: int  # of the files it holds now
    asked: int  # rows added
    repeats: int  # of them, dropped by the cache of recent keys
    merges: int
    merged_rows: int
    merging: bool  # a merge is running; then:
    buckets: int  # in it
    buckets_done: int


class Drum:
    """A store of keys in the directory `path` (made if absent), held under an exclusive lock.

    emit(batch): what the kernel hands on, whole rows, in arrival order within a part of the key space (rows that are
    only keys: in the order of the keys). It is called within a merge, before the commit: after a crash between the two
    the same rows come again.
    kernel: default CheckUpdate(): the first row of every key never seen before.
    values: fixed-size columns stored beside keys, for kernels that have some; the same whenever it is opened.
    key_bits: 64, or 128 where a lost row in a billion² / 2⁶⁵ is too many; the same whenever it is opened. Keys are then
    u8[n, 2], high half first; rows come back with the columns `key` and `low`. Slower: no cache, no packing of `low`.
    ram_bytes: for everything: an eighth (at most 32 MiB) for the cache of recent keys, six for waiting rows that are
    only keys (else two), and what a bucket of a merge takes: with keys alone less than two, else up to four.
    disk_bytes: for everything; 0: no bound. It makes merges more frequent when waiting rows would not fit; a disk that
    is too small all the same is an OSError.
    merge_rows: merge when so many rows wait; 0: as many as drum/cost.py finds worth it.
    progress(statistics): called between the buckets of a merge; when it returns False the merge stops there, what is
    done is committed, and the rest waits for the next merge.

    Locked (a BlockingIOError): it is open already, or was opened by the process that forked this one. Incompatible (a
    ValueError): it was made with other values, or rows wait that the kernel cannot do. Damaged: a file is not what was
    written. OSError: nothing was committed, rows in RAM are kept, those of the `add` that failed, too. After a
    KeyboardInterrupt they are, too, but for those of the `add` that it came to: add them again. Closed (a ValueError):
    used after it was closed. Busy (a RuntimeError): used by emit or progress, or by two threads at once; only
    `statistics` and `interrupt` are for any thread at any time. `with` merges at its end and lets go of the directory
    in any case: when its body or that merge fails, rows that were not spilled are gone, as with the process.
    """

    def __init__(
        self,
        path: Path,
        *,
        emit: Verdicts,
        kernel: Kernel | None = None,
        values: Schema | None = None,
        key_bits: int = 64,
        ram_bytes: int = 256 << 20,
        disk_bytes: int = 0,
        merge_rows: int = 0,
        progress: Callable[[Statistics], bool | None] | None = None,
        files: Files | None = None,
    ) -> None:
        checks.checked_call("emit", emit)
        if progress is not None:
            checks.checked_call("progress", progress)
        checks.checked_sizes(ram_bytes=ram_bytes, disk_bytes=disk_bytes, merge_rows=merge_rows)
        self.path = os.fsdecode(path)
        self.files = files or Files()
        self.emit = emit
        self.values = checks.checked_values(values or {})
        self.kernel: Kernel = checks.checked_kernel(kernel or CheckUpdate(), self.values)
        self.key_bits = checks.checked_key_bits(key_bits)
        self.merge_rows = merge_rows
        self._disk_bytes_max = disk_bytes or math.inf
        self.merges = self.merged_rows = 0
        self._progress = progress
        self._ram_bytes = ram_bytes
        self._set = (
            type(self.kernel) is CheckUpdate and self.kernel.ignores_repeats and not self.values and key_bits == 64
        )
        self._schemas: dict[int, dict[str, str]] = {}  # of the rows added, by op
        self._keys = KeyBuffer(ram_bytes // 8 * KEYS_EIGHTHS if self._set else 0)
        self._ram = RamBuckets(ram_bytes // 4)
        self.recent = RecentKeys(min(ram_bytes // 8, CACHE_BYTES_MAX)) if self._set else None
        self._asked = 0
        self._stop = threading.Event()
        self._merging: tuple[int, int] | None = None  # buckets, done
        self._one = threading.RLock()  # held by the thread that changes anything
        self._directory = Directory(self.path, self.files, {"values": self.values, "key_bits": self.key_bits})
        try:
            self._repository = self._load()
            self._check_waiting()
        except BaseException:
            self._directory.close()
            raise

    @property
    def rows(self) -> int:
        """Keys stored."""
        return self._repository.rows

    @property
    def waiting_rows(self) -> int:
        """Rows without a verdict."""
        repository = self._repository  # in a merge it holds what waits here, too
        return self._keys.rows + self._ram.rows + repository.pending_rows - repository.ram_rows

    @property
    def statistics(self) -> Statistics:
        """Where it stands now; from any thread, while a merge runs too."""
        merging = self._merging
        return Statistics(
            rows=self.rows, waiting_rows=self.waiting_rows, disk_bytes=self._directory.bytes, asked=self._asked,
            repeats=self.recent.hits if self.recent else 0, merges=self.merges, merged_rows=self.merged_rows,
            merging=merging is not None, buckets=merging[0] if merging else 0,
            buckets_done=merging[1] if merging else 0,
        )  # fmt: skip

    def add(self, keys: Keys, *, op: int = 0, **aux: Column) -> None:
        """Rows for the kernel: keys u8[n], and any columns beside them that are to come back with the verdict: numpy
        arrays [n] or Ragged, the same in every call with the same op. op: which operation of a kernel that knows
        several, 0 to 255. The arrays may be kept for a while: do not change them. TypeError, ValueError."""
        with self._alone():
            op = checks.checked_op(op)
            batch = self._checked(keys, op, aux)
            if self._set and len(batch.columns) == 1:
                self._asked += batch.rows
                self._add_keys(batch["key"])
            else:
                self._add_rows(batch, op)

    def spill(self) -> None:
        """Make every row added so far durable, without a verdict yet."""
        with self._alone():
            self._keys.sweep(self.recent)
            if self._keys.rows or self._ram.rows:
                with self._commit() as commit:
                    self._repository.spill(commit.writer, commit.edits)

    def merge(self) -> MergeStats:
        """Give every row added so far its verdict, or as many as come before an interruption (`left` > 0)."""
        with self._alone():
            return self._merge()

    def _merge(self) -> MergeStats:
        self._stop.clear()
        self._keys.sweep(self.recent)
        total = MergeStats()
        if not self.waiting_rows:
            return total
        if self._repository.pending_rows * cost.KEY_BYTES >= COMMIT_BYTES:
            self.spill()  # a merge of rows on disk alone commits in several steps
        try:
            going = True
            while going:
                stats = self._merge_some(total)
                going = stats.left > 0 and not self._stop.is_set()
                total.left = stats.left
        finally:
            self._merging = None
        self.merges += 1
        return total

    def interrupt(self) -> None:
        """Let a running merge stop at the end of its bucket; from any thread. Nothing when none runs."""
        self._stop.set()

    def lookup(self, keys: Keys) -> tuple[Mask, Batch]:
        """(stored[n], values) of keys, apart from rows still waiting. Reads much for few: for tests and tools."""
        self._directory.check()
        return self._repository.lookup(*checks.checked_keys(keys, self.key_bits).values())

    def close(self) -> None:
        """Make waiting rows durable and let go of the directory. Opening again gives them their verdicts later."""
        if self._directory.open:
            self.spill()
            self._directory.close()

    def __del__(self) -> None:
        if hasattr(self, "_directory"):  # nobody closed it; rows that were not spilled are gone
            self._directory.close()

    def __enter__(self) -> Drum:
        self._directory.check()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._directory.open:
                self.merge()
                self.spill()
        finally:
            self._directory.close()

    # -- within -------------------------------------------------------------------------------------------------------

    def _add_rows(self, batch: Batch, op: int) -> None:
        asked = batch.rows
        try:
            if self.recent is not None:
                fresh = self.recent.unseen(batch["key"])
                batch = batch if len(fresh) == batch.rows else batch.take(fresh)
            self._ram.add(batch, op)
        except BaseException:  # no memory, an interrupt: the cache knows keys that did not go on
            if self.recent is not None:
                self.recent.forget()
            raise
        self._asked += asked
        if self.waiting_rows >= self._merge_at():
            self.merge()
        elif self._ram.full:
            self.spill()

    def _add_keys(self, keys: Keys) -> None:
        try:
            while len(keys):
                room = min(self._keys.room, len(keys))
                self._keys.add(keys[:room])
                keys = keys[room:]
                at = self._merge_at()
                if self._keys.room and self.waiting_rows < at:
                    continue
                self._keys.sweep(self.recent)
                if self.waiting_rows >= at:
                    self.merge()
                elif self._keys.rows >= self._keys.capacity:
                    self.spill()
        except BaseException:
            self._ram.add(Batch({"key": keys.copy()}))  # those that the buffer has no room for
            raise

    def _merge_at(self) -> int:
        """Rows that must wait for a merge."""
        if self.merge_rows:
            return self.merge_rows
        if self._ram.rows:
            row_bytes = self._ram.nbytes / self._ram.rows
            return cost.merge_rows(self.rows, int(self._ram.ram_bytes / row_bytes), row_bytes, self._disk_bytes_max)
        return cost.merge_rows(self.rows, self._keys.capacity, cost.KEY_BYTES, self._disk_bytes_max)

    def _pend(self) -> None:
        """Hand the repository what waits here."""
        self._keys.sweep(self.recent)
        for run in self._keys.runs:
            self._repository.pend_batch(Batch({"key": run}), ordered=True)
        for batch, op in self._ram.batches:
            self._repository.pend_batch(batch, op)

    def _merge_some(self, total: MergeStats) -> MergeStats:
        """Merge buckets until a commit is due; adds to `total`."""
        with self._commit() as commit:
            spilled = not self._repository.ram_rows
            before = total.buckets

            def proceed(stats: MergeStats) -> bool:
                done = before + stats.buckets
                self._merging = max(len(self._repository.buckets), done), done
                going = self._progress(self.statistics) if self._progress is not None else None
                if isinstance(going, (bool, np.bool_)) and not going:
                    self._stop.set()
                return not self._stop.is_set() and not (spilled and commit.writer.bytes >= COMMIT_BYTES)

            self._merging = len(self._repository.buckets), before
            stats = self._repository.merge(
                self.kernel, writer=commit.writer, edits=commit.edits, emit=lambda _, batch: self.emit(batch),
                proceed=proceed,
            )  # fmt: skip
        self.merged_rows += stats.rows
        for name in ("rows", "added", "written", "emitted", "buckets", "splits"):
            setattr(total, name, getattr(total, name) + getattr(stats, name))
        return stats

    def _checked(self, keys: Keys, op: int, aux: dict[str, Column]) -> Batch:
        if op and self.recent is not None:
            raise ValueError(f"this kernel knows one operation, op is 0, not {op}")
        columns: dict[str, Column] = {**checks.checked_keys(keys, self.key_bits)}
        columns.update(checks.checked_aux(aux, taken=(*columns, *checks.told_by(self.kernel))))
        batch = Batch(columns)
        if isinstance(self.kernel, (CheckUpdate, Update)):
            checks.checked_kinds(batch.schema, self.values)
        schema = self._schemas.setdefault(op, batch.schema)
        if batch.schema != schema:
            raise ValueError(f"every add has the same columns: {schema}, not {batch.schema}")
        missing = [name for name in self.kernel.columns if schema.get(name, BYTES) == BYTES]
        if missing and isinstance(self.kernel, (CheckUpdate, Update)):
            del self._schemas[op]
            raise ValueError(f"the kernel needs numeric columns {missing} beside the keys, given: {list(aux)}")
        return batch

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else changes the drum meanwhile. Closed, Locked, Busy."""
        self._directory.check()
        if not self._one.acquire(blocking=False):
            raise Busy(f"{self.path}: another thread adds or merges: one at a time")
        try:
            if self._merging is not None:
                raise Busy(f"{self.path}: emit and progress are called within a merge: do it when it has returned")
            yield
        finally:
            self._one.release()

    @contextmanager
    def _commit(self) -> Iterator[Commit]:
        """One segment and one catalogue line with what waits here, or, when anything fails, neither."""
        commit = Commit(self._directory)
        try:
            self._pend()
            yield commit
            commit.finish()
            self._forget_rows()
        except BaseException as error:
            if commit.undo(error):
                self._forget_rows()
            self._repository = self._load()
            raise

    def _check_waiting(self) -> None:
        """Rows that wait since an earlier opening have what the kernel stores of them. Incompatible."""
        if isinstance(self.kernel, (CheckUpdate, Update)) and self._repository.pending_rows:
            missing = [name for name in self.kernel.columns if not self._repository.pending_has(name)]
            if missing:
                raise Incompatible(f"{self.path}: rows wait here for another kernel, they have no columns {missing}")

    def _forget_rows(self) -> None:
        """What waited here was committed."""
        self._ram.clear()
        self._keys.clear()

    def _load(self) -> Repository:
        return Repository(
            "keys",
            catalog=self._directory.catalog,
            pool=self._directory.pool,
            values=self.values,
            ram_bytes=self._ram_bytes // 2,
            key_bits=self.key_bits,
        )
