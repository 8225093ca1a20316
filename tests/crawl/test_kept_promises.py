"""What hosts and addresses were promised outlives a kill, in whole crawls under virtual time: where only one of the
clocks' log, the commit and the archive's tail knows of it, that one is read (I3)."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from unittest.mock import Mock

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.keys import host_key
from irlcrawl.base.reasons import Reason
from irlcrawl.config.keys import Config
from irlcrawl.crawl import recovery
from irlcrawl.frontier.dispatch.visits import Ending
from irlcrawl.frontier.politeness.clocks import Promise
from irlcrawl.frontier.politeness.politeness import Outcome
from irlcrawl.frontier.state.lease_log import LeaseLog
from irlcrawl.worker.archive.unit import Unit
from tests.crawl.virtual_crawl import Answer, Crawl, Killed, Web, star

GAP_S, TURN_S, RETRY_AFTER_S, DOWN_S = 4.0, 1.5, 30, 0.05


@pytest.mark.parametrize("nth", range(2, 6))
def test_a_clock_that_moved_while_a_turn_ran_outlives_a_kill_after_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    """The commit has the clocks as they were when the turn began, the clocks' log starts anew behind it, and what is
    read again of the archive knows hosts but no addresses."""
    web = Web(star("a.test", 4) | star("b.test", 4))
    crawl = Crawl(tmp_path / "job", web, ["http://a.test/", "http://b.test/"], monkeypatch, latency_s=TURN_S)
    crawl.names.answers = dict.fromkeys(("a.test", "b.test"), "10.0.0.1")
    politeness = crawl.config.politeness
    politeness.gap_host_seconds, politeness.gap_address_seconds, politeness.visit_seconds = 0.1, GAP_S, 0.5
    crawl.config.frontier.harvest_seconds = 1.0
    roll, commits = LeaseLog.roll, 0

    def rolled(log: LeaseLog, promises: list[Promise]) -> None:
        nonlocal commits
        commits += 1
        roll(log, promises)
        if commits == nth:
            crawl.kill()

    monkeypatch.setattr(LeaseLog, "roll", rolled)
    with pytest.raises(Killed):
        crawl.run()
    crawl.clock.advance(DOWN_S)
    assert crawl.run() == ExitCode.DONE
    early = [url for (asked, _), (at, url) in pairwise(web.log) if at < asked + web.fetch_s + GAP_S - 1e-3]
    assert len(web.log) >= 12 and early == []


def asked_after_the_kill(crawl: Crawl) -> list[float]:
    """When b.test is asked by the run after the one that is killed."""
    with pytest.raises(Killed):
        crawl.run()
    asked = len(crawl.web.log)
    crawl.clock.advance(DOWN_S)
    assert crawl.run() == ExitCode.DONE
    return [at for at, url in crawl.web.log[asked:] if url.startswith("http://b.test/")]


def test_a_retry_after_outlives_a_kill_before_its_harvest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the archive's tail knows of it, and it closes the host for its other URLs, too."""
    pages = [f"http://b.test/{n}" for n in range(4)]
    web = Web({"http://a.test/": pages, **{page: [] for page in pages}})
    throttled: list[float] = []

    def mood(url: str, now: float) -> Answer | None:
        if url.endswith("robots.txt") or throttled:
            return None
        return Answer(429, {"retry-after": str(RETRY_AFTER_S)})

    def kept(unit: Unit) -> None:
        if unit.reason == Reason.THROTTLED:
            throttled.append(crawl.clock.now())
            crawl.kill()

    web.moods["b.test"] = mood
    crawl = Crawl(tmp_path / "job", web, ["http://a.test/"], monkeypatch, on_kept=kept)
    crawl.config.politeness.gap_host_seconds = 1.0
    again = asked_after_the_kill(crawl)
    assert len(again) == len(pages) and min(again) >= throttled[0] + RETRY_AFTER_S - 1e-3


