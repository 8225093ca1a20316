"""`python -m bench crawl`, what of it is no measurement: what politeness allowed, what a run is judged by, how peers
are started, and one real comparison on a small web."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bench.crawl import achievable, cores, ours, peers, single, tree
from bench.crawl.achievable import Gaps
from bench.crawl.main import main as bench_crawl
from bench.crawl.systems import PEERS
from irlcrawl.config.keys import Page
from irlcrawl.config.toml import load
from irlcrawl.worker.archive.crawl_log import LogEntry
from tools.docsweb.audit import Request
from tools.docsweb.serve import running
from tools.docsweb.sets import DocswebError

GAPS = Gaps(host_floor=5.0, host_factor=10.0, address=0.5)
HOSTS = {"a.test": "127.0.0.1", "b.test": "127.0.0.1", "c.test": "127.0.0.2"}


def request(host: str, end: float, seconds: float = 0.0, *, connection_s: float = 0.0) -> Request:
    return Request(
        end - seconds, end, "https", host, 443, HOSTS[host], 200, "GET", "/", connection_s, connection_s > 0
    )  # fmt: skip


def every(host: str, seconds: float, until: float, took: float = 0.0) -> list[Request]:
    return [request(host, seconds * n + took, took) for n in range(int(until / seconds))]


def test_a_crawl_that_asks_as_often_as_it_may_uses_everything() -> None:
    requests = [r for host in HOSTS for r in every(host, 5.0, 100.0)]
    used = achievable.used(requests, HOSTS, 0.0, 100.0, GAPS)
    assert used == (60, 60.0) and used.utilisation == 1.0


@pytest.mark.parametrize(("took", "apart"), [(0.1, 5.1), (1.0, 11.0)])
def test_durations_lengthen_what_is_allowed_as_the_rule_says(took: float, apart: float) -> None:
    requests = [r for host in HOSTS for r in every(host, apart, 1000.0, took)]
    used = achievable.used(requests, HOSTS, 0.0, 1000.0, GAPS)
    assert used.achievable == pytest.approx(3 * 1000 / apart)
    assert used.utilisation == pytest.approx(1.0, abs=0.02)


def test_idle_hosts_count_as_not_used() -> None:
    used = achievable.used(every("a.test", 5.0, 100.0), HOSTS, 0.0, 100.0, GAPS)
    assert used == (20, 60.0)


def test_an_address_bounds_what_its_hosts_could_do() -> None:
    gaps = replace(GAPS, address=4.0)
    used = achievable.used([], HOSTS, 0.0, 100.0, gaps)
    assert used.achievable == 100 / 4 + 20  # two hosts of one address would make 40


def test_only_the_window_counts() -> None:
    requests = every("a.test", 5.0, 200.0)
    assert achievable.used(requests, {"a.test": "127.0.0.1"}, 50.0, 150.0, GAPS) == (20, 20.0)


def test_a_new_connection_is_part_of_its_exchange() -> None:
    assert achievable.took(request("a.test", 10.0, 0.25, connection_s=0.5)) == 0.5
    assert achievable.took(request("a.test", 10.0, 0.25)) == 0.25


def entry(host: str, start: float, duration: float = 0.0) -> LogEntry:
    url = f"https://{host}/".encode()
    return LogEntry(0, 200, 1, url, "L", start_ms=int(start * 1000), duration_ms=int(duration * 1000))


def test_lease_waits_begin_when_both_clocks_are_due() -> None:
    log = [
        entry("a.test", 100.0),
        entry("b.test", 100.6),  # the first of its host: nothing is known of how long it waited
        entry("a.test", 105.2, 1.0),  # 0.2 s after its host's gap
        entry("b.test", 107.0),  # its host was due at 105.6, its address not before 106.7
        entry("a.test", 116.2),  # ten times a second after 106.2
    ]
    assert achievable.lease_waits_ms(log, HOSTS, 0.0, GAPS) == pytest.approx([200, 300, 0])
    assert achievable.lease_waits_ms(log, HOSTS, 110.0, GAPS) == [0]


def test_percentiles() -> None:
    values = [float(n) for n in range(100, 0, -1)]
    assert [achievable.percentile(values, share) for share in (0.5, 0.99, 1.0)] == [50, 99, 100]
    assert achievable.percentile([7.0], 0.99) == 7 and achievable.percentile([], 0.5) == 0


def test_imbalance_is_over_the_mean() -> None:
    assert ours.imbalance([60, 40]) == pytest.approx(0.2)
    assert ours.imbalance([25] * 4) == 0
    assert ours.imbalance([]) == 0


def test_each_client_of_the_configuration_has_its_line() -> None:
    assert dict(ours.clients())["irlcrawl"] == []
    assert ["fetch.client=aiohttp"] in dict(ours.clients()).values()


def test_ratios_are_taken_within_a_round() -> None:
    lines = {
        name: peers.Line(name, "", [{"pages_per_cpu_s": value} for value in values])
        for name, values in {"irlcrawl": (100, 300, 200), "wget2": (50, 100, 400)}.items()
    }
    (ratio,) = peers._ratio_lines(lines)
    assert (ratio["median"], ratio["rounds"], ratio["goal"]) == (2, [2, 3, 0.5], 1.0)
    assert "irlcrawl / wget2: 2.0 (0.5 to 3.0) (goal 1)" in peers.words([ratio])


def test_cores_are_apart_or_shared() -> None:
    every = os.sched_getaffinity(0)
    assert cores.divided(len(every)) == (every, every)
    with pytest.raises(tree.CrawlFailed, match=f"this process may use {len(every)}"):
        cores.divided(len(every) + 1)
    if len(every) > 1:
        servers, crawler = cores.divided(0)
        assert servers | crawler == every and not servers & crawler
        assert [len(part) for part in cores.one_each()] == [1, 1]


def run(tmp_path: Path, words: Sequence[str], **options: object) -> tree.Usage:
    program = [sys.executable, "-c", *words]
    return tree.run(program, tmp_path / "said", cores=os.sched_getaffinity(0), seconds_max=20, **options)  # type: ignore[arg-type]


def test_a_tree_is_what_it_and_its_children_cost(tmp_path: Path) -> None:
    child = "import time\nx = bytearray(50_000_000)\nwhile time.process_time() < 0.4: pass"
    usage = run(tmp_path, [f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}], check=True)"])
    assert usage.cpu_s >= 0.4
    assert usage.samples.peak_sum > 50_000_000
    assert usage.samples.series[-1][2] > 0


def test_a_crawler_that_fails_is_told_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(tree.CrawlFailed, match=r"(?s)exit code 7.*it is broken"):
        run(tmp_path, ["print('it is broken'); raise SystemExit(7)"])
    run(tmp_path, ["raise SystemExit(7)"], codes=(0, 7))


def test_a_crawler_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    with pytest.raises(tree.CrawlFailed, match="exit code -9"):
        tree.run(
            [sys.executable, "-c", "import time; time.sleep(60)"], tmp_path / "said",
            cores=os.sched_getaffinity(0), seconds_max=0.5,
        )  # fmt: skip


def test_pinning_is_for_what_starts_meanwhile(tmp_path: Path) -> None:
    before = os.sched_getaffinity(0)
    with tree.pinned({min(before)}):
        assert os.sched_getaffinity(0) == {min(before)}
    assert os.sched_getaffinity(0) == before


def test_peers_save_below_their_directory_and_say_how_to_get_them(tmp_path: Path) -> None:
    for peer in PEERS:
        command = peer.command(tmp_path, ["http://127.0.0.9/"])
        assert command[-1] == "http://127.0.0.9/" and any(str(tmp_path) in word for word in command), peer.name
        assert peer.features and peer.install
        assert peer.name in peers.GOALS
    absent = replace(PEERS[0], program="python:no_such_module")
    assert absent.missing
    assert "not installed: make bench-venv" in peers.words([peers._skipped(absent)])


@pytest.mark.parametrize("words", [["--polite", "--seconds", "5"], ["--cores", "4096"]])
def test_what_cannot_be_measured_is_refused(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench_crawl([*words, "--dir", str(tmp_path)]) == 1
    assert f"{' '.join(words[-2:])}: " in capsys.readouterr().err


@pytest.mark.slow
def test_a_small_comparison(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """irlcrawl and wget over one small set, each once: the same pages, all of them, both told in the table."""
    try:
        with running(tmp_path / "probe", "python"):
            pass
    except DocswebError as error:
        pytest.skip(f"docsweb cannot be served: {error}")
    together = ["--cores", "1", "--sets", "python", "--pages", "1", "--rounds", "1", "--only", "wget --", "--json"]
    assert bench_crawl(["--peers", *together, "--dir", str(tmp_path)]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    mine = next(line for line in lines if line.get("system") == "irlcrawl")
    assert mine["recall"] == 1 and mine["unexpected"] == 0 and mine["pages_per_cpu_s"] > 0
    large = next(line for line in lines if line.get("system") == peers.LARGE)
    assert (large["recall"], large["pages"]) == (1, mine["pages"]) and large["frontier_cpu_share"] > 0
    (size,) = [line for line in lines if line.get("ratio") == f"irlcrawl / {peers.LARGE}"]
    assert size["goal"] == "0.9 to 1.1"
    for line in lines:
        if line.get("system", "").startswith("wget --warc-file ") and "failed" not in line:
            assert line["recall"] > 0.9 and line["requests"] >= line["pages"]
    assert "pages/CPU-s" in peers.words(lines)


def test_a_small_crawl_is_told_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--cores", "1", "--workers", "2", "--sets", "python", "--pages", "1", "--json"]
    try:
        assert bench_crawl([*small, "--dir", str(tmp_path)]) == 0
    except DocswebError as error:
        pytest.skip(f"docsweb cannot be served: {error}")
    (told,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert told["recall"] == 1 and told["repeated"] == told["unexpected"] == 0
    assert sum(told["pages_per_worker"]) == told["pages"] and len(told["pages_per_worker"]) <= 2
    assert told["frontier_cpu_share"] > 0 and "recall: 1" in single.words([told])
    assert load(tmp_path / "job" / "irlcrawl.toml").page == Page(), "pages are read as in any crawl"
