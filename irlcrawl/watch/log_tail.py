"""The crawl log as it grows, for a process beside the crawl: its last lines, and how long requests take.

The log is followed by its open file, so that no line is missed where it is rolled away meanwhile. Only lines that are
written after the start are counted, as by any exporter that is started anew.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import deque
from pathlib import Path
from typing import IO

from irlcrawl.worker.archive.crawl_log import BadLine, LogEntry, parse

LINES_KEPT = 100
TAIL_BYTES = 64 << 10
READ_BYTES_MAX = 16 << 20
"""Of a log that grew by more at once the rest is read the next time."""

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""Seconds: what OpenTelemetry's semantic conventions advise for http.client.request.duration."""
SERIES_MAX = 200
OTHER = "_OTHER"
"""What those conventions call an error that has no name of its own."""


class Counted:
    """buckets: requests that took at most that long, and longer than the bound before; the last one: all longer."""

    def __init__(self) -> None:
        self.buckets = [0] * (len(BUCKETS) + 1)
        self.seconds = 0.0


Durations = dict[tuple[str, str], Counted]
"""By (HTTP status or empty, error type or empty)."""


class LogTail:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream: IO[bytes] | None = None
        self._rest = b""
        self.last: deque[LogEntry] = deque(maxlen=LINES_KEPT)
        self.durations: Durations = {}
        if (stream := self._open()) is not None:
            stream.seek(max(stream.seek(0, os.SEEK_END) - TAIL_BYTES, 0))
            tail = stream.read()
            begin = 0 if len(tail) < TAIL_BYTES else tail.find(b"\n") + 1
            self._take(tail[begin:], count=False)

    def read(self) -> None:
        """The lines that were written since. OSError."""
        stream = self._stream or self._open()
        if stream is None:
            return
        more = stream.read(READ_BYTES_MAX)
        self._take(more, count=True)
        if len(more) < READ_BYTES_MAX and self._rolled(stream):
            self._take(stream.read(), count=True)
            self.close()
            self._rest = b""

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _open(self) -> IO[bytes] | None:
        """The log; None as long as there is none."""
        try:
            self._stream = open(self._path, "rb")  # noqa: SIM115 - followed as long as it is the log
        except FileNotFoundError:
            return None
        return self._stream

    def _rolled(self, stream: IO[bytes]) -> bool:
        """Whether another file is the log now, or this one was cut."""
        ours = os.fstat(stream.fileno())
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            return True
        return not os.path.samestat(ours, there) or ours.st_size < stream.tell()

    def _take(self, data: bytes, count: bool) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines if count else lines[-LINES_KEPT:]:
            try:
                entry = parse(line)
            except BadLine:  # fsck says what is wrong with it
                continue
            self.last.append(entry)
            if count:
                self._count(entry)

    def _count(self, entry: LogEntry) -> None:
        if entry.start_ms is None or entry.outcome == "excluded":
            return  # it left without a request, between turns or in a visit, which notes the moment
        code = str(entry.status) if entry.status > 0 else ""
        error = "" if 0 < entry.status < 400 else code or entry.reason or OTHER
        if (code, error) not in self.durations and len(self.durations) >= SERIES_MAX:
            code, error = "", OTHER
        counted = self.durations.setdefault((code, error), Counted())
        seconds = entry.duration_ms / 1000
        counted.buckets[bisect_left(BUCKETS, seconds)] += 1
        counted.seconds += seconds