@pytest.mark.parametrize("reason", [Reason.CONNECT, Reason.TLS, Reason.TIMEOUT, Reason.LOST])
def test_a_back_off_outlives_a_kill_before_its_harvest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: Reason
) -> None:
    """Recovery counted the failure, and set the host's clock as if there had been none: its other URLs were asked for
    after a gap."""
    pages = [f"http://b.test/{n}" for n in range(4)]
    web = Web({"http://a.test/": pages, **{page: [] for page in pages}})
    failed: list[float] = []
    web.moods["b.test"] = lambda url, now: None if url.endswith("robots.txt") or failed else Answer(reason=reason)

    def kept(unit: Unit) -> None:
        if unit.reason == reason:
            failed.append(crawl.clock.now())
            crawl.kill()

    crawl = Crawl(tmp_path / "job", web, ["http://a.test/"], monkeypatch, on_kept=kept)
    politeness = crawl.config.politeness
    politeness.gap_host_seconds, politeness.backoff_seconds, politeness.retry_delay_seconds = 1.0, 20.0, 1.0
    again = asked_after_the_kill(crawl)
    assert again and min(again) >= failed[0] + 20.0 - 1e-3


@pytest.mark.parametrize("reason", [Reason.THROTTLED, Reason.CONNECT])
def test_what_a_worker_that_died_alone_could_not_tell_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: Reason
) -> None:
    """Its last exchange is in its archive, and the end of its visit was never told: the host was asked again after a
    gap, by the worker in its place."""
    pages = [f"http://b.test/{n}" for n in range(4)]
    web = Web({"http://a.test/": pages, **{page: [] for page in pages}})
    refused: list[float] = []
    answer = Answer(429, {"retry-after": str(RETRY_AFTER_S)}) if reason == Reason.THROTTLED else Answer(reason=reason)
    web.moods["b.test"] = lambda url, now: None if url.endswith("robots.txt") or refused else answer

    def kept(unit: Unit) -> None:
        if unit.reason == reason:
            refused.append(crawl.clock.now())
            crawl.kill_worker(min(crawl.running))

    crawl = Crawl(tmp_path / "job", web, ["http://a.test/"], monkeypatch, on_kept=kept)
    politeness = crawl.config.politeness
    politeness.gap_host_seconds, politeness.backoff_seconds = 1.0, float(RETRY_AFTER_S)
    assert crawl.run() == ExitCode.DONE
    again = [at for at, url in web.log if url.startswith("http://b.test/") and refused and at > refused[0]]
    assert len(again) >= len(pages) - 1 and min(again) >= refused[0] + RETRY_AFTER_S - 1e-3


def test_a_crawl_delay_is_kept_of_which_a_worker_that_died_alone_could_not_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = Web({"http://a.test/": ["http://b.test/"], "http://b.test/": []})
    rules = b"User-agent: *\nCrawl-delay: 20"
    web.answers["http://b.test/robots.txt"] = Answer(200, {"content-type": "text/plain"}, rules)
    read: list[float] = []

    def kept(unit: Unit) -> None:
        if unit.url == b"http://b.test/robots.txt" and not read:
            read.append(crawl.clock.now())
            crawl.kill_worker(min(crawl.running))

    crawl = Crawl(tmp_path / "job", web, ["http://a.test/"], monkeypatch, on_kept=kept)
    crawl.config.politeness.gap_host_seconds = 1.0
    assert crawl.run() == ExitCode.DONE
    again = [at for at, url in web.log if url.startswith("http://b.test/") and at > read[0]]
    assert again and min(again) >= read[0] + 20 - 1e-3


@pytest.mark.parametrize(("reason", "outcome", "due"), [("ok", "ok", None), ("throttled", "throttled", 105.0)])
def test_a_throttle_that_was_told_counted_again_when_its_worker_died(
    monkeypatch: pytest.MonkeyPatch, reason: str, outcome: Outcome, due: float | None
) -> None:
    """Of an earlier visit the same harvest may know, too: the last exchange says how the last one ended."""
    host = host_key(b"http://b.test", 0)
    monkeypatch.setattr(recovery, "_throttled", lambda state, name: iter([(b"http://b.test/0", 0, 105.0)]))
    monkeypatch.setattr(recovery, "_last_exchanges", lambda state, names: {host: ("a.test", None, 110.0, 0.5, reason)})
    monkeypatch.setattr(recovery, "recover_stream", lambda *known: recovery.Recovered(["a"]))
    state = Mock()
    state.pool.section.return_value.scan.return_value = []
    found = recovery.recover_worker(state, Config(), 1).endings
    assert found == {host: Ending(110.0, 0.5, outcome, due, None)}
