"""`why` of a page that is visited again: what is believed of it, what it waits for, and that it is found by its key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from irlcrawl.ask.report import lines as report_lines
from irlcrawl.ask.report import report
from irlcrawl.ask.why import lines, why
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.config.keys import RevisitRule, Site
from irlcrawl.config.toml import to_toml
from irlcrawl.frontier.state.calendar import Pages
from irlcrawl.frontier.state.view import Reading
from tests.cli.conftest import Run, run
from tests.crawl.test_revisits import SITE, changing, crawl_of
from tests.crawl.virtual_crawl import Answer, Crawl

__all__ = ["run"]


def asked(crawl: Crawl, url: str) -> dict[str, object]:
    crawl.job().config_file.write_text(to_toml(crawl.config))
    return why(crawl.job(), url, crawl.clock.now())


def test_a_page_at_rest_is_found_by_its_key_with_belief_and_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = crawl_of(tmp_path, changing(), monkeypatch, 60)
    crawl.config.site["a.test"] = Site(revisit_every_min_seconds=45.0)
    crawl.config.revisit_rule = [RevisitRule("/0$", None, 40.0, None)]
    assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT
    crawl.job().config_file.write_text(to_toml(crawl.config))
    reading = Reading.open(crawl.job())
    assert reading is not None
    rest = {
        url.decode(): (due, visits) for batch in reading.pages.scan()
        for url, due, visits in zip(*(batch[name].tolist() for name in ("url", "due", "visits")), strict=True)
    }  # fmt: skip
    assert rest, "the others are on their way to a visit when the crawl ends"
    monkeypatch.setattr(Pages, "scan", lambda self: pytest.fail("all pages are passed to find one"))
    for url, (due, visits) in rest.items():
        told = asked(crawl, url)
        assert (told["place"], told["due"], told["visits"]) == ("visited", due, visits)
        assert len(told["history"]) == min(visits, 20)  # type: ignore[arg-type]
        others = 'site."a.test"' if url.endswith("/0") else "revisit_rule"
        assert others not in str(told["stands"]), "of the two bounds that of the rule goes before"
    changes, steady = asked(crawl, f"{SITE}0"), asked(crawl, f"{SITE}1")
    assert changes["changes_a_day"] > steady["changes_a_day"]  # type: ignore[operator]
    text = [*lines(changes)]
    assert any(line.startswith("belief") and "a change every" in line for line in text)
    assert any("change yes" in line and "visit " in line for line in text)


def test_an_order_is_told_of_before_and_after_it_calls_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    crawl = crawl_of(tmp_path, changing(), monkeypatch, 9)
    crawl.config.revisit.every_min_seconds = 86400.0 * 30
    assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT
    assert "revisit.every_min_seconds" in str(asked(crawl, f"{SITE}3")["stands"])
    assert run("revisit", crawl.path, "a.test")[0] == ExitCode.DONE
    crawl.config.limits.pages = 12
    assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT
    monkeypatch.setattr(Pages, "scan", lambda self: pytest.fail("all pages are passed to find one"))
    places = [asked(crawl, f"{SITE}{page}")["place"] for page in range(8)]
    assert set(places) == {"visited", "ready"}, "some were visited before the limit, the others are on their way"


def test_an_order_for_a_stopped_crawl_was_not_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    web = changing()
    usual = web.moods["a.test"]
    web.moods["a.test"] = lambda url, now: Answer(404) if url.endswith("/5") else usual(url, now)
    crawl = crawl_of(tmp_path, web, monkeypatch, 9)
    crawl.config.revisit.every_min_seconds = 86400.0 * 30
    assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT
    assert "called" not in asked(crawl, f"{SITE}3")
    assert run("revisit", crawl.path, f"{SITE}3")[0] == ExitCode.DONE
    assert asked(crawl, f"{SITE}3")["called"] == "an order to visit it waits"
    assert "called" not in asked(crawl, f"{SITE}4")
    assert asked(crawl, f"{SITE}5")["stands"] == "done: fetched, http_error"
    assert run("retry", crawl.path, "--status", "404")[0] == ExitCode.DONE
    assert asked(crawl, f"{SITE}5")["stands"] == "done: fetched, http_error; put back, to be asked again"


def told_after_an_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run, pages: int
) -> list[dict[str, object]]:
    """Of eight pages that an order calls, when the crawl has fetched so many in all."""
    crawl = crawl_of(tmp_path, changing(), monkeypatch, 9)
    crawl.config.revisit.every_min_seconds = 86400.0 * 30
    assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT
    crawl.job().config_file.write_text(to_toml(crawl.config))
    assert run("revisit", crawl.path, "a.test")[0] == ExitCode.DONE
    crawl.config.limits.pages = pages
    assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT
    return [asked(crawl, f"{SITE}{page}") for page in range(8)]


def test_a_page_that_was_visited_by_an_order_had_changed_at_its_visit_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """So said `why` of pages that never changed, with figures of sixteen digits."""
    told = told_after_an_order(tmp_path, monkeypatch, run, 17)
    steady = [one for one in told if one["visits"] == 2 and "change yes" not in "\n".join(lines(one))]
    assert len(steady) > 1 and not any(one["changed"] for one in steady)
    assert not [line for line in lines(steady[0]) if line != line.rstrip() or "000000" in line]


def test_why_of_a_page_whose_ordered_visit_waits_ended_in_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """What an order is worth has no bound: it was taken for a date, and in JSON it was no number."""
    told = told_after_an_order(tmp_path, monkeypatch, run, 10)
    called = [one for one in told if one.get("worth_now", 0) is None]
    assert called
    for one in called:
        json.dumps(one, allow_nan=False)
        assert lines(one)


def test_a_maximum_that_goes_before_a_longer_minimum_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = crawl_of(tmp_path, changing(), monkeypatch, 9)
    crawl.config.revisit.every_min_seconds = 86400.0 * 30
    crawl.config.revisit_rule = [RevisitRule("/3$", None, None, 86400.0 * 10)]
    assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT
    stands = str(asked(crawl, f"{SITE}3")["stands"])
    assert "revisit_rule 1.every_max_seconds" in stands and "every_min_seconds" not in stands
    assert "revisit.every_min_seconds" in str(asked(crawl, f"{SITE}4")["stands"])
    crawl.config.revisit_rule = [RevisitRule("/3$", None, 30.0, 60.0)]
    crawl.clock.advance(3600)
    stands = str(asked(crawl, f"{SITE}3")["stands"])
    assert "as was decided at its last visit" in stands, stands


def test_later_visits_made_a_site_a_trap_or_its_pages_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """304s counted as requests that brought nothing, and the same page once more, behind another one, as a new one."""
    crawl = crawl_of(tmp_path, changing(), monkeypatch, 120)
    assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT
    crawl.job().config_file.write_text(to_toml(crawl.config))
    told = report(crawl.job())
    (site,) = told["sites"]
    assert site["spent"] <= 10 and site["spent"] + site["visits"] == 120
    assert site["yield"] > 0.8 and not told["eaters"]
    assert any(f"{site['visits']} visits to known pages" in line for line in report_lines(told))


def test_pages_between_two_visits_were_listed_by_no_verb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    crawl = crawl_of(tmp_path, changing(), monkeypatch, 9)
    assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT
    crawl.job().config_file.write_text(to_toml(crawl.config))
    rows = run("urls", crawl.path, "--status", "queued", "--reason", "visited")[1].splitlines()
    pages = [
        f"queued\tvisited\t{SITE}{page}" for page in range(8) if asked(crawl, f"{SITE}{page}")["place"] == "visited"
    ]
    assert pages and set(pages) <= set(rows)
    assert "visited" not in run("urls", crawl.path, "--status", "queued")[1]


def test_a_url_that_is_done_and_no_page_is_told_without_a_look_through_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = changing()
    usual = web.moods["a.test"]
    web.moods["a.test"] = lambda url, now: Answer(404) if url.endswith("/3") else usual(url, now)
    crawl = crawl_of(tmp_path, web, monkeypatch, 20)
    assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT
    monkeypatch.setattr(Reading, "waiting", lambda self, places=(): pytest.fail("what waits is passed"))
    assert asked(crawl, f"{SITE}3")["place"] == "done"
