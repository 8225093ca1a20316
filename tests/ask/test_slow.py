"""`why --slow`: crawls that are made slow on purpose, one for each cause, and what is said of them."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

from drum import Files

import pytest

from irlcrawl.ask import slow
from irlcrawl.ask.slow import CAUSES, diagnose, lines
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.reasons import Reason
from irlcrawl.cli.main import main
from irlcrawl.config.keys import Config, Site
from irlcrawl.config.toml import to_toml
from irlcrawl.crawl import pace
from irlcrawl.crawl.pace import PACE, cpu_of_process, cpu_of_thread
from irlcrawl.crawl.status import complete
from tests.crawl.virtual_crawl import START, Answer, Crawl, Web, star

LOOKED_AT = 25.0
IDLE = {**dict.fromkeys(PACE, 0.0), "seconds": 60.0, "places": 256.0}
OPENS = START // 86_400 * 86_400 + 22 * 3600
"""The next 22:00 after the crawls begin."""


def date_of(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def crawl_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hosts: int, pages: int = 40, fetch_s: float = 0.01,
    files: Files | None = None,
) -> Crawl:  # fmt: skip
    """So many hosts with so many pages each, all of which are known after the first request. It could make more than a
    hundred requests a second."""
    web = Web({}, fetch_s)
    for number in range(hosts):
        for url, links in star(f"www.s{number}.test", pages).items():
            web.page(url, links)
    seeds = [f"http://www.s{number}.test/" for number in range(hosts)]
    crawl = Crawl(tmp_path / "job", web, seeds, monkeypatch, **({} if files is None else {"files": files}))
    crawl.config.politeness.visit_urls_max = 1
    return crawl


def bound(crawl: Crawl) -> tuple[str | None, slow.Answer]:
    """What binds the crawl after half a minute, and the whole answer."""
    records: list[dict[str, Any]] = []

    async def look(crawl: Crawl) -> None:
        await asyncio.sleep(LOOKED_AT)
        assert crawl.loop is not None
        records.append(complete({**crawl.loop.status(), "source": "live"}))
        crawl.loop.stop(ExitCode.INTERRUPTED)

    crawl.run(look)
    answer = diagnose(records[0], crawl.config, cores=2)
    assert set(answer["pace"]) == set(PACE)
    return answer["bound_by"], answer


def test_a_dead_proxy_is_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was nothing in particular."""
    crawl = crawl_of(tmp_path, monkeypatch, 20)
    proxy = crawl.config.network.proxy = "http://127.0.0.1:3128"
    crawl.web.moods = {
        f"www.s{n}.test": lambda url, now: Answer(reason=Reason.CONNECT, proxy_down=proxy) for n in range(20)
    }
    cause, answer = bound(crawl)
    assert cause == "network" and f"these proxies let nothing through: {proxy}" in answer["because"]


def test_long_gaps_are_politeness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = crawl_of(tmp_path, monkeypatch, 20)
    crawl.config.politeness.gap_host_seconds = 20.0
    cause, answer = bound(crawl)
    assert (cause, answer["key"]) == ("politeness", "politeness.gap_host_seconds")
    assert "20 hosts in memory, each asked every " in answer["because"]


def test_gaps_after_slow_answers_are_politeness_and_the_factor_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = crawl_of(tmp_path, monkeypatch, 20, fetch_s=2.0)
    crawl.config.politeness.gap_host_factor = 10.0
    cause, answer = bound(crawl)
    assert (cause, answer["key"]) == ("politeness", "politeness.gap_host_factor (a request takes 2.0 s)")


def test_one_address_of_all_hosts_is_politeness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = crawl_of(tmp_path, monkeypatch, 40, pages=5)
    crawl.config.politeness.shared_address_sites = 0
    crawl.config.politeness.gap_address_seconds = 2.0
    crawl.names.answers |= {f"www.s{number}.test": "10.0.0.1" for number in range(40)}
    cause, answer = bound(crawl)
    assert cause == "politeness"
    assert answer["key"].startswith("politeness.gap_address_seconds")


def test_a_crawl_of_two_hosts_lacks_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cause, answer = bound(crawl_of(tmp_path, monkeypatch, 2))
    assert (cause, answer["key"]) == ("hosts", "more seeds")
    assert "2 hosts in memory, each asked every 1.0 s" in answer["because"]


def test_a_slow_resolver_is_dns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = crawl_of(tmp_path, monkeypatch, 60, pages=1)
    crawl.names.seconds = {f"www.s{number}.test": 4.0 for number in range(60)}
    crawl.config.network.dns_in_flight_max = 2
    cause, answer = bound(crawl)
    assert cause == "dns"
    assert answer["key"].startswith("network.dns_in_flight_max (2)")


