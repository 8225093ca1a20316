"""What an address that many sites share bears, found out by asking: its rate grows while it answers, and is halved.

Additive increase, multiplicative decrease, as TCP finds what a line bears. A good answer lets the rate grow, if
requests wait for the address: at first evenly, by half of the first rate a second. When the address throttles, nine
tenths of the rate at which it did become the *limit*, and the rate is halved. From then on it goes back to the limit in
GROWTH_S seconds, quickly first, then ever more gently, and beyond it slowly first, then faster: CUBIC's curve (RFC
9438), so that an address which throttles above 5 requests a second is asked for more only once in some minutes, and an
address that bears more than it did is found out, too.

One host must not slow down the others of its address, so a decrease needs several sites: two that throttle among the
last answers, many that fail, or answers that take much longer than they did. A site that throttles again and again
counts once in BLAME_S seconds, because its reason is probably its own. Answers to requests that were made before the
last decrease tell nothing new: one burst is one decrease.

No I/O and no clock: times are unix seconds, as the caller says. Rates are requests a second.
"""

from __future__ import annotations

from array import array
from statistics import median
from typing import NamedTuple

THROTTLED_SITES = 2
THROTTLED_AMONG = 40
"""A decrease: so many sites throttle among so many answers, 5% of them. Fewer are the sites' own limits."""
FAILED_SITES = 8
FAILED_AMONG = 16
"""A decrease: so many sites fail among so many answers. One host in five is down for a reason of its own."""
BLAME_S = 300.0
SLOWER = 3.0
SLOWER_S = 0.5
LATENCIES = 16
"""A decrease: of so many answers the median takes SLOWER times as long as usual, and SLOWER_S seconds more."""
LIMIT_SHARE = 0.9
GROWTH_S = 300.0
IN_FLIGHT_SECONDS = 4.0
IN_FLIGHT_LEAST = 8
"""Where the requests of so many seconds, and eight more, have no answer yet, one more goes out each second."""


class Bounds(NamedTuple):
    """Requests a second: the rate of an address of which nothing is known, the highest and the lowest rate."""

    first: float
    most: float
    least: float


class Rate:
    """All that is known of one address."""

    __slots__ = (
        "_answers", "_bad", "_blamed", "_bounds", "_decreased", "_depth", "_grown", "_in_demand", "_last", "_took",
        "_usual_s", "address", "in_flight", "limit", "rate", "throttled",
    )  # fmt: skip

    def __init__(
        self, bounds: Bounds, rate: float, address: str = "", *, learnt: bool = False, limit: float = 0.0
    ) -> None:
        """`learnt`: the address bore this rate before a restart, so it is gone beyond only gently. `limit`: that of an
        address that throttled before, else 0."""
        self._bounds = bounds
        self.address = address
        self.rate = min(max(rate, bounds.least), bounds.most)
        self.limit = max(self.rate, limit) if learnt else 0.0  # 0: none is known
        self.throttled = learnt and limit > 0
        below = self.limit > self.rate
        # How far below the limit the last decrease went.
        self._depth = self.limit - self.rate if below else self.rate / 2
        self._grown = GROWTH_S if learnt and not below else 0.0  # seconds of growth since the last decrease
        self.in_flight = 0  # counted down by the caller when a request is over, whatever came of it
        self._in_demand = False
        self._last = 0.0  # when the last answer came
        self._decreased = 0.0  # when the rate was halved last
        self._answers = 0
        self._bad: list[tuple[int, int, bool]] = []  # (number of the answer, site, throttled) of the last bad ones
        self._blamed: dict[int, float] = {}  # site -> when it last counted as one that throttles
        self._took = array("d")  # seconds of the last good answers
        self._usual_s = 0.0

    def begins(self, now: float, due: float) -> float:
        """A request begins at an address that was due at `due`: seconds until the next one may begin."""
        gap = 1 / self.rate
        self.in_flight += 1
        self._in_demand = now - due < 2 * gap
        return gap if self.in_flight <= IN_FLIGHT_LEAST + IN_FLIGHT_SECONDS * self.rate else max(gap, 1.0)

    def answered(self, site: int, ended: float, fetch_s: float, outcome: str) -> bool:
        """A visit of a site's host ended with such a gaps.Outcome, after an exchange of `fetch_s` seconds. Returns
        whether the rate was halved."""
        since, self._last = ended - self._last, max(ended, self._last)
        if ended - fetch_s < self._decreased or outcome == "unreached":
            return False
        self._answers += 1
        if outcome == "ok":
            if self._in_demand:
                self._grow(min(max(since, 0.0), max(2 / self.rate, 1.0)))  # not by what was idle time
            return self._grew_slow(fetch_s) and self._decrease(ended, throttled=False)
        throttled = outcome == "throttled"
        if throttled and not self._blame(site, ended):
            return False
        self._bad.append((self._answers, site, throttled))
        self._bad = [one for one in self._bad if one[0] > self._answers - THROTTLED_AMONG]
        if throttled and len({who for _, who, one in self._bad if one}) >= THROTTLED_SITES:
            return self._decrease(ended, throttled=True)
        failed = {who for at, who, one in self._bad if not one and at > self._answers - FAILED_AMONG}
        return len(failed) >= FAILED_SITES and self._decrease(ended, throttled=False)

    def _grow(self, seconds: float) -> None:
        self._grown += seconds
        if self.limit:
            rate = self.limit + self._depth * (self._grown / GROWTH_S - 1) ** 3
        else:
            rate = self.rate + self._bounds.first / 2 * seconds
        self.rate = min(max(self.rate, rate), self._bounds.most)

    def _decrease(self, now: float, throttled: bool) -> bool:
        before, self.rate = self.rate, max(self.rate / 2, self._bounds.least)
        if throttled:
            self.limit, self.throttled = LIMIT_SHARE * before, True
        elif self.limit:
            self.limit = max(self.limit, LIMIT_SHARE * before)
        self.limit = max(self.limit, self.rate) if self.limit else 0.0
        self._depth, self._grown, self._decreased = max(self.limit - self.rate, self.rate / 2), 0.0, now
        self._bad.clear()
        del self._took[:]
        return True

    def _blame(self, site: int, now: float) -> bool:
        """A site throttles: whether that counts."""
        if now - self._blamed.get(site, -BLAME_S) < BLAME_S:
            return False
        if len(self._blamed) >= 256:
            self._blamed = {who: at for who, at in self._blamed.items() if now - at < BLAME_S}
        self._blamed[site] = now
        return True

    def _grew_slow(self, fetch_s: float) -> bool:
        """Whether the last answers took much longer than usual. What is usual follows them."""
        self._took.append(fetch_s)
        if len(self._took) < LATENCIES:
            return False
        took, usual = median(self._took), self._usual_s
        del self._took[:]
        slow = usual > 0 and took > max(SLOWER * usual, usual + SLOWER_S)
        self._usual_s = min(took, 2 * usual) if slow else usual + (took - usual) / 8 if usual else took
        return slow
