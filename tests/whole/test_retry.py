"""`irlcrawl retry` beside a crawl that runs: what failed is asked again by that very run."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from conftest import Serve
from webcrawl import NO_GAPS, Crawl, outcomes, page

from tools.sampleweb.server import Ask, Reply

HOSTS = {"ill.test": "127.64.0.1", "slow.test": "127.64.0.2"}
ROUNDS = 30


class Held:
    """ill.test fails the first time its page is asked for; the page of slow.test comes once it was asked again."""

    def __init__(self) -> None:
        self.asked = 0
        self.again = asyncio.Event()

    async def __call__(self, ask: Ask) -> Reply:
        if ask.path == "/robots.txt":
            return Reply(404)
        if ask.host.startswith("slow.test"):
            await self.again.wait()
            return page([])
        self.asked += 1
        if self.asked == 1:
            return Reply(503)
        self.again.set()
        return page(["/new"]) if ask.path == "/" else page([])


def test_a_running_crawl_asks_again_for_what_is_put_back(serve: Serve, job: Path) -> None:
    held = Held()
    web = serve(held, HOSTS)
    settings = NO_GAPS | {"politeness.retries_max": 0, "politeness.backoff_seconds": 0}
    settings |= {"fetch.total_seconds": 300, "fetch.read_seconds": 300}
    crawl = Crawl(job, web.resolver, [web.url(host) for host in HOSTS], settings)
    running = crawl.start()
    said = ""
    for _ in range(ROUNDS):  # until a commit knows of the failure
        told = subprocess.run(
            [sys.executable, "-m", "irlcrawl", "retry", str(job), "--status", "503", "--host", "ill.test"],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        said = told.stdout + told.stderr
        if told.returncode == 0 and said.startswith("put back"):
            break
    assert said == "put back 1 URL: 1 fetched (throttled)\nthe crawl asks for them within seconds\n"
    ended = running.wait()
    assert ended.code == 0, ended.output
    wanted = {web.url("ill.test"), web.url("ill.test", "/new"), web.url("slow.test")}
    assert outcomes(job) == dict.fromkeys(wanted, "fetched") and held.asked == 3
    assert subprocess.run([sys.executable, "-m", "irlcrawl", "fsck", str(job), "--quiet"], timeout=60).returncode == 0
