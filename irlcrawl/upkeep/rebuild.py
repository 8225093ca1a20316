"""The new state of a repair, written piece by piece: commits, outcomes, and harvests of what waits (repair.py)."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from drum import Batch, CheckUpdate, Edits, Kernel, Ragged, Repository, Result, SegmentWriter
from drum.kernels import Index, Keys, Mask
from drum.spill import Spill

import numpy as np

from irlcrawl.base.names import Names
from irlcrawl.base.reasons import DONE_NAMES, MAKES_A_PAGE, Class, Reason
from irlcrawl.base.rows import LINK, PAGE, PAIR, SCOPE_ENTRY, Carried, PageFlag
from irlcrawl.frontier.state.crawl_state import SEEDS_STREAM, CrawlState
from irlcrawl.frontier.state.known_pages import OP_KNOWN, pending_of
from irlcrawl.web.spelling import Spelling
from irlcrawl.worker.harvest.builder import Rows, harvest_name
from irlcrawl.worker.harvest.context import Context
from irlcrawl.worker.harvest.sections import REPAIRED, write_sections

CHUNK_ROWS = 65_536
CARRY_ROWS = 500_000
HARVEST_BYTES = 64 << 20
OUTCOME = re.compile(rb" outcome=\w+,")
ARCHIVED = b",warc="  # in the line of an outcome with a unit in an archive


class Commit:
    """`with Commit(state) as (writer, edits)`: one segment and one line of the catalogue."""

    def __init__(self, state: CrawlState) -> None:
        self._state = state

    def __enter__(self) -> tuple[SegmentWriter, Edits]:
        self._writer, self._edits = self._state.new_segment(), Edits()
        return self._writer, self._edits

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None or not self._writer.sections:
            self._writer.abort()
        else:
            self._writer.finish()
        if kind is None:
            self._state.save(self._edits)
            self._state.catalog.commit(self._edits)
            self._state.delete_unnamed([self._writer.name])


class Outcomes:
    """Outcomes on their way into the new crawl log: of URLs that are done, only the first. What seeds among them bring
    into scope is noted in `opened`. Later visits of pages are kept as they are; `pages` hears which URLs were fetched
    well, and may be pages. Of URLs that were put back and done again, the new log tells the earlier
    outcomes as failures that passed (`retry`)."""

    def __init__(self, state: CrawlState, known: Spill, opened: dict[bytes, None], pages: Salvaged) -> None:
        self._state, self._known, self._opened, self._pages = state, known, opened, pages
        self._key = Names(state.seed, state.config.scope.private_suffixes).url_key
        self._spelling = Spelling(state.config.urls, state.config.site, state.config.url_rule)
        self._rows: list[tuple[int, int, int, bytes]] = []
        self._others: list[bytes] = []  # repeats and robots.txt: told as often as they happened
        self._visits: Counter[str] = Counter()  # reason -> later visits of pages among them, with a response
        self.lines = 0

    def add(
        self, url: bytes, outcome: str, reason: str, line: bytes, *, opens: bool, last: bool = True, again: bool = False
    ) -> None:  # fmt: skip
        """last: the URL was not put back after this outcome. again: it was visited before, and is done by that."""
        if opens and outcome != "none":
            self._opened |= dict.fromkeys(self._state.scope.entries_of_seed(url, self._spelling.of(url)))
        if outcome == "returned":
            return
        if outcome not in DONE_NAMES or again:
            self._others.append(line)
            if outcome == "fetched":
                self._visits[reason] += 1
        elif not last:
            self._others.append(_passed(line))
        else:
            self._rows.append((self._key(url), Class[outcome.upper()], Reason[reason.upper()], line))
        if len(self._rows) + len(self._others) >= CHUNK_ROWS:
            self.flush()

    def flush(self) -> None:
        state, lines = self._state, self._others
        wells: list[Keys] = []
        with Commit(state) as (writer, edits):
            if self._rows:
                keys, classes, reasons, texts = zip(*self._rows)
                batch = Batch({
                    "key": np.array(keys, np.uint64), "cls": np.array(classes, np.uint8),
                    "reason": np.array(reasons, np.uint8), "line": Ragged.from_list(list(texts)),
                })  # fmt: skip
                self._known.add_many(key=batch["key"])
                state.seen.pend_batch(batch)
                fresh: list[Batch] = []
                state.seen.merge(CheckUpdate(), writer=writer, edits=edits, emit=lambda _, rows: fresh.append(rows))
                told = {line for rows in fresh for line in rows["line"].tolist()}
                lines = [*lines, *(_passed(line) for line in texts if line not in told and ARCHIVED in line)]
                for rows in fresh:
                    state.count_done(rows["cls"], rows["reason"])
                    good = (rows["cls"] == Class.FETCHED) & np.isin(rows["reason"], list(MAKES_A_PAGE))
                    wells.append(rows["key"][good])
                    state.ledger.discovered += rows.rows
                    lines = [*lines, *rows["line"].tolist()]
            state.log.append(lines)
            told_by_reason = state.counters.setdefault("fetched_by_reason", {})
            for name, visits in self._visits.items():
                state.ledger.visits += visits
                told_by_reason[name] = told_by_reason.get(name, 0) + visits
        self._visits.clear()
        for well in wells:
            self._pages.fetched(well)
        self.lines += len(lines)
        self._rows, self._others = [], []

    def counters(self) -> dict[str, Any]:
        return {"pages": self._state.ledger.visits}


def _passed(line: bytes) -> bytes:
    """The line of an outcome as one of a failure that passed."""
    return OUTCOME.sub(b" outcome=retry,", line, count=1)


class Harvests:
    """Rows on their way into harvest files of the seeds' stream."""

    def __init__(self, state: CrawlState, known: Spill) -> None:
        self._state, self._known = state, known
        self._number = state.streams[SEEDS_STREAM]["next"]
        self.rows = 0
        self._begin()

    def _begin(self) -> None:
        self._links, self._pairs, self.scope = Rows(LINK), Rows(PAIR), Rows(SCOPE_ENTRY)

    def add(self, url: bytes, carried: Carried, context: Context) -> None:
        site, host = context.names(url)
        self.take([(context.url_key(url), site, host, carried, url)], [], [])

    def take(self, links: list[tuple[Any, ...]], pairs: list[tuple[int, int, int]], scope: list[bytes]) -> None:
        self._links.fresh += links
        self._pairs.fresh += pairs
        self.scope.fresh += [(entry,) for entry in scope]
        self.rows += len(links)
        if len(self._links.fresh) >= CHUNK_ROWS:
            self._pack()
            if self._links.nbytes >= HARVEST_BYTES:
                self.close()

    def _pack(self) -> None:
        if self._links.fresh:
            self._known.add_many(key=np.array([row[0] for row in self._links.fresh], np.uint64))
        for rows in (self._links, self._pairs, self.scope):
            rows.pack()

    def close(self) -> None:
        """Write what there is as a harvest."""
        self._pack()
        path = os.path.join(self._state.dir, harvest_name(SEEDS_STREAM, self._number))
        rows = {"links": self._links.batches, "pairs": self._pairs.batches, "scope": self.scope.batches}
        with SegmentWriter(self._state.files, path) as writer:
            write_sections(writer, SEEDS_STREAM, self._number, rows, counters={REPAIRED: 1})
        self._number += 1
        self._begin()


