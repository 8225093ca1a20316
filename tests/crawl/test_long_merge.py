"""A merge of many buckets: its progress is in the status, and a crawl that stops leaves it at the next bucket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drum import MergeStats, Repository

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.crawl import status, turns
from irlcrawl.frontier.turn.turn import Task
from tests.crawl.virtual_crawl import Crawl, Web
from tests.frontier.turn.test_turn import Player, reachable, web_of

PAGES = 60


class Halted(Player):
    """Its drums have buckets of a few rows, and each turn may merge as many as `patience` says."""

    patience: list[int]

    def open(self) -> None:
        super().open()
        for drum in self.state.drums:
            drum.ram_bytes = 256

    def task(self) -> Task:
        task = super().task()
        left = self.patience.pop() if self.patience else 1 << 30

        def proceed() -> bool:
            nonlocal left
            left -= 1
            return left >= 0

        task.proceed = proceed
        return task


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 10**6), st.text(alphabet="wttc", max_size=25), st.lists(st.integers(0, 12), max_size=40))
def test_i1_i2_merges_that_are_left_at_any_bucket_lose_nothing(
    tmp_path_factory: pytest.TempPathFactory, seed: int, steps: str, patience: list[int]
) -> None:
    web = web_of(seed, PAGES)
    start = next(iter(web))
    halted = type("", (Halted,), {"patience": patience})(tmp_path_factory.mktemp("job"), web)
    halted.play(start, steps)
    assert halted.fetched == dict.fromkeys(reachable(web, start), 1)
    assert halted.state.ledger.discovered == halted.state.ledger.fetched == len(reachable(web, start))
    halted.state.close()
    halted.job.release()


def test_a_long_merge_shows_in_the_status_and_a_stop_ends_it_at_the_next_bucket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The status said nothing of a merge while it ran, and a stop waited for the end of it."""
    leaves = {f"http://a.test/{n}": [f"http://a.test/{n}/{m}" for m in range(5)] for n in range(PAGES)}
    pages = {"http://a.test/": list(leaves), **leaves, **{url: [] for urls in leaves.values() for url in urls}}
    crawl = Crawl(tmp_path / "job", Web(pages), ["http://a.test/"], monkeypatch)
    told: list[dict[str, Any]] = []

    def small(url: str) -> None:
        assert crawl.loop is not None
        crawl.loop.state.seen.ram_bytes = 256

    crawl.on_request = small
    check = Repository.merge

    def merge(drum: Repository, *args: Any, **known: Any) -> MergeStats:
        """The crawl is asked before each bucket of `seen`, and told to stop when five are merged."""
        loop = crawl.loop
        if drum.name == "seen" and len(drum.buckets) > 8 and loop is not None and drum.pending_rows and len(told) < 6:
            assert loop.ending is None, "not one bucket more than the one that was being merged"
            record = status.complete(loop.status())
            told.extend([record] * ("seen" in record["merges"]))
            if len(told) == 5:
                loop.stop(ExitCode.INTERRUPTED)
        return check(drum, *args, **known)

    monkeypatch.setattr(Repository, "merge", merge)
    monkeypatch.setattr(turns, "MERGES_SECONDS", 0.0)
    assert crawl.run() == ExitCode.INTERRUPTED
    assert len(told) == 5
    told.append({})  # of this run no more is asked
    done = [record["merges"]["seen"]["buckets_done"] for record in told[:5]]
    assert done == sorted(set(done)), "each time further"
    last = told[4]["merges"]["seen"]
    words = f"seen {last['buckets_done']} of {last['buckets']} buckets, {last['rows_waiting']} rows to go"
    assert words in status.line(told[4])
    assert f"merging   {words}" in status.lines(told[4])
    kept = crawl.outcomes()
    assert crawl.run() == ExitCode.DONE
    assert set(crawl.outcomes()) == set(pages) > set(kept)
    assert not crawl.loop or not crawl.loop.status()["merges"]
