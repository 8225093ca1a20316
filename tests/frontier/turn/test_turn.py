"""Turns over a made-up web, with workers played by hand: every URL once, the ledger at every commit, and exactly the
same after any number of kills between any two steps (I1, I2)."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from drum import Batch, Edits

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from budgets import LedgerError
from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.job import JobDir
from irlcrawl.base.keys import pair_key, priority_of, url_key
from irlcrawl.base.reasons import Class, Reason
from irlcrawl.base.rows import Carried, Source
from irlcrawl.config.keys import Config
from irlcrawl.crawl import recovery
from irlcrawl.crawl.seeding import write_seeds
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.frontier.state.runs import Run, RunReader, ready_hosts
from irlcrawl.frontier.turn import turn
from irlcrawl.frontier.turn.release import HostLoads, Policy
from irlcrawl.frontier.turn.turn import Task, Turn
from irlcrawl.worker.harvest.builder import HarvestBuilder, UnitRows
from irlcrawl.worker.harvest.context import Context

HOSTS = 7


def web_of(seed: int, pages: int) -> dict[bytes, list[bytes]]:
    """A random web: page -> links, over a few hosts of a few sites."""
    random_ = random.Random(seed)
    urls = [b"http://h%d.s%d.test/%d" % (i % HOSTS, i % 3, i) for i in range(pages)]
    return {url: random_.choices(urls, k=random_.randrange(6)) for url in urls}


def reachable(web: dict[bytes, list[bytes]], start: bytes) -> set[bytes]:
    seen, todo = {start}, [start]
    while todo:
        for link in web[todo.pop()]:
            if link not in seen:
                seen.add(link)
                todo.append(link)
    return seen


class Player:
    """A crawl whose frontier is real and whose workers are this test. `crash` forgets all that is not on the disk."""

    def __init__(self, path: Path, web: dict[bytes, list[bytes]], room: int = 1000, seen_bytes: int = 0) -> None:
        self.web, self.room, self.seen_bytes = web, room, seen_bytes
        self.config = Config()
        self.config.crawl.user_agent = "test/1 (+http://contact.test/)"
        self.config.scope.kind = "any"
        self.config.budgets.base, self.config.budgets.seed_floor = 3, 10
        self.clock = VirtualClock()
        self.job = JobDir(path)
        self.job.acquire()
        self.fetched: Counter[bytes] = Counter()
        self.stream = 0
        self.inbox: list[str] = []
        self.ready: list[Run] = []
        self.open()

    def open(self) -> None:
        self.state = CrawlState.open(self.job, self.config, self.clock)
        self.state.seen.ram_bytes = self.seen_bytes or self.state.seen.ram_bytes
        self.context = Context(self.config, self.state.seed, self.state.scope)
        self.inbox = [
            name
            for n in sorted(self.state.streams)
            for name in recovery.recover_stream(self.state, self.config, n).harvests
        ]
        self.turn(ready=False)
        self.ready = [host.run for host in self.state.runs.hosts()]
        self.stream += 1
        edits = Edits()  # a stream is known to the catalogue before its worker writes anything
        self.state.streams[self.stream] = {"next": 0, "warc": [0, 0]}
        edits.set(f"streams/{self.stream}", self.state.streams[self.stream])
        self.state.catalog.commit(edits)
        self.builder = HarvestBuilder(self.state.files, self.state.dir, self.stream, self.clock)

    def crash(self) -> None:
        self.state.close()
        self.open()

    def load(self, keys: NDArray[np.uint64], states: Batch) -> HostLoads:
        hosts = np.ones(len(keys))
        return HostLoads(self.room * hosts.astype(np.int64), 1.0 * hosts, self.clock.now() * hosts)

    def task(self) -> Task:
        harvests, self.inbox = self.inbox, []
        policy = Policy(
            now=self.clock.now(), load=self.load,
            blocked=lambda origin: False, allowed=lambda record, urls: [True] * len(urls), quota_host=0, denials_max=3,
        )  # fmt: skip
        return Task(
            now=self.clock.now(), harvests=harvests, rows_wanted=20, policy=policy, urgent=not self.ready
        )  # fmt: skip

    def turn(self, ready: bool = True) -> None:
        result = Turn(self.state).run(self.task())
        self.state.catalog.commit(result.edits)
        self.state.delete_unnamed([*result.harvests, *result.written])
        if ready:
            self.ready += [host.run for part in result.ready for host in ready_hosts(part.segment, part.index)]

    def rows(self, run: Run, end: int) -> Batch:
        reader = RunReader(self.state.pool)
        reader.committed(self.state.runs.segments())
        return reader.read(run.segment, run.at, end)

    def work(self, rows: int) -> None:
        """Fetch some rows of the first run, as a worker would, and hand the harvest over."""
        if not self.ready:
            return
        run = self.ready.pop(0)
        end = min(run.end, run.at + rows)
        batch = self.rows(run, end)
        for row, (key, host, url, depth) in enumerate(
            zip(*(batch[name].tolist() for name in ("key", "host", "url", "depth")), strict=True), run.at
        ):
            self.fetched[url] += 1
            line = b"fetched " + url
            found = UnitRows((run.segment, row, key, host, Class.FETCHED, Reason.OK, 200, 100, line))
            for link in dict.fromkeys(self.web[url]):
                site, link_host = self.context.names(link)
                carried = Carried(depth + 1, 0, Source.LINK, priority_of(depth + 1, Source.LINK))
                found.links.append((url_key(link, self.state.seed, site), site, link_host, carried, link))
                if site != self.context.names(url)[0]:
                    own = self.context.names(url)[0]
                    found.pairs.append((pair_key(own, site), site, own))
            self.builder.add(found)
        name = self.builder.write((0, 0))
        assert name is not None
        self.inbox.append(name)
        if end < run.end:
            self.ready.insert(0, Run(run.segment, end, run.end))

    @property
    def over(self) -> bool:
        return not self.ready and not self.inbox and self.state.waiting == 0

    def play(self, seed: bytes, steps: str) -> None:
        """Steps: w(ork), t(urn), c(rash); then on until the end."""
        self.inbox.append(write_seeds(self.state, self.config, [seed], self.state.streams[0]["next"]))
        for step in steps:
            {"w": lambda: self.work(5), "t": self.turn, "c": self.crash}[step]()
        for _ in range(10_000):
            if self.over:
                return
            self.work(50)
            self.turn()
            self.clock.advance(1.0)
        raise AssertionError("the crawl does not end")


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 120), st.text(alphabet="wttc", max_size=25), st.sampled_from([2, 5, 1000]))
def test_every_reachable_url_once_whatever_is_killed_when(
    tmp_path_factory: pytest.TempPathFactory, seed: int, pages: int, steps: str, room: int
) -> None:
    web = web_of(seed, pages)
    start = next(iter(web))
    player = Player(tmp_path_factory.mktemp("job"), web, room)
    player.play(start, steps)
    expected = reachable(web, start)
    assert set(player.fetched) == expected
    # A kill may fetch again what was fetched and not handed over; here everything is handed over at once, so: once.
    assert player.fetched.total() == len(expected)
    ledger = player.state.ledger
    assert (ledger.discovered, ledger.fetched) == (len(expected), len(expected))
    lines = player.job.crawl_log.read_bytes().split(b"\n")[:-1]
    assert sorted(lines) == sorted(b"fetched " + url for url in expected)
    player.state.close()
    player.job.release()


def test_a_large_store_is_passed_by_several_turns_and_nothing_waits_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn, "TURN_ROWS", 1)  # one bucket each
    web = web_of(11, 120)
    player = Player(tmp_path / "job", web, seen_bytes=256)
    seen = player.state.seen
    first, *others = web
    player.inbox.append(write_seeds(player.state, player.config, [first], 0))
    player.turn()
    assert player.ready
    waited: list[int] = []
    for number in range(1, 40):
        seeds = others[3 * (number - 1) : 3 * number]
        player.inbox.append(write_seeds(player.state, player.config, seeds, number))
        player.turn()
        cursors = [bucket.cursor for bucket in player.state.seen.buckets]
        waited.append(max(cursors) - min(cursors))  # harvests that came since a bucket was merged
    buckets = len(seen.buckets)
    assert buckets > 4
    assert 1 < max(waited) <= buckets
    for _ in range(buckets):
        player.turn()
    assert seen.pending_rows == 0
    assert player.state.ledger.discovered == 1 + len(others[:117])
    player.state.close()
    player.job.release()


@pytest.mark.parametrize("steps", ["", "twtctwwtcwtt"])
def test_i1_i2_a_crawl_whose_turns_pass_one_bucket_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: str
) -> None:
    monkeypatch.setattr(turn, "TURN_ROWS", 1)
    web = web_of(12, 120)
    start = next(iter(web))
    player = Player(tmp_path / "job", web, seen_bytes=256)
    player.play(start, steps)
    assert len(player.state.seen.buckets) > 4
    assert player.fetched == dict.fromkeys(reachable(web, start), 1)
    player.state.close()
    player.job.release()


@pytest.mark.parametrize("steps", ["wwwwt", "wwtcwwwtcwwt"])
def test_i4_lines_of_many_outcomes_are_written_before_the_end_of_their_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: str
) -> None:
    """All lines of all harvests that a turn took in were in memory at once. Each is in the log once, also where a
    turn fails after it wrote some."""
    monkeypatch.setattr(turn, "LINES_BYTES_MAX", 100)
    held: list[int] = []
    tell = turn.Turn._tell

    def told(self: turn.Turn, lines: list[bytes]) -> None:
        tell(self, lines)
        held.append(sum(map(len, self._lines)))
        assert len(self._lines) <= len(held)  # no object for each line

    monkeypatch.setattr(turn.Turn, "_tell", told)
    web = web_of(14, 100)
    start = next(iter(web))
    player = Player(tmp_path / "job", web)
    player.play(start, steps)
    assert 0 < max(held) <= 100
    lines = player.job.crawl_log.read_bytes().split(b"\n")[:-1]
    assert sorted(lines) == sorted(b"fetched " + url for url in reachable(web, start))
    player.inbox.append(write_seeds(player.state, player.config, [b"http://new.test/"], 99))
    player.web = {**web, b"http://new.test/": []}
    player.turn()
    player.work(1)
    player.state.ledger.fetched += 1  # so that the turn fails at its end
    monkeypatch.setattr(turn, "LINES_BYTES_MAX", 0)
    with pytest.raises(LedgerError):
        player.turn()
    assert player.job.crawl_log.read_bytes().endswith(b"fetched http://new.test/\n")
    player.crash()
    assert player.job.crawl_log.read_bytes().count(b"fetched http://new.test/\n") == 1
    player.state.close()
    player.job.release()


def test_i1_a_lost_row_is_found_at_the_next_commit(tmp_path: Path) -> None:
    web = web_of(1, 60)
    player = Player(tmp_path / "job", web)
    player.play(next(iter(web)), "")
    player.state.ledger.fetched -= 1  # as if an outcome had not been counted
    with pytest.raises(LedgerError, match="1 missing"):
        player.turn()
    player.state.close()
    player.job.release()


def test_best_first_within_a_host(tmp_path: Path) -> None:
    """URLs nearer to a seed leave their host's run before deeper ones that a turn heard of first."""
    near, deep = ([b"http://many.test/%s%d" % (word, i) for i in range(10)] for word in (b"near", b"deep"))
    chain = [b"http://chain.test/%d" % i for i in range(4)]
    hub = b"http://hub.test/"
    web = {hub: near, chain[0]: [hub, chain[1]], chain[1]: [chain[2]], chain[2]: [chain[3]], chain[3]: deep}
    player = Player(tmp_path / "job", web)

    def urls(run: Run) -> list[bytes]:
        return player.rows(run, run.end)["url"].tolist()

    player.inbox.append(write_seeds(player.state, player.config, [chain[0]], 0))
    for number in range(4):  # the hub is as near as chain[1], and is fetched after the end of the chain
        player.turn()
        player.ready.sort(key=urls)
        assert urls(player.ready[0]) == [chain[number]]
        player.work(1)
    assert urls(player.ready[0]) == [hub]
    player.work(1)
    player.turn()
    (run,) = player.ready
    assert [sorted(urls(run)[:10]), sorted(urls(run)[10:])] == [near, deep]
    player.state.close()
    player.job.release()


def test_i2_an_outcome_that_is_told_twice_counts_once(tmp_path: Path) -> None:
    """I1, I2: another harvest with the same rows (another stream's, after a power loss) changes nothing."""
    web = web_of(5, 40)
    player = Player(tmp_path / "job", web)
    player.inbox.append(write_seeds(player.state, player.config, list(web), 0))
    player.turn()
    long = [run for run in player.ready if run.rows > 1]
    player.ready = [Run(run.segment, run.at, run.end) for run in long]
    player.work(1)
    player.turn()
    done, size = player.state.ledger.done, player.job.crawl_log.stat().st_size
    player.ready = long
    player.work(1)
    player.turn()
    assert (player.state.ledger.done, player.job.crawl_log.stat().st_size) == (done, size)
    player.state.close()
    player.job.release()
