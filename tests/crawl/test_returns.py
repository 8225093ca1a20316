"""URLs that are put back: each is asked again once, whatever failed, was put back and was killed in which order (I1,
I2); a lifted block, seeds that are named again, a running crawl, and a selection of many in little memory."""

from __future__ import annotations

import asyncio
import random
import tracemalloc
from collections import Counter
from pathlib import Path

from drum import Files

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import harvest_name, returns_name
from irlcrawl.base.keys import origin_of, priority_of
from irlcrawl.base.reasons import CRAWL_LOG_STATUS, Class, Reason
from irlcrawl.base.rows import Carried, Source
from irlcrawl.config.keys import ConfigError, Site
from irlcrawl.crawl import recovery
from irlcrawl.crawl.returns import BUSY, STALE, TAKEN, Drawing, Selection, write
from irlcrawl.crawl.seeding import write_seeds
from irlcrawl.frontier.state import formats
from irlcrawl.frontier.state.runs import Run
from irlcrawl.frontier.state.sections import CrawlLog
from irlcrawl.frontier.turn.turn import Task
from irlcrawl.worker.archive import log_parts
from irlcrawl.worker.archive.crawl_log import Decision, decided_lines, parse
from irlcrawl.worker.archive.last_words import Returned, returned_in
from irlcrawl.worker.harvest.builder import UnitRows
from tests.crawl.virtual_crawl import Answer, Crawl, Killed, Web, star
from tests.frontier.turn.test_turn import Player, reachable, web_of

FAILED = {
    "http://down.test/1": Reason.TLS, "http://down.test/2": Reason.PROTOCOL, "http://other.test/3": Reason.PROTOCOL,
}  # fmt: skip


def put_back(crawl: Crawl, selection: Selection | None = None) -> Counter[tuple[str, str]]:
    """As `irlcrawl retry` does where no crawl runs."""
    drawing = drawn(crawl.path, selection)
    write(
        Files(), str(crawl.path / "state" / harvest_name(0, drawing.number)), drawing.number, drawing.rows(crawl.config)
    )
    return drawing.counts


def drawn(path: Path, selection: Selection | None = None) -> Drawing:
    job = JobDir(path)
    return Drawing(job, formats.look(job.state), Files(), selection or Selection())


def failing(web: Web) -> Web:
    """A web in which FAILED fail for good, and are linked to."""
    web.page("http://a.test/", [*FAILED, "http://a.test/gone"])
    web.answers |= {url: Answer(reason=reason) for url, reason in FAILED.items()}
    return web


def mend(crawl: Crawl, *urls: str) -> None:
    for url in urls:
        crawl.web.page(url)
    crawl.archived -= {url.encode() for url in [*urls, *FAILED]}


@pytest.mark.parametrize("roll_bytes", [1 << 10, 1 << 20])
def test_what_failed_is_put_back_and_asked_again_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, roll_bytes: int
) -> None:
    crawl = Crawl(tmp_path / "job", failing(Web()), ["http://a.test/"], monkeypatch)
    crawl.config.archive.log_roll_bytes = roll_bytes
    assert crawl.run() == ExitCode.DONE
    assert crawl.loop is not None and crawl.loop.status()["failed"] == 3
    assert put_back(crawl) == {("failed", "tls"): 1, ("failed", "protocol"): 2}
    assert put_back(crawl) == {}, "what waits for its turn is not put back again"
    mend(crawl, "http://down.test/1", "http://other.test/3")
    before = crawl.web.pages_asked
    assert crawl.run() == ExitCode.DONE
    assert crawl.web.pages_asked - before == dict.fromkeys(FAILED, 1)
    assert crawl.outcomes() | {} == {
        "http://a.test/": ("fetched", "ok"), "http://a.test/gone": ("fetched", "http_error"),
        "http://down.test/1": ("fetched", "ok"), "http://down.test/2": ("failed", "protocol"),
        "http://other.test/3": ("fetched", "ok"),
    }  # fmt: skip
    status = crawl.loop.status()
    assert (status["fetched"], status["failed"], status["failed_by_reason"]["protocol"]) == (4, 1, 1)
    assert status["returned_urls"] == 3
    assert put_back(crawl) == {("failed", "protocol"): 1}


