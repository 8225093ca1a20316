"""The clocks of hosts, addresses and sites: when each may be contacted next, who waits for it, what survives a restart.

A `Gate` is one clock together with the queue of hosts that wait for it. `Clocks` holds every gate that an active host
uses, and those nobody uses but which still promise something (they lie in the future, or remember a back-off). It
forgets the others, so memory is bounded by the hosts that are active plus `idle_max`.

What survives (DESIGN section 4): `delta()` gives the clocks moved since the last commit, for one section per commit;
`leases.LeaseLog` names, before a request goes out, the clocks it will move. On open, `load()` takes the sections and
`open()` the log. None of this does any I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from drum.ragged import Batch

if TYPE_CHECKING:
    from irlcrawl.frontier.politeness import HostEntry

CLOCK = {"kind": "u1", "key": "u8", "next": "f8", "gap": "f8", "backoff": "f8"}
"""A row of a clock section: Kind, name_key of the host name, address or site; unix seconds; seconds; seconds."""

BACKOFF_MEMORY = 8.0
"""An idle clock remembers its back-off for this many times its length after it came due."""


class Kind(IntEnum):
    HOST = 0  # key: name_key of the bare host name, so that http and https share it
    ADDRESS = 1  # key: name_key of the address as text
    SITE = 2  # key: name_key of the registrable domain


class Promise(NamedTuple):
    """No request to (kind, key) before `gap` seconds after the last one ended."""

    kind: int
    key: int
    gap: float


class Gate:
    """One clock and the hosts that wait for it, the oldest ticket first.

    The first waiter has a slot of its own: nearly every gate belongs to a single host, and needs no list then.
    A host leaves the middle of the queue by pointing its `at` elsewhere; what it leaves behind is skipped later.
    """

    __slots__ = (  # noqa: RUF023 - in order of meaning
        "kind", "key", "next", "gap", "backoff", "why", "lenient", "held", "users", "waiting", "first", "rest",
        "armed", "reserved", "unsaved", "stored",
    )  # fmt: skip

    def __init__(self, kind: int, key: int, due: float = 0.0, gap: float = 0.0, backoff: float = 0.0) -> None:
        self.kind = kind
        self.key = key
        self.next = due  # unix seconds; never goes back
        self.gap = gap  # seconds from the end of an exchange to the next start, back-off and Crawl-delay not counted
        self.backoff = backoff  # seconds; 0 none
        self.why = 0  # Delay: what set `next`
        self.lenient = False  # an address inside politeness.shared_addresses: no back-off
        self.held = 0  # leases that use it now; above 1 only for an errand beside its own visit
        self.users = 0  # active hosts that use it
        self.waiting = 0  # hosts in this queue
        self.first: HostEntry | None = None
        self.rest: list[tuple[int, HostEntry]] | None = None  # heap of (ticket, host), some of them gone
        self.armed = False  # in the heap of Politeness
        self.reserved: HostEntry | None = None  # kept free for a host that has been turned away too often
        self.unsaved = False  # moved since the last delta
        self.stored = False  # a back-off of it is on disk

    def __lt__(self, other: Gate) -> bool:
        return self.key < other.key

    def __repr__(self) -> str:
        return f"Gate({Kind(self.kind).name}, {self.key:016x}, next={self.next:.3f}, held={self.held})"

    def join(self, entry: HostEntry) -> None:
        entry.at = self
        self.waiting += 1
        first = self.first
        if first is None:
            self.first = entry
            return
        if entry.ticket < first.ticket:
            self.first, entry = entry, first
        if self.rest is None:
            self.rest = []
        heappush(self.rest, (entry.ticket, entry))

    def leave(self, entry: HostEntry) -> None:
        entry.at = None
        self.waiting -= 1
        rest = self.rest
        if self.first is not entry:
            assert rest is not None
            if len(rest) > 2 * self.waiting + 32:
                self.rest = sorted(item for item in rest if self._waits(*item))  # a sorted list is a heap
            return
        self.first = None
        while rest:
            ticket, other = heappop(rest)
            if self._waits(ticket, other):
                self.first = other
                return
        self.rest = None

    def some(self, count: int) -> Iterator[HostEntry]:
        """The first waiter and up to `count` - 1 others, in no order."""
        if self.first is not None:
            yield self.first
        for ticket, entry in (self.rest or ())[: count - 1]:
            if self._waits(ticket, entry):
                yield entry

    def _waits(self, ticket: int, entry: HostEntry) -> bool:
        return entry.at is self and entry.ticket == ticket

    def promises(self, now: float) -> bool:
        """Whether it must be remembered although nobody uses it."""
        return self.next > now or (self.backoff > 0 and self.next + BACKOFF_MEMORY * self.backoff > now)


COARSE_BITS = 17


class Clocks:
    """Every clock by kind and key. Bounded: beyond `idle_max` unused ones, those due soonest go into a coarse table.

    The coarse table (a maximum per 2^17 hash classes and kind, 3 MiB, made when first needed) can only delay: a clock
    that was forgotten comes back due no sooner than it was promised, one that shares its class may wait for it too.
    """

    def __init__(self, idle_max: int = 200_000) -> None:
        self.idle_max = idle_max
        self.opened = float("-inf")  # after a reboot: nothing is due before this + its gap
        self._gates: tuple[dict[int, Gate], ...] = ({}, {}, {})
        self._idle: dict[Gate, None] = {}  # gates without users, oldest first
        self._swept = 0  # idle gates left by the last sweep
        self._unsaved: list[Gate] = []
        self._coarse: np.ndarray | None = None  # f8[3, 2^COARSE_BITS], unix seconds

    def __len__(self) -> int:
        return sum(map(len, self._gates))

    @property
    def idle(self) -> int:
        """Clocks kept although no active host uses them."""
        return len(self._idle)

    def find(self, kind: int, key: int) -> Gate | None:
        return self._gates[kind].get(key)

    def gate(self, kind: int, key: int) -> Gate:
        """The clock, made if unknown. Its user counts itself in `users` and calls `let_go` when it stops."""
        gates = self._gates[kind]
        gate = gates.get(key)
        if gate is None:
            due = 0.0 if self._coarse is None else float(self._coarse[kind, key & ((1 << COARSE_BITS) - 1)])
            gate = gates[key] = Gate(kind, key, due)
        elif gate.users == 0:
            self._idle.pop(gate, None)
        return gate

    def let_go(self, gate: Gate, now: float) -> None:
        """Nobody uses the gate any more: keep it only for what it still promises."""
        if gate.users or gate.held:
            return
        if not gate.promises(now):
            self._forget(gate)
            return
        self._idle[gate] = None
        if len(self._idle) > 2 * self._swept + 1024 or len(self._idle) > self.idle_max:
            self.sweep(now)

    def sweep(self, now: float) -> None:
        """Forget idle clocks that promise nothing; then, beyond the bound, those due soonest. Amortised O(1) a gate."""
        for gate in [gate for gate in self._idle if not gate.promises(now)]:
            del self._idle[gate]
            self._forget(gate)
        if len(self._idle) > self.idle_max:
            by_due = sorted(self._idle, key=lambda gate: gate.next)
            for gate in by_due[: len(by_due) - self.idle_max // 2]:
                del self._idle[gate]
                self._forget(gate)
                self._blur(gate)
        self._swept = len(self._idle)

    def _forget(self, gate: Gate) -> None:
        del self._gates[gate.kind][gate.key]

    def _blur(self, gate: Gate) -> None:
        if self._coarse is None:
            self._coarse = np.zeros((len(Kind), 1 << COARSE_BITS), dtype=np.float64)
        cell = gate.kind, gate.key & ((1 << COARSE_BITS) - 1)
        self._coarse[cell] = max(self._coarse[cell], gate.next)

    # ---- what survives

    def moved(self, gate: Gate) -> None:
        """Note that the gate changed, for the next delta."""
        if not gate.unsaved:
            gate.unsaved = True
            self._unsaved.append(gate)

    def delta(self, now: float) -> Batch:
        """Rows (CLOCK) of the clocks moved since the last call that still promise something, for one commit.

        The lead writes them into the turn's segment, commits, then calls `LeaseLog.roll(clocks.unsaved(...))`. A commit
        that fails ends the process, so nothing is given twice.
        """
        rows = []
        for gate in self._unsaved:
            gate.unsaved = False
            remembers = gate.promises(now)
            if remembers or gate.stored:
                rows.append((gate.kind, gate.key, gate.next, gate.gap, gate.backoff))
            gate.stored = remembers and gate.backoff > 0
        self._unsaved.clear()
        return _batch(rows)

    def unsaved(self, now: float) -> list[Promise]:
        """What no delta covers yet: the clocks moved since the last one. (Leased ones: `Politeness.promises_out`.)"""
        return [Promise(gate.kind, gate.key, max(gate.gap, gate.backoff, gate.next - now)) for gate in self._unsaved]

    def load(self, batches: Iterable[Batch], now: float, wait_max: float = float("inf")) -> None:
        """Take back the sections of earlier deltas, oldest first. `wait_max`: the longest wait a clock can have been
        given beyond its gap (politeness.retry_after_max_seconds): a wall clock that was set back must not close a host
        for years."""
        folded = fold(batches, now)
        kinds, keys, due, gaps, backoffs = (folded[name].tolist() for name in CLOCK)
        for kind, key, at, gap, backoff in zip(kinds, keys, due, gaps, backoffs, strict=True):
            gate = self.gate(kind, key)
            gate.next = max(gate.next, min(at, now + max(wait_max, gap, backoff)))
            gate.gap, gate.backoff, gate.stored = gap, backoff, backoff > 0
            self.let_go(gate, now)

    def open(self, now: float, leases: Iterable[Promise], rebooted: bool) -> None:
        """After `load`, with the lock held (so no request is in flight): what leases.log names is due at now + gap;
        after a reboot, when that log may have lost its end, nothing at all is due before now + its gap."""
        for kind, key, gap in leases:
            gate = self.gate(kind, key)
            gate.next = max(gate.next, now + gap)
            self.moved(gate)
            self.let_go(gate, now)
        if rebooted:
            self.opened = now


def _batch(rows: list[tuple[int, int, float, float, float]]) -> Batch:
    if not rows:
        return Batch.empty(CLOCK)
    columns = zip(CLOCK.items(), zip(*rows, strict=True), strict=True)
    return Batch({name: np.array(column, dtype=dtype) for (name, dtype), column in columns})


def fold(batches: Iterable[Batch], now: float) -> Batch:
    """One section out of several, oldest first: the newest row of each clock, without those that promise nothing.

    For the tiering of clock sections (eight become one). Shape: CLOCK rows, sorted by kind and key.
    """
    both = Batch.concat([_batch([]), *batches])
    kind, key = both["kind"], both["key"]
    order = np.lexsort((np.arange(len(key)), key, kind))  # the newest of a clock comes last in its group
    kind, key = kind[order], key[order]
    newest = np.ones(len(order), dtype=bool)
    newest[:-1] = (kind[1:] != kind[:-1]) | (key[1:] != key[:-1])
    rows = both.take(order[newest])
    return rows.filter(
        (rows["next"] > now) | ((rows["backoff"] > 0) & (rows["next"] + BACKOFF_MEMORY * rows["backoff"] > now))
    )
