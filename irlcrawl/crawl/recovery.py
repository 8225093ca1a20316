"""Recovering what a worker left: complete harvests nobody named yet, and archived units no harvest covers.

The same on every open and whenever a worker dies: the torn tail of its archive is cut, its complete harvests are taken
in order, and the units behind the last of them are read again and give the harvest that was lost.
The worker must be gone. Running it again gives the same files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from drum import Batch

import numpy as np

from irlcrawl.base.job_files import SEEDS_STREAM
from irlcrawl.base.keys import host_key, is_host, name_key, origin_of
from irlcrawl.base.reasons import PASSING, Class, Reason
from irlcrawl.base.rows import FACT, Robots
from irlcrawl.base.url import SiteOf, host_of
from irlcrawl.config.keys import Config
from irlcrawl.config.rests import rests_of_hosts
from irlcrawl.frontier.dispatch.visits import Ending
from irlcrawl.frontier.politeness.politeness import Outcome, Politeness
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.frontier.state.hosts import OP_STATE, RESTS_FOR, HostRecord, records_of, redated, state_batch
from irlcrawl.worker.archive.crawl_log import parse
from irlcrawl.worker.harvest.context import Context
from irlcrawl.worker.harvest.redone import complete, redone

_UNANSWERED = frozenset(reason.name.lower() for reason in PASSING)
"""As the log names them; of what broke off half-way it does not say that some answer came."""

NEW_STREAM: Mapping[str, Any] = {"next": 0, "warc": [0, 0]}
"""The catalogue's entry of a stream that has handed over nothing yet."""

THROTTLED = Reason.THROTTLED.name.lower()


@dataclass
class Recovered:
    """The files and units found of one stream."""

    harvests: list[str]  # files in order, complete and without a name
    units: int = 0  # of them, read again from the archive
    bytes_cut: int = 0
    endings: dict[int, Ending] = field(default_factory=dict)  # of a worker that died alone


def recover_stream(state: CrawlState, config: Config, stream: int) -> Recovered:
    """Everything of a dead stream that is not in the catalogue, as harvest files. OSError, Damaged."""
    known = state.streams.get(stream, NEW_STREAM)  # begun during a turn, it is noted after that
    number, position = known["next"], (known["warc"][0], known["warc"][1])
    names, position = complete(state.files, state.job, stream, number, position)
    if stream == SEEDS_STREAM or known.get("node"):  # a node reads again what lies there, before its stream ends
        return Recovered(names)
    context = Context(config, state.seed, state.scope, again=True)
    more, units, cut = redone(state.files, state.job, stream, number + len(names), position, context, state.clock)
    return Recovered(names + more, units, cut)


def recover_worker(state: CrawlState, config: Config, stream: int) -> Recovered:
    """`recover_stream` of a worker that died alone, and how the visits ended of which it could not tell. In one step: a
    turn in between might fold, and delete, what is read here."""
    found = recover_stream(state, config, stream)
    found.endings = _endings(state, found.harvests)
    return found


def _endings(state: CrawlState, harvests: list[str]) -> dict[int, Ending]:
    """By host, how the last visit in recovered harvests ended: told or not, only who leased it knows."""
    due = {host_key(origin_of(url), site): due for name in harvests for url, site, due in _throttled(state, name)}
    delays: dict[int, float] = {}
    for name in harvests:
        for batch in state.pool.section(name, "facts").scan(["host", "robots", "crawl_delay"]):
            read = batch.filter(batch["robots"] == Robots.RULES)
            delays.update(zip(read["host"].tolist(), read["crawl_delay"].tolist(), strict=True))
    found: dict[int, Ending] = {}
    for host, (_, _, ended, fetch_s, reason) in _last_exchanges(state, harvests).items():
        throttled = reason == THROTTLED
        outcome: Outcome = "throttled" if throttled else "failed" if reason in _UNANSWERED else "ok"
        found[host] = Ending(ended, fetch_s, outcome, due.get(host) if throttled else None, delays.get(host))
    return found


