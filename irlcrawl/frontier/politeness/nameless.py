"""Hosts whose only obstacle is their missing (or outdated) address: who is asked for next, and how many there are."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from irlcrawl.frontier.politeness.entries import HostEntry, HostState


class Nameless:
    """`len`: hosts in state UNRESOLVED or RESOLVING; `resolving`: of these, those asked for."""

    def __init__(self) -> None:
        self.resolving = 0
        self._hosts = 0
        self._sites: dict[int, int] = {}  # site -> its hosts here
        self._queue: deque[HostEntry] = deque()  # some of them gone

    def __len__(self) -> int:
        return self._hosts

    def add(self, entry: HostEntry) -> None:
        """It waits to be asked for; an errand first."""
        entry.state = HostState.UNRESOLVED
        self._hosts += 1
        self._sites[entry.site] = self._sites.get(entry.site, 0) + 1
        if entry.errand is None:
            self._queue.append(entry)
        else:
            self._queue.appendleft(entry)

    def remove(self, entry: HostEntry) -> None:
        """It has its address, or left."""
        self._hosts -= 1
        self.resolving -= entry.state == HostState.RESOLVING
        left = self._sites[entry.site] - 1
        if left:
            self._sites[entry.site] = left
        else:
            del self._sites[entry.site]
        entry.state = HostState.IDLE
        if len(self._queue) > 2 * self._hosts + 1024:  # those that went before they were asked for
            self._queue = deque(other for other in self._queue if other.state == HostState.UNRESOLVED)

    def ask(self) -> HostEntry | None:
        """The next one to be asked for; None if there is none."""
        while self._queue:
            entry = self._queue.popleft()
            if entry.state == HostState.UNRESOLVED:
                entry.state = HostState.RESOLVING
                self.resolving += 1
                return entry
        return None

    def sites_with(self, others: Iterable[int]) -> int:
        """Number of distinct sites of the hosts here and of `others`, which are distinct."""
        return len(self._sites) + sum(site not in self._sites for site in others)
