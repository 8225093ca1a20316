"""`irlcrawl plan`: how fast a crawl would go on a machine, for how long, and what it would need on the disk.

Arithmetic over three things: what a machine has (Means), what a page costs it (Machine: measured, or what the
developers measured), and what pages are like (Pages: of a crawl that was made, or a guess at the open web). Each of
what a page needs gives a rate; the least of them is the crawl's. What `seen` costs grows with it, by drum/cost.py; so
the rate is taken at the end, where it is least, and the days are a sum over steps of the way there.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from drum.cost import Seen, Traffic, merge_rows, store_bytes

from irlcrawl.config.hours import Window
from irlcrawl.config.keys import Config, ConfigError
from irlcrawl.terminal import words
from irlcrawl.upkeep.measure import Machine

STEPS = 50
ROW_BYTES = 96.0
"""Of a link that waits for its merge: keys, what it carries, and its URL."""
RAM_ROW_BYTES = 160.0
"""The same in memory."""
HOST_BYTES = 2_000.0
"""Of a host in memory, its clocks and its URLs at hand included."""
REWRITES = 3.0
"""How often a URL that waits is written until it is leased: harvest, queue, run."""
DAY_S = 86_400.0
UNITS = {"host": "hosts", "site": "sites", "address": "addresses"}

Answer = dict[str, Any]


class Pages(NamedTuple):
    """Properties of pages, per page fetched: bytes received, bytes read for links (without content coding), bytes
    archived, links in scope, URLs that are new, bytes of the crawl log. waiting: bytes on disk of a URL that waits.
    fetch_s: seconds of a request."""

    source: str
    received: float
    read: float
    archived: float
    links: float
    new: float
    log: float
    waiting: float
    fetch_s: float


WEB = Pages("a guess at the open web", 30_000.0, 160_000.0, 32_000.0, 40.0, 6.0, 330.0, 110.0, 0.5)
"""Read: Common Crawl of December 2024 has 394 TiB in 2.64 billion pages."""


class Means(NamedTuple):
    """None: not said, and so no bound."""

    ram: float | None
    disk: float | None
    bandwidth: float | None  # bytes a second
    cores: int
    hosts: float | None  # that have URLs at any moment; sites or addresses, where these are politeness.unit


def pages_like(record: Mapping[str, Any], log_bytes: float, source: str) -> Pages:
    """Of a crawl's status record. ConfigError if it fetched too little to tell."""
    fetched = record["fetched"] or 0
    if fetched < 100:
        raise ConfigError(f"--like {source}: it fetched {words.plural(fetched, 'page')}; at least 100 are needed")
    found, queued = record["discovered_urls"], record["queued_urls"] or 0
    links = found + (record["duplicate_urls"] or 0)
    waiting = record["frontier_bytes"] / queued if queued > 1000 else WEB.waiting
    took = (record["pace"] or {}).get("fetch_s") or WEB.fetch_s
    received = record["bytes"] / fetched
    read = (record["read_bytes"] or 0) / fetched or received  # a crawl of an older version did not count them
    return Pages(
        source, received, read, record["warc_bytes"] / fetched, links / fetched, found / fetched, log_bytes / fetched,
        waiting, took,
    )  # fmt: skip


def gap_s(config: Config, fetch_s: float) -> float:
    """Seconds from one request to a host to the next."""
    politeness = config.politeness
    grown = min(politeness.gap_host_factor * fetch_s, politeness.gap_host_max_seconds)
    return fetch_s + max(politeness.gap_host_seconds, grown)


def open_share(config: Config) -> float:
    """The part of a day in which hosts may be asked, those without hours of their own."""
    politeness = config.politeness
    return Window(politeness.hours, politeness.time_zone).share if politeness.hours else 1.0


