"""Crawls on one machine promise each other what each promises itself: no request before the gap after any of them.

Two crawls that know nothing of each other may ask one host at the same moment. So the clocks of visits lie on a table
that all crawls of a user on the machine share (machine_file.py, machine_cells.py): a visit takes its clocks there when
it is leased, if no other crawl has them, and gives them back when it ends, with the time from which they are due. There
is no daemon. A crawl that is killed leaves its clocks taken: once its lock is gone they are due a promised gap later;
if nobody saw that, at the latest time such a visit could have ended.

A crawl that is alone writes nothing, because that would be most of what a visit costs the frontier. It looks twice a
second whether another one came. If so, it tells all its clocks that are not due or of visits that are out, and says so
by a lock; until then the one that came leases nothing, for TOLD_S at most. A crawl that ends tells its clocks, too, and
one that comes alone heeds them; only a crawl that was alone when it was killed leaves no word.

A crawl keeps its own gaps from others' requests, too, where they are the longer ones. Two crawls that want a host take
turns: the one that found it taken says so in its cell, and is let in before the last one comes again.

Clocks without a gap promise nothing and are not shared. Where the table cannot be had (no such directory, a full disk,
a file of somebody else, damage) that is said once, and the crawl goes on by itself until it can.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from irlcrawl.base.clock import Clock, since_boot
from irlcrawl.config.keys import Config
from irlcrawl.frontier.dispatch import machine_cells as cells
from irlcrawl.frontier.dispatch.machine_cells import HELD, NOTHING, Cell
from irlcrawl.frontier.dispatch.machine_file import MachineFile, Unusable
from irlcrawl.frontier.dispatch.visits import LATEST_START_S
from irlcrawl.frontier.politeness.clocks import Promise
from irlcrawl.frontier.politeness.columns import NONE
from irlcrawl.frontier.politeness.machine import Told

LOOK_S = 0.5
"""So often: is the file still where others look for it, and are the crawls alive that others wait for?"""
STUCK_S = 5.0
"""A crawl that has the table for so long stands still (it may have been stopped in the middle): others go on alone."""
DYING_S = 0.1
"""A request of a crawl that was killed may be under way for so long yet."""
TOLD_S = 5.0
"""A crawl that comes waits for so long at most until those that are there have told their clocks."""
POLL_LEAST_S = 0.1
"""A clock that another crawl has taken is looked at again no sooner than this."""
LATE_S = 1.0
"""For so long after it is due, a clock waits for the crawl that asked for it."""
LATE_MOST_S = 30.0
"""And so long at most after the last crawl could have it again, where the other crawl's gap is longer."""
WORKER_LATE_S = 5.0
"""A busy worker may notice its deadlines so much later."""
AGAIN_LEAST_S = 0.001
"""What is not to be had is asked for again no sooner than this."""
ROUNDED_S = 1e-5
"""Two processes agree to microseconds on what time it is."""

NOBODY = 0
"""The member number of a clock that several crawls say something of: each has to heed it."""

_log = logging.getLogger("irlcrawl.frontier")


def machine_clocks(config: Config, clock: Clock, boot: str) -> MachineClocks | None:
    """What a crawl of this configuration shares with others, in this boot of the machine; None: nothing."""
    directory = config.politeness.machine_clocks
    if not directory:
        return None
    return MachineClocks(directory, clock, boot, LATEST_START_S + config.fetch.total_seconds + WORKER_LATE_S)


def seconds_left(directory: str, boot: str, clocks: Iterable[tuple[int, int, float]]) -> list[float]:
    """For how many seconds each of these clocks (kind, key, gap) is kept by whoever of this machine used it last, at
    least; 0: it is not. For questions: it takes nothing and writes nothing. OSError."""
    file = MachineFile.looked_at(Path(directory), boot)
    if file is None:
        return [0.0 for _ in clocks]
    try:
        now = since_boot()
        return [max(0.0, _due_of(file, cells.key_of(kind, key), gap, now) - now) for kind, key, gap in clocks]
    finally:
        file.close()


def _due_of(file: MachineFile, key: int, gap: float, now: float) -> float:
    """Seconds since boot."""
    bucket = file.read(cells.bucket_of(key))
    at = cells.find(bucket, key)
    cell = NOTHING if at == NONE else cells.get(bucket, at, now)
    if not cell.member & HELD:
        return max(cell.due, cell.ended + gap)
    # A visit is out: should it end this moment, a gap is left. Of a crawl that is gone nobody knows since when.
    return now + max(cell.gap, gap) if cell.due > now and file.is_alive(cell.member & ~HELD) else 0.0


