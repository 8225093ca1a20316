"""When to turn, how much a turn should bring, and when to ask workers for their harvests.

Low water: fewer visits are out or could soon start than the workers could carry in that time. High water: as many URLs
in runs as would last for the horizon. A turn starts at low water once the last one has rested, and at once if nothing
at all can be leased. So a crawl of one site feels immediate, and a long one spends little on turns.
"""

from __future__ import annotations

from collections import deque

from irlcrawl.base.clock import Clock
from irlcrawl.config.hours import Hours
from irlcrawl.config.keys import Config
from irlcrawl.frontier.dispatch.dispatch import Dispatcher
from irlcrawl.frontier.dispatch.workers import Fleet
from irlcrawl.frontier.state.crawl_state import REST_FACTOR, TOOK_S_MAX, CrawlState
from irlcrawl.frontier.turn.turn import Result

NEAR_S = 2.0  # a host due within this, or within two turns, counts as ready
REST_S, REST_DRY_S = 2.0, 0.2  # between two turns, at least; the shorter one when some host ran dry
ANSWER_S = 1.0  # a turn waits this long for the harvests asked for, unless nothing is ready
INBOX_AGE_MAX_S = 10.0
ROWS_WANTED_MIN = 1000
RATE_S = 30.0
STARTS_PER_PLACE_MAX = 16  # visits in one place that low water counts on
RESTS_LATE_S = 10.0  # so much later may the end of a rest be noticed while there is other work
EARLY_S = 60.0  # so long after a turn another may take pages before their dues, while something can be leased
LOW_AGE_S, LOW_AGE_MAX_S = 0.05, 1.0  # low water is looked at again after this long, or ...
LOW_AGE_S_PER_VISIT = 100e-6  # ... so much for each visit that is counted, as each costs one or two microseconds


