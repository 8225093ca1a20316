"""Seeds enter like everything else: as a harvest, of a stream of their own, durable before the crawl looks at them."""

from __future__ import annotations

import os
from collections.abc import Sequence

from drum import Batch, Ragged, SegmentWriter

import numpy as np

from irlcrawl.base.job_files import SEEDS_STREAM, harvest_name
from irlcrawl.base.keys import priority_of, url_key
from irlcrawl.base.rows import BYTES, LINK, Source
from irlcrawl.config.keys import Config
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.worker.harvest.context import Context
from irlcrawl.worker.harvest.sections import write_sections

CHUNK_ROWS = 65_536


def write_seeds(state: CrawlState, config: Config, seeds: Sequence[bytes], number: int) -> str:
    """A harvest file of seeds: depth 0, and the scope each opens. Returns its name. OSError."""
    name = harvest_name(SEEDS_STREAM, number)
    context = Context(config, state.seed, state.scope)
    links, scope = [], []
    for start in range(0, len(seeds), CHUNK_ROWS):
        urls = list(dict.fromkeys(seeds[start : start + CHUNK_ROWS]))
        links.append(_rows(urls, context))
        entries = dict.fromkeys(state.scope.entry_of_seed(url) for url in urls)
        scope.append(Batch({"entry": Ragged.from_list(list(entries))}))
    with SegmentWriter(state.files, os.path.join(state.dir, name)) as writer:
        write_sections(writer, SEEDS_STREAM, number, {"links": links, "scope": scope})
    return name


def _rows(urls: list[bytes], context: Context) -> Batch:
    """LINK rows. A Python loop per seed: each comes as a Python object."""
    names = [context.names(url) for url in urls]
    columns = {name: np.zeros(len(urls), "<" + kind) for name, kind in LINK.items() if kind != BYTES}
    columns["key"] = np.array([url_key(url, context.seed) for url in urls], np.uint64)
    columns["site"] = np.array([site for site, _ in names], np.uint64)
    columns["host"] = np.array([host for _, host in names], np.uint64)
    columns["source"][:] = Source.SEED
    columns["priority"][:] = priority_of(0, Source.SEED)
    if (weight_of := context.weight_of) is not None:
        columns["priority"][:] = [priority_of(0, Source.SEED, weight=weight_of(url)) for url in urls]
    return Batch({**columns, "url": Ragged.from_list(urls)})
