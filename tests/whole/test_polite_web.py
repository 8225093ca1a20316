"""Politeness as the servers see it: fifty hosts on ten addresses, a gap of half a second, judged by the access log."""

from __future__ import annotations

import time
from bisect import bisect_left
from pathlib import Path
from typing import ClassVar

import pytest
from conftest import Serve
from webcrawl import Crawl, Tree, outcomes

from irlcrawl.ask import politeness_audit
from irlcrawl.base.job import JobDir
from tools.docsweb import audit

GAP_S = 0.5
HOSTS = {f"h{n:02}.test": f"127.62.0.{n % 10 + 1}" for n in range(50)}
PAGES = 4


def test_no_host_or_address_sees_a_request_too_soon_and_none_is_idle(serve: Serve, job: Path) -> None:
    tree = Tree(PAGES)
    web = serve(tree, HOSTS)
    settings = {
        "politeness.gap_host_seconds": GAP_S,
        "politeness.gap_address_seconds": GAP_S,
        "politeness.gap_host_factor": 0,
    }
    ended = Crawl(job, web.resolver, [web.url(host) for host in HOSTS], settings).run(90)
    assert ended.code == 0, ended.output
    requests = audit.read(web.log)
    expected = {web.url(host, target) for host in HOSTS for target in tree.targets()}
    assert {url for url, outcome in outcomes(job).items() if outcome == "fetched"} == expected
    report = audit.report(requests, expected, set())
    assert (report["missing"], report["repeated"]) == ([], [])
    assert audit.closest(requests, "host") >= GAP_S
    assert audit.closest(requests, "address") >= GAP_S
    # Each address has the same work, so each should be in use, or in its gap, nearly until the last request of all.
    since = min(r.start for r in requests)
    until = min(max(r.end for r in requests if r.address == address) for address in set(HOSTS.values()))
    idle = audit.idle_share(requests, GAP_S, since, until)
    assert idle.keys() == set(HOSTS.values())
    assert max(idle.values()) < 0.25, idle


@pytest.mark.slow  # in virtual time: tests/crawl/test_shared_address.py
def test_many_sites_at_one_address_that_bears_it_share_many_requests_a_second(serve: Serve, job: Path) -> None:
    """They shared less than two: one request at a time, and a gap behind each. Here the address begins with ten."""
    hosts = {f"www.s{n}.test": "127.62.3.1" for n in range(80)}
    tree = Tree(1)
    web = serve(tree, hosts)
    settings = {"politeness.gap_host_seconds": GAP_S, "politeness.gap_address_seconds": 0.1}
    ended = Crawl(job, web.resolver, [web.url(host) for host in hosts], settings).run(90)
    assert ended.code == 0, ended.output
    requests = sorted(audit.read(web.log), key=lambda request: request.start)
    assert len(requests) == (1 + len(tree.targets())) * len(hosts)
    assert audit.closest(requests, "host") >= GAP_S
    quickest = min(b.start - a.start for a, b in zip(requests, requests[40:], strict=False))
    assert 40 * 0.02 - 1.0 <= quickest < 40 / 20
    told = politeness_audit.audit(JobDir(job), 3)
    assert (told["requests"], told["broken"], told["address"]["clocks"]) == (len(requests), 0, 1)


def busiest(requests: list[audit.Request], seconds: float) -> float:
    """Requests a second in the `seconds` that had most."""
    starts = sorted(request.start for request in requests)
    return max(bisect_left(starts, start + seconds) - at for at, start in enumerate(starts)) / seconds


@pytest.mark.slow
def test_two_hundred_sites_at_one_address_reach_twenty_requests_a_second_with_the_defaults(
    serve: Serve, job: Path
) -> None:
    hosts = {f"www.s{n}.test": "127.62.4.1" for n in range(200)}
    tree = Tree(8)
    web = serve(tree, hosts)
    ended = Crawl(job, web.resolver, [web.url(host) for host in hosts], {}).run(300)
    assert ended.code == 0, ended.output
    requests = audit.read(web.log)
    assert len(requests) == (1 + len(tree.targets())) * len(hosts)
    assert busiest(requests, 10.0) >= 20.0
    assert audit.closest(requests, "host") >= 1.0
    assert politeness_audit.audit(JobDir(job), 3)["broken"] == 0


