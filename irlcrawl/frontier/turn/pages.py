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

from drum import Batch, Bucket, Edits, SegmentWriter

import numpy as np
from numpy.typing import NDArray

from irlcrawl.base.reasons import DENIED, MAKES_A_PAGE, Class, Reason
from irlcrawl.base.rows import EARLIER, LINK, ORDERED, Change, with_pages
from irlcrawl.config.keys import Config
from irlcrawl.frontier.state.calendar import Calendar
from irlcrawl.frontier.state.crawl_state import EARLY_ROWS, CrawlState
from irlcrawl.frontier.state.hosts import learnt_of
from irlcrawl.frontier.state.known_pages import (
    OP_EARLIER,
    OP_KNOWN,
    OP_NOW,
    OP_SIGNAL,
    SHUT,
    WANTED,
    KnownKernel,
    called_rows,
    earlier_rows,
    pending_of,
    taken_out,
)
from irlcrawl.revisit.beliefs import PRIOR_SHAPE, Belief, rate_code
from irlcrawl.revisit.price import moved, worth
from irlcrawl.revisit.signals import RIGHT, told_codes
from irlcrawl.revisit.visited import (
    CHANGE,
    DAY_S,
    Resting,
    after_failures,
    after_visits,
    looked_at,
    wished_after,
    worth_now,
)
from irlcrawl.revisit.weight import WEIGHTS, Rules, weight_codes

F8 = NDArray[np.float64]
EARLY_ROWS_MAX = 1 << 18
KNOWN_PARTS = 64
KNOWN_ROWS = 1 << 18
"""So many rows for the drum `pages` are gathered in memory; as many, and as many as it has pages, wait on the disk."""
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
        days = wished_after(rows, terms, np.maximum(price, self.price))
        due: F8 = rows["visited"] + days * DAY_S
        return due

    def priors(self, rows: Batch) -> NDArray[np.uint8]:
        """Of rows with POOL, codes of the rates that pages of their hosts have."""
        return rate_code((POOL_SHAPE + rows["pool_a"]) / (POOL_SHAPE / self.rate + rows["pool_b"]))

    def told(self, rows: Batch) -> NDArray[np.uint8]:
        """Of rows with POOL, how far signals of their hosts are believed, as codes."""
        return told_codes(rows["right"], rows["wrong"], rows["changes"])


