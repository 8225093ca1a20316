"""A host that answers with challenges, in whole crawls under virtual time: it is asked less and less, each URL once,
and nothing is taken from what it sends."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from irlcrawl.base.exit_codes import ExitCode
from tests.crawl.virtual_crawl import Answer, Crawl, Web, star

PAGES = 6
CHALLENGE = b'<title>x</title><div id="sec-if-cpt-container"><a href="http://a.test/trap">x</a></div>'


def test_a_host_of_challenges_is_asked_less_and_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    web = Web({"http://seed.test/": [f"http://a.test/{n}" for n in range(PAGES)]})
    web.moods["a.test"] = lambda url, now: (
        None if url.endswith("robots.txt") else Answer(200, {"content-type": "text/html"}, CHALLENGE)
    )
    crawl = Crawl(tmp_path / "job", web, ["http://seed.test/"], monkeypatch)
    crawl.config.politeness.host_dead_hours = 100.0
    assert crawl.run() == ExitCode.DONE
    asked = [at for at, url in web.log if url.startswith("http://a.test/") and not url.endswith("robots.txt")]
    gaps = [later - earlier for earlier, later in pairwise(asked)]
    assert len(asked) == PAGES
    assert all(gap >= 5.0 * 2**n for n, gap in enumerate(gaps))
    outcomes = crawl.outcomes()
    assert {outcomes[f"http://a.test/{n}"] for n in range(PAGES)} == {("fetched", "challenge")}
    assert "http://a.test/trap" not in outcomes


def test_a_parked_domain_is_no_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    web = Web(star("a.test", 3))
    parked = b'<html data-adblockkey="MFww"><a href="http://ads.test/">x</a>'
    web.moods["p.test"] = lambda url, now: Answer(200, {"content-type": "text/html"}, parked)
    crawl = Crawl(tmp_path / "job", web, ["http://a.test/", "http://p.test/", "http://p.test/2"], monkeypatch)
    assert crawl.run() == ExitCode.DONE
    outcomes = crawl.outcomes()
    assert outcomes["http://p.test/"] == outcomes["http://p.test/2"] == ("fetched", "parked")
    assert "http://ads.test/" not in outcomes