class Schedule:
    """Decisions only; the loop acts on them and reports events (`began`, `turned`, `asked`, …)."""

    def __init__(self, config: Config, clock: Clock, state: CrawlState, hosts: Dispatcher, fleet: Fleet) -> None:
        self._config, self._clock, self._state, self._hosts, self._fleet = config, clock, state, hosts, fleet
        self.turn_seconds = 0.0
        """Duration of the last turn, at most TOOK_S_MAX."""
        self._turned_at = 0.0
        self._asked_at = 0.0  # when harvests were asked for that are still to come; 0 none
        self._inbox_since = 0.0
        self._hours = Hours(config)
        self._closed = False
        self._rate: deque[tuple[float, int]] = deque()
        self._low = True
        self._low_until = 0.0
        self.moved = True
        """The last turn moved something, or something happened since it began: another turn may, too."""

    # -- what happened ---------------------------------------------------------------------------------------------

    def began(self) -> None:
        """A turn begins: it does not see events from now on."""
        self.moved = False

    def turned(self, result: Result) -> None:
        now = self._clock.now()
        self.turn_seconds, self._turned_at, self._low_until = min(result.seconds, TOOK_S_MAX), now, 0.0
        self.moved = self.moved or result.moved
        self._rate.append((now, self._state.ledger.visits))
        while len(self._rate) > 2 and self._rate[0][0] < now - RATE_S:
            self._rate.popleft()

    def asked(self) -> None:
        self._asked_at = self._clock.now()

    def answered(self) -> None:
        """A harvest came, asked for or not."""
        self.moved = True
        if not any(worker.asked for worker in self._fleet.workers):
            self._asked_at = 0.0

    def inbox_filled(self) -> None:
        self._inbox_since = self._clock.now()

    # -- water ---------------------------------------------------------------------------------------------------------

    @property
    def pages_per_s(self) -> float:
        """Pages per second over the last RATE_S seconds; 0 before that is known."""
        if len(self._rate) < 2:
            return 0.0
        (first, before), (last, after) = self._rate[0], self._rate[-1]
        return (after - before) / max(last - first, 1.0)

    @property
    def rate_known(self) -> bool:
        return len(self._rate) > 1

    @property
    def starving(self) -> bool:
        """Nothing is out and nothing can be leased soon: only a turn brings work."""
        return self._hosts.visits_out == 0 and self._hosts.politeness.ready_pairs(NEAR_S, 1) == 0

    @property
    def low(self) -> bool:
        """A place carries one visit at a time but may start many: where visits last 20 ms, a hundred in two seconds."""
        now = self._clock.now()
        if now >= self._low_until:
            within = max(NEAR_S, 2 * self.turn_seconds)
            starts = min(max(1.0, within / max(self._hosts.visit_seconds, 0.001)), STARTS_PER_PLACE_MAX)
            wanted = int(max(self._fleet.places, 1) * starts)
            self._low = self._hosts.visits_out + self._hosts.politeness.ready_pairs(within, wanted) < wanted
            self._low_until = now + min(max(LOW_AGE_S, wanted * LOW_AGE_S_PER_VISIT), LOW_AGE_MAX_S)
        return self._low

    @property
    def _rows_high(self) -> int:
        return max(16 * ROWS_WANTED_MIN, int(self.pages_per_s * self._config.politeness.horizon_seconds))

    @property
    def closed(self) -> bool:
        """No host may be asked at this hour: what is queued stays there, in its order."""
        return self._hours.any and self._hours.all_closed(self._clock.now())

    @property
    def _room(self) -> bool:
        """Below high water, in URLs and in hosts."""
        if self.closed:
            return False
        hosts_max = self._config.frontier.hosts_active_max
        return self._state.runs.rows_here < self._rows_high and len(self._hosts.hosts) < hosts_max

    def rows_wanted(self) -> int:
        """Enough to last until the turn after the next may end, and never past high water."""
        if not self._room:
            return 0
        until_next = 2 * (REST_FACTOR + 2) * self.turn_seconds + 2 * NEAR_S
        enough = max(ROWS_WANTED_MIN, int(self.pages_per_s * until_next))
        return min(enough, self._rows_high - self._state.runs.rows_here)

    # -- decisions -------------------------------------------------------------------------------------------------

    @property
    def rested_at(self) -> float:
        """When the next turn may start, if there is something to lease until then."""
        rest = REST_DRY_S if self._hosts.ran_dry else REST_S
        return self._turned_at + max(rest, REST_FACTOR * self.turn_seconds)

    @property
    def turn_at(self) -> float:
        """When the next turn may start, also if workers that were asked for harvests do not answer."""
        return max(self.rested_at, self._asked_at + ANSWER_S)

    def next_due(self) -> float | None:
        """When URLs that were put off want a turn, unix seconds; None if there are none. Between turns."""
        calendar, rests = self._state.calendar.next_due(), self._state.rests.next_due()
        if self._state.calendar.again:
            calendar = 0.0
        if rests is not None and not self.starving:
            rests += RESTS_LATE_S
        return min((due for due in (calendar, rests) if due is not None), default=None)

    def next_visit(self) -> float | None:
        """When the next page wants to be visited again, unix seconds; None if none rests, or none is visited again.
        Between turns."""
        return self._state.pages.next_due() if self._config.revisit.enabled else None

    def _pages(self, now: float, starving: bool) -> bool:
        """Whether a turn would find pages to be visited again: some are due, or may go before their dues."""
        if not self._room or (due := self.next_visit()) is None:
            return False
        if due <= now:
            return True
        early = (self.moved and starving) or now >= self._turned_at + EARLY_S
        return early and self._state.pages.wished.rows > 0

    def should_ask(self, now: float) -> bool:
        """Whether to ask the workers for their harvests."""
        return self.starving or (now >= self.rested_at and self.low)

    def should_turn(self, now: float, handed_in: bool, inbox: bool) -> bool:
        """Whether a turn is due. handed_in: something in memory waits for it; inbox: harvests are among that."""
        was_closed, self._closed = self._closed, self.closed
        self.moved = self.moved or (was_closed and not self._closed)
        starving = self.starving
        if not starving and now < self.turn_at:
            return False
        due = self.next_due()
        if due is not None and due <= now:
            return True
        if inbox and now - self._inbox_since > INBOX_AGE_MAX_S:
            return True
        state = self._state
        put_off = state.calendar.rows + state.rests.rows
        waiting = self.moved and state.waiting > state.runs.rows + put_off and self._room
        return (handed_in or waiting or self._pages(now, starving)) and (starving or self.low)
