"""Bandwidth, in whole crawls under virtual time: over any minute no more bytes come in than the configuration says, and
what it allows is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.config.checks import check_start
from irlcrawl.config.keys import ConfigError, Site
from irlcrawl.config.toml import load
from irlcrawl.frontier.dispatch.bandwidth import Bandwidth
from tests.crawl.virtual_crawl import Answer, Crawl, Web

BODY, RATE, PAGES = 20_000, 50_000, 30


def crawl_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hosts: list[str]) -> Crawl:
    web = Web(fetch_s=0.2)
    for host in hosts:
        links = "".join(f'<a href="/{n}">x</a>' for n in range(PAGES)).encode()
        web.answers[f"http://{host}/"] = Answer(200, {"content-type": "text/html"}, links)
        for n in range(PAGES):
            web.answers[f"http://{host}/{n}"] = Answer(200, {"content-type": "text/plain"}, b"%d" % n * (BODY // 2))
    return Crawl(tmp_path / "job", web, [f"http://{host}/" for host in hosts], monkeypatch, workers=2)


def most_in_a_minute(web: Web, site: str = "") -> tuple[int, float]:
    """The most bytes of bodies in a minute, and bytes a second over all."""
    sent = [(at, len(web.answers[url].body)) for at, url in web.log if url in web.answers and site in url]
    most = max(sum(size for at, size in sent if first <= at < first + 60) for first, _ in sent)
    return most, sum(size for _, size in sent) / (sent[-1][0] - sent[0][0])


def test_a_crawl_takes_in_no_more_than_it_may_and_no_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = crawl_of(tmp_path, monkeypatch, [f"h{n}.s{n}.test" for n in range(20)])
    crawl.config.limits.bytes_per_second = RATE
    assert crawl.run() == ExitCode.DONE
    most, mean = most_in_a_minute(crawl.web)
    assert most <= 1.1 * 60 * RATE
    assert mean >= 0.85 * RATE


def test_a_site_sends_no_more_than_it_may_and_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = ["www.a.test", "b.a.test", "c.a.test", "free.test"]
    crawl = crawl_of(tmp_path, monkeypatch, hosts)
    crawl.config.site["a.test"] = Site(bytes_per_second=10_000)
    assert crawl.run() == ExitCode.DONE
    most, mean = most_in_a_minute(crawl.web, "a.test")
    assert most <= 1.1 * 60 * 10_000
    assert mean >= 0.8 * 10_000
    free = [at for at, url in crawl.web.log if "free.test" in url]
    assert free[-1] - free[0] < 3 * PAGES


def test_one_host_alone_pays_between_its_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without gaps, so that one visit has all of them."""
    crawl = crawl_of(tmp_path, monkeypatch, ["www.a.test"])
    crawl.config.politeness.gap_host_seconds = crawl.config.politeness.gap_address_seconds = 0.0
    crawl.config.site["a.test"] = Site(bytes_per_second=5_000)
    assert crawl.run() == ExitCode.DONE
    most, mean = most_in_a_minute(crawl.web)
    assert most <= 1.1 * 60 * 5_000 and mean >= 0.8 * 5_000


@pytest.mark.parametrize("hosts", [1, 20])
def test_small_home_pages_let_large_files_exceed_the_rate_many_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hosts: int
) -> None:
    """In one visit, and in many at once."""
    crawl = crawl_of(tmp_path, monkeypatch, [f"h{n}.s{n}.test" for n in range(hosts)])
    for url, answer in crawl.web.answers.items():
        if not url.endswith("/"):
            crawl.web.answers[url] = Answer(200, answer.header, bytes(300_000))
    crawl.config.politeness.gap_host_seconds = crawl.config.politeness.gap_address_seconds = 0.0
    crawl.config.limits.bytes_per_second, crawl.config.limits.pages = 100_000, 60
    assert crawl.run() in (ExitCode.DONE, ExitCode.SIZE_LIMIT)
    most, mean = most_in_a_minute(crawl.web)
    assert most <= 1.15 * 60 * 100_000 and mean >= 0.8 * 100_000


def test_nothing_is_known_at_first() -> None:
    """A URL is charged with the largest body there may be, until one came."""
    band = Bandwidth(1000.0, 1_000_000)
    assert band.urls(100.0, 50) == 1
    charged = band.leased(1)
    assert band.urls(101.0, 50) == 0
    band.ended(charged, 500, 1)
    assert band.urls(102.0, 50) == 1, "one small body says little of the next"
    for _ in range(400):
        band.ended(band.leased(1), 500, 1)
    assert band.urls(1000.0, 50) == 3
    assert Bandwidth(0.0, 1.0).urls(100.0, 50) == 50


def test_a_bandwidth_of_a_host_is_refused_with_its_site() -> None:
    config = load(overrides=["crawl.user_agent=T/1 (+http://a.example/)", 'site."www.a.test".bytes_per_second=9'])
    with pytest.raises(ConfigError, match=r'\[site."a.test"\]'):
        check_start(config)
