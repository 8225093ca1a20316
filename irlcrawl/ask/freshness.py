"""`irlcrawl report JOB --freshness`: how fresh the copies of pages are by what is believed, what visits found, which
pages are hubs, which hosts are full or believed, and what more capacity would buy.

One forward pass over the pages between two visits, and one over the hosts; nothing is asked of any server. Memory is
bounded: hosts beyond HOSTS_MAX are summed up together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from drum import Batch

import numpy as np
from numpy.typing import NDArray

from irlcrawl.ask.shown_state import shown_waiting
from irlcrawl.base.job import JobDir
from irlcrawl.base.keys import name_key, origin_of
from irlcrawl.frontier.state.view import Reading
from irlcrawl.revisit.hubs import link_rates
from irlcrawl.revisit.price import survival, worth
from irlcrawl.revisit.signals import told_codes
from irlcrawl.revisit.visited import intervals, silent, weights, wished_after
from irlcrawl.revisit.weight import DAY_S, Rules, Terms
from irlcrawl.terminal import words
from irlcrawl.terminal.progress import Bar

HOSTS_MAX = 100_000
OTHERS = "all other hosts"
PRICES = (4.0, 1.0, 0.25)
"""Times the price, at which is told what visits would come to."""


def freshness(job: JobDir, top: int, now: float, bar_of: Callable[[], Bar] = Bar) -> dict[str, Any]:
    """Expected share of copies that are right, weighted by page, and their mean age, of all and of the `top` hosts with
    most weight. bar_of: shows how far many pages are read. Damaged, OSError."""
    with shown_waiting(job, bar_of) as files:
        return _read(Reading.open(job, files), top, now)


def _read(reading: Reading | None, top: int, now: float) -> dict[str, Any]:
    if reading is None or not reading.begun:
        return {"pages": 0, "hosts": []}
    rules, counters = Rules(reading.config), reading.catalog.get("counters", {})
    price = reading.catalog.get("price")
    sums, bought = np.zeros(4), np.zeros((len(PRICES), 2))
    hosts: dict[str, Any] = {}
    names: dict[int, str] = {}
    hubs: list[tuple[float, str]] = []
    for batch in reading.pages.scan():
        terms = rules.of(batch["url"])
        weight = weights(batch, terms)
        days = np.maximum(now - batch["visited"], 0.0) / DAY_S
        rows = np.stack([np.ones(batch.rows), weight, weight * survival(silent(batch), days), days], axis=1)
        sums += rows.sum(axis=0)
        for at, factor in enumerate(PRICES if price else ()):
            bought[at] += _at_price(batch, terms, price * factor)
        hubs = _best_hubs(hubs, batch, top)
        keys, first, which = np.unique(batch["host"], return_index=True, return_inverse=True)
        told = np.zeros((len(keys), 4))
        np.add.at(told, which, rows)
        for url, row in zip(batch["url"].take(first).tolist(), told, strict=True):  # a loop per host of a block
            name = origin_of(url).decode()
            if len(names) < HOSTS_MAX:
                names[int(name_key(name.encode()))] = name
            if name not in hosts and len(hosts) >= HOSTS_MAX:
                name = OTHERS
            hosts[name] = hosts.get(name, 0.0) + row
    best = sorted(hosts.items(), key=lambda host: (-host[1][1], host[0]))[:top]
    return {
        **_told(sums),
        "price": price,
        "visits_by_change": dict(counters.get("visits_by_change", {})),
        "hosts": [{"host": name, **_told(row)} for name, row in best],
        "hubs": [{"url": url, "new_links_a_day": rate} for rate, url in hubs],
        **_of_hosts(reading, names, price or 0.0, top),
        "signals": {name: counters.get(name, 0) for name in ("signals", "visits_called", "visits_ordered")},
        "capacity": [
            {"visits_a_day": visits, "fresh_share": fresh / sums[1]} for visits, fresh in bought.tolist() if price
        ] if sums[1] else [],
    }  # fmt: skip


def _at_price(rows: Batch, terms: Terms, price: float) -> NDArray[np.float64]:
    """(visits a day, weight of copies that are right on average) of pages that are visited when that is worth a price,
    for as long as what is believed of them holds."""
    belief, weight = silent(rows), weights(rows, terms)
    _, least = intervals(rows, terms, price, 0.0)
    days = np.maximum(wished_after(rows, terms, price), np.maximum(least, 1e-6))
    ones = np.ones(rows.rows)
    right = worth(belief, ones, days) + days * survival(belief, days)
    return np.array([(1 / days).sum(), (weight * right / days).sum()])


def _best_hubs(known: list[tuple[float, str]], rows: Batch, top: int) -> list[tuple[float, str]]:
    rates = link_rates(rows)
    some = np.argsort(-rates)[:top]
    some = some[(rates[some] > 0) & (rows["links_b"][some] > 0)]
    urls = [url.decode() for url in rows["url"].take(some).tolist()]
    return sorted([*known, *zip(rates[some].tolist(), urls, strict=True)], reverse=True)[:top]


def _of_hosts(reading: Reading, names: dict[int, str], price: float, top: int) -> dict[str, Any]:
    """Hosts that are full, the dearest first, and those of which there were signals."""
    full: list[tuple[float, str]] = []
    believed = doubted = full_hosts = 0
    for bucket in reading.hosts.buckets:
        for batch in reading.hosts.scan(bucket):
            told = told_codes(batch["right"], batch["wrong"], batch["changes"]) > 0
            believed += int(told.sum())
            doubted += int((~told & (batch["right"] + batch["wrong"] > 0)).sum())
            rows = np.flatnonzero((batch["price"] > price) & (price > 0))
            full_hosts += len(rows)
            named = [(float(batch["price"][row]) / price, names.get(int(batch["key"][row]), OTHERS)) for row in rows]
            full = sorted([*full, *named], reverse=True)[:top]
    return {
        "hosts_full": full_hosts, "full": [{"host": name, "times_the_price": times} for times, name in full],
        "hosts_believed": believed, "hosts_doubted": doubted,
    }  # fmt: skip


def _told(sums: Any) -> dict[str, Any]:
    pages, weight, fresh, days = sums.tolist()
    fresh_share, age_days = (fresh / weight, days / pages) if pages else (None, None)
    return {"pages": int(pages), "fresh_share": fresh_share, "mean_days_since_visit": age_days}


def lines(told: dict[str, Any]) -> Iterator[str]:
    """The same in words."""
    if not told["pages"]:
        yield "no page rests between two visits (revisit.enabled)"
        return
    changes = words.parts(told["visits_by_change"])
    yield f"{words.plural(told['pages'], 'page')} between two visits; {_in_words(told)}"
    yield f"visits: {changes or 'none yet'}"
    for host in told["hosts"]:
        yield f"  {host['host']}: {words.plural(host['pages'], 'page')}; {_in_words(host)}"
    if told["capacity"]:
        parts = (
            f"{one['fresh_share']:.0%} with {words.plural(round(one['visits_a_day']), 'visit')} a day"
            f"{' (as now)' if price == 1 else ''}"
            for price, one in zip(PRICES, told["capacity"], strict=True)
        )
        yield f"copies that are right in the long run: {', '.join(parts)}"
    if told["hubs"]:
        yield "hubs, by new links a day"
        yield from (words.printable(f"  {hub['new_links_a_day']:.1f} {hub['url']}") for hub in told["hubs"])
    if told["hosts_full"]:
        yield f"hosts that take fewer visits than their pages are worth: {words.count(told['hosts_full'])}"
        yield from (f"  {one['host']}: a visit is worth {one['times_the_price']:.1f} prices" for one in told["full"])
    if told["hosts_believed"] or told["hosts_doubted"]:
        signals = told["signals"]
        yield (
            f"signals of sitemaps and feeds: {words.count(signals['signals'])}, "
            f"{words.plural(signals['visits_called'], 'visit')} due to them; "
            f"{words.plural(told['hosts_believed'], 'host')} believed, {words.count(told['hosts_doubted'])} not (yet)"
        )


def _in_words(told: dict[str, Any]) -> str:
    since = words.duration(told["mean_days_since_visit"] * DAY_S)
    return f"about {told['fresh_share']:.0%} of the copies are right, by weight; visited {since} ago on average"
