"""`irlcrawl report JOB --politeness`: every gap between two requests against the rule that applied, from the crawl log.

The audit shares no code with the files that keep the gaps (gaps.py, visit.py). From each logged exchange follows how
long its host, its address and its site had to be left alone; the next request to each of them shows how long they were.
Rules are those of the configuration at that time (catalogue `promises`), and of robots.txt and Retry-After as logged.

What an address that many sites share bears is learnt, so the gap that held at a request is logged with it; and so is
that of a site with many hosts. Such a gap runs from start to start, and the worker may begin a request PACED_LATE_S
after it was told to, so two of them may lie closer together: what may not be is that the requests of some time are more
than its gaps allow, of which each is at least the shortest that the configuration permits.

Times are by the clock of the newest run: the catalogue says by how much the clock was set between two runs, unless the
machine was restarted meanwhile (`clock-anchors`). Outcomes of a host may be logged out of order, so requests go through
temporary files, partitioned by clock, which are sorted one at a time: 49 bytes a request on the disk, constant memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from drum import Files
from drum.spill import Spill

import numpy as np
import numpy.typing as npt

from irlcrawl.ask.outcomes import outcomes
from irlcrawl.base.job import JobDir
from irlcrawl.base.keys import name_key, origin_of
from irlcrawl.base.reasons import NO_CONNECTION, names
from irlcrawl.base.url import SiteOf, host_of
from irlcrawl.config.toml import load_stored
from irlcrawl.frontier.state import formats
from irlcrawl.terminal import words
from irlcrawl.terminal.progress import Bar
from irlcrawl.web.retry_after import THROTTLES, seconds_asked
from irlcrawl.worker.archive.crawl_log import LogEntry
from irlcrawl.worker.archive.shown_log import shown_reads

TOLERANCE_MS, ROUNDED_MS = 2, 0.5
"""Start and duration are logged to the nearest millisecond."""
ROUNDING_S = 1e-9
"""Of the arithmetic: 0.998 - 1 is less than -0.002."""
PACED_LATE_S = 1.0
PART_BITS = 6

ROW = np.dtype([
    ("key", "<u8"), ("origin", "<u8"), ("start", "<i8"), ("end", "<i8"), ("rule", "<f8"), ("delay", "<f8"),
    ("robots", "u1"), ("paced", "u1"),
])  # fmt: skip
"""A request at one clock. start, end: unix ms; rule: seconds that must pass before the next one, Crawl-delay apart;
delay: the Crawl-delay a robots.txt brought, of others 0; robots: 1 where `delay` is news; paced: 1 where the rule runs
from start to start."""

CLOCKS = ("host", "address", "site")
_ENDS_BADLY = names(NO_CONNECTION)


@dataclass
class Clock:
    """The findings about one host, address or site. Seconds."""

    name: str
    requests: int
    smallest_s: float
    median_s: float
    rule_s: float  # of the gap that came closest to it, or broke it by most
    gap_s: float  # that gap
    broken: int  # gaps shorter than their rule


class Promises:
    """The rules that were in force for a request, and the clock of its run."""

    def __init__(self, job: JobDir) -> None:
        try:
            catalog = formats.look(job.state)
            self._rules, anchors = catalog.get("promises", []), catalog.get("clock-anchors", [])
        except FileNotFoundError:
            self._rules, anchors = [], []
        self._set: list[tuple[int, int]] = []
        """(first stream of a run, ms by which the clock was set before it), oldest first."""
        for (_, boot, anchor), (stream, next_boot, next_anchor) in pairwise(anchors):
            if boot == next_boot:
                self._set.append((stream, round(1000 * (next_anchor - anchor))))

    def clock_set_ms(self, entry: LogEntry) -> int:
        """By how much the clock was set since the run that made this request, in milliseconds."""
        return sum(ms for stream, ms in self._set if (entry.stream or 0) < stream)

    def _of(self, entry: LogEntry) -> int:
        """Number of the rules: those of its run."""
        for number in range(len(self._rules) - 1, 0, -1):
            if (entry.stream or 0) >= self._rules[number]["stream"]:
                return number
        return 0

    def host(self, name: str, entry: LogEntry) -> float:
        """Seconds that a host must be left alone after this exchange, without its Crawl-delay."""
        promised = self._rules[self._of(entry)]["promised"]
        rules = promised["politeness"]
        floor = _nearest(promised["sites"], name, rules["gap_host_seconds"])
        longest = rules["gap_host_max_seconds"]
        took_ms = max(entry.duration_ms - ROUNDED_MS, 0)  # at least: what rounding added is not to be multiplied
        wait = max(floor, min(rules["gap_host_factor"] * took_ms / 1000, longest))
        if entry.status in THROTTLES or entry.reason in _ENDS_BADLY:
            wait = max(wait, min(rules["backoff_seconds"], longest))
        if "retry_after" in entry.notes:
            wait = max(wait, min(_retry_after(entry), rules["retry_after_max_seconds"]))
        return wait

    def address(self, entry: LogEntry) -> tuple[float, bool]:
        """(seconds that its address must be left alone after this exchange, whether from its start)."""
        rules = self._rules[self._of(entry)]["promised"]["politeness"]
        if "gap_address" in entry.notes:
            return max(float(entry.notes["gap_address"]), float(rules["gap_shared_address_seconds"])), True
        of_host = self.host(host_of(entry.url), entry) if rules.get("unit") == "address" else 0.0
        return max(float(rules["gap_address_seconds"]), of_host), False

    def site(self, entry: LogEntry) -> tuple[float, bool]:
        """As `address`, of its site."""
        if "gap_site" in entry.notes:
            return float(entry.notes["gap_site"]), True
        rules = self._rules[self._of(entry)]["promised"]["politeness"]
        of_host = self.host(host_of(entry.url), entry) if rules.get("unit") == "site" else 0.0
        return max(float(rules["gap_site_seconds"]), of_host), False


def _nearest(gaps: dict[str, float], name: str, otherwise: float) -> float:
    """The value that `[site."x"]` sets for the name itself or for the nearest name above it."""
    name = name.rstrip(".")
    while gaps and name:
        if name in gaps:
            return gaps[name]
        name = name.partition(".")[2]
    return otherwise


def _retry_after(entry: LogEntry) -> float:
    assert entry.start_ms is not None
    return seconds_asked(entry.notes["retry_after"], (entry.start_ms + entry.duration_ms) / 1000) or 0.0


def audit(job: JobDir, shown: int, bar_of: Callable[[], Bar] = Bar) -> dict[str, Any]:
    """{"requests", "broken", CLOCK: {"clocks", "gaps", "smallest_s", "median_s", "broken", "worst": [Clock]}}; `worst`
    are the `shown` clocks of each kind that came closest to their rule, all held in memory. bar_of: shows how far a
    long log is read, which is read twice. OSError, Damaged."""
    with shown_reads(job, bar_of, times=2) as files:
        return _audit(job, shown, files)


def _audit(job: JobDir, shown: int, files: Files) -> dict[str, Any]:
    promises = Promises(job)
    site_of = SiteOf(load_stored(job.config_file).scope.private_suffixes)
    with tempfile.TemporaryDirectory(prefix="irlcrawl-audit-") as directory:
        parts = {clock: Spill(directory, clock, ROW, PART_BITS) for clock in CLOCKS}
        requests = 0
        for entry in _requests(job, files):
            _file(entry, promises, site_of, parts)
            requests += 1
        told: dict[str, Any] = {"requests": requests, "broken": 0}
        worst = {}
        for clock in CLOCKS:
            told[clock], worst[clock] = _judge(parts[clock], shown, clock == "site")
            told["broken"] += told[clock]["broken"]
    names = _names(job, files, site_of, {clock: set(found) for clock, found in worst.items()})
    for clock in CLOCKS:
        told[clock]["worst"] = [
            asdict(Clock(names[clock].get(key, f"{key:016x}"), *facts)) for key, facts in worst[clock].items()
        ]
    return told


def _requests(job: JobDir, files: Files) -> Iterator[LogEntry]:
    """Log entries of requests: outcomes decided without a request are left out."""
    for entry in outcomes(job, files=files):
        asked = entry.start_ms is not None and entry.outcome != "excluded"
        if asked and (entry.status > 0 or entry.duration_ms > 0 or entry.reason in _ENDS_BADLY):
            yield entry


def _clock_names(entry: LogEntry, site_of: SiteOf) -> dict[str, str]:
    name = host_of(entry.url)
    return {"host": name, "address": entry.notes.get("address", ""), "site": site_of(name)}


def _file(entry: LogEntry, promises: Promises, site_of: SiteOf, parts: dict[str, Spill]) -> None:
    """Write a request to the files of the three clocks that it passed."""
    assert entry.start_ms is not None
    start = entry.start_ms + promises.clock_set_ms(entry)
    end = start + entry.duration_ms
    names = _clock_names(entry, site_of)
    origin = name_key(origin_of(entry.url))
    # A robots.txt that redirects says nothing about the Crawl-delay, nor does one that was read for another host.
    news = entry.outcome == "none" and not 300 <= entry.status < 400 and "robots_of" not in entry.notes
    delay = float(entry.notes.get("crawl_delay", 0.0))
    row = (name_key(names["host"].encode()), origin, start, end)
    parts["host"].add((*row, promises.host(names["host"], entry), delay, news, False))
    for clock, (rule, paced) in (("address", promises.address(entry)), ("site", promises.site(entry))):
        if names[clock]:
            parts[clock].add((name_key(names[clock].encode()), origin, start, end, rule, 0.0, False, paced))


Facts = tuple[int, float, float, float, float, int]
"""requests, smallest, median, rule, gap and broken of a Clock."""


def _judge(parts: Spill, shown: int, both_ruled: bool) -> tuple[dict[str, Any], dict[int, Facts]]:
    """The sums over all clocks of a kind, and the clocks that came closest to their rule or broke it, worst first.
    both_ruled: a gap has a rule only if the request that ends it has one, too. That is so of sites: a run whose
    configuration has no gap of sites keeps none for an earlier run."""
    clocks = gaps = broken = 0
    smallest, sample = np.inf, [np.empty(0)]
    worst: list[tuple[float, int, Facts]] = []
    for rows in parts.parts():
        rows = rows[np.lexsort((rows["end"], rows["start"], rows["key"]))]
        rule = np.maximum(rows["rule"], _delays(rows))
        if both_ruled:
            ends_without = np.append(rows["rule"][1:] <= 0, False) & (rows["paced"] == 0)
            rule[ends_without] = 0.0
        edges = np.flatnonzero(np.concatenate(([True], rows["key"][1:] != rows["key"][:-1], [True])))
        for first, last in zip(edges[:-1].tolist(), edges[1:].tolist()):  # once a clock, and few of them are shown
            clocks += 1
            if last - first < 2:
                continue
            paced = rows["paced"][first : last - 1] > 0
            ends = np.maximum.accumulate(rows["end"][first : last - 1])
            gap = (rows["start"][first + 1 : last] - np.where(paced, rows["start"][first : last - 1], ends)) / 1000
            slack = gap - rule[first : last - 1]
            if paced.any():
                slack[paced] = _slack_of_paced(rows[first:last])[: paced.sum()]
            # Without a rule, as most sites have none, requests may overlap.
            short = int(((slack < -TOLERANCE_MS / 1000 - ROUNDING_S) & (rule[first : last - 1] > 0)).sum())
            at = int(slack.argmin())
            gaps, broken, smallest = gaps + len(gap), broken + short, min(smallest, float(gap.min()))
            sample.append(gap)
            facts = (last - first, float(gap.min()), float(np.median(gap)), float(rule[first + at]), float(gap[at]))
            worst.append((float(slack[at]), int(rows["key"][first]), (*facts, short)))
        worst = sorted(worst)[:shown]
        sample = [_thinned(np.concatenate(sample))]
    told = {
        "clocks": clocks, "gaps": gaps, "broken": broken, "smallest_s": smallest if gaps else None,
        "median_s": float(np.median(sample[0])) if gaps else None,
    }  # fmt: skip
    return told, {key: facts for _, key, facts in worst}


def _slack_of_paced(rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Of the paced requests to a clock, in their order: seconds by which the next of them began later than it had to,
    by all gaps before it (a virtual schedule, as in the generic cell rate algorithm); infinite for the last one."""
    rows = rows[rows["paced"] > 0]
    start, gap = rows["start"] / 1000, rows["rule"]
    before = np.cumsum(gap) - gap
    due = before + gap + np.maximum.accumulate(start - before)
    # Of two requests that were late the first to be told may begin last: one gap more or less.
    late = PACED_LATE_S + np.maximum(gap[:-1], gap[1:])
    return np.append(start[1:] - due[:-1] + late, np.inf)


