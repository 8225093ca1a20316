"""Lines of charts: rates of what only grows, with gaps where nothing is known."""

from __future__ import annotations

from irlcrawl.crawl.history import Sample
from irlcrawl.watch.series import CHARTS, charts, line

FETCHED = next(chart for chart in CHARTS if chart.field == "fetched")
WAITING = next(chart for chart in CHARTS if chart.field == "queued_urls")


def samples(*values: tuple[float, float | None]) -> list[Sample]:
    return [(at, {"fetched": value, "queued_urls": value}) for at, value in values]


def test_a_total_is_shown_as_its_rate_over_the_last_minute_and_a_gauge_as_it_is() -> None:
    told = samples((0, 0), (10, 50), (20, 50), (30, 150), (40, 150), (50, 150), (60, 150), (70, 180))
    assert line(told, FETCHED) == [None, 5.0, 2.5, 5.0, 3.75, 3.0, 2.5, (180 - 50) / 60]
    assert line(told, WAITING) == [0, 50, 50, 150, 150, 150, 150, 180]
    hours = samples((0, 0), (3600, 3600), (7200, 3600))
    assert line(hours, FETCHED) == [None, 1.0, 0.0], "or over a step that is longer"


def test_no_rate_is_made_up_for_a_night_without_a_crawl_nor_for_urls_that_are_put_back() -> None:
    told = samples((0, 0), (10, 50), (20, 100), (36_000, 110), (36_010, 60), (36_020, 80), (36_030, None), (36_040, 90))
    assert line(told, FETCHED) == [None, 5.0, 5.0, None, None, 2.0, None, None]
    assert line([*told, (36_050, {"fetched": 100})], FETCHED)[-1] == 1.0


def test_a_chart_of_nothing() -> None:
    empty = charts([])
    assert empty["times"] == [] and all(chart["values"] == [] for chart in empty["charts"])
    assert line(samples((5, 1)), FETCHED) == [None]
