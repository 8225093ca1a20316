"""How long something that failed rests before it is asked again, as the keys of [politeness] say.

A host or a robots.txt: 1, 2, 4 … minutes, up to a day. A URL whose host answers: 1, 4, 16 … minutes, up to a day; the
steps are longer, for there are many URLs to a host (docs/decisions.md).
"""

from __future__ import annotations

from typing import NamedTuple

from irlcrawl.config.keys import Politeness

FAILURES_MAX = 65_535
"""No more failures in a row are counted."""


class Rests(NamedTuple):
    """Rests in seconds: `first` after the first failure, `factor` times as long after each further one, at most
    `longest`."""

    first: float
    factor: float
    longest: float

    def after(self, failures: int) -> float:
        """Seconds to rest after so many failures in a row, one at least."""
        return min(self.first * self.factor ** min(failures - 1, 100), self.longest)

    def failures_over(self, seconds: float) -> int:
        """The least number of failures in a row between which the rests take so many seconds together."""
        failures = 1
        while seconds > 0 and failures < FAILURES_MAX:
            seconds -= self.after(failures)
            failures += 1
        return failures


def rests_of_hosts(params: Politeness) -> Rests:
    """Of a host without any response, a name without an address, a robots.txt that cannot be had."""
    return Rests(params.rest_seconds, 2.0, params.rest_max_seconds)


def rests_of_urls(params: Politeness) -> Rests:
    """Of a URL after a passing failure."""
    return Rests(params.retry_delay_seconds, 4.0, params.rest_max_seconds)


def failures_till_given_up(params: Politeness) -> int:
    """Failures in a row with which a host, or its robots.txt, may be given up."""
    return rests_of_hosts(params).failures_over(params.host_dead_hours * 3600)