SAMPLE_MAX = 1 << 20


def _thinned(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """At most SAMPLE_MAX of the values, evenly taken: enough for a median over all of them."""
    return values if len(values) <= SAMPLE_MAX else values[:: len(values) // SAMPLE_MAX + 1]


def _delays(rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """The Crawl-delay in force after each request: that of its origin's last robots.txt. Rows by key, then start."""
    order = np.lexsort((rows["start"], rows["origin"]))
    origin, news, delay = rows["origin"][order], rows["robots"][order] > 0, rows["delay"][order]
    first = np.concatenate(([True], origin[1:] != origin[:-1])) if len(order) else np.empty(0, np.bool_)
    told = np.where(news | first, np.arange(len(order)), 0)
    last = np.maximum.accumulate(told) if len(order) else told
    found = np.empty(len(order), np.float64)
    found[order] = np.where(news[last], delay[last], 0.0)
    return found


def _names(job: JobDir, files: Files, site_of: SiteOf, wanted: dict[str, set[int]]) -> dict[str, dict[int, str]]:
    """The names of a few clocks, from a second look at the log."""
    names: dict[str, dict[int, str]] = {clock: {} for clock in CLOCKS}
    for entry in _requests(job, files):
        for clock, name in _clock_names(entry, site_of).items():
            key = name_key(name.encode())
            if key in wanted[clock]:
                names[clock][key] = name
    return names


def lines(told: dict[str, Any], every: bool = False) -> Iterator[str]:
    """The findings in words. every: all clocks of `worst`; otherwise the clocks that broke their rule, and the closest
    one of each kind."""
    yield (
        f"{words.plural(told['requests'], 'request')}, judged by the crawl log; gaps from the end of one (at a shared "
        "address and a site of many hosts from its start) to the start of the next"
    )
    for clock in CLOCKS:  # a gap below zero is none: where no rule forbids it, requests overlap
        one = told[clock]
        if not one["gaps"]:
            yield f"{clock:<9}{one['clocks']:,} known, none was asked twice"
            continue
        gaps = words.plural(one["gaps"], "gap")
        yield (
            f"{clock:<9}{one['clocks']:,} known, {gaps}: smallest {max(one['smallest_s'], 0.0):.3f} s, "
            f"median {one['median_s']:.3f} s, {one['broken']:,} shorter than the rule"
        )
        for found in one["worst"]:
            if every or found["broken"] or (found is one["worst"][0] and found["rule_s"]):
                broken = words.plural(found["broken"], "time")
                verdict = f"BROKEN {broken}" if found["broken"] else "closest to its rule"
                yield (
                    f"         {found['name']}: {verdict}: {found['gap_s']:.3f} s where {found['rule_s']:.3f} s were "
                    f"due; smallest {max(found['smallest_s'], 0.0):.3f} s, median {found['median_s']:.3f} s"
                )
    short = words.plural(told["broken"], "gap was", "gaps were")
    verdict = "no promise was broken" if not told["broken"] else f"{short} too short"
    yield f"{verdict} (the log has whole milliseconds, so {TOLERANCE_MS} ms too few do not count)"
