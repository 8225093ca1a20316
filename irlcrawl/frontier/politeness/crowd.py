"""The workbench for many hosts at once: they wait, come out and are held as columns, as they would one after the other.

Hosts that share no clock with one another in a batch do not know of each other, so for them the order is no matter but
in the line, where it is kept; those that do share one are for the workbench itself, one by one.
"""

from __future__ import annotations

from array import array
from bisect import insort
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from irlcrawl.frontier.politeness.columns import NONE, view
from irlcrawl.frontier.politeness.gates import ALL_FLAGS, Flag
from irlcrawl.frontier.politeness.queues import _HOST_MASK, Workbench

I8s: TypeAlias = NDArray[np.int64]


class Crowd(Workbench):
    """Columns of hosts and gates are numbers, i8; a table of gates is i8[hosts, 3]."""

    def rows_of(self, hosts: I8s) -> I8s:
        """Gates of each host, a row as `gates_of` gives them: the host's, the site's, the address's; NONE where there
        is none."""
        columns = (self.host_gate, self.site_gate, self.address_gate)
        return np.stack([view(column)[hosts] for column in columns], axis=1).astype(np.int64)

    # ---- queues

    @property
    def reserves(self) -> bool:
        """Some gate is kept for a host: then hosts are no matter for this class."""
        return bool(self._reserved)

    def wait_all(self, hosts: I8s, now: float) -> I8s:
        """As `place`, but for arming: into which queue each went; NONE: all it lacks is its address. They hold nothing,
        and have the newest tickets, in this order; no gate is reserved."""
        rows = self.rows_of(hosts)
        gates, there = self._gates, rows != NONE
        held, next_, first = (view(column)[rows] for column in (gates.held, gates.next, gates.first))
        next_ = np.where(there & (held > 0), np.inf, next_)
        keeps = there & ((next_ > now) | (first != NONE))
        worst = np.where(keeps, next_, -np.inf).argmax(axis=1)  # the first of several, as one by one
        kept = keeps.any(axis=1)
        at = rows[np.arange(len(hosts)), np.where(kept, worst, 0)]
        # A host that waits at a gate where nobody did is news to one that would be next there: that is at a host's own
        # gate, which http and https share. Elsewhere the gate keeps them all, or none.
        distinct, count = np.unique(rows[:, 0], return_counts=True)
        twins = np.isin(rows[:, 0], distinct[count > 1]) if len(distinct) < len(hosts) else np.zeros(len(hosts), bool)
        at[~twins & ~kept & ~there[:, 2]] = NONE
        alone = np.flatnonzero(~twins)
        self._queue_all(hosts[alone], at[alone])
        for place in np.flatnonzero(twins).tolist():
            at[place] = self._wait_one(int(hosts[place]), now)
        return at

    def _wait_one(self, host: int, now: float) -> int:
        gate = self._clock_to_wait_for(host, now)
        if gate != NONE:
            self._queue(host, gate)
        return gate

    def _queue_all(self, hosts: I8s, at: I8s) -> None:
        some = at != NONE
        hosts, at = hosts[some], at[some]
        if not len(hosts):
            return
        view(self._at)[hosts] = at
        firsts = view(self._gates.first)
        front = np.zeros(len(hosts), np.bool_)
        front[np.unique(at, return_index=True)[1]] = True
        front &= firsts[at] == NONE
        firsts[at[front]] = hosts[front]
        order, behind = self._order, self._behind
        for host, gate in zip(hosts[~front].tolist(), at[~front].tolist()):  # queues are lists
            insort(behind.setdefault(gate, array("Q")), order[host])

    def arm_all(self, gates: I8s, now: float) -> None:
        """As `arm`, in this order; NONE is no gate."""
        gates = gates[gates != NONE]
        columns = self._gates
        flags = view(columns.flags)
        gates = gates[(view(columns.first)[gates] != NONE) & (view(columns.held)[gates] == 0)]
        gates = gates[flags[gates] & Flag.ARMED == 0]
        gates = gates[np.sort(np.unique(gates, return_index=True)[1])]
        flags[gates] |= Flag.ARMED
        del flags
        self._line.push_all(gates, now)

    # ---- clocks

    def due_now(self, now: float, count: int) -> I8s:
        """The first `count` gates in the line that are due, in their order."""
        return self._line.ready(now, count)

    def alone(self, due: I8s, now: float) -> tuple[I8s, I8s]:
        """(places in `due`, hosts): of gates that are due those whose first waiter nothing keeps, and that has no clock
        of another host that may come out of `due`; so it comes out whatever becomes of the others."""
        gates = self._gates
        held, next_, first = (view(column)[due] for column in (gates.held, gates.next, gates.first))
        places = np.flatnonzero((held == 0) & (first != NONE) & (next_ <= now))
        hosts, own = first[places].astype(np.int64), due[places]
        rows = self.rows_of(hosts)
        there = rows != NONE
        ahead, order = view(gates.first)[rows], view(self._order)
        older = (ahead != NONE) & (order[ahead] < order[hosts][:, None])
        keeps = (view(gates.held)[rows] > 0) | (view(gates.next)[rows] > now) | older
        free = there[:, 2] & ~(keeps & there & (rows != own[:, None])).any(axis=1)
        touched = np.sort(np.concatenate([rows[there], self._behind_gates(own)]))
        shared = np.zeros(len(gates.kind), np.bool_)
        shared[touched[1:][touched[1:] == touched[:-1]]] = True
        free &= ~(shared[rows] & there).any(axis=1)
        return places[free], hosts[free]

    def _behind_gates(self, gates: I8s) -> I8s:
        """The other gates of hosts that wait behind the first."""
        queues = [(gate, behind) for gate in gates.tolist() if (behind := self._behind.get(gate)) is not None]
        if not queues:
            return gates[:0]
        places = np.concatenate([view(behind) for _, behind in queues])
        rows = self.rows_of((places & np.uint64(_HOST_MASK)).astype(np.int64))
        own = np.repeat([gate for gate, _ in queues], [len(behind) for _, behind in queues])
        return rows[(rows != NONE) & (rows != own[:, None])]

    def skip(self, count: int) -> None:
        """The first `count` gates of `due_now` have left the line."""
        self._line.skip(count)

    def take_out(self, hosts: I8s, at: I8s) -> None:
        """Hosts that are first in the queues of gates and `alone` leave them, and have all their gates."""
        gates = self._gates
        view(self._at)[hosts] = NONE
        view(gates.flags)[at] &= ALL_FLAGS ^ Flag.ARMED
        view(gates.first)[at] = NONE
        for gate in at.tolist():
            if (behind := self._behind.get(gate)) is not None:
                gates.first[gate] = behind.pop(0) & _HOST_MASK
                if not behind:
                    del self._behind[gate]
        rows = self.rows_of(hosts)
        view(gates.held)[rows[rows != NONE]] += 1
