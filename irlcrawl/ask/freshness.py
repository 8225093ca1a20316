"""`irlcrawl report JOB --freshness`: how fresh the copies of pages are by what is believed, and what visits found.

One forward pass over the pages between two visits; nothing is asked of any server. Memory is bounded: hosts beyond
HOSTS_MAX are summed up together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from irlcrawl.base.job import JobDir
from irlcrawl.base.keys import origin_of
from irlcrawl.frontier.state.view import Reading
from irlcrawl.revisit.price import survival
from irlcrawl.revisit.visited import beliefs, weights
from irlcrawl.revisit.weight import DAY_S, Rules
from irlcrawl.terminal import words

HOSTS_MAX = 100_000
OTHERS = "all other hosts"


def freshness(job: JobDir, top: int, now: float) -> dict[str, Any]:
    """Expected share of copies that are right, weighted by page, and their mean age, of all and of the `top` hosts with
    most weight. Damaged, OSError."""
    reading = Reading.open(job)
    if reading is None or not reading.begun:
        return {"pages": 0, "hosts": []}
    rules, counters = Rules(reading.config), reading.catalog.get("counters", {})
    sums = np.zeros(4)
    hosts: dict[str, Any] = {}
    for batch in reading.pages.scan():
        weight = weights(batch, rules.of(batch["url"]))
        days = np.maximum(now - batch["visited"], 0.0) / DAY_S
        rows = np.stack([np.ones(batch.rows), weight, weight * survival(beliefs(batch), days), days], axis=1)
        sums += rows.sum(axis=0)
        keys, first, which = np.unique(batch["host"], return_index=True, return_inverse=True)
        told = np.zeros((len(keys), 4))
        np.add.at(told, which, rows)
        for url, row in zip(batch["url"].take(first).tolist(), told, strict=True):  # a loop per host of a block
            name = origin_of(url).decode()
            if name not in hosts and len(hosts) >= HOSTS_MAX:
                name = OTHERS
            hosts[name] = hosts.get(name, 0.0) + row
    best = sorted(hosts.items(), key=lambda host: (-host[1][1], host[0]))[:top]
    return {
        **_told(sums),
        "price": reading.catalog.get("price"),
        "visits_by_change": dict(counters.get("visits_by_change", {})),
        "hosts": [{"host": name, **_told(row)} for name, row in best],
    }


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


def _in_words(told: dict[str, Any]) -> str:
    since = words.duration(told["mean_days_since_visit"] * DAY_S)
    return f"about {told['fresh_share']:.0%} of the copies are right, by weight; visited {since} ago on average"
