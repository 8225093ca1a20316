"""Two crawls of the real web's weather on loopback, one of them killed ten times: both end with the same URLs.

An hour of the weather passes in 0.7 s, and all that the crawler waits for is as much shorter. What is out of order for
a while is so for four hours at most, and the crawler is patient for longer; what is out of order for good is the same
in both crawls. So what became of each URL does not depend on when it was asked. Nothing answers 5xx for good: the last
word of such a URL may be the 500 or, if its host is silent at that moment, a timeout.
"""

from __future__ import annotations

import random
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from webcrawl import NO_GAPS, Crawl, check_warcs, log_entries, outcomes

from tools.simweb.params import NO_ENEMIES, Params
from tools.simweb.serve import Served, serving
from tools.simweb.weather import WeatherParams
from tools.simweb.weather_spells import NEVER, Spell

HOUR, DAY = 3600.0, 86_400.0
WEB = Params(seed=5, pages_nominal=1200, site_pages_mean=40.0, degree_mean=12.0, **NO_ENEMIES)  # type: ignore[arg-type]
OFTEN = Spell(0.9, DAY, HOUR, 4 * HOUR)
WEATHER = WeatherParams(
    sound_sites=2.0, death_per_day=0.0, throttle_least=20.0, throttle_median=40.0,
    blips=Spell(0.9, DAY, 300.0, HOUR), outages=OFTEN, name_spells=OFTEN, address_spells=OFTEN, robots_spells=OFTEN,
    absences=NEVER, broken_share=0.0, page_broken_share=0.0, challenge_503_share=0.0, robots_broken_share=0.0,
)  # fmt: skip
SPEED = 5000.0
IMPATIENT = NO_GAPS | {
    "scope.kind": "any", "network.allow": '["127.52.0.0/16"]', "frontier.harvest_seconds": 0.3,
    "fetch.connect_seconds": 0.5, "fetch.read_seconds": 0.5, "network.dns_ttl_min_seconds": 1,
    "limits.wait_hours": 0.02,
    "politeness.rest_seconds": 0.2, "politeness.rest_max_seconds": 2, "politeness.host_dead_hours": 0.004,
    "politeness.retry_delay_seconds": 0.2, "politeness.retry_after_max_seconds": 2, "politeness.backoff_seconds": 0.1,
    "politeness.crawl_delay_max_seconds": 0.2,
}  # fmt: skip
KILLS = 10


class Tripwire:
    """Sets `tripped` at the last of so many further requests."""

    def __init__(self) -> None:
        self.left = 0
        self.tripped = threading.Event()

    def arm(self, more: int) -> None:
        self.tripped.clear()
        self.left = more

    def __call__(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.tripped.set()


def ends(job: Path) -> dict[tuple[str | None, str], tuple[str, int]]:
    """(host, target) of each URL -> what became of it, with the status of what was fetched. Ports differ."""
    status = {e.url.decode(): e.status for e in log_entries(job) if e.outcome == "fetched"}
    parts = {url: urlsplit(url) for url in outcomes(job)}
    return {
        (parts[url].hostname, parts[url].path + "?" + parts[url].query): (what, status.get(url, 0))
        for url, what in outcomes(job).items()
    }


def crawl_of(job: Path, served: Served) -> Crawl:
    return Crawl(job, served.resolver, served.seeds(10), IMPATIENT, allow="127.52.0.0/16")


@pytest.mark.slow
def test_a_crawl_of_the_weather_that_is_killed_ten_times_ends_as_one_that_is_not(tmp_path: Path) -> None:
    draw, wire = random.Random(1), Tripwire()
    with serving(WEB, tmp_path / "one.log", weather=WEATHER, weather_speed=SPEED, addresses=8) as served:
        ended = crawl_of(tmp_path / "one", served).run(120)
    assert ended.code == 0, ended.output
    with serving(WEB, tmp_path / "other.log", weather=WEATHER, weather_speed=SPEED, addresses=8, heard=wire) as served:
        crawl = crawl_of(tmp_path / "other", served)
        for _ in range(KILLS):
            wire.arm(draw.randrange(1, 40))
            running = crawl.start()
            assert wire.tripped.wait(60), running.output.read_text()
            running.kill()
        ended = crawl.run(120)
    assert ended.code == 0, ended.output
    assert ends(tmp_path / "other") == ends(tmp_path / "one")
    kinds = {what for what, _ in ends(tmp_path / "one").values()}
    assert {"fetched", "failed(dns)", "failed(connect)", "excluded(robots)"} <= kinds, kinds
    check_warcs(tmp_path / "other")
