"""What a fetch worker does between its first frame and its last: visits in, archive and harvests out.

It holds no truth: what it archived can be replayed, what it had in flight can be leased again. So whenever it cannot go
on (the disk is full, a bug) it just raises, and the process ends.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drum import Files

import uvloop

import irlcrawl
from irlcrawl.base.clock import Clock, SystemClock
from irlcrawl.base.job import JobDir
from irlcrawl.base.memory import Trim, plain_arrays
from irlcrawl.base.reasons import NOT_THE_PAGE, OF_PAGES, Class, Reason
from irlcrawl.base.rows import NO_SEGMENT
from irlcrawl.base.steps import Steps
from irlcrawl.config.keys import Archive, Config
from irlcrawl.config.toml import from_dict, making
from irlcrawl.web.block import blocked_urls
from irlcrawl.web.opt_out import OptOutFile
from irlcrawl.web.robots import Rules, product_token
from irlcrawl.web.scope import Scope
from irlcrawl.web.wishes import joined
from irlcrawl.worker.archive.payloads import Payloads
from irlcrawl.worker.archive.record import sha1
from irlcrawl.worker.archive.unit import Exchange, Unit, without_body
from irlcrawl.worker.archive.warc import WarcWriter, warcinfo_values
from irlcrawl.worker.archive.window import Window
from irlcrawl.worker.fetch.clients import open_fetcher
from irlcrawl.worker.fetch.http import BODY_FREE_BYTES
from irlcrawl.worker.fetch.lease import Lease
from irlcrawl.worker.fetch.reading import Reading
from irlcrawl.worker.fetch.slices import Slices
from irlcrawl.worker.fetch.terms import TermsOf
from irlcrawl.worker.fetch.visit import Detour, Visit
from irlcrawl.worker.fetch.wire import AnchoredClock, Message, Wire, WireError, open_wire
from irlcrawl.worker.fetch.wishes import Wishes
from irlcrawl.worker.harvest.builder import HarvestBuilder, UnitRows
from irlcrawl.worker.harvest.context import Context
from irlcrawl.worker.harvest.known_rules import KnownRules
from irlcrawl.worker.harvest.process import discovering, finished, rules_read, with_tdm
from irlcrawl.worker.harvest.rules_log import Pointer

if TYPE_CHECKING:
    from irlcrawl.worker.fetch.signing import Signer

RULES_CACHE_BYTES = 2 << 20
"""Rules of the last hundreds of hosts. Those of others are read again from their log, tens of microseconds a visit; a
larger cache would be full, and a worker's memory at rest, only after hours."""
REDIRECTED_MAX = 4096
TICK_SECONDS = 0.25
HELD_FACTOR = 2
"""Visits pause when this many times harvest_bytes are held: the disk is slower than the network."""


_log = logging.getLogger("irlcrawl.worker")


def signer_of(config: Config, key: str | None) -> Signer | None:
    """What signs requests; `key`: the private key in hex, empty: nothing does."""
    if not key:
        return None
    from irlcrawl.worker.fetch.signing import Signer  # cryptography is loaded where it is used alone

    return Signer(bytes.fromhex(key), config.fetch.signature_agent)


def _window(files: Files, job: JobDir, archive: Archive) -> Window:
    files.mkdir(job.indexes)
    return Window(files, os.fspath(job.window), archive.dedupe_window, archive.prefix)


