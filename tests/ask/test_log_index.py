"""The crawl log by its index says what a scan of it says: while it grows, is rolled and compressed, and is replaced."""

from __future__ import annotations

import gzip
import os
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from drum import Catalog, Edits

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.ask import log_index_build, outcomes
from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import part_name
from irlcrawl.config.keys import Config
from irlcrawl.config.toml import to_toml
from irlcrawl.frontier.state import formats

HOSTS = (
    "a.example",
    "www.a.example:81",
    "b.example",
    "x.b.example",
    "foo.co.uk",
    "co.uk",
    "10.0.0.1",
    "[::1]",
    "[::1]:90",
)
SITES = ("a.example", "b.example", "foo.co.uk", "co.uk", "10.0.0.1", "::1")
OUTCOMES = ("fetched", "failed", "excluded", "retry", "returned", "none")
SCAN = 1 << 62


def line_of(number: int) -> bytes:
    """Line `number` of any log: the same each time."""
    dice = random.Random(number)
    host, path, outcome = dice.choice(HOSTS), dice.randrange(3), dice.choice(OUTCOMES)
    status = dice.choice((200, 404, -4))
    notes = f"outcome={outcome},reason=ok,note={number}" + (",was=fetched" if outcome == "returned" else "")
    return (
        f"2026-01-02T03:04:05.{number % 1000:03}Z {status} 5 http://{host}/{path} - - text/html #000 "
        f"20260102030405678+12 sha1:{number} - {notes}\n"
    ).encode()


class Log:
    """A job whose log grows."""

    def __init__(self, path: Path, crawl: str = "crawl-1") -> None:
        self.job, self.crawl = JobDir(path), crawl
        with self.job:
            self.job.write_config(to_toml(Config()))
        self.part = self.bytes = self.lines = 0
        self.job.crawl_log.touch()

    def grow(self, lines: int, committed: bool = True) -> None:
        with open(self.job.crawl_log, "ab") as stream:
            stream.truncate(self.bytes)
            data = b"".join(line_of(self.lines + number) for number in range(lines))
            stream.write(data)
        if committed:
            self.lines += lines
            self.bytes += len(data)
            self.commit()

    def roll(self, packed: bool) -> None:
        self.part += 1
        rolled = part_name(str(self.job.crawl_log), self.part)
        os.rename(self.job.crawl_log, rolled)
        with open(rolled, "ab") as stream:
            stream.truncate(self.bytes)
        if packed:
            Path(rolled + ".gz").write_bytes(gzip.compress(Path(rolled).read_bytes()))
            os.unlink(rolled)
        self.job.crawl_log.touch()
        self.bytes = 0
        self.commit()

    def commit(self) -> None:
        edits = Edits()
        edits.set("crawl", {"id": self.crawl, "format": formats.FORMAT, "keys": formats.KEYS, "seed": 1})
        edits.set("log", {"part": self.part, "bytes": self.bytes})
        catalog = Catalog.open(self.job.state)
        catalog.commit(edits)
        catalog.close()


def answers(job: JobDir) -> Iterator[tuple[object, ...]]:
    for asked in ({}, *({"host": host} for host in (*HOSTS, "a.example:80", "none.example")),
                  *({"site": site} for site in SITES), {"host": "b.example", "status": "4xx"},
                  {"site": "a.example", "reason": "ok"}, {"site": "a.example", "host": "www.a.example"}):  # fmt: skip
        yield str(asked), list(outcomes.outcomes(job, **asked)), list(outcomes.last_words(job, **asked))
    for host in HOSTS:
        for path in range(3):
            url = f"http://{host}/{path}".encode()
            yield url, list(outcomes.entries_of(job, url))


@contextmanager
def sizes(least: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_index_build, "LOG_BYTES_LEAST", least)
        patch.setattr(log_index_build, "RUN_BYTES", 700)
        patch.setattr(log_index_build, "BLOCK_ROWS", 3)
        patch.setattr(log_index_build, "MERGED_BLOCKS", 2)
        yield


