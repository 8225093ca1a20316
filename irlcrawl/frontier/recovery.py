"""What a worker left behind: complete harvests nobody named yet, and archived units no harvest covers.

The same on every open and whenever a worker dies: the torn tail of its archive is cut, its complete harvests are taken
in order, and the units behind the last of them are read again and give the harvest that was lost (DESIGN section 4).
The worker must be gone. Running it again gives the same files.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drum import Batch
from irlcrawl.archive import redo
from irlcrawl.config import Config
from irlcrawl.frontier.hosts import HostRecord, records_of, state_batch
from irlcrawl.frontier.politeness import Politeness
from irlcrawl.frontier.state import SEEDS_STREAM, State
from irlcrawl.harvest import HarvestBuilder, harvest_name
from irlcrawl.page.process import Context, process
from irlcrawl.rows import FACT, Class, Reason, Robots, name_key
from irlcrawl.url import host_of


@dataclass
class Recovered:
    """What was found of one stream."""

    harvests: list[str]  # files in order, complete and without a name
    units: int = 0  # of them, read again from the archive
    bytes_cut: int = 0


def recover_stream(state: State, config: Config, stream: int) -> Recovered:
    """Everything of a dead stream that is not in the catalogue, as harvest files. OSError, Damaged."""
    known = state.streams[stream]
    number, position = known["next"], (known["warc"][0], known["warc"][1])
    found = Recovered([])
    while state.files.exists(f"{state.dir}/{harvest_name(stream, number)}"):
        name = harvest_name(stream, number)
        serial, offset = state.pool.section(name, "outcomes").meta["warc"]
        position = (serial, offset)
        found.harvests.append(name)
        number += 1
    if stream == SEEDS_STREAM:
        return found
    warcs = str(state.job.warcs)
    found.bytes_cut = redo.recover(state.files, warcs, stream, position)
    builder = HarvestBuilder(state.files, state.dir, stream, state.clock, first_number=number)
    context = Context(config, state.seed, state.scope)
    for unit, exchange, location in redo.units(state.files, warcs, stream, position):
        builder.add(process(unit, exchange, location, context))
        position = location.position
        found.units += 1
        if builder.nbytes >= config.frontier.harvest_bytes:
            found.harvests.append(builder.write(position) or "")
    last = builder.write(position)
    builder.rules_log.close()
    found.harvests = [name for name in [*found.harvests, last] if name]
    return found


def learn(state: State, politeness: Politeness, harvests: list[str]) -> Batch | None:
    """What recovered harvests say about hosts, which the workers' own reports would have said: STATE rows for the hosts
    drum, and Retry-After for the clocks. None when there is nothing."""
    facts: dict[int, list[tuple[float, ...]]] = {}
    for name in harvests:
        for batch in state.pool.section(name, "facts").scan():
            for row in zip(*(batch[column].tolist() for column in FACT), strict=True):
                facts.setdefault(row[0], []).append(row)
        _throttles(state, politeness, name)
    if not facts:
        return None
    records = known_records(state, list(facts))
    for host, rows in facts.items():
        for _, at, robots, until, log, offset, length, crawl_delay, failed in sorted(rows, key=lambda row: row[1]):
            record = records[host]
            if failed:
                record.failed(at)
            else:
                record.answered(at)
            if robots != Robots.UNKNOWN and not (failed and robots == Robots.DENY):
                pointer = (int(log), int(offset), int(length)) if length else None
                record.learn_robots(int(robots), until, pointer, crawl_delay)
    return state_batch(records.items())


def _throttles(state: State, politeness: Politeness, harvest: str) -> None:
    """429 and 503 with their Retry-After: the row put off says until when its host is closed."""
    throttled = [
        batch["key"][(batch["reason"] == Reason.THROTTLED) & (batch["cls"] == Class.RETRY)]
        for batch in state.pool.section(harvest, "outcomes").scan(["key", "reason", "cls"])
    ]
    keys = np.concatenate(throttled) if throttled else np.empty(0, np.uint64)
    if not len(keys):
        return
    now = state.clock.now()
    for batch in state.pool.section(harvest, "retries").scan():
        rows = batch.filter(np.isin(batch["key"], keys))
        for url, site, due in zip(rows["url"].tolist(), rows["site"].tolist(), rows["due"].tolist(), strict=True):
            name = host_of(url).encode("ascii")
            politeness.observe(
                clock_host=name_key(name), address=None, site=site, ended=now, outcome="throttled",
                retry_after=max(0.0, due - now),
            )  # fmt: skip


def known_records(state: State, hosts: list[int]) -> dict[int, HostRecord]:
    """The records of hosts by key, from the drum; a new one where it has none."""
    keys = np.array(hosts, np.uint64)
    found, values = state.hosts.lookup(keys)
    records = records_of(values)
    return {host: record if known else HostRecord() for host, record, known in zip(hosts, records, found, strict=True)}
