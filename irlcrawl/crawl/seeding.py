"""Seeds enter like everything else: as a harvest, of a stream of their own, durable before the crawl looks at them."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence

from drum import Batch, Files, Ragged, SegmentWriter

import numpy as np

from irlcrawl.base.job_files import SEEDS_STREAM, harvest_name
from irlcrawl.base.keys import priority_of, url_keys
from irlcrawl.base.rows import LINK, Source
from irlcrawl.config.keys import Config
from irlcrawl.crawl.gauges import Gauges
from irlcrawl.crawl.returns import Drawing, of_seeds
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.terminal import words
from irlcrawl.terminal.progress import Bar
from irlcrawl.web.scope import Scope
from irlcrawl.worker.archive.shown_log import shown_reads
from irlcrawl.worker.harvest.context import Context
from irlcrawl.worker.harvest.sections import write_sections

CHUNK_ROWS = 65_536

_log = logging.getLogger("irlcrawl.crawl")


class NewSeeds:
    """Says once how many of the seeds that a run was given were new: when they were looked up, or at its end."""

    def __init__(self, gauges: Gauges, note: Callable[[str], None]) -> None:
        self._gauges, self._note, self._told = gauges, note, False
        self._before = gauges.seeds()
        self._merging = False
        self._merges: int | None = None  # that must end yet; None: the seeds are not counted

    def look(self, over: bool = False) -> None:
        """As often as the caller likes. over: the run ends."""
        if self._told:
            return
        more, new = (now - before for now, before in zip(self._gauges.seeds(), self._before, strict=True))
        if over or (more and (new == more or not self._gauges.unchecked or self._is_merged())):
            self._told = True
            are = "was" if more == 1 else "were"
            hint = "; `irlcrawl why JOB URL` says where one stands, and `irlcrawl retry` asks again for errors"
            known = hint if new < more else ""
            self._note(f"irlcrawl: {words.count(new)} of {words.plural(more, 'seed')} {are} new{known}")

    def _is_merged(self) -> bool:
        """Whether a merge of the seen URLs ended that began after the seeds were counted: a busy crawl has always some
        URLs to check."""
        merging = "seen" in self._gauges.merges[-1]
        if self._merges is None:
            self._merges = 1 + merging
        elif self._merging and not merging:
            self._merges -= 1
        self._merging = merging
        return not self._merges


def named_again(state: CrawlState, seeds: Sequence[bytes], bar_of: Callable[[], Bar] = Bar) -> list[Batch]:
    """RETURN rows of the seeds that are done and were not fetched. It reads the crawl log, unless all that is done was
    fetched. Before `write_seeds`, between turns. bar_of: shows how far a long log is read. Damaged, OSError."""
    if not state.ledger.failed and not state.ledger.excluded:
        return []
    with shown_reads(state.job, bar_of, times=2) as files:
        drawing = Drawing(state.job, state.catalog, files, of_seeds(seeds))
        rows = list(drawing.rows(state.config))
    _log.info("%d of the seeds had failed or were excluded, and are put back", sum(drawing.counts.values()))
    return rows


def write_seeds(
    state: CrawlState, config: Config, seeds: Sequence[bytes], number: int, returns: Sequence[Batch] = ()
) -> str:
    """The harvest `number` of the seeds' stream, beside the state; its name. OSError."""
    name = harvest_name(SEEDS_STREAM, number)
    write_harvest(state.files, os.path.join(state.dir, name), number, config, state.seed, seeds, returns)
    return name


def write_harvest(
    files: Files, path: str, number: int, config: Config, seed: int, seeds: Sequence[bytes],
    returns: Sequence[Batch] = (),
) -> None:  # fmt: skip
    """The harvest `number` of the seeds' stream as the file `path`: depth 0, the scope each opens, and those that are
    put back. seed: of the crawl's keys. OSError."""
    judge = Scope(config.scope, config.site, [])
    context = Context(config, seed, judge)
    links, scope = [], []
    for start in range(0, len(seeds), CHUNK_ROWS):
        urls = list(dict.fromkeys(seeds[start : start + CHUNK_ROWS]))
        links.append(_rows(urls, context))
        spelled = context.spelling.of_all(urls)
        entries = dict.fromkeys(entry for both in zip(urls, spelled) for entry in judge.entries_of_seed(*both))
        scope.append(Batch({"entry": Ragged.from_list(list(entries))}))
    with SegmentWriter(files, path) as writer:
        write_sections(writer, SEEDS_STREAM, number, {"links": links, "scope": scope, "returns": returns})


def _rows(urls: list[bytes], context: Context) -> Batch:
    """LINK rows. A Python loop per seed: each comes as a Python object."""
    sites, hosts = zip(*map(context.names, urls), strict=True)
    priorities = [priority_of(0, Source.SEED)] * len(urls)
    if (weight_of := context.weight_of) is not None:
        priorities = [priority_of(0, Source.SEED, weight=weight_of(url)) for url in urls]
    return Batch.zeros(LINK, len(urls)).with_(
        key=np.array(url_keys(urls, context.seed, sites), np.uint64),
        site=np.array(sites, np.uint64),
        host=np.array(hosts, np.uint64),
        source=np.full(len(urls), Source.SEED, np.uint8),
        priority=np.array(priorities, np.uint8),
        url=Ragged.from_list(urls),
    )