class MachineClocks:
    """A politeness.machine.Machine. longest_visit_s: from a lease to the latest end of its last exchange."""

    def __init__(self, directory: str, clock: Clock, boot: str, longest_visit_s: float) -> None:
        self._directory, self._boot = Path(directory), boot
        self._clock, self._longest_visit_s = clock, longest_visit_s
        self._booted = clock.now() - clock.since_boot()  # unix seconds
        self._file: MachineFile | None = None
        self._open = False  # between begin and end, with the file locked
        self._newest: int | None = None  # while this crawl is alone: the member that came last
        self._left: dict[int, Cell] = {}  # clocks that others left when this crawl became alone, and that are not due
        self._left_until = 0.0
        self._untold: set[int] = set()  # crawls that were there first and have not told their clocks
        self._now = 0.0  # of `begin`, seconds since boot
        self._look_at = 0.0
        self._busy_since: float | None = None
        self._said = False
        self._buckets: dict[int, bytearray] = {}  # those read since `begin`
        self._changed: set[int] = set()
        self._mine: dict[int, Cell] = {}  # key of a clock that was taken -> what the table said before
        self._given: dict[int, tuple[float, float | None]] = {}  # key -> (due, ended): still to be written
        self._longer: dict[int, float] = {}  # key -> gap: likewise
        self._came_at = 0.0
        self._alive: set[int] = set()  # other crawls, by their numbers, at the last look
        self._died: dict[int, float] = {}  # other crawls that are gone -> from when they asked nothing more

    # ---- at the table

    def begin(self, known: Callable[[], Iterable[Told]]) -> bool:
        self._now = now = self._clock.since_boot()
        try:
            if not self._come(known):
                if self._untold and now <= self._came_at + TOLD_S:
                    return False
                if self._busy_since is None:
                    self._busy_since = now
                if now - self._busy_since <= STUCK_S:
                    return False
                raise Unusable(f"{self._directory}: another crawl has held the clocks there for {STUCK_S:.0f} s")
            if self._open:
                self._busy_since = None
                self._write_given()
        except OSError as error:
            self._lose(error)
        return True

    def _come(self, known: Callable[[], Iterable[Told]]) -> bool:
        """Come to the table; False if another crawl is at it, or has not told its clocks. Nothing if this crawl is
        alone, or the table was not to be had a moment ago."""
        look = self._now >= self._look_at
        if self._newest is not None and not (look or self.has_news):
            return True
        if look and self._file is not None and not self._file.is_current():
            self._leave()
        if self._file is None and look:
            self._file = MachineFile.open(self._directory, self._boot)
            if self._file is None:
                return False
            self._open = True
            self._came_at = self._now
            self._look_around()
            self._untold = set(self._alive)
            self._tell_all(known)
        elif self._file is not None:
            came = self._newest is not None and self._file.newest() != self._newest
            if self._newest is not None and not (came or self.has_news):
                if look:
                    self._look_at = self._now + LOOK_S
                return True
            if not self._file.lock():
                return False
            self._open = True
            if came:
                self._look_around()
                self._tell_all(known)
        if look:
            self._look_at = self._now + LOOK_S
            self._look_around()
            if self._newest is None and not self._alive:
                self._go_alone()
        return self._all_told()

    def _tell_all(self, known: Callable[[], Iterable[Told]]) -> None:
        """Put this crawl's clocks on the table, for others who are there or come now."""
        assert self._file is not None
        self._write_given()
        self._tell(known())
        self._file.say_told(True)
        self._newest = None

    def _go_alone(self) -> None:
        """Nobody else is there: all that has to be heeded is what others left."""
        assert self._file is not None
        self._file.say_told(False)
        self._newest = self._file.newest()
        for buckets in self._file.read_all():
            left = cells.waiting(buckets, self._now, gone=self._now + DYING_S)
            self._left.update((key, cell) for key, cell in left.items() if not self._me(cell.member))
        self._left_until = max((cell.due for cell in self._left.values()), default=0.0)

    def _all_told(self) -> bool:
        """Whether those that were there first told what this crawl has to heed."""
        if not self._untold or self._file is None:
            return True
        self._untold = {one for one in self._untold if self._file.is_alive(one) and not self._file.has_told(one)}
        if self._now > self._came_at + TOLD_S:
            self._untold.clear()
        if self._untold:
            self.end()
        return not self._untold

    def end(self) -> None:
        if not self._open:
            return
        self._open = False
        file = self._file
        try:
            if file is not None:
                for bucket in self._changed:
                    file.write(bucket, self._buckets[bucket])
                file.unlock()
        except OSError as error:
            self._lose(error)
        self._buckets.clear()
        self._changed.clear()

    def close(self, known: Callable[[], Iterable[Told]]) -> None:
        try:
            if self._file is not None and self._file.lock():
                self._now = self._clock.since_boot()
                self._open = True
                self._tell_all(known)
        except OSError as error:
            self._lose(error)
        self.end()
        self._leave()

    def _lose(self, error: OSError) -> None:
        """Go on alone for a while."""
        if not self._said:
            self._said = True
            _log.warning("politeness.machine_clocks: other crawls on this machine are not heeded: %s", error)
        self._leave()
        self._open = False
        self._look_at = self._now + LOOK_S

    def _leave(self) -> None:
        """Nothing of this crawl is known at a table to which it comes anew: it will tell all."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._newest = None
        self._untold.clear()
        self._left.clear()
        for told in (self._mine, self._given, self._longer, self._died, self._buckets, self._changed, self._alive):
            told.clear()

    # ---- visits begin

    @property
    def heeds(self) -> bool:
        return self._open or bool(self._left)

    def take(self, promises: Sequence[Promise]) -> Sequence[float]:
        if not self._open:
            return self._heed_left(promises) if self._left else ()
        try:
            return self._take(promises)
        except OSError as error:
            self._lose(error)
            return ()

    def _take(self, promises: Sequence[Promise]) -> Sequence[float]:
        now = self._now = self._clock.since_boot()
        wanted = [(cells.key_of(kind, key), gap) for kind, key, gap in promises]
        dues = [self._due(key, gap) if gap > 0 else 0.0 for key, gap in wanted]
        if max(dues) <= now:
            for key, gap in wanted:
                if gap > 0:
                    self._hold(key, gap)
            return ()
        for (key, gap), due in zip(wanted, dues, strict=True):
            if due > now:
                self._want(key, gap)
        return self._unix(dues, now)

    def _heed_left(self, promises: Sequence[Promise]) -> Sequence[float]:
        """As `take`, of a crawl that is alone."""
        now = self._clock.since_boot()
        if self._left_until <= now:
            self._left.clear()
        left = [self._left.get(cells.key_of(kind, key), NOTHING) if gap > 0 else NOTHING for kind, key, gap in promises]
        dues = [max(cell.due, cell.ended + gap) if cell.due else 0.0 for cell, (_, _, gap) in zip(left, promises)]
        return self._unix(dues, now) if max(dues) > now else ()

    def _unix(self, dues: list[float], now: float) -> list[float]:
        latest = self._clock.now() + AGAIN_LEAST_S  # of the caller, for whom what is refused must not be due
        return [due if due <= now else max(due + self._booted, latest) for due in dues]

    def _due(self, key: int, gap: float) -> float:
        """When this crawl may have the clock for requests with such a gap, as far as is known (seconds since boot)."""
        bucket = self._bucket(key)
        at = cells.find(bucket, key)
        if at == NONE:
            return cells.overflow(bucket, self._now)
        cell = cells.get(bucket, at, self._now)
        mine = self._me(cell.member)  # then this crawl knows when it is due
        due = 0.0 if mine else self._free_at(cell, gap)
        if cell.wanted and not self._me(cell.wanted) and not (mine and cell.member & HELD):
            return max(due, self._kept_until(cell))
        return due

    def _free_at(self, cell: Cell, gap: float) -> float:
        """From when a crawl that did not use the clock last may have it for requests with such a gap."""
        due = max(cell.due, cell.ended + gap)
        if not cell.member & HELD:
            return due
        died = self._is_dead(cell.member & ~HELD)
        if died is not None:
            return min(due, died + max(cell.gap, gap))
        return min(due, self._now + max(cell.gap, gap, POLL_LEAST_S))  # should its visit end this moment

    def _kept_until(self, cell: Cell) -> float:
        """Until when the clock is kept for the crawl that wants it; 0 if that is gone, or could have had it."""
        if self._is_dead(cell.wanted) is not None:
            return 0.0
        until = self._free_at(cell, cell.wanted_gap) + LATE_S
        until = min(until, self._free_at(cell, 0.0) + LATE_MOST_S)
        return until if until > self._now else 0.0

    def _want(self, key: int, gap: float) -> None:
        """Ask for a clock that is not to be had now."""
        bucket = self._bucket(key)
        at = cells.find(bucket, key)
        if at == NONE:
            return
        cell = cells.get(bucket, at, self._now)
        if self._me(cell.member) or (cell.wanted and not self._me(cell.wanted) and self._kept_until(cell)):
            return
        assert self._file is not None
        self._put(key, at, cell._replace(wanted=self._file.member, wanted_gap=gap))

    def _hold(self, key: int, gap: float) -> None:
        assert self._file is not None
        bucket = self._bucket(key)
        at = cells.find(bucket, key)
        before = NOTHING if at == NONE else cells.get(bucket, at, self._now)
        self._mine.setdefault(key, before._replace(due=min(before.due, self._now), member=before.member & ~HELD))
        due = self._now + self._longest_visit_s + gap
        if self._me(before.member) and before.member & HELD:  # a detour beside its own visit
            self._put(key, at, before._replace(due=max(due, before.due), gap=max(gap, before.gap)))
        else:
            self._put(key, at, Cell(due, gap, 0.0, self._file.member | HELD, 0))

    # ---- visits learn, and end

    def promise(self, promises: Iterable[Promise]) -> None:
        for kind, key, gap in promises:
            if (known := cells.key_of(kind, key)) in self._mine:
                self._longer[known] = gap

    def give(self, kind: int, key: int, due: float, ended: float | None) -> None:
        if not self._mine:
            return
        known = cells.key_of(kind, key)
        if known in self._mine:
            self._longer.pop(known, None)
            self._given[known] = due - self._booted + ROUNDED_S, None if ended is None else ended - self._booted

    @property
    def has_news(self) -> bool:
        return bool(self._given or self._longer)

    @property
    def wants_to_look(self) -> bool:
        return self.has_news or self._clock.since_boot() >= self._look_at

    def _write_given(self) -> None:
        for key, gap in self._longer.items():
            self._lengthen(key, gap)
        self._longer.clear()
        for key, (due, ended) in self._given.items():
            self._give(key, due, ended)
        self._given.clear()

    def _lengthen(self, key: int, gap: float) -> None:
        bucket = self._bucket(key)
        at = cells.find(bucket, key)
        if at != NONE:
            cell = cells.get(bucket, at, self._now)
            if self._me(cell.member) and cell.member & HELD and gap > cell.gap:
                self._put(key, at, cell._replace(due=cell.due + gap - cell.gap, gap=gap))

    def _give(self, key: int, due: float, ended: float | None) -> None:
        """Write when a clock that was taken is due; where nothing was asked, what the table said before."""
        assert self._file is not None
        before = self._mine.pop(key)
        if ended is None:
            new = before
        else:
            due = min(due, self._now + cells.FAR_S / 2)
            new = Cell(due, max(0.0, due - ended), 0.0, self._file.member, 0)
        self._settle(key, new)

    def _settle(self, key: int, new: Cell) -> None:
        """Write a clock that no visit of this crawl holds any more. What another crawl put there since stays if it
        holds for longer (this one may have been stopped for minutes, and its visit taken for one that ended)."""
        bucket = self._bucket(key)
        at = cells.find(bucket, key)
        old = NOTHING if at == NONE else cells.get(bucket, at, self._now)
        new = new._replace(wanted=old.wanted, wanted_gap=old.wanted_gap)
        if not self._me(old.member) and old.due > self._now:
            due, member = max(old.due, new.due), old.member if old.member & HELD else NOBODY
            new = old._replace(due=due, gap=due - max(old.ended, new.ended), member=member)
        self._put(key, at, new)

    def _tell(self, known: Iterable[Told]) -> None:
        """Put this crawl's clocks on the table, to which it just came."""
        assert self._file is not None
        for (kind, name, gap), due, held in known:
            key = cells.key_of(kind, name)
            if held and gap > 0:
                self._hold(key, gap)
            elif not held:
                due = min(due - self._booted, self._now + cells.FAR_S / 2) + ROUNDED_S
                self._settle(key, Cell(due, gap, 0.0, self._file.member, 0))

    # ---- cells

    def _bucket(self, key: int) -> bytearray:
        number = cells.bucket_of(key)
        bucket = self._buckets.get(number)
        if bucket is None:
            assert self._file is not None
            bucket = self._buckets[number] = self._file.read(number)
        return bucket

    def _put(self, key: int, at: int, cell: Cell) -> None:
        """Write a cell at its place in the bucket, or find it one (NONE)."""
        bucket = self._bucket(key)
        if at == NONE:
            cells.make(bucket, key, cell, self._now)
        else:
            cells.put(bucket, at, cell)
        self._changed.add(cells.bucket_of(key))

    def _me(self, member: int) -> bool:
        return self._file is not None and member & ~HELD == self._file.member

    def _look_around(self) -> None:
        """Note which other crawls are gone since the last look."""
        assert self._file is not None
        alive = self._file.alive()
        for member in self._alive - alive:
            self._died.setdefault(member, self._now + DYING_S)
        self._alive = alive

    def _is_dead(self, member: int) -> float | None:
        """From when another crawl asks nothing more; None while it is there."""
        assert self._file is not None
        died = self._died.get(member)
        if died is None and not self._file.is_alive(member):
            gone_before = member < self._file.member and member not in self._alive
            died = self._died[member] = self._came_at if gone_before else self._now + DYING_S
        return died
