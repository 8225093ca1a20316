"""The new state of a repair, written piece by piece: commits, outcomes, and harvests of what waits (repair.py)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

from drum import Batch, CheckUpdate, Edits, Kernel, Ragged, Repository, SegmentWriter
from drum.spill import Spill

import numpy as np

from irlcrawl.base.names import Names
from irlcrawl.base.reasons import DONE_NAMES, Class, Reason
from irlcrawl.base.rows import LINK, PAIR, SCOPE_ENTRY, Carried
from irlcrawl.frontier.state.crawl_state import SEEDS_STREAM, CrawlState
from irlcrawl.worker.harvest.builder import Rows, harvest_name
from irlcrawl.worker.harvest.context import Context
from irlcrawl.worker.harvest.sections import write_sections

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
    into scope is noted in `opened`. Later visits of pages are kept as they are, and pages are not visited again: what
    was known of them was in the state. Of URLs that were put back and done again, the new log tells the earlier
    outcomes as failures that passed (`retry`)."""

    def __init__(self, state: CrawlState, known: Spill, opened: dict[bytes, None]) -> None:
        self._state, self._known, self._opened = state, known, opened
        self._key = Names(state.seed, state.config.scope.private_suffixes).url_key
        self._rows: list[tuple[int, int, int, bytes]] = []
        self._others: list[bytes] = []  # repeats and robots.txt: told as often as they happened
        self.lines = 0

    def add(
        self, url: bytes, outcome: str, reason: str, line: bytes, *, opens: bool, last: bool = True, again: bool = False
    ) -> None:  # fmt: skip
        """last: the URL was not put back after this outcome. again: it was visited before, and is done by that."""
        if opens and outcome != "none":
            self._opened[self._state.scope.entry_of_seed(url)] = None
        if outcome == "returned":
            return
        if outcome not in DONE_NAMES or again:
            self._others.append(line)
        elif not last:
            self._others.append(_passed(line))
        else:
            self._rows.append((self._key(url), Class[outcome.upper()], Reason[reason.upper()], line))
        if len(self._rows) + len(self._others) >= CHUNK_ROWS:
            self.flush()

    def flush(self) -> None:
        state, lines = self._state, self._others
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
                    state.ledger.discovered += rows.rows
                    lines = [*lines, *rows["line"].tolist()]
            state.log.append(lines)
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
            write_sections(writer, SEEDS_STREAM, self._number, rows)
        self._number += 1
        self._begin()


def carry(state: CrawlState, drum: Repository, kernel: Kernel, batches: Iterable[Batch]) -> None:
    """Rows into a drum of the new state, some at a time."""
    rows = iter(batches)
    while (batch := next(rows, None)) is not None:
        with Commit(state) as (writer, edits):
            drum.pend_batch(batch)
            while drum.ram_rows < CARRY_ROWS and (batch := next(rows, None)) is not None:
                drum.pend_batch(batch)
            drum.merge(kernel, writer=writer, edits=edits, emit=lambda _, rows: None)
