"""`irlcrawl plan`: its arithmetic, and (slow) plans against crawls that are then run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.ask.plan import WEB, Means, disk_bytes, lines, pages_like, parse_size, plan, rates
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir, JobError
from irlcrawl.cli.main import main
from irlcrawl.config.keys import Config, ConfigError
from irlcrawl.config.toml import to_toml
from irlcrawl.crawl.status import complete
from irlcrawl.terminal.progress import Bar
from irlcrawl.upkeep import measure as measuring
from irlcrawl.upkeep.measure import DEVELOPERS, HOSTS, Cost, Shape, cost_of, crawled, machine_of, measure, start_of

RECORD = complete({
    "fetched": 1000, "discovered_urls": 5000, "duplicate_urls": 15_000, "queued_urls": 4000, "frontier_bytes": 400_000,
    "bytes": 20_000_000, "read_bytes": 80_000_000, "warc_bytes": 22_000_000, "pace": {"fetch_s": 0.25, "hosts": 40.0},
})  # fmt: skip


@pytest.mark.parametrize(("text", "size"), [
    ("8G", 8e9), ("64GiB", 64 * 2**30), ("100Mbit", 12.5e6), ("1.5 kB", 1500.0), ("12MB/s", 12e6), ("7B", 7.0),
])  # fmt: skip
def test_sizes_are_read_as_people_write_them(text: str, size: float) -> None:
    assert parse_size("--ram", text) == size


@pytest.mark.parametrize("text", ["", "much", "8X", "-1G", "1 GB of RAM", "0", "0.0GB", "9" * 400, "16", "2i"])
def test_other_texts_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match="such as 8GB"):
        parse_size("--ram", text)


@settings(max_examples=25)
@given(
    st.floats(1e3, 1e10), st.integers(1, 64), st.floats(1, 1e6), st.floats(1e4, 1e10), st.floats(1.1, 10),
)  # fmt: skip
def test_more_of_anything_is_never_slower_and_the_least_rate_binds(
    bandwidth: float, cores: int, hosts: float, pages: float, more: float
) -> None:
    def of(bandwidth: float, cores: int, hosts: float) -> dict[str, Any]:
        return plan(Means(None, None, bandwidth, cores, hosts), DEVELOPERS, WEB, Config(), pages)

    answer = of(bandwidth, cores, hosts)
    allowed = answer["rates_at_the_end"]
    assert allowed[answer["binds"]] == min(allowed.values()) <= answer["pages_per_s"] * 1.0001
    assert answer["days"] * 86_400 == pytest.approx(pages / answer["pages_per_s"])
    for better in (
        of(bandwidth * more, cores, hosts),
        of(bandwidth, cores + 1, hosts),
        of(bandwidth, cores, hosts * more),
    ):
        assert better["pages_per_s"] >= answer["pages_per_s"] * 0.9999


@given(st.floats(1e8, 1e14))
def test_a_disk_is_full_after_as_many_pages_as_it_holds(disk: float) -> None:
    answer = plan(Means(None, disk, None, 2, None), DEVELOPERS, WEB, Config(), 1e12)
    full = answer["disk_full_after_pages"]
    assert sum(disk_bytes(WEB, full).values()) <= disk < sum(disk_bytes(WEB, full * 1.01 + 2).values())
    assert answer["lacks"] == ["disk"]


def test_pages_are_like_those_of_a_crawl() -> None:
    pages = pages_like(RECORD, 330_000.0, "job")
    assert pages[1:] == (20_000, 80_000, 22_000, 20, 5, 330, 100, 0.25)
    assert pages_like({**RECORD, "read_bytes": None}, 0.0, "job").read == 20_000, "a crawl that did not count them"
    with pytest.raises(ConfigError, match="at least 100"):
        pages_like({**RECORD, "fetched": 99}, 0.0, "job")


def test_what_a_page_costs_is_told_apart_into_itself_its_bytes_and_its_links() -> None:
    def cost(read: float, links: float) -> Cost:
        return Cost(200e-6 + read * 10e-9 + links * 8e-6, 40e-6 + links * 1e-6, 20e-6, read, links)

    costs = [cost(4_000, 10), cost(31_000, 12), cost(37_000, 110)]
    machine = machine_of(costs, 1e8, 7e7)
    known = (200e-6, 10e-9, 8e-6, 40e-6, 1e-6, 20e-6, 1e8, 7e7)
    assert machine[1:] == pytest.approx(known) and machine.measured > 0
    assert machine.worker(10_000, 50) == pytest.approx(700e-6) and machine.frontier(50) == pytest.approx(90e-6)
    dear = costs[0]._replace(worker=0.01)  # something else had the machine while small pages were fetched
    assert min(machine_of([dear, *costs[1:]], 1e8, 7e7)) >= 0
    means, like = Means(None, None, None, 2, None), WEB._replace(read=10_000, links=50)
    assert rates(means, machine, like, Config(), 1e6)["CPU"] == pytest.approx(2 / 790e-6)


def test_pages_of_visits_that_were_not_over_are_counted_among_those_that_were_paid_for() -> None:
    """A measurement divided CPU time by requests of visits that had ended: planned CPU time was 1.2 to 2.4 times that
    of the crawl that was then run."""
    pace = {"requests_per_s": 150.0, "workers_cpu": 0.3, "loop_cpu": 0.01, "passes": 0.1, "passes_cpu": 0.5}
    record = complete({**RECORD, "pace": pace})
    cost = cost_of(record, 0.72)
    assert (cost.worker, cost.frontier, cost.loop) == pytest.approx((0.6e-3, 0.12e-3, 0.02e-3))
    assert (cost.read, cost.links) == (80_000, 20)
    with pytest.raises(JobError, match="over too soon"):
        cost_of(complete({**RECORD, "pace": {}}), 1.0)


def test_the_cpu_time_of_pages_that_came_compressed_was_planned_by_their_compressed_bytes() -> None:
    """Documentation behind nginx with gzip, 7.5 kB a page: 717 us were planned, and 1,216 us taken."""
    packed = WEB._replace(received=7_500.0, read=45_000.0)
    means = Means(None, None, None, 1, None)
    plain = rates(means, DEVELOPERS, packed._replace(received=45_000.0), Config(), 1e6)
    assert rates(means, DEVELOPERS, packed, Config(), 1e6)["CPU"] == plain["CPU"]
    assert plan(means._replace(bandwidth=7_500.0), DEVELOPERS, packed, Config(), 1000)["pages_per_s"] == pytest.approx(
        1
    )


def test_what_a_crawl_takes_to_start_and_end_is_no_cost_of_its_pages() -> None:
    first, longer = ({"fetched": 300}, 0.7 + 300 * 0.001), ({"fetched": 4000}, 0.7 + 4000 * 0.001)
    assert start_of(first, longer) == pytest.approx(0.7)
    assert start_of(({"fetched": 300}, 0.1), longer) == 0
    with pytest.raises(JobError, match="over too soon"):
        start_of(first, ({"fetched": 400}, 1.0))


def test_gaps_and_hosts_bound_a_crawl_of_few_hosts() -> None:
    config = Config()
    config.politeness.gap_host_factor = 0.0
    found = rates(Means(None, None, None, 2, 100.0), DEVELOPERS, WEB._replace(fetch_s=0.25), config, 1e6)
    assert found["hosts"] == 100 / 1.25
    config.politeness.gap_host_factor = 10.0
    found = rates(Means(None, None, None, 2, 100.0), DEVELOPERS, WEB._replace(fetch_s=0.25), config, 1e6)
    assert found["hosts"] == 100 / 2.75


def test_the_verb_plans_and_says_where_its_costs_come_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked = ["plan", "--ram", "1GB", "--disk", "1TB", "--bandwidth", "100Mbit", "--cores", "4"]
    assert main(asked) == ExitCode.DONE
    told = capsys.readouterr().out
    assert "bound by    bandwidth" in told and "irlcrawl plan --measure" in told and "the disk is full after" in told
    measuring.cache_file().parent.mkdir()
    measuring.cache_file().write_text(json.dumps(DEVELOPERS._replace(measured=1.7e9, worker_s=0.001)._asdict()))
    assert main([*asked, "--json"]) == ExitCode.DONE
    answer = json.loads(capsys.readouterr().out)
    assert answer["machine"]["worker_s"] == 0.001 and "measured here" in "\n".join(lines(answer))
    assert main(["plan", "--ram", "much"]) == ExitCode.CONFIG
    assert main(["plan", "--cores", "-1"]) == ExitCode.CONFIG


@pytest.mark.parametrize("asked", [
    "--pages=nan", "--pages=inf", "--pages=0", "--pages=1e16", "--cores=0", "--hosts=0", "--hosts=nan", "--hosts=-3",
    "--bandwidth=0",
])  # fmt: skip
def test_no_plan_is_made_for_no_number(asked: str, capsys: pytest.CaptureFixture[str]) -> None:
    """NaN pages and no bandwidth ended by a traceback; no cores were taken for all of them."""
    assert main(["plan", asked]) == ExitCode.CONFIG
    assert capsys.readouterr().err.startswith(f"irlcrawl: {asked.replace('=', ' ').split('e16')[0]}")


OTHER = Shape(15_000, 60)
WITHIN = pytest.approx(1.0, abs=0.2)


@pytest.mark.slow
def test_a_plan_is_within_a_fifth_of_the_crawl_that_is_then_run(tmp_path: Path) -> None:
    """Bytes of archive, log and waiting URLs, the rate under gaps and under a bound of bandwidth: each of a plan by a
    first, short crawl, against a longer one. (How dear a page is on a busy machine is no test: docs/performance.md.)"""
    first, _ = crawled(tmp_path / "first", {"limits.seconds": 12})
    pages, machine = pages_like(first, log_of(tmp_path / "first"), "first"), DEVELOPERS

    more, _ = crawled(tmp_path / "more", {"limits.pages": 2 * first["fetched"]})
    needed = disk_bytes(pages, more["fetched"])
    assert needed["archive"] / more["warc_bytes"] == WITHIN
    assert needed["log"] / log_of(tmp_path / "more") == WITHIN
    assert needed["waiting"] / more["frontier_bytes"] == WITHIN

    config = Config()
    config.politeness.gap_host_seconds, config.politeness.gap_host_factor = 0.5, 0.0
    polite, _ = crawled(tmp_path / "polite", {"limits.seconds": 25, "politeness.gap_host_seconds": 0.5})
    expected = plan(Means(None, None, None, 1, HOSTS), machine, pages, config, 1000)
    assert expected["binds"] == "hosts"
    assert expected["pages_per_s"] / polite["pace"]["requests_per_s"] == WITHIN

    narrow, _ = crawled(tmp_path / "narrow", {"limits.seconds": 40, "limits.bytes_per_second": 1_000_000})
    expected = plan(Means(None, None, 1e6, 1, None), machine, pages, Config(), 1000)
    assert expected["binds"] == "bandwidth"
    assert expected["pages_per_s"] / narrow["pace"]["requests_per_s"] == WITHIN


@pytest.mark.slow
def test_the_cpu_time_of_a_plan_is_within_a_fifth_of_a_crawl_of_other_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine that does nothing else: beside other work the same page costs up to twice as much. The crawl has
    pages that no measurement had, and is three times as long."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    machine = measure(tmp_path, Bar())
    short = crawled(tmp_path / "short", {"limits.pages": 500}, OTHER)
    record, cpu_s = longer = crawled(tmp_path / "job", {"limits.seconds": 15}, OTHER)
    pages = pages_like(record, log_of(tmp_path / "job"), "job")
    planned = machine.worker(pages.read, pages.links) + machine.frontier(pages.links)
    assert planned / ((cpu_s - start_of(short, longer)) / record["fetched"]) == WITHIN


def log_of(job: Path) -> int:
    return sum(file.stat().st_size for file in JobDir(job).logs.glob("crawl.log*"))


def test_a_plan_knew_nothing_of_hours() -> None:
    """It promised in a day what may be asked for in eight hours of it."""
    means, config = Means(None, None, 1e6, 2, 100.0), Config()
    whole = plan(means, DEVELOPERS, WEB, config, 1e6)
    config.politeness.hours = "22:00-02:00, 01:00-06:00"
    told = plan(means, DEVELOPERS, WEB, config, 1e6)
    assert told["days"] == pytest.approx(3 * whole["days"]) and told["open_share"] == pytest.approx(1 / 3)
    assert told["rates_at_the_end"] == whole["rates_at_the_end"]
    said = "hours       8 of 24 a day (politeness.hours): these rates hold in them, and nothing is asked at others"
    assert said in list(lines(told)) and not any(line.startswith("hours") for line in lines(whole))


def test_the_gap_of_hosts_is_planned_by_their_unit() -> None:
    config = Config()
    config.politeness.unit = "site"
    assert "sites" in rates(Means(None, None, None, 2, 5.0), DEVELOPERS, WEB, config, 1e6)


@pytest.mark.parametrize(("unit", "bound"), [("host", True), ("site", False)])
def test_hosts_of_a_crawl_are_no_sites(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], unit: str, bound: bool
) -> None:
    job = JobDir(tmp_path)
    job.state.mkdir()
    job.logs.mkdir()
    config = Config()
    config.politeness.unit = unit
    job.write_config(to_toml(config))
    monkeypatch.setattr("irlcrawl.crawl.status.read_status", lambda job: RECORD)
    assert main(["plan", "--like", str(tmp_path), "--json"]) == ExitCode.DONE
    assert ("hosts" in json.loads(capsys.readouterr().out)["rates_at_the_end"]) == bound
