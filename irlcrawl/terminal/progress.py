"""The progress of a crawl, as a person sees it: a small live table on a terminal, a plain line now and then elsewhere.

The crawl calls `tick` as often as it likes; the record is asked for only when it is time to show it. The reader may
leave: a crawl goes on when its terminal, pipe or file cannot be written to any more.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from irlcrawl.base.clock import Clock, SystemClock
from irlcrawl.crawl import status

if TYPE_CHECKING:
    from rich.live import Live

TERMINAL_SECONDS = 0.5
WITHOUT_CURSOR = ("dumb", "unknown")
"""Terminals that cannot redraw: they get lines, as a file does."""
LINE_SECONDS = 10.0

Record = Callable[[], Mapping[str, Any]]


@contextmanager
def unheard(stream: IO[str]) -> Iterator[None]:
    """For words to a person on `stream`. If they cannot be written (a closed pipe, a terminal that is gone, a full
    disk), these words and all later ones are dropped."""
    try:
        yield
        stream.flush()
    except OSError:
        _drop(stream)


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """For answers on standard output. `| head` is no error: when the reader leaves, the rest is dropped."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _drop(sys.stdout)


def _drop(stream: IO[str]) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


class Progress:
    """Shows no record, only notes: for --quiet, and as the base of the others."""

    seconds = math.inf

    def __init__(self, stream: IO[str] | None = None, clock: Clock | None = None) -> None:
        self._stream = stream or sys.stderr
        self._clock = clock or SystemClock()
        self._due = self._clock.now() if math.isfinite(self.seconds) else math.inf

    def tick(self, record: Record) -> None:
        """Show the record if it is time."""
        now = self._clock.now()
        if now >= self._due:
            self._due = now + self.seconds
            self.show(status.complete(record()))

    def show(self, values: Mapping[str, Any]) -> None:
        """Show the record now."""

    def note(self, text: str) -> None:
        """Print a line once, without disturbing the rest of the screen."""
        with unheard(self._stream):
            print(text, file=self._stream)

    def close(self) -> None:
        """Release the terminal."""


class LineProgress(Progress):
    """A line with the time of day, every ten seconds."""

    seconds = LINE_SECONDS

    def show(self, values: Mapping[str, Any]) -> None:
        self.note(f"{values['state']}: {status.line(values)}")

    def note(self, text: str) -> None:
        at = time.strftime("%H:%M:%S", time.localtime(self._clock.now()))
        super().note(f"{at} {text}")


class TerminalProgress(Progress):
    """A table redrawn in place, twice a second."""

    seconds = TERMINAL_SECONDS

    def __init__(self, stream: IO[str] | None = None, clock: Clock | None = None) -> None:
        super().__init__(stream, clock)
        from rich.console import Console

        self._console = Console(file=self._stream)
        self._live: Live | None = None

    def show(self, values: Mapping[str, Any]) -> None:
        from rich.live import Live
        from rich.text import Text

        with unheard(self._stream):
            if self._live is None:
                # What others write to stderr meanwhile (warnings) scrolls past above the table.
                self._live = Live(console=self._console, auto_refresh=False, transient=True)
                self._live.start()
            self._live.update(Text("\n".join(status.lines(values)), no_wrap=True, overflow="ellipsis"), refresh=True)

    def note(self, text: str) -> None:
        with unheard(self._stream):
            self._console.print(text, markup=False, highlight=False)

    def close(self) -> None:
        if self._live is not None:
            with unheard(self._stream):
                self._live.stop()
            self._live = None


def progress_for(stream: IO[str] | None = None, *, quiet: bool = False, clock: Clock | None = None) -> Progress:
    """The progress that suits `stream` (default: stderr)."""
    stream = stream or sys.stderr
    if quiet:
        return Progress(stream, clock)
    table = stream.isatty() and os.environ.get("TERM", "dumb") not in WITHOUT_CURSOR
    return (TerminalProgress if table else LineProgress)(stream, clock)
