"""Samples of the status record on the disk: for a year, in fixed size, across kills and torn writes."""

from __future__ import annotations

import asyncio
import errno
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

from drum import Damaged
from drum.files import Data, Files, Handle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.crawl import history
from irlcrawl.crawl.history import LEVELS, SHAPE, History, read
from irlcrawl.terminal.progress import Bar
from irlcrawl.upkeep.fsck import Fsck
from tests.crawl.virtual_crawl import START, Crawl, Killed, Web, star

DAY, NOW = 86_400.0, 1_000_000_000.0


def record(fetched: int, **more: Any) -> dict[str, Any]:
    return {"fetched": fetched, **more}


def written(path: Path, times: list[float]) -> None:
    told = History(Files(), path)
    for number, at in enumerate(times):
        told.tick(at, lambda number=number: record(number))  # type: ignore[misc]
    told.close()


def test_a_sample_says_what_the_record_said(tmp_path: Path) -> None:
    path = tmp_path / "history"
    told = History(Files(), path)
    failed = {"fetched_by_reason": {"ok": 5, "http_error": 2}, "failed_by_reason": {"dns": 3}}
    told.tick(NOW, lambda: record(7, queued_urls=2**53, **failed))
    told.close()
    ((at, values),) = read(path, 0, NOW)
    assert (at, values["fetched"], values["queued_urls"], values["errors"]) == (NOW, 7, 2**53, 5)
    assert values["frontier_latency_s"] is None, "it was not known"
    assert set(values) == set(history.SAMPLED) and set(history.SAMPLED) > history.TOTALS


def test_the_record_is_asked_every_ten_seconds_and_no_more(tmp_path: Path) -> None:
    told, asked = History(Files(), tmp_path / "history"), 0

    def ask() -> dict[str, Any]:
        nonlocal asked
        asked += 1
        return record(asked)

    for tenth in range(1000):
        told.tick(NOW + tenth / 10, ask)
    assert asked == 10
    told.last(NOW + 101, ask)
    samples = read(tmp_path / "history", 0, NOW + 200)
    assert [at - NOW for at, _ in samples] == [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 101]
    assert samples[-1][1]["fetched"] == 11, "how it ended"


def test_a_year_of_samples_has_a_fixed_size_and_is_finer_where_it_is_newer(tmp_path: Path) -> None:
    """Sampled as such a crawl would be, but for the steps between the samples that are read."""
    path, end = tmp_path / "history", NOW
    begin = end - 380 * DAY
    times = [begin + 1800 * number for number in range(380 * 48)]
    times += [end - 30 * DAY + 300 * number for number in range(29 * 288)] + [end - DAY + 10 * n for n in range(8640)]
    written(path, times)
    assert os.path.getsize(path) <= SHAPE.size < 6_000_000
    steps = []
    for span in (3600.0, DAY - 20, 27 * DAY, 360 * DAY):
        samples = read(path, end - span, end)
        assert samples[0][0] == pytest.approx(end - span, abs=3700)
        assert [at for at, _ in samples] == sorted({at for at, _ in samples})
        assert all(values["fetched"] == times.index(at) for at, values in samples[:: max(len(samples) // 20, 1)])
        steps.append(min(later[0] - sample[0] for sample, later in pairwise(samples)))
    assert steps[:2] == [10, 10] and len(read(path, end - 360 * DAY, end, most=300)) <= 300
    assert read(path, end - 360 * DAY, end, most=300)[-1] == read(path, end - DAY, end)[-1]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 3 * 8640), min_size=1, max_size=40), st.integers(0, 300_000))
