"""/metrics: each value in a crawl of which everything is known, and the formats by other people's readers."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from drum import Files

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.reasons import Reason
from irlcrawl.crawl import gauges, status
from irlcrawl.watch import metrics
from irlcrawl.watch.log_tail import LogTail
from irlcrawl.watch.metrics import METRICS, exposition, names
from irlcrawl.worker.harvest.counters import COUNTERS
from tests.crawl.test_gauges import size
from tests.crawl.virtual_crawl import START, Answer, Crawl, Web
from tests.watch.exposition import lint, samples, types

ROOT = Path(__file__).resolve().parents[2]
HTML = {"content-type": "text/html"}


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Records of a crawl of nine URLs: as /3 is asked for, while a visit to slow.test is out, and at the end; and the
    durations of its requests."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        web = Web(fetch_s=0.5)
        links = ("/1", "/2", "/3", "/old", "/private", "http://gone.test/", "http://slow.test/", "http://b.test/", "/1")
        body = "".join(f'<a href="{link}">x</a>' for link in (*links, "/left-out"))
        web.answers["http://a.test/"] = Answer(200, HTML, body.encode())
        web.page("http://a.test/1", ["http://a.test/"])
        web.page("http://a.test/3")
        web.page("http://b.test/")
        web.answers["http://a.test/old"] = Answer(301, {"location": "/3"})
        web.answers["http://a.test/robots.txt"] = Answer(200, {}, b"User-agent: *\nDisallow: /private\n")
        web.answers["http://slow.test/"] = Answer(reason=Reason.TIMEOUT)
        crawl = Crawl(tmp_path_factory.mktemp("known") / "job", web, ["http://a.test/"], monkeypatch)
        crawl.names.answers |= {"gone.test": Reason.DNS, "a.test": "10.0.0.9", "b.test": "10.0.0.9"}
        crawl.config.scope.exclude = ["/left-out"]
        crawl.config.politeness.retries_max, crawl.config.politeness.retry_delay_seconds = 1, 5.0
        crawl.config.politeness.host_dead_hours = 0.0
        crawl.config.politeness.gap_host_seconds = 1.0
        found: dict[str, Any] = {}

        def look(url: str) -> None:
            if url == "http://a.test/3":
                assert crawl.loop is not None
                found["midway"] = status.complete({**crawl.loop.status(), "source": "live"})
                found["warcs"] = sum(file.stat().st_size for file in crawl.job().warcs.iterdir())

        crawl.on_request = look
        monkeypatch.setattr(gauges, "COSTLY_REST", 0.0)
        monkeypatch.setattr(gauges, "_resident", lambda pids: 1000 * len(pids))
        monkeypatch.setattr(Files, "free", lambda files, path: 10**9)
        tail = LogTail(crawl.job().crawl_log)
        assert crawl.run() == ExitCode.DONE
        tail.read()
        found |= {"end": status.read_status(crawl.job()), "durations": tail.durations, "web": web}
        found["all_warcs"] = sum(file.stat().st_size for file in crawl.job().warcs.iterdir())
    return found


def told(record: dict[str, Any]) -> dict[str, float | dict[str, float]]:
    """Metric -> value, or the values by its one label."""
    found: dict[str, Any] = {}
    for (name, labels), value in samples(exposition(record)).items():
        if labels:
            ((_, label),) = labels
            found.setdefault(name, {})[label] = value
        else:
            found[name] = value
    return found


def test_every_metric_has_the_value_that_its_name_says(known: dict[str, Any]) -> None:
    midway, end = told(known["midway"]), told(known["end"])
    nowhere = dict.fromkeys(("moving", "queued", "over_budget", "scheduled", "resting", "visited", "ready"), 0)
    states = dict.fromkeys((*status.ALIVE, "ended"), 0.0)
    cut = dict.fromkeys(("unparsed", "partly_read", "damaged", "unwanted", "challenge", "parked"), 0)
    web, slow = known["web"], "http://slow.test/"
    received = [url for _, url in web.log if url != slow]
    expected = {
        # as /3 is asked for, in one visit with /2 (not counted yet) and /old, while slow.test rests; at the end
        "irlcrawl_up": (1, 0),
        "irlcrawl_state": ({**states, "running": 1}, {**states, "ended": 1}),
        "irlcrawl_start_time_seconds": (START, START),
        "irlcrawl_updated_time_seconds": (START + 7, START + 11.5),
        "irlcrawl_run_seconds_total": (7, 11.5),
        "irlcrawl_responses_total": (3, 6),  # the seed, /1, b.test; /2, /3, /old
        "irlcrawl_received_bytes_total": tuple(
            sum(size(web.answer(url, "", 0.0)) for url in urls) for urls in (received[:6], received)
        ),
        "irlcrawl_read_bytes_total": tuple(
            sum(len(web.answers[f"http://{page}"].body) for page in pages)
            for pages in (("a.test/", "a.test/1", "b.test/"), ("a.test/", "a.test/1", "b.test/", "a.test/3"))
        ),
        "irlcrawl_requests_failed_total": (1, 2),  # slow.test, twice
        "irlcrawl_retries_total": (1, 1),
        "irlcrawl_urls_discovered_total": (9, 9),
        "irlcrawl_links_duplicate_total": (1, 2),  # what /1 links to, and where /old leads
        "irlcrawl_links_out_of_scope_total": (1, 1),
        "irlcrawl_links_trapped_total": (0, 0),
        "irlcrawl_links_beyond_max_total": (0, 0),
        "irlcrawl_links_filtered_total": (0, 0),
        "irlcrawl_pages_near_duplicate_total": (0, 0),
        "irlcrawl_requisites_total": (0, 0),
        "irlcrawl_requisites_beyond_max_total": (0, 0),
        "irlcrawl_plugin_errors_total": (0, 0),
        "irlcrawl_plugin_seconds_total": (0, 0),
        "irlcrawl_urls_returned_total": (0, 0),
        "irlcrawl_seeds_total": (1, 1),
        "irlcrawl_pages_cut_total": (cut, cut),
        "irlcrawl_urls": (
            {**nowhere, "fetched": 3, "failed": 1, "excluded": 1, "resting": 1, "ready": 3},
            {**nowhere, "fetched": 6, "failed": 2, "excluded": 1},
        ),
        "irlcrawl_urls_fetched": ({"ok": 3}, {"ok": 4, "http_error": 1, "redirect": 1}),
        "irlcrawl_urls_failed": ({"dns": 1}, {"dns": 1, "timeout": 1}),
        "irlcrawl_urls_excluded": ({"robots": 1}, {"robots": 1}),
        "irlcrawl_urls_waiting": (1, 0),
        "irlcrawl_urls_leased": (3, 0),
        "irlcrawl_hosts_active": (1, 0),
        "irlcrawl_hosts_ready": (0, 0),
        "irlcrawl_host_queue_urls_mean": (0, 0),
        "irlcrawl_host_queue_urls_max": (0, 0),
        "irlcrawl_frontier_latency_seconds": (1.5, 2.5),  # 1.5 three times and 2.5; 3.5, 5 and 6.5
        "irlcrawl_pass_seconds": (0, 0),  # virtual time stands still in it
        "irlcrawl_frontier_bytes": (known["midway"]["frontier_bytes"], 0),
        "irlcrawl_frontier_full": (0, 0),
        "irlcrawl_harvest_bytes": (0, 0),
        "irlcrawl_archive_bytes": (known["warcs"], known["all_warcs"]),
        "irlcrawl_disk_free_bytes": (10**9, 10**9),
        "irlcrawl_memory_resident_bytes": (2000, 1000),  # 1000 a process: the frontier and a worker
        "irlcrawl_workers": (1, 0),
        "irlcrawl_pages_resting": (0, 0),
    }
    for name, (then, last) in expected.items():
        about = {"rel": 1e-9, "abs": 0.01 if "seconds" in name else 0}
        assert midway.get(name) == pytest.approx(then, **about), name
        assert end.get(name) == pytest.approx(last, **about), name
    assert [url for _, url in web.log].count(slow) == 2 and 0 < known["midway"]["frontier_bytes"] < 1000
    unseen = {
        f"irlcrawl_{name}" for name in ("merge_buckets", "merge_buckets_done", "page_visits_total", "hosts_delayed")
    }
    unseen |= {name for name in names() if name.startswith("irlcrawl_machine_")}
    everything = {metric.name + "_total" * (metric.kind == "counter") for metric in METRICS}
    assert everything - set(expected) == unseen, "each has a value here, or in the next test"


def test_metrics_of_merges_of_waiting_hosts_and_of_pages_that_are_visited_again(known: dict[str, Any]) -> None:
    merges = {"seen": {"buckets_done": 3, "buckets": 16, "rows_waiting": 5}}
    more = {"merges": merges, "visits_by_change": {"not_modified": 4}, "delayed_hosts": {"host gap": 2, "dns": 1}}
    found = told({**known["midway"], **more})
    assert found["irlcrawl_hosts_delayed"] == {"host gap": 2, "dns": 1}
    assert found["irlcrawl_merge_buckets"] == {"seen": 16}
    assert found["irlcrawl_merge_buckets_done"] == {"seen": 3}
    assert found["irlcrawl_page_visits_total"] == {"not_modified": 4}
    assert told({**known["midway"], "plugin_us": 1_500_000})["irlcrawl_plugin_seconds_total"] == 1.5


def test_metrics_of_each_other_machine(known: dict[str, Any]) -> None:
    machines = [
        {"name": "m1", "state": "here", "workers": 4, "visits": 9, "owed": 0, "heard_s": 0.5, "given_up_in_s": None,
         "shipped_bytes": 1000},
        {"name": "m2", "state": "away", "workers": 0, "visits": 0, "owed": 4, "heard_s": 90.0, "given_up_in_s": 9.0,
         "shipped_bytes": 10},
        {"name": "m3", "state": "away", "workers": 0, "visits": 0, "owed": 1, "heard_s": None, "given_up_in_s": 9.0,
         "shipped_bytes": 0},
    ]  # fmt: skip
    found = told({**known["midway"], "machines": machines})
    assert {name: values for name, values in found.items() if name.startswith("irlcrawl_machine_")} == {
        "irlcrawl_machine_up": {"m1": 1, "m2": 0, "m3": 0},
        "irlcrawl_machine_workers": {"m1": 4, "m2": 0, "m3": 0},
        "irlcrawl_machine_visits": {"m1": 9, "m2": 0, "m3": 0},
        "irlcrawl_machine_streams_owed": {"m1": 0, "m2": 4, "m3": 1},
        "irlcrawl_machine_silent_seconds": {"m1": 0.5, "m2": 90},
        "irlcrawl_machine_shipped_bytes_total": {"m1": 1000, "m2": 10, "m3": 0},
    }


def test_every_counter_of_the_crawl_has_a_metric() -> None:
    record = status.complete({counted.field: 1000 + number for number, counted in enumerate(COUNTERS.values())})
    values = {
        round(value * (1e6 if "seconds" in name else 1)) for (name, _), value in samples(exposition(record)).items()
    }
    known = {record[counted.field] for name, counted in COUNTERS.items() if counted.field and name not in LEFT_OUT}
    assert known <= values


LEFT_OUT = {"respelled"}  # how links are spelled says nothing of how a crawl goes


def test_how_long_requests_took_by_opentelemetrys_name(known: dict[str, Any]) -> None:
    """Eleven requests of half a second: three robots.txt (two of them 404), six responses, two timeouts."""
    found = samples(exposition(known["end"], known["durations"]))
    counts = {
        (dict(labels).get("http_response_status_code"), dict(labels).get("error_type")): value
        for (name, labels), value in found.items()
        if name == metrics.DURATION + "_count"
    }
    assert counts == {("200", None): 5, ("301", None): 1, ("404", "404"): 3, (None, "timeout"): 2}
    ok = {"http_request_method": "GET", "http_response_status_code": "200"}
    buckets = {
        le: found[f"{metrics.DURATION}_bucket", frozenset({**ok, "le": le}.items())] for le in ("0.25", "0.5", "+Inf")
    }
    assert buckets == {"0.25": 0, "0.5": 5, "+Inf": 5}
    assert found[metrics.DURATION + "_sum", frozenset(ok.items())] == pytest.approx(2.5)


def test_names_and_labels_follow_prometheus_conventions(known: dict[str, Any]) -> None:
    text = exposition(known["midway"], known["durations"])
    for name, kind in types(text).items():
        assert re.fullmatch(r"(irlcrawl|http_client)_[a-z_]+", name)
        assert name.endswith("_total") == (kind == "counter")
        assert not re.search(r"_(ms|milliseconds|kb|mb|percent|count|sum|bucket)$", name)
    assert {name for name, _ in samples(text)} <= names()
    for _, labels in samples(text):
        assert not {label for label, _ in labels} & {"host", "url", "site", "job", "instance"}


def test_a_check_of_names_as_promtools_finds_nothing(known: dict[str, Any]) -> None:
    """Also where promtool is not installed, and of every metric: some are told only in crawls that merge, visit pages
    again or have other machines."""
    machine = {
        "name": "m1",
        "state": "here",
        "workers": 4,
        "visits": 9,
        "owed": 0,
        "heard_s": 0.5,
        "given_up_in_s": None,
        "shipped_bytes": 9,
    }
    more = {
        "merges": {"seen": {"buckets_done": 3, "buckets": 16, "rows_waiting": 5}}, "machines": [machine],
        "visits_by_change": {"yes": 4}, "delayed_hosts": {"dns": 1}, "frontier_full": True,
    }  # fmt: skip
    text = exposition({**known["midway"], **more}, known["durations"])
    assert {name for name, _ in samples(text)} == names() and lint(text) == []


@pytest.mark.parametrize(("kind", "name", "wrong"), [
    ("counter", "irlcrawl_retries", "a counter ends in _total"),
    ("gauge", "irlcrawl_pages_total", "only a counter"),
    ("gauge", "irlcrawl_latency_ms", "short for a unit"),
    ("gauge", "irlcrawl_latency_milliseconds", "no base unit"),
    ("gauge", "irlcrawl_bytes_disk", "not its last word"),
    ("counter", "irlcrawl_counter_retries_total", "its type in its name"),
    ("gauge", "irlcrawl_queueUrls", "capitals"),
    ("gauge", "irlcrawl_hosts_count", "reserved for histograms"),
    ("gauge", 'irlcrawl_hosts{le="1"}', "label le is reserved"),
    ("gauge", 'irlcrawl_hosts{hostName="1"}', "label hostName"),
])  # fmt: skip
def test_that_check_finds_each_kind_of_wrong_name(kind: str, name: str, wrong: str) -> None:
    bare = name.partition("{")[0]
    found = lint(f"# HELP {bare} Something.\n# TYPE {bare} {kind}\n{name} 1\n")
    assert len(found) == 1 and wrong in found[0]


def test_hostile_labels_are_escaped_and_few(known: dict[str, Any], tmp_path: Path) -> None:
    name = 'a"b\\c\nd} 1'
    found = samples(exposition({**known["end"], "failed_by_reason": {name: 1}}))
    ((_, escaped),) = next(labels for name, labels in found if name == "irlcrawl_urls_failed")
    assert escaped == 'a\\"b\\\\c\\nd} 1'
    log = tmp_path / "crawl.log"
    log.touch()
    tail = LogTail(log)
    line = (
        "2001-09-09T01:46:40.000Z {status} 1 http://a.test/ - - text/html #001 20010909014640000+5 - - "
        "outcome=fetched,reason=ok"
    )
    log.write_text("".join(line.format(status=status) + "\n" for status in range(100, 1000)))
    tail.read()
    assert len(tail.durations) <= 201 and sum(sum(one.buckets) for one in tail.durations.values()) == 900


@pytest.mark.parametrize("openmetrics", [False, True])
def test_the_reader_of_prometheus_client_takes_it(known: dict[str, Any], openmetrics: bool) -> None:
    pytest.importorskip("prometheus_client", reason="prometheus_client is not installed: its reader was not tried")
    from prometheus_client import parser
    from prometheus_client.openmetrics import parser as open_parser

    text = exposition(known["midway"], known["durations"], openmetrics)
    families = list((open_parser if openmetrics else parser).text_string_to_metric_families(text))
    read = {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}
    assert read == samples(text.removesuffix("# EOF\n"))
    assert all(family.documentation for family in families)
    assert {family.type for family in families} == {"gauge", "counter", "histogram", *(["info"] if openmetrics else [])}


def test_promtool_finds_nothing_to_say(known: dict[str, Any]) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: prometheus): its checks were not run")
    text = exposition(known["midway"], known["durations"])
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_grafana_board_asks_for_metrics_that_exist() -> None:
    board = json.loads((ROOT / "contrib" / "grafana.json").read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    asked = {name for text in expressions for name in re.findall(r"\b(?:irlcrawl|http_client)_\w+", text)}
    assert len(expressions) >= 12 and asked and asked <= names()
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    variables = {one["name"] for one in board["templating"]["list"]}
    assert {name for text in expressions for name in re.findall(r"\$(?:\{)?(\w+)", text)} <= variables | {
        "__rate_interval"
    }
    gauges_ = {metric.name for metric in METRICS if metric.kind == "gauge"}
    rated = {name for text in expressions for name in re.findall(r"rate\((\w+)", text)}
    assert rated and not rated & gauges_, "rates are of counters"
