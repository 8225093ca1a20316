"""A world for Politeness under virtual time: visits that take as long as told, and an audit that knows only the rules.

The audit keeps its own books, from nothing but what a server's log would show (who was asked when) and what the
configuration promises: it shares no code with what it audits.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.keys import name_key
from irlcrawl.config import keys as config
from irlcrawl.frontier.politeness.columns import NONE
from irlcrawl.frontier.politeness.politeness import HostEntry, HostState, Outcome, Politeness


@dataclass(frozen=True)
class Visit:
    """How one visit goes: a single exchange of `fetch_s`."""

    fetch_s: float = 0.1
    outcome: Outcome = "ok"
    retry_after: float | None = None


@dataclass
class Audit:
    """The least time at which each host name, address and site may be asked again, and who is being asked."""

    params: config.Politeness
    due: dict[tuple[str, object], float] = field(default_factory=dict)
    busy: set[tuple[str, object]] = field(default_factory=set)
    starts: list[tuple[float, HostEntry]] = field(default_factory=list)

    def keys(self, entry: HostEntry) -> list[tuple[str, object]]:
        keys: list[tuple[str, object]] = [("host", entry.name), ("address", entry.address)]
        return [*keys, ("site", entry.site)] if self.params.gap_site_seconds else keys

    def may_start(self, entry: HostEntry, now: float) -> bool:
        return all(key not in self.busy and self.due.get(key, 0.0) <= now for key in self.keys(entry))

    def start(self, entry: HostEntry, now: float) -> None:
        for key in self.keys(entry):
            assert key not in self.busy, f"two visits at once to {key}"
            assert self.due.get(key, 0.0) <= now, f"{key} asked {self.due[key] - now:.3f} s early"
            self.busy.add(key)
        self.starts.append((now, entry))

    def end(self, entry: HostEntry, now: float, visit: Visit) -> None:
        floor = self.params.gap_host_seconds if entry.gap_floor is None else entry.gap_floor
        stretch = min(self.params.gap_host_factor * visit.fetch_s, self.params.gap_host_max_seconds)
        least = {
            "host": max(floor, stretch, entry.crawl_delay),
            "address": self.params.gap_address_seconds,
            "site": self.params.gap_site_seconds,
        }
        if visit.outcome in ("throttled", "failed"):
            least["host"] = max(least["host"], min(self.params.backoff_seconds, self.params.gap_host_max_seconds))
        if visit.retry_after is not None:
            least["host"] = max(least["host"], min(visit.retry_after, self.params.retry_after_max_seconds))
        for key in self.keys(entry):
            self.busy.discard(key)
            self.due[key] = max(self.due.get(key, 0.0), now + least[key[0]])


class World:
    """Runs visits in `places` at once until nothing is left to do or the time is over."""

    def __init__(self, params: config.Politeness, places: int = 1000) -> None:
        self.clock = VirtualClock()
        self.params = params
        self.polite = Politeness(self.clock, params)
        self.audit = Audit(params)
        self.places = places
        self.hosts: list[HostEntry] = []
        self._ends: list[tuple[float, int, HostEntry, Visit]] = []
        self._number = 0

    def host(self, name: str, address: str, site: str = "", scheme: str = "http", **more: float) -> HostEntry:
        entry = HostEntry(
            key=name_key(f"{scheme}://{name}".encode()),
            name=name,
            scheme=scheme,
            port=80,
            site=name_key((site or name).encode()),
            address=address,
            address_until=1e12,
            **more,  # type: ignore[arg-type]
        )
        self.hosts.append(entry)
        return entry

    def lease_all(self, plan: Callable[[HostEntry], Visit]) -> None:
        """Start whatever may start; then nothing that the audit would let start is left waiting."""
        now = self.clock.now()
        while len(self._ends) < self.places and (entry := self.polite.pop()) is not None:
            self.audit.start(entry, now)
            visit = plan(entry)
            self._number += 1
            heapq.heappush(self._ends, (now + visit.fetch_s, self._number, entry, visit))

    def run(
        self,
        seconds: float,
        plan: Callable[[HostEntry], Visit] = lambda entry: Visit(),
        again: Callable[[HostEntry], bool] = lambda entry: True,
        each: Callable[[], None] = lambda: None,
    ) -> None:
        stop = self.clock.now() + seconds
        while True:
            self.lease_all(plan)
            each()
            times = [self._ends[0][0]] if self._ends else []
            if len(self._ends) < self.places:
                due = self.polite.next_due()
                assert due is None or due > self.clock.now(), "next_due would make the loop spin"
                times += [] if due is None else [due]
            if not times or min(times) > stop:
                self.clock.set(stop)
                return
            self.clock.set(min(times))
            self._finish(again)

    def _finish(self, again: Callable[[HostEntry], bool]) -> None:
        now = self.clock.now()
        while self._ends and self._ends[0][0] <= now:
            _, _, entry, visit = heapq.heappop(self._ends)
            self.audit.end(entry, now, visit)
            due = self.polite.visit_over(
                entry,
                ended=now,
                fetch_s=visit.fetch_s,
                outcome=visit.outcome,
                retry_after=visit.retry_after,
                again=again(entry),
            )
            assert due >= max(self.audit.due[key] for key in self.audit.keys(entry)) - 1e-6

    def kill(self) -> None:
        """Everything in memory is gone; what was in flight has ended. The same hosts, idle, before an empty memory."""
        for _, _, entry, _ in self._ends:
            self.audit.end(entry, self.clock.now(), Visit(0.0))
        self._ends.clear()
        self.polite = Politeness(self.clock, self.params)
        for entry in self.hosts:
            entry.state, entry.number = HostState.IDLE, NONE

    def starts_of(self, of: Callable[[HostEntry], object]) -> dict[object, list[float]]:
        """The times of all starts, by host, address, …"""
        found: dict[object, list[float]] = {}
        for at, entry in self.audit.starts:
            found.setdefault(of(entry), []).append(at)
        return found


def gaps(times: Iterable[float]) -> list[float]:
    return [later - earlier for earlier, later in pairwise(times)]


# ---- one host, one visit


FAR = 1e12


def host(name: str, address: str | None = None, scheme: str = "http", until: float = FAR, **more: float) -> HostEntry:
    return HostEntry(
        key=name_key(f"{scheme}://{name}".encode()),
        name=name,
        scheme=scheme,
        port=80,
        site=name_key(".".join(name.split(".")[-2:]).encode()),
        address=address,
        address_until=until,
        **more,  # type: ignore[arg-type]
    )


def politeness(**keys: object) -> tuple[VirtualClock, Politeness]:
    """An empty one, with these keys of [politeness], and its clock."""
    clock = VirtualClock()
    return clock, Politeness(clock, config.Politeness(**keys))  # type: ignore[arg-type]


def visit(clock: VirtualClock, polite: Politeness, entry: HostEntry, **how: object) -> float:
    """One visit of no duration; returns how long until the host is due again."""
    popped = polite.pop()
    assert popped is entry
    how = {"ended": clock.now(), "again": True, **how}
    return polite.visit_over(entry, **how) - clock.now()  # type: ignore[arg-type]


def leased(clock: VirtualClock, polite: Politeness, name: str = "a.test", address: str = "192.0.2.1") -> HostEntry:
    entry = host(name, address)
    polite.activate(entry)
    assert polite.pop() is entry
    return entry
