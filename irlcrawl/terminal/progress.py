"""What a person sees while something runs: a table or a bar redrawn on a terminal, lines now and then elsewhere.

`Progress` shows the record of a crawl: the crawl calls `tick` as often as it likes, and the record is asked for only
when it is time to show it. `Bar` shows how far a check has come. Both also say a line now and then (`note`); their
plain forms say nothing else (--quiet). Readers may leave: the work goes on when nothing can be written to its terminal,
pipe or file any more.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from irlcrawl.base.clock import Clock, SystemClock
from irlcrawl.terminal import words

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

TERMINAL_SECONDS = 0.5
WITHOUT_CURSOR = ("dumb", "unknown")
"""Terminals that cannot redraw: they get lines, as a file does."""
LINE_SECONDS = 10.0

Record = Callable[[], Mapping[str, Any]]
Told = Callable[[float], str]
"""How an amount is said: words.size of bytes, as nearly all are, or `urls`."""


class View(NamedTuple):
    """A record in a person's words."""

    line: Callable[[Mapping[str, Any]], str]
    lines: Callable[[Mapping[str, Any]], list[str]]


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


class Speaker:
    """Says lines to a person on `stream` (default: stderr)."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = stream or sys.stderr

    def note(self, text: str) -> None:
        """Print a line once, without disturbing the rest of the screen."""
        with unheard(self._stream):
            print(words.shown(text), file=self._stream)

    def close(self) -> None:
        """Release the terminal."""


# -- a crawl ----------------------------------------------------------------------------------------------------------


class Progress(Speaker):
    """Shows no record, only what is noted: for --quiet, and the base of the others."""

    seconds = math.inf

    def __init__(self, stream: IO[str] | None = None, clock: Clock | None = None) -> None:
        super().__init__(stream)
        self._clock = clock or SystemClock()
        self._due = self._clock.now() if math.isfinite(self.seconds) else math.inf

    def tick(self, record: Record) -> None:
        """Show the record if it is time."""
        now = self._clock.now()
        if now >= self._due:
            self._due = now + self.seconds
            self.show(record())

    def show(self, values: Mapping[str, Any]) -> None:
        """Show the record now."""

    def bar(self) -> Bar:
        """For work before the first record: shown where and as the records are."""
        return bar_for(self._stream, quiet=not math.isfinite(self.seconds))


class LineProgress(Progress):
    """A line with the time of day, every ten seconds."""

    seconds = LINE_SECONDS

    def __init__(self, view: View, stream: IO[str] | None = None, clock: Clock | None = None) -> None:
        super().__init__(stream, clock)
        self._view = view

    def show(self, values: Mapping[str, Any]) -> None:
        self.note(self._view.line(values))

    def note(self, text: str) -> None:
        at = time.strftime("%H:%M:%S", time.localtime(self._clock.now()))
        super().note(f"{at} {text}")


class TerminalProgress(Progress):
    """A table redrawn in place, twice a second."""

    seconds = TERMINAL_SECONDS

    def __init__(self, view: View, stream: IO[str] | None = None, clock: Clock | None = None) -> None:
        super().__init__(stream, clock)
        self._view = view
        self._console = _console(self._stream)
        self._live: Live | None = None

    def show(self, values: Mapping[str, Any]) -> None:
        from rich.live import Live
        from rich.text import Text

        with unheard(self._stream):
            if self._live is None:
                # What others write to stderr meanwhile (warnings) scrolls past above the table.
                self._live = Live(console=self._console, auto_refresh=False, transient=True)
                self._live.start()
            text = Text("\n".join(self._view.lines(values)), no_wrap=True, overflow="ellipsis")
            self._live.update(text, refresh=True)

    def note(self, text: str) -> None:
        with unheard(self._stream):
            self._console.print(words.shown(text), markup=False, highlight=False)

    def close(self) -> None:
        if self._live is not None:
            with unheard(self._stream):
                self._live.stop()
            self._live = None


def progress_for(
    view: View, stream: IO[str] | None = None, *, quiet: bool = False, clock: Clock | None = None
) -> Progress:
    """The progress that suits `stream` (default: stderr)."""
    stream = stream or sys.stderr
    if quiet:
        return Progress(stream, clock)
    return (TerminalProgress if _can_redraw(stream) else LineProgress)(view, stream, clock)


# -- a check ----------------------------------------------------------------------------------------------------------


def urls(count: float) -> str:
    return words.plural(count, "URL")


class Bar(Speaker):
    """Shows no progress, only what is noted: for --quiet, and the base of the others."""

    def stage(self, name: str, total: int, told: Told = words.size) -> None:
        """What is looked at now, and how much there is (bytes, or what `told` says)."""

    def read(self, count: int) -> None:
        """So much more."""


class LineBar(Bar):
    """A plain line for each stage, and every ten seconds of a long one."""

    def __init__(self, stream: IO[str] | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self._clock = clock
        self._name, self._total, self._all, self._done, self._due = "", 0, "", 0, math.inf

    def stage(self, name: str, total: int, told: Told = words.size) -> None:
        self._name, self._total, self._all, self._done = name, total, told(total), 0
        self._due = self._clock() + LINE_SECONDS
        self.note(f"{name}: {self._all}")

    def read(self, count: int) -> None:
        self._done += count
        if self._clock() >= self._due:
            self._due = self._clock() + LINE_SECONDS
            share = min(self._done / self._total, 1.0) if self._total else 1.0
            self.note(f"{self._name}: {share:.0%} of {self._all}")


class TerminalBar(Bar):
    """A bar a stage, with what is left to do."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        super().__init__(stream)
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        amount = TextColumn("{task.fields[amount]}")
        columns = (TextColumn("{task.description:<24}"), BarColumn(), amount, TimeRemainingColumn())
        self._bars = Bars(*columns, console=_console(self._stream))
        self._bars.start()
        self._told: Told = words.size
        self._total, self._done = 0, 0
        self._task = self._bars.add_task("", total=None, amount="")

    def stage(self, name: str, total: int, told: Told = words.size) -> None:
        self.read(self._total - self._done)  # what was skipped of it is over, too
        self._total, self._done, self._told = total, 0, told
        self._task = self._bars.add_task(name, total=max(total, 1), amount=self._amount())

    def read(self, count: int) -> None:
        self._done += count
        self._bars.update(self._task, completed=self._done, amount=self._amount())

    def _amount(self) -> str:
        return f"{self._told(self._done)} of {self._told(self._total)}" if self._total else ""

    def note(self, text: str) -> None:
        self._bars.console.print(words.shown(text), markup=False, highlight=False)

    def close(self) -> None:
        self._bars.stop()


def bar_for(stream: IO[str] | None = None, *, quiet: bool = False) -> Bar:
    """The bar that suits `stream` (default: stderr)."""
    stream = stream or sys.stderr
    if quiet:
        return Bar(stream)
    return TerminalBar(stream) if _can_redraw(stream) else LineBar(stream)


def beside_output() -> Bar:
    """Of a verb that prints what it finds: none where that is seen, on the terminal."""
    return bar_for(quiet=sys.stdout.isatty())


def _can_redraw(stream: IO[str]) -> bool:
    return stream.isatty() and os.environ.get("TERM", "dumb") not in WITHOUT_CURSOR


def _console(stream: IO[str]) -> Console:
    from rich.console import Console

    return Console(file=stream)
