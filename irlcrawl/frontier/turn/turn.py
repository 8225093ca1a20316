"""One turn of the frontier: what arrived goes through the drums, what is wanted comes out as runs, one commit says so.

    harvests ─► fold outcomes ─► seen ─► pairs, sites ─► queues ─► (rotate) ─► hosts ─► runs
                      └► crawl log   withdrawn, retried ─► calendar, rests ─► (due) ─┤
                                          put back after they were done ─────────────┤
                 └► pages ─► rest until their next visit (irlcrawl/revisit) ─► (worth it) ─┘

`run` works on the state of the disk alone and may run on a thread: it returns edits for the loop to commit, and touches
no catalogue. Everything a turn writes is in one segment file. A turn that fails leaves nothing behind that a reopening
would see; the process then ends.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from drum import Batch, Bucket, CheckUpdate, Edits, SegmentWriter, vacuum
from drum.segment import Section

import numpy as np
from numpy.typing import NDArray

from budgets.sites import Proceed, always
from irlcrawl.base.job_files import SEEDS_STREAM
from irlcrawl.base.reasons import CLASS_OF, UNQUEUED, Class, Reason
from irlcrawl.base.rows import LINK, NO_SEGMENT, RETRY, SIGNAL, VISIT, Source, with_pages
from irlcrawl.frontier.state.calendar import Calendar
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.frontier.state.hosts import (
    OP_AGAIN,
    OP_LEARNT,
    OP_NEW,
    OP_RECOUNTED,
    OP_RETURNED,
    OP_SIGNAL,
    OP_STATE,
    OP_VISIT,
    HostsKernel,
    keyed_by_host,
    keyed_by_url,
    redated,
)
from irlcrawl.frontier.state.runs import ReadyRuns, Withdrawal
from irlcrawl.frontier.turn.pages import TurnPages, split
from irlcrawl.frontier.turn.release import AHEAD_S, Policy, release
from irlcrawl.worker.harvest.sections import REPAIRED

TURN_BYTES = 64 << 20
"""About how many bytes of new URLs one turn carries on; what is left waits, pending, for the next."""
TURN_ROWS = 16_000_000
"""About how many rows one turn passes in `seen`, some 0.3 CPU-seconds: stored ones, and ROW_COST for each that waits. A
large store is passed by several turns; each of them brings runs and then rests, so that the crawl goes on meanwhile."""
ROW_COST = 24  # a waiting URL is read twice and decompressed (measured: 0.3 us against 0.01)
LINES_BYTES_MAX = 3_000_000
"""Lines of the crawl log in memory, a few megabytes; a turn that has more writes them before its end."""
RELEASE_ROWS = 65_536
RELEASE_ROWS_MAX = 250_000
"""URLs in memory at once between the queues and the runs."""
SHED_TO = 0.9
"""Of frontier.bytes_max, so that not every turn has to give something up."""
_CLASS_OF = np.zeros(256, np.uint8)
_CLASS_OF[list(CLASS_OF)] = list(CLASS_OF.values())  # by the number of a Reason


@dataclass
class Task:
    """The plain data that the loop gives a turn. Times are unix seconds."""

    now: float
    harvests: list[str]  # file names, complete and not named yet, in the order of their streams
    rows_wanted: int  # URLs to bring into runs; those due in the calendar are among them, those that rested are not
    policy: Policy
    states: Batch | None = None
    withdrawn: list[Withdrawal] = field(default_factory=list)
    clocks: Batch | None = None
    merge: bool = True  # False: only take note (the last turn before a stop)
    urgent: bool = True  # nothing is ready: merge whatever it takes
    proceed: Proceed = always  # asked between the buckets of a merge: False leaves the rest to another turn


@dataclass
class Result:
    edits: Edits
    ready: list[ReadyRuns] = field(default_factory=list)  # new ready segments
    scope_entries: list[bytes] = field(default_factory=list)  # new ones, for the workers
    harvests: list[str] = field(default_factory=list)  # files that were ingested
    written: list[str] = field(default_factory=list)  # the turn's own file
    forgiven: list[NDArray[np.uint64]] = field(default_factory=list)  # keys of hosts of which URLs were put back
    suspects: list[tuple[int, int, int]] = field(default_factory=list)  # sites: key, URLs tried, pages of new content
    folded: int = 0  # outcomes of leased URLs
    dropped: int = 0  # URLs given up because the frontier was full
    moved: bool = False  # anything happened that a further turn could build on
    seconds: float = 0.0
    cpu_seconds: float = 0.0


class Turn:
    """One use: made where the catalogue is owned, `run(task)` on any thread."""

    def __init__(self, state: CrawlState) -> None:
        self.state = state
        self._file = state.turn_file()
        self.edits = Edits()
        self.result = Result(self.edits)
        self._writer: SegmentWriter | None = None
        self._lines: list[bytes] = []  # many in each
        self._lines_bytes = 0
        self._logged = False
        self._scope: list[bytes] = []
        self._waiting: list[tuple[Calendar, Batch]] = []
        self._waiting_rows = 0
        self._pages = TurnPages(state, self._gather, self._tell)

    def writer(self) -> SegmentWriter:
        """The turn's file, made when something is to be written."""
        if self._writer is None:
            self._writer = SegmentWriter(self.state.files, self._file)
        return self._writer

    def run(self, task: Task) -> Result:
        """Do it all; see the module. OSError (no room, …), Damaged, LedgerError."""
        began, cpu = self.state.clock.now(), time.thread_time()
        try:
            for file in task.harvests:
                self._ingest(file, task)
            if task.withdrawn:
                self._withdraw(task.withdrawn, task)
            if task.states is not None:
                self.state.hosts.pend_batch(redated(task.states, -self.state.clock_set), OP_STATE)
            self._pend_learnt()
            if task.merge:
                self._merge(task)
            self._finish(task)
        except BaseException:
            if self._writer is not None:
                self._writer.abort()
            raise
        self.result.seconds = self.state.clock.now() - began
        self.result.cpu_seconds = time.thread_time() - cpu
        return self.result

    # -- in ------------------------------------------------------------------------------------------------------------

    def _ingest(self, file: str, task: Task) -> None:
        """Name a harvest: its links and pairs become pending where they lie, its outcomes are folded now."""
        state, edits = self.state, self.edits
        number = state.ingests
        state.ingests += 1
        outcomes = state.pool.section(file, "outcomes")
        state.seen.pend(edits, number, file, "links")
        state.sites.pend_pairs(edits, number, file, "pairs")
        state.sites.pend_yields(edits, number, file, "yields")
        state.near.take_in(edits, file)
        for batch in state.pool.section(file, "yields").scan():
            self.result.suspects += state.novelty.count(batch["key"], batch["novel"])
        visits = _whole(state.pool.section(file, "visits"), VISIT)
        retries = _whole(state.pool.section(file, "retries"), RETRY)
        retries = retries.with_(due=retries["due"] + state.set_since(file))
        folded = (self._fold(batch, visits, retries, task.now) for batch in outcomes.scan())
        repeats = np.concatenate([np.empty(0, np.uint64), *folded])
        due = retries.filter(np.isin(retries["key"], repeats))
        self._wait(state.rests, due, due["due"])
        for batch in state.pool.section(file, "returns").scan():
            self._put_back(batch, task)
        for batch in state.pool.section(file, "signals").scan():
            self._pages.signals(batch, lambda rows: self.state.hosts.pend_batch(keyed_by_host(rows, SIGNAL), OP_SIGNAL))
        for batch in state.pool.section(file, "scope").scan():
            self._scope += batch["entry"].tolist()
        if outcomes.meta["stream"] == SEEDS_STREAM and REPAIRED not in outcomes.meta["counters"]:
            state.count("seeds", state.pool.section(file, "links").rows)
        state.take_note(edits, outcomes.meta)
        self.result.harvests.append(file)
        self.result.moved = True

    def _fold(self, outcomes: Batch, visits: Batch, retries: Batch, now: float) -> NDArray[np.uint64]:
        """Mark what is done and count it, once however often it is told; every line goes to the crawl log. Returns the
        keys of URLs to be asked for again."""
        state = self.state
        leased = outcomes["segment"] != NO_SEGMENT
        fresh = np.zeros(outcomes.rows, np.bool_)
        fresh[leased] = state.runs.fold(outcomes["segment"][leased], outcomes["row"][leased])
        told = outcomes.filter(fresh | ~leased)
        self._tell(told["line"].tolist())
        done = outcomes.filter(fresh)
        state.latency.requested(done["key"], done["line"])
        self.result.folded += done.rows
        pages = self._pages.fold(done, visits, retries, now)
        done = done.filter(~pages) if pages.any() else done
        state.count_done(done["cls"], done["reason"])
        repeats: NDArray[np.uint64] = done["key"][done["cls"] == Class.RETRY]
        return repeats

    def _put_back(self, rows: Batch, task: Task) -> None:
        """URLs that were done leave their classes, with a log line each, and are asked again: at once where no limit
        had kept them out. They were chosen by their last word (crawl/returns.py), so each is done now."""
        state, reason = self.state, rows["reason"]
        self._tell(state.returned_lines(rows, task.now))
        state.count_done(rows["cls"], reason, -1)
        state.count("returned", rows.rows)
        queued, recounted = np.isin(reason, list(UNQUEUED)), reason == Reason.QUOTA_HOST
        state.sites.pend_urls(rows.filter(queued).select(LINK))
        self._pend(rows.filter(recounted), OP_RECOUNTED)
        self._pend(rows.filter(~queued & ~recounted), OP_RETURNED)
        self.result.forgiven.append(np.unique(rows["host"]))

    def _withdraw(self, withdrawals: list[Withdrawal], task: Task) -> None:
        """URLs leave their runs without a request: for good, into the calendar, or into the rests."""
        state = self.state
        runs = [(run.segment, run.at, run.rows, at) for at, one in enumerate(withdrawals) for run in one.runs]
        segment, start, count, which = np.array(runs, np.int64).T
        segment, which = np.repeat(segment, count), np.repeat(which, count)
        row = np.arange(len(which)) + np.repeat(start - (np.cumsum(count) - count), count)
        fresh = state.runs.fold(segment, row)
        segment, row, which = segment[fresh], row[fresh], which[fresh]
        rank = np.arange(len(which)) - np.searchsorted(which, which)  # within its withdrawal
        due, gap = np.array([(one.due, one.gap) for one in withdrawals]).T
        due = due[which] + np.minimum(gap[which] * rank, AHEAD_S)
        reason = np.array([one.reason for one in withdrawals], np.uint8)[which]
        rests = np.array([one.rests for one in withdrawals], np.bool_)[which]
        for at in range(0, len(which), RELEASE_ROWS):
            part = slice(at, at + RELEASE_ROWS)
            rows, reasons = state.runs.take(segment[part], row[part]), reason[part]
            later = reasons == Reason.OK
            self._put_off(rows.filter(later), due[part][later], rests[part][later])
            self._leave(rows.filter(~later), [Reason(number) for number in reasons[~later].tolist()], task.now)
        self.result.moved = True

    def _put_off(self, rows: Batch, due: NDArray[np.float64], rests: NDArray[np.bool_]) -> None:
        """As `_wait`, into the rests or the calendar by row."""
        self._wait(self.state.rests, rows.filter(rests), due[rests])
        self._wait(self.state.calendar, rows.filter(~rests), due[~rests])

    def _wait(self, store: Calendar, rows: Batch, due: NDArray[np.float64]) -> None:
        """Into a store until `due` (unix seconds, f8 a row): gathered, for a section costs as much as a thousand
        rows."""
        pages, others = split(rows)
        if pages is not None:
            self._pages.put_off(pages, due[rows["visits"] > 0])
            due = due[rows["visits"] == 0]
        self._gather(store, others.select(LINK), due)

    def _gather(self, store: Calendar, rows: Batch, due: NDArray[np.float64]) -> None:
        if not rows.rows:
            return
        self._waiting.append((store, rows.with_(due=due)))
        self._waiting_rows += rows.rows
        if self._waiting_rows > RELEASE_ROWS_MAX:
            self._put_away()

    def _put_away(self) -> None:
        waiting, self._waiting, self._waiting_rows = self._waiting, [], 0
        self._pages.pend_known()
        for store in (self.state.calendar, self.state.rests, *self.state.pages.stores):
            if parts := [rows for its, rows in waiting if its is store]:
                rows = Batch.concat(parts)
                store.add(self.writer, self.edits, rows, rows["due"])

    def _leave(self, rows: Batch, reasons: list[Reason], now: float) -> None:
        """Rows are done without a request: a log line and a class each. Pages that were visited before rest."""
        pages, others = split(rows)
        if pages is not None:
            numbers = np.array(reasons, np.uint8)
            self._pages.refuse(pages, numbers[rows["visits"] > 0], now)
            rows, reasons = others, [Reason(number) for number in numbers[rows["visits"] == 0].tolist()]
        if not rows.rows:
            return
        self._tell(self.state.log_lines(rows, reasons, now))
        numbers = np.array(reasons, np.uint8)
        self.state.count_done(_CLASS_OF[numbers], numbers)
        self.state.latency.left(rows["key"])

    def _tell(self, lines: list[bytes]) -> None:
        """To the crawl log, at the end or when there are very many. They wait as text: an object each, they were most
        of what a long turn added to memory that Python does not give back."""
        if lines:
            self._lines.append(b"\n".join(lines))
            self._lines_bytes += len(self._lines[-1])
        if self._lines_bytes > LINES_BYTES_MAX:
            self._log()

    def _log(self) -> None:
        self.state.log.append(self._lines, more=self._logged)
        self._logged = self._logged or bool(self._lines)
        self._lines.clear()
        self._lines_bytes = 0

    # -- through -------------------------------------------------------------------------------------------------------

    def _merge(self, task: Task) -> None:
        state = self.state
        self._put_away()
        if state.near.merge(self.writer, self.edits, self._judged, task.urgent, task.proceed):
            self.result.moved = True
        if state.seen.pending_rows and not state.delayed and state.pace.may("seen", task.urgent):
            with state.pace.measure("seen"):
                self._check_seen(task)
        if not task.proceed():
            return
        if (state.sites.pending_rows or state.sites.pending_pairs) and state.pace.may("sites", task.urgent):
            with state.pace.measure("sites"):
                state.sites.merge(self.writer(), self.edits, lambda rows: self._over_quota(rows, task), task.proceed)
            self.result.moved = True
        if not task.proceed():
            return
        if state.config.frontier.when_full == "drop":
            self._shed(task)
        if self._pages.wants_pass and state.pace.may("pages", task.urgent):
            with state.pace.measure("pages"):
                self._call_pages(task)
        if not task.proceed():
            return
        if state.pace.may("hosts", task.urgent):
            self._bring(task)

    def _judged(self, yields: Batch, pairs: Batch, near: int) -> None:
        """Pages of which it is known now whether an earlier one says almost the same."""
        state = self.state
        state.sites.pend_found(yields, pairs)
        self.result.suspects += state.novelty.count(yields["key"], yields["novel"])
        state.count("near_duplicates", near)

    def _check_seen(self, task: Task) -> None:
        """Bucket by bucket, those first that have waited longest, until a turn's worth was passed or came out; the rest
        stays pending. Where it is urgent, until some new URL came out."""
        state = self.state
        carried = passed = 0
        room = min(TURN_BYTES, state.room_bytes) if state.config.frontier.when_full == "delay" else TURN_BYTES

        def new(_: Bucket, batch: Batch) -> None:
            nonlocal carried
            carried += batch.nbytes
            state.ledger.discovered += batch.rows
            state.count("new_seeds", int(((batch["source"] == Source.SEED) & (batch["hop"] == 0)).sum()))
            state.latency.found(batch["key"], task.now)
            state.sites.pend_urls(batch.select(LINK))

        for bucket in sorted(state.seen.buckets, key=lambda bucket: bucket.cursor):
            stored = sum(part.rows for part in bucket.slices)
            stats = state.seen.merge(CheckUpdate(), writer=self.writer(), edits=self.edits, emit=new, buckets=[bucket])
            state.count("duplicates", stats.rows - stats.emitted)
            passed += stored + ROW_COST * stats.rows
            if carried >= room or (passed >= TURN_ROWS and (carried or not task.urgent)) or not task.proceed():
                break
        self.result.moved = True

    def _call_pages(self, task: Task) -> None:
        """Signals and orders meet the pages, bucket by bucket as in `_check_seen`."""
        state, passed = self.state, 0
        self._put_away()  # a page is called out of the queue in which it is
        for bucket in sorted(state.known.buckets, key=lambda bucket: bucket.cursor):
            passed += sum(part.rows for part in bucket.slices)
            passed += ROW_COST * self._pages.call(
                self.writer, self.edits, bucket, task.now, lambda rows: self._pend(rows, OP_VISIT)
            )  # fmt: skip
            if passed >= TURN_ROWS or not task.proceed():
                break
        self._pend_learnt()
        self.result.moved = True

    def _shed(self, task: Task) -> None:
        """Down to SHED_TO of frontier.bytes_max when there is more: what would go last goes first, of QF, then of the
        queues, then of the rests and of the calendar."""
        state = self.state
        if state.room_bytes >= 0:
            return
        most = state.config.frontier.bytes_max
        rows_of = state.frontier_rows / max(state.frontier_bytes, 1)
        excess = math.ceil((state.frontier_bytes - SHED_TO * most) * rows_of)

        def drop(rows: Batch) -> None:
            self._leave(rows.select(LINK), [Reason.FRONTIER_FULL] * rows.rows, task.now)

        dropped = state.sites.shed(self.writer(), self.edits, excess, drop)
        for store in (state.rests, state.calendar):
            if state.room_bytes < 0:
                dropped += store.shed(self.writer(), self.edits, excess - dropped, drop)
        self.result.dropped = dropped
        self.result.moved = self.result.moved or dropped > 0  # what is in runs is not dropped

    def _bring(self, task: Task) -> None:
        """What is due in the calendar and in the rests, what waits in the calendar by gaps or hours that are others
        now, and as much from the queues as is wanted, past the hosts drum into runs."""
        state = self.state
        with state.pace.measure("hosts"):
            wanted = task.rows_wanted
            for batch in state.calendar.due(self.edits, task.now, RELEASE_ROWS_MAX):
                self._pend(batch, OP_AGAIN)
                wanted -= batch.rows
            for batch in state.calendar.take_again(self.edits, RELEASE_ROWS_MAX):
                self._pend(batch, OP_AGAIN)
            state.note_scheduled(self.edits)
            for batch in state.rests.due(self.edits, task.now, RELEASE_ROWS_MAX):
                self._pend(batch, OP_AGAIN)
            others = state.sites.queued_rows + state.sites.deferred_rows > 0
            again = self._pages.bring(
                self.edits, wanted, others, task.now, lambda rows: self._pend(rows, OP_VISIT)
            )  # fmt: skip
            wanted -= again
            self.result.moved = self.result.moved or again > 0
            if wanted > 0 and state.sites.queued_rows + state.sites.deferred_rows:
                self.result.moved = True
                state.sites.rotate(
                    self.writer(),
                    self.edits,
                    wanted,
                    self._pend_new,
                    lambda rows: self._over_quota(rows, task),
                )
            if state.hosts.pending_rows:
                self._release(task)

    def _pend_new(self, rows: Batch) -> None:
        self._pages.new(rows)
        self._pend(rows, OP_NEW)

    def _pend(self, rows: Batch, op: int) -> None:
        """URLs before the hosts drum; a queue may hold more of them than memory should."""
        hosts = self.state.hosts
        hosts.pend_batch(keyed_by_host(rows), op)
        if hosts.ram_rows > RELEASE_ROWS_MAX:
            hosts.spill(self.writer(), self.edits)

    def _over_quota(self, rows: Batch, task: Task) -> None:
        self._leave(rows.select(LINK), [Reason.QUOTA_SITE] * rows.rows, task.now)

    def _release(self, task: Task) -> None:
        """Rows past the hosts drum become a ready segment, or several when there are very many."""
        parts: list[Batch] = []

        def emit(_: Bucket, batch: Batch) -> None:
            if "at" in batch:
                self._pages.judged(keyed_by_url(batch))
                return
            parts.append(redated(keyed_by_url(batch), self.state.clock_set))
            if sum(part.rows for part in parts) > RELEASE_ROWS_MAX:
                self._place(parts, task)
                parts.clear()

        pending = self.state.hosts.pending_by_op()
        kernel = HostsKernel(OP_STATE in pending, OP_LEARNT in pending, self._pages.enabled)
        self.state.hosts.join()
        self.state.hosts.merge(
            kernel, writer=self.writer(), edits=self.edits, emit=emit, proceed=lambda _: task.proceed()
        )
        self.state.count_standings(kernel.moved)
        if parts:
            self._place(parts, task)

    def _place(self, parts: list[Batch], task: Task) -> None:
        """Each row into a run, the calendar, the rests, or out."""
        rows = Batch.concat(list(map(with_pages, parts)) if self._paged(parts) else parts)
        verdicts = release(rows, task.policy, self._pages.again if self._pages.enabled else None)
        self.result.moved = True
        state = self.state
        self._pages.released(verdicts.served, verdicts.stayed, verdicts.prices)
        self._leave(verdicts.left, verdicts.reasons, task.now)
        self._put_off(verdicts.later, verdicts.due, verdicts.rests)
        if verdicts.urls.rows:
            number = state.runs.add(self.writer(), self.edits, verdicts.urls, verdicts.index)
            self.result.ready.append(ReadyRuns(number, verdicts.index))

    def _paged(self, parts: list[Batch]) -> bool:
        """Whether rows get PAGE: all of them if pages are visited again, and beside those that have it."""
        return self._pages.enabled or any("visits" in part for part in parts)

    def _pend_learnt(self) -> None:
        learnt, self._pages.learnt = self._pages.learnt, []
        for rows in learnt:
            self.state.hosts.pend_batch(rows, OP_LEARNT)

    # -- out -----------------------------------------------------------------------------------------------------------

    def _finish(self, task: Task) -> None:
        """Everything that must be on the disk before the loop commits."""
        state, edits = self.state, self.edits
        self._pend_learnt()
        self._pages.finish()
        self.result.moved = self.result.moved or self._pages.moved
        if state.hosts.ram_rows:
            state.hosts.spill(self.writer(), edits)
        if state.sites.ram_rows:
            state.sites.spill(self.writer(), edits)
        self._put_away()
        if state.known.ram_rows:
            state.known.spill(self.writer(), edits)
        for store in (state.calendar, state.rests, *state.pages.stores, *state.pages.left):
            store.tidy(self.writer, edits)
        self.result.scope_entries = state.scope_log.add(state.scope, self.writer, edits, self._scope)
        state.runs.save(self.writer, edits)
        if task.clocks is not None and task.clocks.rows:
            rows = task.clocks.with_(next=task.clocks["next"] - state.clock_set)
            state.clock_log.add(self.writer(), edits, rows, task.now - state.clock_set)
        if self._writer is not None:
            moves = vacuum(state.pool, self._writer, state.holders)
            self._writer.finish()
            for holder in state.holders if moves else ():
                holder.moved(edits, moves)
            self.result.written.append(self._writer.name)
        for part in self.result.ready:
            state.runs.opened(part.segment)
        self._log()
        state.ledger.check(state.live())
        state.sites.check()
        edits.set("learnt", task.now - state.clock_set)
        state.save(edits)


def _whole(section: Section, schema: dict[str, str]) -> Batch:
    """All rows of a small section."""
    return Batch.concat([Batch.empty(schema), *section.scan()]) if section.rows else Batch.empty(schema)
