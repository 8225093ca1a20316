"""How many more URLs of a host may go into runs, and when those it cannot take would be due.

The loop counts (`Loads`); a turn decides by what it was given when it began (`HostsAtHand`): columns of that moment,
which nobody changes, so that neither waits for the other. Changes that the loop learns of meanwhile count in the next
turn.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from heapq import nlargest
from typing import NamedTuple

from drum import Batch

import numpy as np
from numpy.typing import NDArray

from irlcrawl.config.keys import Config
from irlcrawl.frontier.dispatch.visits import Host
from irlcrawl.frontier.politeness.columns import NONE
from irlcrawl.frontier.politeness.politeness import Politeness, Terms
from irlcrawl.frontier.state.hosts import probed, records_of
from irlcrawl.frontier.turn.release import HostLoads

PAUSED = -2
"""In the place of a number in politeness: of a host that is not to be asked for now."""
PROBE_RESTS = 4.0
"""First rests for which the URLs of a host wait that is in memory for its probe."""
EXCHANGE_S = 0.001
"""At least what a request takes: what a host without a gap has no room for need not come back in the next turn."""


class Loads:
    """Counts the URLs in runs of each host in memory, and of each address. Owned by the event loop.

    What a turn is given has a row for each host: kept as columns (`Host.place` is the row), since to ask a hundred
    thousand objects one by one takes 50 ms of the loop, and to copy the columns 4 ms."""

    def __init__(self, config: Config, politeness: Politeness) -> None:
        self._config, self._politeness = config, politeness
        self.address_rows: dict[str, int] = {}
        self._key = array("Q")
        self._rows = array("q")  # URLs in runs that are not out or done
        self._number = array("i")  # in politeness, or PAUSED; NONE while nobody has this place, or has no clocks yet
        self._own_gap = array("d")  # Politeness.own_gap_many
        self._address: list[str | None] = []
        self._free: list[int] = []

    def enter(self, host: Host) -> None:
        """A host comes into memory; its clocks are told with `told`."""
        if self._free:
            host.place = self._free.pop()
        else:
            host.place = len(self._key)
            for column in (self._key, self._rows, self._number, self._own_gap):
                column.append(0)
            self._address.append(None)
        place = host.place
        self._key[place], self._rows[place], self._number[place] = host.key, 0, NONE
        self._address[place] = host.address

    def told(self, hosts: Iterable[Host]) -> None:
        """What politeness knows of hosts may have changed: they are active now, or their Crawl-delay is another."""
        hosts = [host for host in hosts if host.place != NONE]
        for host, own in zip(hosts, self._politeness.own_gap_many(hosts).tolist(), strict=True):
            self._number[host.place], self._own_gap[host.place] = host.number, own

    def hold(self, host: Host) -> None:
        """A host in memory is paused for as long as this crawl runs: it waits for no clock."""
        self._number[host.place] = PAUSED

    def leave(self, host: Host) -> None:
        """It is in memory no more; all its URLs were counted off."""
        if host.place != NONE:
            self._number[host.place], self._address[host.place] = NONE, None
            self._free.append(host.place)
            host.place = NONE

    def count(self, host: Host, rows: int) -> None:
        """So many more URLs of a host in memory wait in runs (fewer, if negative)."""
        self._rows[host.place] += rows
        self._count_address(host, rows)

    def rows(self, host: Host) -> int:
        """URLs of a host in memory that wait in runs."""
        return self._rows[host.place]

    def moves(self, host: Host) -> None:
        """Its address is about to change: its URLs are not counted until it has `moved`."""
        if host.place != NONE:
            self._count_address(host, -self.rows(host))

    def moved(self, host: Host) -> None:
        if host.place != NONE:
            self._address[host.place] = host.address
            self._count_address(host, self.rows(host))

    def _count_address(self, host: Host, rows: int) -> None:
        if not host.address:
            return
        left = self.address_rows.get(host.address, 0) + rows
        if left > 0:
            self.address_rows[host.address] = left
        else:
            self.address_rows.pop(host.address, None)

    def total(self) -> int:
        """URLs of all hosts in memory that wait in runs."""
        return sum(self._rows)

    def largest(self, hosts: Iterable[Host], count: int) -> list[Host]:
        """The hosts with the most URLs in runs, largest first."""
        return nlargest(count, hosts, key=self.rows)

    def at_hand(self, now: float) -> HostsAtHand:
        """What a turn that begins at `now` (unix seconds) needs of the hosts in memory."""
        return HostsAtHand(
            self._config, now, self._politeness.terms(), self._key[:], self._rows[:], self._number[:],
            self._own_gap[:], self._address[:], dict(self.address_rows), self._politeness.shared_gaps(),
        )  # fmt: skip


class HostsAtHand:
    """The hosts in memory when a turn began; used by one thread. Made of copies, which are all that most turns cost:
    what they mean is reckoned when a turn first asks. `address_rows`: URLs in runs of all hosts at an address;
    `shared_gaps`: seconds between two requests to an address that many sites share."""

    def __init__(
        self, config: Config, now: float, terms: Terms, key: array[int], rows: array[int], number: array[int],
        own_gap: array[float], address: list[str | None], address_rows: dict[str, int], shared_gaps: dict[str, float],
    ) -> None:  # fmt: skip
        """The columns of Loads."""
        self._config, self._now, self._terms = config, now, terms
        self._columns, self._addresses, self._address_rows = (key, rows, number, own_gap), address, address_rows
        self._shared_gaps = shared_gaps
        self._newcomers = 0  # hosts this turn found room for that were not in memory

    def __len__(self) -> int:
        return len(self._hosts.keys)

    @cached_property
    def _hosts(self) -> Hosts:
        key, rows, number, own_gap = map(np.asarray, self._columns)
        there = np.flatnonzero(number != NONE)
        there = there[np.argsort(key[there])]
        paused = number[there] == PAUSED
        gap, due = np.zeros((2, len(there)))
        gap[~paused], due[~paused] = self._terms.of(number[there][~paused], own_gap[there][~paused])
        return Hosts(there, key[there], rows[there], gap, due, paused)

    def loads(self, keys: NDArray[np.uint64], states: Batch) -> HostLoads:
        """Of hosts and their STATE, a row each."""
        known = InMemory.nobody(self._config, self._now, states)
        here, at = self._find(keys)
        hosts = self._hosts
        known.unknown[here] = False
        known.rows[here], known.gap[here], known.due[here] = hosts.rows[at], hosts.gap[at], hosts.due[at]
        known.paused[here] = hosts.paused[at]
        if self._address_rows:
            self._count_addresses(known, here, hosts.places[at], states)
        loads = loads_of(self._config, self._now, known, len(self) + self._newcomers)
        self._newcomers += int(np.count_nonzero(known.unknown))
        return loads

    def _find(self, keys: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(rows of `keys`, rows of `_hosts`) of the hosts that are in memory."""
        ours = self._hosts.keys
        if not len(ours):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        at = np.minimum(np.searchsorted(ours, keys), len(ours) - 1)
        here = np.flatnonzero(ours[at] == keys)
        return here, at[here]

    def _count_addresses(
        self, known: InMemory, here: NDArray[np.int64], places: NDArray[np.int64], states: Batch
    ) -> None:
        """Where hosts share an address, the URLs of all of them count for each."""
        gaps = known.gap[here].tolist()
        shared = [self._count_at(self._addresses[place], gap) for place, gap in zip(places.tolist(), gaps, strict=True)]
        known.rows[here] = np.maximum(known.rows[here], np.array(shared, np.int64))
        addressed = np.flatnonzero(known.unknown & (states["family"] > 0) & (states["address_until"] > self._now))
        for at, record in zip(addressed.tolist(), records_of(states.take(addressed)), strict=True):
            known.rows[at] = self._count_at(record.address_at(self._now), known.gap[at])

    def _count_at(self, address: str | None, gap: float) -> int:
        """URLs in runs at an address, as a host of such a gap counts them: as many as it could fetch itself while the
        address is asked for all of them, as often as it bears."""
        rows = self._address_rows.get(address or "", 0)
        of_address = self._shared_gaps.get(address or "", self._config.politeness.gap_address_seconds) if rows else 0.0
        return int(rows * (of_address / max(gap, of_address, EXCHANGE_S)))


