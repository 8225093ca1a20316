"""The clocks of hosts, addresses and sites: when each is due, which of them are remembered, what survives a restart.

A clock says when the next request to one host name, one address or one site may begin. Here it is a number, its row in
the columns of `ClockTable`: `table.next[clock]` is when it is due. A hundred thousand hosts have half as many clocks
again; an object for each would be most of the frontier's memory.

`Clocks` decides which clocks are in the table: those that an active host uses, and those that nobody uses but that
still promise something, because they are due in the future or remember a back-off. It forgets all others, so memory is
bounded by the active hosts plus `idle_max`.

What survives a crash: `Clocks.delta` gives the clocks that moved since the last commit, as one section of that commit;
a lease writes its promises (the clocks it will move) into leases.log (lease_log.py) before a request goes out. At the
next start `load` takes the sections back and `open` the log. Nothing here does any I/O.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from drum.ragged import Batch

import numpy as np
from numpy.typing import NDArray

from irlcrawl.frontier.politeness.columns import NONE, Bools, F8s, I8s, KeyIndex, U8s, take_numbers, view
from irlcrawl.frontier.politeness.rates import Rate

BACKOFF_MEMORY = 8.0
"""An unused clock remembers its back-off for this many times the back-off's length after it came due."""
RATE_MEMORY_S = 86_400.0
"""An unused clock of an address that many sites share remembers for so long what the address bears."""
SHARED = (1 << 32) - 1
"""`sites` of an address that many sites share."""


class Kind:
    """What a clock is of. Plain numbers here and below: members of an Enum take more memory than the columns."""

    HOST = 0  # key: name_key of the bare host name, so that http and https share it
    ADDRESS = 1  # key: name_key of the address as text
    SITE = 2  # key: name_key of the registrable domain


KIND_NAMES = ("host", "address", "site")


class Promise(NamedTuple):
    """No request to (kind, key) begins sooner than `gap` seconds after the last one ended."""

    kind: int
    key: int
    gap: float


REBOOT = len(KIND_NAMES)
"""The kind of a Promise that says: the crawl was opened after a reboot at unix seconds `gap`, see Clocks.opened."""


GONE = 255
"""`kind` of a row that stands for no clock, or no longer for one."""


class Flag:
    """Bits of the column `flags`."""

    PACED = 1  # its gap runs from the start of a request to the start of the next, and its visits overlap
    ARMED = 2  # in the line of clocks that come due (queues.py)
    IDLE = 4  # remembered although no active host uses it
    NEWS = 8  # moved since the last Clocks.news
    UNSAVED = 16  # moved since the last Clocks.delta
    STORED = 32  # a back-off of it is on disk


ALL_FLAGS = 255


class Delay:
    """What a host waits for; people see the name DELAY_NAMES[delay]."""

    HOST_GAP = 0
    CRAWL_DELAY = 1
    RETRY_AFTER = 2
    BACKOFF = 3
    ADDRESS = 4
    SITE = 5
    DNS = 6
    OTHER_CRAWL = 7


DELAY_NAMES = ("host gap", "crawl-delay", "retry-after", "backoff", "address", "site", "dns", "another crawl")

CLOCK = {
    "kind": "u1", "key": "u8", "next": "f8", "wait": "f8", "gap": "f8", "backoff": "f8", "sites": "u4", "limit": "f4",
}  # fmt: skip
"""A row of a clock section. `kind` is of Kind, `key` the name_key of the host name, address or site, `next` in unix
seconds, `wait`, `gap` and `backoff` in seconds, `limit` in requests a second; each as the column of ClockTable with the
same name."""


def worth_keeping(due: Any, backoff: Any, sites: Any, now: float) -> Any:
    """Whether a clock (or each of a column of them) must be remembered although nobody uses it."""
    learnt = (sites == SHARED) & (due + RATE_MEMORY_S > now)
    return (due > now) | ((backoff > 0) & (due + BACKOFF_MEMORY * backoff > now)) | learnt


