"""The clocks of hosts, addresses and sites: which are remembered, which are forgotten, and what survives a restart.

`Clocks` holds every gate (a clock with its queue) that an active host uses, and those nobody uses but which still
promise something: they lie in the future, or remember a back-off. It forgets the others, so memory is bounded by the
hosts that are active plus `idle_max`.

What survives a crash: `delta()` gives the clocks moved since the last commit, for one section per commit;
`leases.LeaseLog` names, before a request goes out, the clocks it will move. On open, `load()` takes the sections and
`open()` the log. None of this does any I/O.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drum.ragged import Batch
from irlcrawl.frontier.politeness.columns import view
from irlcrawl.frontier.politeness.gates import ALL_FLAGS, NONE, REBOOT, Flag, Gates, Kind, Promise, promises

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


class Clocks(Gates):
    """Every clock that is used or promises something. Bounded: beyond `idle_max` unused ones, those due soonest are
    kept only coarsely."""

    def __init__(self, idle_max: int = 200_000) -> None:
        super().__init__()
        self.idle_max = idle_max
        self.idle = 0  # clocks kept although no active host uses them
        self.opened = float("-inf")  # after a reboot: nothing is due before this + its gap
        self._swept = 0  # idle clocks left by the last sweep
        self._unsaved = array("i")
        self._news = array("i")
        self._gone = Gone()  # of clocks forgotten before their last move was saved
        self._gone_told = 0  # of these, told as news
        self._coarse: dict[int, Coarse] = {}  # by kind, made when first needed

    def gate(self, kind: int, key: int) -> int:
        """The clock, made if unknown. Its user counts itself in `users` and calls `let_go` when it stops."""
        gate = self.find(kind, key)
        if gate == NONE:
            coarse = self._coarse.get(kind)
            return self.make(kind, key, coarse.get(key) if coarse else 0.0)
        if self.flags[gate] & Flag.IDLE:
            self.flags[gate] &= ~Flag.IDLE
            self.idle -= 1
        return gate

    def use(self, kind: int, key: int, gap: float) -> int:
        """The clock of an active host, `gap` seconds long (a host's: at least)."""
        gate = self.gate(kind, key)
        self.users[gate] += 1
        self.gap[gate] = max(self.gap[gate], gap) if kind == Kind.HOST else gap
        self.next[gate] = max(self.next[gate], self.opened + gap)
        return gate

    def use_all(self, kind: int, keys: NDArray[np.uint64], gaps: NDArray[np.float64]) -> NDArray[np.int64]:
        """As `use`, for columns of at least one key, which may stand there several times, and gaps."""
        distinct, place = np.unique(keys, return_inverse=True)
        gates = self.find_all(kind, distinct)
        unknown = gates == NONE
        coarse, due = self._coarse.get(kind), np.zeros(np.count_nonzero(unknown))
        if coarse:
            due[:] = [coarse.get(key) for key in distinct[unknown].tolist()]
        gates[unknown] = self.make_all(kind, distinct[unknown], due)
        flags = view(self.flags)
        idle = gates[flags[gates] & Flag.IDLE > 0]
        flags[idle] &= ALL_FLAGS ^ Flag.IDLE
        self.idle -= len(idle)
        gates = gates[place]
        np.add.at(view(self.users), gates, np.uint32(1))
        if kind == Kind.HOST:
            np.maximum.at(view(self.gap), gates, gaps)
        else:
            view(self.gap)[gates] = gaps
        np.maximum.at(view(self.next), gates, self.opened + gaps)
        return gates

    def let_go(self, gate: int, now: float) -> None:
        """Nobody uses the gate any more: keep it only for what it still promises."""
        if self.users[gate] or self.held[gate]:
            return
        if not promises(self.next[gate], self.backoff[gate], now):
            self._forget(gate)
            return
        self.flags[gate] |= Flag.IDLE
        self.idle += 1
        if self.idle > 2 * self._swept + 1024 or self.idle > self.idle_max:
            self.sweep(now)

    def let_go_all(self, gates: NDArray[np.int64], now: float) -> None:
        """As `let_go`, for gates that differ; swept is once, behind them all."""
        gates = gates[(view(self.users)[gates] == 0) & (view(self.held)[gates] == 0)]
        kept = promises(view(self.next)[gates], view(self.backoff)[gates], now)
        self._forget_all(gates[~kept])
        gates = gates[kept]
        view(self.flags)[gates] |= Flag.IDLE
        self.idle += len(gates)
        if self.idle > 2 * self._swept + 1024 or self.idle > self.idle_max:
            self.sweep(now)

    def sweep(self, now: float) -> None:
        """Forget idle clocks that promise nothing; then, beyond the bound, those due soonest. Amortised O(1) a gate."""
        if not self.flags:
            return  # numpy makes no view of nothing
        gates = np.flatnonzero(view(self.flags) & Flag.IDLE)
        due, backoff = view(self.next)[gates], view(self.backoff)[gates]
        keep = promises(due, backoff, now)
        forgotten, kept = gates[~keep], gates[keep]
        if len(kept) > self.idle_max:
            soonest = kept[np.argsort(due[keep])][: len(kept) - self.idle_max // 2]
            for gate in soonest.tolist():
                self._coarse.setdefault(self.kind[gate], Coarse()).put(self.key[gate], self.next[gate])
            forgotten = np.concatenate([forgotten, soonest])
        self.idle -= len(forgotten)
        self._forget_all(forgotten)
        self._swept = self.idle

    def _forget(self, gate: int) -> None:
        if self.flags[gate] & Flag.UNSAVED:
            self._gone.append(self, gate)
        self.drop(gate)

    def _forget_all(self, gates: NDArray[np.int64]) -> None:
        """As `_forget`, for gates that differ."""
        if len(gates):
            self._gone.extend(self, gates[view(self.flags)[gates] & Flag.UNSAVED > 0])
            self.drop_all(gates)

    # ---- what survives

    def moved(self, gate: int) -> None:
        """Note that the gate changed, for the next delta and news."""
        flags = self.flags[gate]
        if not flags & Flag.NEWS:
            self._news.append(gate)
        if not flags & Flag.UNSAVED:
            self._unsaved.append(gate)
        self.flags[gate] = flags | Flag.NEWS | Flag.UNSAVED

    def moved_all(self, gates: NDArray[np.int64]) -> None:
        """As `moved`, for gates that differ."""
        flags = view(self.flags)
        self._news.extend(gates[flags[gates] & Flag.NEWS == 0].tolist())
        self._unsaved.extend(gates[flags[gates] & Flag.UNSAVED == 0].tolist())
        flags[gates] |= Flag.NEWS | Flag.UNSAVED

    def news(self, now: float) -> list[Promise]:
        """The clocks moved since the last call (or delta), for `LeaseLog.append` once per tick: what a visit taught (a
        slow answer, Retry-After, back-off) then outlives a kill as its lease does, without a look into the archive."""
        gone = _promises(self._gone.rows(self._gone_told), now) if len(self._gone) > self._gone_told else []
        moved = [
            Promise(self.kind[gate], self.key[gate], max(self.longest_gap(gate), self.next[gate] - now))
            for gate in self._marked(self._news, Flag.NEWS)
        ]
        self._gone_told = len(self._gone)
        del self._news[:]
        return gone + moved

    def _marked(self, gates: Iterable[int], flag: int) -> Iterator[int]:
        """Those that still have the flag, each once, without it afterwards. (Others were forgotten, or came twice.)"""
        for gate in gates:
            if self.flags[gate] & flag:
                self.flags[gate] &= ~flag
                yield gate

    def delta(self, now: float) -> Batch:
        """Rows (CLOCK) of the clocks moved since the last call that still promise something, for one commit.

        The lead writes them into the turn's segment, commits, then calls `LeaseLog.roll(clocks.unsaved(...))`. A commit
        that fails ends the process, so nothing is given twice.
        """
        told = self._gone.rows()
        told = told.filter(promises(told["next"], told["backoff"], now) | self._gone.stored)
        if self._unsaved:
            told = Batch.concat([told, self._delta(np.unique(self._unsaved), now)])
        for past in (self._unsaved, self._news):
            del past[:]
        self._gone.clear()
        self._gone_told = 0
        return told

    def _delta(self, gates: NDArray[np.int32], now: float) -> Batch:
        flags = view(self.flags)
        gates = gates[flags[gates] & Flag.UNSAVED > 0]  # others were forgotten
        rows = rows_of(self, gates)
        kept = promises(rows["next"], rows["backoff"], now)
        told = kept | (flags[gates] & Flag.STORED > 0)
        flags[gates] &= ALL_FLAGS ^ (Flag.UNSAVED | Flag.NEWS | Flag.STORED)
        flags[gates[kept & (rows["backoff"] > 0)]] |= Flag.STORED
        return rows.filter(told)

    def unsaved(self, now: float) -> list[Promise]:
        """What no delta covers yet: the clocks moved since the last one. (Leased ones: `Politeness.promises_out`.)"""
        left = np.unique(np.array(self._unsaved, np.int64))
        if len(left):
            left = left[view(self.flags)[left] & Flag.UNSAVED > 0]
        moved = _promises(Batch.concat([self._gone.rows(), rows_of(self, left)]), now)
        return [Promise(REBOOT, 0, self.opened), *moved] if self.opened > 0 else moved

    def load(self, batches: Iterable[Batch], now: float, clock_set: float = 0.0) -> None:
        """Take back the sections of earlier deltas, oldest first, `clock_set` seconds later than they say: they are at
        rest (clock_set.py). None is due later than the wait it was given from now: a wall clock that was set back in a
        way nobody can tell closes no host for years."""
        folded = fold(batches, now - clock_set)
        columns = (folded[name].tolist() for name in CLOCK)
        for kind, key, due, wait, gap, backoff in zip(*columns, strict=True):
            gate = self.gate(kind, key)
            self.next[gate] = max(self.next[gate], min(due + clock_set, now + wait))
            self.wait[gate], self.gap[gate], self.backoff[gate] = wait, gap, backoff
            self.flags[gate] = self.flags[gate] | Flag.STORED if backoff > 0 else self.flags[gate] & ~Flag.STORED
            self.let_go(gate, now)

    def open(self, now: float, leases: Iterable[Promise], rebooted: bool) -> None:
        """After `load`, with the lock held (so no request is in flight): what leases.log names is due at now + gap;
        after a reboot, when that log may have lost its end, nothing at all is due before now + its gap."""
        for kind, key, gap in leases:
            if kind == REBOOT:
                self.opened = max(self.opened, min(gap, now))  # the system's clock may have been set back since
                continue
            gate = self.gate(kind, key)
            if now + gap > self.next[gate]:
                self.next[gate], self.wait[gate] = now + gap, gap
            self.moved(gate)
            self.let_go(gate, now)
        if rebooted:
            self.opened = now


class Gone:
    """Rows of clocks that are forgotten, as columns: a simulated crawl forgets thousands at once."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._columns = {name: array(code) for name, code in zip(CLOCK, "BQdddd", strict=True)}
        self._stored = array("B")  # a back-off of it is on disk

    def __len__(self) -> int:
        return len(self._stored)

    def append(self, gates: Gates, gate: int) -> None:
        for name, column in self._columns.items():
            column.append(getattr(gates, name)[gate])
        self._stored.append(gates.flags[gate] & Flag.STORED > 0)

    def extend(self, gates: Gates, some: NDArray[np.int64]) -> None:
        if not len(some):
            return
        rows = rows_of(gates, some)
        for name, column in self._columns.items():
            column.frombytes(rows[name].tobytes())
        self._stored.frombytes((view(gates.flags)[some] & Flag.STORED > 0).tobytes())

    def rows(self, start: int = 0) -> Batch:
        """CLOCK rows, from one on."""
        return Batch({name: np.array(self._columns[name][start:], dtype) for name, dtype in CLOCK.items()})

    @property
    def stored(self) -> NDArray[np.bool_]:
        return np.array(self._stored, np.bool_)


def rows_of(gates: Gates, some: NDArray[np.integer[Any]]) -> Batch:
    """CLOCK rows of some gates."""
    if not len(some):
        return Batch.empty(CLOCK)
    return Batch({name: view(getattr(gates, name))[some].astype("<" + kind) for name, kind in CLOCK.items()})


def _promises(rows: Batch, now: float) -> list[Promise]:
    """What CLOCK rows promise."""
    gap = np.maximum(np.maximum(rows["gap"], rows["backoff"]), rows["next"] - now)
    return [Promise(*row) for row in zip(rows["kind"].tolist(), rows["key"].tolist(), gap.tolist(), strict=True)]


def fold(batches: Iterable[Batch], now: float) -> Batch:
    """One section out of several, oldest first: the newest row of each clock, without those that promise nothing.

    For the tiering of clock sections (eight become one). Shape: CLOCK rows, sorted by kind and key.
    """
    both = Batch.concat([Batch.empty(CLOCK), *batches])
    kind, key = both["kind"], both["key"]
    order = np.lexsort((np.arange(len(key)), key, kind))  # the newest of a clock comes last in its group
    kind, key = kind[order], key[order]
    newest = np.ones(len(order), dtype=bool)
    newest[:-1] = (kind[1:] != kind[:-1]) | (key[1:] != key[:-1])
    rows = both.take(order[newest])
    return rows.filter(promises(rows["next"], rows["backoff"], now))
