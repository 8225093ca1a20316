"""Many hosts on one address, end to end under virtual time: the address is busy and nobody is asked too soon."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Coroutine
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from irlcrawl.ask import politeness_audit
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.base.reasons import Reason
from irlcrawl.config.toml import to_toml
from irlcrawl.worker.fetch.http import Fetched, Request
from tests.crawl.virtual_crawl import Answer, Crawl, Killed, Web, star

GAP_ADDRESS_S = 0.1


@pytest.mark.parametrize("gap_address_s", [0.0, GAP_ADDRESS_S])
def test_an_address_is_busy_though_each_of_its_hosts_has_a_longer_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gap_address_s: float
) -> None:
    """Each host's first visit held the address for the host's own gap, between robots.txt and the page: 5,000 hosts on
    one address got two requests a second where ten were allowed."""
    names = [f"h{n}.s{n}.test" for n in range(40)]
    web = Web({url: links for name in names for url, links in star(name, 2).items()}, fetch_s=0.01)
    crawl = Crawl(tmp_path / "job", web, [f"http://{name}/" for name in names], monkeypatch)
    crawl.names.answers = dict.fromkeys(names, "10.0.0.1")
    crawl.config.politeness.gap_host_seconds = 2.0
    crawl.config.politeness.gap_address_seconds = gap_address_s
    began = crawl.clock.now()
    assert crawl.run(hours=1) == ExitCode.DONE
    requests = 4 * len(names)  # robots.txt and three pages each
    assert len(web.log) == requests
    busy = requests * (gap_address_s + web.fetch_s)
    assert crawl.clock.now() - began < 2 * max(busy, 3 * 2.0) + 10
    starts: dict[str, list[float]] = {}
    for at, url in web.log:
        starts.setdefault(urlsplit(url).netloc, []).append(at)
    assert all(b - a >= 2.0 for each in starts.values() for a, b in pairwise(each))


ADDRESS = "10.0.0.1"


def sharing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], pages: int, fetch_s: float = 0.3
) -> Crawl:
    """A crawl of these hosts, all at one address, with the default gaps."""
    web = Web({url: links for name in names for url, links in star(name, pages).items()}, fetch_s=fetch_s)
    crawl = Crawl(tmp_path / "job", web, [f"http://{name}/" for name in names], monkeypatch)
    crawl.names.answers = dict.fromkeys(names, ADDRESS)
    return crawl


def kept_its_promises(crawl: Crawl) -> None:
    """By the web's own log no host was asked within a second of its last answer, and the audit finds nothing either."""
    starts: dict[str, list[float]] = {}
    for at, url in crawl.web.log:
        starts.setdefault(urlsplit(url).netloc, []).append(at)
    assert all(b - a >= 1.0 + crawl.web.fetch_s - 1e-6 for each in starts.values() for a, b in pairwise(each))
    JobDir(crawl.path).write_config(to_toml(crawl.config))
    told = politeness_audit.audit(JobDir(crawl.path), 3)
    assert told["requests"] > 0.9 * len(crawl.web.log)  # a kill leaves none of those that were out
    assert told["broken"] == 0


def rate(crawl: Crawl, since: float, until: float) -> float:
    """Requests a second between two times, in seconds from the first request."""
    times, first = [at for at, _ in crawl.web.log], crawl.web.log[0][0]
    return (bisect_left(times, first + until) - bisect_left(times, first + since)) / (until - since)


def end_after(seconds: float) -> Callable[[Crawl], Coroutine[Any, Any, None]]:
    async def stop(crawl: Crawl) -> None:
        await asyncio.sleep(seconds)
        crawl.kill()

    return stop


def test_two_hundred_sites_at_an_address_that_bears_it_share_many_requests_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They shared 1.25: one request at a time, and half a second between two."""
    crawl = sharing(tmp_path, monkeypatch, [f"www.s{n}.test" for n in range(200)], 10)
    began = crawl.clock.now()
    assert crawl.run(hours=1) == ExitCode.DONE
    assert len(crawl.web.log) == 200 * 12
    assert crawl.clock.now() - began < 100
    assert rate(crawl, 30.0, 50.0) > 20.0
    kept_its_promises(crawl)


def test_an_address_that_throttles_is_held_below_that_within_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server answers 429 to more than five requests in a second."""
    names = [f"www.s{n}.test" for n in range(40)]
    crawl = sharing(tmp_path, monkeypatch, names, 25)
    throttled: list[float] = []
    asked: list[float] = []

    def mood(url: str, now: float) -> Answer | None:
        recent = len(asked) - bisect_left(asked, now - 1.0)
        if recent >= 5:
            throttled.append(now)
            return Answer(429)
        asked.append(now)
        return None

    crawl.web.moods = dict.fromkeys(names, mood)
    with pytest.raises(Killed):
        crawl.run(main=end_after(200.0))
    assert all(rate(crawl, at, at + 10.0) <= 5.2 for at in range(50, 190, 10))
    assert 3.5 < rate(crawl, 60.0, 190.0) <= 5.0
    late = [at for at in throttled if at >= crawl.web.log[0][0] + 60.0]
    assert len(throttled) < 20 and len(late) < 10


