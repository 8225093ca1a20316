"""A crawl that is killed or stopped again and again, and goes on each time under another configuration and maybe with
the system's clock set: every URL is done once, and no host is asked before the least gap of all (I1, I2, I3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from drum import Catalog

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.config.keys import Config
from tests.crawl.virtual_crawl import Answer, Crawl, Killed, Web

HOSTS = [f"h{number}.test" for number in range(6)]
RULED, CLOSED, BUSY, *_ = HOSTS
PAGES = 12
RETRY_AFTER_S = 300.0
GAP_S_MIN = 0.5
DAY_S = 86_400.0

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "politeness.gap_host_seconds": st.sampled_from([GAP_S_MIN, 3.0, 20.0]),
    "politeness.gap_address_seconds": st.sampled_from([0.0, 2.0]),
    "politeness.gap_site_seconds": st.sampled_from([0.0, 2.0]),
    "politeness.visit_seconds": st.sampled_from([0.0, 5.0, 60.0]),
    "politeness.visit_urls_max": st.sampled_from([1, 64]),
    "politeness.horizon_seconds": st.sampled_from([1.0, 300.0]),
    "politeness.retry_delay_seconds": st.sampled_from([0.0, 5.0, 300.0]),
    "politeness.backoff_seconds": st.sampled_from([0.0, 5.0, 60.0]),
    "robots.fresh_seconds": st.sampled_from([1.0, 60.0, DAY_S]),
    "politeness.rest_seconds": st.sampled_from([1.0, 900.0]),
    "politeness.rest_max_seconds": st.sampled_from([600.0, DAY_S]),
    "network.dns_ttl_max_seconds": st.sampled_from([0.0, DAY_S]),
    "frontier.harvest_seconds": st.sampled_from([0.01, 30.0]),
    "frontier.urls_per_host_max": st.sampled_from([4, 1000]),
    "frontier.hosts_active_max": st.sampled_from([16, 100_000]),
    "frontier.when_full": st.sampled_from(["stop", "delay"]),
    "fetch.visits_per_worker": st.sampled_from([1, 128]),
    "archive.log_roll_bytes": st.sampled_from([1024, 10**8]),
    "crawl.ram_bytes": st.sampled_from([32 << 20, 256 << 20]),
    "budgets.curve": st.sampled_from(["log", "linear", "rank", "none"]),
    "budgets.top_sites": st.sampled_from([1, 10**7]),
    "budgets.top_budget": st.sampled_from([1, 200_000]),
    "budgets.seed_floor": st.sampled_from([1, 2000]),
    "budgets.unsupported": st.sampled_from([0, 1]),
    "budgets.home_nearness": st.sampled_from([1, 64]),
    "budgets.hops": st.sampled_from([1, 2]),
    "page.near_duplicates_max": st.just(0),
}  # fmt: skip


@dataclass
class Run:
    """One run: how it is configured, with how many workers, after how many requests and how it ends, and what passes
    before the next one."""

    values: dict[str, Any]
    workers: int
    requests: int
    killed: bool
    seconds: float
    step: float


a_run = st.builds(
    Run,
    values=st.fixed_dictionaries({}, optional=VALUES),
    workers=st.integers(1, 2),
    requests=st.integers(0, 40),
    killed=st.booleans(),
    seconds=st.sampled_from([0.0, 0.3, 50.0, 2 * DAY_S]),
    step=st.sampled_from([0.0, 0.0, 3600.0, -3600.0, -1e8]),
)


def web_of(seed: int) -> Web:
    """Hosts whose pages link to each other's; of one robots.txt has rules, of one it cannot be had at first, one is
    busy at first."""
    web = Web()
    for number in range(PAGES * len(HOSTS)):
        links = [(number * 7 + seed + more * 31) % (PAGES * len(HOSTS)) for more in range(6)]
        web.page(url_of(number), [*(url_of(link) for link in links), url_of(number + 1)])
    web.answers[f"http://{RULED}/robots.txt"] = Answer(
        200, {"content-type": "text/plain"}, b"User-agent: *\nDisallow: /3\n"
    )
    asked: Counter[str] = Counter()

    def at_first(answer: Answer) -> Callable[[str, float], Answer | None]:
        def mood(url: str, now: float) -> Answer | None:
            asked[url] += 1
            return answer if asked[url] == 1 and (answer.status == 500) == url.endswith("robots.txt") else None

        return mood

    web.moods[CLOSED] = at_first(Answer(500))
    web.moods[BUSY] = at_first(Answer(503, {"retry-after": f"{RETRY_AFTER_S:.0f}"}))
    return web


def url_of(number: int) -> str:
    number %= PAGES * len(HOSTS)
    return f"http://{HOSTS[number % len(HOSTS)]}/{number // len(HOSTS)}"


@dataclass
class History:
    """What happened, by a clock that nobody sets."""

    web: Web
    steps: list[tuple[int, float]] = field(default_factory=list)  # requests before, seconds set in all by then
    told_busy: list[int] = field(default_factory=list)  # requests before a 503 was archived

    def requests(self) -> Iterator[tuple[float, str, str]]:
        """(seconds, host, URL) of each."""
        for number, (at, url) in enumerate(self.web.log):
            seconds = next((seconds for before, seconds in reversed(self.steps) if number >= before), 0.0)
            yield at - seconds, url.split("/")[2], url


@settings(max_examples=3, deadline=None, phases=[Phase.generate])  # to make a failure smaller takes minutes
@given(st.lists(a_run, min_size=1, max_size=5), st.integers(0, 5))
def test_i1_i2_i3_every_run_goes_on_under_another_configuration(
    tmp_path_factory: pytest.TempPathFactory, runs: list[Run], seed: int
) -> None:
    web = web_of(seed)
    history, total = History(web), 0.0
    with pytest.MonkeyPatch.context() as monkeypatch:
        crawl = Crawl(tmp_path_factory.mktemp("crawl") / "job", web, [url_of(0)], monkeypatch)
        crawl.on_kept = lambda unit: history.told_busy.append(len(web.log)) if unit.retry_due is not None else None
        for one in [*runs, Run({}, 1, 10**9, False, 0.0, 0.0)]:
            configure(crawl, one)
            if play(crawl, one) == ExitCode.DONE:
                break
            crawl.clock.advance(one.seconds)
            crawl.clock.step(one.step)
            total += one.step
            history.steps.append((len(web.log), total))
    check_outcomes(crawl)
    check_promises(history)


def configure(crawl: Crawl, one: Run) -> None:
    """As its file says now; what it does not say has its default."""
    fresh = Config()
    for name in VALUES:
        section, key = name.split(".")
        setattr(getattr(crawl.config, section), key, one.values.get(name, getattr(getattr(fresh, section), key)))
    crawl.config.politeness.retries_max, crawl.config.politeness.host_dead_hours = 9, 72.0
    crawl.workers = one.workers


def play(crawl: Crawl, one: Run) -> ExitCode:
    left = one.requests

    def on_request(url: str) -> None:
        nonlocal left
        left -= 1
        if left < 0 and one.killed:
            crawl.kill()
        elif left < 0:
            assert crawl.loop is not None
            crawl.loop.stop(ExitCode.INTERRUPTED)

    crawl.on_request = on_request
    try:
        return crawl.run(hours=10_000)
    except Killed:
        return ExitCode.FAILED


def check_outcomes(crawl: Crawl) -> None:
    expected = {url_of(number): ("fetched", "ok") for number in range(PAGES * len(HOSTS))}
    forbidden = f"http://{RULED}/3"
    assert crawl.outcomes() == {
        url: ("excluded", "robots") if url.startswith(forbidden) else outcome for url, outcome in expected.items()
    }
    ledger = Catalog.open(crawl.path / "state", readonly=True).get("ledger")
    assert ledger["discovered"] == len(expected)


def check_promises(history: History) -> None:
    requests = list(history.requests())
    last: dict[str, float] = {}
    for at, host, url in requests:
        assert at - last.get(host, float("-inf")) >= GAP_S_MIN - 1e-6, (url, at, last[host])
        last[host] = at  # it ended later, or when it was killed
    for number in history.told_busy:
        asked = next(at for at, host, _ in reversed(requests[:number]) if host == BUSY)
        again = next(at for at, host, _ in requests[number:] if host == BUSY)
        assert again >= asked + RETRY_AFTER_S, (number, asked, again)
