"""How much of what politeness allows was used, judged by the server's clock alone.

Definition. In a window of W seconds a host could have been asked, at best,

    W / mean(took + max(floor, factor x took))

times, the mean over its exchanges that ended in the window; `took` is how long one lasted as nginx saw it: from the
accepted connection (the TLS handshake is part of the exchange) or, on a connection that was there, from the first byte
of the request, to the last byte of the answer. A host without any exchange counts with took = 0: W / floor. The hosts
of one address together could have been asked at most W / (address gap + mean(took)) times. The sum over all addresses
is what was achievable, whatever order the crawler chose; *utilisation* is the number of exchanges that ended in the
window over that. It can exceed 1 by the edges of the window alone. What the crawler adds to an exchange on its own side
(waiting before it connects, reading slowly after the last byte has left) is not in `took`, and so counts against it, as
does a host it has no URL for.

Lease waits come from the crawl log, for the server cannot know when a crawler decided: per request, the milliseconds
from the moment the clocks of its host and of its address were due to the start of its exchange.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from irlcrawl.base.url import split
from irlcrawl.worker.archive.crawl_log import LogEntry
from tools.docsweb.audit import Request


@dataclass(frozen=True)
class Gaps:
    """The crawl's promises, in seconds."""

    host_floor: float
    host_factor: float
    address: float

    def after(self, took: float) -> float:
        """Of a host after an exchange that lasted so long."""
        return max(self.host_floor, self.host_factor * took)


class Used(NamedTuple):
    achieved: int
    achievable: float

    @property
    def utilisation(self) -> float:
        return self.achieved / self.achievable if self.achievable else 0.0


def took(request: Request) -> float:
    """Seconds, as the server saw it."""
    return request.connection_s if request.new_connection else request.end - request.start


def used(requests: Iterable[Request], hosts: Mapping[str, str], since: float, until: float, gaps: Gaps) -> Used:
    """hosts: name -> address of every host there is to crawl; since, until: unix seconds."""
    window = until - since
    durations: dict[str, list[float]] = {host: [] for host in hosts}
    for request in requests:
        if request.host in durations and since <= request.end < until:
            durations[request.host].append(took(request))
    by_address: dict[str, list[str]] = defaultdict(list)
    for host, address in hosts.items():
        by_address[address].append(host)
    achieved, achievable = 0, 0.0
    for names in by_address.values():
        best = sum(window / _mean([t + gaps.after(t) for t in durations[host]], gaps.after(0.0)) for host in names)
        every = [t for host in names for t in durations[host]]
        shared = gaps.address + _mean(every, 0.0)
        achievable += min(best, window / shared) if shared else best
        achieved += len(every)
    return Used(achieved, achievable)


def lease_waits_ms(entries: Iterable[LogEntry], hosts: Mapping[str, str], since: float, gaps: Gaps) -> list[float]:
    """Of every exchange that began at `since` or later and was not the first of its host."""
    asked = [e for e in entries if e.start_ms is not None]
    asked.sort(key=lambda e: e.start_ms or 0)
    due_host: dict[str, float] = {}
    due_address: dict[str, float] = {}
    waits = []
    for entry in asked:
        assert entry.start_ms is not None
        host = split(entry.url)[1]
        address = hosts.get(host, host)
        if host in due_host and entry.start_ms >= since * 1000:
            waits.append(max(0.0, entry.start_ms - max(due_host[host], due_address[address])))
        end = entry.start_ms + entry.duration_ms
        due_host[host] = end + 1000 * gaps.after(entry.duration_ms / 1000)
        due_address[address] = end + 1000 * gaps.address
    return waits


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all do not exceed; 0 of none."""
    ordered = sorted(values)
    return ordered[max(0, min(len(ordered) - 1, int(share * len(ordered) + 0.999999) - 1))] if ordered else 0.0


def _mean(values: Sequence[float], of_none: float) -> float:
    return sum(values) / len(values) if values else of_none