class Salvaged:
    """Pages that are visited again, on their way to the new state with what is known of them: of each the row of most
    visits that could be read, if its outcome could be, too. They rest until they were due; after a failure shut."""

    name = "salvaged"

    def __init__(self, state: CrawlState) -> None:
        self._state = state
        ram = state.config.crawl.ram_bytes // 4
        self._key = Names(state.seed, state.config.scope.private_suffixes).url_key
        self._drum = Repository(self.name, catalog=state.catalog, pool=state.pool, values={}, ram_bytes=ram)
        self.pages = 0

    def fetched(self, keys: Keys) -> None:
        """Keys of URLs that are done, and were fetched well."""
        self._drum.pend_batch(Batch({"key": keys}), OP_DONE)
        self._spill()

    def page(self, rows: Batch) -> None:
        """LINK and PAGE, and `due` as it rests (0: now), of a crawl with the same keys or with others."""
        keys = np.fromiter(map(self._key, rows["url"].tolist()), np.uint64, rows.rows)
        self._drum.pend_batch(rows.with_(key=keys).select(PENDED), OP_PAGE)
        self._spill()

    def _spill(self) -> None:
        if self._drum.ram_rows > CARRY_ROWS:
            with Commit(self._state) as (writer, edits):
                self._drum.spill(writer, edits)

    def close(self) -> None:
        """Put them to rest. They were counted as fetched, and are so no more."""
        state, waiting = self._state, self._drum.pending_by_op()
        with Commit(state) as (writer, edits):
            if OP_DONE in waiting and OP_PAGE in waiting:
                self._drum.merge(
                    LatestPage(), writer=writer, edits=edits, emit=lambda _, rows: self._rest(writer, edits, rows)
                )
                state.known.spill(writer, edits)
        with Commit(state) as (_, edits):
            for key, _ in state.catalog.items(self._drum.prefix):
                edits.remove(key)

    def _rest(self, writer: SegmentWriter, edits: Edits, rows: Batch) -> None:
        state, due = self._state, rows["due"]
        shut = (rows["flags"] & (PageFlag.DENIED | PageFlag.GONE_ONCE) != 0) | (rows["attempt"] > 0)
        for store, mask in ((state.pages.shut, shut), (state.pages.wished, ~shut)):
            if mask.any():
                own = rows.filter(mask)
                store.add_labelled(lambda: writer, edits, own, due[mask])
                held = np.full(own.rows, store is state.pages.shut)
                state.known.pend_batch(pending_of(own, due[mask], store is state.pages.shut, None, held), OP_KNOWN)
        state.ledger.fetched -= rows.rows
        self.pages += rows.rows


