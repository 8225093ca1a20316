"""What simulated workers do with a batch of leased URLs: answers in columns, and the harvest file they hand over.

The harvest is the crawler's own (write_sections): same sections, same segment format, named and read by the real
turn. Only its making is different: columns straight from the web's arithmetic, with keys from which a page's number can
be had back, so that a URL's text is made for the rows that reach the disk and never read.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from drum import Batch, Files, Ragged, SegmentWriter
from drum.ragged import Column

import numpy as np
import zstandard
from numpy.typing import NDArray

from bench._sim.eyes import Eyes
from irlcrawl.base.job_files import harvest_name
from irlcrawl.base.keys import DEPTH_SEPARATE_MAX, PRIORITY_LAST, priority_of
from irlcrawl.base.reasons import Class, Reason
from irlcrawl.base.rows import CARRIED, Source
from irlcrawl.config.keys import Config
from irlcrawl.worker.harvest.builder import (
    CHUNK_ROWS,
    RecentKeys,
)
from irlcrawl.worker.harvest.sections import LABEL_ROWS, LABEL_SHIFT, write_sections
from irlcrawl.worker.page.linklist import BARE_SHARE, is_list
from tools.simweb.answers import location
from tools.simweb.mix import U8s
from tools.simweb.truth import Truth, host_number, site_of
from tools.simweb.web import Web

STREAM = 1
CACHE_BITS = 22  # recent keys of all workers together
PAIR_BITS = 16
SITE_BITS = 28
HARVEST_LEVEL = -1000
"""Of zstd, which then finds next to nothing, so that columns are stored as they are: real workers compress what they
hand over in processes of their own, and not at the frontier's cost."""


@dataclass
class Leased:
    """URLs that workers had in hand, a row each."""

    segment: NDArray[np.uint32]
    row: NDArray[np.uint32]
    key: U8s
    depth: NDArray[np.uint16]
    attempt: NDArray[np.uint8]
    status: NDArray[np.int16]  # as simweb answers; 0: robots.txt forbids it, nothing was asked
    again_at: NDArray[np.float64]  # unix seconds at which a passing failure is tried again

    @classmethod
    def concat(cls, parts: list[Leased]) -> Leased:
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__annotations__))

    def filter(self, rows: NDArray[np.bool_]) -> Leased:
        return Leased(*(getattr(self, name)[rows] for name in self.__annotations__))


@dataclass
class Spent:
    """What a batch of fetches was worth."""

    fetches: int = 0
    enemy: int = 0
    good: int = 0
    importance: float = 0.0


class Home(Protocol):
    """Where harvests go, and the crawl's configuration: of a CrawlState, or of a machine's directory."""

    @property
    def files(self) -> Files: ...

    @property
    def dir(self) -> str: ...

    @property
    def config(self) -> Config: ...


Lines = Callable[[Leased, U8s], Ragged]
"""Lines of the crawl log for URLs and their pages."""


