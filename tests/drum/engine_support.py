"""A repository on a desk for tests: pends rows in each way there is, merges, and remembers what was handed on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drum import (
    Batch,
    Bucket,
    Kernel,
    MergeStats,
    Ragged,
    Repository,
)
from drum.bucket import PART_SHIFT

import numpy as np
from drum_support import Desk

GOLDEN = 0x9E3779B97F4A7C15


def rows(keys: list[int], first: int) -> Batch:
    """Rows whose url and id say which row they are."""
    ids = np.arange(first, first + len(keys), dtype=np.uint32)
    spread = np.array([key * GOLDEN % 2**64 for key in keys], np.uint64)
    return Batch({"key": spread, "id": ids, "url": Ragged.from_list([b"http://%d/" % i for i in ids])})


def parts(keys: Any) -> Any:
    return (keys >> np.uint64(PART_SHIFT)).astype("u1")


class Engine:
    """A repository on a desk, that remembers what was handed on."""

    def __init__(self, root: Path, ram_bytes: int, values: dict[str, str] | None = None, files: Any = None) -> None:
        self.desk = Desk(root, files)
        self.values, self.ram_bytes = values or {}, ram_bytes
        self.emitted: list[tuple[Bucket, Batch]] = []
        self.open()

    def open(self) -> None:
        self.repository = Repository(
            "seen", catalog=self.desk.catalog, pool=self.desk.pool, values=self.values, ram_bytes=self.ram_bytes
        )
        self.repository.ram_bytes = self.ram_bytes  # below the least it allows, to make many buckets of few rows

    def pend(self, turn: Any, batch: Batch, how: str, op: int = 0) -> None:
        if how == "ram":
            self.repository.pend_batch(batch, op)
            return
        name = f"rows.{len(turn.writer.sections)}"
        out = turn.writer.section(name, batch.schema)
        out.append(batch, labels=parts(batch["key"]) if how == "parts" else None)
        self.repository.pend(turn.edits, 1, turn.writer.name, name, op)

    def merge(self, turn: Any, kernel: Kernel, buckets: list[Bucket] | None = None) -> MergeStats:
        return self.repository.merge(
            kernel, writer=turn.writer, edits=turn.edits, buckets=buckets, emit=lambda *what: self.emitted.append(what)
        )

    def keys(self) -> list[int]:
        found = [batch["key"] for bucket in self.repository.buckets for batch in self.repository.scan(bucket)]
        return [key for keys in found for key in keys.tolist()]
