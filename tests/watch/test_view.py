"""One function makes the numbers of the page and of the terminal."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

from drum import Files

import pytest

from irlcrawl.base.job import JobDir
from irlcrawl.config.keys import Config
from irlcrawl.config.toml import to_toml
from irlcrawl.crawl import status
from irlcrawl.crawl.history import History
from irlcrawl.watch import terminal
from irlcrawl.watch.terminal import COLUMN, sparkline, terminal_lines
from irlcrawl.watch.view import View, view
from tests.crawl.test_status import RECORD, commit

HOSTILE = "http://evil.test/\x1b[2J<script>alert(1)</script>\u202e"
MORE: dict[str, Any] = {
    "state": "running", "source": "live", "updated": 1_000_000_000.0, "started": 999_996_280.0,
    "waiting_by_place": {"ready": 300, "queued": 600, "over_budget": 100, "scheduled": 0, "resting": 3, "visited": 0},
    "resting_due": 1_000_000_060.0, "largest_addresses": {"192.0.2.7": 40}, "slowest_hosts": {"slow.test": 12.0},
    "fetching": {"https://b.test:443": 3.0}, "frontier_bytes": 5 * 10**8, "harvest_bytes": 10**6,
    "memory_bytes": 3 * 10**8, "workers": 2, "warc_bytes": 10**9, "disk_free_bytes": 10**11,
    "seeds": 50, "new_seeds": 49,
    "merges": {"seen": {"buckets_done": 4, "buckets": 16, "rows_waiting": 1000}},
    "pages_per_s_over": {"1 min": 40.0}, "resting_hosts": {"dns": 3, "no_robots": 1},
    "throttled_addresses": {"backing_off": 2}, "machines": [
        {"name": "m1", "state": "here", "workers": 4, "visits": 9, "owed": 0, "heard_s": 0.5, "given_up_in_s": None,
         "shipped_bytes": 1000},
        {"name": "m2", "state": "away", "workers": 0, "visits": 0, "owed": 4, "heard_s": 90.0, "given_up_in_s": 9.0,
         "shipped_bytes": 10},
    ],
}  # fmt: skip


def seen(**more: Any) -> View:
    config = Config()
    config.limits.pages = 100_000
    return view("a-crawl", status.complete({**RECORD, **MORE, **more}), config)


def rows(shown: View) -> dict[tuple[str, str], Any]:
    return {(panel.key, row.label): row for panel in shown.panels for row in panel.rows}


def test_what_an_operator_asks_for_is_there() -> None:
    found = rows(seen())
    assert found["rates", "over 1 min"].text == "40 pages/s"
    assert found["waiting", "over budget"].text == "100" and found["waiting", "over budget"].share == pytest.approx(
        100 / 1003
    )
    assert found["waiting", "after a failure"].text == "3, from 1 min 00 s on"
    assert found["delayed", "address"].text == "268 hosts" and "just asked" in found["delayed", "address"].note
    assert found["errors", "http error"].text == "45" and found["errors", "dns"].text == "2"
    assert found["excluded", "robots"].text == "299"
    assert found["largest", "a.example"].text == "900 URLs"
    assert found["slowest", "slow.test"].text == "12 s" and found["now", "b.test"].text == "since 3.0 s"
    assert found["addresses", "192.0.2.7"].text == "40 hosts"
    assert found["addresses", "slowed, backing off"].text == "2"
    assert found["failing", "dns"].text == "3 hosts" and "no address" in found["failing", "dns"].note
    assert found["machine", "m1"].text == "4 workers, 9 visits"
    assert found["machine", "m2"].text == "away, heard 1 min 30 s ago"
    assert found["limits", "pages"].text == "12,345 of 100,000" and found["limits", "pages"].note == "limits.pages"
    assert found["limits", "site budgets"].text == "600 within, 100 over"
    assert found["machine", "merging seen"].share == 0.25
    assert [tile.text for tile in seen().tiles] == ["12,345", "3.4 GB", "37,352", "48"]
    assert all(0 <= row.share <= 1 for row in found.values() if row.share is not None)


def test_a_crawl_that_ended_shows_how_and_nothing_of_the_moment() -> None:
    shown = seen(state="done", source="committed", wait_ends=1_000_000_300.0)
    assert ("waiting", "only rests are left") not in rows(shown), "a crawl that was done was still to end in 5 minutes"
    assert rows(seen(wait_ends=1_000_000_300.0))["waiting", "only rests are left"].text == "ends in 5 min 00 s"
    assert not shown.alive and not {"now", "delayed", "slowest"} & {panel.key for panel in shown.panels}
    assert shown.told == "done, after 1 h 02 min" and shown.tiles[0].note == "3.3/s on average", "12,345 in 3,720 s"


def test_a_record_of_nulls_can_be_seen() -> None:
    shown = view("new", status.complete({"state": "new", "source": "committed"}))
    assert shown.state == "new" and terminal_lines(shown, 80)


@pytest.mark.parametrize("width", [30, 80, 200])
def test_the_terminal_has_every_number_of_the_page(width: int) -> None:
    shown = seen()
    lines = terminal_lines(shown, width, {"pages/s": [0, 1, 2, 4]})
    text = "\n".join(lines)
    for panel in shown.panels:
        assert panel.title.upper() in text
        assert all(row.text in text for row in panel.rows)
    assert all(tile.text in text for tile in shown.tiles) and "▁" in text and "█" in text
    assert max(map(len, lines[4:])) <= max(width, COLUMN)


def test_a_line_of_history_is_as_wide_as_there_is_room() -> None:
    assert sparkline([0, 1, 2, 4, 8], 80) == "▁▂▃▅█"
    assert len(sparkline(list(range(500)), 40)) == 40 and sparkline([], 10) == "" and sparkline([0, 0], 9) == "▁▁"


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("screen", [True, False])
def test_status_watch_shows_a_hostile_name_as_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, screen: bool
) -> None:
    job = JobDir(tmp_path / "job")
    with job:
        job.write_config(to_toml(Config()))
    commit(job, {**RECORD, **MORE, "state": "done", "largest_addresses": {HOSTILE[:20]: 3}})
    told = History(Files(), job.history)
    for number in range(5):
        told.tick(MORE["updated"] - 60 + 10 * number, lambda number=number: {**RECORD, "fetched": 100 * number})  # type: ignore[misc]
    told.close()
    out = Screen() if screen else io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "20")
    terminal.show(job)
    text = out.getvalue().replace("\x1b[H\x1b[J", "") if screen else out.getvalue()
    assert "\x1b" not in text and "12,345" in text and "pages/s" in text
    assert "\\x1b[2" in text or screen, "told as what it is"
    assert len(text.splitlines()) < 20 or not screen, "no more than fits"


def test_words_of_the_trade_only() -> None:
    text = "\n".join(terminal_lines(seen(), 200))
    assert not re.search(r"\b(turn|calendar|re-reads?|put off|harvests?)\b", text)
