"""Which cores the web's servers get and which the crawlers: apart, so that neither waits for the other."""

from __future__ import annotations

import os
from typing import NamedTuple

from bench.crawl.tree import CrawlFailed


class Cores(NamedTuple):
    servers: set[int]
    crawler: set[int]


def available() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def divided(shared: int) -> Cores:
    """shared: how many cores both have together; 0: the servers one, the crawler the others. Raises CrawlFailed when
    there are too few."""
    every = available()
    if shared > len(every):
        raise CrawlFailed(f"--cores {shared}: this process may use {len(every)}")
    if shared:
        return Cores(set(every[:shared]), set(every[:shared]))
    if len(every) < 2:
        raise CrawlFailed("servers and crawler need a core each and there is one; --cores 1 puts them together")
    return Cores({every[0]}, set(every[1:]))


def one_each() -> Cores:
    """One core for the servers and one for a crawler, however many there are. Raises CrawlFailed."""
    servers, crawler = divided(0)
    return Cores(servers, {min(crawler)})