class ClockTable:
    """Every clock there is, as columns: 60 bytes each, and what finding it by kind and key costs."""

    def __init__(self) -> None:
        self.kind = array("B")  # Kind, or GONE
        self.key = array("Q")
        self.next = array("d")  # unix seconds; never goes back
        self.wait = array("f")  # seconds from the end of an exchange to `next`, whatever the reason
        self.gap = array("d")  # seconds between two exchanges, back-off and Crawl-delay not counted; learnt if SHARED
        self.backoff = array("d")  # seconds; 0: none
        self.sites = array("I")  # of an address: a bit for each of 31 classes of sites that had a host there; or SHARED
        self.limit = array("f")  # of a SHARED address that throttled: requests a second, see rates.py; else 0
        self.why = array("B")  # Delay: what set `next`
        self.flags = array("B")
        self.held = array("B")  # leases that use it now; above 1 only for a detour beside its own visit
        self.users = array("I")  # active hosts that use it
        self.first = array("i")  # the host at the front of its queue (queues.py), or NONE
        self.rates: dict[int, Rate] = {}  # of the paced clocks of addresses
        self.lingering = 0  # rows of clocks that are forgotten but still in the line
        self._free = array("i")
        self._index = tuple(KeyIndex(self.key) for _ in KIND_NAMES)

    def __len__(self) -> int:
        return sum(map(len, self._index))

    def count(self, kind: int) -> int:
        """How many clocks of a kind there are."""
        return len(self._index[kind])

    def find(self, kind: int, key: int) -> int:
        """The clock, or NONE."""
        return self._index[kind].find(key)

    def find_many(self, kind: int, keys: U8s) -> I8s:
        """As `find`, for many keys: i8[keys]."""
        return self._index[kind].find_many(keys)

    def make(self, kind: int, key: int, due: float) -> int:
        """A new clock, which must not be in the table yet."""
        if self._free:
            clock = self._free.pop()
        else:
            clock = len(self.kind)
            self._grow(1)
        self.kind[clock], self.key[clock], self.next[clock] = kind, key, due
        self.wait[clock] = self.gap[clock] = self.backoff[clock] = 0.0
        self.sites[clock] = self.why[clock] = self.flags[clock] = 0
        self.limit[clock] = 0.0
        self._index[kind].add(clock)
        return clock

    def make_many(self, kind: int, keys: U8s, due: F8s) -> I8s:
        """As `make`, for many keys, which must differ: i8[keys]."""
        clocks = take_numbers(self._free, len(self.kind), len(keys))
        if not len(clocks):
            return clocks
        self._grow(int(clocks.max()) + 1 - len(self.kind))
        view(self.kind)[clocks], view(self.key)[clocks], view(self.next)[clocks] = kind, keys, due
        for column in (self.wait, self.gap, self.backoff, self.sites, self.limit, self.why, self.flags):
            view(column)[clocks] = 0
        self._index[kind].add_many(clocks)
        return clocks

    def _grow(self, more: int) -> None:
        """Append so many rows."""
        if more > 0:
            for column in (self.kind, self.key, self.next, self.wait, self.gap, self.backoff, self.sites, self.limit,
                           self.why, self.flags, self.held, self.users):  # fmt: skip
                column.frombytes(bytes(more * column.itemsize))
            self.first.extend(array("i", [NONE]) * more)

    def drop(self, clock: int) -> None:
        """Forget a clock. Its row is free for another once it has left the line (`disarm`)."""
        self._index[self.kind[clock]].remove(clock)
        self.rates.pop(clock, None)
        self.kind[clock] = GONE
        self.flags[clock] &= Flag.ARMED
        if self.flags[clock]:
            self.lingering += 1
        else:
            self._free.append(clock)

    def drop_many(self, clocks: I8s) -> None:
        """As `drop`, for many clocks, which must differ."""
        kinds, flags = view(self.kind), view(self.flags)
        for kind, index in enumerate(self._index):
            index.remove_many(clocks[kinds[clocks] == kind])
        for clock in clocks[flags[clocks] & Flag.PACED > 0].tolist():  # few
            self.rates.pop(clock, None)
        kinds[clocks] = GONE
        flags[clocks] &= Flag.ARMED
        in_line = flags[clocks] > 0
        self.lingering += int(in_line.sum())
        self._free.extend(clocks[~in_line].tolist())

    def disarm(self, clock: int) -> None:
        """The clock left the line."""
        self.flags[clock] &= ~Flag.ARMED
        if self.kind[clock] == GONE:
            self.lingering -= 1
            self._free.append(clock)

    def begin(self, clock: int, now: float) -> None:
        """A request begins at a paced clock: when the next one may."""
        rate, due = self.rates.get(clock), self.next[clock]
        gap = self.gap[clock] if rate is None else rate.begins(now, due)
        self.next[clock], self.wait[clock] = max(due, now + gap), gap

    def release(self, clocks: Iterable[int]) -> None:
        """The visit that held these clocks, or began at them, is over."""
        flags, held, paced = self.flags, self.held, Flag.PACED
        for clock in clocks:
            if not flags[clock] & paced:
                held[clock] -= 1
            elif (rate := self.rates.get(clock)) is not None:
                rate.in_flight -= 1

    def longest_gap(self, clock: int) -> float:
        """Seconds between two requests as things stand: the gap or the back-off, whichever is longer."""
        return max(self.gap[clock], self.backoff[clock])

    def crawl_delay(self, clock: int) -> float:
        """The Crawl-delay in seconds that set the clock last; 0 if anything else did."""
        return self.wait[clock] if self.why[clock] == Delay.CRAWL_DELAY else 0.0

    def last_due(self, clocks: Sequence[int]) -> float:
        """When all these clocks are due, in unix seconds; 0 if there are none."""
        due, nexts = 0.0, self.next
        for clock in clocks:
            if nexts[clock] > due:
                due = nexts[clock]
        return due

    def rows(self, clocks: NDArray[np.integer[Any]]) -> Batch:
        """CLOCK rows of these clocks."""
        if not len(clocks):
            return Batch.empty(CLOCK)
        return Batch({name: view(getattr(self, name))[clocks].astype("<" + kind) for name, kind in CLOCK.items()})

    def __repr__(self) -> str:
        return f"ClockTable({len(self)} clocks)"


