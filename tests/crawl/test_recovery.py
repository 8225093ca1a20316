"""What a dead worker left gives exactly the rows that would have come live, and a kill at any call to the file system
of a turn, a commit or a recovery changes nothing (I1, I2)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from drum import Edits, Files, SegmentPool

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.job import JobDir
from irlcrawl.base.names import Names
from irlcrawl.base.reasons import Class, Reason
from irlcrawl.base.rows import NO_SEGMENT, Carried, Robots, Source
from irlcrawl.config.keys import Config
from irlcrawl.crawl import recovery
from irlcrawl.frontier.politeness.clocks import Clocks
from irlcrawl.frontier.politeness.politeness import Politeness
from irlcrawl.frontier.state import crawl_state as state_module
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.frontier.state.hosts import OP_STATE, HostRecord, records_of, state_batch
from irlcrawl.frontier.turn.turn import Turn
from irlcrawl.worker.archive.unit import Exchange, Unit
from irlcrawl.worker.archive.warc import WarcWriter
from irlcrawl.worker.harvest.builder import HarvestBuilder
from irlcrawl.worker.harvest.context import Context
from irlcrawl.worker.harvest.process import process
from irlcrawl.worker.harvest.rules_log import RulesLog
from tests.frontier.turn.test_turn import Player, reachable, web_of

STREAM = 1
RULES = b"User-agent: *\nDisallow: /private\n"


class Stream:
    """A worker's stream on disk: the same units archived and harvested, by the code that does it live."""

    def __init__(self, path: Path) -> None:
        self.config = Config()
        self.config.crawl.user_agent = "test/1 (+http://contact.test/)"
        self.config.scope.kind = "any"
        self.config.budgets.duplicates_last = False  # which contents a worker met is its memory, and in no archive
        self.clock = VirtualClock()
        self.job = JobDir(path)
        self.job.acquire()
        self.state = CrawlState.open(self.job, self.config, self.clock)
        edits = Edits()
        edits.set(f"streams/{STREAM}", {"next": 0, "warc": [0, 0]})
        self.state.catalog.commit(edits)
        self.state.streams[STREAM] = {"next": 0, "warc": [0, 0]}
        archive = self.config.archive
        self.warc = WarcWriter(
            self.state.files, str(self.job.warcs), archive.prefix, STREAM, info={}, roll_bytes=6000,
            gzip_level=1, clock=self.clock,
        )  # fmt: skip
        self.builder = HarvestBuilder(self.state.files, self.state.dir, STREAM, self.clock)
        self.unharmed = job_dir = str(path / "unharmed")  # where all that was harvested live is, whatever dies
        os.mkdir(job_dir)
        self.witness = HarvestBuilder(self.state.files, job_dir, STREAM, self.clock)
        self.context = Context(self.config, self.state.seed, self.state.scope)

    def unit(self, number: int) -> tuple[Unit, Exchange | None]:
        """Pages with links, redirects, repeats, failures, robots.txt: each seventh of its kind."""
        url = b"http://h%d.test/%d" % (number % 3, number)
        self.clock.advance(1.25)
        unit = Unit(
            url=url, segment=0, row=number, key=self.context.url_key(url), host=self.context.names(url)[1],
            carried=Carried(depth=1, source=Source.LINK, priority=2), cls=Class.FETCHED, reason=Reason.OK, status=200,
            start=self.clock.now(), duration_ms=125,
        )  # fmt: skip
        status, fields, body = b"200 OK", b"", b""
        match number % 7:
            case 0:
                unit.segment, unit.row, unit.key, unit.cls = NO_SEGMENT, 0, 0, Class.NONE
                unit.robots = {"robots": int(Robots.RULES), "robots_until": self.clock.now() + 9e4, "crawl_delay": 2.0}
                body = RULES * (1 + number)
            case 1:
                unit.cls, unit.reason, unit.status, unit.retry_due = Class.RETRY, Reason.LOST, -3, self.clock.now() + 5
                unit.robots = {"failed": 1}
                return unit, None
            case 2:
                unit.cls, unit.reason, unit.status = Class.EXCLUDED, Reason.ROBOTS, -9998
                return unit, None
            case 3:
                unit.reason, unit.status, unit.carried = Reason.REDIRECT, 301, Carried()
                status, fields = b"301 Moved", b"Location: http://other%d.test/\r\n" % number
            case _:
                fields = b"Content-Type: text/html\r\n"
                body = b"".join(b'<a href="http://h%d.test/n%d-%d">x</a>' % (at, number, at) for at in range(4))
        header = b"HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n" % (status, fields, len(body))
        return unit, Exchange(url, "10.0.0.1", b"GET / HTTP/1.1\r\n\r\n", header, body, None, unit.start, 0.125)

    def live(self, first: int, last: int, harvest: bool) -> None:
        """Units [first, last) as a worker keeps them."""
        for number in range(first, last):
            unit, exchange = self.unit(number)
            location = self.warc.append(unit, exchange)
            for builder in (self.builder, self.witness):
                builder.add(process(unit, exchange, location, self.context))
        if harvest:
            self.builder.write(self.warc.position)

    def rows(self, directory: str, harvests: list[str]) -> dict[str, list[tuple[Any, ...]]]:
        """The rows of these files, in order; a pointer to rules as the text it points to."""
        found: dict[str, list[tuple[Any, ...]]] = {}
        pool = SegmentPool(self.state.files, directory, 8)
        for section in ("links", "pairs", "outcomes", "retries", "facts", "scope"):
            rows = found[section] = []
            for file in harvests:
                for batch in pool.section(file, section).scan():
                    rows += zip(*(batch[name].tolist() for name in batch.columns), strict=True)
        found["facts"] = [
            (*row[:4], row[6] and RulesLog.read(self.state.files, directory, row[4:7]), *row[7:])
            for row in found["facts"]
        ]
        for name in ("links", "pairs"):  # a new stream's cache knows nothing: repeats may come again, for the drums
            found[name] = list(dict.fromkeys(found[name]))
        pool.close()
        return found

    def tear(self, bytes_kept: int) -> None:
        """The machine stopped in the middle of one more unit, and of one more harvest."""
        unit, exchange = self.unit(5)
        before = self.warc.position
        location = self.warc.append(unit, exchange)
        path = os.path.join(self.job.warcs, location.file + ".open")
        kept = location.offset + min(bytes_kept, location.length - 1)
        assert self.warc.position != before
        os.truncate(path, kept)
        (self.job.state / "harvest-0001-000099.seg.tmp").write_bytes(b"half")

    def close(self) -> None:
        self.state.close()
        self.job.release()


