"""Pages that the operator wants visited now: chosen from what a crawl knows, and handed in as a harvest of the seeds'
stream (its section `signals`), which a turn takes in like any other.

A URL is found in the crawl log, by its index; a host's pages and those of a pattern among all pages between two visits,
which are read once, forward. Whether a page still rests when the order comes, the drum `pages` knows
(frontier/state/known_pages.py): an order for one that is on its way to a visit, or that is none, comes to nothing, so
the same order may be given twice.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from drum import Batch, Catalog, Files, SegmentWriter

import numpy as np

from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import SEEDS_STREAM, harvests_from
from irlcrawl.base.rows import LINK, SIGNAL
from irlcrawl.config.keys import Config, ConfigError
from irlcrawl.config.lists import told_by_re2
from irlcrawl.frontier.state.known_pages import known_page
from irlcrawl.frontier.state.view import Reading
from irlcrawl.web.scope import Scope
from irlcrawl.worker.archive import log_parts
from irlcrawl.worker.archive.crawl_log import carried_of
from irlcrawl.worker.harvest.builder import Rows
from irlcrawl.worker.harvest.context import Context
from irlcrawl.worker.harvest.sections import write_sections

_NO_PAGE = "pages are 2xx responses that came whole while revisit.enabled was true"


@dataclass(frozen=True, slots=True)
class Order:
    """Which pages: `urls` in stored form; of these hosts and all hosts below them; in whose URL a pattern (RE2) is
    found."""

    urls: tuple[bytes, ...] = ()
    hosts: tuple[bytes, ...] = ()
    patterns: tuple[str, ...] = ()

    def rows(self, job: JobDir, config: Config, files: Files | None = None) -> Iterator[Batch]:
        """SIGNAL rows. A Python loop per URL of a page, where hosts or patterns are asked for. ConfigError for a URL
        that is no page, and for a pattern that is none; Damaged, OSError."""
        reading = Reading.open(job, files)
        if reading is None or not reading.begun:
            return
        if self.urls:
            yield _now(self._named(reading, config))
        if not self.hosts and not self.patterns:
            return
        chosen = self._chooses()
        for batch in reading.pages.scan():
            mask = np.fromiter(map(chosen, batch["url"].tolist()), np.bool_, batch.rows)
            if mask.any():
                yield _now(batch.filter(mask).select(LINK))

    def _named(self, reading: Reading, config: Config) -> Batch:
        context = Context(config, reading.seed, Scope(config.scope, config.site, []))
        rows = Rows(LINK)
        log = os.fspath(reading.job.crawl_log)
        for url in dict.fromkeys(self.urls):
            fetched = (e for e in log_parts.entries_of(reading.files, log, url) if e.outcome == "fetched")
            entry = next(fetched, None)
            if entry is None:
                raise ConfigError(f"{url.decode()} was never fetched; irlcrawl why says where it stands")
            key = context.url_key(url)
            if reading.catalog.get("price") is None or known_page(reading.known, key) is None:
                raise ConfigError(f"{url.decode()} is not visited again: {_NO_PAGE}")
            site, host = context.names(url)
            rows.fresh.append((key, site, host, carried_of(entry), url))
        rows.pack()
        return rows.batches[0]

    def _chooses(self) -> Callable[[bytes], bool]:
        import re2

        options = re2.Options()
        options.log_errors = False
        try:
            patterns = [re2.compile(pattern.encode(), options) for pattern in self.patterns]
        except re2.error as error:
            raise ConfigError(f"--match takes an RE2 pattern: {told_by_re2(error)}") from error

        def chosen(url: bytes) -> bool:
            return any(log_parts.is_within(url, host) for host in self.hosts) or any(p.search(url) for p in patterns)

        return chosen


def _now(rows: Batch) -> Batch:
    return rows.with_(at=np.zeros(rows.rows), now=np.ones(rows.rows, np.uint8)).select(SIGNAL)


def next_number(job: JobDir, catalog: Catalog, files: Files) -> int:
    """Of the next harvest of the seeds' stream, behind those that wait for their turn."""
    first: int = catalog.get(f"streams/{SEEDS_STREAM}", {"next": 0})["next"]
    return first + len(list(harvests_from(set(files.listdir(job.state)), SEEDS_STREAM, first)))


def write(files: Files, path: str, number: int, rows: Iterator[Batch]) -> int:
    """The harvest `number` of the seeds' stream as the file `path`, with these SIGNAL rows, in memory at once; their
    number. No file if there are none. OSError, and what `rows` raises."""
    parts = list(rows)
    if not parts:
        return 0
    with SegmentWriter(files, path) as writer:
        write_sections(writer, SEEDS_STREAM, number, {"signals": parts})
    return sum(part.rows for part in parts)