def learn(state: CrawlState, politeness: Politeness, harvests: list[str]) -> Batch | None:
    """What recovered harvests say about hosts, which the workers' own reports would have said: STATE rows for the hosts
    drum (None when there are none), and for the clocks the end and duration of the last exchange, its back-off,
    Crawl-delay and Retry-After. A failure counts only if it came later than what the last commit had learnt of them."""
    facts: dict[int, list[tuple[float, ...]]] = {}
    for name in harvests:
        since = state.set_since(name)
        for batch in state.pool.section(name, "facts").scan():
            dated = batch.with_(at=batch["at"] + since, robots_until=batch["robots_until"] + since)
            for row in zip(*(dated[column].tolist() for column in FACT), strict=True):
                facts.setdefault(row[0], []).append(row)
        _throttles(state, politeness, name)
    asked = _last_exchanges(state, harvests)
    if not asked:
        return None
    records = known_records(state, list({*facts, *asked}))
    learnt = float(state.catalog.get("learnt", 0.0)) + state.clock_set
    rests = rests_of_hosts(state.config.politeness)
    for host, rows in facts.items():
        for _, at, robots, until, log, offset, length, crawl_delay, failed in sorted(rows, key=lambda row: row[1]):
            record = records[host]
            if not failed:
                record.answered(at)
            elif at > learnt:
                record.failed(at, rests, _failure(asked.get(host)))
            if robots != Robots.UNKNOWN and not (failed and robots == Robots.DENY):
                pointer = (int(log), int(offset), int(length)) if length else None
                record.learn_robots(int(robots), until, pointer, crawl_delay)
    keys = state.config.politeness
    site_of = SiteOf(state.config.scope.private_suffixes) if keys.gap_site_seconds > 0 or keys.unit == "site" else None
    for host, (name, address, ended, fetch_s, reason) in asked.items():
        politeness.observe(
            clock_host=name_key(name.encode("ascii")), address=address,
            site=0 if site_of is None else name_key(site_of(name).encode("ascii")), ended=ended, fetch_s=fetch_s,
            outcome="failed" if reason in _UNANSWERED and ended > learnt else "unreached",
            crawl_delay=records[host].crawl_delay,
        )  # fmt: skip
    return state_batch((host, records[host]) for host in facts) if facts else None


def _failure(last: tuple[str, str | None, float, float, str] | None) -> Reason:
    """Why a host rests of which a harvest says that it failed, by its last request."""
    return next((reason for reason in RESTS_FOR if last and reason.name.lower() == last[4]), Reason.LOST)


def _last_exchanges(state: CrawlState, harvests: list[str]) -> dict[int, tuple[str, str | None, float, float, str]]:
    """Host -> its name, the address asked, end, duration and reason of its last request. Those made elsewhere for its
    robots.txt do not count: the clocks' log names them."""
    found: dict[int, tuple[str, str | None, float, float, str]] = {}
    for name in harvests:
        since = state.set_since(name)
        for batch in state.pool.section(name, "outcomes").scan(["host", "line"]):
            # A Python loop per unit of the archive's tail: its log line is what tells when it was asked.
            for host, line in zip(batch["host"].tolist(), batch["line"].tolist(), strict=True):
                entry = parse(line)
                if entry.start_ms is None or not is_host(host, origin_of(entry.url)):
                    continue
                ended = (entry.start_ms + entry.duration_ms) / 1000 + since
                if host not in found or ended > found[host][2]:
                    address = entry.notes.get("address")
                    found[host] = (host_of(entry.url), address, ended, entry.duration_ms / 1000, entry.reason)
    return found


def _throttled(state: CrawlState, harvest: str) -> Iterator[tuple[bytes, int, float]]:
    """(URL, site, when it is due) of 429 and 503 with their Retry-After: the row put off says until when its host is
    closed."""
    throttled = [
        batch["key"][(batch["reason"] == Reason.THROTTLED) & (batch["cls"] == Class.RETRY)]
        for batch in state.pool.section(harvest, "outcomes").scan(["key", "reason", "cls"])
    ]
    keys = np.concatenate(throttled) if throttled else np.empty(0, np.uint64)
    if not len(keys):
        return
    since = state.set_since(harvest)
    for batch in state.pool.section(harvest, "retries").scan():
        rows = batch.filter(np.isin(batch["key"], keys))
        due = rows["due"] + since
        yield from zip(rows["url"].tolist(), rows["site"].tolist(), due.tolist(), strict=True)


def _throttles(state: CrawlState, politeness: Politeness, harvest: str) -> None:
    now = state.clock.now()
    for url, site, due in _throttled(state, harvest):
        politeness.observe(
            clock_host=name_key(host_of(url).encode("ascii")), address=None, site=site, ended=now, outcome="throttled",
            retry_after=max(0.0, due - now),
        )  # fmt: skip


def known_records(state: CrawlState, hosts: list[int]) -> dict[int, HostRecord]:
    """The records of hosts by key, from the drum and what waits before it; a new one where neither has one."""
    keys = np.array(hosts, np.uint64)
    found, values = state.hosts.lookup(keys)
    records = records_of(redated(values, state.clock_set))
    known = {host: record if there else HostRecord() for host, record, there in zip(hosts, records, found, strict=True)}
    for batch in state.hosts.waiting(OP_STATE):
        wanted = batch.filter(np.isin(batch["key"], keys))
        known.update(zip(wanted["key"].tolist(), records_of(redated(wanted, state.clock_set)), strict=True))
    return known
