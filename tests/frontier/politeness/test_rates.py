"""What an address bears: against a plain model of the rules, and against addresses that bear so much and no more."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.frontier.politeness.rates import (
    BLAME_S,
    FAILED_AMONG,
    FAILED_SITES,
    GROWTH_S,
    LATENCIES,
    LIMIT_SHARE,
    SLOWER,
    SLOWER_S,
    THROTTLED_AMONG,
    THROTTLED_SITES,
    Bounds,
    Rate,
)

BOUNDS = Bounds(2.0, 50.0, 1 / 40)


class Model:
    """The rules, one list and one look back at it."""

    def __init__(self, rate: float) -> None:
        self.rate, self.limit, self.depth, self.grown, self.decreased, self.last = rate, 0.0, 0.0, 0.0, 0.0, 0.0
        self.said: list[tuple[str, int]] = []  # since the last decrease
        self.took: list[float] = []
        self.usual = 0.0
        self.blamed: dict[int, float] = {}

    def answered(self, site: int, ended: float, fetch_s: float, outcome: str, waited_for: bool) -> None:
        since, self.last = ended - self.last, max(self.last, ended)
        if ended - fetch_s < self.decreased or outcome == "unreached":
            return
        if outcome == "throttled":
            own = site in self.blamed and ended - self.blamed[site] < BLAME_S
            self.said.append(("own" if own else outcome, site))
            if not own:
                self.blamed[site] = ended
        else:
            self.said.append((outcome, site))
        if outcome == "ok":
            if waited_for:
                self.grow(min(max(0.0, since), max(1.0, 2 / self.rate)))
            self.took.append(fetch_s)
            if len(self.took) == LATENCIES and self.slower():
                self.decrease(ended, False)
        elif self.said[-1][0] == "throttled":
            sites = {who for what, who in self.said[-THROTTLED_AMONG:] if what == "throttled"}
            if len(sites) >= THROTTLED_SITES:
                self.decrease(ended, True)
        elif outcome == "failed":
            sites = {who for what, who in self.said[-FAILED_AMONG:] if what == "failed"}
            if len(sites) >= FAILED_SITES:
                self.decrease(ended, False)

    def slower(self) -> bool:
        took, self.took = sorted(self.took), []
        middle = (took[LATENCIES // 2 - 1] + took[LATENCIES // 2]) / 2
        if self.usual and middle > SLOWER * self.usual and middle > self.usual + SLOWER_S:
            self.usual = min(middle, 2 * self.usual)
            return True
        self.usual = 7 / 8 * self.usual + middle / 8 if self.usual else middle
        return False

    def grow(self, seconds: float) -> None:
        self.grown += seconds
        if self.limit:
            self.rate = max(self.rate, self.limit + self.depth * (self.grown / GROWTH_S - 1) ** 3)
        else:
            self.rate += seconds * BOUNDS.first / 2
        self.rate = min(self.rate, BOUNDS.most)

    def decrease(self, now: float, throttled: bool) -> None:
        known = LIMIT_SHARE * self.rate
        self.rate = max(BOUNDS.least, self.rate / 2)
        if throttled:
            self.limit = max(known, self.rate)
        elif self.limit:
            self.limit = max(self.limit, known, self.rate)
        self.depth, self.grown, self.decreased = max(self.limit - self.rate, self.rate / 2), 0.0, now
        self.said, self.took = [], []


ANSWERS = st.lists(
    st.tuples(
        st.integers(1, 12),
        st.sampled_from([0.01, 0.2, 1.0, 30.0, 700.0]),  # seconds until the next one
        st.sampled_from([0.0, 0.1, 0.1, 0.1, 3.0]),  # of the exchange
        st.sampled_from(["ok", "ok", "ok", "throttled", "failed", "unreached"]),
    ),
    max_size=200,
)


@given(ANSWERS, st.sampled_from([2.0, 50.0]))
@settings(max_examples=150, deadline=None)
def test_a_rate_follows_the_rules(answers: list[tuple[int, float, float, str]], first: float) -> None:
    rate, model, now, due = Rate(BOUNDS, first), Model(first), 1e9, 0.0
    for site, seconds, fetch_s, outcome in answers:
        due, waited_for = now + rate.begins(now, due), now - due < 2 / model.rate
        rate.in_flight -= 1
        now += fetch_s
        before = rate.rate
        halved = rate.answered(site, now, fetch_s, outcome)
        model.answered(site, now, fetch_s, outcome, waited_for)
        assert rate.rate == pytest.approx(model.rate) and rate.limit == pytest.approx(model.limit)
        assert halved == (rate.rate < before) or before == BOUNDS.least
        assert BOUNDS.least <= rate.rate <= BOUNDS.most
        now += seconds


class Server:
    """Answers 429 to what goes beyond `bears` requests a second, by a bucket of one second's requests."""

    def __init__(self, bears: float) -> None:
        self.bears, self.tokens, self.at = bears, bears, 0.0
        self.throttled: list[float] = []

    def asked(self, now: float) -> str:
        self.tokens, self.at = min(self.bears, self.tokens + (now - self.at) * self.bears), now
        if self.tokens >= 1:
            self.tokens -= 1
            return "ok"
        self.throttled.append(now)
        return "throttled"