class Harvester:
    """All workers of a simulated crawl, as one stream."""

    def __init__(
        self, web: Web, state: Home, eyes: Eyes, admit: NDArray[np.bool_] | None = None, stream: int = STREAM,
        level: int | None = HARVEST_LEVEL, lines: Lines | None = None, cache_bits: int = CACHE_BITS,
    ) -> None:  # fmt: skip
        """`admit`: the truths whose pages are let in at all (for an oracle); None: all. level: of zstd; None: the
        crawler's own. lines: None: they are empty."""
        self._web = web
        self._state = state
        self._admit = admit
        self._stream, self._level, self._lines = stream, level, lines
        self._links = RecentKeys(cache_bits)
        self._eyes = eyes
        self._number = 0
        self.linked = 0  # rows of links handed over

    def seeds(self, pages: U8s) -> str:
        """The first harvest."""
        links = self._rows(pages, np.zeros(len(pages), np.uint16), np.full(len(pages), Source.SEED, np.uint8))
        return self._write({"links": links}, 0)

    def harvest(self, leased: Leased, when: float) -> tuple[str, Spent]:
        """The file of a batch of finished URLs, and what they were worth."""
        web = self._web
        pages = web.keyed(leased.key)
        asked = leased.status != 0
        again = _passing(leased.status) & (leased.attempt < self._state.config.politeness.retries_max)
        sections = {
            "outcomes": self._outcomes(leased, pages, again),
            "retries": self._retries(leased, pages, again),
        }
        novel = self._novel(leased, pages, when)
        done = ~again & (leased.status != 0)
        ok = np.flatnonzero(leased.status == 200)
        links = web.links(pages[ok], when)
        source = ok[links.sources()]
        targets, depth = links.targets, leased.depth[source] + 1
        kind = np.full(len(targets), Source.LINK, np.uint8)
        moved = np.flatnonzero(leased.status == 301)
        to = location(web, pages[moved])
        if len(to):
            targets, source = np.concatenate([targets, to]), np.concatenate([source, moved])
            depth = np.concatenate([depth, leased.depth[moved]])
            kind = np.concatenate([kind, np.full(len(to), Source.REDIRECT, np.uint8)])
        found = len(targets)
        budgets = self._state.config.budgets
        lists = link_lists(pages, source, targets, budgets.link_list_sites)
        listed, bare = (rows & (leased.depth > 0) for rows in lists)
        yields: dict[str, Column] = {"key": web.site_keys(site_of(pages)), "novel": (novel & ~bare).astype(np.uint8)}
        sections["yields"] = Batch(yields).filter(done)
        wary = budgets.duplicates_last
        supports = novel[source] | (kind == Source.REDIRECT) if wary else np.ones(len(source), np.bool_)
        votes = supports & ~listed[source]
        sections["pairs"] = self._pair_rows(site_of(pages)[source[votes]], site_of(targets[votes]))
        keys = web.keys(targets)
        fresh = np.flatnonzero(_fresh(self._links, keys))
        if self._admit is not None:
            fresh = fresh[self._admit[web.truth(targets[fresh], when)]]
        if len(fresh) > LABEL_ROWS:  # as they will lie in the file: numbers are put in order faster than texts
            fresh = fresh[np.argsort(_labels(keys[fresh]), kind="stable")]
        rows = self._rows(targets[fresh], depth[fresh].astype(np.uint16), kind[fresh])
        inside = site_of(targets[fresh]) == site_of(pages)[source[fresh]]
        last = np.where(supports[fresh] | ~inside, rows["priority"], np.uint8(PRIORITY_LAST))
        sections["links"] = rows.with_(priority=last, via=web.urls(pages).take(source[fresh]))
        name = self._write(sections, found)
        truth = web.truth(pages, when)
        good = (truth == Truth.GOOD) & (leased.status == 200)
        worth = float(web.importance(pages[good], when).sum())
        return name, Spent(int(asked.sum()), int((asked & (truth != Truth.GOOD)).sum()), int(good.sum()), worth)

    def _novel(self, leased: Leased, pages: U8s, when: float) -> NDArray[np.bool_]:
        """Successful pages whose content is not known from before."""
        ok = leased.status == 200
        novel = np.zeros(len(pages), np.bool_)
        novel[ok] = self._eyes.novel(pages[ok], when)
        return novel

    def _outcomes(self, leased: Leased, pages: U8s, again: NDArray[np.bool_]) -> Batch:
        status, rows = leased.status, len(leased.key)
        cls = np.select([status == 0, again, status > 0], [Class.EXCLUDED, Class.RETRY, Class.FETCHED], Class.FAILED)
        reason = np.select(
            [status == 0, status == 503, status < 0, status >= 400, status == 301],
            [Reason.ROBOTS, Reason.THROTTLED, Reason.CONNECT, Reason.HTTP_ERROR, Reason.REDIRECT],
            Reason.OK,
        )
        columns: dict[str, Column] = {
            "segment": leased.segment, "row": leased.row, "key": leased.key, "host": np.zeros(rows, np.uint64),
            "cls": cls.astype(np.uint8), "reason": reason.astype(np.uint8), "status": status,
            "bytes": np.zeros(rows, np.uint32),
            "line": _empty(rows) if self._lines is None else self._lines(leased, pages),
        }  # fmt: skip
        return Batch(columns)

    def _retries(self, leased: Leased, pages: U8s, again: NDArray[np.bool_]) -> Batch:
        rows = self._rows(pages[again], leased.depth[again], np.full(int(again.sum()), Source.LINK, np.uint8))
        return rows.with_(attempt=leased.attempt[again] + np.uint8(1), due=leased.again_at[again])

    def _rows(self, pages: U8s, depth: NDArray[np.uint16], source: NDArray[np.uint8]) -> Batch:
        """LINK rows."""
        web = self._web
        place = web.place(pages)
        columns: dict[str, Column] = {
            "key": web.keys(pages), "site": web.site_keys(site_of(pages)),
            "host": web.host_keys(host_number(pages, place[0])),
            **Batch.zeros(CARRIED, len(pages)).columns,
            "depth": depth, "source": source, "priority": priorities(depth, source, web.homes(pages, place)),
            "url": web.urls(pages, place) if len(pages) else _empty(0),
        }  # fmt: skip
        return Batch(columns)

    def _pair_rows(self, origin: NDArray[np.int64], target: NDArray[np.int64]) -> Batch:
        """Links between two different sites."""
        out = origin != target
        origin, target = origin[out], target[out]
        key = self._web.pair_keys(origin, target)
        fresh = RecentKeys(PAIR_BITS).fresh(key)  # once a harvest: what did not count now may count later
        keys = self._web.site_keys
        return Batch({"key": key[fresh], "site": keys(target[fresh]), "from": keys(origin[fresh])})

    def _write(self, sections: dict[str, Batch], links: int) -> str:
        """A harvest file; sections that are not given are empty."""
        name = harvest_name(self._stream, self._number)
        self.linked += sections["links"].rows
        rows = {section: [batch] for section, batch in sections.items()}
        with SegmentWriter(self._state.files, os.path.join(self._state.dir, name)) as writer:
            if self._level is not None:
                writer.tail.compressor = zstandard.ZstdCompressor(level=self._level)
            write_sections(writer, self._stream, self._number, rows, counters={"links": links})
        self._number += 1
        return name


