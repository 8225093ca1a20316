"""How long what failed rests: against a loop, and the figures that the documents name."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.config.keys import Politeness
from irlcrawl.config.rests import Rests, failures_till_given_up, rests_of_hosts, rests_of_urls

HOUR_S = 3600.0


@given(st.floats(0.1, 1e5), st.sampled_from([1.0, 2.0, 4.0]), st.floats(0.1, 1e6), st.floats(0.0, 1e5))
def test_failures_are_counted_until_their_rests_take_so_long(
    first: float, factor: float, longest: float, seconds: float
) -> None:
    rests = Rests(first, factor, longest)
    failures = rests.failures_over(seconds)
    spent = list(accumulate((rests.after(number) for number in range(1, min(failures, 2000))), initial=0.0))
    if failures < 2000:
        assert spent[-1] >= seconds * (1 - 1e-9)
        assert len(spent) == 1 or spent[-2] < seconds * (1 + 1e-9)
    assert all(rest <= longest for rest in map(rests.after, (1, 2, 99, 65_535)))


def test_what_the_defaults_amount_to() -> None:
    """14 failures over 82 hours for a host or a robots.txt, nine requests over 71 hours for a URL."""
    params = Politeness()
    assert failures_till_given_up(params) == 14
    assert sum(map(rests_of_hosts(params).after, range(1, 14))) / HOUR_S == pytest.approx(82.1, abs=0.1)
    assert params.retries_max + 1 == 9
    assert sum(map(rests_of_urls(params).after, range(1, 9))) / HOUR_S == pytest.approx(70.75)


def test_a_host_given_up_at_once_needs_one_failure() -> None:
    assert failures_till_given_up(Politeness(host_dead_hours=0.0)) == 1
