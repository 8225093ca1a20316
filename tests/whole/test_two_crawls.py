"""Two crawls of the same hosts on one machine, in directories of their own, as the servers see them."""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import Serve
from webcrawl import Crawl, Running, Tree, outcomes

from tools.docsweb import audit
from tools.sampleweb.server import Ask, Reply, RunningWeb

GAP_HOST_S, GAP_ADDRESS_S = 0.3, 0.2
HOSTS = {f"h{n}.test": f"127.65.0.{n % 2 + 1}" for n in range(4)}


class Robots(Tree):
    """One host's robots.txt is another's, which a visit asks for beside its own."""

    async def __call__(self, ask: Ask) -> Reply:
        if ask.path == "/robots.txt" and ask.host == "h3.test":
            return Reply(
                301, headers=[("Location", f"http://h0.test:{ask.headers['host'].rpartition(':')[2]}/robots.txt")]
            )
        return await super().__call__(ask)


def started(web: RunningWeb, job: Path, machine_clocks: str) -> Running:
    settings = {
        "politeness.gap_host_seconds": GAP_HOST_S,
        "politeness.gap_address_seconds": GAP_ADDRESS_S,
        "politeness.gap_host_factor": 0,
        "politeness.machine_clocks": machine_clocks,
    }
    return Crawl(job, web.resolver, [web.url(host) for host in HOSTS], settings).start()


@pytest.mark.parametrize("shared", [True, False])
def test_two_crawls_keep_the_gaps_together(serve: Serve, tmp_path: Path, shared: bool) -> None:
    """They asked one host 0.03 s apart, and still do if they are told to."""
    tree = Robots(3)
    web = serve(tree, HOSTS)
    (tmp_path / "machine").mkdir()
    jobs = [tmp_path / "one", tmp_path / "two"]
    crawls = [started(web, job, str(tmp_path / "machine") if shared else "") for job in jobs]
    for crawl in crawls:
        ended = crawl.wait(90)
        assert ended.code == 0, ended.output
    expected = {web.url(host, target) for host in HOSTS for target in tree.targets()}
    for job in jobs:
        assert {url for url, outcome in outcomes(job).items() if outcome == "fetched"} == expected
    requests = audit.read(web.log)
    assert (audit.closest(requests, "host") >= GAP_HOST_S) is shared
    assert (audit.closest(requests, "address") >= GAP_ADDRESS_S) is shared


def test_a_killed_crawl_holds_up_the_other_one_for_no_longer_than_a_gap(serve: Serve, tmp_path: Path) -> None:
    asked = threading.Semaphore(0)

    class Watched(Tree):
        async def __call__(self, ask: Ask) -> Reply:
            asked.release()
            return await super().__call__(ask)

    web = serve(Watched(4), HOSTS)
    (tmp_path / "machine").mkdir()
    crawls = [started(web, tmp_path / name, str(tmp_path / "machine")) for name in ("one", "two")]
    for _ in range(8):
        assert asked.acquire(timeout=60)
    crawls[0].kill()
    ended = crawls[1].wait(90)
    assert ended.code == 0, ended.output
    requests = audit.read(web.log)
    assert audit.closest(requests, "host") >= GAP_HOST_S
    waits = [later.start - earlier.end for earlier, later in pairwise(requests)]
    assert max(waits) < 10, "visits that the killed crawl had out could have lasted 90 s"
