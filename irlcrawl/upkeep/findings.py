"""Findings of a check, and its progress as a person sees it: the shapes that fsck, verify and repair share."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Protocol

from drum import Damaged
from irlcrawl.terminal import words
from irlcrawl.terminal.progress import unheard

if TYPE_CHECKING:
    from rich.progress import Progress

LINE_SECONDS = 10.0


@dataclass(frozen=True)
class Finding:
    """A difference from what was written (`damage`), or something worth knowing (a note). offset: bytes into the
    file."""

    damage: bool
    file: str
    offset: int | None
    what: str

    @classmethod
    def of(cls, error: Damaged) -> Finding:
        return cls(True, error.file, error.offset, error.what)

    def __str__(self) -> str:
        place = self.file if self.offset is None else f"{self.file}: at offset {self.offset}"
        return f"{'damaged' if self.damage else 'note'}: {place}: {self.what}"


Findings = Iterator[Finding]


def note(file: str, what: str) -> Finding:
    return Finding(False, file, None, what)


Told = Callable[[float], str]
"""Puts an amount into words: words.size for bytes, as nearly all amounts are, or `urls`."""


def urls(count: float) -> str:
    return words.plural(count, "URL")


class Bar(Protocol):
    """Progress of a check, in bytes read or in the unit of the stage."""

    def stage(self, name: str, total: int, told: Told = words.size) -> None:
        """A stage begins: its name, and the amount of work in it."""

    def read(self, count: int) -> None:
        """So much more of the stage is done."""

    def say(self, text: str) -> None:
        """Print a line, above the bar if there is one."""

    def close(self) -> None: ...


class Silent:
    """Shows no progress, only lines."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = stream or sys.stderr

    def stage(self, name: str, total: int, told: Told = words.size) -> None: ...

    def read(self, count: int) -> None: ...

    def say(self, text: str) -> None:
        with unheard(self._stream):
            print(text, file=self._stream)

    def close(self) -> None: ...


class Lines(Silent):
    """A plain line for each stage, and every ten seconds of a long one."""

    def __init__(self, stream: IO[str] | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self._clock = clock
        self._name, self._total, self._all, self._done, self._due = "", 0, "", 0, 0.0

    def stage(self, name: str, total: int, told: Told = words.size) -> None:
        self._name, self._total, self._all, self._done = name, total, told(total), 0
        self._due = self._clock() + LINE_SECONDS
        self.say(f"{name}: {self._all}")

    def read(self, count: int) -> None:
        self._done += count
        if self._clock() >= self._due:
            self._due = self._clock() + LINE_SECONDS
            share = min(self._done / self._total, 1.0) if self._total else 1.0
            self.say(f"{self._name}: {share:.0%} of {self._all}")


class TerminalBar(Silent):
    """A bar for each stage, with the time left."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        super().__init__(stream)
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        amount = TextColumn("{task.fields[amount]}")
        columns = (TextColumn("{task.description:<24}"), BarColumn(), amount, TimeRemainingColumn())
        self._progress: Progress = Progress(*columns, console=Console(file=self._stream))
        self._progress.start()
        self._told: Told = words.size
        self._total, self._done = 0, 0
        self._task = self._progress.add_task("", total=None, amount="")

    def stage(self, name: str, total: int, told: Told = words.size) -> None:
        self.read(self._total - self._done)  # what was skipped of it is over, too
        self._total, self._done, self._told = total, 0, told
        self._task = self._progress.add_task(name, total=max(total, 1), amount=self._amount())

    def read(self, count: int) -> None:
        self._done += count
        self._progress.update(self._task, completed=self._done, amount=self._amount())

    def _amount(self) -> str:
        return f"{self._told(self._done)} of {self._told(self._total)}" if self._total else ""

    def say(self, text: str) -> None:
        self._progress.console.print(text, markup=False, highlight=False)

    def close(self) -> None:
        self._progress.stop()


def bar_for(stream: IO[str] | None = None, *, quiet: bool = False) -> Bar:
    """The progress that suits `stream` (default: stderr)."""
    stream = stream or sys.stderr
    if quiet:
        return Silent(stream)
    return TerminalBar(stream) if stream.isatty() else Lines(stream)
