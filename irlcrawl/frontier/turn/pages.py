"""Pages that are visited again, in one turn: taken from their rest, put back to it by what their visit found.

A response takes the page's row out of its run, joins it with what the worker found (harvest section `visits`), and puts
it to rest until its next visit is worth the price. A page of which a visit came to nothing rests, too; only one that is
gone for good leaves. URLs that were never visited go the way they always went, but for their first good response: with
`revisit.enabled` that makes them pages.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from drum import Batch, Edits

import numpy as np
from numpy.typing import NDArray

from irlcrawl.base.reasons import Class, Reason
from irlcrawl.base.rows import Change, with_pages
from irlcrawl.config.keys import Config
from irlcrawl.frontier.state.calendar import Calendar
from irlcrawl.frontier.state.crawl_state import EARLY_ROWS, CrawlState
from irlcrawl.frontier.state.hosts import POOL
from irlcrawl.revisit.beliefs import PRIOR_SHAPE, rate_code
from irlcrawl.revisit.price import due_after, moved
from irlcrawl.revisit.visited import (
    DAY_S,
    Resting,
    after_failures,
    after_visits,
    beliefs,
    looked_at,
    weights,
    worth_now,
)
from irlcrawl.revisit.weight import Rules

F8 = NDArray[np.float64]
EARLY_ROWS_MAX = 1 << 18
POOL_SHAPE = 2 * PRIOR_SHAPE
"""As much as two unknown pages tell of their rates, the configuration's first rate counts among a host's."""


@dataclass(frozen=True, slots=True)
class Again:
    """What a turn goes by."""

    rules: Rules
    price: float
    chance: float
    rate: float  # a day, of a page of which nothing is known

    @classmethod
    def of(cls, config: Config, price: float) -> Again:
        return cls(Rules(config), price, config.revisit.chance_min, 1 / config.revisit.first_rate_days)

    def worth_now(self, rows: Batch, now: float) -> F8:
        """Weighted page-days that a visit to each of these pages would bring now."""
        return worth_now(rows, self.rules.of(rows["url"]), now)

    def due_at(self, rows: Batch, price: F8) -> F8:
        """Unix second at which a visit to each of these pages is worth its price (f8 a row)."""
        terms = self.rules.of(rows["url"])
        days = due_after(beliefs(rows), weights(rows, terms), np.maximum(price, self.price), terms.most)
        due: F8 = rows["visited"] + days * DAY_S
        return due

    def priors(self, rows: Batch) -> NDArray[np.uint8]:
        """Of rows with POOL, codes of the rates that pages of their hosts have."""
        return rate_code((POOL_SHAPE + rows["pool_a"]) / (POOL_SHAPE / self.rate + rows["pool_b"]))


class TurnPages:
    """Used by one turn. rest(store, rows, due): put rows away."""

    def __init__(self, state: CrawlState, rest: Callable[[Calendar, Batch, F8], None]) -> None:
        self._state, self._rest = state, rest
        self.enabled = state.config.revisit.enabled
        self.again = Again.of(state.config, state.price)
        self.learnt: list[Batch] = []  # key of a host, POOL
        self._served: list[F8] = []
        self._early = self._went = self._stayed = 0

    # -- after visits --------------------------------------------------------------------------------------------------

    def fold(self, done: Batch, visits: Batch, retries: Batch, now: float) -> NDArray[np.bool_]:
        """Put the pages among outcomes (OUTCOME, told for the first time) to rest. visits: VISIT of the same harvest;
        retries: RETRY, dues in today's time. Returns which rows were pages: nothing else is to happen to those."""
        runs = self._state.runs
        told = _places_in(visits, done)
        well = (done["cls"] == Class.FETCHED) & (done["reason"] == Reason.OK) & (told >= 0) & self.enabled
        asked = np.flatnonzero(runs.paged(done["segment"]) | well)
        mine = np.zeros(done.rows, np.bool_)
        if not len(asked):
            return mine
        rows = runs.take(done["segment"][asked], done["row"][asked], pages=True)
        pages = (rows["visits"] > 0) | well[asked]
        asked, rows = asked[pages], rows.filter(pages)
        mine[asked] = True
        answered = (done["cls"][asked] == Class.FETCHED) & (told[asked] >= 0)
        repeated = done["cls"][asked] == Class.RETRY
        self._visited(rows.filter(answered), visits.take(told[asked[answered]]), done["reason"][asked[answered]])
        self._repeat(rows.filter(repeated), retries, now)
        failed = ~(answered | repeated)
        self.fail(rows.filter(failed), done["reason"][asked[failed]], now)
        return mine

    def _visited(self, rows: Batch, visits: Batch, reasons: NDArray[np.uint8]) -> None:
        if not rows.rows:
            return
        state, again = self._state, self.again
        prior = np.where(rows["prior"] > 0, rows["prior"], rate_code(np.array([again.rate])))
        learnt = after_visits(rows, visits, again.rules.of(rows["url"]), prior, again.price, again.chance)
        self._put_to_rest(learnt.resting)
        state.ledger.visits += rows.rows
        state.ledger.gone += int(learnt.gone.sum())
        for counter, kind, column in (
            ("visits_by_change", Change, visits["change"]),
            ("fetched_by_reason", Reason, reasons),
        ):
            told = state.counters.setdefault(counter, {})
            for number, count in zip(*np.unique(column, return_counts=True), strict=True):
                name = kind(number).name.lower()
                told[name] = told.get(name, 0) + int(count)
        self._learn(rows["host"], learnt.shape, learnt.days)

    def _repeat(self, rows: Batch, retries: Batch, now: float) -> None:
        """After a passing failure: again when the worker said."""
        if not rows.rows:
            return
        order = np.argsort(retries["key"], kind="stable")
        at = np.searchsorted(retries["key"][order], rows["key"])
        place = np.append(order, 0)[np.minimum(at, retries.rows)]
        known = np.isin(rows["key"], retries["key"])
        due = np.full(rows.rows, now + DAY_S)
        due[known] = retries["due"][place[known]]
        attempt = rows["attempt"].copy()
        attempt[known] = retries["attempt"][place[known]]
        self._rest(self._state.pages.shut, rows.with_(attempt=attempt), due)

    def fail(self, rows: Batch, reasons: NDArray[np.uint8], now: float) -> None:
        """Pages of which a visit came to nothing, or that may not be visited now."""
        if rows.rows:
            denied = np.isin(reasons, [Reason.ROBOTS, Reason.ROBOTS_UNREACHABLE])
            terms = self.again.rules.of(rows["url"])
            self._put_to_rest(after_failures(rows, denied, terms, self.again.price, self.again.chance, now))
            self._state.count("revisits_failed", rows.rows)

    def _put_to_rest(self, resting: Resting) -> None:
        pages = self._state.pages
        for store, mask in ((pages.shut, resting.shut), (pages.wished, ~resting.shut)):
            if mask.any():
                self._rest(store, resting.rows.filter(mask), resting.due[mask])

    def put_off(self, rows: Batch, due: F8) -> None:
        """Pages whose host may not take them before `due`."""
        if rows.rows:
            self._rest(self._state.pages.shut, rows, due)

    def _learn(self, hosts: NDArray[np.uint64], shape: F8, days: F8) -> None:
        keys, host = np.unique(hosts, return_inverse=True)
        sums = [np.bincount(host, column, minlength=len(keys)).astype(np.float32) for column in (shape, days)]
        if any(column.any() for column in sums):
            none = np.full(len(keys), -1.0, np.float32)
            self.learnt.append(Batch({"key": keys, **dict(zip(POOL, (*sums, none), strict=True))}))

    # -- before visits -------------------------------------------------------------------------------------------------

    def bring(self, edits: Edits, wanted: int, others: bool, now: float, pend: Callable[[Batch], None]) -> int:
        """Take pages from their rest: pend(LINK and PAGE rows) gets those to be visited. wanted: URLs that the turn
        brings; others: new ones wait, too. Returns how many it were."""
        state, keys = self._state, self._state.config.revisit
        if not self.enabled or wanted <= 0 or not state.pages.rows:
            return 0
        least = math.ceil(wanted * keys.share_min) if others else wanted
        most = max(least, math.ceil(wanted * keys.share_max)) if others else wanted
        brought = sum(self._take(batch, now, pend) for batch in state.pages.due(edits, now, most))
        if brought < least:
            for batch in state.pages.early(edits, min(least - brought, state.early)):
                self._early += batch.rows
                brought += self._take(batch, now, pend)
        return brought

    def _take(self, rows: Batch, now: float, pend: Callable[[Batch], None]) -> int:
        again, due = self.again, rows["due"].astype(np.float64)
        looked = looked_at(rows, due, again.rules.of(rows["url"]), again.price, again.chance, now)
        stay = ~looked.go
        self._put_to_rest(Resting(rows.filter(stay), looked.due[stay], looked.shut[stay]))
        pend(rows.filter(looked.go))
        return int(looked.go.sum())

    def released(self, served: F8, stayed: int, prices: Batch) -> None:
        """What a release came to: worths of the pages that went, at hosts that were not full; how many did not fit;
        new prices of hosts (key, price)."""
        self._served.append(served)
        self._went += len(served)
        self._stayed += stayed
        if prices.rows:
            none = np.zeros(prices.rows, np.float32)
            self.learnt.append(Batch({"key": prices["key"], "pool_a": none, "pool_b": none, "price": prices["price"]}))

    def finish(self) -> None:
        """The price follows what was served; the next turn takes more pages early if those of this one fitted."""
        state = self._state
        served = np.concatenate([np.empty(0), *self._served])
        known = state.pages.rows + state.runs.rows
        state.price = moved(state.price, served, known)
        if self._early:
            fitted = self._went >= self._stayed
            state.early = min(2 * state.early, EARLY_ROWS_MAX) if fitted else max(state.early // 2, EARLY_ROWS)

    @property
    def moved(self) -> bool:
        """Whether pages were taken from their rest before their dues: the next turn may take further ones."""
        return self._early > 0


def _places_in(visits: Batch, done: Batch) -> NDArray[np.int64]:
    """For each outcome the row of its visit (of the last one told), -1 for none."""
    if not visits.rows:
        return np.full(done.rows, -1, np.int64)
    told, asked = (
        rows["segment"].astype(np.uint64) << np.uint64(32) | rows["row"].astype(np.uint64) for rows in (visits, done)
    )
    order = np.argsort(told, kind="stable")
    at = np.searchsorted(told[order], asked, side="right") - 1
    place = order[np.maximum(at, 0)]
    return np.where((at >= 0) & (told[place] == asked), place, -1)


def split(rows: Batch) -> tuple[Batch | None, Batch]:
    """(pages among rows, the others); None: the rows have no PAGE columns."""
    if "visits" not in rows:
        return None, rows
    pages = rows["visits"] > 0
    return with_pages(rows.filter(pages)), rows.filter(~pages)