@pytest.mark.parametrize(("body_s", "word", "key"), [
    (0.1, "latency", "fetch.visits_per_worker"),
    (4.5, "bandwidth", "no key: a faster line, or fewer bytes (fetch.types, fetch.length_max)"),
])  # fmt: skip
def test_a_slow_line_is_the_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body_s: float, word: str, key: str
) -> None:
    crawl = crawl_of(tmp_path, monkeypatch, 50, fetch_s=5.0)
    crawl.web.body_s = body_s
    crawl.config.fetch.visits_per_worker = 4
    cause, answer = bound(crawl)
    assert (cause, answer["key"]) == ("network", key)
    assert word in answer["because"] and "a request takes 5.0 s" in answer["because"]


def test_a_busy_loop_is_the_frontiers_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = crawl_of(tmp_path, monkeypatch, 3)
    monkeypatch.setattr(pace, "CPU_SECONDS", 0.0)
    monkeypatch.setattr(pace, "cpu_of_thread", lambda: (0.7 * crawl.clock.now(), 0.25 * crawl.clock.now()))
    cause, answer = bound(crawl)
    assert cause == "frontier"
    assert "for 70% of the time, and for 25% other processes have the CPU" in answer["because"]


def test_workers_that_others_keep_from_the_cpu_need_no_more_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It advised more workers where the machine was busy with other programs."""
    crawl = crawl_of(tmp_path, monkeypatch, 1)
    monkeypatch.setattr(pace, "CPU_SECONDS", 0.0)
    monkeypatch.setattr(pace, "cpu_of_process", lambda pid: (0.2 * crawl.clock.now(), 0.75 * crawl.clock.now()))
    cause, answer = bound(crawl)
    assert cause == "workers" and "other programs have the CPU" in answer["key"]


def test_visits_that_wait_for_gaps_need_more_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = crawl_of(tmp_path, monkeypatch, 8)
    crawl.config.politeness.visit_urls_max, crawl.config.fetch.visits_per_worker = 30, 1
    crawl.config.politeness.visit_seconds = 30.0
    cause, answer = bound(crawl)
    assert (cause, answer["key"]) == ("limit", "fetch.visits_per_worker")


def test_busy_workers_are_their_cpu_and_more_are_advised_where_there_are_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = crawl_of(tmp_path, monkeypatch, 3)
    monkeypatch.setattr(pace, "CPU_SECONDS", 0.0)
    monkeypatch.setattr(pace, "cpu_of_process", lambda pid: (0.95 * crawl.clock.now(), 0.0))
    cause, answer = bound(crawl)
    assert (cause, answer["key"]) == ("workers", "crawl.workers (2 cores are there)")


class SlowDisk(Files):
    """Each fsync takes seconds of virtual time."""

    crawl: Crawl | None = None

    def fsync(self, *args: Any) -> None:
        super().fsync(*args)
        if self.crawl is not None:
            self.crawl.clock.advance(3.0)


def test_a_slow_fsync_is_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page leads to one more, so nothing can be requested before the next turn, which waits for the disk."""
    files = SlowDisk()
    crawl = files.crawl = crawl_of(tmp_path, monkeypatch, 1, files=files)
    for number in range(40):
        crawl.web.page(f"http://www.s0.test/{number}", [f"http://www.s0.test/{number + 1}"])
    crawl.web.page("http://www.s0.test/", ["http://www.s0.test/0"])
    assert bound(crawl)[0] == "disk"


def test_limits_are_the_operators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = crawl_of(tmp_path, monkeypatch, 20)
    crawl.config.limits.bytes_per_second = 200
    cause, answer = bound(crawl)
    assert (cause, answer["key"]) == ("limit", "limits.bytes_per_second")


def test_hours_are_the_operators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The crawl begins at 01:46:40."""
    crawl = crawl_of(tmp_path, monkeypatch, 20)
    crawl.config.politeness.hours = "22:00-01:46"
    cause, answer = bound(crawl)
    assert (cause, answer["key"]) == ("limit", "politeness.hours")


def test_why_slow_did_not_know_the_hours_of_a_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It said: nothing is used up."""
    crawl = crawl_of(tmp_path, monkeypatch, 2)
    crawl.config.site["s0.test"] = crawl.config.site["s1.test"] = Site(hours="22:00-01:46")
    cause, answer = bound(crawl)
    assert (cause, answer["key"]) == ("limit", 'site."s0.test".hours')
    assert answer["because"] == (
        f"2 of 2 URLs that wait are scheduled, the first for {date_of(OPENS)}, when hosts open by "
        'site."s0.test".hours, site."s1.test".hours'
    )


