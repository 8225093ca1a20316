"""The clocks of hosts, addresses and sites: which are remembered, which are forgotten, and what survives a restart.

`Clocks` holds every gate (a clock with its queue) that an active host uses, and those nobody uses but which still
promise something: they lie in the future, or remember a back-off. It forgets the others, so memory is bounded by the
hosts that are active plus `idle_max`.

What survives (DESIGN section 4): `delta()` gives the clocks moved since the last commit, for one section per commit;
`leases.LeaseLog` names, before a request goes out, the clocks it will move. On open, `load()` takes the sections and
`open()` the log. None of this does any I/O.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from drum.ragged import Batch
from irlcrawl.frontier.gates import BACKOFF_MEMORY, REBOOT, Gate, Promise

CLOCK = {"kind": "u1", "key": "u8", "next": "f8", "wait": "f8", "gap": "f8", "backoff": "f8"}
"""A row of a clock section: Kind; name_key of the host name, address or site; Gate.next in unix seconds; the others in
seconds."""


class Coarse:
    """The latest of many clocks, in 6 MiB: the least of three maxima, each over the clocks that share 18 bits of a key.

    It can only delay: a clock put in comes out due no sooner than it was, one never put in is late by mistake with a
    chance of (clocks / 2^18)^3, which is 6% for 100,000.
    """

    BITS = 18
    ROWS = 3

    def __init__(self) -> None:
        self._due = np.zeros((self.ROWS, 1 << self.BITS))  # f8, unix seconds

    def _cells(self, key: int) -> tuple[range, list[int]]:
        return range(self.ROWS), [(key >> (row * self.BITS)) & ((1 << self.BITS) - 1) for row in range(self.ROWS)]

    def put(self, key: int, due: float) -> None:
        cells = self._cells(key)
        self._due[cells] = np.maximum(self._due[cells], due)

    def get(self, key: int) -> float:
        return float(self._due[self._cells(key)].min())


class Clocks:
    """Every clock by kind and key. Bounded: beyond `idle_max` unused ones, those due soonest are kept only coarsely."""

    def __init__(self, idle_max: int = 200_000) -> None:
        self.idle_max = idle_max
        self.opened = float("-inf")  # after a reboot: nothing is due before this + its gap
        self._gates: tuple[dict[int, Gate], ...] = ({}, {}, {})
        self._idle: dict[Gate, None] = {}  # gates without users, oldest first
        self._swept = 0  # idle gates left by the last sweep
        self._unsaved: list[Gate] = []
        self._news: list[Gate] = []
        self._coarse: dict[int, Coarse] = {}  # by kind, made when first needed

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
            coarse = self._coarse.get(kind)
            gate = gates[key] = Gate(kind, key, coarse.get(key) if coarse else 0.0)
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
                if gate.kind not in self._coarse:
                    self._coarse[gate.kind] = Coarse()
                self._coarse[gate.kind].put(gate.key, gate.next)
        self._swept = len(self._idle)

    def _forget(self, gate: Gate) -> None:
        del self._gates[gate.kind][gate.key]

    # ---- what survives

    def moved(self, gate: Gate) -> None:
        """Note that the gate changed, for the next delta and news."""
        if not gate.news:
            gate.news = True
            self._news.append(gate)
        if not gate.unsaved:
            gate.unsaved = True
            self._unsaved.append(gate)

    def news(self, now: float) -> list[Promise]:
        """The clocks moved since the last call (or delta), for `LeaseLog.append` once per tick: what a visit taught (a
        slow answer, Retry-After, back-off) then outlives a kill as its lease does, without a look into the archive."""
        promises = [_wait_left(gate, now) for gate in self._news]
        self._forget_news()
        return promises

    def _forget_news(self) -> None:
        for gate in self._news:
            gate.news = False
        self._news.clear()

    def delta(self, now: float) -> Batch:
        """Rows (CLOCK) of the clocks moved since the last call that still promise something, for one commit.

        The lead writes them into the turn's segment, commits, then calls `LeaseLog.roll(clocks.unsaved(...))`. A commit
        that fails ends the process, so nothing is given twice.
        """
        self._forget_news()
        rows = []
        for gate in self._unsaved:
            gate.unsaved = False
            remembers = gate.promises(now)
            if remembers or gate.stored:
                rows.append((gate.kind, gate.key, gate.next, gate.wait, gate.gap, gate.backoff))
            gate.stored = remembers and gate.backoff > 0
        self._unsaved.clear()
        return _batch(rows)

    def unsaved(self, now: float) -> list[Promise]:
        """What no delta covers yet: the clocks moved since the last one. (Leased ones: `Politeness.promises_out`.)"""
        moved = [_wait_left(gate, now) for gate in self._unsaved]
        return [Promise(REBOOT, 0, self.opened), *moved] if self.opened > 0 else moved

    def load(self, batches: Iterable[Batch], now: float, wait_max: float = 0.0) -> None:
        """Take back the sections of earlier deltas, oldest first. None is due later than the wait it was given (or
        `wait_max` seconds, if that is longer) from now: a wall clock that was set back closes no host for years."""
        folded = fold(batches, now)
        columns = (folded[name].tolist() for name in CLOCK)
        for kind, key, due, wait, gap, backoff in zip(*columns, strict=True):
            gate = self.gate(kind, key)
            gate.next = max(gate.next, min(due, now + max(wait, wait_max)))
            gate.wait, gate.gap, gate.backoff, gate.stored = wait, gap, backoff, backoff > 0
            self.let_go(gate, now)

    def open(self, now: float, leases: Iterable[Promise], rebooted: bool) -> None:
        """After `load`, with the lock held (so no request is in flight): what leases.log names is due at now + gap;
        after a reboot, when that log may have lost its end, nothing at all is due before now + its gap."""
        for kind, key, gap in leases:
            if kind == REBOOT:
                self.opened = max(self.opened, gap)
                continue
            gate = self.gate(kind, key)
            if now + gap > gate.next:
                gate.next, gate.wait = now + gap, gap
            self.moved(gate)
            self.let_go(gate, now)
        if rebooted:
            self.opened = now


def _wait_left(gate: Gate, now: float) -> Promise:
    return Promise(gate.kind, gate.key, max(gate.gap, gate.backoff, gate.next - now))


def _batch(rows: list[tuple[int, int, float, float, float, float]]) -> Batch:
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
