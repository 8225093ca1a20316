"""kill -9 of the whole process group, three times in one crawl, each followed by the same command: nothing is lost.

The moments are drawn from a seed and counted in requests, not seconds, so that a fast machine is killed as often as a
slow one; the server stops the crawl at exactly that request, and what was in flight then is known from its log.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from collections import Counter
from pathlib import Path

import pytest
from conftest import Serve
from webcrawl import NO_GAPS, Crawl, Tree, check_warcs, outcomes, responses

from bench.crawl import tree
from bench.crawl.ours import is_worker
from tools.docsweb import audit
from tools.sampleweb.server import Ask, Reply

HOSTS = {f"k{n}.test": f"127.63.0.{n + 1}" for n in range(4)}
PAGES = 120
KILLS = 3


class Tripwire(Tree):
    """A tree that sets `tripped` at the `at`-th request it is asked."""

    def __init__(self, pages: int) -> None:
        super().__init__(pages)
        self.asked = 0
        self.at = 0
        self.tripped = threading.Event()

    def arm(self, more: int) -> None:
        self.tripped.clear()
        self.at = self.asked + more

    async def __call__(self, ask: Ask) -> Reply:
        self.asked += 1
        if self.asked == self.at:
            self.tripped.set()
        return await super().__call__(ask)


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_three_times(serve: Serve, job: Path, seed: int) -> None:
    draw = random.Random(seed)
    site = Tripwire(PAGES)
    web = serve(site, HOSTS)
    crawl = Crawl(job, web.resolver, [web.url(host) for host in HOSTS], NO_GAPS | {"frontier.harvest_seconds": 0.5})
    for _ in range(KILLS):
        site.arm(draw.randrange(1, len(HOSTS) * PAGES // KILLS))
        running = crawl.start()
        assert site.tripped.wait(60), running.output.read_text()
        running.kill()
    ended = crawl.run()
    assert ended.code == 0, ended.output

    expected = {web.url(host, target) for host in HOSTS for target in site.targets()}
    secret = {web.url(host, f"/secret/{n}") for host in HOSTS for n in range(5)}
    assert outcomes(job) == dict.fromkeys(expected, "fetched") | dict.fromkeys(secret, "excluded(robots)")
    assert responses(job) == dict.fromkeys(expected, 1)  # archived once: nothing lost, nothing fetched again
    check_warcs(job)
    # A request that was in flight may be repeated: one per host and kill at most, robots.txt included.
    requests = audit.read(web.log)
    assert {r.url for r in requests if r.uri.startswith("/secret/")} == set()
    again = {url: n - 1 for url, n in Counter(r.url for r in requests).items() if n > 1}
    per_host = Counter(url.split("/")[2] for url, n in again.items() for _ in range(n))
    assert max(per_host.values(), default=0) <= KILLS, again


def test_killed_in_its_first_moments(serve: Serve, job: Path) -> None:
    """Before, at and just after the first request: a crawl that has hardly begun can be gone on with."""
    site = Tripwire(10)
    web = serve(site, HOSTS)
    crawl = Crawl(job, web.resolver, [web.url(host) for host in HOSTS], NO_GAPS)
    for more in (1, 2):
        site.arm(more)
        running = crawl.start()
        assert site.tripped.wait(60), running.output.read_text()
        running.kill()
    assert crawl.run().code == 0
    assert responses(job) == dict.fromkeys((web.url(host, t) for host in HOSTS for t in site.targets()), 1)
    check_warcs(job)


def test_a_gap_is_kept_across_a_kill(serve: Serve, job: Path) -> None:
    site = Tripwire(4)
    web = serve(site, {"k0.test": "127.63.0.1"})
    settings = {
        "politeness.gap_host_seconds": 1.5,
        "politeness.gap_address_seconds": 0.5,
        "politeness.gap_host_factor": 0,
    }
    crawl = Crawl(job, web.resolver, [web.url("k0.test")], settings)
    for more in (2, 1):
        site.arm(more)
        running = crawl.start()
        assert site.tripped.wait(60), running.output.read_text()
        running.kill()
    assert crawl.run().code == 0
    assert audit.closest(audit.read(web.log), "host") >= 1.5
    assert set(responses(job)) == {web.url("k0.test", t) for t in site.targets()}


def test_a_hung_worker_is_killed_by_its_deadline_and_replaced(serve: Serve, job: Path) -> None:
    """It stands still with visits out: the crawl goes on, and nothing that it held is lost."""
    site = Tripwire(PAGES)
    web = serve(site, HOSTS)
    settings = NO_GAPS | {"frontier.harvest_seconds": 0.5, "fetch.worker_silent_seconds": 2}
    crawl = Crawl(job, web.resolver, [web.url(host) for host in HOSTS], settings)
    site.arm(60)
    running = crawl.start()
    assert site.tripped.wait(60), running.output.read_text()
    hung = next(pid for pid in tree.descendants(running.process.pid) if is_worker(pid))
    os.kill(hung, signal.SIGSTOP)
    ended = running.wait()
    assert ended.code == 0, ended.output
    assert "died" in ended.output and "took its place" in ended.output
    expected = {web.url(host, target) for host in HOSTS for target in site.targets()}
    assert responses(job) == dict.fromkeys(expected, 1)
    check_warcs(job)
