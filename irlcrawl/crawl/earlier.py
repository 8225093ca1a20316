"""URLs that were fetched while `revisit.enabled` was false, and are to be pages like those that are fetched now
(`irlcrawl revisit --earlier`): chosen out of the crawl log, and handed in as a harvest of the seeds' stream (its
section `signals`), which a turn takes in like any other.

The log tells no such URL from one that is a page. The drum `pages` does: what it ever knew is left out here, and again
by the turn, so the same command may be given twice.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from drum import Batch, Catalog, Files

from irlcrawl.base.job import JobDir
from irlcrawl.base.rows import EARLIER, SIGNAL
from irlcrawl.config.keys import Config
from irlcrawl.crawl.orders import Order
from irlcrawl.frontier.state.known_pages import EverKnown
from irlcrawl.frontier.state.view import Reading
from irlcrawl.web.scope import Scope
from irlcrawl.worker.archive import log_parts
from irlcrawl.worker.archive.crawl_log import LogEntry, carried_of, parse
from irlcrawl.worker.archive.last_words import Returned, returned_in
from irlcrawl.worker.harvest.builder import Rows
from irlcrawl.worker.harvest.context import Context

CHUNK_ROWS = 16_384
_FETCHED = b" outcome=fetched,reason=ok"


def rows(job: JobDir, catalog: Catalog, config: Config, order: Order, files: Files) -> Iterator[Batch]:
    """SIGNAL rows of what was fetched well and is no page, of all such URLs or of those that `order` names. A Python
    loop per line of the log, since each comes as text; once in a crawl's life. ConfigError for a pattern that is none;
    Damaged, OSError."""
    reading = Reading.open(job, files)
    if reading is None or not reading.begun or catalog.get("log") is None:
        return
    context = Context(config, reading.seed, Scope(config.scope, config.site, []))
    fresh, known = Rows(SIGNAL), EverKnown(reading.known)
    for entry in _entries(job, catalog, order, files):
        site, host = context.names(entry.url)
        at = (entry.logged_ms if entry.start_ms is None else entry.start_ms) / 1000
        fresh.fresh.append((context.url_key(entry.url), site, host, carried_of(entry), entry.url, at, EARLIER))
        if len(fresh.fresh) >= CHUNK_ROWS:
            yield from _unknown(known, fresh)
    yield from _unknown(known, fresh)


def _unknown(known: EverKnown, fresh: Rows) -> Iterator[Batch]:
    """What was gathered, without what the drum knows."""
    fresh.pack()
    for batch in fresh.batches:
        left = batch.filter(~known(batch["key"]))
        if left.rows:
            yield left
    fresh.batches.clear()


def _entries(job: JobDir, catalog: Catalog, order: Order, files: Files) -> Iterator[LogEntry]:
    """Lines of URLs that were fetched for the first time and are done by that."""
    log, committed = os.fspath(job.crawl_log), catalog.get("log")
    named, chosen = frozenset(order.urls), order.chooses()
    everything = not (order.urls or order.hosts or order.patterns)
    returned = Returned(returned_in(log_parts.pieces(files, log, committed)))
    for piece in log_parts.pieces(files, log, committed):
        for begin, line in piece.lines_with(_FETCHED):
            entry = piece.understood(parse, line)
            first = entry.reason == "ok" and "visit" not in entry.notes
            if not first or returned.since(entry.url, piece.place(begin)):
                continue
            if everything or entry.url in named or chosen(entry.url):
                yield entry
