"""Budgets of the sites that a record names, against the state of a crawl that was killed half way."""

from __future__ import annotations

from typing import Any

import pytest

from irlcrawl.base.job import JobDir
from irlcrawl.config.toml import to_toml
from irlcrawl.crawl import status
from irlcrawl.watch.sites import COSTLY_REST, REST_SECONDS, SiteBudgets, hosts_of
from irlcrawl.watch.view import view
from tests.crawl.virtual_crawl import Crawl, Killed, Web


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> JobDir:
    """Two sites: the seed's, and one that it links to, with more pages than its budget of two."""
    links = {"http://www.a.test/": ["http://b.test/", "/1"], "http://b.test/": [f"/{number}" for number in range(9)]}
    links |= {f"http://b.test/{number}": [] for number in range(9)}
    with pytest.MonkeyPatch.context() as monkeypatch:
        crawl = Crawl(
            tmp_path_factory.mktemp("sites") / "job", Web(links), ["http://www.a.test/"], monkeypatch
        )  # fmt: skip
        crawl.config.budgets.base = 2

        def killed(url: str) -> None:
            if url == "http://b.test/0":
                crawl.kill()

        crawl.on_request = killed
        with pytest.raises(Killed):
            crawl.run()
        with crawl.job() as job:
            job.write_config(to_toml(crawl.config))
    return crawl.job()


def record(**more: Any) -> dict[str, Any]:
    return status.complete({"state": "running", "source": "live", **more})


def test_hosts_are_named_once_in_the_order_of_what_waits() -> None:
    named = record(
        per_host_queue_size={"largest": {"http://b.test:80": 9, "https://[2001:db8::1]:8443": 3}},
        fetching={"http://a.test:80": 1.0, "http://b.test:80": 1.0},
        slowest_hosts={"c.test": 2.0, "a.test": 1.0},
    )
    assert hosts_of(named) == ["b.test", "[2001:db8::1]", "a.test", "c.test"]
    assert hosts_of(record()) == []


def test_budgets_of_the_sites_of_named_hosts_are_read_now_and_then(job: JobDir) -> None:
    now = [100.0]
    known = SiteBudgets(job, lambda: now[0])
    asked = record(per_host_queue_size={"largest": {"http://b.test:80": 9}}, slowest_hosts={"www.a.test": 1.0})
    sites = known.of(asked)
    assert list(sites) == ["b.test", "a.test"] and sites["a.test"].seeds and not sites["b.test"].seeds
    site = sites["b.test"]
    assert (site.in_degree, site.budget) == (1, 2) and (site.placed, site.deferred) == (10, 0)
    (panel,) = [panel for panel in view("job", asked, None, sites).panels if panel.key == "sites"]
    row = next(row for row in panel.rows if row.label == "b.test")
    assert row.text == f"2, {site.deferred} over" and row.note.startswith("1 other site links to it; ")
    assert row.share == site.placed / (site.placed + site.deferred)
    now[0] += REST_SECONDS - 1
    assert known.of(record()) is sites
    now[0] += 1
    assert known.of(record()) == {}
    assert COSTLY_REST >= 50, "reading takes 2% of the time at most"


def test_a_state_that_cannot_be_read_tells_no_budgets(job: JobDir) -> None:
    for file in job.state.iterdir():
        file.write_bytes(b"damaged")
    assert SiteBudgets(job).of(record(slowest_hosts={"b.test": 1.0})) == {}