def test_a_dead_host_is_asked_again_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was held against it would fail its URLs again, without a request."""
    web = Web(star("a.test", 3))
    web.moods["a.test"] = lambda url, now: Answer(reason=Reason.CONNECT)
    crawl = Crawl(tmp_path / "job", web, ["http://a.test/"], monkeypatch)
    assert crawl.run() == ExitCode.DONE
    assert crawl.outcomes() == {"http://a.test/": ("failed", "connect")}
    put_back(crawl)
    web.moods.clear()
    ended = crawl.clock.now()
    assert crawl.run() == ExitCode.DONE
    assert set(crawl.outcomes().values()) == {("fetched", "ok")} and len(crawl.outcomes()) == 4
    asked = [at for at, url in web.log if at >= ended]
    assert asked[0] - ended <= crawl.config.politeness.gap_host_max_seconds  # the clocks keep what they promised
    assert crawl.clock.now() - ended < 3600


def test_a_robots_txt_that_has_changed_is_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    web = Web(star("a.test", 3))
    web.answers["http://a.test/robots.txt"] = Answer(
        200, {"content-type": "text/plain"}, b"User-agent: *\nDisallow: /\n"
    )
    crawl = Crawl(tmp_path / "job", web, ["http://a.test/"], monkeypatch)
    assert crawl.run() == ExitCode.DONE
    assert crawl.outcomes() == {"http://a.test/": ("excluded", "robots")}
    assert put_back(crawl) == {}
    assert put_back(crawl, Selection(reasons=("robots",))) == {("excluded", "robots"): 1}
    del web.answers["http://a.test/robots.txt"]
    crawl.archived.clear()
    assert crawl.run() == ExitCode.DONE
    assert set(crawl.outcomes().values()) == {("fetched", "ok")} and len(crawl.outcomes()) == 4


def test_a_block_that_was_lifted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    web = Web(star("a.test", 3))
    crawl = Crawl(tmp_path / "job", web, ["http://a.test/", "http://b.test/"], monkeypatch)
    crawl.config.site["a.test"] = Site(block=True)
    assert crawl.run() == ExitCode.DONE
    assert crawl.outcomes()["http://a.test/"] == ("excluded", "blocked")
    put_back(crawl, Selection(reasons=("blocked",)))
    assert crawl.run() == ExitCode.DONE  # it is not lifted yet
    assert crawl.outcomes()["http://a.test/"] == ("excluded", "blocked") and "http://a.test/" not in web.pages_asked
    crawl.config.site.clear()
    put_back(crawl, Selection(reasons=("blocked",)))
    assert crawl.run() == ExitCode.DONE
    assert [url for url, (outcome, _) in crawl.outcomes().items() if outcome == "fetched"] == [
        "http://b.test/", "http://a.test/", "http://a.test/0", "http://a.test/1", "http://a.test/2",
    ]  # fmt: skip


def test_a_quota_that_was_raised_lets_through_as_many_as_it_would_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = Web(star("a.test", 20))
    crawl = Crawl(tmp_path / "job", web, ["http://a.test/"], monkeypatch)
    crawl.config.limits.pages_per_host = 5
    assert crawl.run() == ExitCode.DONE
    for quota, more in ((5, 0), (12, 7), (0, 9)):
        crawl.config.limits.pages_per_host = quota
        put_back(crawl, Selection(reasons=("quota_host",)))
        before = crawl.web.pages_asked.total()
        assert crawl.run() == ExitCode.DONE
        assert crawl.web.pages_asked.total() - before == more
    assert set(crawl.outcomes().values()) == {("fetched", "ok")} and len(crawl.outcomes()) == 21


def test_a_quota_of_a_site_holds_for_what_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    web = Web(star("a.test", 20))
    crawl = Crawl(tmp_path / "job", web, ["http://a.test/"], monkeypatch)
    for quota, asked in ((5, 5), (5, 5), (12, 12), (0, 21)):
        crawl.config.limits.pages_per_site = quota
        if crawl.loop is not None:
            put_back(crawl, Selection(reasons=("quota_site",)))
        assert crawl.run() == ExitCode.DONE
        assert web.pages_asked.total() == asked
    assert set(crawl.outcomes().values()) == {("fetched", "ok")} and len(crawl.outcomes()) == 21


def test_an_error_that_was_fetched_and_hosts_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = Crawl(tmp_path / "job", failing(Web()), ["http://a.test/"], monkeypatch)
    assert crawl.run() == ExitCode.DONE

    def urls(**selection: object) -> list[str]:
        return sorted(entry.url.decode() for entry in drawn(crawl.path, Selection(**selection)).entries())  # type: ignore[arg-type]

    down = [url for url in FAILED if "down.test" in url]
    assert urls() == urls(statuses=("failed",)) == sorted(FAILED)
    assert urls(hosts=(b"down.test",)) == urls(hosts=(b"down.test", b"own.test")) == down
    assert urls(hosts=(b"test",)) == sorted(FAILED) and urls(hosts=(b"down.test:443",)) == []
    assert urls(statuses=("404",)) == urls(statuses=("4xx", "503")) == ["http://a.test/gone"]
    assert urls(reasons=("http_error",)) == ["http://a.test/gone"]
    assert urls(statuses=("-2",)) == ["http://down.test/1"]
    assert urls(reasons=("protocol",), statuses=("-2",)) == urls(statuses=("excluded",)) == []
    assert urls(reasons=("protocol", "tls"), statuses=("-2", "-5"), hosts=(b"other.test",)) == ["http://other.test/3"]
    put_back(crawl, Selection(statuses=("404",)))
    crawl.archived.clear()
    crawl.web.page("http://a.test/gone")
    assert crawl.run() == ExitCode.DONE
    assert crawl.outcomes()["http://a.test/gone"] == ("fetched", "ok")


@pytest.mark.parametrize(
    "wrong", [{"reasons": ("ok",)}, {"reasons": ("timeouts",)}, {"statuses": ("200",)}, {"statuses": ("fetched",)}]
)
def test_a_filter_that_lets_nothing_through_is_refused(wrong: dict[str, tuple[str, ...]]) -> None:
    with pytest.raises(ConfigError, match=r"--(reason|status) \w+: takes"):
        Selection(**wrong)  # type: ignore[arg-type]


def test_seeds_that_are_named_again_are_asked_again_unless_they_were_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = failing(Web())
    over = "http://down.test/over-its-quota"
    crawl = Crawl(tmp_path / "job", web, ["http://a.test/", *FAILED, over], monkeypatch)
    crawl.config.limits.pages_per_host = 2  # holds for seeds that are named again as for others
    assert crawl.run() == ExitCode.DONE
    mend(crawl, *FAILED)
    before = web.pages_asked
    crawl.again, crawl.seeds = True, ["http://a.test/", "http://down.test/1", "http://down.test/2", over]
    assert crawl.run() == ExitCode.DONE
    assert web.pages_asked - before == {"http://down.test/1": 1, "http://down.test/2": 1}
    assert crawl.outcomes()["http://down.test/1"] == ("fetched", "ok")
    assert crawl.outcomes()["http://other.test/3"] == ("failed", "protocol")
    assert crawl.outcomes()[over] == ("excluded", "quota_host")
    assert JobDir(crawl.path).crawl_log.read_bytes().count(b"outcome=returned") == 2
    assert crawl.run() == ExitCode.DONE  # the same command once more: a crawl that goes on
    assert web.pages_asked - before == {"http://down.test/1": 1, "http://down.test/2": 1}


def test_a_running_crawl_takes_them_over_and_refuses_what_was_drawn_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = failing(Web(star("long.test", 300)))
    crawl = Crawl(tmp_path / "job", web, ["http://a.test/", "http://long.test/"], monkeypatch)
    crawl.config.politeness.host_dead_hours, crawl.config.politeness.retries_max = 0.0, 0
    state = crawl.path / "state"
    answers: list[str] = []

    def made(pid: int, drawing: Drawing) -> str:
        assert write(Files(), str(state / returns_name(pid)), drawing.number, drawing.rows(crawl.config))
        return returns_name(pid)

    async def beside(crawl: Crawl) -> None:
        loop = crawl.loop
        assert loop is not None
        while loop.state.catalog.get("ledger")["failed"] < 3:
            await asyncio.sleep(1)
        mend(crawl, "http://other.test/3")
        one, two = drawn(crawl.path, Selection(hosts=(b"other.test",))), drawn(crawl.path)
        answers.append(loop.hand_in(made(1, one)))
        answers.append(loop.hand_in(made(2, two)))
        later = drawn(crawl.path)
        assert sum(1 for _ in later.entries()) == 2
        while web.pages_asked["http://other.test/3"] < 2:
            await asyncio.sleep(1)
        loop.stop(ExitCode.INTERRUPTED)
        answers.append(loop.hand_in(returns_name(2)))

    assert crawl.run(beside) == ExitCode.INTERRUPTED
    assert answers == [TAKEN, STALE, BUSY]
    assert crawl.run() == ExitCode.DONE
    assert not (state / returns_name(2)).exists(), "what nobody took over is swept"
    assert web.pages_asked["http://other.test/3"] == 2 and web.pages_asked["http://down.test/1"] == 1
    assert crawl.outcomes()["http://other.test/3"] == ("fetched", "ok")


def test_a_host_at_hand_is_asked_for_its_robots_txt_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules that the frontier holds in memory would have excluded the URL again."""
    web = Web(star("long.test", 300))
    web.page("http://long.test/", [*(f"http://long.test/{n}" for n in range(300)), "http://long.test/secret"])
    web.page("http://long.test/secret")
    web.answers["http://long.test/robots.txt"] = Answer(200, {}, b"User-agent: *\nDisallow: /secret\n")
    crawl = Crawl(tmp_path / "job", web, ["http://long.test/"], monkeypatch)

    async def beside(crawl: Crawl) -> None:
        loop = crawl.loop
        assert loop is not None
        while not loop.state.catalog.get("ledger")["excluded"]:
            await asyncio.sleep(1)
        web.answers["http://long.test/robots.txt"] = Answer(404)
        crawl.archived.discard(b"http://long.test/secret")
        drawing = drawn(crawl.path, Selection(reasons=("robots",)))
        write(Files(), str(crawl.path / "state" / returns_name(1)), drawing.number, drawing.rows(crawl.config))
        assert loop.hand_in(returns_name(1)) == TAKEN
        while loop.turns.running or not loop.dispatcher.hosts:
            await asyncio.sleep(0.01)
        loop.turns.begin()  # now, and not when the host's runs are used up and it leaves memory

    assert crawl.run(beside) == ExitCode.DONE
    assert crawl.outcomes()["http://long.test/secret"] == ("fetched", "ok")