def test_what_is_read_was_written(tmp_path_factory: pytest.TempPathFactory, steps: list[int], since: int) -> None:
    """Against a dictionary: of each ten seconds the first sample, of the last day."""
    path = tmp_path_factory.mktemp("ring") / "history"
    times = [NOW + 10 * step for step in sorted(steps)]
    written(path, times)
    finest = {}
    for number, at in enumerate(times):
        if number == 0 or at // 10 != times[number - 1] // 10:
            finest[int(at // 10) % 8640] = (at, number)
    expected = sorted(sample for sample in finest.values() if sample[0] >= NOW + since)
    found = [(at, values["fetched"]) for at, values in read(path, NOW + since, NOW + 10**6)]
    kept = [sample for sample in found if sample in expected]
    assert kept == expected
    assert {at for at, _ in found} <= set(times)


def test_torn_samples_are_left_out_and_a_clock_set_back_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "history"
    written(path, [NOW + 10 * number for number in range(20)])
    data = bytearray(path.read_bytes())
    slot = int((NOW + 50) // 10) % LEVELS[0][1]
    data[SHAPE.begin(0) + slot * SHAPE.slot_bytes + 30] ^= 1
    path.write_bytes(data)
    assert [at - NOW for at, _ in read(path, 0, NOW + DAY)] == [10 * n for n in range(20) if n != 5]
    written(path, [NOW - 3600])
    assert read(path, 0, NOW - 3000)[-1][0] == NOW - 3600
    history.check(path)


@pytest.mark.parametrize(
    "damage",
    [
        b"", b"not a history", b"[]", b'{"history": 1, "levels": [], "fields": []}\n',
        history.Shape([(10, 1 << 60)], ["fetched"]).header(), history.Shape([(0, 5)], ["fetched"]).header(),
    ],
)  # fmt: skip
def test_another_file_in_its_place_is_told_and_begun_anew(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "history"
    path.write_bytes(damage)
    with pytest.raises(Damaged, match="not the header of a history"):
        read(path, 0, NOW)
    written(path, [NOW])
    assert len(read(path, 0, NOW)) == 1
    assert read(tmp_path / "none", 0, NOW) == []


def test_a_full_disk_ends_no_crawl(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Full(Files):
        full = True

        def pwrite(self, handle: Handle, data: Data, offset: int) -> None:
            if self.full:
                raise OSError(errno.ENOSPC, "No space left on device")
            super().pwrite(handle, data, offset)

    files = Full()
    told = History(files, tmp_path / "history")
    for number in range(5):
        told.tick(NOW + 10 * number, lambda: record(1))
    assert [entry.message for entry in caplog.records if "no sample" in entry.message][1:] == [], "said once"
    assert "No space left" in caplog.text
    files.full = False
    told.tick(NOW + 50, lambda: record(2))
    assert [values["fetched"] for _, values in read(tmp_path / "history", 0, NOW + 99)] == [2]


def test_a_killed_crawl_keeps_its_history_and_goes_on_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = Crawl(tmp_path / "job", Web(star("a.test", 40)), ["http://a.test/"], monkeypatch)
    crawl.config.politeness.gap_host_seconds = 5.0

    async def sampled(crawl: Crawl) -> None:
        assert crawl.loop is not None
        told = History(Files(), crawl.job().history)
        while True:
            told.tick(crawl.clock.now(), crawl.loop.status)
            await asyncio.sleep(1)

    crawl.on_request = lambda url: crawl.kill() if url.endswith("/20") else None
    with pytest.raises(Killed):
        crawl.run(sampled)
    before = read(crawl.job().history, START, START + DAY)
    crawl.on_request = lambda url: None
    crawl.run(sampled)
    samples = read(crawl.job().history, START, START + DAY)
    assert samples[: len(before) - 1] == before[:-1] and 1 < len(before) < len(samples)
    fetched = [values["fetched"] for _, values in samples]
    assert fetched == sorted(fetched, key=lambda number: number or 0) and fetched[-1] == pytest.approx(41, abs=4)
    crawl.job().history.write_bytes(b"x")
    with crawl.job() as job:
        found = list(Fsck(job, Bar()).run())
    about = [one for one in found if one.file.endswith("history")]
    assert [(one.damage, one.what.partition(":")[0]) for one in about] == [(False, "not the header of a history")]
