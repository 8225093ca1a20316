"""bench weather on a dozen sites for two days: its figures add up, and say what is so."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, cast

from drum import Files

import pytest

from bench.__main__ import main
from bench._sim.backlog import Keys
from bench._sim.endings import Endings, _silences
from irlcrawl.base.job import JobDir
from tools.simweb.weather import Weather

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