_PRIORITY = np.array(
    [[[priority_of(depth, source, home) for home in (False, True)] for source in Source]
     for depth in range(DEPTH_SEPARATE_MAX + 1)], np.uint8,
)  # fmt: skip


def priorities(depth: NDArray[Any], source: NDArray[np.uint8], homes: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """`priority_of` of each row."""
    return _PRIORITY[np.minimum(depth, DEPTH_SEPARATE_MAX), source, homes.astype(np.uint8)]


def link_lists(
    pages: U8s, source: NDArray[np.int64], targets: U8s, sites_max: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which pages are lists of links, and which bare ones (linklist.py); link i leads from pages[source[i]] to
    targets[i]."""
    to = site_of(targets)
    out = to != site_of(pages)[source]
    pairs = np.sort(source[out] << SITE_BITS | to[out])
    distinct = np.append(pairs[:-1] != pairs[1:], True)[: len(pairs)]
    sites = np.bincount(pairs[distinct] >> SITE_BITS, minlength=len(pages))
    links = np.bincount(source, minlength=len(pages))
    return is_list(sites, links, sites_max), is_list(sites, links, sites_max, BARE_SHARE)


def _fresh(recent: RecentKeys, keys: U8s) -> NDArray[np.bool_]:
    """Which keys are not among recent ones, asked for by as many as workers ask for at once: their places in the table
    are then still in the processor's cache when they are written."""
    chunks = [keys[start : start + CHUNK_ROWS] for start in range(0, len(keys), CHUNK_ROWS)]
    return np.concatenate([np.zeros(0, np.bool_), *map(recent.fresh, chunks)])


def _labels(keys: U8s) -> NDArray[np.uint8]:
    """The parts of a harvest that its keys belong to."""
    return (keys >> LABEL_SHIFT).astype(np.uint8)


def _passing(status: NDArray[np.int16]) -> NDArray[np.bool_]:
    """Failures that are tried again."""
    return (status < 0) | (status == 503) | (status == 500)


def _empty(rows: int) -> Ragged:
    return Ragged(np.zeros(0, np.uint8), np.zeros(rows + 1, np.int64))