@settings(max_examples=25)
@given(st.lists(st.integers(0, 12), max_size=3), st.integers(0, 20), st.integers(0, 400))
def test_replay_gives_the_rows_that_would_have_come_live(
    tmp_path_factory: pytest.TempPathFactory, harvested: list[int], archived: int, torn: int
) -> None:
    """I2: complete harvests nobody named, units behind the last of them, a torn tail: every row once, as live."""
    dead = Stream(tmp_path_factory.mktemp("dead") / "job")
    total, at = sum(harvested) + archived, 0
    for count in harvested:
        dead.live(at, at + count, harvest=True)
        at += count
    dead.live(at, total, harvest=False)
    live = dead.witness.write((0, 0))
    expected = dead.rows(dead.unharmed, [live] if live else [])
    dead.tear(torn)
    found = recovery.recover_stream(dead.state, dead.config, STREAM)
    assert found.units == archived
    assert dead.rows(dead.state.dir, found.harvests) == expected
    assert not [name for name in os.listdir(dead.job.warcs) if name.endswith(".open")]
    again = recovery.recover_stream(dead.state, dead.config, STREAM)
    assert (again.harvests, again.units, again.bytes_cut) == (found.harvests, 0, 0)
    assert dead.rows(dead.state.dir, again.harvests) == expected
    dead.close()


def test_what_replayed_harvests_say_of_hosts(tmp_path: Path) -> None:
    """The robots.txt that a dead worker fetched is not fetched again; a visit without any answer counts."""
    stream = Stream(tmp_path / "job")
    stream.live(0, 9, harvest=False)
    found = recovery.recover_stream(stream.state, stream.config, STREAM)
    states = recovery.learn(stream.state, Politeness(stream.clock, stream.config.politeness, Clocks()), found.harvests)
    assert states is not None
    known = dict(zip(states["key"].tolist(), records_of(states), strict=True))
    first, second = known[Names().of(b"http://h0.test/")[1]], known[Names().of(b"http://h1.test/")[1]]
    assert (first.robots, first.crawl_delay, first.answered_at > 0) == (Robots.RULES, 2.0, True)
    pointer = (first.rules_log, first.rules_offset, first.rules_length)
    assert RulesLog.read(stream.state.files, stream.state.dir, pointer) == RULES
    assert (second.failures, second.robots) == (0, Robots.RULES), "the answer came after the failure"
    assert known[Names().of(b"http://h2.test/")[1]].failures == 1
    stream.close()


