"""Whether a silence is our own network's: if no name and no server answers, the crawl waits instead of charging hosts.

A worker whose request gets no response at all does not write that down at once: it *doubts*, and asks. The answer is to
charge the URL and its host as usual, or to leave both as they were.

* The resolver is asked for the root zone, which nearly every resolver knows (or else for a name that it resolved
  before). No answer: an outage.
* A doubt waits HOLD_S for further ones while 20 addresses or more are in use; while no other server answers, it waits
  longer, SILENCE_S. If more than half of the addresses heard of since then (at least 20, of as many sites) failed, it
  is probably an outage.

In an outage the crawl leases one URL every PROBE_S, and asks for one name at a time. The outage is over when the
resolver and, if requests had failed, some server answers. If a server answers within REFUTED_S, there was no outage:
those hosts really are dead. The failures held back are charged to their URLs and hosts, and for TRUST_S only a silent
resolver can start another outage.

A silence that nothing refutes may still be the hosts' own: at the end of a crawl only dead hosts may be left. If the
resolver answers all the time, the silence counts as the hosts' after STRANGERS_S if no silent host ever answered, else
after ACQUAINTED_S; then only a silent resolver can start another outage, until some server answers and for TRUST_S
longer. Time in which this process stood still does not count, and requests made around it are not charged.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from irlcrawl.base.clock import Clock

PROBE_S = 2.0
HOLD_S = 3.0
SILENCE_S = 10.0
REFUTED_S = 10.0
PATROL_S = 0.5
TRUST_S = 600.0
STRANGERS_S = 120.0
ACQUAINTED_S = 3600.0
STILL_S = 30.0  # between two passes of the frontier's loop: this process was stopped, or the machine slept
ADDRESSES_MIN = 20
RECENT_MAX = 10_000

_log = logging.getLogger("irlcrawl.outage")


@dataclass(slots=True)
class Doubt:
    """A request without a response at `at` (unix seconds); `answer(charge)` is called once. acquainted: its host
    answered before."""

    at: float
    acquainted: bool
    answer: Callable[[bool], None]


class Outage:
    """One per frontier; lives on its loop. `alive`: whether the resolver answers. `addresses`: how many addresses have
    a clock, because they are in use or were a moment ago. `changed` is called when there may be more to do than
    before."""

    def __init__(
        self,
        clock: Clock,
        alive: Callable[[], Awaitable[bool]],
        addresses: Callable[[], int],
        changed: Callable[[], None],
    ) -> None:
        self._clock, self._alive, self._addresses, self._changed = clock, alive, addresses, changed
        self.since: float | None = None
        """Unix seconds; None when all is well."""
        self.failure: BaseException | None = None  # of the watch, for the loop to raise
        self.seconds = 0.0  # all outages so far
        self._doubts: deque[Doubt] = deque()
        self._heard: deque[tuple[float, str, int, bool]] = deque(maxlen=RECENT_MAX)  # when, address, site, answered
        self._answered_at = 0.0
        self._requests_failed = False  # in this outage, not only names
        self._names = True  # the resolver answered when it was last asked
        self._trust_until = 0.0
        self._acquainted = False  # ... and some of them to a host that answered before
        self._named_since = 0.0  # in an outage: the resolver has answered ever since, as far as it was asked
        self._watched_at, self._woke_at = clock.now(), 0.0  # the loop's last pass; the first one after a standstill
        self._probes = 0  # leases that may be made now, in an outage
        self._name_probes = 0  # ... and names that may be asked for
        self._watching: asyncio.Task[None] | None = None

    @property
    def paused(self) -> bool:
        return self.since is not None

    def take_probe(self) -> bool:
        """In an outage: whether one URL may be leased now."""
        self._probes, had = 0, self._probes
        return had > 0

    def take_name_probe(self) -> bool:
        """In an outage: whether one name may be asked for now. (It may fail at once.)"""
        self._name_probes, had = 0, self._name_probes
        return self._names and had > 0

    # ---- what happens

    def responded(self, address: str, site: int, at: float) -> None:
        """Some server answered, at unix seconds `at`."""
        self._answered_at = max(self._answered_at, at)
        self._trust_until = min(self._trust_until, self._clock.now() + TRUST_S)
        self._heard.append((self._clock.now(), address, site, True))

    def watch(self, now: float) -> None:
        """Once in each pass of the frontier's loop."""
        still, self._watched_at = now - self._watched_at, now
        if still > STILL_S:
            self._woke_at = now
            self._named_since += still
            self._charge_nobody()

    def doubt(
        self, address: str, site: int, answer: Callable[[bool], None], acquainted: bool = False,
        leased: float | None = None,
    ) -> None:  # fmt: skip
        """A request had no response: `answer(True)` if the URL and its host (acquainted: it answered before) are to be
        charged with it. leased: when its visit began, unix seconds."""
        now = self._clock.now()
        if leased is not None and leased < self._woke_at:
            answer(False)
            return
        self._heard.append((now, address, site, False))
        self._requests_failed = self._requests_failed or self.paused
        self._acquainted = self._acquainted or (self.paused and acquainted)
        self._doubts.append(Doubt(now, acquainted, answer))
        self._watch()

    async def is_ours(self) -> bool:
        """A name had no answer. Returns whether the resolver is silent for every name."""
        if not self.paused and not await self._alive() and not self.paused:  # others asked with it
            self._names = False
            self._begin("no resolver answers")
        return self.paused

    def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()

    # ---- what follows

    def _watch(self) -> None:
        if self._watching is None:
            self._watching = asyncio.get_running_loop().create_task(self._judge())
            self._watching.add_done_callback(self._watched)

    def _watched(self, task: asyncio.Task[None]) -> None:
        self._watching = None
        if not task.cancelled():
            self.failure = task.exception()
            self._changed()
            if self.failure is None and (self._doubts or self.paused):  # since it looked for the last time
                self._watch()

    async def _judge(self) -> None:
        """Runs while there are doubts, or an outage."""
        while self._doubts or self.paused:
            self._names = await self._alive()
            now = self._clock.now()
            self.watch(now)
            if not self.paused:
                if not self._names:
                    self._requests_failed = bool(self._doubts)
                    self._begin("no resolver answers")
                elif now >= self._trust_until and self._most_fail():
                    self._requests_failed = True
                    self._begin(f"more than half of {ADDRESSES_MIN} or more addresses do not answer")
                else:
                    self._charge(now)
            if self.paused:
                self._go_on(now)
            if self._doubts and not self.paused:
                await asyncio.sleep(PATROL_S)
            elif self.paused:
                await asyncio.sleep(PROBE_S)

    def _charge_nobody(self) -> None:
        while self._doubts:
            self._doubts.popleft().answer(False)

    def _charge(self, now: float) -> None:
        while self._doubts:
            doubt, hold = self._doubts[0], 0.0
            if self._addresses() >= ADDRESSES_MIN and now >= self._trust_until:
                hold = HOLD_S if self._answered_at > doubt.at + HOLD_S / 2 else SILENCE_S  # not a last word under way
            if doubt.at + hold > now:
                return
            self._doubts.popleft().answer(True)

    def _most_fail(self) -> bool:
        """Whether most of the addresses heard of since the first waiting doubt failed."""
        if not self._doubts:
            return False
        latest = {address: (site, ok) for at, address, site, ok in self._heard if at >= self._doubts[0].at}
        unrelated = min(len(latest), len({site for site, _ in latest.values()}))
        failed = sum(not ok for _, ok in latest.values())
        return unrelated >= ADDRESSES_MIN and 2 * failed > len(latest)

    def _begin(self, why: str) -> None:
        self.since = self._named_since = self._clock.now()
        self._probes = self._name_probes = 0
        self._acquainted = any(doubt.acquainted for doubt in self._doubts)
        _log.warning("%s: this machine's network seems to be down. Pausing; no URL and no host is charged with it", why)
        self._watch()
        self._changed()

    def _go_on(self, now: float) -> None:
        """In an outage, every PROBE_S: end it if servers answer, else allow another probe."""
        assert self.since is not None
        answered = self._answered_at > self.since
        refuted = answered and self._names and now - self.since < REFUTED_S and bool(self._doubts)
        if refuted:
            self._trust_until = now + TRUST_S
        elif not self._names or now - self.since >= REFUTED_S or (answered and self._names):
            self._charge_nobody()
        if not self._names:
            self._named_since = now
        if self._names and (answered or not self._requests_failed):
            self._end("the network answers again", now)
        elif now - self._named_since >= (ACQUAINTED_S if self._acquainted else STRANGERS_S):
            self._trust_until = float("inf")
            self._end("the resolver answers and no server does, it seems to be theirs", now)
        else:
            self._probes = self._name_probes = 1
        self._changed()

    def _end(self, why: str, now: float) -> None:
        assert self.since is not None
        _log.warning("%s after %.0f s: going on", why, now - self.since)
        self.seconds += now - self.since
        self.since, self._requests_failed = None, False