def test_an_outcome_that_no_commit_knows_is_not_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its line is in the log, but will be cut, and written again: put back before, the URL would be asked twice."""
    crawl = Crawl(tmp_path / "job", failing(Web()), ["http://a.test/"], monkeypatch)
    append = CrawlLog.append

    def killed(log: CrawlLog, lines: list[bytes], more: bool = False) -> None:
        append(log, lines, more)
        if any(b"outcome=failed" in line for line in lines):
            crawl.kill()

    with monkeypatch.context() as patch:
        patch.setattr(CrawlLog, "append", killed)
        with pytest.raises(Killed):
            crawl.run()
    assert b"outcome=failed" in JobDir(crawl.path).crawl_log.read_bytes()
    assert put_back(crawl) == {}
    assert crawl.run() == ExitCode.DONE
    assert sum(put_back(crawl).values()) == len(FAILED)


@pytest.mark.parametrize("when", [0.0, 0.5, 3.0])
def test_what_a_running_crawl_took_over_outlives_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: float
) -> None:
    web = failing(Web(star("long.test", 100)))
    crawl = Crawl(tmp_path / "job", web, ["http://a.test/", "http://long.test/"], monkeypatch)
    crawl.config.politeness.host_dead_hours, crawl.config.politeness.retries_max = 0.0, 0

    async def beside(crawl: Crawl) -> None:
        loop = crawl.loop
        assert loop is not None
        while loop.state.catalog.get("ledger")["failed"] < 3:
            await asyncio.sleep(1)
        mend(crawl, *FAILED)
        drawing = drawn(crawl.path)
        write(Files(), str(crawl.path / "state" / returns_name(1)), drawing.number, drawing.rows(crawl.config))
        assert loop.hand_in(returns_name(1)) == TAKEN
        await asyncio.sleep(when)
        crawl.kill()

    with pytest.raises(Killed):
        crawl.run(beside)
    assert crawl.run() == ExitCode.DONE
    assert {web.pages_asked[url] for url in FAILED} == {2}
    assert {crawl.outcomes()[url] for url in FAILED} == {("fetched", "ok")}


class Failing(Player):
    """A player of turns. URLs of `down` fail, those of hosts in `blocked` are excluded."""

    down: frozenset[bytes] = frozenset()
    blocked: frozenset[bytes] = frozenset()

    def task(self) -> Task:
        task = super().task()
        task.policy.blocked = lambda origin: origin in self.blocked
        return task

    def work(self, rows: int) -> None:
        """As a Player's, with failures and with true lines of the log."""
        if not self.ready:
            return
        run = self.ready.pop(0)
        end = min(run.end, run.at + rows)
        names = ("key", "host", "url", "depth")
        for row, (key, host, url, depth) in enumerate(
            zip(*(self.rows(run, end)[name].tolist() for name in names), strict=True), run.at
        ):
            self.fetched[url] += 1
            cls, reason, status = Class.FETCHED, Reason.OK, 200
            if url in self.down:
                cls, reason, status = Class.FAILED, Reason.TIMEOUT, CRAWL_LOG_STATUS[Reason.TIMEOUT]
            how = Decision(cls, reason, status, depth, 0, Source.LINK)
            (line,) = decided_lines([url], [how], self.clock.now())
            found = UnitRows((run.segment, row, key, host, cls, reason, status, 100, line))
            for link in self.web[url] if cls == Class.FETCHED else ():
                carried = Carried(depth + 1, 0, Source.LINK, priority_of(depth + 1, Source.LINK))
                found.links.append((self.context.url_key(link), *self.context.names(link), carried, link))
            self.builder.add(found)
        self.inbox.append(self.builder.write((0, 0)) or "")
        if end < run.end:
            self.ready.insert(0, Run(run.segment, end, run.end))

    def lines(self) -> dict[bytes, list[str]]:
        """URL -> its outcomes, as committed."""
        found: dict[bytes, list[str]] = {}
        size = self.state.catalog.get("log", {}).get("bytes", 0)
        for line in self.job.crawl_log.read_bytes()[:size].splitlines():
            found.setdefault(parse(line).url, []).append(parse(line).outcome)
        return found

    def put_back(self) -> None:
        """All that failed or was excluded, and is not about to be put back: held against the whole log."""
        names = recovery.recover_stream(self.state, self.config, 0).harvests
        sections = [self.state.pool.section(name, "returns") for name in names]
        wait = {url for section in sections for batch in section.scan() for url in batch["url"].tolist()}
        expected = {url for url, told in self.lines().items() if told[-1] in ("failed", "excluded")} - wait
        drawing = drawn(self.job.path, Selection(statuses=("failed", "excluded")))
        name = harvest_name(0, drawing.number)
        assert write(Files(), str(self.job.state / name), drawing.number, drawing.rows(self.config)) == len(expected)
        assert sum(drawing.counts.values()) == len(expected)
        if expected:
            self.inbox.append(name)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60), st.text(alphabet="wttrrcdb", max_size=40), st.sampled_from([2, 1000]))