def ask(rate: Rate, server: Server, seconds: float, sites: int = 200, now: float = 1e6) -> list[float]:
    """Requests as soon as the rate allows, each answered after 0.3 s: when each was made."""
    chosen, due, stop = random.Random(7), now, now + seconds
    begun: list[float] = []
    out: list[tuple[float, str]] = []
    while now < stop:
        while out and out[0][0] <= now:
            rate.in_flight -= 1
            rate.answered(chosen.randrange(1, sites + 1), out[0][0], 0.3, out.pop(0)[1])
        begun.append(now)
        out.append((now + 0.3, server.asked(now)))
        due = now + rate.begins(now, due)
        now = due
    return begun


@pytest.mark.parametrize("bears", [1.0, 5.0, 20.0])
def test_an_address_that_throttles_is_held_just_below_that_with_few_429s(bears: float) -> None:
    rate, server = Rate(BOUNDS, BOUNDS.first), Server(bears)
    begun = ask(rate, server, 3600.0)
    settled = [at for at in begun if at >= 1e6 + 60]
    pace = len(settled) / 3540
    assert 0.7 * bears < pace <= bears
    late = [at for at in server.throttled if at >= 1e6 + 60]
    assert len(late) < 0.01 * len(settled)


def test_an_address_that_bears_it_reaches_the_highest_rate_within_a_minute() -> None:
    rate, server = Rate(BOUNDS, BOUNDS.first), Server(1000.0)
    ask(rate, server, 60.0)
    assert rate.rate == BOUNDS.most and not server.throttled


def test_an_address_that_bears_more_than_it_did_is_found_out() -> None:
    rate, server = Rate(BOUNDS, BOUNDS.first), Server(5.0)
    ask(rate, server, 600.0)
    assert rate.rate < 6
    server.bears = 1000.0
    ask(rate, server, 1800.0, now=1e6 + 600)
    assert rate.rate == BOUNDS.most


def test_what_was_known_before_a_restart_is_gone_beyond_only_gently() -> None:
    rate, server = Rate(BOUNDS, 10.0, learnt=True), Server(1000.0)
    ask(rate, server, 60.0)
    assert 10.0 <= rate.rate < 10.5


def test_one_burst_of_429s_is_one_decrease() -> None:
    rate = Rate(BOUNDS, 40.0)
    for site in range(1, 20):
        rate.answered(site, 1000.0 + site / 1000, 0.3, "throttled")
    assert rate.rate == 20.0 and rate.limit == 36.0


def test_one_site_that_fails_throttles_and_is_slow_changes_nothing() -> None:
    rate = Rate(BOUNDS, 50.0)
    for n in range(2000):
        now = 1000.0 + n
        for site in range(2, 12):
            rate.answered(site, now, 0.1, "ok")
        rate.answered(1, now, 20.0, ("ok", "failed", "throttled")[n % 3])
    assert rate.rate == 50.0


def test_an_address_that_slows_down_for_all_its_sites_is_asked_less() -> None:
    rate = Rate(BOUNDS, 50.0)
    for n in range(100):
        rate.answered(1 + n % 50, 1000.0 + n, 0.2, "ok")
    assert rate.rate == 50.0
    for n in range(LATENCIES):
        rate.answered(1 + n % 50, 2000.0 + n, 2.0, "ok")
    assert rate.rate == 25.0


def test_an_address_that_does_not_answer_is_not_flooded() -> None:
    """A thousand hosts at an address that went silent: each waits for half a minute before it fails."""
    rate, now, due, begun = Rate(BOUNDS, 50.0), 0.0, 0.0, 0
    while now < 30.0:
        due = now + rate.begins(now, due)
        begun, now = begun + 1, due
    assert begun < 250
