"""Sorting more lines than memory holds: sorted runs in temporary files, merged once.

Lines are bytes with their newline, compared byte by byte.
"""

from __future__ import annotations

import heapq
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack

RUN_BYTES = 64 << 20
FILES_MAX = 256
"""Files merged at a time; of more, some are merged to one first."""
_LINE_OVERHEAD = 50  # bytes of memory that a line takes beside its text


def merged(paths: list[str], directory: str) -> Iterator[bytes]:
    """The lines of sorted files in order, equal ones once. `directory`: where files in between may be made."""
    while len(paths) > FILES_MAX:
        path = _written(merged(paths[:FILES_MAX], directory), directory)
        paths = [*paths[FILES_MAX:], path]
    with ExitStack() as stack:
        streams = [stack.enter_context(open(path, "rb", buffering=1 << 16)) for path in paths]
        last = b""
        for line in streams[0] if len(streams) == 1 else heapq.merge(*streams):
            if line != last:
                yield line
                last = line


class SortedLines:
    """Lines added in any order come out in order, each once; they may be asked for several times. Memory is about
    `run_bytes`; the rest is in `directory`, which its owner deletes."""

    def __init__(self, directory: str, run_bytes: int = RUN_BYTES) -> None:
        self._directory, self._run_bytes = directory, run_bytes
        self._lines: list[bytes] = []
        self._bytes = 0
        self._runs: list[str] = []

    def add(self, line: bytes) -> None:
        self._lines.append(line)
        self._bytes += len(line) + _LINE_OVERHEAD
        if self._bytes >= self._run_bytes:
            self._spill()

    def __iter__(self) -> Iterator[bytes]:
        if self._runs:
            self._spill()
            yield from merged(self._runs, self._directory)
            return
        self._lines.sort()
        last = b""
        for line in self._lines:
            if line != last:
                yield line
                last = line

    def _spill(self) -> None:
        if not self._lines:
            return
        self._lines.sort()
        self._runs.append(_written(self._lines, self._directory))
        self._lines, self._bytes = [], 0


def _written(lines: Iterable[bytes], directory: str) -> str:
    handle, path = tempfile.mkstemp(dir=directory)
    with os.fdopen(handle, "wb", buffering=1 << 20) as stream:
        stream.writelines(lines)
    return path