def test_i1_i2_what_is_put_back_is_asked_again_once_whatever_is_killed_when(
    tmp_path_factory: pytest.TempPathFactory, seed: int, pages: int, steps: str, room: int
) -> None:
    """Steps: w(ork), t(urn), r(etry), c(rash), and other URLs that are d(own) or b(locked). Then all is well."""
    web = web_of(seed, pages)
    start = next(iter(web))
    draw = random.Random(seed)
    player = Failing(tmp_path_factory.mktemp("job"), web, room)
    player.inbox.append(write_seeds(player.state, player.config, [start], 0))

    def goes_down() -> None:
        player.down = frozenset(draw.sample(sorted(web), pages // 2))

    def is_blocked() -> None:
        player.blocked = frozenset(draw.sample(sorted({origin_of(url) for url in web}), 1))

    todo = {"w": lambda: player.work(5), "t": player.turn, "r": player.put_back, "c": player.crash, "d": goes_down}
    for step in steps:
        (todo | {"b": is_blocked})[step]()
    player.down = player.blocked = frozenset()
    for _ in range(10_000):
        player.work(50)
        player.turn()
        player.clock.advance(1.0)
        if player.over:
            player.put_back()
            if player.over:
                break
    assert player.lines().keys() == reachable(web, start)
    for url, told in player.lines().items():
        assert told[-1] == "fetched" and told[1::2] == ["returned"] * (len(told) // 2)
        assert player.fetched[url] == sum(outcome in ("fetched", "failed") for outcome in told)
    assert player.state.ledger.fetched == player.state.ledger.discovered == len(player.lines())
    assert player.state.ledger.failed == 0 and not player.state.ledger.excluded
    player.state.close()
    player.job.release()


def test_a_selection_of_many_takes_little_memory(tmp_path: Path) -> None:
    """40,000 URLs that failed, half of which were put back and failed again: 16 bytes for each of those, and what one
    piece of the log takes."""
    urls = [b"http://h%d.test/%d" % (number % 1000, number) for number in range(40_000)]
    failed = Decision(Class.FAILED, Reason.TIMEOUT, -4, 1, 0, Source.LINK)
    back = failed._replace(cls=Class.RETURNED, was=Class.FAILED)
    log = tmp_path / "crawl.log"
    with open(log, "wb") as out:
        for some, how in ((urls, failed), (urls[::2], back), (urls[::2], failed), (urls[::4], back)):
            out.write(b"\n".join(decided_lines(some, [how] * len(some), 1e9)) + b"\n")
    tracemalloc.start()
    returned = Returned(returned_in(log_parts.pieces(Files(), str(log))))
    found = sum(1 for _ in Selection().entries(log_parts.pieces(Files(), str(log)), returned))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found, len(returned)) == (30_000, 20_000)
    assert peak < 6_400_000
