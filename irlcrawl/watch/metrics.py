"""/metrics: the status record as Prometheus and OpenMetrics have it.

Names follow https://prometheus.io/docs/practices/naming/: base units, `_total` for what only grows, no unit hidden in a
label. Labels have few values, which this program chooses (reasons, places, states) or its operator (names of machines):
no host and no URL is one. What a crawl takes back (a URL that failed and is put back is failed no more) is a gauge. How
long requests take has the name and the buckets of OpenTelemetry's semantic conventions for HTTP clients (log_tail.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from irlcrawl import __version__
from irlcrawl.crawl import status
from irlcrawl.watch.log_tail import BUCKETS, Durations
from irlcrawl.worker.harvest.counters import COUNTERS

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

Record = Mapping[str, Any]
Samples = Iterable[tuple[Mapping[str, str], float | None]]
"""Labels, and the value; None: not known, and left out."""


class Metric(NamedTuple):
    """name: without `_total`. unit: its last part, for OpenMetrics."""

    name: str
    kind: str  # gauge, counter
    help: str
    samples: Callable[[Record], Samples]
    unit: str = ""


def _field(name: str) -> Callable[[Record], Samples]:
    return lambda record: [({}, record[name])]


def _by(label: str, field: str) -> Callable[[Record], Samples]:
    """A field that maps values of a label to numbers."""
    return lambda record: [({label: name}, number) for name, number in (record[field] or {}).items()]


def _gauge(name: str, field: str, text: str, unit: str = "") -> Metric:
    return Metric(name, "gauge", text, _field(field), unit)


def _counter(name: str, field: str, text: str, unit: str = "") -> Metric:
    return Metric(name, "counter", text, _field(field), unit)


def _up(record: Record) -> Samples:
    return [({}, float(record["source"] == "live"))]


def _states(record: Record) -> Samples:
    state = record["state"] if record["state"] in status.ALIVE else "ended"
    return [({"state": name}, float(name == state)) for name in (*status.ALIVE, "ended")]


def _places(record: Record) -> Samples:
    """Every URL that was ever found, in one place each."""
    waiting = record["waiting_by_place"] or {}
    return [
        ({"place": "fetched"}, _fetched(record, sum(waiting.values()))),
        *(({"place": name}, record[name]) for name in ("failed", "excluded")),
        *(({"place": place}, number) for place, number in waiting.items()),
    ]


def _fetched(record: Record, waiting: int) -> float | None:
    """URLs, those that were visited for the last time too: what is neither of the others."""
    known = [record[name] for name in ("discovered_urls", "failed", "excluded")]
    return None if None in known else max(known[0] - known[1] - known[2] - waiting, 0)


def _flag(field: str) -> Callable[[Record], Samples]:
    return lambda record: [({}, None if record[field] is None else float(bool(record[field])))]


def _queue(name: str) -> Callable[[Record], Samples]:
    return lambda record: [({}, (record["per_host_queue_size"] or {}).get(name))]


def _merges(name: str) -> Callable[[Record], Samples]:
    return lambda record: [({"store": drum}, merge[name]) for drum, merge in (record["merges"] or {}).items()]


def _machine(field: str) -> Callable[[Record], Samples]:
    return lambda record: [
        ({"machine": one["name"]}, one[field]) for one in record["machines"] or () if one[field] is not None
    ]


def _machines_up(record: Record) -> Samples:
    return [({"machine": one["name"]}, float(one["state"] == "here")) for one in record["machines"] or ()]


def _plugin_seconds(record: Record) -> Samples:
    return [({}, None if record["plugin_us"] is None else record["plugin_us"] / 1e6)]


def _parsing(record: Record) -> Samples:
    fields = {counted.field: name for name, counted in COUNTERS.items() if counted.field}
    return [({"what": fields[field]}, record[field]) for field in CUT_FIELDS]


CUT_FIELDS = (
    "unparsed_pages", "partly_read_pages", "damaged_pages", "unwanted_pages", "challenge_pages", "parked_pages",
)  # fmt: skip

METRICS = (
    Metric("irlcrawl_up", "gauge", "1: the crawl runs and answered. 0: its last commit is told.", _up),
    Metric("irlcrawl_state", "gauge", "1 for the state that the crawl is in, 0 for the others.", _states),
    _gauge("irlcrawl_start_time_seconds", "started", "When this or the last run began, unix time.", "seconds"),
    _gauge("irlcrawl_updated_time_seconds", "updated", "When these figures were counted, unix time.", "seconds"),
    _counter("irlcrawl_run_seconds", "elapsed_s", "Time that all runs of the crawl took together.", "seconds"),
    _counter("irlcrawl_responses", "responses", "HTTP responses, those to robots.txt left out."),
    _counter("irlcrawl_received_bytes", "bytes", "Received in responses, header and body.", "bytes"),
    _counter("irlcrawl_read_bytes", "read_bytes", "Of pages read for links, without content coding.", "bytes"),
    _counter("irlcrawl_requests_failed", "fetch_failures", "Requests that ended without a response."),
    _counter("irlcrawl_retries", "retry_count", "Requests that are to be repeated later."),
    _counter("irlcrawl_urls_discovered", "discovered_urls", "Different URLs in scope that were ever found."),
    _counter("irlcrawl_links_duplicate", "duplicate_urls", "Links to URLs that were known."),
    _counter("irlcrawl_links_out_of_scope", "out_of_scope_urls", "Links that lead out of scope."),
    _counter("irlcrawl_links_trapped", "trapped_urls", "Links in traps, not followed."),
    _counter("irlcrawl_links_beyond_max", "beyond_max_urls", "Links beyond page.links_max of their page."),
    _counter("irlcrawl_links_filtered", "filtered_urls", "Links that filters of plug-ins left out."),
    _counter("irlcrawl_pages_near_duplicate", "near_duplicate_pages", "Pages almost like an earlier one."),
    _counter("irlcrawl_requisites", "requisites", "Responses that pages need to be seen."),
    _counter("irlcrawl_requisites_beyond_max", "requisites_beyond_max", "Requisites left out, for their number."),
    _counter("irlcrawl_plugin_errors", "plugin_errors", "Exceptions and wrong answers of plug-ins."),
    Metric("irlcrawl_plugin_seconds", "counter", "Time that plug-ins took.", _plugin_seconds, "seconds"),
    _counter("irlcrawl_urls_returned", "returned_urls", "URLs that were done and were put back."),
    _counter("irlcrawl_seeds", "seeds", "Seeds given, repeated ones too."),
    Metric("irlcrawl_pages_cut", "counter", "Pages of which something was left out, by what.", _parsing),
    Metric("irlcrawl_urls", "gauge", "Every URL that was ever found, by where it is now.", _places),
    Metric("irlcrawl_urls_fetched", "gauge", "Visits with a response, by reason.", _by("reason", "fetched_by_reason")),
    Metric("irlcrawl_urls_failed", "gauge", "URLs without a response, by reason.", _by("reason", "failed_by_reason")),
    Metric("irlcrawl_urls_excluded", "gauge", "URLs not to be asked, by reason.", _by("reason", "excluded_by_reason")),
    _gauge("irlcrawl_urls_waiting", "queued_urls", "URLs that wait, wherever they do."),
    _gauge("irlcrawl_urls_leased", "leased_urls", "URLs that workers have in hand."),
    _gauge("irlcrawl_hosts_active", "active_hosts", "Hosts in memory, with URLs at hand."),
    _gauge("irlcrawl_hosts_ready", "ready_hosts", "Of these, hosts that may be asked now."),
    Metric("irlcrawl_hosts_delayed", "gauge", "Of these, hosts that may not, by why.", _by("why", "delayed_hosts")),
    Metric("irlcrawl_host_queue_urls_mean", "gauge", "URLs at hand per host in memory.", _queue("mean")),
    Metric("irlcrawl_host_queue_urls_max", "gauge", "URLs at hand of the host that has most.", _queue("max")),
    _gauge("irlcrawl_frontier_latency_seconds", "frontier_latency_s",
           "From a URL's discovery to its first request, median of late.", "seconds"),
    _gauge("irlcrawl_pass_seconds", "pass_seconds", "Duration of the last pass of new links.", "seconds"),
    Metric("irlcrawl_merge_buckets", "gauge", "Buckets of the merge that runs, by store.", _merges("buckets")),
    Metric("irlcrawl_merge_buckets_done", "gauge", "Of these, done.", _merges("buckets_done")),
    _gauge("irlcrawl_frontier_bytes", "frontier_bytes", "On disk, of URLs that wait.", "bytes"),
    Metric("irlcrawl_frontier_full", "gauge", "1: more than frontier.bytes_max.", _flag("frontier_full")),
    _gauge("irlcrawl_harvest_bytes", "harvest_bytes", "On disk, of links that were not looked at yet.", "bytes"),
    _gauge("irlcrawl_archive_bytes", "warc_bytes", "On disk, of archives.", "bytes"),
    _gauge("irlcrawl_disk_free_bytes", "disk_free_bytes", "Free on the file system of the crawl.", "bytes"),
    _gauge("irlcrawl_memory_resident_bytes", "memory_bytes", "Resident, of all processes of the crawl.", "bytes"),
    _gauge("irlcrawl_workers", "workers", "Worker processes alive."),
    Metric("irlcrawl_machine_up", "gauge", "1 for another machine that is here, 0 if it is silent.", _machines_up),
    Metric("irlcrawl_machine_workers", "gauge", "Workers of another machine.", _machine("workers")),
    Metric("irlcrawl_machine_visits", "gauge", "Visits that another machine has in hand.", _machine("visits")),
    Metric("irlcrawl_machine_streams_owed", "gauge", "Streams it has not handed over yet.", _machine("owed")),
    Metric("irlcrawl_machine_silent_seconds", "gauge", "Since it was last heard.", _machine("heard_s"), "seconds"),
    Metric("irlcrawl_machine_shipped_bytes", "counter", "Files that it sent in this session.",
           _machine("shipped_bytes"), "bytes"),
    _gauge("irlcrawl_pages_resting", "pages", "Pages between two visits."),
    Metric("irlcrawl_page_visits", "counter", "Visits to pages, by change.", _by("change", "visits_by_change")),
)  # fmt: skip

DURATION = "http_client_request_duration_seconds"


def names() -> set[str]:
    """Of every sample there may be, as a query names it."""
    plain = {metric.name + ("_total" if metric.kind == "counter" else "") for metric in METRICS}
    return {*plain, "irlcrawl_build_info", *(f"{DURATION}_{part}" for part in ("bucket", "sum", "count"))}


def exposition(record: Record, durations: Durations | None = None, openmetrics: bool = False) -> str:
    """The text. durations: of requests since the process that tells them began."""
    return "".join(_lines(record, durations, openmetrics))


def _lines(record: Record, durations: Durations | None, openmetrics: bool) -> Iterator[str]:
    kind = "info" if openmetrics else "gauge"
    name = "irlcrawl_build" if openmetrics else "irlcrawl_build_info"
    yield from _head(name, kind, "The program that tells this.", "", openmetrics)
    yield f"irlcrawl_build_info{_labels({'version': __version__})} 1\n"
    for metric in METRICS:
        told = [(labels, value) for labels, value in metric.samples(record) if value is not None]
        if told:
            full = metric.name + ("_total" if metric.kind == "counter" else "")
            head = metric.name if openmetrics else full
            yield from _head(head, metric.kind, metric.help, metric.unit, openmetrics)
            yield from (f"{full}{_labels(labels)} {_number(value)}\n" for labels, value in told)
    if durations is not None:
        yield from _head(DURATION, "histogram", "Duration of HTTP client requests.", "seconds", openmetrics)
        yield from _histogram(durations)
    if openmetrics:
        yield "# EOF\n"


def _head(name: str, kind: str, text: str, unit: str, openmetrics: bool) -> Iterator[str]:
    yield f"# HELP {name} {_escaped(text, openmetrics)}\n# TYPE {name} {kind}\n"
    if openmetrics and unit:
        yield f"# UNIT {name} {unit}\n"


def _histogram(durations: Durations) -> Iterator[str]:
    for (status_code, error), counted in sorted(durations.items()):
        labels = {"http_request_method": "GET"}
        labels |= {"http_response_status_code": status_code} if status_code else {}
        labels |= {"error_type": error} if error else {}
        below = 0
        for bound, number in zip((*BUCKETS, math.inf), counted.buckets, strict=True):
            below += number
            yield f"{DURATION}_bucket{_labels({**labels, 'le': _number(bound)})} {below}\n"
        yield f"{DURATION}_sum{_labels(labels)} {_number(counted.seconds)}\n"
        yield f"{DURATION}_count{_labels(labels)} {below}\n"


def _labels(labels: Mapping[str, str]) -> str:
    told = ",".join(f'{name}="{_escaped(value, True)}"' for name, value in labels.items())
    return f"{{{told}}}" if told else ""


def _escaped(text: str, quotes: bool) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(float(value)) if not float(value).is_integer() or abs(value) > 2**53 else str(int(value))