class Clocks:
    """Which clocks are in `table`, and what commits and the clocks' log are told of them.

    Idle clocks (those that no active host uses) are bounded: beyond `idle_max`, those due soonest are remembered only
    coarsely. Times are unix seconds.
    """

    def __init__(self, idle_max: int = 200_000) -> None:
        self.table = ClockTable()
        self.idle_max = idle_max
        self.idle = 0  # clocks in the table that no active host uses
        self.opened = float("-inf")  # after a reboot: nothing is due before this time plus its gap
        self._swept = 0  # idle clocks left by the last sweep
        self._unsaved = array("i")
        self._news = array("i")
        self._forgotten = Forgotten()  # clocks forgotten before their last move was saved
        self._forgotten_told = 0  # how many of these were told as news
        self._coarse: dict[int, Coarse] = {}  # by kind, made when first needed
        self._coarse_wait = 0.0  # the longest wait of a clock that is remembered coarsely

    def __len__(self) -> int:
        return len(self.table)

    # ---- in use, and no longer

    def find_or_make(self, kind: int, key: int) -> int:
        """The clock, made if it is unknown. A caller that uses it counts itself in `users`, later calls `let_go`."""
        table = self.table
        clock = table.find(kind, key)
        if clock == NONE:
            coarse = self._coarse.get(kind)
            clock = table.make(kind, key, coarse.get(key) if coarse else 0.0)
            if coarse:
                table.wait[clock] = self._coarse_wait  # without one, the next start would not keep what it promises
            return clock
        if table.flags[clock] & Flag.IDLE:
            table.flags[clock] &= ~Flag.IDLE
            self.idle -= 1
        return clock

    def use(self, kind: int, key: int, gap: float) -> int:
        """The clock, which one more active host uses from now on. Its gap becomes `gap` seconds; but the gap of a
        host's clock becomes no shorter than it was, and an address that many sites share keeps what was learnt."""
        clock, table = self.find_or_make(kind, key), self.table
        table.users[clock] += 1
        if table.sites[clock] != SHARED:
            table.gap[clock] = max(table.gap[clock], gap) if kind == Kind.HOST else gap
        table.next[clock] = max(table.next[clock], self.opened + gap)
        return clock

    def use_many(self, kind: int, keys: U8s, gaps: F8s) -> I8s:
        """As `use`, for many keys (at least one, and the same key may come several times): i8[keys]."""
        table = self.table
        distinct, place = np.unique(keys, return_inverse=True)
        clocks = table.find_many(kind, distinct)
        unknown = clocks == NONE
        coarse, due = self._coarse.get(kind), np.zeros(np.count_nonzero(unknown))
        if coarse:
            due[:] = [coarse.get(key) for key in distinct[unknown].tolist()]
        clocks[unknown] = table.make_many(kind, distinct[unknown], due)
        if coarse:
            view(table.wait)[clocks[unknown]] = self._coarse_wait
        flags = view(table.flags)
        idle = clocks[flags[clocks] & Flag.IDLE > 0]
        flags[idle] &= ALL_FLAGS ^ Flag.IDLE
        self.idle -= len(idle)
        clocks = clocks[place]
        np.add.at(view(table.users), clocks, np.uint32(1))
        if kind == Kind.HOST:
            np.maximum.at(view(table.gap), clocks, gaps)
        else:
            view(table.gap)[clocks] = np.where(view(table.sites)[clocks] == SHARED, view(table.gap)[clocks], gaps)
        np.maximum.at(view(table.next), clocks, self.opened + gaps)
        return clocks

    def let_go(self, clocks: Iterable[int], now: float) -> None:
        """Hosts stopped using these clocks, which differ: one that nobody uses any more is remembered only if it still
        promises something."""
        table = self.table
        users, held, nexts, flags = table.users, table.held, table.next, table.flags
        for clock in clocks:
            if users[clock] or held[clock]:
                continue
            if nexts[clock] > now or worth_keeping(nexts[clock], table.backoff[clock], table.sites[clock], now):
                flags[clock] |= Flag.IDLE
                self.idle += 1
            else:
                if flags[clock] & Flag.UNSAVED:
                    self._forgotten.append(table, clock)
                table.drop(clock)
        if self.idle > 2 * self._swept + 1024 or self.idle > self.idle_max:
            self.sweep(now)

    def sweep(self, now: float) -> None:
        """Forget idle clocks that promise nothing; beyond `idle_max`, those due soonest too. Amortised O(1) a clock."""
        table = self.table
        if not table.flags:
            return  # numpy makes no view of nothing
        clocks = np.flatnonzero(view(table.flags) & Flag.IDLE)
        due, backoff, sites = (view(column)[clocks] for column in (table.next, table.backoff, table.sites))
        keep = worth_keeping(due, backoff, sites, now)
        forgotten, kept = clocks[~keep], clocks[keep]
        if len(kept) > self.idle_max:
            soonest = kept[np.argsort(due[keep])][: len(kept) - self.idle_max // 2]
            for clock in soonest.tolist():
                self._coarse.setdefault(table.kind[clock], Coarse()).put(table.key[clock], table.next[clock])
                self._coarse_wait = max(self._coarse_wait, table.wait[clock])
            forgotten = np.concatenate([forgotten, soonest])
        self.idle -= len(forgotten)
        if len(forgotten):
            self._forgotten.extend(table, forgotten[view(table.flags)[forgotten] & Flag.UNSAVED > 0])
            table.drop_many(forgotten)
        self._swept = self.idle

    # ---- what survives

    def moved(self, clocks: Iterable[int]) -> None:
        """Note that these clocks changed, for the next `delta` and `news`."""
        flags, both = self.table.flags, Flag.NEWS | Flag.UNSAVED
        for clock in clocks:
            had = flags[clock]
            if not had & Flag.NEWS:
                self._news.append(clock)
            if not had & Flag.UNSAVED:
                self._unsaved.append(clock)
            flags[clock] = had | both

    def news(self, now: float) -> list[Promise]:
        """What the clocks promise that moved since the last call or the last delta, for `LeaseLog.append` once per
        tick. What a visit taught (a slow answer, Retry-After, back-off) then outlives a kill as its lease does, and the
        next start need not look into the archive for it."""
        table, told = self.table, len(self._forgotten)
        forgotten = _promises_of(self._forgotten.rows(self._forgotten_told), now) if told > self._forgotten_told else []
        moved = [
            Promise(table.kind[clock], table.key[clock], max(table.longest_gap(clock), table.next[clock] - now))
            for clock in self._take_news()
        ]
        self._forgotten_told = told
        return forgotten + moved

    def _take_news(self) -> Iterator[int]:
        """The clocks of `_news` that are still there, each once; they are no news afterwards."""
        flags = self.table.flags
        for clock in self._news:
            if flags[clock] & Flag.NEWS:
                flags[clock] &= ~Flag.NEWS
                yield clock
        del self._news[:]

    def delta(self, now: float) -> Batch:
        """CLOCK rows of the clocks that moved since the last call and still promise something, for one commit.

        The lead writes them into the turn's segment, commits, then calls `LeaseLog.roll(clocks.unsaved(...))`. A commit
        that fails ends the process, so nothing is given twice.
        """
        told = self._forgotten.rows()
        told = told.filter(worth_keeping(told["next"], told["backoff"], told["sites"], now) | self._forgotten.stored)
        if self._unsaved:
            told = Batch.concat([told, self._save(np.unique(self._unsaved), now)])
        for past in (self._unsaved, self._news):
            del past[:]
        self._forgotten.clear()
        self._forgotten_told = 0
        return told

    def _save(self, clocks: NDArray[np.int32], now: float) -> Batch:
        """What `delta` tells of clocks that moved, all of which are saved from now on."""
        flags = view(self.table.flags)
        clocks = clocks[flags[clocks] & Flag.UNSAVED > 0]  # others were forgotten
        rows = self.table.rows(clocks)
        kept = worth_keeping(rows["next"], rows["backoff"], rows["sites"], now)
        told = kept | (flags[clocks] & Flag.STORED > 0)
        flags[clocks] &= ALL_FLAGS ^ (Flag.UNSAVED | Flag.NEWS | Flag.STORED)
        flags[clocks[kept & (rows["backoff"] > 0)]] |= Flag.STORED
        return rows.filter(told)

    def unsaved(self, now: float) -> list[Promise]:
        """What the clocks promise that moved since the last delta. (For leased ones see `Politeness.promises_out`.)"""
        left = np.unique(np.array(self._unsaved, np.int64))
        if len(left):
            left = left[view(self.table.flags)[left] & Flag.UNSAVED > 0]
        moved = _promises_of(Batch.concat([self._forgotten.rows(), self.table.rows(left)]), now)
        return [Promise(REBOOT, 0, self.opened), *moved] if self.opened > 0 else moved

    def load(self, batches: Iterable[Batch], now: float, clock_set: float = 0.0) -> None:
        """Take back the sections of earlier deltas, oldest first. `clock_set`: seconds by which the system's clock was
        set since they were written (frontier/state/clock_set.py), which are added to their times.

        No clock becomes due later than the wait it was given, counted from now: a system's clock that was set back
        unnoticed closes no host for years.
        """
        folded, table = fold(batches, now - clock_set), self.table
        columns = (folded[name].tolist() for name in CLOCK)
        for kind, key, due, wait, gap, backoff, sites, limit in zip(*columns, strict=True):
            clock = self.find_or_make(kind, key)
            table.next[clock] = max(table.next[clock], min(due + clock_set, now + wait))
            table.wait[clock], table.gap[clock], table.backoff[clock] = wait, gap, backoff
            table.sites[clock], table.limit[clock] = sites, limit
            flags = table.flags[clock]
            table.flags[clock] = flags | Flag.STORED if backoff > 0 else flags & ~Flag.STORED
            self.let_go((clock,), now)

    def open(self, now: float, leases: Iterable[Promise], rebooted: bool) -> None:
        """After `load`, with the crawl's lock held (so no request is in flight): clocks that leases.log names are due
        at now + gap. After a reboot that log may have lost its end, so no clock at all is due before now + its gap."""
        table = self.table
        for kind, key, gap in leases:
            if kind == REBOOT:
                self.opened = max(self.opened, min(gap, now))  # the system's clock may have been set back since
                continue
            clock = self.find_or_make(kind, key)
            if now + gap > table.next[clock]:
                table.next[clock], table.wait[clock] = now + gap, gap
            self.moved((clock,))
            self.let_go((clock,), now)
        if rebooted:
            self.opened = now


class Coarse:
    """When each of many forgotten clocks is due, in 6 MiB: the least of three maxima, each over the clocks that share
    18 bits of a key (a count-min sketch of maxima).

    It can only delay: a clock put in comes out due no sooner than it was; one that was never put in is late by mistake
    with a chance of (clocks / 2^18)^3, which is 6% for 100,000 clocks.
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
        """Unix seconds; 0 if nothing is known that could be of this key."""
        return float(self._due[self._cells(key)].min())


class Forgotten:
    """CLOCK rows of clocks that were forgotten, as columns that grow."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._columns = {name: array(code) for name, code in zip(CLOCK, "BQddddIf", strict=True)}
        self._stored = array("B")  # a back-off of it is on disk

    def __len__(self) -> int:
        return len(self._stored)

    def append(self, table: ClockTable, clock: int) -> None:
        for name, column in self._columns.items():
            column.append(getattr(table, name)[clock])
        self._stored.append(table.flags[clock] & Flag.STORED > 0)

    def extend(self, table: ClockTable, clocks: I8s) -> None:
        if not len(clocks):
            return
        rows = table.rows(clocks)
        for name, column in self._columns.items():
            column.frombytes(rows[name].tobytes())
        self._stored.frombytes((view(table.flags)[clocks] & Flag.STORED > 0).tobytes())

    def rows(self, start: int = 0) -> Batch:
        """CLOCK rows from the one numbered `start` on."""
        return Batch({name: np.array(self._columns[name][start:], dtype) for name, dtype in CLOCK.items()})

    @property
    def stored(self) -> Bools:
        """Of each row, whether a back-off of its clock is on disk."""
        return np.array(self._stored, np.bool_)


def _promises_of(rows: Batch, now: float) -> list[Promise]:
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
    return rows.filter(worth_keeping(rows["next"], rows["backoff"], rows["sites"], now))
