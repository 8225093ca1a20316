"""The audit of politeness: what it measures is what happened, and no gap that is too short escapes it (I3)."""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from irlcrawl.ask import politeness_audit
from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.base.url import host_of
from irlcrawl.cli import main
from irlcrawl.config.keys import Config
from irlcrawl.config.toml import to_toml
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.worker.archive.crawl_log import LogEntry, format_entry
from tests.upkeep import three_sites

NOW_MS = 1_700_000_000_000
IN_NINE = "Tue Nov 14 22:13:29 2023"
"""Nine seconds later, as asctime writes it: in UTC."""


@pytest.fixture
def in_tokyo() -> Iterator[None]:
    """A machine whose zone is not that of HTTP's dates."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


def job_with(path: Path, entries: list[LogEntry], config: Config | None = None) -> JobDir:
    config = config or Config()
    with JobDir(path) as job:
        job.write_config(to_toml(config))
        CrawlState.open(job, config, VirtualClock()).close()  # notes the promises
        job.crawl_log.write_bytes(b"".join(format_entry(entry) + b"\n" for entry in entries))
    return job


def request(url: str, start_ms: int, took_ms: int = 0, address: str = "", status: int = 200, **notes: str) -> LogEntry:
    outcome = "none" if url.endswith("/robots.txt") else "fetched"
    notes = {"outcome": outcome, "reason": "ok", **({"address": address} if address else {}), **notes}
    at = NOW_MS + start_ms
    return LogEntry(at + took_ms, status, 10, url.encode(), "L", "", "text/html", 1, at, took_ms, notes=notes)


def test_a_crawl_kept_its_promises_and_the_audit_saw_every_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl = three_sites.crawl_of(tmp_path / "job", monkeypatch)
    crawl.run()
    JobDir(crawl.path).write_config(to_toml(crawl.config))
    assert main.main(["report", str(crawl.path), "--politeness", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["requests"] == len(crawl.web.log) and told["broken"] == 0
    starts: dict[str, list[float]] = {}
    for at, url in crawl.web.log:
        starts.setdefault(host_of(url.encode()), []).append(at)
    gaps = [b - a - crawl.web.fetch_s for times in starts.values() for a, b in pairwise(times)]
    assert told["host"]["clocks"] == told["address"]["clocks"] == len(starts) and told["host"]["gaps"] == len(gaps)
    assert told["host"]["smallest_s"] == pytest.approx(min(gaps), abs=0.002)
    assert told["host"]["median_s"] == pytest.approx(statistics.median(gaps), abs=0.002)
    (slow,) = (one for one in told["host"]["worst"] if one["name"] == "b.two.test")
    assert slow["rule_s"] == 3.0, "its Crawl-delay"
    (busy,) = (one for one in told["host"]["worst"] if one["name"] == "c.three.test")
    assert busy["smallest_s"] < 1, "Retry-After is another rule than the gap's"
    assert main.main(["report", str(crawl.path), "--politeness"]) == 0
    assert "no promise was broken" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("entries", "clock", "rule"),
    [
        ([request("http://a.test/", 0, 50), request("http://a.test/1", 1047)], "host", 1.0),
        ([request("http://a.test/", 0, 500), request("http://a.test/1", 5400)], "host", 5.0),
        ([request("http://a.test/", 0, status=503, retry_after="9"), request("http://a.test/1", 8900)], "host", 9.0),
        (
            [request("http://a.test/", 0, status=503, retry_after=IN_NINE), request("http://a.test/1", 8900)], "host",
            9.0,
        ),
        ([request("http://a.test/", 0, status=429), request("http://a.test/1", 4900)], "host", 5.0),
        (
            [request("http://a.test/robots.txt", 0, crawl_delay="7"), request("http://a.test/1", 7001),
             request("http://a.test/2", 13_900)], "host", 7.0,
        ),
        ([request("http://a.test/", 0, 0, "10.0.0.1"), request("http://b.test/", 490, 0, "10.0.0.1")], "address", 0.5),
        ([request("http://a.test/", 2000), request("http://a.test/1", 0, 1500)], "host", 15.0),  # logged out of order
    ],
)  # fmt: skip
@pytest.mark.usefixtures("in_tokyo")
def test_a_gap_that_is_too_short_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], entries: list[LogEntry], clock: str, rule: float
) -> None:
    job = job_with(tmp_path / "job", entries)
    assert main.main(["report", str(job.path), "--politeness", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["broken"] == told[clock]["broken"] == 1
    (worst, *_) = told[clock]["worst"]
    assert worst["broken"] == 1 and worst["rule_s"] == pytest.approx(rule, abs=0.006)  # durations are rounded
    assert main.main(["report", str(job.path), "--politeness"]) == 1
    assert f"{worst['name']}: BROKEN 1 time" in capsys.readouterr().out


def paced(starts: list[float], gaps: list[float], kind: str = "address") -> list[LogEntry]:
    """A request at each of these seconds, of a site of its own or all of one, with the gap in force."""
    site, address = ("s{}.test", "10.0.0.1") if kind == "address" else ("h{}.one.test", "")
    return [
        request(f"http://{site.format(n)}/", round(1000 * at), 300, address, **{f"gap_{kind}": f"{gap:g}"})
        for n, (at, gap) in enumerate(zip(starts, gaps, strict=True))
    ]


LEARNT = [0.5] * 10 + [0.1] * 50 + [0.02] * 400 + [0.2] * 50
LEASED = [sum(LEARNT[:n]) for n in range(len(LEARNT))]


@pytest.mark.parametrize("late_ms", [0, 30, 1000])
def test_the_gap_of_a_shared_address_is_the_one_in_force_then(tmp_path: Path, late_ms: int) -> None:
    """It shrank and grew while it was learnt. A worker may be late with any request, though not with each by more."""
    chosen = random.Random(3)
    starts = [at + chosen.randint(0, late_ms) / 1000 for at in LEASED]
    told = politeness_audit.audit(job_with(tmp_path / "job", paced(starts, LEARNT)), 5)
    assert told["broken"] == 0 and told["address"]["gaps"] == len(LEARNT) - 1


@pytest.mark.parametrize("kind", ["address", "site"])
@pytest.mark.parametrize("since", [0, 60, 460])
def test_more_requests_than_the_gaps_of_a_shared_address_allow_are_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, since: int
) -> None:
    """From some request on they come a fifth faster than they may."""
    starts = [at if at < LEASED[since] else LEASED[since] + (at - LEASED[since]) / 1.2 for at in LEASED]
    job = job_with(tmp_path / "job", paced(starts, LEARNT, kind))
    assert main.main(["report", str(job.path), "--politeness"]) == 1
    told = politeness_audit.audit(job, 5)
    assert told["broken"] == told[kind]["broken"] > 10
    assert f"{'10.0.0.1' if kind == 'address' else 'one.test'}: BROKEN" in capsys.readouterr().out


def test_a_gap_shorter_than_the_shortest_for_shared_addresses_is_found(tmp_path: Path) -> None:
    """The log says that it was in force, but it was promised to none."""
    gaps = [0.01] * 400
    job = job_with(tmp_path / "job", paced([n * 0.01 for n in range(400)], gaps))
    assert politeness_audit.audit(job, 5)["address"]["broken"] > 10


def test_a_duration_that_was_rounded_up_breaks_no_promise(tmp_path: Path) -> None:
    """It was multiplied by ten: of requests that take 118.6 ms the next may start 1.186 s later, not 1.190."""
    job = job_with(tmp_path / "job", [request("http://a.test/", 0, 119), request("http://a.test/1", 119 + 1186)])
    (found,) = politeness_audit.audit(job, 20)["host"]["worst"]
    assert found["broken"] == 0 and found["rule_s"] == pytest.approx(1.185)


def test_a_robots_txt_that_was_read_for_another_host_ended_the_crawl_delay_of_its_own(tmp_path: Path) -> None:
    """A host that was asked too soon after the redirect of another's robots.txt to it was not told of."""
    robots = "http://a.test/robots.txt"
    entries = [
        request(robots, 0, 10, crawl_delay="20"),
        request(robots, 21_000, 10, robots_of="another"),
        request("http://a.test/", 22_500),
    ]
    told = politeness_audit.audit(job_with(tmp_path / "job", entries), 9)
    assert told["broken"] == 1 and told["host"]["worst"][0]["rule_s"] == 20.0


