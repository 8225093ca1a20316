"""What Politeness asks of the clocks that all crawls on a machine share (frontier/dispatch/machine_clocks.py has them).

A visit begins only if no other crawl has a visit out to its host, address or site, and none had one within the gap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import NamedTuple, Protocol

from irlcrawl.frontier.politeness.clocks import Promise


class Told(NamedTuple):
    """A clock of this crawl that others are to respect: due at `due` unix seconds, or held by a visit that is out."""

    promise: Promise
    due: float
    held: bool


class Machine(Protocol):
    """Used by one thread. No method raises: what cannot be shared is not."""

    def begin(self, known: Callable[[], Iterable[Told]]) -> bool:
        """Whether visits may begin now, until `end`; False: another crawl is at the table, ask again in a moment.
        `known` gives the crawl's own clocks, which are wanted when it comes to the table."""
        ...

    def end(self) -> None:
        """What `take` took is on the table for all."""
        ...

    @property
    def heeds(self) -> bool:
        """Between `begin` and `end`: whether there is any need to `take`. Not of a crawl that is alone."""
        ...

    def take(self, promises: Sequence[Promise]) -> Sequence[float]:
        """Between `begin` and `end`: take these clocks for a visit. Empty: they are this crawl's. Else nothing was
        taken, and for each promise there is the time when its clock may be due, in unix seconds, of which one at least
        is later than now."""
        ...

    def promise(self, promises: Iterable[Promise]) -> None:
        """The gaps of clocks that were taken became these."""
        ...

    def give(self, kind: int, key: int, due: float, ended: float | None) -> None:
        """A visit that took the clock is over: it is due at `due`, its last exchange ended at `ended` (unix seconds),
        or there was none. Nothing if the clock was not taken."""
        ...

    @property
    def wants_to_look(self) -> bool:
        """`begin` is wanted although no visit begins: to write what was given, or to see who came."""
        ...

    def close(self, known: Callable[[], Iterable[Told]]) -> None:
        """The crawl is over: its clocks are left on the table, for crawls that come."""
        ...


class Session:
    """`with Session(machine, known) as may_begin:` around calls of `take`. Without a machine they may always begin."""

    __slots__ = ("_known", "_machine")

    def __init__(self, machine: Machine | None, known: Callable[[], Iterable[Told]]) -> None:
        self._machine, self._known = machine, known

    def __enter__(self) -> bool:
        return self._machine is None or self._machine.begin(self._known)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._machine is not None:
            self._machine.end()