class Hosts(NamedTuple):
    """A row for each host in memory, by key."""

    places: NDArray[np.int64]  # in the columns of Loads
    keys: NDArray[np.uint64]
    rows: NDArray[np.int64]  # its URLs in runs
    gap: NDArray[np.float64]  # seconds
    due: NDArray[np.float64]  # unix seconds
    paused: NDArray[np.bool_]


@dataclass(slots=True)
class InMemory:
    """What is in memory of hosts, a row each."""

    unknown: NDArray[np.bool_]  # not in memory
    rows: NDArray[np.int64]  # URLs in runs, of the host or of all at its address, whichever are more
    gap: NDArray[np.float64]  # least seconds between two requests
    due: NDArray[np.float64]  # unix seconds, may lie in the past
    probed: NDArray[np.bool_]
    paused: NDArray[np.bool_]

    @classmethod
    def nobody(cls, config: Config, now: float, states: Batch) -> InMemory:
        """Of hosts of which nothing but their STATE is known."""
        count = states.rows
        gap = np.maximum(config.politeness.gap_host_seconds, states["crawl_delay"].astype(np.float64))
        nothing = np.zeros(count, np.bool_)
        return cls(
            ~nothing, np.zeros(count, np.int64), gap, np.full(count, now), probed(states), nothing,
        )  # fmt: skip


def loads_of(config: Config, now: float, known: InMemory, ahead: int) -> HostLoads:
    """What there is room for, with `ahead` hosts in memory or about to be. When that is as many as there may be, the
    URLs of others come back after the horizon."""
    horizon, gap = config.politeness.horizon_seconds, known.gap
    cap = np.full(len(gap), config.frontier.urls_per_host_max)
    slow = gap > 0
    cap[slow] = np.maximum(np.minimum(horizon / gap[slow], cap[slow]).astype(np.int64), 4)
    room, pace = cap - known.rows, np.maximum(gap, EXCHANGE_S)
    free_at = np.maximum(now, known.due) + pace * cap
    # One URL shows whether a host answers again; then the others may all come, or rest on. One that is in memory
    # already may take longer (its address is busy, our network is down): they need not be looked at so often.
    probed = np.flatnonzero(known.probed)
    room[probed], pace[probed] = known.unknown[probed], 0.0
    patience = np.where(known.unknown[probed], 1.0, PROBE_RESTS) * config.politeness.rest_seconds
    free_at[probed] = np.maximum(now, known.due[probed]) + patience
    # URLs of a paused host for which there is no room come back all at once: nobody knows when it goes on.
    pace[known.paused], free_at[known.paused] = 0.0, now + horizon
    room[known.paused] = cap[known.paused] - known.rows[known.paused]
    # Those that find no room come back by as many as there is room for, a horizon after the last ones.
    new = np.flatnonzero(known.unknown)
    horizons = (ahead + np.arange(len(new))) // config.frontier.hosts_active_max
    late, horizons = new[horizons > 0], horizons[horizons > 0]
    room[late], pace[late], free_at[late] = 0, gap[late], now + horizons * horizon
    return HostLoads(room, pace, free_at)
