"""The state is read beside a crawl that commits: a reading is one commit, however many come between."""

from __future__ import annotations

import shutil
from pathlib import Path

from drum import Catalog, Damaged, Edits, Files
from drum.files import Path as AnyPath

import pytest

from irlcrawl.frontier.state.view import Reading
from tests.ask.test_why import half_way
from tests.crawl.virtual_crawl import Crawl


class Busy(Files):
    """Whenever the catalogue was read, a crawl commits: it names a new file, and deletes the one before."""

    def __init__(self, crawl: Crawl, commits: int) -> None:
        super().__init__()
        self.state, self.left = crawl.job().state, commits
        self.model = min(self.state.glob("turn-*.seg"))
        self.catalog = Catalog.open(self.state)
        self.commit()

    def commit(self) -> None:
        name = f"turn-{9_000_000 + self.left:09d}.seg"
        shutil.copy(self.model, self.state / name)
        edits = Edits()
        edits.set("busy", {"file": name})
        self.catalog.commit(edits)
        self.catalog.collect()
        self.left -= 1

    def read(self, path: AnyPath) -> bytes:
        data = super().read(path)
        if str(path) == self.catalog.log and self.left:
            self.commit()
        return data


def test_commits_that_came_faster_than_files_were_opened_were_taken_for_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = half_way(tmp_path / "job", monkeypatch)
    busy = Busy(crawl, commits=60)
    reading = Reading.open(crawl.job(), busy)
    assert reading is not None and not busy.left
    assert reading.catalog.number == busy.catalog.number
    assert sum(len(batch) for _, batch in reading.waiting())
    assert reading.pool.files_open == len(reading.catalog.live_files()), "none of the commits between is held open"


def test_a_file_that_is_missing_is_told_though_no_commit_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = half_way(tmp_path / "job", monkeypatch)
    busy = Busy(crawl, commits=1)
    (missing,) = busy.state.glob("turn-009*.seg")
    missing.unlink()
    with pytest.raises(Damaged, match=missing.name):
        Reading.open(crawl.job(), busy)