def test_hours_were_blamed_for_urls_that_wait_for_a_crawl_delay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a site of which there is no URL; without such a section: nothing is used up."""
    crawl = crawl_of(tmp_path, monkeypatch, 2)
    crawl.config.site["other.test"] = Site(hours="22:00-01:46")
    for number in range(2):
        crawl.web.answers[f"http://www.s{number}.test/robots.txt"] = Answer(
            200, {"content-type": "text/plain"}, b"User-agent: *\nCrawl-delay: 900\n"
        )
    cause, answer = bound(crawl)
    assert cause == "politeness" and answer["key"].startswith("what makes them wait: a Crawl-delay")
    because = (
        f"2 of 2 URLs that wait are scheduled, the first for {date_of(START + 901)}: their hosts may not be asked "
    )
    assert answer["because"] == because + "before"


def test_general_hours_in_a_sites_time_zone_are_told_with_both_keys() -> None:
    """The key named was site."a.test".hours, which is not set."""
    config = Config(site={"a.test": Site(time_zone="Asia/Tokyo"), "b.test": Site(hours="")})
    config.politeness.hours = "02:00-02:30"
    record = {
        "state": "running", "source": "live", "pace": IDLE, "queued_urls": 3,
        "scheduled_urls": 3, "updated": OPENS - 3600, "scheduled_due": OPENS - 5 * 3600 + 86_400,
    }  # fmt: skip
    answer = diagnose(complete(record), config, 2)
    assert (answer["bound_by"], answer["key"]) == ("limit", 'politeness.hours in site."a.test".time_zone')


def test_a_throttled_host_rests_by_retry_after() -> None:
    record = {
        "state": "running", "source": "live", "pace": IDLE, "queued_urls": 97,
        "resting_urls": 97, "resting_hosts": {"throttled": 1},
    }  # fmt: skip
    answer = diagnose(complete(record), Config(), 2)
    assert answer["because"].endswith("that wait rest after failures (1 host answered 429 or 503 when asked last)")
    assert answer["key"] == "politeness.retry_after_max_seconds, politeness.backoff_seconds"


@pytest.mark.parametrize("unit", ["site", "address"])
def test_a_gap_that_hosts_share_by_their_unit_is_that_of_hosts(unit: str) -> None:
    """Keys were named that would change nothing."""
    config = Config()
    config.politeness.unit = unit
    answer = kept_by({unit: 3}, config, hosts=4.0, requests_per_s=1.0)
    assert answer["key"] == f"politeness.gap_host_seconds; hosts share it by politeness.unit ({unit})"
    config.politeness.gap_site_seconds = config.politeness.gap_address_seconds = 9.0
    assert f"politeness.gap_{unit}_seconds" in kept_by({unit: 3}, config, hosts=4.0, requests_per_s=1.0)["key"]


def test_the_gap_of_a_section_is_named_before_the_general_one() -> None:
    """But only where hosts of it are in memory: it named sections that had nothing to do with the crawl."""
    sections = {name: Site(gap_host_seconds=8.0) for name in ("s.test", "elsewhere.test")}
    config = Config(site={"fast.test": Site(gap_host_seconds=0.1), **sections})
    answer = kept_by({"host gap": 4}, config, hosts=4.0, requests_per_s=0.5)
    assert answer["key"] == 'site."s.test".gap_host_seconds (set for s.test), or politeness.gap_host_seconds'


def test_too_few_hosts_may_be_those_whose_own_hours_are_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = crawl_of(tmp_path, monkeypatch, 2)
    crawl.config.site["s0.test"] = Site(hours="22:00-01:46")
    cause, answer = bound(crawl)
    assert cause == "hosts"
    assert answer["key"] == 'more seeds, or the hours that keep hosts closed now: site."s0.test".hours'


def test_why_slow_did_not_know_the_bandwidth_of_a_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It named keys of gaps alone."""
    crawl = crawl_of(tmp_path, monkeypatch, 2)
    crawl.config.site["s0.test"] = Site(bytes_per_second=10)
    crawl.config.site["s1.test"] = Site(bytes_per_second=10)
    cause, answer = bound(crawl)
    assert cause == "politeness" and answer["key"].startswith('site."s0.test".bytes_per_second (set for s0.test, s1.')


