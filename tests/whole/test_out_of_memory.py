"""A worker whose memory runs out in the middle of a crawl: it says so and dies, and the crawl goes on without it."""

from __future__ import annotations

import resource
from pathlib import Path

from conftest import Serve
from webcrawl import NO_GAPS, Crawl, Tree, check_warcs, outcomes, responses

from bench.crawl import tree
from bench.crawl.ours import is_worker
from tools.sampleweb.server import Ask, Reply

HOSTS = {f"m{n}.test": f"127.63.1.{n + 1}" for n in range(2)}
PAGES, PAGE_BYTES = 16, 2_000_000
ROOM_BYTES = 1 << 20
"""What the workers may still take: less than a page."""


class Heavy(Tree):
    """A tree of large pages. At the `at`-th request the workers below `crawl` may take no more than ROOM_BYTES."""

    def __init__(self, at: int) -> None:
        super().__init__(PAGES)
        self.asked, self.at = 0, at
        self.crawl = 0
        self.starved: list[int] = []

    async def __call__(self, ask: Ask) -> Reply:
        self.asked += 1
        if self.asked == self.at:
            self.starved = [pid for pid in tree.descendants(self.crawl) if is_worker(pid)]
            for pid in self.starved:
                pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
                limit = pages * tree.PAGE_BYTES + ROOM_BYTES
                resource.prlimit(pid, resource.RLIMIT_AS, (limit, limit))
        reply = await super().__call__(ask)
        if reply.status == 200 and isinstance(reply.body, bytes) and ask.path != "/robots.txt":
            reply.body += b"<!--" + b"x" * PAGE_BYTES + b"-->"
        return reply


def test_workers_out_of_memory_are_named_and_replaced(serve: Serve, job: Path) -> None:
    site = Heavy(at=10)
    web = serve(site, HOSTS)
    crawl = Crawl(job, web.resolver, [web.url(host) for host in HOSTS], NO_GAPS | {"frontier.harvest_seconds": 0.5})
    running = crawl.start()
    site.crawl = running.process.pid
    ended = running.wait()
    assert ended.code == 0, ended.output
    assert site.starved and "out of memory" in ended.output and "took its place" in ended.output, ended.output
    assert "Traceback" not in ended.output, ended.output
    expected = {web.url(host, target) for host in HOSTS for target in site.targets()}
    assert responses(job) == dict.fromkeys(expected, 1)
    assert {url for url, how in outcomes(job).items() if how == "fetched"} == expected
    check_warcs(job)
