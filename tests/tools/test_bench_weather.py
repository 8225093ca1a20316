"""bench weather on a dozen sites for two days: its figures add up, and say what is so."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from pathlib import Path
from typing import Any, cast

from drum import Files

import numpy as np
import pytest

from bench.__main__ import main
from bench._sim.backlog import Keys
from bench._sim.endings import Endings, _silences
from bench._sim.links import Pages
from bench._sim.oracle import Oracle
from bench._sim.played import LOAD_S, Loads
from irlcrawl.base.job import JobDir
from irlcrawl.config.toml import load
from tools.simweb.answers import content
from tools.simweb.params import NO_ENEMIES, Params
from tools.simweb.weather import CALM, Weather
from tools.simweb.web import Web

DAYS = str(2 / 7)
SMALL = ("--hosts", "12", "--weeks", DAYS, "--rate", "50", "--web", "site_pages_mean=20", "--json")
QUICK = ("--set", "politeness.gap_host_seconds=0.2", "--set", "politeness.gap_host_factor=0",
         "--set", "politeness.gap_address_seconds=0.1", "--set", "politeness.crawl_delay_max_seconds=1")  # fmt: skip
"""Fewer virtual seconds, and so fewer turns."""
EVERY_OTHER_HOUR = [
    word
    for part in ("every=7200", "longest=3600", "shortest=3600", "chance=1")
    for word in ("--weather", f"outages.{part}")
]
OF_THE_MACHINE = ("cpu_s", "urls_per_cpu_minute", "weeks")


@pytest.fixture
def measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the benchmark with further words: its result."""

    def run(*words: str, name: str = "one") -> dict[str, Any]:
        main(["weather", *SMALL, *QUICK, *words, "--dir", str(tmp_path / name)])
        result: dict[str, Any] = json.loads(capsys.readouterr().out)
        return result

    return run


def test_calm_weather_leaves_nothing_behind_and_the_figures_add_up(measured: Any) -> None:
    told = measured("--calm")
    assert told["had_share"] == 1.0
    assert told["missed"] == told["given_up"] == {}
    assert told["wasted_share"] == 0.0
    ended = [count for where in told["ended"].values() for count in where.values()]
    assert sum(ended) == told["discovered"] > 100
    assert sum(told["could"].values()) == told["discovered"], "the oracle finds what the crawl finds"
    assert sum(count for kind, count in told["requests"].items() if kind[0] in "2345") == told["could"]["had"]
    assert 0 < told["capacity_used"] <= 1
    assert told["host_hours"]["resting"] == 0


def test_it_is_the_same_each_time(measured: Any) -> None:
    first, again = measured(name="one"), measured(name="two")
    assert {name: first[name] for name in first if name not in OF_THE_MACHINE} == {
        name: again[name] for name in again if name not in OF_THE_MACHINE
    }
    assert measured("--seed", "2", name="three")["requests"] != first["requests"]


def test_hosts_that_are_down_every_other_hour_are_had(measured: Any) -> None:
    told = measured("--calm", *EVERY_OTHER_HOUR)
    assert told["had_share"] == 1.0
    assert told["given_up"] == {}


def test_what_is_missing_is_told(measured: Any) -> None:
    told = measured("--calm", *EVERY_OTHER_HOUR)
    missing = round((1 - told["had_share"]) * told["could"]["had"])
    assert sum(told["missed"].values()) == missing
    assert told["host_hours"]["down"] > 0
    assert told["wasted_share"] > 0


def test_what_is_given_up_early_is_told(measured: Any) -> None:
    told = measured(
        "--calm", "--weather", "refused_share=1", "--weather", "sound_sites=4", "--set", "politeness.host_dead_hours=0",
        "--set", "politeness.retries_max=0",
    )  # fmt: skip
    refused = told["given_up"]["connect"]
    assert refused["urls"] == told["ended"]["failed"]["connect"] > 0
    assert refused["within_a_day"] in (0, refused["urls"]), "they are all asked equally long"
    assert refused["within_a_day"] == 0 or refused["least_hours"] < 24
    assert told["had_share"] == 1.0, "the others were had, and these nobody could have had"
    assert told["could"]["no_answer"] >= refused["urls"]