def test_a_record_still_waiting_before_the_hosts_drum_is_known_to_recovery(tmp_path: Path) -> None:
    """Recovery read the drum alone, and wrote an older record over the newer one that a commit had spilled."""
    stream = Stream(tmp_path / "job")
    key, other = Names().of(b"http://h0.test/")[1], Names().of(b"http://h9.test/")[1]
    for crawl_delay in (3.0, 5.0):
        record = HostRecord()
        record.learn_robots(Robots.RULES, stream.clock.now() + crawl_delay, None, crawl_delay)
        stream.state.hosts.pend_batch(state_batch([(key, record)]), OP_STATE)
    writer, edits = stream.state.new_segment(), Edits()
    stream.state.hosts.spill(writer, edits)
    writer.finish()
    stream.state.catalog.commit(edits)
    found = recovery.known_records(stream.state, [other, key])
    assert (found[key].crawl_delay, found[other]) == (5.0, HostRecord())
    stream.close()


def test_a_failure_that_a_commit_had_learnt_is_not_counted_again(tmp_path: Path) -> None:
    """The visit's end was told and committed, its harvest was not: replay counted the failure a second time."""
    stream = Stream(tmp_path / "job")
    stream.live(0, 9, harvest=False)
    found = recovery.recover_stream(stream.state, stream.config, STREAM)
    edits = Edits()
    edits.set("learnt", stream.clock.now() + 1)
    stream.state.catalog.commit(edits)
    states = recovery.learn(stream.state, Politeness(stream.clock, stream.config.politeness, Clocks()), found.harvests)
    assert states is not None
    known = dict(zip(states["key"].tolist(), records_of(states), strict=True))
    assert known[Names().of(b"http://h2.test/")[1]].failures == 0
    stream.close()


# -- kills -------------------------------------------------------------------------------------------------------------


class Killed(BaseException):
    pass


class DyingFiles(Files):
    """The process is killed right before its `alive`-th change to the file system; later ones never happen."""

    def __init__(self, alive: int) -> None:
        self.alive = alive


def _dying(name: str) -> Callable[..., Any]:
    real = getattr(Files, name)

    def change(self: DyingFiles, *args: Any, **kwargs: Any) -> Any:
        self.alive -= 1
        if self.alive < 0:
            raise Killed
        return real(self, *args, **kwargs)

    return change


for _name in ("create", "append", "write", "fsync", "fsync_dir", "rename", "truncate", "unlink", "link", "mkdir"):
    setattr(DyingFiles, _name, _dying(_name))


@settings(max_examples=20)
@given(st.lists(st.integers(0, 260), min_size=1, max_size=3), st.integers(0, 9))
def test_i1_i2_a_kill_between_any_two_changes_to_the_disk(
    tmp_path_factory: pytest.TempPathFactory, kills: list[int], web_seed: int
) -> None:
    """I1, I2: the crawl log and the ledger have every URL once, however a turn, commit or recovery was cut off."""
    web = web_of(web_seed, 40)
    start = next(iter(web))
    path = tmp_path_factory.mktemp("crawl") / "job"
    player = Player.__new__(Player)
    with pytest.MonkeyPatch.context() as monkeypatch:
        for files in [*(DyingFiles(alive) for alive in kills), Files()]:
            monkeypatch.setattr(state_module, "Files", lambda files=files: files)
            try:
                if hasattr(player, "builder"):  # it got as far as having workers
                    player.open()
                else:
                    player.__init__(path, web, room=5)  # type: ignore[misc]
                player.play(start, "ttwtwwt")
                break
            except Killed:
                if hasattr(player, "state"):
                    player.state.close()
                    del player.state
                if not hasattr(player, "builder"):
                    player.job.release()
    expected = reachable(web, start)
    lines = player.job.crawl_log.read_bytes().split(b"\n")[:-1]
    assert sorted(lines) == sorted(b"fetched " + url for url in expected)
    assert (player.state.ledger.discovered, player.state.ledger.fetched) == (len(expected), len(expected))
    assert player.fetched.total() - len(expected) <= 50 * len(kills)  # here the harvest is all there is of a page
    player.state.close()
    player.job.release()


def test_lines_of_a_turn_that_was_never_committed_are_cut_from_the_crawl_log(tmp_path: Path) -> None:
    """I1: the log was appended, the commit did not come: the next life writes those lines again, once."""
    web = web_of(2, 60)
    player = Player(tmp_path / "job", web)
    start = next(iter(web))
    player.play(start, "")
    done = player.job.crawl_log.read_bytes()
    other = Player.__new__(Player)
    other.__init__(tmp_path / "other", web)  # type: ignore[misc]
    other.inbox.append(recovery_seed(other, start))
    other.turn()
    other.work(50)
    Turn(other.state).run(other.task())
    assert other.job.crawl_log.stat().st_size > other.state.catalog.get("log")["bytes"]
    other.crash()
    other.play(start, "")
    assert sorted(other.job.crawl_log.read_bytes().split()) == sorted(done.split())
    for each in (player, other):
        each.state.close()
        each.job.release()


def recovery_seed(player: Player, url: bytes) -> str:
    from irlcrawl.crawl.seeding import write_seeds

    return write_seeds(player.state, player.config, [url], player.state.streams[0]["next"])