def test_top_says_how_many_are_listed_the_closest_to_their_rule_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was taken, and nothing came of it: one host, address and site of a polite crawl could be seen."""
    entries = [request(f"http://h{n}.test/{at}", 9000 * at + 100 * n * at) for n in range(30) for at in range(3)]
    job = job_with(tmp_path / "job", entries)
    assert main.main(["report", str(job.path), "--politeness", "--top", "25", "--json"]) == 0
    worst = json.loads(capsys.readouterr().out)["host"]["worst"]
    assert [one["name"] for one in worst] == [f"h{n}.test" for n in range(25)]
    for top, listed in (([], 1), (["--top", "25"], 50), (["--top", "0"], 0)):  # hosts, and sites of their names
        assert main.main(["report", str(job.path), "--politeness", *top]) == 0
        assert capsys.readouterr().out.count(".test: closest to its rule") == listed
    assert main.main(["report", str(job.path), "--politeness", "--by", "spent"]) == ExitCode.CONFIG
    assert "--by spent" in capsys.readouterr().err


def test_rules_are_those_of_their_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gap that was right when it was kept stays right after the configuration asks for more."""
    crawl = three_sites.crawl_of(tmp_path / "job", monkeypatch)
    crawl.config.limits.pages = 40
    crawl.run()
    crawl.config.limits.pages = 0
    crawl.config.politeness.gap_host_seconds = 0.9
    crawl.run()
    JobDir(crawl.path).write_config(to_toml(crawl.config))
    told = politeness_audit.audit(JobDir(crawl.path), 20)
    assert told["broken"] == 0 and told["host"]["smallest_s"] == pytest.approx(0.5, abs=0.002)
    assert {one["rule_s"] for one in told["host"]["worst"]} >= {0.5}


