"""A host's URLs are put off by the pace it has now, and come back when it may have another."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crawl.virtual_crawl import START, Answer, Crawl, Web, star


def test_one_slow_answer_does_not_put_a_host_off_for_hours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its gap was 300 s when its links came in, and each of them was given a date 300 s behind the one before."""
    web = Web({**star("a.test", 60), "http://a.test/x": [], "http://a.test/y": []})
    crawl = Crawl(tmp_path, web, ["http://a.test/", "http://a.test/x", "http://a.test/y"], monkeypatch)
    crawl.config.politeness.gap_host_factor = 10.0

    def slow_once(url: str) -> None:
        web.fetch_s = 30.0 if url == "http://a.test/" else 0.1

    crawl.on_request = slow_once
    crawl.run()
    assert len(crawl.outcomes()) == 63
    assert crawl.clock.now() - START < 2 * 3600, "60 pages of 1 s each, but for a look after an hour"


def test_one_retry_after_does_not_slow_a_host_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its waiting URLs came back one each back-off, which was long over."""
    web = Web(star("a.test", 100))
    crawl = Crawl(tmp_path, web, ["http://a.test/"], monkeypatch)
    web.moods["a.test"] = lambda url, now: Answer(503, {"retry-after": "600"}) if len(web.log) == 20 else None
    crawl.run()
    assert len(crawl.outcomes()) == 101
    assert crawl.clock.now() - START < 600 + 2 * 101 + 60


def test_hosts_of_an_address_do_not_wait_out_a_horizon_for_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an address had to give, twice a second, was held against what a host could give in five minutes."""
    names = [f"h{number}.a{number}.test" for number in range(20)]
    web = Web({url: links for name in names for url, links in star(name, 9).items()})
    crawl = Crawl(tmp_path, web, [f"http://{name}/" for name in names], monkeypatch)
    crawl.names.answers.update(dict.fromkeys(names, "192.0.2.1"))
    crawl.config.politeness.gap_host_seconds = 5.0
    crawl.run()
    assert len(crawl.outcomes()) == 200
    requests = len(web.log)
    assert crawl.clock.now() - START < 0.51 * requests + 60
