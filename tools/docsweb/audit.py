"""What an access log proves: which URLs were requested, whether any twice or in spite of robots.txt, how close
together.

A log line is a JSON object as docsweb's nginx and the demo's server write it: `end` (unix seconds), `seconds`
(duration), `host`, `port`, `address`, `status`, `method`, `uri` (as on the request line); nginx also tells of the
connection (its age, how many requests it has carried, whether its TLS session was resumed). The server's clock is the
honest one: it sees a request start no earlier, and its answer end no later, than the crawler does, so a gap that the
crawler keeps is never shorter here, up to the log's resolution.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from math import inf
from pathlib import Path
from typing import Any, Literal

RESOLUTION_S = 0.002
"""Both ends of a gap are rounded to a millisecond by nginx."""

_COPIED = ("host", "port", "address", "status", "method", "uri")

NOBODY = ("_", 400)
"""Host and status of a request that nginx could not parse: it never got to the Host header."""

NAMED_MAX = 20
"""Examples that a report names of each fault."""


@dataclass(frozen=True)
class Request:
    start: float
    end: float
    scheme: str
    host: str
    port: int
    address: str
    status: int
    method: str
    uri: str
    connection_s: float = 0.0  # since the connection was accepted, until `end`
    new_connection: bool = False
    resumed: bool = False

    @property
    def url(self) -> str:
        default = 443 if self.scheme == "https" else 80
        return f"{self.scheme}://{self.host}{'' if self.port == default else f':{self.port}'}{self.uri}"


def read(path: Path) -> list[Request]:
    """All exchanges of a log, in the order of their ends."""
    found = []
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            start, scheme = row["end"] - row["seconds"], row.get("scheme", "http")
            fields = {name: row[name] for name in _COPIED}
            fields |= {
                "connection_s": row.get("connection_s", 0.0),
                "new_connection": row.get("connection_request") == 1,
                "resumed": row.get("resumed") == "r",
            }
            found.append(Request(start, row["end"], scheme, **fields))
    return found


def report(requests: Iterable[Request], expected: set[str], disallowed: set[str]) -> dict[str, Any]:
    """Compares what was requested (robots.txt aside) with what had to be; each fault is a list of examples."""
    pages = Counter(r.url for r in requests if r.uri != "/robots.txt" and (r.host, r.status) != NOBODY)
    missing = expected - pages.keys()
    forbidden = disallowed & pages.keys()
    return {
        "expected": len(expected),
        "requests": pages.total(),
        "recall": 1 - len(missing) / len(expected) if expected else 1.0,
        "missing": sorted(missing)[:NAMED_MAX],
        "unexpected": sorted(pages.keys() - expected - forbidden)[:NAMED_MAX],
        "disallowed": sorted(forbidden)[:NAMED_MAX],
        "repeated": sorted(url for url, times in pages.items() if times > 1)[:NAMED_MAX],
    }


Clock = Literal["host", "address"]


def gaps(requests: Iterable[Request], clock: Clock) -> Iterator[tuple[float, Request, Request]]:
    """Seconds from the end of each exchange to the start of the next one on the same host or address, with both."""
    key: Callable[[Request], str] = (lambda r: r.host) if clock == "host" else (lambda r: r.address)
    for _, group in groupby(sorted(requests, key=lambda r: (key(r), r.start)), key=key):
        latest: Request | None = None
        for request in group:
            if latest is not None:
                yield request.start - latest.end, latest, request
            if latest is None or request.end > latest.end:
                latest = request


def closest(requests: Iterable[Request], clock: Clock) -> float:
    """The shortest gap in seconds, corrected for the log's resolution; infinite when no two requests share a clock."""
    return min((gap + RESOLUTION_S for gap, _, _ in gaps(requests, clock)), default=inf)


def idle_share(requests: Iterable[Request], gap_s: float, since: float, until: float) -> dict[str, float]:
    """Per address, the part of the time from `since` to `until` in which it could have had a request and had none."""
    spans: dict[str, list[tuple[float, float]]] = {}
    for r in requests:
        spans.setdefault(r.address, []).append((r.start, r.end + gap_s))
    shares = {}
    for address, used in spans.items():
        busy = sum(max(0.0, min(end, until) - max(start, since)) for start, end in used)
        shares[address] = max(0.0, 1 - busy / (until - since))
    return shares
