"""The hours in which hosts may be asked, against a look at the clock on the wall of each minute."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.config.hours import Hours, Window
from irlcrawl.config.keys import Config, ConfigError, Site
from irlcrawl.config.toml import load

TEXTS = ("22:00-06:00", "06:00-22:00", "12:00-13:00, 18:30-20:00", "00:00-24:00", "23:59-00:01", "02:15-02:45")
ZONES = ("UTC", "Europe/Berlin", "Asia/Kolkata", "America/St_Johns")
SET = int(datetime(2026, 10, 25, tzinfo=ZoneInfo("UTC")).timestamp())  # the day on which Berlin sets its clocks back


def on_the_wall(text: str, zone: str, at: float) -> bool:
    clock = datetime.fromtimestamp(at, ZoneInfo(zone))
    minute = clock.hour * 60 + clock.minute
    for part in text.split(","):
        start, end = (int(half.strip()[:2]) * 60 + int(half.strip()[3:]) for half in part.split("-"))
        if start <= minute < end if start < end else (minute >= start or minute < end):
            return True
    return False


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("day", [1_700_000_000, SET])
def test_a_window_is_open_when_the_clock_on_the_wall_says_so(text: str, zone: str, day: int) -> None:
    """On the day on which clocks are set back, an hour that comes twice may count once."""
    window, start = Window(text, zone), day // 60 * 60
    for minute in range(0, 2 * 24 * 60, 7):
        now = float(start + minute * 60)
        opens, closes = window.opens(now), window.closes(now)
        wall = on_the_wall(text, zone, now)
        if zone == "Europe/Berlin" and day == SET and text == "02:15-02:45":
            assert wall or opens > now
            continue
        assert (opens == now) == wall
        assert (closes > now) == wall
        if not wall:
            assert on_the_wall(text, zone, opens) and not on_the_wall(text, zone, opens - 1)
            assert not any(on_the_wall(text, zone, at) for at in range(int(now), int(opens), 600))


@given(st.lists(st.floats(1e9, 2e9), max_size=8), st.sampled_from(TEXTS), st.sampled_from(ZONES))
def test_what_was_asked_before_does_not_matter(times: list[float], text: str, zone: str) -> None:
    window = Window(text, zone)
    for now in times:
        assert (window.opens(now), window.closes(now)) == (
            Window(text, zone).opens(now),
            Window(text, zone).closes(now),
        )


def test_a_site_has_hours_of_its_own() -> None:
    config = Config()
    config.politeness.hours = "22:00-06:00"
    config.site = {
        "day.test": Site(hours="06:00-22:00"),
        "a.day.test": Site(hours=""),
        "b.test": Site(time_zone="Asia/Tokyo"),
    }
    hours, noon = Hours(config), 1_700_000_000 // 86_400 * 86_400 + 43_200.0
    assert hours.opens("x.test", noon) == noon + 10 * 3600
    assert hours.opens("www.day.test", noon) == hours.opens("a.day.test", noon) == noon
    assert hours.closes("www.day.test", noon) == noon + 10 * 3600
    assert hours.closes("a.day.test", noon) == float("inf")
    assert hours.opens("b.test", noon) == noon + 3600, "22:00 in Tokyo is 13:00 UTC"
    assert not hours.all_closed(noon)


def test_all_are_closed_when_none_is_open() -> None:
    config = Config()
    config.politeness.hours = "22:00-06:00"
    config.site = {"a.test": Site(hours="20:00-21:00")}
    hours, midnight = Hours(config), 1_700_000_000 // 86_400 * 86_400.0
    closed = [hour for hour in range(24) if hours.all_closed(midnight + hour * 3600)]
    assert closed == [*range(6, 20), 21]
    assert not Hours(Config()).any


@pytest.mark.parametrize(
    "override",
    [
        "politeness.hours=22-6", "politeness.hours=25:00-03:00", "politeness.hours=03:00-03:00",
        "politeness.hours=24:30-01:00", "politeness.time_zone=Mars/Base", "politeness.time_zone=../etc/passwd",
        'site."a.test".hours=x', 'site."a.test".time_zone=/etc/passwd',
    ],
)  # fmt: skip
def test_hours_and_zones_that_are_none_are_refused_by_name(override: str) -> None:
    with pytest.raises(ConfigError, match=override.partition("=")[0].replace(".", r"\.")):
        load(overrides=[override])


def test_closed_windows_are_told_by_the_keys_that_set_them() -> None:
    sites = {
        "a.test": Site(time_zone="Asia/Tokyo"), "b.test": Site(hours="06:00-07:00"),
        "www.b.test": Site(time_zone="Europe/Berlin"), "open.test": Site(hours=""),
    }  # fmt: skip
    config = Config(site=sites)
    config.politeness.hours = "02:00-03:00"
    midnight = 1_700_000_000 // 86_400 * 86_400.0
    assert Hours(config).closed_windows(midnight) == {
        "politeness.hours": midnight + 2 * 3600,
        'politeness.hours in site."a.test".time_zone': midnight + 17 * 3600,
        'site."b.test".hours': midnight + 6 * 3600,
        'site."b.test".hours in site."www.b.test".time_zone': midnight + 5 * 3600,
    }
