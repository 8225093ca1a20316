"""Pages that the operator wants visited now: chosen from what a crawl knows, and handed in as a harvest of the seeds'
stream (its section `signals`), which a turn takes in like any other.

A URL is found in the crawl log; a host's pages and those of a pattern among all pages between two visits, which are
read once, forward. Whether a page still rests when the order comes, the drum `pages` knows
(frontier/state/known_pages.py): an order for one that is on its way to a visit, or that is none, comes to nothing, so
the same order may be given twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from drum import Batch, Catalog, Files

import numpy as np

from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import SEEDS_STREAM, harvests_from
from irlcrawl.base.pattern import compiled
from irlcrawl.base.reasons import Reason
from irlcrawl.base.rows import LINK, ORDERED, SIGNAL, Change
from irlcrawl.config.keys import Config, ConfigError
from irlcrawl.frontier.state.known_pages import known_page
from irlcrawl.frontier.state.view import Reading
from irlcrawl.revisit.visited import GONE_S
from irlcrawl.terminal import words
from irlcrawl.web.scope import Scope
from irlcrawl.worker.archive import log_parts
from irlcrawl.worker.archive.crawl_log import LogEntry, carried_of
from irlcrawl.worker.harvest.builder import Rows
from irlcrawl.worker.harvest.context import Context

History = Callable[[bytes], Iterable[LogEntry]]
"""Of a URL in stored form its lines in the crawl log, oldest first."""


@dataclass(frozen=True, slots=True)
class Order:
    """Which pages: `urls` in stored form; of these hosts and all hosts below them; in whose URL a pattern (RE2) is
    found."""

    urls: tuple[bytes, ...] = ()
    hosts: tuple[bytes, ...] = ()
    patterns: tuple[str, ...] = ()

    def rows(
        self, job: JobDir, config: Config, history: History, files: Files | None = None
    ) -> Iterator[Batch]:  # fmt: skip
        """SIGNAL rows, of each page one. A Python loop per URL of a page, where hosts or patterns are asked for.
        ConfigError for a URL that was never fetched or is no page (any more), and for a pattern that is none; Damaged,
        OSError."""
        reading = Reading.open(job, files)
        if reading is None or not reading.begun:
            return
        if self.urls:
            yield _now(self._named(reading, config, history))
        if not self.hosts and not self.patterns:
            return
        chosen, named = self.chooses(), frozenset(self.urls)
        for batch in reading.pages.scan():
            urls = batch["url"].tolist()
            mask = np.fromiter((url not in named and chosen(url) for url in urls), np.bool_, batch.rows)
            if mask.any():
                yield _now(batch.filter(mask).select(LINK))

    def _named(self, reading: Reading, config: Config, history: History) -> Batch:
        context = Context(config, reading.seed, Scope(config.scope, config.site, []))
        rows = Rows(LINK)
        for url in dict.fromkeys(self.urls):
            lines = list(history(url))
            entry = next((line for line in lines if line.outcome == "fetched"), None)
            if entry is None:
                raise ConfigError(f"{url.decode()} was never fetched; irlcrawl why says where it stands")
            key, (site, host) = context.url_key(url), context.names(url)
            known = known_page(reading.known, key) if reading.catalog.get("price") is not None else None
            if known is None:
                raise ConfigError(f"{url.decode()} is not visited again: {_no_page(entry)}")
            if not known.label and (left := _left(lines)):
                raise ConfigError(f"{url.decode()} is not visited again: {left}")
            rows.fresh.append((key, site, host, carried_of(entry), url))
        rows.pack()
        return rows.batches[0]

    def chooses(self) -> Callable[[bytes], bool]:
        """Whether a host or a pattern is one of a URL's. ConfigError for a pattern that is none."""
        try:
            patterns = [compiled(pattern) for pattern in self.patterns]
        except ValueError as error:
            raise ConfigError(f"--match takes an RE2 pattern: {error}") from error

        def chosen(url: bytes) -> bool:
            return any(log_parts.is_within(url, host) for host in self.hosts) or any(p.search(url) for p in patterns)

        return chosen


def _no_page(entry: LogEntry) -> str:
    """Why a URL whose first response was this one is no page."""
    if entry.reason == "ok":
        return "it was fetched while revisit.enabled was false; --earlier makes such URLs pages"
    if entry.reason == "taken_down":
        return "what was stored of it was taken down"
    if entry.reason == "redirect":
        target = entry.notes.get("redirect", "that one")
        return f"it leads to another URL ({entry.status}): {target} may be one that is"
    return f"it ended as {entry.reason.replace('_', ' ')} ({entry.status}); irlcrawl retry asks for such URLs again"


def _left(lines: list[LogEntry]) -> str:
    """Why a page that does not rest is visited no more, by its lines in the log; empty if it is on its way to a visit,
    as pages are that were gone for less than a week."""
    if lines[-1].reason == Reason.OPTED_OUT.name.lower():
        return "its owner opted out"
    gone, name = [], Change.GONE.name.lower()
    for line in reversed(lines):
        if line.outcome == "fetched" and (change := line.notes.get("change")) != Change.ERROR.name.lower():
            if change != name:
                break
            gone.append(line.logged_ms)
    over = gone and gone[0] - gone[-1] >= GONE_S * 1000
    return f"it is gone: {lines[-1].status} for {words.duration((gone[0] - gone[-1]) / 1000)}" if over else ""


def _now(rows: Batch) -> Batch:
    return rows.with_(at=np.zeros(rows.rows), now=np.full(rows.rows, ORDERED, np.uint8)).select(SIGNAL)


def next_number(job: JobDir, catalog: Catalog, files: Files) -> int:
    """Of the next harvest of the seeds' stream, behind those that wait for their turn."""
    first: int = catalog.get(f"streams/{SEEDS_STREAM}", {"next": 0})["next"]
    return first + len(list(harvests_from(set(files.listdir(job.state)), SEEDS_STREAM, first)))