@pytest.mark.parametrize("bad", [Answer(404), Answer(503), Answer(reason=Reason.CONNECT)])
def test_a_site_that_always_fails_slows_down_no_other_of_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: Answer
) -> None:
    """Each failure of any host doubled the gap of its address. A site without pages is what is compared with."""
    names = [f"www.s{n}.test" for n in range(50)]
    crawl = sharing(tmp_path, monkeypatch, names, 6)
    crawl.web.moods[names[0]] = lambda url, now: bad
    with suppress(Killed):  # or it ends before that
        crawl.run(main=end_after(100.0))
    good = [at for at, url in crawl.web.log if urlsplit(url).netloc != names[0]]
    assert len(good) == 49 * 8
    assert good[-1] - good[0] < 28.0


def test_a_host_that_hangs_keeps_its_address_from_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A visit had the address to itself, until it timed out."""
    names = [f"www.s{n}.test" for n in range(50)]
    crawl = sharing(tmp_path, monkeypatch, names, 4)
    fetch = Crawl._fetch

    async def hanging(self: Crawl, request: Request) -> Fetched:
        if request.host in names[:3]:
            await asyncio.sleep(30.0)
        return await fetch(self, request)

    monkeypatch.setattr(Crawl, "_fetch", hanging)
    with pytest.raises(Killed):
        crawl.run(main=end_after(60.0))
    assert len([url for _, url in crawl.web.log if urlsplit(url).netloc not in names[:3]]) == 47 * 6


def test_two_hundred_hosts_of_one_domain_share_a_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were asked two hundred times in a second, each at an address of its own."""
    names = [f"h{n}.one.test" for n in range(200)]
    crawl = sharing(tmp_path, monkeypatch, names, 1)
    crawl.names.answers = {}
    with pytest.raises(Killed):
        crawl.run(main=end_after(30.0))
    times = [at for at, _ in crawl.web.log]
    assert min(b - a for a, b in pairwise(times)) >= 0.2 - 1e-6
    assert len(times) > 0.9 * 30.0 / 0.2
    kept_its_promises(crawl)


def test_the_hosts_of_an_ordinary_site_wait_for_no_clock_of_the_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{name}.one.test" for name in ("www", "m", "shop", "blog")]
    crawl = sharing(tmp_path, monkeypatch, names, 20)
    crawl.names.answers = {}
    began = crawl.clock.now()
    assert crawl.run(hours=1) == ExitCode.DONE
    assert crawl.clock.now() - began < 22 * 1.3 + 5
    assert "gap_site" not in JobDir(crawl.path).crawl_log.read_text()
    kept_its_promises(crawl)


def test_what_an_address_bears_outlives_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would begin anew with two requests a second, and run into the same 429s."""
    crawl = sharing(tmp_path, monkeypatch, [f"www.s{n}.test" for n in range(100)], 30)
    with pytest.raises(Killed):
        crawl.run(main=end_after(30.0))
    before = rate(crawl, 20.0, 29.0)
    asked = len(crawl.web.log)
    crawl.clock.advance(3600.0)
    with pytest.raises(Killed):
        crawl.run(main=end_after(10.0))
    after = (len(crawl.web.log) - asked) / 10
    assert before > 10 and after > 0.6 * before
    kept_its_promises(crawl)


def test_redirects_of_robots_txt_at_a_shared_address_are_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a host and from a domain to its www, as nearly every site has one."""
    names = [f"s{n}.test" for n in range(30)]
    crawl = sharing(tmp_path, monkeypatch, names, 2)
    for n, name in enumerate(names):
        target = f"http://www.{name}/robots.txt" if n % 2 else f"http://{name}/rules"
        crawl.web.answers[f"http://{name}/robots.txt"] = Answer(301, {"location": target})
        crawl.names.answers[f"www.{name}"] = ADDRESS
    began = crawl.clock.now()
    assert crawl.run(hours=1) == ExitCode.DONE
    assert {outcome for outcome, _ in crawl.outcomes().values()} == {"fetched"}
    assert len(crawl.web.log) == 30 * 5 and crawl.clock.now() - began < 60
    kept_its_promises(crawl)
