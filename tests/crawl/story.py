"""A random story of a crawl: everything switched on and off between runs, killed and steered in between; and what has
to hold whatever happened.

A story is drawn from its seed alone. It crawls tests/crawl/varied_web.py under virtual time; what may come between two
runs and within one is in story_steps.py, and test_combinations.py tells stories.

Held against it: every start, stop and kill leaves what `fsck` finds whole; no URL is done twice, no visit is archived
twice, and no URL of which an archived page tells is lost; no host is asked before its gap, and nothing that is blocked,
paused, opted out or forbidden; exit codes are those that the run's configuration allows; no error is logged with a
traceback.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import random
import time
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from drum import Files
from drum.files import Data, Handle
from drum.files import Path as FilePath

import pytest

from irlcrawl.base import clock as clock_module
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import SEEDS_STREAM, harvests_from
from irlcrawl.base.reasons import Reason
from irlcrawl.cli import main
from irlcrawl.cluster.nodes import Nodes
from irlcrawl.config.checks import absolute, check_resume, check_start, validate
from irlcrawl.config.keys import Config, Priority, RevisitRule
from irlcrawl.config.lists import opt_outs
from irlcrawl.config.overrides import Overrides
from irlcrawl.config.rewrite import rewritten
from irlcrawl.config.toml import CONFIG_HEADER, load_stored, to_toml
from irlcrawl.crawl.loop import CrawlLoop
from irlcrawl.crawl.seeding import named_again, write_seeds
from irlcrawl.frontier.state import crawl_state, formats
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.frontier.state.start_checks import stored_config
from irlcrawl.terminal.progress import Bar
from irlcrawl.upkeep.fsck import Fsck
from irlcrawl.upkeep.verify import verify
from irlcrawl.web.block import Block
from irlcrawl.web.opt_out import OptOuts
from irlcrawl.worker.archive import log_parts
from irlcrawl.worker.archive.payloads import build
from irlcrawl.worker.archive.unit import Unit
from irlcrawl.worker.archive.warc import WarcWriter
from irlcrawl.worker.fetch import service
from tests.cluster.virtual_cluster import Cluster, Machine
from tests.crawl.varied_web import PRIVATE, SEED, VariedNames, VariedWeb
from tests.crawl.virtual_crawl import Crawl, Killed, rest_shortly
from tests.rounds.virtual_rounds import Rounds

GAP_S = 0.5
"""The shortest gap of all configurations."""
ROLL_BYTES = 40_000
REQUESTS_MAX = 2000
"""Of a run."""
OPTIONS: dict[str, list[Any]] = {
    "revisit.enabled": [True, False],
    "page.near_duplicates": [True, False],
    "page.requisites": [True, False],
    "page.requisites_max": [1, 500],
    "page.tdmrep": [True, False],
    "page.wishes_obeyed": [["noarchive", "tdm-reservation"], []],
    "page.scripts": [True],
    "archive.compression": ["zstd", "gzip"],
    "archive.dedupe_bytes_min": [0, 1024],
    "archive.dedupe_from": [["OTHER"], []],
    "archive.log_roll_bytes": [2000, 10**8],
    "archive.on_warc_closed": ["true", ""],
    "fetch.http2": ["off", "offered"],
    "fetch.types": [["text/*", "application/*"], []],
    "fetch.visits_per_worker": [1, 128],
    "urls.merge": [[], ["tracking", "sort_query"], ["trailing_slash", "tracking"]],
    "limits.pages_per_host": [3, 0],
    "limits.pages_per_site": [5, 0],
    "limits.bytes_per_second": [5000, 0],
    "limits.pages": [5, 20, 60],
    "limits.bytes": [50_000, 200_000],
    "limits.seconds": [10.0, 100.0],
    "limits.wait_hours": [0.01, 0.1],
    "frontier.when_full": ["drop", "delay", "stop"],
    "frontier.bytes_max": [1, 600, 2000],
    "frontier.harvests_bytes_max": [65536],
    "frontier.harvest_seconds": [0.01, 2.0],
    "frontier.urls_per_host_max": [4, 1000],
    "frontier.hosts_active_max": [16],
    "frontier.level_hours": [0.0, 0.01],
    "politeness.unit": ["site", "address", "host"],
    "politeness.hours": ["01:46-01:48, 01:50-01:53, 02:00-24:00"],
    "politeness.visit_urls_max": [1, 3],
    "politeness.visit_seconds": [0.0, 60.0],
    "politeness.horizon_seconds": [1.0, 5.0],
    "politeness.gap_host_seconds": [GAP_S, 2.0],
    "politeness.gap_site_seconds": [1.0],
    "politeness.shared_address_sites": [0, 2],
    "robots.fresh_seconds": [1.0, 60.0],
    "budgets.seed_floor": [1, 3],
    "budgets.curve": ["none", "rank", "log"],
    "budgets.hops": [2],
    "budgets.unsupported": [0],
    "budgets.top_budget": [1],
    "plugins.filter": [["short"]],
    "plugins.normaliser": [["amp"]],
    "plugins.page": [["json-links"]],
    "plugins.priority": [["recent"]],
}  # fmt: skip
"""Values that runs draw from. A key that is not drawn has its default."""


class Died(BaseException):
    """Nothing that ran when everything was killed may handle it."""


class MortalFiles(Files):
    """So many changes are made, then everything is killed, and nothing is changed any more. None: it lives."""

    def __init__(self, left: int | None, die: Callable[[], None]) -> None:
        self.left, self._die = left, die

    def _step(self) -> None:
        if self.left is None:
            return
        self.left -= 1
        if self.left == -1:
            self._die()
        if self.left < 0:
            raise Died

    def write(self, handle: Handle, data: Data) -> None:
        self._step()
        super().write(handle, data)

    def pwrite(self, handle: Handle, data: Data, offset: int) -> None:
        self._step()
        super().pwrite(handle, data, offset)

    def rename(self, old: FilePath, new: FilePath) -> None:
        self._step()
        super().rename(old, new)

    def link(self, old: FilePath, new: FilePath) -> None:
        self._step()
        super().link(old, new)

    def unlink(self, path: FilePath, missing_ok: bool = False) -> None:
        self._step()
        super().unlink(path, missing_ok)

    def truncate(self, path: FilePath | Handle, length: int) -> None:
        self._step()
        super().truncate(path, length)

    def create(self, path: FilePath) -> Handle:
        self._step()
        return super().create(path)


class Known(set[bytes]):
    """Visits that are in the archive. `again`: URLs that may come a second time, for what they had was taken."""

    def __init__(self) -> None:
        super().__init__()
        self.again: set[bytes] = set()

    def __contains__(self, visit: object) -> bool:
        assert isinstance(visit, bytes)
        return super().__contains__(visit) and visit.split(b" ")[0] not in self.again


class Crawling(Rounds, Cluster):
    """A crawl whose configuration is in JOB and is written there by each start, as the supervisor does it. It waits
    for machines if there are any."""

    errors: list[BaseException]
    more: list[bytes]
    """Seeds of the next start."""

    async def _run(self, main: Callable[[Any], Coroutine[Any, Any, Any]] | None) -> ExitCode:
        job = self.job()
        job.acquire()
        try:
            text = rewritten(stored_config(job, Files()) or "", self.config, CONFIG_HEADER)
            state = CrawlState.open(
                job, self.config, self.clock, self.files, write_config=lambda: job.write_config(text, self.files)
            )
            if self.config.archive.dedupe_from:
                build(state.files, job, self.config.archive.dedupe_from, self.config.archive.dedupe_bytes_min)
            return await self._crawl(state, main)
        finally:
            job.release()

    async def _crawl(self, state: CrawlState, main: Callable[[Any], Coroutine[Any, Any, Any]] | None) -> ExitCode:
        try:
            loop = self.loop = CrawlLoop(state, self.config, self.clock, self.machine)
            loop.dispatcher.resolver = self.names  # type: ignore[assignment]
            self.links, self.leased, self.running, self.socks = [], {}, {}, {}
            nodes = self.nodes = Nodes(loop, self.wait_s) if self.machines else None
            for machine in self.machines:
                machine.start()
            old, name = list(state.streams), self._seeds(state)
            loop.deaths.replace = self._replace
            if nodes is not None:
                await nodes.settle()
                old = nodes.settled(old)
            await loop.open(name, old)
            for _ in range(self.workers):
                await self._add_worker()
            if nodes is not None:
                nodes.opened()
            beside = asyncio.ensure_future(main(self)) if main else None
            code = await loop.run()
            if beside and not beside.cancel():
                beside.result()
            if nodes is not None:
                await nodes.close("the crawl is over")
            return code
        finally:
            if self.nodes is not None:
                await self.nodes.close(None)
            self.nodes = None
            state.close()

    def _ended(self, stream: int, serving: asyncio.Task[None]) -> None:
        if not serving.cancelled() and (error := serving.exception()) is not None and not isinstance(error, Died):
            self.errors.append(error)
        super()._ended(stream, serving)

    def _seeds(self, state: CrawlState) -> str | None:
        """As the supervisor writes them."""
        number = state.streams[SEEDS_STREAM]["next"]
        waiting = list(harvests_from(set(state.files.listdir(state.dir)), SEEDS_STREAM, number))
        seeds = self.more or ([SEED.encode()] if number == 0 and not waiting else [])
        if not seeds:
            return None
        name = write_seeds(state, self.config, seeds, number + len(waiting), named_again(state, seeds))
        self.more = []
        return name


Step = Callable[["Story"], None]


class Story:
    """One crawl and what was done to it. AssertionError where something does not hold."""

    def __init__(self, directory: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.between: Sequence[tuple[str, Step]] = ()
        self.inside: Sequence[Step] = ()
        self.draw = random.Random(seed)
        self.patch = monkeypatch
        self.told: list[str] = []
        self.web = VariedWeb(seed)
        self.opt_out_file = directory / "opt-out.txt"
        self.opt_out_file.write_text("")
        self.other = directory / "other"
        if self.draw.random() < 0.3:
            self._make_other()  # before this one's patches
        self.crawl = Crawling(directory / "job", self.web, [SEED], monkeypatch, names=VariedNames(), workers=1)
        self.crawl.more, self.crawl.errors = [], []
        self.crawl.archived = self.known = Known()
        self.config = self.crawl.config
        self.kills = 0
        self.deaths = 0
        self.lists = 0
        self.damaged = False
        self.dropped_links = False
        self.withheld: set[bytes] = set()
        self.taken_down: set[str] = set()
        self.ends: dict[str, float] = {}
        self.checked = 0  # requests
        self.code = 0  # of the last verb
        self._base(self.config)
        self.crawl.on_kept = self._kept
        small = lambda *known, **more: WarcWriter(*known, **{**more, "roll_bytes": ROLL_BYTES})  # noqa: E731
        monkeypatch.setattr(service, "WarcWriter", small)
        monkeypatch.setattr(crawl_state.secrets, "randbits", lambda bits: 4711)
        monkeypatch.setattr(clock_module, "SystemClock", lambda: self.crawl.clock)
        defaults = Fsck.__init__.__defaults__
        assert defaults is not None
        now = tuple(self.crawl.clock.now if one is time.time else one for one in defaults)
        monkeypatch.setattr(Fsck.__init__, "__defaults__", now)
        self.errors: list[str] = []
        handler = _Errors(self.errors)
        logging.getLogger().addHandler(handler)
        self.close = lambda: logging.getLogger().removeHandler(handler)

    def say(self, what: str) -> None:
        self.told.append(what)

    def _base(self, config: Config) -> None:
        """What no run changes."""
        config.crawl.user_agent = "test/1 (+http://contact.test/)"
        config.scope.kind = "any"
        config.scope.opt_out_file = str(self.opt_out_file)
        config.politeness.gap_host_factor = 0.0
        config.frontier.disk_reserve_bytes = 1 << 20
        config.revisit.every_min_seconds, config.revisit.first_rate_days = 20.0, 300 / 86400
        config.plugins.options = []
        rest_shortly(config)

    # -- runs ----------------------------------------------------------------------------------------------------------

    def configure(self, chance: float) -> None:
        """As a start does: what JOB has, and this run's options over it."""
        job, old = self.crawl.job(), None
        if job.config_file.exists():
            old = load_stored(job.config_file)
        config, fresh = load_stored(job.config_file) if old else self.config, Config()
        self._base(fresh)
        drawn = {path: self.draw.choice(values) for path, values in OPTIONS.items() if self.draw.random() < chance}
        if "frontier.bytes_max" not in drawn:
            drawn.pop("frontier.when_full", None)
        for path in OPTIONS:
            section, key = path.split(".")
            value = drawn.get(path, getattr(getattr(fresh, section), key))
            setattr(getattr(config, section), key, list(value) if isinstance(value, list) else value)
        if config.archive.dedupe_from:
            config.archive.dedupe_from = [str(self.other)] if self.other.exists() else []
            config.archive.dedupe_bytes_min = config.archive.dedupe_bytes_min or 1024
        config.plugins.options = ["short.bytes=80"] * bool(config.plugins.filter)
        config.plugins.options += ["recent.since=2020"] * bool(config.plugins.priority)
        config.limits.wait_hours = drawn.get("limits.wait_hours", 0.0)
        if config.revisit.enabled and not (config.limits.pages or config.limits.seconds):
            config.limits.seconds = 500.0
        config.priority = [Priority("[45]/$", 3)] * (self.draw.random() < chance)
        config.revisit_rule = [RevisitRule("/[12]/$", every_max_seconds=30.0)] * (self.draw.random() < chance)
        self.say(f"run with {drawn} {[(n, s) for n, s in config.site.items()]} {config.scope.block}")
        validate(config)
        absolute(config)
        check_start(config)
        if old is not None:
            check_resume(old, config)
        self.crawl.config = self.config = config
        self.crawl.workers = self.draw.choice([1, 1, 3])
        self.machines(1 if self.draw.random() < chance / 2 else 0)

    def machines(self, count: int) -> None:
        """So many fetch for the next run. A run without them goes on without what they have not handed over."""
        if self.crawl.machines and not count:
            self.known.clear()
        self.crawl.machines = [Machine(self.crawl, f"m{number}") for number in range(count)]
        if count:
            self.say(f"  with {count} machines")

    def run(self, chance: float) -> None:
        self.configure(chance)
        ending = self.draw.choice(["request", "change", "stop", "worker", "none"])
        at = self.draw.choice([self.draw.randrange(5), self.draw.randrange(30), self.draw.randrange(60)])
        self.play(ending, at)

    def play(self, ending: str, at: int) -> ExitCode | None:
        crawl, left = self.crawl, at
        crawl.files = MortalFiles(at * 4 if ending == "change" else None, crawl.kill)
        inside = [self.draw.choice(self.inside)] if self.draw.random() < 0.3 else []
        config = self.config
        block, overrides, outs = Block(config), Overrides(config.site), OptOuts(opt_outs(str(self.opt_out_file), "x"))

        def on_request(url: str) -> None:
            nonlocal left
            left -= 1
            assert left > -REQUESTS_MAX, "a run without an end"
            self._allowed(url, block, overrides, outs)
            if left < 0 and inside:
                inside.pop()(self)
            if left < 0 and ending == "request":
                crawl.kill()
            elif left < 0 and ending == "stop":
                assert crawl.loop is not None
                crawl.loop.stop(ExitCode.INTERRUPTED)
            elif left < 0 and ending == "worker" and crawl.running:
                stream = self.draw.choice(sorted(crawl.running))
                self.may_come_again()
                self.deaths += 1
                left = at + 10
                asyncio.get_running_loop().call_soon(_kill_worker, crawl, stream)

        crawl.on_request = on_request
        code = None
        try:
            code = crawl.run(self._watch, hours=2000)
        except Killed:
            self.kills += 1
            self.may_come_again()
        self.say(f"  {ending} at {at}: {code!r}, {len(self.web.log)} requests so far")
        self._code(code, ending)
        crawl.files = Files()
        self.check_requests()
        return code

    async def _watch(self, crawl: Any) -> None:
        """A crawl that is visited again ends by a limit; one of which all is paused by a stop."""
        await asyncio.sleep(3000)
        crawl.loop.stop(ExitCode.INTERRUPTED)

    def _code(self, code: ExitCode | None, ending: str) -> None:
        limits, config = self.config.limits, self.config
        if code is None:
            assert ending in ("request", "change")
        elif code == ExitCode.SIZE_LIMIT:
            assert limits.pages or limits.bytes or config.frontier.bytes_max
        elif code == ExitCode.TIME_LIMIT:
            assert limits.seconds or limits.wait_hours
        else:
            assert code in (ExitCode.DONE, ExitCode.INTERRUPTED), (code, self.errors, self.crawl.errors[-3:])

    def _kept(self, unit: Unit) -> None:
        if unit.reason == Reason.WITHHELD:
            self.withheld.add(unit.url)

    def may_come_again(self) -> None:
        """Of pages that are not stored here (withheld, or in another crawl's archive) a kill takes the links, too."""
        self.known.again |= self.withheld
        if self.config.archive.dedupe_from:
            self.known.clear()

    def _allowed(self, url: str, block: Block, overrides: Overrides, outs: OptOuts) -> None:
        host = url.split("/")[2]
        assert not self.config.crawl.pause and not overrides.paused(host), f"{url}: paused"
        assert block.key_of(host, url.encode()) is None, f"{url}: blocked"
        assert outs.of(url.encode()) is None, f"{url}: opted out"
        assert PRIVATE not in url or host == "cdn.test", f"{url}: robots"

    def check_requests(self) -> None:
        """No host is asked before its least gap (I3)."""
        log = self.web.log
        for at, url in log[self.checked :]:
            host = url.split("/")[2]
            early = self.ends.get(host, 0.0) + GAP_S - at
            assert early < 1e-3, f"I3: {url} {early:.3f} s early"
            self.ends[host] = at  # it ended later, or when it was killed
        self.checked = len(log)

    def _make_other(self) -> None:
        """A crawl of a part of the same web, some days before."""
        with pytest.MonkeyPatch.context() as patch:
            crawl = Crawl(self.other, VariedWeb(self.web.seed), [SEED], patch, names=VariedNames())
            crawl.config.limits.pages = 40
            crawl.run()
            crawl.job().config_file.write_text(to_toml(crawl.config))

    # -- verbs ---------------------------------------------------------------------------------------------------------

    def verb(self, *words: str, codes: tuple[int, ...] = (0,)) -> str:
        """What it prints."""
        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
        was = time.time
        self.patch.setattr(time, "time", self.crawl.clock.now)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = main.main([words[0], str(self.crawl.path), *words[1:]])
        finally:
            self.patch.setattr(time, "time", was)
        out.flush()
        text = out.buffer.getvalue().decode("utf-8", "backslashreplace")
        self.code = code
        assert code in codes, f"{words}: {code}\n{text[-3000:]}\n{err.getvalue()[-3000:]}"
        return text

    def damages(self, job: JobDir, archives: bool = False) -> list[str]:
        found = [str(one) for one in Fsck(job, Bar(), now=self.crawl.clock.now).run() if one.damage]
        if self.damaged:  # a text that is gone is asked for again
            found = [one for one in found if "a host's robots.txt should be here" not in one]
        if not archives:
            return found
        warcs = [str(path) for path in sorted(job.warcs.iterdir())] if job.warcs.exists() else []
        return found + [str(one) for one in verify(Files(), warcs, Bar()) if one.damage]

    def whole(self, archives: bool = False) -> None:
        assert not (found := self.damages(self.crawl.job(), archives)), "\n".join(found)

    def begun(self) -> bool:
        return self.crawl.job().config_file.exists() and self.crawl.job().has_catalogue()

    def killed(self) -> bool:
        """Whether a start has something to recover."""
        return any(path.suffix == ".open" for path in self.crawl.job().warcs.iterdir())

    def check_log(self, job: JobDir | None = None) -> dict[str, tuple[str, str]]:
        """URL -> last word. No URL is done twice but one that was put back; visits of a page are counted on."""
        found: dict[str, tuple[str, str]] = {}
        visits: Counter[str] = Counter()
        for entry in log_parts.read(Files(), str((job or self.crawl.job()).crawl_log)):
            url, outcome, visit = entry.url.decode(), entry.notes["outcome"], entry.notes.get("visit")
            if outcome == "returned":
                assert found.pop(url)[0] == entry.notes["was"], f"{url}: returned"
            elif outcome not in ("retry", "none"):
                if visit is None and not self.damaged:
                    assert url not in found, f"{url} is done twice"
                elif visit is not None and outcome == "fetched" and not self.damaged:
                    assert int(visit) == visits[url] + 1, f"{url}: visit {visit} after {visits[url]}"
                visits[url] += outcome == "fetched"
                found[url] = (outcome, entry.notes["reason"])
        return found

    def step(self) -> None:
        name, work = self.draw.choice(self.between)
        if not self.begun():
            return
        self.say(name)
        work(self)

    # -- the end -------------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Everything that holds something up is taken away, and all that was found comes to an end."""
        self.opt_out_file.write_text("")
        self.crawl.clock.advance(2 * 86_400.0)  # lists are over
        for turn in range(2):
            job = self.crawl.job()
            config = load_stored(job.config_file) if job.config_file.exists() else self.config
            for path in OPTIONS:
                section, key = path.split(".")
                setattr(getattr(config, section), key, getattr(getattr(Config(), section), key))
            self._base(config)
            config.limits.wait_hours, config.site, config.scope.block, config.crawl.pause = 0.0, {}, [], False
            config.priority, config.revisit_rule = [], []
            self.crawl.config = self.config = config
            self.machines(0)
            if turn:
                reasons = ("blocked", "opted_out", "quota_host", "quota_site", "frontier_full")
                self.verb("retry", *(f"--reason={reason}" for reason in reasons))
                self.put_back()
            assert self.play("none", 0) == ExitCode.DONE
        self.whole(archives=True)
        self.check_end()

    def put_back(self) -> None:
        """What is to be asked again may be archived again."""
        done = self.check_log()
        self.known -= {url.encode() for url in self.known_urls() if url not in done or done[url][0] != "fetched"}
        self.known.again |= {url.encode() for url in self.known_urls()}

    def check_end(self) -> None:
        done = self.check_log()
        unknown = {url for url in done if "robots.txt" not in url and "tdmrep" not in url} - self.known_urls()
        assert not unknown, f"nobody links to {sorted(unknown)[:5]}"
        if not self.damaged:
            lost = {link for url, (outcome, reason) in done.items() for link in self.links(url, outcome, reason)}
            lost = {url for url in lost if url not in done and url.rstrip("/") not in done}
            assert not lost, f"lost: {sorted(lost)[:10]}"
        ledger = formats.look(self.crawl.job().state).get("ledger")
        assert ledger["discovered"] == len(done), (ledger, len(done))
        lines = Counter(entry.url.decode() for entry in log_parts.read(Files(), str(self.crawl.job().crawl_log)))
        for url, asked in self.web.pages_asked.items():
            assert asked <= lines[url] + self.kills + self.deaths, f"{url}: asked {asked} times, {lines[url]} lines"
        assert not self.errors, "\n".join(self.errors)

    def known_urls(self) -> set[str]:
        found = set(self.web.known)
        found |= {"http://a.test/", "http://late.test/extra"}  # seeds that are named later
        return found | {f"{url.rstrip('/')}" for url in found} | {url.replace("/amp/", "/") for url in found}

    def links(self, url: str, outcome: str, reason: str) -> list[str]:
        """What must be known if this URL was fetched."""
        if outcome != "fetched" or reason not in ("ok", "withheld", "taken_down"):
            return []
        host = url.split("/")[2]
        page = self.web.pages.get(url)
        sure = list(self.web.sitemaps.get(host, [])[:1])
        if url.endswith("/sitemap.xml"):
            sure += self.web.sitemaps[host]
        return sure + (page.sure if page is not None else [])


def _kill_worker(crawl: Crawling, stream: int) -> None:
    if stream in crawl.running:
        crawl.kill_worker(stream)


class _Errors(logging.Handler):
    def __init__(self, errors: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._errors = errors

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[0] is not None and not issubclass(record.exc_info[0], (Died, Killed)):
            self._errors.append(self.format(record) + "".join(traceback.format_exception(*record.exc_info)))