def same_as_scanned(job: JobDir, least: int) -> None:
    with sizes(SCAN):
        kept = job.indexes.rename(job.indexes.with_name("kept")) if job.indexes.exists() else None
        expected = list(answers(job))
        if kept is not None:
            kept.rename(job.indexes)
    with sizes(least):
        assert list(answers(job)) == expected


steps = st.lists(
    st.one_of(
        st.tuples(st.just("grow"), st.integers(1, 25), st.just(True)),
        st.tuples(st.just("grow"), st.integers(1, 3), st.just(False)),
        st.tuples(st.just("roll"), st.booleans()),
        st.tuples(st.just("ask"), st.sampled_from((1, 1500))),
    ),
    min_size=1, max_size=8,
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(steps)
def test_answers_are_those_of_a_scan(steps: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        log = Log(Path(directory) / "job")
        log.grow(5)
        for step in steps:
            if step[0] == "grow":
                log.grow(step[1], step[2])
            elif step[0] == "roll":
                log.roll(step[1])
            else:
                same_as_scanned(log.job, step[1])
        same_as_scanned(log.job, 1)


def names(job: JobDir) -> list[str]:
    return sorted(path.name for path in job.indexes.glob("log-*"))


def test_indexes_are_few_and_cover_what_was_committed(tmp_path: Path) -> None:
    log = Log(tmp_path / "job")
    for number in range(12):
        log.grow(20)
        with sizes(1):
            list(outcomes.outcomes(log.job, host="a.example"))
        if number == 5:
            log.roll(packed=True)
        assert 1 <= len(names(log.job)) <= 5
    assert not list(log.job.indexes.glob("*.tmp"))
    before = names(log.job)
    with sizes(1):
        list(outcomes.outcomes(log.job, host="a.example"))
    assert names(log.job) == before, "nothing was missing"


def test_another_log_in_its_place_is_read_anew(tmp_path: Path) -> None:
    log = Log(tmp_path / "job")
    log.grow(40)
    same_as_scanned(log.job, 1)
    log.job.crawl_log.write_bytes(b"".join(line_of(100 + number) for number in range(80)))
    log.bytes = log.job.crawl_log.stat().st_size
    log.commit()
    same_as_scanned(log.job, 1)


@pytest.mark.parametrize("damage", ["cut", "flip", "block", "other crawl"])
def test_an_index_that_is_damaged_is_made_again(tmp_path: Path, damage: str) -> None:
    log = Log(tmp_path / "job")
    log.grow(40)
    same_as_scanned(log.job, 1)
    (path,) = log.job.indexes.glob("log-*")
    data = bytearray(path.read_bytes())
    if damage == "other crawl":
        log.crawl = "crawl-2"
        log.commit()
    else:
        data[200 if damage == "block" else -20] ^= 1
        path.write_bytes(data[: len(data) // 2] if damage == "cut" else data)
    same_as_scanned(log.job, 1)
    same_as_scanned(log.job, 1)
    assert names(log.job)


def test_a_job_that_cannot_be_written_is_scanned(tmp_path: Path) -> None:
    log = Log(tmp_path / "job")
    log.grow(40)
    log.job.indexes.write_text("in the way")
    with sizes(1):
        found = list(answers(log.job))
    log.job.indexes.unlink()
    with sizes(1):
        assert list(answers(log.job)) == found and names(log.job)


def test_nothing_is_written_into_a_snapshot(tmp_path: Path) -> None:
    log = Log(tmp_path / "job")
    log.grow(40)
    (log.job.path / "SNAPSHOT").touch()
    with sizes(1):
        assert list(answers(log.job)) and not log.job.indexes.exists()


def test_a_small_log_is_read_as_it_is(tmp_path: Path) -> None:
    log = Log(tmp_path / "job")
    log.grow(40)
    list(answers(log.job))
    assert not log.job.indexes.exists()