@pytest.mark.slow
def test_an_address_that_throttles_above_five_a_second_is_held_below_that_within_a_minute(
    serve: Serve, job: Path
) -> None:
    class Throttling(Tree):
        asked: ClassVar[list[float]] = []

        async def __call__(self, ask):  # type: ignore[no-untyped-def]
            reply = await super().__call__(ask)
            now = time.monotonic()
            if len(self.asked) - bisect_left(self.asked, now - 1.0) >= 5:
                reply.status = 429
            else:
                self.asked.append(now)
            return reply

    hosts = {f"www.s{n}.test": "127.62.5.1" for n in range(60)}
    web = serve(Throttling(20), hosts)
    ended = Crawl(job, web.resolver, [web.url(host) for host in hosts], {"limits.seconds": 130}).run(300)
    assert ended.code == 15, ended.output
    requests = audit.read(web.log)
    first = min(request.start for request in requests)
    late = [request for request in requests if request.start >= first + 60.0]
    assert len(late) > 3.0 * 60.0 and busiest(late, 10.0) <= 5.2
    assert sum(request.status == 429 for request in late) < 0.05 * len(late)
    assert audit.closest(requests, "host") >= 1.0
    assert politeness_audit.audit(JobDir(job), 3)["broken"] == 0


def test_a_crawl_delay_is_kept_and_stays_with_its_host(serve: Serve, job: Path) -> None:
    """The delayed host shares its address with one that is not."""

    class Delayed(Tree):
        async def __call__(self, ask):  # type: ignore[no-untyped-def]
            reply = await super().__call__(ask)
            if ask.path == "/robots.txt" and ask.host == "slow.test":
                reply.body += b"Crawl-delay: 1.5\n"
            return reply

    web = serve(Delayed(3), {"slow.test": "127.62.1.1", "quick.test": "127.62.1.1"})
    settings = {
        "politeness.gap_host_seconds": 0.2,
        "politeness.gap_address_seconds": 0.1,
        "politeness.gap_host_factor": 0,
    }
    ended = Crawl(job, web.resolver, [web.url("slow.test"), web.url("quick.test")], settings).run()
    assert ended.code == 0, ended.output
    requests = audit.read(web.log)
    assert audit.closest([r for r in requests if r.host == "slow.test"], "host") >= 1.5
    quick = [r for r in requests if r.host == "quick.test"]
    assert 0.2 <= audit.closest(quick, "host") < 1.5
    assert audit.closest(requests, "address") >= 0.1


def test_retry_after_is_waited_for(serve: Serve, job: Path) -> None:
    class Busy(Tree):
        asked = 0

        async def __call__(self, ask):  # type: ignore[no-untyped-def]
            reply = await super().__call__(ask)
            if ask.path == "/":
                self.asked += 1
                if self.asked == 1:
                    reply.status = 429
                    reply.headers.append(("Retry-After", "2"))
            return reply

    web = serve(Busy(2), {"busy.test": "127.62.2.1"})
    settings = {"politeness.gap_host_seconds": 0.1, "politeness.gap_host_factor": 0, "politeness.backoff_seconds": 0.1}
    settings |= {"politeness.retry_delay_seconds": 0.1, "politeness.rest_seconds": 0.5}
    ended = Crawl(job, web.resolver, [web.url("busy.test")], settings).run()
    assert ended.code == 0, ended.output
    home = [r for r in audit.read(web.log) if r.uri == "/"]
    assert [r.status for r in home] == [429, 200]
    assert home[1].start - home[0].end + audit.RESOLUTION_S >= 2
    assert set(outcomes(job).values()) == {"fetched", "excluded(robots)"}
