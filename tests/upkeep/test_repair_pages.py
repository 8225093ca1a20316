"""`fsck --repair` of a crawl that visits its pages again: what was known of them is kept, as far as it can be read."""

from __future__ import annotations

from pathlib import Path

from drum import Catalog

import pytest

from irlcrawl.ask.get import get
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.config.toml import to_toml
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.terminal.progress import Bar
from irlcrawl.upkeep.repair import repair
from tests.crawl.test_revisits import SITE, changing, crawl_of, findings, visits_in_log, visits_in_state
from tests.crawl.virtual_crawl import Crawl
from tests.upkeep.conftest import rolling


def repaired(crawl: Crawl, damaged: set[str]) -> list[str]:
    job = crawl.job()
    job.config_file.write_text(to_toml(crawl.config))
    with job:
        return list(repair(job, damaged, crawl.clock, Bar()))


def known(crawl: Crawl) -> dict[bytes, tuple[int, ...]]:
    job = crawl.job()
    with job:
        state = CrawlState.open(job, crawl.config, crawl.clock)
        names = ("visits", "visited", "rate_a", "rate_b", "links_b", "digest", "prior")
        found = {
            url: row for batch in (*state.pages.scan(), *state.runs.waiting())
            for url, *row in zip(batch["url"].tolist(), *(batch[name].tolist() for name in names), strict=True)
        }  # fmt: skip
        state.close()
    return {url: tuple(row) for url, row in found.items()}


def counts(crawl: Crawl) -> tuple[int, dict[str, int], int]:
    """Visits, by reason, and seeds."""
    catalog = Catalog.open(crawl.job().state, readonly=True)
    counters = catalog.get("counters")
    return catalog.get("ledger")["visits"], counters["fetched_by_reason"], counters["seeds"]


def test_beliefs_outlive_a_repair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = crawl_of(tmp_path, changing(), monkeypatch, pages=30)
    assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT
    before, counted = known(crawl), counts(crawl)
    told = repaired(crawl, set())
    assert "pages that are visited again: 9, with what was known of their changes" in told
    assert counts(crawl) == counted, "of visits only the first was counted"
    assert known(crawl) == before and findings(crawl) == []
    crawl.config.limits.pages = 0
    again = visits_in_log(crawl).total()
    crawl.config.limits.pages = 30 + 10
    assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT
    assert findings(crawl) == [] and visits_in_log(crawl).total() >= again + 5
    assert visits_in_state(crawl) == visits_in_log(crawl)
    assert counts(crawl)[2] == counted[2], "what waited was counted as seeds once more"


def test_get_gives_the_last_visit_though_lines_were_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log of a repair has lines that it made of archives behind the others: `get` gave a page as it was once."""
    crawl = rolling(crawl_of(tmp_path, changing(), monkeypatch, pages=60), monkeypatch)
    assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT
    crawl.job().config_file.write_text(to_toml(crawl.config))
    pages = {f"{SITE}{number}": get(crawl.path, f"{SITE}{number}") for number in range(8)}
    told = repaired(crawl, {f"{crawl.job().crawl_log}.1.gz"})
    assert ", 0 made anew" not in told[0] and "made anew" in told[0]
    assert {url: get(crawl.path, url) for url in pages} == pages


def test_pages_whose_rows_are_lost_are_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = crawl_of(tmp_path, changing(), monkeypatch, pages=20)
    assert crawl.run(hours=24) == ExitCode.SIZE_LIMIT
    for file in crawl.job().state.glob("*.seg"):
        file.write_bytes(file.read_bytes()[:100])
    repaired(crawl, set())
    assert findings(crawl) == [] and known(crawl) == {}
    crawl.config.limits.pages = 0
    crawl.config.revisit.enabled = False
    assert crawl.run(hours=1) == ExitCode.DONE
    assert findings(crawl) == []
