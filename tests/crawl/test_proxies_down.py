"""A proxy that does not answer is our own outage: under virtual time, nothing is charged to the hosts behind it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from irlcrawl.ask import why
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.base.reasons import Reason
from irlcrawl.config.keys import Site
from irlcrawl.config.toml import to_toml
from irlcrawl.crawl import status
from tests.crawl.virtual_crawl import START, Answer, Crawl, Web, star

PROXY = "http://127.0.0.1:3128"
BACK = START + 20 * 60.0


def crawl_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Crawl:
    """Two hosts behind a proxy that is not there for twenty minutes: hosts are given up within a few."""
    web = Web({url: links for n in range(2) for url, links in star(f"h{n}.s{n}.test", 3).items()})
    crawl = Crawl(tmp_path / "job", web, [f"http://h{n}.s{n}.test/" for n in range(2)], monkeypatch)
    crawl.config.network.proxy = PROXY
    crawl.config.limits.wait_hours = 0.1
    for n in range(2):
        web.moods[f"h{n}.s{n}.test"] = lambda url, now: (
            Answer(reason=Reason.CONNECT, proxy_down=PROXY) if now < BACK else None
        )
    return crawl


def test_a_dead_proxy_is_charged_to_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts were given up with `connect` after some minutes."""
    crawl = crawl_of(tmp_path, monkeypatch)
    told: list[str] = []
    crawl.path.mkdir()
    JobDir(crawl.path).write_config(to_toml(crawl.config))

    def look(url: str) -> None:
        assert crawl.loop is not None
        record = status.complete(crawl.loop.gauges.record())
        told.append("\n".join(status.lines(record)))
        monkeypatch.setattr("irlcrawl.ask.why.read_status", lambda job: record)
        if len(told) == 40:
            answer = why.why(crawl.job(), url, crawl.clock.now())
            assert answer["host"]["proxy_down"].startswith(f"{PROXY}; asked"), "it said that it may be asked now"

    crawl.on_request = look
    assert crawl.run() == ExitCode.DONE
    assert set(crawl.outcomes().values()) == {("fetched", "ok")} and len(crawl.outcomes()) == 2 * 4
    known = rf"proxy     {PROXY} has let nothing through for 19 min \d+ s; the hosts behind it wait, and are charged"
    assert any(re.search(known, each) for each in told)
    assert "has let nothing through" not in told[-1]
    before = [at for at, _ in crawl.web.log if at < BACK]
    assert len(before) < (BACK - START) / 10  # one of them finds out now and then


def test_hosts_behind_no_proxy_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = crawl_of(tmp_path, monkeypatch)
    crawl.config.site["s1.test"] = Site(proxy="")
    del crawl.web.moods["h1.s1.test"]
    assert crawl.run() == ExitCode.DONE
    assert max(at for at, url in crawl.web.log if "s1.test" in url) < START + 600
    assert set(crawl.outcomes().values()) == {("fetched", "ok")}
