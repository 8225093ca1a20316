"""I4: what the frontier holds in memory is bounded by the configuration, not by how many URLs or hosts wait."""

from __future__ import annotations

import asyncio
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

from drum import Batch, Edits, Ragged, SegmentWriter

import numpy as np
import pytest

from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import harvest_name
from irlcrawl.base.keys import name_key, priority_of
from irlcrawl.base.rows import LINK
from irlcrawl.config.keys import Config
from irlcrawl.crawl import loop as frontier_module
from irlcrawl.crawl.loop import CrawlLoop
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.frontier.turn import turn as turn_module
from irlcrawl.frontier.turn.turn import Turn
from irlcrawl.worker.harvest.sections import write_sections
from tests.crawl.virtual_crawl import Names

STREAM = 1
URLS, HOSTS = 200_000, 20_000
RAM_BYTES = 32 << 20
ROWS_MAX = 20_000


def links(rng: np.random.Generator, urls: int, hosts: int) -> Iterator[Batch]:
    """LINK rows over hosts of as many sites, in batches."""
    keys = np.array([name_key(b"http://h%d.test" % number) for number in range(hosts)], np.uint64)
    for start in range(0, urls, 20_000):
        count = min(20_000, urls - start)
        host = rng.integers(0, hosts, count)
        columns = {**Batch.zeros(LINK, count).columns}
        columns["key"] = rng.integers(0, 2**63, count).astype(np.uint64)
        columns["host"] = keys[host]
        columns["site"] = keys[host]
        columns["depth"][:] = 1
        columns["priority"][:] = priority_of(1, 2)
        texts = [b"http://h%d.test/a-path-of-some-length/%d" % (h, start + at) for at, h in enumerate(host.tolist())]
        yield Batch({**columns, "url": Ragged.from_list(texts)})


@pytest.fixture
def state(tmp_path: Path) -> Iterator[CrawlState]:
    """A crawl that knows the stream of one harvest, `write`n below."""
    config = Config()
    config.crawl.user_agent = "test/1 (+http://contact.test/)"
    config.crawl.ram_bytes = RAM_BYTES
    config.scope.kind = "any"
    config.frontier.hosts_active_max = 1000
    job = JobDir(tmp_path / "job")
    job.acquire()
    state = CrawlState.open(job, config, VirtualClock())
    edits = Edits()
    state.streams[STREAM] = {"next": 0, "warc": [0, 0]}
    edits.set(f"streams/{STREAM}", state.streams[STREAM])
    state.catalog.commit(edits)
    yield state
    state.close()
    job.release()


def write(state: CrawlState, urls: int, hosts: int) -> None:
    with SegmentWriter(state.files, os.path.join(state.dir, harvest_name(STREAM, 0))) as writer:
        write_sections(writer, STREAM, 0, {"links": links(np.random.default_rng(1), urls, hosts)})


async def opened(state: CrawlState) -> CrawlLoop:
    loop = CrawlLoop(state, state.config, state.clock)
    loop.dispatcher.resolver = Names()  # type: ignore[assignment]
    await loop.open(None, [0, STREAM])
    return loop


def turn(loop: CrawlLoop) -> None:
    """As the loop makes it, inline."""
    result = Turn(loop.state).run(loop.turns._task([], urgent=True))
    loop.turns._commit(result)
    loop.dispatcher.bring_all(result.ready)


def test_i4_two_hundred_thousand_urls_of_twenty_thousand_hosts(
    state: CrawlState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I4: opening such a crawl, and ten turns of it, stay within what the operator allows (crawl.ram_bytes, and
    RELEASE_ROWS_MAX rows of some 600 bytes), hosts in memory within hosts_active_max; every URL is somewhere."""
    monkeypatch.setattr(turn_module, "RELEASE_ROWS_MAX", ROWS_MAX)
    write(state, URLS, HOSTS)

    async def play() -> None:
        loop = await opened(state)
        assert state.ledger.discovered == URLS
        most = 0
        for _ in range(10):
            turn(loop)
            state.clock.advance(100)  # type: ignore[attr-defined]
            most = max(most, len(loop.dispatcher.hosts))
        assert 0 < most <= state.config.frontier.hosts_active_max
        assert sum(state.live().values()) == URLS

    tracemalloc.start()
    try:
        asyncio.run(play())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < RAM_BYTES + ROWS_MAX * 600, f"{peak >> 20} MiB"


def test_opening_merges_nothing_and_brings_few_hosts_while_urls_are_at_hand(
    state: CrawlState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed crawl of a hundred million keys merged what it had found last with them, and brought a hundred thousand
    hosts into memory, before its first request."""
    monkeypatch.setattr(frontier_module, "BROUGHT_AT_ONCE", 7)
    write(state, 1000, 100)

    async def play() -> None:
        (await opened(state)).turns._thread.shutdown()
        found, known = state.ledger.discovered, state.runs.rows
        assert found == 1000 and known
        state.streams[STREAM] = {"next": 0, "warc": [0, 0]}
        write(state, 500, 50)
        loop = await opened(state)
        assert state.ledger.discovered == found and state.seen.pending_rows == 500
        assert len(loop.dispatcher.hosts) == 7 and not loop._over()
        while loop._coming is not None:
            loop._bring_more()
        assert loop.dispatcher.loads.total() == known
        turn(loop)
        assert state.ledger.discovered > found and state.seen.pending_rows == 0

    asyncio.run(play())
