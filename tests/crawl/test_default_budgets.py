"""Budgets as they come, in crawls that are small: nothing starves, and what nobody vouches for goes last only while
something else waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgets import SiteRecord
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.keys import name_key
from irlcrawl.config.toml import load, to_toml
from irlcrawl.frontier.state.crawl_state import CrawlState
from tests.crawl.virtual_crawl import Crawl, Web, star

GAP_S = 1.0


def record(crawl: Crawl, site: str) -> SiteRecord:
    with crawl.job() as job:
        state = CrawlState.open(job, crawl.config, crawl.clock)
        found = state.sites.site(name_key(site.encode()))
        state.close()
    assert found is not None
    return found


def span(crawl: Crawl) -> float:
    """Seconds from the first request of the crawl to its last."""
    times = [at for at, _ in crawl.web.log]
    return max(times) - min(times)


def test_sites_that_only_a_list_names_are_crawled_to_their_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve sites without support have a budget of one URL a queue; with nothing else waiting, hosts' gaps are all
    that the crawl waits for."""
    names = [f"s{n}.test" for n in range(12)]
    links = {url: targets for name in names for url, targets in star(name, 30).items()}
    links["http://hub.test/"] = ["http://hub.test/list"]
    links["http://hub.test/list"] = [f"http://{name}/" for name in names]
    crawl = Crawl(tmp_path / "job", Web(links, fetch_s=0.01), ["http://hub.test/"], monkeypatch)
    assert crawl.run() == ExitCode.DONE
    assert set(crawl.web.pages_asked) == set(links) and set(crawl.web.pages_asked.values()) == {1}
    assert span(crawl) < 1.5 * 33 * GAP_S
    found = record(crawl, names[0])
    assert (found.in_degree, found.budget, found.placed) == (0, 1, 31)


def test_a_list_that_was_given_as_a_seed_vouches_for_what_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = {f"http://s{n}.test/": [] for n in range(12)}
    crawl = Crawl(
        tmp_path / "job", Web({"http://hub.test/": [*links], **links}, fetch_s=0.01), ["http://hub.test/"], monkeypatch
    )
    assert crawl.run() == ExitCode.DONE
    assert (record(crawl, "s0.test").in_degree, record(crawl, "s0.test").budget) == (1, 30)


def test_a_list_of_seeds_is_crawled_evenly_beside_a_site_that_all_of_them_link_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What many link to has a hundred times the budget of a seed, and does not hold a seed up."""
    letters = "abcdefghijkl"  # pages that differ in digits only say the same
    names = [f"{a}{b}.test" for a in letters for b in letters]
    links = {url: targets for name in names for url, targets in star(name, 4).items()}
    for name in names:
        links[f"http://{name}/"] += ["http://known.test/"]
    links |= star("known.test", 200)
    crawl = Crawl(tmp_path / "job", Web(links, fetch_s=0.01), [f"http://{name}/" for name in names], monkeypatch)
    assert crawl.run() == ExitCode.DONE
    assert set(crawl.web.pages_asked.values()) == {1} and set(crawl.web.pages_asked) == set(links)
    seeds_over = max(at for at, url in crawl.web.log if "known.test" not in url)
    known_over = max(at for at, url in crawl.web.log if "known.test" in url)
    assert seeds_over < known_over, "the largest host is last, as its gaps are the longest way"
    assert span(crawl) < 1.2 * 202 * GAP_S
    assert record(crawl, "known.test").budget == 300_000 and record(crawl, "aa.test").budget == 3_000


def test_a_crawl_made_with_other_defaults_keeps_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JOB names every value it runs with: defaults of a later version are for new crawls."""
    older = load(None, ["budgets.curve=rank", "budgets.base=10", "budgets.unsupported=0", "budgets.seed_floor=10"])
    crawl = Crawl(tmp_path / "job", Web(star("a.test", 50), fetch_s=0.01), ["http://a.test/"], monkeypatch)
    crawl.config = older
    crawl.config.crawl.user_agent = "test/1 (+http://contact.test/)"
    crawl.config.limits.pages = 5
    crawl.run()
    (tmp_path / "older.toml").write_text(to_toml(crawl.config))
    crawl.config = load(tmp_path / "older.toml", ["limits.pages=0"])
    assert crawl.config.budgets == older.budgets
    assert crawl.run() == ExitCode.DONE and len(crawl.outcomes()) == 51
    assert record(crawl, "a.test").budget == 10
