"""The clocks as columns: a clock (a *gate* that hosts wait at) is a number, and `next[gate]` is when it is due.

A hundred thousand hosts have as many clocks and half as many again; an object each would be most of the frontier's
memory. Whoever uses a gate counts itself in `users`; who keeps and forgets them is clocks.py, who queues is
queues.py.
"""

from __future__ import annotations

from array import array
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from irlcrawl.frontier.politeness.columns import NONE as NONE
from irlcrawl.frontier.politeness.columns import KeyIndex, take_numbers, view

BACKOFF_MEMORY = 8.0
"""An idle clock remembers its back-off for this many times its length after it came due."""


class Kind:
    """What a clock is of. A plain number, as those below: an Enum's members cost more than the columns they go into."""

    HOST = 0  # key: name_key of the bare host name, so that http and https share it
    ADDRESS = 1  # key: name_key of the address as text
    SITE = 2  # key: name_key of the registrable domain


KIND_NAMES = ("host", "address", "site")


class Promise(NamedTuple):
    """No request to (kind, key) before `gap` seconds after the last one ended."""

    kind: int
    key: int
    gap: float


REBOOT = len(KIND_NAMES)
"""The kind of a Promise that says: after a reboot the crawl was opened at unix seconds `gap`, see Clocks.opened."""

GONE = 255
"""`kind` of a number that stands for no clock (any more)."""


class Flag:
    """Bits of the column `flags`."""

    LENIENT = 1  # an address inside politeness.shared_addresses: no back-off
    ARMED = 2  # in the line of the workbench
    IDLE = 4  # kept although no active host uses it
    NEWS = 8  # moved since the last Clocks.news
    UNSAVED = 16  # moved since the last Clocks.delta
    STORED = 32  # a back-off of it is on disk


ALL_FLAGS = 255


class Delay:
    """What a host waits for; the name as people see it is DELAY_NAMES[delay]."""

    HOST_GAP = 0
    CRAWL_DELAY = 1
    RETRY_AFTER = 2
    BACKOFF = 3
    ADDRESS = 4
    SITE = 5
    DNS = 6


DELAY_NAMES = ("host gap", "crawl-delay", "retry-after", "backoff", "address", "site", "dns")


def promises(due: Any, backoff: Any, now: float) -> Any:
    """Whether a clock (or each of a column of them) must be remembered although nobody uses it."""
    return (due > now) | ((backoff > 0) & (due + BACKOFF_MEMORY * backoff > now))


class Gates:
    """Every clock there is, by kind and key; 52 bytes each, and what finding it costs."""

    def __init__(self) -> None:
        self.kind = array("B")
        self.key = array("Q")
        self.next = array("d")  # unix seconds; never goes back
        self.wait = array("f")  # seconds from the end of an exchange to `next`, whatever the reason
        self.gap = array("d")  # seconds between two exchanges, back-off and Crawl-delay not counted
        self.backoff = array("d")  # seconds; 0 none
        self.why = array("B")  # Delay: what set `next`
        self.flags = array("B")
        self.held = array("B")  # leases that use it now; above 1 only for an errand beside its own visit
        self.users = array("I")  # active hosts that use it
        self.first = array("i")  # the host in front of its queue (queues.py), or NONE
        self.lingering = 0  # numbers of clocks that are no more, still in the line
        self._free = array("i")
        self._index = tuple(KeyIndex(self.key) for _ in KIND_NAMES)

    def __len__(self) -> int:
        return sum(map(len, self._index))

    def count(self, kind: int) -> int:
        """Clocks of a kind."""
        return len(self._index[kind])

    def find(self, kind: int, key: int) -> int:
        """The clock's number, or NONE."""
        return self._index[kind].find(key)

    def find_all(self, kind: int, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        return self._index[kind].find_all(keys)

    def make(self, kind: int, key: int, due: float) -> int:
        """A new clock, which must not be there yet."""
        if self._free:
            gate = self._free.pop()
        else:
            gate = len(self.kind)
            self._grow(1)
        self.kind[gate], self.key[gate], self.next[gate] = kind, key, due
        self.wait[gate] = self.gap[gate] = self.backoff[gate] = 0.0
        self.why[gate] = self.flags[gate] = 0
        self._index[kind].add(gate)
        return gate

    def make_all(self, kind: int, keys: NDArray[np.uint64], due: NDArray[np.float64]) -> NDArray[np.int64]:
        """As `make`, for columns of keys, which differ, and dues."""
        gates = take_numbers(self._free, len(self.kind), len(keys))
        if not len(gates):
            return gates
        self._grow(int(gates.max()) + 1 - len(self.kind))
        view(self.kind)[gates], view(self.key)[gates], view(self.next)[gates] = kind, keys, due
        for column in (self.wait, self.gap, self.backoff, self.why, self.flags):
            view(column)[gates] = 0
        self._index[kind].add_all(gates)
        return gates

    def _grow(self, more: int) -> None:
        """So many more numbers."""
        if more > 0:
            for column in (self.kind, self.key, self.next, self.wait, self.gap, self.backoff, self.why, self.flags,
                           self.held, self.users):  # fmt: skip
                column.frombytes(bytes(more * column.itemsize))
            self.first.extend(array("i", [NONE]) * more)

    def drop(self, gate: int) -> None:
        """It is a clock no more. Its number is free for another once it has left the line (`disarm`)."""
        self._index[self.kind[gate]].remove(gate)
        self.kind[gate] = GONE
        self.flags[gate] &= Flag.ARMED
        if self.flags[gate]:
            self.lingering += 1
        else:
            self._free.append(gate)

    def drop_all(self, gates: NDArray[np.int64]) -> None:
        """As `drop`, for gates that differ."""
        kinds, flags = view(self.kind), view(self.flags)
        for kind, index in enumerate(self._index):
            index.remove_all(gates[kinds[gates] == kind])
        kinds[gates] = GONE
        flags[gates] &= Flag.ARMED
        in_line = flags[gates] > 0
        self.lingering += int(in_line.sum())
        self._free.extend(gates[~in_line].tolist())

    def disarm(self, gate: int) -> None:
        """It left the line."""
        self.flags[gate] &= ~Flag.ARMED
        if self.kind[gate] == GONE:
            self.lingering -= 1
            self._free.append(gate)

    def longest_gap(self, gate: int) -> float:
        """Seconds between two requests as things stand: gap or back-off."""
        return max(self.gap[gate], self.backoff[gate])

    def __repr__(self) -> str:
        return f"Gates({len(self)} clocks)"