class TurnPages:
    """Used by one turn. rest(store, rows, due): put rows away; tell(lines): to the crawl log."""

    def __init__(
        self, state: CrawlState, rest: Callable[[Calendar, Batch, F8], None], tell: Callable[[list[bytes]], None]
    ) -> None:
        self._state, self._rest, self._tell = state, rest, tell
        self.enabled = state.config.revisit.enabled
        self.again = Again.of(state.config, state.price)
        self.learnt: list[Batch] = []  # key of a host, POOL
        self._served: list[F8] = []
        self._early = self._went = self._stayed = 0
        self._new: F8 = np.zeros(2)  # URLs that were never fetched, and their weight
        self._known: list[Batch] = []  # rows for the drum `pages`, in the order in which they came
        self._known_rows = 0

    # -- after visits --------------------------------------------------------------------------------------------------

    def fold(self, done: Batch, visits: Batch, retries: Batch, now: float) -> NDArray[np.bool_]:
        """Put the pages among outcomes (OUTCOME, told for the first time) to rest. visits: VISIT of the same harvest;
        retries: RETRY, dues in today's time. Returns which rows were pages: nothing else is to happen to those."""
        runs = self._state.runs
        told = _places_in(visits, done)
        good = np.isin(done["reason"], list(MAKES_A_PAGE))
        well = (done["cls"] == Class.FETCHED) & good & (told >= 0) & self.enabled
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
        self._count_reasons("retry_by_reason", done["reason"][asked[repeated]])
        without = done["cls"][asked] == Class.FAILED
        self._count_reasons("visits_failed_by_reason", done["reason"][asked[without]])
        self._fail(rows.filter(failed), done["reason"][asked[failed]], now)
        return mine

    def _visited(self, rows: Batch, visits: Batch, reasons: NDArray[np.uint8]) -> None:
        if not rows.rows:
            return
        state, again = self._state, self.again
        prior = np.where(rows["prior"] > 0, rows["prior"], rate_code(np.array([again.rate])))
        learnt = after_visits(rows, visits, again.rules.of(rows["url"]), prior, again.price, again.chance)
        self._put_to_rest(learnt.resting)
        self._note(taken_out(rows["key"][learnt.gone]))
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
        found = np.zeros(rows.rows)
        if learnt.resting.found is not None:
            found[~learnt.gone] = learnt.resting.found == CHANGE
        self._learn(rows["host"], learnt.shape, learnt.days, found)

    def _count_reasons(self, counter: str, reasons: NDArray[np.uint8]) -> None:
        if len(reasons):
            told = self._state.counters.setdefault(counter, {})
            for number, count in zip(*np.unique(reasons, return_counts=True), strict=True):
                name = Reason(number).name.lower()
                told[name] = told.get(name, 0) + int(count)

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
        self.put_off(rows.with_(attempt=attempt), due)

    def refuse(self, rows: Batch, reasons: NDArray[np.uint8], now: float) -> None:
        """Pages that may not be visited now. The log has a line for those whose owner opted out."""
        left = rows.filter(reasons == Reason.OPTED_OUT)
        if left.rows:
            self._tell(self._state.log_lines(left, [Reason.OPTED_OUT] * left.rows, now))
        self._fail(rows, reasons, now)

    def _fail(self, rows: Batch, reasons: NDArray[np.uint8], now: float) -> None:
        """Pages of which a visit came to nothing. Pages whose owner opted out are visited no more, as if they were
        gone."""
        out = reasons == Reason.OPTED_OUT
        if out.any():
            left = rows.filter(out)
            self._state.ledger.gone += left.rows
            self._note(taken_out(left["key"]))
            rows, reasons = rows.filter(~out), reasons[~out]
        if rows.rows:
            denied = np.isin(reasons, list(DENIED))
            terms = self.again.rules.of(rows["url"])
            self._put_to_rest(after_failures(rows, denied, terms, self.again.price, self.again.chance, now))
            self._state.count("revisits_failed", rows.rows)

    def _put_to_rest(self, resting: Resting) -> None:
        for shut in (True, False):
            mask = resting.shut if shut else ~resting.shut
            if mask.any():
                found = None if resting.found is None else resting.found[mask]
                held = None if resting.held is None else resting.held[mask]
                self._away(resting.rows.filter(mask), resting.due[mask], shut, found, held)

    def _away(
        self, rows: Batch, due: F8, shut: bool, found: NDArray[np.uint8] | None = None,
        held: NDArray[np.bool_] | None = None,
    ) -> None:  # fmt: skip
        """Into a queue of pages; and the drum `pages` learns where."""
        store = self._state.pages.shut if shut else self._state.pages.wished
        self._note(pending_of(rows, store.labels(due), shut, found, held))
        self._rest(store, rows, due)

    def _note(self, rows: Batch) -> None:
        if rows.rows:
            self._known.append(rows)
            self._known_rows += rows.rows
        if self._known_rows > KNOWN_ROWS:
            self.pend_known()

    def pend_known(self) -> None:
        """What became of pages is pending in the drum `pages`."""
        if self._known:
            self._state.known.pend_batch(Batch.concat(self._known), OP_KNOWN)
        self._known, self._known_rows = [], 0

    def put_off(self, rows: Batch, due: F8) -> None:
        """Pages whose host may not take them before `due`."""
        if rows.rows:
            self._away(rows, due, True, held=np.ones(rows.rows, np.bool_))

    def _learn(self, hosts: NDArray[np.uint64], shape: F8, days: F8, changes: F8) -> None:
        keys, host = np.unique(hosts, return_inverse=True)
        sums = [np.bincount(host, column, minlength=len(keys)) for column in (shape, days, changes)]
        if any(column.any() for column in sums):
            self.learnt.append(learnt_of(keys, **dict(zip(("pool_a", "pool_b", "changes"), sums, strict=True))))

    # -- signals -------------------------------------------------------------------------------------------------------

    def signals(self, rows: Batch, pend: Callable[[Batch], None]) -> None:
        """Take in SIGNAL rows of a harvest: orders and earlier fetches go to the drum `pages`, the others to their
        hosts first (pend(SIGNAL rows)), that say whether they are believed."""
        if not self.enabled or not rows.rows:
            return
        known = self._state.known
        for kind, op in ((ORDERED, OP_NOW), (EARLIER, OP_EARLIER)):
            of_kind = rows.filter(rows["now"] == kind)
            wanted = of_kind.select(LINK).with_(**Batch.zeros(WANTED, of_kind.rows).columns)
            if op == OP_EARLIER:
                wanted = wanted.with_(after=of_kind["at"].astype(np.uint32))
            known.pend_batch(wanted, op)
            self._state.count("visits_ordered", of_kind.rows * (op == OP_NOW))
        said = rows.filter(rows["now"] == 0)
        if said.rows:
            pend(said)
            self._state.count("signals", said.rows)

    def judged(self, rows: Batch) -> None:
        """Signals (SIGNAL) with their hosts' records: on to the drum `pages`; nowhere if visits are switched off."""
        if rows.rows and self.enabled:
            terms = self.again.rules.of(rows["url"])
            factor = RIGHT * WEIGHTS[weight_codes(rows)] * terms.weight
            wanted = rows.select(LINK).with_(
                after=np.clip(rows["at"], 0, 2**32 - 1).astype(np.uint32), factor=factor.astype(np.float32),
                least=np.ceil(terms.least * DAY_S).astype(np.uint32),
                told=self.again.told(rows), prior=self.again.priors(rows),
            )  # fmt: skip
            self._state.known.pend_batch(wanted, OP_SIGNAL)

    @property
    def wants_pass(self) -> bool:
        """Whether signals, orders or earlier fetches wait for the drum `pages`, or very much else, or much in very
        small pieces."""
        known = self._state.known
        waiting = known.pending_by_op()
        if any(waiting.get(op) for op in (OP_NOW, OP_SIGNAL, OP_EARLIER)):
            return True
        parts = KNOWN_PARTS + known.rows // KNOWN_ROWS
        return waiting.get(OP_KNOWN, 0) > known.rows + KNOWN_ROWS or known.pending_parts > parts

    def call(
        self, writer: Callable[[], SegmentWriter], edits: Edits, bucket: Bucket, now: float,
        pend: Callable[[Batch], None],
    ) -> int:  # fmt: skip
        """Pass a bucket of the drum `pages`: pend(LINK and PAGE rows) gets the pages that signals and orders call out
        of their rest. Everything that was put to rest before is in its queue. Returns the rows passed."""
        state = self._state
        waiting = state.known.pending_by_op()

        def emit(_: Bucket, rows: Batch) -> None:
            if "url" not in rows:
                right = rows["right"]
                self.learnt.append(
                    learnt_of(rows["host"], right=right.astype(np.float64), wrong=(~right).astype(np.float64))
                )
                return
            self._take_in(rows.filter(rows["earlier"]))
            rows = rows.filter(~rows["earlier"])
            shut = (rows["page_marks"] & SHUT) != 0
            state.pages.called(writer, edits, rows, shut, rows["page_due"])
            state.count("visits_called", rows.rows)
            pend(called_rows(rows))

        wanted = any(waiting.get(op) for op in (OP_SIGNAL, OP_NOW, OP_EARLIER))
        kernel = KnownKernel(OP_KNOWN in waiting, wanted, self.again.price, self.again.rate, now)
        stats = state.known.merge(kernel, writer=writer(), edits=edits, emit=emit, buckets=[bucket])
        return stats.rows

    def _take_in(self, rows: Batch) -> None:
        """URLs that were fetched well before pages were visited again become pages: they rest as if nothing else were
        known of them. They were counted as fetched, and are so no more."""
        if not rows.rows:
            return
        pages = earlier_rows(rows, int(rate_code(np.array([self.again.rate]))[0]))
        self._away(pages, self.again.due_at(pages, np.full(pages.rows, self.again.price)), False)
        self._state.ledger.fetched -= pages.rows
        self._state.count("pages_taken_in", pages.rows)

    # -- before visits -------------------------------------------------------------------------------------------------

    def bring(self, edits: Edits, wanted: int, others: bool, now: float, pend: Callable[[Batch], None]) -> int:
        """Take pages from their rest: pend(LINK and PAGE rows) gets those to be visited. wanted: URLs that the turn
        brings; others: new ones wait, too, and get what visits do not: as much as may be while a first fetch is worth
        more than the price of a visit, which rises by that. Returns how many it were."""
        state, keys = self._state, self._state.config.revisit
        if not self.enabled or wanted <= 0 or not state.pages.rows:
            return 0
        least = math.ceil(wanted * keys.share_min) if others else wanted
        share = keys.share_max if state.price >= state.worth_new else keys.share_min
        most = max(least, math.ceil(wanted * share)) if others else wanted
        brought = sum(self._take(batch, now, pend) for batch in state.pages.due(edits, now, most))
        if brought < least:
            for batch in state.pages.early(edits, min(least - brought, state.early)):
                self._early += batch.rows
                brought += self._take(batch, now, pend)
        return brought

    def _take(self, rows: Batch, now: float, pend: Callable[[Batch], None]) -> int:
        self._note(taken_out(rows["key"]))
        again, due = self.again, rows["due"].astype(np.float64)
        looked = looked_at(rows, due, again.rules.of(rows["url"]), again.price, again.chance, now)
        stay = ~looked.go
        self._put_to_rest(Resting(rows.filter(stay), looked.due[stay], looked.shut[stay]))
        pend(rows.filter(looked.go))
        return int(looked.go.sum())

    def new(self, rows: Batch) -> None:
        """URLs that are fetched for the first time: what that is worth is told from those of each turn."""
        if self.enabled:
            weight = WEIGHTS[weight_codes(rows)] * self.again.rules.of(rows["url"]).weight
            self._new += np.array([rows.rows, weight.sum()])

    def released(self, served: F8, stayed: int, prices: Batch) -> None:
        """What a release came to: worths of the pages that went, at hosts that were not full; how many did not fit;
        new prices of hosts (key, price)."""
        self._served.append(served)
        self._went += len(served)
        self._stayed += stayed
        if prices.rows:
            self.learnt.append(learnt_of(prices["key"], price=prices["price"]))

    def finish(self) -> None:
        """The price follows what was served; the next turn takes more pages early if those of this one fitted."""
        state = self._state
        served = np.concatenate([np.empty(0), *self._served])
        known = state.pages.rows + state.runs.rows
        state.price = moved(state.price, served, known)
        if self._new[0]:
            rate, most = np.array([self.again.rate]), np.array([state.config.revisit.every_max_days])
            unknown = Belief(np.array([PRIOR_SHAPE]), PRIOR_SHAPE / rate)
            state.worth_new = float(worth(unknown, self._new[1:] / self._new[0], most)[0])
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