def test_a_busy_web_is_not_read_before_the_time_is_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ordinary ones were read in one week or two of four, so that no figure told of a crawl that works for weeks."""
    main(["weather", "--busy", "--calm", "--hosts", "8", "--weeks", "0.006", "--json", "--dir", str(tmp_path)])
    told = json.loads(capsys.readouterr().out)
    assert told["host_hours"]["used"] > 0.75 * 8 * told["days"] * 24
    assert told["weeks"][-1]["urls"]["fetched"] > 8 * 20 * 0.6, "pages of each site"
    assert told["instead"] <= told["could"]["late"]
    assert told["weeks"][-1]["of_plan"] > 0


def test_pages_that_were_made_before_are_those_of_the_web(tmp_path: Path) -> None:
    web = Web(Params(seed=3, pages_nominal=2_000, site_pages_mean=100.0, **NO_ENEMIES))  # type: ignore[arg-type]
    weather = Weather(web, CALM, 0.0)
    pages = Pages(weather, tmp_path)
    numbers = web.pages(weather.links(web.seeds(1))[1]).tolist()
    for page in [*numbers, *numbers]:
        some = np.array([page], np.uint64)
        assert pages.links(page) == weather.links(some)[1].tolist()
        assert pages.content(page) == int(content(web, some)[0])
    pages.close()


def test_the_oracle_waited_for_each_answer_of_an_address_of_many_sites(tmp_path: Path) -> None:
    """Their requests overlap, so it had less than the crawl where servers are slow."""
    sky = dataclasses.replace(CALM, hosting_share=1.0, network_share=0.0, builder_share=0.0, wide_share=0.0,
                              hosting_bears=10.0, latency_median=10.0, latency_sigma=0.0)  # fmt: skip
    params = Params(seed=1, pages_nominal=400, site_pages_mean=20.0, **NO_ENEMIES)  # type: ignore[arg-type]
    weather = Weather(Web(params), sky, 1e9)
    pages = Pages(weather, tmp_path)
    config = load(overrides=["crawl.user_agent=test/1 (+http://contact.test/)"])
    had = Oracle(weather, pages, config, 1e9, 1e6, 20.0).run(weather.seeds(8)).urls
    pages.close()
    first = [moment - 1e9 for moment in list(had.values())[:8]]
    assert first == pytest.approx([0.1 * place for place in range(8)], abs=1e-3)


@pytest.mark.parametrize("every_s", [0.1, 1.0, 12.0])
def test_who_asks_at_a_steady_rate_is_that_load(every_s: float) -> None:
    """It was half as much again, and a host that bears a request every ten seconds refused each within nine minutes of
    another."""
    loads = Loads()
    told = [loads.asked("a.test", number * every_s) for number in range(2_000)]
    assert told[0] == 0.0
    assert told[-1] <= 1.0 / every_s
    assert told[-1] + math.log(2.0) / LOAD_S >= 1.0 / every_s


def test_keys_are_a_set() -> None:
    draw = random.Random(1)
    keys, known = Keys(6), set()
    for _ in range(500):
        key = draw.randrange(1, 40)
        assert keys.add(key) is (key not in known)
        known.add(key)
    with pytest.raises(ValueError, match="room"):
        for key in range(100, 200):
            keys.add(key)


def test_a_silence_begins_with_the_first_failure_and_ends_with_an_answer() -> None:
    events = [(0.0, True), (5.0, False), (9.0, False), (10.0, True), (12.0, False)]
    assert _silences(events) == ([0.0, 5.0, 9.0, 10.0, 12.0], [0.0, 0.0, 4.0, 0.0, 0.0])


LOG = """\
2026-01-01T00:00:00.000Z -2 - https://a.test/1 L - - #000 20260101000000000+12 - - outcome=retry,reason=tls
2026-01-01T00:00:00.000Z 301 9 http://b.test/robots.txt - - - #000 20260101000000000+12 - - outcome=none,reason=redirect
2026-01-03T00:00:00.000Z 301 9 http://a.test/1 L - - #000 20260103000000000+12 - - outcome=fetched,reason=redirect
2026-01-03T00:00:00.000Z 301 9 http://b.test/robots.txt - - - #000 20260103000000000+12 - - outcome=none,reason=redirect
2026-01-03T01:00:00.000Z -2 - https://a.test/1 L - - #000 20260103010000000+12 - - outcome=failed,reason=tls
2026-01-03T01:00:00.000Z -2 - https://a.test/2 L - - - - - - outcome=failed,reason=tls
2026-01-03T01:00:00.000Z -61 - http://b.test/2 L - - - - - - outcome=excluded,reason=robots_unreachable
"""


def test_a_scheme_that_answers_ends_no_silence_of_the_other_nor_does_a_robots_txt_that_leads_elsewhere(
    tmp_path: Path,
) -> None:
    """Of names whose https fails and whose http redirects there, URLs were told as given up within seconds."""
    with JobDir(tmp_path / "job") as job:
        job.crawl_log.write_text(LOG)
    told = Endings(Files(), job, cast(Weather, None), 0.0, 0.0, []).given_up()
    assert told == {
        "robots_unreachable": {"urls": 1, "least_hours": 48.0, "within_a_day": 0},
        "tls": {"urls": 2, "least_hours": 49.0, "within_a_day": 0},
    }
