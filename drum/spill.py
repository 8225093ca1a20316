"""Rows put into files of their own by the last bits of their key, to be sorted and compared one file at a time.

What fsck and the audit of politeness compare may not fit memory: a spill holds one 64th of it, or a 256th. The first
bits may be the same for many keys (those of a site's URLs); the last ones never are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

BATCH_ROWS = 65_536


class Spill:
    """Rows of a structured dtype with a field `key` (u8), in 2**bits files `NAME-N` of `directory`."""

    def __init__(self, directory: str, name: str, dtype: np.dtype[Any], bits: int) -> None:
        self._paths = [os.path.join(directory, f"{name}-{number:03}") for number in range(1 << bits)]
        self._mask = (1 << bits) - 1
        self._dtype = dtype
        self._rows: list[tuple[Any, ...]] = []
        self.rows = 0

    def add(self, row: tuple[Any, ...]) -> None:
        """A row, its fields in order."""
        self._rows.append(row)
        if len(self._rows) >= BATCH_ROWS:
            self._flush()

    def add_many(self, **columns: Any) -> None:
        """Rows by column, each an array or one value for all."""
        rows = np.empty(len(columns["key"]), self._dtype)
        for name, column in columns.items():
            rows[name] = column
        self._write(rows)

    def _flush(self) -> None:
        rows, self._rows = np.array(self._rows, self._dtype), []
        self._write(rows)

    def _write(self, rows: npt.NDArray[Any]) -> None:
        self.rows += len(rows)
        home = (rows["key"] & np.uint64(self._mask)).astype(np.int64)
        order = np.argsort(home, kind="stable")
        edges = np.flatnonzero(np.diff(home[order], prepend=-1, append=-1))
        for first, last in zip(edges[:-1].tolist(), edges[1:].tolist()):
            path = self._paths[int(home[order[first]])]
            try:
                with open(path, "ab") as stream:
                    stream.write(rows[order[first:last]].tobytes())  # tofile would not tell that the disk is full
            except OSError as error:
                raise OSError(error.errno, error.strerror, path) from error  # a write does not name its file

    def number_of(self, key: int) -> int:
        """Of the file that has a key's rows."""
        return key & self._mask

    def part(self, number: int) -> npt.NDArray[Any]:
        """The rows of one file, as they came."""
        if self._rows:
            self._flush()
        path = self._paths[number]
        return np.fromfile(path, self._dtype) if os.path.exists(path) else np.empty(0, self._dtype)

    def parts(self) -> Iterator[npt.NDArray[Any]]:
        """Each file that has rows."""
        for number in range(len(self._paths)):
            rows = self.part(number)
            if len(rows):
                yield rows
