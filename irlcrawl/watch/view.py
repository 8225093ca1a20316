"""What a person sees of a crawl, in words: the same panels for the page in a browser and for the terminal.

A panel is a title and rows; a row is a label, a text, and perhaps a share that is drawn as a bar. All numbers are put
into words here, and nowhere else, so that the two views cannot differ. Names of hosts and URLs are as strangers wrote
them: the code that shows a row escapes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from budgets.sites import SiteRecord
from budgets.star import WITHOUT_LIMIT
from irlcrawl.config.keys import Config
from irlcrawl.crawl import status
from irlcrawl.terminal import words
from irlcrawl.worker.harvest.counters import COUNTERS

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """share: 0 to 1, of what the panel is about. note: what the label means, for those who ask. wide: the text is long
    and stands below its label."""

    label: str
    text: str
    share: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Panel:
    key: str
    title: str
    rows: list[Row] = field(default_factory=list)
    empty: str = ""  # what is said where there is no row; a panel with neither is not shown


@dataclass(frozen=True)
class View:
    """state: the word of the status record; tiles: the few numbers that are looked at first."""

    name: str
    state: str
    told: str
    alive: bool
    updated: float | None
    tiles: list[Row]
    panels: list[Panel]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


PLACES = {
    "ready": ("ready", "at hand of their hosts, to be fetched next"),
    "queued": ("queued", "within the budget of their site"),
    "over_budget": (
        "over budget",
        "beyond the budget of their site; looked at again when the queues were gone through",
    ),
    "scheduled": ("later", "more than their host takes now, or a long Crawl-delay"),
    "resting": ("after a failure", "asked again when the rest is over"),
    "visited": ("pages between visits", "visited again when that is worth it"),
    "moving": ("not looked up yet", "new URLs between two passes"),
}
WAITS_FOR = {
    "host gap": "the least time between two requests to a host (politeness.gap_host_seconds)",
    "crawl-delay": "what its robots.txt asks for",
    "retry-after": "what its server asked for",
    "backoff": "its server refused several times",
    "address": "other hosts at the same address were just asked",
    "site": "other hosts of the same site were just asked",
    "dns": "its name is looked up",
    "another crawl": "another crawl on this machine asked it, or its address or site (politeness.machine_clocks)",
}

FAILED_AS = {
    "dns": "their names have no address; asked again later",
    "connect": "no connection; asked again later",
    "tls": "no TLS; asked again later",
    "timeout": "no answer in time; asked again later",
    "lost": "they broke off; asked again later",
    "protocol": "no HTTP; asked again later",
    "challenge": "nothing but challenges to prove that a person asks; asked again later",
    "throttled": "nothing but 429 and 503; asked again later",
    "no_robots": "no robots.txt to be had; asked again later",
    "given_up": "failed for politeness.host_dead_hours",
}
SLOWED = {
    "shared": "addresses that many sites share, and that throttled once",
    "backing_off": "asked more seldom after failures, 429 or 503",
}


def view(
    name: str, record: Record, config: Config | None = None, sites: Mapping[str, SiteRecord] | None = None
) -> View:
    """name: of the crawl. record: a complete status record. config: what the crawl goes by, for its limits. sites: what
    is known of some sites, by name (sites.py)."""
    alive = record["state"] in status.ALIVE
    told = [
        Panel("rates", "Rates", list(_rates(record, alive))),
        Panel("waiting", "Where URLs wait", _places(record, alive), "no URL waits"),
        Panel("delayed", "Why hosts wait", _delays(record) if alive else [], "no host waits" if alive else ""),
        Panel("errors", "Errors by reason", _shares(status.errors_by_reason(record)), "no errors"),
        Panel("fetched", "Fetched by result", _shares(record["fetched_by_reason"] or {}), "nothing yet"),
        Panel("excluded", "Excluded by reason", _shares(record["excluded_by_reason"] or {}), "nothing was excluded"),
        Panel("now", "Fetching now", _fetching(record) if alive else [], "nothing at this moment" if alive else ""),
        Panel("slowest", "Slowest hosts", _seconds(record["slowest_hosts"] or {}) if alive else []),
        Panel("largest", "Largest hosts", _counts((record["per_host_queue_size"] or {}).get("largest"), "URL")),
        Panel("failing", "Failing hosts", _failing(record)),
        Panel("addresses", "Addresses", list(_addresses(record))),
        Panel("sites", "Budgets of sites", list(_sites(sites or {}))),
        Panel("limits", "Budgets and limits", list(_limits(record, config))),
        Panel("machine", "Machine", list(_machine(record, alive))),
        Panel("links", "Links", list(_links(record))),
        Panel("pages", "Pages visited again", list(_pages(record))),
    ]
    text = str(record["state"])
    if record["elapsed_s"] is not None:
        text += f", after {words.duration(record['elapsed_s'])}"
    return View(
        name, str(record["state"]), text, alive, record["updated"], list(_tiles(record, alive)),
        [panel for panel in told if panel.rows or panel.empty],
    )  # fmt: skip


def _tiles(record: Record, alive: bool) -> Iterator[Row]:
    rate = f"{words.rate(record['pages_per_s'] if alive else _average(record))}/s" + ("" if alive else " on average")
    yield Row("fetched", words.count(record["fetched"] or 0), note=rate)
    yield Row("received", words.size(record["bytes"] or 0), note=_per_page(record))
    yield Row(
        "waiting", words.count(record["queued_urls"] or 0), note=f"of {words.count(record['discovered_urls'])} found"
    )
    errors = sum(status.errors_by_reason(record).values())
    ended = (record["fetched"] or 0) + (record["failed"] or 0)
    yield Row("errors", words.count(errors), note=f"{errors / ended:.1%} of what was asked for" if ended else "")


def _average(record: Record) -> float | None:
    """Pages a second over all runs."""
    return (record["fetched"] or 0) / record["elapsed_s"] if record["elapsed_s"] else None


def _per_page(record: Record) -> str:
    return f"{words.size((record['bytes'] or 0) / record['fetched'])} a page" if record["fetched"] else ""


def _rates(record: Record, alive: bool) -> Iterator[Row]:
    if not alive:
        yield Row("on average", f"{words.rate(_average(record))} pages/s", note="over all runs")
        return
    yield Row("now", f"{words.rate(record['pages_per_s'])} pages/s")
    for name, rate in (record["pages_per_s_over"] or {}).items():
        yield Row(f"over {name}", f"{words.rate(rate)} pages/s")
    yield Row("in flight", words.plural(record["leased_urls"] or 0, "URL"), note="URLs that workers have in hand")
    yield Row(
        "hosts", f"{words.count(record['ready_hosts'] or 0)} ready of {words.count(record['active_hosts'] or 0)}",
        note="in memory, and of these the ones that may be asked now",
    )  # fmt: skip
    if record["frontier_latency_s"] is not None:
        yield Row("latency", words.duration(record["frontier_latency_s"]), note="from a URL's discovery to its request")
    if record["frontier_full"]:
        yield Row("frontier", "full", note="more waits than frontier.bytes_max allows")


def _places(record: Record, alive: bool) -> list[Row]:
    waiting = {name: number for name, number in (record["waiting_by_place"] or {}).items() if number}
    total = sum(waiting.values())
    ordered = sorted(waiting, key=lambda name: -waiting[name])
    rows = [
        Row(*_place(name, waiting[name], record), waiting[name] / total, PLACES.get(name, ("", ""))[1])
        for name in ordered
    ]
    if alive and record["wait_ends"] is not None and record["updated"] is not None:
        left = words.duration(max(record["wait_ends"] - record["updated"], 0))
        rows.append(Row("only rests are left", f"ends in {left}", note="limits.wait_hours"))
    return rows


def _place(name: str, number: int, record: Record) -> tuple[str, str]:
    due = {"scheduled": "scheduled_due", "resting": "resting_due", "visited": "pages_due"}.get(name)
    text = words.count(number)
    if due and record[due] is not None and record["updated"] is not None and record["state"] in status.ALIVE:
        seconds = record[due] - record["updated"]
        text += f", from {words.duration(seconds)} on" if seconds > 0 else ", some now"
    return PLACES.get(name, (name, ""))[0], text


def _delays(record: Record) -> list[Row]:
    delayed = record["delayed_hosts"] or {}
    total = sum(delayed.values())
    return [
        Row(name, words.plural(number, "host"), number / total, WAITS_FOR.get(name, ""))
        for name, number in sorted(delayed.items(), key=lambda one: -one[1])
    ]


def _shares(numbers: Mapping[str, int]) -> list[Row]:
    total = sum(numbers.values())
    ordered = sorted(numbers.items(), key=lambda one: (-one[1], one[0]))
    return [Row(name.replace("_", " "), words.count(number), number / total) for name, number in ordered if number]


def _host(name: str) -> str:
    """A host as people write it."""
    for scheme, port in (("http://", ":80"), ("https://", ":443")):
        if name.startswith(scheme):
            return name.removeprefix(scheme).removesuffix(port)
    return name


def _fetching(record: Record) -> list[Row]:
    return [
        Row(_host(host), f"since {words.duration(seconds)}") for host, seconds in (record["fetching"] or {}).items()
    ]


def _seconds(hosts: Mapping[str, float]) -> list[Row]:
    most = max(hosts.values(), default=0) or 1
    return [Row(_host(host), words.duration(seconds), seconds / most) for host, seconds in hosts.items()]


def _counts(hosts: Mapping[str, int] | None, one: str) -> list[Row]:
    most = max((hosts or {}).values(), default=0) or 1
    return [
        Row(_host(host), words.plural(number, one), number / most) for host, number in (hosts or {}).items() if number
    ]


def _addresses(record: Record) -> Iterator[Row]:
    yield from _counts(record["largest_addresses"], "host")
    for name, number in (record["shared_addresses"] or {}).items():
        yield Row(f"shared, {name}", words.count(number), note="addresses in memory that many sites share")
    for name, number in (record["throttled_addresses"] or {}).items():
        label = name.replace("_", " ")
        yield Row(f"slowed, {label}", words.count(number), note=SLOWED.get(name, ""))


def _failing(record: Record) -> list[Row]:
    hosts = {name: number for name, number in (record["resting_hosts"] or {}).items() if number}
    total = sum(hosts.values())
    return [
        Row(name.replace("_", " "), words.plural(number, "host"), number / total, FAILED_AS.get(name, ""))
        for name, number in sorted(hosts.items(), key=lambda one: -one[1])
    ]


def _sites(sites: Mapping[str, SiteRecord]) -> Iterator[Row]:
    """How many URLs of a site may stand in one queue, and how many are beyond that."""
    for name, site in sites.items():
        known = site.placed + site.deferred
        budget = "no limit" if site.budget >= WITHOUT_LIMIT else words.count(site.budget)
        linked = f"{words.plural(site.in_degree, 'other site')} {'links' if site.in_degree == 1 else 'link'} to it"
        note = f"{linked}; {words.plural(site.placed, 'URL')} within its budget so far"
        text = f"{budget}, {words.count(site.deferred)} over"
        yield Row(name, text, site.placed / known if known else None, note)


def _limits(record: Record, config: Config | None) -> Iterator[Row]:
    """What the crawl may use of each thing, and how much of it is used."""
    places = record["waiting_by_place"] or {}
    if places.get("queued") or places.get("over_budget"):
        within, over = places.get("queued", 0), places.get("over_budget", 0)
        text = f"{words.count(within)} within, {words.count(over)} over"
        yield Row("site budgets", text, within / (within + over), "URLs within and beyond the budget of their site")
    if config is None:
        return
    limits, frontier = config.limits, config.frontier
    for label, used, most, told, key in (
        ("pages", record["fetched"], limits.pages, words.count, "limits.pages"),
        ("bytes", record["bytes"], limits.bytes, words.size, "limits.bytes"),
        ("time", (record["updated"] or 0) - (record["started"] or 0), limits.seconds, words.duration, "limits.seconds"),
        ("waiting URLs", record["frontier_bytes"], frontier.bytes_max, words.size, "frontier.bytes_max"),
        ("links to look at", record["harvest_bytes"], frontier.harvests_bytes_max, words.size,
         "frontier.harvests_bytes_max"),
    ):  # fmt: skip
        if most:
            text = f"{told(used or 0)} of {told(most)}"
            yield Row(label, text, min((used or 0) / most, 1.0), key)
    if limits.bytes_per_second:
        yield Row("bandwidth", f"at most {words.size(limits.bytes_per_second)}/s", note="limits.bytes_per_second")


def _machine(record: Record, alive: bool) -> Iterator[Row]:
    if alive:
        yield Row("memory", words.size(record["memory_bytes"]), note="resident, all processes of the crawl")
        yield Row("workers", words.count(record["workers"]))
    for one in record["machines"] or ():
        here = f"{words.plural(one['workers'], 'worker')}, {words.plural(one['visits'], 'visit')}"
        silent = "away" if one["heard_s"] is None else f"away, heard {words.duration(one['heard_s'])} ago"
        yield Row(one["name"], here if one["state"] == "here" else silent, note="another machine that fetches")
    yield Row("archives", words.size(record["warc_bytes"]))
    if record["disk_free_bytes"] is not None:
        yield Row("free disk", words.size(record["disk_free_bytes"]))
    for name, merge in (record["merges"] or {}).items():
        done, of = merge["buckets_done"], merge["buckets"]
        text = f"{words.count(done)} of {words.plural(of, 'bucket')}"
        yield Row(
            f"merging {name}", text, done / of if of else None, f"{words.plural(merge['rows_waiting'], 'row')} to go"
        )


def _links(record: Record) -> Iterator[Row]:
    yield Row("URLs found", words.count(record["discovered_urls"]))
    yield Row("led to known URLs", words.count(record["duplicate_urls"]))
    yield Row("out of scope", words.count(record["out_of_scope_urls"]))
    for counted in COUNTERS.values():
        if counted.told and record[counted.field]:
            yield Row(counted.told, words.count(record[counted.field]))
    if record["seeds"]:
        yield Row("seeds", f"{words.count(record['seeds'])}, {words.count(record['new_seeds'])} of them new")
    yield Row("to be repeated", words.plural(record["retry_count"] or 0, "request"))


def _pages(record: Record) -> Iterator[Row]:
    if not record["pages"]:
        return
    yield Row("between visits", words.count(record["pages"]))
    yield from _shares(record["visits_by_change"] or {})


def paused(record: Record) -> list[dict[str, Any]]:
    """What the operator paused: name (`*`: all), by whom, since when."""
    return [{"name": name, **pause} for name, pause in (record["paused"] or {}).items()]
