"""What is in memory of a host, of a visit that is out, and of URLs on their way out of the runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from drum import Batch

from irlcrawl.frontier.politeness.columns import NONE
from irlcrawl.frontier.politeness.politeness import HostEntry, Outcome
from irlcrawl.frontier.state.hosts import HostRecord
from irlcrawl.frontier.state.runs import Run
from irlcrawl.worker.fetch.lease import Lease, leased_urls
from irlcrawl.worker.fetch.wire import Message

LATEST_START_S = 30.0
"""A visit starts no request later than this after its lease."""
PACED_START_S = 1.0
"""The request of a visit under a paced clock starts no later than this after its lease, or not at all: in any time T a
shared address has at most 1 + (T + PACED_START_S) / gap requests."""


class Host(HostEntry):
    """A host in memory. `place`: its row in Loads, while it has one."""

    __slots__ = ("place", "record", "runs", "worker")

    def __init__(self, *, record: HostRecord, **known: Any) -> None:
        super().__init__(**known)
        self.record = record
        self.runs: list[Run] = []  # nearly always one: an empty deque has 600 bytes
        self.place = NONE
        self.worker = -1  # stream of the worker that had its last visit


@dataclass(slots=True)
class LeasedVisit:
    """A lease that is out since `leased` (unix seconds): rows [run.at, run.at + rows) of the host's first run."""

    number: int
    host: Host
    run: Run
    rows: int
    leased: float
    charged: float = 0.0  # bytes it is expected to bring (bandwidth.py)
    not_before: float = 0.0  # the next one of its host comes no sooner: what a detour needs is not due (unix seconds)


class Ending(NamedTuple):
    """What is known of the end of a visit whose worker died before it told."""

    ended: float = 0.0  # of its last exchange, unix seconds
    fetch_s: float = 0.0
    outcome: Outcome = "ok"
    due: float | None = None  # until when the server closed the host, unix seconds
    crawl_delay: float | None = None  # as learnt in it


def visit_message(
    visit: LeasedVisit, batch: Batch, now: float, gap: float, patience: float, paces: dict[str, float],
    scope_version: int, not_after: float,
) -> Message:  # fmt: skip
    """The lease as it goes to the worker; `batch` holds the visit's LINK rows."""
    host, record = visit.host, visit.host.record
    assert host.address is not None, "only hosts with an address are leased"
    rules = [record.rules_log, record.rules_offset, record.rules_length] if record.rules_length else None
    robots = {
        "state": int(record.robots_at(now)),
        "until": record.robots_until,
        "rules": rules,
        "crawl_delay": record.crawl_delay,
    }
    return Lease(
        visit=visit.number,
        host=host.name,
        scheme=host.scheme,
        port=host.port,
        address=host.address,
        host_key=host.key,
        gap=gap,
        patience=patience,
        robots=robots,
        scope=scope_version,
        failures=record.failures,
        denials=record.denials,
        urls=leased_urls(visit.run.segment, visit.run.at, batch),
        not_after=not_after,
        paces=paces or None,
        begin_by=now + PACED_START_S if paces else None,
        bytes_charged=visit.charged or None,
    ).message()
