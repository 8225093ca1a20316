"""The state of a crawl of many URLs, made without one, by the code that a crawl would have made it with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drum import Batch, CheckUpdate, Edits, Ragged

import numpy as np
from numpy.typing import NDArray

from irlcrawl.base.clock import SystemClock
from irlcrawl.base.job import JobDir
from irlcrawl.base.keys import host_key, name_key, priority_of
from irlcrawl.base.rows import LINK, Source
from irlcrawl.config.keys import Config
from irlcrawl.config.toml import to_toml
from irlcrawl.frontier.state.crawl_state import CrawlState

HOST_URLS = 100
QUEUE_CHUNK = 500_000


def host_name(number: int) -> str:
    """Of the host with that number."""
    return f"s{number:07d}.test"


def make_state(
    job: JobDir, config: Config, done: Iterator[NDArray[np.uint64]], seen: int, hosts: int = 0, port: int = 80
) -> None:
    """A crawl that has seen so many keys: those of `done`, a turn each batch, and of 100 URLs of each of `hosts` hosts,
    which are still queued."""
    draw = np.random.default_rng(2)
    with job:
        job.write_config(to_toml(config))
        state = CrawlState.open(job, config, SystemClock())
        try:
            state.ledger.discovered = state.ledger.fetched = seen - hosts * HOST_URLS
            for keys in done:
                _turn(state, keys, None)
            for start in range(0, hosts, QUEUE_CHUNK // HOST_URLS):
                links = _links(range(start, min(start + QUEUE_CHUNK // HOST_URLS, hosts)), port, draw)
                state.ledger.discovered += links.rows
                _turn(state, links["key"], links)
        finally:
            state.close()


def _links(hosts: range, port: int, draw: np.random.Generator) -> Batch:
    rows = len(hosts) * HOST_URLS
    columns: dict[str, Any] = {**Batch.zeros(LINK, rows).columns}
    origins = [f"http://{host_name(number)}:{port}" for number in hosts]
    sites = np.array([name_key(host_name(number).encode()) for number in hosts], np.uint64)
    columns["site"] = np.repeat(sites, HOST_URLS)
    columns["key"] = draw.integers(1, 1 << 52, rows, dtype=np.uint64) | columns["site"] >> np.uint64(52) << np.uint64(
        52
    )
    columns["host"] = np.repeat(
        np.array([host_key(origin.encode(), site) for origin, site in zip(origins, sites.tolist())], np.uint64),
        HOST_URLS,
    )
    columns["source"][:], columns["depth"][:] = Source.LINK, 1
    columns["priority"][:] = priority_of(1, Source.LINK)
    urls = [f"{origin}/{page}".encode() for origin in origins for page in range(HOST_URLS)]
    return Batch({**columns, "url": Ragged.from_list(urls)})


def _turn(state: CrawlState, keys: Any, links: Batch | None) -> None:
    """What a turn does with keys, and with URLs, and its commit."""
    writer, edits = state.new_segment(), Edits()
    state.seen.pend_batch(Batch({"key": keys}))
    state.seen.merge(CheckUpdate(), writer=writer, edits=edits, emit=lambda bucket, batch: None)
    if links is not None:
        state.sites.pend_urls(links)
        state.sites.merge(writer, edits, lambda rows: None)
    writer.finish()
    state.ledger.check(state.live())
    state.save(edits)
    state.catalog.commit(edits)
    state.delete_unnamed([writer.name])