PENDED = {**LINK, **PAGE, "due": "u4"}
OP_DONE, OP_PAGE = range(2)


class LatestPage:
    """Emits of each key that is done the row of most visits, the last of them (shapes: drum.kernels.Kernel)."""

    columns: Sequence[str] = ("visits",)

    def __call__(self, found: Mask, stored: Batch, items: Batch, starts: Index) -> Result:
        groups = len(starts) - 1
        group, page = np.repeat(np.arange(groups), np.diff(starts)), items["op"] == OP_PAGE
        done = np.bincount(group[~page], minlength=groups) > 0
        rows = np.flatnonzero(page)
        rows = rows[np.lexsort((rows, items["visits"][rows], group[rows]))]
        last = np.full(groups, -1)
        last[group[rows]] = rows  # numpy keeps the last assignment of a repeated index
        emit = np.zeros(items.rows, np.bool_)
        emit[last[done & (last >= 0)]] = True
        return Result(values=stored, write=np.zeros(groups, np.bool_), emit=emit)


def carry(state: CrawlState, drum: Repository, kernel: Kernel, batches: Iterable[Batch]) -> None:
    """Rows into a drum of the new state, some at a time."""
    rows = iter(batches)
    while (batch := next(rows, None)) is not None:
        with Commit(state) as (writer, edits):
            drum.pend_batch(batch)
            while drum.ram_rows < CARRY_ROWS and (batch := next(rows, None)) is not None:
                drum.pend_batch(batch)
            drum.merge(kernel, writer=writer, edits=edits, emit=lambda _, rows: None)