def test_a_paused_host_is_the_operators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = crawl_of(tmp_path, monkeypatch, 1)
    crawl.config.site["s0.test"] = Site(pause=True)
    cause, answer = bound(crawl)
    assert (cause, answer["key"]) == ("limit", "`irlcrawl unpause JOB`") and "s0.test" in answer["because"]


def test_a_silent_network_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = crawl_of(tmp_path, monkeypatch, 20)
    crawl.names.down_between = (0.0, 2e9)
    cause, answer = bound(crawl)
    assert (cause, answer["key"]) == ("network", "no key: mend the network")


def test_the_verb_tells_of_a_crawl_that_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By what it committed last; its configuration is on the disk as a start leaves it."""
    crawl = crawl_of(tmp_path, monkeypatch, 2, pages=30)
    bound(crawl)
    crawl.job().config_file.write_text(to_toml(crawl.config))
    assert main(["why", str(crawl.path), "--slow"]) == ExitCode.DONE
    told = capsys.readouterr().out
    assert "bound by  too few hosts" in told and "as of     the last commit" in told
    figures = {line.split()[0]: line for line in told.partition("\nfigures\n")[2].splitlines()}
    assert all(figures[name].endswith(meaning) for name, meaning in PACE.items()), "they were names without a meaning"
    assert main(["why", str(crawl.path), "--slow", "--json"]) == ExitCode.DONE
    assert json.loads(capsys.readouterr().out)["bound_by"] == "hosts"
    assert main(["why", str(crawl.path)]) == ExitCode.CONFIG
    assert main(["why", str(crawl.path), "a.test", "--slow"]) == ExitCode.CONFIG


def kept_by(delayed: dict[str, int], config: Config | None = None, **figures: float) -> slow.Answer:
    pace = {**dict.fromkeys(PACE, 0.0), "seconds": 60.0, "places": 256.0, "hosts": 1.3, **figures}
    sizes = {"mean": 1.0, "max": 2, "largest": {"https://www.s.test:443": 2, "http://fast.test:80": 1}}
    record = {
        "state": "running", "source": "live", "pace": pace, "delayed_hosts": delayed, "queued_urls": 9,
        "per_host_queue_size": sizes,
    }  # fmt: skip
    return diagnose(complete(record), config or Config(), 2)


def test_names_that_are_looked_up_now_were_told_as_politeness() -> None:
    """A minute of gaps, and at this moment most of the hosts lack an address: the key named was network.resolvers."""
    answer = kept_by({"dns": 2_766, "address": 43}, hosts=1_049.2, requests_per_s=20.0, names_waiting=100.0)
    assert (answer["bound_by"], answer["key"].partition(",")[0]) == ("politeness", "politeness.gap_address_seconds")
    assert answer["because"] == "1,049 hosts in memory, each asked every 52 s; now 43 hosts wait for: address"


def test_one_worker_was_said_to_be_each_of_one() -> None:
    record = {"state": "running", "source": "live", "workers": 1, "pace": {**dict.fromkeys(PACE, 0.0), "seconds": 9.0}}
    record["pace"] |= {"workers_cpu": 0.48, "workers_kept": 0.44}  # type: ignore[operator]
    told = "\n".join(lines(diagnose(complete(record), Config(), 2)))
    assert "because   the only worker computes for 48% of the time, and for 44% other processes have" in told
    assert "change    crawl.workers (2 cores are there)\n" in told and "\nrate      no page was counted yet\n" in told


def test_what_another_crawl_keeps_is_said() -> None:
    answer = kept_by({"another crawl": 1})
    assert (answer["bound_by"], answer["key"].partition(",")[0]) == ("politeness", "politeness.machine_clocks")
    assert answer["because"] == "1 host in memory, none of which was asked; now 1 host waits for: another crawl"


def test_a_crawl_that_has_just_begun_is_not_judged() -> None:
    answer = diagnose(complete({"state": "running", "source": "live", "pace": {}}), Config(), 2)
    assert answer["bound_by"] is None
    assert list(lines(answer))[:2] == [
        "bound by  not known yet",
        "because   not known before 5 s of a run have been counted",
    ]


def test_every_cause_has_a_name() -> None:
    assert {"limit", "network", "disk", "frontier", "workers", "dns", "politeness", "hosts"} == set(CAUSES)


def test_cpu_times_are_those_of_the_kernel() -> None:
    before = cpu_of_thread()
    sum(range(200_000))
    after = cpu_of_thread()
    assert after[0] > before[0] and after[1] >= before[1]
    assert cpu_of_process(os.getpid())[0] > 0.0
    assert cpu_of_process(1 << 30) == (0.0, 0.0)
