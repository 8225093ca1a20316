"""`irlcrawl report JOB`: sites by reputation, budget, cost, waiting URLs and yield, and the sites that eat the crawl.

One forward pass over the crawl log and one over the waiting URLs, then a look at the records of the sites that are
shown. Memory is bounded: beyond SITES_MAX sites, the sites asked least are summed up together. Works beside a running
crawl.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from drum import Batch, Files

import numpy as np

from budgets.star import WITHOUT_LIMIT
from irlcrawl.ask.outcomes import outcomes
from irlcrawl.ask.shown_state import shown_waiting
from irlcrawl.base.job import JobDir
from irlcrawl.base.keys import name_key
from irlcrawl.base.url import SiteOf, host_of
from irlcrawl.frontier.state.view import Reading
from irlcrawl.terminal import words
from irlcrawl.terminal.progress import Bar
from irlcrawl.worker.archive.shown_log import shown_reads

SITES_MAX = 200_000
EATERS_MAX = 10
WASTE_SHARE = 0.02
"""A site eats the crawl if it wastes this share of all requests."""
WAITING_SHARE = 0.10
"""A site also eats the crawl if its URLs are this share of all waiting URLs (and three times the mean share), although
fewer sites link to it than to the median site asked."""
TRAP_YIELD = 0.1
"""A site that brings less new content than this share of its requests eats the crawl, also where all others do."""
REQUESTS_LEAST = 20
"""A crawl with fewer requests than this gets no verdict."""


@dataclass(slots=True)
class Site:
    """The figures of a site. spent: requests made (repeats included, robots.txt not); gained: requests that brought a
    page of its own (a 2xx whose body no page of this site had just before), at most what budgets count as new content;
    visits: later requests for pages that were known, which are in neither; waiting: URLs anywhere but in QF."""

    name: str
    spent: int = 0
    gained: int = 0
    visits: int = 0
    failed: int = 0
    excluded: int = 0
    bytes: int = 0
    waiting: int = 0
    deferred: int = 0
    in_degree: int = 0
    budget: int = 0
    placed: int = 0
    last: str = ""  # the digest of its last page

    @property
    def worth(self) -> float | None:
        """Its yield: pages gained per request."""
        return self.gained / self.spent if self.spent else None

    @property
    def wasted(self) -> int:
        return self.spent - self.gained

    def told(self) -> dict[str, Any]:
        values = asdict(self)
        values.pop("last")
        return {**values, "yield": self.worth}


class Sites:
    """Sites by key, at most SITES_MAX of them; `others` is the sum of the sites that were let go."""

    def __init__(self) -> None:
        self.by_site_key: dict[int, Site] = {}
        self.others = Site("others")
        self.dropped = 0

    def site(self, site_key: int, name: str) -> Site:
        found = self.by_site_key.get(site_key)
        if found is None:
            if len(self.by_site_key) >= SITES_MAX:
                self._shrink()
            found = self.by_site_key[site_key] = Site(name)
        return found

    def _shrink(self) -> None:
        """Let go the half of the sites with the fewest requests and waiting URLs."""
        ranked = sorted(self.by_site_key.items(), key=lambda item: item[1].spent + item[1].waiting + item[1].deferred)
        for key, site in ranked[: len(ranked) // 2]:
            del self.by_site_key[key]
            self.dropped += 1
            for name in ("spent", "gained", "visits", "failed", "excluded", "bytes", "waiting", "deferred"):
                setattr(self.others, name, getattr(self.others, name) + getattr(site, name))


def report(job: JobDir, top: int = 20, by: str = "reputation", bar_of: Callable[[], Bar] = Bar) -> dict[str, Any]:
    """{"totals", "sites": the first `top` in the order `by`, "eaters": [{…, "why"}], "others"}. bar_of: shows how
    far a long log is read. Damaged, OSError."""
    sites = Sites()
    reading = Reading.open(job)
    private = reading is not None and reading.config.scope.private_suffixes
    site_of = SiteOf(private)
    with shown_reads(job, bar_of) as files:
        _read_log(job, site_of, sites, files)
    with shown_waiting(job, bar_of) as files:
        if (reading := Reading.open(job, files)) is not None and reading.begun:
            _read_state(reading, site_of, sites)
    everything = list(sites.by_site_key.values())
    ranked = sorted(everything, key=lambda site: (_rank(site, by), site.spent, site.name), reverse=True)
    totals = {
        "sites": len(everything) + sites.dropped,
        "spent": sum(site.spent for site in everything) + sites.others.spent,
        "gained": sum(site.gained for site in everything) + sites.others.gained,
        "visits": sum(site.visits for site in everything) + sites.others.visits,
        "waiting": sum(site.waiting for site in everything) + sites.others.waiting,
        "deferred": sum(site.deferred for site in everything) + sites.others.deferred,
    }
    return {
        "totals": totals,
        "sites": [site.told() for site in ranked[:top]],
        "eaters": [{**site.told(), "why": why} for site, why in _eaters(everything, totals)],
        "others": {**sites.others.told(), "sites": sites.dropped} if sites.dropped else None,
    }


def _read_log(job: JobDir, site_of: SiteOf, sites: Sites, files: Files) -> None:
    """A Python loop per outcome: each is a line of text."""
    for entry in outcomes(job, files=files):
        if entry.outcome == "none":  # robots.txt
            continue
        name = site_of(host_of(entry.url))
        site = sites.site(name_key(name.encode()), name)
        if entry.outcome == "returned":  # that it was done does not count any more; what it cost does
            site.excluded -= entry.notes.get("was") == "excluded"
            site.failed -= entry.notes.get("was") == "failed"
            continue
        site.excluded += entry.outcome == "excluded"
        site.failed += entry.outcome == "failed"
        if entry.outcome == "excluded" or entry.start_ms is None:
            continue
        site.bytes += entry.size or 0
        if "visit" in entry.notes:  # a known page is to bring nothing new to its site
            site.visits += 1
            continue
        site.spent += 1
        if entry.outcome == "fetched" and 200 <= entry.status < 300 and entry.digest != site.last:
            site.gained += 1
            site.last = entry.digest


def _read_state(reading: Reading, site_of: SiteOf, sites: Sites) -> None:
    for place, batch in reading.waiting():
        if place != "visited":
            _count_waiting(place, batch, site_of, sites)
    keys = np.array(list(sites.by_site_key), np.uint64)
    for key, record in reading.sites.records(keys).items() if len(keys) else ():
        site = sites.by_site_key[key]
        site.in_degree, site.budget, site.placed = record.in_degree, record.budget, record.placed
        # A page in which only digits differ from others brings nothing new, by what budgets go by. They know of the
        # pages as of the last merge; of the rest the log knows.
        site.gained = min(site.gained, record.novel + max(site.spent - record.asked, 0))


def _count_waiting(place: str, batch: Batch, site_of: SiteOf, sites: Sites) -> None:
    keys, first, counts = np.unique(batch["site"], return_index=True, return_counts=True)
    urls = batch["url"]
    for key, at, rows in zip(keys.tolist(), first.tolist(), counts.tolist()):
        site = sites.by_site_key.get(key) or sites.site(key, site_of(host_of(urls[at])))
        if place == "over_budget":
            site.deferred += rows
        else:
            site.waiting += rows


def _rank(site: Site, by: str) -> float:
    match by:
        case "reputation":
            return site.in_degree
        case "waiting":
            return site.waiting + site.deferred
        case "yield":
            return -1.0 if site.worth is None else site.worth
        case _:
            return float(getattr(site, by))


def _eaters(sites: list[Site], totals: dict[str, int]) -> Iterator[tuple[Site, str]]:
    """The sites that cost much and bring little, worst first, each with the reason in words."""
    if totals["spent"] < REQUESTS_LEAST:
        return
    wasted = totals["spent"] - totals["gained"]
    waiting = totals["waiting"] + totals["deferred"]
    asked = sorted(site.in_degree for site in sites if site.spent)
    median = asked[len(asked) // 2] if asked else 0
    mean = totals["gained"] / totals["spent"]
    found: list[tuple[float, Site, str]] = []
    for site in sites:
        waste, waits = site.wasted / totals["spent"], (site.waiting + site.deferred) / max(waiting, 1)
        why = []
        if waste >= WASTE_SHARE and site.worth is not None and site.worth <= mean / 2 and wasted:
            why.append(f"{waste:.0%} of all requests went to it and brought nothing new (yield {site.worth:.2f})")
        if not why and site.spent >= REQUESTS_LEAST and site.worth is not None and site.worth < TRAP_YIELD:
            why.append(
                f"of {words.plural(site.spent, 'request')} {words.count(site.gained)} brought new content: a trap? "
                "page.near_duplicates_max = 10 ends most of them, `irlcrawl block` ends any"
            )
        if waits >= max(WAITING_SHARE, 3 / len(sites)) and site.in_degree < max(median, 1):
            why.append(f"{waits:.0%} of what waits is its, with an in-degree of {site.in_degree}")
        if why:
            found.append((max(waste, waits), site, "; ".join(why)))
    found.sort(key=lambda one: (-one[0], one[1].name))
    yield from ((site, why) for _, site, why in found[:EATERS_MAX])


COLUMNS = ("site", "in-degree", "budget", "spent", "yield", "waiting", "over budget")


def _row(site: dict[str, Any]) -> tuple[str, ...]:
    worth = "-" if site["yield"] is None else f"{site['yield']:.2f}"
    budget = "no limit" if site["budget"] >= WITHOUT_LIMIT else words.count(site["budget"])
    linked, spent, waits, over = (words.count(site[name]) for name in ("in_degree", "spent", "waiting", "deferred"))
    return site["name"], linked, budget, spent, worth, waits, over


def _table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    """Names to the left, numbers to the right, each column as wide as its widest cell and two spaces from the next."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *numbers in rows:
        yield "  ".join([name.ljust(widths[0]), *(map(str.rjust, numbers, widths[1:]))])


def lines(told: dict[str, Any]) -> Iterator[str]:
    """A table for people, and the eaters below it."""
    totals = told["totals"]
    yield (
        f"{words.plural(totals['sites'], 'site')}, {words.plural(totals['spent'], 'request')}, "
        f"{words.plural(totals['gained'], 'page')} gained, {words.plural(totals['waiting'], 'URL')} waiting, "
        f"{words.count(totals['deferred'])} over budget"
        + (f"; {words.plural(totals['visits'], 'visit')} to known pages" if totals["visits"] else "")
    )
    yield ""
    yield from _table([COLUMNS, *(_row(site) for site in told["sites"])])
    if others := told["others"]:
        yield f"and {words.plural(others['sites'], 'other')}, {words.plural(others['spent'], 'request')}"
    yield ""
    yield "sites that eat the crawl" if told["eaters"] else "no site eats the crawl"
    for site in told["eaters"]:
        yield f"  {site['name']}: {site['why']}"