def test_a_gap_of_sites_ends_with_the_run_that_had_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first request of a run without it broke the rule of the run before; within that run it still holds."""
    crawl = three_sites.crawl_of(tmp_path / "job", monkeypatch)
    crawl.config.politeness.gap_site_hosts, crawl.config.politeness.gap_site_seconds = 0, 5.0
    crawl.config.limits.pages = 20
    crawl.run()
    crawl.config.politeness.gap_site_seconds, crawl.config.limits.pages = 0.0, 60
    crawl.run()
    JobDir(crawl.path).write_config(to_toml(crawl.config))
    told = politeness_audit.audit(JobDir(crawl.path), 20)
    assert told["broken"] == 0 and told["site"]["smallest_s"] < 0.5
    early = [request(f"http://{name}.one.test/", at) for name, at in (("a", 0), ("b", 4000), ("c", 12_000))]
    config = Config()
    config.politeness.gap_site_seconds = 5.0
    assert politeness_audit.audit(job_with(tmp_path / "other", early, config), 20)["site"]["broken"] == 1


@pytest.mark.parametrize("step", [-3.0, -3600.0, 3600.0])
@pytest.mark.parametrize("gap", [0.5, 0.9])
def test_a_clock_that_was_set_between_two_runs_breaks_no_promise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: float, gap: float
) -> None:
    """Set back, requests of the second run stood among those of the first, and gaps were called too short; rules were
    those of another run."""
    crawl = three_sites.crawl_of(tmp_path / "job", monkeypatch)
    crawl.config.limits.pages = 90
    crawl.run()
    crawl.clock.advance(1.0)
    crawl.clock.step(step)
    crawl.config.limits.pages = 0
    crawl.config.politeness.gap_host_seconds = gap
    crawl.run()
    JobDir(crawl.path).write_config(to_toml(crawl.config))
    told = politeness_audit.audit(JobDir(crawl.path), 20)
    assert told["broken"] == 0 and told["host"]["smallest_s"] == pytest.approx(0.5, abs=0.002)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9000), st.integers(0, 80)), max_size=30))
@example([(0, 0, 0), (0, 998, 0)])
def test_gaps_are_those_a_brute_force_finds(
    tmp_path_factory: pytest.TempPathFactory, asked: list[tuple[int, int, int]]
) -> None:
    """Any order of logging, requests that overlap, several hosts."""
    entries = [request(f"http://h{host}.test/{n}", start, took) for n, (host, start, took) in enumerate(asked)]
    told = politeness_audit.audit(job_with(tmp_path_factory.mktemp("jobs") / "job", entries), 20)
    gaps, broken = [], 0
    for host in range(4):
        mine = sorted((start, start + took) for which, start, took in asked if which == host)
        for n in range(1, len(mine)):
            last, rule = max(end for _, end in mine[:n]), max(1.0, 0.01 * (mine[n - 1][1] - mine[n - 1][0]))
            gaps.append((mine[n][0] - last) / 1000)
            broken += gaps[-1] < rule - 0.002 - 1e-9
    assert told["host"]["gaps"] == len(gaps) and told["host"]["broken"] == broken
    assert told["host"]["smallest_s"] == (pytest.approx(min(gaps)) if gaps else None)