class Worker:
    """One stream: its archive, its harvest and its visits. `visit.Services` for the visits."""

    def __init__(self, hello: Message, job: Path, wire: Wire, files: Files) -> None:
        self.config: Config = from_dict(hello["config"])
        self.clock: Clock = AnchoredClock(*hello["clock"]) if hello.get("clock") else SystemClock()
        self.fetcher = open_fetcher(self.config, self.clock)
        self._reading = Reading.at(hello.get("reading", ""))
        self._slices = self.fetcher.slices = Slices(self.clock, self._reading)
        self.unreadable: set[bytes] = {url.encode("ascii") for url in hello.get("unreadable", ())}
        self.terms = TermsOf(self.config, hello.get("secrets"), hello.get("logins"))
        self.signer = signer_of(self.config, hello.get("signing_key"))
        self.stopping = asyncio.Event()
        self._wire = wire
        self._files = files
        self._state_dir = str(JobDir(job).state)
        self._scope = Scope(self.config.scope, self.config.site, _entries(hello.get("scope_entries", [])))
        self.blocked = blocked_urls(self.config)
        self._context = Context(self.config, hello["seed"], self._scope)
        stream = hello["stream"]
        archive = self.config.archive
        zstd_level = archive.zstd_level if archive.compression == "zstd" else None
        self._warc = WarcWriter(
            files, str(JobDir(job).warcs), archive.prefix, stream, roll_bytes=archive.roll_bytes,
            gzip_level=archive.gzip_level, zstd_level=zstd_level, clock=self.clock,
            dedupe_bytes_min=archive.dedupe_bytes_min,
            payloads=Payloads.open(files, JobDir(job)) if archive.dedupe_from else None,
            window=_window(files, JobDir(job), archive) if archive.dedupe_window else None,
            info=warcinfo_values(
                software=f"irlcrawl/{irlcrawl.__version__}", user_agent=self.config.crawl.user_agent,
                operator=self.config.crawl.operator, is_part_of=hello["crawl"], settings=making(self.config),
            ),
        )  # fmt: skip
        self._synced_at = self.clock.now()
        self._harvest = HarvestBuilder(
            files, self._state_dir, stream, self.clock, duplicates_last=self.config.budgets.duplicates_last,
            near_duplicates_max=self.config.page.near_duplicates_max,
        )  # fmt: skip
        self._harvest_lock = asyncio.Lock()
        self._sync_s = 0.0  # waited for the disk since the last harvest was handed over
        self._full = False  # the harvest is over harvest_bytes and about to be handed over
        self._room = asyncio.Event()
        self._room.set()
        self._token = product_token(self.config.crawl.user_agent)
        self._wishes = Wishes(self.config)
        self._opt_out_file = OptOutFile.of_crawl(self.config, os.fspath(JobDir(job).opt_outs))
        self._opt_outs = self._opt_out_file.latest()
        self._rules = KnownRules(files, self._state_dir, self._token, RULES_CACHE_BYTES)
        self.redirected: dict[int, tuple[bytes, int]] = {}
        self._visits: dict[asyncio.Task[None], Visit] = {}
        self._chores: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._detours: dict[int, asyncio.Future[Detour]] = {}
        self._detour_number = 0
        self._doubts: dict[int, asyncio.Future[bool]] = {}

    # What visits use

    def _read(
        self, unit: Unit, exchange: Exchange | None, rules: Rules | None
    ) -> Steps[tuple[UnitRows, Exchange | None]]:
        """What a unit yields, and what is stored of it."""
        stored = exchange
        if exchange is not None and unit.segment != NO_SEGMENT:
            page = unit.cls == Class.FETCHED and exchange.status in OF_PAGES
            if page and exchange.body and exchange.coding:
                yield from exchange.decoding(self.config.fetch.decoded_bytes_max)  # the wishes in it are looked for
            said = yield from self._wishes.of(exchange, rules)
            unit.wishes = joined(said)
            if self._wishes.withhold(said, exchange, unit.start):
                if page and unit.reason not in NOT_THE_PAGE:
                    unit.reason, stored = Reason.WITHHELD, None
                elif exchange.body:  # an error, say, is one all the same
                    exchange = stored = without_body(exchange)
        digest = sha1(exchange.body) if exchange is not None and unit.page is not None else b""
        return (yield from discovering(unit, exchange, self._context, digest)), stored

    async def keep(self, unit: Unit, exchange: Exchange | None, rules: Rules | None = None) -> Pointer | None:
        """Read a unit, in slices if it is long; then archive and harvest it in one piece, so that both agree on the
        order."""
        large = exchange is not None and len(exchange.body) > BODY_FREE_BYTES
        if large:
            self.fetcher.hold_large(1)
        try:
            found, stored = await self._slices.run(self._read(unit, exchange, rules), unit.url)
        except MemoryError as error:
            stored = None if unit.reason == Reason.WITHHELD else exchange
            self._warc.append(unit, stored)  # it is read again after this worker's end
            self._fail(error)
            raise
        except Exception:
            self._reading.broke(unit.url)
            raise
        finally:
            if large:
                self.fetcher.hold_large(-1)
        if self.terms.plugin_errors:
            found.counts["plugin_errors"] = found.counts.get("plugin_errors", 0) + self.terms.plugin_errors
            self.terms.plugin_errors = 0
        began = self.clock.now()
        location = self._warc.append(unit, stored)
        try:
            pointer = self._harvest.add(finished(found, unit, stored or exchange, location))
        except Exception as error:
            self._fail(error)
            raise
        self._slices.hold(began)
        held, bound = self._harvest.nbytes, self.config.frontier.harvest_bytes
        if held >= bound and not self._full:
            self._full = True
            self._chore(self._hand_over(asked=False))
        if held >= HELD_FACTOR * bound:
            self._room.clear()
        return pointer

    def opted_out(self, url: bytes) -> bool:
        return self._opt_outs is not None and self._opt_outs.of(url) is not None

    def learnt_robots(self, visit: int, robots: dict[str, Any]) -> None:
        self._wire.send({"t": "robots", "visit": visit, "robots": robots})

    async def room(self) -> None:
        if not self._room.is_set():
            await self._room.wait()

    def rules_at(self, pointer: Sequence[int]) -> Rules | None:
        return self._rules.at(pointer)

    def rules_of(self, exchange: Exchange | None, tdm: str = "") -> Rules | None:
        text, damaged = (b"", False) if exchange is None else rules_read(exchange, self.config)
        return None if damaged else Rules(with_tdm(text, tdm), self._token)

    async def detour(self, visit: int, url: bytes, fetch_s: float) -> Detour:
        self._detour_number += 1
        number = self._detour_number
        answer: asyncio.Future[Detour] = asyncio.get_running_loop().create_future()
        self._detours[number] = answer
        message = {"t": "detour", "id": number, "visit": visit, "url": url.decode("ascii"), "fetch_s": fetch_s}
        self._wire.send(message)
        try:
            return await answer
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled() and answer.result().address is not None:
                self.detour_end(answer.result(), None, 0.0)  # it came in the moment the visit gave up
            raise
        finally:
            self._detours.pop(number, None)

    def detour_end(
        self, detour: Detour, ended: float | None, fetch_s: float, outcome: str = "ok", retry_after: float | None = None
    ) -> None:
        told = {"ended": ended, "fetch_s": fetch_s, "outcome": outcome, "retry_after": retry_after}
        self._wire.send({"t": "detour_end", "id": detour.number, **told})

    async def charged(self, visit: int) -> bool:
        if self.stopping.is_set():  # it is asked again when the crawl goes on
            return False
        answer = self._doubts[visit] = asyncio.get_running_loop().create_future()
        self._wire.send({"t": "doubt", "visit": visit})
        try:
            return await answer
        finally:
            del self._doubts[visit]

    # What the frontier says

    def on_message(self, message: Message) -> None:
        """Any message after hello."""
        match message["t"]:
            case "visit":
                self._start(Visit(Lease.of(message), self))
            case "harvest":
                self._chore(self._hand_over(asked=True))
            case "ping":
                self._wire.send({"t": "pong"})
            case "clock":
                if isinstance(self.clock, AnchoredClock):
                    self.clock.set(*message["clock"])
            case "scope":
                self._scope.add(_entries(message["entries"]))
            case "unreadable":
                self.unreadable.add(message["url"].encode("ascii"))
            case "detour":
                self._on_detour(Detour(message["id"], message["address"], message.get("reason"), message.get("paces")))
            case "doubt":
                answer = self._doubts.get(message["visit"])
                if answer is not None and not answer.done():
                    answer.set_result(message["charge"])
            case "stop":
                self._chore(self._finish())
            case "abort":
                for task in self._visits:
                    task.cancel()
                self._chore(self._finish())
            case other:
                raise WireError(f"unknown message {other!r}")

    def _start(self, visit: Visit) -> None:
        if len(self.redirected) > REDIRECTED_MAX:
            self.redirected.clear()
        task = asyncio.get_running_loop().create_task(self._run(visit))
        self._visits[task] = visit
        task.add_done_callback(self._visit_done)

    async def _run(self, visit: Visit) -> None:
        self._wire.send(await visit.run())

    def _visit_done(self, task: asyncio.Task[None]) -> None:
        visit = self._visits.pop(task)
        if task.cancelled():  # before it could begin
            self._wire.send(visit.end())
        else:
            self._fail(task.exception())

    def _on_detour(self, detour: Detour) -> None:
        answer = self._detours.get(detour.number)
        if answer is not None and not answer.done():
            answer.set_result(detour)
        elif detour.address is not None:  # the visit that asked is over
            self.detour_end(detour, None, 0.0)

    # Harvest, archive, end

    async def _hand_over(self, asked: bool) -> None:
        """Write what was harvested and say so. The archive is on the disk before the harvest that names its end; both
        get there on a thread, while other pages are read. Nothing once this worker has failed: the archive may hold a
        unit then that the harvest does not."""
        async with self._harvest_lock:
            if self._failed.done():
                return
            try:
                harvest = self._harvest.take(self._warc.position)
            except Exception as error:
                self._fail(error)
                raise
            self._full = False
            if harvest is None:
                if asked:
                    none = {"number": None, "file": None, "bytes": 0, "pages": 0}
                    self._wire.send({"t": "harvest", **none, **self._synced()})
                return
            await self._sync_archive()
            began = self.clock.now()
            size = await asyncio.get_running_loop().run_in_executor(None, harvest.write)
            self._sync_s += self.clock.now() - began
            self._room.set()
            self._wire.send(
                {"t": "harvest", "number": harvest.number, "file": harvest.file, "bytes": size, "pages": harvest.pages,
                 **self._synced()}
            )  # fmt: skip

    def _synced(self) -> dict[str, float]:
        """Of the next message about a harvest."""
        seconds, self._sync_s = self._sync_s, 0.0
        return {"sync_s": round(seconds, 4)}

    async def drop(self) -> None:
        """The end without a word: nobody listens any more, so nothing more is archived."""
        for task in self._visits:
            task.cancel()
        if self._visits:
            await asyncio.wait(self._visits)
        await self.fetcher.close()

    async def _sync_archive(self) -> None:
        """What was archived before the call is on the disk after it."""
        self._synced_at = began = self.clock.now()
        await asyncio.get_running_loop().run_in_executor(None, self._warc.sync)
        self._sync_s += self.clock.now() - began

    async def _finish(self) -> None:
        """Every visit ends, everything is handed over, and the wire closes. A second call waits for the first."""
        again = self.stopping.is_set()
        self.stopping.set()
        self._room.set()
        for number, answer in self._detours.items():
            if not answer.done():
                answer.set_result(Detour(number, None, None))
        for doubt in self._doubts.values():
            if not doubt.done():
                doubt.set_result(False)
        if again:
            return
        while self._visits:
            await asyncio.wait(self._visits)
        await self._hand_over(asked=False)
        self._warc.close()
        self._wire.send({"t": "bye"})
        self._wire.close()

    async def run(self) -> None:
        """Syncs the archive, hands over what is old and reads lists again that changed, until something fails."""
        sync_seconds, harvest_seconds = self.config.archive.archive_sync_seconds, self.config.frontier.harvest_seconds
        trim = Trim(self.clock)
        while not self._failed.done():
            await asyncio.wait((self._failed,), timeout=TICK_SECONDS)
            if self._opt_out_file.changed:
                self._opt_outs = await asyncio.get_running_loop().run_in_executor(None, self._opt_out_file.latest)
            if self.clock.now() - self._synced_at >= sync_seconds:
                await self._sync_archive()
            if self._harvest.age >= harvest_seconds and not self._full:
                self._full = True
                self._chore(self._hand_over(asked=False))
            if trim.due:
                await asyncio.get_running_loop().run_in_executor(None, trim.now_and_then)
        await self._failed

    def _chore(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._chores.add(task)
        task.add_done_callback(self._chore_done)

    def _chore_done(self, task: asyncio.Task[None]) -> None:
        self._chores.discard(task)
        if not task.cancelled():
            self._fail(task.exception())

    def _fail(self, error: BaseException | None) -> None:
        if error is not None and not self._failed.done():
            self._failed.set_exception(error)


async def serve(sock: socket.socket, job: Path, files: Files) -> None:
    """A worker on `sock` until the wire closes. Raises what made it impossible to go on."""
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(initializer=plain_arrays))
    over: asyncio.Future[None] = loop.create_future()
    worker: Worker | None = None

    def on_message(message: Message) -> None:
        nonlocal worker
        try:
            if worker is not None:
                worker.on_message(message)
            elif message["t"] == "hello":
                worker = Worker(message, job, wire, files)
                running = asyncio.ensure_future(worker.run())
                running.add_done_callback(lambda task: None if task.cancelled() else close(task.exception()))
                wire.send({"t": "ready", "stream": message["stream"], "pid": os.getpid()})
            else:
                raise WireError(f"the first message is a hello, not {message['t']!r}")
        except Exception as error:  # into the future that ends the process
            close(error)

    def close(error: BaseException | None) -> None:
        """The wire is closed, which is how a worker ends (a reset is one with messages left unread), or all is lost."""
        if not over.done():
            over.set_result(None) if error is None else over.set_exception(error)

    def on_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An error of the loop itself. Out of memory is not the fault of the server whose answer it was reading."""
        if isinstance(error := context.get("exception"), MemoryError):
            close(error)
        else:
            loop.default_exception_handler(context)

    asyncio.get_running_loop().set_exception_handler(on_loop_error)
    wire = await open_wire(sock, on_message, lambda error: close(error if isinstance(error, WireError) else None))
    try:
        await over
    finally:
        if worker is not None:
            await worker.drop()


def _entries(texts: Sequence[str]) -> list[bytes]:
    return [text.encode("ascii") for text in texts]


def run(sock: socket.socket, job: Path) -> None:
    """serve() on uvloop and the real file system."""
    plain_arrays()
    uvloop.run(serve(sock, job, Files()))
