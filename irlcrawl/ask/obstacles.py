"""What holds up URLs that wait: the rest after a failure, or an address that is asked more seldom than others.

For `urls --status queued --with rest` and `--with throttled`. `irlcrawl status` counts both, by hosts and by addresses.
Every waiting URL is read once, in constant memory, and of each batch the records of its hosts are looked up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator

from drum import Batch, Files

import numpy as np

from irlcrawl.base.job import JobDir
from irlcrawl.base.keys import name_key
from irlcrawl.frontier.politeness.clocks import ClockTable, Kind
from irlcrawl.frontier.politeness.columns import NONE
from irlcrawl.frontier.state.hosts import STANDINGS, STATE, records_of, redated, standings
from irlcrawl.frontier.state.view import PLACES, Reading
from irlcrawl.worker.archive.log_parts import is_within

WHYS = (*STANDINGS, "itself", "host_before")
"""Why a URL rests: what is held against its host, for most by the reason; its own last answer; or its host failed, and
answered since."""

EVER = float("-inf")
"""The last address of a host counts, though it may have to be looked up again before it is used."""

Told = Callable[[Batch], list[str]]
"""Of LINK rows that wait: what holds up each; empty: nothing of this kind."""


def held_up(job: JobDir, by: str, now: float, files: Files | None = None) -> Iterator[tuple[bytes, str, str]]:
    """(url, place, what holds it up) of every URL that waits and is held up by one of OBSTACLES. files: to read the
    state with. Damaged, OSError."""
    reading = Reading.open(job, files)
    if reading is None or not reading.begun:
        return
    places, teller = OBSTACLES[by]
    told_of = teller(reading, now)
    for place, batch in reading.waiting():
        if place in places:
            for url, told in zip(batch["url"].tolist(), told_of(batch), strict=True):
                if told:
                    yield url, place, told


def resting_like(
    job: JobDir, hosts: Collection[bytes], reasons: Collection[str], files: Files | None = None
) -> tuple[int, float]:
    """(how many URLs rest, when the first of them is asked again in unix seconds) of some hosts, a name standing for
    all names below it, and for some reasons; of all where there are none. A Python loop per URL. Damaged, OSError."""
    reading = Reading.open(job, files)
    urls, first = 0, float("inf")
    if reading is None or not reading.begun:
        return urls, first
    for _, rows in reading.waiting(("resting",)):
        told = _rests(reading, 0.0)(rows)
        for url, why, due in zip(rows["url"].tolist(), told, rows["due"].tolist(), strict=True):
            if hosts and not any(is_within(url, host) for host in hosts):
                continue
            if not reasons or why.partition(" ")[0] in reasons:
                urls, first = urls + 1, min(first, due)
    return urls, first


def _rests(reading: Reading, now: float) -> Told:
    """Why a URL rests, and until when."""

    def told(rows: Batch) -> list[str]:
        states, of = _hosts(reading, rows)
        standing = standings(states)[of]
        by_itself = np.where(rows["attempt"] > 0, len(WHYS) - 2, len(WHYS) - 1)
        whys = np.where(standing > 0, standing - 1, by_itself).tolist()
        return [f"{WHYS[why]} until {_date(due)}" for why, due in zip(whys, rows["due"].tolist(), strict=True)]

    return told


def _throttled(reading: Reading, now: float) -> Told:
    """The address of a URL's host, and how seldom that is asked."""
    table = reading.clocks(now).table

    def told(rows: Batch) -> list[str]:
        states, of = _hosts(reading, rows)
        by_host = [_gap(table, record.address_at(EVER)) for record in records_of(states)]
        return [by_host[host] for host in of.tolist()]

    return told


OBSTACLES = {
    "rest": (("resting",), _rests),
    "throttled": (tuple(place for place in PLACES if place != "visited"), _throttled),
}
"""What may hold URLs up: the places in which they wait then, and what tells of each."""


def _hosts(reading: Reading, rows: Batch) -> tuple[Batch, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """(STATE of the distinct hosts of these rows, i8[rows]: which of them is a row's). Zeros of an unknown host."""
    hosts, of = np.unique(rows["host"], return_inverse=True)
    _, values = reading.hosts.lookup(hosts)
    return redated(values.select(STATE), reading.clock_set), of


def _gap(table: ClockTable, address: str | None) -> str:
    """Whether and how an address is throttled."""
    clock = table.find(Kind.ADDRESS, name_key(address.encode())) if address is not None else NONE
    if clock == NONE or not (table.limit[clock] or table.backoff[clock]):
        return ""
    if table.backoff[clock]:
        return f"{address} every {table.backoff[clock]:.1f} s after failures"
    return f"{address} {1 / table.gap[clock]:.2f} a second, limit {table.limit[clock]:.2f}"


def _date(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
