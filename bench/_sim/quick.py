"""The budgets of a crawl alone, ten times as fast: for comparing policies on many webs.

What is the crawler's own: pairs, sites, queues and QF (budgets/), with their merges and commits. What is played, beside
what crawl.py plays: seen (an exact set in memory), hosts (each takes a request every GAP_S, whatever it is asked), runs
and the calendar (rows wait in memory for their host). Failures are not repeated.
"""

from __future__ import annotations

import resource
import time
from pathlib import Path

from drum import Batch, Catalog, Edits, SegmentPool, SegmentWriter
from drum.ragged import Column

import numpy as np
from numpy.typing import NDArray

from bench._sim.crawl import SEEDS, WARM_UP, CountingFiles, Run
from bench._sim.eyes import REAL, Eyes
from bench._sim.fetch import Spent, link_lists, priorities
from bench._sim.policies import Policy
from budgets.beast import RECORD, YIELD
from budgets.worth import Worth
from irlcrawl.base.job_files import turn_name
from irlcrawl.base.keys import PRIORITY_LAST
from irlcrawl.base.rows import Source
from irlcrawl.config.keys import Config
from irlcrawl.frontier.state.stores import open_sites
from tools.simweb.mix import U8s
from tools.simweb.truth import Kind, Truth, site_of
from tools.simweb.web import Web

TURN_S, GAP_S = 30.0, 5.0
RAM_BYTES = 64 << 20
HELD_SHARE = 0.5


class KeySet:
    """An exact set of keys in sorted arrays, each at least twice as long as the next."""

    def __init__(self) -> None:
        self._levels: list[U8s] = []

    def fresh(self, keys: U8s) -> U8s:
        """Those of distinct ascending keys that were not there; they are from now on."""
        for level in self._levels:
            at = np.minimum(np.searchsorted(level, keys), len(level) - 1)
            keys = keys[level[at] != keys]
        if len(keys):
            self._levels.append(keys)
        while len(self._levels) > 1 and len(self._levels[-2]) < 2 * len(self._levels[-1]):
            self._levels[-2:] = [np.sort(np.concatenate(self._levels[-2:]))]
        return keys


