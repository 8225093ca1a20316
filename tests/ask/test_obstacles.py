"""Hosts at rest and throttled addresses are counted by `status` and listed by `urls`, on a played crawl."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from irlcrawl.ask.obstacles import held_up
from irlcrawl.ask.why import why
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.base.reasons import Reason
from irlcrawl.cli import main
from irlcrawl.config.toml import to_toml
from irlcrawl.crawl import status
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.terminal.progress import Bar
from irlcrawl.upkeep.repair import repair
from tests.crawl.test_shared_address import end_after, sharing
from tests.crawl.virtual_crawl import Answer, Crawl, Killed, Web, star

BUSY, SILENT = Answer(503), Answer(reason=Reason.CONNECT)
RESTING = {
    "silent.test": "connect", "busy.test": "throttled", "closed.test": "no_robots", "broken.test": "itself",
    "nameless.test": "dns",
}  # fmt: skip
"""What its URLs rest for, by host."""


def crawl_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: dict[str, float]) -> Crawl:
    """A host that is well, and five that fail until the second that `ends` says, each after its own fashion."""
    web = Web({url: links for host in ("well.test", *RESTING) for url, links in star(host, 2).items()})

    def until(host: str, answer: Answer, only: str = "") -> Callable[[str, float], Answer | None]:
        return lambda url, now: answer if now < began + ends.get(host, 1e9) and url.endswith(only) else None

    web.moods = {
        "silent.test": until("silent.test", SILENT),
        "busy.test": lambda url, now: None if url.endswith("robots.txt") else until("busy.test", BUSY)(url, now),
        "closed.test": until("closed.test", BUSY, "robots.txt"),
        "broken.test": until("broken.test", Answer(500), "test/"),
    }
    crawl = Crawl(tmp_path / "job", web, [f"http://{host}/" for host in ("well.test", *RESTING)], monkeypatch)
    began = crawl.clock.now()
    crawl.names.answers["nameless.test"] = Reason.DNS
    return crawl


def record_of(crawl: Crawl) -> dict[str, object]:
    JobDir(crawl.path).write_config(to_toml(crawl.config))
    return status.read_status(JobDir(crawl.path))


def test_hosts_at_rest_are_counted_by_reason_and_their_urls_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl = crawl_of(tmp_path, monkeypatch, {})
    crawl.config.limits.wait_hours = 0.02  # nothing is given up so soon
    assert crawl.run() == ExitCode.TIME_LIMIT
    record = record_of(crawl)
    assert record["resting_hosts"] == {"connect": 1, "throttled": 1, "no_robots": 1, "dns": 1}
    assert record["throttled_addresses"] == {"backing_off": 1}
    text = status.lines(record)
    (failing,) = (line for line in text if line.startswith("failing"))
    assert failing.startswith("failing   4 hosts when asked last (")
    assert sorted(failing[35:-1].split(", ")) == ["connect 1", "dns 1", "no robots 1", "throttled 1"]
    assert "throttled 1 address (backing off 1)" in text
    listed = {url.decode(): told for url, _, told in held_up(JobDir(crawl.path), "rest", crawl.clock.now())}
    assert listed.keys() == {f"http://{host}/" for host in RESTING}
    for host, reason in RESTING.items():
        assert listed[f"http://{host}/"].startswith(f"{reason} until 2001-09-09T"), listed
    rests = {host: why(JobDir(crawl.path), f"http://{host}/", crawl.clock.now())["stands"] for host in RESTING}
    assert rests["closed.test"].startswith("rests because its host's robots.txt could not be had (3 times in a row)")
    failed = "rests because its host failed when it was asked last"
    assert rests["silent.test"].startswith(f"{failed} (connect; 4 times in a row)")
    assert rests["nameless.test"].startswith(f"{failed} (dns; "), "nothing said that it has no address"
    assert rests["broken.test"].startswith("rests after a passing failure; asked again from ")
    ((url, _, told),) = held_up(JobDir(crawl.path), "throttled", crawl.clock.now())
    assert url == b"http://silent.test/" and re.fullmatch(r"10\.0\.0\.\d every 8\.0 s after failures", told), told
    assert main.main(["urls", str(crawl.path), "--status", "queued", "--with", "rest=no_robots"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.split("\t")[:3] == ["queued", "resting", "http://closed.test/"]
    # "nothing to put back" did not say that they rest.
    assert main.main(["retry", str(crawl.path), "--host", "silent.test"]) == 0
    nothing, resting = capsys.readouterr().out.splitlines()
    assert nothing.startswith("nothing to put back")
    assert resting.startswith("at rest after a failure: 1 URL of these, asked again from 2001-09-09 ")
    assert main.main(["retry", str(crawl.path), "--reason", "dns", "--reason", "connect"]) == 0
    assert "at rest after a failure: 2 URLs of these, " in capsys.readouterr().out
    assert main.main(["retry", str(crawl.path), "--host", "well.test"]) == 0
    assert "at rest" not in capsys.readouterr().out
    with JobDir(crawl.path) as job:
        list(repair(job, set(), crawl.clock, Bar()))
        assert CrawlState.open(job, crawl.config, crawl.clock).counters["hosts_resting"] == record["resting_hosts"]


def test_hosts_that_answer_again_rest_no_more_and_those_given_up_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = crawl_of(tmp_path, monkeypatch, {"busy.test": 30.0, "closed.test": 30.0, "broken.test": 1.0})
    assert crawl.run() == ExitCode.DONE
    told = Counter(host for url, (outcome, _) in crawl.outcomes().items() if outcome == "failed"
                   for host in [url.split("/")[2]])  # fmt: skip
    assert told == {"silent.test": 1, "nameless.test": 1}
    assert record_of(crawl)["resting_hosts"] == {"given_up": 2}


def test_a_shared_address_that_throttles_is_counted_and_listed_also_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restart every shared address of the last run was counted as one that throttles."""
    names = [f"www.s{n}.test" for n in range(24)]
    crawl = sharing(tmp_path, monkeypatch, names, 25)
    crawl.names.answers |= dict.fromkeys(names[12:], "10.0.0.2")  # bears it
    asked: list[float] = []

    def mood(url: str, now: float) -> Answer | None:
        if sum(at > now - 1.0 for at in asked[-10:]) >= 3:
            return Answer(429)
        asked.append(now)
        return None

    crawl.web.moods = dict.fromkeys(names[:12], mood)
    for _ in range(2):
        with pytest.raises(Killed):
            crawl.run(main=end_after(12.0))
        record = record_of(crawl)
        assert record["shared_addresses"] == {"known": 2, "throttled": 1}
        assert record["throttled_addresses"]["shared"] == 1
        told = list(held_up(JobDir(crawl.path), "throttled", crawl.clock.now()))
        clock = why(JobDir(crawl.path), told[0][0].decode(), crawl.clock.now())["host"]["clocks"]["address"]
        assert clock["shared"] and clock["limit_per_s"] > 1.5
        assert {url.split(b"/")[2].decode() for url, _, _ in told} == set(names[:12])
        limits = {float(text.rpartition(" ")[2]) for _, _, text in told}
        assert len(limits) == 1 and 1.5 < limits.pop() < 6.0
