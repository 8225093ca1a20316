"""A crawl that visits its pages again, with real processes on loopback: pages that change, servers that tell honestly,
wrongly or not at all whether they did, one that is slow, and kill -9 of all of it. Judged by the server's own log of
versions and fetches: no answer is lost or told twice, each page is in one place, every revisit record replays."""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import Serve
from warcio.archiveiterator import ArchiveIterator
from webcrawl import NO_GAPS, Crawl, check_warcs, log_entries, warcs

from irlcrawl.base.job import JobDir
from irlcrawl.cli.main import main
from irlcrawl.frontier.state.view import Reading
from tools.sampleweb.server import Ask, Reply

HONEST, LYING, ABSENT, SLOW = "honest.test", "lying.test", "absent.test", "slow.test"
HOSTS = {name: f"127.64.0.{n}" for n, name in enumerate((HONEST, LYING, ABSENT, SLOW), 1)}
PAGES, VISITS, KILLS, EVERY = 20, 900, 5, 4


@dataclass(frozen=True)
class Fetch:
    url: str
    version: int
    conditional: bool
    status: int


class Changing:
    """Page n of a host is another every 2 ** (n % 5) seconds; those with n % 5 == 4 never change."""

    def __init__(self) -> None:
        self.fetches: list[Fetch] = []
        self.began, self.at, self.tripped = time.monotonic(), 0, threading.Event()

    def arm(self, more: int) -> None:
        self.tripped.clear()
        self.at = len(self.fetches) + more

    async def __call__(self, ask: Ask) -> Reply:
        if ask.path == "/robots.txt":
            return Reply(404)
        if ask.host == SLOW:
            await asyncio.sleep(0.3)
        number = -1 if ask.path == "/" else int(ask.path.removeprefix("/p/"))
        fixed = number < 0 or number % 5 == 4
        version = 0 if fixed else int((time.monotonic() - self.began) / 2 ** (number % 5))
        asked = ask.headers.get("if-none-match")
        tag = '"one"' if ask.host == LYING else f'"{version}"'
        validators = [] if ask.host == ABSENT else [("ETag", tag)]
        links = "".join(f"<a href=/p/{n}>{'x' * n}</a>" for n in range(PAGES)) if number < 0 else ""
        words = " ".join(letter * 4 for letter in f"{version * 7919 + number:032b}".replace("0", "o").replace("1", "l"))
        same = asked == tag and ask.host != ABSENT
        self.fetches.append(Fetch(f"{ask.host}{ask.path}", version, asked is not None, 304 if same else 200))
        if len(self.fetches) == self.at:
            self.tripped.set()
        return (
            Reply(304, b"", headers=validators)
            if same
            else Reply(200, f"<p>{words}</p>{links}".encode(), headers=validators)
        )


def places(job: Path) -> Counter[bytes]:
    """Pages that rest or wait, with their visits."""
    reading = Reading.open(JobDir(job))
    assert reading is not None
    rows = [*reading.pages.scan(), *reading.runs.waiting()]
    found = [(url, n) for batch in rows for url, n in zip(batch["url"].tolist(), batch["visits"].tolist(), strict=True)]
    assert len(found) == len(dict(found)), "a page is in two places"
    return Counter(dict(found))


@pytest.mark.slow
def test_nothing_is_lost_of_pages_that_change(serve: Serve, job: Path) -> None:
    site = Changing()
    web = serve(site, HOSTS)
    settings = NO_GAPS | {
        "revisit.enabled": "true", "revisit.every_min_seconds": 0.3, "revisit.first_rate_days": 0.001,
        "revisit.chance_min": 0, "revisit.unconditional_every": EVERY, "limits.pages": VISITS,
        "frontier.harvest_seconds": 0.5, "politeness.gap_host_seconds": 0.05,
    }  # fmt: skip
    crawl = Crawl(job, web.resolver, [web.url(host) for host in HOSTS], settings)
    for _ in range(KILLS):
        site.arm(VISITS // (KILLS + 2))
        running = crawl.start()
        assert site.tripped.wait(180), running.output.read_text()
        running.kill()
        assert main(["fsck", os.fspath(job), "--quiet"]) == 0
    ended = crawl.run(timeout_s=300)
    assert ended.code == 14, ended.output

    assert main(["fsck", os.fspath(job), "--quiet"]) == 0
    check_warcs(job)
    logged = Counter(entry.url for entry in log_entries(job) if entry.outcome == "fetched")
    assert places(job) == logged and len(logged) == len(HOSTS) * (PAGES + 1)
    served = Counter(f"http://{fetch.url}" for fetch in site.fetches)
    told = Counter({re.sub(r":\d+/", "/", url.decode()): visits for url, visits in logged.items()})
    # Two workers have a visit or more out when they are killed: that many answers may be in no archive.
    assert not told - served, "more is told than was served"
    assert (served - told).total() <= KILLS * 2 * len(HOSTS), served - told

    _check_conditions(site)
    _check_records(job)


def _check_conditions(site: Changing) -> None:
    """304s of the honest are used; who says 304 of what changed is soon asked for all of it; who has no validators is
    never asked with any."""
    by_host: defaultdict[str, list[Fetch]] = defaultdict(list)
    for fetch in site.fetches:
        by_host[fetch.url.split("/")[0]].append(fetch)
    assert sum(fetch.status == 304 for fetch in by_host[HONEST]) > 20
    assert not any(fetch.conditional for fetch in by_host[ABSENT])
    last: dict[str, list[Fetch]] = defaultdict(list)
    for fetch in by_host[LYING]:
        last[fetch.url].append(fetch)
    for url, fetches in last.items():
        if url.endswith(("/p/0", "/p/5", "/p/10")) and len(fetches) > 2 * EVERY:
            assert not fetches[-1].conditional, url


def _check_records(job: Path) -> None:
    """Every revisit record refers to a full record of the same URL and payload."""
    full: set[tuple[str, str]] = set()
    refers: list[tuple[str, str]] = []
    for path in warcs(job):
        with path.open("rb") as stream:
            for record in ArchiveIterator(stream):
                get = record.rec_headers.get_header
                if record.rec_type == "response":
                    full.add((get("WARC-Target-URI"), get("WARC-Payload-Digest")))
                elif record.rec_type == "revisit":
                    refers.append((get("WARC-Refers-To-Target-URI"), get("WARC-Payload-Digest")))
    assert len(refers) > 50 and set(refers) <= full