class Quick:
    """One policy on one web, without hosts."""

    def __init__(self, path: Path, web: Web, policy: Policy, fetches: int, rate: float, eyes: str = REAL) -> None:
        config = Config()
        policy.configure(config)
        path.mkdir()
        self.web, self.policy, self.fetches, self.rate, self._path = web, policy, fetches, rate, path
        self._wary, self._link_list_sites = config.budgets.duplicates_last, config.budgets.link_list_sites
        self._files = CountingFiles()
        self._catalog = Catalog.open(path, self._files)
        self._pool = SegmentPool(self._files, path)
        self.sites = open_sites(self._catalog, self._pool, config, RAM_BYTES, {})
        self._pair_drum, self._site_drum = self.sites.drums
        policy.attach(self, web)
        self._seen = KeySet()
        self._eyes = Eyes(web, eyes)
        self._turns = 0
        self.run_ = Run(policy.name, web.params.seed, Spent())

    def run(self) -> Run:
        """To the wanted number of fetches, or to the end of the web."""
        began, run = time.process_time(), self.run_
        seeds = np.sort(self.web.seeds(SEEDS))
        self._seen.fresh(np.sort(self.web.keys(seeds)))
        self.sites.pend_urls(self._rows(seeds, np.zeros(len(seeds), np.int64), Source.SEED))
        waiting, late = self._rows(seeds[:0], np.zeros(0, np.int64), Source.SEED), None
        while run.spent.fetches < self.fetches:
            waiting, leased = self._turn(waiting)
            if not leased.rows:
                break
            self._fetch(leased)
            if late is None and run.spent.fetches >= WARM_UP:
                late = Spent(**vars(run.spent))
        if late is not None and run.spent.fetches > late.fetches:
            run.enemy_share_late = (run.spent.enemy - late.enemy) / (run.spent.fetches - late.fetches)
        run.cpu_s = time.process_time() - began
        run.seconds = run.spent.fetches / self.rate
        run.lookups_per_url = self.sites.lookups / max(1, self.sites.discovered)
        run.rereads_per_url = self.sites.rereads / max(1, self.sites.discovered)
        run.peak_rss_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        run.extra = {"good_sites_held": round(self._held(), 4)}
        self._catalog.close()
        return run

    @property
    def when(self) -> float:
        return min(1.0, self.run_.spent.fetches / self.fetches)

    def _turn(self, waiting: Batch) -> tuple[Batch, Batch]:
        """(what waits for its host, what is fetched next): merge, then drain until workers have enough for a turn."""
        self._turns += 1
        edits, sites = Edits(), self.sites
        writer = SegmentWriter(self._files, self._path / turn_name(self._turns))
        sites.merge(writer, edits, lambda rows: None)
        run, done = self.run_, self.run_.spent.fetches
        wanted = min(int(self.rate * TURN_S), self.fetches - done)
        may = self._may(waiting)
        while int(may.sum()) < wanted and sites.queued_rows + sites.deferred_rows:
            drained = [waiting]
            sites.rotate(writer, edits, wanted - int(may.sum()), drained.append, lambda rows: None)
            waiting = Batch.concat(drained)
            may = self._may(waiting)
        may[np.flatnonzero(may)[wanted:]] = False
        sites.spill(writer, edits)
        writer.finish()
        self._catalog.commit(edits)
        self._pool.forget(self._catalog.collect())
        run.lookups_per_url_max = max(run.lookups_per_url_max, sites.lookups / max(1, sites.discovered))
        run.rereads_per_url_max = max(run.rereads_per_url_max, sites.rereads / max(1, sites.discovered))
        return waiting.filter(~may), waiting.filter(may)

    def _may(self, rows: Batch) -> NDArray[np.bool_]:
        """The first rows of each host, as many as it takes in a turn."""
        hosts = self.web.host(self.web.keyed(rows["key"]))
        order = np.argsort(hosts, kind="stable")
        ranks = np.arange(rows.rows)
        first = np.concatenate(([True], np.diff(hosts[order]) != 0))[: rows.rows]
        rank = np.empty_like(ranks)
        rank[order] = ranks - np.maximum.accumulate(np.where(first, ranks, 0))
        return np.asarray(rank < TURN_S / GAP_S)

    def _fetch(self, leased: Batch) -> None:
        """What fetching brings, pending in memory."""
        web, when, spent = self.web, self.when, self.run_.spent
        pages = web.keyed(leased["key"])
        asked = web.allowed(pages)
        pages, depth = pages[asked], leased["depth"][asked].astype(np.int64)
        ok = web.answers(pages, when)["status"] == 200
        truth = web.truth(pages, when)
        good = ok & (truth == Truth.GOOD)
        spent.fetches += len(pages)
        spent.enemy += int((truth != Truth.GOOD).sum())
        spent.good += int(good.sum())
        spent.importance += float(web.importance(pages[good], when).sum())
        novel = np.zeros(len(pages), np.bool_)
        novel[ok] = self._eyes.novel(pages[ok], when)
        links = web.links(pages[ok], when)
        source, targets = np.flatnonzero(ok)[links.sources()], links.targets
        lists = link_lists(pages, source, targets, self._link_list_sites)
        listed, bare = (rows & (depth > 0) for rows in lists)
        yields: dict[str, Column] = {"key": web.site_keys(site_of(pages)), "novel": (novel & ~bare).astype(np.uint8)}
        self._site_drum.pend_batch(Batch(yields), YIELD)
        supports = novel[source] if self._wary else np.ones(len(source), np.bool_)
        votes = supports & ~listed[source]
        self._pairs(site_of(pages)[source[votes]], site_of(targets[votes]))
        if self.policy.admit is not None:
            among = self.policy.admit[web.truth(targets, when)]
            targets, source, supports = targets[among], source[among], supports[among]
        keys, first = np.unique(web.keys(targets), return_index=True)
        at = np.sort(first[np.searchsorted(keys, self._seen.fresh(keys))])
        rows = self._rows(targets[at], depth[source[at]] + 1, Source.LINK)
        inside = site_of(targets[at]) == site_of(pages)[source[at]]
        priority = np.where(supports[at] | ~inside, rows["priority"], np.uint8(PRIORITY_LAST))
        self.sites.pend_urls(rows.with_(priority=priority))

    def _pairs(self, origin: NDArray[np.int64], target: NDArray[np.int64]) -> None:
        """Links between two different sites."""
        out = origin != target
        origin, target = origin[out], target[out]
        keys = self.web.site_keys
        pair = self.web.pair_keys(origin, target)
        columns: dict[str, Column] = {"key": pair, "site": keys(target), "from": keys(origin)}
        self._pair_drum.pend_batch(Batch(columns))

    def _rows(self, pages: U8s, depth: NDArray[np.int64], source: Source) -> Batch:
        sources = np.full(len(pages), source, np.uint8)
        columns: dict[str, Column] = {
            "key": self.web.keys(pages), "site": self.web.site_keys(site_of(pages)), "depth": depth.astype(np.uint16),
            "source": sources, "priority": priorities(depth, sources, self.web.homes(pages)),
        }  # fmt: skip
        return Batch(columns)

    def _held(self) -> float:
        """Of the supported good sites that were asked for a page, the share whose yield holds them below HELD_SHARE of
        what their in-degree gives: false positives."""
        star, worth = self.sites.star, self.sites.worth
        held = of = 0
        for bucket in self._site_drum.buckets:
            for batch in self._site_drum.scan(bucket):
                number = self.web.keyed_sites(batch["key"])
                good = (self.web.kind(number) == Kind.GOOD) & self.web.behaves_good(number, self.when)
                batch = batch.filter(good & (batch["in_degree"] > 0) & (batch["asked"] > 0))
                known = {name: batch[name].astype(np.int64) for name in RECORD}
                without = Worth(unsupported=worth.unsupported, seed_floor=worth.seed_floor)
                due = without.budgets(star, batch["key"], known)
                held += int((worth.budgets(star, batch["key"], known) < HELD_SHARE * due).sum())
                of += batch.rows
        return held / max(1, of)
