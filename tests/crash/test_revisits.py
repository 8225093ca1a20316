"""The crash matrix of a crawl that visits its pages again: a sitemap that tells of changes and is believed, pages
called out of their rest by it, and a power loss or a kill at any change to the disk. What comes of it: each page in one
place, each visit told once, no named file damaged."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import get_args

from drum import Segment

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.config.keys import RevisitRule
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.revisit import signals
from irlcrawl.worker.archive.log_parts import read
from tests.crash.crawl import JOB, DiskCrawl, _deterministic, empty_disk
from tests.crash.disk import Change, Disk, DiskFiles, Outcome
from tests.crawl.virtual_crawl import START, Answer, Killed, Web

SITE = "http://a.test/"
LIST = f"{SITE}sitemap.xml"
PAGES, EVERY_S, VISITS = 4, 240, 80


def web() -> Web:
    """A start page, and pages that change every EVERY_S seconds, of which a sitemap tells truthfully."""
    told = Web({SITE: [f"{SITE}{n}" for n in range(PAGES)] + [LIST]}, fetch_s=0.05)

    def mood(url: str, now: float) -> Answer | None:
        name = url.removeprefix(SITE)
        versions = {str(n): int((now - START + 37 * n) // EVERY_S) for n in range(PAGES)}
        if url == LIST:
            rows = "".join(
                f"<url><loc>{SITE}{n}</loc><lastmod>{_date(n, v)}</lastmod></url>" for n, v in versions.items()
            )
            return Answer(200, {"content-type": "application/xml"}, f"<urlset>{rows}</urlset>".encode())
        if name not in versions:
            return None
        letters = random.Random(f"{name} {versions[name]}").choices("abcdefghijkl", k=300)
        return Answer(200, {"content-type": "text/html"}, "".join(letter * 2 + " " for letter in letters).encode())

    told.moods["a.test"] = mood
    return told


def _date(page: str, version: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(START + version * EVERY_S - 37 * int(page), UTC).isoformat()


@contextmanager
def crawl_on(disk: Disk, now: float, boot: str) -> Iterator[DiskCrawl]:
    with pytest.MonkeyPatch.context() as patch:
        _deterministic(patch)
        patch.setattr(signals, "TRIED", 1.0)  # visits after a signal, until it is believed
        files = DiskFiles(disk, lambda: crawl.clock.now(), boot)
        crawl = DiskCrawl(JOB, web(), [SITE], patch, workers=1, files=files)
        crawl.clock.set(now)
        revisit, config = crawl.config.revisit, crawl.config
        revisit.enabled, revisit.every_min_seconds, revisit.first_rate_days = True, 30.0, 400 / 86400
        revisit.every_max_days, revisit.chance_min = 0.1, 0.7
        config.revisit_rule = [RevisitRule(match="sitemap", every_max_seconds=60.0)]
        config.politeness.gap_host_seconds, config.limits.pages = 2.0, VISITS
        files.on_crash = crawl.kill
        yield crawl


def check(crawl: DiskCrawl) -> dict[str, int]:
    """Every page in one place, as often visited as the log says; what is named is whole."""
    files, job = crawl.files, crawl.job()
    job.acquire()
    state = CrawlState.open(job, crawl.config, crawl.clock, files)
    state.ledger.check(state.live())
    rows = [*state.pages.scan(), *state.runs.waiting()]
    found = [(url, n) for batch in rows for url, n in zip(batch["url"].tolist(), batch["visits"].tolist(), strict=True)]
    logged = Counter(entry.url for entry in read(files, str(JOB / "logs" / "crawl.log")) if entry.outcome == "fetched")
    assert len(found) == len(dict(found)) == PAGES + 2
    assert dict(found) == logged and logged.total() == VISITS == state.ledger.visits
    for name in state.catalog.live_files():
        Segment.open(files, JOB / "state" / name).verify()
    counters = dict(state.counters)
    state.close()
    return counters


class Told:
    """The crawl nothing happened to."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.times: list[float] = []
        with crawl_on(empty_disk(), START, "boot 0") as crawl:
            apply = crawl.files.disk.apply
            crawl.files.journal = self.changes

            def journal(change: Change, now: float = 0.0) -> None:
                self.times.append(now)
                apply(change, now)

            crawl.files.disk.apply = journal  # type: ignore[method-assign]
            assert crawl.run(hours=12) == ExitCode.SIZE_LIMIT
            del crawl.files.disk.apply  # type: ignore[method-assign]
            crawl.files.journal = None
            self.counters = check(crawl)


@pytest.fixture(scope="module")
def told() -> Told:
    return Told()


def test_signals_are_believed_and_call_pages(told: Told) -> None:
    assert told.counters["signals"] >= 8 and told.counters["visits_called"] >= 2


def crash(told: Told, chosen: set[int], seed: int) -> None:
    disk = empty_disk()
    for at in range(len(told.changes) + 1):
        for outcome in get_args(Outcome) if at in chosen else ():
            left = disk.after_crash(outcome, random.Random(f"{at} {outcome} {seed}"))
            now = told.times[at - 1] if at else START
            with crawl_on(left, now + 0.05, "boot 0" if outcome == "killed" else "boot 1") as crawl:
                try:
                    assert crawl.run(hours=12) == ExitCode.SIZE_LIMIT
                except Killed:
                    raise AssertionError("nobody killed it") from None
                check(crawl)
        if at < len(told.changes):
            disk.apply(told.changes[at], told.times[at])


def test_i1_i2_i5_a_crash_at_any_change_to_the_disk(told: Told) -> None:
    """Late ones: pages are called by then."""
    count = len(told.changes)
    crash(told, set(random.Random(5).sample(range(count * 2 // 3, count), 2)), 5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_i1_i2_i5_a_crash_at_many_changes_to_the_disk(told: Told, seed: int) -> None:
    crash(told, set(random.Random(seed).sample(range(len(told.changes)), 12)), seed)