def seen_bytes(keys: float, ram: float) -> float:
    """Bytes that a link's look-up in `seen` reads and writes, on average, when it has so many keys (drum/cost.py).
    ram: bytes for rows that wait."""
    ram_rows = int(ram / RAM_ROW_BYTES)
    rows = max(merge_rows(int(keys), ram_rows, ROW_BYTES), 1)
    aux = ROW_BYTES - 8
    traffic = Seen([max(int(keys), 1)], aux_bytes=aux).merge(rows, rows // 9, spilled=rows > ram_rows)
    return (traffic.read + traffic.written) / rows


def rates(means: Means, machine: Machine, pages: Pages, config: Config, keys: float) -> dict[str, float]:
    """Pages a second that each thing allows when `seen` has so many keys: CPU, frontier, bandwidth, disk, hosts."""
    workers = min(config.crawl.workers or means.cores, means.cores)
    worker_s, frontier_s = machine.worker(pages.read, pages.links), machine.frontier(pages.links)
    found = {"CPU": min(means.cores / (worker_s + frontier_s), workers / worker_s), "frontier": 1 / machine.loop_s}
    traffic = Traffic(written=pages.archived + pages.log + pages.new * pages.waiting * REWRITES)
    look_ups = pages.links * seen_bytes(keys, config.crawl.ram_bytes)
    found["disk speed"] = machine.disk_bytes_per_s / (traffic.written + look_ups)
    limit = config.limits.bytes_per_second
    for name, bandwidth in {"bandwidth": means.bandwidth, "limits.bytes_per_second": limit or None}.items():
        if bandwidth is not None:
            found[name] = bandwidth / pages.received
    if means.hosts is not None:
        hosts = min(means.hosts, config.frontier.hosts_active_max)
        found[UNITS[config.politeness.unit]] = hosts / gap_s(config, pages.fetch_s)
    return found


def disk_bytes(pages: Pages, fetched: float) -> dict[str, float]:
    """Bytes on the disk after so many pages: archive, seen, waiting URLs, log."""
    discovered = fetched * pages.new
    return {
        "archive": fetched * pages.archived,
        "seen": store_bytes(int(discovered)),
        "waiting": max(discovered - fetched, 0.0) * pages.waiting,
        "log": fetched * pages.log,
    }


def memory_bytes(means: Means, machine: Machine, config: Config) -> float:
    """The memory that the crawl takes: its processes, rows that wait for merges, hosts."""
    workers = config.crawl.workers or means.cores
    hosts = min(means.hosts or config.frontier.hosts_active_max, config.frontier.hosts_active_max)
    return (workers + 1) * machine.process_bytes + config.crawl.ram_bytes + hosts * HOST_BYTES


def plan(means: Means, machine: Machine, pages: Pages, config: Config, fetched: float) -> Answer:
    """For a crawl of so many pages."""
    seconds = 0.0
    for step in range(STEPS):
        keys = pages.new * fetched * (step + 0.5) / STEPS
        seconds += fetched / STEPS / min(rates(means, machine, pages, config, keys).values())
    seconds /= (share := open_share(config))
    last = rates(means, machine, pages, config, pages.new * fetched)
    binds = min(last, key=lambda name: last[name])
    needed, memory = disk_bytes(pages, fetched), memory_bytes(means, machine, config)
    answer: Answer = {
        "pages": fetched, "pages_per_s": fetched / seconds, "days": seconds / DAY_S, "binds": binds,
        "rates_at_the_end": last, "disk_bytes": {**needed, "all": sum(needed.values())}, "memory_bytes": memory,
        "open_share": share, "lacks": [], "pages_like": pages._asdict(), "machine": machine._asdict(),
    }  # fmt: skip
    if means.disk is not None and sum(needed.values()) > means.disk:
        answer["disk_full_after_pages"] = _largest(pages, means.disk)
        answer["disk_full_after_days"] = answer["disk_full_after_pages"] / answer["pages_per_s"] / DAY_S
        answer["lacks"].append("disk")
    if means.ram is not None and memory > means.ram:
        answer["lacks"].append("ram")
    return answer


def _largest(pages: Pages, disk: float) -> float:
    """How many pages a disk holds."""
    low, high = 0.0, disk / max(pages.archived + pages.log, 1.0)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(disk_bytes(pages, middle).values()) <= disk else (low, middle)
    return math.floor(low)


_SIZE = re.compile(r"(\d{1,15}(?:\.\d+)?)\s*([kMGT]?)(i?)(B|bit)?(?:/s)?")


def parse_size(option: str, text: str) -> float:
    """Bytes: `8G`, `500MB`, `64GiB`; of a rate also `100Mbit`. A number alone is refused: nobody plans with `16` bytes.
    ConfigError."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or not float(match[1]) or not (match[2] or match[4]):
        raise ConfigError(f"{option} {text}: takes a size such as 8GB, 64GiB or (a rate) 100Mbit, and no 0")
    number, prefix, binary, unit = match.groups()
    base = 1024 if binary else 1000
    size = float(number) * base ** ("kMGT".index(prefix) + 1 if prefix else 0)
    return size / 8 if unit == "bit" else size


def lines(answer: Answer) -> Iterator[str]:
    """The answer in words."""
    disk, last, machine = answer["disk_bytes"], answer["rates_at_the_end"], Machine(**answer["machine"])
    took = words.duration(answer["days"] * DAY_S)
    yield f"{words.plural(answer['pages'], 'page')} in {took}, {words.rate(answer['pages_per_s'])} pages/s"
    yield f"bound by    {answer['binds']}"
    told = ", ".join(f"{name} {words.rate(rate)}" for name, rate in sorted(last.items(), key=lambda item: item[1]))
    yield f"allow       {told} pages/s, at the end"
    if answer["open_share"] < 1:
        hours = f"{24 * answer['open_share']:.3g} of 24 a day"
        yield f"hours       {hours} (politeness.hours): these rates hold in them, and nothing is asked at others"
    parts = ", ".join(f"{name} {words.size(size)}" for name, size in disk.items() if name != "all")
    yield f"disk        {words.size(disk['all'])}: {parts}"
    yield f"memory      {words.size(answer['memory_bytes'])}"
    if "disk" in answer["lacks"]:
        full = words.count(answer["disk_full_after_pages"])
        after = words.duration(answer["disk_full_after_days"] * DAY_S)
        yield f"too little  the disk is full after {full} pages, {after}"
    if "ram" in answer["lacks"]:
        yield "too little  memory: fewer crawl.workers, less crawl.ram_bytes or frontier.hosts_active_max"
    pages = Pages(**answer["pages_like"])
    yield (
        f"pages       as of {pages.source}: {words.size(pages.received)} each ({words.size(pages.read)} unpacked), "
        f"{pages.links:.1f} links, {pages.new:.1f} of them new"
    )
    source = "of the developers' machine (`irlcrawl plan --measure` measures this one)"
    if machine.measured:
        source = time.strftime("measured here on %Y-%m-%d %H:%M", time.localtime(machine.measured))
    worker_s, frontier_s = machine.worker(pages.read, pages.links), machine.frontier(pages.links)
    costs = f"{worker_s * 1e6:,.0f} us of a worker and {frontier_s * 1e6:,.0f} us of the frontier"
    yield f"costs       {costs} a page, {source}"
